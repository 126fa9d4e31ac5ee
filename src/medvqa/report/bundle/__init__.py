"""A run, a comparison or a lexical tree as a bundle: the named blocks that a page is drawn from (docs/bundle.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Literal

from medvqa import memory
from medvqa.comparing import Study, gating
from medvqa.items import KINDS, OUTCOMES, Benchmark, Item
from medvqa.records import run_folder
from medvqa.report import comparison as compared_tables
from medvqa.report.build import Report
from medvqa.report.bundle import boards, failing, packing, questions, versus
from medvqa.report.bundle.facts import command, declaring_files
from medvqa.report.bundle.gate import gate_of
from medvqa.report.bundle.head import VERSION, BundleHead, RunView
from medvqa.report.bundle.method import method_of
from medvqa.report.bundle.packing import Packed
from medvqa.report.bundle.page_blocks import PageSection
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.prompts import Packer
from medvqa.report.bundle.questions import PairOfRuns, RunHead
from medvqa.report.bundle.scorecard import scorecard_of
from medvqa.report.bundle.slices import slices_of
from medvqa.report.bundle.verdict import verdict_of
from medvqa.report.bundle.versus import ComparisonView

Blocks = Mapping[str, bytes]
"""The blocks of a bundle by name, each as it is before it is deflated; image files are not (`images/...`)."""


@memory.no_cycle_search()
def of_run(report: Report, pictures: Pictures) -> Blocks:
    """The bundle of a run."""
    view = RunView(
        pictures.note,
        verdict_of(report),
        gate_of(report.gate),
        scorecard_of(report),
        failing.failing(report),
        slices_of(report),
        method_of(report),
    )
    asked = Packer(report, pictures.load)
    packed = packing.of_run(
        report.parts,
        pictures,
        tags=failing.tags_of(report),
        prompts=asked,
        command=command(report.run),
        declared=declaring_files(report.run),
    )
    model = report.run.model.name
    digest = run_folder.answers_digest([result for part in report.parts for result in part.results])
    runs = [RunHead(report.folder.name, model, digest)]
    drawn = blocks(packed, kind="run", title=report.title, about=model, runs=runs, run=view)
    return {**drawn, "prompts": questions.encode(asked.block)}


@memory.no_cycle_search()
def of_comparison(study: Study, benchmarks: Mapping[str, Benchmark], pictures: Pictures) -> Blocks:
    """The bundle of several runs.

    `pictures` are those of questions. The blocks `csv/measures` and `csv/ranking` are tables for spreadsheets, as
    JSON strings.
    """
    packed = packing.of_study(study, benchmarks, pictures)
    places = {side.name: place for place, side in enumerate(study.sides)}
    pairs = [PairOfRuns(places[each.paired.new.name], places[each.paired.baseline.name]) for each in study.versus]
    runs = [RunHead(side.name, side.model, gating.digest(side.run, side.results)) for side in study.sides]
    return {
        **blocks(
            packed,
            kind="comparison",
            title=versus.title(study),
            about="comparison",
            runs=runs,
            comparison=versus.view(study, benchmarks, pictures, packed),
            pairs=pairs,
        ),
        "csv/measures": questions.encode(compared_tables.as_csv(versus.allowed(study.versus))),
        "csv/ranking": questions.encode(boards.ranking_csv(study.rankings)),
    }


def of_tree(parts: Sequence[tuple[Benchmark, Sequence[Item]]]) -> Blocks:
    """The bundle of lexical trees, without a run."""
    declared = {b.name: PurePath(b.declared.path).name for b, _ in parts if b.declared is not None}
    pictures = Pictures("none", "", left_out={benchmark.name: "this page has no images" for benchmark, _ in parts})
    packed = packing.of_items(parts, pictures, declared)
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
    pairs: Sequence[PairOfRuns] = (),
) -> Blocks:
    """The blocks of packed questions with what is said about them."""
    head = BundleHead(
        VERSION,
        kind,
        title,
        about,
        f"pytest-medvqa {version('pytest-medvqa')}",
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
        packing.CHUNK,
        list(sections),
        run,
        comparison,
        tuple(pairs),
        tuple(packed.scales),
        packed.cut,
        packed.left_out,
    )
    return {
        "head": questions.encode(head),
        "tables": questions.encode(packed.tables),
        "columns": packed.columns.block,
        **{f"answers/{k}": chunk for k, chunk in enumerate(packed.answers)},
        **packed.files,
    }
