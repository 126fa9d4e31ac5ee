"""The runs of a comparison, and reasons why they are not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from medvqa import memory, metrics
from medvqa.comparing import stored_answers
from medvqa.items import OPTION_TECHNIQUES, TECHNIQUES, Answer, QuestionKey, Result, UsageError
from medvqa.protocols import combining
from medvqa.records import baseline_file, configuration, coverage, keyed, run_folder, run_record
from medvqa.records.baseline_file import DIGESTS
from medvqa.records.configuration import NAMES, ConfigurationDifference, RunSetting
from medvqa.records.coverage import Coverage
from medvqa.records.keyed import BaselineKey
from medvqa.records.run_folder import DISTRIBUTION, SharedResults
from medvqa.records.run_record import RunRecord

NOTED = frozenset({"repeat", "models"})
"""Parts of a signature that may differ: the mean of five samples and one answer estimate the same."""


def settings_of(signature: str) -> dict[str, str]:
    """Return the parts of a measure's signature that comparable numbers share.

    The number of samples may differ only for means. A text that is no signature is one part.
    """
    try:
        parts = metrics.parts(signature)
    except ValueError:
        return {"signature": signature}
    return {part: value for part, value in sorted(parts.items()) if part not in _noted(parts)}


def _noted(*signatures: Collection[str]) -> frozenset[str]:
    # A vote of ten answers and a vote of a hundred do not estimate the same.
    return NOTED - {"repeat"} if any("combine" in signature for signature in signatures) else NOTED


@dataclass(frozen=True, slots=True)
class Side:
    """One run: its name, record, and results (the latest of each item and technique, sorted by these).

    `covered`: its coverage, None before the run. `key`: the key of hashed ids and texts, None if they are plain.
    `samples`: the answers before they were combined; None if each is a result. `unread`: lines of results.jsonl that
    are no results.
    """

    name: str
    run: RunRecord
    results: tuple[Result, ...]
    covered: Coverage | None = None
    key: BaselineKey | None = None
    samples: tuple[Result, ...] | None = None
    unread: tuple[str, ...] = ()
    _asked: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        name: str,
        run: RunRecord,
        results: Iterable[Result],
        covered: Coverage | None = None,
        key: BaselineKey | None = None,
    ) -> Side:
        """Return the run with the answers to each question combined, as its protocol says."""
        answers = tuple(results)
        counted = combining.combined(answers, run.protocol, run.prompts)
        if counted == answers:
            return cls(name, run, counted, covered, key)
        if run.responses == DIGESTS:
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
        return keyed.keyed_question(question, self.run, self.key)

    def revealed(self, others: Iterable[Side]) -> Side:
        """Return the run with hashes replaced by ids and texts, if other runs have them."""
        if self.key is None:
            return self
        plain = (
            result if side.run.responses == DIGESTS else baseline_file.without_response(result)
            for side in others
            if side.key is None
            for result in side.results
        )
        return replace(self, results=keyed.reveal(self.run, self.results, plain, self.key))

    def only(self, benchmarks: Collection[str]) -> Side:
        """The same run restricted to these benchmarks."""
        kept = {name: entry for name, entry in self.run.benchmarks.items() if name in benchmarks}
        results, samples = (
            None if some is None else tuple(result for result in some if result.item.benchmark in benchmarks)
            for some in (self.results, self.samples)
        )
        return replace(self, run=structs.replace(self.run, benchmarks=kept), results=results or (), samples=samples)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Phrases about missing results; see `Coverage.lines`."""
        return self.covered.lines if self.covered is not None else ()

    @property
    def selected(self) -> tuple[str, ...]:
        """Lines about partly selected benchmarks; none if all were selected whole."""
        selection = self.run.selected
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
        return self.run.model_name

    def signature(self, benchmark: str) -> dict[str, str]:
        """The signature of a benchmark, without prompt and technique."""
        return self.run.benchmark(benchmark).signature

    def prompt(self, benchmark: str, technique: str) -> str | None:
        """The names and digests of the templates, None if not recorded."""
        return self.run.benchmark(benchmark).prompts.get(technique)

    def judged_by(self, benchmark: str) -> Collection[str]:
        """Techniques that a judge may have scored; all, if not recorded."""
        techniques = self.run.benchmark(benchmark).judged_by
        return self.asked.get(benchmark, ()) if techniques is None else techniques

    def said(self, result: Result) -> object:
        """The digest of a response: equal for equal responses, also if the run stores only digests."""
        return baseline_file.said(self.run, result)


def _digested(result: Result, answer: Answer) -> Result:
    return replace(result, answer=replace(answer, text=baseline_file.response_digest(answer)))


def load(path: Path) -> Side:
    """Read a run folder or a baseline file; keyed hashes need their key.

    UsageError if it is neither, is half rescored, or its key is missing; DataError if it is damaged.
    """
    return load_runs([path])[0]


@memory.no_cycle_search()
def load_runs(paths: Iterable[Path]) -> list[Side]:
    """Read run folders and baseline files, one after the other (`load`); they share what is the same in them."""
    shared = SharedResults()
    return [_load(path, shared) for path in paths]


def _load(path: Path, shared: SharedResults) -> Side:
    key, unread = None, tuple[str, ...]()
    if baseline_file.is_baseline(path):
        run, read = baseline_file.read_baseline(path)
        results = tuple(map(shared, read))
        name = run.name or path.name
        covered = coverage.cover(run, (), {result.key for result in results})
        if run.keyed is not None:
            key = keyed.find_key(run.keyed.key, str(path))
    else:
        stored, run = stored_answers.read(path, shared), run_record.read_run(path)
        results, covered = stored.results, coverage.coverage(path, run, stored)
        name, unread = path.resolve().name, stored.unread
    run_folder.check_scored(path, run)
    return replace(Side.of(name, run, results, covered, key), unread=unread)


def named_apart(sides: Sequence[Side], paths: Sequence[str]) -> list[Side]:
    """The runs with different names: those of several paths with equal ones are named by their paths."""
    names = Counter(side.name for side in dict(zip(paths, sides, strict=True)).values())
    return [replace(side, name=path) if names[side.name] > 1 else side for path, side in zip(paths, sides, strict=True)]


def beside(sides: Sequence[tuple[str, Side]], benchmarks: Collection[str] = (), *, option: str) -> list[Side]:
    """Prepare runs, as (path, run), for a comparison with each other.

    Runs with equal names are named by their paths. Ids and texts of another run replace hashes. Only `benchmarks` are
    kept (all if empty). UsageError for a benchmark that no run has (it names the `option`), and for files with hashes
    by different keys.
    """
    renamed = named_apart([side for _, side in sides], [path for path, _ in sides])
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


def load_beside(paths: Iterable[Path], benchmarks: Collection[str] = ()) -> list[Side]:
    """Load runs or baseline files, each path once, for a comparison with each other (`beside`, UsageError)."""
    each = list(dict.fromkeys(paths))
    return beside(list(zip(map(str, each), load_runs(each), strict=True)), benchmarks, option="--benchmark=")


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
    reasons, new_techniques, names = list[Refused](), new.asked, (new.name, baseline.name)
    for benchmark, techniques in baseline.asked.items():
        has = new_techniques.get(benchmark)
        if has is None:
            versions = configuration.other_versions((new.name, new.run), (baseline.name, baseline.run))
            reasons.append(Refused("", "; ".join([f"{benchmark} is in {baseline.name} alone", *versions])))
            continue
        different = _different(benchmark, new, baseline)
        signed = [each for each in different if each.setting.part != PROMPT]
        reasons += [Refused(each.setting.name, each.between(*names)) for each in signed]
        if not set(techniques) <= set(has):
            asked = ", ".join(has), ", ".join(techniques)
            apart = ConfigurationDifference(RunSetting("run", "technique", benchmark), *asked)
            reasons.append(Refused(TECHNIQUE, apart.between(*names)))
        reasons += [Refused(PROMPT, each.between(*names)) for each in different if each.setting.part == PROMPT]
    return reasons


def _different(benchmark: str, new: Side, baseline: Side) -> list[ConfigurationDifference]:
    """The differences of a benchmark: parts of the signatures, the named parts first, and prompts."""
    shared = set(new.asked[benchmark]) & set(baseline.asked[benchmark])
    ignored = _noted(*(side.signature(benchmark) for side in (new, baseline)))
    if not any(shared & set(side.judged_by(benchmark)) for side in (new, baseline)):
        # No judge scored any technique that both runs have: ignore it.
        ignored |= new.run.judge_signed | baseline.run.judge_signed

    def counts(setting: RunSetting) -> bool:
        if setting.benchmark != benchmark:
            return False
        return (
            setting.name not in ignored
            if setting.part == "signature"
            else (setting.part == PROMPT and setting.name in shared)
        )

    one, other = configuration.configuration(new.run), configuration.configuration(baseline.run)
    ranks = {name: rank for rank, name in enumerate([*NAMES, *TECHNIQUES])}
    return sorted(
        configuration.differences(one, other, counts, "either"),
        key=lambda each: (ranks.get(each.setting.name, len(ranks)), each.setting.name),
    )


def token_limits(side: Side, benchmark: str, technique: str) -> str:
    """The token limits of a run, for instance "512" or "32, none"; "" if not recorded."""
    limits = (side.run.benchmark(benchmark).max_tokens or {}).get(technique, {})
    return ", ".join(str(number or "none") for number in sorted(set(limits.values())))


def gaps(side: Side) -> list[str]:
    """Return lines about what a side lacks of its run, and which part its run selected."""
    lacking = (
        f"{side.name} is {line}" if line.startswith("unfinished") else f"{side.name}: {line}" for line in side.lacking
    )
    more = [f"{side.name}: {side.covered.more}"] if side.covered is not None and side.covered.more else []
    return [*lacking, *more, *(f"{side.name} selected {line}" for line in side.selected)]


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
        lines += gaps(side)
    protocols = [side.run.protocol for side in (new, baseline)]
    times = [protocol.samples or 1 for protocol in protocols]
    if times[0] != times[1] and all(protocol.combine == "mean" for protocol in protocols):
        lines.append(
            f"samples of each question: {times[0]} in {new.name} and {times[1]} in {baseline.name}; their means are "
            "compared"
        )
    editions = [side.run.reading_rules for side in (new, baseline)]
    techniques_asked = set[str]().union(*new.asked.values(), *baseline_techniques.values())
    if editions[0] != editions[1] and techniques_asked - OPTION_TECHNIQUES:
        older = new if editions[0] < editions[1] else baseline
        lines.append(
            f"answers were read by edition {editions[0]} of the rules in {new.name} and by edition {editions[1]} in "
            f"{baseline.name}, so some of the same answers may have other scores. `medvqa rescore` reads those of "
            f"{older.name} anew"
        )
    versions = [side.run.versions.get(DISTRIBUTION) for side in (new, baseline)]
    if versions[0] != versions[1]:
        lines.append(
            f"answers were scored by {DISTRIBUTION} {versions[0] or 'unknown'} in {new.name} and "
            f"{versions[1] or 'unknown'} in {baseline.name}; their rules may differ"
        )
    return lines
