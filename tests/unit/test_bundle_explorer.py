"""The columns that the explorer filters and counts by: their sums are those of metrics.json."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import metrics, report
from medvqa.benchmarks import gmai_mmbench, table_files
from medvqa.benchmarks.recorded import RecordedFile
from medvqa.items import OUTCOMES, Answer, Item, Judgement, Result, Score
from medvqa.report import bundle
from medvqa.report.bundle import explorer, facts
from medvqa.report.bundle.pictures import Pictures
from medvqa.tags import lexicon
from support import pages, written
from support.bundles import BundleReader
from support.laws import examples
from support.runs import record

NO_PICTURES = Pictures("none", "")


def read_run(folder: Path) -> BundleReader:
    return BundleReader(bundle.of_run(report.build(folder, pages.PHANTOM), NO_PICTURES))


def tags(read: BundleReader, dimension: int) -> list[list[int]]:
    """The values of each question or result."""
    offsets, values = (read.columns[f"tags/{dimension}.{part}"] for part in ("offsets", "values"))
    return [values[start:end] for start, end in pairwise(offsets)]


def benchmark_of(read: BundleReader, place: int) -> str:
    """The name of the benchmark of a result."""
    return str(read.row(place)["row"]["key"]["benchmark"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    folder = pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())
    return report.write(report.build(folder, pages.PHANTOM))


@pytest.fixture(scope="module")
def stored(made: report.Report) -> list[dict]:
    return json.loads((made.folder / "metrics.json").read_text())["measures"]


@pytest.fixture(scope="module")
def read(made: report.Report) -> BundleReader:
    return BundleReader(bundle.of_run(made, NO_PICTURES))


def test_the_terms_of_a_value_add_up_to_its_slice_of_metrics_json(read: BundleReader, stored: list[dict]) -> None:
    question = read.columns["results.question"]
    terms = list(zip(read.columns["results.numerator"], read.columns["results.denominator"], strict=True))
    checked = 0
    for number, about in enumerate(read.head["benchmarks"]):
        measures = {
            tuple(m["slice"].items()): m
            for m in stored
            if (m["benchmark"], m["name"]) == (about["name"], about["score"])
        }
        mine = [r for r, q in enumerate(question) if read.columns["questions.benchmark"][q] == number]
        for place in about["dimensions"]:
            dimension, tagged = read.head["dimensions"][place], tags(read, place)
            of_questions = dimension["of"] == "questions"
            for value, named in enumerate(dimension["values"]):
                chosen = [terms[r] for r in mine if value in tagged[question[r] if of_questions else r]]
                count, n = (math.fsum(each) for each in zip(*chosen, strict=True)) if chosen else (0.0, 0.0)
                measure = measures.get(((dimension["name"], named["value"]),), {"n": 0, "count": 0})
                assert (n, count) == (measure["n"], pytest.approx(measure["count"], abs=1e-9))
                checked += n > 0
    assert checked > 50


def test_samples_and_prompts_of_a_question_add_up_to_one(tmp_path: Path) -> None:
    single = [r for r in pages.guesses() if r.item.benchmark == "phantom-mediconfusion"]
    thrice = [replace(result, sample=k) for result in single for k in (1, 2, 3)]
    once, sampled = (
        BundleReader(
            bundle.of_run(report.build(pages.write(tmp_path / name, each, **about), pages.PHANTOM), NO_PICTURES)
        )
        for name, each, about in (("once", single, {}), ("thrice", thrice, {"repeat": 3}))
    )
    for name in ("numerator", "denominator"):
        assert math.fsum(sampled.columns[f"results.{name}"]) == pytest.approx(
            math.fsum(once.columns[f"results.{name}"])
        )


def test_a_slice_alone_has_the_interval_of_metrics_json(read: BundleReader, stored: list[dict]) -> None:
    bounds = 0
    for about in read.head["benchmarks"]:
        known = {
            tuple(m["slice"].items()): [m["low"], m["high"]]
            for m in stored
            if (m["benchmark"], m["name"], m["technique"]) == (about["name"], about["score"], "mc")
            and m["low"] is not None
        }
        told = {}
        for branch, interval in about["intervals"].get("mc", {}).items():
            place, _, value = branch.partition(".")
            dimension = read.head["dimensions"][int(place)] if place else None
            told[((dimension["name"], dimension["values"][int(value)]["value"]),) if dimension else ()] = interval
        assert told == known
        bounds += len(told)
    assert bounds > 20


def test_every_answer_is_there_whole(read: BundleReader, made: report.Report) -> None:
    results = [result for part in made.parts for result in part.results]
    # Times are in single precision.
    told = [read.row(r) | {"seconds": 0} for r in range(len(read.answers))]
    wanted = [written.expected(result) | {"seconds": 0} for result in results]
    assert len(told) == len(wanted)
    assert [row for row in told if row not in wanted] == []


def test_questions_stand_by_their_ids_numbers_by_value(tmp_path: Path) -> None:
    items = [replace(pages.guesses()[0].item, id=id) for id in ("q10", "q2", "Q1", "a")]
    guess = pages.guesses()[0]
    folder = pages.write(tmp_path / "run", [replace(guess, item=item) for item in items])
    read = read_run(folder)
    assert [read.row(r)["row"]["key"]["item"] for r in range(4)] == ["Q1", "a", "q2", "q10"]


def test_a_value_is_selected_by_the_lexicons_own_expression(read: BundleReader) -> None:
    for dimension in read.head["dimensions"]:
        for value in dimension["values"]:
            assert f"lexicon({value['select']})" == lexicon.expression({dimension["name"]: value["value"]})


# ---- pairs -----------------------------------------------------------------------------------------------------------


def test_the_verdicts_of_pairs_are_those_of_metrics_json(read: BundleReader, stored: list[dict]) -> None:
    of = {m["name"]: m for m in stored if m["benchmark"] == "phantom-mediconfusion" and not m["slice"]}
    pairs = {
        read.columns["questions.pair"][question]: read.columns["results.verdict"][place]
        for place, question in enumerate(read.columns["results.question"])
        if benchmark_of(read, place) == "phantom-mediconfusion"
    }.values()
    valid = [verdict for verdict in pairs if not verdict & (explorer.INVALID | explorer.INCOMPLETE)]
    assert of["set_accuracy"]["count"] == sum(bool(verdict & explorer.BOTH_RIGHT) for verdict in pairs)
    assert of["set_accuracy"]["n"] == sum(not verdict & explorer.INCOMPLETE for verdict in pairs)
    assert of["confusion"]["count"] == sum(bool(verdict & explorer.CONFUSED) for verdict in valid)
    assert of["confusion"]["n"] == len(valid)
    others = [
        place
        for place in range(len(read.columns["results.verdict"]))
        if benchmark_of(read, place) != "phantom-mediconfusion"
    ]
    assert {read.columns["results.verdict"][place] for place in others} == {0}


def answered(id: str, key: str, read: str, outcome: str, **about: object) -> Result:
    item = Item(id, "b", "single_choice", "?", {"A": "a", "B": "b"}, (key,), pair_id="pair")
    score = Score(None if outcome in ("error", "unscored") else float(outcome == "correct"), outcome, tuple(read))
    return replace(Result("r", item, "", Answer(read), score), **about)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (("A", "A", "correct"), ("B", "B", "correct"), explorer.BOTH_RIGHT),
        (("A", "A", "correct"), ("B", "A", "wrong"), explorer.CONFUSED),
        (("A", "B", "wrong"), ("B", "A", "wrong"), explorer.NEITHER_RIGHT),
        (("A", "A", "correct"), ("B", "C", "wrong"), explorer.ONE_RIGHT),
        (("A", "", "unparsed"), ("B", "B", "correct"), explorer.INVALID),
        (("A", "", "error"), ("B", "B", "correct"), explorer.INCOMPLETE),
        (("A", "A", "correct"), ("A", "A", "correct"), explorer.BOTH_RIGHT | explorer.CONFUSED),
    ],
)
def test_a_pair_is_judged_by_both_answers(first: tuple, second: tuple, verdict: int) -> None:
    pair = [answered("1", *first), answered("2", *second)]
    assert verdicts([(0, result) for result in pair]) == [verdict, verdict]
    assert verdicts([(0, pair[0])]) == [explorer.INCOMPLETE]
    assert verdicts([(0, pair[0]), (0, pair[1]), (0, pair[1])]) == [explorer.INCOMPLETE] * 3
    # Answers of other runs, samples and techniques are none of its answers.
    apart = [(0, pair[0]), (1, pair[1]), (0, replace(pair[1], sample=1)), (0, replace(pair[1], technique="ps"))]
    assert set(verdicts(apart)) == {explorer.INCOMPLETE}


def verdicts(results: Iterable[tuple[int, Result]]) -> list[int]:
    made = explorer.Verdicts()
    for run, result in results:
        made.add(run, result)
    return list(made.bits)


ANSWERS = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from(["A", "B", ""]), st.sampled_from(OUTCOMES)), min_size=2, max_size=2
)


@given(ANSWERS)
@examples(100)
def test_the_verdict_agrees_with_set_accuracy_and_confusion(pair: list[tuple[str, str, str]]) -> None:
    results = [answered(str(place), *each) for place, each in enumerate(pair)]
    verdict, same = verdicts([(0, result) for result in results])
    assert verdict == same
    right, scored = metrics.set_accuracy.terms(results)
    confused, valid = metrics.confusion.terms(results)
    assert bool(verdict & explorer.INCOMPLETE) == (not scored)
    assert bool(verdict & explorer.BOTH_RIGHT) == bool(scored and right)
    assert bool(verdict & explorer.CONFUSED) == bool(scored and valid and confused)


# ---- marks -----------------------------------------------------------------------------------------------------------


def test_truncated_and_judged_answers_are_marked() -> None:
    one = pages.guesses()[0]
    cut = replace(one, answer=replace(one.answer, finish="length"))
    said = replace(one, judgement=Judgement("judge", "judging/score@1", "score", ("5",)))
    assert list(map(explorer.marks, (one, cut, said))) == [0, explorer.TRUNCATED, explorer.JUDGED]
    assert explorer.marks(replace(cut, technique="ps")) == 0
    assert explorer.marks(replace(one, answer=None)) == 0


# ---- commands --------------------------------------------------------------------------------------------------------


def command(benchmark: object, typed: list[str], **about: object) -> str:
    (head,) = json.loads(written.blocks_of(benchmark, [], command=typed, **about)["head"])["benchmarks"]
    return str(head["command"])


def test_a_command_line_says_what_else_was_typed() -> None:
    typed = facts.command(
        record({"options": {"model": "replay:my file.json"}, "extraction": "official", "ablation": "blank"})
    )
    assert command(gmai_mmbench.VAL, typed) == (
        "pytest '--model=replay:my file.json' --ablate=blank --extraction=official "
        "--benchmark=gmai-mmbench-val --data=DIR"
    )


def test_the_command_names_the_file_that_declares_a_benchmark(tmp_path: Path) -> None:
    about = record({"benchmarks": {"klinik": {"declared": {"file": "my data/klinik.toml"}}, "other": {"declared": {}}}})
    benchmark = table_files.recorded("klinik", RecordedFile(sha256="0"))
    line = command(benchmark, ["pytest", "--model=random"], declared=facts.declaring_files(about))
    assert line == "pytest --model=random '--benchmark=my data/klinik.toml'"
    (tmp_path / "klinik.toml").write_text('file = "a.csv"')
    tree = BundleReader(bundle.of_tree([(table_files.read(tmp_path / "klinik.toml"), ())]))
    assert tree.head["benchmarks"][0]["command"] == "pytest --model=MODEL --benchmark=klinik.toml"


def test_a_recovered_key_is_asked_for_where_there_is_one() -> None:
    typed = facts.command(record(options={"model": "echo:A", "answers_from_category": True}))
    assert "--answers-from-category" not in command(gmai_mmbench.VAL, typed)
    assert command(gmai_mmbench.TEST, typed) == (
        "pytest --model=echo:A --answers-from-category --benchmark=gmai-mmbench-test --data=DIR"
    )


def test_each_answer_of_several_prompts_is_filed_under_its_prompt() -> None:
    one = replace(pages.guesses()[0], technique="mc")
    results = [replace(one, variant=variant) for variant in ("short", "long", "short+r2")]
    benchmark = pages.PHANTOM[one.item.benchmark]
    read = BundleReader(written.blocks_of(benchmark, results))
    (place,) = [place for place, dimension in enumerate(read.head["dimensions"]) if dimension["name"] == "prompt"]
    assert read.head["dimensions"][place]["of"] == "results"
    assert [read.row(r)["tags"]["prompt"] for r in range(3)] == [["short"], ["long"], ["short"]]
