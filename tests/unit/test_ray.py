"""The backend `ray:` without a cluster: what travels, what fits where, and what is refused."""

import importlib.util
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from msgspec import structs

from medvqa import configs
from medvqa.backend import Backend, ModelFacts, loaded
from medvqa.backends import pytest_medvqa_backends
from medvqa.backends.baselines import Echo, Majority, Random
from medvqa.backends.hf import HF
from medvqa.backends.openai import OpenAI
from medvqa.backends.ray import Ray, RayOptions, cluster, parcels
from medvqa.backends.ray.actor import BEGUN, UNLOADED, ActorPlace, CopyProblem, ModelActor, difference
from medvqa.configs import ModelConfig
from medvqa.image import TextCell
from medvqa.items import Answer, AnswerError, DataError, Image, Item, Prompt, Shot, UsageError
from support import clusters
from support.scans import dicom

SHIPPED = {kind.name: kind for kind in pytest_medvqa_backends()}


def refusal(call: Any) -> str:
    with pytest.raises(UsageError) as raised:
        call()
    return str(raised.value)


# --- images -----------------------------------------------------------------------------------------------


def travelled(image: Image) -> Image:
    """The image in another process, which does not see its file."""
    (prompt,) = parcels.packed([Prompt("?", images=(image,))], looks=True)
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(prompt, protocol=5, buffer_callback=buffers.append)
    received: Prompt = pickle.loads(content, buffers=[memoryview(bytes(buffer)) for buffer in buffers])
    return received.images[0]


def test_an_image_travels_with_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    PIL.Image.new("RGB", (3, 2), (9, 8, 7)).save(path)
    image = Image("a.png", str(path)).pinned()
    content = path.read_bytes()
    sent = travelled(image)
    outside: list[pickle.PickleBuffer] = []
    pickle.dumps(parcels.packed([Prompt("?", images=(image,))], looks=True), protocol=5, buffer_callback=outside.append)
    assert list(map(bytes, outside)) == [content], "they are copied once, into the object store"
    path.unlink()
    assert (sent.read(), sent.key, sent.name, sent.path) == (content, image.key, "a.png", "")
    assert sent.pil().getpixel((0, 0)) == (9, 8, 7)
    assert sent.pinned() is sent


def test_a_part_of_a_file_and_base64_travel_decoded(tmp_path: Path) -> None:
    import base64
    import io

    buffer = io.BytesIO()
    PIL.Image.new("L", (2, 2), 77).save(buffer, "PNG")
    path = tmp_path / "table.tsv"
    path.write_bytes(b"head\t" + base64.b64encode(buffer.getvalue()) + b"\n")
    image = Image("table.tsv row 1", str(path), cell=TextCell(5, path.stat().st_size - 6))
    sent = travelled(image)
    assert sent.read() == buffer.getvalue()
    assert sent.pil().getpixel((0, 0)) == (77, 77, 77)


def test_raw_values_travel_with_their_window(tmp_path: Path) -> None:
    path = tmp_path / "raw.png"
    PIL.Image.new("I;16", (2, 2), 1000).save(path)
    image = Image("raw.png", str(path), window=(0, 2000))
    assert travelled(image).pil().getpixel((0, 0)) == image.pil().getpixel((0, 0)) == (128, 128, 128)


def test_a_medical_image_travels_as_the_picture_that_it_shows(tmp_path: Path) -> None:
    path = dicom(tmp_path / "a.dcm", np.arange(16, dtype=np.uint16).reshape(4, 4), PatientName="Geheim^Name")
    image = Image("a.dcm?window=8,16", str(path))
    here, sent = image.pil(), travelled(image)
    path.unlink()
    assert (sent.pil().tobytes(), sent.key) == (here.tobytes(), image.key)
    assert b"Geheim" not in sent.read()


def test_an_image_that_cannot_be_read_raises_its_error_where_a_model_looks(tmp_path: Path) -> None:
    sent = travelled(Image("gone.png", str(tmp_path / "gone.png")))
    for look in (sent.pil, sent.read):
        with pytest.raises(DataError, match=r"^image gone\.png: no such file$"):
            look()


def test_a_file_that_changed_is_noticed_where_a_model_looks(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    PIL.Image.new("RGB", (3, 2)).save(path)
    image = Image("a.png", str(path)).pinned()
    PIL.Image.new("RGB", (2, 3)).save(path)
    with pytest.raises(DataError, match=r"^image a\.png: the file has changed since it was indexed$"):
        travelled(image).pil()


def test_blank_images_and_prompts_of_a_model_that_does_not_look_travel_as_they_are() -> None:
    blank = Image("blank image", digest="blank x", blank=True, size=(2, 2))
    assert travelled(blank) == blank
    prompts = [Prompt("?", images=(Image("a", "/nowhere/a"),))]
    assert parcels.packed(prompts, looks=False) == prompts


def test_images_of_solved_examples_travel_and_shared_ones_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    PIL.Image.new("RGB", (3, 2)).save(path)
    image = Image("a.png", str(path)).pinned()
    first, second = parcels.packed(
        [Prompt("?", images=(image,)), Prompt("?", shots=(Shot("q", "A", (image,)),))], looks=True
    )
    assert second.shots[0].images[0] is first.images[0]


# --- models -----------------------------------------------------------------------------------------------

OWN = """
import medvqa
from helping_ray import word

class OwnModel(medvqa.Backend):
    sends_to = None

    def generate(self, prompts):
        return [medvqa.Answer(word()) for _ in prompts]
"""


def test_a_class_of_the_users_own_file_is_sent_by_value_with_the_modules_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    (tmp_path / "conftest.py").write_text(OWN)
    (tmp_path / "helping_ray.py").write_text("def word():\n    return 'B'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.spec_from_file_location("conftest_of_ray", tmp_path / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "conftest_of_ray", module)
    spec.loader.exec_module(module)
    content = parcels.pickled(parcels.Blueprint.of(module.OwnModel()))
    for name in ("conftest_of_ray", "helping_ray"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(tmp_path)])
    model = pickle.loads(content).make()
    assert [answer.text for answer in model.generate([Prompt("?")])] == ["B"]
    assert isinstance(model, Backend)


def test_shipped_classes_are_sent_by_name() -> None:
    pytest.importorskip("ray")
    content = parcels.pickled(parcels.Blueprint.of(Echo("A")))
    assert b"medvqa.backends.baselines" in content
    assert len(content) < 1000
    assert not parcels.is_own("json", Path(os.__file__).resolve())


def test_variables_with_keys_travel_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "geheim-123")
    monkeypatch.setenv("OTHER", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    found = parcels.environment(["geheim-123", ""])
    assert found.items() >= {"SOME_KEY": "geheim-123", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}.items()
    assert "OTHER" not in found
    model = OpenAI("m", OpenAI.Options(key_env="SOME_KEY"))
    blueprint = parcels.Blueprint.of(model)
    assert blueprint.environment["SOME_KEY"] == "geheim-123"
    assert "geheim" not in repr(blueprint)


def test_a_path_is_absolute_for_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").mkdir()
    monkeypatch.chdir(tmp_path)
    assert parcels.Blueprint.of(HF("weights")).parts[0][1] == str(tmp_path / "weights")
    assert parcels.Blueprint.of(HF("org/name")).parts[0][1] == "org/name"


# --- an actor, in this process ------------------------------------------------------------------------------


class AskedHere(Backend):
    sends_to = None

    def generate(self, prompts: Any) -> list[Any]:
        if self.argument == "fails":
            raise ZeroDivisionError("no")
        if self.argument == "exits":
            raise SystemExit(3)
        if self.argument == "memory":
            raise MemoryError("too large")
        return [Answer("A"), AnswerError("no\nanswer"), 7, Answer(3)]  # type: ignore[arg-type]


CALLS: list[tuple[str, str, int]] = []
"""The calls of `NotesCalls`: method, text of the prompt, thread."""


class NotesCalls(Backend):
    sends_to = None

    def prepare(self, prompts: Any) -> None:
        CALLS.append(("prepare", prompts[0].text, threading.get_ident()))

    def generate(self, prompts: Any) -> list[Any]:
        CALLS.append(("generate", prompts[0].text, threading.get_ident()))
        return [Answer("A") for _ in prompts]


def actor(model: Backend) -> ModelActor:
    content = pickle.dumps(parcels.Blueprint.of(model))
    return ModelActor(content)


def test_an_actor_notes_that_it_begins_and_returns_plain_answers() -> None:
    made = actor(AskedHere())
    assert list(made.answer([])) == [UNLOADED]
    facts = made.load(None)
    assert isinstance(facts, ModelFacts)
    assert (facts.capabilities, facts.fingerprint) == ({"generate"}, None)
    begun, told = made.answer([Prompt("?")] * 4)
    assert begun == BEGUN
    assert isinstance(told, list)
    assert (told[0].text, told[0].seconds is not None) == ("A", True)  # type: ignore[union-attr]
    assert [type(answer) for answer in told[1:]] == [AnswerError] * 3
    assert "int instead of an Answer" in str(told[2])


@pytest.mark.parametrize(
    ("how", "memory", "why"),
    [("fails", False, "ZeroDivisionError: no"), ("exits", False, "3"), ("memory", True, "too large")],
)
def test_an_exception_of_a_model_is_told_in_a_line(how: str, memory: bool, why: str) -> None:
    made = actor(AskedHere(how))
    made.load(None)
    _, told = made.answer([Prompt("?")])
    assert isinstance(told, CopyProblem)
    assert told.memory == memory
    assert why in told.line
    assert "test_ray.py" in told.line


def test_a_model_that_cannot_be_loaded_is_told_in_its_own_words() -> None:
    told = actor(Random("x")).load(None)
    assert told == CopyProblem("--model=random:x: the seed must be a whole number, such as --model=random:7")


def test_a_baseline_is_fitted_once_the_items_are_known() -> None:
    made = actor(Majority())
    made.load(None)
    assert isinstance(made.load([Item("1", "b", "judgment", "?", answers=("yes",))]), ModelFacts)
    _, told = made.answer([Prompt("?", benchmark="b", item="1", kind="judgment")])
    assert [answer.text for answer in told] == ["yes"]  # type: ignore[union-attr]


def test_a_model_is_asked_in_one_thread_and_prepares_the_batch_that_waits() -> None:
    made = actor(NotesCalls())
    made.load(None)
    computed = made.answer([Prompt("1")])
    assert next(computed) == BEGUN
    waiting = [threading.Thread(target=list, args=(made.answer([Prompt(text)]),)) for text in ("2", "3")]
    for number, thread in enumerate(waiting, start=1):
        thread.start()
        clusters.wait_until(lambda number=number: len(made._waiting) == number, "it waits")
    assert isinstance(next(computed), list)
    for thread in waiting:
        thread.join()
    assert [(call, text) for call, text, _ in CALLS] == [
        *(("prepare", "2"), ("generate", "1"), ("prepare", "3"), ("generate", "2"), ("generate", "3")),
    ]
    assert len({thread for _, _, thread in CALLS}) == 1


def test_a_dropped_batch_does_not_hold_the_next_one() -> None:
    made = actor(Echo("A"))
    made.load(None)
    dropped = made.answer([Prompt("?")])
    assert next(dropped) == BEGUN
    dropped.close()  # type: ignore[attr-defined]
    assert [answer.text for answer in list(made.answer([Prompt("?")]))[1]] == ["A"]  # type: ignore[union-attr]


def test_a_copy_that_differs_is_named() -> None:
    first = loaded(Echo("A")).facts
    assert difference(first, first) == ""
    told = difference(first, structs.replace(first, fingerprint="b\n"))
    assert "its fingerprint is b" in told
    assert "\n" not in told
    abler = structs.replace(first, capabilities=frozenset({"generate", "option_logprobs"}))
    assert difference(first, abler) == "it can generate, option_logprobs, and the first copy generate"


# --- resources ----------------------------------------------------------------------------------------------


def test_what_fits_where() -> None:
    node = {"CPU": 8.0, "GPU": 4.0, "memory": 64e9, "node:10.0.0.1": 1.0, "object_store_memory": 9e9}
    assert cluster.demand({}) == {"CPU": 1.0}
    assert cluster.room(node, cluster.demand({})) == 8
    assert cluster.room(node, cluster.demand({"gpus": 1})) == 4
    assert cluster.room(node, cluster.demand({"gpus": 0.1, "cpus": 0})) == 40
    assert cluster.room(node, cluster.demand({"gpus": 8})) == 0
    assert cluster.room(node, cluster.demand({"memory": 40e9})) == 1
    assert cluster.room(node, cluster.demand({"tpu": 1})) == 0
    with pytest.raises(UsageError, match="'gpu' is written gpus"):
        cluster.demand({"gpu": 1})
    assert cluster.actor_options(cluster.demand({"gpus": 2, "tpu": 1})) == {
        "num_cpus": 1.0,
        "num_gpus": 2.0,
        "resources": {"tpu": 1.0},
    }
    named = {"NodeManagerAddress": "10.0.0.1", "Resources": node}
    assert str(cluster.none_fits("qwen", cluster.demand({"gpus": 8}), [named])) == (
        "ray: a copy of 'qwen' fits on no node: it takes CPU 1, GPU 8, and 10.0.0.1 has CPU 8, GPU 4, memory 64.0 GB. "
        "[resources] of its config sets what a copy takes"
    )


def test_resources_of_a_config_reach_the_model_and_the_pool(tmp_path: Path) -> None:
    (tmp_path / "big.toml").write_text('backend = "echo"\nargument = "A"\n[resources]\ngpus = 2\ntpu = 1\n')
    config = configs.resolve("ray:big", folders=[tmp_path], backends=SHIPPED)
    model = configs.make(config, SHIPPED)
    assert model.resources == {"gpus": 2, "tpu": 1}
    assert isinstance(model, Ray)
    assert model._needs() == {"CPU": 1, "GPU": 2, "tpu": 1}
    assert HF("x").resources == {"gpus": 1}
    assert HF("x", HF.Options(device="cpu")).resources == {}
    wrong = ModelConfig("w", "echo", "A", resources={"gpus": 1.5})
    assert refusal(lambda: configs.make(wrong, SHIPPED)).startswith(
        "w: [resources]: model 'echo:A': resources has gpus"
    )


# --- options ------------------------------------------------------------------------------------------------


def test_a_pool_shows_the_model_that_it_wraps() -> None:
    model = Ray("echo:A", inner=Echo("A"))
    assert (model.title, model.sends_to, model.looks, model.concurrency) == ("echo:A", None, False, 2)
    assert (model.batch_size, model.places(), model.status(), model.fingerprint()) == (32, None, {}, None)
    assert Ray("x", RayOptions(address="10.0.0.1:6379"), Echo("A")).sends_to == "ray://10.0.0.1:6379"
    server = OpenAI("m", OpenAI.Options(base_url="http://127.0.0.1:1/v1"))
    assert Ray("openai:m", inner=server).batch_size == 1
    model.concurrency = 1
    assert model.concurrency == 1
    model.close()


def test_a_copy_without_a_place_does_not_count() -> None:
    """A copy whose node was lost waits until another node has room; new nodes may have got copies of their own."""
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'pytest-medvqa[ray]'")
    from medvqa.backends.ray import pool

    copies = pool.RayPool(cluster.Cluster.__new__(cluster.Cluster), Echo("A"), {"CPU": 1.0}, None)
    place = ActorPlace(node="a" * 8, address="10.0.0.1", version="1")
    lost = threading.Condition()
    copies._replicas = [pool._Replica(ray, lost, placed, loaded=True) for placed in (place, None)]

    assert copies.status()["replicas"] == 1
    assert copies.status()["nodes"] == {"10.0.0.1 aaaaaaaa": 1}


@pytest.mark.parametrize("address", ["10.0.0.1", "ray://10.0.0.1:10001", ":6379", "host:", "host:99999", "host:x"])
def test_another_address_is_refused(address: str) -> None:
    pytest.importorskip("ray")
    told = refusal(Ray("echo:A", RayOptions(address=address), Echo("A")).check)
    assert told.startswith(f"--ray-address={address}: type HOST:PORT")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    told = refusal(Ray("echo:A", inner=Echo("A")).check)
    assert told == "--model=ray:... needs a package: pip install 'pytest-medvqa[ray]'"


def test_a_pool_of_pools_is_refused() -> None:
    pytest.importorskip("ray")
    told = refusal(Ray("ray:echo:A", inner=Ray("echo:A", inner=Echo("A"))).check)
    assert told == "--model=ray:ray:echo:A: a pool of pools; type --model=ray:echo:A"


def test_a_cluster_that_refuses_connections_is_named() -> None:
    told = refusal(Ray("echo:A", RayOptions(address="127.0.0.1:1"), Echo("A")).preflight)
    assert told.startswith("ray: no cluster answers at 127.0.0.1:1 (Connection refused); start one by `ray start")
