"""How large the pages of big runs are, and how fast they open and filter: `python bench/page.py [--items N...]`.

For each number of items, a run in the shape of GMAI-MMBench with responses of about 300 characters is generated and
drawn; Chromium then opens the page from disk and uses the explorer. The same for the comparison of `--runs` runs of the
first number (2 and 10), each of which says something else about the same questions. `--keep` writes the run folders of
the first number, as DIR, DIR-2 and so on, and their comparisons as DIR-2-runs.html; `--no-browser` ends after drawing.
The same arguments give the same bytes.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

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
SIZE, OPENS, FILTER = 15e6, {26_000: 1.0, 130_000: 3.0}, 50
"""The goals: bytes at 26,000 items without images; seconds until the page can be used, by items; ms of a filter."""
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


def browse(page: Path, steps: Mapping[str, str], rounds: int, search: str = "") -> dict[str, float]:
    """Open the page and use it; print and return medians in ms.

    `search`: search for this word first; large comparisons read the responses then.
    """
    from playwright.sync_api import sync_playwright

    cpu = "CPU of the page's thread until ready"
    times: dict[str, list[float]] = {name: [] for name in ("first paint", "ready", cpu, *steps)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for _ in range(rounds):
            tab = browser.new_page(viewport={"width": 1320, "height": 900})
            inspector = tab.context.new_cdp_session(tab)
            inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
            tab.goto(page.as_uri(), wait_until="commit")
            tab.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
            metrics = {each["name"]: each["value"] for each in inspector.send("Performance.getMetrics")["metrics"]}
            times[cpu].append(1000 * metrics["TaskDuration"])
            for name, entry in (("ready", "ready"), ("first paint", "first-contentful-paint")):
                times[name].append(tab.evaluate(f"performance.getEntriesByName('{entry}')[0].startTime"))
            tab.evaluate("location.hash = '#questions'")
            tab.wait_for_selector(".list .row")
            name, began = "responses can be searched", 0.0
            if search:
                name, began = "first search, which reads the responses", tab.evaluate("performance.now()")
                tab.evaluate(f"() => {{ {TYPE.format(search)} }}")
                tab.wait_for_timeout(100)  # until it says that it reads
            tab.wait_for_selector(".reading", state="detached", timeout=60_000)
            times.setdefault(name, []).append(tab.evaluate("performance.now()") - began)
            if search:
                tab.evaluate(f"() => {{ {TYPE.format('')} }}")
                tab.wait_for_timeout(500)
            for name, script in steps.items():
                times[name].append(tab.evaluate(TIMED.format(script)))
            tab.close()
        browser.close()
    medians = {name: statistics.median(values) for name, values in times.items() if values}
    for name, value in medians.items():
        print(f"  {name:<45} {value:7.0f} ms")
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
        slowest = max(medians[name] for name in FILTERS)
        goal = f"ready in {1000 * OPENS[n]:.0f} ms, " if n in OPENS else ""
        print(f"  (goals: {goal}filters in {FILTER} ms; the slowest: {slowest:.0f} ms)")


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
        browse(page.resolve(), COMPARED, rounds, search="oedema")
        if runs == 10 and n == min(OPENS):
            print(f"  (goal: ready in {1000 * OPENS_OF_TEN:.0f} ms)")


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
