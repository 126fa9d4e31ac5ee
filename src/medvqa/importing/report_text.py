"""The validation report as text for a terminal, and as values for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medvqa import printing
from medvqa.benchmarks.table import shown_file
from medvqa.figures import between, chance, counted, number
from medvqa.importing.balance import RARE
from medvqa.importing.pictures import MISSING, NO_IMAGE, PUT_THERE
from medvqa.importing.power import FEW_GROUPS, TARGET
from medvqa.importing.problem_groups import LINES_OF_A_KIND, ProblemGroup, grouped
from medvqa.importing.settings import KEYS
from medvqa.importing.validation import Validation
from medvqa.tables.problems import row_list

MOST_VALUES = 8
"""Values of a tag in a line."""
MOST_PAIRS = 5
"""Pairs of similar images or questions that are listed."""
MOST_NAMES = 3
"""Missing images that have a line each; the line of more names as many."""
PUT_ALL_THERE = "put them there, or correct their names"


def text(validation: Validation, *, every: bool = False) -> str:
    """Return the report; `every` lists all mistakes, else at most LINES_OF_A_KIND of a kind."""
    parts = [
        ("Columns", _columns(validation)),
        ("Mistakes", _mistakes(validation, every)),
        ("Balance", _balance(validation)),
        ("Duplicates", _duplicates(validation)),
        ("Text alone", _text_alone(validation)),
        ("Groups", _groups(validation)),
        ("Power", _power(validation)),
        ("Privacy", _privacy(validation)),
    ]
    title = f"{validation.name}: {counted(validation.questions, 'questions')}"
    blocks = [title]
    for heading, lines in parts:
        if listed := list(lines):
            blocks.append("\n".join([heading, *(f"  {line}" for line in listed)]))
    return "\n\n".join(blocks)


def _columns(validation: Validation) -> Iterator[str]:
    for column, role in validation.columns:
        yield f"'{column}' is {'option ' if len(role) == 1 else 'the ' if role not in ('tag', 'slice') else 'a '}{role}"
    if "id" not in (role for _, role in validation.columns):
        yield f"no column is the id: questions are called by their {validation.unit}s, and otherwise if these move"
    settings = validation.settings
    if settings.language:
        yield f"language: {settings.language}; --set language=CODE changes it"
    if settings.numbers_from is not None:
        yield f"answers are numbers of options, from {settings.numbers_from}; --set numbers_from=N changes it"
    if settings.separator:
        yield f"options are separated by {settings.separator!r}"
    if validation.not_read:
        yield f"not read: {_listed(tuple(dict.fromkeys(validation.not_read)))}"


def _listed(names: Sequence[str]) -> str:
    return printing.some([f"'{name}'" for name in names], 20)


def _mistakes(validation: Validation, every: bool) -> Iterator[str]:
    groups = grouped(validation.problems)
    if not groups:
        yield "none found"
        return
    refused = validation.refused
    warned = len(validation.problems) - refused
    yield f"{refused:,} to correct, {counted(warned, 'warnings')}"
    by_kind: Counter[str] = Counter()
    left: dict[str, list[ProblemGroup]] = {}
    for group in groups if every else _missing_joined(groups):
        kind = group.problem.kind
        by_kind[kind] += 1
        if not every and by_kind[kind] > LINES_OF_A_KIND:
            left.setdefault(kind, []).append(group)
            continue
        mark = "" if group.problem.refused else "warning: "
        yield f"{mark}{group.line(validation.name, validation.unit)}"
    for kind, more in left.items():
        rows = [row for group in more for row in group.rows]
        where = f" ({validation.unit}s {row_list(rows, 5)})" if rows else ""
        yield f"{counted(len(more), 'more lines')} of the kind {kind}{where}; --report=FILE has all"


def _missing_joined(groups: Sequence[ProblemGroup]) -> list[ProblemGroup]:
    """Return the groups, with one line in place of many about missing images; it names the first."""
    missing: dict[str, list[ProblemGroup]] = {}
    for group in groups:
        if group.problem.kind == MISSING and group.problem.what.startswith(NO_IMAGE):
            missing.setdefault(group.problem.do, []).append(group)
    joined = list(groups)
    for do, alike in missing.items():
        if len(alike) > MOST_NAMES:
            names = printing.some([group.problem.what.removeprefix(NO_IMAGE) for group in alike], MOST_NAMES)
            what = f"{len(alike):,} images are not there: {names}"
            problem = replace(alike[0].problem, what=what, do=do.replace(PUT_THERE, PUT_ALL_THERE))
            place = joined.index(alike[0])
            joined = [group for group in joined if group not in alike]
            joined.insert(place, ProblemGroup(problem, tuple(row for group in alike for row in group.rows)))
    return joined


def _balance(validation: Validation) -> Iterator[str]:
    balance = validation.balance
    if balance.kinds:
        yield "kinds: " + ", ".join(f"{kind} {count:,}" for kind, count in balance.kinds)
    if balance.options:
        yield "options a question: " + ", ".join(
            f"{size} ({counted(count, 'questions')})" for size, count in balance.options
        )
    if balance.letters:
        n = balance.letters[0].n
        shares = ", ".join(
            f"{letter.letter} {number(letter.count / n, digits=0)} % ({between(letter.low, letter.high, digits=0)}, "
            f"expected {number(letter.expected, digits=0)})"
            for letter in balance.letters
        )
        yield f"right option, of {counted(n, 'single choices')}: {shares}"
        if balance.p is None:
            yield "the positions were not tested: too few right options are expected at a letter"
        elif balance.p < RARE:
            most = max(balance.letters, key=lambda letter: letter.count / n - letter.expected)
            yield (
                f"the positions are uneven (chi-square, p {chance(balance.p)}): {most.letter} is right most often; "
                "a model that prefers it scores too well. Shuffle the options"
            )
        else:
            yield f"the positions are as even as chance makes them (chi-square, p {chance(balance.p)})"
    if balance.judgments:
        yield "judgments: " + ", ".join(f"{value} {count:,}" for value, count in balance.judgments)
    for name, values in balance.tags.items():
        shown = ", ".join(f"{value} {count:,}" for value, count in values[:MOST_VALUES])
        more = f" and {len(values) - MOST_VALUES} more values" if len(values) > MOST_VALUES else ""
        yield f"{name}: {shown}{more}"


def _duplicates(validation: Validation) -> Iterator[str]:
    pictures, alike = validation.pictures, validation.alike
    if pictures.named:
        there = f"{pictures.there:,} of {counted(pictures.named, 'images')} can be read"
        yield there + (f"; not named: {counted(pictures.unused, 'images')} of the folder" if pictures.unused else "")
        for same in pictures.equal[:MOST_PAIRS]:
            yield f"equal files: {', '.join(map(shown_file, same[:4]))}; name one of them, so that they are one group"
        if len(pictures.equal) > MOST_PAIRS:
            yield f"{len(pictures.equal) - MOST_PAIRS} more groups of equal files"
        if pictures.near is None:
            yield pictures.why_not
        else:
            for one, other in pictures.near[:MOST_PAIRS]:
                yield f"similar images: {shown_file(one)} and {shown_file(other)}; are they of one patient?"
            if len(pictures.near) > MOST_PAIRS:
                yield f"{counted(len(pictures.near) - MOST_PAIRS, 'more pairs')} of similar images"
            if not pictures.equal and not pictures.near:
                yield "no equal or similar images"
    if alike.different:
        most = f"; one is asked {len(alike.most):,} times" if len(alike.most) > 1 else ""
        yield f"{counted(alike.different, 'different questions')}{most}"
    for first, second in (alike.near or ())[:MOST_PAIRS]:
        yield f"nearly equal questions: {validation.unit}s {first} and {second}"
    if alike.near and len(alike.near) > MOST_PAIRS:
        yield f"{counted(len(alike.near) - MOST_PAIRS, 'more pairs')} of nearly equal questions"


def _text_alone(validation: Validation) -> Iterator[str]:
    for baseline in validation.baselines:
        bounds = (
            "no interval: too few groups"
            if baseline.low is None or baseline.high is None
            else between(baseline.low, baseline.high, digits=0)
        )
        yield (
            f"{baseline.name}: {number(baseline.value, digits=0)} % ({bounds}) of {baseline.n:,}; "
            f"chance {number(baseline.chance, digits=0)} %"
        )
    above = [baseline for baseline in validation.baselines if baseline.above_chance]
    if above:
        best = max(above, key=lambda baseline: baseline.value)
        yield (
            f"without an image, '{best.name}' is right in {number(best.value, digits=0)} %, more than chance: "
            "compare a model with --ablate=text-only"
        )
    elif all(baseline.low is None for baseline in validation.baselines):
        if validation.baselines:
            yield "too few groups to tell whether text alone answers more than chance"
    else:
        yield "text alone is not shown to answer more than chance"


def _groups(validation: Validation) -> Iterator[str]:
    groups = validation.groups
    if groups is None or not groups.questions:
        return
    patients = f"{counted(groups.patients, 'patients')}, " if groups.patients else ""
    yield (
        f"{counted(groups.questions, 'questions')}, {patients}{counted(groups.images, 'images')}: "
        f"{counted(groups.groups, 'groups')} for the intervals, the largest of {counted(groups.largest, 'questions')}, "
        f"worth {groups.effective:.0f} equal ones"
    )
    if not groups.patients:
        yield "no column names the patient: questions about one patient count as independent unless they share an image"
    if groups.groups < FEW_GROUPS:
        yield f"fewer than {FEW_GROUPS} groups: intervals will be very wide, or missing"


def _power(validation: Validation) -> Iterator[str]:
    power, groups = validation.power, validation.groups
    if power is None or groups is None:
        return
    low, high = power.difference
    differing = f"if they differ in {number(power.discordance, digits=0)} % of the questions"
    size = f"{counted(groups.questions, 'questions')} in {counted(groups.groups, 'groups')}"
    if low is None:
        yield f"with {size}, no difference between two models is shown with 80 % power, {differing}"
    else:
        span, why = f"{number(low, digits=0)}", ""
        if high is None:
            why = " (none, if the questions of a group are answered alike)"
        elif f"{number(high, digits=0)}" != span:
            span = f"{span} to {number(high, digits=0)}"
            why = " (more, the more alike the questions of a group are answered)"
        yield (
            f"with {size}, a difference of about {span} points between two models is shown with 80 % power{why}, "
            f"{differing}"
        )
    least, most = power.needed
    needed = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    yield f"a difference of {number(TARGET, digits=0)} points needs about {needed} questions"


def _privacy(validation: Validation) -> Iterator[str]:
    if validation.private:
        yield f"kept nowhere, since they may name patients: {_listed(validation.private)}"
        yield "names in these columns were looked for in questions, options, answers, tags, ids and paths"
    if validation.grouped_by:
        yield (
            f"'{validation.grouped_by}' tells which questions are of one patient; two patients of one name count as "
            "one: --set patient=COLUMN names a column of numbers, --set patient= none"
        )
    if validation.holding_answer:
        yield f"not read, since they may hold the answer: {_listed(validation.holding_answer)}"
    if not validation.private:
        yield "no column looks like names or birth dates of patients"


def values(validation: Validation) -> dict[str, Any]:
    """Return the report as values for JSON; fractions stay fractions."""
    import msgspec

    balance, pictures = validation.balance, validation.pictures
    return {
        "file": validation.name,
        "questions": validation.questions,
        "columns": dict(validation.columns),
        "settings": {
            key: value for key, value in msgspec.structs.asdict(validation.settings).items() if key in (*KEYS, "kind")
        },
        "refused": validation.refused,
        "mistakes": [
            {
                "kind": group.problem.kind,
                "rows": list(group.rows),
                "column": group.problem.column,
                "what": group.problem.what,
                "do": group.problem.do,
                "refused": group.problem.refused,
            }
            for group in grouped(validation.problems)
        ],
        "balance": msgspec.to_builtins(balance),
        "images": {
            "named": pictures.named,
            "there": pictures.there,
            "unused": pictures.unused,
            "equal": [_shown(same) for same in pictures.equal],
            "similar": None if pictures.near is None else [_shown(pair) for pair in pictures.near],
        },
        "alike": msgspec.to_builtins(validation.alike),
        "text_alone": [msgspec.to_builtins(baseline) for baseline in validation.baselines],
        "groups": msgspec.to_builtins(validation.groups),
        "power": msgspec.to_builtins(validation.power),
        "private": list(validation.private),
        "may_hold_answer": list(validation.holding_answer),
        "not_read": list(validation.not_read),
    }


def _shown(names: Sequence[str]) -> list[str]:
    return [shown_file(name) for name in names]


def as_json(content: Mapping[str, Any]) -> str:
    """Return values as JSON that a terminal prints unchanged: no sign that a CI log interprets as a command."""
    import json

    return json.dumps(content, indent=2).replace("##", "#\\u0023")
