"""Slices, maps, calibration, spread and published rows of a page: their numbers are those of metrics.json."""

import json
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import report
from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa, published
from medvqa.figures import FEW
from medvqa.items import Answer, Benchmark, Item, Result, Score
from medvqa.report import tables
from medvqa.report.bundle import axes, charts, slices
from medvqa.report.bundle.cells import Cell
from medvqa.report.bundle.shape import Shape
from support import pages
from support.laws import examples

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    folder = pages.write(tmp_path_factory.mktemp("reports") / "several", pages.twice())
    return report.write(report.build(folder, pages.PHANTOM))


@pytest.fixture(scope="module")
def views(made: report.Report) -> list[slices.SlicesView]:
    return slices.slices_of(made)


def cells_in(value: object) -> Iterator[Cell]:
    """All measures inside a part of the format."""
    if isinstance(value, Cell):
        yield value
    elif isinstance(value, Shape):
        for name in value.__struct_fields__:
            yield from cells_in(getattr(value, name))
    elif isinstance(value, list):
        for each in value:
            yield from cells_in(each)


def test_every_measure_is_that_of_metrics_json(made: report.Report, views: list[slices.SlicesView]) -> None:
    stored = json.loads((made.folder / "metrics.json").read_text())["measures"]
    by_identity = {(m["benchmark"], m["technique"], m["name"], *m["slice"].items()): m for m in stored}
    seen = set()
    for cell in cells_in(views):
        if cell.name == "correct":
            continue  # a bin of a calibration, below
        identity = cell.benchmark, cell.technique, cell.name, *cell.slice.items()
        measure = by_identity[identity]
        seen.add(identity)
        assert [cell.value, cell.low, cell.high, cell.n] == [measure[name] for name in ("value", "low", "high", "n")]
        if cell.value is not None and not cell.few:
            assert cell.shown == f"{100 * cell.value:.2f}"
    wanted = {
        identity
        for identity, measure in by_identity.items()
        for benchmark in [pages.PHANTOM[measure["benchmark"]]]
        if measure["name"] in benchmark.headline and set(measure["slice"]) <= set(benchmark.dimensions)
    }
    assert wanted <= seen
    assert len(wanted) > 100


def test_techniques_stand_apart_and_link_to_their_own_questions(views: list[slices.SlicesView]) -> None:
    assert {view.technique for view in views} == {"mc", "ps", "max(mc,ps)"}
    assert len({view.title for view in views}) == len(views)
    for view in views:
        for row in (row for group in view.groups for row in group.rows):
            assert ("technique=" in row.href) == (view.technique in ("mc", "ps"))
            # The largest value over techniques is of no single one: its link lists the answers by all.
            assert ("q=technique%3Amc%2Cps+" in row.href) == (view.technique == "max(mc,ps)")


def test_an_axis_holds_all_that_is_drawn_on_it(views: list[slices.SlicesView]) -> None:
    for view in views:
        for k, measure in enumerate(view.measures):
            for cell in [measure.whole, *(c for g in view.groups for row in g.rows if (c := row.cells[k]))]:
                for number in (cell.value, cell.low, cell.high, *cell.references.values()):
                    assert number is None or measure.axis.low <= number <= measure.axis.high


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


def test_a_map_holds_the_measure_of_each_field(made: report.Report) -> None:
    part = made.parts[0]
    found = slices.heat_map(part)
    assert found is not None
    assert (found.down, found.across) == ("department", "task")
    by_field = {(field.row, field.column): field for field in found.fields}
    for a, row in enumerate(found.rows):
        for b, column in enumerate(found.columns):
            chosen = [
                result
                for result in part.results
                if slices.title_of("department", result.item.tags["department"][0]) == row.title
                and slices.title_of("task", result.item.tags["task"][0]) == column.title
                and result.item.kind == "single_choice"
            ]
            field = by_field.pop((a, b), None)
            if field is None:
                assert not chosen
                continue
            right = sum(result.score.outcome == "correct" for result in chosen)
            assert (field.n, field.value) == (len(chosen), right / len(chosen))
            assert field.few == (len(chosen) < FEW)
            assert field.short == (f"{right}/{len(chosen)}" if field.few else f"{100 * right / len(chosen):.0f}")
    assert not by_field
    assert slices.heat_map(made.parts[2]) is None, "MediConfusion's items have one dimension"


def test_a_map_of_a_repeated_run_counts_questions_and_not_samples(tmp_path: Path) -> None:
    single = [result for result in pages.guesses() if result.item.benchmark == "phantom-gmai-mmbench"]
    thrice = [replace(result, sample=k) for result in single for k in (1, 2, 3)]
    once = report.build(pages.write(tmp_path / "once", single), pages.PHANTOM).parts[0]
    part = report.build(pages.write(tmp_path / "thrice", thrice, repeat=3), pages.PHANTOM).parts[0]
    maps = [slices.heat_map(each) for each in (once, part)]
    shown = [[(f.row, f.column, f.value, f.n, f.short, f.few) for f in found.fields] for found in maps if found]
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


def map_of(folder: Path, results: list[Result]) -> tuple[report.Report, slices.HeatMap]:
    benchmark = medlesionvqa.BENCHMARKS[0]
    built = report.build(pages.write(folder, results), {benchmark.name: benchmark})
    found = slices.heat_map(built.parts[0])
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
    titles = {slices.title_of("ability", a): a for a in abilities}
    kinds = {slices.title_of("question_type", kind): kind for kind in ("judgment", "short_answer")}
    assert len(found.fields) == len(stored) == 6
    for field in found.fields:
        measure = stored[titles[found.rows[field.row].title], kinds[found.columns[field.column].title]]
        assert (field.value, field.n) == (measure.value, measure.n)
        assert (field.low, field.high) == (pytest.approx(measure.low), pytest.approx(measure.high))


def test_only_what_is_surely_above_or_below_everything_is_coloured(tmp_path: Path) -> None:
    abilities = ("lesion_recognition", "disease_diagnosis", "location_recognition", "spatial_relation")
    asked = {(a, kind): (10, 20) for a in abilities for kind in ("judgment", "short_answer")}
    _, even = map_of(tmp_path / "even", lesions(asked))
    assert {field.tone for field in even.fields} == {""}
    asked[abilities[0], "judgment"] = (20, 20)
    asked[abilities[1], "judgment"] = (0, 20)
    asked[abilities[2], "judgment"] = (9, 9)
    asked[abilities[3], "judgment"] = (14, 20)  # its own interval of 95 % reaches further than everything
    _, found = map_of(tmp_path / "uneven", lesions(asked))
    assert found.tested == 7, "a field with nine questions is not judged"
    tones = {
        (found.rows[field.row].title, found.columns[field.column].title): field.tone
        for field in found.fields
        if field.tone
    }
    title = [slices.title_of("ability", ability) for ability in abilities]
    assert tones == {(title[0], "judgment"): "above", (title[1], "judgment"): "below"}
    for field in found.fields:
        assert (field.step > 0) == (field.tone != "")
        if field.tone == "above":
            assert field.low is not None
            assert field.low > (found.whole.value or 0)


def test_near_the_end_of_the_scale_only_exact_bounds_colour_a_field(tmp_path: Path) -> None:
    """Of 21 fields of 20 questions at 97 %, one in 18 maps has a field with 16 right answers or fewer by chance."""
    abilities = list(slices.lexicon.medlesionvqa().dimensions["ability"].values)
    kinds = ("judgment", "short_answer", "fill_in_the_blank")
    asked = {(a, kind): (19 if i + j < 4 else 20, 20) for i, a in enumerate(abilities) for j, kind in enumerate(kinds)}
    last = abilities[-1], kinds[-1]
    _, found = map_of(tmp_path / "noise", lesions(asked | {last: (16, 20)}))
    assert 0.96 < (found.whole.value or 0) < 0.98
    assert [field.tone for field in found.fields if field.tone] == []
    _, found = map_of(tmp_path / "worse", lesions(asked | {last: (14, 20)}))
    assert [field.tone for field in found.fields if field.tone] == ["below"]


def test_noise_alone_colours_a_field_in_few_of_many_runs(tmp_path: Path) -> None:
    import random

    draw, coloured, runs = random.Random(4), 0, 12
    abilities = list(slices.lexicon.medlesionvqa().dimensions["ability"].values)
    for k in range(runs):
        asked = {
            (a, kind): (sum(draw.random() < 0.6 for _ in range(30)), 30)
            for a in abilities
            for kind in ("judgment", "short_answer", "fill_in_the_blank")
        }
        _, found = map_of(tmp_path / str(k), lesions(asked))
        coloured += any(field.tone for field in found.fields)
    assert coloured <= 2, "5 % of 12 runs, and a margin for luck; at 95 % for each field it would be most of them"


# ---- calibration -----------------------------------------------------------------------------------------------------


def sure(probability: float, right: bool, outcome: str = "", name: str = "q", **about: object) -> Result:
    item = Item(name, "b", "single_choice", "?", {"A": "a", "B": "b"}, ("A",), **about)
    logprobs = {"A": math.log(probability) - 5, "B": math.log1p(-probability) - 5, " A": -1.0}
    score = Score(float(right), outcome or ("correct" if right else "wrong"), ("A",))
    return Result("r", item, "", Answer("", logprobs), score, "gd")


def test_calibration_is_the_mean_distance_of_confidence_and_right_answers() -> None:
    results = [sure(0.95, True), sure(0.95, False, name="r"), sure(0.65, True, name="s")]
    (found,) = charts.calibrations(results)
    assert (found.technique, found.n) == ("gd", 3)
    assert found.error == pytest.approx((2 * abs(0.95 - 0.5) + abs(0.65 - 1)) / 3)
    bins = [(pytest.approx(each.confidence), each.correct.value, each.correct.n) for each in found.bins]
    assert bins == [(0.65, 1.0, 1), (0.95, 0.5, 2)]
    assert [each.range for each in found.bins] == ["60 to 70 %", "90 to 100 %"]
    assert list(charts.calibrations([sure(0.9, True, "error")])) == []
    without = replace(results[0], answer=Answer("A", {"Z": -1.0}))
    assert list(charts.calibrations([without, replace(without, answer=None)])) == []


@given(st.lists(st.tuples(st.floats(0.5, 0.999), st.booleans()), min_size=1, max_size=40))
@examples(30)
def test_a_calibration_error_lies_between_nothing_and_everything(answers: list[tuple[float, bool]]) -> None:
    (found,) = charts.calibrations([sure(*answer, name=str(k)) for k, answer in enumerate(answers)])
    assert 0 <= found.error <= 1
    assert sum(each.correct.n for each in found.bins) == len(answers)
    for each in found.bins:
        assert each.start - 1e-9 <= each.confidence <= each.end + 1e-9
        if each.correct.low is not None and each.correct.high is not None:
            assert 0 <= each.correct.low <= (each.correct.value or 0) <= each.correct.high <= 1


def test_a_bin_has_an_interval_over_groups_and_a_verdict_only_beside_it() -> None:
    apart = [sure(0.95, k < 20, name=str(k)) for k in range(40)]
    (found,) = charts.calibrations(apart)
    (alone,) = found.bins
    assert alone.verdict == "overconfident"
    together = [sure(0.95, k < 20, name=str(k), cluster_id=str(k // 4)) for k in range(40)]
    (grouped,) = next(iter(charts.calibrations(together))).bins
    assert grouped.correct.value == alone.correct.value
    assert (grouped.correct.high or 0) - (grouped.correct.low or 0) > (alone.correct.high or 0) - (
        alone.correct.low or 0
    )
    (few,) = next(iter(charts.calibrations(apart[:9]))).bins
    assert (few.correct.few, few.verdict) == (True, "")
    (few_groups,) = next(
        iter(charts.calibrations([sure(0.95, k < 20, name=str(k), cluster_id=str(k // 10)) for k in range(40)]))
    ).bins
    assert few_groups.correct.interval == "no interval: 4 independent groups"
    (under,) = next(iter(charts.calibrations([sure(0.55, True, name=str(k)) for k in range(40)]))).bins
    assert under.verdict == "underconfident"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_calibrated_model_seldom_gets_a_word_in_any_of_its_bins(seed: int) -> None:
    """Each interval at 95 % called some bin over- or underconfident in 20 to 32 of 100 calibrated models."""
    draw, times, wrong = random.Random(seed), 100, 0
    for _ in range(times):
        chances = [draw.betavariate(4, 1.5) if seed else draw.uniform(0.5, 0.999) for _ in range(200)]
        chances = [min(max(chance, 0.001), 0.999) for chance in chances]
        answers = [
            sure(chance, draw.random() < chance, name=str(k)) if chance >= 0.5
            else sure(1 - chance, draw.random() < 1 - chance, name=str(k))
            for k, chance in enumerate(chances)
        ]  # fmt: skip
        (found,) = charts.calibrations(answers)
        wrong += any(each.verdict for each in found.bins)
    assert wrong / times <= 0.05 + 2 * (0.05 * 0.95 / times) ** 0.5


def test_samples_of_a_question_are_one_unit_of_a_bin() -> None:
    once = [sure(0.95, k % 2 == 0, name=str(k)) for k in range(30)]
    thrice = [replace(result, sample=s) for result in once for s in (1, 2, 3)]
    (single,), (sampled,) = (next(iter(charts.calibrations(some))).bins for some in (once, thrice))
    assert sampled.correct.n == 3 * single.correct.n
    assert (sampled.correct.low, sampled.correct.high) == (
        pytest.approx(single.correct.low, abs=0.02),
        pytest.approx(single.correct.high, abs=0.02),
    )


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
    shown = list(charts.spreads(part, built))
    assert [spread.name for spread in shown] == [spread.name for spread in part.headline_spreads]
    for view, spread in zip(shown, part.headline_spreads, strict=True):
        assert {line.prompt: tuple(line.samples) for line in view.lines} == spread.values
        assert {line.prompt: line.mean for line in view.lines} == spread.means
        assert view.mean == spread.mean
        assert {each.name: each.value for each in view.deviations} == {
            name: getattr(spread, name) for name in tables.DEVIATIONS
        }
        assert all(view.axis.low <= value <= view.axis.high for line in view.lines for value in line.samples if value)
    (view,) = slices.slices_of(built)
    assert view.groups[0].ordered
    assert [row.value for row in view.groups[0].rows] == ["short", "long"]


def test_abilities_stand_beside_those_of_physicians(tmp_path: Path) -> None:
    asked = {(a, "judgment"): (10, 20) for a in ("lesion_recognition", "disease_diagnosis", "location_recognition")}
    benchmark = medlesionvqa.BENCHMARKS[0]
    built = report.build(pages.write(tmp_path / "run", lesions(asked)), {benchmark.name: benchmark})
    (view,) = slices.slices_of(built)
    assert view.abilities is not None
    assert view.abilities.people == ["senior physicians", "primary physicians"]
    overall = published.overall(benchmark)
    assert overall is not None
    for row, ability in zip(
        view.abilities.rows, slices.lexicon.medlesionvqa().dimensions["ability"].values, strict=True
    ):
        assert (row.cell is not None) == ((ability, "judgment") in asked)
        for name, number in zip(view.abilities.people, row.people, strict=True):
            percent = overall.abilities[name].get(ability)
            assert number.value == (None if percent is None else pytest.approx(percent / 100))
            assert number.shown == ("–" if percent is None else f"{percent:.2f}")
    assert (
        charts.abilities(report.build(pages.write(tmp_path / "phantom", pages.guesses()), pages.PHANTOM).parts[2])
        is None
    )


# ---- published rows --------------------------------------------------------------------------------------------------


def results_of(benchmark: Benchmark, right: int, n: int) -> list[Result]:
    items = (Item(f"{i:04}", benchmark.name, "single_choice", "?", {"A": "a", "B": "b"}, ("A",)) for i in range(n))
    return [
        Result("r", item, "", Answer("A"), Score(float(i < right), "correct" if i < right else "wrong", ("A",)))
        for i, item in enumerate(items)
    ]


def rows_of(folder: Path, benchmark: Benchmark, results: list[Result], **about: object) -> charts.PublishedView:
    built = report.build(pages.write(folder, results, **about), {benchmark.name: benchmark})
    found = charts.published(built.parts[0])
    assert found is not None
    return found


def test_a_run_stands_among_published_rows_in_its_place(tmp_path: Path) -> None:
    found = rows_of(tmp_path / "run", gmai_mmbench.VAL, results_of(gmai_mmbench.VAL, 45, 100))
    names = [row.name for row in found.rows]
    place = names.index("this run, 100 questions")
    assert names[place - 1 : place + 2] == ["Gemini 1.5", "this run, 100 questions", "Gemini 1.0"]
    assert "arXiv:2408.03361" in found.source
    own = found.rows[place]
    assert own.cells is not None
    assert own.cells[0] is not None
    assert (own.cells[0].value, own.cells[0].low is not None) == (0.45, True)
    assert [row.name for row in found.rows if row.cells] == ["this run, 100 questions"]


def test_a_repeated_run_stands_there_with_the_number_of_its_questions(tmp_path: Path) -> None:
    thrice = [replace(each, sample=k) for each in results_of(gmai_mmbench.VAL, 45, 100) for k in (1, 2, 3)]
    found = rows_of(tmp_path / "run", gmai_mmbench.VAL, thrice, repeat=3)
    assert "this run, 100 questions" in [row.name for row in found.rows]


def test_only_rows_of_the_same_technique_stand_beside_a_run(tmp_path: Path) -> None:
    (benchmark,) = mediconfusion.BENCHMARKS
    results = [replace(r, item=replace(r.item, pair_id=r.item.id[:-1])) for r in results_of(benchmark, 4, 20)]
    for technique, there, missing in (("mc", "GPT-4o", "RadFM"), ("ps", "RadFM", "GPT-4o")):
        asked = [replace(r, technique=technique) for r in results]
        names = [row.name for row in rows_of(tmp_path / technique, benchmark, asked).rows]
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
    assert slices.slices_of(empty) == []


def test_hostile_tags_stay_text_and_lead_nowhere_else(tmp_path: Path) -> None:
    benchmark, results = pages.hostile()
    built = report.build(pages.write(tmp_path / "run", pages.harmless(results)), {"strange": benchmark})
    views = slices.slices_of(built)
    content = json.loads(msgspec.json.encode(views))
    assert content
    for row in (row for view in views for group in view.groups for row in group.rows):
        assert row.href.startswith("#")
        assert not re.search(r"[\s<>\"']", row.href)
