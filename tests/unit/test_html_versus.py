"""The page of several runs: its numbers are those of `medvqa.comparing`, and whatever a text says, it stays text."""

import csv
import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from medvqa import comparing
from medvqa.cli import main
from medvqa.items import Benchmark
from medvqa.report import comparison, html, tables
from support import pages


def where(slice: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in slice.items())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return pages.several_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def compared(runs: list[Path]) -> list[comparing.Paired]:
    baseline, *others = map(comparing.load, runs)
    return [comparing.compare(new, baseline, pages.PHANTOM) for new in others]


def several_compared(
    sides: list[comparing.Side], compared: list[html.Versus], known: dict[str, Benchmark]
) -> pages.Page:
    rankings = comparing.rank(sides, known) if len(sides) > 2 else []
    return pages.Page(html.comparison_page(sides, compared, rankings, known).decode())


@pytest.fixture(scope="module")
def versus(runs: list[Path], compared: list[comparing.Paired]) -> pages.Page:
    return several_compared([comparing.load(run) for run in runs], list(map(html.Versus, compared)), pages.PHANTOM)


def sections_of(parsed: pages.Page) -> dict[str, list[pages.Element]]:
    """The elements of each comparison, by its new run."""
    found: dict[str, list[pages.Element]] = {}
    mine: list[pages.Element] | None = None
    for each in parsed.elements:
        if each.tag == "section":
            mine = found.setdefault(each.attributes["data-new"], []) if "data-new" in each.attributes else None
        elif mine is not None:
            mine.append(each)
    return found


def test_every_number_of_a_comparison_is_that_of_comparing(
    versus: pages.Page, compared: list[comparing.Paired]
) -> None:
    found = sections_of(versus)
    assert list(found) == ["second", "third"]
    for paired in compared:
        known = {(c.benchmark, c.technique, c.metric, where(c.slice)): c for c in paired.tables}
        told = set()
        for each in found[paired.new.name]:
            at = each.attributes
            if each.tag == "tr" and "data-measure" in at:
                key = at["data-benchmark"], at["data-technique"], at["data-measure"], at["data-slice"]
                seen = known[key]
                told.add(key)
            if each.tag != "data":
                continue
            name = at["data-number"]
            side = seen.comparison if name in ("gained", "lost", "discordant_groups", "detectable") else seen.shown
            value = seen.adjusted if name == "adjusted" else getattr(side, name)
            assert at["value"] == ("" if value is None else str(value)), (key, name)
            if name in ("baseline", "new") and value is not None and seen.comparison.units >= tables.FEW:
                assert each.text == f"{100 * value:.2f}"
            if name == "difference" and each.text not in ("", "–"):
                assert float(each.text.replace("\u2212", "-")) == pytest.approx(100 * value, abs=0.00501)
        wanted = {
            key
            for key, each in known.items()
            if each.headline and set(each.slice) <= set(pages.PHANTOM[each.benchmark].dimensions)
        }
        assert told == wanted
        assert len(told) > 50


def test_a_ranking_is_that_of_comparing(versus: pages.Page, runs: list[Path]) -> None:
    rankings = comparing.rank([comparing.load(run) for run in runs], pages.PHANTOM)
    assert rankings
    shown = [each for each in versus.all("table") if "board" in each.attributes.get("class", "")]
    assert len(shown) == len(rankings)
    for table, ranking in zip(shown, rankings, strict=True):
        start = next(i for i, each in enumerate(versus.elements) if each is table)
        rest = versus.elements[start:]
        rows = rest[: next(i for i, each in enumerate(rest) if each.tag == "/table")]
        assert [row.attributes["data-run"] for row in rows if "data-run" in row.attributes] == [
            row.name for row in ranking.rows
        ]
        values = [row.attributes["value"] for row in rows if row.attributes.get("data-number") == "value"]
        assert values == [str(row.value) for row in ranking.rows]


def test_flips_are_those_of_comparing_with_both_responses(versus: pages.Page, compared: list[comparing.Paired]) -> None:
    data = versus.data
    units, questions, results = data["units"], data["questions"], data["results"]
    told = {}
    for i, number in enumerate(units["comparison"]):
        benchmark = data["benchmarks"][units["benchmark"][i]]["name"]
        both = [
            (
                questions["id"][q],
                results["response"][questions["baseline"][q]],
                results["response"][questions["new"][q]],
            )
            for q in units["questions"][i]
        ]
        for metric, better in units["flips"][i]:
            told[number, benchmark, data["metrics"][metric], units["unit"][i]] = (bool(better), both)
    wanted = {
        (number, flip.benchmark, flip.metric, flip.unit): (
            flip.better,
            [(b.item.id, a.answer.text, b.answer.text) for a, b in zip(flip.baseline, flip.new, strict=True)],
        )
        for number, paired in enumerate(compared)
        for flip in paired.flips
    }
    assert len(wanted) > 50
    assert told == wanted
    assert len(units["unit"]) < len(told), "a pair that flipped in two measures stands once"


@pytest.mark.parametrize(("new", "baseline"), [(0, 3), (3, 0), (3, 2)])
def test_flips_of_runs_with_other_numbers_of_samples_show_both_responses(
    tmp_path: Path, new: int, baseline: int
) -> None:
    """Each sample stands beside one of the other run, the last of the shorter beside all that are left."""
    first = [result for result in pages.guesses() if "mediconfusion" in result.item.benchmark]
    second = pages.changed(first, 2, 0.6)
    runs = [
        pages.write(tmp_path / name, pages.repeated(results, times) if times else results)
        for name, results, times in (("first", first, baseline), ("second", second, new))
    ]
    sides = [comparing.load(run) for run in runs]
    paired = comparing.compare(sides[1], sides[0], pages.PHANTOM)
    data = several_compared(sides, [html.Versus(paired)], pages.PHANTOM).data
    assert data["units"]["unit"]
    responses = [{(r.item.id, r.sample): r.answer.text for r in side.results} for side in (sides[1], sides[0])]
    questions = data["questions"]
    for unit, places in zip(data["units"]["unit"], data["units"]["questions"], strict=True):
        assert Counter(questions["id"][q] for q in places) == {f"{unit}/{n}": max(new, baseline) for n in (1, 2)}
    for q, (id, sample) in enumerate(zip(questions["id"], questions["sample"], strict=True)):
        for side, times, known in (("new", new, responses[0]), ("baseline", baseline, responses[1])):
            assert data["results"]["response"][questions[side][q]] == known[id, min(sample, times)]
    assert set(questions["sample"]) == set(range(1, max(new, baseline) + 1))


def test_the_table_of_all_measures_is_that_of_medvqa_compare(
    versus: pages.Page, compared: list[comparing.Paired]
) -> None:
    assert versus.data["csv"]["measures"] == comparison.as_csv(compared)


def test_the_ranking_is_a_table_too(versus: pages.Page, runs: list[Path]) -> None:
    rows = list(csv.DictReader(io.StringIO(versus.data["csv"]["ranking"])))
    rankings = comparing.rank([comparing.load(run) for run in runs], pages.PHANTOM)
    assert [(row["measure"], row["place"], row["run"], row["value"]) for row in rows] == [
        (each.metric, str(row.rank), row.name, str(row.value)) for each in rankings for row in each.rows
    ]


def test_answers_of_a_judge_are_marked_in_flips(tmp_path: Path) -> None:
    runs = [pages.write(tmp_path / "plain", pages.guesses()), pages.write(tmp_path / "judged", pages.judged())]
    sides = [comparing.load(run) for run in runs]
    paired = comparing.compare(sides[1], sides[0], pages.PHANTOM)
    parsed = several_compared(sides, [html.Versus(paired)], pages.PHANTOM)
    said = parsed.data["judgements"]
    assert said
    assert {each["judge"] for each in said.values()} == {"referee"}
    assert {parsed.data["results"]["outcome"][int(place)] for place in said} == {1}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> pages.Page:
    return strange_comparison(tmp_path_factory.mktemp("strangers"), pages.HOSTILE)


def strange_comparison(folder: Path, texts: tuple[str, ...]) -> pages.Page:
    """Three runs in which every text of data, model and run is one of the texts."""
    benchmark, results = pages.hostile(texts)
    sides = []
    for i, each in enumerate(pages.marked(results, right=right) for right in (False, True, False)):
        run = pages.write(folder / str(i), each, model={"name": texts[1]}, ablation=texts[4], started=texts[2])
        sides.append(replace(comparing.load(run), name=f"{texts[i]}{i}"))
    known = {"strange": benchmark}
    compared = [
        html.Versus(comparing.compare(side, sides[0], known), texts[:2] * (i == 1), texts[2:4])
        for i, side in enumerate(sides[1:])
    ]
    return several_compared(sides, compared, known)


def test_hostile_text_of_several_runs_makes_no_element_and_no_attribute(strangers: pages.Page, tmp_path: Path) -> None:
    quiet = strange_comparison(tmp_path, tuple(f"text {n:02}" for n in range(len(pages.HOSTILE))))

    def shape(parsed: pages.Page) -> list[tuple[str, list[str]]]:
        return sorted((each.tag, sorted(each.attributes)) for each in parsed.elements)

    assert shape(strangers) == shape(quiet)
    assert "\u202e" not in strangers.content


@pytest.mark.parametrize("name", ["versus", "strangers"])
def test_nothing_but_the_pages_own_script_and_style_may_run(name: str, request: pytest.FixtureRequest) -> None:
    pages.check_policy(request.getfixturevalue(name))


def test_runs_that_may_not_be_compared_are_named_and_have_no_numbers(strangers: pages.Page) -> None:
    refused = list(sections_of(strangers).values())[1]
    assert "These runs are not comparable" in strangers.text
    assert not [each for each in refused if each.tag in ("table", "data")]


def test_report_of_several_runs_writes_a_page_that_compares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = map(str, pages.several_runs(tmp_path, "phantom-mediconfusion"))
    assert main(["report", first, second, "--images=none"]) == 0
    file = tmp_path / "second-against-first.html"
    assert capsys.readouterr().out.splitlines()[-1] == f"comparison: {file}"
    assert {f"{run}/{html.FILE}" for run in (first, second)} <= {str(each) for each in tmp_path.rglob("*.html")}
    parsed = pages.Page(file.read_text())
    assert "The baseline is first" in parsed.text
    assert not [each for each in parsed.all("a") if each.attributes["href"] == "#ranking"]
    assert main(["report", first, second, third, "--images=none", "-o", str(tmp_path / "all.html")]) == 0
    assert "#ranking" in [each.attributes["href"] for each in pages.Page((tmp_path / "all.html").read_text()).all("a")]


def test_runs_that_may_not_be_compared_are_told_as_medvqa_compare_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {name: {"signature": {"extraction": "sound"}, "prompts": {"mc": "x@1"}} for name in pages.PHANTOM}
    other = {**one, "phantom-mediconfusion": {"signature": {"extraction": "official"}, "prompts": {"mc": "x@1"}}}
    results = [result for result in pages.guesses() if result.item.benchmark == "phantom-mediconfusion"]
    first = pages.write(tmp_path / "first", results, benchmarks=one)
    second = pages.write(tmp_path / "second", results, benchmarks=other)
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
    about = {name: {"signature": {"extraction": "sound"}, "prompts": {"mc": "x@1"}} for name in pages.PHANTOM}
    blank = {
        name: {**entry, "signature": {"extraction": "sound", "ablation": "blank"}} for name, entry in about.items()
    }
    first, second, third = (
        pages.write(tmp_path / name, pages.guesses(), benchmarks=benchmarks)
        for name, benchmarks in (("first", about), ("second", blank), ("third", about))
    )
    assert main(["report", str(first), str(second), "--images=none"]) == 0
    parsed = pages.Page((tmp_path / "second-against-first.html").read_text())
    line = "the image: blank in second, shown in first"
    assert f"Comparison: second against first ({line})" in parsed.text
    assert "New minus baseline is the gain of the image, with the sign reversed" in parsed.text
    assert {"baseline: shown, %", "new: blank, %"} <= {each.text for each in parsed.all("th")}
    assert main(["report", str(first), str(second), str(third), "--images=none", "-o", str(tmp_path / "all.html")]) == 0
    parsed = pages.Page((tmp_path / "all.html").read_text())
    sections = sections_of(parsed)
    assert line in " ".join(each.text for each in sections["second"])
    assert "the image" not in " ".join(each.text for each in sections["third"])


def test_the_page_of_several_runs_needs_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = pages.write(tmp_path / "first", pages.guesses()[:3])
    assert main(["report", str(run), "-o", "x.html"]) == 4
    assert "-o names the page that compares several runs: name a second RUN" in capsys.readouterr().err
