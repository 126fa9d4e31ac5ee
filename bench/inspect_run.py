"""What Inspect takes for as many single choices as bench/run.py asks, with a model that answers at once.

    python bench/inspect_run.py [--rows 4550]

Run it in an environment of its own, with inspect-ai 0.3.285. The questions have no images, and all answers are
"ANSWER: A". It prints the CPU time and the largest memory of the process, imports included, and the size of its log.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

STARTED = time.perf_counter()


def main() -> None:
    typed = argparse.ArgumentParser()
    typed.add_argument("--rows", type=int, default=4_550)
    rows = typed.parse_args().rows
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    imported = time.perf_counter() - STARTED
    options = ["naevus", "melanoma", "keratosis", "none"]
    samples = [
        Sample(input=f"What is shown in image {n}?", choices=options, target="AB"[n % 2], id=str(n))
        for n in range(rows)
    ]

    @modelapi(name="instant")
    class Instant(ModelAPI):
        async def generate(self, **_: object) -> ModelOutput:
            return ModelOutput.from_content("instant", "ANSWER: A")

    task = Task(dataset=MemoryDataset(samples), solver=multiple_choice(), scorer=choice())
    with tempfile.TemporaryDirectory() as folder:
        [log] = eval(task, model=get_model("instant/a"), log_dir=folder, display="none")
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    used = resource.getrusage(resource.RUSAGE_SELF)
    assert log.results is not None, log.error
    print(f"{log.status}: {log.results.scores[0].metrics['accuracy'].value:.2f} of {rows} right")
    print(f"{used.ru_utime + used.ru_stime:.1f} s CPU, {time.perf_counter() - STARTED:.1f} s, import {imported:.1f} s")
    print(f"{used.ru_maxrss / 1024:.0f} MB, log {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
