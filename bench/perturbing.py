"""What changed images cost: milliseconds a picture, memory, and how busy a model is kept while they are changed ahead.

    python bench/perturbing.py [--rounds 5] [--side 512] [--batch-size 4] [--items 60] [--call 100] [--names NAME ...]
        [--busy NAME ...]

Each change of images is made at its highest level, with the first set of parameters that it has, on a picture in
colour. "ms" is the CPU time of the best round, without decoding the file. The memory is the most that numpy holds
at once, in pictures of the same size.

"busy" is the share of a session in which a simulated model computes, at level 3: a call sleeps 100 ms for a batch,
whose pictures of --side pixels are decoded and changed. "ahead": by four threads while the model computes the batch
before (`Backend.prepare`), with answers in two stages (`Backend.compute`), as the backend `hf` does. "within": in
`generate`, as a class of one's own without these does.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from pathlib import Path

import harness
import numpy as np
import PIL.Image

from medvqa.perturbing import LEVELS, Alteration, catalogue

SIDES = (512, 1024)
LARGE = 4000
LOOKING = """
PICTURE = HERE / "picture.jpg"

def items(data):
    for n in range(int(ITEMS)):
        yield Item(str(n), "simulated", "single_choice", f"What is shown in image {n}?", OPTIONS, ("A",),
                   (Image("picture.jpg", str(PICTURE)),))

class Within(Simulated):
    name = "within"

    def load(self):
        super().load()
        self._pool = ThreadPoolExecutor(4)

    def generate(self, prompts):
        drafts = self._drafts.pop(tuple(map(id, prompts)), None) or self._decoded(prompts)
        for draft in drafts:
            draft.result()
        start = time.monotonic()
        time.sleep(self._call)
        with (HERE / "calls").open("a") as file:
            file.write(f"{start} {time.monotonic()}\\n")
        return [ANSWER] * len(prompts)

    def _decoded(self, prompts):
        return [self._pool.submit(image.pil) for prompt in prompts for image in prompt.images]

class Ahead(Within):
    name = "ahead"

    def prepare(self, prompts):
        self._drafts[tuple(map(id, prompts))] = self._decoded(prompts)

    def compute(self, prompts):
        replies = self.generate(prompts)
        return lambda: replies

def pytest_medvqa_backends():
    return [Within, Ahead]
"""


def picture(side: int) -> PIL.Image.Image:
    """Return a picture in colour with coarse and fine structure."""
    down, right = np.mgrid[0:side, 0:side] / side
    waves = [127 + 120 * np.sin(k * right + 5 * down) * np.cos(k * down) for k in (9, 31, 77)]
    return PIL.Image.fromarray(np.stack(waves, axis=2).astype(np.uint8))


def change(name: str) -> Alteration:
    """Return a change at its highest level."""
    sets = catalogue.changes()[name].parameters
    return Alteration(name, LEVELS if sets else 0, next(iter(sets), ""), 7, ((100, 100, 50, 50),))


def milliseconds(name: str, side: int, rounds: int) -> float:
    """Return the shortest time of a change."""
    shown, times = picture(side), []
    for _ in range(rounds):
        start = time.process_time()
        catalogue.applied(shown, change(name))
        times.append(time.process_time() - start)
    return 1000 * min(times)


def memory(name: str) -> float:
    """Return the largest memory of a change of a large picture, in pictures of its size."""
    shown = picture(LARGE)
    tracemalloc.start()
    catalogue.applied(shown, change(name))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / (3 * LARGE**2)


def busy(model: str, perturb: str, options: argparse.Namespace) -> float:
    """Return the percentage of a session in which the model computes."""
    with harness.suite(LOOKING) as folder:
        picture(options.side).save(folder / "picture.jpg", quality=92)
        asked = f"--model={model}:{options.call / 1000}"
        ways = [asked, f"--batch-size={options.batch_size}", *([f"--perturb={perturb}"] if perturb else [])]
        harness.session(folder, *harness.PYTEST, *ways, ITEMS=options.items)
        calls = [tuple(map(float, line.split())) for line in Path(folder, "calls").read_text().splitlines()]
    return 100 * sum(end - start for start, end in calls) / (calls[-1][1] - calls[0][0])


def main() -> None:
    """Print a row for each change, then one for each that a session makes."""
    options = harness.options(
        __doc__,
        rounds=5,
        side=SIDES[0],
        batch_size=4,
        items=60,
        call=100,
        names=[*catalogue.changes()],
        busy=["gaussian_noise", "shot_noise", "motion_blur", "zoom_blur"],
    )
    print(f"{'change':24}" + "".join(f"{f'ms {side}':>12}" for side in SIDES) + f"{f'memory {LARGE}':>14}")
    for name in options.names:
        times = "".join(f"{milliseconds(name, side, options.rounds):12.1f}" for side in SIDES)
        print(f"{name:24}{times}{memory(name):14.1f}", flush=True)
    print(f"\n{'change':24}{'busy ahead':>12}{'busy within':>12}")
    for name in ["", *options.busy]:
        shares = "".join(f"{busy(model, name, options):10.0f} %" for model in ("ahead", "within"))
        print(f"{name or 'none':24}{shares}", flush=True)


if __name__ == "__main__":
    main()
