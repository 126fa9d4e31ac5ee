"""The selection of a run, and its coverage: which selected questions have a readable result.

Every command that reports a number from a run folder uses both, so that a part is never shown as the whole. run.json
has the numbers of questions; `selected.jsonl` has their keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

from medvqa.data.selection import Shard
from medvqa.items import DataError, QuestionKey
from medvqa.records.folder import Mark, Stored, decisive_digest, present_mark, read, read_run
from medvqa.records.selected import selected, selected_bytes

Key = TypeVar("Key", bound=Hashable)
"""A key of a question, or a digest that stands for one."""


@dataclass(frozen=True, slots=True)
class Portion:
    """The number of selected questions of a benchmark and technique, and the number of all for which it is defined."""

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
    """The union of the selections of all sessions of a run.

    `how`: the selecting options, as typed. `by_outcome`: a session selected questions by an earlier outcome (--lf), so
    numbers over them do not describe the model. `questions`: number of keys; samples and techniques of one item count
    separately. `benchmarks`: name -> technique -> portion; empty for a run of an earlier version. `every`: each item
    was selected with all its samples, prompts and rotations.
    """

    how: tuple[str, ...] = ()
    by_outcome: bool = False
    questions: int = 0
    benchmarks: Mapping[str, Mapping[str, Portion]] = field(default_factory=dict)
    every: bool = True

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Selection:
        """The selection recorded in run.json."""
        selection = run.get("selection") or {}
        return cls(
            tuple(selection.get("how", ())),
            selection.get("by_outcome", False),
            selection.get("questions", 0),
            {
                name: {technique: Portion(**numbers) for technique, numbers in techniques.items()}
                for name, techniques in selection.get("benchmarks", {}).items()
            },
            selection.get("every", True),
        )

    def as_json(self) -> dict[str, Any]:
        """The entry of run.json."""
        fields = asdict(self)
        return {name: value for name, value in fields.items() if name != "every" or not value}

    @property
    def whole(self) -> bool:
        """Whether every benchmark was selected whole."""
        portions = [portion for techniques in self.benchmarks.values() for portion in techniques.values()]
        return self.every and all(portion.whole for portion in portions)

    @property
    def empty(self) -> bool:
        """Whether nothing was selected, as in an empty shard; False if it is not known."""
        return bool(self.benchmarks) and not self.questions

    @property
    def ranked_by_outcome(self) -> bool:
        """Whether the selection depends on earlier outcomes."""
        return self.by_outcome and not self.whole

    def portion(self, benchmark: str, technique: str) -> Portion | None:
        """The selected portion of a benchmark, None if unknown."""
        return self.benchmarks.get(benchmark, {}).get(technique)

    def line(self, benchmark: str, technique: str) -> str:
        """The selected portion and options, such as "10 of 60, by -k q0"; "" if it is the whole, or unknown."""
        portion = self.portion(benchmark, technique)
        if portion is None or (portion.whole and self.every):
            return ""
        part = "" if self.every else ", of some questions a part of the answers"
        return f"{portion}{part}, by {' '.join(self.how) or 'the tests that were collected'}"


def select_from(
    keys: Iterable[QuestionKey],
    run: Mapping[str, Any],
    how: Sequence[str],
    *,
    by_outcome: bool = False,
    every: bool = True,
) -> Selection:
    """Count the keys that all sessions of a run selected; `run` (run.json) has the totals.

    Includes benchmarks of the run without any selected question. `every` is as in `Selection`.
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
    return Selection(tuple(dict.fromkeys(how)), by_outcome, len(keys), portions, every)


def stopped(run: Mapping[str, Any]) -> str:
    """Why the last session of a run stopped early, "" if it did not."""
    sessions = run.get("sessions") or [{}]
    return str(sessions[-1].get("stopped", ""))


@dataclass(frozen=True, slots=True)
class Coverage:
    """The selected questions with a readable result.

    `selected`: number of selected questions, None if unknown. `there`: number with a result. `missing`: names of
    questions without a result, as far as known. `reasons`: other gaps; `absent`: missing shards; a phrase each.
    """

    selected: int | None
    there: int
    missing: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether no selected question is known to be missing; a single shard may be finished."""
        return not (self.missing or self.reasons or (self.selected or 0) > self.there)

    @property
    def complete(self) -> bool:
        """Whether the run is finished and no shard is missing."""
        return self.finished and not self.absent

    @property
    def lines(self) -> tuple[str, ...]:
        """Phrases to show before any number; none if the run is complete."""
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
    """Compare a run's selection with its readable results (UsageError, DataError).

    `run`, `stored` and `keys` save reading them.
    """
    run = read_run(folder) if run is None else run
    stored = read(folder) if stored is None else stored
    keys_with_result = {result.key for result in stored.results}
    damage = strangers(run, Counter(result.run for result in stored.results))
    try:
        keys = selected(folder) if keys is None else keys
    except DataError as error:
        keys, damage = (), (*damage, str(error))
    coverage = cover(run, keys, keys_with_result, len(stored.unread))
    return replace(coverage, reasons=(*coverage.reasons, *damage))


def strangers(run: Mapping[str, Any], runs: Mapping[str, int]) -> tuple[str, ...]:
    """Lines about results of other runs, as in files copied or joined by hand; () if there are none.

    `runs`: the number of results that name each run. Skips runs of earlier versions, and merged ones, whose parts may
    be merged themselves.
    """
    if "selection" not in run or run.get("merged"):
        return ()
    own = {run.get("name"), *run.get("names", ())}
    names = sorted((name, number) for name, number in runs.items() if name not in own)
    return tuple(f"{number:,} of its results are those of run {name!r}" for name, number in names)


@dataclass(frozen=True, slots=True)
class Gap(Generic[Key]):
    """What a run lacks, as keys: the numbers of `Coverage`, the selected keys without a result, and other reasons."""

    selected: int | None
    there: int
    lacking: Set[Key] = frozenset()
    reasons: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        """Whether no selected question is known to be missing: the run is finished."""
        return not (self.lacking or self.reasons or (self.selected or 0) > self.there)


def gap(run: Mapping[str, Any], keys: Set[Key], with_result: Set[Key], unread: int = 0) -> Gap[Key]:
    """Compare the keys that a run selected with those of its results, of which `unread` lines cannot be read.

    The one definition of a finished run: reports, the gate and `medvqa view` ask it.
    """
    selection = Selection.of(run)
    empty = selection.empty and not with_result and not unread
    if not keys and not selection.questions and not empty:
        # A baseline file, or a run of an earlier version without keys.
        reasons = []
        if any(not part.get("finished") for part in run.get("merged") or [run]):
            reasons.append("unfinished: the run did not end, and its missing results are not known")
        if unread:
            what = "a line" if unread == 1 else f"{unread} lines"
            reasons.append(f"{what} of its results cannot be read, and the questions are not known")
        return Gap(None, len(with_result), frozenset(), tuple(reasons))
    # If keys are lost (a folder copied in part), only the number shows that none is missing.
    lost = selection.questions > len(keys)
    there = min(len(with_result), selection.questions) if lost else len(keys & with_result)
    return Gap(max(selection.questions, len(keys)), there, keys - with_result)


def cover(
    run: Mapping[str, Any], keys: Collection[QuestionKey], keys_with_result: Collection[QuestionKey], unread: int = 0
) -> Coverage:
    """Return the `gap` of a run with the names of its missing questions, and its missing shards."""
    several = len(run.get("techniques", ())) > 1
    found = gap(run, set(keys), set(keys_with_result), unread)
    names = (
        run.get("missing", ())
        if found.selected is None
        else (key.name(technique=several) for key in sorted(found.lacking))
    )
    return Coverage(found.selected, found.there, tuple(sorted(names)), found.reasons, absent_shares(run))


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a file of numbers was computed from, as metrics.json has it: `results`.

    `digest`, `number`: of the results that count (`decisive_digest`). `mark`: of results.jsonl as it was read. `keys`:
    bytes of the files of selected keys. `finished`: as `Coverage.finished`.
    """

    digest: str
    number: int
    mark: Mark
    keys: int
    finished: bool

    @classmethod
    def of(cls, folder: Path, stored: Stored, covered: Coverage) -> Basis:
        """The basis of numbers over these results."""
        digest, number = decisive_digest(stored.results)
        return cls(
            digest=digest, number=number, mark=stored.mark, keys=selected_bytes(folder), finished=covered.finished
        )


def is_current(basis: Basis | None, folder: Path) -> bool | None:
    """Whether numbers are those of a run's present results; None if it is not known, as in files of earlier versions.

    Compares the mark of results.jsonl, so that a list of a thousand runs reads no result.
    """
    return None if basis is None else basis.mark == present_mark(folder)


def is_finished(basis: Basis, folder: Path, run: Mapping[str, Any]) -> bool | None:
    """Whether a run is finished, by current numbers and without its keys; None if they were written since."""
    if not basis.finished or Selection.of(run).questions > basis.number:
        return False  # A selection only grows.
    return True if basis.keys == selected_bytes(folder) else None


MAX_RANGES = 100
"""Ranges of missing shards that are named: a stranger's run.json may claim any shards."""


def absent_shares(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Phrases about missing shards, given the shards that the run is or was merged from.

    A run that selected its benchmarks whole lacks none, regardless of its shards.
    """
    selection = Selection.of(run)
    names = run.get("benchmarks", {}).keys()
    if selection.benchmarks and selection.whole and names <= selection.benchmarks.keys():
        return ()
    shards = [*((Shard.parse(shard), None) for shard in own_shards(run)), *merged_shards(run)]
    lines = []
    for of in sorted({shard.of for shard, _ in shards}):
        present = {shard.number for shard, _ in shards if shard.of == of}
        if absent := missing_numbers(present, of):
            lines.append(_missing(absent, of, ""))
        parts = [(shard.number, mine) for shard, mine in shards if shard.of == of]
        for name in sorted({name for _, mine in parts for name in mine or ()}):
            having = {number for number, mine in parts if mine is None or name in mine}
            if lacking := _consecutive(present - having):
                lines.append(_missing(lacking, of, f" of {name}"))
    return tuple(lines)


def missing_numbers(present: Collection[int], of: int) -> list[range]:
    """Return the runs of consecutive numbers from 1 to `of` that are not `present`; `of` may be a billion."""
    bounds = pairwise([0, *sorted(present), of + 1])
    return [range(before + 1, after) for before, after in bounds if after - before > 1]


def _consecutive(numbers: Collection[int]) -> list[range]:
    """Return numbers as runs of consecutive ones."""
    runs = groupby(enumerate(sorted(numbers)), lambda placed: placed[1] - placed[0])
    each = [[number for _, number in run] for _, run in runs]
    return [range(run[0], run[-1] + 1) for run in each]


def in_ranges(numbers: Sequence[range], less: int = 0) -> str:
    """Return numbers as in "3, 7-12"; `less` is subtracted from each. At most MAX_RANGES ranges are named."""
    shown = [
        f"{run[0] - less}" if len(run) == 1 else f"{run[0] - less}-{run[-1] - less}" for run in numbers[:MAX_RANGES]
    ]
    others = sum(map(len, numbers[MAX_RANGES:]))
    return ", ".join(shown) + (f" and {others:,} others" if others else "")


def shards_in_words(numbers: Sequence[range], of: int) -> str:
    """Return shards as in "shard 3/8" or "shards 3, 7-12 of 64"."""
    return f"shard {numbers[0][0]}/{of}" if is_one(numbers) else f"shards {in_ranges(numbers)} of {of}"


def is_one(numbers: Sequence[range]) -> bool:
    """Return whether runs of consecutive numbers are one number."""
    return sum(map(len, numbers)) == 1


def _missing(numbers: Sequence[range], of: int, benchmark: str) -> str:
    return f"{shards_in_words(numbers, of)}{benchmark} {'is' if is_one(numbers) else 'are'} missing"


def own_shards(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The shards of a run's sessions, as typed; () if the last session had none."""
    last = run.get("options", {}).get("shard")
    if last is None:
        return ()
    # A session that scored anew has no options.
    shards = [session.get("options", {}).get("shard") for session in run.get("sessions", ())]
    return tuple(dict.fromkeys([*(shard for shard in shards if shard is not None), last]))


def merged_parts(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Entries of run.json for all runs that a run was merged from, recursively."""
    parts, left = [], list(run.get("merged", ()))
    while left:
        part = left.pop(0)
        parts.append(part)
        left += part.get("merged", ())
    return parts


def merged_shards(run: Mapping[str, Any]) -> list[tuple[Shard, Collection[str] | None]]:
    """The shards of all parts that a run was merged from, with their benchmarks; None means all."""
    return [
        (Shard.parse(shard), part.get("benchmarks"))
        for part in merged_parts(run)
        for shard in part.get("shards") or [part.get("shard")]
        if shard is not None
    ]
