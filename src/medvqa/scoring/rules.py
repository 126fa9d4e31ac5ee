"""Choose the rule that reads answers: the project's own ("sound"), or the one published by a benchmark's owners.

A published rule may have versions, named by date: "official:2025-08" selects each benchmark's version in force then.
`Benchmark.score` scores benchmarks without a published rule, and kinds of questions that the rule does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from medvqa.items import Answer, Benchmark, Extraction, Item, Kind, OfficialRule, Score, UsageError

SOUND, OFFICIAL = "sound", "official"
EDITION = 3
"""The edition of the project's own rules: counted up whenever they read some answer otherwise than before.

run.json names it (`reading_rules`; the first edition is not named). A comparison of runs read by different editions
notes it, and `medvqa rescore` reads the older one again.
"""


def resolve(typed: str, benchmarks: Collection[Benchmark]) -> Extraction:
    """Return the value typed for `--extraction` with its version, by default the newest.

    Raises UsageError for an unknown rule or version, and for "official" if no benchmark has a published rule.
    """
    versions = _versions(benchmarks)
    name, colon, version = typed.partition(":")
    if name not in (SOUND, OFFICIAL) or (colon and (name == SOUND or version not in versions)):
        choices = ", ".join([SOUND, OFFICIAL, *(f"{OFFICIAL}:{version}" for version in versions)])
        raise UsageError(f"no extraction '{typed}'; there are: {choices}")
    if name == OFFICIAL and not any(benchmark.owners.rule for benchmark in benchmarks):
        raise _no_rule(benchmark.name for benchmark in benchmarks)
    return f"{OFFICIAL}:{versions[-1]}" if typed == OFFICIAL and versions else typed


def check(extraction: Extraction, items: Mapping[str, Iterable[Item]], benchmarks: Mapping[str, Benchmark]) -> None:
    """Raise UsageError if `extraction` is official but no published rule reads any of the items (by benchmark)."""
    if is_official(extraction) and not any(
        _reads(benchmarks[name], item.kind) for name, its_items in items.items() for item in its_items
    ):
        raise _no_rule(items)


def _no_rule(names: Iterable[str]) -> UsageError:
    return UsageError(f"--extraction=official: no published rule reads answers to {', '.join(names)}; leave it out")


def recorded(extraction: Extraction, benchmarks: Collection[Benchmark]) -> Extraction:
    """Return the extraction that a run recorded; "official" without a version, in old runs, means the first."""
    versions = _versions(benchmarks)
    return f"{OFFICIAL}:{versions[0]}" if extraction == OFFICIAL and versions else extraction


def _versions(benchmarks: Iterable[Benchmark]) -> list[str]:
    """Return the versions of all rules, oldest first."""
    rules = [benchmark.owners.rule for benchmark in benchmarks]
    return sorted({name for rule in rules if rule is not None and rule.version for name in _versions_of(rule)})


def _versions_of(rule: OfficialRule) -> dict[str, Callable[[Item, Answer], Score]]:
    """Return all versions of a published rule, oldest first."""
    return {**rule.earlier, rule.version: rule.score}


def extractions(benchmark: Benchmark) -> list[Extraction]:
    """Return every value of `--extraction` that reads the answers to a benchmark, the project's own first."""
    rule = benchmark.owners.rule
    versions = [] if rule is None else list(_versions_of(rule))
    return [SOUND, *(f"{OFFICIAL}:{version}" if version else OFFICIAL for version in versions)]


def is_official(extraction: Extraction) -> bool:
    """Return whether `extraction` prefers published rules."""
    return extraction.partition(":")[0] == OFFICIAL


def _reads(benchmark: Benchmark, kind: Kind) -> bool:
    return benchmark.owners.rule is not None and kind in benchmark.owners.rule.kinds


def version_of(benchmark: Benchmark, extraction: Extraction) -> str:
    """Return the version of a benchmark's published rule for `extraction`, "" if the rule has no versions."""
    rule = benchmark.owners.rule
    if rule is None:
        return ""
    version = extraction.partition(":")[2]
    if not version:
        return rule.version
    # If all versions of the rule are newer than the extraction's, take the first.
    names = list(_versions_of(rule))
    return [names[0], *(name for name in names if name <= version)][-1]


def scorer(benchmark: Benchmark, extraction: Extraction) -> Callable[[Item, Answer], Score]:
    """Return the scorer of a benchmark: the published rule if `extraction` is official, for kinds that it reads."""
    rule = benchmark.owners.rule
    if not is_official(extraction) or rule is None:
        return benchmark.score
    official, kinds = _versions_of(rule)[version_of(benchmark, extraction)], rule.kinds

    def score(item: Item, answer: Answer) -> Score:
        return official(item, answer) if item.kind in kinds else benchmark.score(item, answer)

    return score


def read_by(benchmark: Benchmark, extraction: Extraction, kinds: Iterable[Kind]) -> dict[Kind, str]:
    """Return the rule that reads answers to every kind of question, as named in signatures."""
    return {
        kind: _label(benchmark, extraction) if is_official(extraction) and _reads(benchmark, kind) else SOUND
        for kind in sorted(kinds)
    }


def _label(benchmark: Benchmark, extraction: Extraction) -> str:
    name = " ".join(filter(None, (OFFICIAL, version_of(benchmark, extraction))))
    note = note_of(benchmark)
    return f"{name} ({note})" if note else name


def note_of(benchmark: Benchmark) -> str:
    """Return the sentence about a benchmark's published rule, "" without one."""
    return benchmark.owners.rule.note if benchmark.owners.rule is not None else ""
