"""Worse copies of a baseline's own answers, to show which rules of a gate FAIL, and which cannot."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from medvqa import metrics
from medvqa.comparing import Side
from medvqa.comparing.gating.deciding import decide
from medvqa.comparing.gating.preparing import Gate, prepare
from medvqa.comparing.gating.rules import Rules
from medvqa.comparing.gating.verdict import Ruling, Verdict
from medvqa.items import Answer, Benchmark, Metric, Outcome, Result, Score, UsageError
from medvqa.tags import lexicon

COPIES = 5
"""Copies that are worse by the margin, for each rule with a margin. They lose exactly as much, in other questions."""
SEED = "medvqa gate --selftest"
NAME = "selftest"

Worsen = Callable[[Result, random.Random], Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """How a rule decided on worse copies of the baseline's answers.

    `worse_by`: the loss of each of `COPIES` copies, a fraction; None for a rule without a margin, and for a margin that
    cannot be lost. `outcomes`: the rule's outcomes on them; `passed`: on how many the whole gate had exit code 0.
    `fails_from`: the smallest loss, of the margin and its doubles, that the rule FAILs; None if there is none.
    `ruling`: the rule if every answer is wrong. `can_fail`: whether it FAILs the worst answers.
    """

    ruling: Ruling
    worse_by: float | None = None
    outcomes: Mapping[str, int] | None = None
    passed: int = 0
    fails_from: float | None = None
    can_fail: bool = False

    @property
    def sound(self) -> bool:
        """Whether the rule can FAIL, and no copy that was worse by its margin passed the gate."""
        return self.can_fail and not self.passed


def selftest(rules: Rules, source: Side, known: Mapping[str, Benchmark]) -> tuple[list[Tried], tuple[str, ...]]:
    """Return each rule's decisions on worse copies of a run's answers, and notes on rules that none is about.

    `source`: the only baseline of `rules`, or for floors without a baseline any run. UsageError if no rule is about it.
    """
    # --benchmark may leave out benchmarks, here those that the source lacks.
    options = structs.replace(source.run.options, benchmark=(NAME,))
    alone = structs.replace(source.run, kind="run", names=(), sessions=(), merged=())
    run = structs.replace(alone, name=NAME, started="", options=options)
    sides = (source,) if rules.baseline else ()
    gate = prepare(rules, sides, run, known)
    if gate is None:
        raise UsageError(f"no rule is about what {source.name} asks ({', '.join(source.run.benchmarks)})")
    copy = Side(NAME, run, source.results, key=source.key)
    worst = [_decided(gate, copy, worsen, copy.results) for worsen in WAYS]
    if worst[0].outcome is None:
        raise UsageError(f"the gate has no verdict on copies of {source.name}: {'; '.join(worst[0].blockers)}")
    failing = {entry.rule for verdict in worst for entry in verdict.entries if entry.outcome == "FAIL"}
    return [
        replace(_tried(gate, copy, entry), can_fail=entry.rule in failing)
        for entry in worst[0].entries
        if entry.kind != "units"
    ], gate.notes


def _tried(gate: Gate, copy: Side, entry: Ruling) -> Tried:
    """Decide on copies that are worse by the margin of a rule, then on ever worse ones until the rule FAILs."""
    if entry.asked_margin is None or not entry.measure:
        return Tried(ruling=entry)
    worsening = _Worsening(gate, copy, entry)
    if worsening.most < entry.asked_margin:
        return Tried(ruling=entry, fails_from=next(worsening.failing([worsening.most]), None))
    outcomes, passed = Counter[str](), 0
    for number in range(COPIES):
        verdict = worsening.by(entry.asked_margin, number)
        outcomes[_outcome(verdict, entry)] += 1
        passed += verdict.exit_code == 0
    losses = [entry.asked_margin]
    while losses[-1] < worsening.most:
        losses.append(min(2 * losses[-1], worsening.most))
    always = outcomes["FAIL"] == COPIES
    return Tried(
        ruling=entry,
        worse_by=entry.asked_margin,
        outcomes=outcomes,
        passed=passed,
        fails_from=losses[0] if always else next(worsening.failing(losses[1:]), None),
    )


class _Worsening:
    """Makes copies of a run whose measure, of one rule, is worse by a given loss."""

    def __init__(self, gate: Gate, copy: Side, entry: Ruling) -> None:
        self._gate, self._copy, self._entry = gate, copy, entry
        target = next(t for t in gate.targets if t.benchmark.name == entry.benchmark)
        self._metric = target.metric
        self._about = [result for result in target.of(copy.results) if _in(result, entry.slice)]
        self._before = _goodness(self._about, self._metric)
        goodness = [_goodness(_worse(self._about, self._about, way, SEED), self._metric) for way in WAYS]
        self._way = WAYS[goodness.index(min(goodness))]
        self.most = self._before - min(goodness)
        """The loss if all answers are as bad as can be."""

    def by(self, loss: float, number: int) -> Verdict:
        """Return the verdict on a copy that loses at least so much by as few answers as possible, drawn by a seed."""
        seed = f"{SEED} {number}"
        order = _drawing(seed).sample(self._about, len(self._about))

        def lost(count: int) -> float:
            return self._before - _goodness(_worse(self._about, order[:count], self._way, seed), self._metric)

        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if lost(middle) >= loss - _EXACT else (middle + 1, high)
        while low < len(order) and lost(low) < loss - _EXACT:
            low += 1  # Where the loss does not rise with each answer, as in pairs.
        return _decided(self._gate, self._copy, self._way, order[:low], seed)

    def failing(self, losses: Sequence[float]) -> Iterator[float]:
        """Yield the losses that the rule FAILs."""
        return (loss for loss in losses if _outcome(self.by(loss, 0), self._entry) == "FAIL")


_EXACT = 1e-9


def _outcome(verdict: Verdict, entry: Ruling) -> str:
    return next((other.outcome for other in verdict.entries if other.rule == entry.rule), "no verdict")


def _in(result: Result, place: Mapping[str, str]) -> bool:
    return all(value in lexicon.values_of(result.item, dimension) for dimension, value in place.items())


def _goodness(results: Sequence[Result], metric: Metric) -> float:
    """Return the measure, or 1 minus it if less is better; 0 if it is undefined."""
    tabled = metrics.tables(list(results), [metric], ())
    if not tabled:
        return 0.0
    value = float(tabled[0].estimate().value[0])
    if value != value:
        return 0.0
    return value if metric.better == "higher" else 1 - value


def _decided(gate: Gate, copy: Side, way: Worsen, results: Sequence[Result], seed: str = SEED) -> Verdict:
    return decide(gate, replace(copy, results=tuple(_worse(copy.results, results, way, seed))))


def _worse(results: Sequence[Result], some: Sequence[Result], way: Worsen, seed: str) -> list[Result]:
    """Return the results, of which `some` are answered worse; answers without a score stay as they are."""
    keys = {result.key for result in some}
    return [
        way(result, _drawing(f"{seed} {result.key}"))
        if result.key in keys and result.score.value is not None
        else result
        for result in results
    ]


def _drawing(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311


def _wrong(result: Result, draw: random.Random) -> Result:
    """Choose an option that is not in the key."""
    letters = [letter for letter in result.item.options if letter not in result.item.answers]
    return _answered(result, draw.choice(letters) if letters else "", "wrong")


def _first(result: Result, draw: random.Random) -> Result:
    """Choose the first option, whatever the question."""
    letter = next(iter(result.item.options), "")
    return _answered(result, letter, "correct" if result.item.answers == (letter,) else "wrong")


def _not_read(outcome: Outcome) -> Worsen:
    return lambda result, draw: _answered(result, "", outcome)


def _answered(result: Result, letter: str, outcome: Outcome) -> Result:
    score = Score(float(outcome == "correct"), outcome, (letter,) if letter else (), SEED)
    return replace(result, answer=Answer(letter or SEED), score=score)


WAYS: tuple[Worsen, ...] = (_wrong, _first, *(_not_read(outcome) for outcome in ("unparsed", "refused", "abstained")))
"""Ways to answer worse. A wrong option lowers accuracy, one option for all raises confusion, the others their rates."""
