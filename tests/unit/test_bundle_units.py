"""All questions and results of a comparison: flips that a reader derives are those of comparing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import comparing, metrics
from medvqa.comparing import Side, Study
from medvqa.items import Answer, Benchmark, Image, Item, Prompt, Result, Score
from medvqa.report import bundle, html
from medvqa.report.bundle import packing
from support.bundles import BundleReader
from support.laws import examples
from support.runs import record


def score(item: Item, answer: Answer) -> Score:
    right = answer.text[:1] in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text[:1],), f"read {answer.text[:1]}")


SINGLE = Benchmark(
    name="single",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=score,
    metrics=(metrics.accuracy, metrics.invalid_rate),
    headline=("accuracy", "invalid_rate"),
)
PAIRS = replace(
    SINGLE,
    name="pairs",
    metrics=(metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion),
    headline=("set_accuracy", "individual_accuracy", "confusion"),
)
KNOWN = {"single": SINGLE, "pairs": PAIRS}


def asked(number: int, benchmark: str) -> Item:
    pair = str(number // 2) if benchmark == "pairs" else None
    return Item(
        f"q{number}",
        benchmark,
        "single_choice",
        f"Which? {number}",
        {"A": "a", "B": "b"},
        ("AB"[number % 2],),
        (Image(f"{number}.png", digest=f"{number}"),),
        {},
        pair_id=pair,
    )


def answers(texts: Sequence[str], benchmark: str, sample: int = 0) -> list[Result]:
    """An answer for each text: E ends in error, - is not asked, x is unparsed."""
    made = []
    for item, text in zip((asked(number, benchmark) for number in range(len(texts))), texts, strict=True):
        if text == "E":
            made.append(Result("run", item, "", None, Score(None, "error"), sample=sample))
        elif text != "-":
            known = score(item, Answer(text)) if text[0] in "AB" else Score(0.0, "unparsed", (), "names no option")
            made.append(Result("run", item, "", Answer(text), known, sample=sample))
    return made


def side(name: str, results: Sequence[Result], **signature: str) -> Side:
    about = {"signature": {"data": "1", **signature}, "prompts": {"mc": "plain@1"}}
    return Side(
        name,
        record({"model": {"name": name, "fingerprint": name}, "benchmarks": dict.fromkeys(KNOWN, about)}),
        tuple(metrics.latest(results)),
    )


def reader(study: Study) -> BundleReader:
    return BundleReader(bundle.of_comparison(study, KNOWN, html.Pictures("none", "")))


TEXTS = st.lists(st.sampled_from("AAABBBE-x"), min_size=6, max_size=6)


@st.composite
def sides(draw: st.DrawFn) -> list[Side]:
    """Runs that lack questions or scores, some with samples; the last may be off the board."""

    def drawn(name: str, **signature: str) -> Side:
        samples = draw(st.sampled_from([(0,), (1, 2)]))
        results = [result for kind in KNOWN for k in samples for result in answers(draw(TEXTS), kind, k)]
        return side(name, [*results, *answers(["A"], "single", samples[0])], **signature)

    made = [drawn(f"m{place}") for place in range(draw(st.integers(2, 4)))]
    return [*made, drawn("m0 blank", ablation="blank")] if draw(st.booleans()) else made


@given(sides())
@examples(60)
def test_flips_derived_from_the_bundle_are_those_of_the_comparison(runs: list[Side]) -> None:
    study = comparing.study(runs, KNOWN)
    if not study.comparable:
        return
    read = reader(study)
    for place in range(len(study.scales)):
        units = range(len(read.columns[f"units/{place}.questions.offsets"]) - 1)
        first = [min(read.listed(f"units/{place}.questions", unit)) for unit in units]
        assert first == sorted(first)  # as the questions stand: q2 before q10
    for versus, pair in zip(study.versus, read.head["pairs"], strict=True):
        if versus.refusals:
            continue
        told = Counter(read.flips(pair["new"], pair["baseline"]))
        assert told == Counter((flip.benchmark, flip.metric, flip.unit, flip.better) for flip in versus.paired.flips)
        listed = {(scale.benchmark, scale.metric) for scale in study.scales}
        for row in versus.paired.tables:
            key = (row.benchmark, row.metric)
            if row.headline and not row.slice and key in listed:
                ways = Counter(better for name, measure, _, better in told.elements() if (name, measure) == key)
                assert (ways[True], ways[False]) == (row.comparison.gained, row.comparison.lost)


@given(sides())
@examples(60)
def test_a_bundle_holds_every_result_of_its_runs_question_by_question(runs: list[Side]) -> None:
    study = comparing.study(runs, KNOWN)
    if not study.comparable:
        return
    read = reader(study)
    compared = {name.name for v in study.versus if not v.refusals for name in (v.paired.new, v.paired.baseline)}
    wanted = Counter(
        (run.name, *result.key, result.score.outcome, result.score.why, result.answer.text if result.answer else None)
        for run in study.aligned
        if run.name in compared
        for result in run.results
    )
    told = Counter()
    for r, run in enumerate(read.columns["results.run"]):
        row = read.row(r)
        key = row["row"]["key"]
        told[
            (
                read.head["runs"][run]["name"],
                *(key[name] for name in ("benchmark", "item", "technique", "variant", "sample")),
                *(row["row"]["outcome"], row["row"]["why"], row["response"]),
            )
        ] += 1
    assert told == wanted
    order = list(zip(read.columns["results.question"], read.columns["results.run"], strict=True))
    assert order == sorted(order)


def several(*texts: str) -> Study:
    runs = [side(f"m{k}", answers([f"{letter}{text}" for letter in "AB"], "single")) for k, text in enumerate(texts)]
    return comparing.study(runs, KNOWN)


def test_long_responses_are_cut_and_say_so_only_in_large_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    study = several(" is right" * 100, "")
    whole = reader(study)
    assert "cut" not in whole.head
    assert max(len(each["response"]) for each in whole.answers) == 901
    monkeypatch.setattr(packing, "WHOLE", 1000)
    cut = reader(study)
    assert cut.head["cut"] == packing.CUT
    assert [(len(each["response"]), each.get("left_out", 0)) for each in cut.answers] == [(300, 601), (1, 0)] * 2
    assert [each["why"] for each in cut.answers] == [each["why"] for each in whole.answers]


def test_too_many_results_leave_out_their_texts_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_TEXTS", 3)
    read = reader(several("", ""))
    assert read.answers == []
    assert len(read.columns["results.run"]) == 4
    assert "4 results of 2 runs" in read.head["left_out"]
    assert "medvqa view" in read.head["left_out"]
