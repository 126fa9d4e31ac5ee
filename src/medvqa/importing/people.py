"""Find names and birth dates of people in file names and in names of columns."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_BIRTH = re.compile(r"(?<!\d)(?:19[0-9]\d|20[0-2]\d)[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])(?!\d)")
_GERMAN_DATE = re.compile(r"(?<!\d)(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.(?:19|20)\d\d(?!\d)")
_WORD = re.compile(r"[^\W\d_]+")
_COMMON = frozenset(
    {
        *("image", "images", "img", "pic", "picture", "photo", "scan", "slice", "slide", "frame", "series", "study"),
        *("case", "patient", "pat", "subject", "sub", "volume", "vol", "key", "crop", "mask", "left", "right", "front"),
        *("bild", "bilder", "aufnahme", "foto", "schicht", "serie", "fall", "studie", "links", "rechts", "copy", "neu"),
        *("kopie", "new", "final", "anon", "anonym", "test", "train", "val", "question", "frage", "data", "dataset"),
        *("axial", "coronal", "sagittal", "koronar", "lateral", "frontal", "ap", "pa", "pre", "post", "contrast"),
        *("ct", "cta", "mr", "mri", "mrt", "us", "xray", "rx", "cr", "dx", "pet", "oct", "fundus", "dwi", "flair"),
        *("adc", "stir", "tse", "native", "nativ", "kontrast", "histo", "histology", "histologie", "he", "stain"),
        *("chest", "thorax", "lung", "lunge", "liver", "leber", "kidney", "niere", "brain", "kopf", "head", "abdomen"),
        *("pelvis", "becken", "knee", "knie", "hand", "foot", "fuss", "spine", "skin", "haut", "heart", "herz", "eye"),
        *("spleen", "milz", "breast", "mamma", "hip", "shoulder", "schulter", "neck", "hals", "thyroid", "prostate"),
        *("roentgen", "röntgen", "sono", "ultrasound", "ultraschall", "dicom", "export", "source", "page", "figure"),
        *("fig", "synpic", "pmc", "screenshot", "unbenannt", "untitled", "window", "mediastinum", "bone", "soft"),
    }
)
"""Words of file names that are no names of people."""


def suspected(file: str) -> str:
    """Return a suspicion about a path: "a name", "a date" or "" for none.

    A name is written with `^` as in DICOM, or as two capitalised words of three letters that no list of usual words
    has: `Mueller_Hans.png`.
    """
    for part in PurePosixPath(file.partition("?")[0].replace("\\", "/")).parts:
        stem = part.split(".")[0] if not _GERMAN_DATE.search(part) else part
        words = _WORD.findall(stem)
        if "^" in part:
            return "a name"
        if _BIRTH.search(stem) or _GERMAN_DATE.search(part):
            return "a date"
        capital = [
            w for w in words if len(w) >= 3 and w[0].isupper() and w[1:].islower() and w.casefold() not in _COMMON
        ]
        if len(capital) >= 2:
            return "a name"
    return ""
