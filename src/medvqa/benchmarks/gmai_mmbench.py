"""GMAI-MMBench (Chen et al., NeurIPS 2024, arXiv:2408.03361): 26K questions from 284 medical data sets.

Data: https://huggingface.co/datasets/OpenGVLab/GMAI-MMBench (gated) and VLMEval/GMAI-MMBench, Apache-2.0 by their
cards; VAL is one TSV of 9.3 GB with answers (md5 254bd581627866f1c499d3d6b4422324), TEST eleven without. One row:

    index 17 | image iVBORw0KGgo... (base64 PNG, or the index of another row) | question Observe the image. What is
    the most likely abnormality shown in the picture? | A osteoporotic bone | B healthy bone | C, D, E (empty) |
    answer A | category osteoporotic bone | clinical VQA task Disease Diagnosis | department Orthopedic Surgery |
    perceptual granularity Image Level | modality X-ray | original task 2D Classification

Official code: `GMAIMMBenchDataset` and `ImageMCQDataset.build_prompt` in
https://github.com/open-compass/VLMEvalKit/blob/9ede1af0143acf7d4c2e41858ffe1624c5f42bf8/vlmeval/dataset/image_mcq.py.
It reads cells such as "None" and "NA" as missing; here they are text, as an option may be "None".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import ascii_lowercase

from medvqa import metrics, printing, scoring
from medvqa.benchmarks import folders, predictions
from medvqa.items import (
    Answer,
    Benchmark,
    DataError,
    Extractor,
    Item,
    Origin,
    OriginFile,
    Prompt,
    Result,
    Score,
    Technique,
)
from medvqa.protocols.prompts import Template
from medvqa.tables import TableRow, image_cells, limits
from medvqa.tags import lexicon
from medvqa.tags.selection import components

GROUP = "gmai-mmbench"
PARTS = 11
"""TEST is released as GMAI_mm_bench_TEST_part_1.tsv to GMAI_mm_bench_TEST_part_11.tsv."""

TAGS = {
    "task": "clinical vqa task",
    "department": "department",
    "granularity": "perceptual granularity",
    "modality": "modality",
}
"""Lexicon dimensions and their columns."""

NEEDED = ("question", "a", "b", *TAGS.values())


RELEASED = re.compile(r"gmai[-_]mm[-_]?bench[-_]", re.I)
"""Start of the names of released tables; such a table may lie in the data folder itself, as in VLMEvalKit's."""
PART = re.compile(r"part_(\d+)", re.I)
LOCAL = "_local"
"""Added by VLMEvalKit to the name of a table for a copy with file names in place of images."""


def files(data: Path, split: str) -> list[Path]:
    """Return the files of a split in the data folder, without VLMEvalKit's copies that hold no images."""
    paths = folders.files_with_word(data / GROUP, ".tsv", split)
    if not paths:
        paths = [path for path in folders.files_with_word(data, ".tsv", split) if RELEASED.match(path.name)]
    names = {path.stem for path in paths}
    return [path for path in paths if path.stem.removesuffix(LOCAL) not in names - {path.stem}]


def items(data: Path, split: str) -> Iterator[Item]:
    """Yield the items of a split. VAL circulates under two names; DataError if released parts of TEST are missing."""
    paths = image_cells.distinct(files(data, split))
    for path in paths:
        _check_images(path, path.relative_to(data).as_posix())
    if split == "test":
        _check_parts(paths, data)
    return items_of(paths, root=data, benchmark=f"gmai-mmbench-{split}", withheld=split == "test")


def _check_parts(paths: Sequence[Path], data: Path) -> None:
    """DataError for parts of TEST that are missing, if some are there under the names of the release."""
    parts = {int(match[1]): path for path in paths if (match := PART.search(path.stem))}
    if missing := [part for part in range(1, PARTS + 1) if parts and part not in parts]:
        beside = printing.line(next(iter(parts.values())).name)
        first = PART.sub(f"part_{missing[0]}", beside)
        more = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise DataError(
            f"gmai-mmbench-test: {first}{more} not there; put parts 1 to {PARTS} beside {beside}. To "
            "evaluate some of them on purpose, rename these: without part_, as in GMAI_TEST_1.tsv"
        )


def _check_images(path: Path, name: str) -> None:
    """DataError for VLMEvalKit's copy of a table, if the table does not lie beside it."""
    if path.stem.endswith(LOCAL):
        with limits.opened(path, name) as file:
            columns = file.readline(limits.MAX_TEXT).decode("utf-8", "replace").lower().strip().split("\t")
        if "image_path" in columns and "image" not in columns:
            table = path.with_name(path.stem.removesuffix(LOCAL) + path.suffix)
            raise DataError(f"{name}: VLMEvalKit's copy without images; put {table.name}, the table, beside it")


def items_of(files: Sequence[Path], *, root: Path, benchmark: str, withheld: bool = False) -> Iterator[Item]:
    """Yield the items of TSV files, in the order of files and rows; `root` is the data folder.

    An item with several correct letters (`A,C`) is a multiple response. `withheld` accepts files without the
    column `answer`. Items share a cluster if their images have equal bytes or are the same row's. One case drawn as
    mask and as contour has different bytes and no common name. Such twins stay apart, so intervals may be too narrow.
    Tags that the lexicon does not list are kept, with one DataWarning a dimension. Raises DataError, which names file
    and row, as `image_cells.read` does, for an `index` that two files share, and for an answer that is none of the
    options.
    """
    needed = NEEDED if withheld else (*NEEDED, "answer")
    rows = [row for path in files for row in image_cells.read(path, root=root, needed=needed)]
    clusters = _clusters(rows)
    items = [_item(row, benchmark, clusters[row.text("index")]) for row in rows]
    lexicon.warn_unknown(items, lexicon.gmai_mmbench())
    yield from items


def _clusters(rows: Sequence[TableRow]) -> dict[str, str]:
    """Return the cluster of each `index`: rows share one if their images have equal bytes, or are of one row."""
    places: dict[str, str] = {}
    sharing: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        name = row.text("index")
        if name in places:
            raise row.error(f"index '{name}' is also that of {places[name]}")
        places[name] = row.where
        sharing[row.values["image"].digest or row.where].append(name)
    return components(sharing.values())


def _item(row: TableRow, benchmark: str, cluster: str) -> Item:
    cells = dict(row.values)
    name, image = cells.pop("index"), cells.pop("image")
    letters = [letter for letter in ascii_lowercase if letter in cells]
    options = {letter.upper(): text for letter in letters if (text := cells.pop(letter)).strip()}
    answers = tuple(dict.fromkeys(part.strip().upper() for part in cells.pop("answer", "").split(",") if part.strip()))
    for letter in answers:
        if letter not in options:
            names = ", ".join(options) or "it has none"
            raise DataError(f"{row.where}, index '{name}': answer '{letter}' is none of its options ({names})")
    dimensions = lexicon.gmai_mmbench().dimensions
    tags = {key: (dimensions[key].tag(cells.pop(column)),) for key, column in TAGS.items()}
    if original := cells.pop("original task", "").strip():
        tags["original_task"] = (lexicon.slug(original),)
    return Item(
        id=name,
        benchmark=benchmark,
        kind="multiple_response" if len(answers) > 1 else "single_choice",
        question=cells.pop("question"),
        options=options,
        answers=answers,
        images=(image,),
        tags={**tags, **_label(*(options[letter] for letter in answers))},
        cluster_id=cluster,
        extra={column: text for column, text in cells.items() if text},
    )


def _label(*texts: str) -> dict[str, tuple[str, ...]]:
    return {"label": tuple(map(lexicon.slug, texts))} if texts else {}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def recover(item: Item) -> Item:
    """Return the item with its withheld answer: the one option with the text of `category`.

    Letter case and white space do not count. If no option or several match, the answer stays withheld.
    """
    category = _plain(str(item.extra.get("category", "")))
    letters = [letter for letter, text in item.options.items() if _plain(text) == category]
    if item.answers or len(letters) != 1:
        return item
    return replace(item, answers=tuple(letters), tags={**item.tags, **_label(item.options[letters[0]])})


TOKENS = 512
"""VLMEvalKit has no limit of tokens for a data set, but one for each model. At the commit above it is 512 for most
checkpoints (LLaVA, PaliGemma, SmolVLM, InstructBLIP); the configs of other models have theirs."""

SINGLE_CHOICE = Template(
    "gmai-mmbench/mc",
    "Question: {question}\nOptions:\n{options}Please select the correct answer from the options above. \n",
    "{letter}. {text}\n",
    max_tokens=TOKENS,
)
"""`ImageMCQDataset.build_prompt`, to the byte. The paper's Table 8 prints the image last; it is sent first."""

MULTIPLE_RESPONSE = Template(
    "gmai-mmbench/mc-multiple",
    "Question: {question}\nOptions:\n{options}"
    "Please select all correct answers from the options above. Note that there is more than one correct answer.\n"
    "Please output the answer options directly, separated by commas. For example: A,B\n",
    "{letter}. {text}\n",
    max_tokens=TOKENS,
)
"""Table 8 of the paper; no code that sends it was published."""

PREFIX = Template("gmai-mmbench/ours-ps", "Question: {question} Answer:")
"""Ours for PS, in the form of MediConfusion: the owners of this benchmark ask for the letter alone."""


def prompt(item: Item, technique: Technique) -> Prompt:
    """Return the official harness's prompt for MC and GD; our own prefix for PS."""
    if technique == "ps":
        return PREFIX.prompt(item, technique)
    template = MULTIPLE_RESPONSE if item.kind == "multiple_response" else SINGLE_CHOICE
    return template.prompt(item, technique)


def score(item: Item, answer: Answer) -> Score:
    """Score letters read by the project's own extraction; an answer without readable letter is wrong."""
    by_kind = scoring.score_multiple_choice if item.kind == "multiple_response" else scoring.score_single_choice
    return by_kind(item, answer)


OFFICIAL_NOTE = (
    "answers are read by VLMEvalKit's exact matching, without its random choice where nothing is read; "
    "the paper's numbers come from extraction by ChatGPT instead"
)
"""The same for all versions; the version is recorded beside it."""


def _official(version: str) -> Callable[[Item, Answer], Score]:
    """Score one letter, read by a version of the harness's exact matching."""
    return partial(scoring.score_single_choice, read=partial(scoring.gmai_rule, version=version))


def _reply(reply: str, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Read a model's reply about the option that an answer chooses; the harness reads replies like answers.

    Ours: a reply with another letter, or with a Z beside one, is unreadable. It may restate the answer, and the harness
    would read "B\\nIt may be A" as A.
    """
    chosen, _ = scoring.gmai_choice(reply, options)
    letters = {letter for letter in (*options, "Z") if re.search(rf"(?<!\w){letter}(?!\w)", reply)}
    return None if chosen == "" or letters - {chosen} else () if chosen == "Z" else (chosen,)


def submission(results: Sequence[Result], folder: Path) -> Path:
    """Write the sheet for the owners, who keep the answers of TEST; return its path."""
    columns = {**TAGS, "original_task": "original task"}
    return predictions.write(folder / "gmai-mmbench-test-submission.xlsx", results, columns)


LICENCE = "Apache-2.0 by its card; the images come from 284 data sets with terms of their own"
MD5_VAL = "254bd581627866f1c499d3d6b4422324"
MD5_TEST = (
    "900d735231230a63f4ed45665c078ef4",
    "1b27ab621386945d7e4a765ad2d22b0e",
    "44bdc2b6267dd505d529b8cad06f0fb2",
    "5a04a04fcac9f1466709f242fdb80acb",
    "c70baf8909eda9af0ddeab275c721336",
    "825abc39596b644dead9350d0cfa3b96",
    "defb8aed2fb77365a76b6b9abd6a2701",
    "ff490d60b85f2bb0abb67a435b298c65",
    "ff67c86f40da93b09139ac1d1ba5dc6b",
    "3dae94627b9ac0fe00180d4780fbf6dc",
    "d08dc813f0eb6bbab63cae2a9d113c4b",
)
"""MD5 of VAL and of TEST's parts 1 to 11, and their repositories: `GMAIMMBenchDataset` of VLMEvalKit,
https://github.com/open-compass/VLMEvalKit/blob/e8e78f05f3080fe28154f2130321f17951c3be94/vlmeval/dataset/image_mcq.py"""

ORIGIN_VAL = Origin(
    licence=LICENCE,
    home="https://uni-medical.github.io/GMAI-MMBench.github.io/",
    hub="VLMEval/GMAI-MMBench",
    files=(
        OriginFile(
            to=f"{GROUP}/GMAI-MMBench_VAL.tsv",
            at="GMAI-MMBench_VAL.tsv",
            digest=f"md5:{MD5_VAL}",
            also=("from:GMAI_mm_bench_VAL.tsv",),
        ),
    ),
    note="one table of 9.3 GB",
)
ORIGIN_TEST = Origin(
    licence=LICENCE,
    home="https://uni-medical.github.io/GMAI-MMBench.github.io/",
    hub="OpenGVLab/GMAI-MMBench",
    files=tuple(
        OriginFile(
            to=f"{GROUP}/GMAI_mm_bench_TEST_part_{part}.tsv",
            at=f"GMAI_mm_bench_TEST_part_{part}.tsv",
            digest=f"md5:{md5}",
        )
        for part, md5 in enumerate(MD5_TEST, 1)
    ),
    terms="Open https://huggingface.co/datasets/OpenGVLab/GMAI-MMBench, and agree there to share your contact "
    "information with its owners",
)

VAL = Benchmark(
    name="gmai-mmbench-val",
    origin=ORIGIN_VAL,
    group=GROUP,
    title="GMAI-MMBench, validation",
    items=partial(items, split="val"),
    files=partial(files, split="val"),
    sought="gmai-mmbench/*.tsv with the word VAL in its name, or GMAI-MMBench_VAL.tsv",
    elsewhere=folders.lmu_data,
    release=4550,
    obtain=(
        "Type medvqa fetch gmai-mmbench-val --data=DATA; it brings GMAI-MMBench_VAL.tsv (9.3 GB) of "
        "https://huggingface.co/datasets/VLMEval/GMAI-MMBench to DATA/gmai-mmbench/"
    ),
    prompt=prompt,
    score=score,
    official=_official(scoring.GMAI_VERSIONS[-1]),
    official_note=OFFICIAL_NOTE,
    official_kinds=frozenset({"single_choice"}),
    official_version=scoring.GMAI_VERSIONS[-1],
    official_earlier={version: _official(version) for version in scoring.GMAI_VERSIONS[:-1]},
    extractor=Extractor("options-vlmevalkit", _reply),
    metrics=(
        metrics.accuracy,
        metrics.macro_accuracy("task"),
        metrics.table12_overall,
        metrics.precision_mcls,
        metrics.recall_mcls,
        metrics.exact_match,
        *metrics.rates,
    ),
    techniques=("mc", "gd", "ps"),
    headline=("accuracy", "precision_mcls", "recall_mcls"),
    dimensions=("task", "department", "modality", "granularity"),
    public=True,
    taxonomy="gmai-mmbench",
)

TEST = replace(
    VAL,
    name="gmai-mmbench-test",
    title="GMAI-MMBench, test",
    items=partial(items, split="test"),
    files=partial(files, split="test"),
    sought=f"gmai-mmbench/*.tsv with the word TEST in its name, or GMAI_mm_bench_TEST_part_1.tsv to _{PARTS}.tsv",
    # Its number is not published: the paper's counts and its totals differ. Missing parts are refused instead.
    release=None,
    origin=ORIGIN_TEST,
    obtain=(
        "Accept the terms of https://huggingface.co/datasets/OpenGVLab/GMAI-MMBench and type medvqa fetch "
        f"gmai-mmbench-test --data=DATA; it brings GMAI_mm_bench_TEST_part_1.tsv to part_{PARTS}.tsv to "
        "DATA/gmai-mmbench/"
    ),
    recover=recover,
    submission=submission,
)

BENCHMARKS = (VAL, TEST)
