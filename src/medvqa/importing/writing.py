"""Write the benchmark file of a table whose columns have roles."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from medvqa import decode, files
from medvqa.benchmarks import table_files
from medvqa.benchmarks.table_declaration import LETTERS, ROLES, TableDeclaration
from medvqa.importing.roles import RoleColumns, known_names, plain
from medvqa.importing.sheet import Sheet
from medvqa.items import UsageError
from medvqa.tags import lexicon

NOTE = "Written by medvqa import. `medvqa help your-questions` explains every key."


def declared(
    sheet: Sheet, columns: RoleColumns, settings: TableDeclaration, *, file: Path, images: Path | None, to: Path
) -> TableDeclaration:
    """Return the declaration of a benchmark; paths are relative to the folder of `to`."""
    letters = "".join(columns.options)
    has_letters = len(letters) > 1 and letters == LETTERS[: len(letters)] and "options" not in columns.one
    roles: dict[str, str | list[str]] = {
        role: sheet.columns[place]
        for role, place in columns.one.items()
        if not (has_letters and role in LETTERS) and (role != "options" or letters)
    }
    if columns.images:
        names = [sheet.columns[place] for place in columns.images]
        roles["image"] = names if len(names) > 1 else names[0]
    roles |= {
        role: "" for role in ROLES if role not in roles and role != "options" and _would_find(role, sheet, columns)
    }
    listed = [sheet.columns[place] for place in columns.options.values()] if has_letters else ""
    if not letters and "options" in columns.one:
        listed = sheet.columns[columns.one["options"]]
    return msgspec.structs.replace(
        settings,
        file=_relative(file, to),
        images=_relative(images, to) if images is not None else "",
        options=listed,
        tags=[sheet.columns[place] for place in columns.tags],
        columns=roles,
        slices={lexicon.slug(sheet.columns[place]): sheet.columns[place] for place in columns.slices},
    )


def _would_find(role: str, sheet: Sheet, columns: RoleColumns) -> bool:
    """Whether a benchmark file would take a column for a role that it has not here, such as one of tags."""
    assigned = {*columns.one.values(), *columns.images}
    others = (name for place, name in enumerate(sheet.columns) if place not in assigned)
    return any(plain(name) in known_names(role) for name in others)


def _relative(path: Path, to: Path) -> str:
    """A path as the benchmark file names it."""
    return Path(os.path.relpath(os.path.abspath(path), os.path.abspath(to.parent))).as_posix()


def write(declaration: TableDeclaration, to: Path) -> None:
    """Write the benchmark file; UsageError if it cannot be written, or if another file is there."""
    if to.exists() and not _is_same(declaration, to):
        raise UsageError(f"{to} is there already: delete it, or name another file by --to")
    table_files.write(declaration, to, note=NOTE)


def _is_same(declaration: TableDeclaration, to: Path) -> bool:
    """Whether a file holds this declaration."""
    try:
        return table_files.declared(files.read(to, decode.MAX_BYTES), str(to)) == declaration
    except (OSError, UsageError):
        return False


def commands(to: Path, model: str = "MODEL") -> list[str]:
    """Return the commands to type next."""
    import shlex

    name = shlex.quote(f"--benchmark={to}")
    return [
        f"medvqa run {name} --model=random",
        f"medvqa run {name} --model={model}",
        f"medvqa run {name} --model={model} --ablate=text-only",
        f"medvqa gate --plan {name} --margin=5",
    ]
