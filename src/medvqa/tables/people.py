"""Find names and birth dates of people: in file names by their form, in texts by the cells of columns of names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_BIRTH = re.compile(r"(?<!\d)(?:19[0-9]\d|20[0-2]\d)[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])(?!\d)")
_GERMAN_DATE = re.compile(r"(?<!\d)(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.(?:19|20)\d\d(?!\d)")
_WORD = re.compile(r"[^\W\d_]+")
_MARKED = re.compile("(?:[^\\W\\d_][\u0300-\u036f]*)+")
"""A word, also with combining accents."""
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
        *("cxr", "isic", "covid", "normal", "tumor", "tumour", "benign", "malignant", "lesion", "dicomdir", "nifti"),
        *("dcm", "png", "jpg", "jpeg", "tif", "tiff", "bmp", "webp", "nii", "svs"),
        *("pictures", "photos", "pics", "scans", "slices", "frames", "fotos", "aufnahmen", "dateien", "files"),
        *("questions", "fragen", "folder", "ordner", "report", "reports", "results", "version", "center", "zentrum"),
    }
)
"""Words of file names that are no names of people."""


LEAST = 3
"""Letters of a word of a name. Shorter ones (Li, Ho) occur by chance; in Chinese, a name has two signs."""
_WITHIN = 5
"""Letters of a name that is also found within a longer word of a path or an id: MUSTERMANNERIKA."""
_TITLES = frozenset({"dr", "med", "prof", "von", "van", "der", "den", "herr", "herrn", "frau", "mr", "mrs", "ms"})
_ADDRESSED = re.compile(
    r"\b(?:Frau|Herrn?|Fr\.|Hr\.|Mrs?\.?|Ms\.?|Miss|Patientin|Dr\.)\s+(?:[A-Z]\.\s*)*[A-ZÄÖÜ][a-zäöüß]{2,}"
)
_HAN = re.compile("[\u4e00-\u9fff]{2,4}")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ł": "l", "ø": "o", "đ": "d", "ı": "i"})
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
"""Soft hyphens and signs without width, which may stand within a word."""


def suspected(file: str) -> str:
    """Return a suspicion about a path: "a name", "a date" or "" for none.

    A name is written with `^` as in DICOM, or as a capitalised word that no list of usual words has: two of three
    letters (`Mueller_Hans.png`, `SMITH_JOHN/1.dcm`), one of four (`Mustermann_ct.nii`), or of five if all are capitals.
    """
    for part in PurePosixPath(file.partition("?")[0].replace("\\", "/")).parts:
        stem = part.split(".")[0] if not _GERMAN_DATE.search(part) else part
        if "^" in part:
            return "a name"
        if _BIRTH.search(stem) or _GERMAN_DATE.search(part):
            return "a date"
        words = [word for word in _WORD.findall(stem) if len(word) >= LEAST and word.casefold() not in _COMMON]
        named = [word for word in words if word[0].isupper() and word[1:].islower()]
        capitals = [word for word in words if word.isupper() and not _HAN.search(word)]
        alone = any(len(word) >= 4 for word in named) or any(len(word) >= 5 for word in capitals)
        if alone or len(named) + len(capitals) >= 2:
            return "a name"
    return ""


def is_usual(file: str) -> bool:
    """Whether a path has usual words alone, and no digit: `../Bilder`. It tells nothing of anyone."""
    return not any(c.isdigit() for c in file) and all(word.casefold() in _COMMON for word in _WORD.findall(file))


def addressed(text: str) -> bool:
    """Whether a text speaks of a person by a title: `Befund bei Frau Mustermann?`."""
    return _ADDRESSED.search(text) is not None


def words(text: str) -> list[str]:
    """Return the words of a text in the form for comparison: lower case, ae for ä, without accents."""
    folded = unicodedata.normalize("NFKC", text.translate(_INVISIBLE)).casefold().translate(_UMLAUTS)
    plain = "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))
    return _WORD.findall(plain)


def telling(text: str) -> set[str]:
    """Return the words of a path or an id that may be names of people, in the form for comparison."""
    return {word for word in words(text) if len(word) >= LEAST and word not in _COMMON}


def without(text: str, names: Collection[str]) -> str:
    """Return a text with `[name]` in place of words, in whatever case or Unicode form."""
    return _MARKED.sub(lambda match: "[name]" if any(word in names for word in words(match[0])) else match[0], text)


@dataclass(frozen=True, slots=True)
class Names:
    """The words of names of people, to find them in other texts. They leave the process in no message and no file.

    `parts` are words that count alone; a usual word such as Hand counts only within `wholes`, the words of one cell
    side by side in either order. `signs` are names in Chinese, which has no blanks between words.
    """

    parts: frozenset[str] = frozenset()
    wholes: frozenset[tuple[str, ...]] = frozenset()
    signs: frozenset[str] = frozenset()

    @classmethod
    def of(cls, cells: Iterable[object]) -> Names:
        """Return the names in cells. A cell with a digit or an @ is a number, a date or an address, and no name."""
        parts, wholes, signs = set[str](), set[tuple[str, ...]](), set[str]()
        for cell in cells:
            if not isinstance(cell, str) or re.search(r"[\d@]", cell):
                continue
            signs.update(_HAN.findall(cell))
            named = tuple(word for word in words(cell) if word not in _TITLES and not _HAN.search(word))
            parts.update(word for word in named if len(word) >= LEAST and word not in _COMMON)
            if len(named) > 1:
                wholes |= {named, named[::-1]}
                parts |= {"".join(named), "".join(named[::-1])}
        return cls(frozenset(parts), frozenset(wholes), frozenset(signs))

    def __bool__(self) -> bool:
        """Whether there is any name."""
        return bool(self.parts or self.wholes or self.signs)

    def count(self, text: str, *, within: bool = False) -> int:
        """Return how often names occur in a text; `within`: also in a longer word, as in paths and ids."""
        found = words(text)
        # German adds an s: Mustermanns Befund.
        alone = sum(word in self.parts or word.removesuffix("s") in self.parts for word in found)
        if within:
            alone += sum(
                any(len(part) >= _WITHIN and part in word for part in self.parts)
                for word in found
                if word not in self.parts and len(word) > _WITHIN
            )
        usual = sum(
            tuple(found[place : place + len(whole)]) == whole
            for whole in self.wholes
            if not any(word in self.parts for word in whole)
            for place in range(len(found) - len(whole) + 1)
        )
        return alone + usual + sum(text.count(sign) for sign in self.signs)


def texts_of(value: object) -> Iterator[str]:
    """Yield the texts of a cell, also of the parts of a list or an object."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts_of(part)
    elif isinstance(value, dict):
        yield from texts_of(list(value.values()))
