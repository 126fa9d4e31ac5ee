"""What of its benchmarks a run selected, how, and what of that has a result that can be read.

Whatever draws a number from a run folder takes both from here: a part never passes for the whole. run.json says how
many questions were selected, and of how many; `selected.jsonl` says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from medvqa.data.selection import Shard
from medvqa.items import DataError, QuestionKey, Result
from medvqa.records.folder import Stored, read, read_run
from medvqa.records.selected import selected


@dataclass(frozen=True, slots=True)
class Portion:
    """How many questions of a benchmark were selected for a technique, of how many for which it is defined."""

    chosen: int
    of: int

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.chosen >= self.of

    def __str__(self) -> str:
        """For instance "10 of 60"."""
        return f"{self.chosen:,} of {self.of:,}"


@dataclass(frozen=True, slots=True)
class Selection:
    """What all sessions of a run selected together.

    `how` are the options by which they chose, as typed. `by_outcome`: a session chose questions by how they ended
    before (--lf), so that no number over them is a number of the model. `questions` counts keys: samples and techniques
    of one item are several. `benchmarks`: name -> technique -> portion; empty for a run of an earlier version.
    """

    how: tuple[str, ...] = ()
    by_outcome: bool = False
    questions: int = 0
    benchmarks: Mapping[str, Mapping[str, Portion]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Selection:
        """The selection that run.json tells."""
        selection = run.get("selection") or {}
        return cls(
            tuple(selection.get("how", ())),
            selection.get("by_outcome", False),
            selection.get("questions", 0),
            {
                name: {technique: Portion(**numbers) for technique, numbers in techniques.items()}
                for name, techniques in selection.get("benchmarks", {}).items()
            },
        )

    def as_json(self) -> dict[str, Any]:
        """What run.json says."""
        return asdict(self)

    @property
    def whole(self) -> bool:
        """Whether every benchmark was selected whole."""
        return all(portion.whole for techniques in self.benchmarks.values() for portion in techniques.values())

    @property
    def ranked_by_outcome(self) -> bool:
        """Whether what was selected depends on how it ended before."""
        return self.by_outcome and not self.whole

    def portion(self, benchmark: str, technique: str) -> Portion | None:
        """What was selected of a benchmark, None where that is not known."""
        return self.benchmarks.get(benchmark, {}).get(technique)

    def line(self, benchmark: str, technique: str) -> str:
        """What was selected of a benchmark and how: "10 of 60, by -k q0"; "" for the whole, or where it is unknown."""
        portion = self.portion(benchmark, technique)
        if portion is None or portion.whole:
            return ""
        return f"{portion}, by {' '.join(self.how) or 'the tests that were collected'}"


def select_from(
    keys: Iterable[QuestionKey], run: Mapping[str, Any], how: Sequence[str], *, by_outcome: bool = False
) -> Selection:
    """Count the keys that all sessions of a run selected; its run.json tells how many questions there are.

    A benchmark of the run of which nothing was selected counts too.
    """
    keys = set(keys)
    chosen: dict[str, dict[str, set[str]]] = {}
    for key in keys:
        chosen.setdefault(key.benchmark, {}).setdefault(key.technique, set()).add(key.item)
    portions = {
        name: {
            technique: Portion(len(chosen.get(name, {}).get(technique, ())), of)
            for technique, of in about.get("questions", {}).items()
        }
        for name, about in sorted(run.get("benchmarks", {}).items())
        if about.get("questions")
    }
    return Selection(tuple(dict.fromkeys(how)), by_outcome, len(keys), portions)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of a selection has a result that can be read.

    `selected` and `there` count questions; the former is None where it is not known what was selected. `missing` names
    questions without a result, as far as their names are known. `reasons` say what else is not there, and `absent`
    which shares are not among the runs, a phrase each.
    """

    selected: int | None
    there: int
    missing: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether nothing is known to lack of what was selected; a share of a run may be finished."""
        return not (self.missing or self.reasons or (self.selected or 0) > self.there)

    @property
    def complete(self) -> bool:
        """Whether nothing is known to lack, and no share."""
        return self.finished and not self.absent

    @property
    def lines(self) -> tuple[str, ...]:
        """What a reader must know before any number, a phrase each; none if the run is complete."""
        counted = []
        if (self.selected or 0) > self.there:
            counted = [f"unfinished: {self.there:,} of {self.selected:,} questions have a result"]
        elif self.missing:
            one = len(self.missing) == 1
            counted = [
                "unfinished: " + ("1 question has" if one else f"{len(self.missing):,} questions have") + " no result"
            ]
        return (*counted, *self.reasons, *self.absent)


def coverage(
    folder: Path,
    run: Mapping[str, Any] | None = None,
    stored: Stored | None = None,
    keys: Collection[QuestionKey] | None = None,
) -> Coverage:
    """Compare what a run selected with what can be read (UsageError, DataError).

    `run`, `stored` and `keys` save reading it.
    """
    run = read_run(folder) if run is None else run
    stored = read(folder) if stored is None else stored
    keys_with_result, damage = {result.key for result in stored.results}, strangers(run, stored.results)
    try:
        keys = selected(folder) if keys is None else keys
    except DataError as error:
        keys, damage = (), (*damage, str(error))
    coverage = cover(run, keys, keys_with_result, len(stored.unread))
    return replace(coverage, reasons=(*coverage.reasons, *damage))


def strangers(run: Mapping[str, Any], results: Iterable[Result]) -> tuple[str, ...]:
    """Say that results are another run's, as files that were copied or joined by hand leave them; () if none are.

    Not of runs of earlier versions, nor of merged ones, whose parts may be merged themselves.
    """
    if "selection" not in run or run.get("merged"):
        return ()
    names = Counter(result.run for result in results if result.run not in (run.get("name"), *run.get("names", ())))
    return tuple(f"{number:,} of its results are those of run {name!r}" for name, number in sorted(names.items()))


def cover(
    run: Mapping[str, Any], keys: Collection[QuestionKey], keys_with_result: Collection[QuestionKey], unread: int = 0
) -> Coverage:
    """Compare the keys that a run selected with those of its results, of which `unread` lines cannot be read."""
    absent = absent_shares(run)
    reasons = []
    several = len(run.get("techniques", ())) > 1
    selected = Selection.of(run).questions
    if not keys and not selected:
        # A run of an earlier version, which stored no keys, or a baseline file.
        if any(not part.get("finished") for part in run.get("merged") or [run]):
            reasons.append("unfinished: the run did not end, and what it lacks is not known")
        if unread:
            what = "a line" if unread == 1 else f"{unread} lines"
            reasons.append(f"{what} of its results cannot be read, and it is not known what was held there")
        return Coverage(None, len(keys_with_result), tuple(sorted(run.get("missing", ()))), tuple(reasons), absent)
    lacking = sorted(set(keys) - set(keys_with_result))
    # Of questions whose keys are lost (a folder that was copied in part) the number alone tells that none is missing.
    with_result = (
        min(len(set(keys_with_result)), selected) if selected > len(keys) else len(set(keys) & set(keys_with_result))
    )
    return Coverage(
        max(selected, len(keys)),
        with_result,
        tuple(sorted(key.name(technique=several) for key in lacking)),
        tuple(reasons),
        absent,
    )


SHOWN = 5
"""Absent shares that are named: a stranger's run.json may tell of a share of a billion."""


def absent_shares(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The shares that belong to those that a run is, or was merged from, and are not there, a phrase each.

    A run that selected all of its benchmarks lacks none, in however many shares it was asked.
    """
    selection = Selection.of(run)
    names = run.get("benchmarks", {}).keys()
    if selection.benchmarks and selection.whole and names <= selection.benchmarks.keys():
        return ()
    shards = [*((Shard.parse(shard), None) for shard in own_shards(run)), *_merged_shares(run)]
    lines = []
    for of in sorted({shard.of for shard, _ in shards}):
        present = {shard.number for shard, _ in shards if shard.of == of}
        absent = (number for number in range(1, of + 1) if number not in present)
        lines += [f"shard {number}/{of} is missing" for number in islice(absent, SHOWN)]
        if (more := of - len(present) - SHOWN) > 0:
            lines.append(f"{more:,} other shards of {of:,} are missing too")
        parts = [(shard.number, mine) for shard, mine in shards if shard.of == of]
        for name in sorted({name for _, mine in parts for name in mine or ()}):
            lacking = sorted(present - {number for number, mine in parts if mine is None or name in mine})
            lines += [f"shard {number}/{of} of {name} is missing" for number in lacking[:SHOWN]]
            if len(lacking) > SHOWN:
                lines.append(f"{len(lacking) - SHOWN:,} other shards of {name} are missing too")
    return tuple(lines)


def own_shards(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The shares that the sessions of a run asked, as typed; () if the last of them asked no share."""
    last = run.get("options", {}).get("shard")
    if last is None:
        return ()
    # A session that scored anew has no options.
    shards = [session.get("options", {}).get("shard") for session in run.get("sessions", ())]
    return tuple(dict.fromkeys([*(shard for shard in shards if shard is not None), last]))


def merged_parts(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What run.json tells of all runs that a run was merged from, with those that they were merged from themselves."""
    parts, left = [], list(run.get("merged", ()))
    while left:
        part = left.pop(0)
        parts.append(part)
        left += part.get("merged", ())
    return parts


def _merged_shares(run: Mapping[str, Any]) -> list[tuple[Shard, Collection[str] | None]]:
    """The shares of all parts that a run was merged from, with the benchmarks of which they are; None: of all."""
    return [
        (Shard.parse(shard), part.get("benchmarks"))
        for part in merged_parts(run)
        for shard in part.get("shards") or [part.get("shard")]
        if shard is not None
    ]
