"""Write the formats that the app reads as interfaces of TypeScript: `python tools/bundle_types.py`.

web/src/bundle.ts has the shapes of `medvqa.report.bundle`, web/src/served.ts those of `medvqa.view.shapes`. They are
declared there alone; their docstrings come along. With --compare, write nothing and fail if a file differs.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from medvqa.figures import FEW
from medvqa.printing import FORMULA_STARTS
from medvqa.report.bundle.head import VERSION, BundleHead
from medvqa.report.bundle.prompts import SentPrompts
from medvqa.report.bundle.questions import Answered, Tables
from medvqa.report.bundle.reading_page import ReadingHead
from medvqa.report.bundle.shape import Shape
from medvqa.view.shapes import Drawn, History, ItemPage, Pace, Problem, RunList, RunProgress

FOLDER = Path(__file__).parents[1] / "web" / "src"
ROOTS: dict[str, tuple[type[Shape], ...]] = {
    "bundle.ts": (BundleHead, Tables, Answered, SentPrompts, ReadingHead),
    "served.ts": (RunList, RunProgress, Pace, ItemPage, Drawn, History, Problem),
}
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", object: "unknown"}


def typescript(annotation: object) -> str:
    """A type of Python as TypeScript writes it."""
    if isinstance(annotation, type) and annotation in PLAIN:
        return PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return annotation.__name__
    origin, of = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " | ".join(f'"{value}"' for value in of)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(typescript, of))
    if origin is tuple and of[-1:] != (Ellipsis,):
        return f"readonly [{', '.join(map(typescript, of))}]"
    if origin in (list, tuple):
        inner = typescript(of[0])
        return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
    if origin is dict:
        return f"Readonly<Record<string, {typescript(of[1])}>>"
    raise TypeError(f"{annotation} has no counterpart: add it to tools/bundle_types.py")


def inside(annotation: object) -> Iterator[type[Shape]]:
    """The shapes that a type names."""
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        yield annotation
    for part in typing.get_args(annotation):
        yield from inside(part)


def documented(shape: type[Shape]) -> dict[str, str]:
    """The sentences below the fields of a shape, by field."""
    (body,) = (node for node in ast.parse(inspect.getsource(shape)).body if isinstance(node, ast.ClassDef))
    texts = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts


def comment(text: str, indent: str = "") -> str:
    """A text as a documentation comment."""
    lines = text.strip().splitlines()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines) + f"{indent} */\n"


def interface(shape: type[Shape]) -> str:
    """A shape as an interface."""
    hints, texts = typing.get_type_hints(shape), documented(shape)
    text = comment(inspect.getdoc(shape) or "") + f"export interface {shape.__name__} {{\n"
    if (config := shape.__struct_config__).tag_field is not None:
        text += f'  readonly {config.tag_field}: "{config.tag}";\n'
    for field in msgspec.structs.fields(shape):
        if field.name in texts:
            text += comment(texts[field.name], "  ")
        text += f"  readonly {field.encode_name}{'' if field.required else '?'}: {typescript(hints[field.name])};\n"
    return text + "}\n"


def shapes_of(roots: Sequence[type[Shape]]) -> list[type[Shape]]:
    """The roots and all shapes that these name."""
    shapes: dict[type[Shape], None] = {}
    waiting = list(roots)
    while waiting:
        shape = waiting.pop(0)
        if shape not in shapes:
            shapes[shape] = None
            waiting += [part for hint in typing.get_type_hints(shape).values() for part in inside(hint)]
    return list(shapes)


def module(file: str, roots: Sequence[type[Shape]]) -> str:
    """A whole file; served.ts takes the shapes of bundle.ts from there."""
    head, shapes = "// Written by tools/bundle_types.py.\n", shapes_of(roots)
    if file == "bundle.ts":
        head += f"\nexport const VERSION = {VERSION};\n"
        head += comment("Below this number of units, counts are shown in place of percentages.")
        head += f"export const FEW = {FEW};\n"
        head += comment("Starts of cells that spreadsheets run.")
        head += f"export const FORMULA_STARTS: readonly string[] = {json.dumps(FORMULA_STARTS)};\n"
    else:
        shared = shapes_of(ROOTS["bundle.ts"])
        shapes = [shape for shape in shapes if shape not in shared]
        named = {part for shape in shapes for hint in typing.get_type_hints(shape).values() for part in inside(hint)}
        names = sorted(shape.__name__ for shape in named.intersection(shared))
        head += f'import type {{ {", ".join(names)} }} from "./bundle";\n'
    return "\n".join([head, *map(interface, shapes)])


def main(arguments: list[str]) -> int:
    """Write or compare."""
    differ = False
    for file, roots in ROOTS.items():
        if "--compare" not in arguments:
            (FOLDER / file).write_text(module(file, roots), "utf-8")
        elif (FOLDER / file).read_text("utf-8") != module(file, roots):
            differ = True
            print(f"{file} is not what its shapes declare: type `python {Path(__file__).name}` in tools/")
    return int(differ)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
