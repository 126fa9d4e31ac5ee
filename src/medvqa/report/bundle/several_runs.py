"""The page of several runs: who is better as far as the rules allow to say, and the tables behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa import comparing, metrics
from medvqa.comparing import Compared, Paired, PairedPart, Side, Study, Versus, differing, under_protocols
from medvqa.figures import About, Column, Figure, Table, numbers, of_units, texts
from medvqa.items import INVALID_OUTCOMES, Benchmark
from medvqa.report import comparison, robustness
from medvqa.report.bundle import charts, leaderboards
from medvqa.report.bundle.difference_sentences import QUESTIONS, sentence
from medvqa.report.bundle.leaderboards import Boards
from medvqa.report.bundle.page_blocks import (
    Block,
    HeadlineBlock,
    NoticeBlock,
    PageSection,
    TextBlock,
    section,
    table_block,
)
from medvqa.report.bundle.texts import label, link_of_runs, query_of, title_of, titled
from medvqa.report.bundle.verdict import synthetic
from medvqa.tags import lexicon

LONG = 200
"""Characters of a file's name without its ending."""
ROWS = 24
"""Rows of a table of slices at first."""
SHOWN = 3
"""Notes that are shown before they are folded."""
WITHOUT_RANK = "Runs with changed images or questions are not ranked, but compared with their clean run."
ALONE = (
    "A row can have its whole interval on one side of 0 and still not be shown: its interval is for this row alone, "
    "and among many differences a few look large by chance. It is a reason to test again with more questions."
)


def comparison_name(study: Study) -> str:
    """The page's file name: `new-against-baseline.html`, or with more runs `3-runs-against-baseline.html`."""
    return _title(study).replace("/", "-").replace("\\", "-").replace(" ", "-")[:LONG] + ".html"


def title(study: Study) -> str:
    """Name the runs; for two of them, also the one setting in which they differ."""
    return comparison.title(study.versus[0].paired) if len(study.sides) == 2 and study.versus else _title(study)


def _title(study: Study) -> str:
    baseline, *others = (side.name for side in study.sides)
    if study.against and not study.versus:
        return " and ".join(dict.fromkeys(each.model for each in study.against)) + f" against {study.against[0].people}"
    if not any(versus.paired.baseline.name == baseline for versus in study.versus if not versus.refusals):
        return f"{len(study.sides)} runs"  # The first run is compared with none.
    return f"{others[0] if len(others) == 1 else f'{len(others)} runs'} against {baseline}"


def allowed(compared: Iterable[Versus]) -> list[Paired]:
    """The comparisons without refusals."""
    return [versus.paired for versus in compared if not versus.refusals]


def sections(
    study: Study, benchmarks: Mapping[str, Benchmark], *, images: str = "", left_out: str = ""
) -> list[PageSection]:
    """Return the sections of the page.

    `images`: sentences about the place of the images. `left_out`: a sentence if the texts of answers are left out.
    """
    boards = Boards(study, benchmarks, {side.name: "; ".join(_limits(side)) for side in study.sides})
    several = len(study.sides) > 2
    scales = {(scale.benchmark, scale.technique, scale.metric) for scale in study.scales}
    compared = [
        _TwoRuns(place, versus, benchmarks, scales, boards.tests, several)
        for place, versus in enumerate(study.versus, 1)
        if not versus.refusals
    ]
    found = [
        PageSection("result", "Result", [*_notices(boards, left_out), *_headline(boards, compared)]),
        *(_against_readers(each) for each in comparison.against_readers(study)),
        PageSection("ranking", "Leaderboard", _leaderboard(boards)),
        section("robustness", "Robustness", _robustness(study)),
        PageSection(
            "effects",
            "One setting changed",
            [each.headline() for each in compared if several and each.setting not in ("", differing.PERTURB)],
        ),
        PageSection("slices", "Slices by run", leaderboards.by_slice(boards)),
        PageSection("differences", "Differences of every two runs", leaderboards.every_two(boards)),
        *(pair.section() for pair in compared),
        section("runs", "Runs", [_runs(boards, images), _notes(compared)]),
    ]
    return [each for each in found if each.blocks]


def _against_readers(found: comparison.Section) -> PageSection:
    return section("readers", found.title, [TextBlock(lines=found.notes), *map(table_block, found.tables)])


def _robustness(study: Study) -> Iterator[Block | None]:
    """Yield the drawings, tables and notes of each clean run with its changed runs; several stand under tabs."""
    for found in study.robustness:
        tabs = (found.clean,) if len(study.robustness) > 1 else ()
        yield from charts.robustness_plots(found, tabs)
        yield from (table_block(table, tabs=(*tabs, table.title)) for table in robustness.tables(found))
        yield TextBlock(lines=tuple(robustness.notes(found)), tabs=tabs)


# ---- the result ------------------------------------------------------------------------------------------------------


def _notices(boards: Boards, left_out: str) -> list[Block]:
    """What limits the numbers of the page."""
    study = boards.study
    drawn = synthetic(boards.benchmarks[part.benchmark] for paired in allowed(study.versus) for part in paired.parts)
    refusals = dict.fromkeys(line for versus in study.versus for line in versus.refusals)
    settings = [paired.difference for paired in allowed(study.versus) if paired.difference]
    link = "#effects" if any(setting.setting != differing.PERTURB for setting in settings) else ""
    refused = [NoticeBlock(f"not comparable: {line}", "bad") for line in refusals]
    apart = [
        NoticeBlock(f"{study.sides[place].name} is not on the leaderboard: {'; '.join(why)}", link=link)
        for place, why in study.apart.items()
    ]
    _, costly = _costliest(boards)
    return [
        *(NoticeBlock(text) for text in (drawn, left_out) if text),
        *(NoticeBlock(text, link="#ranking") for text in costly),
        *(apart if study.rankings else refused),
    ]


def _headline(boards: Boards, pairs: Sequence[_TwoRuns]) -> list[Block]:
    """Which runs may rank first; without a leaderboard, the difference of each pair."""
    rule = (
        f"A difference is shown (▲ better, ▼ worse) only if its p, by Holm over {comparison.family(boards.tests)}, is "
        "at most 0.05; in slices, p is by Holm over one measure and dimension. Only a gate gives a verdict."
    )
    said: list[Block] = [pair.headline() for pair in pairs if not (pair.several and pair.changed)]
    if boards.study.rankings:
        said = [leaderboards.leading(boards)]
    if any(pair.several and pair.changed for pair in pairs):
        said.append(NoticeBlock(WITHOUT_RANK, "open", "#robustness"))
    return [*said, TextBlock(lines=(rule,))] if said else []


# ---- the leaderboard -------------------------------------------------------------------------------------------------


def _costliest(boards: Boards) -> tuple[str, list[str]]:
    """The run that costs the most questions, "" if none costs many; and how many count, with it and without it."""
    costly = [(ranking, ranking.costliest) for ranking in boards.several if ranking.costliest is not None]
    costs = Counter[str]()
    for ranking, run in costly:
        costs[run.name] += run.scored - ranking.scored
    name = max(costs, key=costs.__getitem__, default="")
    return name, [
        f"{boards.title(ranking)}: all numbers are over the {ranking.scored:,} of {ranking.asked:,} questions that "
        f"every run has a score for; without {name} they would be over {run.scored:,}."
        for ranking, run in costly
        if run.name == name
    ]


def _leaderboard(boards: Boards) -> list[Block]:
    """The leaderboard, and the one without the run that costs many questions."""
    name, _ = _costliest(boards)
    if not name:
        return leaderboards.tables(boards)
    others = [side for side in boards.study.sides if side.name != name]
    margin = boards.study.equivalent
    without = comparing.study(
        *(others, boards.benchmarks),
        flips=False,
        rank_two=True,
        units=False,
        robust=False,
        equivalent=None if margin is None else 100 * margin,
    )
    return [
        *leaderboards.tables(boards, ["All runs"]),
        *leaderboards.tables(Boards(without, boards.benchmarks, boards.notes), [f"Without {name}"]),
    ]


# ---- pairs of runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TwoRuns:
    """Two runs that are compared, and their place among the pairs, from 1. `tests` as for `comparison.sections`."""

    place: int
    versus: Versus
    benchmarks: Mapping[str, Benchmark]
    scales: Collection[tuple[str, str, str]]
    """The measures whose units are in the bundle, by benchmark, technique and name."""
    tests: int
    several: bool
    """Whether the page is of more than these two runs."""

    @property
    def paired(self) -> Paired:
        """The comparison."""
        return self.versus.paired

    @property
    def setting(self) -> str:
        """The one setting that differs; "" without one."""
        return "" if self.paired.difference is None else self.paired.difference.setting

    @property
    def changed(self) -> bool:
        """Whether images or questions were changed and nothing else, so that the section of robustness has them."""
        return differing.changed(self.paired.difference)

    @property
    def title(self) -> str:
        """The names of both runs, and the one setting in which they differ."""
        return comparison.title(self.paired)

    @property
    def names(self) -> tuple[str, str]:
        """The names of the new run and of its baseline."""
        return self.paired.new.name, self.paired.baseline.name

    @property
    def meaning(self) -> str:
        """The effect that new minus baseline is; "" without one setting."""
        return "" if self.paired.difference is None else f"New minus baseline is {self.paired.difference.effect}."

    @property
    def notes(self) -> list[str]:
        """What limits the comparison of both runs, and of each part."""
        parts = [(part, comparison.warnings(part, self.paired, named=True)) for part in self.paired.parts]
        unchanged = [comparison.UNCHANGED] if self.paired.unchanged else []
        return [
            *self.versus.notes,
            *unchanged,
            *(f"{self.titled(part)}: {line}" for part, lines in parts for line in lines),
            *(f"{self.titled(part)}: {line}" for part, _ in parts for line in comparison.untested(self.paired, part)),
        ]

    def titled(self, part: PairedPart) -> str:
        """The title of a benchmark, with the technique if it has several."""
        techniques = {other.technique for other in self.paired.parts if other.benchmark == part.benchmark}
        return titled(self.benchmarks[part.benchmark], part.technique, techniques)

    def benchmark(self, part: PairedPart) -> Benchmark:
        """The benchmark of a part, with the measures that count under the protocols of the runs."""
        sides = self.paired.new, self.paired.baseline
        return under_protocols(self.benchmarks[part.benchmark], sides, part.technique)

    def whole(self, part: PairedPart) -> list[Compared]:
        """The headline measures of a part over all questions, in the order of the benchmark."""
        own = {row.metric: row for row in comparison.measures_in(self.paired, part) if not row.slice}
        return [own[name] for name in self.benchmark(part).headline if name in own]

    def headline(self) -> HeadlineBlock:
        """The question that the one setting answers in which the runs differ, and the first measure of each part."""
        difference = self.paired.difference
        question = "" if difference is None else QUESTIONS.get(difference.setting, "")
        family = sum(row.headline and not row.slice and row.p is not None for row in self.paired.tables)
        corrected = f"{self.tests} tests" if self.tests else f"{family} measures" if family > 1 else ""
        link = f"#pair-{self.place}"
        return HeadlineBlock(
            " ".join(filter(None, (question, self.title))),
            lines=tuple(filter(None, (self.meaning,))),
            sentences=tuple(
                sentence(self.titled(part), part, self.paired, self.whole(part), corrected, link)
                for part in self.paired.parts
            ),
        )

    def section(self) -> PageSection:
        """The tables of the pair: headline measures of each part, and slices by measure and dimension."""
        how = (
            f"New minus baseline, in points; intervals and p two-sided; p by Holm over {comparison.family(self.tests)}."
        )
        if (margin := self.paired.equivalent) is not None:
            how += f" {leaderboards.start(comparison.tested_alike(margin))}"
        blocks: list[Block | None] = [TextBlock(lines=(self.meaning,)) if self.meaning else None]
        for part in self.paired.parts:
            titled = f"{self.titled(part)}: {comparison.on_both(part)}"
            rows = self.whole(part)
            own = leaderboards.start(comparison.of_own(rows)) if comparison.of_own(rows) else ""
            blocks.append(table_block(self.table(titled, "measure", rows, f"{how} {own}".rstrip())))
            blocks += map(table_block, comparison.of_confidences(self.paired, part))
        for part in self.paired.parts:
            benchmark = self.benchmark(part)
            for each in comparison.slices(self.paired, part, benchmark, benchmark.headline, self.tests):
                tabs = (f"{self.titled(part)}: {label(each.measure)}", label(each.dimension))
                table = self.table(" by ".join(tabs), tabs[1], each.rows, f"These slices are {each.status}.")
                blocks.append(table_block(table, first=ROWS, tabs=tabs))
        return section(f"pair-{self.place}", self.title, blocks, folded=self.several, printed=not self.several)

    def table(self, title: str, heading: str, rows: Sequence[Compared], note: str) -> Table:
        """Measures of both runs with links to the questions that flipped, the largest loss of slices first."""
        of = dict(zip(("new", "baseline"), self.names, strict=True))
        table = comparison.tabled(title, heading, rows, self.paired.difference, _name, self.about, of)
        alone = any(_alone(cell) for row in table.rows for cell in row if isinstance(cell, Figure))
        lower = any(row.better == "lower" for row in rows)
        sort = f"{'-' if lower else ''}difference" if any(row.slice for row in rows) else ""
        return replace(table, notes=(note, ALONE) if alone else (note,), sort=sort)

    def about(self, row: Compared) -> About:
        """Links to the flips of a row, and abbreviations of its slice or whether less is better."""
        key, own = (row.benchmark, row.technique, row.metric), row.comparison
        tags = " ".join(query_of(*each) for each in row.slice.items())
        # They stand behind the difference and its interval, of whole parts also behind the test of being alike.
        part = [each for each in self.paired.tables if (each.benchmark, each.technique) == key[:2]]
        at = 5 if row.slice or comparison.margin_of(part) is None else 7
        flips = {0: (own.gained + own.lost, "worse,better"), at: (own.gained, "better"), at + 1: (own.lost, "worse")}
        links = {
            cell: link_of_runs(self.names, key, f"flip:{way} {tags}".strip())
            for cell, (count, way) in flips.items()
            if count and key in self.scales
        }
        short = ", ".join(name for each in row.slice.items() for name in lexicon.abbreviations(*each))
        return About(links, note="less is better" if row.better == "lower" and not row.slice else short)


def _name(row: Compared) -> str:
    """The measure, or the value of its slice, for people."""
    return title_of(*next(iter(row.slice.items()))) if row.slice else label(row.metric)


def _alone(figure: Figure) -> bool:
    """Whether a difference is not shown, though its own interval lies to one side of 0."""
    if not figure.sign or figure.few or figure.tone or figure.low is None or figure.high is None:
        return False
    return figure.low > 0 or figure.high < 0


# ---- the runs --------------------------------------------------------------------------------------------------------


def _runs(boards: Boards, images: str) -> Block | None:
    """The set-up of each run, and what its answers lack."""
    columns = (
        *(*texts("run", "model", "technique", "images"), *numbers("answers"), Column("invalid %", "figure", "invalid")),
        *(*numbers("cut off"), *texts("started")),
    )
    study = boards.study
    rows = [_facts(side) for side in study.sides]
    about = tuple(boards.about(side.name) for side in study.sides)
    whose = "all runs of the leaderboard" if study.rankings else "both runs"
    line = "Invalid answers were refused, abstained or could not be read; they count as wrong."
    if study.versus:
        line = f"Differences are new minus baseline, over the questions that {whose} scored. {line}"
    return table_block(Table("", columns, tuple(rows), notes=tuple(filter(None, (line, images))), about=about))


def _facts(side: Side) -> tuple[object, ...]:
    techniques = dict.fromkeys(name for names in side.asked.values() for name in names)
    answers = len(side.results)
    invalid = sum(result.score.outcome in INVALID_OUTCOMES for result in side.results)
    truncated = sum(metrics.is_complete(result) is False for result in side.results)
    share = of_units(invalid / answers if answers else None, answers, "answers")
    started = side.run.started[:16].replace("T", " ")
    return (
        side.name,
        side.model,
        ", ".join(techniques),
        side.run.ablation or side.run.protocol.perturb or "original",
        answers,
        share,
        truncated,
        started,
    )


def _limits(side: Side) -> list[str]:
    """What is missing of a run, and the selected part."""
    errors = sum(result.score.outcome == "error" for result in side.results)
    failed = [f"{errors:,} of {len(side.results):,} ended in error, without a score"] if errors else []
    return [*side.lacking, *failed, *(f"selected {line}" for line in side.selected)]


def _notes(pairs: Sequence[_TwoRuns]) -> Block | None:
    """The notes of all pairs, each once, with its pairs unless it holds for all."""
    named: dict[str, list[str]] = {}
    for pair in pairs:
        for note in pair.notes:
            named.setdefault(note, []).append(pair.title)
    lines = [note if len(of) == len(pairs) else f"{note} ({'; '.join(of)})" for note, of in named.items()]
    return TextBlock("Notes", tuple(lines), folded=len(lines) > SHOWN) if lines else None
