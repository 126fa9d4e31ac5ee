"""`--rotate`: sessions that ask each question in several orders of its options."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from medvqa.cli import main
from medvqa.items import Result, Variant
from medvqa.protocols import rotation
from medvqa.records import run_folder
from support.pages import Page
from support.repositories import Repository, await_results, kill_group
from support.servers import Reply, Request, Server, completion, scored
from support.sessions import SPREAD, SPREAD_SLOWLY, another, run, text, written

TEST = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
def test_pairs(item, evaluate):
    evaluate(item)

@pytest.mark.vqa("phantom-gmai-mmbench")
def test_many(item, evaluate):
    evaluate(item)
"""
PAIRS = "--benchmark=phantom-mediconfusion"
MANY = "--benchmark=phantom-gmai-mmbench"


def prompt_of(request: Request) -> str:
    content = request.body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def options_of(request: Request) -> dict[str, str]:
    """The options in the order in which a prompt shows them."""
    return dict(re.findall(r"^([A-Z])[.:] (.*)$", prompt_of(request), re.M))


def by_text(number: int, request: Request) -> Reply:
    """A model that reads: it chooses the first text of the alphabet, under any letter."""
    options = options_of(request)
    return Reply(completion(min(options, key=lambda letter: options[letter])))


def always_a(number: int, request: Request) -> Reply:
    return Reply(completion("A"))


def likeliest(number: int, request: Request) -> Reply:
    options = options_of(request)
    first, second = sorted(options, key=lambda letter: options[letter])[:2]
    return Reply(scored((first, -0.25), (second, -1.5)))


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], pytest.Pytester]:
    monkeypatch.setenv("OPENAI_API_KEY", "key of a test")
    monkeypatch.setenv("COLUMNS", "150")
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_questions=TEST)

    def made(url: str) -> pytest.Pytester:
        (pytester.path / "models").mkdir(exist_ok=True)
        (pytester.path / "models/mine.toml").write_text(
            f'backend = "openai"\nargument = "tiny"\n[options]\nbase_url = "{url}"\n'
        )
        return pytester

    return made


def values(folder: Path) -> dict[str, float | None]:
    return {m["name"]: m["value"] for m in written(folder)["measures"] if not m["slice"]}


def results_of(folder: Path) -> tuple[Result, ...]:
    return run_folder.read(folder).results


@pytest.mark.parametrize("spread", SPREAD)
def test_a_model_that_reads_chooses_the_same_text_in_every_order(
    repository: Callable[[str], pytest.Pytester], spread: tuple[str, ...]
) -> None:
    with Server(by_text) as server:
        made = repository(server.url)
        assert run(made, "--model=mine", PAIRS, MANY, "--rotate=all", "--limit=12", "--run=first", *spread).ret == 0
    folder = made.path / "reports/first"
    questions: dict[tuple[str, str], list[Result]] = {}
    for result in results_of(folder):
        questions.setdefault((result.item.benchmark, result.item.id), []).append(result)
    assert {len(asked) == len(asked[0].item.options) for asked in questions.values()} == {True}
    for asked in questions.values():
        assert [result.variant for result in asked] == [f"r{n}" for n in range(1, len(asked) + 1)]
        options = asked[0].item.options
        assert {result.score.extracted for result in asked} == {(min(options, key=lambda letter: options[letter]),)}
        for result in asked:
            # The shown order can be recovered, and gives the letter that the model said.
            shown = rotation.as_shown(result.item, result.variant).options
            assert result.answer is not None
            assert shown[result.answer.text] == options[result.score.extracted[0]]
    assert len(server.requests) == sum(map(len, questions.values()))
    measured = {(m["benchmark"], m["name"]): m for m in written(folder)["measures"] if not m["slice"]}
    for benchmark in ("phantom-mediconfusion", "phantom-gmai-mmbench"):
        assert measured[benchmark, "rotation_consistency"]["value"] == 1
        assert measured[benchmark, "first_position_bias"]["value"] == pytest.approx(0)
    # Each order gives the same choice, so that nothing is lost by the fold.
    pairs = {name: m for (benchmark, name), m in measured.items() if benchmark == "phantom-mediconfusion"}
    for name in ("set_accuracy", "individual_accuracy", "confusion"):
        assert pairs[name]["value"] == pairs[f"rotation_mean_{name}"]["value"]
    assert "rotations:all" in pairs["set_accuracy"]["signature"]
    assert json.loads((folder / "run.json").read_text())["protocol"] == {"rotations": None}


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_model_that_always_says_a_is_wrong_somewhere(
    repository: Callable[[str], pytest.Pytester], spread: tuple[str, ...]
) -> None:
    with Server(always_a) as server:
        made = repository(server.url)
        result = run(made, "--model=mine", PAIRS, "--rotate=2", "--run=first", *spread)
    assert result.ret == 0
    folder = made.path / "reports/first"
    measured = values(folder)
    assert (measured["set_accuracy"], measured["individual_accuracy"], measured["confusion"]) == (0, 0, 1)
    assert (measured["rotation_mean_set_accuracy"], measured["rotation_mean_individual_accuracy"]) == (0, 0.5)
    assert (measured["rotation_consistency"], measured["first_position_bias"]) == (0, 0.5)
    told = " ".join(text(result).split())
    assert "72 questions were asked in 2 orders of their options, and are right only if every answer is right" in told
    page = Page((folder / "index.html").read_text())
    rows = page.results
    assert Counter(row["variant"] for row in rows) == {"r1": 72, "r2": 72}
    assert sum(row["terms"][0] for row in rows) == 0
    assert sum(row["terms"][1] for row in rows) == pytest.approx(72)
    # The page shows the options as the model saw them: each answer is the first.
    assert {row["row"]["extracted"] for row in rows} == {("A",)}
    orders = [row["row"]["shown"] for row in rows if row["item"] == "1/1"]
    assert [[text for _, text in order] for order in orders] == [
        ["In the left half", "In the right half"], ["In the right half", "In the left half"],
    ]  # fmt: skip
    assert "1/1 (r2)" in (folder / "junit.xml").read_text()


def test_log_probabilities_are_mapped_back(repository: Callable[[str], pytest.Pytester]) -> None:
    with Server(likeliest) as server:
        made = repository(server.url)
        arguments = ("--model=mine", PAIRS, "--technique=gd", "--rotate=all", "--limit=8", "--run=first")
        assert run(made, *arguments).ret == 0
    folder = made.path / "reports/first"
    for result in results_of(folder):
        options = result.item.options
        first = min(options, key=lambda letter: options[letter])
        assert result.score.extracted == (first,)
        assert result.answer is not None
        logprobs = dict(result.answer.option_logprobs or {})
        assert logprobs[first] == -0.25
        assert sorted(logprobs.values()) == [-1.5, -0.25]
    # A replayed run gets the log-probabilities of the shown letters again.
    recorded = f"--model=replay:{folder / 'results.jsonl'}"
    assert run(made, recorded, PAIRS, "--technique=gd", "--rotate=all", "--limit=8", "--run=second").ret == 0
    first_run, second = (
        [(r.key, r.score, r.answer and r.answer.option_logprobs) for r in results_of(made.path / "reports" / name)]
        for name in ("first", "second")
    )
    assert first_run == second


def test_a_judge_and_the_owners_rule_see_the_options_as_shown(repository: Callable[[str], pytest.Pytester]) -> None:
    """No rule reads "maybe": the judge names the first text of the alphabet among the options that it is shown."""

    def judge(number: int, request: Request) -> Reply:
        return Reply(completion(min(letters := options_of(request), key=lambda letter: letters[letter])))

    with Server(judge) as server:
        made = repository(server.url)
        arguments = ("--model=echo:maybe", PAIRS, "--rotate=all", "--limit=8", "--run=first")
        judging = ("--judge=mine", "--extract-with=judge")
        assert run(made, *arguments, *judging).ret == 0
        results = results_of(made.path / "reports/first")
        assert len(results) == 16
        for result in results:
            options = result.item.options
            assert result.score.extracted == (min(options, key=lambda letter: options[letter]),), result
        measures = written(made.path / "reports/first")["measures"]
        assert main(["rescore", str(made.path / "reports/first"), *judging]) == 0
    assert written(made.path / "reports/first")["measures"] == measures
    # By the owners' rule "A." is a letter of the shown options.
    assert (
        run(made, "--model=echo:A.", PAIRS, "--rotate=all", "--extraction=official", "--limit=8", "--run=second").ret
        == 0
    )
    chosen = {r.variant: r.score.extracted for r in results_of(made.path / "reports/second")}
    assert chosen == {"r1": ("A",), "r2": ("B",)}


def test_a_rotated_run_is_replayed_scored_anew_compared_and_gated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rotated = ("run", PAIRS, "--rotate=all")
    assert main([*rotated, "--model=random", "--run=first"]) == 0
    first = Path("reports/first")
    assert main([*rotated, f"--model=replay:{first / 'results.jsonl'}", "--run=second"]) == 0
    second = Path("reports/second")
    key_and_score = [[(r.key, r.score) for r in results_of(folder)] for folder in (first, second)]
    assert key_and_score[0] == key_and_score[1]
    before = written(first)["measures"]
    for rule in ("official", "sound"):
        assert main(["rescore", str(first), f"--extraction={rule}"]) == 0
    assert written(first)["measures"] == before
    capsys.readouterr()
    assert main(["compare", str(second), "--baseline", str(first)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"individual_accuracy .*20\.83", told)
    assert main(["gate", str(second), "--baseline", str(first)]) in (0, 10, 11)
    assert main([*rotated, "--model=random:3", "--run=third", "--baseline=reports/first", "--margin=90"]) in (0, 10, 11)
    assert written(Path("reports/third"))["gate"] is not None
    capsys.readouterr()
    # A run without rotations differs in one setting, which the comparison names.
    assert main(["run", PAIRS, "--model=random", "--run=plain"]) == 0
    assert main(["compare", "reports/plain", "--baseline", str(first)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "the order of options: the data set's order in plain, every order in first" in told
    assert re.search(r"better 18 wrong: r1: A, r2: B \| wrong: r1: B, r2: A correct: B \| correct: A", told)
    # And a run goes on with the same rotations alone.
    assert main(["run", PAIRS, "--model=random", "--rotate=2", "--run=first"]) == 4


def test_a_recording_without_an_order_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", PAIRS, "--model=random", "--run=plain", "--limit=2"]) == 0
    replay = "--model=replay:reports/plain/results.jsonl"
    assert main(["run", PAIRS, replay, "--rotate=all", "--limit=2", "--run=first"]) == 1
    errors = [r.score.why for r in results_of(Path("reports/first"))]
    assert errors[0].endswith("in variant r1; variants recorded: none")
    rows = [
        {"id": f"1/{side}", "response": "B" if shift else "A", "variant": Variant(rotation=shift).name}
        for side in (1, 2)
        for shift in (0, 1)
    ]
    Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["run", PAIRS, "--model=replay:answers.jsonl", "--rotate=all", "--limit=2", "--run=own"]) == 0
    results = {(r.item.id, r.variant): r.score.extracted for r in results_of(Path("reports/own"))}
    assert {results["1/1", "r1"], results["1/1", "r2"]} == {("A",)}


def test_questions_without_letters_are_asked_once_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--benchmark=phantom-medlesionvqa", "--model=random", "--rotate=2", "--run=first"]) == 0
    results = results_of(Path("reports/first"))
    variants = {(r.item.kind, r.variant) for r in results}
    assert ("short_answer", "") in variants
    assert ("multiple_response", "r2") in variants
    assert ("multiple_response", "") not in variants
    once = len({r.item.id for r in results if not r.variant})
    assert f"{once} questions were asked once, because they show no options under letters" in capsys.readouterr().out


def test_techniques_without_letters_are_refused_or_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", PAIRS, "--model=random", "--technique=ps", "--rotate=all"]) == 4
    assert "--rotate: technique 'ps' shows no option letters" in capsys.readouterr().err
    assert main(["run", PAIRS, "--model=random", "--technique=mc,ps", "--rotate=all", "--limit=4", "--run=both"]) == 0
    assert Counter((r.technique, r.variant) for r in results_of(Path("reports/both"))) == {
        ("mc", "r1"): 4, ("mc", "r2"): 4, ("ps", ""): 4,
    }  # fmt: skip
    for typed in ("1", "27", "some", "9" * 5000):
        assert main(["run", PAIRS, "--model=random", f"--rotate={typed}"]) == 4
        assert "a number of orders from 2 to 26, or all" in capsys.readouterr().err


def test_samples_of_an_order_are_folded_with_those_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", PAIRS, "--model=random", "--rotate=all", "--samples=3", "--run=first"]) == 0
    results = results_of(Path("reports/first"))
    assert len(results) == 72 * 2 * 3
    right = Counter((r.item.id, r.sample) for r in results if r.score.outcome == "correct")
    expected = sum(number == 2 for number in right.values()) / (72 * 3)
    assert values(Path("reports/first"))["individual_accuracy"] == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["-n0", "-n2"])
def test_a_killed_run_asks_only_the_orders_that_are_missing(tmp_path: Path, spread: str) -> None:
    repository = Repository(tmp_path / "repository")
    held = "q00016" if spread == "-n0" else "q00032"
    repository.environment = {"HOLDS": held}
    session = repository.start("--model=slow:5", "--rotate=2", "--run=first", spread)
    await_results(repository, "first", 1, session)
    while held not in repository.asked and session.poll() is None:
        time.sleep(0.02)
    kill_group(session)
    repository.environment = {}
    assert repository.run("--model=slow:5", "--rotate=2", "--run=first")[0] == 0
    results = results_of(repository.folder("first"))
    assert len({r.key for r in results}) == len(results) == 80
    assert set(repository.asked.values()) <= {2, 3}, "each question in two orders, and again only if it was in flight"
    assert len(rotation.folded(results, 2)) == 40


@pytest.mark.parametrize(
    ("options", "label"),
    [
        (("--samples=3", "--combine=vote"), "vote of 3, every order"),
        (("--prompt=0-original,1-short", "--samples=2"), "(every order) set_accuracy"),
        (("--shots=1",), "1 shot, every order"),
        (("--explain",), "explain, every order"),
    ],
)
def test_rotations_go_with_the_other_settings(
    options: tuple[str, ...],
    label: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", PAIRS, "--model=random", "--rotate=all", "--limit=8", "--run=first", *options]) == 0
    assert label in " ".join(capsys.readouterr().out.split())
    counted = {m["name"]: m["n"] for m in written(Path("reports/first"))["measures"] if not m["slice"]}
    assert {n for name, n in counted.items() if name.endswith(("individual_accuracy", "consistency", "bias"))} == {8}


def test_a_rotated_baseline_without_responses_knows_equal_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", PAIRS, "--rotate=2", "--model=random", "--run=first"]) == 0
    assert main(["baseline", "reports/first", "--no-responses", "-o", "first.medvqa"]) == 0
    capsys.readouterr()
    another(Path("reports/first"), "second")
    assert main(["gate", "reports/second", "--baseline=first.medvqa", "--margin=5"]) == 0
    assert "gate: PASS" in "".join(capsys.readouterr())
