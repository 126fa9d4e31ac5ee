"""Find, load and check benchmarks; each data set has a file here.

The hook `pytest_medvqa_benchmarks` provides the `BENCHMARKS` of each file, as for any other benchmark.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from medvqa import memory, printing, usercode
from medvqa.benchmarks import folders, origins
from medvqa.decode import did_you_mean
from medvqa.image import inside
from medvqa.items import (
    CHOICE_KINDS,
    KINDS,
    Benchmark,
    DataError,
    Image,
    Item,
    Kind,
    MedVQAError,
    Result,
    UsageError,
    are_withheld,
    of_data,
    replace,
    withholding,
)
from medvqa.printing import clipped

DEFAULT_GROUP = "phantom"
"""The default if no benchmark was named and no data set is found."""
MAX_SHOWN = 500
"""Characters of a folder's name in a message."""


def pytest_medvqa_benchmarks() -> Sequence[Benchmark]:
    """Return the benchmarks that the project ships."""
    from medvqa.benchmarks import (
        gmai_mmbench,
        medframeqa,
        mediconfusion,
        medlesionvqa,
        medxpertqa,
        mmmu,
        omnimedvqa,
        path_vqa,
        phantom,
        pmc_vqa,
        radimagenet_vqa,
        rexvqa,
        slake,
        vqa_rad,
    )

    files = (
        *(gmai_mmbench, medframeqa, mediconfusion, medlesionvqa, medxpertqa, mmmu, omnimedvqa, path_vqa, phantom),
        *(pmc_vqa, radimagenet_vqa, rexvqa, slake, vqa_rad),
    )
    return [benchmark for file in files for benchmark in file.BENCHMARKS]


def not_known(holder: str, name: str, known: Mapping[str, Benchmark]) -> UsageError:
    """Return the error for results of an unknown benchmark; `holder` is the subject with its verb: "RUN holds"."""
    return UsageError(
        f"{holder} results of benchmark '{name}', which is not known here; known: {', '.join(sorted(known))}. "
        "Name the file that provides it: --plugin=conftest.py"
    )


def check_known(holder: str, results: Iterable[Result], known: Mapping[str, Benchmark]) -> None:
    """Raise UsageError (`not_known`) if one of the results is of an unknown benchmark."""
    for name in sorted({result.item.benchmark for result in results} - known.keys()):
        raise not_known(holder, name, known)


def members(name: str, known: Mapping[str, Benchmark]) -> list[Benchmark]:
    """Return the benchmark of that name, or all of the group of that name; UsageError if there is neither."""
    if name in known:
        return [known[name]]
    grouped = [benchmark for benchmark in known.values() if name and benchmark.group == name]
    if not grouped:
        names = sorted({*known, *(benchmark.group for benchmark in known.values() if benchmark.group)})
        raise UsageError(f"no benchmark '{name}'{did_you_mean(name, names, 'known')}")
    return grouped


def folder_of(benchmark: Benchmark, data: Path | None) -> Path | None:
    """Return the folder of the benchmark's files; None if they are missing, or if it needs none.

    `data` is the data folder; if it is None, the folder of another tool is searched. DataError for a folder that cannot
    be read.
    """
    if not origins.needs_files(benchmark):
        return None
    if data is None:
        data = origins.elsewhere(benchmark)
    try:
        return data if data is not None and origins.files_of(benchmark, data) else None
    except OSError as error:
        raise DataError(f"{_shown(data) if data else benchmark.name}: cannot be read: {error.strerror}") from error


def is_found(benchmark: Benchmark, data: Path | None) -> bool:
    """Return whether the benchmark's files lie in the data folder (True for one that needs no files)."""
    return not origins.needs_files(benchmark) or folder_of(benchmark, data) is not None


def choose(names: Sequence[str], known: Mapping[str, Benchmark], data: Path | None, typed: str = "") -> list[Benchmark]:
    """Return the benchmarks of a run, in name order.

    A named benchmark must be found, and at least one member of a named group. Without names: every benchmark whose
    data are in the data folder, or that needs none; else, without a data folder, the phantom. One with `on_request` is
    chosen by its own name alone. `typed`: the data folder as the user typed it (default: --data=PATH). UsageError names
    the searched files, and how to get missing data.
    """
    typed = printing.line(typed or f"--data={data}")[:MAX_SHOWN]
    if data is not None and not os.path.isdir(data):
        problem = "a file; name the folder around it" if os.path.exists(data) else "no such folder"
        raise UsageError(f"{typed}: {problem}.{_advice(list(known.values()), data, typed)}".removesuffix("."))
    chosen: dict[str, Benchmark] = {}
    for name in names:
        candidates = [one for one in members(name, known) if one.name == name or not _is_on_request(one)]
        available = [benchmark for benchmark in candidates if is_found(benchmark, data)]
        if not available:
            raise _not_found(name, candidates, data, typed)
        chosen |= {benchmark.name: benchmark for benchmark in available}
    if not names:
        others = [b for b in known.values() if b.group != DEFAULT_GROUP and not _is_on_request(b)]
        chosen = {b.name: b for b in others if not origins.needs_files(b) or (data is not None and is_found(b, data))}
        if not chosen and data is not None:
            raise _nothing_found(others, data, typed)
        chosen = chosen or {b.name: b for b in known.values() if b.group == DEFAULT_GROUP}
    return [chosen[name] for name in sorted(chosen)]


def _is_on_request(benchmark: Benchmark) -> bool:
    return benchmark.origin is not None and benchmark.origin.on_request


def unread(chosen: Collection[str], known: Mapping[str, Benchmark], data: Path) -> list[str]:
    """Return a line for each folder in the data folder that has a benchmark's or a group's name, and is not read.

    `chosen` are the names of the benchmarks that are found.
    """
    named: dict[str, list[Benchmark]] = {}
    for benchmark in known.values():
        if origins.sought(benchmark):
            named.setdefault(benchmark.group or benchmark.name, []).append(benchmark)
    lines = []
    for name, candidates in sorted(named.items()):
        folder = data / name
        if folder.is_dir() and not any(benchmark.name in chosen for benchmark in candidates):
            sought = " or ".join(dict.fromkeys(map(origins.sought, candidates)))
            lines.append(
                f"medvqa: {name} is not evaluated: {_shown(folder)} is there, and nothing in it is read: looked for "
                f"{sought}; {folders.content(folder)}"
            )
    return lines


def _not_found(name: str, candidates: Sequence[Benchmark], data: Path | None, typed: str) -> UsageError:
    """Return the error for a named benchmark or group without data."""
    missing = f"benchmark '{name}' was asked for but is not there"
    obtain = origins.how_to_obtain(candidates[0])
    if data is None:
        return UsageError(f"{missing}, and no --data=DIR (or MEDVQA_DATA) was given. {obtain}")
    sought = " or ".join(f"{_shown(data)}/{files}" for files in dict.fromkeys(map(origins.sought, candidates)) if files)
    where = f"looked for {sought}; " if sought else ""
    return UsageError(
        f"{missing}, under {typed}: {where}{folders.content(data)}.{_advice(candidates, data, typed)} {obtain}"
    )


def _nothing_found(others: Sequence[Benchmark], data: Path, typed: str) -> UsageError:
    """The error for a data folder without benchmarks: it names the expected files and an option to type."""
    shown = _shown(data)
    sought = [
        f"  {benchmark.name}: {f'{shown}/{files}' if (files := origins.sought(benchmark)) else 'its files'}"
        for benchmark in others
    ]
    return UsageError(
        "\n".join(
            [
                f"{typed}: no benchmark is found there; {folders.content(data)}. Looked for",
                *sought,
                f"medvqa help data says what lies where.{_advice(others, data, typed)} The phantom needs no data: "
                f"--benchmark={DEFAULT_GROUP}",
            ]
        )
    )


def _advice(candidates: Sequence[Benchmark], data: Path, typed: str) -> str:
    """Suggest a folder near the data folder, or of another tool, that holds a benchmark; "" if none does."""
    searched = [benchmark for benchmark in candidates if origins.sought(benchmark)]
    absolute = os.path.isabs(os.path.expanduser(typed.partition("=")[2]))
    for near in folders.neighbours(data):
        if held := [benchmark.name for benchmark in searched if _holds(benchmark, near)]:
            shown = str(near) if absolute else os.path.relpath(near)
            return f" Try --data={printing.line(shlex.quote(shown))}, where {', '.join(held)} is found."
    for benchmark in searched:
        elsewhere = origins.elsewhere(benchmark)
        if elsewhere is not None and _holds(benchmark, elsewhere):
            return f" Try --data={printing.line(shlex.quote(str(elsewhere)))}, where {benchmark.name} is found."
    return ""


def _shown(path: Path) -> str:
    return printing.line(str(path)).rstrip("/")


def _holds(benchmark: Benchmark, folder: Path) -> bool:
    """Whether a folder holds the benchmark's files; False for one that cannot be read."""
    try:
        return bool(origins.files_of(benchmark, folder))
    except (OSError, MedVQAError):
        return False


def load(benchmark: Benchmark, data: Path) -> tuple[Item, ...]:
    """Return all items of a benchmark, sorted by id.

    Items get the benchmark's name, also if it was made from another one by `dataclasses.replace`, a kind if they name
    none, and images with absolute paths. Items share equal tags and texts. DataError if items cannot be read,
    have fields of wrong types, or share an id; unless the data are declared public, it quotes no text of theirs.
    """
    with withholding(not benchmark.public):
        return _load(benchmark, data)


def _load(benchmark: Benchmark, data: Path) -> tuple[Item, ...]:
    items: dict[str, Item] = {}
    pool = memory.EqualValues()
    for number, item in enumerate(_read(benchmark, data), 1):
        where = f"{benchmark.name}, item {f'number {number:,}' if are_withheld() else item.id}"
        _check(item, where)
        if item.id in items:
            raise DataError(f"{benchmark.name}: two items have the id {_quoted(item.id)}")
        items[item.id] = replace(
            item,
            benchmark=benchmark.name,
            kind=item.kind or _kind(item),
            question=pool.one(item.question),
            options=pool.options(item.options),
            answers=tuple(item.answers),
            images=_located(item, data, where),
            tags=pool.tags(item.tags),
            extra=pool.mapping(item.extra),
        )
    if not items:
        raise DataError(f"{benchmark.name}: its files hold no items")
    return tuple(items[key] for key in sorted(items))


def _check(item: Item, where: str) -> None:
    """Raise DataError for an item with fields of wrong types: no type checker has seen users' code."""
    if not isinstance(item.id, str) or not item.id:
        raise DataError(f"{where}: its id is {of_data(repr(item.id))}; an id is a text, such as id=str(number)")
    if not isinstance(item.question, str) or not isinstance(item.options, Mapping):
        raise DataError(f"{where}: question is a text, and options a dict such as {{'A': 'liver', 'B': 'spleen'}}")
    if item.kind and item.kind not in KINDS:
        raise DataError(f"{where}: no kind {_quoted(item.kind)}; there are: {', '.join(KINDS)}")
    for name, values, kind, example in (
        ("answers", item.answers, str, "('A',)"),
        ("images", item.images, Image, "(medvqa.Image('images/17.png'),)"),
    ):
        if not isinstance(values, tuple | list) or not all(isinstance(value, kind) for value in values):
            raise DataError(f"{where}: {name} is {of_data(clipped(repr(values)))}; write {name}={example}")
    chooses = item.kind in CHOICE_KINDS or (item.options and not item.kind)
    if chooses and (unknown := [answer for answer in item.answers if answer not in item.options]):
        options = ", ".join(item.options)
        raise DataError(f"{where}: answer {_quoted(unknown[0])} is none of its options {options}")


def _quoted(text: object) -> str:
    return of_data(f"'{text}'")


def _kind(item: Item) -> Kind:
    """Return the kind of an item without one."""
    if not item.options:
        return "short_answer"
    return "multiple_response" if len(item.answers) > 1 else "single_choice"


def _located(item: Item, data: Path, where: str) -> tuple[Image, ...]:
    """The images of an item with absolute paths (DataError for a relative one that leaves the data folder)."""
    if all(image.blank or os.path.isabs(image.path) for image in item.images):
        return tuple(item.images)
    return tuple(
        image
        if image.blank or os.path.isabs(image.path)
        else replace(image, path=str(inside(data, image.path or image.file, where=where, named=str(data))))
        for image in item.images
    )


def _read(benchmark: Benchmark, data: Path) -> Iterator[Item]:
    """Yield the benchmark's items; DataError in one line, with the place, for exceptions of its code."""
    subject, expected = f"benchmark '{benchmark.name}', items", "items yields a medvqa.Item for each question"
    with usercode.guarded(subject, expected, DataError, benchmark.items):
        for item in benchmark.items(data):
            if not isinstance(item, Item):
                what = f"{usercode.place_of(benchmark.items)}: it yielded a value of type {type(item).__name__}"
                raise DataError(f"{subject}: {what}; expected: {expected}")
            yield item


def load_found(benchmark: Benchmark, data: Path | None) -> tuple[Item, ...] | None:
    """Return all items of a benchmark, as `load`; None if its files are missing."""
    if not origins.needs_files(benchmark):
        return load(benchmark, data or Path())
    folder = folder_of(benchmark, data)
    return None if folder is None else load(benchmark, folder)


def open_answers(benchmark: Benchmark, data: Path | None) -> tuple[str, ...]:
    """Return the answers to the open questions of a benchmark, each once, in the order of its files; () if missing."""
    folder = folder_of(benchmark, data)
    if folder is None:
        return ()
    with withholding(not benchmark.public):
        answers = (item.answers[0] for item in _read(benchmark, folder) if item.kind == "short_answer" and item.answers)
        return tuple(dict.fromkeys(answers))


def check_kits(kits: Sequence[str], chosen: Sequence[Benchmark], known: Mapping[str, Benchmark]) -> None:
    """Raise UsageError for a kit of --metric-like that no benchmark counts like, or none of the `chosen` ones."""
    for kit in kits:
        names = sorted(benchmark.name for benchmark in known.values() if kit in benchmark.owners.kits)
        if not names:
            there = ", ".join(sorted({name for benchmark in known.values() for name in benchmark.owners.kits}))
            raise UsageError(f"--metric-like={printing.line(kit)}: no such kit; there are: {there}")
        if not any(kit in benchmark.owners.kits for benchmark in chosen):
            asked = ", ".join(benchmark.name for benchmark in chosen)
            raise UsageError(
                f"--metric-like={kit}: its counts are known for {', '.join(names)}, and not for {asked}; leave it out"
            )
