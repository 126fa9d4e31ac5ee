"""Write what other files take from tables in the code: `python tools/options.py`.

That is the most of docs/reference.md: options, commands, measures and schemas. In action.yml it is the inputs
that are options, and the names of the gate's. docs/schemas/columns.csv is written as a whole. With --compare, write
nothing and fail if a file differs.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from medvqa import metrics
from medvqa.cli import dispatch
from medvqa.cli.arguments import COMMON, RUN_OPTIONS, Argument, Command
from medvqa.items import Metric
from medvqa.protocols import position
from medvqa.report.fields import FRAMES
from medvqa.session.options import OPTIONS, SECTIONS, SELECT, Option
from medvqa.session.registry import Registry

ROOT = Path(__file__).parents[1]
PAGE, ACTION, SCHEMAS = ROOT / "docs" / "reference.md", ROOT / "action.yml", ROOT / "docs" / "schemas"
DOES = {name: does for group in dispatch.COMMANDS.values() for name, does in group.items()}
"""What each command does, in the order of `medvqa --help`."""
INPUTS = {
    "model": ("", ". Only the phantom has a default, phantom-vlm"),
    "benchmark": ("phantom", ""),
    "baseline": ("", ". If it is empty, baseline-model runs first"),
    "margin": ("2", ""),
    "inconclusive": ("fail", ""),
}
"""Inputs of the action that are options: the default there, and what is to be added."""


def tables() -> str:
    """Return the chapters of the page that come from the code."""
    return "".join(write() for write in (options, commands, measures, schemas))


def options() -> str:
    """Return a list of the options of runs for each section, in Markdown."""
    shown = {title: [*rows, *([SELECT] if title == SELECT.section else [])] for title, rows in SECTIONS.items()}
    return _parts("Options of runs", {title: _linked(rows) for title, rows in shown.items()})


def _linked(rows: Sequence[Option]) -> list[str]:
    """Return the lines of options with their pages; the page of most of them stands once, above."""
    (page, _), *_ = Counter(row.page for row in rows).most_common()
    lines = (f"{_line(row)}{f' ({_page(row.page)})' if row.page not in (page, '') else ''}" for row in rows)
    return [f"Explained in {_page(page)}.", "", *lines]


def _page(page: str) -> str:
    return f"[{page.removesuffix('.md')}]({page})"


def commands() -> str:
    """Return a list of the arguments of each command."""
    shared = ["`medvqa COMMAND --help` says more. All commands take:", "", *map(_line, COMMON)]
    return _parts("Commands", {"": shared, **{_usage(name): _command(name) for name in DOES}})


def measures() -> str:
    """Return the measures that ship, with their definitions."""
    shipped = Registry.of(installed=[]).benchmarks.values()
    of_data = (metric for benchmark in shipped for metric in benchmark.metrics)
    # The cost changes no word of the definition.
    further = metrics.effective_reliability(1), position.first_position_bias
    defined = {metric.name: metric for metric in (*metrics.SHIPPED, *further, *of_data)}
    return _parts("Measures", {"": list(map(_measure, defined.values()))})


def _measure(metric: Metric) -> str:
    mean = f" Unweighted mean over the slices by {metric.mean_over}." if metric.mean_over and not metric.weights else ""
    return f"- `{metric.name}`: {metric.definition}{mean}"


def dictionary() -> str:
    """Return the columns of data frames with their types and meanings, as CSV."""
    text = io.StringIO()
    rows = ((frame, name, each.kind, each.meaning) for frame, fields in FRAMES.items() for name, each in fields.items())
    csv.writer(text, lineterminator="\n").writerows([("frame", "column", "type", "meaning"), *rows])
    return text.getvalue()


def schemas() -> str:
    """Return the published JSON Schemas, and the columns of data frames."""
    titles = {path.name: json.loads(path.read_text("utf-8"))["title"] for path in sorted(SCHEMAS.glob("*.json"))}
    titles["columns.csv"] = "The columns of data frames and exported tables, with types and meanings"
    return _parts("Schemas", {"": [f"- [{name}](schemas/{name}): {title}" for name, title in titles.items()]})


def _parts(title: str, sections: Mapping[str, list[str]]) -> str:
    """Return a chapter of sections, of which one without a title has no heading."""
    parts = ["\n".join([*([f"### {heading}", ""] if heading else []), *lines]) for heading, lines in sections.items()]
    return "\n\n".join([f"\n## {title}", *parts]) + "\n"


def _line(row: Option) -> str:
    name = f"--{row.name}{f'={row.metavar}' if row.metavar else ''}"
    if isinstance(row, Argument):
        name = f"{row.short}, {name}" if row.short else row.metavar if row.least is not None else name
    own = "`medvqa run` only: " if row is SELECT else ""
    words = re.sub(
        r"(--set id=(?!\w)|--[a-z][a-z-]*(?:=(?:(?:[^\s,;)]|,(?=\w))*[^\s,;:)])?)?|\b[a-z0-9]+://[A-Z/]*|`[^`]+`)",
        _code,
        own + row.help,
    )
    return f"- `{name}`: {words}"


def _code(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("`") else f"`{match[0]}`"


def _command(name: str) -> list[str]:
    """Return what a command does, and its arguments; the runs that it takes stand in its heading."""
    command: Command[Any] = import_module(f"medvqa.cli.{dispatch.MODULES[name]}").COMMAND
    written = [row for row in command.rows() if row.help.startswith("also write")]
    rows = [_line(row) for row in command.rows() if row not in written and row.metavar != "RUN"]
    if written:
        rows.append(f"- also written to files: {', '.join(f'`--{row.name}={row.metavar}`' for row in written)}")
    if command.options:
        every = command.options.keys() == RUN_OPTIONS.keys()
        rows.append(f"- options of runs: {'all' if every else ', '.join(f'`--{name}`' for name in command.options)}")
    return [f"{DOES[name][0].upper()}{DOES[name][1:]}.", *([""] if rows else []), *rows]


def _usage(name: str) -> str:
    command: Command[Any] = import_module(f"medvqa.cli.{dispatch.MODULES[name]}").COMMAND
    return f"`{command.usage(name).replace(' [OPTIONS]', '')}`"


def inputs() -> str:
    """Return the inputs of the action that are options, in YAML."""
    lines = []
    for name, (default, more) in INPUTS.items():
        # What an action cannot repeat, or has another default for, follows in brackets or after a semicolon.
        about = re.sub(r" \((?:repeatable|default)[^)]*\)|; pytest .*|, the default(?=\))", "", OPTIONS[name].help)
        text = json.dumps(f"{about[0].upper()}{about[1:]}{more}.", ensure_ascii=False)
        lines += [f"  {name}:", f"    description: {text}", f"    default: {json.dumps(default)}"]
    return "\n".join([*lines, ""])


def gate_words() -> str:
    """Return the patterns of the gate's options for the action's script."""
    names = [f"--{row.name}" for row in SECTIONS["Gate"]]
    return "".join(
        f"            {pattern}) {action};;\n"
        for pattern, action in ((" | ".join(names), "skip=yes "), (" | ".join(f"{name}=*" for name in names), ""))
    )


PARTS = (
    (PAGE, "the tables", tables),
    (ACTION, "the inputs", inputs),
    (ACTION, "the gate's options", gate_words),
)
"""The parts of files: what their first and last lines call them, and the function that writes what is between."""


def written() -> Mapping[Path, str]:
    """Return the files with their parts."""
    texts = {path: path.read_text("utf-8") for path, *_ in PARTS}
    for path, name, write in PARTS:
        first, last = f"{name}: type python tools/options.py", f"end of {name}"
        lines = texts[path].splitlines(keepends=True)
        begin, end = (next(place for place, line in enumerate(lines) if mark in line) for mark in (first, last))
        texts[path] = "".join([*lines[: begin + 1], write(), *lines[end:]])
    return {**texts, SCHEMAS / "columns.csv": dictionary()}


def main() -> int:
    """Write the files, or compare them."""
    stale = [path for path, text in written().items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in stale:
        if "--compare" in sys.argv:
            print(f"stale: {path.relative_to(ROOT)}: type python tools/options.py")
        else:
            path.write_text(written()[path], "utf-8")
    return int(bool(stale) and "--compare" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
