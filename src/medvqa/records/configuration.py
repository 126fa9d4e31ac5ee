"""The configuration of a run: the settings that determine its answers and scores, and how those of two runs differ.

Whoever continues, joins, compares or gates runs asks `differences`, and says which settings count. Each difference is
one sentence, the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from medvqa import printing
from medvqa.benchmarks.recorded import RecordedFile
from medvqa.protocols.protocol import OPTION_OF, Protocol
from medvqa.records.run_record import RecordedBenchmark, RecordedJudge, RunRecord

SettingPart = Literal["model", "config", "run", "protocol", "judge", "data", "slices", "signature", "prompt", "limit"]
"""model: what was loaded. config: what was to be loaded. protocol: by the names of options. The last five are of a
benchmark: a digest of its questions, its fixed slices, a part of its signature, the templates and the token limits of a
technique."""

NAMES: Mapping[str, str] = {
    "data": "the data set",
    "answers": "the origin of the answer key",
    "extraction": "the extraction",
    "ablation": "the ablation",
    "perturb": "the perturbation",
    "judge": "the judge",
    "combine": "the way to combine answers",
}
"""Parts of a signature, in words; other parts keep their names."""
ABSENT: Mapping[str, str] = {"ablation": "none", "perturb": "none", "combine": "mean"}
"""The meaning of a missing part of a signature, if known."""
_OWNERS: Mapping[str, str] = {"model": "the model's ", "config": "the model's ", "judge": "the judge's "}


@dataclass(frozen=True, slots=True)
class RunSetting:
    """One setting of a run, or of a `benchmark`. `name`: of a field, an option, a part of a signature, a technique."""

    part: SettingPart
    name: str
    benchmark: str = ""

    @property
    def words(self) -> str:
        """The setting in a sentence, such as "slake: the prompt of mc"."""
        named = {
            "run": f"the {self.name}",
            "data": "the data set",
            "slices": "the slices that were fixed before the run",
            "signature": NAMES.get(self.name, self.name),
            "prompt": f"the prompt of {self.name}",
            "limit": f"the token limit of {self.name}",
        }.get(self.part, f"{_OWNERS.get(self.part, '')}{self.name}")
        return f"{self.benchmark}: {named}" if self.benchmark else named

    def value_in_words(self, value: object) -> str:
        """A value of the setting, in one line; None is one that was not set, or not recorded."""
        return printing.line(self._value_in_words(value))

    def _value_in_words(self, value: object) -> str:
        if value is None or value == "":
            default = "not recorded" if self.benchmark else "not set"
            return Protocol().combine if self.name == OPTION_OF["combine"] else ABSENT.get(self.name, default)
        if self.part in _OWNERS:
            return repr(value)
        if isinstance(value, Mapping):
            numbers = {name: number or "none" for name, number in value.items()}
            several = len(set(numbers.values())) > 1
            shown = [f"{name} {number}" for name, number in numbers.items()] if several else list(numbers.values())[:1]
            return ", ".join(map(str, shown)) or "none"
        return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The questions of a benchmark in a run: equal if their digest is. `declared` may name their version."""

    digest: str
    declared: RecordedFile = field(compare=False)

    @classmethod
    def of(cls, benchmark: RecordedBenchmark) -> DataVersion:
        """Return the version of a recorded benchmark."""
        return cls(benchmark.signature.get("data", ""), benchmark.declared or RecordedFile())

    def __str__(self) -> str:
        """Return the version with its changes, else the digest."""
        version, since = printing.line(self.declared.version), self.declared.since
        return (f"version {version}" + (f" ({since})" if since else "")) if version else self.digest

    def beside(self, other: DataVersion) -> str:
        """Return the version in words; one that was revised has the number that the other run's revision names."""
        version, made_of = self.declared.version, other.declared.revision
        if not version and made_of is not None and self.digest and made_of.data_sha256.startswith(self.digest):
            return f"version {made_of.version}"
        return f"{self}, {self.digest}" if version and version == other.declared.version else str(self)


Configuration = Mapping[RunSetting, object]
"""The settings of a run, most important first. One without an entry is not known; None: it was not set."""


@dataclass(frozen=True, slots=True)
class ConfigurationDifference:
    """A setting that differs between two runs, and its values there; None where it was not set or not recorded."""

    setting: RunSetting
    first: object
    second: object

    @property
    def _values_in_words(self) -> tuple[str, str]:
        values = self.first, self.second
        if isinstance(self.first, DataVersion) and isinstance(self.second, DataVersion):
            values = self.first.beside(self.second), self.second.beside(self.first)
        return self.setting.value_in_words(values[0]), self.setting.value_in_words(values[1])

    def between(self, first: str, second: str) -> str:
        """Name the setting and its values in two runs: `slake: the data set is 1f2e in NEW and 9a8b in BASE`."""
        one, other = self._values_in_words
        return f"{self.setting.words} is {one} in {first} and {other} in {second}"

    @property
    def change(self) -> str:
        """Say the change of a run that continues: `the model's argument was 'A' and is 'B'`."""
        was, now = self._values_in_words
        if self.setting == TAGS:
            return "its questions had other tags of your own (--tags)"
        if self.setting.part == "slices":
            return f"{self.setting.words} were {was}, and are {now}"
        return f"{self.setting.words} was {was} and is {now}"


BACKEND, ARGUMENT = RunSetting("config", "backend"), RunSetting("config", "argument")
OPTIONS, INNER = RunSetting("config", "options"), RunSetting("config", "inner")
FINGERPRINT = RunSetting("model", "fingerprint")
TECHNIQUES, ABLATION = RunSetting("run", "techniques"), RunSetting("run", "ablation")
TAGS = RunSetting("run", "tags of your own (--tags)")
JUDGE_CONFIG = tuple(RunSetting("judge", name) for name in ("backend", "argument", "options"))


def configuration(run: RunRecord) -> Configuration:
    """Return the settings that determine a run's answers and scores."""
    settings: dict[RunSetting, object] = {}
    if run.model.name:
        settings |= {RunSetting("model", "name"): run.model.name, FINGERPRINT: run.model.fingerprint}
    config = run.config
    if config.backend or config.argument or config.options:
        settings |= {BACKEND: config.backend, ARGUMENT: config.argument, OPTIONS: config.options, INNER: config.inner}
    settings |= {TECHNIQUES: run.techniques, ABLATION: run.ablation, RunSetting("run", "extraction"): run.extraction}
    typed = run.protocol.typed()
    settings |= {
        RunSetting("protocol", option): (typed[option] or "set") if option in typed else None
        for option in OPTION_OF.values()
    }
    settings[TAGS] = None if run.tags is None else tuple(filter(None, (*run.tags.dimensions, run.tags.sha256[:12])))
    if run.judge is not None:
        settings |= _of_judge(run.judge)
    for name, benchmark in run.benchmarks.items():
        settings |= _of_benchmark(name, benchmark, has_judge=run.judge is not None)
    return settings


def _of_judge(judge: RecordedJudge) -> dict[RunSetting, object]:
    config = (judge.config.backend, judge.config.argument, judge.config.options) if judge.config.backend else ()
    settings: dict[RunSetting, object] = dict(zip(JUDGE_CONFIG, config, strict=False))
    settings |= {RunSetting("judge", "identity"): judge.identity} if judge.identity else {}
    return settings | {RunSetting("judge", part): value for part, value in judge.signature.items()}


def _of_benchmark(name: str, benchmark: RecordedBenchmark, *, has_judge: bool) -> dict[RunSetting, object]:
    signature: dict[str, object] = {**benchmark.signature}
    if "data" in signature:
        signature["data"] = DataVersion.of(benchmark)
    if not (has_judge and benchmark.judged):
        # Rules alone scored it; a judge that was set and never loaded has no name yet.
        signature.setdefault("judge", None)
    settings: dict[RunSetting, object] = {RunSetting("slices", "slices", name): tuple(benchmark.fixed_slices)}
    settings |= {RunSetting("signature", part, name): value for part, value in signature.items()}
    settings |= {RunSetting("prompt", technique, name): label for technique, label in benchmark.prompts.items()}
    limits = benchmark.max_tokens or {}
    settings |= {RunSetting("limit", technique, name): kinds for technique, kinds in limits.items()}
    if benchmark.data_sha256:
        settings[RunSetting("data", "sha256", name)] = benchmark.data_sha256
    return settings


def differences(
    first: Configuration,
    second: Configuration,
    counts: Callable[[RunSetting], bool],
    known: Literal["both", "first", "either"] = "both",
) -> list[ConfigurationDifference]:
    """Return the settings that count and differ, in the order of the first configuration.

    `known`: where a setting must be known to be compared; where it is not, its value is None.
    """
    more = [setting for setting in second if setting not in first] if known == "either" else []
    return [
        ConfigurationDifference(setting, first.get(setting), second.get(setting))
        for setting in [*first, *more]
        if counts(setting)
        and first.get(setting) != second.get(setting)
        and (known != "both" or (setting in first and setting in second))
    ]


def other_versions(first: tuple[str, RunRecord], second: tuple[str, RunRecord]) -> list[str]:
    """Say which benchmarks of one run are, under another name, versions of those of the other; with the runs' names."""
    return [
        f"{own} in {name} is {DataVersion.of(recorded)} of {made_of.benchmark} in {other_name}"
        for (name, run), (other_name, other) in ((first, second), (second, first))
        for own, recorded in run.benchmarks.items()
        if (made_of := (recorded.declared or RecordedFile()).revision) and own != made_of.benchmark in other.benchmarks
    ]


def why_not_continued(before: RunRecord, now: RunRecord) -> list[str]:
    """Reasons why a run cannot continue, from its record and that of a new session; empty if it can.

    May differ: the set of benchmarks; the extraction; engine options; the judge, if no result needs one. Without a
    fingerprint, options of the model's config, and the config of a wrapped model, must be equal. Moving a checkpoint
    does not block: only the last part of a path (`path` of the config) is compared.
    """
    if before.rescoring:
        return [f"it was being scored again, and that was stopped: type medvqa rescore reports/{before.name} once more"]
    if before.kind == "combined":
        return ["its answers were combined from other runs (medvqa combine), so that none can be added"]
    counted = {BACKEND, TECHNIQUES, ABLATION, TAGS}
    if before.model.fingerprint is None:
        counted |= {OPTIONS, INNER}
    if before.config.path is None or before.config.path != now.config.path:
        counted.add(ARGUMENT)
    passing = {"extraction", "ablation", "repeat"} | before.judge_signed | now.judge_signed
    shared = before.benchmarks.keys() & now.benchmarks.keys()

    def counts(setting: RunSetting) -> bool:
        if not setting.benchmark:
            return setting in counted or setting.part == "protocol"
        if setting.benchmark not in shared or setting.part == "data":
            return False
        return setting.part != "signature" or setting.name not in passing

    changes = differences(configuration(_with_limits(before, now)), configuration(now), counts, "first")
    return [*(difference.change for difference in changes), *_other_judge(before, now)]


def _with_limits(before: RunRecord, now: RunRecord) -> RunRecord:
    """The record with token limits; an earlier version used the model's own limit for all questions, and named none."""
    lacking = {
        name: replace(benchmark, max_tokens=_own_limits(now, name))
        for name, benchmark in before.benchmarks.items()
        if benchmark.max_tokens is None
    }
    return replace(before, benchmarks={**before.benchmarks, **lacking})


def _own_limits(now: RunRecord, name: str) -> dict[str, dict[str, int]]:
    limits, own = now.benchmark(name).max_tokens or {}, now.config.own_max_tokens or 0
    return {technique: dict.fromkeys(kinds, own) for technique, kinds in limits.items()}


def _other_judge(before: RunRecord, now: RunRecord) -> list[str]:
    """Reasons why the run's results would have two judges, or only some of them one."""
    changes = _judge_changes(before.judge, now.judge)
    shared = before.benchmarks.keys() & now.benchmarks.keys()
    both = any(before.benchmarks[name].judged or now.benchmarks[name].judged for name in shared)
    apart = all(any(benchmark.judged for benchmark in run.benchmarks.values()) for run in (before, now))
    if not changes or not (both or (apart and before.judge is not None and now.judge is not None)):
        return []
    typed = "MODEL" if now.judge is None else now.judge.typed
    return [
        f"{'; '.join(changes)} (medvqa rescore reports/{before.name or 'RUN'} --judge={typed} judges all of it by one, "
        "and asks the model nothing)"
    ]


def _judge_changes(before: RecordedJudge | None, now: RecordedJudge | None) -> list[str]:
    """Say what differs between two judges: their names, or else each of their settings."""
    one, other = (_of_judge(judge) if judge is not None else {} for judge in (before, now))
    # A fingerprint is compared once the judge is loaded.
    fingerprinted = before is not None and before.fingerprint is not None
    passing = {RunSetting("judge", "identity"), *(JUDGE_CONFIG[1:] if fingerprinted else ())}
    changes = differences(one, other, lambda setting: setting not in passing, "either")
    if changes and _called(before) != _called(now):
        return [f"the judge was {_called(before)} and is {_called(now)}"]
    return [difference.change for difference in changes]


def _called(judge: RecordedJudge | None) -> str:
    return "none" if judge is None else repr(judge.typed)


def announced_judge(run: RunRecord, other: RunRecord) -> list[ConfigurationDifference]:
    """Differences of two judges by their configs, if the first is not loaded and nothing identifies the second."""
    loaded = run.judge is None or bool(run.judge.identity)
    if loaded or (other.judge is not None and other.judge.fingerprint is not None):
        return []
    return differences(configuration(run), configuration(other), lambda setting: setting in JUDGE_CONFIG)
