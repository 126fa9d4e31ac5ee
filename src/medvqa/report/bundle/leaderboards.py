"""Several runs beside each other: leaderboards, the differences of every two runs, and measures by run and slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa.comparing import Compared, RankedPair, Ranking, Scale, SlicedRuns, Study
from medvqa.figures import INTERVAL, About, Column, Figure, Table, numbers, texts
from medvqa.items import Benchmark, measure_of
from medvqa.printing import some
from medvqa.report import comparison
from medvqa.report.bundle.difference_sentences import reverse
from medvqa.report.bundle.page_blocks import (
    Block,
    HeadlineBlock,
    MatrixBlock,
    MatrixCell,
    MatrixLabel,
    PageSentence,
    PageWord,
    figure_cell,
    table_block,
)
from medvqa.report.bundle.texts import label, link_of_runs, query_of, title_of, titled
from medvqa.tags import lexicon

NAMED = 5
"""Names of runs in a sentence."""
STRENGTH = 0.05
"""A difference of so much more makes the colour of a field stronger by one step, of 5."""


@dataclass(frozen=True, slots=True)
class Boards:
    """The rankings of a study, with the titles of its benchmarks, and the notes of its runs by name."""

    study: Study
    benchmarks: Mapping[str, Benchmark]
    notes: Mapping[str, str]

    @property
    def first(self) -> str:
        """The run from which differences are taken: the first of the study, unless it is not on the board."""
        return self.study.sides[self.study.board[0]].name

    @property
    def several(self) -> list[Ranking]:
        """The first ranking of each benchmark and technique."""
        return list({(each.benchmark, each.technique): each for each in reversed(self.study.rankings)}.values())[::-1]

    def title(self, of: Ranking | SlicedRuns) -> str:
        """The title of a benchmark, with the technique if it has several."""
        techniques = {each.technique for each in self.study.rankings if each.benchmark == of.benchmark}
        return titled(self.benchmarks[of.benchmark], of.technique, techniques)

    def about(self, run: str, differs: str = "") -> About:
        """What stands beside the name of a run; `differs`: the setting in which it differs from the first."""
        first = "baseline" if run == self.first and self.study.versus else ""
        return About(note="; ".join(filter(None, (first, differs, self.notes[run]))))

    @property
    def tests(self) -> int:
        """The number of p-values of several runs that are adjusted together, 0 for two runs alone."""
        return self.study.tests if len(self.study.sides) > 2 else 0

    @property
    def everyone(self) -> bool:
        """Whether no run is off the board."""
        return len(self.study.board) == len(self.study.sides)

    def flips(self, of: Ranking | SlicedRuns) -> bool:
        """Whether the page has the values of the units of a measure."""
        return self._scale(of) is not None

    def unit(self, of: SlicedRuns) -> str:
        """What a measure counts."""
        scale = self._scale(of)
        return "pairs" if scale is not None and scale.unit == "pair" else "items"

    def _scale(self, of: Ranking | SlicedRuns) -> Scale | None:
        key = (of.benchmark, of.technique, of.metric)
        return next((each for each in self.study.scales if (each.benchmark, each.technique, each.metric) == key), None)


# ---- the leaderboard -------------------------------------------------------------------------------------------------


def tables(boards: Boards, tabs: Sequence[str] = ()) -> list[Block]:
    """Return the first measure of each benchmark in one table, and each measure in one of its own."""
    several = boards.several
    chosen = [(f"{boards.title(each)}: {label(each.metric)}", [each]) for each in boards.study.rankings]
    if len(several) > 1:
        chosen.insert(0, ("All benchmarks", several))
    return [
        block
        for title, rankings in chosen
        if (block := table_block(_table(boards, title, rankings), tabs=[*tabs, *([title] if len(chosen) > 1 else [])]))
    ]


def _table(boards: Boards, title: str, rankings: Sequence[Ranking]) -> Table:
    """The runs in the order of the first ranking, by one or more rankings."""
    names = [row.name for row in rankings[0].rows]
    differs = {row.name: row.differs for ranking in rankings for row in ranking.rows}
    several = len(rankings) > 1
    columns = [Column("run")]
    for ranking in rankings:
        of = f"{boards.title(ranking)}: " if several else ""
        columns += [
            Column(f"{of}{label(ranking.metric)}, %", "figure", better=ranking.better),
            *(INTERVAL, *numbers("rank"), *(() if several else texts(*comparison.others(ranking, ranking.rows[0])))),
            Column(f"against {boards.first}, points", "figure"),
            *(() if several else (INTERVAL,)),
        ]
    rows = [
        (name, *(cell for ranking in rankings for cell in _cells(boards, ranking, name, drawn=not several)))
        for name in names
    ]
    counted = dict.fromkeys(f"{boards.title(each)}: {comparison.of_all(each)}" for each in rankings)
    seen = () if several else (start(comparison.of_others(boards.study.equivalent, boards.tests)),)
    return Table(
        title,
        tuple(columns),
        tuple(rows),
        (*counted, *seen),
        about=tuple(boards.about(name, differs.get(name, "")) for name in names),
    )


def _cells(boards: Boards, ranking: Ranking, name: str, *, drawn: bool) -> list[object]:
    """The value of a run, its rank, its difference from the first run, and if `drawn`, other runs and intervals."""
    row = next((row for row in ranking.rows if row.name == name), None)
    if row is None:
        return [None] * (5 + len(comparison.others(ranking, ranking.rows[0])) if drawn else 4)
    of = {**measure_of(ranking.benchmark, ranking.technique, ranking.metric, {}), "run": name}
    value = replace(row.figure, of=of)
    against = next((pair for pair in ranking.pairs if (pair.new, pair.baseline) == (name, boards.first)), None)
    change = None if against is None else _difference(against)
    if drawn:
        return [value, value, row.rank, *comparison.others(ranking, row).values(), change, change]
    return [value, value, row.rank, change]


def _difference(pair: RankedPair) -> Figure:
    return comparison.identified(pair.compared, {"new": pair.new, "baseline": pair.baseline})[2]


def leading(boards: Boards) -> HeadlineBlock:
    """Say which runs may rank first in each benchmark, by its first measure."""
    several = boards.several
    leaders = Counter(
        row.name for ranking in several for row in ranking.rows if row.best == 1 and row.figure.value is not None
    )
    [(_, most)] = leaders.most_common(1) or [("", 0)]
    names = [name for name, count in leaders.items() if count == most]
    places = f"all {most}" if most == len(several) else f"{most} of {len(several)}"
    title = f"May rank first in {places} benchmarks: {', '.join(names)}." if names and len(several) > 1 else ""
    sentences = [
        PageSentence(boards.title(ranking), [PageWord(_leading(ranking, everyone=boards.everyone))], link="#ranking")
        for ranking in several
    ]
    return HeadlineBlock(title, sentences=tuple(sentences))


def _leading(ranking: Ranking, *, everyone: bool) -> str:
    """Say which runs may rank first: no run is shown to be better than these. `everyone`: no run is off the board."""
    measure = label(ranking.metric)
    first, *others = ranking.rows
    if first.figure.value is None:
        return f"By {measure}, no run has a value."
    if all((row.best, row.worst) == (1, len(ranking.rows)) for row in ranking.rows):
        whose = "" if everyone else " of the leaderboard"
        return f"By {measure}, no difference between any two runs{whose} is shown."
    lead = f"By {measure}, {first.name} leads with {first.figure.stated}"
    rivals = [f"{row.name} ({row.figure.stated})" for row in others if row.best == 1]
    if rivals:
        return f"{lead}; {_enumerated(rivals)} may be as good."
    if first.worst == 1:
        board = "" if everyone else " of the leaderboard"
        return f"{lead}, better than {f'each other run{board}' if len(others) > 1 else others[0].name}."
    return f"{lead}; for each other run, a better one is shown."


def start(text: str) -> str:
    """A sentence of words that begin with a small letter."""
    return f"{text[:1].upper()}{text[1:]}."


def _enumerated(names: Sequence[str]) -> str:
    """Names in a sentence: `a, b and c`."""
    if len(names) > NAMED:
        return some(names, NAMED)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


# ---- matrices --------------------------------------------------------------------------------------------------------


def every_two(boards: Boards) -> list[Block]:
    """Return the differences of every two runs by each measure; rows are new runs, columns their baselines."""
    matrices: list[Block] = []
    for ranking in boards.study.rankings:
        places = {row.name: place for place, row in enumerate(ranking.rows)}
        key = (ranking.benchmark, ranking.technique, ranking.metric)
        fields = []
        for pair in ranking.pairs:
            change = _difference(pair)
            back = replace(reverse(change), of={**change.of, "new": pair.baseline, "baseline": pair.new})
            for new, baseline, figure in ((pair.new, pair.baseline, change), (pair.baseline, pair.new, back)):
                link = link_of_runs((new, baseline), key, "flip:worse,better") if boards.flips(ranking) else ""
                fields.append(_field(places[new], places[baseline], figure, figure, link))
        title = f"{boards.title(ranking)}: {label(ranking.metric)}"
        runs = [MatrixLabel(name) for name in places]
        tabs = (title,) if len(boards.study.rankings) > 1 else ()
        note = "Run of the row minus run of the column, in percentage points."
        if len(places) > 2:
            matrices.append(MatrixBlock(title, "run", "against", runs, runs, fields, (note,), tabs=tabs))
    return matrices


def by_slice(boards: Boards) -> list[Block]:
    """Return the headline measures of the board's runs over the slices of each dimension.

    The colour of a field is that of its difference from the first run.
    """
    against: dict[tuple[object, ...], Compared] = {
        (versus.paired.new.name, row.benchmark, row.technique, row.metric, *row.slice.items()): row
        for versus in boards.study.versus
        if versus.paired.baseline.name == boards.first
        for row in versus.paired.tables
        if row.headline and row.slice
    }
    return [_by_slice(boards, sliced, against) for sliced in boards.study.sliced]


def _by_slice(boards: Boards, sliced: SlicedRuns, against: Mapping[tuple[object, ...], Compared]) -> MatrixBlock:
    names = [boards.study.sides[place].name for place in sliced.runs]
    key = (sliced.benchmark, sliced.technique, sliced.metric)
    fields = []
    for place, (value, figures) in enumerate(sliced.values.items()):
        slice = {sliced.dimension: value}
        for name, own in zip(names, figures, strict=True):
            if own.value is None or own.n is None:
                continue
            figure = replace(
                own,
                unit=boards.unit(sliced),
                count=own.value * own.n,
                of={**measure_of(*key, slice), "run": name},
            )
            change = None
            if (compared := against.get((name, *key, *slice.items()))) is not None:
                change = comparison.identified(compared, {"new": name, "baseline": boards.first})[2]
                figure = replace(figure, tone="" if figure.few else change.tone)
            runs = ("", "") if change is None else (name, boards.first)
            link = link_of_runs(runs, key, query_of(sliced.dimension, value))
            fields.append(_field(place, names.index(name), figure, change, link))
    rows = [
        MatrixLabel(title_of(sliced.dimension, value), ", ".join(lexicon.abbreviations(sliced.dimension, value)))
        for value in sliced.values
    ]
    fixed = all(
        sliced.dimension in comparison.fixed_slices(boards.study.sides[place].run, sliced.benchmark)
        for place in sliced.runs
    )
    measure = f"{boards.title(sliced)}: {label(sliced.metric)}"
    notes = (
        f"Colours are differences from {boards.first}; these slices "
        f"{'were fixed before the runs' if fixed else 'are exploratory'}.",
    )
    dimension = label(sliced.dimension)
    columns = [MatrixLabel(name) for name in names]
    return MatrixBlock(
        f"{measure} by {dimension}", dimension, "run", rows, columns, fields, notes, tabs=(measure, dimension)
    )


def _field(row: int, column: int, figure: Figure, change: Figure | None, link: str) -> MatrixCell:
    size = abs(change.value or 0) if change is not None and figure.tone else None
    step = 0 if size is None else min(5, 1 + int(size / STRENGTH))
    return MatrixCell(row, column, figure_cell(figure), step, link)
