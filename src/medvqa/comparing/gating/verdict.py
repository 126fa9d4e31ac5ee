"""The gate's verdict as a value, and as `gate.json` of a run folder, the source for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

from medvqa import decode
from medvqa.comparing.gating.rules import Floor, Inconclusive
from medvqa.items import Result, UsageError
from medvqa.records import baseline_file, run_folder
from medvqa.records.coverage import ended
from medvqa.records.run_record import MAX_RUN, RunRecord
from medvqa.statistics.sentences import Better, RuleOutcome

RuleKind = Literal["baseline", "slice guard", "slice", "floor", "point", "units", "early"]

FILE = "gate.json"
SCHEMA = 1

FAILED, UNDECIDED = 10, 11
"""Exit codes of a failed and of an inconclusive gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A rule as it is prepared, decided, stored and shown: a row of gate.json and of every table of rules.

    `rule` is the rule's name. All figures are fractions, also margins and limits; None if a rule has no such figure.

    `difference`: new - baseline, in terms of the measure, with one-sided bounds `low` and `high`; for a floor, these
    bound `value`. `better`: the better direction of the measure. `p` before and `adjusted` after Holm. `gained` units
    became better and `lost` ones worse, in `discordant_groups` of `groups`. `margin`: the margin applied;
    `asked_margin`: the margin of the rules, if a judge's reliability reduced it. `chance`: the baseline must be above
    it (below, if less is better). `beyond`: the loss is shown to exceed the margin. `unit`: question or pair. `df`: the
    degrees of freedom, whatever the answers; with fewer than 4 a slice is not gated. `needed`, for INCONCLUSIVE: the
    units that would decide with 80 % power, at no true change, or for a floor at the true value `value`. `detectable`:
    the true loss that the rule would have shown with 80 % power at its share of the error. `items`: the size of the
    data set in questions. `holds_to`: for a PASS by a margin, the largest correlation of flips within groups at which
    it holds, 1 for any. `e_value`: the evidence of a rule that stopped the run early (kind "early"); its other figures
    are of the `units` until then, of `planned` ones.
    """

    rule: str
    kind: RuleKind
    benchmark: str
    measure: str
    technique: str
    outcome: RuleOutcome
    why: str
    slice: Mapping[str, str] = field(default_factory=dict)
    baseline: str | None = None
    value: float | None = None
    baseline_value: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    adjusted: float | None = None
    margin: float | None = None
    asked_margin: float | None = None
    limit: float | None = None
    units: int | None = None
    groups: int | None = None
    discordant_groups: int | None = None
    gained: int | None = None
    lost: int | None = None
    needed: int | None = None
    detectable: float | None = None
    chance: float | None = None
    unit: str | None = None
    df: float | None = None
    items: int | None = None
    better: Better = "higher"
    beyond: bool = False
    unchanged: bool = False
    holds_to: float | None = None
    e_value: float | None = None
    planned: int | None = None

    @classmethod
    def against(
        cls,
        baseline: str,
        benchmark: str,
        measure: str,
        technique: str,
        place: tuple[str, str] | None = None,
        margin: float | None = None,
        why: str = "",
    ) -> Ruling:
        """A rule that is not decided yet: a margin (points) on everything or in a slice, or a slice's guard."""
        kind: RuleKind = "baseline" if place is None else "slice guard" if margin is None else "slice"
        where = "" if place is None else f" in {' '.join(place)}"
        allowed = "" if margin is None else f", margin {margin:g}"
        return cls(
            rule=f"{benchmark}: {measure}{where} against {baseline}{allowed}",
            kind=kind,
            benchmark=benchmark,
            measure=measure,
            technique=technique,
            outcome="INCONCLUSIVE",
            why=why,
            slice={} if place is None else dict([place]),
            baseline=baseline,
        )

    @classmethod
    def of_floor(cls, floor: Floor, technique: str) -> Ruling:
        """A floor that is not decided yet."""
        sign, point = ">=" if floor.at_most is None else "<=", " (point)" if floor.point else ""
        return cls(
            rule=f"{floor.benchmark}: {floor.measure} {sign} {floor.limit:g}{point}",
            kind="point" if floor.point else "floor",
            benchmark=floor.benchmark,
            measure=floor.measure,
            technique=technique,
            outcome="INCONCLUSIVE",
            why="",
            limit=floor.limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A slice and the difference of its measure (a fraction), exploratory.

    `units`: the number of compared units. `better`: the better direction of the measure.
    """

    benchmark: str
    slice: Mapping[str, str]
    difference: float
    units: int
    better: Better = "higher"

    @property
    def gain(self) -> float:
        """The difference, above 0 if the slice became better."""
        return self.difference if self.better == "higher" else -self.difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Flipped:
    """A unit that is right in one run only, with the readings of both runs, question by question."""

    benchmark: str
    unit: str
    better: bool
    baseline: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A baseline: its run's name, and a digest of its results, the same for a folder and for its baseline file.

    A file with keyed hashes has a digest of its own.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The gate's decision over all rules.

    `outcome`: None if there are `blockers`: questions without a result, errors, questions that the baseline lacks.
    `notes`: notes for the reader. `rules`: the digest of the rules. `level`: of each one-sided bound. `flip_icc`: the
    declared correlation of flips within groups, None in verdicts of earlier versions. `worst`, `best`:
    slices by their differences. `flips`: the first flipped units; `gained`, `lost`: their numbers. `of`: the digest of
    the decided results. `read_from`: the origin of the rules. `shared`: the numbers of compared units, if the rules
    require only the shared ones.
    """

    outcome: Literal["PASS", "FAIL", "INCONCLUSIVE"] | None
    entries: tuple[Ruling, ...]
    blockers: tuple[str, ...]
    notes: tuple[str, ...]
    baselines: tuple[Against, ...]
    rules: str
    level: float
    looks: int
    inconclusive: Inconclusive
    of: str
    worst: tuple[Moved, ...] = ()
    best: tuple[Moved, ...] = ()
    flips: tuple[Flipped, ...] = ()
    gained: int = 0
    lost: int = 0
    read_from: str = ""
    shared: tuple[str, ...] = ()
    flip_icc: float | None = None

    @property
    def early(self) -> bool:
        """Whether the run was stopped before its end because it is surely worse (`--stop=early`)."""
        return any(entry.kind == "early" for entry in self.entries)

    @property
    def named(self) -> str:
        """The outcome as all reports print it: "FAIL (stopped early)"."""
        return f"{self.outcome or 'no verdict'}{' (stopped early)' if self.early else ''}"

    @property
    def exit_code(self) -> int:
        """0 for PASS, 10 for FAIL, 11 for INCONCLUSIVE unless that passes, 1 without a verdict.

        `inconclusive = "pass"` covers uncertainty in the data, not lost units, nor a rule without anything measured.
        """
        if self.outcome is None:
            return 1
        left = any(
            entry.kind == "units" or (entry.outcome == "INCONCLUSIVE" and entry.value is None) for entry in self.entries
        )
        undecided = UNDECIDED if left or self.inconclusive == "fail" else 0
        return {"PASS": 0, "FAIL": FAILED, "INCONCLUSIVE": undecided}[self.outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The content of gate.json: the verdict, and values that depend on the run folder's place and history.

    `attempts`: for each baseline, the number of runs beside each other that were compared with it. `digest`,
    `number`: of the results that were decided (`run_folder.decisive_digest`), "" and 0 in files of earlier versions.
    `session`: the last session of the run when it was decided; "" for a run without sessions, as a merged one.
    `began`: a session that began after that, and has left no verdict yet. `replaced`: a sentence on each FAIL of this
    run that stood here.
    """

    verdict: Verdict
    attempts: tuple[int, ...] = ()
    digest: str = ""
    number: int = 0
    session: str = ""
    began: str = ""
    replaced: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def named(self) -> str:
        """The outcome, its baselines and the digest of its rules: "FAIL against main (rules 1f2e3d4c5b6a)"."""
        against = ", ".join(baseline.name for baseline in self.verdict.baselines)
        return f"{self.verdict.named}{against and f' against {against}'} (rules {self.verdict.rules})"


def write(folder: Path, decided: Decided) -> None:
    """Write gate.json."""
    run_folder.write_json(folder / FILE, decided)


def begin(folder: Path, session: str) -> None:
    """Note that a session of the run begins, so that an earlier verdict is not taken for its own (OSError).

    A session that dies leaves this note behind.
    """
    decided = read_if_whole(folder)
    if decided is not None and not decided.began:
        write(folder, replace(decided, began=session))


def take_back(folder: Path, session: str) -> None:
    """Remove the note of a session that asked nothing: the verdict is still that of the last one (OSError)."""
    decided = read_if_whole(folder)
    if decided is not None and decided.began == session:
        write(folder, replace(decided, began=""))


def standing_fail(folder: Path, decided: Decided) -> Decided | None:
    """Return the FAIL in gate.json that a new verdict on the same results must not replace; None if there is none."""
    before = read_if_whole(folder)
    if before is None or before.verdict.outcome != "FAIL" or decided.verdict.outcome == "FAIL":
        return None
    return before if before.verdict.of == decided.verdict.of else None


def with_history(folder: Path, decided: Decided) -> Decided:
    """Return the verdict with a sentence on each FAIL of the run that it takes the place of.

    If it was decided without a session, that a session began before and left none stays noted.
    """
    before = read_if_whole(folder)
    if before is None:
        return decided
    began = before.began if before.session == decided.session else ""
    replaced = before.replaced
    if before.verdict.outcome == "FAIL" and decided.verdict.outcome != "FAIL":
        on = "the same" if before.verdict.of == decided.verdict.of else "earlier"
        replaced = (*replaced, f"it takes the place of {before.named} on {on} results of this run")
    return replace(decided, began=began, replaced=tuple(dict.fromkeys(replaced)))


def read_if_whole(folder: Path) -> Decided | None:
    """Return the stored verdict; None if there is none, or if it cannot be read: it will be decided anew."""
    try:
        return read(folder)
    except UsageError:
        return None


def not_current(decided: Decided, run: RunRecord, of: str) -> str | None:
    """Return why a stored verdict is not that of a run's last session; None if it is.

    `run`: its record; `of`: the digest of its present results.
    """
    last = run.last_session.session
    if decided.began:
        return f"session {decided.began} began after the verdict, and left none: repeat the run's command"
    if last != decided.session:
        before = decided.session or "(not recorded)"
        return f"the verdict is of session {before}, and the last one is {last or 'none'}: medvqa gate decides anew"
    if not ended(run):
        return "the run's last session did not end: repeat the run's command"
    if decided.verdict.of != of:
        return f"the verdict is on other results ({decided.verdict.of}; now {of}): medvqa gate decides on these"
    return None


def read(folder: Path) -> Decided | None:
    """The stored verdict of a run, None if there is none. UsageError if gate.json is damaged."""
    return decode.stored(folder / FILE, Decided, MAX_RUN, f"Decide anew: medvqa gate {folder}")


def remove(folder: Path) -> None:
    """Remove an earlier verdict."""
    (folder / FILE).unlink(missing_ok=True)


def digest(run: RunRecord, results: Sequence[Result]) -> str:
    """Digest of a run's results, 12 hex digits: questions, responses and scores."""
    total = sha256()
    for key, result in sorted(((result.key, result) for result in results), key=lambda pair: pair[0]):
        score = result.score.outcome, result.score.value
        total.update(msgspec.json.encode((key.stored, baseline_file.said(run, result), score)))
    return total.hexdigest()[:12]
