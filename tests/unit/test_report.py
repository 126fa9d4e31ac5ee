"""Run folder -> files: from the folder alone, the same whatever the order, and safe to open."""

import json
import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import metrics, report
from medvqa.figures import counted
from medvqa.items import (
    Answer,
    Benchmark,
    Image,
    Item,
    Measure,
    OfficialRule,
    Owners,
    Prompt,
    Result,
    Score,
    Technique,
    UsageError,
)
from medvqa.records import run_folder
from medvqa.records.run_folder import RESULTS, Recorder
from medvqa.report import junit, markdown, tables, terminal
from medvqa.report.bundle.scorecard import scorecard_section
from support import junit_schema

HOSTILE = (
    "<script>alert(1)</script>",
    "]]></failure>",
    "| a | b |\n\n# heading",
    "[click](javascript:alert(1))",
    "\x00\x1b[31mred\x07",
    "\u202eright to left",
    "##[error]##vso[x] [[ATTACHMENT|/etc/passwd]]",
    '"><img src=x onerror=alert(1)>',
    "[[ATTACHMENT|/etc/passwd]]",
    "\ud800 lone surrogate".encode("utf-8", "replace").decode(),
)


def scored(item: Item, answer: Answer) -> Score:
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,), f"chose {answer.text}")


def sheet(results: object, folder: Path) -> Path:
    (folder / "sheet.csv").write_text("index\n")
    return folder / "sheet.csv"


SLAKE = Benchmark(
    name="slake",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=scored,
    metrics=(metrics.accuracy, *metrics.rates),
    dimensions=("modality",),
    public=True,
    owners=Owners(rule=OfficialRule(score=scored, note="The rule of its owners.")),
)


def result(n: int, text: str = "A", **score: object) -> Result:
    tags = {"modality": ("ct" if n % 2 else "mri",)}
    item = Item(f"q{n:03}", "slake", "single_choice", "Which?", {"A": "liver", "B": "spleen"}, ("A",), (), tags)
    answer = Answer(text, seconds=0.5)
    made = scored(item, answer)
    return Result("run", item, "0" * 64, answer, replace(made, **score))


def folder(path: Path, results: list[Result], **about: object) -> Path:
    recorder = Recorder(path)
    for each in results:
        recorder.append(run_folder.encode(each))
    recorder.close()
    told = {"name": path.name, "finished": "2026-01-02T11:00:00+00:00", "model": {"name": "echo"}}
    run_folder.write_json(path / "run.json", {**told, **about})
    return path


def error(n: int, why: str) -> Result:
    return replace(result(n), answer=None, score=Score(None, "error", (), why))


def test_a_report_is_made_from_the_folder_alone(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [result(n, "A" if n < 15 else "B") for n in range(20)])
    report.write(report.build(run, {"slake": SLAKE}))
    written = json.loads((run / "metrics.json").read_text())
    assert written["schema"] == 1
    assert written["gate"] is None
    accuracy = {json.dumps(m["slice"]): m["value"] for m in written["measures"] if m["name"] == "accuracy"}
    assert accuracy["{}"] == 0.75
    assert accuracy['{"modality": "ct"}'] == 0.7
    assert written["outcomes"]["slake"]["correct"] == 15


def test_files_do_not_depend_on_the_order_of_lines(tmp_path: Path) -> None:
    results = [result(n, "A" if n % 3 else "B") for n in range(30)]
    mixed = random.Random(0).sample(results, k=30)
    texts = []
    for name, each in (("one", results), ("two", mixed)):
        run = folder(tmp_path / name / "run", each)
        report.write(report.build(run, {"slake": SLAKE}))
        # The mark is of the file itself.
        written = json.loads((run / "metrics.json").read_text())
        assert written["results"].pop("mark")["bytes"] == (run / RESULTS).stat().st_size
        texts.append([json.dumps(written), *((run / file).read_text() for file in ("summary.md", "junit.xml"))])
    assert texts[0] == texts[1]


def test_what_a_reader_must_know_stands_in_the_notes(tmp_path: Path) -> None:
    results = [result(0), error(1, "image slake/1.png is missing"), result(2, outcome="unscored", value=None)]
    about = {"extraction": "official", "benchmarks": {"slake": {"answers": "category"}}}
    about["missing"] = ["slake/q003", "slake/q004"]
    run = folder(tmp_path / "run", results, **about)
    with (run / "results.jsonl").open("a") as file:
        file.write('{"torn')
    made = report.build(run, {"slake": replace(SLAKE, owners=replace(SLAKE.owners, submission=sheet))})
    notes = report.notes_of(report.write(made))
    assert notes == [
        "slake: 1 of 3 answers are stored and unscored: no answer key, or an open answer without a judge.",
        "slake: 1 item ended in error, without a score; the first: q001: image slake/1.png is missing",
        "slake: the answer key was recovered from the column 'category', not given by its owners.",
        "slake: The rule of its owners.",
        "2 items of this run have no result: slake/q003, slake/q004.",
        "sheet.csv is the sheet to send to the benchmark's owners.",
        notes[-1],
    ]
    assert notes[-1].startswith(f"not read: {run}/results.jsonl line 4")


def test_missing_questions_of_all_benchmarks_are_counted(tmp_path: Path) -> None:
    """Those of a benchmark without any result are not named, as it may be private."""
    missing = [f"slake/q{number:03}" for number in range(1, 9)] + ["ward/one", "ward/two"]
    made = report.build(folder(tmp_path / "run", [result(0)], missing=missing), {"slake": SLAKE})
    (note,) = [note for note in report.notes_of(made) if "no result" in note]
    assert note.startswith("10 items of this run have no result: slake/q001, ")
    shown = note.count("slake/")
    assert note.endswith(f" and {10 - shown} more.")
    assert "ward" not in note


def test_of_a_repeated_run_answers_are_counted_and_the_sheet_has_the_first_of_each(tmp_path: Path) -> None:
    sent: list[tuple[str, int]] = []

    def kept(results: list[Result], folder: Path) -> Path:
        sent.extend((result.item.id, result.sample) for result in results)
        return sheet(results, folder)

    unscored = {"outcome": "unscored", "value": None}
    results = [replace(result(n, **unscored), sample=k) for n in range(4) for k in (1, 2, 3)]
    results += [replace(error(4, "the server was gone"), sample=k) for k in (1, 2, 3)]
    lacking = ["slake/q005/mc/sample1"]
    run = folder(tmp_path / "run", results, repeat=3, benchmarks={"slake": {}}, missing=lacking)
    made = report.build(run, {"slake": replace(SLAKE, owners=replace(SLAKE.owners, submission=kept))})
    made = report.write(made)
    assert sent == [(f"q{n:03}", 1) for n in range(5)]
    outcomes = tables.outcomes(made)
    assert dict(zip(outcomes.headings, outcomes.texts[0], strict=True))["answers"] == "15"
    assert report.notes_of(made) == [
        "slake: 12 of 15 answers are stored and unscored: no answer key, or an open answer without a judge.",
        "slake: 3 answers ended in error, without a score; the first: q004: the server was gone",
        "1 answer of this run has no result: slake/q005/mc/sample1.",
        "sheet.csv is the sheet to send to the benchmark's owners. It holds the first sample of each answer.",
    ]


def test_prompts_in_the_same_words_are_named(tmp_path: Path) -> None:
    def asked(name: str, digest: str) -> list[Result]:
        return [replace(result(n), variant=name, prompt=digest * 64) for n in range(20)]

    names = ["default", "0-original", "9-bare"]
    about = {"protocol": {"prompts": names}, "benchmarks": {"slake": {"asked_by": names}}}
    results = [*asked("default", "a"), *asked("0-original", "a"), *asked("9-bare", "b")]
    built = report.build(folder(tmp_path / "run", results, **about), {"slake": SLAKE})
    (note,) = (note for note in report.notes.noted(built) if "same words" in note.text)
    assert note.text == (
        "slake: the prompts default, 0-original ask 20 of 20 questions in the same words. They count as 2 prompts, so "
        "that the deviation between prompts is too small."
    )
    assert note.warns


def test_a_mean_over_a_dimension_that_no_question_has_is_told(tmp_path: Path) -> None:
    over = replace(metrics.accuracy, name="by_ward", mean_over="ward")
    known = {"slake": replace(SLAKE, metrics=(*SLAKE.metrics, over))}
    notes = report.notes_of(report.build(folder(tmp_path / "run", [result(1)]), known))
    assert [note for note in notes if "by_ward" in note] == [
        "slake: no value of 'by_ward', a mean over 'ward': no question has this dimension; there are: modality."
    ]


def test_slices_of_few_groups_are_named_beside_their_macro_average(tmp_path: Path) -> None:
    """Nine questions: five by CT and four by MRI, each a group of its own."""
    over = metrics.macro_accuracy("modality")
    known = {"slake": replace(SLAKE, metrics=(*SLAKE.metrics, over))}
    notes = report.notes_of(report.build(folder(tmp_path / "run", [result(n) for n in range(1, 10)]), known))
    assert notes == [
        "slake: 1 of the 2 slices of 'macro_accuracy' have fewer than 5 independent groups, which widens its interval: "
        "MRI (4)."
    ]
    enough = report.build(folder(tmp_path / "more", [result(n) for n in range(1, 11)]), known)
    assert report.notes_of(enough) == []


def test_a_good_run_has_no_notes(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [result(n) for n in range(3)])
    assert (
        report.notes_of(report.build(run, {"slake": replace(SLAKE, owners=replace(SLAKE.owners, submission=sheet))}))
        == []
    )


@pytest.mark.parametrize(
    ("told", "note"),
    [
        ({"items": 39, "release": 4550}, ["slake: the data hold 39 of the release's 4,550 questions."]),
        ({"items": 4550, "release": 4550}, []),
        ({"items": 4551, "release": 4550}, []),
        ({"items": 39}, []),
    ],
    ids=["fewer", "all", "more", "unknown"],
)
def test_fewer_questions_than_were_released_are_noted(tmp_path: Path, told: dict[str, int], note: list[str]) -> None:
    made = folder(tmp_path / "run", [result(1)], benchmarks={"slake": told})
    assert report.notes_of(report.build(made, {"slake": SLAKE})) == note


def test_a_server_whose_model_changed_is_noted(tmp_path: Path) -> None:
    served = [replace(result(n), answer=Answer("A", served_by=f"gpt fp_{n // 2}")) for n in range(3)]
    notes = report.notes_of(report.build(folder(tmp_path / "run", served), {"slake": SLAKE}))
    assert notes == ["the server reported several models: gpt fp_0, gpt fp_1."]
    same = folder(tmp_path / "same", served[:2])
    assert report.notes_of(report.build(same, {"slake": SLAKE})) == []


def test_pairs_of_which_one_question_is_left_are_named(tmp_path: Path) -> None:
    paired = [replace(r, item=replace(r.item, pair_id=f"p{n // 2}")) for n, r in enumerate(map(result, range(4)))]
    benchmark = replace(SLAKE, metrics=(metrics.set_accuracy,), headline=("set_accuracy",))
    made = report.build(folder(tmp_path / "run", paired[:3]), {"slake": benchmark})
    told = "slake: 1 pair has only one question in this run, left out of pair measures"
    assert report.notes_of(made) == [f"{told}: p1."]
    assert report.notes_of(report.build(made.folder, {"slake": replace(benchmark, public=False)})) == [f"{told}."]


def test_notes_name_no_question_of_data_that_are_not_declared_public(tmp_path: Path) -> None:
    """These notes stand in logs and in what a CI shows; the files of the run name the questions."""
    why = "image scans/DOE_JANE.png of DOE-7 (DOE_JANE.png): DOE-77 is gone"
    item = replace(result(1).item, id="DOE-7", images=(Image("scans/DOE_JANE.png"),))
    run = folder(tmp_path / "run", [result(0), replace(error(1, why), item=item)], missing=["slake/DOE-9"])
    told = " ".join(report.notes_of(report.build(run, {"slake": replace(SLAKE, public=False)})))
    assert "the first: image [image] of [id] ([image]): DOE-77 is gone (junit.xml names it)" in told
    assert "1 item of this run has no result (selected.jsonl and results.jsonl tell which)." in told


def test_notes_name_no_other_question_of_such_data(tmp_path: Path) -> None:
    """A message may be about several questions, or about recorded ones that are not in the run."""
    other = replace(result(0).item, id="MUELLER_000", images=(Image("scans/MUELLER-0.png"),))
    short = replace(result(0).item, id="429")
    others = [replace(result(0), item=item) for item in (other, short)]
    item = replace(result(1).item, id="DOE-7")
    own = {"slake": replace(SLAKE, public=False)}
    busy = replace(error(1, "HTTP 429: DOE-7 and MUELLER_000 with MUELLER-0.png came at once"), item=item)
    (told,) = report.notes_of(report.build(folder(tmp_path / "run", [*others, busy]), own))
    assert told.endswith("the first: HTTP 429: [id] and [id] with [image] came at once (junit.xml names it)")
    recorded = "x.jsonl has no answer for DOE-7; asked: slake mc DOE-7, first of 5 recorded: slake mc ROE-RICHARD"
    run = folder(tmp_path / "replay", [replace(error(1, recorded), item=item)], config={"backend": "replay"})
    (told,) = report.notes_of(report.build(run, own))
    assert told.endswith("the first: x.jsonl has no answer for [id] (junit.xml names it)")


@pytest.mark.parametrize(("empty", "told"), [(0, False), (1, False), (2, True), (4, True)])
def test_that_half_of_the_answers_or_more_are_empty_is_said(tmp_path: Path, empty: int, told: bool) -> None:
    results = [result(n, " \n" if n < empty else "A") for n in range(4)]
    notes = report.notes_of(report.build(folder(tmp_path / "run", results), {"slake": SLAKE}))
    assert notes == ([f"slake: {empty} of 4 answers are empty."] if told else [])


def test_answers_without_words_that_are_none_are_not_called_empty(tmp_path: Path) -> None:
    """A refusal is counted as such, and log-probabilities need no text."""
    chosen = replace(result(0), answer=Answer("", option_logprobs={"A": -0.1}))
    refused = replace(result(1, outcome="refused"), answer=Answer("", finish="refusal"))
    assert report.notes_of(report.build(folder(tmp_path / "run", [chosen, refused]), {"slake": SLAKE})) == []


def test_a_benchmark_that_is_not_known_is_named_with_what_to_type(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [result(0)])
    with pytest.raises(UsageError, match=r"benchmark 'slake', which is not known here; known: vqa-rad\. .*--plugin="):
        report.build(run, {"vqa-rad": SLAKE})


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(tmp_path: Path, text: str) -> None:
    bad = replace(result(1, "B"), score=Score(0.0, "wrong", (text,), text))
    tagged = replace(bad, item=replace(bad.item, tags={"modality": (text,)}, id=text))
    run = folder(tmp_path / "run", [tagged, error(2, text)])
    made = report.write(report.build(run, {"slake": SLAKE}))
    cases = list(ET.parse(run / "junit.xml").iter("testcase"))
    assert len(cases) == 2
    assert junit.text(text) in {case.get("name") for case in cases}
    assert junit_schema.faults(ET.parse(run / "junit.xml").getroot()) == []
    told = [case.findtext("system-out", "") for case in cases]
    assert "[[" not in "".join(told), "Jenkins would attach a file that [[ATTACHMENT|path]] names"
    assert text in {json.loads(each).get("tag.modality") for each in told}
    page = (run / "summary.md").read_text()
    assert "<script" not in page
    assert "](" not in page
    assert "<img" not in page
    assert "\n# heading" not in page
    shown = terminal.summary(made, width=100)
    assert not any(character in shown for character in "\x00\x1b\x07\u202e")


@given(st.text())
def test_xml_can_hold_any_text(text: str) -> None:
    element = ET.Element("x", value=junit.text(text))
    assert ET.fromstring(ET.tostring(element)).get("value") is not None


def measure(**fields: object) -> Measure:
    plain = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 100, "count": 50}
    return Measure(benchmark="slake", name="accuracy", **{**plain, **fields})


@pytest.mark.parametrize(
    ("given", "value", "interval"),
    [
        (measure(), "50.00", "40.00–60.00"),
        (measure(value=None, low=None, high=None, n=0, count=0), "–", ""),
        (measure(n=4, count=2), "2/4", ""),
        (measure(low=None, high=None), "50.00", ""),
        (measure(value=1 / 3), "33.33", "40.00–60.00"),
        (measure(n=7, count=None, unit="slices"), "50.00", "40.00–60.00"),
    ],
)
def test_numbers_are_shown_with_as_much_as_is_known(given: Measure, value: str, interval: str) -> None:
    assert (given.figure.text, given.figure.interval) == (value, interval)


def test_the_headline_stands_beside_what_needs_no_model(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [result(n) for n in range(12)] + [error(20, "gone")])
    made = report.build(run, {"slake": SLAKE})
    table, counted = tables.headline(made), tables.outcomes(made)
    row = dict(zip(table.headings, table.texts[0], strict=True))
    assert (row["benchmark"], row["measure"], row["%"], row["n"]) == ("slake", "accuracy", "100.00", "12 items")
    assert row["random"] == "50.00"
    row = dict(zip(counted.headings, counted.texts[0], strict=True))
    assert (row["items"], row["correct"], row["errors"], row["unparsed"]) == ("13", "12", "1", "0")


@pytest.mark.parametrize("width", [80, 109, 110])
def test_the_summary_fits_the_terminal(tmp_path: Path, width: int) -> None:
    name = "phantom-mediconfusion"
    results = [replace(r, item=replace(r.item, benchmark=name)) for r in map(result, range(40))]
    made = report.build(folder(tmp_path / "run", results), {name: replace(SLAKE, name=name)})
    lines = terminal.summary(made, width=width).splitlines()
    assert max(map(len, lines[:-1])) <= width
    assert lines[lines.index(next(line for line in lines if line.startswith("benchmark "))) - 2] == (
        "model echo, technique mc, data phantom-mediconfusion"
    )
    assert lines[-1] == f"run folder: {tmp_path / 'run'}"


@pytest.mark.parametrize(
    ("value", "chance", "drawn"),
    [
        (0.0, None, "────────────────────"),
        (1.0, None, "━━━━━━━━━━━━━━━━━━━━"),
        (0.5, 0.25, "━━━━━┿━━━━──────────"),
        (0.12, 0.5, "━━╾───────┼─────────"),
        (0.9, 1.0, "━━━━━━━━━━━━━━━━━━─┼"),
    ],
)
def test_a_bar_is_a_fraction_with_the_level_of_chance(value: float, chance: float | None, drawn: str) -> None:
    assert terminal.bar(value, chance) == drawn


@given(st.floats(0, 1), st.none() | st.floats(0, 1))
def test_a_bar_has_one_width(value: float, chance: float | None) -> None:
    drawn = terminal.bar(value, chance)
    assert len(drawn) == terminal.BAR
    assert set(drawn) <= set(terminal.GLYPHS)
    assert abs(drawn.count("━") + drawn.count("┿") + drawn.count("╾") / 2 - terminal.BAR * value) <= 1


@pytest.mark.parametrize(("width", "there"), [(80, False), (100, True), (200, True)])
def test_bars_stand_where_the_terminal_is_wide_enough(tmp_path: Path, width: int, there: bool) -> None:
    name = "phantom-mediconfusion"
    results = [replace(r, item=replace(r.item, benchmark=name)) for r in map(result, range(40))]
    made = report.build(folder(tmp_path / "run", results), {name: replace(SLAKE, name=name)})
    shown = terminal.summary(made, width=width, bars=True)
    assert (terminal.SCALE in shown) == there == ("━" * 10 in shown)
    assert max(map(len, shown.splitlines()[:-1])) <= width
    plain = terminal.summary(made, width=width)
    assert not set(terminal.GLYPHS) & set(plain)


def test_few_units_have_no_bar(tmp_path: Path) -> None:
    made = report.build(folder(tmp_path / "run", [result(n) for n in range(4)]), {"slake": SLAKE})
    assert "4/4" in terminal.summary(made, width=200, bars=True)
    assert "━" not in terminal.summary(made, width=200, bars=True)


def test_slices_have_a_row_for_each_value(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [result(n, "A" if n % 2 else "B") for n in range(40)])
    made = report.build(run, {"slake": SLAKE})
    table = tables.by_dimension(made.parts[0], "modality")
    assert [row[:2] for row in table.texts] == [["ct", "100.00"], ["mri", "0.00"]]
    assert "## slake by modality" in markdown.render(made)


# --- several techniques, and what was done to the images --------------------------------------------------


PAIRS = replace(SLAKE, metrics=(metrics.set_accuracy, metrics.individual_accuracy), headline=("set_accuracy",))


def asked(n: int, technique: Technique, text: str) -> Result:
    made = result(n, text)
    return replace(made, item=replace(made.item, pair_id=f"p{n // 2}"), technique=technique)


def both(path: Path, **about: object) -> report.Report:
    results = [asked(n, "mc", "A" if n < 18 else "B") for n in range(24)]
    results += [asked(n, "ps", "A" if n % 2 else "B") for n in range(24)]
    signature = {"slake": {"signature": {"data": "d"}, "prompts": {"mc": "slake/mc@1", "ps": "slake/ps@2"}}}
    run = folder(path / "run", results, benchmarks=signature, **about)
    return report.write(report.build(run, {"slake": PAIRS}))


def test_each_technique_is_measured_alone_and_the_maxima_after_them(tmp_path: Path) -> None:
    made = both(tmp_path)
    assert [(part.name, part.technique) for part in made.parts] == [
        ("slake mc", "mc"),
        ("slake ps", "ps"),
        ("slake max(mc,ps)", "max(mc,ps)"),
    ]
    written = json.loads((tmp_path / "run" / "metrics.json").read_text())
    found = {(m["name"], m["technique"]): m["value"] for m in written["measures"] if not m["slice"]}
    assert found == {
        ("set_accuracy", "mc"): 0.75,
        ("individual_accuracy", "mc"): 0.75,
        ("set_accuracy", "ps"): 0.0,
        ("individual_accuracy", "ps"): 0.5,
        ("best_set_accuracy", "max(mc,ps)"): 0.75,
        ("best_individual_accuracy", "max(mc,ps)"): 0.75,
    }
    signatures = {m["technique"]: m["signature"] for m in written["measures"] if "set_accuracy" in m["name"]}
    assert "|prompt:slake/mc@1|technique:mc|" in signatures["mc"]
    assert "|prompt:slake/ps@2|technique:ps|" in signatures["ps"]
    assert "|prompt:slake/mc@1+slake/ps@2|technique:max(mc,ps)|" in signatures["max(mc,ps)"]
    assert {name: sum(counts.values()) for name, counts in written["outcomes"].items()} == {
        "slake mc": 24,
        "slake ps": 24,
    }


def test_tables_have_a_column_for_the_technique_where_there_are_several(tmp_path: Path) -> None:
    made = both(tmp_path)
    head, counts = tables.headline(made), tables.outcomes(made)
    assert head.headings[:4] == ["benchmark", "technique", "measure", "%"]
    assert [row[:4] for row in head.texts] == [
        ["slake", "mc", "set_accuracy", "75.00"],
        ["slake", "ps", "set_accuracy", "0.00"],
        ["slake", "max(mc,ps)", "best_set_accuracy", "75.00"],
        ["slake", "max(mc,ps)", "best_individual_accuracy", "75.00"],
    ]
    assert min(head.right) == 3
    assert [row[:3] for row in counts.texts] == [["slake", "mc", "24"], ["slake", "ps", "24"]]
    assert min(counts.right) == 2
    text = (tmp_path / "run" / "summary.md").read_text()
    assert "technique mc, ps, extraction: strict rules" in text
    assert "## slake ps by modality" in text
    suites = ET.fromstring((tmp_path / "run" / "junit.xml").read_text())
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [("slake mc", "24"), ("slake ps", "24")]
    one = report.build(folder(tmp_path / "one", [result(n) for n in range(12)]), {"slake": SLAKE})
    assert "technique" not in tables.headline(one).headings + tables.outcomes(one).headings


def test_sheets_of_several_techniques_do_not_overwrite_one_another(tmp_path: Path) -> None:
    results = [replace(asked(0, technique, "A"), score=Score(None, "unscored", ("A",))) for technique in ("mc", "ps")]
    made = report.write(
        report.build(
            folder(tmp_path / "run", results), {"slake": replace(PAIRS, owners=replace(SLAKE.owners, submission=sheet))}
        )
    )
    assert [path.relative_to(tmp_path / "run").as_posix() for path in made.sheets] == ["mc/sheet.csv", "ps/sheet.csv"]


def test_what_was_left_out_is_told() -> None:
    counts = {"slake": {"gd": {"judgment": 3, "multiple_response": 2}, "ps": {"judgment": 1}}}
    assert report.left_out(counts) == [
        "slake: 5 items left out: technique 'gd' is not defined for judgment, multiple_response here.",
        "slake: 1 item left out: technique 'ps' is not defined for judgment here.",
    ]


@pytest.mark.parametrize(
    ("ablation", "label"), [("text-only", "no images"), ("blank", "blank images"), ("shuffle", "shuffled images")]
)
def test_what_was_done_to_the_images_stands_in_every_title(tmp_path: Path, ablation: str, label: str) -> None:
    made = both(tmp_path, ablation=ablation)
    assert made.title == f"run: {label}"
    text = (tmp_path / "run" / "summary.md").read_text()
    assert text.startswith(f"# run: {label}\n")
    assert f"## slake mc \\({label}\\) by modality" in text
    for table in (tables.headline(made), tables.outcomes(made)):
        assert {row[0] for row in table.texts} == {f"slake ({label})"}
    assert terminal.summary(made, width=80).count(f"slake ({label})") == 6
    suites = ET.fromstring((tmp_path / "run" / "junit.xml").read_text())
    assert [suite.get("name") for suite in suites] == [f"slake mc ({label})", f"slake ps ({label})"]


# Units and missing intervals (issue 11, point 11)


def paired(n: int, text: str) -> Result:
    item = Item(
        f"{n // 2}/{n % 2 + 1}",
        "slake",
        "single_choice",
        f"Which? {n}",
        {"A": "a", "B": "b"},
        ("A",),
        pair_id=str(n // 2),
    )
    return Result("run", item, "0" * 64, Answer(text), scored(item, Answer(text)))


PAIRED = replace(
    SLAKE,
    metrics=(metrics.set_accuracy, metrics.individual_accuracy),
    headline=("set_accuracy", "individual_accuracy"),
    owners=Owners(),
)


def test_few_pairs_are_few_whatever_their_number_of_questions(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [paired(n, "AB"[n % 3 == 0]) for n in range(14)])
    made = report.build(run, {"slake": PAIRED})
    assert [row[2] for row in tables.headline(made).texts] == ["2/7", "9/14"]


def test_one_unit_is_singular() -> None:
    assert [counted(n, "image slots") for n in (0, 1, 2)] == ["0 image slots", "1 image slot", "2 image slots"]


def test_every_number_of_units_names_its_unit(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", [paired(n, "A") for n in range(60)])
    table = tables.headline(report.build(run, {"slake": PAIRED}))
    at = table.headings.index("n")
    assert [row[at] for row in table.texts] == ["30 pairs", "60 items"]
    run = folder(tmp_path / "other", [result(n) for n in range(60)])
    by_modality = tables.by_dimension(report.build(run, {"slake": SLAKE}).parts[0], "modality")
    assert {row[by_modality.headings.index("n")] for row in by_modality.texts} == {"30 items"}


def test_a_missing_interval_says_how_many_groups_there_are(tmp_path: Path) -> None:
    results = [result(n, "AB"[n % 2]) for n in range(40)]
    grouped = [replace(each, item=replace(each.item, cluster_id=str(n % 2))) for n, each in enumerate(results)]
    run = folder(tmp_path / "run", grouped)
    made = report.write(report.build(run, {"slake": SLAKE}))
    assert tables.headline(made).texts[0][3] == "no interval: 2 independent groups"
    measure = json.loads((run / "metrics.json").read_text())["measures"][0]
    assert (measure["units"], measure["groups"]) == (40, 2)
    cell = scorecard_section(made).blocks[0].rows[0].cells[1]
    assert (cell.low, cell.interval) == (None, "no interval: 2 independent groups")


def test_a_missing_interval_of_many_unequal_groups_is_no_empty_cell(tmp_path: Path) -> None:
    results = [result(n, "AB"[n % 2]) for n in range(44)]
    grouped = [replace(r, item=replace(r.item, cluster_id=str(max(0, n - 32)))) for n, r in enumerate(results)]
    made = report.build(folder(tmp_path / "run", grouped), {"slake": SLAKE})
    assert tables.headline(made).texts[0][3] == "no interval"
