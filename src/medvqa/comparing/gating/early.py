"""Stop a run that is surely worse than a baseline: bets on whole groups of questions, in an order drawn before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from medvqa import metrics, statistics
from medvqa.comparing.gating import designs
from medvqa.comparing.gating.preparing import Gate, Target
from medvqa.comparing.gating.verdict import Ruling
from medvqa.comparing.sides import Side
from medvqa.figures import number
from medvqa.items import SCORED_OUTCOMES, Item, QuestionKey, Result, Score, replace
from medvqa.records.run_record import RunRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Place = tuple[str, str]
"""The benchmark and the id of a question."""
Unit = tuple[QuestionKey, ...]
Order = Mapping[Place, str]
"""As of `drawn`."""


def drawn(items: Iterable[Item], seed: str) -> dict[Place, str]:
    """Return keys that sort questions in the drawn order of their groups; a group's questions have one key.

    Groups are those of the intervals: of one cluster, pair or question. Another selection of the same questions leaves
    their order as it is, so that a continued run asks and counts in the same order.
    """
    results = designs.unanswered(items)
    places = [(result.item.benchmark, result.item.id) for result in results]
    numbers = metrics.groups(results).tolist()
    first: dict[int, Place] = {}
    for group, place in zip(numbers, places, strict=True):
        first[group] = min(first.get(group, place), place)
    keys = {
        group: blake2b("\0".join((seed, *place)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        for group, place in first.items()
    }
    return {place: keys[group] for place, group in zip(places, numbers, strict=True)}


@dataclass(slots=True)
class _Group:
    """The keys of a group without a result yet, its results, and the number of its units that count."""

    open: set[QuestionKey] = field(default_factory=set)
    results: list[Result] = field(default_factory=list)
    units: dict[Unit, float] = field(default_factory=dict)


class Watched:
    """A rule that may stop a run: one measure against one baseline."""

    def __init__(
        self, target: Target, baseline: str, units: Mapping[Unit, float], keys: Iterable[QuestionKey], order: Order
    ) -> None:
        """`units`: their values in the baseline; `keys`: all that the run asks about them; `order` as of `drawn`."""
        import numpy as np

        self._target, self._baseline = target, baseline
        groups: dict[str, _Group] = {}
        for unit, value in units.items():
            groups.setdefault(order[unit[0].benchmark, unit[0].item], _Group()).units[unit] = value
        self._of: dict[QuestionKey, _Group] = {}
        for key in keys:
            if (group := groups.get(order[key.benchmark, key.item])) is not None:
                group.open.add(key)
                self._of[key] = group
        self._left = [groups[name] for name in sorted(groups, reverse=True)]
        self._largest = max(len(group.units) for group in groups.values())
        self._log_wealth = np.zeros(len(statistics.STAKES))
        self._planned, self._groups = len(units), 0
        self._pairs: list[tuple[float, float]] = []
        """The values of each counted unit in the baseline and in the run."""
        self._unscored, self._judged = 0, False

    def add(self, result: Result) -> None:
        """Note a result, once for each key."""
        group = self._of.get(result.key)
        if group is not None and result.key in group.open:
            group.open.remove(result.key)
            group.results.append(result)

    def e_value(self, run: RunRecord) -> float:
        """Return the evidence of the whole groups before the first open one."""
        groups = list[_Group]()
        while self._left and not self._left[-1].open:
            groups.append(self._left.pop())
        if groups:
            self._log_wealth = self._log_wealth + self._factors(groups, run).sum(axis=0)
        return float(statistics.e_values(self._log_wealth))

    def _factors(self, groups: Sequence[_Group], run: RunRecord) -> NDArray[np.float64]:
        import numpy as np

        counted = Side.of("", run, [result for group in groups for result in group.results])
        values = dict(_values(counted.results, self._target))
        self._judged = self._judged or any(result.judgement is not None for result in counted.results)
        # A question without a score may get one later: it counts as right, against a stop.
        pairs = [[(was, values.get(unit, 1.0)) for unit, was in group.units.items()] for group in groups]
        self._pairs += [pair for group in pairs for pair in group]
        self._unscored += sum(unit not in values for group in groups for unit in group.units)
        self._groups += len(groups)
        for group in groups:
            group.results.clear()
        sums = np.array([sum(now - was for was, now in group) for group in pairs])
        sizes = np.array([float(len(group)) for group in pairs])
        return statistics.log_factors(sums, sizes, margin=self._target.margin / 100, largest=self._largest)

    def ruling(self, e_value: float, least: float, alpha: float) -> Ruling:
        """Return the rule that stopped the run, with the part that it is about."""
        target, n = self._target, len(self._pairs)
        was, now = (sum(values) / n for values in zip(*self._pairs, strict=True))
        unit = target.metric.unit.replace("item", "question")
        lower = target.metric.better == "lower"
        more = ""
        if self._unscored:
            more = f"; without a score, and counted as right: {self._unscored:,}"
        if self._judged and target.judge_reliability is not None:
            # A reliability that is too low by luck, as the lower end of a sheet's is, would stop runs wrongly.
            more += "; the whole margin counts, without judge_reliability, as a judge shows a part of a loss only"
        ruling = Ruling.against(
            self._baseline, target.benchmark.name, target.metric.name, target.technique, margin=target.margin
        )
        return replace(
            ruling,
            rule=f"{ruling.rule}, stopped early",
            kind="early",
            outcome="FAIL",
            why=(
                f"a loss of more than {target.margin:g} points is shown after {n:,} of {self._planned:,} {unit}s, in "
                f"an order drawn before: e-value {e_value:.3g}, where {least:,.4g} stops a run. At most "
                f"{100 * alpha:.3g} % of runs that lose no more are ever stopped. The loss on these {unit}s is "
                f"{number(was - now, digits=1)} points{more}; a stop exaggerates it"
            ),
            value=1 - now if lower else now,
            baseline_value=1 - was if lower else was,
            difference=was - now if lower else now - was,
            margin=target.margin / 100,
            units=n,
            groups=self._groups,
            planned=self._planned,
            lost=sum(now < was for was, now in self._pairs),
            gained=sum(now > was for was, now in self._pairs),
            unit=unit,
            better=target.metric.better,
            e_value=e_value,
        )


class Watch:
    """The rules of a gate that may stop its run. It takes results in any order, and counts them in the drawn one."""

    def __init__(self, gate: Gate, keys: Collection[QuestionKey], items: Iterable[Item], seed: str) -> None:
        """`keys`: the selected ones; `items`: those of the gated benchmarks; `seed`: the name of the run."""
        asked = {(key.benchmark, key.item) for key in keys}
        known = {(item.benchmark, item.id): item for item in items if (item.benchmark, item.id) in asked}
        order = drawn(known.values(), seed)
        self._rules = list[Watched]()
        for side, target in stopping(gate):
            of = target.benchmark.name, target.technique
            own = [key for key in keys if (key.benchmark, key.technique) == of and key[:2] in known]
            plain = {side.named(key.question): known[key.benchmark, key.item] for key in own}
            results = [
                replace(r, item=plain[r.key.question]) for r in target.of(side.results) if r.key.question in plain
            ]
            if units := dict(_values(results, target)):
                self._rules.append(Watched(target, side.name, units, own, order))
        self._alpha = 1 - statistics.level_of(gate.rules.looks)
        self.stopped: tuple[Ruling, ...] = ()
        """The rule that has stopped the run, if one has."""

    def take(self, results: Iterable[Result], run: RunRecord) -> None:
        """Note results; `stopped` then has the rule that stops the run, if one does. `run`: its record."""
        if self.stopped:
            return
        for result in results:
            for rule in self._rules:
                rule.add(result)
        # The error is divided among the rules, since each may stop the run.
        least = len(self._rules) / self._alpha
        for rule in self._rules:
            if (e_value := rule.e_value(run)) >= least:
                self.stopped = (rule.ruling(e_value, least, self._alpha),)
                return


def stopping(gate: Gate) -> list[tuple[Side, Target]]:
    """Return what may stop a run: the measures that are means over units, against each baseline that has any."""
    return [
        (side, target)
        for side in gate.baselines
        for target in gate.targets
        if (results := target.of(side.results)) and _is_mean(results, target)
    ]


def _is_mean(results: Sequence[Result], target: Target) -> bool:
    """Whether a measure is a mean over units in [0, 1]: it counts the same ones, once each, whatever the answers."""
    units = dict(_values(results, target)).keys()
    for outcome in SCORED_OUTCOMES:
        value = float(outcome == "correct")
        alike = [replace(result, score=Score(value, outcome, result.score.extracted)) for result in results]
        if dict(_values(alike, target)).keys() != units:
            return False
    return bool(units)


def _values(results: Sequence[Result], target: Target) -> Iterator[tuple[Unit, float]]:
    """Yield the values of a measure's units, in [0, 1] and higher for better; nothing if it is no mean over them."""
    tabled = metrics.tables(results, [target.metric], (), failed=[], alone=True)
    if target.metric.mean_over is not None or not tabled or not tabled[0].bounded:
        return
    numerators, denominators = tabled[0].terms.tolist()
    lower = target.metric.better == "lower"
    for unit, value, counted in zip(tabled[0].frame.units, numerators, denominators, strict=True):
        if counted == 1:
            yield tuple(result.key.question for result in unit), 1 - value if lower else value
