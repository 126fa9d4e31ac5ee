"""How busy copies of a model on a Ray cluster are kept by one `medvqa run`, and what an item costs the controller.

    python bench/scaling.py [--replicas 1 2 4 8] [--each 625] [--batch-size 16] [--kilobytes 0] [--rounds 3]

The model is simulated: it sleeps 20 ms an item and computes nothing. Each copy gets `--each` items: 5,000 for 8 copies.
The cluster is a node of this machine in a network namespace (tests/support/clusters.py). Each item has an image of
`--kilobytes`, whose bytes travel to the copy.

"start" is from the command to the first batch, with the start of Python and of the copies. "efficiency" is the time
that all items take, 20 ms each, divided by the time of the copies: of each from its first batch to the last scored
answer of all. So a copy that starts late on a busy machine counts from its start. "bare" is that of the same batches in
Ray actors without anything else, two in flight for each, measured beside it: where other work disturbs the machine, it
is lower too. "CPU" is the controller's process time an item from the first prompt to the last scored answer, of all its
threads. Each number is the median of the rounds, with the least and the greatest.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import dataclass

import harness

from support import clusters

SECONDS = 0.02
"""Of an item."""
STORE = 512 * 1024**2
"""Bytes of the object store: room for the images of all batches in flight."""
MARKS = """
import json
SIZES, moments, ask = {}, {"scored": 0}, Simulated.generate

def items(data, before=items):
    for n, item in enumerate(before(data)):
        image = HERE / f"{n % 16}.jpg"
        yield replace(item, images=(Image(f"{n}.jpg", str(image)),) if image.exists() else ())

def score(item, answer):
    # Called in the controller, for each answer.
    moments["scored"] += 1
    if moments["scored"] == ITEMS:
        told = {"end": time.monotonic(), "cpu": time.process_time() - moments["cpu"]}
        (HERE / "controller.json").write_text(json.dumps(told))
    return scoring.score_single_choice(item, answer)

def prompt(item, technique):
    # Also called in the controller: the first one before the first batch.
    moments.setdefault("cpu", time.process_time())
    return ASK.prompt(item, technique)

def generate(self, prompts):
    if "began" not in vars(type(self)):
        type(self).began = time.monotonic()
        (HERE / f"began-{os.getpid()}").write_text(str(self.began))
    return ask(self, prompts)

Simulated.generate = generate

def pytest_medvqa_benchmarks():
    return [Benchmark(name="scaling", items=items, prompt=prompt, score=score, metrics=(metrics.accuracy,))]
"""
BARE = """
import sys, time
import ray

address, replicas, batches, size, seconds = *sys.argv[1:2], *map(int, sys.argv[2:5]), float(sys.argv[5])
ray.init(address=address, log_to_driver=False)

@ray.remote(num_cpus=1, max_concurrency=1)
class Asleep:
    def ready(self):
        pass
    def ask(self, batch):
        time.sleep(seconds * len(batch))
        return batch

actors = [Asleep.remote() for _ in range(replicas)]
ray.get([actor.ready.remote() for actor in actors])
start = time.monotonic()
waiting = [["question"] * size for _ in range(batches)]
flying = {}
for actor in actors * 2:
    if waiting:
        flying[actor.ask.remote(waiting.pop())] = actor
while flying:
    done, _ = ray.wait(list(flying), num_returns=1)
    for one in done:
        actor = flying.pop(one)
        ray.get(one)
        if waiting:
            flying[actor.ask.remote(waiting.pop())] = actor
print(time.monotonic() - start)
"""


@dataclass(frozen=True)
class Timing:
    """One run: seconds until the first batch, efficiencies, and the controller's milliseconds an item.

    `late` is in seconds: how much later the last copy got its first batch.
    """

    start: float
    efficiency: float
    bare: float
    cpu: float
    late: float


def measured(cluster: clusters.RayCluster, replicas: int, typed: Namespace) -> Timing:
    """Measure one run, and the bare pool beside it (SystemExit if the run fails)."""
    count = replicas * typed.each
    ideal = SECONDS * typed.each
    with harness.suite(MARKS) as folder:
        for number in range(16 if typed.kilobytes else 0):
            (folder / f"{number}.jpg").write_bytes(os.urandom(1000 * typed.kilobytes))
        command = [sys.executable, "-m", "medvqa.cli", "run", f"--model=ray:simulated:0,{SECONDS}"]
        command += ["--benchmark=scaling"]
        command += [f"--ray-address={cluster.address}", f"--replicas={replicas}", f"--batch-size={typed.batch_size}"]
        environment = {"ITEMS": str(count)}
        typed_at = time.monotonic()
        with (folder / "printed").open("w") as printed:
            process = cluster.popen(
                command, cwd=folder, environment=environment, stdout=printed, stderr=subprocess.STDOUT
            )
            if process.wait() != 0:
                raise SystemExit((folder / "printed").read_text()[-3000:])
        began = sorted(float(path.read_text()) for path in folder.glob("began-*"))
        controller = json.loads((folder / "controller.json").read_text())
    if len(began) != replicas:
        raise SystemExit(f"{len(began)} of {replicas} copies were asked")
    sizes = [str(replicas), str(count // typed.batch_size), str(typed.batch_size), str(SECONDS)]
    done = cluster.run([sys.executable, "-c", BARE, cluster.address, *sizes])
    bare = float(done.stdout.split()[-1])
    asked_bare = count // typed.batch_size * typed.batch_size
    return Timing(
        began[0] - typed_at,
        SECONDS * count / sum(controller["end"] - moment for moment in began),
        ideal * asked_bare / count / bare,
        1000 * controller["cpu"] / count,
        began[-1] - began[0],
    )


def shown(values: list[float], form: str) -> str:
    """Return the median, and the range of several rounds."""
    middle = format(statistics.median(values), form)
    return middle if len(values) == 1 else f"{middle} ({min(values):{form}} to {max(values):{form}})"


def main() -> None:
    """Print a Markdown table."""
    typed = harness.options(__doc__, replicas=[1, 2, 4, 8], each=625, batch_size=16, kilobytes=0, rounds=3)
    timings: dict[int, list[Timing]] = {number: [] for number in typed.replicas}
    with clusters.cluster({"num_cpus": max(typed.replicas), "object_store_memory": STORE}) as cluster:
        for _ in range(typed.rounds):
            for number in typed.replicas:
                timings[number].append(timing := measured(cluster, number, typed))
                print(f"{number} replicas: {timing}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print("| replicas | items | start, s | efficiency | bare | controller's CPU an item, ms |")
    print("|---|---|---|---|---|---|")
    for number, rounds in timings.items():
        cells = [
            shown([timing.start for timing in rounds], ".1f"),
            shown([timing.efficiency for timing in rounds], ".1%"),
            shown([timing.bare for timing in rounds], ".1%"),
            shown([timing.cpu for timing in rounds], ".2f"),
        ]
        print(f"| {number} | {number * typed.each:,} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
