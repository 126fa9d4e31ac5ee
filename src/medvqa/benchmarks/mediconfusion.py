r"""MediConfusion: pairs of images that a vision encoder confuses, one question about both (Sepehri et al. 2024).

Source: https://huggingface.co/datasets/shahab7899/MediConfusion and https://github.com/AIF4S/MediConfusion.
Licence: MIT for the questions; each image keeps the licence of the article in PubMed Central that it comes from.
176 pairs, 352 questions, 228 images. `dataset.json` maps a pair's id to

    "10001": {"im_1": "train/radiology/images/ROCO_28778.jpg", "im_1_local": 20192, "im_1_correct": "A",
              "im_2": "train/radiology/images/ROCO_62117.jpg", "im_2_local": 20053, "im_2_correct": "B",
              "category_1": ["Cerebral", "Vascular"], "category_2": ["Cerebral", "Vascular"],
              "question": "What do you see on this angiogram of the internal carotid artery?",
              "option_A": "Terminating into the ophthalmic artery with no cerebral contribution",
              "option_B": "Showing an aggravating pseudoaneurysm",
              "BiomedCLIP_sim": 0.9245057, "DINO_sim": 0.6720365, ...}

and `dataset.csv` is its twin, a row for each pair, with lists as Python prints them. The image of `im_1_local` is
images/20192.jpg.

Prompts: mediconfusion_prompts.toml. Official rule and score table: `clean_up_manual`, `check_answer` and
`create_score_table` of utils/answering.py in
https://github.com/AIF4S/MediConfusion/tree/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7
"""

from __future__ import annotations

import ast
import csv
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from medvqa import decode, metrics, tables
from medvqa.benchmarks import published
from medvqa.items import (
    ORDERS,
    Benchmark,
    DataError,
    DataWarning,
    Item,
    OfficialRule,
    Order,
    Origin,
    OriginFile,
    Owners,
    Technique,
    UsageError,
)
from medvqa.protocols.prompts import Template, Templates
from medvqa.scoring import Reading, score_single_choice
from medvqa.tables.image_files import image_file
from medvqa.tags import lexicon, selection

MAX_BYTES = 64 * 2**20
"""Largest data set file; the released ones have 0.2 MB."""

FILES = ("mediconfusion/dataset.json", "mediconfusion/dataset.csv")
"""The twins; the first that is there is read."""

MAX_LIST = 1000
"""Characters of a list in a cell of the CSV."""


class Pair(msgspec.Struct, frozen=True):
    """The fields of a pair that are read, without captions and unrevised questions."""

    id: str
    question: str
    option_A: str
    option_B: str
    im_1_local: int | str
    im_2_local: int | str
    im_1_correct: str
    im_2_correct: str
    category_1: list[str]
    category_2: list[str]
    im_1: str = ""
    im_2: str = ""
    BiomedCLIP_sim: float | None = None
    DINO_sim: float | None = None


def items(data: Path, folder: str = "mediconfusion") -> Iterator[Item]:
    """Yield the items of a folder in the data folder."""
    return items_of(data / folder, root=data)


def items_of(folder: Path, *, root: Path, benchmark: str = "mediconfusion") -> Iterator[Item]:
    """Yield two items for each pair of a folder in this format, `10001/1` and `10001/2`, in the order of the file.

    `root` is the data folder that image names are relative to. Images need not be there. Items that are connected
    by shared images, or by images of one article, which may show one patient, have one `cluster_id`. Only the released
    images have known articles (`released`); other data are joined by images alone. Raises DataError, which names file
    and row, as `tables.read` does, for a pair that occurs twice, a correct letter without option, and an image outside
    of the folder. Warns of a pair with one correct letter for both images.
    """
    if not (paths := _files(folder)):
        raise DataError(f"{folder}: neither dataset.json nor dataset.csv")
    pairs: dict[str, tuple[Item, Item]] = {}
    for row in _rows(paths[0], paths[0].relative_to(root).as_posix()):
        pair = row.convert(Pair, strict=False)
        if pair.id in pairs:
            raise row.error(f"pair {pair.id} occurs twice")
        if pair.im_1_correct == pair.im_2_correct:
            message = f"{row.where}: {pair.im_1_correct} is correct for both images"
            warnings.warn(message, DataWarning, stacklevel=2)
        first, second = (_item(row, pair, side, folder, root, benchmark) for side in (0, 1))
        pairs[pair.id] = first, second
    loaded = [item for pair in pairs.values() for item in pair]
    lexicon.warn_unknown(loaded, lexicon.mediconfusion())
    clusters = selection.components(
        [link for item in pair for link in _links(item.images[0].name, item.extra["im"])] for pair in pairs.values()
    )
    for item in loaded:
        yield replace(item, cluster_id=clusters[item.images[0].name])


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / "dataset.json", folder / "dataset.csv") if path.is_file()][:1]


def _rows(path: Path, name: str) -> Iterator[tables.TableRow]:
    """Yield the pairs. In the CSV, empty cells are missing fields, and Python has printed the lists."""
    for row in tables.read(path, name=name, needed=[("id",)], key="id", largest=MAX_BYTES):
        if not row.values["id"]:
            raise row.error("blank", "id")
        if path.suffix == ".csv":
            cells = {column: cell for column, cell in row.values.items() if cell}
            lists = {column: _literal(cells[column]) for column in cells.keys() & {"category_1", "category_2"}}
            row = msgspec.structs.replace(row, values=cells | lists)
        yield row


def _literal(cell: str) -> object:
    """Return the list that a cell prints; the cell itself if it prints none."""
    try:
        return ast.literal_eval(cell) if len(cell) <= MAX_LIST else cell
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return cell


def _item(row: tables.TableRow, pair: Pair, side: int, folder: Path, root: Path, benchmark: str) -> Item:
    """The item of the first (0) or second (1) image of a pair."""
    options = {"A": pair.option_A, "B": pair.option_B}
    correct = (pair.im_1_correct, pair.im_2_correct)[side]
    if correct not in options:
        raise row.error(f"the correct answer for image {side + 1} is {correct!r}, and the options are A and B")
    file = f"images/{(pair.im_1_local, pair.im_2_local)[side]}.jpg"
    return Item(
        id=f"{pair.id}/{side + 1}",
        benchmark=benchmark,
        kind="single_choice",
        question=pair.question,
        options=options,
        answers=(correct,),
        images=(image_file(file, folder=folder, root=root, where=row.where),),
        tags={
            "category": tuple(dict.fromkeys(map(lexicon.slug, (pair.category_1, pair.category_2)[side]))),
            **_similarity(row, "BiomedCLIP_sim", pair.BiomedCLIP_sim),
            **_similarity(row, "DINO_sim", pair.DINO_sim),
        },
        pair_id=pair.id,
        extra={
            "im": (pair.im_1, pair.im_2)[side],
            "BiomedCLIP_sim": pair.BiomedCLIP_sim,
            "DINO_sim": pair.DINO_sim,
        },
    )


SIMILARITY: Mapping[str, tuple[str, Sequence[tuple[float, str]]]] = {
    "BiomedCLIP_sim": (
        "biomedclip_similarity",
        (
            (0.0, "below 0.00"),
            (0.90, "0.00 to 0.90"),
            (0.91, "0.90 to 0.91"),
            (0.92, "0.91 to 0.92"),
            (inf, "0.92 and above"),
        ),
    ),
    "DINO_sim": (
        "dino_similarity",
        ((0.0, "below 0.00"), (0.5, "0.00 to 0.50"), (0.6, "0.50 to 0.60"), (inf, "0.60 and above")),
    ),
}
"""Ours: the dimensions of the similarity of a pair's images, with the upper end of each range, which it excludes.

The cut points are fixed, so that slices of different data are comparable. The ranges from 0.00 hold 0, 88, 47 and 41 of
the 176 pairs, and 35, 72 and 69."""


def _similarity(row: tables.TableRow, column: str, value: float | None) -> dict[str, tuple[str, ...]]:
    """Return the tag of a cosine similarity, {} without one."""
    if value is None:
        return {}
    if not -1.001 <= value <= 1.001:
        raise row.error(f"{column} is {value}; a cosine similarity lies between -1 and 1", column)
    dimension, ranges = SIMILARITY[column]
    return {dimension: (lexicon.slug(next(name for end, name in ranges if value < end)),)}


ARTICLES = Path(__file__).parent / "published_rows" / "mediconfusion-articles.csv"
"""228 images of 219 articles of PubMed Central, with the names of their files: data/image_dict.json of
https://github.com/AIF4S/MediConfusion at commit 35cc5f97566438e00b86c8151649c220c34c0aad."""


class ReleasedImage(NamedTuple):
    """An image of the release: its number, its path in ROCO, its article, and the file's name in the article."""

    image: str
    roco: str
    article: str
    file: str


@cache
def released() -> tuple[ReleasedImage, ...]:
    """Return the images of the release, by number."""
    with ARTICLES.open(encoding="utf-8", newline="") as file:
        return tuple(ReleasedImage(**row) for row in csv.DictReader(file))


@cache
def _articles() -> Mapping[tuple[str, str], str]:
    """Return the article of each image of the release, by its number and its path in ROCO."""
    return {(one.image, one.roco): one.article for one in released()}


def _links(image: str, roco: str) -> list[str]:
    """Return the texts that an image shares with others: its name, and its article if it is in the release.

    Number and path must both agree, so that other data with the same numbers are not mistaken for the release.
    """
    article = _articles().get((PurePosixPath(image).stem, roco))
    # "~" sorts behind letters: the smallest member names a component, and must be an image.
    return [image] if article is None else [image, f"~{article}"]


class TemplateFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a template in the file of prompts; `like` names the template that has the other ones."""

    name: str
    text: str
    option: str = ""
    system: str = ""
    max_tokens: int | None = None
    order: Order = ORDERS[0]
    like: str = ""


class PromptTexts(msgspec.Struct, frozen=True):
    """The file of prompts: the template of each technique by prompt, and the fields of each template."""

    prompts: dict[str, dict[Technique, str]]
    templates: dict[str, dict[str, str | int]]


def _prompts() -> dict[str, Templates]:
    """Return the owners' prompts by name, in the order of the file."""
    texts = decode.decode(Path(__file__).with_name("mediconfusion_prompts.toml"), PromptTexts)
    made = dict[str, Template]()
    fields: dict[str, dict[str, str | int]] = {"": {}}
    for key, own in texts.templates.items():
        fields[key] = {**fields[str(own.get("like", ""))], "name": key, **own}
        of = msgspec.convert(fields[key], TemplateFields)
        made[key] = Template(f"mediconfusion/{of.name}", of.text, of.option, of.system, of.max_tokens, of.order)
    return {
        name: Templates(name, {technique: made[key] for technique, key in by_technique.items()})
        for name, by_technique in texts.prompts.items()
    }


PROMPTS = _prompts()
ORIGINAL = PROMPTS.pop("default")


TOKENS = ("{}", "{}:", ".{}", ".{}:", "{}.", '{}")', '("{}":', '("{}")', '("{}").')


def mediconfusion_rule(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read `response` as the owners' answer cleaner does, with its flaws: a refusal is `unparsed`.

    A letter is chosen if one of nine exact tokens (`A`, `A:`, `.A`, `.A:`, `A.`, `A")`, `("A":`, `("A")`,
    `("A").`) stands between spaces or line ends. Letters of several options, or of none, make the answer invalid.
    "(A)" and "**A**" are invalid, "A patient ..." is A. `multiple` changes nothing: the benchmark has single
    choices only.

    Source: https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/utils/answering.py
    (its two tokens with a line break never match, because it first turns line breaks into spaces).
    """
    tokens = set(response.replace("\n", " ").split(" "))
    letters = [letter for letter in options if any(form.format(letter) in tokens for form in TOKENS)]
    if len(letters) == 1:
        return Reading((letters[0],), "read", f"official token list: {letters[0]}")
    return Reading((), "unparsed", f"official token list: {' and '.join(letters) or 'no letter'}")


ORIGIN = Origin(
    licence="MIT; each image has the licence of its article",
    home="https://github.com/AIF4S/MediConfusion",
    hub="shahab7899/MediConfusion",
    files=(
        OriginFile(
            to="mediconfusion/dataset.json",
            at="dataset.json",
            size=222311,
            digest="sha256:36e5052ebe370aac7446f29cb1425fa47b1795b40e2e7a72462c93b5472c0d5f",
            also=(
                "https://raw.githubusercontent.com/AIF4S/MediConfusion/a3045b03a0a2b5e9f051842e3fd088ed0861f2b6/"
                "data/dataset.json",
            ),
        ),
        *(
            OriginFile(
                to=f"mediconfusion/images/{one.image}.jpg",
                at=f"pmc:{one.article}/{one.file}",
                also=(f"from:{one.roco}", f"from:{one.image}.jpg", f"from:images/{one.image}.jpg"),
            )
            for one in released()
        ),
    ),
    note=(
        "the images come from the publisher's open-data store; no digests of them are published; recorded answers need "
        "no images"
    ),
    release=352,
    reads=FILES,
)
"""`data/dataset.json` of the owners' repository; size and digest of the file at the commit in its address."""

BENCHMARKS = (
    Benchmark(
        name="mediconfusion",
        origin=ORIGIN,
        title="MediConfusion",
        items=items,
        prompt=ORIGINAL,
        prompts=PROMPTS,
        score=score_single_choice,
        metrics=(
            metrics.set_accuracy,
            metrics.individual_accuracy,
            metrics.confusion,
            metrics.set_precision,
            metrics.valid_pairs,
            *metrics.rates,
        ),
        headline=("set_accuracy", "individual_accuracy", "confusion"),
        dimensions=("category", *(dimension for dimension, _ in SIMILARITY.values())),
        public=True,
        owners=Owners(
            rule=OfficialRule(
                score=partial(score_single_choice, read=mediconfusion_rule),
                note="a letter counts only as one of the tokens that the owners' clean_up_manual lists",
            ),
            paper_prompts=tuple(name for name in PROMPTS if name[0].isdigit()),
            published=partial(published.read, "mediconfusion"),
        ),
    ),
)


def variant(name: str, folder: str = "", *, public: bool = False) -> Benchmark:
    """Return a benchmark of other pairs in this format, such as the paper's easy or unfiltered ones (appendix E).

    `folder` lies in the data folder (default: `name`), with dataset.json or dataset.csv, and images/. Prompts, scoring
    and metrics are MediConfusion's. The owners published neither of their variants, so the data are private unless
    `public` says otherwise. UsageError for a name or folder that leads elsewhere.
    """
    folder = folder or name
    parts = Path(folder).parts
    if not name.strip() or not parts or Path(folder).is_absolute() or ".." in parts:
        raise UsageError(
            f"mediconfusion.variant({name!r}, {folder!r}): write a name, and a folder within the data folder"
        )
    return replace(
        BENCHMARKS[0],
        name=name,
        title=f"{name}, in MediConfusion's format",
        items=partial(items, folder=folder),
        origin=Origin(
            apply=f"Put dataset.json or dataset.csv into DATA/{folder}/ and its images into DATA/{folder}/images/",
            reads=(f"{folder}/dataset.json", f"{folder}/dataset.csv"),
        ),
        owners=replace(BENCHMARKS[0].owners, published=None),
        public=public,
    )
