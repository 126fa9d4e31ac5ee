"""Parts that data sets with closed and open questions share: VQA-RAD, SLAKE and PathVQA.

Closed questions have the kind `judgment`, open ones `short_answer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from medvqa import scoring
from medvqa.benchmarks.lettered import TOKENS
from medvqa.items import Answer, Item, Kind, Score
from medvqa.protocols.prompts import Template, Templates
from medvqa.tables.shards import rows, shards

JUDGED: frozenset[Kind] = frozenset({"short_answer"})
"""A rule scores closed questions, a judge open ones."""
BRIEFLY = "Please answer the question concisely."
YES_OR_NO = "Please output 'yes' or 'no'(no extra output)."
"""MedEvalKit's lines, `get_open_ended_prompt` and `get_judgement_prompt`, to the byte:
https://github.com/alibaba-damo-academy/MedEvalKit/blob/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils/question_formats.py
"""


def templates(group: str, name: str, closed: str, opened: str, tokens: int = TOKENS) -> Templates:
    """Return a prompt that appends one line to closed questions, and one to open questions."""
    lines: dict[Kind, tuple[str, str]] = {"judgment": ("closed", closed), "short_answer": ("open", opened)}
    by_kind = {
        kind: Template(f"{group}/{name}-{word}", f"{{question}}\n{line}", max_tokens=tokens)
        for kind, (word, line) in lines.items()
    }
    return Templates(name, {"mc": by_kind["short_answer"]}, by_kind)


def score(item: Item, answer: Answer) -> Score:
    """Score closed questions; leave open ones to their metrics and to a judge."""
    return scoring.score_closed(item, answer) if item.kind == "judgment" else scoring.unscored(item, answer)


def kind_of(answer: str) -> Kind:
    """Return the kind of a question whose data set has no column for it: closed if its answer is yes or no."""
    return "judgment" if scoring.is_yes_or_no(answer) else "short_answer"


def hub_items(data: Path, group: str, split: str) -> Iterator[Item]:
    """Yield the questions of a split in the hub's form: Parquet with image, question and answer, and no id.

    An item's id is its number within the split. The group of an item is its image, by the image's bytes. DataError
    names file and record.
    """
    read = rows(hub_files(data, group, split), data, group, needed=("image", "question", "answer"), digests=True)
    for number, row in enumerate(read, 1):
        image, answer = row.image("image"), row.text("answer").strip()
        if image is None or not image.digest:
            raise row.error("no image", "image")
        yield Item(
            id=str(number),
            kind=kind_of(answer),
            question=row.text("question"),
            answers=(answer,) if answer else (),
            images=(image,),
            tags={"answer_type": ("closed" if kind_of(answer) == "judgment" else "open",)},
            cluster_id=f"image {image.digest}",
        )


def hub_files(data: Path, group: str, split: str) -> Sequence[Path]:
    """Return the Parquet files of a split that are there."""
    return shards(data / group, split)
