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
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import ascii_lowercase

from medvqa import metrics, printing, scoring
from medvqa.benchmarks import folders, predictions, published
from medvqa.items import (
    Answer,
    Benchmark,
    DataError,
    Extractor,
    Item,
    OfficialRule,
    Origin,
    OriginFile,
    Owners,
    Result,
    Score,
)
from medvqa.protocols.prompts import Template, Templates
from medvqa.scoring import Reading
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
        _check_parts(paths)
    return items_of(paths, root=data, benchmark=f"gmai-mmbench-{split}", withheld=split == "test")


def _check_parts(paths: Sequence[Path]) -> None:
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
    # Rows, items and the items that `load` makes of them would be three times what a run holds: hence the queues.
    rows = deque(row for path in files for row in image_cells.read(path, root=root, needed=needed))
    clusters = _clusters(rows)
    items = deque[Item]()
    while rows:
        row = rows.popleft()
        items.append(_item(row, benchmark, clusters[row.text("index")]))
    lexicon.warn_unknown(items, lexicon.gmai_mmbench())
    while items:
        yield items.popleft()


def _clusters(rows: Iterable[TableRow]) -> dict[str, str]:
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


def recover(item: Item) -> Item:
    """Return the item with its withheld answer: the one option with the text of `category`.

    Letter case and white space do not count. If no option or several match, the answer stays withheld.
    """
    category = str(item.extra.get("category", "")).casefold().split()
    letters = [letter for letter, text in item.options.items() if text.casefold().split() == category]
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


PROMPT = Templates(
    "default",
    {"mc": SINGLE_CHOICE, "gd": SINGLE_CHOICE, "ps": PREFIX},
    {"multiple_response": MULTIPLE_RESPONSE},
)


def score(item: Item, answer: Answer) -> Score:
    """Score letters read by the project's own extraction; an answer without readable letter is wrong."""
    by_kind = scoring.score_multiple_choice if item.kind == "multiple_response" else scoring.score_single_choice
    return by_kind(item, answer)


REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_SPACES = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_STATEMENT = re.compile(r"answer\s+is\s+\**([A-D])", re.I)

GMAI_COMMITS: Mapping[str, str] = {
    "2024-02": "98e3733f7d5f37efa1587ab03ec349a863bdd149",
    "2025-08": "c3371551bb84a36b8012d277231059c901ffa2f7",
    "2026-06": "a67ace50033b1feed0e42c60749a9f5d0354c7d8",
}
"""Versions of `gmai_rule`, by the month in which VLMEvalKit changed its rule, the oldest first, and their commits.

The first was there in the months in which the benchmark was published.
"""
GMAI_VERSIONS = tuple(GMAI_COMMITS)


def gmai_rule(
    response: str, options: Mapping[str, str], *, multiple: bool = False, version: str = GMAI_VERSIONS[-1]
) -> Reading:
    """Read `response` by the exact matching of VLMEvalKit, the harness of GMAI-MMBench's authors.

    First by letter (`can_infer_option`): fourteen punctuation marks become spaces, and exactly one option letter must
    be among the words. Then by text (`can_infer_text`): the response must contain exactly one option's text, in any
    case and across word borders ("abnormal" contains "normal"). `multiple` changes nothing: the harness reads one
    letter. The versions differ:

    - 2024-02: as above, anywhere in the response. "A patient ..." is A.
    - 2025-08: the letter must first occur among the last four words. Texts are searched only if the response is at
      most twice as long as all options together.
    - 2026-06: if the words give no letter, one of A to D after "answer is" counts, in either case. "The answer is
      a tumour ..." is A.

    Differences from a run of the harness: if nothing matches, the harness asks an LLM for the letter (or Z for none).
    After three failures it draws a random option. Here the answer is `unparsed`, as under the harness's
    `exact_matching` policy. As there, a letter Z or one of four known refusals is `unparsed` before texts are searched.
    The environment variable VERBOSE is ignored; it makes the harness distrust the letter A in answers of more than
    three words. The paper's numbers used ChatGPT-3.5-turbo-0613 as the extractor (supplement, D), so this rule
    approximates them.

    Source: vlmeval/utils/matching_util.py of https://github.com/open-compass/VLMEvalKit/tree/COMMIT (GMAI_COMMITS).
    """
    chosen, why = gmai_choice(response, options, version)
    return Reading((chosen,) if chosen in options else (), "read" if chosen in options else "unparsed", why)


def gmai_choice(response: str, options: Mapping[str, str], version: str = GMAI_VERSIONS[-1]) -> tuple[str, str]:
    """Return the result of `gmai_rule` and the reason: a letter of `options`, "Z" for none of them, "" if unreadable.

    The harness reads both the answers of models and the replies of its extractor in this way.
    """
    if version not in GMAI_VERSIONS:
        raise ValueError(f"no version {version!r}; there are: {', '.join(GMAI_VERSIONS)}")
    if "Failed to obtain answer via API" not in response:
        if any(refusal in response for refusal in REFUSALS):
            return "Z", "exact matching: a known refusal"
        words = response.translate(_SPACES).split()
        letters = [letter for letter in options if letter in words]
        if len(letters) == 1 and (version < "2025-08" or words.index(letters[0]) > len(words) - 5):
            return letters[0], f"exact matching: letter {letters[0]}"
        if not letters and "Z" in words:
            return "Z", "exact matching: the letter Z"
        stated = _STATEMENT.search(response) if version >= "2026-06" else None
        if stated and stated[1].upper() in options:
            return stated[1].upper(), f"exact matching: the answer is {stated[1].upper()}"
    lowered = response.lower()
    if version >= "2025-08" and len(lowered) > 2 * sum(map(len, options.values())):
        return "", "exact matching: no letter, and too long for a text"
    letters = [letter for letter, text in options.items() if text.lower() in lowered]
    if len(letters) == 1:
        return letters[0], f"exact matching: text of {letters[0]}"
    return "", f"exact matching: {'texts of ' + ', '.join(letters) if letters else 'no letter or text'}"


def _official(version: str) -> Callable[[Item, Answer], Score]:
    """Score one letter, read by a version of `gmai_rule`."""
    return partial(scoring.score_single_choice, read=partial(gmai_rule, version=version))


def _reply(reply: str, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Read a model's reply about the option that an answer chooses; the harness reads replies like answers.

    Ours: a reply with another letter, or with a Z beside one, is unreadable. It may restate the answer, and the harness
    would read "B\\nIt may be A" as A.
    """
    chosen, _ = gmai_choice(reply, options)
    letters = {letter for letter in (*options, "Z") if re.search(rf"(?<!\w){letter}(?!\w)", reply)}
    return None if chosen == "" or letters - {chosen} else () if chosen == "Z" else (chosen,)


def submission(results: Sequence[Result], folder: Path) -> Path:
    """Write the sheet for the owners, who keep the answers of TEST; return its path."""
    columns = {**TAGS, "original_task": "original task"}
    return predictions.write(folder / "gmai-mmbench-test-submission.xlsx", results, columns)


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

ORIGIN = Origin(
    licence="Apache-2.0 by its card; the images come from 284 data sets with terms of their own",
    home="https://uni-medical.github.io/GMAI-MMBench.github.io/",
    elsewhere=folders.lmu_data,
    group=GROUP,
)
ORIGIN_VAL = replace(
    ORIGIN,
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
    release=4550,
    find=partial(files, split="val"),
    reads=(f"{GROUP}/*.tsv with the word VAL in its name", "GMAI-MMBench_VAL.tsv"),
)
ORIGIN_TEST = replace(
    ORIGIN,
    hub="OpenGVLab/GMAI-MMBench",
    files=tuple(
        OriginFile(to=f"{GROUP}/{name}", at=name, digest=f"md5:{md5}")
        for part, md5 in enumerate(MD5_TEST, 1)
        for name in [f"GMAI_mm_bench_TEST_part_{part}.tsv"]
    ),
    terms="Open https://huggingface.co/datasets/OpenGVLab/GMAI-MMBench, and agree there to share your contact "
    "information with its owners",
    # The number of questions is not published: the paper's counts and its totals differ. Missing parts are refused.
    release=None,
    find=partial(files, split="test"),
    reads=(f"{GROUP}/*.tsv with the word TEST in its name", f"GMAI_mm_bench_TEST_part_1.tsv to _{PARTS}.tsv"),
)

VAL = Benchmark(
    name="gmai-mmbench-val",
    origin=ORIGIN_VAL,
    title="GMAI-MMBench, validation",
    items=partial(items, split="val"),
    prompt=PROMPT,
    score=score,
    metrics=(
        metrics.accuracy,
        metrics.macro_accuracy("task"),
        metrics.table12_overall,
        metrics.precision_mcls,
        metrics.recall_mcls,
        metrics.exact_match,
        *metrics.rates,
    ),
    headline=("accuracy", "precision_mcls", "recall_mcls"),
    dimensions=("task", "department", "modality", "granularity"),
    public=True,
    owners=Owners(
        rule=OfficialRule(
            score=_official(GMAI_VERSIONS[-1]),
            note="answers are read by VLMEvalKit's exact matching, without its random choice where nothing is read; "
            "the paper's numbers come from extraction by ChatGPT instead",
            kinds=frozenset({"single_choice"}),
            version=GMAI_VERSIONS[-1],
            earlier={version: _official(version) for version in GMAI_VERSIONS[:-1]},
        ),
        extractor=Extractor("options-vlmevalkit", _reply),
        taxonomy="gmai-mmbench",
        published=partial(published.read, "gmai-mmbench"),
    ),
)

TEST = replace(
    VAL,
    name="gmai-mmbench-test",
    title="GMAI-MMBench, test",
    items=partial(items, split="test"),
    origin=ORIGIN_TEST,
    owners=replace(VAL.owners, recover=recover, submission=submission),
)

BENCHMARKS = (VAL, TEST)
