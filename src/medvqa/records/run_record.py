"""The record of a run, run.json, as one type: what a session writes, and what everything else reads.

A missing field gets its default, as in files of earlier versions; an unknown field is kept when the file is written
again. A file of a later schema, an unknown kind of run and a value of another type are refused with one line. The JSON
Schema that `tools/schemas.py` writes is generated from these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec

from medvqa import decode, files, printing
from medvqa.benchmarks.recorded import RecordedFile
from medvqa.items import UsageError
from medvqa.protocols.protocol import Combine, Protocol, Reasoning
from medvqa.records.private import REPORTS

RUN = "run.json"
REPLAY = "replay"
"""The backend of recorded answers."""
MAX_RUN = 2**26
"""Bytes of run.json and of other JSON of a run folder."""
SCHEMA = 2
"""The schema of run.json that this version writes. 1: files without the field, which name no kind of run."""
DEEPEST = 64
"""Parts inside each other, such as the parts of merged runs, which a stranger's file may nest without end."""
STORED = "(as stored)"
"""The name of a field that no file has: msgspec needs one."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Share = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}/[0-9]{1,9}$")]
ExtractionName = Annotated[str, msgspec.Meta(pattern="^(sound|official(:[0-9A-Za-z._-]{1,40})?)$")]
"""`items.Extraction`; the version of a published rule may be unknown here."""
RunKind = Literal["run", "merged", "combined"]
"""run: its sessions asked. merged: parts of one run were joined. combined: the samples are those of several runs."""

ORACLE = "best-oracle"
"""A way to combine samples of earlier versions; such a run is one of plain samples now."""

PartType = TypeVar("PartType", bound="RecordPart")
Given = TypeVar("Given")
_ALWAYS = msgspec.Meta(extra={"always": True})
Always = Annotated[Given, _ALWAYS]
"""A field that a new part has also while it has its default."""


class RecordError(ValueError):
    """JSON that is no run.json; the message names the field, and not the file."""


class RecordPart(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """An object of run.json. `stored` is the JSON object that it was read from, {} for a new one.

    Written again, it has the fields of `stored` in their order, unknown ones included. A new one has those that are
    `Always` there. Other fields are left out while they have their defaults.
    """

    stored: dict[str, Any] = msgspec.field(default_factory=dict, name=STORED)

    @property
    def unknown(self) -> dict[str, Any]:
        """The fields that the type does not know."""
        known = _fields(type(self))
        return {name: value for name, value in self.stored.items() if name not in known}

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        written = dict(self.stored)
        for name, field in _fields(type(self)).items():
            value, stored = getattr(self, field.attribute), name in self.stored
            plain = _plain(value, self.stored.get(name))
            default = value == field.default
            always = field.always and (stored or not self.stored)
            if always or not default or (stored and plain == self.stored[name]):
                written[name] = plain
            else:
                written.pop(name, None)
        return written

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, unknown ones included."""
        if type(self) is not type(other) or not isinstance(other, RecordPart):
            return NotImplemented
        names = [field.attribute for field in _fields(type(self)).values()]
        return all(getattr(self, name) == getattr(other, name) for name in names) and self.unknown == other.unknown

    def __ne__(self, other: object) -> bool:
        """Whether any field differs: a Struct's own `!=` compares by identity."""
        return not self == other

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a part: its attribute, its default, and whether it is always there."""

    attribute: str
    default: Any
    always: bool


@cache
def _fields(of: type[RecordPart]) -> dict[str, _Field]:
    """The fields of a type by their names in JSON."""
    hints, fields = get_type_hints(of, include_extras=True), dict[str, _Field]()
    for field in msgspec.structs.fields(of):
        if field.encode_name != STORED:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            fields[field.encode_name] = _Field(field.name, default, _ALWAYS in get_args(hints[field.name]))
    return fields


def _plain(value: Any, raw: Any = None) -> Any:
    """Parts as JSON; `raw` is what stood there, whose unknown fields and order are kept."""
    if value is raw:
        return raw  # a value of any type, which may be deep
    if isinstance(value, RecordPart):
        return value.as_json()
    if isinstance(value, tuple):
        return list(map(_plain, value))
    inner = raw if isinstance(raw, dict) else {}
    if isinstance(value, dict):
        return {name: _plain(each, inner.get(name)) for name, each in value.items()}
    if isinstance(value, RecordedFile):
        if msgspec.convert(inner, RecordedFile) == value:
            return inner
        unknown = {name: each for name, each in inner.items() if name not in value.__struct_fields__}
        return unknown | msgspec.to_builtins(value)
    return value


def _keep(value: Any, raw: Any, depth: int = 0) -> None:
    """Note in each part the JSON object that it was read from (RecordError if they are nested too deeply)."""
    if value is raw:
        return
    if depth > DEEPEST:
        raise RecordError(f"its parts are nested more than {DEEPEST} deep")
    if isinstance(value, RecordPart):
        msgspec.structs.force_setattr(value, "stored", raw)
        for name, field in _fields(type(value)).items():
            if name in raw:
                _keep(getattr(value, field.attribute), raw[name], depth + 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _keep(inner, raw[name], depth + 1)
    elif isinstance(value, tuple):
        for inner, raw_inner in zip(value, raw, strict=True):
            _keep(inner, raw_inner, depth + 1)


class RecordedModel(RecordPart, frozen=True, eq=False):
    """The model that was loaded; `name` is "" before. Unknown fields are what the backend says of it."""

    name: str = ""
    fingerprint: str | None = None


class RecordedConfig(RecordPart, frozen=True, eq=False):
    """The config of a model."""

    name: Always[str] = ""
    backend: Always[str] = ""
    argument: Always[str] = ""
    options: Always[dict[str, Any]] = {}


class AnsweringConfig(RecordedConfig, frozen=True, eq=False):
    """The config of the model that answers.

    `max_tokens` and `prompts` are by benchmark. `own_max_tokens`: the model's own token limit. `path`: the last part of
    the path of a checkpoint. `inner`: the config of a wrapped model.
    """

    max_tokens: Always[dict[str, Count | dict[str, Count]]] = {}
    prompts: dict[str, str] = {}
    own_max_tokens: Always[Count | None] = None
    path: str | None = None
    inner: Any = None


class RecordedOptions(RecordPart, frozen=True, eq=False):
    """The options of a session that decide what is asked, and how."""

    model: Always[str | None] = None
    benchmark: Always[tuple[str, ...]] = ()
    technique: Always[tuple[str, ...]] = ()
    judge: Always[str | None] = None
    ablate: Always[str | None] = None
    limit: Always[Count | None] = None
    shard: Always[Share | None] = None
    fresh: Always[bool] = False
    batch_size: Always[Count | None] = None
    concurrency: Always[Count | None] = None
    max_tokens: Always[Count | None] = None
    deadline: Always[float | None] = None
    max_errors: Always[Count | None] = None
    answers_from_category: Always[bool] = False


class RecordedSettings(RecordPart, frozen=True, eq=False, kw_only=True):
    """How a judge judges, as `judging.Settings`; `own_prompts`: the tasks with prompts of the user's own."""

    gap: float
    extract: bool
    rules_first: bool
    own_prompts: Always[tuple[str, ...]] = ()


class RecordedJudge(RecordPart, frozen=True, eq=False):
    """The judge of a run. `name`, `fingerprint`, `identity` (its name in signatures) and `about` once it is loaded."""

    config: Always[RecordedConfig] = RecordedConfig()
    settings: Always[RecordedSettings | None] = None
    templates: Always[dict[str, str]] = {}
    signature: Always[dict[str, str]] = {}
    name: str = ""
    fingerprint: str | None = None
    identity: str = ""
    about: dict[str, Any] = {}
    endpoints: dict[str, dict[str, Any]] = {}

    @property
    def typed(self) -> str:
        """The value of `--judge`, else MODEL."""
        return self.config.name or "MODEL"


class RecordedBenchmark(RecordPart, frozen=True, eq=False):
    """A benchmark of a run: its data, prompts and scoring.

    `items`: number of items of the data, selected or not; `release`: of the owners' release. `questions`: those that
    each technique is defined for. `answers`: the origin of the answer key. `judged`: the judge's prompts by task;
    `judged_by`: techniques with answers for the judge, None if not recorded. `signature`: what two measures must share
    to be compared. `prompts`: templates with digests, by technique. `asked_by`: names of prompts if they are not the
    benchmark's own, and `templates` their texts. `read_by`: the rules of official extraction by kind. `max_tokens`:
    token limits by technique and kind, 0 for no limit; None if not recorded. `declared`: of a file of the user's own.
    """

    items: Always[Count] = 0
    release: Count | None = None
    declared: RecordedFile | None = None
    kinds: Always[tuple[str, ...]] = ()
    questions: Always[dict[str, Count]] = {}
    data_sha256: Always[str] = ""
    answers: Always[str] = ""
    judged: Always[dict[str, str]] = {}
    judged_by: Always[tuple[str, ...] | None] = None
    signature: Always[dict[str, str]] = {}
    read_by: dict[str, str] = {}
    prompts: Always[dict[str, str]] = {}
    asked_by: tuple[str, ...] = ()
    templates: dict[str, dict[str, str]] = {}
    max_tokens: Always[dict[str, dict[str, Count]] | None] = None

    @property
    def fixed_slices(self) -> Mapping[str, int]:
        """The slices that were fixed before the run, with the number of values that each had."""
        return {} if self.declared is None else self.declared.slices


class RecordedIdentity(RecordPart, frozen=True, eq=False, kw_only=True):
    """What is known of the model of `reused` stored answers.

    `how`: the evidence for their model, or `problem`. `asked_again`: number of questions; `same`: those that scored the
    same; both None where nothing had to be asked again.
    """

    reused: Always[Count]
    problem: str | None = None
    how: str | None = None
    asked_again: Count | None = None
    same: Count | None = None


class RecordedSession(RecordPart, frozen=True, eq=False):
    """A session of a run; without `finished` it was killed, or is going on.

    `asked` and `reused` count answers; `judge_asked` and `judge_reused` the judge's replies, None without a judge.
    `answers_from`: the reused answers of other runs and of places, by their names. `usage`: sums of tokens and cost.
    `rescored`: the options of a session that only scored again; it has no `workers` and no `options`. `commit`: of the
    folder that it ran in; `ci`: the address of its CI job; `hardware` of the controller's machine.
    """

    session: Always[str] = ""
    started: Always[str] = ""
    finished: str = ""
    rescored: dict[str, Any] | None = None
    workers: Count | None = None
    options: RecordedOptions | None = None
    shard_source: str = ""
    asked: Always[Count] = 0
    reused: Always[Count] = 0
    answers_from: dict[str, Count] = {}
    judge_asked: Count | None = None
    judge_reused: Count | None = None
    usage: dict[str, float] = {}
    judge_usage: dict[str, float] = {}
    identity: RecordedIdentity | None = None
    unshared_answers: Count | None = None
    stopped: str = ""
    commit: str = ""
    ci: str = ""
    hardware: str = ""

    @property
    def killed(self) -> bool:
        """Whether it did not end, and its stored answers were not counted since."""
        return not self.finished and not self.usage and "usage" not in self.stored


class MergedPart(RecordPart, frozen=True, eq=False, kw_only=True):
    """One of the runs that a run was merged or combined from.

    `shards`: if it has several. `names`: of the runs whose names its results have, besides its own. `benchmarks`: those
    of which it is a shard, None for all. `samples`: of a combined run, the number of each sample here by its number
    there.
    """

    name: Always[str]
    shard: Always[Share | None] = None
    model: str = ""
    fingerprint: str | None = None
    samples: dict[str, Count] = {}
    names: tuple[str, ...] = ()
    shards: tuple[Share, ...] = ()
    benchmarks: tuple[str, ...] | None = None
    merged: tuple[MergedPart, ...] = ()
    started: str = ""
    finished: str = ""
    versions: dict[str, str] = {}
    usage: dict[str, float] = {}
    judge_usage: dict[str, float] = {}
    identity: tuple[RecordedIdentity, ...] = ()

    @property
    def origin(self) -> tuple[str, str]:
        """Its name and its start, by which it is known in other runs."""
        return self.name, self.started


class GateBaseline(RecordPart, frozen=True, eq=False, kw_only=True):
    """A baseline of a stored gate; `digest`: of its results."""

    name: str
    path: Always[str | None]
    digest: Always[str] = ""


class RecordedGate(RecordPart, frozen=True, eq=False, kw_only=True):
    """The rules of a gate, stored before the first answer, their digest, and the baselines; `file`: of the rules."""

    digest: Always[str] = ""
    rules: Always[dict[str, Any]]
    file: Always[str | None] = None
    typed: Always[tuple[str, ...]] = ()
    baselines: Always[tuple[GateBaseline, ...]]


class RecordedEngine(RecordPart, frozen=True, eq=False):
    """How questions were sent; unknown fields are the state of a pool of models."""

    batch_size: Count = 0
    concurrency: Count = 0
    endpoints: dict[str, dict[str, Any]] = {}


class HashedBy(RecordPart, frozen=True, eq=False, kw_only=True):
    """The name of the key by which a baseline file hashes ids and texts of these benchmarks."""

    key: str
    benchmarks: tuple[str, ...]


class RecordedProtocol(RecordPart, frozen=True, eq=False):
    """The fields of `protocols.protocol.Protocol`, without `samples`."""

    prompts: tuple[str, ...] = ()
    combine: Combine = "mean"
    shots: Count = 0
    pool: str = ""
    reasoning: Reasoning = ""
    explain: bool = False
    rotations: Count | None = 0
    readers: bool = False
    perturb: str = ""
    abstain: bool = False
    confidence: bool = False


class Portion(RecordPart, frozen=True, eq=False):
    """The number of selected questions of a benchmark and technique, and the number of all for which it is defined."""

    chosen: Always[Count]
    of: Always[Count]

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.chosen >= self.of

    def __str__(self) -> str:
        """For instance "10 of 60"."""
        return f"{self.chosen:,} of {self.of:,}"


class Selection(RecordPart, frozen=True, eq=False):
    """The union of the selections of all sessions of a run.

    `how`: the selecting options, as typed. `by_outcome`: a session selected questions by an earlier outcome (--lf), so
    numbers over them do not describe the model. `questions`: number of keys; samples and techniques of one item count
    separately. `benchmarks`: name -> technique -> portion; empty for a run of an earlier version. `every`: each item
    was selected with all its samples, prompts and rotations.
    """

    how: Always[tuple[str, ...]] = ()
    by_outcome: Always[bool] = False
    questions: Always[Count] = 0
    benchmarks: Always[dict[str, dict[str, Portion]]] = {}
    every: bool = True

    @property
    def whole(self) -> bool:
        """Whether every benchmark was selected whole."""
        portions = [portion for techniques in self.benchmarks.values() for portion in techniques.values()]
        return self.every and all(portion.whole for portion in portions)

    @property
    def empty(self) -> bool:
        """Whether nothing was selected, as in an empty shard; False if it is not known."""
        return bool(self.benchmarks) and not self.questions

    @property
    def ranked_by_outcome(self) -> bool:
        """Whether the selection depends on earlier outcomes."""
        return self.by_outcome and not self.whole

    def portion(self, benchmark: str, technique: str) -> Portion | None:
        """The selected portion of a benchmark, None if unknown."""
        return self.benchmarks.get(benchmark, {}).get(technique)

    def line(self, benchmark: str, technique: str) -> str:
        """The selected portion and options, such as "10 of 60, by -k q0"; "" if it is the whole, or unknown."""
        portion = self.portion(benchmark, technique)
        if portion is None or (portion.whole and self.every):
            return ""
        part = "" if self.every else ", of some questions a part of the answers"
        return f"{portion}{part}, by {' '.join(self.how) or 'the tests that were collected'}"


class RecordedTags(RecordPart, frozen=True, eq=False):
    """The user's own tags (--tags): their dimensions, and a digest of the file."""

    dimensions: Always[tuple[str, ...]] = ()
    sha256: Always[str] = ""


class RecordedReaders(RecordPart, frozen=True, eq=False):
    """The people whose readings the run's answers are: a question's sample k is of the k-th of `codes`.

    The other fields are those of their study, if it was planned (`backend.Readers`).
    """

    codes: Always[tuple[str, ...]] = ()
    planned: tuple[str, ...] = ()
    assigned: dict[str, Count] = {}
    margin: float | None = None
    plan: str = ""


class RunRecord(RecordPart, frozen=True, eq=False):
    """run.json: what a run is, and how far its sessions came.

    `names`: earlier names of a renamed run. `repeat`: samples of each question, None for one without a number.
    `asking`: the other fields of the protocol. `reading_rules`: the edition of the project's own rules. `selection`:
    None for a run of an earlier version. `left_out`: numbers of items that a technique is not defined for, by benchmark
    and kind. `served_by`: names of models in a server's replies. `rescoring`: `medvqa rescore` was stopped while
    writing. `wrong_costs`: K of effective_reliability. `responses`: "digests" in a baseline file without responses.
    `readers`: of a model that is people.
    """

    schema: Count = 1
    kind: RunKind = "run"
    name: Always[str] = ""
    names: tuple[str, ...] = ()
    started: Always[str] = ""
    finished: str = ""
    model: Always[RecordedModel] = RecordedModel()
    options: Always[RecordedOptions] = RecordedOptions()
    config: Always[AnsweringConfig] = AnsweringConfig()
    techniques: Always[tuple[str, ...]] = ()
    repeat: Always[Positive | None] = None
    tags: RecordedTags | None = None
    asking: RecordedProtocol = msgspec.field(default=RecordedProtocol(), name="protocol")
    judge: Always[RecordedJudge | None] = None
    extraction: Always[ExtractionName] = "sound"
    reading_rules: Positive = 1
    metric_like: tuple[str, ...] = ()
    wrong_costs: Annotated[float, msgspec.Meta(gt=0, le=10**6)] | None = None
    ablation: Always[str | None] = None
    benchmarks: Always[dict[str, RecordedBenchmark]] = {}
    versions: Always[dict[str, str]] = {}
    sessions: tuple[RecordedSession, ...] = ()
    engine: RecordedEngine = RecordedEngine()
    unread_answers: Always[tuple[str, ...]] = ()
    unshared_answers: Count = 0
    usage: dict[str, float] = {}
    judge_usage: dict[str, float] = {}
    gate: RecordedGate | None = None
    selection: Selection | None = None
    missing: Always[tuple[str, ...]] = ()
    left_out: dict[str, dict[str, dict[str, Count]]] = {}
    served_by: tuple[str, ...] = ()
    merged: tuple[MergedPart, ...] = ()
    rescoring: bool = False
    responses: str | None = None
    keyed: HashedBy | None = None
    readers: RecordedReaders | None = None

    @property
    def origin(self) -> tuple[str, str]:
        """Its name and its start, by which it is known in runs that were merged from it."""
        return self.name, self.started

    @property
    def protocol(self) -> Protocol:
        """How the questions were asked, and how the answers to one are combined."""
        fields = {name: getattr(self.asking, name) for name in _fields(RecordedProtocol)}
        return Protocol(**fields, samples=self.repeat)

    @property
    def selected(self) -> Selection:
        """The selection, an empty one for a run of an earlier version."""
        return self.selection or Selection()

    @property
    def model_name(self) -> str:
        """The model's name, as in reports."""
        return self.model.name or self.config.name or "unknown"

    @property
    def replays(self) -> bool:
        """Whether its answers are recorded ones, which do not tell their models and how they were asked for."""
        return self.config.backend == REPLAY

    @property
    def last_session(self) -> RecordedSession:
        """The last session, an empty one if none is recorded."""
        return self.sessions[-1] if self.sessions else RecordedSession()

    @property
    def prompts(self) -> dict[str, tuple[str, ...]]:
        """The names of the prompts of each benchmark that was asked by several."""
        return {name: part.asked_by for name, part in self.benchmarks.items() if len(part.asked_by) > 1}

    @property
    def models(self) -> tuple[str, ...]:
        """The models whose answers the run combines; () if it is one, or unknown as for recordings."""
        if self.replays:
            return ()
        names = tuple(dict.fromkeys(part.model for part in self.merged if part.model))
        return names if len(names) > 1 else ()

    @property
    def judge_signed(self) -> set[str]:
        """Names of the judge's parts of a benchmark's signature."""
        return {"judge", *(self.judge.signature if self.judge is not None else ())}

    @property
    def judged_by_rule(self) -> bool:
        """Whether the extraction rule decides which answers the judge reads (`--extract-with=judge`)."""
        settings = None if self.judge is None else self.judge.settings
        return settings is not None and settings.extract

    def benchmark(self, name: str) -> RecordedBenchmark:
        """The benchmark of this name; an empty one if the run does not name it."""
        return self.benchmarks.get(name, _NO_BENCHMARK)

    def under(self, protocol: Protocol) -> RunRecord:
        """Return the record as if the answers had been combined by another protocol; signatures say so."""
        parts = {*Protocol.__dataclass_fields__, "repeat"}
        benchmarks = {
            name: msgspec.structs.replace(
                part,
                signature={key: value for key, value in part.signature.items() if key not in parts}
                | protocol.signature(),
            )
            for name, part in self.benchmarks.items()
        }
        asking = part_of(RecordedProtocol, protocol.about())
        return msgspec.structs.replace(self, repeat=protocol.samples, asking=asking, benchmarks=benchmarks)


_NO_BENCHMARK = RecordedBenchmark()
_encoder = msgspec.json.Encoder()
_WORDS = {
    "extraction": "sound, official or official:VERSION",
    "kind": f"{', '.join(get_args(RunKind)[:-1])} or {get_args(RunKind)[-1]}",
}


def part_of(kind: type[PartType], fields: Mapping[str, Any]) -> PartType:
    """Return a part of run.json from values that JSON can hold (msgspec.ValidationError)."""
    content: dict[str, Any] = msgspec.json.decode(_encoder.encode(fields))
    part = msgspec.convert(content, kind)
    _keep(part, content)
    return part


def record_of(content: dict[str, Any]) -> RunRecord:
    """Return the record of decoded JSON; files of earlier schemas are migrated.

    RecordError says the first problem, as `field F: expected X, got Y`.
    """
    if (why := _unreadable(content)) is not None:
        raise RecordError(why)
    content = _of_samples(content)
    try:
        record = msgspec.convert(content, RunRecord)
    except msgspec.ValidationError as error:
        raise RecordError(_problem(content, error)) from None
    except RecursionError:
        raise RecordError(f"its parts are nested more than {DEEPEST} deep") from None
    _keep(record, content)
    return _migrated(record)


def _unreadable(content: Mapping[str, Any]) -> str | None:
    """Why this version reads no such file, though it may be whole."""
    if _combine(content) == "best-self":
        return (
            "field protocol.combine: an earlier version let the model choose among its answers (best-self), and this "
            "one does not: ask again with --samples=N in a run of another name; papers/mediconfusion_table_9.py lets "
            "it choose"
        )
    schema = content.get("schema")
    if type(schema) is int and schema > SCHEMA:
        return (
            f"field schema: a later version wrote schema {schema:,} and this one reads {SCHEMA}: "
            "pip install --upgrade pytest-medvqa"
        )
    return None


def _combine(content: Mapping[str, Any]) -> object:
    protocol = content.get("protocol")
    return protocol.get("combine") if isinstance(protocol, dict) else None


def _of_samples(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of run.json without the oracle over its samples that an earlier version counted."""
    if _combine(content) != ORACLE:
        return content
    return {**content, "protocol": _without_oracle(content["protocol"])}


def _without_oracle(parts: Mapping[str, Given]) -> dict[str, Given]:
    return {name: value for name, value in parts.items() if name not in ("combine", "thresholds")}


def _migrated(record: RunRecord) -> RunRecord:
    """Return a record of an earlier version as one of today; the number of its schema stays that of the file."""
    if any(part.signature.get("combine") == ORACLE for part in record.benchmarks.values()):
        benchmarks = {
            name: msgspec.structs.replace(part, signature=_without_oracle(part.signature))
            for name, part in record.benchmarks.items()
        }
        record = msgspec.structs.replace(record, benchmarks=benchmarks)
    if record.schema < 2 and record.kind == "run" and record.merged:
        combined = any(part.samples for part in record.merged)
        return msgspec.structs.replace(record, kind="combined" if combined else "merged")
    return record


def runs_beside(folder: Path) -> str:
    """Return the end of a message about no run folder: the runs in it, or else beside it, and what may be meant."""
    if folder.exists():
        runs = sorted(str(run) for run in folder.glob("*") if (run / RUN).is_file())
        return printing.line(f"; runs in it: {printing.some(runs, 3)}.") if runs else ""
    in_reports = Path(REPORTS) / folder
    meant = str(in_reports) if (in_reports / RUN).is_file() else ""
    names = sorted(run.name for run in folder.parent.glob("*") if (run / RUN).is_file())
    return decode.did_you_mean(folder.name, names, f"runs in {folder.parent}", meant=meant)


def read_run(folder: Path) -> RunRecord:
    """Return the record of a run folder. UsageError names the file, the field and a remedy."""
    path = folder / RUN
    try:
        content: dict[str, Any] = msgspec.json.decode(files.read(path, MAX_RUN), type=dict[str, Any])
        if (why := _unreadable(content)) is not None:
            raise UsageError(f"{path}: {why}")
        return record_of(content)
    except OSError as error:
        why = f"{folder} is no run folder: {RUN} cannot be read ({error.strerror})"
        raise UsageError(f"{why}{runs_beside(folder)}") from error
    except RecordError as error:
        why = str(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"damaged: {error}"
    # Of a model with a fingerprint, earlier versions kept the answers in a folder beside all runs.
    kept = ": its answers are stored and reused" if any(folder.glob("answers/*.log")) else ""
    raise UsageError(
        f"{path}: {why}. Restore it from a copy; or move the file away and repeat the run's command with "
        f"--run={folder.resolve().name}{kept}"
    )


def carrying(now: PartType, before: RecordPart | None) -> PartType:
    """Return a part with the unknown fields of an earlier one of its type, and so the parts inside."""
    if not isinstance(before, type(now)):
        return now
    inside: dict[str, Any] = {}
    for field in _fields(type(now)).values():
        value, earlier = getattr(now, field.attribute), getattr(before, field.attribute)
        if isinstance(value, RecordPart):
            inside[field.attribute] = carrying(value, earlier)
        elif isinstance(value, dict) and any(isinstance(each, RecordPart) for each in value.values()):
            inside[field.attribute] = {name: carrying(each, earlier.get(name)) for name, each in value.items()}
    return msgspec.structs.replace(now, stored=before.unknown | now.stored, **inside)


def write_run(folder: Path, record: RunRecord) -> None:
    """Write run.json whole (OSError); NaN and infinities become null."""
    content = msgspec.json.format(_encoder.encode(record.as_json()), indent=2) + b"\n"
    files.replace(folder / RUN, content)


def _problem(content: Mapping[str, Any], error: msgspec.ValidationError) -> str:
    """A type error as `field F: expected X, got Y`."""
    place, problem = decode.located(error, content, RunRecord)
    field = decode.dotted(place).removeprefix(".")
    if field in _WORDS:
        problem = f"Expected {_WORDS[field]}, got {str(content[field])[:40]!r}"
    return f"field {field or '(all)'}: {problem[:1].lower()}{problem[1:]}"
