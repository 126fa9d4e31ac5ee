"""Slices, maps, spread and published rows of a page: their numbers are those of metrics.json."""

import json
import random
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import report
from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa, published
from medvqa.figures import FEW, Table
from medvqa.items import Answer, Benchmark, Item, Result, Score
from medvqa.report.bundle import axes, charts, slices, texts
from medvqa.report.bundle.page_blocks import FigureCell, MatrixBlock, PlotBlock, TableBlock
from support import pages
from support.laws import examples

LINK = partial(texts.questions, "b", "")
REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    folder = pages.write(tmp_path_factory.mktemp("reports") / "several", pages.twice())
    return report.write(report.build(folder, pages.PHANTOM))


def test_techniques_stand_apart_and_link_to_their_own_questions(made: report.Report) -> None:
    tables = [block for block in slices.slices_section(made).blocks if isinstance(block, TableBlock)]
    assert len({table.tabs for table in tables}) == len(tables) == len([p for p in made.parts if p.measures])
    for table in tables:
        (title,) = table.tabs
        technique = title.rpartition("technique ")[2]
        links = [row.links["0"] for row in table.rows[1:]]
        assert all((f"technique={technique}&" in link) == (technique in ("mc", "ps")) for link in links)
        # The largest value over techniques is of no single one: its link lists the answers by all.
        assert all(("q=technique%3Amc%2Cps+" in link) == title.endswith("best of the techniques") for link in links)


def test_an_axis_holds_all_that_is_drawn_on_it(made: report.Report) -> None:
    for table in slices.slices_section(made).blocks:
        if isinstance(table, TableBlock):
            for place, column in enumerate(table.columns[1:], start=1):
                for cell in (row.cells[place] for row in table.rows if isinstance(row.cells[place], FigureCell)):
                    drawn = (cell.value, cell.low, cell.high, *cell.levels.values())
                    assert all(column.axis.low <= number <= column.axis.high for number in drawn if number is not None)


finite = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(st.one_of(st.none(), finite), max_size=8), st.booleans())
@examples(200)
def test_an_axis_around_values_has_round_ends_and_few_ticks(values: list[float | None], is_percent: bool) -> None:
    axis = axes.around(values, is_percent=is_percent)
    present = [value for value in values if value is not None]
    slack = 1e-6 * max(1.0, *(abs(value) for value in present), 1.0)
    assert all(axis.low - slack <= value <= axis.high + slack for value in present)
    assert axis.low < axis.high
    assert (axis.ticks[0].at, axis.ticks[-1].at) == (axis.low, axis.high)
    assert 2 <= len(axis.ticks) <= axes.PARTS + 3
    assert [tick.at for tick in axis.ticks] == sorted(tick.at for tick in axis.ticks)
    assert axis.ticks[-1].label.endswith(" %") == is_percent


# ---- the map of two dimensions ---------------------------------------------------------------------------------------


def test_a_map_holds_the_measure_of_each_field(made: report.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    part = made.parts[0]
    assert slices.heat_map(part, LINK) is None, "most fields have too few questions for a percentage"
    monkeypatch.setattr(slices, "MOST_SMALL", 1.0)
    found = slices.heat_map(part, LINK)
    assert found is not None
    assert (found.down, found.across) == ("department", "task")
    by_field = {(field.row, field.column): field.figure for field in found.fields}
    for a, row in enumerate(found.rows):
        for b, column in enumerate(found.columns):
            chosen = [
                result
                for result in part.results
                if texts.title_of("department", result.item.tags["department"][0]) == row.title
                and texts.title_of("task", result.item.tags["task"][0]) == column.title
                and result.item.kind == "single_choice"
            ]
            field = by_field.pop((a, b), None)
            if field is None:
                assert not chosen
                continue
            right = sum(result.score.outcome == "correct" for result in chosen)
            assert (field.n, field.value) == (len(chosen), right / len(chosen))
            assert field.few == (len(chosen) < FEW)
            assert field.shown == (f"{right}/{len(chosen)}" if field.few else f"{100 * right / len(chosen):.0f}")
    assert not by_field
    assert slices.heat_map(made.parts[2], LINK) is None, "MediConfusion's items have one dimension"


def test_a_map_of_a_repeated_run_counts_questions_and_not_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "MOST_SMALL", 1.0)
    single = [result for result in pages.guesses() if result.item.benchmark == "phantom-gmai-mmbench"]
    thrice = [replace(result, sample=k) for result in single for k in (1, 2, 3)]
    once = report.build(pages.write(tmp_path / "once", single), pages.PHANTOM).parts[0]
    part = report.build(pages.write(tmp_path / "thrice", thrice, repeat=3), pages.PHANTOM).parts[0]
    maps = [slices.heat_map(each, LINK) for each in (once, part)]
    shown = [[(f.row, f.column, f.figure.value, f.figure.n, f.figure.shown) for f in m.fields] for m in maps if m]
    assert len(shown) == 2
    assert shown[0] == shown[1]


def lesions(right: dict[tuple[str, str], tuple[int, int]]) -> list[Result]:
    """Answers to MedLesionVQA, right as often as is said for an ability and a type of question."""
    benchmark = medlesionvqa.BENCHMARKS[0].name
    made = []
    for (ability, kind), (hits, n) in right.items():
        for i in range(n):
            tags = {"ability": (ability,), "question_type": (kind,)}
            item = Item(f"{ability} {kind} {i:04}", benchmark, "judgment", "?", {}, ("yes",), tags=tags)
            score = Score(float(i < hits), "correct" if i < hits else "wrong", ("yes",))
            made.append(Result("r", item, "", Answer("yes"), score))
    return made


def map_of(folder: Path, results: list[Result]) -> tuple[report.Report, MatrixBlock]:
    benchmark = medlesionvqa.BENCHMARKS[0]
    built = report.build(pages.write(folder, results), {benchmark.name: benchmark})
    found = slices.heat_map(built.parts[0], LINK)
    assert found is not None
    return built, found


def test_crossed_dimensions_make_the_map_with_the_numbers_of_metrics_json(tmp_path: Path) -> None:
    abilities = ("lesion_recognition", "disease_diagnosis", "location_recognition")
    asked = {(a, kind): (5 + 3 * k, 20) for k, a in enumerate(abilities) for kind in ("judgment", "short_answer")}
    built, found = map_of(tmp_path / "run", lesions(asked))
    stored = {
        tuple(measure.slice["ability+question_type"].split("+")): measure
        for measure in built.parts[0].measures
        if list(measure.slice) == ["ability+question_type"] and measure.name == "mean_score"
    }
    titles = {texts.title_of("ability", a): a for a in abilities}
    kinds = {texts.title_of("question_type", kind): kind for kind in ("judgment", "short_answer")}
    assert len(found.fields) == len(stored) == 6
    for field in found.fields:
        measure = stored[titles[found.rows[field.row].title], kinds[found.columns[field.column].title]]
        figure = field.figure
        assert (figure.value, figure.n) == (measure.value, measure.n)
        assert (figure.low, figure.high) == (pytest.approx(measure.low), pytest.approx(measure.high))


def test_only_what_is_surely_above_or_below_everything_is_coloured(tmp_path: Path) -> None:
    abilities = ("lesion_recognition", "disease_diagnosis", "location_recognition", "spatial_relation")
    asked = {(a, kind): (10, 20) for a in abilities for kind in ("judgment", "short_answer")}
    _, even = map_of(tmp_path / "even", lesions(asked))
    assert {field.figure.tone for field in even.fields} == {""}
    asked[abilities[0], "judgment"] = (20, 20)
    asked[abilities[1], "judgment"] = (0, 20)
    asked[abilities[2], "judgment"] = (9, 9)
    asked[abilities[3], "judgment"] = (14, 20)  # its own interval of 95 % reaches further than everything
    built, found = map_of(tmp_path / "uneven", lesions(asked))
    tones = {
        (found.rows[field.row].title, found.columns[field.column].title): field.figure.tone
        for field in found.fields
        if field.figure.tone
    }
    title = [texts.title_of("ability", ability) for ability in abilities]
    assert tones == {(title[0], "judgment"): "better", (title[1], "judgment"): "worse"}
    assert "2 fields" in found.notes[0]
    (whole,) = [m for m in built.parts[0].measures if m.name == "mean_score" and not m.slice]
    for field in found.fields:
        assert (field.step > 0) == (field.figure.tone != "")
        if field.figure.tone == "better":
            assert field.figure.low > whole.value


def test_near_the_end_of_the_scale_only_exact_bounds_colour_a_field(tmp_path: Path) -> None:
    """Of 21 fields of 20 questions at 97 %, one in 18 maps has a field with 16 right answers or fewer by chance."""
    abilities = list(slices.lexicon.medlesionvqa().dimensions["ability"].values)
    kinds = ("judgment", "short_answer", "fill_in_the_blank")
    asked = {(a, kind): (19 if i + j < 4 else 20, 20) for i, a in enumerate(abilities) for j, kind in enumerate(kinds)}
    last = abilities[-1], kinds[-1]
    built, found = map_of(tmp_path / "noise", lesions(asked | {last: (16, 20)}))
    (whole,) = [m for m in built.parts[0].measures if m.name == "mean_score" and not m.slice]
    assert 0.96 < whole.value < 0.98
    assert [field.figure.tone for field in found.fields if field.figure.tone] == []
    _, found = map_of(tmp_path / "worse", lesions(asked | {last: (14, 20)}))
    assert [field.figure.tone for field in found.fields if field.figure.tone] == ["worse"]


def test_noise_alone_colours_a_field_in_few_of_many_runs(tmp_path: Path) -> None:

    draw, coloured, runs = random.Random(4), 0, 12
    abilities = list(slices.lexicon.medlesionvqa().dimensions["ability"].values)
    for k in range(runs):
        asked = {
            (a, kind): (sum(draw.random() < 0.6 for _ in range(30)), 30)
            for a in abilities
            for kind in ("judgment", "short_answer", "fill_in_the_blank")
        }
        _, found = map_of(tmp_path / str(k), lesions(asked))
        coloured += any(field.figure.tone for field in found.fields)
    assert coloured <= 2, "5 % of 12 runs, and a margin for luck; at 95 % for each field it would be most of them"


# ---- spread, abilities -----------------------------------------------------------------------------------------------


def test_spread_has_a_value_for_each_prompt_and_sample(tmp_path: Path) -> None:
    one = [result for result in pages.guesses() if result.item.benchmark == "phantom-mediconfusion"]
    answers = [
        replace(result, variant=prompt, sample=sample)
        for k, prompt in enumerate(("short", "long"))
        for sample in (1, 2, 3)
        for result in pages.changed(one, 10 * k + sample, 0.3)
    ]
    about = {"benchmarks": {"phantom-mediconfusion": {"items": 72, "asked_by": ["short", "long"]}}}
    folder = pages.write(tmp_path / "run", answers, repeat=3, protocol={"prompts": ["short", "long"]}, **about)
    built = report.build(folder, pages.PHANTOM)
    (part,) = built.parts
    for spread in part.headline_spreads:
        plot = charts.spread_plot(spread)
        samples, means = plot.series
        assert [point.y for point in samples.points] == [v for values in spread.values.values() for v in values]
        assert [point.y for point in means.points] == list(spread.means.values())
        assert [tick.label for tick in plot.x.ticks] == ["short", "long"]
        assert all(plot.y.low <= point.y <= plot.y.high for point in samples.points if point.y is not None)
        once = charts.spread_plot(replace(spread, values={name: values[:1] for name, values in spread.values.items()}))
        assert [series.title for series in once.series] == [""]
    table, *plots = slices.slices_section(built).blocks
    assert len([plot for plot in plots if isinstance(plot, PlotBlock) and plot.title.startswith("Spread of")]) == 3
    assert table.sort == ""
    assert [row.cells[0] for row in table.rows if row.group == "prompt"] == ["short", "long"]


def test_abilities_stand_beside_those_of_physicians(tmp_path: Path) -> None:
    asked = {(a, "judgment"): (10, 20) for a in ("lesion_recognition", "disease_diagnosis", "location_recognition")}
    benchmark = medlesionvqa.BENCHMARKS[0]
    built = report.build(pages.write(tmp_path / "run", lesions(asked)), {benchmark.name: benchmark})
    table = charts.abilities(built.parts[0], LINK)
    assert table is not None
    people = [title.removesuffix(" %") for title in table.headings[4:]]
    assert people == ["senior physicians", "primary physicians"]
    overall = published.overall(benchmark)
    assert overall is not None
    for row, ability in zip(table.rows, slices.lexicon.medlesionvqa().dimensions["ability"].values, strict=True):
        assert (row[1].text != "not asked") == ((ability, "judgment") in asked)
        for name, figure in zip(people, row[4:], strict=True):
            percent = overall.abilities[name].get(ability)
            assert figure.text == ("–" if percent is None else f"{percent:.2f}")
    assert (
        charts.abilities(report.build(pages.write(tmp_path / "phantom", pages.guesses()), pages.PHANTOM).parts[2], LINK)
        is None
    )


# ---- published rows --------------------------------------------------------------------------------------------------


def results_of(benchmark: Benchmark, right: int, n: int) -> list[Result]:
    items = (Item(f"{i:04}", benchmark.name, "single_choice", "?", {"A": "a", "B": "b"}, ("A",)) for i in range(n))
    return [
        Result("r", item, "", Answer("A"), Score(float(i < right), "correct" if i < right else "wrong", ("A",)))
        for i, item in enumerate(items)
    ]


def rows_of(folder: Path, benchmark: Benchmark, results: list[Result], **about: object) -> Table:
    built = report.build(pages.write(folder, results, **about), {benchmark.name: benchmark})
    found = charts.published(built.parts[0])
    assert found is not None
    return found


def test_a_run_stands_among_published_rows_in_its_place(tmp_path: Path) -> None:
    found = rows_of(tmp_path / "run", gmai_mmbench.VAL, results_of(gmai_mmbench.VAL, 45, 100))
    names = [row[0] for row in found.rows]
    place = names.index("this run, 100 questions")
    assert names[place - 1 : place + 2] == ["Gemini 1.5", "this run, 100 questions", "Gemini 1.0"]
    assert "arXiv:2408.03361" in found.notes[0]
    own = found.rows[place][1]
    assert (own.value, own.low is not None) == (0.45, True)
    assert [row[0] for row in found.rows if row[1].of] == ["this run, 100 questions"]


def test_a_repeated_run_stands_there_with_the_number_of_its_questions(tmp_path: Path) -> None:
    thrice = [replace(each, sample=k) for each in results_of(gmai_mmbench.VAL, 45, 100) for k in (1, 2, 3)]
    found = rows_of(tmp_path / "run", gmai_mmbench.VAL, thrice, repeat=3)
    assert "this run, 100 questions" in [row[0] for row in found.rows]


def test_only_rows_of_the_same_technique_stand_beside_a_run(tmp_path: Path) -> None:
    (benchmark,) = mediconfusion.BENCHMARKS
    results = [replace(r, item=replace(r.item, pair_id=r.item.id[:-1])) for r in results_of(benchmark, 4, 20)]
    for technique, there, missing in (("mc", "GPT-4o", "RadFM"), ("ps", "RadFM", "GPT-4o")):
        asked = [replace(r, technique=technique) for r in results]
        names = [row[0] for row in rows_of(tmp_path / technique, benchmark, asked).rows]
        assert "Random guessing" in names
        assert there in names
        assert missing not in names


@needs_shared
def test_published_rows_are_those_of_the_papers() -> None:
    papers = {
        each.name: published.overall(each)
        for each in (*gmai_mmbench.BENCHMARKS, *mediconfusion.BENCHMARKS, *medlesionvqa.BENCHMARKS)
    }
    tables_of = json.loads((REFERENCE / "gmai-mmbench" / "paper_tables.json").read_text())["table2_tasks"]
    for split in ("val", "test"):
        rows = {name: value for name, _, (value,) in papers[f"gmai-mmbench-{split}"].rows}
        assert {name: row[split] for name, row in tables_of.items()}.items() <= rows.items()
        assert rows.keys() - tables_of.keys() == {"TransCore-M", "GPT-4o"}
    confusing = json.loads((REFERENCE / "mediconfusion" / "paper_table1.json").read_text())["table1"]
    for name, technique, values in papers["mediconfusion"].rows[1:]:
        place = ("mc", "gd", "ff", "ps").index(technique)
        assert list(values) == [column[place] for column in confusing[name]]
    lesions_of = json.loads((REFERENCE / "medlesionvqa" / "paper_table2.json").read_text())["vqa"]
    known = {
        round(100 * row[split], 2) for row in lesions_of.values() for split in ("val", "test") if row[split] is not None
    }
    for split in ("val", "test"):
        values = {value for _, _, (value,) in papers[f"medlesionvqa-{split}"].rows}
        assert len(values & known) >= 20
    paper = (REFERENCE.parent / "papers" / "medlesionvqa.txt").read_text()
    for name, value in (("Senior", 0.7321), ("Primary", 0.6144), ("Gemini-2.5", 0.5624), ("GPT-5", 0.5252)):
        assert re.search(rf"{name}[^\n]* {value:.4f}", paper.replace(" 05252", " 0.5252"))
        assert round(100 * value, 2) in {row[2][0] for row in papers["medlesionvqa-val"].rows}
    abilities = papers["medlesionvqa-val"].abilities
    for who in ("Senior", "Primary"):
        line = " ".join(f"{value / 100:.4f}" for value in abilities[f"{who.lower()} physicians"].values())
        assert line in re.sub(r" +", " ", paper)


# ---- runs with little, and hostile ones ------------------------------------------------------------------------------


def test_a_run_without_measures_has_no_slices(tmp_path: Path) -> None:
    empty = report.build(pages.write(tmp_path / "empty", []), pages.PHANTOM)
    assert slices.slices_section(empty).blocks == []


def test_hostile_tags_stay_text_and_lead_nowhere_else(tmp_path: Path) -> None:
    benchmark, results = pages.hostile()
    built = report.build(pages.write(tmp_path / "run", pages.harmless(results)), {"strange": benchmark})
    (table, *_) = slices.slices_section(built).blocks
    links = [link for row in table.rows for link in row.links.values()]
    assert links
    for link in links:
        assert link.startswith("#")
        assert not re.search(r"[\s<>\"']", link)
