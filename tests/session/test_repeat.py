"""`--repeat`: several samples of each answer, numbered, recorded and stored apart."""

import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medvqa.backend import loaded
from medvqa.backends.baselines import Echo, Majority, Random
from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.backends.replay import Replay
from medvqa.cli import main
from medvqa.items import Prompt
from medvqa.protocols import prompts
from medvqa.records import run_folder
from support.pages import Page
from support.servers import Reply, Request, Server, completion
from support.sessions import SPREAD, folder, run, text, written
from support.strangers import CONFTEST, TEST

TEMPERATURE = '''
import json, pathlib


class Warm(Majority):
    """Answers anew each time, by the sample's number, and notes what it was asked for."""

    name = title = "warm"

    def fingerprint(self):
        return "warm 1"

    def generate(self, prompts):
        with pathlib.Path("calls").open("a") as file:
            file.write("".join(f"{prompt.item}#{prompt.sample}\\n" for prompt in prompts))
        return [Answer("ABC"[prompt.sample % 3]) for prompt in prompts]


def pytest_medvqa_backends():
    return [Warm]
'''


@pytest.fixture
def slake(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST.replace("def pytest_medvqa_backends", "def _none") + TEMPERATURE)
    pytester.makepyfile(test_slake=TEST)
    return pytester


def asked(slake: pytest.Pytester) -> Counter[str]:
    return Counter((slake.path / "calls").read_text().split())


@pytest.mark.parametrize("spread", SPREAD)
def test_each_question_is_asked_for_each_sample(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    assert run(slake, "--model=warm:x", "--repeat=3", "--run=first", *spread).ret == 0
    results = run_folder.read(slake.path / "reports" / "first").results
    assert len(results) == 72
    assert Counter(result.sample for result in results) == {1: 24, 2: 24, 3: 24}
    assert {result.answer and result.answer.text for result in results if result.sample == 2} == {"C"}
    assert asked(slake).total() == 72
    assert set(asked(slake).values()) == {1}
    about = json.loads((slake.path / "reports" / "first" / "run.json").read_text())
    assert about["repeat"] == 3
    assert about["missing"] == []
    signatures = {m["signature"] for m in written(slake.path / "reports" / "first")["measures"]}
    assert all("repeat:3" in signature for signature in signatures)


def test_the_samples_of_a_run_are_reused_by_another_that_asks_for_more(slake: pytest.Pytester) -> None:
    assert run(slake, "--model=warm:x", "--repeat=2", "--run=first").ret == 0
    assert run(slake, "--model=warm:x", "--repeat=3", "--run=second", "--answers=first").ret == 0
    assert set(asked(slake).values()) == {1}
    assert asked(slake).total() == 72
    # One that is not repeated has no number, and is another answer.
    assert run(slake, "--model=warm:x", "--run=third", "--answers=second").ret == 0
    assert asked(slake).total() == 96
    assert "q00#0" in asked(slake)


def test_a_run_goes_on_with_the_same_number_of_samples_alone(slake: pytest.Pytester) -> None:
    assert run(slake, "--model=warm:x", "--repeat=2", "--run=first", "-k", "q0").ret == 0
    result = run(slake, "--model=warm:x", "--repeat=3", "--run=first")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "run 'first' cannot go on: --samples was 2 and is 3. Name another" in text(result)
    assert run(slake, "--model=warm:x", "--repeat=2", "--run=first").ret == 0
    assert len(run_folder.read(folder(slake)).results) == 48


def test_samples_are_named_and_selected(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=warm:x", "--repeat=2", "--collect-only", "-q", "-k", "sample2")
    result.stdout.fnmatch_lines(["*test_slake[[]q00-sample2[]]", "24/48 tests collected (24 deselected)*"])
    assert run(slake, "--model=warm:x", "--repeat=2", "--limit=5").ret == 0
    # Pairs stay whole, and so do the samples of a question.
    assert len(run_folder.read(folder(slake)).results) == 8


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--model=warm:x", "--repeat=1"),
            "--samples=1: a whole number from 2 on is expected; without --samples each question is asked once",
        ),
        (
            ("--model=echo:A", "--repeat=3"),
            "--samples=3: 'echo:A' answers the same question always alike. Sample a model whose config samples: "
            "temperature above 0 (openai), generation.do_sample (hf)",
        ),
        (
            ("--model=mediconfusion-gpt-4o", "--samples=3"),
            "--samples=3: 'mediconfusion-gpt-4o' samples, but not for technique 'mc'. Copy its config with temperature "
            "above 0 (openai), generation.do_sample (hf), or choose another --technique",
        ),
        (
            ("--model=random", "--repeat=3", "--technique=gd", "--benchmark=phantom"),
            "--samples=3: technique 'gd' does not sample: all samples of an answer would be the same; sample with "
            "--technique=mc",
        ),
    ],
)
def test_what_cannot_differ_is_not_repeated(slake: pytest.Pytester, arguments: tuple[str, ...], line: str) -> None:
    result = run(slake, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert line in " ".join(text(result).split())


def test_a_recorded_run_is_replayed_sample_by_sample(slake: pytest.Pytester) -> None:
    assert run(slake, "--model=warm:x", "--repeat=2", "--run=first").ret == 0
    recorded = slake.path / "reports" / "first" / "results.jsonl"
    assert Replay(str(recorded)).draws()
    assert run(slake, f"--model=replay:{recorded}", "--repeat=2", "--run=second").ret == 0
    first, second = (
        [(r.item.id, r.sample, r.score) for r in run_folder.read(slake.path / "reports" / name).results]
        for name in ("first", "second")
    )
    assert first == second


def test_samples_that_were_recorded_are_replayed_as_samples_alone(slake: pytest.Pytester) -> None:
    assert run(slake, "--model=warm:x", "--repeat=2", "--run=first", "-k", "q0").ret == 0
    recorded = slake.path / "reports" / "first" / "results.jsonl"
    result = run(slake, f"--model=replay:{recorded}", "--run=second")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "was recorded with --samples=2, several samples of each answer; add --samples=2" in text(result)
    assert run(slake, f"--model=replay:{recorded}", "--repeat=3", "--run=third", "-k", "q00").ret != 0
    why = [r.score.why for r in run_folder.read(slake.path / "reports" / "third").results if r.score.outcome == "error"]
    assert why == [f"{recorded} has no answer for sample 3 of q00: it was recorded with --samples=2; ask so"]


def test_every_file_of_a_repeated_run_tells_questions_from_answers(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=warm:x", "--repeat=3", "--run=first", "--junitxml=own.xml")
    assert result.ret == 0
    made = slake.path / "reports" / "first"
    cases = [case.get("name") for case in ElementTree.parse(made / "junit.xml").iter("testcase")]
    assert cases == [f"q{n:02} (sample {k})" for n in range(24) for k in (1, 2, 3)]
    own = [case.get("name") for case in ElementTree.parse(slake.path / "own.xml").iter("testcase")]
    assert sorted(own) == [f"test_slake[q{n:02}-sample{k}]" for n in range(24) for k in (1, 2, 3)]
    for told in (text(result), (made / "summary.md").read_text()):
        assert re.search(r"benchmark *\|? *answers", told)
        assert re.search(r"slake *\|? *72", told)
    page = Page((made / "index.html").read_text())
    rows = page.results
    assert len({(row["item"], row["sample"]) for row in rows}) == len({row["item"] for row in rows}) * 3 == 72
    assert sum(row["terms"][1] for row in rows) == pytest.approx(24)


def test_a_repeated_run_beside_a_single_one_shows_both_answers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_beside=TEST.replace('"slake"', '"phantom-mediconfusion"'))
    benchmark = "--benchmark=phantom-mediconfusion"
    assert run(pytester, "--model=random", "--repeat=3", "--run=thrice", benchmark).ret == 0
    assert run(pytester, "--model=random:7", "--run=once", benchmark).ret == 0
    runs = [str(pytester.path / "reports" / name) for name in ("once", "thrice")]
    for way in (runs, runs[::-1]):
        assert main(["report", *way, "--images=none", "-o", "page.html"]) == 0
        flipped = Page(Path("page.html").read_text()).results
        assert {row["sample"] for row in flipped} == {0, 1, 2, 3}, "one answer of one run, three of the other"


# --- backends ---------------------------------------------------------------------------------------------------------


def test_the_sample_is_no_part_of_what_a_model_sees() -> None:
    assert prompts.digest(Prompt("Which?", sample=2)) == prompts.digest(Prompt("Which?"))


def test_a_random_draw_differs_by_sample_and_is_the_same_in_every_run() -> None:
    options = {letter: letter for letter in "ABCDEFGH"}
    sampled = [Prompt("Which?", item="q", benchmark="b", options=options, sample=n) for n in range(20)]
    first, again = (Random("7").generate(sampled) for _ in range(2))
    assert first == again
    assert len(set(first)) > 3


def test_what_draws_says_so(tmp_path: Path) -> None:
    assert Random("").draws()
    assert not Majority("").draws()
    assert not Echo("A").draws()
    assert not OpenAI("tiny").draws()
    assert OpenAI("tiny", OpenAIOptions(temperature=0.7)).draws()
    assert OpenAI("tiny", OpenAIOptions(reasoning=True)).draws()
    from medvqa.backends.hf import HF

    assert not HF("x", HFOptions()).draws()
    assert HF("x", HFOptions(generation={"do_sample": True})).draws()
    single = tmp_path / "single.jsonl"
    single.write_text('{"id": "1", "response": "A"}\n')
    assert not Replay(str(single)).draws()
    assert Replay(str(single)).samples() == 0


def test_answers_of_which_some_have_a_number_may_be_replayed_without(tmp_path: Path) -> None:
    """What has none is found; of the others is said how they were recorded."""
    file = tmp_path / "results.jsonl"
    file.write_text(
        '{"item": {"id": "1"}, "answer": {"text": "A"}}\n'
        '{"item": {"id": "2"}, "answer": {"text": "B"}, "sample": 1}\n'
        '{"item": {"id": "2"}, "answer": {"text": "C"}, "sample": 2}\n'
    )
    assert Replay(str(file)).draws()
    assert Replay(str(file)).samples() == 0
    one, two = Replay(str(file)).generate([Prompt("?", item="1"), Prompt("?", item="2")])
    assert getattr(one, "text", None) == "A"
    assert str(two) == f"{file} has no answer for 2: it was recorded with --samples=2; ask so"


@pytest.mark.parametrize(("extra", "seeds"), [({}, [None, 1, 2]), ({"seed": 40}, [40, 41, 42])])
def test_a_server_is_told_the_seed(extra: dict[str, int], seeds: list[int | None]) -> None:
    def script(number: int, request: Request) -> Reply:
        return Reply(completion(str(request.body.get("seed"))))

    with Server(script) as server:
        model = loaded(OpenAI("tiny", OpenAIOptions(base_url=server.url, temperature=1.0, extra=extra)))
        try:
            answers = model.generate([Prompt("Which?", sample=number) for number in range(3)])
        finally:
            model.close()
    assert [getattr(answer, "text", None) for answer in answers] == [str(seed) for seed in seeds]


def test_a_checkpoint_draws_samples_that_differ_and_can_be_drawn_again() -> None:
    from medvqa.backends.hf import HF

    # Few tokens: the last digits of a logit may differ on a busy processor, and this temperature can tell them apart.
    options = HFOptions(device="cpu", generation={"do_sample": True, "temperature": 3.0, "top_k": 0}, max_new_tokens=6)
    folder = Path(__file__).parents[2] / "models" / "phantom-vlm"
    batch = [Prompt("What is shown?", item=f"q{n % 2}", sample=1 + n // 2) for n in range(8)]
    said = []
    for _ in range(2):
        model = loaded(HF(str(folder), options))
        said.append([getattr(answer, "text", answer) for answer in model.generate(batch)])
        model.close()
    assert said[0] == said[1]
    assert len(set(said[0])) > 4
