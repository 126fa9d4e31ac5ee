"""The labels of a run's wrong answers, as they lie in errors.json.

The file belongs to exactly these wrong answers (`digest`): if the run has others today, it is stale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from medvqa import decode
from medvqa.items import QuestionKey, Result, UsageError
from medvqa.judging.coefficients import Coefficient
from medvqa.judging.handed_in import answer_id
from medvqa.judging.taxonomy.trees import Taxonomy
from medvqa.judging.taxonomy.wrong_answers import wrong_answers
from medvqa.records import run_folder
from medvqa.records.run_record import MAX_RUN

FILE = "errors.json"
"""The file of a run folder with the kinds of its wrong answers."""
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ErrorLabel:
    """The kind of one wrong answer.

    `answer` is the id of its response (`people.answer_id`). `kind` is "" if there is none; `why` then says the
    reason. `by` tells who gave it. `first` is the kind before people's correction, `first_by` its source. `replies` are
    the judge's.
    """

    benchmark: str
    item: str
    technique: str
    variant: str
    sample: int
    answer: str
    outcome: str
    kind: str
    by: Literal["rule", "judge", "people"]
    why: str = ""
    first: str = ""
    first_by: Literal["rule", "judge"] = "judge"
    replies: tuple[str, ...] = ()

    @property
    def key(self) -> QuestionKey:
        """The key of the result."""
        return QuestionKey(self.benchmark, self.item, self.technique, self.variant, self.sample)


def label_of(
    result: Result, kind: str, by: Literal["rule", "judge"], why: str = "", replies: Sequence[str] = ()
) -> ErrorLabel:
    """Return the label of a result."""
    outcome, place = result.score.outcome, (*result.key,)
    return ErrorLabel(*place, answer_id(result), outcome, kind, by, why, kind, by, tuple(replies))


@dataclass(frozen=True, slots=True)
class ErrorJudge:
    """The judge of kinds: its name, its name in signatures, its prompt, and whether it saw the images."""

    name: str
    identity: str
    template: str
    images: bool


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """The wrong answers of one benchmark: `wrong` in all, `drawn` of them, stratified by `by`; and those left out."""

    wrong: int
    drawn: int
    by: str
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class KindAgreement:
    """The agreement of the judge with people about the kinds of one benchmark's wrong answers.

    `main`: kinds within others count as the kind around them. `confusion` counts answers by the first rater's kind
    (row) and the second's (column), in the order of `kinds`.
    """

    benchmark: str
    raters: tuple[str, str]
    main: bool
    kinds: tuple[str, ...]
    n: int
    groups: int
    exact: Coefficient
    kappa: Coefficient
    confusion: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class People:
    """The people's review: names of raters; answers reviewed and changed; answers on which people have no majority."""

    raters: tuple[str, ...]
    reviewed: int
    changed: int
    split: int
    agreements: tuple[KindAgreement, ...] = ()


@dataclass(frozen=True, slots=True)
class Classified:
    """The content of errors.json, without the shares, which are computed from it.

    `digest` names the wrong answers that were there. `trees` and `samples` are by benchmark. `usage`: tokens and cost
    of the judge's replies, whenever they were asked for.
    """

    digest: str
    trees: Mapping[str, Taxonomy]
    samples: Mapping[str, ErrorSample]
    labels: tuple[ErrorLabel, ...]
    judge: ErrorJudge
    seed: int = 0
    limit: int | None = None
    partial: bool = False
    people: People | None = None
    usage: Mapping[str, float] | None = None
    schema: int = SCHEMA

    def is_of(self, results: Iterable[Result]) -> bool:
        """Return whether these results of a run have exactly the wrong answers that were classified."""
        own = [result for result in results if result.item.benchmark in self.samples]
        return self.digest == digest(wrong_answers(own, partial=self.partial)[0])


def digest(wrong: Iterable[Result]) -> str:
    """Return a digest of wrong answers: keys, responses, outcomes."""
    lines = sorted((*map(str, result.key), answer_id(result), result.score.outcome) for result in wrong)
    return hashlib.sha256(msgspec.json.encode(lines)).hexdigest()[:16]


def read(folder: Path) -> Classified | None:
    """Return the classification of a run folder, None without one. UsageError for a damaged file."""
    path = folder / FILE
    content = decode.stored(path, Classified, MAX_RUN, "Move it away and repeat medvqa classify")
    if content is None:
        return None
    if content.schema != SCHEMA:
        raise UsageError(f"{path}: its schema is {content.schema}; this version reads {SCHEMA}")
    known = {name: {"", *tree.kinds} for name, tree in content.trees.items()}
    if content.samples.keys() != known.keys() or any(
        not {label.kind, label.first} <= known.get(label.benchmark, set()) for label in content.labels
    ):
        raise UsageError(f"{path}: damaged: a label is of no kind of its tree. Move it away and repeat medvqa classify")
    return content


def write(folder: Path, classified: Classified, shares: Sequence[Any]) -> None:
    """Write errors.json, with the shares for other programs (OSError)."""
    content = msgspec.to_builtins(classified)
    run_folder.write_json(folder / FILE, {"schema": SCHEMA, **content, "shares": shares})
