"""`medvqa options`: explain the options of runs."""

from __future__ import annotations

import textwrap

from medvqa.cli.arguments import Arguments, Command, help_width, positional
from medvqa.decode import did_you_mean, shown
from medvqa.items import UsageError
from medvqa.session.options import OLD_NAMES, SECTIONS, SELECT, Option


class OptionsArguments(Arguments):
    """Explain the options of `medvqa run` and of pytest by sections, or those that you name.

    `medvqa.evaluate` has them with _ for -, and the file of a sweep with either.
    """

    names: list[str] = positional("options, such as limit or max-cost (default: all)", "NAME", least=0)


def run(typed: OptionsArguments) -> str:
    """Return the options with their help, by sections."""
    rows = {row.name: row for section in SECTIONS.values() for row in section} | {SELECT.name: SELECT}
    names = [OLD_NAMES.get(name, name) for name in typed.names]
    for name in names:
        if name not in rows:
            raise UsageError(f"no option {shown(name)}{did_you_mean(name, rows)}")
    width = max(60, help_width())
    lines = list[str]()
    for title in SECTIONS:
        chosen = [row for row in rows.values() if row.section == title and (not names or row.name in names)]
        if chosen:
            lines += ["", title]
        for row in chosen:
            explained = textwrap.wrap(row.help, width, initial_indent=8 * " ", subsequent_indent=8 * " ")
            lines += [f"  {_usage(row)}", *explained]
    return "\n".join(lines[1:])


def _usage(row: Option) -> str:
    pytest = " (pytest: -k and -m)" if row is SELECT else ""
    return f"--{row.name}{f'={row.metavar}' if row.metavar else ''}{pytest}"


COMMAND = Command(OptionsArguments, run)
