"""What a question costs in calls: `python bench/calls.py [--sizes 1000 3000]`, with Python 3.11.

Counts are steady where seconds are not. cProfile counts the calls of Python and C functions in all threads of one
session over a benchmark of text and tags, which a model answers at once (that of `bench/harness.py`). The slope between
two sizes is the cost of a question: until the last one is answered, and in the report. What does not grow is the start.
"bare" is pytest over as many parametrized tests without the plugin. A question or a start above its budget ends the
script with exit code 1.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from math import inf

import harness

# cProfile counts one thread, so each thread starts a profile at its first event.
COUNTING = """
import cProfile, gc, json, os, pathlib, runpy, sys, threading

profiles, marks = [], {}

def start(*event):
    profiles.append(cProfile.Profile())
    profiles[-1].enable()

def mark(name):
    # Entries are a tree that turns at each call: a collection that runs finalizers while it is read loses a part of it.
    collects = gc.isenabled()
    gc.disable()
    marks[name] = sum(entry.callcount for profile in profiles for entry in profile.getstats())
    if collects:
        gc.enable()

def main():
    module, *sys.argv[1:] = sys.argv[1:]
    threading.setprofile(start)
    start()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        mark("end")
        pathlib.Path(os.environ["MARKS"]).write_text(json.dumps(marks))

if __name__ == "__main__":
    # Under its own name, by which conftest.py imports it.
    import counting
    counting.main()
"""
# The report begins where the run finishes.
MARK = """
import counting
from medvqa.session.run import Run

finish = Run.finish
Run.finish = lambda self, **facts: counting.mark("answered") or finish(self, **facts)
"""
# No other plugin that happens to be installed is counted.
PYTEST = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist.plugin")
SESSIONS = {
    "bare": PYTEST,
    "pytest": (*PYTEST, "-p", "medvqa.plugin", "--model=simulated:"),
    "medvqa run": ("medvqa.cli", "run", "--model=simulated:"),
}
# Calls for each question without its report, and for the start. CI fails above these.
BUDGETS = {"pytest": (2_360, 1_950_000), "medvqa run": (465, 1_680_000)}


@dataclass(frozen=True)
class Calls:
    """Calls of one session: `answered` until the last answer is kept, `end` in all."""

    answered: int
    end: int


@dataclass(frozen=True)
class Cost:
    """Calls for each question, for its part of the report, and for the start with an empty report."""

    question: float
    report: float
    start: float


def count(name: str, questions: int) -> Calls:
    """Count the calls of a session of SESSIONS. SystemExit with its output if it fails."""
    with harness.suite(MARK) as folder:
        (folder / "counting.py").write_text(COUNTING)
        if name == "bare":
            (folder / "conftest.py").unlink()
            (folder / "test_it.py").write_text(harness.BARE)
        told = {"ITEMS": questions, "WRONG": 0.6, "MARKS": folder / "marks.json", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": 1}
        harness.session(folder, "counting", *SESSIONS[name], **told)
        ends = json.loads((folder / "marks.json").read_text())
        return Calls(ends.get("answered", ends["end"]), ends["end"])


def cost(name: str, sizes: tuple[int, int] = (1000, 3000)) -> Cost:
    """Return the cost of a session of SESSIONS, from two sizes."""
    if sys.version_info[:2] != (3, 11):
        raise SystemExit("bench/calls.py needs Python 3.11: cProfile of later versions counts other calls")
    less, more = (count(name, questions) for questions in sizes)
    step = sizes[1] - sizes[0]
    question = (more.answered - less.answered) / step
    report = (more.end - less.end) / step - question
    return Cost(question, report, less.end - sizes[0] * (question + report))


def main() -> None:
    typed = harness.options(__doc__, sizes=[1000, 3000])
    print(f"{'':12}{'question':>10}{'budget':>10}{'report':>10}{'start':>14}{'budget':>14}")
    above = []
    for name in SESSIONS:
        costs = cost(name, tuple(typed.sizes))
        question, start = BUDGETS.get(name, (inf, inf))
        counted = f"{costs.question:>10,.0f}{question:>10,}{costs.report:>10,.0f}{costs.start:>14,.0f}{start:>14,}"
        print(f"{name:12}{counted}", flush=True)
        above += [name] * (costs.question > question or costs.start > start)
    if above:
        raise SystemExit(f"above budget: {', '.join(above)}")


if __name__ == "__main__":
    main()
