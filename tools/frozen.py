"""List the tests of a guarantee with a digest of what each asserts: `python tools/frozen.py GUARANTEE FILE...`.

tests/frozen.txt is that list. A listed test may move, and be renamed; if what it asserts changes or goes, a test of the
house fails. Without arguments, bring names and digests up to date and print what changed: do so only where it is meant
to change, and name it in the commit.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
LIST = TESTS / "frozen.txt"


@dataclass(frozen=True, slots=True, order=True)
class Frozen:
    """A line of the list; `name` is like `unit/test_files.py::test_a`, `digest` has 12 hexadecimal digits."""

    guarantee: str
    name: str
    digest: str

    def __str__(self) -> str:
        """The line as the list has it."""
        return f"{self.guarantee}  {self.digest}  {self.name}"


def written() -> list[Frozen]:
    """Return the lines of the list."""
    lines = (line.split("  ") for line in LIST.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    return [Frozen(guarantee, name, digest) for guarantee, digest, name in lines]


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """Return the digest of what each test of these files asserts, by its name."""
    found = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                asserted = "\n".join(map(_text, _asserted(node))).encode()
                found[f"{path.relative_to(TESTS).as_posix()}::{node.name}"] = hashlib.sha256(asserted).hexdigest()[:12]
    return found


def all_digests() -> dict[str, str]:
    """Return `digests` of every test."""
    return digests(sorted(TESTS.rglob("test_*.py")))


def lost(frozen: Iterable[Frozen], present: Iterable[str]) -> list[Frozen]:
    """Return the lines whose digest is not `present`, or less often than it is listed: what they assert is gone."""
    left = Counter(present)
    gone = []
    for line in frozen:
        left[line.digest] -= 1
        if left[line.digest] < 0:
            gone.append(line)
    return gone


def _asserted(test: ast.FunctionDef) -> Iterator[ast.AST]:
    """Assertions, expected errors and cases of a test; its whole body if its helpers assert."""
    found = [
        node
        for node in ast.walk(test)
        if isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises")
    ]
    yield from found or test.body
    yield from (decorator for decorator in test.decorator_list if "parametrize" in ast.unparse(decorator))


def _text(node: ast.AST) -> str:
    """Like `ast.dump`, and the same in every version of Python: without positions and empty fields."""
    fields = ((name, _value(value)) for name, value in ast.iter_fields(node) if name not in ("type_comment", "kind"))
    return f"{type(node).__name__}({', '.join(f'{name}={text}' for name, text in fields if text)})"


def _value(value: object) -> str:
    if isinstance(value, list):
        return "".join(f"[{_value(each)}]" for each in value)
    return _text(value) if isinstance(value, ast.AST) else "" if value is None else repr(value)


def main(guarantee: str = "", *files: str) -> None:
    """Bring the list up to date, and add the tests of `files`."""
    now, listed = all_digests(), written()
    lines: dict[str, Frozen] = {}
    # Several tests may assert the same: a line whose test moved takes the name of one that has no line.
    free = now.keys() - {line.name for line in listed}
    for old in listed:
        moved = sorted(name for name in free - lines.keys() if now[name] == old.digest)
        name = old.name if old.name in now else next(iter(moved), "")
        if now.get(name) != old.digest:
            sys.stdout.write(f"{'gone' if not name else 'asserts otherwise'}: {old.name}\n")
        if name:
            lines[name] = Frozen(old.guarantee, name, now[name])
    for name, digest in digests(Path(file).resolve() for file in files).items():
        lines.setdefault(name, Frozen(guarantee, name, digest))
    head = [line for line in LIST.read_text("utf-8").splitlines() if line.startswith("#")]
    LIST.write_text("\n".join([*head, *map(str, sorted(lines.values()))]) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
