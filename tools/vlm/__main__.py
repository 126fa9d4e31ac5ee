"""The command line; see the package's text."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from tools.vlm import Recipe, train


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and write the checkpoint."""
    recipe = Recipe()
    parser = argparse.ArgumentParser(prog="python -m tools.vlm", description="Train phantom-vlm.")
    parser.add_argument("folder", type=Path, metavar="OUT", help="where the checkpoint is written")
    parser.add_argument("--phantoms", type=int, default=recipe.phantoms, help="how many are drawn to learn from")
    parser.add_argument("--see", type=int, default=recipe.see, metavar="STEPS", help="steps of the first part")
    parser.add_argument("--words", type=int, default=recipe.words, metavar="STEPS", help="steps of the second part")
    parser.add_argument("--letters", type=int, default=recipe.letters, metavar="STEPS", help="steps of the third part")
    parser.add_argument("--last", type=int, default=recipe.last, metavar="STEPS", help="steps of the last part")
    parser.add_argument("--seed", type=int, default=recipe.seed, help="of weights and order, not of the phantoms")
    parser.add_argument("--threads", type=int, default=1, help="that torch may use, and processes that draw")
    asked = parser.parse_args(arguments)
    start = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", flush=True)

    recipe = Recipe(asked.phantoms, asked.see, asked.words, asked.letters, asked.last, asked.seed)
    train(asked.folder, recipe, threads=asked.threads, say=say)


if __name__ == "__main__":
    main()
