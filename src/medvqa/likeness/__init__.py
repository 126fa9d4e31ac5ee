"""Find the items of a benchmark among the files that a model was trained on: images and questions that are alike.

`TrainingSet.listed` (files of a folder) -> `read` (`Trained`: hashes of images, remembered between calls) -> `find`
(`Overlaps`: by equal images, images that look alike, and equal or nearly equal questions).
"""

from __future__ import annotations

from medvqa.likeness.near import packed, within
from medvqa.likeness.overlaps import LEVELS, Level, Overlap, Overlaps, Trained, find, read
from medvqa.likeness.pictures import BITS, NEAR, Fingerprint, fingerprint, look_of
from medvqa.likeness.questions import ENOUGH, QuestionIndex, words
from medvqa.likeness.training import TrainingSet

__all__ = [
    "BITS",
    "ENOUGH",
    "LEVELS",
    "NEAR",
    "Fingerprint",
    "Level",
    "Overlap",
    "Overlaps",
    "QuestionIndex",
    "Trained",
    "TrainingSet",
    "find",
    "fingerprint",
    "look_of",
    "packed",
    "read",
    "within",
    "words",
]
