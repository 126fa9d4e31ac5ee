"""A page with every kind of block."""

import json
from collections.abc import Sequence
from pathlib import Path

from medvqa import report
from medvqa.figures import About, Column, Figure, Table
from medvqa.report import bundle
from medvqa.report.bundle import axes, questions
from medvqa.report.bundle.page_blocks import (
    FigureCell,
    HeadlineBlock,
    MatrixBlock,
    MatrixCell,
    MatrixLabel,
    NamedFact,
    NoticeBlock,
    PageColumn,
    PageRow,
    PageSection,
    PageSentence,
    PageWord,
    PlotBlock,
    PlotPoint,
    PlotSeries,
    QuestionChoice,
    QuestionsBlock,
    TableBlock,
    TextBlock,
    figure_cell,
    table_block,
)
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.html import page
from support import pages

GMAI = "phantom-gmai-mmbench"
WORDS = ("ct", "mri", "x-ray", "ultrasound", "fundus photography", "endoscopy", "dermoscopy", "histopathology")
SELECT = f"#questions?b={GMAI}&q=outcome%3Acorrect"


def share(k: int, n: int = 40, **given: object) -> Figure:
    """A share of 40 items with an interval and the level of chance."""
    value = (7 * k % 11) / 11
    bounds = {} if n < 10 else {"low": max(0, value - 0.1), "high": min(1, value + 0.12)}
    return Figure(value, n=n, count=value * n, levels={"random": 0.25, "whole": 0.5}, **bounds, **given)


def slices(measure: str, number: int = 30) -> Table:
    """Slices of two dimensions; one of them has few items, one no value."""
    columns = (
        Column("Slice"),
        Column(f"{measure}, %", "figure", measure),
        Column("95 % interval", "interval"),
        Column("Counted", "units"),
        Column("p", "chance", better="lower"),
    )
    figures = [share(k, 3 if k == 2 else 40) if k != 3 else Figure(None, n=0) for k in range(number)]
    return Table(
        f"{measure} by slice",
        columns,
        tuple((f"value {k}", each, each, each, 0.0625 * k if k < 4 else None) for k, each in enumerate(figures)),
        ("The same questions may stand in several slices.",),
        f"-{measure}, %",
        tuple(
            About({0: SELECT}, "modality" if k < number // 2 else "task", "short" if k == 1 else "")
            for k in range(number)
        ),
    )


def differences() -> Table:
    """Differences of three measures: one better, one worse, one not shown."""
    figures = [
        Figure(0.08, 0.02, 0.14, 200, "items", sign=True, tone="better"),
        Figure(-0.09, -0.16, -0.02, 200, "items", sign=True, tone="worse", levels={"margin": -0.02}),
        Figure(0.01, -0.05, 0.07, 200, "items", sign=True),
    ]
    columns = (
        Column("Measure"),
        Column("Difference, points", "figure", "difference"),
        Column("95 % interval", "interval"),
        Column("Lost", "number", better="lower"),
    )
    rows = tuple((f"measure {k}", each, each, 1234 * k) for k, each in enumerate(figures))
    return Table("Differences", columns, rows)


def matrix(title: str, size: int, **given: object) -> MatrixBlock:
    """A matrix of shares; fields of the diagonal are better, one has few items, one is left out."""
    fields = [
        MatrixCell(
            row,
            column,
            figure_cell(
                share(3 * row + column, 4 if (row, column) == (1, 0) else 40, tone="better" if row == column else "")
            ),
            (row + 2 * column) % 6,
            SELECT,
        )
        for row in range(size)
        for column in range(size)
        if (row, column) != (2, 1)
    ]
    labels = [
        MatrixLabel(word, word[:2].upper(), note="40 questions" if k == 0 else "") for k, word in enumerate(WORDS * 2)
    ]
    return MatrixBlock(
        title, "modality", "task", [MatrixLabel(word) for word in (WORDS * 2)[:size]], labels[:size], fields, **given
    )


def sections() -> list[PageSection]:
    """Sections with every kind of block, fold, tabs and notices."""
    accuracy = share(5)
    tables = [table_block(slices(name), first=5, tabs=(name,)) for name in ("accuracy", "macro_accuracy")]
    moved = table_block(differences())
    folded = table_block(
        Table("Agreement", (Column("Judge"), Column("Kappa", "number")), (("judge-a", 0.71),)), folded=True
    )
    blocks = [block for block in (*tables, moved, folded) if block is not None]
    points = [
        PlotPoint(
            k / 10, (k / 10) ** 1.3, max(0, k / 10 - 0.2), min(1, k / 10 + 0.1), f"{10 * k} %: {k} answers", SELECT
        )
        for k in range(10)
    ]
    return [
        PageSection(
            "result",
            "Result",
            [
                HeadlineBlock(
                    "Part of the data",
                    "part",
                    ("60 of 500 questions, by --limit=60",),
                    (
                        PageSentence(
                            "Phantom GMAI-MMBench",
                            [
                                PageWord("71.0 %", "value", 0.71),
                                PageWord(" of questions right; chance is "),
                                PageWord("25.0 %", "random", 0.25),
                            ],
                            "good",
                            "Micro average.",
                            figure_cell(accuracy),
                            axes.PERCENT,
                            SELECT,
                        ),
                        PageSentence("Phantom MediConfusion", [PageWord("not shown to be above chance")], "open"),
                    ),
                ),
                *(NoticeBlock(f"Notice {k}.", "bad" if k == 0 else "part", SELECT if k == 1 else "") for k in range(9)),
            ],
        ),
        PageSection("slices", "Slices", [blocks[0], blocks[1]]),
        PageSection("changes", "Differences", [blocks[2], blocks[3]], printed=False),
        PageSection(
            "failing",
            "Where it fails",
            [
                QuestionsBlock(
                    "Outcomes",
                    [
                        QuestionChoice("correct", 60, SELECT),
                        QuestionChoice("wrong", 25),
                        QuestionChoice("refused", 5),
                        QuestionChoice("error", 0),
                    ],
                    90,
                    ("Refused answers count as wrong.",),
                ),
                matrix("Accuracy by modality and task", 5),
                matrix("A wide matrix", 16),
            ],
        ),
        PageSection(
            "drawings",
            "Drawings",
            [
                PlotBlock(
                    "Calibration",
                    "confidence, %",
                    "correct, %",
                    axes.PERCENT,
                    axes.PERCENT,
                    [PlotSeries("answers", points)],
                    diagonal=True,
                ),
                PlotBlock(
                    "Latency",
                    "question",
                    "seconds",
                    axes.around([0, 10], is_percent=False),
                    axes.around([0, 3], is_percent=False),
                    [
                        PlotSeries("first", [PlotPoint(k, k % 3 + 0.5, label=f"{k}") for k in range(1, 10)], "bars"),
                        PlotSeries("second", [PlotPoint(k, k / 5, label=f"{k}") for k in range(1, 10)], "line"),
                    ],
                ),
            ],
        ),
        PageSection(
            "method",
            "Method",
            [
                TextBlock(
                    "Commands",
                    ("Each asks the questions of one benchmark again.",),
                    verbatim="pytest --model=phantom-vlm -n 8",
                ),
                TextBlock("Settings", facts=tuple(NamedFact(f"setting {k}", "value " * k) for k in range(1, 12))),
            ],
            folded=True,
        ),
    ]


def hostile(texts: Sequence[str]) -> list[PageSection]:
    """Sections of which every text and link is hostile."""

    def nth(k: int) -> str:
        return texts[k % len(texts)]

    cells = [
        *(FigureCell(0.5, each, 0.4, 0.6, 40, each, each, levels={each: 0.3}, of={each: each}) for each in texts),
        nth(0),
    ]
    links = {str(place): text for place, text in enumerate(texts)}
    named = Table(
        nth(0),
        tuple(Column(text) for text in texts),
        (tuple(texts),),
        tuple(texts),
        nth(0),
        (About(dict(enumerate(texts)), nth(1), nth(2)),),
    )
    plain = table_block(named)
    labels = [MatrixLabel(text, text, text, text) for text in texts]
    tabbed = [
        TextBlock(text, (text,), (NamedFact(text, text, text),), text, tabs=(text, nth(k + 1)))
        for k, text in enumerate(texts)
    ]
    axis = axes.Axis(0, 1, [axes.Tick(0.5, nth(3))])
    table = TableBlock(
        nth(1),
        [PageColumn(nth(k), "figure", nth(k), "lower", nth(k + 1), nth(k + 2), axis) for k in range(len(cells))],
        [PageRow(list(cells), links, nth(4), nth(5))],
        tuple(texts),
        nth(2),
        1,
    )
    return [
        PageSection(
            "first",
            nth(0),
            [*([] if plain is None else [plain]), table, *(NoticeBlock(text, "bad", text) for text in texts)],
        ),
        PageSection(
            "second",
            nth(1),
            [
                HeadlineBlock(
                    nth(2),
                    "bad",
                    tuple(texts),
                    tuple(
                        PageSentence(
                            text, [PageWord(text, text, 1.0), PageWord(text)], "bad", text, cells[0], axis, text
                        )
                        for text in texts
                    ),
                ),
                MatrixBlock(
                    nth(3),
                    nth(4),
                    nth(5),
                    labels,
                    labels,
                    [MatrixCell(k, k, cells[k], 9, text) for k, text in enumerate(texts)],
                    tuple(texts),
                ),
                PlotBlock(
                    nth(0),
                    nth(1),
                    nth(2),
                    axis,
                    axis,
                    [PlotSeries(text, [PlotPoint(0.5, 0.5, 0.1, 0.9, text, text)], "bars") for text in texts],
                    notes=tuple(texts),
                ),
                QuestionsBlock(nth(4), [QuestionChoice(text, 3, text) for text in texts], 9, tuple(texts)),
                *tabbed,
            ],
            folded=True,
        ),
    ]


def write(folder: Path, drawn: Sequence[PageSection]) -> Path:
    """Write the page of a run of the phantom whose summary has these sections."""
    made = report.build(pages.write(folder, pages.guesses()), pages.PHANTOM)
    blocks = dict(bundle.of_run(made, Pictures("none", "")))
    head = json.loads(blocks["head"]) | {"sections": json.loads(questions.encode(drawn))}
    file = folder / page.FILE
    file.write_bytes(b"".join(page.draw(made.title, {**blocks, "head": json.dumps(head).encode()})))
    return file
