"""Where a run fails: slices, matrices and positions are counted from the results that metrics.json counts."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import figures, metrics, report
from medvqa.items import SCORED_OUTCOMES, Answer, Benchmark, Item, Measure, Result, Score
from medvqa.judging import taxonomy
from medvqa.report.build import Part
from medvqa.report.bundle import failing, texts
from support import pages
from support.laws import examples

OUTCOMES = ("correct", "wrong", "partial", "refused", "abstained", "unparsed", "unscored", "error")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    folder = pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())
    return report.write(report.build(folder, pages.PHANTOM))


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
    for by, kinds in (("position", failing.CHOICE_KINDS), ("text", (*failing.CHOICE_KINDS, "judgment"))):
        matrix = getattr(failing, f"matrix_by_{by}")(results)
        asked = [result for result in results if result.item.kind in kinds]
        if matrix is None:
            continue
        assert matrix.count + sum(each.count for each in matrix.left_out) == len(asked)
        assert sum(row.count for row in matrix.rows) == matrix.count == sum(column.count for column in matrix.columns)
        for row in matrix.rows:
            assert sum(field.count for field in row.fields) == row.count
        for place, column in enumerate(matrix.columns):
            assert sum(row.fields[place].count for row in matrix.rows) == column.count


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
    counts = Counter(result.item.answers[0] for result in scored)
    matrix = failing.matrix_by_position(results)
    assert {row.label: row.count for row in (matrix.rows if matrix else ())} == counts
    reads = Counter(
        (result.item.answers[0], result.score.extracted[0])
        for result in scored
        if result.score.outcome not in failing.INVALID_OUTCOMES
        and len(result.score.extracted) == 1
        and result.score.extracted[0] in result.item.options
    )
    fields = {
        (row.label, column.label): field.count
        for row in (matrix.rows if matrix else ())
        for column, field in zip(matrix.columns, row.fields, strict=True)
        if column.option
    }
    assert {place: count for place, count in fields.items() if count} == reads


@given(choices())
@examples(100)
def test_positions_count_what_was_offered_correct_and_chosen(results: list[Result]) -> None:
    scored = [
        result
        for result in results
        if result.item.kind in failing.CHOICE_KINDS and result.score.outcome in SCORED_OUTCOMES
    ]
    found = failing.positions(results)
    rows = {row.letter: row for row in (found.rows if found else ())}
    assert rows.keys() == {letter for result in scored for letter in result.item.options}
    for letter, row in rows.items():
        offered = [result for result in scored if letter in result.item.options]
        chosen = [result for result in offered if letter in result.score.extracted]
        correct = [result for result in offered if letter in result.item.answers]
        hits = [result for result in chosen if result in correct]
        assert (row.offered, row.chosen, row.correct, row.hits) == tuple(map(len, (offered, chosen, correct, hits)))


def test_letters_count_what_was_offered_correct_and_chosen_in_an_example() -> None:
    results = [
        answered("A", "A", id="1"),
        answered("B", "A", id="2"),
        answered("B", "", "unparsed", id="3"),
        answered("A", "C", id="4", options="ABC"),
        answered("A", "A", "error", id="5"),
    ]
    found = failing.positions(results)
    assert [(row.letter, row.offered, row.correct, row.chosen, row.hits) for row in found.rows] == [
        ("A", 4, 2, 2, 1),
        ("B", 4, 2, 0, 0),
        ("C", 1, 0, 1, 0),
    ]
    assert found.unit == "questions"
    assert failing.positions([answered("A", "A", "error")]) is None


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
    matrix = failing.matrix_by_position(results)
    assert [column.label for column in matrix.columns] == ["A", "B", "other", "unparsed"]
    first, second = matrix.rows
    assert [field.count for field in first.fields] == [10, 10, 0, 0]
    assert [field.level for field in first.fields] == [3, 3, 0, 0]
    assert [field.share for field in first.fields] == ["50", "50", "0", "0"]
    # Two questions are no reason for a colour or a percentage.
    assert [(field.count, field.level, field.share) for field in second.fields if field.count] == [(1, 0, "")] * 2
    end = " kind:single_choice -outcome:error,unscored"
    assert first.fields[1].query == f"key:A read:B{end}"
    assert second.fields[3].query == f"key:B outcome:unparsed{end}"
    assert second.fields[2].query == ""
    assert (first.right, second.right) == (0, 1)
    assert {each.label: each.count for each in matrix.left_out} == {
        "to multiple-response questions": 1,
        "that ended in an error": 1,
        "without a score": 1,
    }


def test_samples_of_few_questions_give_no_colour() -> None:
    results = [replace(answered("A", "B", id=f"q{n % 3}"), sample=n) for n in range(60)]
    [row] = failing.matrix_by_position(results).rows
    assert (row.fields[1].count, row.fields[1].level, row.fields[1].share) == (60, 0, "")
    assert failing.matrix_by_position(results).unit == "answers"


def test_many_positions_share_one_row_and_one_column() -> None:
    letters = [f"{number:02}" for number in range(40)]
    options = dict.fromkeys(letters, "x")
    results = []
    for number, letter in enumerate(letters):
        item = Item(f"q{number}", "b", "single_choice", "?", options, (letter,))
        results.append(Result("r", item, "", Answer(""), Score(0.0, "wrong", (letters[-1 - number],))))
    matrix = failing.matrix_by_position(results)
    assert (len(matrix.rows), matrix.folded) == (failing.MOST + 1, 40 - failing.MOST)
    assert matrix.rows[-1].label == f"{matrix.folded} further"
    assert matrix.rows[-1].right == -1
    assert matrix.rows[-1].count == matrix.folded
    assert failing.positions(results).folded == 40 - failing.MOST


@given(st.dictionaries(st.sampled_from(["", "A", "__proto__", "constructor", "\u202e", "0"]), st.text(), min_size=1))
@examples(50)
def test_any_text_may_be_an_option(options: dict[str, str]) -> None:
    results = []
    for number, letter in enumerate(options):
        item = Item(f"q{number}", "b", "single_choice", "?", options, (letter,))
        results.append(Result("r", item, "", Answer(""), Score(1.0, "correct", (letter,))))
    matrix = failing.matrix_by_position(results)
    assert sum(row.count for row in matrix.rows) == len(options)


def test_positions_are_those_that_the_model_saw() -> None:
    # In the second order, the text of A stands under B.
    results = [replace(answered("A", "A"), variant="r1"), replace(answered("A", "A"), variant="r2")]
    assert [(row.letter, row.chosen) for row in failing.positions(results).rows] == [("A", 1), ("B", 1)]
    assert [row.label for row in failing.matrix_by_position(results).rows] == ["A", "B"]


def test_words_that_many_questions_share_have_a_matrix() -> None:
    def judged(key: str, read: str, number: int) -> Result:
        item = Item(f"q{number}", "b", "judgment", "?", {}, (key,))
        outcome = "correct" if key.lower().strip() == read else "wrong"
        return Result("r", item, "", Answer(read), Score(0.0, outcome, (read,)))

    results = [judged(("Yes", "No ")[n % 2], ("yes", "no")[n % 3 == 0], n) for n in range(40)]
    matrix = failing.matrix_by_text(results)
    assert [row.label for row in matrix.rows] == ["No", "Yes"]
    assert [row.count for row in matrix.rows] == [20, 20]
    assert matrix.rows[0].fields[1].query == "key_text:No read_text:Yes"
    right = sum(result.score.outcome == "correct" for result in results)
    assert sum(row.fields[row.right].count for row in matrix.rows) == right
    # Each of the other options is correct in one question.
    rare = [answered("A", "A", id=f"r{n}") for n in range(100)]
    rare = [replace(r, item=replace(r.item, options={"A": f"text {n}", "B": "b"})) for n, r in enumerate(rare)]
    assert failing.matrix_by_text(rare) is None
    assert failing.matrix_by_text([*rare, *results]) is None
    few = failing.matrix_by_text([*rare[:20], *results])
    assert [row.label for row in few.rows] == ["No", "Yes", "20 further"]


def test_texts_of_options_are_compared_without_case_and_space() -> None:
    assert failing.plain("  Left \n LUNG ") == "left lung"


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
    [found] = failing.worst(measured(VALUES))
    # A slice that is as good as the whole is no place where the run fails.
    assert [(row.title, row.beyond) for row in found.rows] == [("bad", True), ("wide", False)]
    assert (found.ranked, found.unranked, found.beyond) == (4, 0, 1)
    assert found.notes[0].startswith("Exploratory: 4 slices compared, by the upper bound")
    assert found.notes[1].startswith("Intervals wholly below the overall value: 1;")


def test_a_measure_of_which_less_is_better_is_turned() -> None:
    [found] = failing.worst(measured(VALUES, "lower"))
    assert [(row.title, row.beyond) for row in found.rows] == [("good", True)]
    assert "Intervals wholly above the overall value: 1;" in found.notes[1]


def test_slices_without_an_interval_stand_apart() -> None:
    part = measured(VALUES)
    bare = [replace(m, low=None, high=None, groups=3) if m.slice.get("modality") == "bad" else m for m in part.measures]
    bare = [replace(m, units=9) if m.slice.get("modality") == "good" else m for m in bare]
    [found] = failing.worst(replace(part, measures=tuple(bare)))
    assert [row.title for row in found.rows] == ["wide"]
    assert [(row.title, row.cell.interval) for row in found.apart] == [
        ("bad", "no interval: 3 independent groups"),
        ("good", ""),
    ]
    assert found.unranked == 2


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
        replace(part, benchmark=benchmark, results=results, measures=(*part.measures, *more, whole))
    )
    assert [(row.cell.slice, row.same) for row in found.rows] == [
        ({"modality": "ct"}, ["lung (organ)"]),
        ({"modality": "mr"}, ["brain (organ)"]),
    ]
    assert found.ranked == 2
    assert "Not compared: 1 value that every measured question has." in found.notes


def test_every_slice_of_a_headline_measure_is_ranked_apart_or_counted(made: report.Report) -> None:
    stored = json.loads((made.folder / "metrics.json").read_text())["measures"]
    values = {(m["benchmark"], m["technique"], m["name"], json.dumps(m["slice"])): m for m in stored}
    for part in made.parts:
        dimensions = {*part.benchmark.dimensions, "kind"}
        for found in failing.worst(part):
            rows = [*found.rows, *found.apart]
            for row in rows:
                measure = values[part.benchmark.name, part.technique, found.measure, json.dumps(row.cell.slice)]
                assert [row.cell.value, row.cell.low, row.cell.high, row.cell.n] == [
                    measure[name] for name in ("value", "low", "high", "n")
                ]
                for name in row.same:
                    [same] = [
                        other
                        for other in stored
                        if other["name"] == found.measure
                        and other["benchmark"] == part.benchmark.name
                        and other["slice"]
                        for [place] in [other["slice"].items()]
                        if name == f"{texts.title_of(*place)} ({texts.label(place[0])})"
                    ]
                    assert (same["value"], same["n"]) == (row.cell.value, row.cell.n)
            assert len(found.apart) == found.unranked
            named = {place for row in rows for place in row.cell.slice.items()}
            assert {dimension for dimension, _ in named} <= dimensions
            bounds = [row.cell.high if found.better == "higher" else -row.cell.low for row in found.rows]
            assert bounds == sorted(bounds)


def test_a_matrix_has_the_accuracy_of_metrics_json(made: report.Report) -> None:
    stored = json.loads((made.folder / "metrics.json").read_text())["measures"]
    [accuracy] = [
        measure
        for measure in stored
        if (measure["benchmark"], measure["name"], measure["slice"]) == ("phantom-gmai-mmbench", "accuracy", {})
    ]
    [part] = [part for part in failing.failing(made).parts if part.benchmark == "phantom-gmai-mmbench"]
    [matrix] = [matrix for matrix in part.matrices if matrix.by == "position"]
    assert matrix.count == accuracy["n"]
    assert sum(row.fields[row.right].count for row in matrix.rows) == accuracy["count"]


def test_outcomes_are_those_of_metrics_json(made: report.Report) -> None:
    outcomes = json.loads((made.folder / "metrics.json").read_text())["outcomes"]
    for part in failing.failing(made).parts:
        assert {each.label: each.count for each in part.outcomes} == {
            name: count for name, count in outcomes[part.benchmark].items() if count and name != "correct"
        }


def test_techniques_stand_apart(tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "first", pages.twice(), techniques=["mc", "ps"])
    found = failing.failing(report.build(folder, pages.PHANTOM))
    assert [part.technique for part in found.parts] == ["mc", "ps", "mc", "ps", "mc"]


def test_a_folder_without_results_has_no_part(tmp_path: Path) -> None:
    found = failing.failing(report.build(pages.write(tmp_path / "none", []), pages.PHANTOM))
    assert (found.parts, found.kinds, found.unclassified) == ([], None, False)


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
    found = failing.failing(made)
    assert not found.unclassified
    overall, *_ = found.kinds.tables
    assert overall.dimension == ""
    counts = {row.cell.name: row.count for row in overall.rows}
    assert sorted(counts.values())[-2:] == [10, 10]
    tags = failing.tags_of(made)
    tagged = Counter(
        kind for part in made.parts for result in part.results for kind in tags(result).get(failing.KIND_OF_ERROR, ())
    )
    assert tagged == {kind: count for kind, count in counts.items() if count}
    row = overall.rows[0]
    assert row.query == texts.query({"kind of error": row.cell.name})
    assert row.classified.startswith("20 of ")
    assert "20 of" in " ".join(found.kinds.lines)


def test_stale_kinds_of_errors_are_told_and_not_shown(tmp_path: Path) -> None:
    classified(tmp_path / "first", pages.guesses(), "phantom-gmai-mmbench", 20)
    pages.write(tmp_path / "first", pages.marked(pages.guesses()[:30], right=False))
    found = failing.failing(report.build(tmp_path / "first", pages.PHANTOM))
    assert found.kinds.tables == []
    assert "repeat medvqa classify" in found.kinds.lines[0]


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
    [part] = failing.failing(built).parts
    first, *_, last = part.errors
    assert (first.label, first.count) == ("the server said # after # s", 13)
    assert first.query == '"error message":"the server said # after # s"'
    assert (len(part.errors), last.label, last.count, last.query) == (failing.MOST + 1, "other reasons", 3, "")
    tags = failing.tags_of(built)
    assert Counter(tags(each).get(failing.ERROR_MESSAGE) for each in results)[(first.label,)] == 13
    assert {bool(tags(each)) for each in results[27:]} == {False}


# ---- links -----------------------------------------------------------------------------------------------------------


def test_a_query_quotes_what_the_query_line_would_split() -> None:
    terms = {"outcome": "wrong", "kind of error": 'a "b" \\', "x": "1,2"}
    assert texts.query(terms) == 'outcome:wrong "kind of error":"a \\"b\\" \\\\" x:"1,2"'
    assert texts.query_of("ability+question_type", "counting+judgment") == "ability:counting question_type:judgment"
    assert texts.query_of("Outcome", "x") == "tag_Outcome:x"


def test_a_link_opens_the_questions_of_one_benchmark_and_technique() -> None:
    assert texts.link("b c", "mc", modality="ct") == "#questions?b=b+c&technique=mc&q=modality%3Act"
    assert texts.link("b") == "#questions?b=b"


def test_few_is_the_same_limit_everywhere() -> None:
    assert figures.FEW == 10, "the page says: fields with fewer than ten questions have no colour"


def test_the_page_and_its_links_keep_the_same_names_for_their_own_fields() -> None:
    source = (Path(__file__).parents[2] / "web" / "src" / "table.ts").read_text()
    [names] = re.findall(r"const own = \[(.*?)\];", source)
    assert set(re.findall(r'"(\w+)"', names)) == texts.FIELDS
