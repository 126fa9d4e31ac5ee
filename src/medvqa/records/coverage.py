"""The selection of a run, and its coverage: which questions are selected, answered and missing, and what is current.

Every command that reports a number from a run folder uses both, so that a part is never shown as the whole. run.json
has the numbers of questions; `selected.jsonl` has their keys; metrics.json has the digest of the results that it is of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec

from medvqa.items import DataError, QuestionKey
from medvqa.records.run_folder import Mark, Stored, decisive_digest, present_mark, read
from medvqa.records.run_record import SCHEMA, MergedPart, Portion, RunRecord, Selection, read_run
from medvqa.records.selected import selected, selected_bytes
from medvqa.tags.selection import Shard

METRICS = "metrics.json"
"""File in a run folder with its measures, and what they were computed from (`MetricsHead`)."""


def select_from(
    keys: Iterable[QuestionKey],
    run: RunRecord,
    how: Sequence[str],
    *,
    by_outcome: bool = False,
    every: bool = True,
) -> Selection:
    """Count the keys that all sessions of a run selected; `run` has the totals.

    Includes benchmarks of the run without any selected question. `every` is as in `Selection`.
    """
    keys = set(keys)
    chosen = Counter(
        (name, technique) for name, technique, _ in {(key.benchmark, key.technique, key.item) for key in keys}
    )
    portions = {
        name: {technique: Portion(chosen[name, technique], of) for technique, of in benchmark.questions.items()}
        for name, benchmark in sorted(run.benchmarks.items())
        if benchmark.questions
    }
    return Selection(tuple(dict.fromkeys(how)), by_outcome, len(keys), portions, every)


def ended(run: RunRecord) -> bool:
    """Whether the last session of a run came to its end; a run that was joined from others has none."""
    return bool(run.finished or (run.merged and not run.sessions))


@dataclass(frozen=True, slots=True)
class Coverage:
    """The selected questions with a readable result.

    `selected`: number of selected questions, None if unknown. `there`: number with a result. `missing`: names of
    questions without a result, as far as known. `reasons`: other gaps; `absent`: missing shards; a phrase each.
    `number`: of all results, of which `errors` have no answer, and `unselected` are of questions that the run did not
    select: its tests asked them besides, or their lines were written by hand. `current`: whether metrics.json is of
    these results; None if nobody looked, or it does not tell.
    """

    selected: int | None
    there: int
    missing: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    number: int = 0
    errors: int = 0
    current: bool | None = None
    unselected: int = 0

    @property
    def more(self) -> str:
        """A phrase about results of questions that were not selected; "" if there are none."""
        if self.unselected == 1:
            return "1 of its results is of a question that it did not select"
        return f"{self.unselected:,} of its results are of questions that it did not select" if self.unselected else ""

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
    run: RunRecord | None = None,
    stored: Stored | None = None,
    keys: Collection[QuestionKey] | None = None,
) -> Coverage:
    """Return the coverage of a run folder: `cover` of its files (UsageError, DataError).

    `run`, `stored` and `keys` save reading them.
    """
    run = read_run(folder) if run is None else run
    stored = read(folder) if stored is None else stored
    damage = ""
    try:
        keys = selected(folder) if keys is None else keys
    except DataError as error:
        keys, damage = (), str(error)
    return cover(
        run,
        keys,
        [result.key for result in stored.results],
        len(stored.unread),
        runs=Counter(result.run for result in stored.results),
        errors=sum(result.score.outcome == "error" for result in stored.results),
        damage=damage,
    )


def cover(
    run: RunRecord,
    keys: Collection[QuestionKey],
    with_result: Collection[QuestionKey],
    unread: int = 0,
    *,
    runs: Mapping[str, int] = MappingProxyType({}),
    errors: int = 0,
    damage: str = "",
) -> Coverage:
    """Compare the keys that a run selected with those of its results.

    `unread`: lines of results that cannot be read. `runs`: the number of results that name each run.
    `errors`: results without an answer. `damage`: why the files of keys cannot be read.
    """
    wanted, answered = set(keys), set(with_result)
    lacking = wanted - answered
    several = len(run.techniques) > 1
    missing = tuple(sorted(key.name(technique=several) for key in lacking))
    numbers = len(wanted), len(answered), len(lacking)
    return cover_numbers(run, *numbers, unread, missing=missing, runs=runs, errors=errors, damage=damage)


def cover_numbers(
    run: RunRecord,
    wanted: int,
    answered: int,
    lacking: int,
    unread: int = 0,
    *,
    missing: tuple[str, ...] = (),
    runs: Mapping[str, int] = MappingProxyType({}),
    errors: int = 0,
    damage: str = "",
) -> Coverage:
    """Return `cover` of the numbers of selected keys, of keys with a result, and of selected keys without one.

    The one definition of a finished run: sessions, reports, lists, pages, comparisons, joins and the gate ask it.
    `missing`: the names of those without one, () if they are only counted.
    """
    questions, reasons, unselected = run.selected.questions, list[str](), 0
    if not wanted and not questions and not (run.selected.empty and not answered and not unread):
        # A baseline file, or a run of an earlier version without keys.
        number, there, missing = None, answered, tuple(sorted(run.missing))
        if any(not part.finished for part in run.merged or [run]):
            reasons.append("unfinished: the run did not end, and its missing results are not known")
        if unread:
            what = "a line" if unread == 1 else f"{unread} lines"
            reasons.append(f"{what} of its results cannot be read, and the questions are not known")
    else:
        number, there = max(questions, wanted), wanted - lacking
        if questions > wanted:
            # Keys are lost (a folder copied in part): only the number shows that none is missing.
            there = min(answered, questions - lacking)
        if wanted >= questions:
            unselected = answered - (wanted - lacking)
    reasons += [*strangers(run, runs), *filter(None, [damage])]
    return Coverage(
        number,
        there,
        missing,
        tuple(reasons),
        absent_shares(run),
        answered,
        errors=errors,
        unselected=unselected,
    )


def strangers(run: RunRecord, runs: Mapping[str, int]) -> tuple[str, ...]:
    """Lines about results of other runs, as in files copied or joined by hand; () if there are none.

    `runs`: the number of results that name each run. Skips runs of earlier versions, which do not tell all their names.
    """
    if run.selection is None or (run.merged and run.schema < SCHEMA):
        return ()
    own = {run.name, *run.names}.union(*({part.name, *part.names} for part in run.merged))
    names = sorted((name, number) for name, number in runs.items() if name not in own)
    return tuple(f"{number:,} of its results are those of run {name!r}" for name, number in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The results that metrics.json was computed from, as it has them.

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


class MetricsHead(msgspec.Struct):
    """What metrics.json says of the results that it was computed from; `results` is None in earlier versions.

    `outcomes`: numbers of results by benchmark (and technique). `missing` and `unfinished`: as `missing` and `lines` of
    `Coverage`.
    """

    results: Basis | None = None
    outcomes: dict[str, dict[str, int]] = {}
    missing: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()

    def coverage(self, run: RunRecord) -> Coverage:
        """Return the coverage of the run as it was."""
        number = sum(sum(counts.values()) for counts in self.outcomes.values())
        if self.results is not None:
            number = self.results.number
        selected = run.selected.questions or None
        covered = Coverage(
            selected,
            number if selected is None else min(number, selected - len(self.missing)),
            self.missing,
            absent=absent_shares(run),
            number=number,
            errors=sum(counts.get("error", 0) for counts in self.outcomes.values()),
            current=None if self.results is None else True,
        )
        return replace(covered, reasons=tuple(line for line in self.unfinished if line not in covered.lines))


class ResultsReader(Protocol):
    """A continuing reader of results.jsonl, which reads only lines that were appended since it last did."""

    def coverage(self) -> Coverage:
        """The coverage of the run as it is now."""

    def decisive_digest(self) -> tuple[str, int]:
        """`decisive_digest` of the results that `coverage` counted."""


def coverage_since(
    drawn: MetricsHead | None, folder: Path, run: RunRecord, follow: Callable[[], ResultsReader]
) -> Coverage:
    """Return the coverage of a run folder as it is now, `current` told, and read as little as that takes.

    `drawn`: of its metrics.json, None without one. While results.jsonl has the size and the end that it had, and no
    question was selected since, nothing else is read: a list of a thousand runs reads no result. If it has others, the
    reader of `follow` reads on, and the digest of the decisive lines tells whether the numbers are still those of the
    run.
    """
    if drawn is None:
        return follow().coverage()
    basis = drawn.results
    if basis is None:
        return drawn.coverage(run)
    if basis.mark == present_mark(folder):
        covered = drawn.coverage(run)
        # Without new keys, or where more are missing than these, the keys need not be read.
        if not covered.finished or basis.keys == selected_bytes(folder):
            return covered
        return replace(follow().coverage(), current=True)
    reader = follow()
    covered = reader.coverage()
    current = covered.number == basis.number and reader.decisive_digest() == (basis.digest, basis.number)
    return replace(covered, current=current)


MAX_RANGES = 100
"""Ranges of missing shards that are named: a stranger's run.json may claim any shards."""


def absent_shares(run: RunRecord) -> tuple[str, ...]:
    """Phrases about missing shards, given the shards that the run is or was merged from.

    A run that selected its benchmarks whole lacks none, regardless of its shards.
    """
    selection, names = run.selected, run.benchmarks.keys()
    if selection.benchmarks and selection.whole and names <= selection.benchmarks.keys():
        return ()
    lines = []
    for of, shards in present_shards(run).items():
        present = {number for number, _ in shards}
        if absent := missing_numbers(present, of):
            lines.append(_missing(absent, of, ""))
        for name in sorted({name for _, mine in shards for name in mine or ()}):
            having = {number for number, mine in shards if mine is None or name in mine}
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


def own_shards(run: RunRecord) -> tuple[Shard, ...]:
    """The shards of a run's sessions; () if the last session had none."""
    last = run.options.shard
    if last is None:
        return ()
    # A session that scored anew has no options.
    shards = [session.options.shard for session in run.sessions if session.options is not None]
    return tuple(dict.fromkeys(Shard.parse(shard) for shard in [*shards, last] if shard is not None))


def origins(run: RunRecord) -> list[tuple[str, str]]:
    """The names and starts of a run and of all runs that it was merged from."""
    return [run.origin, *(part.origin for part in merged_parts(run))]


def merged_parts(run: RunRecord) -> list[MergedPart]:
    """All runs that a run was merged from, recursively."""
    parts, left = [], [*run.merged]
    while left:
        part = left.pop(0)
        parts.append(part)
        left += part.merged
    return parts


def present_shards(run: RunRecord) -> dict[int, list[tuple[int, Collection[str] | None]]]:
    """The shards that a run is and was merged from, by their count: numbers, with benchmarks; None means all."""
    present: dict[int, list[tuple[int, Collection[str] | None]]] = {}
    for shard in own_shards(run):
        present.setdefault(shard.of, []).append((shard.number, None))
    for part in merged_parts(run):
        for shard in map(Shard.parse, part.shards or filter(None, [part.shard])):
            present.setdefault(shard.of, []).append((shard.number, part.benchmarks))
    return dict(sorted(present.items()))
