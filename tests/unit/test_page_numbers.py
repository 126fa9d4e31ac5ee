"""Each number of a run's page is that of metrics.json, and is printed as it is everywhere."""

import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kept import drawing
from medvqa import metrics, report
from medvqa.cli import main
from medvqa.figures import Figure, typeset
from medvqa.items import Result
from medvqa.report import bundle, sentences
from medvqa.report.bundle.pictures import Pictures
from support import pages

LEVELS = ("random", "majority", "image_blind")
NUMBERS = ("value", "low", "high", "n")


def kept(run: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kept run, drawn anew."""
    drawing.lay_suite(root)
    drawing.lay_runs(root, [run])
    monkeypatch.chdir(root)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["report", f"reports/{run}", "--images=none", "--plugin=conftest.py"]) == 0
    return root / "reports" / run


def head_of(folder: Path) -> dict[str, Any]:
    """The head of the page in a run folder."""
    return pages.Page((folder / "index.html").read_text("utf-8")).block("head")


def within(value: object, key: str) -> Iterator[dict[str, Any]]:
    """All records inside a part of the page that have this key."""
    if isinstance(value, dict):
        if key in value:
            yield value
        for each in value.values():
            yield from within(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from within(each, key)


def identity(measure: dict[str, Any]) -> tuple[str, ...]:
    place = "; ".join(f"{name}={value}" for name, value in measure["slice"].items())
    return measure["benchmark"], measure["technique"], measure["name"], place


def printed(measure: dict[str, Any]) -> Figure:
    fields = {name: measure[name] for name in (*NUMBERS, "unit", "count", "units", "groups")}
    return Figure(**fields, percent=measure.get("percent", True))


def check(folder: Path, head: dict[str, Any]) -> int:
    """Compare all numbers of a page with metrics.json beside it, and return how many figures were compared."""
    stored = json.loads((folder / "metrics.json").read_text("utf-8"))
    measures = {identity(measure): measure for measure in stored["measures"]}
    gaps = {(g["benchmark"], g["technique"], g["name"]): g for g in (stored.get("blank") or {}).get("gaps", ())}
    seen = set()
    for cell in within(head["sections"], "of"):
        if not isinstance(cell["of"], dict):
            continue
        of = cell["of"]
        if "rule" in of:
            [entry] = [entry for entry in stored["gate"]["entries"] if entry["rule"] == of["rule"]]
            assert cell["value"] == entry[of["field"]]
            if of["field"] == "difference":
                assert (cell.get("low"), cell.get("high")) == (entry["low"], entry["high"])
            continue
        key = of["benchmark"], of["technique"], of["measure"], of.get("slice", "")
        if "gap" in of:
            assert cell["value"] == gaps[key[:3]][of["gap"]]
        elif "reference" in of:
            assert cell["value"] == measures[key]["references"][of["reference"]]
        else:
            measure, figure = measures[key], printed(measures[key])
            assert [cell.get(name) for name in NUMBERS] == [measure[name] for name in NUMBERS]
            levels = {name: level for name, level in cell.get("levels", {}).items() if name in LEVELS}
            assert levels == measure["references"]
            # Beside a measure that is no percentage, the others have a sign of their own.
            assert cell["shown"] in (figure.text, figure.stated)
            assert cell.get("interval", "") == figure.interval
            assert cell["units"] == figure.counted
            seen.add(key)
    for sentence in within(head["sections"], "words"):
        of = (sentence.get("figure") or {}).get("of", {})
        key = tuple(of.get(name, "") for name in ("benchmark", "technique", "measure"))
        for word in sentence["words"]:
            origin, value = word.get("of", ""), word.get("value")
            if origin in NUMBERS:
                assert value == measures[*key, ""][origin]
            elif origin in sentences.LOOKLESS:
                assert value == measures[*key, ""]["references"][origin]
            elif origin:
                assert value == gaps[key][{"blank": "blank", "gap": "value"}.get(origin, origin.removeprefix("gap_"))]
            if origin in ("value", "low", "high", *sentences.LOOKLESS) and word["text"].endswith(" %"):
                assert typeset(sentences.rounded(value)) + " %" == word["text"]
    check_whole(set(measures), seen)
    [failing] = [section["blocks"] for section in head["sections"] if section["id"] == "failing"]
    chosen = [block for block in failing if block["block"] == "questions" and block.get("total")]
    assert [{choice["title"]: choice["count"] for choice in block["chosen"]} for block in chosen] == [
        {name: number for name, number in counts.items() if number} for counts in stored["outcomes"].values()
    ]
    return len(seen)


def check_whole(known: set[tuple[str, ...]], seen: set[tuple[str, ...]]) -> None:
    """Of a dimension that stands in the page, each slice of each measure that stands there is shown."""
    measures = {key[:3] for key in seen}
    dimensions = {(*key[:2], key[3].partition("=")[0]) for key in seen}
    assert {key for key in known if key[:3] in measures and (*key[:2], key[3].partition("=")[0]) in dimensions} == seen


@pytest.mark.parametrize("run", [*(run for run in drawing.MADE if run not in drawing.KILLED), "merged"])
def test_every_number_of_a_kept_run_is_that_of_metrics_json(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept(run, tmp_path, monkeypatch)
    assert check(folder, head_of(folder)) > 0


@metrics.ratio(name="letters", binary=False, percent=False)
def letters(results: Sequence[Result]) -> tuple[float, float]:
    """The number of characters of a response, less ten."""
    answer = results[0].answer
    return float(len(answer.text) if answer else 0) - 10, 1.0


MIXED = {name: replace(each, metrics=(*each.metrics, letters)) for name, each in pages.PHANTOM.items()}
"""The benchmarks with a measure that is no percentage, and may be below 0."""


@pytest.mark.parametrize("run", ["twice", "repeated", "gap", "gated", "mixed"])
def test_every_number_of_a_run_of_all_benchmarks_is_that_of_metrics_json(run: str, tmp_path: Path) -> None:
    if run == "gap":
        from medvqa import comparing
        from medvqa.comparing import blank

        folder, without = pages.ablated(tmp_path)
        blank.write(folder, blank.against(comparing.load(folder), comparing.load(without), pages.PHANTOM))
    elif run == "gated":
        folder = pages.gated(tmp_path)
    elif run == "repeated":
        folder = pages.write(tmp_path / run, pages.repeated(pages.guesses(), 3), repeat=3)
    else:
        folder = pages.write(tmp_path / run, pages.twice())
    made = report.write(report.build(folder, MIXED if run == "mixed" else pages.PHANTOM))
    head = json.loads(bundle.of_run(made, Pictures("none", ""))["head"])
    assert check(folder, head) > 100
