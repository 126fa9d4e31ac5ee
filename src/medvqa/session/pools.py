"""Find and read the pool of solved examples that --shot-pool names: a benchmark, a shipped pool, or a file.

A table holds a question in each row, in the format of `medvqa.table`. A TOML file holds them as [[shots]] with the same
fields, and may have prompts of its own:

    public = true
    obtain = "Download the pictures from ..."
    [[shots]]
    question = "Which organ?"
    options = { A = "liver", B = "spleen" }
    answer = "A"
    image = "17.png"
    [forms.mc]
    system = "Follow the examples. "
    text = "Question: {question}\n{options}Answer:"
    option = "{letter}: {text}\n"
    answer = "{letter}: {text}"
    ends = ["<|endofchunk|>"]
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from medvqa import benchmarks, decode, printing
from medvqa.benchmarks import folders, origins, own, table_files
from medvqa.benchmarks.table import Source
from medvqa.benchmarks.table_declaration import TableDeclaration
from medvqa.items import Benchmark, Technique, UsageError
from medvqa.protocols.prompts import FIELDS, OPTION_FIELDS, Template, wrong_field
from medvqa.protocols.shots import Form, Pool
from medvqa.records import run_folder
from medvqa.tables import TableRow

FOLDER = "shots"
"""The folder of shipped pools within the fixtures."""


class _FormTable(msgspec.Struct):
    """A table [forms.TECHNIQUE]; see `Form` and `Template`."""

    text: str
    system: str = ""
    option: str = ""
    answer: str = "{letter}"
    ends: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("\n\n",)
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


class _PoolFile(msgspec.Struct):
    """The content of a pool in TOML."""

    shots: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)]
    public: bool = False
    obtain: str = ""
    forms: dict[Technique, _FormTable] = {}


@dataclass(frozen=True, slots=True)
class PoolSource:
    """Where a pool is read from: `benchmark`, or `path`; `shipped`: images are sought in the data folder.

    `name` is the benchmark's, or that of the file.
    """

    name: str
    benchmark: Benchmark | None = None
    path: Path = Path()
    shipped: bool = False


def find(typed: str, known: Mapping[str, Benchmark], cwd: Path) -> PoolSource:
    """Return the pool that --shot-pool names (UsageError): a benchmark, else a shipped pool, else a file."""
    if typed in known:
        return PoolSource(typed, known[typed])
    shipped = {path.stem: path for path in sorted((folders.bundled("fixtures") / FOLDER).glob("*.toml"))}
    if typed in shipped:
        return PoolSource(typed, path=shipped[typed], shipped=True)
    path = Path(os.path.abspath(cwd / typed))
    names = sorted({*known, *shipped})
    if path.is_file():
        if path.name in names:
            # Consent, signatures and reports know a pool by its name.
            raise UsageError(
                f"--shot-pool={printing.line(typed)}: the file has the name of a pool or benchmark; rename it"
            )
        if table_files.is_file(typed) and "file" in decode.decode(path, dict[str, Any], where=f"--shot-pool={typed}"):
            benchmark = own.completed(table_files.read(path, typed))
            if benchmark.name in names:
                raise UsageError(f"{printing.line(typed)}: a pool or benchmark is called '{benchmark.name}' already")
            return PoolSource(benchmark.name, benchmark)
        return PoolSource(printing.line(path.name), path=path)
    meant = decode.did_you_mean(typed, names, "pools and benchmarks")
    raise UsageError(
        f"--shot-pool={printing.line(typed)}: no such file, pool or benchmark{meant} "
        "A file of your own is named with its path: a table or TOML file"
    )


def load(source: PoolSource, data: Path | None, root: Path) -> Pool:
    """Read a pool (UsageError, DataError). `data` is the data folder; `root` serves without one."""
    if source.benchmark is not None:
        named = source.benchmark
        needs = origins.needs_files(named)
        items = benchmarks.load_found(named, data) if needs else benchmarks.load(named, data or root)
        if items is None:
            raise UsageError(
                f"--shot-pool={source.name}: the benchmark is not there; name its folder with --data=DIR. "
                f"{origins.how_to_obtain(named)}"
            )
        return Pool(source.name, items, public=source.benchmark.public)
    declaration = TableDeclaration(file=source.name)
    table = Source(declaration, source.path, source.name, (data or root) if source.shipped else None)
    if source.path.suffix.lower() != ".toml":
        return _fixed(source, Pool(source.name, (), fixed=True), Benchmark(name=_called(source), items=table.items))
    content = decode.decode(source.path, _PoolFile, where=f"--shot-pool={source.name}")
    rows = [_row(source.name, number, shot) for number, shot in enumerate(content.shots, 1)]
    forms = {name: _form(source.name, name, form) for name, form in content.forms.items()}
    pool = Pool(source.name, (), fixed=True, public=content.public, forms=forms, obtain=content.obtain)
    return _fixed(source, pool, Benchmark(name=_called(source), items=lambda _: table.items_of(rows)))


def digest(pool: Pool) -> str:
    """The SHA-256 (hex) of a pool: its questions and keys, their order if it is fixed, and its own prompts."""
    total = hashlib.sha256(run_folder.data_digest(pool.items).encode())
    names = [item.id for item in pool.items]
    if pool.fixed and names != sorted(names):
        total.update(repr(names).encode())
    for name, form in sorted(pool.forms.items()):
        parts = (name, form.template.label, form.answer, *form.ends)
        total.update("\0".join(f"{len(part)}:{part}" for part in parts).encode())
    return total.hexdigest()


def _called(source: PoolSource) -> str:
    """The name of a file's questions, apart from all benchmarks."""
    return f"--shot-pool={source.name}"


def _fixed(source: PoolSource, pool: Pool, benchmark: Benchmark) -> Pool:
    """The pool of a file, with its questions in the file's order."""
    places = {item.id: place for place, item in enumerate(benchmark.items(source.path.parent))}
    items = benchmarks.load(benchmark, source.path.parent)
    return replace(pool, items=tuple(sorted(items, key=lambda item: places[item.id])))


def _row(file: str, number: int, shot: Mapping[str, Any]) -> TableRow:
    """The values of one [[shots]] as a row of a table, which counts from 1."""
    return TableRow(file, "shot", number, 0, {name.strip().lower(): value for name, value in shot.items()})


def _form(pool: str, technique: Technique, form: _FormTable) -> Form:
    where = f"--shot-pool={pool}: [forms.{technique}]"
    for name, text, known, needed in (
        ("text", form.text, FIELDS, "question"),
        ("option", form.option, OPTION_FIELDS, None),
        ("answer", form.answer, OPTION_FIELDS, None),
    ):
        if (wrong := wrong_field(text, known, needed)) is not None:
            names = " and ".join(f"{{{field}}}" for field in known)
            raise UsageError(
                f"{where}: {name} {wrong[1]}. Its fields are {names}; a brace that stands for itself is written twice"
            )
    stem = Path(pool).stem
    template = Template(f"{stem}/{technique}", form.text, form.option, form.system, form.max_tokens)
    return Form(template, form.answer, tuple(form.ends))
