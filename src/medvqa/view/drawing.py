"""Bundles of runs and comparisons, each drawn by a process of its own.

They have patients' texts. A bundle is kept in a temporary file without a name: a killed server leaves none of it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

from medvqa import printing
from medvqa.child_process import Child, ChildEnded
from medvqa.items import MedVQAError
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.records.sent_prompts import PROMPTS
from medvqa.view import draw_process
from medvqa.view.draw_process import BundleReply, BundleRequest, RunToDraw
from medvqa.view.run_index import refuse_links, stamp
from medvqa.view.shapes import Drawn
from medvqa.view.sources import Sources

KEPT = 8
"""Bundles that are kept: pages in other tabs read answers from theirs."""
MOST = 20
"""Runs of one comparison."""
LARGEST = 2**31
"""Bytes of a drawn bundle."""
_FILES = (RESULTS, RUN, PROMPTS, "gate.json", "errors.json", "blank.json", "agreement.json")


class NotDrawn(MedVQAError):
    """A bundle cannot be drawn; the message is the reason, for people."""


class NoBundle(MedVQAError):
    """No bundle has this key or block any more."""


@dataclass(frozen=True)
class _KeptBundle:
    file: IO[bytes]
    blocks: Mapping[str, tuple[int, int]]
    runs: tuple[Path, ...]
    drawn: Drawn


class Drawings:
    """The bundles that were drawn. Threads may share it; `close` ends its process."""

    def __init__(self, sources: Sources) -> None:
        """Draw nothing yet."""
        self._sources = sources
        self._kept: OrderedDict[str, _KeptBundle] = OrderedDict()
        self._lock = threading.Lock()
        self._drawing = threading.Lock()
        self._process: Child | None = None
        self._closed = False

    def drawn(self, runs: Sequence[tuple[str, Path]]) -> Drawn:
        """Return the bundle of runs, given by name and folder; draw it unless it is kept (NotDrawn, UsageError)."""
        if not 0 < len(runs) <= MOST:
            raise NotDrawn(f"{len(runs)} runs are named: a page shows 1 to {MOST}. medvqa report compares more.")
        for _, folder in runs:
            refuse_links(folder, _FILES)
        with self._drawing:
            key = _key(runs)
            with self._lock:
                if (kept := self._kept.get(key)) is not None:
                    self._kept.move_to_end(key)
                    return kept.drawn
            reply, content = self._asked(BundleRequest(self._sources, [RunToDraw(n, os.fspath(f)) for n, f in runs]))
            drawn = Drawn(key, [printing.line(note) for note in reply.notes])
            file = tempfile.TemporaryFile()  # noqa: SIM115 - `_keep` closes it.
            file.write(content)
            self._keep(key, _KeptBundle(file, reply.blocks, tuple(folder for _, folder in runs), drawn))
            return drawn

    def block(self, key: str, name: str) -> bytes:
        """Return a block, deflated (NoBundle)."""
        with self._lock:
            kept = self._known(key)
            if name not in kept.blocks:
                raise NoBundle("This page has no such block.")
            start, length = kept.blocks[name]
            kept.file.seek(start)
            return kept.file.read(length)

    def runs(self, key: str) -> Sequence[Path]:
        """Return the run folders of a bundle (NoBundle)."""
        with self._lock:
            return self._known(key).runs

    def stop(self) -> None:
        """End the process that draws, if there is one: the request for its bundle fails."""
        process = self._process
        if process is not None:
            process.stop()

    def close(self) -> None:
        """Draw nothing any more."""
        self._closed = True
        self.stop()

    def _known(self, key: str) -> _KeptBundle:
        if key not in self._kept:
            raise NoBundle("This page was drawn anew since: load it again.")
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, key: str, kept: _KeptBundle) -> None:
        with self._lock:
            self._kept[key] = kept
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)[1].file.close()

    def _asked(self, request: BundleRequest) -> tuple[BundleReply, bytes]:
        """Send a request to a new process and read its reply (NotDrawn)."""
        with tempfile.TemporaryFile() as errors:
            self._process = Child(draw_process.__name__, errors=errors)
            if self._closed:
                self._process.close()
            try:
                reply, content = self._process.ask(request, BundleReply, most=LARGEST)
            except ChildEnded as ended:
                errors.seek(0)
                raise NotDrawn(f"The page could not be drawn: {self._why(errors.read(), ended.code)}") from None
            finally:
                self._process.close()
                self._process = None
        if reply.why:
            raise NotDrawn(printing.line(reply.why))
        return reply, content

    def _why(self, errors: bytes, code: int) -> str:
        if self._closed:
            return "the server has ended."
        said = errors[-20_000:].decode("utf-8", "replace").strip()
        last = printing.line(said.splitlines()[-1])[:300] if said else f"exit code {code}"
        return f"the process that draws it has ended ({last})."


def _key(runs: Sequence[tuple[str, Path]]) -> str:
    """A digest of the names of runs, and of the stamps of their files."""
    stamps = [(name, os.fspath(folder), [stamp(folder / file) for file in _FILES]) for name, folder in runs]
    return sha256(repr(stamps).encode("utf-8", "surrogateescape")).hexdigest()[:32]
