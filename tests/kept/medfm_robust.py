"""Record pictures that MedFM-Robust's own code has changed.

    python tests/kept/medfm_robust.py FOLDER

It writes medfm_robust.npz beside it, with which tests compare `perturbing/artefacts.py`. FOLDER is a checkout of
https://github.com/vfdv52/MedFM-Robust- . numpy, scipy, opencv-python-headless, scikit-image, pandas, tqdm and SimpleITK
must be installed, such as in an environment of its own. The code is run, and not kept; it gets the random numbers that
`artefacts` draws. Of each picture every seventh row and eleventh column is kept, before the stretch to black and white.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.scanned import scan

KEPT = Path(__file__).with_name("medfm_robust.npz")
VLM = "VLM/generate_perturbation.py"
SEGMENTATION = "Segmentation/segmentation_generate_perb_all_V10_adpative_efficient.py"
METHODS = {
    "ct_metal": (VLM, "MedicalPerturbationGenerator", "ct_metal"),
    "ct_beam_hardening": (VLM, "MedicalPerturbationGenerator", "ct_beam"),
    "window_level": (VLM, "MedicalPerturbationGenerator", "window_level"),
    "mri_bias_field": (VLM, "MedicalPerturbationGenerator", "mri_bias"),
    "mri_ghosting": (VLM, "MedicalPerturbationGenerator", "mri_ghost"),
    "mri_motion": (SEGMENTATION, "Medical2DPerturbationGenerator", "_mri_motion_artifacts"),
    "us_shadow": (SEGMENTATION, "Medical2DPerturbationGenerator", "_us_acoustic_shadowing"),
    "us_reverberation": (SEGMENTATION, "Medical2DPerturbationGenerator", "_us_reverberation"),
}
SHAPES = {"ct": (512, 640), "mri": (512, 512), "us": (600, 512)}
SEED = 5
LEVELS = (1, 3, 5)


class Numbers:
    """The names of numpy's old random numbers, drawn by a new generator."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(SEED)
        self.randint, self.uniform = self.generator.integers, self.generator.uniform

    def seed(self, number: int) -> None:
        """The generator has its own."""

    def RandomState(self, number: int) -> Numbers:
        """The same generator from its start, as for each level and channel."""
        return Numbers()

    def choice(self, lines: list[int], size: int, replace: bool) -> Any:
        """Draw lines of k-space as `artefacts` does, and their shifts for `uniform`."""
        order = self.generator.permutation(lines)
        shifts = iter(self.generator.uniform(-1, 1, len(lines)))
        self.uniform = lambda low, high: next(shifts) * high  # type: ignore[assignment,misc]
        return order[:size]


class Numpy:
    """numpy with other random numbers."""

    def __init__(self) -> None:
        self.random = Numbers()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def changed(folder: Path, name: str, level: int) -> Any:
    """Return the picture as their code changes it, in floats."""
    file, kind, method = METHODS[name]
    spec = importlib.util.spec_from_file_location("theirs", folder / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = getattr(module, kind)(seed=SEED)
    module.np = Numpy()
    return getattr(made, method)(scan(*shape_of(name)).astype(np.float32), level)


def shape_of(name: str) -> tuple[int, int]:
    """Return height and width of the picture that a change is tried on."""
    return SHAPES[name.partition("_")[0]] if name != "window_level" else SHAPES["ct"]


def kept(picture: Any) -> Any:
    """Return the part of a picture that is kept; the channels are equal."""
    return np.rint(picture[::7, ::11, 0]).clip(0, 255).astype(np.uint8)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    np.savez_compressed(KEPT, **{f"{n}-{k}": kept(changed(folder, n, k)) for n in METHODS for k in LEVELS})
