"""The gate's rules: tables `[tool.medvqa.gate]` of a pyproject.toml, overridden by options.

[tool.medvqa.gate]
baseline = "baselines/main.medvqa"      # or several, in a list; relative to the file's folder
margin = 2                              # points
slices = ["department"]                 # dimensions whose slices are guarded
looks = 1
inconclusive = "fail"
require = "baseline"                    # required units: baseline, all or shared
judge_reliability = 0.8
# judge_sheet = "anna.csv"              # in its place: scores by people of the baseline's answers, or several files
flip_icc = 0.1                          # correlation of the flips of a group, 0 to 1

[tool.medvqa.gate.benchmarks.mediconfusion]
measure = "set_accuracy"                # by default the first headline measure
technique = "gd"                        # required if the run has several techniques
margin = 5
require = "shared"

[[tool.medvqa.gate.slice]]
benchmark = "gmai-mmbench-val"
dimension = "department"
value = "ophthalmology"
margin = 8

[[tool.medvqa.gate.floor]]
benchmark = "gmai-mmbench-val"
measure = "accuracy"
at_least = 0.55                         # or at_most; fractions
point = true                            # the estimate alone decides
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from medvqa import configs, decode
from medvqa.items import UsageError
from medvqa.statistics import FLIP_ICC

DEFAULT_MARGIN = 2.0
"""Points."""
FILE = "pyproject.toml"
MAX_BYTES = 2**20
"""Bytes of the file, normally the user's pyproject.toml."""
TABLE = "tool.medvqa.gate"
NAME, CLOSE, DEPTH = "medvqagate", 0.85, 4
"""The letters of that name, the likeness of one that is nearly it, and how deep such a table is searched."""

Inconclusive = Literal["pass", "fail"]
Require = Literal["baseline", "all", "shared"]
"""The units that a PASS requires: the baseline's, the whole data set's too, or only those of both runs."""
REQUIRE: tuple[Require, ...] = ("baseline", "all", "shared")


OUTSIDE: Mapping[str, Any] = {"file": "", "typed": ()}
"""Fields of `Rules` that are not in a file: the origin of the rules."""
PATHS = ("baseline", "judge_sheet")
"""Keys of files, one or a list, relative to the folder of the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRule:
    """What a file says about a benchmark. None leaves it to the benchmark, the run and the general rules."""

    measure: str | None = None
    technique: str | None = None
    margin: float | None = None
    judge_reliability: float | None = None
    require: Require | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRule:
    """A margin of a slice, in points."""

    benchmark: str
    dimension: str
    value: str
    margin: float

    @property
    def place(self) -> tuple[str, str]:
        """The dimension and the value."""
        return self.dimension, self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A limit of a measure, a fraction. `point`: the estimate alone decides."""

    benchmark: str
    measure: str
    at_least: float | None = None
    at_most: float | None = None
    point: bool = False

    @property
    def limit(self) -> float:
        """The limit."""
        return (self.at_least if self.at_most is None else self.at_most) or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules of a gate, as a file has them and run.json stores them. Margins are points, limits fractions.

    `baseline`: paths of run folders or baseline files. `slices`: dimensions; none of their slices may be shown to be
    worse, if it is large enough. `judge_reliability`, in (0, 1]: the share of a true difference that a judge's scores
    show, by human labels. For right or wrong answers it is sensitivity + specificity - 1 (Youden 1950, Cancer 3:32),
    else the slope of its scores over people's. It multiplies the margins of judged measures. `judge_sheet`: paths of
    people's scores of the baselines' answers, in its place; `prepare` puts the reliability there. `flip_icc`, in
    [0, 1]: the declared correlation of the changes of two units of a group (`statistics.compare`). `benchmarks`: rules
    about whole benchmarks, by name. `require`: the units that must count for a PASS. `file`: the file of the rules.
    `typed`: the options typed over it. Neither is a part of the rules.
    """

    baseline: tuple[str, ...] = ()
    margin: float = DEFAULT_MARGIN
    slices: tuple[str, ...] = ()
    looks: int = 1
    inconclusive: Inconclusive = "fail"
    judge_reliability: float | None = None
    judge_sheet: tuple[str, ...] = ()
    flip_icc: float = FLIP_ICC
    benchmarks: Mapping[str, BenchmarkRule] = field(default_factory=dict)
    slice: tuple[SliceRule, ...] = ()
    floor: tuple[Floor, ...] = ()
    require: Require = "baseline"
    file: str = ""
    typed: tuple[str, ...] = ()

    def required(self, benchmark: str) -> Require:
        """The units of a benchmark that a PASS requires."""
        own = self.benchmarks.get(benchmark)
        return self.require if own is None or own.require is None else own.require

    @property
    def read_from(self) -> str:
        """The origin of the rules, as a sentence."""
        typed = ", ".join(self.typed)
        if self.file:
            return f"rules read from {self.file}" + (f", and typed over them: {typed}" if typed else "")
        return f"rules read from the command line: {typed}" if typed else ""

    def of_slices(self, benchmark: str) -> dict[tuple[str, str], float]:
        """The margins of slices of a benchmark, by (dimension, value)."""
        return {rule.place: rule.margin for rule in self.slice if rule.benchmark == benchmark}

    @property
    def active(self) -> bool:
        """Whether there is a rule to decide."""
        return bool(self.baseline or self.floor)

    def as_json(self) -> dict[str, Any]:
        """JSON values as in a file, without paths, which differ between machines."""
        # Convert there and back, so that 2 and 2.0 are the same margin.
        same = msgspec.convert(msgspec.to_builtins(self), Rules)
        encoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(same))
        for name in (*PATHS, *OUTSIDE):
            del encoded[name]
        # The default is omitted, as in rules of earlier versions.
        for table, default in (
            (encoded, "baseline"),
            *((benchmark, None) for benchmark in encoded["benchmarks"].values()),
        ):
            if table["require"] == default:
                del table["require"]
        return encoded

    @property
    def digest(self) -> str:
        """Digest of the rules, 12 hex digits; the baselines have their own."""
        return sha256(msgspec.json.encode(self.as_json(), order="sorted")).hexdigest()[:12]


def from_json(stored: Mapping[str, Any], where: str) -> Rules:
    """Rules as stored by `as_json`; UsageError, naming `where`, if they are invalid."""
    return _rules(stored, where)


def read(path: Path) -> Rules:
    """The rules of a file; empty if it has none or does not exist. UsageError names the file and the key.

    UsageError also for rules that no run can break, and for a table whose name is nearly that of the rules.
    """
    tables = configs.project_table(path, MAX_BYTES)
    table: Any = tables.get("gate", {})
    rules = _rules(table, str(path), tuple(TABLE.split(".")))
    for number, floor in enumerate(rules.floor, 1):
        if floor.at_least == 0 or floor.at_most == 1:
            limit = "at_least = 0" if floor.at_most is None else "at_most = 1"
            raise UsageError(
                f"{path}: [[{TABLE}.floor]] number {number}: {limit}: every run meets it. Write the fraction that a "
                "run must meet, or leave the rule out"
            )
    if (name := _near_miss(path)) is not None:
        raise UsageError(f"{path}: [{name}] is not read, so its rules do nothing: write [{TABLE}]")
    file = os.path.relpath(path) if "gate" in tables else ""
    baseline, sheet = (tuple(str(path.parent / one) for one in paths) for paths in (rules.baseline, rules.judge_sheet))
    return replace(rules, baseline=baseline, judge_sheet=sheet, file=file)


def _near_miss(path: Path) -> str | None:
    """Return the name of a table that seems to be meant for the rules, but is not read; None if there is none."""
    if not path.is_file():
        return None
    content = decode.decode(path, dict[str, Any], limit=MAX_BYTES)
    inside: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), content)]
    for place, table in inside:
        for key, value in table.items():
            name = (*place, key)
            if not isinstance(value, Mapping | list) or name[:2] == ("tool", "medvqa"):
                continue
            words = re.sub(r"[^a-z]|pytest", "", "".join(name[name[0].lower() == "tool" :]).lower())
            if decode.nearest(words, [NAME], CLOSE):
                return ".".join(name)
            if isinstance(value, Mapping) and len(name) < DEPTH:
                inside.append((name, value))
    return None


def above(folder: Path) -> Path | None:
    """The nearest file above a folder with a table of rules; unreadable files are skipped."""
    for parent in folder.resolve().parents:
        try:
            if (parent / FILE).is_file() and read(parent / FILE).file:
                return parent / FILE
        except UsageError:
            continue
    return None


def typed_over(
    rules: Rules,
    *,
    baseline: Sequence[str] = (),
    margin: float | None = None,
    slices: Sequence[str] = (),
    looks: int | None = None,
    inconclusive: str | None = None,
    require: str | None = None,
) -> Rules:
    """The rules overridden by options: `--baseline` and so on replace the file's keys of the same names.

    UsageError for values out of range, and for options that need a baseline or a rule.
    """
    changes: dict[str, Any] = {
        "baseline": tuple(baseline),
        "margin": margin,
        "slices": tuple(dict.fromkeys(name for dimension in slices for name in dimension.split(",") if name)),
        "looks": looks,
        "inconclusive": inconclusive,
        "require": require,
    }
    changes = {name: value for name, value in changes.items() if value not in (None, ())}
    typed = tuple("--gate-slices" if name == "slices" else f"--{name}" for name in changes)
    changed = replace(rules, **changes, typed=(*rules.typed, *typed))
    for name, option in (("margin", "--margin"), ("slices", "--gate-slices")):
        if name in changes and not changed.baseline:
            raise UsageError(f"{option}: worse than what? Name a run folder or a baseline file: --baseline=RUN")
    for name in changes:
        if not changed.active:
            raise UsageError(
                f"--{name}: there is nothing to decide. Name a run folder or a baseline file by --baseline=RUN, or "
                f"floors in [[{TABLE}.floor]] of {FILE}"
            )
    _check_range("--margin", changed.margin, 0, 100, "points")
    if changed.looks < 1:
        raise UsageError(f"--looks={changed.looks}: how often the gate is asked, at least 1")
    if changed.inconclusive not in ("pass", "fail"):
        raise UsageError(f"--inconclusive={changed.inconclusive}: pass or fail")
    if changed.require not in REQUIRE:
        raise UsageError(
            f"--require={changed.require}: baseline (every unit of the baseline must count), all (and every "
            "question of the data set must be asked) or shared (decide on what both runs have)"
        )
    if require is not None:
        # An option applies to all benchmarks.
        changed = replace(
            changed, benchmarks={n: replace(rule, require=None) for n, rule in changed.benchmarks.items()}
        )
    return changed


def _rules(values: Any, where: str, place: tuple[str, ...] = ()) -> Rules:
    """Rules of JSON or TOML values at a place in a file; UsageError names the key."""
    if isinstance(values, Mapping):
        values = {**values, **{name: [one] for name in PATHS if isinstance(one := values.get(name), str)}}
    rules = decode.converted(values, Rules, where, given=OUTSIDE, table=place)
    _check_values(rules, f"{where}: [{TABLE}" if place else where, "]" if place else "")
    return rules


def _check_values(rules: Rules, inside: str, close: str) -> None:
    where = inside + close
    _check_range(f"{where}: margin", rules.margin, 0, 100, "points")
    _check_reliability(where, rules.judge_reliability)
    if rules.judge_sheet and rules.judge_reliability is not None:
        raise UsageError(f"{where}: judge_sheet gives the judge_reliability: write one of the two")
    if not 0 <= rules.flip_icc <= 1:
        raise UsageError(
            f"{where}: flip_icc = {rules.flip_icc:g}: the correlation of the flips of a group, from 0 to 1"
        )
    if rules.looks < 1:
        raise UsageError(f"{where}: looks = {rules.looks}: how often the gate is asked, at least 1")
    for name, headline in rules.benchmarks.items():
        _check_range(f"{inside}.benchmarks.{name}{close}: margin", headline.margin, 0, 100, "points")
        _check_reliability(f"{inside}.benchmarks.{name}{close}", headline.judge_reliability)
    for number, rule in enumerate(rules.slice, 1):
        _check_range(f"{_of(inside, 'slice', close)} number {number}: margin", rule.margin, 0, 100, "points")
    for number, floor in enumerate(rules.floor, 1):
        here = f"{_of(inside, 'floor', close)} number {number}"
        if (floor.at_least is None) == (floor.at_most is None):
            raise UsageError(f"{here}: one of at_least and at_most, a fraction such as 0.55")
        for key in ("at_least", "at_most"):
            limit = getattr(floor, key)
            if limit is not None and not 0 <= limit <= 1:
                raise UsageError(f"{here}: {key} = {limit:g}: a fraction from 0 to 1, such as 0.55")


def _of(inside: str, key: str, close: str) -> str:
    """The name of an array of tables: `FILE: [[tool.medvqa.gate.floor]]`."""
    return f"{inside.replace('[', '[[', 1)}.{key}{close * 2}"


def _check_reliability(where: str, value: float | None) -> None:
    _check_range(f"{where}: judge_reliability", value, 0, 1, "a fraction")


def _check_range(what: str, value: float | None, low: float, high: float, unit: str) -> None:
    if value is not None and not low < value <= high:
        raise UsageError(f"{what} = {value:g}: {unit}, more than {low:g} and at most {high:g}")
