"""The list of runs of `medvqa view`: numbers as reports have them, trends of comparable runs, hostile folders."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import report
from medvqa.items import Measure, Score
from medvqa.records import run_folder, run_record, selected
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.session.registry import Registry
from medvqa.view import entries, progress, run_list
from medvqa.view.run_index import RunIndexes
from medvqa.view.run_list import RunFolders
from medvqa.view.shapes import RunEntry, RunList
from support import pages


def drawn(folder: Path) -> report.Report:
    return report.write(report.build(folder, pages.PHANTOM))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished runs, and one more with a gate."""
    root = tmp_path_factory.mktemp("reports")
    for day, folder in enumerate(pages.several_runs(root), 1):
        run = run_record.read_run(folder)
        run_folder.write_json(folder / "run.json", {**run.as_json(), "started": f"2026-01-0{day}T03:04:05+00:00"})
        drawn(folder)
    drawn(pages.gated(root / "gates"))
    return root


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.of([], installed=[])


def listed(root: Path, registry: Registry) -> RunList:
    return RunFolders(root, registry, RunIndexes()).list()


def entry(root: Path, registry: Registry, name: str) -> RunEntry:
    return next(run for run in listed(root, registry).runs if run.name == name)


def test_lists_the_latest_first_by_their_paths(reports: Path, registry: Registry) -> None:
    found = listed(reports, registry)
    assert found.root == reports.name
    # The gated ones started when the second did: equal times stand by name.
    assert [run.name for run in found.runs] == ["third", "gates/change", "gates/main", "second", "first"]


def test_numbers_are_those_of_the_report(reports: Path, registry: Registry) -> None:
    built = report.build(reports / "first", pages.PHANTOM)
    run = entry(reports, registry, "first")
    assert (run.state, run.model, run.stale, run.why) == ("finished", "guesser", False, "")
    expected = [measure for part in built.parts for measure in part.headline]
    assert [(each.benchmark, each.technique, each.name) for each in run.numbers] == [
        (measure.benchmark, measure.technique, measure.name) for measure in expected
    ]
    for number, measure in zip(run.numbers, expected, strict=True):
        assert (number.value, number.low, number.high, number.n) == (
            measure.value,
            measure.low,
            measure.high,
            measure.n,
        )
        assert number.shown == measure.figure.stated
        assert number.interval == measure.figure.interval
    assert {number.name for number in run.numbers if number.lower} == {"confusion"}


def test_comparable_runs_share_digests(reports: Path, registry: Registry) -> None:
    first, second = (entry(reports, registry, name).numbers for name in ("first", "second"))
    assert [number.comparable for number in first] == [number.comparable for number in second]
    assert len({number.comparable for number in first}) == len(first)


@pytest.mark.parametrize(
    ("signature", "same"),
    [
        ("data:1|metric:accuracy@0|repeat:5", True),
        ("data:1|metric:accuracy@0|models:a+b", True),
        ("data:2|metric:accuracy@0", False),
        ("data:1|metric:accuracy@0|prompt:x@1", False),
        ("data:1|metric:accuracy@0|ablation:blank", False),
        ("data:1|metric:accuracy@0|combine:vote|repeat:5", False),
        ("no signature", False),
    ],
)
def test_only_differences_that_a_comparison_allows_share_a_trend(signature: str, same: bool) -> None:
    before = entries.comparable("b", "mc", "accuracy", "data:1|metric:accuracy@0", None)
    assert (entries.comparable("b", "mc", "accuracy", signature, None) == before) is same


def test_a_selected_part_is_another_trend() -> None:
    whole, part, other = (
        entries.comparable("b", "mc", "accuracy", "data:1", selection)
        for selection in (
            None,
            {"chosen": 10, "of": 60, "how": ["--limit=10"]},
            {"chosen": 10, "of": 60, "how": ["-k", "x"]},
        )
    )
    assert len({whole, part, other}) == 3


def test_tells_the_gate_and_its_first_reason(reports: Path, registry: Registry) -> None:
    gate = entry(reports, registry, "gates/change").gate
    assert gate is not None
    assert (gate.result, gate.baseline, gate.stale) == ("failed", "main", False)
    assert gate.reason


def test_marks_numbers_and_verdicts_of_earlier_results(tmp_path: Path, registry: Registry) -> None:
    folder = pages.gated(tmp_path)
    drawn(folder)
    results = folder / RESULTS
    later = results.stat().st_mtime_ns + 10**12
    results.write_bytes(results.read_bytes().partition(b"\n")[2])
    os.utime(results, ns=(later, later))
    run = entry(tmp_path, registry, "change")
    assert run.stale
    assert run.gate is not None
    assert run.gate.stale
    assert run.answered == len(results.read_bytes().splitlines())
    assert run.state != "running"


def test_numbers_stay_current_where_only_the_order_of_lines_is_another(tmp_path: Path, registry: Registry) -> None:
    folder = pages.gated(tmp_path)
    drawn(folder)
    results = folder / RESULTS
    results.write_bytes(b"".join(reversed(results.read_bytes().splitlines(keepends=True))))
    run = entry(tmp_path, registry, "change")
    assert (run.stale, run.unchecked, run.state) == (False, False, "finished")
    assert run.gate is not None
    assert not run.gate.stale


def dated(folder: Path, *order: str) -> None:
    """Date the files of a folder one second apart, in this order."""
    for second, name in enumerate(order, 1_700_000_000):
        os.utime(folder / name, (second, second))


def test_a_copy_with_other_times_is_no_run_of_earlier_results(tmp_path: Path, registry: Registry) -> None:
    """`git clone` and `cp -r` write the files in any order."""
    drawn(pages.gated(tmp_path))
    dated(tmp_path / "change", "gate.json", "metrics.json", "run.json", RESULTS)
    run = entry(tmp_path, registry, "change")
    assert (run.state, run.stale, run.unchecked) == ("finished", False, False)
    assert run.gate is not None
    assert not run.gate.stale


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_numbers_drawn_while_a_run_grew_are_of_earlier_results(
    tmp_path: Path, registry: Registry, share: float
) -> None:
    """`rsync -a` keeps times: metrics.json of the first results is the newest file beside all of them."""
    results = pages.guesses()
    first = round(share * len(results))
    again = replace(results[0], score=replace(results[0].score, why="again"))
    about = {"selection": {"questions": len(results), "how": [], "by_outcome": False, "benchmarks": {}}}
    folder = pages.write(tmp_path / "first", results[:first], **about)
    drawn(folder)
    pages.write(folder, [*results[first:], again], **about)
    dated(folder, "run.json", RESULTS, "metrics.json")
    run = entry(tmp_path, registry, "first")
    assert (run.state, run.answered, run.stale) == ("finished", len(results), True)


def test_a_list_reads_no_results_of_a_run_with_reports(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        drawn(pages.write(tmp_path / name, pages.guesses()[:20], finished="2026-01-01T00:00:00+00:00"))

    def read(*_: object) -> None:
        raise AssertionError("a result was read")

    monkeypatch.setattr(run_folder, "decode", read)
    assert [(run.state, run.answered) for run in listed(tmp_path, registry).runs] == [("finished", 20)] * 2


def test_numbers_without_a_digest_are_told_as_unchecked(tmp_path: Path, registry: Registry) -> None:
    """Earlier versions wrote metrics.json without one."""
    folder = pages.gated(tmp_path)
    drawn(folder)
    for name, fields in (("metrics.json", ("results",)), ("gate.json", ("digest", "number"))):
        content = json.loads((folder / name).read_text())
        for field in fields:
            del content[field]
        run_folder.write_json(folder / name, content)
    dated(folder, "gate.json", "metrics.json", "run.json", RESULTS)
    run = entry(tmp_path, registry, "change")
    assert (run.state, run.stale, run.unchecked) == ("finished", False, True)
    assert run.gate is not None
    assert not run.gate.stale
    drawn(folder)
    assert not entry(tmp_path, registry, "change").unchecked


@pytest.mark.parametrize("reports", [True, False])
def test_errors_are_counted_and_the_reason_of_a_stop_is_told(tmp_path: Path, registry: Registry, reports: bool) -> None:
    failed = Score(None, "error", (), "the server said 503")
    results = [replace(each, answer=None, score=failed) if n < 7 else each for n, each in enumerate(pages.guesses())]
    folder = pages.write(tmp_path / "first", results, sessions=[{"stopped": "50 errors in a row"}])
    if reports:
        drawn(folder)
    run = entry(tmp_path, registry, "first")
    assert (run.errors, run.answered, run.stopped) == (7, len(results), "50 errors in a row")
    assert progress.run_progress(RunIndexes().of(folder), "first").stopped == "50 errors in a row"


def test_list_and_page_agree_whether_a_run_is_finished(tmp_path: Path, registry: Registry) -> None:
    """Questions that a session selected before it died count for both."""
    results = pages.guesses()[:6]
    selection = {"questions": 6, "how": [], "by_outcome": False, "benchmarks": {}}
    folder = pages.write(tmp_path / "first", results, selection=selection)
    selected.select(folder, "one", [result.key for result in results])
    drawn(folder)

    def states() -> set[str]:
        index = RunIndexes().of(folder)
        return {entry(tmp_path, registry, "first").state, progress.run_progress(index, "first").state}

    assert states() == {"finished"}
    selected.select(folder, "two", [result.key for result in results[:3]])
    assert states() == {"finished"}
    selected.select(folder, "three", [pages.guesses()[7].key])
    assert states() == {"unfinished"}


def test_keeps_entries_until_a_file_changes(reports: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    describe = entries.describe

    def counted(name: str, folder: Path, *others: Any) -> RunEntry:
        read.append(folder)
        return describe(name, folder, *others)

    monkeypatch.setattr(entries, "describe", counted)
    monkeypatch.setattr(run_list, "LONGEST_REST", 0)
    kept = RunFolders(reports, registry, RunIndexes())
    kept.list()
    assert len(read) == 5
    kept.list()
    assert len(read) == 5
    os.utime(reports / "first" / "metrics.json")
    kept.list()
    assert len(read) == 6


def test_a_link_in_the_place_of_a_missing_file_is_noticed(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK", "LONGEST_REST"):
        monkeypatch.setattr(run_list, name, 0)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RUN).write_text("{}")
    kept, path = RunFolders(tmp_path, registry, RunIndexes()), tmp_path / "run" / RESULTS
    states = [kept.list().runs[0].state]
    for make, remove in (
        (lambda: path.symlink_to(tmp_path / "other"), path.unlink),
        (path.mkdir, path.rmdir),
    ):
        make()
        states.append(kept.list().runs[0].state)
        remove()
        states.append(kept.list().runs[0].state)
    assert states == ["unfinished", "unreadable"] * 2 + ["unfinished"]


def test_a_broken_folder_costs_itself_alone(tmp_path: Path, registry: Registry) -> None:
    good = pages.write(tmp_path / "good", pages.guesses())
    drawn(good)
    broken = {
        "no-run": {RESULTS: ""},
        "no-json": {RUN: "{"},
        "deep": {RUN: "[" * 100_000},
        "wrong-type": {RUN: '{"benchmarks": 3}'},
        "half-rescored": {RUN: '{"rescoring": true}'},
        "bad-gate": {RUN: "{}", "gate.json": "x"},
        "deep-gate": {RUN: "{}", "gate.json": '{"verdict":' * 100_000},
    }
    for name, files in broken.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    (tmp_path / "no-metrics").mkdir()
    (tmp_path / "no-metrics" / RUN).write_text("{}")
    (tmp_path / "no-metrics" / "metrics.json").write_text('{"measures": [{}')
    os.mkfifo(tmp_path / "no-metrics" / "gate.json")
    (tmp_path / "no-file" / RESULTS).mkdir(parents=True)
    (tmp_path / "no-file" / RUN).write_text("{}")
    found = {run.name: run for run in listed(tmp_path, registry).runs}
    assert found["good"].state == "finished"
    for name in (*broken, "no-file"):
        assert found[name].state == "unreadable"
        assert found[name].why
        assert str(tmp_path) not in found[name].why
        # The page of the run says the same, but for a verdict that it does not show.
        if "gate" not in name:
            told = progress.run_progress(RunIndexes().of(tmp_path / name), name)
            assert (told.state, told.why) == ("unreadable", found[name].why)
    assert found["no-metrics"].why.startswith("gate.json") or "damaged" in found["no-metrics"].why


def test_finds_runs_through_no_link_and_in_no_run(tmp_path: Path, registry: Registry) -> None:
    outside = pages.write(tmp_path / "outside", pages.guesses()[:3])
    root = tmp_path / "root"
    for name in ("a/b/c", "a/b/c/d", "run/inner", ".hidden"):
        (root / name).mkdir(parents=True)
        (root / name / RUN).write_text("{}")
    (root / "run" / RUN).write_text("{}")
    (root / "link").symlink_to(outside)
    (root / "linked").mkdir()
    (root / "linked" / RESULTS).symlink_to(outside / RESULTS)
    found = {run.name: run for run in listed(root, registry).runs}
    assert sorted(found) == ["a/b/c", "linked", "run"]
    assert found["linked"].state == "unreadable"
    assert "symbolic link" in found["linked"].why


def test_the_root_may_be_a_run(tmp_path: Path, registry: Registry) -> None:
    folder = pages.write(tmp_path / "only", pages.guesses()[:3])
    kept = RunFolders(folder, registry, RunIndexes())
    assert [run.name for run in kept.list().runs] == ["only"]
    assert kept.folder("only") == folder.resolve()


def test_names_are_looked_up_and_never_joined(tmp_path: Path, registry: Registry) -> None:
    names = ["a b", "\u202egpj", r"line\nend", "<b>", "50%?#x"]
    for name in names:
        pages.write(tmp_path / "reports" / name.replace(r"\n", "\n"), pages.guesses()[:2])
    raw = os.fsencode(tmp_path / "reports") + b"/\xff"
    os.mkdir(raw)
    Path(os.fsdecode(raw), RUN).write_text("{}")
    secret = pages.write(tmp_path / "secret", pages.guesses()[:2])
    kept = RunFolders(tmp_path / "reports", registry, RunIndexes())
    assert kept.folder("a b") == (tmp_path / "reports" / "a b").resolve()
    assert {run.name for run in kept.list().runs} == {*names, "\\udcff"}
    for name in ("../secret", str(secret), "a b/../../secret", "", ".", "a b/", "\\xff"):
        assert kept.folder(name) is None


def test_counts_runs_above_the_limit(tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "LISTED", 3)
    for number in range(5):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        (folder / RUN).write_text("{}")
        os.utime(folder / RUN, (number, number))
    found = listed(tmp_path, registry)
    # The ones that changed last are listed.
    assert [run.name for run in found.runs] == ["run2", "run3", "run4"]
    assert found.left_out == 2


def test_runs_that_take_long_to_read_hold_no_list_up(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK", "LONGEST_LOOK", "LONGEST_REST"):
        monkeypatch.setattr(run_list, name, 0)
    for number in range(3):
        (tmp_path / f"run{number}").mkdir()
        (tmp_path / f"run{number}" / RUN).write_text("{}")
    kept = RunFolders(tmp_path, registry, RunIndexes())
    looks = [kept.list() for _ in range(4)]
    assert [(len(look.runs), look.unread) for look in looks] == [(1, 2), (2, 1), (3, 0), (3, 0)]
    assert {look.left_out for look in looks} == {0}
    (tmp_path / "run3").mkdir()
    (tmp_path / "run3" / RUN).write_text("{}")
    news = kept.list(looks[-1].version)
    assert ([run.name for run in news.runs], news.partial) == (["run3"], True)


def test_a_tree_without_runs_ends(tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "SCANNED", 10)
    for number in range(50):
        (tmp_path / f"folder{number:02}").mkdir()
    assert listed(tmp_path, registry).runs == []


def test_a_benchmark_that_is_not_known_here_has_no_numbers(tmp_path: Path, registry: Registry) -> None:
    folder = pages.write(tmp_path / "run", pages.guesses())
    drawn(folder)
    known = replace(registry, benchmarks={})
    run = entry(tmp_path, known, "run")
    assert run.numbers == []
    assert "--benchmark=FILE" in run.why
    assert run.state == "finished"


def test_a_number_that_is_no_percentage_is_shown_as_it_is(tmp_path: Path, registry: Registry) -> None:
    measure = Measure("b", "long", 12.5, None, None, 100, percent=False)
    assert measure.figure.stated == "12.50"
    assert replace(measure, percent=True, value=None).figure.stated == "–"
    assert replace(measure, percent=True, value=0.5).figure.stated == "50.00 %"


def test_unfinished_runs_are_counted(tmp_path: Path, registry: Registry) -> None:
    results = pages.guesses()
    selection = {"questions": len(results), "how": [], "by_outcome": False, "benchmarks": {}}
    folder = pages.write(tmp_path / "run", [*results[:10], results[0]], selection=selection)
    run = entry(tmp_path, registry, "run")
    assert (run.state, run.answered, run.selected) == ("unfinished", 10, len(results))
    drawn(folder)
    assert json.loads((folder / "metrics.json").read_text())["unfinished"]
    assert entry(tmp_path, registry, "run").state == "unfinished"
