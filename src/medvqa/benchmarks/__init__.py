"""One file per data set; what they hold in common: finding, loading and checking.

`BENCHMARKS` of each file enters through the hook that a stranger's benchmark uses too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medvqa.items import CHOICE_KINDS, Benchmark, DataError, Item, UsageError

DEFAULT_GROUP = "phantom"
"""Evaluated when nothing was asked for and no data set is found."""
_Tags = Mapping[str, tuple[str, ...]]


def pytest_medvqa_benchmarks() -> Sequence[Benchmark]:
    """The benchmarks that the project ships."""
    from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa, phantom

    return (
        *gmai_mmbench.BENCHMARKS,
        *mediconfusion.BENCHMARKS,
        *medlesionvqa.BENCHMARKS,
        *phantom.BENCHMARKS,
    )


def not_known(holder: str, name: str, known: Mapping[str, Benchmark]) -> UsageError:
    """The error for results of a benchmark that nothing provides; `holder` says what holds them, with its verb."""
    return UsageError(
        f"{holder} results of benchmark '{name}', which is not known here; known: {', '.join(sorted(known))}. "
        "Name the file that provides it: --plugin=conftest.py"
    )


def members(name: str, known: Mapping[str, Benchmark]) -> list[Benchmark]:
    """The benchmark of that name, or all of the group of that name; UsageError when there is neither."""
    if name in known:
        return [known[name]]
    found = [benchmark for benchmark in known.values() if benchmark.group == name]
    if not found:
        names = sorted({*known, *(benchmark.group for benchmark in known.values() if benchmark.group)})
        raise UsageError(f"no benchmark '{name}'; known: {', '.join(names)}")
    return found


def is_found(benchmark: Benchmark, data: Path | None) -> bool:
    """Whether the benchmark's files lie in the data folder (True for one that needs no files)."""
    return benchmark.files is None or (data is not None and bool(benchmark.files(data)))


def choose(names: Sequence[str], known: Mapping[str, Benchmark], data: Path | None) -> list[Benchmark]:
    """The benchmarks of a run, in name order.

    Named ones must be found; of a group that is named, the members that are found. Without names: every
    benchmark whose data is found, and the phantom where none is. UsageError says how to get what is missing.
    """
    chosen: dict[str, Benchmark] = {}
    for name in names:
        candidates = members(name, known)
        found = [benchmark for benchmark in candidates if is_found(benchmark, data)]
        if not found:
            where = f"under --data={data}" if data is not None else "and no --data=DIR (or MEDVQA_DATA) was given"
            raise UsageError(f"benchmark '{name}' was asked for but is not there, {where}. {candidates[0].obtain}")
        chosen |= {benchmark.name: benchmark for benchmark in found}
    if not names:
        chosen = {b.name: b for b in known.values() if b.group != DEFAULT_GROUP and is_found(b, data)}
        chosen = chosen or {b.name: b for b in known.values() if b.group == DEFAULT_GROUP}
    return [chosen[name] for name in sorted(chosen)]


def load(benchmark: Benchmark, data: Path) -> tuple[Item, ...]:
    """All items of a benchmark, sorted by id; DataError when two share an id or a key names no option.

    Items bear the benchmark's name, also where it was made from another one by `dataclasses.replace`. Those with equal
    tags share one mapping.
    """
    items: dict[str, Item] = {}
    share = _sharing()
    for item in benchmark.items(data):
        if item.benchmark != benchmark.name:
            item = replace(item, benchmark=benchmark.name)
        if item.id in items:
            raise DataError(f"{benchmark.name}: two items have the id '{item.id}'")
        if item.kind in CHOICE_KINDS and (unknown := [a for a in item.answers if a not in item.options]):
            options = ", ".join(item.options)
            raise DataError(f"{benchmark.name}, item {item.id}: answer '{unknown[0]}' is none of its options {options}")
        items[item.id] = replace(item, tags=share(item.tags))
    if not items:
        raise DataError(f"{benchmark.name}: its files hold no items")
    return tuple(items[key] for key in sorted(items))


def _sharing() -> Callable[[_Tags], _Tags]:
    """A function that gives equal tags as one object: of 130,000 items they would take a third of the memory."""
    known: dict[tuple[tuple[str, tuple[str, ...]], ...], _Tags] = {}
    parts: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]] = {}

    def share(tags: _Tags) -> _Tags:
        pairs = tuple(parts.setdefault(pair, pair) for pair in tags.items())
        if pairs not in known:
            known[pairs] = dict(pairs)
        return known[pairs]

    return share
