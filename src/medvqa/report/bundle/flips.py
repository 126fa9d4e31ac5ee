"""The units whose headline measure changed, with the results of both runs: the large part of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa.comparing import Flip, Paired, Side, Versus
from medvqa.comparing.differing import TECHNIQUE
from medvqa.items import Benchmark, QuestionKey, Result, Technique
from medvqa.report.bundle import questions
from medvqa.report.bundle.columns import ColumnType
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.questions import Packed, PackedRow, Places
from medvqa.report.bundle.versus import allowed


@dataclass(slots=True)
class _Flipped:
    """Rows of the results of flipped units, each once, and their places."""

    rows: list[PackedRow]
    places: dict[tuple[int, QuestionKey], list[int]]

    def place(self, run: int, benchmark: int, result: Result) -> int:
        # Groups are joined for each comparison anew, and not part of the bundle.
        item = replace(result.item, cluster_id=None)
        known = self.places.setdefault((run, result.key), [])
        for place in known:
            if self.rows[place].item == item:
                return place
        known.append(len(self.rows))
        self.rows.append(PackedRow(run, benchmark, item, replace(result, item=item), why=result.score.why))
        return known[-1]


def pack(
    sides: Sequence[Side], compared: Sequence[Versus], benchmarks: Mapping[str, Benchmark], pictures: Pictures
) -> tuple[Packed, list[str]]:
    """The flipped questions with the results of both runs, and the measures that flipped.

    A unit that flipped in several measures stands once.
    """
    places = {side.name: place for place, side in enumerate(sides)}
    names = list(dict.fromkeys(part.benchmark for paired in allowed(compared) for part in paired.parts))
    kept, measures = _Flipped([], {}), Places()
    columns: dict[str, list[int]] = {"pair": [], "benchmark": []}
    techniques: list[str] = []
    lists: dict[str, list[list[int]]] = {name: [] for name in ("measures", "better", "new", "baseline")}
    for number, versus in enumerate(compared):
        if versus.refusals:
            continue
        paired = versus.paired
        runs = places[paired.new.name], places[paired.baseline.name]
        techniques_asked = _techniques(paired, sides[runs[1]])
        for unit in _by_unit(paired.flips):
            flip = unit[0]
            benchmark = names.index(flip.benchmark)
            both = _side_by_side(flip)
            columns["pair"].append(number)
            columns["benchmark"].append(benchmark)
            techniques.append(flip.technique)
            lists["measures"].append([measures.place(each.metric) for each in unit])
            lists["better"].append([int(each.better) for each in unit])
            lists["new"].append([kept.place(runs[0], benchmark, new) for new, _ in both])
            lists["baseline"].append([kept.place(runs[1], benchmark, _under(techniques_asked, old)) for _, old in both])
    packed = questions.pack(
        [benchmarks[name] for name in names], kept.rows, command=["pytest", "--model=MODEL"], pictures=pictures
    )
    for name, values in columns.items():
        packed.columns.add(f"flips.{name}", "u16", values)
    packed.columns.add("flips.technique", "u8", map(packed.techniques.index, techniques))
    for name, type in LISTS.items():
        packed.columns.add_lists(f"flips.{name}", type, lists[name])
    return packed, measures.values()


LISTS: Mapping[str, ColumnType] = {"measures": "u16", "better": "u8", "new": "u32", "baseline": "u32"}
"""The lists of a flip, and the types of their values."""


def _techniques(paired: Paired, baseline: Side) -> dict[str, Technique]:
    """The baseline's technique for each benchmark, if it is the setting that differs; else {}."""
    if paired.difference is None or paired.difference.setting != TECHNIQUE:
        return {}
    return {result.item.benchmark: result.technique for result in baseline.results}


def _under(techniques: Mapping[str, Technique], result: Result) -> Result:
    """The result under the technique of its own run: a comparison names that of the other one."""
    return replace(result, technique=techniques.get(result.item.benchmark, result.technique))


def _by_unit(flips: Iterable[Flip]) -> list[list[Flip]]:
    """The flips of each unit, in the order in which units first flipped."""
    units: dict[tuple[str, str, str], list[Flip]] = {}
    for flip in flips:
        units.setdefault((flip.benchmark, flip.technique, flip.unit), []).append(flip)
    return list(units.values())


def _side_by_side(flip: Flip) -> list[tuple[Result, Result]]:
    """Both answers to each question, sample by sample.

    Samples are paired in order. If one run has fewer samples, its last one is paired with the surplus of the other.
    """
    sides = [_by_question(side) for side in (flip.new, flip.baseline)]
    matched: list[tuple[Result, Result]] = []
    for id in sides[0]:
        new, baseline = (side.get(id, []) for side in sides)
        if new and baseline:
            number = max(len(new), len(baseline))
            matched += [(new[min(i, len(new) - 1)], baseline[min(i, len(baseline) - 1)]) for i in range(number)]
    return matched


def _by_question(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The samples of each question, by its id, in the order of their numbers."""
    by_id: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.sample):
        by_id.setdefault(result.item.id, []).append(result)
    return dict(sorted(by_id.items()))
