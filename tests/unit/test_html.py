"""The page of a run: its numbers are those of metrics.json, and whatever a text says, it stays text."""

import base64
import hashlib
import io
import json
import math
import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture

from medvqa import benchmarks, report
from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa, table_files
from medvqa.cli import main
from medvqa.comparing import gating
from medvqa.data import lexicon, published
from medvqa.items import Answer, Benchmark, Image, Item, Result, Score
from medvqa.report import html, tables
from medvqa.report.html import facts, figures, pack, page, pictures, texts, views
from support import pages

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")
ASSETS = Path(page.__file__).parent / "assets"
VENDORED = {
    "preact-10.29.8.js": "134b77bc803fa38661dc1b1e44e96eb0bb6a1a00edbb96d34dcde421b2e80b06",
    "htm-3.1.1.js": "7a31776e04bd4afde0d4308177d26f377716fcf7e4bd70be590746d6aa594f08",
}
"""SHA-256 of dist/preact.umd.js of npm's preact 10.29.8 and of dist/htm.umd.js of htm 3.1.1."""


def load(benchmark: Benchmark) -> tuple[Item, ...]:
    return benchmarks.load(benchmark, Path())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())


@pytest.fixture(scope="module")
def made(run: Path) -> report.Report:
    return report.write(report.build(run, pages.PHANTOM))


@pytest.fixture(scope="module")
def shown(made: report.Report) -> pages.Page:
    return pages.Page((made.folder / html.FILE).read_text())


@pytest.fixture(scope="module")
def stored(made: report.Report) -> dict:
    return json.loads((made.folder / "metrics.json").read_text())


def where(slice: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in slice.items())


def test_every_number_is_that_of_metrics_json(shown: pages.Page, stored: dict) -> None:
    values = {(m["benchmark"], m["technique"], m["name"], where(m["slice"])): m for m in stored["measures"]}
    cells = shown.all("data", data_measure="")
    assert len(cells) > 100
    for cell in cells:
        at = cell.attributes
        measure = values[at["data-benchmark"], at["data-technique"], at["data-measure"], at["data-slice"]]
        assert at["value"] == ("" if measure["value"] is None else str(measure["value"]))
        if measure["value"] is not None and (measure["count"] is None or measure["units"] >= tables.FEW):
            assert cell.text == f"{100 * measure['value']:.2f}"
    counts = {
        (c.attributes["data-part"], c.attributes["data-outcome"]): c.attributes["value"]
        for c in shown.all("data", data_outcome="")
    }
    assert counts == {(b, o): str(n) for b, outcomes in stored["outcomes"].items() for o, n in outcomes.items()}


def test_headline_and_slices_are_all_there(shown: pages.Page, stored: dict) -> None:
    there = {
        (c.attributes["data-benchmark"], c.attributes["data-measure"], c.attributes["data-slice"])
        for c in shown.all("data", data_measure="")
    }
    wanted = {
        (m["benchmark"], m["name"], where(m["slice"]))
        for m in stored["measures"]
        for benchmark in [pages.PHANTOM[m["benchmark"]]]
        if m["name"] in benchmark.headline and set(m["slice"]) <= set(benchmark.dimensions)
    }
    assert wanted <= there


def test_the_script_counts_what_metrics_json_says(shown: pages.Page, stored: dict) -> None:
    data = shown.data
    items = data["items"]
    for number, about in enumerate(data["benchmarks"]):
        name = pack.score_of(pages.PHANTOM[about["name"]]).name
        values = {
            where(m["slice"]): m for m in stored["measures"] if m["benchmark"] == about["name"] and m["name"] == name
        }
        mine = [i for i, b in enumerate(items["benchmark"]) if b == number]
        assert mine
        for place, dimension in enumerate(about["dimensions"]):
            for value, (slug, _, _) in enumerate(dimension["values"]):
                terms = [items["terms"][i] for i in mine if value in items["tags"][i][place]]
                count, n = (math.fsum(column) for column in zip(*terms, strict=True))
                measure = values.get(f"{dimension['name']}={slug}", {"n": 0, "count": 0})
                assert n == measure["n"]
                assert count == pytest.approx(measure["count"], abs=1e-9)


def test_the_script_gets_every_answer_whole(shown: pages.Page, made: report.Report) -> None:
    data = shown.data
    results = [result for part in made.parts for result in part.results]
    items = data["items"]
    assert {len(column) for column in items.values()} == {len(results)}
    assert items["response"] == [result.answer.text for result in results]
    assert [data["texts"][i] for i in items["question"]] == [result.item.question for result in results]
    assert [dict(data["options"][i]) for i in items["options"]] == [result.item.options for result in results]
    assert [data["outcomes"][i] for i in items["outcome"]] == [result.score.outcome for result in results]
    assert items["why"] == [result.score.why for result in results]


def test_a_branch_that_is_a_slice_has_the_interval_of_metrics_json(shown: pages.Page, stored: dict) -> None:
    bounds = 0
    for about in shown.data["benchmarks"]:
        name = pack.score_of(pages.PHANTOM[about["name"]]).name
        known = {
            where(m["slice"]): [m["low"], m["high"]]
            for m in stored["measures"]
            if (m["benchmark"], m["name"], m["technique"]) == (about["name"], name, "mc") and m["low"] is not None
        }
        told = {}
        for branch, interval in about["intervals"].get("mc", {}).items():
            place, _, value = branch.partition(".")
            dimension = about["dimensions"][int(place)] if place else None
            told[f"{dimension['name']}={dimension['values'][int(value)][0]}" if dimension else ""] = interval
        assert told == known
        bounds += len(told)
    assert bounds > 20


def test_what_a_judge_said_goes_with_its_item_and_costs_others_nothing(tmp_path: Path, shown: pages.Page) -> None:
    results = pages.judged()
    used = {"judge": {"name": "referee"}, "judge_usage": {"input": 9300.0, "cost": 0.5}}
    made = report.build(pages.write(tmp_path / "judged", results, **used), pages.PHANTOM)
    data = pages.Page(html.render(made).decode()).data
    ordered = [result for part in made.parts for result in part.results]
    assert {int(place) for place in data["judgements"]} == {i for i, r in enumerate(ordered) if r.judgement}
    first = next(r.judgement for r in results if r.judgement)
    assert [each for each in data["judgements"].values() if len(each["replies"]) == 2] == [
        {
            "judge": "referee",
            "task": "score",
            "template": "judging/score@1f2e3d4c",
            "replies": list(first.replies),
            "seconds": 1.25,
            "usage": {"input": 310, "output": 24},
        }
    ]
    told = dict(facts.facts(made))
    assert told["Judge"] == f"referee: {len(data['judgements'])} answers"
    assert told["Time of a judgement"] == "median 1.25 s, longest 1.25 s"
    assert told["Judging used"] == "9,300 tokens input, cost 0.5 by the prices of its config"
    assert shown.data["judgements"] == {}
    assert "judge" not in " ".join(shown.data["items"])


def test_a_branch_is_selected_by_the_lexicons_own_expression(shown: pages.Page) -> None:
    for about in shown.data["benchmarks"]:
        for dimension in about["dimensions"]:
            for (value, _, _), select in zip(dimension["values"], dimension["select"], strict=True):
                assert f"lexicon({select})" == lexicon.expression({dimension["name"]: value})


def test_what_was_run_is_told(shown: pages.Page) -> None:
    text = shown.text
    for told in (
        "guesser",
        "abc123",
        "2026-01-02 03:04 UTC",
        "2 min 0 s",
        "12,345",
        "1.25 by the prices",
        "2.56 answers a second",
    ):
        assert told in text
    command = shown.data["benchmarks"][0]["command"]
    assert command == "pytest --model=guesser --benchmark=phantom-gmai-mmbench"


def test_a_command_line_says_what_else_was_typed(tmp_path: Path) -> None:
    about = {"options": {"model": "replay:my file.json"}, "extraction": "official", "ablation": "blank"}
    parts = [(gmai_mmbench.VAL, ())]
    (known,) = pack.run(parts, facts.command(about))["benchmarks"]
    assert known["command"] == (
        "pytest '--model=replay:my file.json' --ablate=blank --extraction=official "
        "--benchmark=gmai-mmbench-val --data=DIR"
    )


def test_the_command_names_the_file_that_declares_a_benchmark(tmp_path: Path) -> None:
    about = {"benchmarks": {"klinik": {"declared": {"file": "my data/klinik.toml"}}, "other": {"declared": {}}}}
    declared = facts.declaring_files(about)
    assert declared == {"klinik": "my data/klinik.toml"}
    parts = [(table_files.recorded("klinik", {"sha256": "0"}), ())]
    (known,) = pack.run(parts, ["pytest", "--model=random"], declared=declared)["benchmarks"]
    assert known["command"] == "pytest --model=random '--benchmark=my data/klinik.toml'"
    (tmp_path / "klinik.toml").write_text('file = "a.csv"')
    (known,) = pack.tree([(table_files.read(tmp_path / "klinik.toml"), ())])["benchmarks"]
    assert known["command"] == "pytest --model=MODEL --benchmark=klinik.toml"


def test_a_recovered_key_is_asked_for_where_there_is_one() -> None:
    typed = facts.command({"options": {"model": "echo:A", "answers_from_category": True}})
    val, test = pack.run([(gmai_mmbench.VAL, ()), (gmai_mmbench.TEST, ())], typed)["benchmarks"]
    assert val["command"] == "pytest --model=echo:A --benchmark=gmai-mmbench-val --data=DIR"
    assert test["command"] == ("pytest --model=echo:A --answers-from-category --benchmark=gmai-mmbench-test --data=DIR")


def test_each_answer_of_several_prompts_is_filed_under_its_prompt() -> None:
    one = replace(pages.guesses()[0], technique="mc")
    results = [replace(one, variant=variant) for variant in ("short", "long", "short+r2")]
    content = pack.run([(pages.PHANTOM[one.item.benchmark], results)], [])
    (about,) = content["benchmarks"]
    (place,) = [place for place, named in enumerate(about["dimensions"]) if named["name"] == "prompt"]
    values = about["dimensions"][place]["values"]
    of_rows = [[values[value][0] for value in tags[place]] for tags in content["items"]["tags"]]
    assert of_rows == [["short"], ["long"], ["short"]]


def test_prompts_are_told_by_technique_and_a_checkpoint_by_its_name(tmp_path: Path) -> None:
    model = {
        "name": "tiny",
        "checkpoint": "/home/me/secret/tiny-1b",
        "digests": {"model.safetensors": 4 * "0123456789abcdef"},
        "settings": {"device": "cpu", "system": None, "raw": "", "processor": {}, "pixels": {"width": 112}},
    }
    prompts = {"mc": "phantom/closed@1+phantom/open@1", "ps": "phantom/likelihood@1"}
    about = {"model": model, "benchmarks": {"phantom-mediconfusion": {"items": 3, "prompts": prompts}}}
    told = dict(facts.facts(report.build(pages.write(tmp_path / "run", [], **about), pages.PHANTOM)))
    assert told["Prompts of phantom-mediconfusion"] == "mc: phantom/closed@1, phantom/open@1; ps: phantom/likelihood@1"
    assert told["Checkpoint"] == "tiny-1b"
    assert told["Digests"] == "model.safetensors 0123456789ab…"
    assert told["Settings"] == "device cpu, pixels width 112"


@pytest.mark.parametrize(
    ("sessions", "took"),
    [
        ([(0, 60, 30), (3600, 3660, 90)], "2 min 0 s, 1 answers a second"),
        ([(0, 60, 30), (3600, 3602, 0)], "1 min 2 s, 0.484 answers a second"),
        ([(3600, 3602, 0)], "2 s"),
        (
            [(0, None, 2), (60, 120, 30)],
            "1 min 0 s, 0.5 answers a second; without 1 of its sessions, not ended",
        ),
        ([(0, None, 2)], None),
        ([], "2 min 0 s, 2.56 answers a second"),
    ],
)
def test_a_run_took_as_long_as_its_sessions(
    run: Path, tmp_path: Path, sessions: list[tuple[int, int | None, int]], took: str | None
) -> None:
    def at(seconds: int) -> str:
        return datetime.fromtimestamp(seconds, UTC).isoformat()

    told = [
        {"started": at(start), "asked": asked} | ({"finished": at(end)} if end is not None else {})
        for start, end, asked in sessions
    ]
    folder = pages.write(tmp_path / "first", pages.guesses(), sessions=told)
    assert dict(facts.facts(report.build(folder, pages.PHANTOM))).get("Took") == took


def test_the_same_folder_gives_the_same_page(run: Path, tmp_path: Path) -> None:
    mixed = pages.write(tmp_path / "first", random.Random(0).sample(pages.guesses(), k=307))
    drawn = [
        html.render(made, html.draw(made, load))
        for made in (report.build(each, pages.PHANTOM) for each in (run, mixed))
    ]
    assert drawn[0] == drawn[1]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    """A run that asked by two techniques, with other answers, and no image."""
    folder = pages.write(tmp_path_factory.mktemp("reports") / "several", pages.twice(), ablation="text-only")
    return report.write(report.build(folder, pages.PHANTOM))


def test_techniques_stand_apart(several: report.Report) -> None:
    stored = json.loads((several.folder / "metrics.json").read_text())
    parsed = pages.Page((several.folder / html.FILE).read_text())
    test_every_number_is_that_of_metrics_json(parsed, stored)
    told = {(c.attributes["data-technique"], c.attributes["data-measure"]) for c in parsed.all("data", data_measure="")}
    assert {("mc", "set_accuracy"), ("ps", "set_accuracy"), ("max(mc,ps)", "best_set_accuracy")} <= told
    links = [each.attributes["href"] for each in parsed.all("a", href="") if "t.category" in each.attributes["href"]]
    assert {"technique=mc", "technique=ps"} == {
        part for each in links for part in each.split("&") if "technique" in part
    }
    assert len(parsed.data["benchmarks"]) == 3
    assert parsed.data["techniques"] == ["mc", "ps"]
    assert "The model got no images" in parsed.text
    assert parsed.data["benchmarks"][0]["command"].startswith("pytest --model=guesser --ablate=text-only ")


# ---- safety ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> pages.Page:
    benchmark, results = pages.hostile()
    about = {
        "model": {"name": pages.HOSTILE[1], "revision": pages.HOSTILE[3], "checkpoint": pages.HOSTILE[3]},
        "options": {"model": pages.HOSTILE[4]},
        "benchmarks": {pages.HOSTILE[0]: {"items": 3, "prompts": {pages.HOSTILE[5]: pages.HOSTILE[2]}}},
        "techniques": [pages.HOSTILE[5]],
        "versions": {"python": pages.HOSTILE[0]},
    }
    folder = pages.write(tmp_path_factory.mktemp("strange") / "run", pages.harmless(results), **about)
    return pages.Page(html.render(report.build(folder, {"strange": benchmark})).decode())


def test_hostile_text_makes_no_element_and_no_attribute(strange: pages.Page, tmp_path: Path) -> None:
    plain = tuple(f"text {n:02}" for n in range(len(pages.HOSTILE)))
    benchmark, results = pages.hostile(plain)
    folder = pages.write(
        tmp_path / "run",
        pages.harmless(results),
        model={"name": "m", "revision": "r", "checkpoint": "c"},
        benchmarks={"b": {"items": 3, "prompts": {"t": "p"}}},
        techniques=["t"],
        versions={"python": "v"},
    )
    quiet = pages.Page(html.render(report.build(folder, {"strange": benchmark})).decode())

    def shape(parsed: pages.Page) -> list[tuple[str, list[str]]]:
        return sorted((each.tag, sorted(each.attributes)) for each in parsed.elements)

    assert shape(strange) == shape(quiet)


@pytest.mark.parametrize("name", ["shown", "strange"])
def test_nothing_but_the_pages_own_script_and_style_may_run(name: str, request: pytest.FixtureRequest) -> None:
    pages.check_policy(request.getfixturevalue(name))


def test_controls_are_named_not_obeyed(strange: pages.Page) -> None:
    assert "⟨U+202E⟩" in strange.text
    assert "\u202e" not in strange.content
    assert "\x00" not in strange.content


@given(st.text())
def test_no_control_survives(text: str) -> None:
    assert texts.HIDDEN.search(texts.visible(text)) is None
    if texts.HIDDEN.search(text) is None:
        assert texts.visible(text) == text


@given(
    st.recursive(
        st.none() | st.text() | st.integers(-5, 5), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
    )
)
def test_what_is_squeezed_comes_back_and_means_nothing_in_html(value: object) -> None:
    squeezed = pack.squeeze(value)
    assert set(squeezed) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert pack.stretch(squeezed) == value


@pytest.mark.parametrize("name", page.LIBRARIES)
def test_libraries_are_what_was_published(name: str) -> None:
    assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == VENDORED[name]
    assert (ASSETS / f"{name.split('-')[0]}-LICENSE.txt").name in page.LICENCES


def test_licences_stand_in_the_page(shown: pages.Page) -> None:
    assert "Copyright (c) 2015-present Jason Miller" in shown.text
    assert "Apache License" in shown.text


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_letters_count_what_was_offered_right_and_chosen() -> None:
    def answered(right: str, chosen: str, outcome: str = "wrong", options: str = "AB") -> Result:
        item = Item("q", "b", "single_choice", "?", dict.fromkeys(options, "text"), (right,))
        return Result("r", item, "", Answer(chosen), Score(0.0, outcome, (chosen,) if chosen else ()))

    counted = views.letters(
        [
            answered("A", "A", "correct"),
            answered("B", "A"),
            answered("B", "", "unparsed"),
            answered("A", "C", options="ABC"),
            answered("A", "A", "error"),
        ]
    )
    assert [(each.letter, each.offered, each.right, each.chosen, each.hits) for each in counted] == [
        ("A", 4, 2, 2, 1),
        ("B", 4, 2, 0, 0),
        ("C", 1, 0, 1, 0),
    ]


def sure(probability: float, right: bool, outcome: str = "") -> Result:
    item = Item("q", "b", "single_choice", "?", {"A": "a", "B": "b"}, ("A",))
    logprobs = {"A": math.log(probability) - 5, "B": math.log1p(-probability) - 5, " A": -1.0}
    score = Score(float(right), outcome or ("correct" if right else "wrong"), ("A",))
    return Result("r", item, "", Answer("", logprobs), score, "gd")


def test_calibration_is_the_mean_distance_of_confidence_and_right_answers() -> None:
    results = [sure(0.95, True), sure(0.95, False), sure(0.65, True)]
    (found,) = views.calibrations(results)
    assert (found.technique, found.n) == ("gd", 3)
    assert found.error == pytest.approx((2 * abs(0.95 - 0.5) + abs(0.65 - 1)) / 3)
    assert [(pytest.approx(p), r, n) for p, r, n in found.bins] == [(0.65, 1.0, 1), (0.95, 0.5, 2)]
    assert list(views.calibrations([sure(0.9, True, "error")])) == []
    without = replace(results[0], answer=Answer("A", {"Z": -1.0}))
    assert list(views.calibrations([without, replace(without, answer=None)])) == []
    # An option that is not told was too unlikely to be.
    assert views.confidence(replace(without, answer=Answer("", {"A": -1.0}))) == 1


@given(st.lists(st.tuples(st.floats(0.5, 0.999), st.booleans()), min_size=1, max_size=40))
def test_a_calibration_error_lies_between_nothing_and_everything(answers: list[tuple[float, bool]]) -> None:
    (found,) = views.calibrations([sure(*each) for each in answers])
    assert 0 <= found.error <= 1
    assert sum(n for _, _, n in found.bins) == len(answers)


def test_the_heat_map_holds_the_measure_of_each_field(made: report.Report) -> None:
    part = made.parts[0]
    heat = views.heat(part, "department", "task")
    fields = 0
    for name, cells in heat.rows:
        for (_, task), cell in zip(heat.columns, cells, strict=True):
            chosen = [
                result
                for result in part.results
                if texts.title_of("department", result.item.tags["department"][0]) == name
                and texts.title_of("task", result.item.tags["task"][0]) == task
                and result.item.kind == "single_choice"
            ]
            if cell is None:
                assert not chosen
                continue
            fields += 1
            assert cell.n == len(chosen)
            assert cell.value == sum(result.score.outcome == "correct" for result in chosen) / len(chosen)
    assert fields > 5
    assert views.heat(made.parts[1], "department", "task") is None


def test_the_heat_map_of_a_repeated_run_counts_questions_and_not_samples(tmp_path: Path) -> None:
    single = pages.guesses()
    once = report.build(pages.write(tmp_path / "once", single), pages.PHANTOM).parts[0]
    thrice = [replace(result, sample=k) for result in single for k in (1, 2, 3)]
    part = report.build(pages.write(tmp_path / "thrice", thrice, repeat=3), pages.PHANTOM).parts[0]
    heats = [views.heat(each, "department", "task") for each in (once, part)]
    cells = [[cell for _, row in heat.rows for cell in row if cell is not None] for heat in heats]
    assert [cell.n for cell in cells[1]] == [cell.n for cell in cells[0]]
    assert [cell.shown for cell in cells[1]] == [cell.shown for cell in cells[0]]


def test_charts_are_drawn_without_style_attributes_in_the_colours_of_the_page(shown: pages.Page) -> None:
    drawn = shown.all("svg", role="img")
    assert [each.attributes["aria-label"] for each in drawn][-1:] != []
    labels = " ".join(each.attributes["aria-label"] for each in drawn)
    assert "Mean score by ability" in labels
    assert "Reliability of technique mc" in labels
    assert shown.all("path", stroke="var(--accent)")
    assert not re.search(r"#0102", shown.content)


def test_without_matplotlib_the_page_says_what_to_install(made: report.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    parsed = pages.Page(html.render(made).decode())
    assert parsed.all("svg", role="img") == []
    assert parsed.text.count('pip install "pytest-medvqa[html]"') == 3


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> tuple[report.Report, pages.Page]:
    made = report.write(report.build(pages.gated(tmp_path_factory.mktemp("gated")), pages.PHANTOM))
    return made, pages.Page((made.folder / html.FILE).read_text())


def test_a_gate_is_shown_where_there_is_one(shown: pages.Page, gated: tuple[report.Report, pages.Page]) -> None:
    assert "gate-title" not in shown.content
    made, parsed = gated
    stored = json.loads((made.folder / "metrics.json").read_text())["gate"]
    outcomes = {entry["outcome"] for entry in stored["entries"]}
    assert {"PASS", "FAIL", "INCONCLUSIVE", "NOT GATED"} <= outcomes
    for told in (
        stored["outcome"],
        "attempt 1 in this folder against main; planned: 1 (--looks).",
        "the rules were not stored before the first answer: decided when the answers were known, they could have been "
        "chosen to fit; --baseline, typed with the run, stores them before.",
        *(entry["rule"] for entry in stored["entries"]),
        *(entry["why"] for entry in stored["entries"]),
    ):
        assert " ".join(told.split()) in parsed.text


def test_every_number_of_a_rule_is_that_of_metrics_json(gated: tuple[report.Report, pages.Page]) -> None:
    made, parsed = gated
    stored = {
        entry["rule"]: entry for entry in json.loads((made.folder / "metrics.json").read_text())["gate"]["entries"]
    }
    cells = parsed.all("data", data_rule="")
    assert len(cells) > 20
    for cell in cells:
        at = cell.attributes
        assert at["value"] == str(stored[at["data-rule"]][at["data-number"]])
    told = {(c.attributes["data-rule"], c.attributes["data-number"]) for c in cells}
    for rule, entry in stored.items():
        if entry["outcome"] != "NOT GATED":
            numbers = ("value", "baseline_value", "difference", "gained", "lost", "units", "adjusted")
            assert {(rule, name) for name in numbers if entry[name] is not None} <= told


def test_a_rule_about_less_is_drawn_with_its_margin_on_the_side_of_a_loss(tmp_path: Path) -> None:
    """The whole of the interval that passes lies on the side of 0."""
    run = pages.gated(tmp_path)
    decided = gating.read(run)
    more = gating.Ruling(
        rule="x: accuracy against main, margin 5",
        kind="baseline",
        benchmark="x",
        measure="accuracy",
        technique="mc",
        outcome="PASS",
        why="the loss is within 5.00 points",
        difference=0.02,
        low=-0.04,
        high=0.08,
        margin=0.05,
    )
    less = replace(more, rule="x: confusion against main, margin 5", difference=-0.02, low=-0.08, high=0.04)
    verdict = replace(decided.verdict, entries=(more, replace(less, better="lower")))
    made = replace(report.build(run, pages.PHANTOM), gate=replace(decided, verdict=verdict))
    parsed = pages.Page(html.render(made).decode())
    assert "x: confusion against main, margin 5 (less is better)" in parsed.text
    assert parsed.text.count("(less is better)") == 1
    assert report.gate.rule(verdict.entries[1]) == (
        "x: confusion against main, margin 5 (less is better): the loss is within 5.00 points"
    )
    refs = re.findall(r'<line class="ref" x1="([0-9.]+)%"', html.render(made).decode())
    assert {"25.00", "75.00"} <= set(refs)


def test_what_blocks_a_verdict_is_told(tmp_path: Path) -> None:
    run = pages.gated(tmp_path)
    decided = gating.read(run)
    verdict = replace(decided.verdict, outcome=None, entries=(), blockers=("<bdi>q1</bdi>: no result",))
    made = replace(report.build(run, pages.PHANTOM), gate=replace(decided, verdict=verdict))
    parsed = pages.Page(html.render(made).decode())
    assert "NO VERDICT" in parsed.text
    assert "<bdi>q1</bdi>: no result" in parsed.text
    assert parsed.all("bdi") == []


def test_a_gate_that_quotes_hostile_text_is_text(made: report.Report) -> None:
    assert "gate-title" not in html.render(made).decode()
    evil = "<script>alert(1)</script>"
    rule = gating.Ruling(
        rule=f"slake: accuracy against {evil}",
        kind="baseline",
        benchmark="slake",
        measure="accuracy",
        technique="mc",
        outcome="INCONCLUSIVE",
        why="a loss of 2 points or more is not ruled out. With no true change, about 2,319 units would rule it out",
        difference=-0.0123,
        low=-0.05,
        high=0.03,
        needed=2319,
        units=176,
    )
    verdict = gating.Verdict(
        outcome="INCONCLUSIVE",
        entries=(rule,),
        blockers=(),
        notes=(evil,),
        baselines=(gating.Against(name=evil, digest="0"),),
        rules="0",
        level=0.95,
        looks=1,
        inconclusive="fail",
        of="0",
        worst=(gating.Moved(benchmark="slake", slice={evil: evil}, difference=-0.1, units=30),),
        flips=(gating.Flipped(benchmark="slake", unit=evil, better=False, baseline=(evil,), new=(evil,)),),
        lost=1,
    )
    shown = html.render(replace(made, gate=gating.Decided(verdict=verdict, attempts=(3,)))).decode()
    assert evil not in shown
    text = pages.Page(shown).text
    for said in ("Gate INCONCLUSIVE against", "−1.23", "−5.00 to +3.00", "2,319 units", "attempt 3 in this folder"):
        assert said in text


# ---- published rows --------------------------------------------------------------------------------------------------


def results_of(benchmark: Benchmark, right: int, n: int) -> list[Result]:
    items = (Item(f"{i:04}", benchmark.name, "single_choice", "?", {"A": "a", "B": "b"}, ("A",)) for i in range(n))
    return [
        Result("r", item, "", Answer("A"), Score(float(i < right), "correct" if i < right else "wrong", ("A",)))
        for i, item in enumerate(items)
    ]


def test_a_run_stands_among_published_rows_in_its_place(tmp_path: Path) -> None:
    folder = pages.write(tmp_path / "run", results_of(gmai_mmbench.VAL, 45, 100))
    parsed = pages.Page(html.render(report.build(folder, {"gmai-mmbench-val": gmai_mmbench.VAL})).decode())
    names = [row.text for row in page_rows(parsed)]
    place = names.index("this run, 100 items")
    assert names[place - 1 : place + 2] == ["Gemini 1.5", "this run, 100 items", "Gemini 1.0"]
    assert "Another setting." in parsed.text
    assert "arXiv:2408.03361" in parsed.text


def test_a_repeated_run_stands_there_with_the_number_of_its_questions(tmp_path: Path) -> None:
    thrice = [replace(each, sample=k) for each in results_of(gmai_mmbench.VAL, 45, 100) for k in (1, 2, 3)]
    folder = pages.write(tmp_path / "run", thrice, repeat=3)
    parsed = pages.Page(html.render(report.build(folder, {"gmai-mmbench-val": gmai_mmbench.VAL})).decode())
    assert "this run, 100 items" in [row.text for row in page_rows(parsed)]
    assert "Outcomes" in parsed.text
    headings = [each.text for each in parsed.all("th", scope="col")]
    assert "Answers" in headings
    assert "Questions" not in headings


def page_rows(parsed: pages.Page) -> list[pages.Element]:
    start = next(i for i, each in enumerate(parsed.elements) if each.attributes.get("class", "").endswith("published"))
    return [each for each in parsed.elements[start:] if each.tag == "th" and each.attributes.get("scope") == "row"]


def test_only_rows_of_the_same_technique_stand_beside_a_run(tmp_path: Path) -> None:
    (benchmark,) = mediconfusion.BENCHMARKS
    results = [replace(r, item=replace(r.item, pair_id=r.item.id[:-1])) for r in results_of(benchmark, 4, 20)]
    for technique, there, missing in (("mc", "GPT-4o", "RadFM"), ("ps", "RadFM", "GPT-4o")):
        folder = pages.write(tmp_path / technique, [replace(r, technique=technique) for r in results])
        names = [
            row.text
            for row in page_rows(pages.Page(html.render(report.build(folder, {benchmark.name: benchmark})).decode()))
        ]
        assert "Random guessing" in names
        assert there in names
        assert missing not in names


@needs_shared
def test_published_rows_are_those_of_the_papers() -> None:
    papers = {
        name: published.overall(name) for table in published.tables().values() for name in table.benchmarks.values()
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
    lesions = json.loads((REFERENCE / "medlesionvqa" / "paper_table2.json").read_text())["vqa"]
    known = {
        round(100 * row[split], 2) for row in lesions.values() for split in ("val", "test") if row[split] is not None
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


# ---- images ----------------------------------------------------------------------------------------------------------


def test_small_runs_carry_their_images(made: report.Report) -> None:
    drawn = html.draw(made, load)
    assert drawn.mode == "thumbs"
    assert "inside this file" in drawn.note
    data = pages.Page(html.render(made, drawn).decode()).data
    places = data["items"]["images"]
    assert all(len(each) == len(names) for each, names in zip(places, data["items"]["names"], strict=True))
    kind, _, content = data["sources"][places[0][0]].partition(";base64,")
    assert kind == "data:image/jpeg"
    with Picture.open(io.BytesIO(base64.b64decode(content))) as opened:
        assert max(opened.size) <= pictures.SMALL
        assert not opened.getexif()


def test_images_as_files_lie_beside_the_page(run: Path) -> None:
    made = report.build(run, pages.PHANTOM)
    drawn = html.draw(made, load, "folder")
    parsed = pages.Page(html.render(made, drawn).decode())
    sources = parsed.data["sources"]
    assert sources
    assert all((run / source).is_file() and source.startswith("images/") for source in sources)
    (policy,) = parsed.all("meta", http_equiv="Content-Security-Policy")
    assert "img-src data: file: 'self';" in policy.attributes["content"]
    assert "files in the folder images/" in parsed.text


@pytest.mark.parametrize(
    ("mode", "many", "inside", "there", "note"),
    [
        ("none", "folder", 400, "none", "Images are left out (--images=none)."),
        (None, "folder", 3, "folder", "files in the folder images/"),
        (None, "none", 3, "none", "`medvqa report first --images=folder` adds them."),
        ("thumbs", "none", 3, "thumbs", "inside this file"),
    ],
)
def test_the_banner_says_where_images_are(
    run: Path,
    mode: pictures.Images,
    many: pictures.Images,
    inside: int,
    there: str,
    note: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "INSIDE", inside)
    drawn = html.draw(report.build(run, pages.PHANTOM), load, mode, many=many)
    assert drawn.mode == there
    assert note in drawn.note


def lesion(tmp_path: Path, **image: object) -> tuple[report.Report, Benchmark, Path]:
    """A run of one question on one image of a benchmark whose data are given on request."""
    file = tmp_path / "1.png"
    exif = Picture.Exif()
    exif[0x010E] = "patient Miller"
    Picture.new("RGB", (3000, 20), "red").save(file, exif=exif)
    benchmark = medlesionvqa.BENCHMARKS[0]
    item = Item(
        "1",
        benchmark.name,
        "multiple_response",
        "?",
        {"A": "a"},
        ("A",),
        (replace(Image("1.png", str(file)), **image),),
    )
    folder = pages.write(tmp_path / "run", [Result("r", item, "", Answer("A"), Score(1.0, "correct", ("A",)))])
    return report.build(folder, {benchmark.name: benchmark}), benchmark, file


def test_images_that_were_given_on_request_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    made, _, file = lesion(tmp_path)
    item = replace(made.parts[0].results[0].item, images=(Image("1.png", str(file)),))
    left_out = html.draw(made, lambda benchmark: [item])
    assert (left_out.mode, left_out.sources) == ("none", {})
    assert "left out, since its data are not declared public; medvqa report RUN --images=thumbs (or" in left_out.note
    declared = replace(made, run={"benchmarks": {item.benchmark: {"declared": {"file": "klinik.toml"}}}})
    note = html.draw(declared, lambda benchmark: None).note
    assert "medvqa report RUN --images=thumbs --benchmark=klinik.toml (or --images=folder) shows them" in note
    note = html.draw(declared, lambda benchmark: None, "thumbs").note
    assert note.endswith("left out: name the file that declares it with --benchmark=klinik.toml.")
    asked = html.draw(made, lambda benchmark: [item], "folder")
    ((source,),) = asked.sources.values()
    content = (made.folder / source).read_bytes()
    assert b"Miller" not in content
    with Picture.open(io.BytesIO(content)) as opened:
        assert opened.width == pictures.LARGE


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (None, "name the folder of its data with --data=DIR"),
        ([], "has other images than this run for 1 items"),
        ([Image("2.png", "2.png")], "has other images than this run for 1 items"),
        ([Image("1.png", "gone.png")], "1 of 1 images could not be read; the first: image 1.png: no such file."),
    ],
)
def test_images_that_cannot_be_had_are_named(tmp_path: Path, given: list[Image] | None, note: str) -> None:
    made, _, _ = lesion(tmp_path)
    item = made.parts[0].results[0].item
    items = None if given is None else [replace(item, images=tuple(given))] if given else []
    drawn = html.draw(made, lambda benchmark: items, "thumbs")
    assert note in drawn.note
    assert not any(any(each) for each in drawn.sources.values())


def test_an_image_that_has_changed_is_not_shown(tmp_path: Path) -> None:
    made, _, file = lesion(tmp_path, digest="0" * 64)
    item = replace(made.parts[0].results[0].item, images=(Image("1.png", str(file), digest="1" * 64),))
    assert "other images" in html.draw(made, lambda benchmark: [item], "thumbs").note


# ---- the command line ------------------------------------------------------------------------------------------------


def test_report_writes_the_page(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pages.write(tmp_path / "first", pages.guesses())
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    assert main(["report", str(folder), "--images=none"]) == 0
    none = (folder / html.FILE).read_bytes()
    assert main(["report", str(folder)]) == 0
    assert len((folder / html.FILE).read_bytes()) > len(none) + 100_000
    assert "(--images=none)" in none.decode()


def test_the_lexical_tree_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    file = tmp_path / "tree.html"
    assert main(["lexicon", "--benchmark=phantom", f"--html={file}"]) == 0
    assert str(file) in capsys.readouterr().out
    parsed = pages.Page(file.read_text())
    data = parsed.data
    assert len(data["items"]["id"]) == 307
    assert set(data["items"]["outcome"]) == {None}
    assert data["benchmarks"][0]["command"] == "pytest --model=MODEL --benchmark=phantom-gmai-mmbench"
    assert "summary-title" not in parsed.content


def test_the_command_of_a_page_asks_by_the_same_protocol() -> None:
    protocol = {"prompts": ["4-expert"], "combine": "best-oracle", "thresholds": [2.0], "rotations": None}
    run = {"options": {"model": "m"}, "repeat": 5, "protocol": {**protocol, "reasoning": "cot"}}
    assert facts.command(run) == [
        *("pytest", "--model=m", "--prompt=4-expert", "--samples=5", "--combine=best-oracle", "--threshold=2"),
        *("--reasoning=cot", "--rotate=all"),
    ]
