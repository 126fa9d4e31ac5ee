"""Several runs on the same questions, as one comparison: which runs are compared with which, on which questions, and
which p-values are adjusted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from medvqa import memory, statistics
from medvqa.comparing import differing, paired, ranking, scales
from medvqa.comparing.against_readers import AgainstReaders, against
from medvqa.comparing.common import Alignment, CommonPart
from medvqa.comparing.differing import Contrast
from medvqa.comparing.paired import LEVEL, Compared, Pair, Paired
from medvqa.comparing.ranking import Ranking
from medvqa.comparing.robustness import Robustness, robustness
from medvqa.comparing.scales import Scale, SlicedRuns
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, UsageError


@dataclass(frozen=True, slots=True)
class Versus:
    """A comparison of two runs with its refusals and notes. If there are `refusals`, `paired` may be empty."""

    paired: Paired
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Study:
    """Several runs; the first of `sides` is the baseline.

    `aligned`: all results of each run under common items and techniques: those of the first run that has the question.
    Of two runs, the new one comes first. Equal keys are equal questions.

    `board`: places of the runs that are ranked together: none of them differs from another in more than the model or
    one setting. With more than two of them, all numbers about two runs of the board are over the questions that all of
    the board have scored. Any other pair is compared on the questions that both have scored.

    `versus`: each run against the first; or if these are not comparable, against another run (`partners`). `tests`: the
    number of p-values that are adjusted together, of headline measures over all questions: those of every two runs of
    the board, and of each other pair of `versus`. `apart`: runs that are not on the board, by their place, each with
    the reasons why a run of the board is not comparable with it, but for those with changed images or questions.

    `against`: each model against the readers of each run of people. Such two runs are in none of the others.

    `robustness`: each clean run with the runs that differ from it in the perturbation or the image alone.

    `equivalent`: the margin within which runs are alike, a fraction; None if that is not tested.
    """

    sides: tuple[Side, ...]
    aligned: tuple[Side, ...]
    board: tuple[int, ...]
    versus: tuple[Versus, ...]
    rankings: tuple[Ranking, ...]
    scales: tuple[Scale, ...] = ()
    sliced: tuple[SlicedRuns, ...] = ()
    tests: int = 0
    apart: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    against: tuple[AgainstReaders, ...] = ()
    robustness: tuple[Robustness, ...] = ()
    equivalent: float | None = None

    @property
    def comparable(self) -> bool:
        """Whether any two runs are compared."""
        return any(not each.refusals for each in self.versus) or any(not each.refusals for each in self.against)

    @property
    def refusals(self) -> list[str]:
        """The reasons why runs are not comparable, each once."""
        lines = [each.refusals for each in self.versus] + [each.refusals for each in self.against]
        return list(dict.fromkeys(chain.from_iterable(lines)))


class _Contrasts:
    """The differences of every two runs, each found once."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides
        self._known: dict[Pair, Contrast] = {}
        self._share: dict[Pair, bool] = {}

    def of(self, new: int, baseline: int) -> Contrast:
        if (new, baseline) not in self._known:
            found = differing.contrast(self._sides[new], self._sides[baseline])
            if not found.refusals and not self.share(new, baseline):
                names = (self._sides[place].name for place in (new, baseline))
                found = Contrast(None, (f"{' and '.join(names)} share no question",))
            self._known[new, baseline] = found
        return self._known[new, baseline]

    def share(self, place: int, other: int) -> bool:
        """Whether two runs have a question in common."""
        if (place, other) not in self._share:
            questions = {(result.item.benchmark, result.item.id) for result in self._sides[place].results}
            others = self._sides[other].results
            found = any((result.item.benchmark, result.item.id) in questions for result in others)
            self._share[place, other] = self._share[other, place] = found
        return self._share[place, other]


@memory.no_cycle_search()
def study(
    sides: Sequence[Side],
    benchmarks: Mapping[str, Benchmark],
    *,
    pairs: Sequence[Pair] | None = None,
    anyway: bool = False,
    bootstrap: bool = False,
    flips: bool = True,
    rank_two: bool = False,
    units: bool = True,
    robust: bool = True,
    equivalent: float | None = None,
    level: float = LEVEL,
    icc: float = statistics.FLIP_ICC,
) -> Study:
    """Compare runs with different names (UsageError for an unknown benchmark, and for `equivalent` out of range).

    `pairs`: the runs to compare, as places of the new run and its baseline; None: as `partners` finds them. `anyway`:
    compare, and rank, runs that are not comparable too. `bootstrap` adds the seeded cluster bootstrap of headline
    measures. `flips`: list the results of the units that changed. `rank_two`: rank two runs too. `units`: tell the
    values of each unit and slice, and the aligned results; else they are left out. `robust`: add `Study.robustness`.
    `equivalent`: test whether headline measures differ by less than so many points, more than 0 and less than 100.
    `level`: of either bound of a difference. `icc`: the declared correlation of changes within groups. A model and
    people are compared by `against_readers`, never as two runs.
    """
    margin = None if equivalent is None else _margin(equivalent)
    contrasts = _Contrasts(sides)
    human = {place for place, side in enumerate(sides) if side.run.readers is not None}
    models = [place for place in range(len(sides)) if place not in human]
    compared_as_runs = models if human and models else [*range(len(sides))]
    shown = partners(contrasts, compared_as_runs) if pairs is None else list(dict.fromkeys(pairs))
    mixed = [pair for pair in shown if len(human & {*pair}) == 1]
    if pairs is None:
        mixed = [(model, reader) for reader in sorted(human) for model in models]
    shown = [pair for pair in shown if pair not in mixed]
    board = _board(contrasts, compared_as_runs)
    changed = {pair[0] for pair in shown if differing.changed(contrasts.of(*pair).difference)}
    if anyway:
        refused = {place for pair in shown if contrasts.of(*pair).refusals for place in pair}
        board = tuple(sorted({*board, *refused}))
    compared = [pair for pair in shown if anyway or not contrasts.of(*pair).refusals]
    # Of two runs, tags and pairs come from the new one.
    order = (1, 0) if len(sides) == 2 else None
    alignment = Alignment(_under_one_technique(contrasts, sides, compared), order)
    found = _compare(alignment, board, compared, benchmarks, level=level, icc=icc, bootstrap=bootstrap, margin=margin)
    versus = tuple(
        _versus(alignment, sides, pair, contrasts.of(*pair), found, level=level, flips=flips, margin=margin)
        for pair in shown
    )
    several = len(sides) > 2 or rank_two
    names = [side.name for side in sides]
    differs = [
        "" if d is None else d.new for d in (contrasts.of(i, 0).difference if i else None for i in range(len(sides)))
    ]
    ranked = [part for part in found.board if several and len(part.places) == len(board)]
    aligned = alignment.sides
    if units:
        aligned = tuple(replace(side, results=alignment.results(place)) for place, side in enumerate(aligned))
    return Study(
        tuple(sides),
        aligned,
        board,
        versus,
        tuple(each for part in ranked for each in ranking.rank(part, names, differs, found.measures, margin)),
        tuple(scales.scales(found.board, found.apart, len(sides), board)) if units else (),
        tuple(each for part in found.board for each in scales.sliced(part)) if several and units else (),
        found.tests,
        {place: _reasons(contrasts, place, board) for place in compared_as_runs if place not in {*board, *changed}},
        tuple(
            against(*(sides[place] for place in sorted(pair, key=human.__contains__)), anyway=anyway) for pair in mixed
        ),
        robustness(sides, benchmarks) if robust else (),
        margin,
    )


def compare(
    new: Side,
    baseline: Side,
    benchmarks: Mapping[str, Benchmark],
    *,
    level: float = LEVEL,
    icc: float = statistics.FLIP_ICC,
    bootstrap: bool = False,
    equivalent: float | None = None,
) -> Paired:
    """Return the study of two runs, whether they are comparable or not; arguments as for `study`.

    Items are matched by question, options, key and images. Tags and pairs come from the new run; groups of both runs
    are joined. If the runs differ in one setting (`differing.contrast`), the result names it, and techniques that
    differ are compared with each other. UsageError for an unknown benchmark.
    """
    sides, pairs = (baseline, new), [(1, 0)]
    as_asked = {"bootstrap": bootstrap, "units": False, "robust": False}
    found = study(sides, benchmarks, pairs=pairs, anyway=True, **as_asked, equivalent=equivalent, level=level, icc=icc)
    return found.versus[0].paired


def _margin(points: float) -> float:
    """The margin of equivalence as a fraction (UsageError)."""
    if not 0 < points < 100:
        raise UsageError(
            f"equivalent={points:g}: the difference that does not matter, in points: more than 0, below 100"
        )
    return points / 100


def partners(contrasts: _Contrasts, places: Sequence[int]) -> list[Pair]:
    """The pairs of runs to compare, of those at these places: each run with the first.

    If these are not comparable, with the first run from which it differs in one setting, else with the first run with
    which it is comparable at all, else with the first run, to name the reasons. No two runs are paired twice.
    """
    pairs: list[Pair] = []
    first, *rest = places
    for new in rest:
        baseline = first
        if contrasts.of(new, first).refusals:
            others = [place for place in rest if place != new]
            one_setting = (place for place in others if contrasts.of(new, place).difference is not None)
            comparable = (place for place in others if not contrasts.of(new, place).refusals)
            baseline = next(chain(one_setting, comparable), first)
        if (baseline, new) not in pairs:
            pairs.append((new, baseline))
    return pairs


def _board(contrasts: _Contrasts, places: Sequence[int]) -> tuple[int, ...]:
    """The runs that are ranked together, of those at these places.

    First those that differ from the first run in no setting. Then each run that differs from it in one, if it is
    comparable with every run that is on the board already, and not one with changed images or questions: that is no
    rival. The first run is that of the comparison, or if this shares no question with the others, the next one that
    does.
    """
    first = next((n for n in places if any(contrasts.share(n, other) for other in places if other != n)), places[0])
    others = {place: contrasts.of(*sorted((place, first), reverse=True)) for place in places if place != first}
    allowed = {place: contrast for place, contrast in others.items() if not contrast.refusals}
    board = [first, *(place for place, contrast in allowed.items() if contrast.difference is None)]
    for place, contrast in allowed.items():
        rival = contrast.difference is not None and not differing.changed(contrast.difference)
        if rival and all(not contrasts.of(*sorted((place, other), reverse=True)).refusals for other in board):
            board.append(place)
    return tuple(sorted(board))


def _reasons(contrasts: _Contrasts, place: int, board: Sequence[int]) -> tuple[str, ...]:
    """Why the first run of the board that is not comparable with a run is not."""
    return next((lines for other in board if (lines := contrasts.of(place, other).refusals)), ())


def _under_one_technique(contrasts: _Contrasts, sides: Sequence[Side], pairs: Sequence[Pair]) -> list[Side]:
    """The runs with the technique of the first run that they are compared with, if it is their one difference.

    Of two runs, both have the technique of the new one.
    """
    aligned = list(sides)
    for new, baseline in pairs:
        difference = contrasts.of(new, baseline).difference
        if len(sides) == 2:
            aligned[baseline] = differing.aligned(sides[new], sides[baseline], difference)
        else:
            aligned[new] = differing.aligned(aligned[baseline], aligned[new], difference)
    return aligned


@dataclass(frozen=True, slots=True)
class _PairsCompared:
    """The parts of the board and of the other pairs, and the measures of each pair; `tests` as in `Study`."""

    board: list[CommonPart]
    apart: list[CommonPart]
    parts: Mapping[Pair, Sequence[CommonPart]]
    measures: Mapping[Pair, Sequence[Compared]]
    tests: int


def _compare(
    alignment: Alignment,
    board: Sequence[int],
    shown: Sequence[Pair],
    benchmarks: Mapping[str, Benchmark],
    *,
    level: float,
    icc: float,
    bootstrap: bool,
    margin: float | None,
) -> _PairsCompared:
    """Compare the pairs that are shown by all measures, and all others of the board by headline measures."""
    board_parts = alignment.parts(board, benchmarks) if len(board) > 1 else []
    parts: dict[Pair, list[CommonPart]] = {}
    apart: list[CommonPart] = []
    for pair in shown:
        if set(pair) <= set(board) and len(set(pair)) == 2:
            parts[pair] = [part for part in board_parts if set(pair) <= set(part.places)]
        else:
            parts[pair] = alignment.parts(pair, benchmarks)
            apart += parts[pair]
    measures: dict[Pair, list[Compared]] = {pair: [] for pair in shown}
    every_two = [(new, baseline) for i, baseline in enumerate(board) for new in board[i + 1 :]]
    others: dict[Pair, list[Compared]] = {pair: [] for pair in every_two if pair not in measures}
    for part in (*board_parts, *apart):
        own = [pair for pair in shown if any(part is other for other in parts[pair])]
        found = paired.compare_pairs(part, own, level, icc, bootstrap=bootstrap)
        beside = [pair for pair in others if set(pair) <= set(part.places)] if part in board_parts else []
        found |= paired.compare_pairs(part, beside, level, icc, slices=False)
        if margin is not None:
            found = paired.equivalences(part, found, margin, icc)
        for pair, compared in found.items():
            (measures if pair in measures else others)[pair].extend(compared)
    adjusted = dict(zip(measures, paired.slice_families(list(measures.values())), strict=True)) | others
    adjusted = dict(zip(adjusted, paired.one_family(list(adjusted.values())), strict=True))
    tests = sum(paired.in_family(measure) for own in adjusted.values() for measure in own)
    return _PairsCompared(board_parts, apart, parts, adjusted, tests)


def _versus(
    alignment: Alignment,
    sides: Sequence[Side],
    pair: Pair,
    contrast: Contrast,
    found: _PairsCompared,
    *,
    level: float,
    flips: bool,
    margin: float | None,
) -> Versus:
    new, baseline = pair
    parts = found.parts.get(pair, ())
    both = alignment.sides[new], alignment.sides[baseline]
    refusals = contrast.refusals
    about = new, baseline, alignment.sides, contrast.difference
    if not refusals and not parts:
        refusals = (f"{both[0].name} and {both[1].name} have no benchmark and technique in common",)
    return Versus(
        Paired(
            *both,
            tuple(paired.paired_part(part, new, baseline, alignment.sides) for part in parts),
            tuple(found.measures.get(pair, ())),
            tuple(flip for part in parts for flip in paired.flips(part, new, baseline)) if flips else (),
            level,
            contrast.difference,
            tuple(filter(None, (paired.compared_confidences(part, *about) for part in parts))),
            margin,
        ),
        refusals,
        tuple(differing.notes(sides[new], sides[baseline])),
    )
