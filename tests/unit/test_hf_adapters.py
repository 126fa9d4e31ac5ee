"""A checkpoint with adapters answers as the one that peft merges by hand, or is refused: no weight is left out."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'pytest-medvqa[hf]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'pytest-medvqa[hf]'")
peft = pytest.importorskip("peft", reason="needs peft: pip install 'pytest-medvqa[adapters]'")

from safetensors.torch import load_file, save_file  # noqa: E402

from medvqa import configs  # noqa: E402
from medvqa.backend import loaded  # noqa: E402
from medvqa.backends import pytest_medvqa_backends  # noqa: E402
from medvqa.backends.hf import HF, HFOptions, adapting, checkpoint  # noqa: E402
from medvqa.items import Answer, Image, Prompt, UsageError  # noqa: E402
from support import tinies  # noqa: E402 - imports torch

MODULES = ["q_proj", "v_proj", "qkv"]
"""Of the language model and of the vision tower, in each family of these tests."""
OPTIONS = HFOptions(max_new_tokens=8)
TOLERANCE = 1e-4
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


def based(base: Path) -> Any:
    return transformers.AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)


def trained(base: Path, folder: Path, seed: int, **config: Any) -> Path:
    """Write an adapter with random weights, large enough to change answers."""
    torch.manual_seed(seed)
    config = {"r": 4, "target_modules": MODULES, "init_lora_weights": False, **config}
    model = peft.get_peft_model(based(base), peft.LoraConfig(**config))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a base, and of two adapters of it: base, one, other."""
    root = tmp_path_factory.mktemp("adapters")
    base = tinies.llava(root / "base")
    trained(base, root / "one", 1)
    trained(base, root / "other", 2, lora_alpha=16, use_rslora=True, rank_pattern={"language_model.*v_proj": 2})
    return root


@pytest.fixture(scope="module")
def prompts(root: Path) -> list[Prompt]:
    pixels = np.random.default_rng(0).integers(0, 255, (56, 40, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(root / "a.png")
    return [
        Prompt(
            "Is the lesion benign? " * times,
            images=(Image("a.png", str(root / "a.png")),),
            options={"A": "yes", "B": "no"},
            technique=technique,
            item=str(times),
        )
        for times in (1, 3)
        for technique in ("mc", "gd", "ps")
    ]


@pytest.fixture(scope="module")
def load() -> Iterator[Callable[..., HF]]:
    """Loads a model with further options, once."""

    @cache
    def load(path: Path, **options: Any) -> HF:
        models.append(loaded(HF(str(path), replace(OPTIONS, **options))))
        return models[-1]

    models: list[HF] = []
    yield load
    for model in models:
        model.close()


@pytest.fixture
def own(root: Path, tmp_path: Path) -> Path:
    """A copy of the first adapter, to be changed."""
    return shutil.copytree(root / "one", tmp_path / "own")


def change(folder: Path, **keys: Any) -> None:
    content = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**content, **keys}))


def weights(model: HF) -> dict[str, Any]:
    return dict(model._loaded.model.state_dict())


def assert_equal(some: dict[str, Any], others: dict[str, Any]) -> None:
    assert some.keys() == others.keys()
    assert [name for name in some if not torch.equal(some[name], others[name])] == []


def answers(model: HF, prompts: list[Prompt]) -> list[Answer]:
    answers = model.generate(prompts)
    assert all(isinstance(answer, Answer) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Answer)]


def assert_same(some: list[Answer], others: list[Answer]) -> None:
    for one, other in zip(some, others, strict=True):
        assert (one.text, one.finish, one.usage) == (other.text, other.finish, other.usage)
        assert one.option_logprobs == (
            None if other.option_logprobs is None else pytest.approx(other.option_logprobs, abs=TOLERANCE)
        )


def merged_by_hand(base: Path, target: Path, *adapters: Path) -> Path:
    """What peft's own documentation says, saved as a checkpoint."""
    names = [f"a{number}" for number in range(len(adapters))]
    model = peft.PeftModel.from_pretrained(based(base), adapters[0], adapter_name=names[0])
    for name, adapter in zip(names[1:], adapters[1:], strict=True):
        model.load_adapter(adapter, adapter_name=name)
    model.merge_and_unload(adapter_names=names).save_pretrained(target)
    for path in base.iterdir():
        if not (target / path.name).exists():
            shutil.copy(path, target)
    return target


def refused(path: Path | str, **options: Any) -> str:
    with pytest.raises(UsageError) as raised:
        loaded(HF(str(path), HFOptions(**options)))
    said = str(raised.value)
    assert "\n" not in said
    assert len(said) < 1500
    return said


# --- what is applied --------------------------------------------------------------------------------------


def test_an_adapter_answers_as_the_checkpoint_that_peft_merges(
    root: Path, tmp_path: Path, load: Callable[..., HF], prompts: list[Prompt]
) -> None:
    by_hand = load(merged_by_hand(root / "base", tmp_path / "merged", root / "one"))
    merged, beside = load(root / "one"), load(root / "one", merge=False)
    assert_equal(weights(merged), weights(by_hand))
    expected = answers(by_hand, prompts)
    assert_same(answers(merged, prompts), expected)
    assert_same(answers(beside, prompts), expected)
    base = answers(load(root / "base"), prompts)
    assert all(one.option_logprobs != pytest.approx(other.option_logprobs, abs=0.01)
               for one, other in zip(expected, base, strict=True) if one.option_logprobs)  # fmt: skip


def test_adapters_over_one_base_are_applied_together(
    root: Path, tmp_path: Path, load: Callable[..., HF], prompts: list[Prompt]
) -> None:
    two = (str(root / "one"), str(root / "other"))
    by_hand = load(merged_by_hand(root / "base", tmp_path / "merged", root / "one", root / "other"))
    merged = load(root / "base", adapters=two)
    assert_equal(weights(merged), weights(by_hand))
    expected = answers(by_hand, prompts)
    assert_same(answers(merged, prompts), expected)
    assert_same(answers(load(root / "base", adapters=two, merge=False), prompts), expected)
    # An adapter as the argument is the first of them.
    assert_equal(weights(load(root / "one", adapters=two[1:])), weights(merged))
    assert merged.title == "base + one + other"


def test_a_fingerprint_tells_adapters_apart(root: Path, load: Callable[..., HF], own: Path) -> None:
    one, other = str(root / "one"), str(root / "other")
    models = [
        load(root / "base"),
        load(root / "one"),
        load(root / "other"),
        load(root / "one", merge=False),
        load(root / "base", adapters=(one, other)),
        load(root / "base", adapters=(other, one)),
    ]
    assert len({model.fingerprint() for model in models}) == len(models)
    expected = load(root / "one").fingerprint()
    assert load(root / "base", adapters=(one,)).fingerprint() == expected
    assert loaded(HF(str(own), OPTIONS)).fingerprint() == expected, "the name of its folder changes no answer"
    tensors = load_file(own / WEIGHTS)
    name = min(tensors)
    save_file({**tensors, name: tensors[name] * 1.001}, own / WEIGHTS)
    assert loaded(HF(str(own), OPTIONS)).fingerprint() != expected


def test_the_record_tells_base_and_adapters(root: Path, load: Callable[..., HF]) -> None:
    model = load(root / "one")
    about = model.about()
    assert (model.title, about["checkpoint"]) == ("one", str(root / "base"))
    assert about["adapters"] == [str(root / "one")]
    digests = {name.rpartition("/")[0] for name in about["digests"] if CONFIG in name or WEIGHTS in name}
    assert digests == {"adapters/1"}
    assert about["digests"].keys() > load(root / "base").about()["digests"].keys()
    assert about["settings"]["merged"] is True
    assert about["settings"]["peft"] == peft.__version__
    assert load(root / "one", merge=False).about()["settings"]["merged"] is False
    plain = load(root / "base").about()
    assert ("adapters" in plain, "merged" in plain["settings"]) == (False, False)
    base, one = HF(str(root / "base")).size(), HF(str(root / "one")).size()
    assert base is not None
    assert one == base + (root / "one" / WEIGHTS).stat().st_size
    assert HF(str(root / "base"), HFOptions(adapters=(str(root / "one"),))).size() == one


@pytest.mark.parametrize("kind", [{"use_dora": True}, {"target_modules": "all-linear", "r": 2}])
def test_kinds_of_lora_are_merged_as_peft_merges(root: Path, tmp_path: Path, kind: dict[str, Any]) -> None:
    adapter = trained(root / "base", tmp_path / "kind", 3, **kind)
    by_hand = loaded(HF(str(merged_by_hand(root / "base", tmp_path / "merged", adapter)), OPTIONS))
    merged = loaded(HF(str(adapter), OPTIONS))
    assert_equal(weights(merged), weights(by_hand))


def _old_qwen(name: str) -> str:
    new = "base_model.model.model."
    return name.replace(f"{new}visual.", "base_model.model.visual.").replace(f"{new}language_model.", new)


def _old_llava(name: str) -> str:
    new = "base_model.model.model."
    return name.replace(f"{new}vision_tower.", "base_model.model.vision_tower.vision_model.").replace(
        f"{new}language_model.", "base_model.model.language_model.model."
    )


@pytest.mark.parametrize(("family", "old"), [("qwen2_5_vl", _old_qwen), ("llava", _old_llava)])
def test_an_adapter_of_an_older_transformers_is_applied(tmp_path: Path, family: str, old: Callable[[str], str]) -> None:
    """Before 4.52, modules of these families had other names. peft alone leaves Qwen's out, with a warning."""
    base = tinies.FAMILIES[family](tmp_path / "base")
    new = trained(base, tmp_path / "new", 1)
    expected = weights(loaded(HF(str(new), OPTIONS)))
    older = shutil.copytree(new, tmp_path / "older")
    tensors = {old(name): tensor for name, tensor in load_file(new / WEIGHTS).items()}
    assert tensors.keys().isdisjoint(load_file(new / WEIGHTS))
    save_file(tensors, older / WEIGHTS)
    assert_equal(weights(loaded(HF(str(older), OPTIONS))), expected)


@pytest.mark.parametrize("bits", [4, 8])
def test_over_a_quantised_base_an_adapter_stays_beside_it(
    root: Path, tmp_path: Path, own: Path, prompts: list[Prompt], bits: int
) -> None:
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes: pip install 'pytest-medvqa[quantization]'")
    how = transformers.BitsAndBytesConfig(
        # On a CPU, a row must be as long as a block of 4-bit weights: longer than those of the tiny vision tower.
        **{f"load_in_{bits}bit": True},
        llm_int8_skip_modules=["model.vision_tower", "model.multi_modal_projector", "lm_head"],
    )
    quantised = tmp_path / "quantised"
    model = transformers.AutoModelForImageTextToText.from_pretrained(root / "base", quantization_config=how)
    model.save_pretrained(quantised)
    for path in (root / "base").iterdir():
        if not (quantised / path.name).exists():
            shutil.copy(path, quantised)
    change(own, base_model_name_or_path=str(quantised))
    adapted = loaded(HF(str(own), OPTIONS))
    assert adapted.about()["settings"]["merged"] is False
    by_hand = peft.PeftModel.from_pretrained(based(quantised), own).eval()
    inputs = adapted._made(prompts[1:2]).parts[0].inputs
    with torch.inference_mode():
        assert torch.equal(adapted._loaded.model(**inputs).logits, by_hand(**inputs).logits)
    plain = answers(loaded(HF(str(quantised), OPTIONS)), prompts[1:2])[0].option_logprobs
    assert answers(adapted, prompts[1:2])[0].option_logprobs != pytest.approx(plain, abs=0.01)
    assert refused(own, merge=True) == (
        "merge = true in the options, and the base is quantised: merged weights would be rounded to its few bits. "
        "Leave `merge` out, and the adapter is applied beside the base"
    )


# --- where base, adapters and processor come from ---------------------------------------------------------


def test_a_processor_beside_the_adapter_is_used(root: Path, own: Path, load: Callable[..., HF]) -> None:
    assert load(root / "one")._adapted.processor == root / "base"
    transformers.AutoProcessor.from_pretrained(root / "base").save_pretrained(own)
    template = (own / "chat_template.jinja").read_text()
    (own / "chat_template.jinja").write_text(template.replace("ASSISTANT:", "DOCTOR:"))
    model = loaded(HF(str(own), OPTIONS))
    assert model._adapted.processor == own
    written = model._writer.write(Prompt("What is shown?", item="1"))
    assert written.text.endswith("DOCTOR:")
    assert "adapters/1/chat_template.jinja" in model.about()["digests"]
    assert model.fingerprint() != load(root / "one").fingerprint()


def test_a_base_is_found_beside_the_adapter(
    root: Path, own: Path, load: Callable[..., HF], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own)
    shutil.copytree(root / "base", own.parent / "base")
    change(own, base_model_name_or_path="../base")
    model = loaded(HF(str(own), OPTIONS))
    assert model.about()["checkpoint"] == str(own.parent / "base")
    assert_equal(weights(model), weights(load(root / "one")))


def test_a_config_names_adapters_beside_its_file(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        f'backend = "hf"\nargument = "{root / "base"}"\n[options]\nadapters = ["own", "org/name"]\n'
    )
    shutil.copytree(root / "one", tmp_path / "own")
    backends = {kind.name: kind for kind in pytest_medvqa_backends()}
    config = configs.resolve("mine", folders=[tmp_path], backends=backends)
    model = configs.make(config, backends)
    assert model.options.adapters == (str(tmp_path / "own"), "org/name")
    assert model.title == "base + own + org/name"


def in_cache(cache: Path, name: str, commit: str, folder: Path) -> None:
    repository = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "v2").write_text(commit)
    (repository / "refs" / "main").write_text(commit)


def test_adapter_and_base_are_taken_from_the_hubs_cache(
    root: Path, own: Path, tmp_path: Path, load: Callable[..., HF], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    change(own, base_model_name_or_path="org/base", revision="v2")
    in_cache(tmp_path / "hub", "org/adapter", "1" * 40, own)
    with pytest.raises(UsageError, match="and its base cannot be used: --model=hf:org/base: its weights are not in"):
        HF("org/adapter").preflight()
    in_cache(tmp_path / "hub", "org/base", "2" * 40, root / "base")
    HF("org/adapter").preflight()
    model = loaded(HF("org/adapter", OPTIONS))
    assert (model.title, model.about()["revision"]) == ("org/adapter", "2" * 40)
    assert_equal(weights(model), weights(load(root / "one")))
    named = HFOptions(max_new_tokens=8, adapters=("org/adapter",), revision="main")
    HF("org/base", named).preflight()
    assert_equal(weights(loaded(HF("org/base", named))), weights(model))
    with pytest.raises(UsageError, match="--model=hf:org/nothing: its weights are not in the cache"):
        HF("org/base", HFOptions(adapters=("org/nothing",))).preflight()
    assert HF("org/adapter").size() is None


# --- what is refused --------------------------------------------------------------------------------------


def test_a_weight_that_fits_no_module_is_named(root: Path, own: Path) -> None:
    tensors = load_file(own / WEIGHTS)
    name = "base_model.model.model.language_model.layers.7.self_attn.q_proj.lora_A.weight"
    save_file({**tensors, name: tensors[min(tensors)].clone()}, own / WEIGHTS)
    assert refused(own) == (
        f"peft {peft.__version__}: 1 of {len(tensors) + 1} weights of the adapter {own} fit no module of its base, "
        f"such as '{name}': another model would be evaluated. To choose the base yourself, write a config with "
        "argument = BASE, and adapters = [ADAPTER] in [options]"
    )
    assert f"weights of the adapter {own} fit no module" in refused(root / "base", adapters=(str(own),), merge=False)


def test_a_module_without_its_weights_is_named(own: Path) -> None:
    tensors = load_file(own / WEIGHTS)
    first = min(tensors)
    save_file({name: tensor for name, tensor in tensors.items() if name != first}, own / WEIGHTS)
    assert refused(own) == f"{own / CONFIG} changes 1 weights that {WEIGHTS} does not hold, such as '{first}'"


def test_weights_of_another_shape_are_one_line(tmp_path: Path, own: Path) -> None:
    tensors = load_file(own / WEIGHTS)
    save_file({name: torch.cat([tensor, tensor]) for name, tensor in tensors.items()}, own / WEIGHTS)
    said = refused(own)
    assert said.startswith(f"{own}: peft {peft.__version__} cannot apply the adapter: RuntimeError: ")
    assert "size mismatch" in said
    (own / WEIGHTS).write_bytes((own / WEIGHTS).read_bytes()[:-8])
    assert refused(own).startswith(f"{own}: peft {peft.__version__} cannot apply the adapter: SafetensorError: ")
    change(own, target_modules="(")
    assert refused(own).startswith(f"{own}: peft {peft.__version__} cannot apply the adapter: ")


def test_bases_that_cannot_be_used_are_named(root: Path, own: Path, tmp_path: Path) -> None:
    choose = "To choose the base yourself, write a config with argument = BASE, and adapters = [ADAPTER] in [options]"
    flag = f"--model=hf:{own} is an adapter, and its base cannot be used: "
    change(own, base_model_name_or_path=None)
    assert refused(own) == f"{flag}{own / CONFIG} names no base_model_name_or_path. {choose}"
    for name in ("/no/such/folder", "~nobody/base", "x" * 4000, "a\0b", "\x1b[31m\n"):
        change(own, base_model_name_or_path=name)
        assert refused(own) == (
            f"{flag}{own / CONFIG} names the base {name[:200]!a}, which is no folder and no ORG/NAME of the hub. "
            f"{choose}"
        ), name
    for name in (".", str(root / "other")):
        change(own, base_model_name_or_path=name)
        assert refused(own) == f"{flag}{(own / name).resolve()} is an adapter itself. {choose}"
    (tmp_path / "empty").mkdir()
    change(own, base_model_name_or_path="../empty")
    assert refused(own).startswith(
        f"{flag}{tmp_path / 'empty' / 'config.json'}: no model config: No such file or directory; "
    )
    assert refused(root / "base", adapters=("no/such/folder",)) == (
        f"--model=hf:{root / 'base'}: `adapters` in the options: no such folder: {Path('no/such/folder').absolute()}"
    )
    assert refused(root / "base", adapters=(str(tmp_path / "empty"),)).startswith(f"{tmp_path / 'empty' / CONFIG}: ")


def test_dora_does_not_add_up(root: Path, tmp_path: Path) -> None:
    dora = trained(root / "base", tmp_path / "dora", 3, use_dora=True)
    assert refused(root / "one", adapters=(str(dora),)) == (
        "`adapters` in the options: one of them uses DoRA, which does not add up with others"
    )


def test_the_extra_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapting, "find_spec", lambda name: None if name == "peft" else find_spec(name))
    said = "an adapter needs peft: pip install 'pytest-medvqa[hf,adapters]'"
    assert refused(root / "one") == f"--model=hf:{root / 'one'}: {said}"
    assert refused(root / "base", adapters=(str(root / "one"),)) == f"--model=hf:{root / 'base'}: {said}"
    HF(str(root / "base")).check()


def test_a_check_of_an_adapter_imports_no_torch(root: Path) -> None:
    code = (
        "import sys; from medvqa.backends.hf import HF; HF(sys.argv[1]).check(); HF(sys.argv[1]).preflight(); "
        "print(*{'torch', 'transformers', 'peft', 'safetensors'} & sys.modules.keys())"
    )
    command = [sys.executable, "-c", code, str(root / "one")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == ""


def test_python_code_of_the_base_needs_trust(root: Path, own: Path, tmp_path: Path) -> None:
    base = shutil.copytree(root / "base", tmp_path / "coded")
    config = json.loads((base / checkpoint.CONFIG).read_text())
    config |= {"auto_map": {"AutoModelForImageTextToText": "code.Model"}, "model_type": "homemade"}
    (base / checkpoint.CONFIG).write_text(json.dumps(config))
    change(own, base_model_name_or_path=str(base))
    assert "'homemade' is no model of transformers, but of Python code in the checkpoint" in refused(own)
