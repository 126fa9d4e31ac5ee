"""The view of one benchmark, as values for the template."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from medvqa import metrics
from medvqa.data import lexicon
from medvqa.data import published as papers
from medvqa.items import CHOICE_KINDS, SCORED_OUTCOMES, Measure, Result
from medvqa.judging.taxonomy import ErrorShare
from medvqa.protocols import position, rotation
from medvqa.report import errors, tables
from medvqa.report.build import PROMPT, Part, Report, slices
from medvqa.report.bundle.texts import label, link, title_of
from medvqa.report.html import figures, pack

BINS = 10
"""Bins of equal width of the reliability diagram and of the expected calibration error."""
OPEN = 24
"""A dimension with more values is folded at first."""
FIELDS = 4
"""Minimum of rows and columns together for a heat map."""


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One value of a dimension, its measures in column order, and the link to its items."""

    label: str
    short: str
    cells: tuple[Measure | None, ...]
    href: str

    @property
    def few(self) -> bool:
        """Whether there are too few units for a percentage."""
        return all(cell is None or tables.few(cell) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Slices:
    """The measures over the values of one dimension."""

    dimension: str
    names: tuple[str, ...]
    rows: tuple[SliceRow, ...]

    @property
    def sorted(self) -> bool:
        """Whether rows are sorted by their first measure; prompts have the order of the run."""
        return self.dimension != PROMPT

    @property
    def intervals(self) -> tuple[bool, ...]:
        """For each measure: whether any value has an interval, or a reason for its absence."""
        return tuple(any(cell is not None and tables.interval(cell) for cell in column) for column in self._columns)

    @property
    def percents(self) -> tuple[bool, ...]:
        """Whether each measure is a percentage."""
        return tuple(all(cell is None or cell.percent for cell in column) for column in self._columns)

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each measure's denominators."""
        return tuple(next((cell.unit for cell in column if cell is not None), "") for column in self._columns)

    @property
    def _columns(self) -> list[tuple[Measure | None, ...]]:
        return list(zip(*(row.cells for row in self.rows), strict=True))

    @property
    def folded(self) -> bool:
        """Whether the table is long."""
        return len(self.rows) > OPEN


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a heat map; `level` 0 to 10 is the colour."""

    value: float
    n: float
    href: str

    @property
    def level(self) -> int:
        """Tenths, rounded."""
        return round(10 * self.value)

    @property
    def shown(self) -> str:
        """The value in percent, or counts if there are few units."""
        few = self.n < tables.FEW
        return f"{round(self.value * self.n, 2):g}/{self.n:g}" if few else f"{100 * self.value:.0f}"


@dataclass(frozen=True, slots=True)
class Heat:
    """A measure over two dimensions at once."""

    measure: str
    down: str
    across: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class Letter:
    """Counts of one position: offered, correct, chosen, and correct when chosen."""

    letter: str
    offered: int
    right: int
    chosen: int
    hits: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Confidence against the share of right answers; `bins` are (confidence, right, answers)."""

    technique: str
    error: float
    n: int
    bins: tuple[tuple[float, float, int], ...]

    @property
    def figure(self) -> str:
        """The reliability diagram, "" without matplotlib."""
        title = f"Reliability of technique {self.technique}: share of right answers by confidence"
        return figures.reliability(self.bins, title=title) if figures.available() else ""


@dataclass(frozen=True, slots=True)
class Published:
    """Rows of a paper with the run's own among them; values are fractions, `own` marks the run's row."""

    source: str
    note: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[float | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class SpreadRow:
    """The spread of a measure over prompts and samples, as texts."""

    spread: metrics.Spread

    @property
    def name(self) -> str:
        """The measure's name."""
        return self.spread.name

    @property
    def mean(self) -> str:
        """The plain mean over prompts."""
        return tables.figure(self.spread.mean, is_percent=self.spread.percent)

    @property
    def deviations(self) -> tuple[tuple[str, str, float | None, str], ...]:
        """Name, heading, value and text of each standard deviation."""
        return tuple(
            (name, heading, value, tables.figure(value, is_percent=self.spread.percent))
            for name, heading in tables.deviations([self.spread]).items()
            for value in (getattr(self.spread, name),)
        )


@dataclass(frozen=True, slots=True)
class BenchmarkSection:
    """The view of one benchmark."""

    part: Part
    title: str
    outcomes_key: str
    anchor: str
    slices: tuple[Slices, ...]
    spreads: tuple[SpreadRow, ...]
    spread_figure: str
    radar: str
    physicians: str
    heat: Heat | None
    letters: tuple[Letter, ...]
    calibrations: tuple[Calibration, ...]
    published: Published | None


KIND_OF_ERROR = "kind of error"
"""The dimension of the page for filters by kind of error; no option of pytest can select by such a name."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """The share of one kind of error, and the link to its questions; `place`: the value of a dimension, or ""."""

    cell: Measure
    place: str
    href: str
    classified: str


@dataclass(frozen=True, slots=True)
class ErrorsView:
    """The kinds of a run's wrong answers: rows over everything, rows by dimension, sentences, agreement."""

    rows: tuple[ErrorRow, ...]
    by: tuple[tuple[str, tuple[ErrorRow, ...]], ...]
    lines: tuple[str, ...]
    agreement: tables.TextTable | None


def errors_view(report: Report) -> ErrorsView | None:
    """The kinds of wrong answers; None without a classification."""
    lines = tuple(errors.lines(report))
    if not lines:
        return None
    shares = report.error_shares
    by = tuple(
        (name, tuple(_error_row(report, share) for share in shares if name in share.slice and share.count))
        for name in errors.dimensions(report)
    )
    agreement = None if report.errors is None else errors.agreement(report.errors)
    return ErrorsView(
        tuple(_error_row(report, share) for share in shares if not share.slice),
        by,
        lines,
        agreement if agreement is not None and agreement.rows else None,
    )


def _error_row(report: Report, share: ErrorShare) -> ErrorRow:
    (dimension, value), *_ = [*share.slice.items(), ("", "")]
    technique = value if dimension == "technique" else ""
    tags = {dimension: value} if dimension not in ("", "technique") else {}
    href = link(share.benchmark, technique, **{**tags, KIND_OF_ERROR: share.kind})
    shown = title_of(dimension, value) if dimension else ""
    return ErrorRow(errors.measure(share), shown, href, errors.classified_of(share))


def with_errors(results: Iterable[Result], report: Report) -> list[Result]:
    """Return results with the kind of their error as a tag."""
    if report.errors is None:
        return list(results)
    kinds = errors.tags(report.errors)
    return [
        replace(result, item=replace(result.item, tags={**result.item.tags, KIND_OF_ERROR: found}))
        if (found := kinds.get(tuple(map(str, result.key)))) is not None
        else result
        for result in results
    ]


def section(part: Part, report: Report, number: int) -> BenchmarkSection:
    """The view of one benchmark and technique, the `number`-th of its run."""
    several = len(report.techniques) > 1
    technique = part.technique if several and part.results else ""
    named = part.benchmark.title or part.benchmark.name
    named += f" ({report.protocol})" if report.protocol else ""
    views = tuple(view for name in _dimensions(part) if (view := _slices(part, name, technique)).rows)
    paper = papers.overall(part.benchmark.name)
    abilities: Mapping[str, Any] = {} if paper is None else paper.abilities
    return BenchmarkSection(
        part,
        f"{named}, {part.technique}" if several else named,
        f"{part.benchmark.name} {part.technique}" if several else part.benchmark.name,
        f"benchmark-{number + 1}",
        views,
        tuple(map(SpreadRow, part.headline_spreads)),
        spread_figure(part),
        radar(part, {name: values for name, values in abilities.items() if name != "source"}),
        abilities.get("source", ""),
        heat(part, "department", "task", technique),
        letters(part.results),
        tuple(calibrations(part.results)),
        published(part),
    )


def _dimensions(part: Part) -> list[str]:
    """The benchmark's dimensions, then the kind of question if there are several."""
    several = len({result.item.kind for result in part.results}) > 1
    return [
        *([PROMPT] if part.prompts else []),
        *part.benchmark.dimensions,
        *(["kind"] if several and "question_type" not in part.benchmark.dimensions else []),
    ]


def _slices(part: Part, dimension: str, technique: str) -> Slices:
    names = [measure.name for measure in part.sliced]
    cells: dict[str, dict[str, Measure]] = {}
    for measure in slices(part.measures, dimension):
        if measure.name in names:
            cells.setdefault(measure.slice[dimension], {})[measure.name] = measure
    present = [name for name in dict.fromkeys(names) if any(name in row for row in cells.values())]
    rows = [
        SliceRow(
            title_of(dimension, value),
            ", ".join(lexicon.abbreviations(dimension, value)),
            tuple(row.get(name) for name in present),
            link(part.benchmark.name, technique, **{dimension: value}),
        )
        for value, row in cells.items()
    ]
    if dimension != PROMPT:
        rows.sort(key=lambda row: (-_first(row), row.label))
    return Slices(dimension, tuple(present), tuple(rows))


def _first(row: SliceRow) -> float:
    return next((cell.value for cell in row.cells if cell is not None and cell.value is not None), -1.0)


def radar(part: Part, physicians: Mapping[str, Mapping[str, float]]) -> str:
    """MedLesionVQA's abilities, as in its paper, with the physicians' percentages if published."""
    abilities = lexicon.medlesionvqa().dimensions["ability"].values
    measured = {
        measure.slice["ability"]: measure.value
        for measure in slices(part.measures, "ability")
        if measure.name == "mean_score"
    }
    if not figures.available() or len(measured.keys() & abilities.keys()) < 3:
        return ""
    series = {"this run": [measured.get(ability) for ability in abilities]}
    for name, values in physicians.items():
        series[name] = [values[ability] / 100 if ability in values else None for ability in abilities]
    names = [title_of("ability", ability) for ability in abilities]
    return figures.radar(names, series, title=f"Mean score by ability, {part.benchmark.name}, in percent")


def spread_figure(part: Part) -> str:
    """The first headline measure for each prompt and sample; "" for one prompt, or without matplotlib."""
    shown = next((spread for spread in part.headline_spreads if spread.percent and len(spread.prompts) > 1), None)
    if shown is None or not figures.available():
        return ""
    title = f"{label(shown.name).capitalize()} by prompt, {part.benchmark.name}, in percent"
    return figures.spread(shown.values, shown.means, shown.mean, title=title)


def heat(part: Part, down: str, across: str, technique: str = "") -> Heat | None:
    """The first headline metric of items over two dimensions; None if the items hardly differ in them.

    `technique`: for links, "" if the run has only one. Samples of a question count as one.
    """
    metric = pack.score_of(part.benchmark)
    counted = None if part.combined == part.results else part.combined
    terms = pack.shared(part.results, pack.terms_of(metric), counted)
    sums: dict[tuple[str, str], list[float]] = {}
    for result, (numerator, denominator) in zip(part.results, terms, strict=True):
        for key in {(a, b) for a in result.item.tags.get(down, ()) for b in result.item.tags.get(across, ())}:
            total = sums.setdefault(key, [0.0, 0.0])
            total[0] += numerator
            total[1] += denominator
    # Round, so that thirds of three samples add up to exactly 1.
    sums = {key: [count, round(n, 9)] for key, (count, n) in sums.items() if n}
    rows = sorted({a for a, _ in sums}, key=lambda value: title_of(down, value))
    columns = sorted({b for _, b in sums}, key=lambda value: title_of(across, value))
    if metric is None or len(rows) + len(columns) < FIELDS or min(len(rows), len(columns)) < 2:
        return None

    def cell(a: str, b: str) -> Cell | None:
        if (a, b) not in sums:
            return None
        count, n = sums[a, b]
        return Cell(count / n, n, link(part.benchmark.name, technique, **{down: a, across: b}))

    return Heat(
        metric.name,
        down,
        across,
        tuple(
            (", ".join(lexicon.abbreviations(across, b)) or title_of(across, b), title_of(across, b)) for b in columns
        ),
        tuple((title_of(down, a), tuple(cell(a, b) for b in columns)) for a in rows),
    )


def letters(results: Iterable[Result]) -> tuple[Letter, ...]:
    """Shown positions in the scored choice questions: offered, correct, chosen, chosen and correct."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        if result.item.kind not in CHOICE_KINDS or result.score.outcome not in SCORED_OUTCOMES:
            continue
        result = rotation.result_shown(result)
        right, chosen = set(result.item.answers), set(result.score.extracted)
        for letter in result.item.options:
            count = counts.setdefault(letter, Counter())
            count.update(
                offered=1, right=letter in right, chosen=letter in chosen, hits=letter in right and letter in chosen
            )
    return tuple(
        Letter(letter, **{k: c[k] for k in ("offered", "right", "chosen", "hits")})
        for letter, c in sorted(counts.items())
    )


def calibrations(results: Iterable[Result]) -> Iterable[Calibration]:
    """One calibration per technique whose answers to single-choice questions hold log-probabilities of options.

    Confidence is the largest of the options' probabilities, normalised over the options. The error is the mean
    distance of confidence and share of right answers over bins of equal width, weighted by their answers
    (Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 5).
    """
    answers: dict[str, list[tuple[float, bool]]] = {}
    for result in results:
        if (probability := confidence(result)) is not None:
            answers.setdefault(result.technique, []).append((probability, result.score.outcome == "correct"))
    for technique, answers_of_technique in sorted(answers.items()):
        places: dict[int, list[tuple[float, bool]]] = {}
        for place in answers_of_technique:
            places.setdefault(min(int(BINS * place[0]), BINS - 1), []).append(place)
        bins = tuple(
            (math.fsum(p for p, _ in place) / len(place), sum(right for _, right in place) / len(place), len(place))
            for _, place in sorted(places.items())
        )
        error = math.fsum(n * abs(sure - right) for sure, right, n in bins) / len(answers_of_technique)
        yield Calibration(technique, error, len(answers_of_technique), bins)


def confidence(result: Result) -> float | None:
    """The probability of the likeliest option; None without log-probabilities of options, or without a score.

    A missing option was below the server's top-k: its probability counts as 0.
    """
    logprobs = result.answer.option_logprobs if result.answer is not None else None
    if (
        logprobs is None
        or result.item.kind != "single_choice"
        or result.score.outcome not in SCORED_OUTCOMES
        or not result.item.options.keys() & logprobs.keys()
    ):
        return None
    values = [logprobs.get(letter, -math.inf) for letter in result.item.options]
    largest = max(values)
    if not math.isfinite(largest):
        return None
    return 1 / math.fsum(math.exp(value - largest) for value in values)


def published(part: Part) -> Published | None:
    """The rows of the benchmark's paper for the part's technique, best first; None without a paper."""
    paper = papers.overall(part.benchmark.name)
    if paper is None or not part.results:
        return None
    own = {measure.name: measure.value for measure in part.headline}
    if (own and own.keys().isdisjoint((*paper.measures, *part.benchmark.headline))) or not paper.rows:
        # An oracle's numbers are no scores.
        return None
    own |= {m.name: m.value for m in part.measures if m.name in paper.measures and not m.slice}
    # A model of the paper was asked in one order.
    own |= {name: own[mean] for name in paper.measures if (mean := position.MEAN + name) in own}
    rows = [
        (name, False, tuple(None if value is None else value / 100 for value in values))
        for name, of, values in paper.rows
        if of in ("", part.technique)
    ]
    items = len({result.item.id for result in part.results})
    mine = (f"this run, {items:,} items", True, tuple(own.get(name) for name in paper.measures))
    ordered = sorted([*rows, mine], key=lambda row: -(row[2][0] if row[2][0] is not None else -1))
    labels = tuple(map(label, paper.measures))
    if not paper.titles:
        return Published(paper.source, paper.note, labels, tuple(ordered))
    same = ", ".join(f"{title} is {name}" for title, name in zip(paper.titles, labels, strict=True))
    return Published(
        paper.source, f"{paper.note} In the row of this run, {same}.".lstrip(), paper.titles, tuple(ordered)
    )
