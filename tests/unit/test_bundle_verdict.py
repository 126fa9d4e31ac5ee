"""The first section of a page: its status, its sentences and its warnings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import metrics, printing, report
from medvqa.items import Answer, Benchmark, FailedMetric, Item, Measure, Prompt, Result, Score
from medvqa.report import sentences, terminal
from medvqa.report.bundle import gate, scorecard, verdict
from medvqa.report.bundle.page_blocks import HeadlineBlock, NoticeBlock, TableBlock, TextBlock
from support import pages
from support.laws import examples


@pytest.fixture(scope="module")
def gapped(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    """A run with a gap to its blank run."""
    from medvqa import comparing
    from medvqa.comparing import blank

    shown, without = pages.ablated(tmp_path_factory.mktemp("reports"))
    blank.write(shown, blank.against(comparing.load(shown), comparing.load(without), pages.PHANTOM))
    return report.write(report.build(shown, pages.PHANTOM))


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    return report.write(report.build(pages.gated(tmp_path_factory.mktemp("reports")), pages.PHANTOM))


@given(st.floats(0, 1))
@examples(300)
def test_a_rounded_share_is_near_and_never_0_or_100_by_rounding(value: float) -> None:
    shown = sentences.rounded(value)
    if shown.startswith(("<", ">")):
        assert 0 < value < 1
        return
    assert abs(float(shown) - 100 * value) <= 0.0501
    if shown in ("0", "100"):
        assert value in (0, 1)


@given(st.floats(-1, 1))
@examples(100)
def test_a_rounded_difference_has_its_sign(value: float) -> None:
    shown = sentences.rounded(value, sign=True)
    assert shown.startswith("+") == (value > 0)
    assert shown.startswith("\u2212") == (value < 0)


# ---- sentences -------------------------------------------------------------------------------------------------------


def answered(n: int, right: int, **changes: object) -> list[Result]:
    """Single-choice questions, of which the first `right` are right."""
    made = []
    for i in range(n):
        item = Item(f"{i:04}", "ward", "single_choice", "?", {"A": "a", "B": "b", "C": "c", "D": "d"}, ("ABCD"[i % 4],))
        score = Score(float(i < right), "correct" if i < right else "wrong", ("A",))
        made.append(replace(Result("r", item, "", Answer("A"), score), **changes))
    return made


def ward(**changes: object) -> Benchmark:
    def unused(item: Item, answer: Answer) -> Score:
        raise NotImplementedError

    fields = {"metrics": (metrics.accuracy, *metrics.rates), **changes}
    return Benchmark(name="ward", items=lambda data: [], prompt=lambda item, way: Prompt(""), score=unused, **fields)


def told(folder: Path, results: list[Result], benchmark: Benchmark | None = None, **about: object) -> str:
    """The sentence of a run."""
    made = report.build(pages.write(folder, results, **about), {"ward": benchmark or ward()})
    (sentence,) = sentences.sentences(made)
    return sentence.text


def test_a_sentence_says_measure_interval_units_and_answers_that_do_not_look(tmp_path: Path) -> None:
    assert told(tmp_path / "r", answered(40, 30)) == (
        "ward: 75 % of single-choice questions right, 95 % interval 59.1 to 86.2 (40 questions). Without looking: "
        "chance 25 %. The whole interval is better than these."
    )


def test_a_result_like_chance_is_not_called_better(tmp_path: Path) -> None:
    text = told(tmp_path / "r", answered(40, 12))
    assert "The interval reaches the best of these: not shown to be better." in text
    worse = told(tmp_path / "worse", answered(40, 1))
    assert "The whole interval is worse than the best of these." in worse


def test_few_units_are_counts(tmp_path: Path) -> None:
    assert told(tmp_path / "r", answered(7, 5)).startswith(
        "ward: 5 of 7 single-choice questions right, too few for a percentage. Without looking: chance 25 %"
    )


def test_the_most_frequent_answer_is_named_if_it_beats_chance(tmp_path: Path) -> None:
    results = answered(40, 30)
    skewed = [replace(r, item=replace(r.item, answers=("B",))) if i % 4 else r for i, r in enumerate(results)]
    assert "chance 25 %, most frequent answer 75 %. The interval reaches the best of these" in told(
        tmp_path / "r", skewed
    )


def test_a_users_metric_says_its_name_and_direction(tmp_path: Path) -> None:
    @metrics.metric(better="lower")
    def length(result: Result) -> float:
        """Mean number of characters."""
        return 12.0 + int(result.item.id) % 3

    text = told(tmp_path / "r", answered(40, 30), ward(metrics=(length,), headline=("length",)))
    assert text.startswith("ward: length (less is better) 12.97, 95 % interval ")
    assert text.endswith("(40 questions).")

    made = report.build(tmp_path / "r", {"ward": ward(metrics=(length,), headline=("length",))})
    assert status_of(made).sentences[0].meaning == "Mean number of characters."
    accuracy = replace(length, name="accuracy")
    named = told(tmp_path / "named", answered(40, 30), ward(metrics=(accuracy,), headline=("accuracy",)))
    assert named.startswith("ward: accuracy (less is better) 12.97"), "the name alone does not lend the shipped words"


def test_a_selected_part_is_named(tmp_path: Path) -> None:
    selection = {"how": ["--limit=40"], "questions": 40, "benchmarks": {"ward": {"mc": {"chosen": 40, "of": 900}}}}
    text = told(tmp_path / "r", answered(40, 30), selection=selection)
    assert "(40 questions), from a part of the benchmark: 40 of 900, by --limit=40." in text


def test_questions_chosen_by_an_outcome_have_no_number(tmp_path: Path) -> None:
    selection = {
        "how": ["--lf"],
        "by_outcome": True,
        "questions": 40,
        "benchmarks": {"ward": {"mc": {"chosen": 40, "of": 900}}},
    }
    text = told(tmp_path / "r", answered(40, 30), selection=selection)
    assert text == "ward: no number: an earlier outcome chose these questions (--lf)."


def test_a_run_without_scores_has_no_number(tmp_path: Path) -> None:
    unscored = answered(12, 0, score=Score(None, "unscored"))
    assert told(tmp_path / "r", unscored) == "ward: no number: none of 12 answers has a score."


def test_groups_that_are_too_few_have_no_interval(tmp_path: Path) -> None:
    grouped = [replace(r, item=replace(r.item, cluster_id=str(i % 2))) for i, r in enumerate(answered(40, 30))]
    assert "right, no interval: 2 independent groups (40 questions)." in told(tmp_path / "r", grouped)


def test_a_vote_and_an_ablation_are_named_in_the_title(tmp_path: Path) -> None:
    samples = [replace(r, sample=k) for r in answered(40, 30) for k in (1, 2)]
    assert told(tmp_path / "v", samples, repeat=2, protocol={"combine": "vote"}).startswith("ward (vote of 2): 75 %")
    assert told(tmp_path / "b", answered(40, 30), ablation="blank").startswith("ward (blank images): 75 %")


@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sets(st.sampled_from(["random", "image_blind"]), min_size=1),
    st.booleans(),
)
@examples(200)
def test_an_interval_is_better_only_if_all_of_it_is(
    one: float, other: float, level: float, names: set[str], less: bool
) -> None:
    low, high = sorted((one, other))
    measure = Measure(
        "b", "m", (low + high) / 2, low, high, 40, 20, references=dict.fromkeys(names, level), units=40, groups=40
    )
    standing = sentences._standing(measure, less=less)
    assert (standing == "open") == (low <= level <= high)
    if standing == "above":
        assert high < level if less else low > level
    if standing == "below":
        assert low > level if less else high < level


def test_summary_md_begins_with_the_sentences(gapped: report.Report) -> None:
    lines = (gapped.folder / "summary.md").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("- "))
    assert lines[first].startswith("- Phantom in GMAI-MMBench's format: 80.6 % of single-choice questions right")
    assert first < next(i for i, line in enumerate(lines) if line.startswith("|"))


# ---- status and warnings ---------------------------------------------------------------------------------------------


def status_of(made: report.Report) -> HeadlineBlock:
    first = verdict.verdict_section(made, "").blocks[0]
    assert isinstance(first, HeadlineBlock)
    return first


def notices(made: report.Report) -> list[NoticeBlock]:
    return [block for block in verdict.verdict_section(made, "").blocks if isinstance(block, NoticeBlock)]


def status(folder: Path, results: list[Result], **about: object) -> HeadlineBlock:
    return status_of(report.build(pages.write(folder, results, **about), {"ward": ward()}))


def chosen(number: int, of: int, questions: int) -> dict:
    return {"how": ["--limit=9"], "questions": questions, "benchmarks": {"ward": {"mc": {"chosen": number, "of": of}}}}


def test_the_status_says_what_is_there_of_what(tmp_path: Path) -> None:
    results = answered(12, 6, run="whole")
    whole = status(tmp_path / "whole", results, selection=chosen(12, 12, 12))
    assert (whole.state, whole.title, whole.lines) == ("good", "Complete", ("all 12 questions have a result",))
    part = status(tmp_path / "part", answered(12, 6, run="part"), selection=chosen(12, 90, 12))
    assert (part.state, part.title) == ("part", "Complete for a part of the data")
    assert part.lines == ("12 questions have a result", "selected 12 of 90, by --limit=9")
    cut = status(tmp_path / "cut", answered(12, 6, run="cut"), selection=chosen(30, 30, 30))
    assert (cut.state, cut.lines[0]) == ("open", "12 of 30 questions have a result")
    assert "the numbers will change" in cut.title
    old = status(tmp_path / "old", results, finished="2026-01-02T03:06:05+00:00")
    assert (old.state, old.title) == ("part", "12 questions have a result")


def test_questions_that_no_technique_asks_are_a_part_too(tmp_path: Path) -> None:
    left = {"ward": {"mc": {"short_answer": 30}}}
    found = status(tmp_path / "run", answered(12, 6, run="run"), selection=chosen(12, 12, 12), left_out=left)
    assert found.state == "part"
    assert "30 questions left out: technique mc is not defined for their kind" in found.lines
    both = [replace(r, technique=way) for way in ("mc", "ps") for r in answered(12, 6, run="both")]
    left = {"ward": {"ps": {"multiple_response": 30}}}
    found = status(tmp_path / "both", both, selection=chosen(12, 12, 24), left_out=left)
    assert (found.state, found.lines[0]) == ("good", "all 24 answers are there")
    assert "30 questions left out: technique ps is not defined for their kind" in found.lines


def failing_last(results: list[Result], number: int) -> list[Result]:
    """The results, of which the last ones ended in error."""
    error = Score(None, "error", (), "the server said 503")
    return [*results[:-number], *(replace(each, answer=None, score=error) for each in results[-number:])]


@pytest.mark.parametrize(
    ("errors", "state", "title"), [(27, "bad", "26.2 % without a score"), (1, "part", "1 % without a score")]
)
def test_a_run_with_errors_is_not_complete(tmp_path: Path, errors: int, state: str, title: str) -> None:
    results = failing_last(answered(103, 50, run="run"), errors)
    about = {"selection": chosen(103, 103, 103), "sessions": [{"stopped": "50 errors in a row"}]}
    found = status(tmp_path / "run", results, **about)
    assert (found.state, found.title) == (state, title)
    assert found.lines == (f"{errors} of 103 items ended in error", "stopped: 50 errors in a row")


def test_errors_of_one_part_are_told_apart(tmp_path: Path) -> None:
    """A part that is lost makes the run red, though it is a small share of all results."""
    other = replace(ward(), name="other", title="Other")
    small = [replace(each, item=replace(each.item, benchmark="other")) for each in answered(20, 10, run="run")]
    results = [*answered(980, 500, run="run"), *failing_last(small, 10)]
    built = report.build(pages.write(tmp_path / "run", results), {"ward": ward(), "other": other})
    found = status_of(built)
    assert (found.state, found.title) == ("bad", "1 % without a score")
    assert found.lines[:2] == ("10 of 1,000 items ended in error", "Other: 10 of 20 items ended in error")


def test_a_sentence_counts_the_questions_with_a_score_of_those_asked(tmp_path: Path) -> None:
    assert "(76 of 103 questions)" in told(tmp_path / "run", failing_last(answered(103, 50, run="run"), 27))
    few = told(tmp_path / "few", failing_last(answered(8, 4, run="few"), 3))
    assert "too few for a percentage; 5 of 8 questions have a score." in few


def test_questions_that_a_measure_never_counts_are_not_lost_to_it(tmp_path: Path) -> None:
    judged = [
        replace(each, item=replace(each.item, id=f"j{each.item.id}", kind="judgment"))
        for each in answered(10, 0, run="run")
    ]
    results = [*failing_last(answered(40, 20, run="run"), 5), *failing_last(judged, 10)]
    scored = replace(ward(), score=lambda item, answer: Score(0.0, "wrong"))
    assert "(35 of 40 questions)" in told(tmp_path / "run", results, scored)


def test_why_a_run_stopped_and_its_errors_stand_before_its_numbers(tmp_path: Path) -> None:
    results = failing_last(answered(103, 50, run="run"), 27)
    about = {"selection": chosen(103, 110, 110), "sessions": [{"stopped": "25 errors in a row, the last: <b>"}]}
    folder = pages.write(tmp_path / "run", results, **about)
    built = report.write(report.build(folder, {"ward": ward()}))
    lines = [
        "stopped: 25 errors in a row, the last: <b>",
        "unfinished: 103 of 110 questions have a result",
        "26.2 % without a score: 27 of 103 items ended in error",
    ]
    assert terminal.summary(built, width=100).splitlines()[:3] == [f"! {line}" for line in lines]
    bold = [line for line in (folder / "summary.md").read_text().splitlines() if line.startswith("**")]
    assert bold == [f"**{printing.markdown(line)}**" for line in lines]


def test_invalid_answers_truncation_and_errors_are_warnings_and_the_rest_are_notes(tmp_path: Path) -> None:
    results = answered(40, 20, run="run")
    results[30:33] = [replace(r, score=Score(0.0, "unparsed")) for r in results[30:33]]
    results[33] = replace(results[33], score=Score(0.0, "refused"))
    results[34] = replace(results[34], answer=Answer("A", finish="length"))
    results[35] = replace(results[35], answer=None, score=Score(None, "error", (), "the server said 500"))
    sessions = [{"reused": 10, "asked": 30}]
    made = report.build(
        pages.write(tmp_path / "run", results, selection=chosen(40, 90, 40), sessions=sessions), {"ward": ward()}
    )
    invalid = notices(made)[-1]
    assert invalid.text == (
        "ward: of 40 answers 1 refused (the model declines), 3 unparsed (no option can be read); they count as wrong."
    )
    assert invalid.link == "#questions?b=ward&q=outcome%3Arefused%2Cunparsed"
    texts = [notice.text for notice in notices(made)]
    assert any("1 of 39 answers were cut off" in text for text in texts)
    assert any("ended in error" in text for text in texts)
    assert not any("selected 40 of 90" in text for text in texts), "the status says it"
    assert status_of(made).lines[-1] == "Answers: 10 stored ones reused, 30 asked for."
    assert not [block for block in verdict.verdict_section(made, "").blocks if isinstance(block, TextBlock)]
    assert [note.text for note in report.notes.noted(made)] == report.notes_of(made)


@pytest.mark.parametrize(("ablation", "got"), [("text-only", "no images"), ("blank", "grey pictures"), ("", "")])
def test_a_control_is_called_one(tmp_path: Path, ablation: str, got: str) -> None:
    made = report.build(pages.write(tmp_path / "run", answered(12, 6), ablation=ablation), {"ward": ward()})
    text = " ".join(notice.text for notice in notices(made))
    assert got in text
    assert ("These numbers are a control" in text) == bool(ablation)


def test_failed_metrics_have_their_reason(tmp_path: Path) -> None:
    made = report.build(pages.write(tmp_path / "run", answered(12, 6)), {"ward": ward()})
    part = replace(made.parts[0], failed=(FailedMetric("long_answer", "conftest.py:3: TypeError"),))
    (table,) = scorecard.scorecard_section(replace(made, parts=(part,))).blocks
    failed = table.rows[-1]
    assert (failed.cells[:2], failed.note) == (["long_answer", "failed"], "conftest.py:3: TypeError")


def test_the_components_of_variance_come_along(tmp_path: Path) -> None:
    samples = [replace(r, sample=k) for r in answered(40, 30) for k in (1, 2, 3, 4)]
    made = report.build(pages.write(tmp_path / "run", samples, repeat=4), {"ward": ward()})
    table = scorecard.scorecard_section(made).blocks[-1]
    assert table.title.startswith("Variance components")


# ---- the gate --------------------------------------------------------------------------------------------------------


def test_the_gate_has_its_rules_and_what_they_leave_out(gated: report.Report) -> None:
    assert gated.gate is not None
    section = gate.gate_section(gated.gate)
    head, rules = section.blocks[:2]
    assert (head.title, head.state) == ("Gate: FAIL against main, flip_icc 0.1", "bad")
    assert any("the rules were not stored before the first answer" in line for line in head.lines)
    assert any("attempt 1 in this folder against main; planned: 1 (--looks)." in line for line in head.lines)
    stored = json.loads((gated.folder / "metrics.json").read_text())["gate"]
    why = {entry["why"] for entry in stored["entries"]}
    assert isinstance(rules, TableBlock)
    assert {row.note for row in rules.rows} <= why
    blocked = replace(gated.gate.verdict, outcome=None, entries=(), blockers=("<bdi>q1</bdi>: no result",))
    head, *_ = gate.gate_section(replace(gated.gate, verdict=blocked)).blocks
    assert (head.title, head.state, head.lines[0]) == (
        "Gate: no verdict against main",
        "bad",
        "<bdi>q1</bdi>: no result",
    )


def test_hostile_texts_stay_values(tmp_path: Path) -> None:
    benchmark, results = pages.hostile()
    made = report.build(pages.write(tmp_path / "run", pages.harmless(results)), {"strange": benchmark})
    assert status_of(made).sentences[0].title == pages.HOSTILE[0]
    assert scorecard.scorecard_section(made).blocks[0].rows[0].group == pages.HOSTILE[0]


def test_a_run_of_drawn_images_says_that_they_show_no_patients(gapped: report.Report) -> None:
    assert notices(gapped)[0].text.startswith("The images are drawn by a program; they show no patients.")
    clinical = replace(gapped.parts[0].benchmark, name="clinic", title="Clinic", origin=None)
    mixed = replace(gapped, parts=(replace(gapped.parts[0], benchmark=clinical), *gapped.parts))
    assert notices(mixed)[0].text.startswith("The images of Phantom in ")
    own = replace(gapped, parts=(replace(gapped.parts[0], benchmark=clinical),))
    assert not any("drawn by a program" in notice.text for notice in notices(own))
