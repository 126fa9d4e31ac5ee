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

Official prompts: configs/prompts/answering.json; official rule and score table: `clean_up_manual`, `check_answer` and
`create_score_table` of utils/answering.py, both in
https://github.com/AIF4S/MediConfusion/tree/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7
"""

from __future__ import annotations

import ast
import codecs
import csv
import io
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from medvqa import files as files_
from medvqa import metrics
from medvqa.data import lexicon, selection, sheets
from medvqa.image import inside
from medvqa.items import Benchmark, DataError, DataWarning, Image, Item, Prompt, Technique
from medvqa.protocols.prompts import Template
from medvqa.scoring import mediconfusion_rule, score_single_choice

MAX_BYTES = 64 * 2**20
"""Largest data set file; the released ones have 0.2 MB."""

MAX_COLUMNS = 1000
"""Columns of the CSV; the released one has 17."""

ARTICLES = "articles.csv"
"""228 images of 219 articles: data/image_dict.json of the owners' code, at commit
35cc5f97566438e00b86c8151649c220c34c0aad."""

MAX_LIST = 1000
"""Characters of a list in a cell of the CSV."""

MC = Template(
    name="mediconfusion/mc",
    system="You are a helpful assitant expert in medical domain.",
    text="Based on the image, choose the correct option for the following question.\nQuestion: {question}\n{options}"
    "Answer with the option's letter from the given choices directly. Your answer should be just one letter.\nAnswer: ",
    option="{letter}: {text}\n",
    max_tokens=32,
)
"""What the owners send to chat models (`gpt`, `gemini` and `claude` in their code, the spelling included).

Their `set_model_params` sets 32 new tokens for MC, which reaches LLaVA-Med, BLIP-2, InstructBLIP, Molmo and
Med-Flamingo. For models that get another limit their configs say it under [max_tokens] (docs/techniques.md)."""

GD = replace(
    MC,
    name="mediconfusion/gd",
    text=MC.text.replace(" Your answer should be just one letter.", ""),
    system="",
    max_tokens=None,
)
"""Their `greedy`. It needs logits, so it goes to open models alone, to which their code sends no system prompt."""

PS = Template("mediconfusion/ps", "Question: {question} Answer:")
"""Their `prefix`, `Question: {} Answer: {}`, up to the option. Their code for chat models (`do_prefix_forward` of
Models/llava.py and Models/deepseek.py) leaves the two words out and sends the question as it is."""

FF = Template(
    "mediconfusion/ff",
    "Based on the image, answer following question.\n{question}",
    system=MC.system,
    max_tokens=512,
)
"""Their `gpt4`, named after the judge. Its limit is each model's: 512, DeepSeek-VL2's, is the largest of them, and GPT
and Gemini have none."""

TEMPLATES: Mapping[Technique, Template] = {"mc": MC, "gd": GD, "ps": PS, "ff": FF}


class Pair(msgspec.Struct, frozen=True):
    """What is read of a pair; its captions and the questions before their revision are not."""

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


def files(data: Path) -> Sequence[Path]:
    """The file that holds the questions, () when there is none."""
    return _files(data / "mediconfusion")


def items(data: Path) -> Iterator[Item]:
    """The items of the data folder."""
    return items_of(data / "mediconfusion", root=data)


def items_of(folder: Path, *, root: Path, benchmark: str = "mediconfusion") -> Iterator[Item]:
    """Two items for each pair of a folder in this format, `10001/1` and `10001/2`, in the order of the file.

    `root` is the data folder that image names are relative to. Images need not be there. Items that are connected
    by shared images, or by images of one article, which may show one patient, have one `cluster_id`. The articles are
    known of the images of the release (`ARTICLES`); others, as in data of one's own, are joined by images alone.
    Raises DataError, which names file and pair, for a file that is missing, empty, too large, damaged or of another
    data set, for a pair that occurs twice, a correct letter without option, and an image outside of the folder; warns
    of a pair with one correct letter for both images.
    """
    found = _files(folder)
    if not found:
        raise DataError(f"{folder}: neither dataset.json nor dataset.csv")
    name = found[0].relative_to(root).as_posix()
    pairs: dict[str, tuple[Item, Item]] = {}
    for pair_id, row in _rows(found[0], name):
        where = f"{name}, pair {pair_id}"
        if pair_id in pairs:
            raise DataError(f"{where} occurs twice")
        try:
            pair = msgspec.convert(row, Pair, strict=False)
        except msgspec.ValidationError as error:
            raise DataError(f"{where}: {error}. Is this the file of another data set?") from error
        if pair.im_1_correct == pair.im_2_correct:
            warnings.warn(f"{where}: {pair.im_1_correct} is correct for both images", DataWarning, stacklevel=2)
        first, second = (_item(pair_id, pair, number, folder, root, benchmark, where) for number in (0, 1))
        pairs[pair_id] = first, second
    if not pairs:
        raise DataError(f"{name}: no pairs")
    loaded = [item for pair in pairs.values() for item in pair]
    lexicon.warn_unknown(loaded, lexicon.mediconfusion())
    clusters = selection.components([joint for item in pair for joint in _joints(item)] for pair in pairs.values())
    for item in loaded:
        yield replace(item, cluster_id=clusters[item.images[0].name])


def _joints(item: Item) -> list[str]:
    """The image of an item, and the article that it is from."""
    image = item.images[0].name
    article = articles().get((PurePosixPath(image).stem, item.extra["im"]))
    # The sign sorts behind letters: a component is named by its smallest member, which is to be an image.
    return [image] if article is None else [image, f"~{article}"]


@cache
def articles() -> Mapping[tuple[str, str], str]:
    """The article in PubMed Central of each image of the release, by its number and its path in ROCO.

    Both must agree, so that data of one's own with the same numbers are not mistaken for the release.
    """
    table = resources.files("medvqa").joinpath("data", "mediconfusion", ARTICLES).read_text("utf-8")
    return {(row["image"], row["roco"]): row["article"] for row in csv.DictReader(io.StringIO(table))}


def prompt(item: Item, technique: Technique) -> Prompt:
    """The owners' prompt for the technique."""
    return TEMPLATES[technique].prompt(item, technique)


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / "dataset.json", folder / "dataset.csv") if path.is_file()][:1]


def _item(pair_id: str, pair: Pair, side: int, folder: Path, root: Path, benchmark: str, where: str) -> Item:
    """The item of the first (0) or second (1) image of a pair."""
    options = {"A": pair.option_A, "B": pair.option_B}
    correct = (pair.im_1_correct, pair.im_2_correct)[side]
    if correct not in options:
        raise DataError(f"{where}: the correct answer for image {side + 1} is {correct!r}, and the options are A and B")
    file = f"images/{(pair.im_1_local, pair.im_2_local)[side]}.jpg"
    path = inside(folder, file, where=where)
    return Item(
        id=f"{pair_id}/{side + 1}",
        benchmark=benchmark,
        kind="single_choice",
        question=pair.question,
        options=options,
        answers=(correct,),
        images=(Image((folder / file).relative_to(root).as_posix(), str(path)),),
        tags={"category": tuple(dict.fromkeys(map(lexicon.slug, (pair.category_1, pair.category_2)[side])))},
        pair_id=pair_id,
        extra={
            "im": (pair.im_1, pair.im_2)[side],
            "BiomedCLIP_sim": pair.BiomedCLIP_sim,
            "DINO_sim": pair.DINO_sim,
        },
    )


def _rows(path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Pair ids with what the file says of the pair."""
    try:
        content = files_.read(path, MAX_BYTES).removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise DataError(f"{name}: {error.strerror}") from error
    if not content.strip():
        raise DataError(f"{name}: empty file")
    return _json_rows(content, name) if path.suffix == ".json" else _csv_rows(content, name)


def _json_rows(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    try:
        # A plain parse keeps the last of several and says nothing.
        rows = json.loads(content, object_pairs_hook=lambda members: sheets.once(members, name))
        # The stricter parser: what it refuses (NaN, half a surrogate pair) could not be written into the records.
        msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: not JSON: {error}") from error
    if not isinstance(rows, dict):
        raise DataError(f"{name}: no object of pairs by id. Is this the file of another data set?")
    yield from rows.items()


def _csv_rows(content: bytes, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        reader = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        columns = reader.fieldnames or ()
        if "id" not in columns:
            raise DataError(
                f"{name}: no column 'id'; found: {', '.join(columns)[:500]}. Is this the file of another data set?"
            )
        if len(columns) > MAX_COLUMNS:
            raise DataError(f"{name}: more than {MAX_COLUMNS:,} columns")
        if twice := [column for column, count in Counter(columns).items() if count > 1]:
            raise DataError(f"{name}: column {twice[0]!r} occurs twice")
        for row in reader:
            if not row["id"]:
                raise DataError(f"{name} line {reader.line_num}: no id")
            # Cells that are empty or cut off are missing fields, and DictReader keeps surplus cells under None.
            cells: dict[str, Any] = {column: cell for column, cell in row.items() if column and cell}
            for column in cells.keys() & {"category_1", "category_2"}:
                cells[column] = _literal(cells[column])
            yield row["id"], cells
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{name}: not a CSV: {error}") from error


def _literal(cell: str) -> object:
    """The list that a cell prints; the cell itself where it prints nothing, which is then no list."""
    try:
        return ast.literal_eval(cell) if len(cell) <= MAX_LIST else cell
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return cell


BENCHMARKS = (
    Benchmark(
        name="mediconfusion",
        title="MediConfusion",
        items=items,
        files=files,
        obtain=(
            "Put dataset.json of https://huggingface.co/datasets/shahab7899/MediConfusion into DATA/mediconfusion/ and "
            "the images, which scripts/download.py of https://github.com/AIF4S/MediConfusion fetches, into "
            "DATA/mediconfusion/images/ (recorded answers need no images)"
        ),
        prompt=prompt,
        score=score_single_choice,
        official=partial(score_single_choice, read=mediconfusion_rule),
        official_note="a letter counts only as one of the tokens that the owners' clean_up_manual lists",
        metrics=(metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion, *metrics.rates),
        techniques=("mc", "gd", "ps", "ff"),
        headline=("set_accuracy", "individual_accuracy", "confusion"),
        dimensions=("category",),
    ),
)
