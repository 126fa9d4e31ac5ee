"""A process that draws one bundle and ends: its memory, as large as the run needs it, goes with it."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec

from medvqa import child_process, comparing, printing, report
from medvqa.items import MedVQAError, UsageError
from medvqa.report import bundle
from medvqa.report.bundle import pictures
from medvqa.session.registry import Registry
from medvqa.view.sources import Sources

LEVEL = 6
"""Level of zlib: the user waits for it once, and the way is short."""


class RunToDraw(msgspec.Struct, frozen=True):
    """A run folder, and its name for people."""

    name: str
    folder: str


class BundleRequest(msgspec.Struct, frozen=True):
    """Draw one run, or the comparison of several with the first."""

    sources: Sources
    runs: list[RunToDraw]


class BundleReply(msgspec.Struct):
    """`why`: the reason for a failure, "" without one. `blocks`: start and length of each in the bytes that follow."""

    why: str = ""
    blocks: dict[str, tuple[int, int]] = {}
    notes: list[str] = []


def serve() -> None:
    """Answer one request."""
    with suppress(OSError):
        os.nice(5)  # A session that runs beside comes first.
    child_process.answer_all(BundleRequest, _answer)


def _answer(request: BundleRequest, _: bytes) -> tuple[BundleReply, bytes]:
    try:
        return drawn(request)
    except MedVQAError as error:
        return BundleReply(str(error)), b""
    except OSError as error:
        return BundleReply(f"The page cannot be drawn: {error.strerror or error}"), b""


def drawn(request: BundleRequest) -> tuple[BundleReply, bytes]:
    """Draw the bundle of a request: where its blocks stand, and the blocks, deflated (MedVQAError, OSError)."""
    folders = [Path(run.folder) for run in request.runs]
    registry = request.sources.registry(folders)
    notes: list[str] = []
    blocks = _run(folders[0], registry, request) if len(folders) == 1 else _several(folders, registry, request, notes)
    reply, content = BundleReply(notes=notes), bytearray()
    for name, block in blocks.items():
        deflated = zlib.compress(block, LEVEL)
        reply.blocks[name] = (len(content), len(deflated))
        content += deflated
    return reply, bytes(content)


def _run(folder: Path, registry: Registry, request: BundleRequest) -> bundle.Blocks:
    built = report.build(folder, registry.benchmarks, data=request.sources.folder)
    results = [(result, built.run) for part in built.parts for result in part.results]
    return bundle.of_run(built, pictures.served(results))


def _several(folders: list[Path], registry: Registry, request: BundleRequest, notes: list[str]) -> bundle.Blocks:
    loaded = comparing.load_runs(folders)
    sides = comparing.named_apart(loaded, [run.name for run in request.runs])
    study = comparing.study(sides, registry.benchmarks, flips=False)
    lines = dict.fromkeys(line for versus in study.versus for line in versus.refusals)
    notes += [f"not comparable: {printing.line(line)}" for line in lines]
    if not study.comparable:
        raise UsageError(f"These runs cannot be compared: {'; '.join(map(printing.line, lines))}")
    # Runs that changed no picture come first: the page shows one picture of a question.
    ordered = sorted(study.sides, key=lambda side: bool(side.run.protocol.perturb))
    shown = pictures.served((result, side.run) for side in ordered for result in side.results)
    return bundle.of_comparison(study, registry.benchmarks, shown)
