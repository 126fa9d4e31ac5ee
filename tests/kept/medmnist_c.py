"""Record what MedMNIST-C's own code makes of a picture.

    python tests/kept/medmnist_c.py PACKAGE

It writes medmnist_c.npz beside it, with which tests compare `perturbing/medmnist_c.py`. PACKAGE is the folder of
medmnistc 0.1.0 (https://github.com/francescodisalvo05/medmnistc-api). numpy, scikit-image, opencv-python-headless,
Wand with ImageMagick 6, torch and torchvision must be installed, in an environment of its own. The package's code is
run, and not kept. Where it draws random numbers, it gets those of a generator that medvqa draws in the same order.
"""

from __future__ import annotations

import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

sys.path[:0] = [sys.argv[1], str(Path(__file__).parents[1])]
CORRUPTIONS_DS = import_module("medmnistc.corruptions.registry").CORRUPTIONS_DS
drawn = import_module("support.coloured").drawn
KEPT = Path(__file__).with_name("medmnist_c.npz")
SEED, POINTS = 7, 200
OURS = ("stain_deposit", "characters")
"""They use assets of the package: not compared."""
FURTHER = {"defocus_blur": ("octmnist", "dermamnist"), "gaussian_blur": ("chestmnist",), "gaussian_noise": ("grey",)}


def with_numbers_of(generator: np.random.Generator) -> None:
    """Let the package's code draw from a generator."""

    def normal(*, size: Any, scale: float) -> Any:
        return generator.standard_normal(size, dtype="float32") * scale

    def randint(low: int, high: int) -> int:
        return low + int(generator.random() * (high - low + 1))

    np.random.normal, np.random.poisson = normal, generator.poisson
    np.random.uniform = lambda low, high: low + (high - low) * generator.random()
    np.fromstring = np.frombuffer
    random.randint = randint


def changed(name: str, data: str, level: int, pixels: Any) -> Any:
    """Return the pixels as the package changes them."""
    corruption = CORRUPTIONS_DS[data][name]
    generator = np.random.default_rng(SEED)
    with_numbers_of(generator)
    corruption.rng = generator
    return corruption.apply(PIL.Image.fromarray(pixels), level - 1)


def main() -> None:
    """Record, for each change, some sets and levels 1, 3 and 5: pixels at the same points, and mean and deviation."""
    pixels = drawn()
    places = np.random.default_rng(0).integers(0, 224, (POINTS, 2))
    kept: dict[str, Any] = {"places": places.astype(np.uint8)}
    names = dict.fromkeys(name for of in CORRUPTIONS_DS.values() for name in of if name not in OURS)
    for name in names:
        first = next(data for data in CORRUPTIONS_DS if name in CORRUPTIONS_DS[data])
        for data in (first, *FURTHER.get(name, ())):
            for level in (1, 3, 5):
                if data == "grey":
                    grey = np.asarray(PIL.Image.fromarray(pixels).convert("L").convert("RGB"))
                    made = PIL.Image.fromarray(changed(name, "chestmnist", level, grey)).convert("L").convert("RGB")
                    result = np.asarray(made)
                else:
                    result = changed(name, data, level, pixels)
                key = f"{name}/{data}/{level}"
                kept[key] = result[places[:, 0], places[:, 1]]
                kept[f"{key}/moments"] = np.array([result.mean(), result.std()])
                print(key, *kept[f"{key}/moments"].round(2))
    np.savez_compressed(KEPT, **kept)


if __name__ == "__main__":
    main()
