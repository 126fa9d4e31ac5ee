"""How large the pages of big runs are, and how fast they open and filter: `python bench/page.py [--items N...]`.

For each number of items, a run in the shape of GMAI-MMBench with responses of about 300 characters is generated and
drawn; Chromium then opens the page from disk and uses the explorer. The same for the comparison of `--runs` runs of the
first number (2 and 10), each of which says something else about the same questions. `--keep` writes the run folders of
the first number, as DIR, DIR-2 and so on, and their comparisons as DIR-2-runs.html; `--no-browser` ends after drawing.
The same arguments give the same bytes.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness

from medvqa import comparing, report
from medvqa.records import run_folder
from medvqa.records.run_folder import RESULTS
from medvqa.report import html

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
SIZE, OPENS, FILTER = 15e6, {26_000: 0.2, 130_000: 3.0}, 50
"""The goals: bytes at 26,000 items without images; seconds until the summary is drawn, and as much CPU time until the
explorer can be used, by items; ms of a filter."""
SIZE_OF_TEN, OPENS_OF_TEN = 40e6, 1.5
"""The goals for ten runs of 26,000 items."""
FACET = "[...document.querySelectorAll('.facet')].find(e => e.querySelector('summary > *').textContent === '{}')"
BUTTON = "[...document.querySelectorAll('button')].find(e => e.textContent === '{}').click()"
TYPE = (
    "const box = document.querySelector('.query-input'); box.focus(); box.value = '{}'; "
    "box.dispatchEvent(new Event('input', {{bubbles: true}})); "
    "box.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true}}))"
)
FILTERS = {
    "filter: a department": FACET.format("department") + ".querySelector('ul button').click()",
    "filter: wrong answers too": "[...document.querySelectorAll('details.facet ul button')]"
    ".find(e => e.textContent.startsWith('wrong')).click()",
    "filter: clear": BUTTON.format("Clear"),
    "search: a word of 2 % of the responses": TYPE.format("oedema"),
    "search: two words and a field": TYPE.format("effusion outcome:wrong haemorrhage"),
    "search: words that no response holds": TYPE.format('"no such words"'),
    "filter: all again": TYPE.format(""),
    "sort: by time, first": "document.querySelector('.c-seconds button').click()",
    "sort: by time, reversed": "document.querySelector('.c-seconds button').click()",
    "sort: by question": "document.querySelector('.c-question button').click()",
}
"""Steps that answer within `FILTER`; each word is searched for the first time."""
STEPS = {
    **FILTERS,
    "scroll to the end": "const list = document.querySelector('.list'); list.scrollTop = list.scrollHeight",
    "images in place of rows": BUTTON.format("Images"),
    "rows again": BUTTON.format("Table"),
}
COMPARED = {
    "filter: a task": FACET.format("task") + ".querySelector('ul button').click()",
    "filter: worse ones": TYPE.format("flip:worse"),
    "filter: wrong in two runs or more": TYPE.format("wrong_in>=2"),
    "open a question": "document.querySelector('.list .row a').click()",
    "close it": "document.querySelector('#close').click()",
    "search: a word of 2 % of the responses": TYPE.format("oedema"),
}
# From the event until its frame is painted: a message that is sent in the frame comes after the paint.
TIMED = (
    "async () => {{ await new Promise(r => requestAnimationFrame(() => setTimeout(r, 30))); "
    "const t = performance.now(); {}; await new Promise(r => requestAnimationFrame(() => {{ "
    "const c = new MessageChannel(); c.port1.onmessage = r; c.port2.postMessage(0); }})); "
    "return performance.now() - t; }}"
)


# The explorer, from the click until its rows are painted.
ASK = (
    "location.hash = '#questions'; "
    "while (document.querySelector('.list .row') === null) await new Promise(r => requestAnimationFrame(r))"
)
MARKS = ("summary", "ready")
"""Marks of the page: the first screen is drawn; the explorer can be used. The rest is drawn and read when idle."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds until something is there, and the CPU time of the page's thread until then."""

    wall: float
    cpu: float | None = None


def cpu_until_marks(trace: Path) -> dict[str, float]:
    """The CPU time of the page's thread until each mark, by the tasks of a trace."""
    events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    marks = {each["name"]: each for each in events if each["name"] in MARKS and "user_timing" in each["cat"]}
    thread = [each for each in events if each["ph"] == "X" and each["tid"] == marks["ready"]["tid"]]
    spent, end = dict.fromkeys(MARKS, 0.0), 0
    for task in sorted(thread, key=lambda each: (each["ts"], -each["dur"])):
        if task["pid"] != marks["ready"]["pid"] or task["ts"] < end:
            continue
        end = task["ts"] + task["dur"]
        for name in MARKS:
            part = (marks[name]["ts"] - task["ts"]) / max(1, task["dur"])
            spent[name] += task.get("tdur", 0) / 1000 * max(0, min(1, part))
    return spent


def browse(page: Path, steps: Mapping[str, str], rounds: int, search: str = "") -> dict[str, float]:
    """Open the page and use it; print medians and the least, and return medians in ms.

    `search`: search for this word first; large comparisons read the responses then.
    """
    from playwright.sync_api import sync_playwright

    costs: dict[str, list[Cost]] = {name: [] for name in ("first paint", *MARKS)}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as temporary:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for _ in range(rounds):
            trace = Path(temporary, "trace.json")
            browser.start_tracing(path=trace, categories=["toplevel", "blink.user_timing"])
            tab = browser.new_page(viewport={"width": 1320, "height": 900})
            tab.goto(page.as_uri(), wait_until="commit")
            tab.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
            browser.stop_tracing()
            cpu = cpu_until_marks(trace)
            for name, entry in (("first paint", "first-contentful-paint"), *zip(MARKS, MARKS, strict=True)):
                started = tab.evaluate(f"performance.getEntriesByName('{entry}')[0].startTime")
                costs[name].append(Cost(started, cpu.get(name)))
            tab.wait_for_selector(".undrawn", state="detached")
            tab.wait_for_load_state()
            inspector = tab.context.new_cdp_session(tab)
            inspector.send("Performance.enable", {"timeDomain": "threadTicks"})

            def spent(tab: Any = tab, inspector: Any = inspector) -> float:
                metrics = {each["name"]: each["value"] for each in inspector.send("Performance.getMetrics")["metrics"]}
                return 1000 * float(metrics["TaskDuration"])

            def step(name: str, script: str, tab: Any = tab, spent: Callable[[], float] = spent) -> None:
                before = spent()
                wall = tab.evaluate(TIMED.format(script))
                costs.setdefault(name, []).append(Cost(wall, spent() - before))

            step("questions are shown", ASK)
            name, began = "responses can be searched", tab.evaluate("performance.now()")
            if search:
                name = "first search, which reads the responses"
                tab.evaluate(f"() => {{ {TYPE.format(search)} }}")
                tab.wait_for_timeout(100)  # until it says that it reads
            tab.wait_for_selector(".reading", state="detached", timeout=60_000)
            costs.setdefault(name, []).append(Cost(tab.evaluate("performance.now()") - began))
            if search:
                tab.evaluate(f"() => {{ {TYPE.format('')} }}")
            tab.wait_for_timeout(500)
            for name, script in steps.items():
                step(name, script)
            tab.close()
        browser.close()
    medians = {name: statistics.median(each.wall for each in some) for name, some in costs.items() if some}
    for name, median in medians.items():
        cpus = [each.cpu for each in costs[name] if each.cpu is not None]
        least = min(each.wall for each in costs[name])
        cpu_of = f", CPU of the page's thread {min(cpus):.0f}" if cpus else ""
        print(f"  {name:<45} {median:7.0f} ms (least {least:.0f}{cpu_of})")
    return medians


def one(folder: Path, n: int, rounds: int) -> None:
    """The page of a run of `n` items; without rounds, it is not opened."""
    harness.make_run(folder, n)
    made = report.build(folder, harness.KNOWN)
    content, seconds, _ = harness.timed(lambda: html.render(made))
    page = folder / html.FILE
    run_folder.write_atomic(page, content)
    mean = statistics.mean(len(r.answer.text) for part in made.parts for r in part.results if r.answer)
    print(f"{n:,} items, responses of {mean:.0f} characters on average")
    goal = f" (goal: under {SIZE / 1e6:.0f})" if n == min(OPENS) else ""
    print(f"  page {len(content) / 1e6:.1f} MB{goal}, drawn in {seconds:.1f} s")
    if rounds:
        medians = browse(page.resolve(), STEPS, rounds)
        print_goals(OPENS.get(n), medians, FILTERS)


def compared(folder: Path, n: int, runs: int, rounds: int) -> None:
    """The comparison of several runs of the same questions."""
    folders = [folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, runs + 1))]
    for seed, each in enumerate(folders):
        if not (each / RESULTS).exists():
            harness.make_run(each, n, seed)
    sides = comparing.load_runs(folders)
    study, _, comparing_cpu = harness.timed(lambda: comparing.study(sides, harness.KNOWN, flips=False))
    content, drawn, cpu = harness.timed(lambda: html.comparison_page(study, harness.KNOWN))
    page = folder.with_name(f"{folder.name}-{runs}-runs.html")
    run_folder.write_atomic(page, content)
    goal = f" (goal: under {SIZE_OF_TEN / 1e6:.0f})" if runs == 10 else ""
    print(f"{runs} runs of {n:,} items, {runs * n:,} results")
    print(
        f"  page {len(content) / 1e6:.1f} MB{goal}, compared in {comparing_cpu:.1f} s of CPU, drawn in {drawn:.1f} s "
        f"({cpu:.1f} s of CPU), peak memory {1024 * harness.peak_gib():.0f} MB"
    )
    if rounds:
        medians = browse(page.resolve(), COMPARED, rounds, search="oedema")
        print_goals(OPENS_OF_TEN if runs == 10 and n == min(OPENS) else None, medians, COMPARED)


def print_goals(opens: float | None, medians: Mapping[str, float], filters: Iterable[str]) -> None:
    """Print what is aimed at, with the slowest filter. `opens`: seconds of wall and of CPU, if they have a goal."""
    within = "" if opens is None else f"summary in {1000 * opens:.0f} ms, ready in as much CPU, "
    slowest = max(medians[name] for name in filters)
    print(f"  (goals: {within}filters in {FILTER} ms; the slowest: {slowest:.0f} ms)")


def main() -> None:
    typed = harness.options(__doc__, items=list(OPENS), keep=None, rounds=5, no_browser=False, runs=[2, 10])
    rounds = 0 if typed.no_browser else typed.rounds
    with tempfile.TemporaryDirectory() as temporary:
        first, *more = typed.items
        folder = typed.keep or Path(temporary, "large")
        one(folder, first, rounds)
        for number in typed.runs:
            compared(folder, first, number, rounds)
        for items in more:
            one(Path(temporary, str(items)), items, rounds)


if __name__ == "__main__":
    main()
