"""By which rule answers are read: the project's own ("sound"), or one that a benchmark's owners published.

A published rule may have versions, named by date: "official:2025-08" means of each benchmark the version that was in
force then. A benchmark without a published rule, and questions of kinds that the rule does not read, are scored by
`Benchmark.score`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from medvqa.items import Answer, Benchmark, Extraction, Item, Kind, Score, UsageError

SOUND, OFFICIAL = "sound", "official"


def resolve(typed: str, benchmarks: Collection[Benchmark]) -> Extraction:
    """Return what was typed for `--extraction` with the version that it means: the newest one if none was typed.

    UsageError for a rule or a version that does not exist, and if no benchmark has a published rule.
    """
    versions = _versions(benchmarks)
    name, colon, version = typed.partition(":")
    if name not in (SOUND, OFFICIAL) or (colon and (name == SOUND or version not in versions)):
        there = ", ".join([SOUND, OFFICIAL, *(f"{OFFICIAL}:{each}" for each in versions)])
        raise UsageError(f"no extraction '{typed}'; there are: {there}")
    if name == OFFICIAL and not any(benchmark.official for benchmark in benchmarks):
        raise _no_rule(benchmark.name for benchmark in benchmarks)
    return f"{OFFICIAL}:{versions[-1]}" if typed == OFFICIAL and versions else typed


def check(extraction: Extraction, items: Mapping[str, Iterable[Item]], benchmarks: Mapping[str, Benchmark]) -> None:
    """Raise UsageError if a published rule was asked for and reads none of these items; `items` are by benchmark."""
    if is_official(extraction) and not any(
        _reads(benchmarks[name], item.kind) for name, some in items.items() for item in some
    ):
        raise _no_rule(items)


def _no_rule(names: Iterable[str]) -> UsageError:
    return UsageError(f"--extraction=official: no published rule reads answers to {', '.join(names)}; leave it out")


def recorded(about: Mapping[str, object], benchmarks: Collection[Benchmark]) -> Extraction:
    """Return how the answers of a run were read, from its run.json.

    A run from before versions were named says "official": it was read by the first version.
    """
    told = str(about.get("extraction", SOUND))
    versions = _versions(benchmarks)
    return f"{OFFICIAL}:{versions[0]}" if told == OFFICIAL and versions else told


def _versions(benchmarks: Iterable[Benchmark]) -> list[str]:
    """The versions of all rules, the oldest first."""
    return sorted({name for each in benchmarks if each.official_version for name in _rules(each)})


def _rules(benchmark: Benchmark) -> dict[str, Callable[[Item, Answer], Score]]:
    """All published rules of a benchmark by version, the oldest first."""
    if benchmark.official is None:
        return {}
    return {**benchmark.official_earlier, benchmark.official_version: benchmark.official}


def is_official(extraction: Extraction) -> bool:
    """Whether answers are read by published rules where there are some."""
    return extraction.partition(":")[0] == OFFICIAL


def _reads(benchmark: Benchmark, kind: Kind) -> bool:
    return benchmark.official is not None and kind in benchmark.official_kinds


def version_of(benchmark: Benchmark, extraction: Extraction) -> str:
    """Return the version of a benchmark's published rule that is meant, "" for a rule that has none."""
    names = list(_rules(benchmark))
    asked = extraction.partition(":")[2]
    # Of a benchmark whose rule is younger than what was asked for, the first one.
    return [names[0], *(name for name in names if name <= asked)][-1] if asked and names else benchmark.official_version


def scorer(benchmark: Benchmark, extraction: Extraction) -> Callable[[Item, Answer], Score]:
    """Return how answers to a benchmark are scored: by the published rule where it is asked for and reads them."""
    if not is_official(extraction) or benchmark.official is None:
        return benchmark.score
    official = _rules(benchmark)[version_of(benchmark, extraction)]

    def score(item: Item, answer: Answer) -> Score:
        return official(item, answer) if item.kind in benchmark.official_kinds else benchmark.score(item, answer)

    return score


def read_by(benchmark: Benchmark, extraction: Extraction, kinds: Iterable[Kind]) -> dict[Kind, str]:
    """Return for each kind of question the rule that reads answers to it, as signatures name it."""
    return {
        kind: _label(benchmark, extraction) if is_official(extraction) and _reads(benchmark, kind) else SOUND
        for kind in sorted(kinds)
    }


def _label(benchmark: Benchmark, extraction: Extraction) -> str:
    name = " ".join(filter(None, (OFFICIAL, version_of(benchmark, extraction))))
    return f"{name} ({benchmark.official_note})" if benchmark.official_note else name
