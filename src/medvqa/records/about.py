"""The types of the fields of run.json, checked in one place.

A missing field gets its default, as in folders of earlier versions; an unknown field is kept unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from medvqa.benchmarks.recorded import RecordedFile
from medvqa.protocols.protocol import Combine, Reasoning

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Share = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}/[0-9]{1,9}$")]
ExtractionName = Annotated[str, msgspec.Meta(pattern="^(sound|official(:[0-9A-Za-z._-]{1,40})?)$")]
"""`items.Extraction`; the version of a published rule may be unknown here."""


class _Model(msgspec.Struct):
    name: str = ""
    fingerprint: str | None = None


class _Config(msgspec.Struct):
    name: str = ""
    backend: str = ""
    argument: str = ""
    options: dict[str, Any] = {}
    path: str | None = None
    max_tokens: dict[str, Count | dict[str, Count]] = {}
    prompts: dict[str, str] = {}
    own_max_tokens: Count | None = None


class _Options(msgspec.Struct):
    model: str | None = None
    benchmark: list[str] = []
    technique: list[str] = []
    judge: str | None = None
    limit: Count | None = None
    shard: Share | None = None
    answers_from_category: bool = False


class _Settings(msgspec.Struct):
    gap: float
    extract: bool
    rules_first: bool
    own_prompts: list[str] = []


class _Judge(msgspec.Struct):
    config: _Config = msgspec.field(default_factory=_Config)
    signature: dict[str, str] = {}
    settings: _Settings | None = None
    templates: dict[str, str] = {}
    name: str = ""
    fingerprint: str | None = None
    identity: str = ""
    about: dict[str, Any] = {}


class _Benchmark(msgspec.Struct):
    items: Count = 0
    release: Count | None = None
    data_sha256: str = ""
    answers: str = ""
    judged: dict[str, str] = {}
    judged_by: list[str] = []
    signature: dict[str, str] = {}
    prompts: dict[str, str] = {}
    asked_by: list[str] = []
    templates: dict[str, dict[str, str]] = {}
    kinds: list[str] = []
    questions: dict[str, Count] = {}
    read_by: dict[str, str] = {}
    max_tokens: dict[str, dict[str, Count]] = {}
    declared: RecordedFile | None = None


class _Identity(msgspec.Struct):
    reused: Count
    how: str | None = None
    problem: str | None = None
    asked_again: Count = 0
    same: Count = 0


class _Session(msgspec.Struct):
    session: str = ""
    started: str = ""
    finished: str = ""
    workers: Count = 0
    options: _Options = msgspec.field(default_factory=_Options)
    shard_source: str = ""
    asked: Count = 0
    reused: Count = 0
    judge_asked: Count = 0
    judge_reused: Count = 0
    usage: dict[str, float] = {}
    judge_usage: dict[str, float] = {}
    identity: _Identity | None = None
    unshared_answers: Count = 0
    stopped: str = ""


class _Merged(msgspec.Struct):
    name: str
    shard: Share | None = None
    started: str = ""
    finished: str = ""
    versions: dict[str, str] = {}
    usage: dict[str, float] = {}
    judge_usage: dict[str, float] = {}
    identity: list[_Identity] = []
    benchmarks: list[str] | None = None
    shards: list[Share] = []
    merged: list[_Merged] = []
    model: str = ""
    fingerprint: str | None = None
    samples: dict[str, Count] = {}


class _Against(msgspec.Struct):
    name: str
    path: str | None
    digest: str = ""


class _StoredGate(msgspec.Struct):
    rules: dict[str, Any]
    baselines: list[_Against]
    digest: str = ""
    file: str = ""
    typed: list[str] = []


class _Engine(msgspec.Struct):
    batch_size: Count = 0
    concurrency: Count = 0


class _Keyed(msgspec.Struct):
    key: str
    benchmarks: list[str]


class _Protocol(msgspec.Struct):
    """The fields of `protocols.protocol.Protocol`, without `samples`."""

    prompts: list[str] = []
    combine: Combine = "mean"
    thresholds: list[float] = []
    shots: Count = 0
    pool: str = ""
    reasoning: Reasoning = ""
    explain: bool = False
    rotations: Count | None = 0


class _Portion(msgspec.Struct, forbid_unknown_fields=True):
    chosen: Count
    of: Count


class _Selection(msgspec.Struct):
    how: list[str] = []
    by_outcome: bool = False
    questions: Count = 0
    benchmarks: dict[str, dict[str, _Portion]] = {}
    every: bool = True


class _Tags(msgspec.Struct):
    dimensions: list[str] = []
    sha256: str = ""


class _Run(msgspec.Struct):
    name: str = ""
    names: list[str] = []
    started: str = ""
    finished: str = ""
    model: _Model = msgspec.field(default_factory=_Model)
    options: _Options = msgspec.field(default_factory=_Options)
    config: _Config = msgspec.field(default_factory=_Config)
    techniques: list[str] = []
    repeat: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    protocol: _Protocol = msgspec.field(default_factory=_Protocol)
    judge: _Judge | None = None
    extraction: ExtractionName = "sound"
    reading_rules: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 1
    metric_like: list[str] = []
    ablation: str | None = None
    tags: _Tags | None = None
    benchmarks: dict[str, _Benchmark] = {}
    versions: dict[str, str] = {}
    sessions: list[_Session] = []
    engine: _Engine = msgspec.field(default_factory=_Engine)
    unread_answers: list[str] = []
    unshared_answers: Count = 0
    missing: list[str] = []
    usage: dict[str, float] = {}
    judge_usage: dict[str, float] = {}
    selection: _Selection | None = None
    left_out: dict[str, dict[str, dict[str, Count]]] = {}
    served_by: list[str] = []
    merged: list[_Merged] = []
    gate: _StoredGate | None = None
    rescoring: bool = False
    responses: str | None = None
    keyed: _Keyed | None = None


_WORDS = {"extraction": "sound, official or official:VERSION"}
_PATH = re.compile(r"(?s)(.*) - at `(?:key in )?\$(.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[(\.\.\.)\]")


def wrong(about: Mapping[str, Any]) -> str | None:
    """The first type error in run.json, as `field F: expected X, got Y`; None if there is none."""
    try:
        msgspec.convert(about, _Run)
    except msgspec.ValidationError as error:
        path_match = _PATH.fullmatch(str(error))
        problem, path = (path_match[1], path_match[2]) if path_match is not None else (str(error), "")
        field = _with_keys(about, path)
        if field in _WORDS:
            problem = f"Expected {_WORDS[field]}, got {str(about[field])[:40]!r}"
        return f"field {field or '(all)'}: {problem[:1].lower()}{problem[1:]}"
    return None


def _with_keys(about: Mapping[str, Any], path: str) -> str:
    """Return a path of msgspec with its three dots replaced by keys."""
    name, keys, steps = "", list[Any](), list(_STEP.finditer(path))
    inner: Any = about
    for step in steps:
        if step[3] is not None:
            key: Any = next((key for key in inner if _fails(about, keys, key)), "...")
            name += f".{key}"
        elif step[2] is not None:
            key = int(step[2])
            name += f"[{key}]"
        else:
            key = step[1]
            name += f".{key}"
        keys.append(key)
        inner = inner[key] if key != "..." else {}
    return name.removeprefix(".")


def _fails(about: Mapping[str, Any], path: list[Any], key: str) -> bool:
    """Whether the mapping at a path, reduced to this key, is invalid."""
    try:
        msgspec.convert(_only(about, path, key), _Run)
    except msgspec.ValidationError:
        return True
    return False


def _only(value: Any, path: list[Any], key: str) -> Any:
    if not path:
        return {key: value[key]}
    first, *rest = path
    inner = _only(value[first], rest, key)
    if isinstance(value, Mapping):
        return {**value, first: inner}
    return [*value[:first], inner, *value[first + 1 :]]
