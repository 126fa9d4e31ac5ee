"""How busy a model is kept: pytest sessions against a bare loop over full batches, measured side by side.

    python bench/engine.py [--items 2000] [--batch-size 32] [--workers 2] [--rounds 3] [--call 20] [--each 1]

The model is simulated: a call sleeps 20 ms, and 1 ms more for each prompt. One that drafts needs 20 ms more for each
batch, in a thread of its own (as the backend `hf` decodes images), before its call of 40 ms. The bare loop cuts as many
prompts into batches, drafts the next one while it computes, and does nothing with the answers. The model answers in two
stages, as `hf` does; in "one stage", its answers are stored before its next call. A session is timed within its process
(with workers, over all of them) from the first call of a model to the end of the last test, so that neither counts what
pytest needs to start.
"busy" is the bare loop's time, divided by the number of workers, over the session's: the median of the rounds.
"one at a time" is the session with --batch-size=1; it is long, so it asks a tenth of the items, and its time is scaled.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import harness

MARKS = """
SIZES = {}
ask, moments = Simulated.generate, {}

def mark():
    moments.setdefault("call", time.monotonic())
    moments["end"] = time.monotonic()

def generate(self, prompts):
    mark()
    return ask(self, prompts)

Simulated.generate = generate

def pytest_runtest_logfinish():
    if moments:
        mark()

def pytest_sessionfinish():
    if moments:
        (HERE / f"moments-{os.getpid()}").write_text(f"{moments['call']} {moments['end']}")
"""


@dataclass(frozen=True)
class Case:
    """A row: `seconds` of a call, of each prompt and of a draft; `words` that a question may have more than others."""

    title: str
    seconds: tuple[float, float, float]
    words: int = 0
    workers: int = 1
    model: str = "staged"
    alone: bool = False

    @property
    def spread(self) -> tuple[str, ...]:
        return (f"-n{self.workers}",) if self.workers > 1 else ()


def bare(items: int, batch: int, call: float, each: float, drafting: float) -> float:
    """Seconds of the loop that does nothing but full batches, of which it drafts the next one in another thread."""
    start = time.perf_counter()
    time.sleep(drafting)
    for first in range(0, items, batch):
        time.sleep(call + each * min(batch, items - first))
    return time.perf_counter() - start


def session(folder: Path, items: int, batch: int, words: int, *arguments: str) -> float:
    """Seconds from the first call to the end of the last test."""
    harness.session(folder, *harness.PYTEST, f"--batch-size={batch}", *arguments, ITEMS=items, WORDS=words)
    written = list(folder.glob("moments-*"))
    moments = [list(map(float, path.read_text().split())) for path in written]
    for path in written:
        path.unlink()
    return max(end for _, end in moments) - min(start for start, _ in moments)


def main() -> None:
    typed = harness.options(__doc__, items=2000, batch_size=32, workers=2, rounds=3, call=20.0, each=1.0)
    plain, drafts = (typed.call / 1000, typed.each / 1000, 0.0), (0.04, 0.0, 0.02)
    cases = [
        Case("serial", plain),
        Case("serial, lengths vary", plain, words=40),
        Case("serial, drafts", drafts),
        Case("serial, drafts, lengths vary", drafts, words=40),
        Case("serial, one stage", plain, model="simulated"),
        Case(f"-n {typed.workers}", plain, workers=typed.workers),
        Case(f"-n {typed.workers}, lengths vary", plain, words=40, workers=typed.workers),
        Case("one at a time", plain, alone=True),
    ]
    print(f"{typed.items} items, batches of {typed.batch_size}, median of {typed.rounds} rounds")
    print(f"{'':32}{'bare loop s':>12}{'session s':>12}{'busy':>8}   of each round")
    with harness.suite(MARKS) as folder:
        for case in cases:
            batch, part, repeats = (1, 10, 1) if case.alone else (typed.batch_size, 1, typed.rounds)
            arguments = (f"--model={case.model}:{','.join(map(str, case.seconds))}", *case.spread)
            rounds = []
            for _ in range(repeats):
                ideal = bare(typed.items, typed.batch_size, *case.seconds) / case.workers
                rounds.append((ideal, part * session(folder, typed.items // part, batch, case.words, *arguments)))
            busy = sorted(100 * ideal / taken for ideal, taken in rounds)
            ideal, taken = (statistics.median(column) for column in zip(*rounds, strict=True))
            each = " ".join(f"{value:.1f}" for value in busy)
            print(f"{case.title:32}{ideal:12.2f}{taken:12.2f}{statistics.median(busy):7.1f}%   {each}", flush=True)


if __name__ == "__main__":
    main()
