"""A run, a comparison or a lexical tree as a bundle: the named blocks that a page is drawn from (docs/bundle.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Literal

import msgspec

from medvqa import memory
from medvqa.comparing import Study, gating
from medvqa.comparing.gating import Decided
from medvqa.items import KINDS, OUTCOMES, Benchmark, Item, Result
from medvqa.records import run_folder
from medvqa.report import comparison as compared_tables
from medvqa.report.build import Report
from medvqa.report.bundle import boards, failing, questions, units, versus
from medvqa.report.bundle.facts import command, declaring_files
from medvqa.report.bundle.gate import gate_of
from medvqa.report.bundle.head import VERSION, BundleHead, RunView
from medvqa.report.bundle.method import method_of
from medvqa.report.bundle.page_blocks import PageSection
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.prompts import Packer
from medvqa.report.bundle.questions import Packed, PackedRow, RunHead
from medvqa.report.bundle.scorecard import scorecard_of
from medvqa.report.bundle.slices import slices_of
from medvqa.report.bundle.verdict import verdict_of
from medvqa.report.bundle.versus import ComparisonView

Blocks = Mapping[str, bytes]
"""The blocks of a bundle by name, each as it is before it is deflated; image files are not (`images/...`)."""


@memory.no_cycle_search()
def of_run(report: Report, pictures: Pictures) -> Blocks:
    """The bundle of a run."""
    by_name: dict[str, tuple[Benchmark, list[Result]]] = {}
    for part in report.parts:
        by_name.setdefault(part.benchmark.name, (part.benchmark, []))[1].extend(part.results)
    counted = any(part.combined != part.results for part in report.parts)
    combined = [result for part in report.parts for result in part.combined] if counted else None
    rows: Iterable[PackedRow] = (
        row
        for place, (benchmark, results) in enumerate(by_name.values())
        for row in questions.rows_of(benchmark, results, combined, place=place, tags=failing.tags_of(report))
    )
    asked = Packer(report.folder, report.run)
    packed = questions.pack(
        [benchmark for benchmark, _ in by_name.values()],
        rows,
        asked=asked,
        command=command(report.run),
        pictures=pictures,
        measures=[measure for part in report.parts for measure in part.measures],
        declared=declaring_files(report.run),
    )
    model = report.run.model.name
    everything = [result for _, results in by_name.values() for result in results]
    digest = run_folder.answers_digest(everything)
    runs = [RunHead(report.folder.name, model, digest)]
    view = RunView(
        pictures.note,
        verdict_of(report),
        gate_of(report.gate),
        scorecard_of(report),
        failing.failing(report),
        slices_of(report),
        method_of(report),
    )
    drawn = blocks(packed, kind="run", title=report.title, about=model, runs=runs, run=view)
    return {**drawn, "prompts": questions.encode(asked.block)}


def with_gate(head: bytes, decided: Decided) -> bytes | None:
    """Return the head of a run's bundle with another verdict; None if this version did not make it."""
    fields = msgspec.json.decode(head, type=dict[str, msgspec.Raw])
    if bytes(fields.get("generator", b"")) != msgspec.json.encode(_generator()):
        return None
    run = msgspec.json.decode(fields["run"], type=dict[str, msgspec.Raw])
    verdict = msgspec.Raw(questions.encode(gate_of(decided)))
    return msgspec.json.encode({**fields, "run": {**run, "gate": verdict}})


@memory.no_cycle_search()
def of_comparison(study: Study, benchmarks: Mapping[str, Benchmark], pictures: Pictures) -> Blocks:
    """The bundle of several runs.

    `pictures` are those of questions. The blocks `csv/measures` and `csv/ranking` are tables for spreadsheets, as
    JSON strings.
    """
    large = units.pack(study, benchmarks, pictures)
    runs = [RunHead(side.name, side.model, gating.digest(side.run, side.results)) for side in study.sides]
    return {
        **blocks(
            large.packed,
            kind="comparison",
            title=versus.title(study),
            about="comparison",
            runs=runs,
            comparison=versus.view(study, benchmarks, pictures, large),
        ),
        "csv/measures": questions.encode(compared_tables.as_csv(versus.allowed(study.versus))),
        "csv/ranking": questions.encode(boards.ranking_csv(study.rankings)),
    }


def of_tree(parts: Sequence[tuple[Benchmark, Sequence[Item]]]) -> Blocks:
    """The bundle of lexical trees, without a run."""
    rows = [PackedRow(0, place, item) for place, (_, items) in enumerate(parts) for item in items]
    declared = {b.name: PurePath(b.declared.path).name for b, _ in parts if b.declared is not None}
    packed = questions.pack(
        [benchmark for benchmark, _ in parts],
        rows,
        command=["pytest", "--model=MODEL"],
        pictures=Pictures("none", "", left_out={benchmark.name: "this page has no images" for benchmark, _ in parts}),
        declared=declared,
    )
    return blocks(packed, kind="tree", title="Lexical trees", about="", runs=[])


def blocks(
    packed: Packed,
    *,
    kind: Literal["run", "comparison", "tree"],
    title: str,
    about: str,
    runs: list[RunHead],
    sections: Sequence[PageSection] = (),
    run: RunView | None = None,
    comparison: ComparisonView | None = None,
) -> Blocks:
    """The blocks of packed questions with what is said about them."""
    head = BundleHead(
        VERSION,
        kind,
        title,
        about,
        _generator(),
        list(OUTCOMES),
        list(KINDS),
        runs,
        packed.benchmarks,
        packed.dimensions,
        packed.techniques,
        packed.variants,
        packed.finishes,
        packed.columns.heads,
        len(packed.answers),
        packed.chunk,
        list(sections),
        run,
        comparison,
    )
    return {
        "head": questions.encode(head),
        "tables": questions.encode(packed.tables),
        "columns": packed.columns.block,
        **{f"answers/{k}": questions.encode(chunk) for k, chunk in enumerate(packed.answers)},
        **packed.files,
    }


def _generator() -> str:
    return f"pytest-medvqa {version('pytest-medvqa')}"
