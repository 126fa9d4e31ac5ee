"""The runs of a comparison, and reasons why they are not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medvqa import memory, records
from medvqa.items import OPTION_TECHNIQUES, TECHNIQUES, Answer, QuestionKey, Result, UsageError
from medvqa.protocols import combining
from medvqa.protocols.protocol import Protocol
from medvqa.records import DISTRIBUTION

WHAT: Mapping[str, str] = {
    "data": "the data set",
    "answers": "the origin of the answer key",
    "extraction": "the extraction",
    "ablation": "the ablation",
    "judge": "the judge",
    "combine": "the way to combine answers",
    "thresholds": "the threshold",
}
"""Parts of a signature, in words; other parts keep their names."""

ABSENT: Mapping[str, str] = {"ablation": "none", "combine": "mean"}
"""The meaning of a missing part of a signature, if known."""

NOTED = frozenset({"repeat", "models"})
"""Parts of a signature that may differ: the mean of five samples and one answer estimate the same."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run: its name, run.json, and results (the latest of each item and technique, sorted by these).

    `covered`: its coverage, None before the run. `key`: the key of hashed ids and texts, None if they are plain.
    `samples`: the answers before they were combined; None if each is a result.
    """

    name: str
    run: Mapping[str, Any]
    results: tuple[Result, ...]
    covered: records.Coverage | None = None
    key: records.BaselineKey | None = None
    samples: tuple[Result, ...] | None = None
    _asked: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        name: str,
        run: Mapping[str, Any],
        results: Iterable[Result],
        covered: records.Coverage | None = None,
        key: records.BaselineKey | None = None,
    ) -> Side:
        """Return the run with the answers to each question combined, as its protocol says."""
        answers = tuple(results)
        counted = combining.counted(answers, run)
        if counted == answers:
            return cls(name, run, counted, covered, key)
        if run.get("responses") == records.DIGESTS:
            # Votes and folded rotations have texts of their own; the other answers are digests already.
            single = set(map(id, answers))
            counted = tuple(
                result if result.answer is None or id(result) in single else _digested(result, result.answer)
                for result in counted
            )
        return cls(name, run, counted, covered, key, answers)

    @property
    def answers(self) -> tuple[Result, ...]:
        """The answers before they were combined."""
        return self.results if self.samples is None else self.samples

    def named(self, question: QuestionKey) -> QuestionKey:
        """The key of a question in the results: hashed if `key` is set."""
        return records.keyed_question(question, self.run, self.key)

    def revealed(self, others: Iterable[Side]) -> Side:
        """Return the run with hashes replaced by ids and texts, if other runs have them."""
        if self.key is None:
            return self
        plain = (
            result if side.run.get("responses") == records.DIGESTS else records.without_response(result)
            for side in others
            if side.key is None
            for result in side.results
        )
        return replace(self, results=records.reveal(self.run, self.results, plain, self.key))

    def only(self, benchmarks: Collection[str]) -> Side:
        """The same run restricted to these benchmarks."""
        about = {name: entry for name, entry in self.run.get("benchmarks", {}).items() if name in benchmarks}
        results, samples = (
            None if some is None else tuple(result for result in some if result.item.benchmark in benchmarks)
            for some in (self.results, self.samples)
        )
        return replace(self, run={**self.run, "benchmarks": about}, results=results or (), samples=samples)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Phrases about missing results; see `Coverage.lines`."""
        return self.covered.lines if self.covered is not None else ()

    @property
    def selected(self) -> tuple[str, ...]:
        """Lines about partly selected benchmarks; none if all were selected whole."""
        selection = records.Selection.of(self.run)
        parts = ((name, technique) for name, techniques in self.asked.items() for technique in techniques)
        return tuple(
            f"{name} ({technique}): {line}" for name, technique in parts if (line := selection.line(name, technique))
        )

    @property
    def asked(self) -> Mapping[str, tuple[str, ...]]:
        """The techniques with results, by benchmark."""
        if not self._asked:
            techniques: dict[str, set[str]] = {}
            for benchmark, technique in {(result.item.benchmark, result.technique) for result in self.results}:
                techniques.setdefault(benchmark, set()).add(technique)
            for name in sorted(techniques):
                self._asked[name] = tuple(technique for technique in TECHNIQUES if technique in techniques[name])
        return self._asked

    @property
    def model(self) -> str:
        """The model's name, as in reports."""
        return model_name(self.run)

    def signature(self, benchmark: str) -> dict[str, str]:
        """The signature of a benchmark, without prompt and technique."""
        return dict(self.run.get("benchmarks", {}).get(benchmark, {}).get("signature", {}))

    def prompt(self, benchmark: str, technique: str) -> str | None:
        """The names and digests of the templates, None if not recorded."""
        prompts: str | None = self.run.get("benchmarks", {}).get(benchmark, {}).get("prompts", {}).get(technique)
        return prompts

    def judged_by(self, benchmark: str) -> Collection[str]:
        """Techniques that a judge may have scored; all, if not recorded."""
        techniques: Collection[str] = (
            self.run.get("benchmarks", {}).get(benchmark, {}).get("judged_by", self.asked.get(benchmark, ()))
        )
        return techniques

    def said(self, result: Result) -> object:
        """The digest of a response: equal for equal responses, also if the run stores only digests."""
        return records.said(self.run, result)


def model_name(run: Mapping[str, Any]) -> str:
    """Return the name of a run's model (run.json), as in reports."""
    return str((run.get("model") or {}).get("name") or (run.get("config") or {}).get("name") or "unknown")


def _digested(result: Result, answer: Answer) -> Result:
    return replace(result, answer=replace(answer, text=records.response_digest(answer)))


@memory.no_cycle_search()
def load(path: Path) -> Side:
    """Read a run folder or a baseline file; keyed hashes need their key.

    UsageError if it is neither, is half rescored, or its key is missing; DataError if it is damaged.
    """
    key = None
    if records.is_baseline(path):
        run, results = records.read_baseline(path)
        name = str(run.get("name") or path.name)
        covered = records.Coverage(records.Selection.of(run).questions or None, len(results))
        if run.get("keyed"):
            key = records.find_key(run["keyed"]["key"], str(path))
    else:
        stored, run = records.read(path), records.read_run(path)
        results, covered = stored.results, records.coverage(path, run, stored)
        name = path.resolve().name
    records.check_scored(path, run)
    return Side.of(name, run, results, covered, key)


def beside(sides: Sequence[tuple[str, Side]], benchmarks: Collection[str] = (), *, option: str) -> list[Side]:
    """Prepare runs, as (path, run), for a comparison with each other.

    Runs with equal names are named by their paths. Ids and texts of another run replace hashes. Only `benchmarks` are
    kept (all if empty). UsageError for a benchmark that no run has (it names the `option`), and for files with hashes
    by different keys.
    """
    names = Counter(side.name for side in dict(sides).values())
    renamed = [replace(side, name=path) if names[side.name] > 1 else side for path, side in sides]
    keys = {side.key.name: path for path, side in sides if side.key is not None}
    if len(keys) > 1:
        one, other = list(keys.values())[:2]
        raise UsageError(f"{one} and {other} hold hashes by different keys: write one of them anew from its run folder")
    plain = [side.revealed(renamed) for side in renamed]
    present = sorted({result.item.benchmark for side in plain for result in side.results})
    for name in benchmarks:
        if name not in present:
            raise UsageError(f"{option}{name}: no run has it; there are: {', '.join(present)}")
    return [side.only(benchmarks) for side in plain] if benchmarks else plain


TECHNIQUE, PROMPT = "technique", "prompt"
"""Parts of `Refused` that no signature holds."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A reason why two runs are not comparable.

    `part`: the part of a signature that differs, "technique", "prompt", or "" for a missing benchmark.
    """

    part: str
    line: str


def refusals(new: Side, baseline: Side) -> list[str]:
    """Reasons why two runs are not comparable, one line per difference, naming both; [] if they are.

    Differences: data set version, prompt, judge, extraction, ablation, origin of the answer key, and a benchmark or
    technique that only the baseline has. Extra benchmarks or techniques of the new run are no difference.
    """
    return [reason.line for reason in refused(new, baseline)]


def refused(new: Side, baseline: Side) -> list[Refused]:
    """The reasons of `refusals`, each with the part that differs."""
    reasons, new_techniques = list[Refused](), new.asked
    for benchmark, techniques in baseline.asked.items():
        has = new_techniques.get(benchmark)
        if has is None:
            reasons.append(Refused("", f"{benchmark} is in {baseline.name} alone"))
            continue
        reasons += _different(benchmark, new, baseline)
        if not set(techniques) <= set(has):
            line = _line(benchmark, "the technique", (new, ", ".join(has)), (baseline, ", ".join(techniques)))
            reasons.append(Refused(TECHNIQUE, line))
        for technique in (technique for technique in techniques if technique in has):
            prompts = [(side, side.prompt(benchmark, technique)) for side in (new, baseline)]
            if prompts[0][1] != prompts[1][1]:
                reasons.append(Refused(PROMPT, _line(benchmark, f"the prompt of {technique}", *prompts)))
    return reasons


def _different(benchmark: str, new: Side, baseline: Side) -> list[Refused]:
    """Differing parts of the signatures, the named parts first."""
    one, other = new.signature(benchmark), baseline.signature(benchmark)
    shared = set(new.asked[benchmark]) & set(baseline.asked[benchmark])
    if not any(shared & set(side.judged_by(benchmark)) for side in (new, baseline)):
        # No judge scored any technique that both runs have: ignore it.
        judging = records.signed(new.run) | records.signed(baseline.run)
        one, other = ({k: v for k, v in signature.items() if k not in judging} for signature in (one, other))
    # A vote of ten answers and a vote of a hundred do not estimate the same.
    noted = NOTED - {"repeat"} if {"combine"} & (one.keys() | other.keys()) else NOTED
    names = [*WHAT, *sorted((one.keys() | other.keys()) - WHAT.keys() - noted)]
    return [
        Refused(
            name,
            _line(
                benchmark,
                WHAT.get(name, name),
                *(
                    (side, signature.get(name) or ABSENT.get(name))
                    for side, signature in ((new, one), (baseline, other))
                ),
            ),
        )
        for name in names
        if one.get(name) != other.get(name)
    ]


def _line(benchmark: str, what: str, *values: tuple[Side, str | None]) -> str:
    return f"{benchmark}: {what} is " + " and ".join(
        f"{value or 'not recorded'} in {side.name}" for side, value in values
    )


def token_limits(side: Side, benchmark: str, technique: str) -> str:
    """The token limits of a run, for instance "512" or "32, none"; "" if not recorded."""
    limits = side.run.get("benchmarks", {}).get(benchmark, {}).get("max_tokens", {}).get(technique, {})
    return ", ".join(str(number or "none") for number in sorted(set(limits.values())))


def notes(new: Side, baseline: Side) -> list[str]:
    """Notes on differences that do not prevent a comparison, one line each."""
    lines, baseline_techniques = [], baseline.asked
    for benchmark, techniques in new.asked.items():
        if benchmark not in baseline_techniques:
            lines.append(f"{benchmark} is in {new.name} alone, and not compared")
        elif more := [technique for technique in techniques if technique not in baseline_techniques[benchmark]]:
            lines.append(f"{benchmark}: technique {', '.join(more)} is in {new.name} alone, and not compared")
        for technique in (technique for technique in techniques if technique in baseline_techniques.get(benchmark, ())):
            now, was = (token_limits(side, benchmark, technique) for side in (new, baseline))
            # A run of an earlier version recorded no limit.
            if now and was and now != was:
                lines.append(
                    f"{benchmark}: the token limit of {technique} is {now} in {new.name} and {was} in {baseline.name}"
                )
    for side in (baseline, new):
        lines += [
            f"{side.name} is {line}" if line.startswith("unfinished") else f"{side.name}: {line}"
            for line in side.lacking
        ]
        lines += [f"{side.name} selected {line}" for line in side.selected]
    protocols = [Protocol.of(side.run) for side in (new, baseline)]
    times = [protocol.samples or 1 for protocol in protocols]
    if times[0] != times[1] and all(protocol.combine == "mean" for protocol in protocols):
        lines.append(
            f"samples of each question: {times[0]} in {new.name} and {times[1]} in {baseline.name}; their means are "
            "compared"
        )
    editions = [int(side.run.get("reading_rules", 1)) for side in (new, baseline)]
    techniques_asked = set[str]().union(*new.asked.values(), *baseline_techniques.values())
    if editions[0] != editions[1] and techniques_asked - OPTION_TECHNIQUES:
        older = new if editions[0] < editions[1] else baseline
        lines.append(
            f"answers were read by edition {editions[0]} of the rules in {new.name} and by edition {editions[1]} in "
            f"{baseline.name}, so some of the same answers may have other scores. `medvqa rescore` reads those of "
            f"{older.name} anew"
        )
    versions = [side.run.get("versions", {}).get(DISTRIBUTION) for side in (new, baseline)]
    if versions[0] != versions[1]:
        lines.append(
            f"answers were scored by {DISTRIBUTION} {versions[0] or 'unknown'} in {new.name} and "
            f"{versions[1] or 'unknown'} in {baseline.name}; their rules may differ"
        )
    return lines
