"""How large the pages of big runs are, and how fast they open and filter: `python bench/page.py [--items N...]`.

For each number of items, a run in the shape of GMAI-MMBench with responses of about 300 characters is generated and
drawn; Chromium then opens the page from disk and uses the explorer. The same for the comparison of `--runs` runs of the
first number (2 and 10), each of which says something else about the same questions. `--keep` writes the run folders of
the first number, as DIR, DIR-2 and so on, and their comparisons as DIR-2-runs.html; `--no-browser` ends after drawing.
The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from medvqa import comparing, report
from medvqa.benchmarks import gmai_mmbench
from medvqa.items import Answer, Image, Item, Result
from medvqa.records import run_folder
from medvqa.records.run_folder import RESULTS, Recorder
from medvqa.records.run_record import RUN
from medvqa.report import html
from medvqa.tags import lexicon

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
SIZE, OPENS, FILTER = 15e6, {26_000: 1.0, 130_000: 3.0}, 50
"""The goals: bytes at 26,000 items without images; seconds until the page can be used, by items; ms of a filter."""
SIZE_OF_TEN, OPENS_OF_TEN = 40e6, 1.5
"""The goals for ten runs of 26,000 items."""
LETTERS = "ABCDE"
SENTENCE = """
the image shows a lesion with an irregular border and mild asymmetry in the upper left lobe which suggests that there
is no evidence of acute haemorrhage but focal thickening of the wall near the margin may represent early infiltration
compared with surrounding tissue signal intensity appears increased while contrast enhancement is absent therefore
considering distribution size shape colour vessels nodules calcification effusion oedema we conclude most likely
"""


def results(n: int, seed: int = 0) -> Iterator[Result]:
    """A model that is right more often than not and says why; the seed decides what it says, not what it is asked."""
    draw, speak = random.Random(0), random.Random(seed + 1)
    known = lexicon.gmai_mmbench()
    branches = sorted(known.trees["task", "modality", "label"])
    departments, grains = (sorted(known.dimensions[name].values) for name in ("department", "granularity"))
    labels = [branch[2].replace("_", " ") for branch in branches]
    words = sorted(
        {*SENTENCE.split(), *" ".join(labels).split()}
    )  # more than a thousand: no easier to deflate than prose
    for i in range(n):
        task, modality, label = draw.choice(branches)
        right = draw.choice(LETTERS[:4])
        texts = [label.replace("_", " ") if letter == right else draw.choice(labels) for letter in LETTERS[:4]]
        item = Item(
            id=f"{i:05}",
            benchmark=gmai_mmbench.VAL.name,
            kind="single_choice",
            question=f"This is a {modality} image. Which of the following options is the most appropriate?",
            options=dict(zip(LETTERS, texts, strict=False)),
            answers=(right,),
            images=(Image(f"gmai-mmbench/VAL.tsv row {i}"),),
            tags={
                "task": (task,),
                "department": (draw.choice(departments),),
                "granularity": (draw.choice(grains),),
                "modality": (modality,),
                "label": (label,),
            },
        )
        chosen = right if speak.random() < 0.5 else speak.choice("ABCD?")
        said = f"The answer is {chosen}. " if chosen != "?" else "I cannot tell. "
        length = speak.randint(100, 500) - len(said)
        while length > 0:
            word = speak.choice(words)
            said += word + " "
            length -= len(word) + 1
        answer = Answer(said.strip(), seconds=speak.uniform(0.2, 2), usage={"input": 900, "output": len(said) // 4})
        # Read from the letter alone: what is said beside it is noise that names other options.
        yield Result("large", item, f"{i:064x}", answer, gmai_mmbench.score(item, Answer(chosen)))


def make(folder: Path, n: int, seed: int = 0) -> None:
    """A run folder with `n` items."""
    recorder = Recorder(folder)
    for result in results(n, seed):
        recorder.append(run_folder.encode(result))
    recorder.close()
    about = {"items": n, "data_sha256": "0" * 64, "signature": {"data": "0" * 12, "technique": "mc"}}
    run_folder.write_json(
        folder / RUN,
        {"name": folder.name, "model": {"name": "generated"}, "benchmarks": {gmai_mmbench.VAL.name: about}},
    )


FACET = "[...document.querySelectorAll('.facet')].find(e => e.querySelector('summary > *').textContent === '{}')"
TYPE = (
    "const box = document.querySelector('.query-input'); box.focus(); box.value = '{}'; "
    "box.dispatchEvent(new Event('input', {{bubbles: true}})); "
    "box.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true}}))"
)
FILTERS = {
    "filter: a department": FACET.format("department") + ".querySelector('ul button').click()",
    "filter: wrong answers too": "[...document.querySelectorAll('details.facet ul button')]"
    ".find(e => e.textContent.startsWith('wrong')).click()",
    "filter: clear": "[...document.querySelectorAll('button')].find(e => e.textContent === 'Clear').click()",
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
    "images in place of rows": "[...document.querySelectorAll('button')].find(e => e.textContent === 'Images').click()",
    "rows again": "[...document.querySelectorAll('button')].find(e => e.textContent === 'Table').click()",
}
COMPARED = {
    "filter: a task": FACET.format("task") + ".querySelector('ul button').click()",
    "filter: worse ones": TYPE.format("flip:worse"),
    "filter: wrong in two runs or more": TYPE.format("wrong_in>=2"),
    "open a question": "document.querySelector('.list .row a').click()",
    "close it": "document.querySelector('#close').click()",
    "search: a word of 2 % of the responses": TYPE.format("oedema"),
}


def browse(
    page: Path, steps: Mapping[str, str], rounds: int = 5, *, read: str = "", search: str = ""
) -> dict[str, float]:
    """Open the page and use it; print and return medians in ms.

    `read`: wait until this selector is gone. `search`: search for this word first; large comparisons read the responses
    then.
    """
    from playwright.sync_api import Page, sync_playwright

    def timed(page: Page, script: str) -> float:
        # From the event until its frame is painted: a message that is sent in the frame comes after the paint.
        return page.evaluate(
            "async () => { await new Promise(r => requestAnimationFrame(() => setTimeout(r, 30))); "
            "const t = performance.now(); " + script + "; await new Promise(r => requestAnimationFrame(() => { "
            "const c = new MessageChannel(); c.port1.onmessage = r; c.port2.postMessage(0); })); "
            "return performance.now() - t; }"
        )

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
            times["ready"].append(tab.evaluate("performance.getEntriesByName('ready')[0].startTime"))
            paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            times["first paint"].append(tab.evaluate(paint))
            if read:
                tab.evaluate("location.hash = '#questions'")
                tab.wait_for_selector(".list .row")
                name, began = "responses can be searched", 0.0
                if search:
                    name, began = "first search, which reads the responses", tab.evaluate("performance.now()")
                    tab.evaluate(f"() => {{ {TYPE.format(search)} }}")
                    tab.wait_for_timeout(100)  # until it says that it reads
                tab.wait_for_selector(read, state="detached", timeout=60_000)
                times.setdefault(name, []).append(tab.evaluate("performance.now()") - began)
                if search:
                    tab.evaluate(f"() => {{ {TYPE.format('')} }}")
                    tab.wait_for_timeout(500)
            for name, script in steps.items():
                times[name].append(timed(tab, script))
            tab.close()
        browser.close()
    medians = {name: statistics.median(values) for name, values in times.items() if values}
    for name, value in medians.items():
        print(f"  {name:<45} {value:7.0f} ms")
    return medians


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=list(OPENS))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--runs", type=int, nargs="*", default=[2, 10], help="the runs of each comparison")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        first, *more = options.items
        folder = options.keep or Path(temporary, "large")
        one(folder, first, rounds=options.rounds, browser=not options.no_browser)
        for number in options.runs:
            compared(folder, first, number, rounds=options.rounds, browser=not options.no_browser)
        for items in more:
            one(Path(temporary, str(items)), items, rounds=options.rounds, browser=not options.no_browser)
    return 0


def one(folder: Path, n: int, *, rounds: int, browser: bool) -> None:
    """The page of a run of `n` items."""
    make(folder, n)
    made = report.build(folder, KNOWN)
    started = time.perf_counter()
    content = html.render(made)
    seconds = time.perf_counter() - started
    page = folder / html.FILE
    run_folder.write_atomic(page, content)
    mean = statistics.mean(len(r.answer.text) for part in made.parts for r in part.results if r.answer)
    print(f"{n:,} items, responses of {mean:.0f} characters on average")
    goal = f" (goal: under {SIZE / 1e6:.0f})" if n == min(OPENS) else ""
    print(f"  page {len(content) / 1e6:.1f} MB{goal}, drawn in {seconds:.1f} s")
    if browser:
        medians = browse(page.resolve(), STEPS, rounds, read=".reading")
        slowest = max(medians[name] for name in FILTERS)
        goal = f"ready in {1000 * OPENS[n]:.0f} ms, " if n in OPENS else ""
        print(f"  (goals: {goal}filters in {FILTER} ms; the slowest: {slowest:.0f} ms)")


KNOWN = {gmai_mmbench.VAL.name: gmai_mmbench.VAL}


def compared(folder: Path, n: int, runs: int, *, rounds: int, browser: bool) -> None:
    """The comparison of several runs of the same questions."""
    folders = [folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, runs + 1))]
    for seed, each in enumerate(folders):
        if not (each / RESULTS).exists():
            make(each, n, seed=seed)
    sides = [comparing.load(each) for each in folders]
    started = time.process_time()
    study = comparing.study(sides, KNOWN, flips=False)
    seconds = time.process_time() - started
    started, cpu = time.perf_counter(), time.process_time()
    content = html.comparison_page(study, KNOWN)
    drawn, cpu = time.perf_counter() - started, time.process_time() - cpu
    page = folder.with_name(f"{folder.name}-{runs}-runs.html")
    run_folder.write_atomic(page, content)
    goal = f" (goal: under {SIZE_OF_TEN / 1e6:.0f})" if runs == 10 else ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{runs} runs of {n:,} items, {runs * n:,} results")
    print(
        f"  page {len(content) / 1e6:.1f} MB{goal}, compared in {seconds:.1f} s of CPU, drawn in {drawn:.1f} s "
        f"({cpu:.1f} s of CPU), peak memory {peak:.0f} MB"
    )
    if browser:
        browse(page.resolve(), COMPARED, rounds, read=".reading", search="oedema")
        if runs == 10 and n == min(OPENS):
            print(f"  (goal: ready in {1000 * OPENS_OF_TEN:.0f} ms)")


if __name__ == "__main__":
    raise SystemExit(main())
