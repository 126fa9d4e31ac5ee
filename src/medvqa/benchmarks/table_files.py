"""A benchmark from a TOML file that names a table and its columns: `--benchmark=klinik.toml`.

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

`read` returns the benchmark, `write` the file of a `TableFile`. docs/own-questions.md describes every key.
"""

from __future__ import annotations

import hashlib
import keyword
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec

from medvqa import decode, files, printing, scoring
from medvqa.benchmarks import languages, own, toml_text
from medvqa.benchmarks.recorded import RecordedFile
from medvqa.benchmarks.table import LETTERS, ROLES, Slice, Source, folder_of, name_of
from medvqa.items import KINDS, Benchmark, BenchmarkFile, DataError, Item, Origin, UsageError
from medvqa.protocols.prompts import FIELDS_HELP, wrong_field
from medvqa.tables import encodings, limits
from medvqa.tags import lexicon
from medvqa.tags.own_tags import RESERVED

ENDING = ".toml"
"""A name of a benchmark that ends so is a file."""

MAX_CUTS = 50
"""Ranges of one slice, less one."""


class NumberRanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of numbers whose ranges are the values of a slice.

    `cuts` rise; a number that equals a cut is in the range above it. `labels` name the ranges, one more than cuts.
    """

    column: str
    cuts: list[float]
    labels: list[str] = []


class JudgmentWords(msgspec.Struct, frozen=True, omit_defaults=True):
    """Further words for yes and no in answers to judgments."""

    yes: list[str] = []
    no: list[str] = []


class TableFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of the file. Only `file` is required.

    `file` is the table, `images` the folder of its images; both are relative to the folder of the TOML file. `name` is
    the benchmark's (default: the file's). `sheet` is that of an XLSX file (default: the first). `options` is a column
    with a list, or a column for each option in the order A, B, C; `separator` stands between options in one cell.
    `numbers_from`: answers are the numbers of options, counted from 0 or 1. `columns` maps roles of `table.ROLES`, or
    letters of options, to columns; for `image` also to several. `tags` are columns by which questions are selected.
    `slices` maps names to columns, and `crossings` are joined names such as "modality+age": fixed before the run, and
    recorded with it. `kind` is the kind of questions in rows that name none. `allow_burned_in` is as for
    `medvqa.table`. `words` are further words for yes and no.
    """

    file: str = ""
    name: str = ""
    title: str = ""
    language: str = ""
    licence: str = ""
    public: bool = False
    images: str = ""
    encoding: str = ""
    delimiter: str = ""
    sheet: str = ""
    options: str | list[str] = ""
    separator: str = ""
    numbers_from: int | None = None
    kind: str = ""
    window: list[float] | None = None
    allow_burned_in: bool = False
    prompt: str = ""
    tags: list[str] = []
    crossings: list[str] = []
    columns: dict[str, str | list[str]] = {}
    slices: dict[str, str | NumberRanges] = {}
    words: JudgmentWords | None = None


def is_file(name: str) -> bool:
    """Whether the name of a benchmark is a path of a file that declares one."""
    return name.lower().endswith(ENDING)


def benchmark_file(path: str | os.PathLike[str]) -> Benchmark:
    """Return the benchmark that a TOML file declares; the table is read when it is needed.

    A path that is not absolute starts at the folder of the file that calls this, as for `medvqa.table`. UsageError,
    which names the file and the key, for a file that is missing or wrong. docs/own-questions.md lists the keys.
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


def write(declaration: TableFile, path: Path, *, note: str = "") -> None:
    """Write the file of a benchmark; `note` becomes comments above it.

    UsageError if a value is wrong, or if the file cannot be written. The table need not be there.
    """
    content = _content(declaration, note)
    shown = printing.line(str(path))
    _benchmark(declared(content, shown), Path(os.path.abspath(path)), content, shown)
    with files.writing(f"{shown}:"):
        files.replace(path, content)


def benchmark_of(declaration: TableFile, path: Path) -> Benchmark:
    """Return the benchmark that `write` would declare in `path`, without writing it (UsageError)."""
    content, shown = _content(declaration, ""), printing.line(str(path))
    return _benchmark(declared(content, shown), Path(os.path.abspath(path)), content, shown)


def _content(declaration: TableFile, note: str) -> bytes:
    values = {key: value for key, value in msgspec.to_builtins(declaration).items() if value is not None}
    comments = "".join(f"# {printing.line(line)}\n" for line in note.splitlines())
    # A name of a file that is not UTF-8 has half a surrogate pair: reading the content refuses it.
    return f"{comments}{toml_text.written(values)}".encode(errors="surrogatepass")


def declared(content: bytes, shown: str) -> TableFile:
    """Return the declaration in a TOML document; UsageError, which names file and key, if it is wrong."""
    columns, text = decode.parsed(content, shown).get("columns"), decode.text_of(content, shown)
    known = (*ROLES, *LETTERS)
    for key in columns if isinstance(columns, Mapping) else ():
        if key not in known:
            role = _role(key)
            column = f'. Columns are the values: write {role} = "{printing.line(key)}"' if role else ""
            meant = column or decode.did_you_mean(key, known)
            where = f"{shown}{decode.at_line(text, ('columns', key))}"
            raise UsageError(f"{where}: [columns]: no key {decode.shown(key)}{meant}")
    declaration = decode.decode_bytes(content, TableFile, shown)
    for key, why in _problems(declaration):
        raise UsageError(f"{shown}: key '{key}': {why}")
    return declaration


def _role(column: str) -> str:
    """The role that a column of this name has, "" for none."""
    roles = ((role, (*others, *languages.COLUMNS.get(role, ()))) for role, others in ROLES.items())
    return next((role for role, names in roles if column.casefold() in names), "")


def _problems(declaration: TableFile) -> list[tuple[str, str]]:
    """The keys with a wrong value, and the reasons."""
    problems = []

    def refuse(wrong: object, key: str, why: str) -> None:
        if wrong:
            problems.append((key, why))

    own_name = declaration.name
    refuse(not declaration.file.strip(), "file", 'write the path of the table, such as file = "fragen.xlsx"')
    for key in ("file", "images"):
        refuse("\0" in getattr(declaration, key), key, "a path has no NUL character")
    refuse(is_file(own_name), "name", f"a name cannot end in {ENDING}, as files do")
    refuse("," in own_name, "name", "a name has no comma, since --benchmark=NAME,NAME names several")
    refuse(
        declaration.language and not re.fullmatch("[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", declaration.language),
        "language",
        f"'{printing.line(declaration.language)[:40]}' is no language code, such as de, zh or en",
    )
    refuse(
        declaration.encoding and declaration.encoding not in encodings.KNOWN,
        "encoding",
        f"'{printing.line(declaration.encoding)[:40]}' is not known; there are: {', '.join(encodings.KNOWN)}",
    )
    sign = declaration.delimiter
    refuse(
        sign and (len(sign) != 1 or sign.isalnum() or sign in "\r\n\"'\0"),
        "delimiter",
        'one sign between cells is expected, such as ";" or "\\t"',
    )
    refuse(declaration.kind and declaration.kind not in KINDS, "kind", f"there are: {', '.join(KINDS)}")
    window = declaration.window
    refuse(
        window is not None and (len(window) != 2 or window[0] == window[1] or not all(map(math.isfinite, window))),
        "window",
        "two different numbers are expected: the raw values shown as black and as white",
    )
    refuse(declaration.numbers_from not in (None, 0, 1), "numbers_from", "options are counted from 0 or from 1")
    options = declaration.options
    refuse(
        isinstance(options, list) and not 2 <= len(options) <= len(LETTERS),
        "options",
        f"a list names the column of each option, 2 to {len(LETTERS)}",
    )
    refuse(declaration.separator and not isinstance(options, str), "separator", "it belongs to options in one cell")
    for role, column in declaration.columns.items():
        several = isinstance(column, list)
        refuse(several and role != "image", f"columns.{role}", "one column is expected; only images have several")
        refuse(several and not column, f"columns.{role}", "a list of columns is empty")
        refuse(
            options and (role == "options" or role in LETTERS),
            f"columns.{role}",
            "the key 'options' names them already",
        )
    problems += _wrong_slices(declaration)
    if declaration.words is not None:
        problems += _wrong_words(declaration.words, declaration.language)
    if declaration.prompt and (wrong := wrong_field(declaration.prompt)) is not None:
        problems.append(("prompt", f"it {wrong[1]}. {FIELDS_HELP}"))
    return problems


def _wrong_slices(declaration: TableFile) -> list[tuple[str, str]]:
    """The same of slices, tags and crossings."""
    problems = []
    for name, piece in declaration.slices.items():
        if not _is_dimension(name):
            problems.append((f"slices.{name}", _NAME))
        if isinstance(piece, NumberRanges):
            problems += _wrong_ranges(f"slices.{name}", piece)
    names = {lexicon.slug(tag) for tag in declaration.tags}
    for tag in declaration.tags:
        if not _is_dimension(lexicon.slug(tag)):
            problems.append(("tags", f"'{printing.line(tag)[:60]}': {_NAME}"))
    if both := names & declaration.slices.keys():
        problems.append(("tags", f"'{min(both)}' is a slice already"))
    known = {*names, *declaration.slices, "kind"}
    for crossing in declaration.crossings:
        parts = crossing.split(lexicon.CROSSED)
        shown = printing.line(crossing)[:60]
        if len(parts) < 2 or len(set(parts)) < len(parts):
            problems.append(("crossings", f"'{shown}': write it as modality+age"))
        if unknown := [part for part in parts if part not in known]:
            problems.append(("crossings", f"'{shown}': no slice '{printing.line(unknown[0])[:60]}'"))
    return problems


_NAME = "a slice is named by small letters, digits and _, as in modality; not id, kind, benchmark or a word of Python"


def _is_dimension(name: str) -> bool:
    reserved = name in RESERVED or keyword.iskeyword(name)
    return name == lexicon.slug(name) and name.isidentifier() and not reserved


def _wrong_ranges(key: str, ranges: NumberRanges) -> list[tuple[str, str]]:
    cuts = ranges.cuts
    problems = []
    if not 1 <= len(cuts) <= MAX_CUTS or not all(map(math.isfinite, cuts)) or cuts != sorted(set(cuts)):
        problems.append((f"{key}.cuts", f"1 to {MAX_CUTS} rising numbers are expected, such as [18, 65]"))
    elif ranges.labels and len(ranges.labels) != len(cuts) + 1:
        problems.append((f"{key}.labels", f"{len(cuts)} cuts make {len(cuts) + 1} ranges, so as many labels"))
    elif len({lexicon.slug(label) for label in labels_of(ranges)}) <= len(cuts):
        problems.append((f"{key}.labels", "two labels are alike; case and punctuation do not count"))
    return problems


def _wrong_words(words: JudgmentWords, language: str) -> list[tuple[str, str]]:
    known = _words(language, None)
    for side, other in (("yes", "no"), ("no", "yes")):
        others = {scoring.normalise(word) for word in (other, *known[other], *getattr(words, other))}
        for word in getattr(words, side):
            shown = printing.line(word)[:60]
            if not scoring.normalise(word):
                return [(f"words.{side}", f"'{shown}' holds no word")]
            if scoring.normalise(word) in others:
                return [(f"words.{side}", f"'{shown}' means {other}, too")]
    return []


def labels_of(ranges: NumberRanges) -> list[str]:
    """Return the names of the ranges of a slice: its labels, else "under 18", "18 to under 65", "65 and over"."""
    if ranges.labels:
        return list(ranges.labels)
    cuts = [f"{cut:.10g}".replace("-", "minus ") for cut in ranges.cuts]
    between = [f"{low} to under {high}" for low, high in pairwise(cuts)]
    return [f"under {cuts[0]}", *between, f"{cuts[-1]} and over"]


def _words(language: str, more: JudgmentWords | None) -> Mapping[str, tuple[str, ...]]:
    """The words for yes and no in a language, and those that are declared."""
    known = languages.WORDS.get(language.partition("-")[0], own.YES_OR_NO)
    if more is None:
        return known
    return {"yes": (*known["yes"], *more.yes), "no": (*known["no"], *more.no)}


# The benchmark


def _benchmark(declaration: TableFile, path: Path, content: bytes, shown: str) -> Benchmark:
    """The benchmark of a declaration; `path` is absolute."""
    language = declaration.language.partition("-")[0]
    name = declaration.name or name_of(path)
    source = _source(declaration, path, shown)
    _check_file(declaration, path, shown)
    _check_public(declaration, source, path, shown)
    template = own.template(name, declaration.prompt) if declaration.prompt else None
    words = _words(declaration.language, declaration.words)
    benchmark = Benchmark(
        name=name,
        title=declaration.title,
        items=source.items,
        prompt=own.OwnPrompt(template, language),
        score=partial(own.scored, words=words),
        judged=own.JUDGED,
        dimensions=_dimensions(declaration),
        public=declaration.public,
        origin=Origin(licence=declaration.licence, home="") if declaration.licence else None,
        declared=BenchmarkFile(str(path), partial(_about, declaration, source, content)),
    )
    own.check(benchmark, f"{shown}: ")
    return benchmark


def _check_file(declaration: TableFile, path: Path, shown: str) -> None:
    """UsageError for a whole path of a table elsewhere: a stranger's file must not read one's own."""
    written = Path(os.path.expanduser(declaration.file))
    if written.is_absolute() and not written.resolve().is_relative_to(path.parent.resolve()):
        raise UsageError(
            f"{shown}: key 'file': a whole path that leads out of this file's folder; write it from that folder on, "
            "such as ../data/fragen.xlsx"
        )


def _check_public(declaration: TableFile, source: Source, path: Path, shown: str) -> None:
    """UsageError if the file declares data public that lie elsewhere: a stranger's file must not send one's own."""
    folder = path.parent.resolve()
    for key, place in (("file", source.file), ("images", source.images)):
        if declaration.public and place is not None and not place.resolve().is_relative_to(folder):
            raise UsageError(
                f"{shown}: key 'public': the path of '{key}' leads out of the file's folder, and only data within it "
                "are declared public. Move the data there, or leave the key out and type --allow-upload"
            )


def _source(declaration: TableFile, path: Path, shown: str) -> Source:
    """The table of a declaration, with paths that start at the folder of the declaration."""
    file = Path(os.path.abspath(path.parent / os.path.expanduser(declaration.file)))
    images = Path(os.path.abspath(path.parent / os.path.expanduser(declaration.images))) if declaration.images else None
    columns = {role: column if isinstance(column, str) else column[0] for role, column in declaration.columns.items()}
    pictures = declaration.columns.get("image", "")
    if isinstance(declaration.options, list):
        columns |= dict(zip(LETTERS, declaration.options, strict=False))
    elif declaration.options:
        columns["options"] = declaration.options
    return Source(
        file=file,
        shown=_beside(declaration.file, shown),
        images=images,
        tags=tuple(declaration.tags),
        columns=columns,
        window=(declaration.window[0], declaration.window[1]) if declaration.window else None,
        allow_burned_in=declaration.allow_burned_in,
        declared=shown,
        pictures=tuple(pictures[1:]) if isinstance(pictures, list) else (),
        slices=tuple(
            Slice(name, piece)
            if isinstance(piece, str)
            else Slice(name, piece.column, tuple(piece.cuts), tuple(labels_of(piece)))
            for name, piece in declaration.slices.items()
        ),
        separator=declaration.separator,
        numbers_from=declaration.numbers_from,
        kind=next((kind for kind in KINDS if kind == declaration.kind), None),
        words=_words(declaration.language, declaration.words),
        comma=declaration.language.partition("-")[0] in languages.DECIMAL_COMMA,
        encoding=declaration.encoding,
        delimiter=declaration.delimiter,
        sheet=declaration.sheet,
    )


def _beside(file: str, shown: str) -> str:
    """The name of the table in messages: its path as written, below the folder of the declaration as typed."""
    return printing.line(
        file if os.path.isabs(os.path.expanduser(file)) else os.path.join(os.path.dirname(shown), file)
    )


def _dimensions(declaration: TableFile) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys((*declaration.slices, *declaration.crossings, *(lexicon.slug(tag) for tag in declaration.tags)))
    )


# Records


def _about(declaration: TableFile, source: Source, content: bytes, items: Sequence[Item], root: Path) -> RecordedFile:
    """The record of a declared benchmark, whose questions are `items`; `root` is the folder of the project."""
    names = (*declaration.slices, *declaration.crossings)
    words = declaration.words or JudgmentWords()
    digest = hashlib.sha256()
    with limits.opened(source.file, source.shown) as table:
        while piece := table.read(2**20):
            digest.update(piece)
    path = Path(os.path.abspath(source.declared))
    return RecordedFile(
        sha256=hashlib.sha256(content).hexdigest(),
        file=path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name,
        table_sha256=digest.hexdigest(),
        title=declaration.title,
        language=declaration.language,
        licence=declaration.licence,
        public=declaration.public,
        dimensions=list(_dimensions(declaration)),
        slices={name: len({value for item in items for value in lexicon.values_of(item, name)}) for name in names},
        yes=words.yes,
        no=words.no,
    )


def recorded(name: str, kept: RecordedFile) -> Benchmark:
    """Return the benchmark that a run recorded: its scores and measures, without its questions."""
    words = _words(kept.language, JudgmentWords(kept.yes, kept.no))
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
