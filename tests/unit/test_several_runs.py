"""The page of several runs: its numbers are those of `medvqa compare --json`, and it says no more than they allow."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from medvqa import comparing, figures, metrics
from medvqa.cli import main
from medvqa.comparing import Ranked, Ranking, Side, Study
from medvqa.figures import FEW, Figure, chance
from medvqa.items import Benchmark, Result
from medvqa.records import run_folder
from medvqa.report import bundle, comparison, html
from medvqa.report.bundle import leaderboards, several_runs
from medvqa.report.bundle.leaderboards import Boards
from medvqa.report.bundle.page_blocks import (
    Block,
    FigureCell,
    HeadlineBlock,
    MatrixBlock,
    NoticeBlock,
    PageRow,
    PageSection,
    TableBlock,
    TextBlock,
)
from support import pages
from support.bundles import BundleReader
from support.runs import record

GMAI, PAIRS = "phantom-gmai-mmbench", "phantom-mediconfusion"
ABOUT = {name: {"signature": {"extraction": "sound"}, "prompts": {"mc": "x@1"}} for name in pages.PHANTOM}


def signed(**signature: str) -> dict[str, Any]:
    return {name: {**entry, "signature": {"extraction": "sound", **signature}} for name, entry in ABOUT.items()}


def of_pairs() -> list[Result]:
    return [result for result in pages.guesses() if result.item.benchmark == PAIRS]


def studied(*runs: Path, known: Mapping[str, Benchmark] = pages.PHANTOM) -> Study:
    return comparing.study(list(map(comparing.load, runs)), known)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return studied(*pages.several_runs(tmp_path_factory.mktemp("three")))


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Models, and two of them without the image."""
    return studied(*pages.committee(tmp_path_factory.mktemp("six")))


def sections(study: Study, known: Mapping[str, Benchmark] = pages.PHANTOM) -> dict[str, PageSection]:
    return {each.id: each for each in several_runs.sections(study, known, images="No images.")}


def of_kind(section: PageSection, kind: type[Block]) -> list[Any]:
    return [block for block in section.blocks if isinstance(block, kind)]


def by_title(block: TableBlock, row: PageRow) -> dict[str, Any]:
    """The cells of a row; numbers without a measure as numbers."""
    cells = (cell.value if isinstance(cell, FigureCell) and not cell.of else cell for cell in row.cells)
    return dict(zip((column.title for column in block.columns), cells, strict=True))


def every_figure(value: object) -> Iterator[FigureCell]:
    if isinstance(value, FigureCell):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from every_figure(getattr(value, name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from every_figure(each)


def said(sentence: Any) -> str:
    return "".join(word.text for word in sentence.words)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def slice_of(measure: Mapping[str, Any]) -> str:
    return "".join(f"{name}={value}" for name, value in measure["slice"].items())


def in_json(study: Study, folder: Path) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The measures of pairs and the runs of rankings, as `medvqa compare --json` has them."""
    run_folder.write_json(folder / "all.json", comparison.as_json(study))
    written = json.loads((folder / "all.json").read_text())
    pairs = {
        (each["new"], each["baseline"], row["benchmark"], row["technique"], row["name"], slice_of(row)): row
        for each in written["comparisons"]
        for row in each["measures"]
    }
    ranked = {
        (run["name"], each["benchmark"], each["technique"], each["name"]): run
        for each in written["rankings"]
        for run in each["runs"]
    }
    return pairs, ranked


@pytest.mark.parametrize("name", ["three", "six"])
def test_every_number_of_the_page_is_that_of_medvqa_compare(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    study: Study = request.getfixturevalue(name)
    pairs, ranked = in_json(study, tmp_path)
    between = {
        (pair.new, pair.baseline, each.benchmark, each.technique, each.metric): pair.compared
        for each in study.rankings
        for pair in each.pairs
    }
    sliced = {
        (study.sides[run].name, each.benchmark, each.technique, each.metric, f"{each.dimension}={value}"): own
        for each in study.sliced
        for value, figures in each.values.items()
        for run, own in zip(each.runs, figures, strict=True)
    }
    told = {"pair": 0, "between": 0, "run": 0, "slice": 0}
    drawn = sections(study)
    for cell in every_figure(list(drawn.values())):
        of = cell.of
        if not of:
            continue
        measure = (of["benchmark"], of["technique"], of["measure"])
        numbers = (cell.value, cell.low, cell.high)
        if "run" in of and "slice" in of:
            own = sliced[of["run"], *measure, of["slice"]]
            assert (*numbers, cell.n) == (own.value, own.low, own.high, own.n)
            told["slice"] += 1
        elif "run" in of:
            row = ranked[of["run"], *measure]
            names = ("rank", "best", "worst") if cell.value == row["rank"] else ("value", "low", "high")
            assert numbers == tuple(row[name] for name in names)
            told["run"] += 1
        elif (of["new"], of["baseline"], *measure, of.get("slice", "")) in pairs:
            row = pairs[of["new"], of["baseline"], *measure, of.get("slice", "")]
            # A run may leave units out, such as invalid pairs, that the other counts.
            counted = row.get("counted", {}).get(of["field"], row["units"])
            assert (cell.value, cell.n) == (row[of["field"]], counted)
            assert numbers[1:] == ((row["low"], row["high"]) if of["field"] == "difference" else (None, None))
            check_tone(cell, row["adjusted"], row["better"])
            told["pair"] += 1
        else:
            forward = between.get((of["new"], of["baseline"], *measure))
            compared = forward or between[of["baseline"], of["new"], *measure]
            seen = compared.shown
            wanted = (seen.difference, seen.low, seen.high)
            back = tuple(None if each is None else -each for each in (seen.difference, seen.high, seen.low))
            assert numbers == (wanted if forward else back)
            check_tone(cell, compared.adjusted, compared.better)
            told["between"] += 1
    assert min(told.values()) > 10
    assert told["pair"] > 500


def check_tone(cell: FigureCell, adjusted: float | None, better: str) -> None:
    """A difference is shown if its p is small and its units are not few."""
    if not cell.shown or cell.shown[0] not in "+\u2212":
        assert not cell.tone
        return
    sure = not cell.few and adjusted is not None and adjusted <= 0.05 and bool(cell.value)
    rises = (cell.value or 0) > 0
    assert cell.tone == ("" if not sure else "better" if rises == (better == "higher") else "worse")


def test_counts_and_p_values_of_a_row_are_those_of_medvqa_compare(three: Study, tmp_path: Path) -> None:
    pairs, _ = in_json(three, tmp_path)
    rows = 0
    for block in of_kind(sections(three)["pair-2"], TableBlock):
        for row in block.rows:
            cells = by_title(block, row)
            of = cells["difference"].of
            key = (of["new"], of["baseline"], of["benchmark"], of["technique"], of["measure"], of.get("slice", ""))
            wanted = pairs[key]
            ways = ("gained", "lost") if wanted["better"] == "higher" else ("lost", "gained")
            assert (cells["better"], cells["worse"]) == tuple(wanted[way] for way in ways)
            assert cells["groups"] == wanted["groups"]
            assert cells["adjusted p"] == wanted["adjusted"]
            assert row.cells[-1 if of.get("slice") else 7].shown == chance(wanted["adjusted"])
            if not of.get("slice"):
                assert cells["flipped groups"] == wanted["discordant_groups"]
                assert cells["detectable"] == (wanted["detectable"] if wanted["discordant_groups"] else None)
            rows += 1
    assert rows > 50


def test_a_number_is_printed_as_by_medvqa_compare(three: Study) -> None:
    """The table of headline measures, cell by cell."""
    paired = three.versus[1].paired
    blocks = iter(of_kind(sections(three)["pair-2"], TableBlock))
    for part in paired.parts:
        table = comparison.headline(comparison.measures_in(paired, part), tests=three.tests)
        block = next(blocks)
        printed = {row[0].replace("_", " "): dict(zip(table.headings, row, strict=True)) for row in table.texts}
        for row in block.rows:
            cells, wanted = by_title(block, row), printed[str(row.cells[0])]
            for name in ("baseline", "new", "difference"):
                assert cells[name].shown.replace("\u2212", "-") == wanted[name]
            assert cells["difference"].interval.replace("\u2212", "-") == wanted["95 % interval"]
            assert cells["difference"].units == wanted["n"]


def test_a_link_leads_to_as_many_flips_as_its_cell_counts(three: Study) -> None:
    scales = {(scale.benchmark, scale.technique, scale.metric): scale for scale in three.scales}
    places = {side.name: place for place, side in enumerate(three.sides)}
    items = {result.key.question: result.item for side in three.aligned for result in side.results}
    counted = 0
    for section in (sections(three)[name] for name in ("pair-1", "pair-2")):
        for block in of_kind(section, TableBlock):
            for row in block.rows:
                for place, link in row.links.items():
                    fields = {name: value for name, (value,) in parse_qs(link.partition("?")[2]).items()}
                    scale = scales[fields["b"], fields["technique"], fields["measure"]]
                    flip, *tags = fields["q"].split()
                    wanted = dict(tag.split(":", 1) for tag in tags)
                    ways = flip.removeprefix("flip:").split(",")
                    found = 0
                    for unit, values in zip(scale.units, scale.values.tolist(), strict=True):
                        change = values[places[fields["run"]]] - values[places[fields["against"]]]
                        if math.isnan(change) or change == 0:
                            continue
                        way = "better" if (change > 0) == (scale.better == "higher") else "worse"
                        tagged = any(
                            all(value.strip('"') in items[key].tags.get(name, ()) for name, value in wanted.items())
                            for key in unit
                        )
                        found += way in ways and tagged
                    cells = by_title(block, row)
                    counts = {name: cells[name] for name in ("better", "worse")}
                    assert found == sum(counts[way] for way in ways), link
                    assert place in {"0", "4", "5"}
                    counted += found
    assert counted > 100


def test_slices_are_sorted_by_the_largest_loss(three: Study) -> None:
    for block in of_kind(sections(three)["pair-1"], TableBlock):
        if block.tabs:
            lower = "confusion" in block.title
            assert block.sort == ("-difference" if lower else "difference")
            assert block.notes[0].startswith(
                "These slices are exploratory, p by Holm over all its slices and all pairs"
            )


# ---- sentences -------------------------------------------------------------------------------------------------------


def test_each_part_is_said_in_a_sentence_with_the_numbers_of_its_first_measure(three: Study) -> None:
    two = comparing.study(three.sides[:2], pages.PHANTOM)
    paired = two.versus[0].paired
    (block,) = of_kind(sections(two)["result"], HeadlineBlock)
    assert block.title == "second against first"
    for part, sentence in zip(paired.parts, block.sentences, strict=True):
        own = {row.metric: row for row in comparison.measures_in(paired, part) if row.headline and not row.slice}
        first = own[pages.PHANTOM[part.benchmark].headline[0]]
        words = {word.of: word.value for word in sentence.words if word.of}
        seen = first.shown
        assert (words["new"], words["baseline"], words["difference"]) == (seen.new, seen.baseline, seen.difference)
        assert (words["low"], words["high"], words["adjusted"]) == (seen.low, seen.high, first.adjusted)
        assert words["units"] == seen.units
        assert ("No difference" in said(sentence)) == (sentence.state == "open")
        assert sentence.figure is not None
        assert sentence.figure.value == seen.difference
        for name in list(own)[1:]:
            assert name.replace("_", " ") in said(sentence).lower()


def headline_of(*sides: Side, known: Mapping[str, Benchmark] = pages.PHANTOM) -> HeadlineBlock:
    block: HeadlineBlock
    (block,) = of_kind(sections(comparing.study(sides, known), known)["result"], HeadlineBlock)
    return block


def test_a_sentence_says_no_more_than_the_numbers_allow(tmp_path: Path) -> None:
    first = of_pairs()
    few = first[:8]
    runs = {
        "first": first,
        "same": first,
        "few": few,
        "other": pages.changed(few, 3, 1.0),
        "worse": pages.changed(pages.marked(first, right=True), 3, 1.0, 0.1),
        "right": pages.marked(first, right=True),
    }
    loaded = {name: comparing.load(pages.write(tmp_path / name, results)) for name, results in runs.items()}

    def between(new: str, baseline: str) -> str:
        (sentence,) = headline_of(loaded[baseline], loaded[new]).sentences
        return said(sentence)

    assert between("same", "first") == "The responses are identical on every question."
    assert between("other", "few").startswith("Set accuracy: ")
    assert "too few for a difference." in between("other", "few")
    assert between("worse", "right").startswith("worse is worse than right by set accuracy: ")
    assert "would show a true loss" not in between("worse", "right")


def test_an_effect_is_said_as_the_gain_of_the_image_with_its_bounds(tmp_path: Path) -> None:
    first = of_pairs()
    good = pages.changed(pages.marked(first, right=True), 3, 0.1, 0.1)
    made = {
        "A": (good, ""),
        "A-blank": (first, "blank"),
        "B": (pages.changed(first, 4, 0.6), ""),
        "B-blank": (first, "blank"),
    }
    study = studied(
        *(
            pages.write(
                tmp_path / name,
                results,
                model={"name": name[0]},
                benchmarks=signed(**({"ablation": ablation} if ablation else {})),
            )
            for name, (results, ablation) in made.items()
        )
    )
    drawn = sections(study)
    one, other = drawn["effects"].blocks
    assert isinstance(one, HeadlineBlock)
    assert isinstance(other, HeadlineBlock)
    assert one.title == "Does it look at the image? A-blank against A (the image: blank in A-blank, shown in A)"
    assert one.lines == ("New minus baseline is the gain of the image, with the sign reversed.",)
    seen = next(row for row in study.versus[0].paired.tables if row.metric == "set_accuracy" and not row.slice)
    own = seen.shown
    assert own.difference is not None
    assert own.low is not None
    assert own.high is not None
    assert own.baseline is not None
    assert own.new is not None
    shown, blank, gain, low, high = (
        f"{100 * value:.2f}" for value in (own.baseline, own.new, -own.difference, -own.high, -own.low)
    )
    assert said(one.sentences[0]).startswith(
        f"Set accuracy with the image {shown} %, with a blank one {blank} % of 36 pairs: the image gains {gain} points "
        f"(95 % interval {low} to {high}); p {seen.adjusted:.3f}, corrected for {study.tests} tests."
    )
    assert "no gain of the image is shown" in said(other.sentences[0])
    notices = [block.text for block in of_kind(drawn["result"], NoticeBlock)]
    assert "Runs with changed images or questions are not ranked, but compared with their clean run." in notices
    assert not any("is not on the leaderboard" in text for text in notices)


@metrics.ratio(name="letters", binary=False, percent=False)
def letters(results: Sequence[Result]) -> tuple[float, float]:
    """The number of characters of a response."""
    answer = results[0].answer
    return float(len(answer.text) if answer else 0), 1.0


def test_a_measure_that_is_no_percentage_stands_among_the_others_as_a_number(tmp_path: Path) -> None:
    benchmark = pages.PHANTOM[GMAI]
    benchmark = replace(benchmark, metrics=(*benchmark.metrics, letters), headline=("letters", "accuracy"))
    known = {benchmark.name: benchmark}
    first = [result for result in pages.guesses() if result.item.benchmark == benchmark.name]
    runs = [pages.write(tmp_path / "first", first), pages.write(tmp_path / "second", pages.changed(first, 2, 0.9))]
    study = studied(*runs, known=known)
    seen = next(row for row in study.versus[0].paired.tables if row.metric == "letters" and not row.slice)
    before, after, difference = seen.figures
    block = of_kind(sections(study, known)["pair-1"], TableBlock)[0]
    number, percentage = (by_title(block, row) for row in block.rows)
    assert (number["baseline"].shown, number["new"].shown) == (before.text, after.text)
    assert number["difference"].shown == figures.typeset(difference.text)
    assert percentage["new"].shown.endswith(" %")
    (sentence,) = headline_of(*study.sides, known=known).sentences
    assert f"{after.text} against {before.text} over" in said(sentence)
    assert "points" not in said(sentence)


# ---- the leaderboard -------------------------------------------------------------------------------------------------


def test_a_leaderboard_names_the_runs_that_may_be_first(three: Study) -> None:
    block = leaderboards.leading(Boards(three, pages.PHANTOM, {}))
    firsts = {each.benchmark: each for each in reversed(three.rankings)}
    assert len(block.sentences) == len(firsts)
    for sentence, ranking in zip(block.sentences, reversed(firsts.values()), strict=True):
        leaders = [row.name for row in ranking.rows if row.best == 1]
        if all((row.best, row.worst) == (1, 3) for row in ranking.rows):
            assert "no difference between any two runs is shown" in said(sentence)
        else:
            assert f"{leaders[0]} leads" in said(sentence)
            assert ("may be as good" in said(sentence)) == (len(leaders) > 1)
            assert all(name in said(sentence) for name in leaders)


def test_a_sentence_names_those_that_may_be_as_good_as_the_first() -> None:
    """Of three runs, the third is shown to be worse than the first, and the second is not."""
    sides = tuple(Side(name, record(), ()) for name in "ABC")
    rows = [
        Ranked("A", Figure(0.9, 0.8, 1.0), 1, better_than=("C",), open=("B",)),
        Ranked("B", Figure(0.8, 0.7, 0.9), 2, open=("A", "C")),
        Ranked("C", Figure(0.5, 0.4, 0.6), 3, worse_than=("A",), open=("B",)),
    ]

    def sentence(*ranked: Ranked) -> str:
        ranking = Ranking(PAIRS, "mc", "accuracy", "higher", 9, 9, 9, ranked, ())
        study = Study(sides, sides, (0, 1, 2), (), (ranking,))
        return said(leaderboards.leading(Boards(study, pages.PHANTOM, {})).sentences[0])

    assert sentence(*rows) == "By accuracy, A leads with 90.00 %; B (80.00 %) may be as good."
    alone = [
        replace(rows[0], better_than=("B", "C"), open=()),
        replace(rows[1], worse_than=("A",), open=("C",)),
        rows[2],
    ]
    assert sentence(*alone) == "By accuracy, A leads with 90.00 %, better than each other run."
    second = [
        rows[0],
        replace(rows[1], better_than=("C",), worse_than=("A",), open=()),
        replace(rows[2], worse_than=("A", "B"), open=()),
    ]
    assert sentence(*second) == "By accuracy, A leads with 90.00 %; for each other run, a better one is shown."
    equal = [
        replace(row, better_than=(), worse_than=(), open=tuple(name for name in "ABC" if name != row.name))
        for row in rows
    ]
    assert sentence(*equal) == "By accuracy, no difference between any two runs is shown."


def test_the_page_says_what_is_shown_to_be_alike(three: Study) -> None:
    study = comparing.study(three.sides, pages.PHANTOM, equivalent=30)
    drawn = sections(study)
    titles = [column.title for column in of_kind(drawn["ranking"], TableBlock)[1].columns]
    assert titles[3:7] == ["better than", "worse than", "alike", "open"]
    (pair, *_) = [each for name, each in drawn.items() if name.startswith("pair-")]
    (block, *_) = of_kind(pair, TableBlock)
    assert {"90 % interval", "within 30 points"} <= {column.title for column in block.columns}
    titles = [column.title for column in block.columns]
    for row in block.rows:
        linked = {titles[int(place)]: link for place, link in row.links.items()}
        assert linked.keys() <= {"measure", "better", "worse"}
        assert all(link.endswith(f"flip%3A{way}") for way, link in linked.items() if way != "measure")
    assert "Alike: the difference is shown to lie between -30 and +30 points" in " ".join(block.notes)
    two = comparing.study(three.sides[:2], pages.PHANTOM, equivalent=30)
    (result, *_) = sections(two).values()
    (head,) = of_kind(result, HeadlineBlock)
    for sentence in head.sentences:
        assert re.search(r"A difference below 30 points is (not )?shown \(90 % interval .* to .*\)\.", said(sentence))


def test_a_run_that_costs_many_questions_is_told_and_left_out(three: Study) -> None:
    first, second, third = three.sides
    failed = tuple(
        replace(each, answer=None, score=replace(each.score, outcome="error", value=None)) if n % 4 == 0 else each
        for n, each in enumerate(third.results)
    )
    drawn = sections(comparing.study([first, second, replace(third, results=failed)], pages.PHANTOM))
    notices = [block.text for block in of_kind(drawn["result"], NoticeBlock)]
    assert notices[1] == (
        "Phantom in GMAI-MMBench's format: all numbers are over the 107 of 143 questions that every run has a score "
        "for; without third they would be over 143."
    )
    tables = of_kind(drawn["ranking"], TableBlock)
    assert list(dict.fromkeys(block.tabs[0] for block in tables)) == ["All runs", "Without third"]
    without = [block for block in tables if block.tabs[0] == "Without third"]
    assert {row.cells[0] for block in without for row in block.rows} == {"first", "second"}
    alone = comparing.study([first, second], pages.PHANTOM, rank_two=True)
    own = leaderboards.tables(Boards(alone, pages.PHANTOM, {"first": "", "second": ""}), ["Without third"])
    assert own == without
    errors = sum(each.score.outcome == "error" for each in failed)
    (facts,) = of_kind(drawn["runs"], TableBlock)
    assert facts.rows[2].note == f"{errors} of {len(failed)} ended in error, without a score"


def test_no_run_is_told_to_cost_questions_where_none_does(three: Study) -> None:
    drawn = sections(three)
    assert [block.text[:24] for block in of_kind(drawn["result"], NoticeBlock)] == ["The images are drawn by "]
    assert {len(block.tabs) for block in of_kind(drawn["ranking"], TableBlock)} == {1}


def test_a_slice_of_a_run_is_coloured_as_the_comparison_shows_it(six: Study) -> None:
    first = six.sides[0].name
    shown_in_tables = {
        (row.of["new"], row.of["measure"], row.of["slice"]): row.tone
        for name, section in sections(six).items()
        if name.startswith("pair-")
        for row in every_figure(section)
        if row.of.get("field") == "difference" and row.of.get("slice") and row.of["baseline"] == first
    }
    told = 0
    for matrix in of_kind(sections(six)["slices"], MatrixBlock):
        assert [label.title for label in matrix.columns] == [six.sides[place].name for place in six.board]
        for field in matrix.fields:
            of = field.figure.of
            assert field.figure.few == ((field.figure.n or 0) < FEW)
            if of["run"] == first:
                assert (field.figure.tone, field.step) == ("", 0)
                continue
            tone = shown_in_tables[of["run"], of["measure"], of["slice"]]
            assert field.figure.tone == ("" if field.figure.few else tone)
            assert bool(field.step) == bool(field.figure.tone)
            told += 1
    assert told > 100


def test_differences_of_every_two_runs_mirror_each_other(six: Study) -> None:
    for matrix in of_kind(sections(six)["differences"], MatrixBlock):
        cells = {(field.row, field.column): field.figure for field in matrix.fields}
        runs = len(matrix.rows)
        assert len(cells) == runs * (runs - 1)
        for (row, column), cell in cells.items():
            assert cells[column, row].value == pytest.approx(-(cell.value or 0))
            assert (matrix.rows[row].title, matrix.columns[column].title) == (cell.of["new"], cell.of["baseline"])


# ---- runs and notes --------------------------------------------------------------------------------------------------


def test_runs_tell_invalid_and_cut_answers_and_what_is_missing(three: Study) -> None:
    part = {"selection": {"how": ["--limit=9"], "benchmarks": {PAIRS: {"mc": {"chosen": 9, "of": 72}}}}}
    first, second, third = three.sides
    study = comparing.study([first, replace(second, run=record(second.run, **part)), third], pages.PHANTOM)
    (block,) = of_kind(sections(study)["runs"], TableBlock)
    for row, side in zip(block.rows, study.sides, strict=True):
        cells = by_title(block, row)
        outcomes = [result.score.outcome for result in side.results]
        invalid = sum(outcomes.count(name) for name in ("refused", "abstained", "unparsed"))
        finishes = [result.answer.finish for result in side.results if result.answer is not None]
        assert (cells["run"], cells["answers"]) == (side.name, len(outcomes))
        assert cells["invalid %"] == pytest.approx(invalid / len(outcomes))
        assert cells["cut off"] == finishes.count("length")
    assert [row.note for row in block.rows] == [
        "baseline",
        "selected phantom-mediconfusion (mc): 9 of 72, by --limit=9",
        "",
    ]


def test_notes_of_all_pairs_stand_once(six: Study) -> None:
    (block,) = of_kind(sections(six)["runs"], TextBlock)
    assert len(set(block.lines)) == len(block.lines) > 0
    assert all("no verdict can be given" in line for line in block.lines)


def test_files_for_spreadsheets_are_those_of_medvqa_compare(three: Study) -> None:
    blocks = bundle.of_comparison(three, pages.PHANTOM, html.Pictures("none", "No images."))
    assert json.loads(blocks["csv/measures"]) == comparison.as_csv([versus.paired for versus in three.versus])
    assert json.loads(blocks["csv/ranking"]) == comparison.ranking_csv(three.rankings)


# ---- questions and answers -------------------------------------------------------------------------------------------


def read(study: Study) -> BundleReader:
    return BundleReader(bundle.of_comparison(study, pages.PHANTOM, html.Pictures("none", "No images.")))


def test_answers_of_a_judge_are_marked(tmp_path: Path) -> None:
    runs = [pages.write(tmp_path / "plain", pages.guesses()), pages.write(tmp_path / "judged", pages.judged())]
    made = read(studied(*runs))
    judged = {place: each["judged"] for place, each in enumerate(made.answers) if each.get("judged")}
    assert judged
    assert {each["judge"] for each in judged.values()} == {"referee"}
    outcomes = {made.head["outcomes"][made.columns["results.outcome"][place]] for place in judged}
    assert (outcomes, {made.columns["results.run"][place] for place in judged}) == ({"partial"}, {1})


def test_several_runs_have_the_tags_of_the_first_and_two_those_of_the_new_one(tmp_path: Path) -> None:
    first = [result for result in pages.guesses() if result.item.benchmark == GMAI]
    retagged = [
        replace(result, item=replace(result.item, tags={**result.item.tags, "modality": ("other",)}))
        for result in pages.changed(first, 3, 0.9)
    ]
    results = {"first": first, "second": pages.changed(first, 2, 0.9), "third": retagged}
    sides = [comparing.load(pages.write(tmp_path / name, each)) for name, each in results.items()]

    def values(*places: int) -> set[str]:
        drawn = sections(comparing.study([sides[place] for place in places], pages.PHANTOM))
        slices = (cell.of.get("slice", "") for cell in every_figure(list(drawn.values())))
        return {value for name, _, value in (each.partition("=") for each in slices) if name == "modality"}

    assert "other" not in values(0, 1, 2)
    assert values(0, 2) == {"other"}


def test_answers_of_another_technique_keep_their_technique(tmp_path: Path) -> None:
    """A comparison of techniques matches them with each other, and shows each answer under its own."""
    both = pages.twice()
    results = {
        "words": [result for result in both if result.technique == "mc" and result.item.kind == "single_choice"],
        "likelihood": [result for result in both if result.technique == "ps"],
    }
    about = {name: {"signature": {"extraction": "sound"}} for name in pages.PHANTOM}
    study = studied(
        *(
            pages.write(tmp_path / name, each, techniques=[each[0].technique], benchmarks=about)
            for name, each in results.items()
        )
    )
    difference = study.versus[0].paired.difference
    assert difference is not None
    assert difference.setting == "technique"
    made = read(study)
    assert made.flips(1, 0)
    for name, wanted in (("technique", {(0, "ps"), (1, "ps")}), ("own_technique", {(0, "mc"), (1, "ps")})):
        techniques = [made.head["techniques"][place] for place in made.columns[f"results.{name}"]]
        assert {*zip(made.columns["results.run"], techniques, strict=True)} == wanted


# ---- hostile texts ---------------------------------------------------------------------------------------------------


def strange_comparison(folder: Path, texts: tuple[str, ...]) -> bytes:
    """The page of three runs in which every text of data, model and run is one of the texts."""
    benchmark, results = pages.hostile(texts)
    sides = []
    for i, each in enumerate(pages.marked(results, right=right) for right in (False, True, False)):
        run = pages.write(folder / str(i), each, model={"name": texts[1]}, ablation=texts[4], started=texts[2])
        sides.append(replace(comparing.load(run), name=f"{texts[i]}{i}"))
    known = {"strange": benchmark}
    study = comparing.study(sides, known)
    versus = tuple(
        replace(each, refusals=texts[:2] * (i == 1), notes=texts[2:4]) for i, each in enumerate(study.versus)
    )
    study = replace(study, versus=versus)
    assert [name for name in sections(study, known) if name.startswith("pair-")] == ["pair-1"], "refused: no numbers"
    return html.comparison_page(study, known)


def test_hostile_text_of_several_runs_makes_no_element_and_no_attribute(tmp_path: Path) -> None:
    strange = pages.Page(strange_comparison(tmp_path / "strange", pages.HOSTILE).decode())
    calm = tuple(f"text {n:02}" for n in range(len(pages.HOSTILE)))
    quiet = pages.Page(strange_comparison(tmp_path / "quiet", calm).decode())

    def shape(parsed: pages.Page) -> list[tuple[str, list[str]]]:
        return sorted((each.tag, sorted(each.attributes)) for each in parsed.elements)

    assert shape(strange) == shape(quiet)
    assert "\u202e" not in strange.content


# ---- the command -----------------------------------------------------------------------------------------------------


def head_of(file: Path) -> dict[str, Any]:
    """The head of a page."""
    (block,) = pages.Page(file.read_text("utf-8")).all("script", id="block-head")
    head: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(block.text)))
    return head


def ids(head: Mapping[str, Any]) -> list[str]:
    return [section["id"] for section in head["sections"]]


def test_report_of_several_runs_writes_a_page_that_compares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = map(str, pages.several_runs(tmp_path, PAIRS))
    assert main(["report", first, second, "--images=none"]) == 0
    file = tmp_path / "second-against-first.html"
    assert capsys.readouterr().out.splitlines()[-1] == f"comparison: {file}"
    assert {f"{run}/{html.FILE}" for run in (first, second)} <= {str(each) for each in tmp_path.rglob("*.html")}
    head = head_of(file)
    assert head["kind"] == "comparison"
    assert [run["name"] for run in head["runs"]] == ["first", "second"]
    assert ids(head) == ["result", "pair-1", "runs"]
    assert main(["report", first, second, third, "--images=none", "-o", str(tmp_path / "all.html")]) == 0
    head = head_of(tmp_path / "all.html")
    assert head["title"] == "2 runs against first"
    assert ids(head) == ["result", "ranking", "slices", "differences", "pair-1", "pair-2", "runs"]


def test_runs_that_may_not_be_compared_are_told_as_medvqa_compare_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**ABOUT, PAIRS: {"signature": {"extraction": "official"}, "prompts": {"mc": "x@1"}}}
    first = pages.write(tmp_path / "first", of_pairs(), benchmarks=ABOUT)
    second = pages.write(tmp_path / "second", of_pairs(), benchmarks=other)
    assert main(["report", str(first), str(second), "--images=none"]) == 0
    *_, line, last = capsys.readouterr().out.splitlines()
    reason = "phantom-mediconfusion: the extraction is official in second and sound in first"
    assert line == f"! not comparable: {reason}"
    assert last == "no comparison was written; medvqa compare --anyway compares them nevertheless"
    assert main(["compare", str(first), str(second)]) == 4
    assert reason in capsys.readouterr().err
    assert (second / html.FILE).is_file()
    assert not list(tmp_path.glob("*.html"))


def test_the_page_names_the_one_setting_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = (
        pages.write(tmp_path / name, pages.guesses(), benchmarks=benchmarks)
        for name, benchmarks in (("first", ABOUT), ("second", signed(ablation="blank")), ("third", ABOUT))
    )
    assert main(["report", str(first), str(second), "--images=none"]) == 0
    head = head_of(tmp_path / "second-against-first.html")
    named = "second against first (the image: blank in second, shown in first)"
    assert head["title"] == named
    pair = next(section for section in head["sections"] if section["id"] == "pair-1")
    assert pair["blocks"][0]["lines"] == ["New minus baseline is the gain of the image, with the sign reversed."]
    assert [column["title"] for column in pair["blocks"][1]["columns"][1:3]] == ["baseline: shown", "new: blank"]
    assert main(["report", str(first), str(second), str(third), "--images=none", "-o", str(tmp_path / "all.html")]) == 0
    titles = {section["id"]: section["title"] for section in head_of(tmp_path / "all.html")["sections"]}
    assert (titles["pair-1"], titles["pair-2"]) == (named, "third against first")


def test_the_page_of_several_runs_needs_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = pages.write(tmp_path / "first", pages.guesses()[:3])
    assert main(["report", str(run), "-o", "x.html"]) == 4
    assert "-o names the page that compares several runs: name a second RUN" in capsys.readouterr().err


def test_medvqa_compare_compares_what_is_comparable_and_names_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"A": signed(), "A-blank": signed(ablation="blank"), "odd": signed(extraction="official")}
    runs = {
        name: pages.write(
            tmp_path / name, pages.changed(of_pairs(), n, 0.3), model={"name": "A"}, benchmarks=benchmarks
        )
        for n, (name, benchmarks) in enumerate(about.items())
    }
    file = tmp_path / "all.json"
    assert main(["compare", *map(str, runs.values()), f"--json={file}"]) == 0
    printed = capsys.readouterr().out
    assert "A-blank against A (the image" in printed
    assert "! not comparable: phantom-mediconfusion: the extraction is official in odd and sound in A" in printed
    written = json.loads(file.read_text())
    assert [(each["new"], each["baseline"], bool(each["measures"])) for each in written["comparisons"]] == [
        ("A-blank", "A", True),
        ("odd", "A", False),
    ]
