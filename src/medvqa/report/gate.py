"""The gate's verdict as lines and a table, for the terminal, Markdown, JUnit and the page alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from medvqa import printing
from medvqa.comparing.gating import Decided, Flipped, Moved, Ruling, Verdict
from medvqa.figures import About, Column, Figure, Table, between, markdown, number, numbers, texts
from medvqa.printing import markdown as escape

SOME = 8
"""Parts that are named in a line."""
ROWS = 40
"""Maximum number of rules in the table; with more, guards that pass and slices not gated are left out."""
SECTION, SECTION_END = "## Gate: ", "Every question and answer: "
"""The beginnings of the first and of the last block of the verdict in summary.md."""
ORDER = ("FAIL", "INCONCLUSIVE", "PASS", "NOT GATED")


def headline(decided: Decided, *, exits: bool = True) -> str:
    """The verdict in a line: baselines, the compared part if not all, and, if `exits`, the exit code.

    If compared units share groups, and the run was not stopped early, it names the declared correlation of their flips.
    """
    verdict = decided.verdict
    against = f" against {', '.join(baseline.name for baseline in verdict.baselines)}" if verdict.baselines else ""
    on = f" on {', '.join(verdict.shared)}" if verdict.shared else ""
    grouped = any(entry.units and entry.groups and entry.groups < entry.units for entry in verdict.entries)
    says = grouped and verdict.flip_icc is not None and not verdict.early
    declared = f", flip_icc {verdict.flip_icc:g}" if says else ""
    code = verdict.exit_code
    exit_code = f" (exit code {code})" if code and exits else ""
    return f"{verdict.named}{against}{on}{declared}{exit_code}"


def remarks(decided: Decided) -> list[str]:
    """Remarks on the verdict, one sentence each: attempts, level, notes."""
    verdict = decided.verdict
    lines = []
    for baseline, attempted in zip(verdict.baselines, decided.attempts, strict=False):
        looks = f"{verdict.looks} (--looks)"
        beyond = attempted > verdict.looks
        attempt = f"attempt {attempted} in this folder against {baseline.name}; planned: {looks}"
        lines.append(attempt + (": each further one is another chance of a wrong PASS." if beyond else "."))
    lines += [f"{sentence}." for sentence in (*decided.replaced, *verdict.notes)]
    return [*lines, f"{verdict.read_from}."] if verdict.read_from else lines


def rule(entry: Ruling) -> str:
    """A rule's outcome and reason, in a line."""
    return f"{name(entry)}: {entry.why}"


def name(entry: Ruling) -> str:
    """A rule's name, marked if less of its measure is better."""
    return entry.rule + (" (less is better)" if entry.better == "lower" and entry.limit is None else "")


def ranked(verdict: Verdict) -> list[Ruling]:
    """All rules, worst outcome first."""
    return sorted(verdict.entries, key=lambda entry: ORDER.index(entry.outcome))


def listed(verdict: Verdict) -> list[Ruling]:
    """The deciding rules, worst outcome first; without guards that pass and slices that are not gated."""
    return [entry for entry in ranked(verdict) if not _quiet(entry)]


def passed(verdict: Verdict) -> list[Ruling]:
    """The guards that pass, largest detectable loss first."""
    guards = [entry for entry in verdict.entries if entry.kind == "slice guard" and entry.outcome == "PASS"]
    return sorted(guards, key=lambda entry: -(entry.detectable or 0.0))


def small(verdict: Verdict) -> list[Ruling]:
    """The slices that are not gated."""
    return [entry for entry in verdict.entries if entry.outcome == "NOT GATED"]


def _quiet(entry: Ruling) -> bool:
    return entry.outcome == "NOT GATED" or (entry.kind == "slice guard" and entry.outcome == "PASS")


def quiet(verdict: Verdict) -> list[str]:
    """Lines about the guards that pass, with their detectable losses, and about slices not gated, with reasons."""
    lines = []
    if guards := passed(verdict):
        number = "1 slice" if len(guards) == 1 else f"{len(guards)} slices"
        detectable = all(entry.detectable is not None for entry in guards)
        what = ". Smallest true loss, in points, that 80 % of runs would show" if detectable else ""
        lines.append(f"{number} not shown to be worse{what}: {printing.some([*map(_shown_from, guards)], SOME)}.")
    if left := [f"{_place(entry)} ({entry.why})" for entry in small(verdict)]:
        lines.append(f"Not gated: {printing.some(left, SOME)}.")
    return lines


def _shown_from(entry: Ruling) -> str:
    if entry.detectable is None:
        return _place(entry)
    base = entry.baseline_value or 0.0
    there_is = base if entry.better == "higher" else 1 - base
    more = " (more than can be lost)" if entry.detectable > there_is else ""
    return f"{_place(entry)} {number(entry.detectable, digits=1)}{more}"


def moved(slices: Iterable[Moved]) -> str:
    """Slices with their differences in points."""
    return ", ".join(f"{_where(row.slice)} {number(row.difference, sign=True)} (n {row.units:,})" for row in slices)


def flips(verdict: Verdict) -> str:
    """How many units flipped."""
    return f"{verdict.lost:,} lost, {verdict.gained:,} gained"


def flip(flipped: Flipped) -> str:
    """One flipped unit and the readings of its two answers."""
    return f"{flipped.benchmark}/{flipped.unit}: {' + '.join(flipped.baseline)} -> {' + '.join(flipped.new)}"


def lines(decided: Decided, *, exits: bool = True) -> list[str]:
    """The verdict and its reasons as lines for a terminal."""
    verdict = decided.verdict
    lines = [f"gate: {headline(decided, exits=exits)}"]
    lines += [f"  blocked: {line}" for line in verdict.blockers]
    lines += [f"  {entry.outcome}: {rule(entry)}" for entry in listed(verdict)]
    lines += [f"  {line}" for line in (*quiet(verdict), *remarks(decided))]
    return [printing.line(line) for line in lines]


def blocks(decided: Decided, run: str, public: Collection[str]) -> list[str]:
    """The verdict in Markdown: its rules, the slices that moved most, and the first units that flipped.

    `run`: the run's name. Units are named if their benchmark is `public`.
    """
    verdict = decided.verdict
    blocks = [f"{SECTION}{escape(headline(decided))}"]
    if verdict.blockers:
        blocks.append(_listing(verdict.blockers))
    if entries := listed(verdict):
        blocks.append("\n".join(f"- **{entry.outcome}** {escape(rule(entry))}" for entry in entries))
        blocks.append(markdown(table(ranked(verdict) if len(verdict.entries) <= ROWS else entries)))
    lines = quiet(verdict)
    for name, slices in (("Largest losses", verdict.worst), ("Largest gains", verdict.best)):
        if slices:
            lines.append(f"{name} by slice, in points, exploratory: {moved(slices)}.")
    if lines := [*lines, *remarks(decided)]:
        blocks.append(_listing(lines))
    if verdict.flips:
        shown = [each for each in verdict.flips if each.benchmark in public]
        blocks.append(f"Flipped: {flips(verdict)}." + (" The first of each:" if shown else ""))
        if shown:
            named = (f"- {'gained' if each.better else 'lost'}: {escape(flip(each))}" for each in shown)
            blocks.append("\n".join(named))
    return [*blocks, f"{SECTION_END}[index.html](index.html) of run {escape(run)}."]


def _listing(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def table(entries: Sequence[Ruling], title: str = "") -> Table:
    """Rules with their numbers, and for a page with their reasons."""
    columns = (
        *(*texts("verdict", "rule"), Column("new %", "figure"), Column("baseline %", "figure")),
        *(Column("difference", "figure"), Column("one-sided bounds", "interval"), Column("detectable", "figure")),
        *(*numbers("lost", "gained"), Column("adjusted p", "chance")),
    )
    return Table(title, columns, tuple(map(_row, entries)), about=tuple(About(note=entry.why) for entry in entries))


def _row(entry: Ruling) -> tuple[object, ...]:
    floor = entry.kind in ("floor", "point")
    margin = {} if entry.margin is None else {"margin": -entry.margin if entry.better == "higher" else entry.margin}

    def figure(field: str, value: float | None) -> Figure:
        return Figure(value, of={"rule": entry.rule, "field": field})

    moved = replace(figure("difference", entry.difference), low=entry.low, high=entry.high, sign=True, levels=margin)
    return (
        *(entry.outcome, name(entry), figure("value", entry.value)),
        None if floor else figure("baseline_value", entry.baseline_value),
        None if entry.difference is None else moved,
        between(entry.low, entry.high) if floor else moved,
        None if entry.detectable is None else figure("detectable", entry.detectable),
        *(entry.lost, entry.gained, "" if entry.adjusted is None else entry.adjusted),
    )


def _place(entry: Ruling) -> str:
    return _where(entry.slice)


def _where(place: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in place.items())
