"""The bundle of several runs: its numbers are those of `medvqa.comparing`, and whatever a text says, it stays text."""

import base64
import csv
import io
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from medvqa import comparing, figures, metrics
from medvqa.cli import main
from medvqa.comparing import Study
from medvqa.figures import FEW
from medvqa.items import Benchmark, Result
from medvqa.report import bundle, comparison, html
from medvqa.report.bundle import columns
from support import pages
from support.runs import record


@dataclass
class Unpacked:
    """The blocks of a comparison, as the page's app reads them."""

    blocks: Mapping[str, bytes]

    def __post_init__(self) -> None:
        self.head = json.loads(self.blocks["head"])
        self.tables = json.loads(self.blocks["tables"])
        self.view = self.head["comparison"]
        self.answers = [each for k in range(self.head["answers"]) for each in json.loads(self.blocks[f"answers/{k}"])]
        self._heads = {each["name"]: columns.TypedArray(**each) for each in self.head["columns"]}

    def column(self, name: str) -> list[Any]:
        return list(columns.read(self.blocks["columns"], self._heads[name]))

    def lists(self, name: str) -> list[list[int]]:
        offsets, values = self.column(f"{name}.offsets"), self.column(f"{name}.values")
        return [values[start:end] for start, end in pairwise(offsets)]

    def flips(self, scale: int, new: int, baseline: int) -> list[tuple[list[int], bool]]:
        """The questions of each unit that flipped, and whether the new run is better."""
        runs, lower = len(self.head["runs"]), self.view["scales"][scale]["lower"]
        values = self.column(f"units/{scale}.values")
        rows = [values[start : start + runs] for start in range(0, len(values), runs)]
        return [
            (questions, (row[new] > row[baseline]) != lower)
            for questions, row in zip(self.lists(f"units/{scale}.questions"), rows, strict=True)
            if row[new] < row[baseline] or row[new] > row[baseline]
        ]

    @property
    def cells(self) -> list[list[dict[str, Any]]]:
        """All measures of each pair of runs."""
        return [
            [
                *(cell for part in pair["parts"] for cell in part["rows"]),
                *(
                    cell
                    for part in pair["parts"]
                    for measure in part["slices"]
                    for table in measure["tables"]
                    for cell in table["rows"]
                ),
            ]
            for pair in self.view["pairs"]
        ]


def unpacked(study: Study, known: dict[str, Benchmark], pictures: html.Pictures | None = None) -> Unpacked:
    return Unpacked(bundle.of_comparison(study, known, pictures or html.Pictures("none", "No images.")))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return pages.several_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def sides(runs: list[Path]) -> list[comparing.Side]:
    return list(map(comparing.load, runs))


@pytest.fixture(scope="module")
def study(sides: list[comparing.Side]) -> Study:
    return comparing.study(sides, pages.PHANTOM)


@pytest.fixture(scope="module")
def compared(study: Study) -> list[comparing.Paired]:
    return [versus.paired for versus in study.versus]


@pytest.fixture(scope="module")
def versus(study: Study) -> Unpacked:
    return unpacked(study, pages.PHANTOM)


def test_runs_tell_invalid_and_cut_answers_and_what_is_missing(sides: list[comparing.Side]) -> None:
    part = {
        "selection": {"how": ["--limit=9"], "benchmarks": {"phantom-mediconfusion": {"mc": {"chosen": 9, "of": 72}}}}
    }
    changed = replace(sides[1], run=record(sides[1].run, **part))
    one = unpacked(comparing.study([sides[0], changed, sides[2]], pages.PHANTOM), pages.PHANTOM)
    outcomes, run = one.column("results.outcome"), one.column("results.run")
    invalid = {one.head["outcomes"].index(name) for name in ("refused", "abstained", "unparsed")}
    assert sum(facts["invalid"] for facts in one.view["runs"]) > 0
    for place, facts in enumerate(one.view["runs"]):
        own = [each for each, number in enumerate(run) if number == place]
        assert facts["invalid"] == sum(outcomes[each] in invalid for each in own)
        finishes = [result.answer.finish for result in sides[place].results if result.answer is not None]
        assert facts["truncated"] == finishes.count("length")
    assert one.view["runs"][1]["limits"] == ["selected phantom-mediconfusion (mc): 9 of 72, by --limit=9"]


def test_a_run_that_costs_many_questions_is_told_and_left_out(sides: list[comparing.Side]) -> None:
    failed = [
        replace(each, answer=None, score=replace(each.score, outcome="error", value=None)) if n % 4 == 0 else each
        for n, each in enumerate(sides[2].results)
    ]
    study = comparing.study([sides[0], sides[1], replace(sides[2], results=tuple(failed))], pages.PHANTOM)
    view = unpacked(study, pages.PHANTOM).view
    costly = view["costly"]
    assert costly["run"] == 2
    assert costly["lines"][0] == (
        "Phantom in GMAI-MMBench's format: all numbers are over the 107 of 143 questions that every run has a score "
        "for; without third they would be over 143."
    )
    errors = sum(each.score.outcome == "error" for each in failed)
    assert view["runs"][2]["limits"] == [f"{errors} of {len(failed)} ended in error, without a score"]
    alone = unpacked(comparing.study(sides[:2], pages.PHANTOM, rank_two=True), pages.PHANTOM).view["boards"]
    assert costly["boards"] == alone
    assert [{row["run"] for row in board["rows"]} for board in alone] == [{0, 1}] * len(alone)


def test_no_run_is_told_to_cost_questions_where_none_does(versus: Unpacked) -> None:
    assert versus.view.get("costly") is None


NUMBERS = ("baseline", "new", "difference", "low", "high", "units", "groups", "mcnemar")
OF_UNITS = ("gained", "lost", "discordant_groups", "detectable")
"""Numbers that count in the direction in which more is better."""


def test_every_number_of_a_comparison_is_that_of_comparing(versus: Unpacked, compared: list[comparing.Paired]) -> None:
    assert [versus.head["runs"][pair["new"]]["name"] for pair in versus.view["pairs"]] == ["second", "third"]
    for paired, cells in zip(compared, versus.cells, strict=True):
        known = {(c.benchmark, c.technique, c.metric, tuple(c.slice.items())): c for c in paired.tables}
        told = {(c["benchmark"], c["technique"], c["name"], tuple(c["slice"].items())): c for c in cells}
        assert len(told) == len(cells)
        for key, cell in told.items():
            seen, own = known[key].shown, known[key].comparison
            assert {name: cell[name] for name in NUMBERS} == {name: getattr(seen, name) for name in NUMBERS}
            assert {name: cell[name] for name in OF_UNITS} == {name: getattr(own, name) for name in OF_UNITS}
            assert cell["adjusted"] == known[key].adjusted
            assert cell["lower"] == (known[key].better == "lower")
            few = own.units < FEW
            assert cell["few"] == few
            for name in ("baseline", "new"):
                if cell[name] is not None and not few:
                    assert cell["texts"][name] == f"{100 * cell[name]:.2f}"
            if few or cell["difference"] is None:
                assert not cell["texts"]["difference"] or cell["texts"]["difference"] == "–"
            else:
                shown = float(cell["texts"]["difference"].replace("\u2212", "-"))
                assert shown == pytest.approx(100 * cell["difference"], abs=0.00501)
            sure = not few and cell["adjusted"] is not None and cell["adjusted"] <= 0.05 and bool(own.difference)
            assert cell["sure"] == ("" if not sure else "better" if own.difference > 0 else "worse")
        wanted = {
            key
            for key, each in known.items()
            if each.headline and set(each.slice) <= set(pages.PHANTOM[each.benchmark].dimensions)
        }
        assert set(told) == wanted
        assert len(told) > 50
        assert {cell["sure"] for cell in cells} >= {""}
    assert "better" in {cell["sure"] for cell in versus.cells[1]}


def test_a_comparison_on_drawn_images_says_that_they_show_no_patients(versus: Unpacked) -> None:
    assert versus.head["comparison"]["synthetic"].startswith("The images are drawn by a program")


def test_an_axis_reaches_beyond_each_bound_that_it_shows(versus: Unpacked) -> None:
    for pair in versus.view["pairs"]:
        for part in pair["parts"]:
            shown = [(part["end"], part["rows"])]
            shown += [(each["end"], table["rows"]) for each in part["slices"] for table in each["tables"]]
            for end, rows in shown:
                bounds = [cell[name] for cell in rows if not cell["few"] for name in ("low", "high", "difference")]
                assert max((abs(bound) for bound in bounds if bound is not None), default=0) <= end


def test_slices_begin_with_the_largest_loss_and_end_with_those_of_few_units(versus: Unpacked) -> None:
    for pair in versus.view["pairs"]:
        for measure in (each for part in pair["parts"] for each in part["slices"]):
            for table in measure["tables"]:
                many = [cell["difference"] for cell in table["rows"] if not cell["few"]]
                assert many == sorted(many, reverse=measure["lower"])
                assert [cell["few"] for cell in table["rows"]] == sorted(cell["few"] for cell in table["rows"])
                assert not table["fixed"]


def test_each_benchmark_is_said_in_a_sentence_with_the_numbers_of_its_first_measure(versus: Unpacked) -> None:
    for pair in versus.view["pairs"]:
        for part in pair["parts"]:
            first, sentence = part["rows"][0], part["sentence"]
            assert first["name"] == pages.PHANTOM[part["benchmark"]].headline[0]
            text = "".join(word["text"] for word in sentence["words"])
            assert sentence["way"] == first["sure"]
            assert ("is better than first" in text) == (first["sure"] == "better")
            assert ("is worse than first" in text) == (first["sure"] == "worse")
            assert ("No difference" in text) == (first["sure"] == "")
            said = {word["number"]: word["text"] for word in sentence["words"] if word["number"]}
            assert {"new", "baseline", "difference", "low", "high", "units", "adjusted"} <= set(said)
            for name in ("new", "baseline", "difference", "low", "high", "detectable"):
                if name in said:
                    number = float(said[name].removesuffix(" points").removesuffix(" %").replace("\u2212", "-"))
                    assert number == pytest.approx(100 * first[name], abs=0.00501)
            for cell in part["rows"][1:]:
                assert cell["title"] in sentence["more"].lower()
                assert (cell["sure"] or "no difference shown") in sentence["more"]


def sentence_of(sides: list[comparing.Side], benchmark: str) -> str:
    (pair,) = unpacked(comparing.study(sides, pages.PHANTOM), pages.PHANTOM).view["pairs"]
    (part,) = [part for part in pair["parts"] if part["benchmark"] == benchmark]
    return "".join(word["text"] for word in part["sentence"]["words"])


def test_a_sentence_says_no_more_than_the_numbers_allow(tmp_path: Path) -> None:
    first = [result for result in pages.guesses() if "mediconfusion" in result.item.benchmark]
    few = first[:8]
    runs = {
        "first": pages.write(tmp_path / "first", first),
        "same": pages.write(tmp_path / "same", first),
        "few": pages.write(tmp_path / "few", few),
        "other": pages.write(tmp_path / "other", pages.changed(few, 3, 1.0)),
        "worse": pages.write(tmp_path / "worse", pages.changed(pages.marked(first, right=True), 3, 1.0, 0.1)),
        "right": pages.write(tmp_path / "right", pages.marked(first, right=True)),
    }
    loaded = {name: comparing.load(run) for name, run in runs.items()}

    def said(new: str, baseline: str) -> str:
        return sentence_of([loaded[baseline], loaded[new]], "phantom-mediconfusion")

    assert said("same", "first") == "The responses are identical on every question."
    assert said("other", "few").startswith("Set accuracy: ")
    assert said("other", "few").endswith("too few for a difference.")
    assert said("worse", "right").startswith("worse is worse than right by set accuracy: ")
    assert "detectable" not in said("worse", "right")


def test_a_ranking_is_that_of_comparing(versus: Unpacked, study: Study) -> None:
    rankings = study.rankings
    assert rankings
    names = [run["name"] for run in versus.head["runs"]]
    assert len(versus.view["boards"]) == len(rankings)
    for board, ranking in zip(versus.view["boards"], rankings, strict=True):
        assert (board["benchmark"], board["measure"]) == (ranking.benchmark, ranking.metric)
        for row, ranked in zip(board["rows"], ranking.rows, strict=True):
            assert names[row["run"]] == ranked.name
            for own, names_of in ((ranked, ("rank", "best", "worst")), (ranked.figure, ("value", "low", "high"))):
                assert all(row[name] == getattr(own, name) for name in names_of)
            assert (row["against"] is None) == (ranked.name == "first")


def test_a_ranking_names_the_runs_that_may_be_first(versus: Unpacked) -> None:
    for board in versus.view["boards"]:
        leaders = [versus.head["runs"][row["run"]]["name"] for row in board["rows"] if row["best"] == 1]
        if all((row["best"], row["worst"]) == (1, 3) for row in board["rows"]):
            assert "no difference between any two runs is shown" in board["sentence"]
        else:
            assert f"{leaders[0]} leads" in board["sentence"]
            assert ("may be as good" in board["sentence"]) == (len(leaders) > 1)
            assert all(name in board["sentence"] for name in leaders)
    assert len({board["sentence"].split(",")[1] for board in versus.view["boards"]}) > 1


NAMES = ("difference", "adjusted", "sure")


def test_signs_of_slices_are_those_of_the_pairs_with_the_first_run_wherever_they_stand(tmp_path: Path) -> None:
    first, other, blank = (pages.committee(tmp_path)[place] for place in (0, 1, 5))
    # The pair of the second run comes first, and is not with the first run: they differ in the model and the image.
    study = comparing.study([comparing.load(run) for run in (blank, other, first)], pages.PHANTOM)
    assert [(each.paired.new.name, each.paired.baseline.name) for each in study.versus] == [
        ("model-b", "model-a"),
        ("model-a", "model-a-blank"),
    ]
    view = unpacked(study, pages.PHANTOM).view
    assert [each["run"] for each in view["apart"]] == [1]
    assert all("each other run" not in board["sentence"] for board in view["boards"])
    [pair] = [each for each in view["pairs"] if each["baseline"] == 0]
    table = pair["parts"][0]["slices"][0]["tables"][0]
    cells = {row["value"]: row["cells"][1] for row in view["matrices"][0]["rows"]}
    assert {cells[row["slice"][table["dimension"]]]["difference"] for row in table["rows"]} != {None}
    for row in table["rows"]:
        cell = cells[row["slice"][table["dimension"]]]
        assert [cell.get(name) or "" for name in NAMES] == [row.get(name) or "" for name in NAMES]


def test_a_slice_leads_to_as_many_flips_as_it_counts(versus: Unpacked) -> None:
    """A row of a slice links to the flips with its tag; their number is the one that it names."""
    dimensions = {each["name"]: place for place, each in enumerate(versus.head["dimensions"])}
    names = [each["name"] for each in versus.head["benchmarks"]]
    scales = {(names[each["benchmark"]], each["measure"]): place for place, each in enumerate(versus.view["scales"])}
    tags = {name: versus.lists(f"tags/{place}") for name, place in dimensions.items()}
    linked = 0
    for pair, cells in zip(versus.view["pairs"], versus.cells, strict=True):
        for cell in cells:
            if not cell["flips"] or not cell["slice"]:
                continue
            (dimension, value), *_ = cell["slice"].items()
            place = [each["value"] for each in versus.head["dimensions"][dimensions[dimension]]["values"]].index(value)
            found = Counter(
                better
                for questions, better in versus.flips(
                    scales[cell["benchmark"], cell["name"]], pair["new"], pair["baseline"]
                )
                if any(place in tags[dimension][question] for question in questions)
            )
            assert (found[True], found[False]) == (cell["gained"], cell["lost"]), cell
            linked += cell["gained"] + cell["lost"]
    assert linked > 100


def test_the_tables_for_spreadsheets_are_those_of_medvqa_compare(
    versus: Unpacked, compared: list[comparing.Paired], study: Study
) -> None:
    assert json.loads(versus.blocks["csv/measures"]) == comparison.as_csv(compared)
    rows = list(csv.DictReader(io.StringIO(json.loads(versus.blocks["csv/ranking"]))))
    rankings = study.rankings
    assert [(row["measure"], row["place"], row["run"], row["value"]) for row in rows] == [
        (each.metric, str(row.rank), row.name, str(row.figure.value)) for each in rankings for row in each.rows
    ]


def test_answers_of_a_judge_are_marked(tmp_path: Path) -> None:
    runs = [pages.write(tmp_path / "plain", pages.guesses()), pages.write(tmp_path / "judged", pages.judged())]
    sides = [comparing.load(run) for run in runs]
    made = unpacked(comparing.study(sides, pages.PHANTOM), pages.PHANTOM)
    judged = {place: each["judged"] for place, each in enumerate(made.answers) if each.get("judged")}
    assert judged
    assert {each["judge"] for each in judged.values()} == {"referee"}
    outcome, run = made.column("results.outcome"), made.column("results.run")
    assert {made.head["outcomes"][outcome[place]] for place in judged} == {"partial"}
    assert {run[place] for place in judged} == {1}


def test_several_runs_have_the_tags_of_the_first_and_two_those_of_the_new_one(tmp_path: Path) -> None:
    first = [result for result in pages.guesses() if "gmai" in result.item.benchmark]
    retagged = [
        replace(result, item=replace(result.item, tags={**result.item.tags, "modality": ("other",)}))
        for result in pages.changed(first, 3, 0.9)
    ]
    results = {"first": first, "second": pages.changed(first, 2, 0.9), "third": retagged}
    sides = [comparing.load(pages.write(tmp_path / name, each)) for name, each in results.items()]

    def values(*places: int) -> set[str]:
        made = unpacked(comparing.study([sides[place] for place in places], pages.PHANTOM), pages.PHANTOM)
        return {cell["slice"]["modality"] for cells in made.cells for cell in cells if "modality" in cell["slice"]}

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
    sides = [
        comparing.load(pages.write(tmp_path / name, each, techniques=[each[0].technique], benchmarks=about))
        for name, each in results.items()
    ]
    study = comparing.study(sides, pages.PHANTOM)
    difference = study.versus[0].paired.difference
    assert difference is not None
    assert difference.setting == "technique"
    made = unpacked(study, pages.PHANTOM)
    assert any(made.flips(scale, 1, 0) for scale in range(len(made.view["scales"])))
    for name, wanted in (("technique", {(0, "ps"), (1, "ps")}), ("own_technique", {(0, "mc"), (1, "ps")})):
        techniques = [made.head["techniques"][place] for place in made.column(f"results.{name}")]
        assert {*zip(made.column("results.run"), techniques, strict=True)} == wanted


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
    made = Unpacked(bundle.of_comparison(study, known, html.Pictures("none", texts[0])))
    assert [bool(pair["parts"]) for pair in made.view["pairs"]] == [True, False], "refused runs have no numbers"
    assert set(made.column("results.run")) == {0, 1}
    return html.comparison_page(study, known)


def test_hostile_text_of_several_runs_makes_no_element_and_no_attribute(tmp_path: Path) -> None:
    strange = pages.Page(strange_comparison(tmp_path / "strange", pages.HOSTILE).decode())
    calm = tuple(f"text {n:02}" for n in range(len(pages.HOSTILE)))
    quiet = pages.Page(strange_comparison(tmp_path / "quiet", calm).decode())

    def shape(parsed: pages.Page) -> list[tuple[str, list[str]]]:
        return sorted((each.tag, sorted(each.attributes)) for each in parsed.elements)

    assert shape(strange) == shape(quiet)
    assert "\u202e" not in strange.content


def head_of(file: Path) -> dict[str, Any]:
    """The head of a page."""
    (block,) = pages.Page(file.read_text("utf-8")).all("script", id="block-head")
    return json.loads(zlib.decompress(base64.b64decode(block.text)))


def test_report_of_several_runs_writes_a_page_that_compares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = map(str, pages.several_runs(tmp_path, "phantom-mediconfusion"))
    assert main(["report", first, second, "--images=none"]) == 0
    file = tmp_path / "second-against-first.html"
    assert capsys.readouterr().out.splitlines()[-1] == f"comparison: {file}"
    assert {f"{run}/{html.FILE}" for run in (first, second)} <= {str(each) for each in tmp_path.rglob("*.html")}
    head = head_of(file)
    assert head["kind"] == "comparison"
    assert [run["name"] for run in head["runs"]] == ["first", "second"]
    assert head["comparison"]["boards"] == []
    assert main(["report", first, second, third, "--images=none", "-o", str(tmp_path / "all.html")]) == 0
    head = head_of(tmp_path / "all.html")
    assert head["title"] == "2 runs against first"
    assert head["comparison"]["boards"]


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
    head = head_of(tmp_path / "second-against-first.html")
    line = "the image: blank in second, shown in first"
    assert head["title"] == f"second against first ({line})"
    (pair,) = head["comparison"]["pairs"]
    assert pair["differs"] == line
    assert pair["effect"] == "the gain of the image, with the sign reversed"
    assert pair["headings"] == ["baseline: shown", "new: blank"]
    assert main(["report", str(first), str(second), str(third), "--images=none", "-o", str(tmp_path / "all.html")]) == 0
    second_pair, third_pair = head_of(tmp_path / "all.html")["comparison"]["pairs"]
    assert second_pair["differs"] == line
    assert (third_pair["differs"], third_pair["effect"]) == ("", "")


def test_the_page_of_several_runs_needs_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = pages.write(tmp_path / "first", pages.guesses()[:3])
    assert main(["report", str(run), "-o", "x.html"]) == 4
    assert "-o names the page that compares several runs: name a second RUN" in capsys.readouterr().err


@metrics.ratio(name="letters", binary=False, percent=False)
def letters(results: Sequence[Result]) -> tuple[float, float]:
    """The number of characters of a response."""
    answer = results[0].answer
    return float(len(answer.text) if answer else 0), 1.0


def test_a_measure_that_is_no_percentage_stands_among_the_others_as_a_number(tmp_path: Path) -> None:
    benchmark = pages.PHANTOM["phantom-gmai-mmbench"]
    benchmark = replace(benchmark, metrics=(*benchmark.metrics, letters), headline=("letters", "accuracy"))
    first = [result for result in pages.guesses() if result.item.benchmark == benchmark.name]
    runs = [pages.write(tmp_path / "first", first), pages.write(tmp_path / "second", pages.changed(first, 2, 0.9))]
    sides = [comparing.load(run) for run in runs]
    known = {benchmark.name: benchmark}
    study = comparing.study(sides, known)
    (pair,) = unpacked(study, known).view["pairs"]
    (part,) = pair["parts"]
    number, percentage = part["rows"]
    (seen,) = [each for each in study.versus[0].paired.tables if each.metric == "letters" and not each.slice]
    before, after, difference = seen.figures
    texts = number["texts"]
    assert (texts["baseline"], texts["new"], texts["difference"], texts["bounds"]) == (
        before.text,
        after.text,
        figures.typeset(difference.text),
        figures.typeset(difference.interval),
    )
    assert (number["percent"], percentage["percent"], number["flips"]) == (False, True, False)
    text = "".join(word["text"] for word in part["sentence"]["words"])
    assert f"{after.text} against {before.text} over" in text
    assert "points" not in text
    assert [measure["measure"] for measure in part["slices"]] == ["accuracy"], "only percentages have a chart"
