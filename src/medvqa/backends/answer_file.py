"""A file as a model, whose answers were recorded: what `replay:FILE` and `human:FILE` share."""

from __future__ import annotations

import hashlib
import os
from functools import cached_property
from pathlib import Path

from medvqa.backend import Backend
from medvqa.items import UsageError
from medvqa.tables import limits


class AnswerFile(Backend):
    """`NAME:FILE`, where `options` are the names of columns."""

    sends_to = None
    looks = False
    recorded = True
    argument_is_path = True

    @property
    def title(self) -> str:
        """The file without its folder."""
        return f"{self.name}:{self._path.name}" if self.argument else self.name

    @property
    def _path(self) -> Path:
        return Path(self.argument)

    @cached_property
    def _digest(self) -> str:
        """The SHA-256 of the file in hex (UsageError, DataError)."""
        where = f"--model={self.name}:{self.argument}"
        if not self.argument:
            raise UsageError(f"{where[:-1]}: {self.name} needs a file of recorded answers: {where}FILE")
        if not os.path.isfile(self.argument):
            raise UsageError(f"{where}: {'a folder' if os.path.isdir(self.argument) else 'no such file'}")
        if self._path.stat().st_size > limits.MAX_BYTES:
            raise limits.larger(str(self._path), limits.MAX_BYTES)
        try:
            with self._path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(f"{where}: cannot be read: {error.strerror}") from None

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file in hex, with that of the typed columns, if there are some."""
        columns = repr(self.options) if self.options != type(self.options)() else ""
        return f"{self._digest}-{hashlib.sha256(columns.encode()).hexdigest()[:16]}" if columns else self._digest

    def identified(self) -> str:
        """The answers are those of the file."""
        return "the digest of its file"
