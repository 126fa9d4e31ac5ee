"""Sessions with solved examples: on the phantom, against a server of this machine and with phantom-vlm."""

import base64
import io
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from medvqa.backends.openai import data_url
from medvqa.benchmarks import mediconfusion
from medvqa.cli import main
from medvqa.items import Image, Item
from medvqa.protocols.shots import Chooser, Pool
from medvqa.records import run_folder
from support.judged import PAIRS, Repository, ended, items_of, repository
from support.pages import Page
from support.repositories import kill_group
from support.servers import Reply, Request, Server, completion
from support.sessions import written

__all__ = ["repository"]  # a fixture

MC = mediconfusion.ORIGINAL.by_technique["mc"]
SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]
CONFIG = """
backend = "openai"
argument = "tiny"
[options]
base_url = "{url}"
retries = 0
revision = "1"
"""


def served(repository: Repository, server: Server) -> None:
    (repository.path / "models/served.toml").write_text(CONFIG.format(url=server.url))


def copies(number: int, request: Request) -> Reply:
    """Answer as the last solved example is answered."""
    return Reply(completion(request.body["messages"][-2]["content"]))


def run(repository: Repository, *arguments: str, model: str = "served", benchmark: str = PAIRS) -> str:
    code, output = repository.run(*arguments, model=model, benchmark=benchmark)
    assert code == 0, output
    return output


def pictures(images: tuple[Image, ...]) -> list[dict[str, Any]]:
    limit = 20 * 2**20
    return [{"type": "image_url", "image_url": {"url": data_url(image, None, limit)}} for image in images]


def user(item: Item) -> dict[str, Any]:
    text = MC.prompt(item).text
    return {"role": "user", "content": [*pictures(item.images), {"type": "text", "text": text}]}


def messages(item: Item, chosen: tuple[Item, ...]) -> list[dict[str, Any]]:
    """The messages of a question, written without the code under test."""
    solved = [(user(example), {"role": "assistant", "content": example.answers[0]}) for example in chosen]
    system = {"role": "system", "content": MC.system}
    return [system, *(message for pair in solved for message in pair), user(item)]


def chooser() -> Chooser:
    items = items_of(PAIRS)
    return Chooser(Pool(PAIRS, items), items, "category")


def bodies(server: Server) -> Counter[str]:
    return Counter(json.dumps(request.body["messages"]) for request in server.requests)


@pytest.mark.parametrize("spread", SPREAD)
def test_a_chat_model_sees_three_solved_examples_with_their_images(
    repository: Repository, spread: tuple[str, ...]
) -> None:
    with Server(copies) as server:
        served(repository, server)
        output = run(repository, "--shots=3", "--limit=12", "--run=three", *spread)
    asked = {result.item.id for result in run_folder.read(repository.path / "reports/three").results}
    items = [item for item in items_of(PAIRS) if item.id in asked]
    assert len(items) == 12
    chosen = {item.id: chooser().choose(item, 3) for item in items}
    assert bodies(server) == Counter(json.dumps(messages(item, chosen[item.id])) for item in items)
    # The model copies the last example's letter: the score follows from the keys alone.
    right = [item.answers == chosen[item.id][-1].answers for item in items]
    folder = repository.path / "reports/three"
    measures = {m["name"]: m for m in written(folder)["measures"] if not m["slice"]}
    assert measures["individual_accuracy"]["count"] == sum(right)
    assert "shots:3" in measures["set_accuracy"]["signature"]
    assert "pool:leave-group-out by category" in measures["set_accuracy"]["signature"]
    assert json.loads((folder / "run.json").read_text())["protocol"] == {"shots": 3}
    assert f"{PAIRS} (3 shots)" in output
    page = Page((folder / "index.html").read_text()).told
    assert '"Solved examples"' in page
    assert "3, from leave-group-out by category" in page


def test_a_selection_changes_no_prompt_and_reuses_the_answers(repository: Repository) -> None:
    with Server(copies) as server:
        served(repository, server)
        run(repository, "--shots=1", "--run=part", "--limit=6")
        assert bodies(server).total() == 6
        run(repository, "--shots=1", "--run=whole", "--answers=part", "--limit=12")
        assert bodies(server).total() == 12, "six answers are stored"
        run(repository, "--shots=2", "--run=two", "--limit=12")
        assert bodies(server).total() == 24, "other examples are another prompt"
        run(repository, "--shots=2", "--run=again", "--answers=two", "--limit=12")
        assert bodies(server).total() == 24
        run(repository, "--run=none", "--limit=12")
    assert bodies(server).total() == len(bodies(server)) == 36


def opened(part: dict[str, Any]) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(base64.b64decode(part["image_url"]["url"].partition(",")[2]))).convert("RGB")


def parts(request: Request) -> list[dict[str, Any]]:
    said = [message["content"] for message in request.body["messages"] if message["role"] == "user"]
    return [part for content in said for part in content if part["type"] == "image_url"]


@pytest.mark.parametrize("how", ["text-only", "blank", "shuffle"])
def test_an_ablation_takes_the_images_of_examples_too(repository: Repository, how: str) -> None:
    with Server(copies) as server:
        served(repository, server)
        run(repository, "--shots=2", f"--ablate={how}", "--limit=4", "--run=first")
    assert len(server.requests) == 4
    if how == "text-only":
        assert not any(map(parts, server.requests))
        return
    originals = {item.id: pictures(item.images) for item in items_of(PAIRS)}
    for result in run_folder.read(repository.path / "reports/first").results:
        item, chosen = result.item, chooser().choose(result.item, 2)
        text = MC.prompt(item).text
        sent = [
            parts(request) for request in server.requests if request.body["messages"][-1]["content"][-1]["text"] == text
        ]
        for shown in sent:
            assert len(shown) == 3
            if how == "blank":
                assert all(opened(part).getcolors() == [(part_area(part), (127, 127, 127))] for part in shown)
            else:
                assert not any(part in shown for part in originals[item.id])
        if how == "shuffle":
            kept = [[*originals[chosen[0].id], *originals[chosen[1].id]] == shown[:2] for shown in sent]
            assert not any(kept)


def part_area(part: dict[str, Any]) -> int:
    picture = opened(part)
    return picture.width * picture.height


def test_a_run_goes_on_with_the_same_examples_alone(repository: Repository) -> None:
    with Server(copies) as server:
        served(repository, server)
        run(repository, "--shots=2", "--run=first", "-k", "10/1")
        code, output = repository.run("--shots=1", "--run=first", model="served", benchmark=PAIRS)
        assert code == pytest.ExitCode.USAGE_ERROR
        assert "run 'first' cannot go on: --shots was 2 and is 1" in output
        code, output = repository.run("--run=first", model="served", benchmark=PAIRS)
        assert code == pytest.ExitCode.USAGE_ERROR
    assert len(server.requests) == 1


def test_examples_of_another_pool_are_named_by_a_comparison(repository: Repository, capsys: Any) -> None:
    with Server(copies) as server:
        served(repository, server)
        run(repository, "--shots=1", "--run=first", "--limit=4")
        output = run(repository, "--shots=1", "--shot-pool=phantom-gmai-mmbench", "--run=second", "--limit=4")
    assert f"{PAIRS} (1 shot from phantom-gmai-mmbench)" in output
    folder = repository.path / "reports"
    capsys.readouterr()
    assert main(["compare", str(folder / "first"), str(folder / "second")]) == 0
    said = capsys.readouterr().out
    assert "1 shot in first" in said
    assert "1 shot from phantom-gmai-mmbench" in said


def asked_slowly(number: int, request: Request) -> Reply:
    reply = copies(number, request)
    reply.delay = 0.05
    return reply


@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n2",)], ids=["serial", "n2"])
def test_a_killed_run_goes_on_to_the_same_results(repository: Repository, spread: tuple[str, ...]) -> None:
    with Server(asked_slowly) as server:
        served(repository, server)
        session = repository.start("--shots=3", "--run=first", *spread, model="served", benchmark=PAIRS)
        results = repository.path / "reports/first/results.jsonl"
        while session.poll() is None and not (results.exists() and results.read_bytes().count(b"\n") > 10):
            time.sleep(0.02)
        kill_group(session)
        before = len(server.requests)
        assert before < 72
        ended_code, output = ended(
            repository.start("--shots=3", "--run=first", *spread, model="served", benchmark=PAIRS)
        )
        assert ended_code == 0, output
        asked = bodies(server)
        run(repository, "--shots=3", "--run=second", "--fresh")
    assert len(asked) == 72, "the same prompts before and after"
    first, second = (run_folder.read(repository.path / "reports" / name).results for name in ("first", "second"))
    said = [[(result.key, result.prompt, result.score) for result in results] for results in (first, second)]
    assert said[0] == said[1]
    assert (
        written(repository.path / "reports/first")["measures"]
        == written(repository.path / "reports/second")["measures"]
    )


@pytest.mark.parametrize("spread", SPREAD)
def test_a_checkpoint_scores_options_after_examples(repository: Repository, spread: tuple[str, ...]) -> None:
    pytest.importorskip("torch", reason="phantom-vlm needs the extra hf")
    model = str(Path(__file__).parents[2] / "models/phantom-vlm")
    (repository.path / "models/tiny.toml").write_text(f'backend = "hf"\nargument = "{model}"\n')
    run(repository, "--technique=ps", "--shots=1", "--limit=6", "--run=first", *spread, model="tiny")
    run(repository, "--technique=ps", "--limit=6", "--run=none", *spread, model="tiny")
    with_shot, without = (run_folder.read(repository.path / "reports" / name).results for name in ("first", "none"))
    assert len(with_shot) == len(without) == 6
    for one, other in zip(with_shot, without, strict=True):
        assert one.answer is not None
        assert other.answer is not None
        assert one.answer.option_logprobs != other.answer.option_logprobs
        assert one.prompt != other.prompt
