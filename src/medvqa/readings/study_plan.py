"""The plan of a reader study or an expert review, and the study folder's record of who reads what."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from medvqa import decode, printing
from medvqa.items import DataError, Item, UsageError, of_data
from medvqa.readings import assigning
from medvqa.readings.reading_file import MAX_READERS, Arm, Opinion, ReaderAnswer, ReaderStudy, Task, is_personal

RECORD, JOINED, RECEIVED = "study.json", "readings.jsonl", "received"
"""Files and a folder of a study folder."""
_CODE = re.compile(r"(?=.{1,40}$)[A-Za-z][A-Za-z0-9_-]*(?:/[A-Za-z0-9][A-Za-z0-9_-]*)?")
"""R1, or with a group senior/R1."""


class ReadingPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The TOML file of `medvqa read PLAN.toml`."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    benchmarks: Annotated[list[str], msgspec.Meta(min_length=1)]
    """Names, or TOML files as --benchmark takes them; a relative path starts at the plan's folder."""
    readers: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_READERS)]
    """Codes, such as R1, or senior/R1 with the reader's group."""
    task: Task = "answer"
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The most questions of each benchmark, with whole pairs."""
    select: str = ""
    """As --select."""
    overlap: Annotated[int, msgspec.Meta(ge=1)] | Literal["all"] = "all"
    """Readers of each question; "all" makes readers and questions crossed."""
    seed: int = 0
    sitting: Annotated[int, msgspec.Meta(ge=1)] = 40
    """The most questions of a sitting."""
    technique: Literal["mc", "ff"] = "mc"
    """ff hides the options."""
    confidence: bool = True
    margin: Annotated[float, msgspec.Meta(gt=0, lt=100)] | None = None
    """Non-inferiority margin of a model against the readers, in points."""
    instructions: Annotated[str, msgspec.Meta(max_length=20_000)] = ""
    arm: Arm = ""
    opinions: str = ""
    """For a final decision: the file of the reviewers' opinions, which the page shows without codes."""
    keep_from: Annotated[int, msgspec.Meta(ge=1, le=10)] | None = None
    """As --keep-from of `medvqa read revise`: a lower rating asks for removal."""

    @property
    def number(self) -> int:
        """Readers of each question."""
        return len(self.readers) if self.overlap == "all" else self.overlap


class StudyRecord(msgspec.Struct, frozen=True):
    """study.json: the study, the code of each question, and each reader's codes in order with their sittings.

    Pages hold codes in place of ids: an id such as `glioma_07` tells the key, and `12/2` the pair. `benchmarks`: as
    typed, with whole paths of files.
    """

    study: ReaderStudy
    benchmarks: list[str]
    questions: dict[str, tuple[str, str]]
    orders: dict[str, list[tuple[str, int]]]


def read_plan(path: Path) -> ReadingPlan:
    """Return the plan in a file (UsageError)."""
    plan = decode.decode(path, ReadingPlan)
    # No message shows a code: it may be a person's name.
    if any(is_personal(code) or is_personal(code.title()) for code in plan.readers):
        raise UsageError(
            f"{path}: readers: a code looks like the name or the address of a person, or a date; write codes such as "
            "R1, R2"
        )
    if not all(map(_CODE.fullmatch, plan.readers)):
        raise UsageError(
            f"{path}: readers: a code has other characters than letters, digits, - and _, and a / after a group (40, "
            "the first a letter); write codes such as R1, R2"
        )
    names = [file_name(code, "").casefold() for code in plan.readers]
    if twice := [code for code, name in zip(plan.readers, names, strict=True) if names.count(name) > 1]:
        raise UsageError(f"{path}: readers: {' and '.join(twice[:2])} give one name of files: write codes that differ")
    if (overlap := plan.number) > (most := len(plan.readers)):
        raise UsageError(f'{path}: overlap = {overlap}: write a number of readers from 1 to {most}, or overlap = "all"')
    if plan.opinions and plan.task != "review":
        raise UsageError(f'{path}: opinions belong to a final decision: write task = "review", or leave them out')
    return plan


def record_of(
    plan: ReadingPlan, benchmarks: Sequence[str], items: Sequence[Item], digests: Mapping[str, str]
) -> StudyRecord:
    """Assign the questions of a plan; `digests` are those of benchmarks, by name (UsageError)."""
    assigned = assigning.assign(items, plan.readers, plan.number, plan.seed)
    if idle := [reader for reader, places in assigned.items() if not places]:
        raise UsageError(
            f"no question is left for {printing.some(idle, 100)}: ask more, raise overlap, or name fewer readers"
        )
    # Nobody without the keys can compute the code of an id that was guessed.
    secret = _digest((plan.seed, plan.name, digests, [(item.benchmark, item.id, item.answers) for item in items]))
    codes = [f"q-{_digest((secret, item.benchmark, item.id))[:16]}" for item in items]
    orders = {}
    for reader, places in assigned.items():
        # Experts see the key: a question tells them nothing about its pair.
        apart = plan.task == "answer"
        order = assigning.ordered(items, places, plan.sitting, plan.seed, reader, apart=apart)
        orders[reader] = [(codes[place], sitting) for place, sitting in order]
    questions = {code: (item.benchmark, item.id) for code, item in zip(codes, items, strict=True)}
    study = ReaderStudy(
        task=plan.task,
        name=plan.name,
        plan=_digest((plan, digests, orders)),
        benchmarks=dict(digests),
        readers=tuple(plan.readers),
        assigned={reader: len(order) for reader, order in orders.items()},
        margin=plan.margin,
    )
    return StudyRecord(study, list(benchmarks), questions, orders)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(msgspec.to_builtins(value), sort_keys=True).encode()).hexdigest()


def file_name(reader: str, suffix: str) -> str:
    """Return the name of a reader's file."""
    return reader.replace("/", "-") + suffix


def stored(folder: Path) -> StudyRecord | None:
    """Return the record of a study folder, None without one (UsageError)."""
    advice = "Remove it, and type medvqa read PLAN.toml again"
    record = decode.stored(folder / RECORD, StudyRecord, 2**27, advice)
    # Names of files are made of codes.
    if record is not None and not all(map(_CODE.fullmatch, record.orders)):
        raise UsageError(printing.line(f"{folder / RECORD} has codes that no plan may have. {advice}"))
    return record


def by_ids(
    record: StudyRecord, file: ReaderStudy, lines: Sequence[ReaderAnswer | Opinion], name: str
) -> list[ReaderAnswer | Opinion]:
    """Return the readings of a file with ids in place of codes (DataError, which counts all wrong readings).

    They must be of this plan, and of questions that are assigned to their readers. Tables of other programs may have
    ids, and no benchmark if the study has one.
    """
    if file.plan not in ("", record.study.plan):
        raise DataError(f"{name}: its readings are of another plan than {RECORD}: name its study folder by --study")
    codes = dict[tuple[str, str], str]()
    for code, (benchmark, id) in record.questions.items():
        codes |= {(benchmark, id): code, (benchmark, code): code, ("", code): code}
        if len(record.study.benchmarks) == 1:
            codes["", id] = code
    read_by = {reader: {code for code, _ in order} for reader, order in record.orders.items()}
    translated: list[ReaderAnswer | Opinion] = []
    wrong: list[str] = []
    for line in lines:
        code, item = codes.get((line.benchmark, line.item), ""), of_data(decode.shown(line.item))
        if line.reader not in read_by:
            known = decode.did_you_mean(line.reader, read_by)
            wrong.append(f"no reader {decode.shown(line.reader)} is planned{known}")
        elif not code:
            of = f" of {printing.line(line.benchmark)}" if line.benchmark else ""
            wrong.append(f"the study has no question {item}{of}, which {line.reader} answers")
        elif code not in read_by[line.reader]:
            wrong.append(f"question {item} is not assigned to {line.reader}")
        else:
            benchmark, id = record.questions[code]
            translated.append(msgspec.structs.replace(line, benchmark=benchmark, item=id))
    if wrong:
        of = f"{len(wrong):,} of {len(lines):,} readings are wrong; the first: " if len(wrong) > 1 else ""
        raise DataError(f"{name}: {of}{wrong[0]}")
    return translated
