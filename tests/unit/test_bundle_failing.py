"""Where a run fails: slices, matrices and positions are counted from the results that metrics.json counts."""

import json
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import figures, metrics, report
from medvqa.items import SCORED_OUTCOMES, Answer, Benchmark, Item, Measure, Result, Score
from medvqa.judging import taxonomy
from medvqa.report.build import Part
from medvqa.report.bundle import confused_options, failing, texts
from medvqa.report.bundle.page_blocks import Block, MatrixBlock, QuestionsBlock, TableBlock, TextBlock
from support import pages
from support.laws import examples

OUTCOMES = ("correct", "wrong", "partial", "refused", "abstained", "unparsed", "unscored", "error")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    folder = pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())
    return report.write(report.build(folder, pages.PHANTOM))


LINK = partial(texts.questions, "b", "")


def by_position(results: list[Result]) -> MatrixBlock | None:
    return confused_options.matrix_by_position(results, LINK)


def by_text(results: list[Result]) -> MatrixBlock | None:
    return confused_options.matrix_by_text(results, LINK)


def counts_of(matrix: MatrixBlock | None) -> dict[tuple[str, str], float]:
    """The fields of a matrix by the titles of row and column."""
    fields = () if matrix is None else matrix.fields
    return {(matrix.rows[f.row].title, matrix.columns[f.column].title): f.figure.value for f in fields}


def positions_of(results: list[Result]) -> dict[str, tuple[float, ...]]:
    """Offered, correct, chosen, and correct where chosen, by position."""
    rows = confused_options.positions(results, LINK).rows
    return {row[0]: (row[1], row[3].count, row[2].count, row[4].count) for row in rows}


def blocks_of(made: report.Report) -> list[Block]:
    return failing.failing_section(made).blocks


def answered(
    key: str, read: str, outcome: str = "", *, id: str = "q", options: str = "AB", kind: str = "single_choice"
) -> Result:
    """An answer to a question whose options say the same as their letters."""
    offered = {letter: f"text {letter}" for letter in options}
    item = Item(id, "b", kind, "?", offered, tuple(key))
    outcome = outcome or ("correct" if key == read else "wrong")
    return Result("r", item, "", Answer(read), Score(float(outcome == "correct"), outcome, tuple(read)))


@st.composite
def choices(draw: st.DrawFn) -> list[Result]:
    """Answers to choice questions and judgments of every sort, some of them to one question."""
    made = []
    for number in range(draw(st.integers(0, 60))):
        kind = draw(st.sampled_from(["single_choice"] * 4 + ["multiple_response", "judgment", "short_answer"]))
        options = "ABCD"[: draw(st.integers(2, 4))] if kind in ("single_choice", "multiple_response") else ""
        letters = st.text(options or "YN", min_size=0 if kind == "single_choice" else 1, max_size=2)
        key, read = draw(letters), draw(letters)
        outcome = draw(st.sampled_from(["correct", "wrong", "wrong", *OUTCOMES]))
        item = Item(f"q{number // draw(st.integers(1, 2))}", "b", kind, "?", dict.fromkeys(options, "x"), tuple(key))
        item = replace(item, options={letter: draw(st.sampled_from("vw")) for letter in options})
        made.append(Result("r", item, "", Answer(read), Score(None, outcome, tuple(read)), sample=number))
    return made


@given(choices())
@examples(200)
def test_rows_and_columns_of_a_matrix_add_up_to_the_answers(results: list[Result]) -> None:
    kinds = confused_options.CHOICE_KINDS
    for made, asked_kinds in ((by_position, kinds), (by_text, (*kinds, "judgment"))):
        matrix = made(results)
        asked = [result for result in results if result.item.kind in asked_kinds]
        if matrix is None:
            continue
        left_out = sum(map(int, re.findall(r"(\d+) (?:to|that|without)", " ".join(matrix.notes[1:]))))
        assert sum(counts_of(matrix).values()) + left_out == len(asked)
        for place, row in enumerate(matrix.rows):
            fields = [field for field in matrix.fields if field.row == place]
            total = sum(field.figure.value for field in fields)
            assert {field.figure.n for field in fields} == {total}
            assert row.note == figures.counted(total, confused_options.unit_of(results))


@given(choices())
@examples(200)
def test_a_row_of_a_matrix_holds_the_answers_to_the_questions_of_its_key(results: list[Result]) -> None:
    scored = [
        result
        for result in results
        if result.item.kind == "single_choice"
        and result.score.outcome in SCORED_OUTCOMES
        and len(result.item.answers) == 1
    ]
    found = counts_of(by_position(results))
    rows = Counter[str]()
    for (row, _), number in found.items():
        rows[row] += number
    assert rows == Counter(result.item.answers[0] for result in scored)
    reads = Counter(
        (result.item.answers[0], result.score.extracted[0])
        for result in scored
        if result.score.outcome not in confused_options.INVALID_OUTCOMES
        and len(result.score.extracted) == 1
        and result.score.extracted[0] in result.item.options
    )
    assert {place: number for place, number in found.items() if place[1] in "ABCD"} == reads


@given(choices())
@examples(100)
def test_positions_count_what_was_offered_correct_and_chosen(results: list[Result]) -> None:
    scored = [
        result
        for result in results
        if result.item.kind in confused_options.CHOICE_KINDS and result.score.outcome in SCORED_OUTCOMES
    ]
    found = positions_of(results)
    assert found.keys() == {letter for result in scored for letter in result.item.options}
    for letter, row in found.items():
        offered = [result for result in scored if letter in result.item.options]
        chosen = [result for result in offered if letter in result.score.extracted]
        correct = [result for result in offered if letter in result.item.answers]
        hits = [result for result in chosen if result in correct]
        assert row == tuple(map(len, (offered, correct, chosen, hits)))


def test_letters_count_what_was_offered_correct_and_chosen_in_an_example() -> None:
    results = [
        answered("A", "A", id="1"),
        answered("B", "A", id="2"),
        answered("B", "", "unparsed", id="3"),
        answered("A", "C", id="4", options="ABC"),
        answered("A", "A", "error", id="5"),
    ]
    assert positions_of(results) == {"A": (4, 2, 2, 1), "B": (4, 2, 0, 0), "C": (1, 0, 1, 0)}
    table = confused_options.positions(results, LINK)
    assert table.texts[0] == ["A", "4", "2/4", "2/4", "1/2"]
    assert table.about[0].links[2] == "#questions?b=b&q=read%3AA+-outcome%3Aerror"
    assert confused_options.positions([answered("A", "A", "error")], LINK).rows == ()


def test_a_matrix_says_where_each_field_leads_and_what_it_leaves_out() -> None:
    results = [
        *(answered("A", "A", id=f"a{n}") for n in range(10)),
        *(answered("A", "B", id=f"b{n}") for n in range(10)),
        answered("B", "", "unparsed", id="c"),
        answered("B", "AB", id="d"),
        answered("AB", "A", "partial", id="e", kind="multiple_response"),
        answered("A", "", "error", id="f"),
        answered("", "A", "unscored", id="g"),
    ]
    matrix = by_position(results)
    assert [column.title for column in matrix.columns] == ["A", "B", "other", "unparsed"]
    fields = {(field.row, field.column): field for field in matrix.fields}
    # Two questions are no reason for a colour.
    assert {place: (f.figure.shown, f.framed, f.step) for place, f in fields.items()} == {
        (0, 0): ("10", True, 3),
        (0, 1): ("10", False, 3),
        (1, 2): ("1", False, 0),
        (1, 3): ("1", False, 0),
    }
    end = " kind:single_choice -outcome:error,unscored"
    assert fields[0, 1].link == LINK(f"key:A read:B{end}")
    assert fields[1, 3].link == LINK(f"key:B outcome:unparsed{end}")
    assert fields[1, 2].link == ""
    assert [row.link for row in matrix.rows] == [LINK(f"key:A{end}"), LINK(f"key:B{end}")]
    assert matrix.notes[1] == (
        "Left out, answers: 1 to multiple-response questions; 1 that ended in an error; 1 without a score."
    )


def test_samples_of_few_questions_give_no_colour() -> None:
    results = [replace(answered("A", "B", id=f"q{n % 3}"), sample=n) for n in range(60)]
    [field] = by_position(results).fields
    assert (field.figure.shown, field.figure.units, field.step) == ("60", "60 answers", 0)


def test_many_positions_share_one_row_and_one_column() -> None:
    letters = [f"{number:02}" for number in range(40)]
    options = dict.fromkeys(letters, "x")
    results = []
    for number, letter in enumerate(letters):
        item = Item(f"q{number}", "b", "single_choice", "?", options, (letter,))
        results.append(Result("r", item, "", Answer(""), Score(0.0, "wrong", (letters[-1 - number],))))
    matrix, most = by_position(results), confused_options.MOST
    assert len(matrix.rows) == len(matrix.columns) == most + 1
    assert (matrix.rows[-1].title, matrix.rows[-1].note) == (f"{40 - most} further", f"{40 - most} questions")
    assert matrix.rows[-1].link == ""
    assert f"{40 - most} further positions not shown." in confused_options.positions(results, LINK).notes


@given(st.dictionaries(st.sampled_from(["", "A", "__proto__", "constructor", "\u202e", "0"]), st.text(), min_size=1))
@examples(50)
def test_any_text_may_be_an_option(options: dict[str, str]) -> None:
    results = []
    for number, letter in enumerate(options):
        item = Item(f"q{number}", "b", "single_choice", "?", options, (letter,))
        results.append(Result("r", item, "", Answer(""), Score(1.0, "correct", (letter,))))
    assert sum(counts_of(by_position(results)).values()) == len(options)


def test_positions_are_those_that_the_model_saw() -> None:
    # In the second order, the text of A stands under B.
    results = [replace(answered("A", "A"), variant="r1"), replace(answered("A", "A"), variant="r2")]
    assert {letter: chosen for letter, (_, _, chosen, _) in positions_of(results).items()} == {"A": 1, "B": 1}
    assert [row.title for row in by_position(results).rows] == ["A", "B"]


def test_words_that_many_questions_share_have_a_matrix() -> None:
    def judged(key: str, read: str, number: int) -> Result:
        item = Item(f"q{number}", "b", "judgment", "?", {}, (key,))
        outcome = "correct" if key.lower().strip() == read else "wrong"
        return Result("r", item, "", Answer(read), Score(0.0, outcome, (read,)))

    results = [judged(("Yes", "No ")[n % 2], ("yes", "no")[n % 3 == 0], n) for n in range(40)]
    matrix = by_text(results)
    assert [(row.title, row.note) for row in matrix.rows] == [("No", "20 questions"), ("Yes", "20 questions")]
    links = {(field.row, field.column): field.link for field in matrix.fields}
    assert links[0, 1] == LINK("key_text:No read_text:Yes")
    right = sum(result.score.outcome == "correct" for result in results)
    assert sum(field.figure.value for field in matrix.fields if field.framed) == right
    # Each of the other options is correct in one question.
    rare = [answered("A", "A", id=f"r{n}") for n in range(100)]
    rare = [replace(r, item=replace(r.item, options={"A": f"text {n}", "B": "b"})) for n, r in enumerate(rare)]
    assert by_text(rare) is None
    assert by_text([*rare, *results]) is None
    few = by_text([*rare[:20], *results])
    assert [row.title for row in few.rows] == ["No", "Yes", "20 further"]


def test_texts_of_options_are_compared_without_case_and_space() -> None:
    assert confused_options.plain("  Left \n LUNG ") == "left lung"


# ---- worst slices ----------------------------------------------------------------------------------------------------


def measured(values: dict[str, tuple[float, float, float]], better: str = "higher", **more: object) -> Part:
    """A part with one measure over the slices of a modality."""
    metric = replace(metrics.accuracy, better=better)
    benchmark = Benchmark(name="b", items=lambda data: [], metrics=(metric,), dimensions=("modality",))
    items = [Item(f"{name}{n}", "b", tags={"modality": (name,)}) for name in values for n in range(20)]
    results = tuple(Result("r", item, "", Answer(""), Score(1.0, "correct")) for item in items)
    overall = Measure("b", "accuracy", 0.5, 0.4, 0.6, len(items), 1, units=len(items), groups=len(items))
    sliced = [
        Measure("b", "accuracy", value, low, high, 20, 10, slice={"modality": name}, units=20, groups=20)
        for name, (value, low, high) in values.items()
    ]
    return Part("b", benchmark, "mc", results, (overall, *sliced), ())


VALUES = {"wide": (0.3, 0.1, 0.7), "bad": (0.35, 0.3, 0.4), "good": (0.9, 0.8, 0.95), "fair": (0.5, 0.45, 0.55)}


def test_slices_are_ranked_by_the_upper_bound() -> None:
    [found] = failing.worst(measured(VALUES), LINK)
    # A slice that is as good as the whole is no place where the run fails.
    assert [(row[0], row[2].tone) for row in found.rows] == [("bad", "worse"), ("wide", "")]
    assert found.notes == (
        "Exploratory: 4 slices compared, by the upper bound of the 95 % interval. Intervals wholly below the overall "
        "value: 1; equal slices would have 1 of 40 by chance.",
    )
    assert found.about[0].links == {0: LINK("modality:bad")}
    assert found.rows[0][2].levels == {"whole": 0.5}


def test_a_measure_of_which_less_is_better_is_turned() -> None:
    [found] = failing.worst(measured(VALUES, "lower"), LINK)
    assert [(row[0], row[2].tone) for row in found.rows] == [("good", "worse")]
    assert "Intervals wholly above the overall value: 1;" in found.notes[0]


def test_slices_without_an_interval_are_counted_and_not_ranked() -> None:
    part = measured(VALUES)
    bare = [replace(m, low=None, high=None, groups=3) if m.slice.get("modality") == "bad" else m for m in part.measures]
    bare = [replace(m, units=9) if m.slice.get("modality") == "good" else m for m in bare]
    [found] = failing.worst(replace(part, measures=tuple(bare)), LINK)
    assert [row[0] for row in found.rows] == ["wide"]
    assert found.notes[1] == "2 slices without an interval are not ranked."


def test_a_slice_of_every_question_is_no_slice_and_equal_slices_are_one() -> None:
    part = measured({"ct": (0.3, 0.2, 0.4), "mr": (0.45, 0.4, 0.6)})
    benchmark = replace(part.benchmark, dimensions=("modality", "organ", "language"))
    organs = {"ct": "lung", "mr": "brain"}
    results = tuple(
        replace(r, item=replace(r.item, tags={**t, "organ": (organs[t["modality"][0]],), "language": ("en",)}))
        for r in part.results
        for t in [r.item.tags]
    )
    more = [replace(m, slice={"organ": organs[m.slice["modality"]]}) for m in part.measures if m.slice]
    whole = replace(part.measures[0], slice={"language": "en"})
    [found] = failing.worst(
        replace(part, benchmark=benchmark, results=results, measures=(*part.measures, *more, whole)), LINK
    )
    assert [row[0] for row in found.rows] == ["CT", "mr"]
    notes = [about.note.partition("the same questions: ")[2] for about in found.about]
    assert notes == ["lung (organ)", "brain (organ)"]
    assert found.notes[0].startswith("Exploratory: 2 slices compared")


def test_a_matrix_has_the_accuracy_of_metrics_json(made: report.Report) -> None:
    stored = json.loads((made.folder / "metrics.json").read_text())["measures"]
    [accuracy] = [
        measure
        for measure in stored
        if (measure["benchmark"], measure["name"], measure["slice"]) == ("phantom-gmai-mmbench", "accuracy", {})
    ]
    [part] = [part for part in made.parts if part.benchmark.name == "phantom-gmai-mmbench"]
    fields = by_position(list(part.results)).fields
    assert sum(field.figure.value for field in fields) == accuracy["n"]
    assert sum(field.figure.value for field in fields if field.framed) == accuracy["count"]


def test_techniques_stand_apart_and_lead_to_their_own_questions(tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "first", pages.twice(), techniques=["mc", "ps"])
    found = blocks_of(report.build(folder, pages.PHANTOM))
    chosen = [block for block in found if isinstance(block, QuestionsBlock)]
    assert [block.title.rpartition(" ")[2] for block in chosen] == ["mc", "ps", "mc", "ps", "mc"]
    for block in chosen:
        assert all(f"&technique={block.title.rpartition(' ')[2]}&" in choice.link for choice in block.chosen)
    tabs = {block.tabs for block in found if isinstance(block, TableBlock | MatrixBlock)}
    assert {place for place, _ in tabs} <= {block.title for block in chosen}


def test_a_folder_without_results_has_no_part(tmp_path: Path) -> None:
    assert blocks_of(report.build(pages.write(tmp_path / "none", []), pages.PHANTOM)) == []


def test_pairs_are_counted_by_their_verdict(made: report.Report) -> None:
    [block] = failing.pairs_section(made).blocks
    counts = {choice.title: choice.count for choice in block.chosen}
    measures = {m.name: m for part in made.parts for m in part.measures if m.unit == "pairs" and not m.slice}
    assert block.total == measures["set_accuracy"].n == 36
    assert counts["both right"] == measures["set_accuracy"].count
    assert counts["same answer to both questions"] == measures["confusion"].count
    assert block.chosen[1].link == "#questions?b=phantom-mediconfusion&q=pair%3Aconfused&layout=pairs"


# ---- kinds of errors -------------------------------------------------------------------------------------------------


def classified(folder: Path, results: list[Result], benchmark: str, limit: int) -> report.Report:
    """A run with kinds of the first wrong answers of one benchmark, two kinds in turn."""
    pages.write(folder, results)
    tree = taxonomy.shipped("gmai-mmbench")
    own = [result for result in results if result.item.benchmark == benchmark]
    wrong, _ = taxonomy.wrong_answers(own)
    kinds = list(tree.kinds)
    labels = tuple(taxonomy.label_of(result, kinds[place % 2], "judge") for place, result in enumerate(wrong[:limit]))
    taxonomy.write(
        folder,
        taxonomy.Classified(
            taxonomy.digest(wrong),
            {benchmark: tree},
            {benchmark: taxonomy.ErrorSample(len(wrong), len(labels), "", {})},
            labels,
            taxonomy.ErrorJudge("referee", "referee@1", "kinds@1", images=False),
            limit=limit,
        ),
        (),
    )
    return report.build(folder, pages.PHANTOM)


def test_kinds_of_errors_are_tags_and_have_links(tmp_path: Path) -> None:
    made = classified(tmp_path / "first", pages.guesses(), "phantom-gmai-mmbench", 20)
    found = blocks_of(made)
    [overall] = [block for block in found if isinstance(block, TableBlock) and block.title == "Kinds of errors"]
    counts = {row.cells[1]: row.cells[3].value for row in overall.rows}
    assert sorted(counts.values())[-2:] == [10, 10]
    tags = failing.tags_of(made)
    tagged = Counter(
        kind for part in made.parts for result in part.results for kind in tags(result).get(failing.KIND_OF_ERROR, ())
    )
    assert tagged == {kind: number for kind, number in counts.items() if number}
    row = overall.rows[0]
    assert row.links == {"1": texts.questions("phantom-gmai-mmbench", "", texts.query({"kind of error": row.cells[1]}))}
    assert row.cells[4].startswith("20 of ")
    assert any(isinstance(block, TextBlock) and "20 of" in " ".join(block.lines) for block in found)


def test_stale_kinds_of_errors_are_told_and_not_shown(tmp_path: Path) -> None:
    classified(tmp_path / "first", pages.guesses(), "phantom-gmai-mmbench", 20)
    pages.write(tmp_path / "first", pages.marked(pages.guesses()[:30], right=False))
    found = blocks_of(report.build(tmp_path / "first", pages.PHANTOM))
    assert not [block for block in found if isinstance(block, TableBlock) and "Kinds" in block.title]
    assert isinstance(found[-1], TextBlock)
    assert "repeat medvqa classify" in found[-1].lines[0]


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("HTTP 503 after 12.5 s at 12:31:07", "HTTP # after # s at #"),
        ("request req 8f14e45f-ceea-467f and 0xdeadbeef1", "request req # and #"),
        ("image  slake/12.png\nis missing", "image slake/#.png is missing"),
        ("decade", "decade"),
        ("", "no reason"),
        ("x" * 500, "x" * 159 + "…"),
    ],
)
def test_numbers_and_identifiers_in_the_reason_of_an_error_are_masked(why: str, text: str) -> None:
    assert failing.masked(why) == text


def test_errors_are_grouped_by_their_reasons_and_can_be_selected_by_them(tmp_path: Path) -> None:
    results = [r for r in pages.guesses() if r.item.benchmark == "phantom-gmai-mmbench"][:40]
    for place in range(27):
        why = f"the server said 503 after {place}.5 s" if place < 13 else f"{chr(97 + place)}: no such image"
        results[place] = replace(results[place], answer=None, score=Score(None, "error", (), why))
    built = report.build(pages.write(tmp_path / "first", results), pages.PHANTOM)
    outcomes, reasons, *_ = blocks_of(built)
    assert (outcomes.total, outcomes.chosen[-1].title, outcomes.chosen[-1].count) == (40, "error", 27)
    first, *_, last = reasons.chosen
    assert (first.title, first.count) == ("the server said # after # s", 13)
    name = "phantom-gmai-mmbench"
    assert first.link == texts.questions(name, "", '"error message":"the server said # after # s"')
    assert (len(reasons.chosen), last.title, last.count, last.link) == (failing.MOST + 1, "other reasons", 3, "")
    tags = failing.tags_of(built)
    assert Counter(tags(each).get(failing.ERROR_MESSAGE) for each in results)[(first.title,)] == 13
    assert {bool(tags(each)) for each in results[27:]} == {False}


# ---- links -----------------------------------------------------------------------------------------------------------


def test_a_query_quotes_what_the_query_line_would_split() -> None:
    terms = {"outcome": "wrong", "kind of error": 'a "b" \\', "x": "1,2"}
    assert texts.query(terms) == 'outcome:wrong "kind of error":"a \\"b\\" \\\\" x:"1,2"'
    assert texts.query_of("ability+question_type", "counting+judgment") == "ability:counting question_type:judgment"
    assert texts.query_of("Outcome", "x") == "tag_Outcome:x"


def test_a_link_opens_the_questions_of_one_benchmark_and_technique() -> None:
    assert texts.questions("b c", "mc", "modality:ct") == "#questions?b=b+c&technique=mc&q=modality%3Act"
    assert texts.questions("b", unit="pairs") == "#questions?b=b&layout=pairs"


def test_the_page_and_its_links_keep_the_same_names_for_their_own_fields() -> None:
    source = (Path(__file__).parents[2] / "web" / "src" / "table.ts").read_text()
    [names] = re.findall(r"const OWN = \[(.*?)\];", source, re.DOTALL)
    assert set(re.findall(r'"(\w+)"', names)) == texts.FIELDS
