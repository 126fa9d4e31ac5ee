"""Benchmarks of users' own tables: `medvqa.table`, and TOML files that name a table and its columns.

    file = "fragen.xlsx"                                # every path is relative to this file
    images = "bilder/"
    language = "de"
    options = ["Option 1", "Option 2", "Option 3"]      # or a column with a list, and `separator`
    [columns]
    question = "Frage"
    answer = "Antwort"
    [slices]
    modality = "Modalität"
    age = { column = "Alter", cuts = [18, 65] }         # under 18, 18 to under 65, 65 and over

Both doors make one `TableDeclaration`. `read` returns the benchmark of a file (`--benchmark=klinik.toml`), and `write`
writes the file. docs/your-questions.md describes every key.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType, MethodType

import msgspec

from medvqa import decode, files, printing
from medvqa.benchmarks import own, toml_text
from medvqa.benchmarks.recorded import RecordedFile
from medvqa.benchmarks.table import Source
from medvqa.benchmarks.table_declaration import (
    ENDING,
    LETTERS,
    ROLES,
    JudgmentWords,
    TableDeclaration,
    role_of,
    words_of,
    wrong_keys,
)
from medvqa.items import Benchmark, BenchmarkFile, DataError, Item, Origin, UsageError
from medvqa.tables import limits
from medvqa.tags import lexicon


def is_file(name: str) -> bool:
    """Whether the name of a benchmark is a path of a file that declares one."""
    return name.lower().endswith(ENDING)


def benchmark_file(path: str | os.PathLike[str]) -> Benchmark:
    """Return the benchmark that a TOML file declares; the table is read when it is needed.

    A path that is not absolute starts at the folder of the file that calls this, as for `medvqa.table`. UsageError,
    which names the file and the key, for a file that is missing or wrong. docs/your-questions.md lists the keys.
    """
    return read(folder_of(sys._getframe(1)) / os.path.expanduser(path), str(path))


def read(path: Path, shown: str = "") -> Benchmark:
    """Return the benchmark that a file declares; `shown` names the file in messages (default: its path). UsageError."""
    shown = printing.line(shown or str(path))
    try:
        content = files.read(path, decode.MAX_BYTES)
    except FileNotFoundError:
        near = sorted(each.name for each in path.parent.glob(f"*{ENDING}"))
        folder = printing.line(os.path.abspath(path.parent))
        meant = decode.did_you_mean(path.name, near, f"files in {folder}")
        raise UsageError(f"{shown}: no such file{meant}") from None
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror or error}") from None
    return _benchmark(declared(content, shown), Path(os.path.abspath(path)), content, shown)


def write(declaration: TableDeclaration, path: Path, *, note: str = "") -> None:
    """Write the file of a benchmark; `note` becomes comments above it.

    UsageError if a value is wrong, or if the file cannot be written. The table need not be there.
    """
    benchmark_of(declaration, path)
    with files.writing(f"{printing.line(str(path))}:"):
        files.replace(path, _content(declaration, note))


def benchmark_of(declaration: TableDeclaration, path: Path) -> Benchmark:
    """Return the benchmark that `write` would declare in `path`, without writing it (UsageError)."""
    content, shown = _content(declaration, ""), printing.line(str(path))
    return _benchmark(declared(content, shown), Path(os.path.abspath(path)), content, shown)


def _content(declaration: TableDeclaration, note: str) -> bytes:
    values = {key: value for key, value in msgspec.to_builtins(declaration).items() if value is not None}
    comments = "".join(f"# {printing.line(line)}\n" for line in note.splitlines())
    # A name of a file that is not UTF-8 has half a surrogate pair: reading the content refuses it.
    return f"{comments}{toml_text.written(values)}".encode(errors="surrogatepass")


def declared(content: bytes, shown: str) -> TableDeclaration:
    """Return the declaration in a TOML document; UsageError, which names file and key, if it is wrong."""
    columns, text = decode.parsed(content, shown).get("columns"), decode.text_of(content, shown)
    known = (*ROLES, *LETTERS)
    for key in columns if isinstance(columns, Mapping) else ():
        if key not in known:
            role = role_of(key)
            column = f'. Columns are the values: write {role} = "{printing.line(key)}"' if role else ""
            meant = column or decode.did_you_mean(key, known)
            where = f"{shown}{decode.at_line(text, ('columns', key))}"
            raise UsageError(f"{where}: [columns]: no key {decode.shown(key)}{meant}")
    declaration = decode.decode_bytes(content, TableDeclaration, shown)
    return checked(declaration, shown)


def checked(declaration: TableDeclaration, shown: str) -> TableDeclaration:
    """Return the declaration; UsageError, which begins with `shown`, for the first wrong key."""
    for key, why in wrong_keys(declaration):
        raise UsageError(f"{shown}: key '{key}': {why}")
    return declaration


# The benchmark


def table(
    path: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
    *,
    name: str = "",
    prompt: str = "",
    tags: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    window: tuple[float, float] | None = None,
    title: str = "",
    public: bool = False,
    allow_burned_in: bool = False,
) -> Benchmark:
    """Return a benchmark whose questions are the rows of a table; nothing is read before it is needed.

    `path` is a CSV, TSV, XLSX, JSON, JSON lines or Parquet file; `images` the folder that its image cells are relative
    to (default: the folder of the table). A path that is not absolute starts at the folder of the file that calls this,
    such as a conftest.py; in a script, a console or a notebook at the working folder. `name` is the benchmark's in
    `--benchmark=NAME` (default: the name of the file). `prompt` is a text with the fields {question} and {options},
    in place of the default prompts. `tags` names columns to select and to report by. `columns` maps a role, or the
    letter of an option, to a column that is called otherwise: {"question": "Frage"}. `window` holds the raw values
    that are shown as black and as white, for images of more than 8 bits without a window of their own. `public` says
    that anybody may have the data, so that they may be sent to another machine without --allow-upload.
    `allow_burned_in` shows DICOM files whose header says that annotation is burnt into the pixels.

    Errors in the data are DataErrors that name file, row and column; they and those of wrong arguments are raised when
    the benchmark is read, in one line.
    """
    folder = folder_of(sys._getframe(1))
    roles = {role.lower() if role.lower() in ROLES else role: column for role, column in dict(columns or {}).items()}
    declaration = TableDeclaration(
        file=str(path),
        name=name,
        title=title,
        public=public,
        images="" if images is None else str(images) or ".",
        window=None if window is None else list(window),
        allow_burned_in=allow_burned_in,
        tags=[tags] if isinstance(tags, str) else list(tags),
        columns=dict(roles),
    )
    source = _source(declaration, folder, str(path), "")
    benchmark = _of_source(source, name or name_of(source.file))
    return replace(benchmark, prompt=prompt) if prompt else benchmark


def source_of(benchmark: Benchmark) -> Source | None:
    """Return the table of a benchmark that was made of one, None for any other."""
    source = benchmark.items.__self__ if isinstance(benchmark.items, MethodType) else None
    return source if isinstance(source, Source) else None


def folder_of(caller: FrameType) -> Path:
    """Return the folder where relative paths of a call start: that of a module, else the working folder."""
    names = caller.f_globals
    is_module = names.get("__name__") != "__main__" and names.get("__file__")
    return Path(names["__file__"]).parent if is_module else Path()


def name_of(file: Path) -> str:
    """Return the default name of a benchmark: that of its file, without ending, in lower case."""
    return re.sub(r"[\W_]+", "-", file.stem.casefold()).strip("-") or "table"


def _benchmark(declaration: TableDeclaration, path: Path, content: bytes, shown: str) -> Benchmark:
    """The benchmark of a file; `path` is absolute."""
    source = _source(declaration, path.parent, _beside(declaration.file, shown), shown)
    _check_file(declaration, path, shown)
    _check_public(source, path, shown)
    about = BenchmarkFile(str(path), partial(_about, source, content))
    benchmark = replace(_of_source(source, declaration.name or name_of(path)), declared=about)
    own.check(benchmark, f"{shown}: ")
    return benchmark


def _of_source(source: Source, name: str) -> Benchmark:
    declaration = source.declaration
    template = own.template(name, declaration.prompt) if declaration.prompt else None
    return Benchmark(
        name=name,
        title=declaration.title,
        items=source.items,
        prompt=own.OwnPrompt(template, declaration.language.partition("-")[0]),
        score=partial(own.scored, words=declaration.all_words),
        judged=own.JUDGED,
        dimensions=declaration.dimensions,
        public=declaration.public,
        origin=Origin(licence=declaration.licence, home="") if declaration.licence else None,
    )


def _check_file(declaration: TableDeclaration, path: Path, shown: str) -> None:
    """UsageError for a whole path of a table elsewhere: a stranger's file must not read one's own."""
    written = Path(os.path.expanduser(declaration.file))
    if written.is_absolute() and not written.resolve().is_relative_to(path.parent.resolve()):
        raise UsageError(
            f"{shown}: key 'file': a whole path that leads out of this file's folder; write it from that folder on, "
            "such as ../data/fragen.xlsx"
        )


def _check_public(source: Source, path: Path, shown: str) -> None:
    """UsageError if the file declares data public that lie elsewhere: a stranger's file must not send one's own."""
    folder = path.parent.resolve()
    for key, place in (("file", source.file), ("images", source.images)):
        if source.declaration.public and place is not None and not place.resolve().is_relative_to(folder):
            raise UsageError(
                f"{shown}: key 'public': the path of '{key}' leads out of the file's folder, and only data within it "
                "are declared public. Move the data there, or leave the key out and type --allow-upload"
            )


def table_of(declaration: TableDeclaration, path: Path) -> Source:
    """Return the table of a declaration that is in, or will be written to, a file (UsageError)."""
    shown = printing.line(str(path))
    return _source(checked(declaration, shown), Path(os.path.abspath(path.parent)), declaration.file, shown)


def _source(declaration: TableDeclaration, folder: Path, shown: str, toml: str) -> Source:
    """The table of a declaration, whose paths start at a folder."""

    def absolute(path: str) -> Path:
        return Path(os.path.abspath(folder / os.path.expanduser(path)))

    images = absolute(declaration.images) if declaration.images else None
    return Source(declaration, absolute(declaration.file), shown, images, toml)


def _beside(file: str, shown: str) -> str:
    """The name of the table in messages: its path as written, below the folder of the declaration as typed."""
    return printing.line(
        file if os.path.isabs(os.path.expanduser(file)) else os.path.join(os.path.dirname(shown), file)
    )


# Records


def _about(source: Source, content: bytes, items: Sequence[Item], root: Path) -> RecordedFile:
    """The record of a declared benchmark, whose questions are `items`; `root` is the folder of the project."""
    declaration = source.declaration
    names = (*declaration.slices, *declaration.crossings)
    words = declaration.words or JudgmentWords()
    with limits.opened(source.file, source.shown) as table:
        digest = hashlib.file_digest(table, "sha256")
    path = Path(os.path.abspath(source.toml))
    return RecordedFile(
        sha256=hashlib.sha256(content).hexdigest(),
        file=path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name,
        table_sha256=digest.hexdigest(),
        title=declaration.title,
        language=declaration.language,
        licence=declaration.licence,
        public=declaration.public,
        dimensions=list(declaration.dimensions),
        slices={name: len({value for item in items for value in lexicon.values_of(item, name)}) for name in names},
        yes=words.yes,
        no=words.no,
        version=declaration.version,
        revision=declaration.revision,
    )


def recorded(name: str, kept: RecordedFile) -> Benchmark:
    """Return the benchmark that a run recorded: its scores and measures, without its questions."""
    words = words_of(kept.language, JudgmentWords(kept.yes, kept.no))
    return Benchmark(
        name=name,
        title=kept.title,
        items=partial(_not_here, name),
        origin=Origin(
            find=_no_files, apply=f"Name the file that declares it: --benchmark={kept.file or f'{name}{ENDING}'}"
        ),
        score=partial(own.scored, words=words),
        judged=own.JUDGED,
        dimensions=tuple(kept.dimensions),
        public=kept.public,
    )


def _not_here(name: str, data: Path) -> Iterator[Item]:
    raise DataError(f"{name}: its questions are in the table of the file that declares it: --benchmark=FILE{ENDING}")


def _no_files(data: Path) -> Sequence[Path]:
    return ()
