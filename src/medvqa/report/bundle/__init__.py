"""A run, a comparison or a lexical tree as a bundle: the named blocks of a page (docs/decisions/0008-pages.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import PurePath
from types import MappingProxyType
from typing import Literal

import msgspec

from medvqa import memory
from medvqa.comparing import Study, gating
from medvqa.comparing.gating import Decided
from medvqa.items import KINDS, OUTCOMES, Benchmark, Item
from medvqa.records import run_folder
from medvqa.report import comparison as compared_tables
from medvqa.report.build import Report
from medvqa.report.bundle import failing, packing, questions, several_runs
from medvqa.report.bundle.confidence import confidence_section
from medvqa.report.bundle.facts import command, declaring_files
from medvqa.report.bundle.gate import GATE, gate_section
from medvqa.report.bundle.head import VERSION, BundleHead
from medvqa.report.bundle.method import method_section
from medvqa.report.bundle.packing import Packed
from medvqa.report.bundle.page_blocks import PageSection
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.prompts import Packer
from medvqa.report.bundle.questions import PairOfRuns, RunHead
from medvqa.report.bundle.scorecard import scorecard_section
from medvqa.report.bundle.slices import slices_section
from medvqa.report.bundle.verdict import verdict_section

Blocks = Mapping[str, bytes]
"""The blocks of a bundle by name, each as it is before it is deflated; image files are not (`images/...`)."""


@memory.no_cycle_search()
def of_run(report: Report, pictures: Pictures) -> Blocks:
    """The bundle of a run."""
    asked = Packer(report.folder, report.run)
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
    commands = [benchmark.command for benchmark in packed.benchmarks]
    return blocks(
        packed,
        kind="run",
        title=report.title,
        about=model,
        runs=runs,
        sections=sections_of(report, pictures.note, commands),
        more={"prompts": questions.encode(asked.block)},
    )


def sections_of(report: Report, images: str, commands: Sequence[str]) -> list[PageSection]:
    """The summary of a run from its top, without empty sections."""
    sections = [
        verdict_section(report, images),
        *([gate_section(report.gate)] if report.gate is not None else []),
        scorecard_section(report),
        failing.failing_section(report),
        failing.pairs_section(report),
        confidence_section(report),
        slices_section(report),
        method_section(report, commands),
    ]
    return [section for section in sections if section.blocks]


class _SectionId(msgspec.Struct):
    id: str


def with_gate(head: bytes, decided: Decided) -> bytes | None:
    """Return the head of a run's bundle with another verdict; None if this version did not make it."""
    fields = msgspec.json.decode(head, type=dict[str, msgspec.Raw])
    made = tuple(bytes(fields.get(name, b"")) for name in ("generator", "version"))
    if made != (msgspec.json.encode(_generator()), msgspec.json.encode(VERSION)):
        return None
    sections = msgspec.json.decode(fields["sections"], type=list[msgspec.Raw])
    others = [each for each in sections if msgspec.json.decode(each, type=_SectionId).id != GATE]
    verdict = msgspec.Raw(questions.encode(gate_section(decided)))
    # The verdict on the gate stands below the first screen.
    fields["sections"] = msgspec.Raw(msgspec.json.encode([*others[:1], verdict, *others[1:]]))
    return msgspec.json.encode(fields)


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
    return blocks(
        packed,
        kind="comparison",
        title=several_runs.title(study),
        about="comparison",
        runs=runs,
        sections=several_runs.sections(study, benchmarks, images=pictures.note, left_out=packed.left_out),
        pairs=pairs,
        more={
            "csv/measures": questions.encode(compared_tables.as_csv(several_runs.allowed(study.versus))),
            "csv/ranking": questions.encode(compared_tables.ranking_csv(study.rankings)),
        },
    )


def of_tree(parts: Sequence[tuple[Benchmark, Sequence[Item]]]) -> Blocks:
    """The bundle of lexical trees, without a run."""
    declared = {b.name: PurePath(b.declared.path).name for b, _ in parts if b.declared is not None}
    pictures = Pictures("none", "", left_out={benchmark.name: "this page has no images" for benchmark, _ in parts})
    packed = packing.of_items(parts, pictures, declared)
    return blocks(packed, kind="tree", title="Lexical trees", about="", runs=[])


def of_history(sections: Sequence[PageSection]) -> Blocks:
    """The bundle of runs in the order of time, without questions."""
    packed = packing.of_items([], Pictures("none", ""), {})
    return blocks(
        packed, kind="history", title="History", about="runs in the order of time", runs=[], sections=sections
    )


def blocks(
    packed: Packed,
    *,
    kind: Literal["run", "comparison", "tree", "history"],
    title: str,
    about: str,
    runs: list[RunHead],
    sections: Sequence[PageSection] = (),
    pairs: Sequence[PairOfRuns] = (),
    more: Mapping[str, bytes] = MappingProxyType({}),
) -> Blocks:
    """The blocks of packed questions with what is said about them, in the order in which a page needs them."""
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
        packing.CHUNK,
        list(sections),
        tuple(pairs),
        tuple(packed.scales),
        packed.cut,
        packed.left_out,
    )
    return {
        "head": questions.encode(head),
        **questions.table_blocks(packed.tables),
        "columns": packed.columns.block,
        **more,
        **packed.files,
        **{f"answers/{k}": chunk for k, chunk in enumerate(packed.answers)},
    }


def _generator() -> str:
    return f"pytest-medvqa {version('pytest-medvqa')}"
