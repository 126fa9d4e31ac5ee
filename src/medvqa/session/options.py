"""The options of a run: one table, from which pytest and the commands take theirs."""

from __future__ import annotations

import itertools
import os
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENV_DATA = "MEDVQA_DATA"
VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable that says which GPUs a process sees; CUDA reads it when it is first used."""
DEFAULT_MODEL = "phantom-vlm"
DEFAULT_MAX_ERRORS = 50
"""More than a batch of the default size, so that one batch that hangs does not stop a run."""


def percents(text: str) -> tuple[float, ...]:
    """Return the numbers of P,P (ArgumentTypeError)."""
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise ArgumentTypeError(f"numbers in percent are expected, such as 20,60, not '{text}'") from None


# Option name -> arguments of `argparse.ArgumentParser.add_argument`.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "model": {
        "metavar": "MODEL",
        "help": "the model to ask: a config of models/, or BACKEND:ARGUMENT (default: "
        f"{DEFAULT_MODEL} for the phantom, none for other data)",
    },
    "benchmark": {
        "metavar": "NAME",
        "action": "append",
        "help": "evaluate this benchmark or group, or the benchmark that a file such as klinik.toml declares "
        "(repeatable, or NAME,NAME; default: all whose data are found, and phantom if there is no folder of data)",
    },
    "data": {
        "metavar": "DIR",
        "help": f"folder of the data sets (default: {ENV_DATA}); pytest needs the form --data=DIR",
    },
    "technique": {
        "metavar": "NAME",
        "action": "append",
        "help": "how models are asked: mc (multiple choice), gd, ps, ff (with --judge); repeatable, or mc,gd,ps "
        "(default: what the model's config says, else mc)",
    },
    "judge": {
        "metavar": "MODEL",
        "help": "the model that judges open answers: a config of models/, or BACKEND:ARGUMENT (default: none)",
    },
    "ff-gap": {
        "metavar": "POINTS",
        "type": float,
        "help": "with --technique=ff: the option that the judge rates closest is the answer if it leads by POINTS "
        "(default: 3)",
    },
    "extract-with": {
        "metavar": "WHAT",
        "help": "judge: let the judge read answers in which rules find no option",
    },
    "rules-first": {
        "action": "store_true",
        "default": None,
        "help": "score open answers by rule, without the judge, where a rule is certain, such as one equal to the "
        "reference",
    },
    "judge-prompt": {
        "metavar": "TASK:FILE",
        "action": "append",
        "help": "use this file as the judge's prompt for TASK: score, closeness or options (repeatable)",
    },
    "extraction": {
        "metavar": "RULE",
        "help": "how answers are read: sound (default), or official, the rule of each benchmark's owners where they "
        "published one; official:2025-08 is the version of that month",
    },
    "metric-like": {
        "metavar": "KIT",
        "action": "append",
        "help": "show the counts of another evaluation kit too, flaws included: llava-med or medevalkit (repeatable, "
        "or KIT,KIT; medvqa report has it for stored runs)",
    },
    "ablate": {
        "metavar": "HOW",
        "help": "take the picture away: text-only (no image), blank (grey) or shuffle (another item's)",
    },
    "prompt": {
        "metavar": "NAME|FILE|all",
        "action": "append",
        "help": "ask by a named prompt of the benchmark, by the prompt in a file, or by all named prompts (repeatable, "
        "or NAME,NAME; default: the benchmark's own)",
    },
    "samples": {
        "metavar": "N",
        "type": int,
        "help": "ask each question N times, if the model samples its answers; --combine makes one score of them",
    },
    "combine": {
        "metavar": "HOW",
        "help": "with --samples: mean (average the scores, the default), vote (majority of the options), best-oracle "
        "(right if --threshold of the samples are right) or best-self (the model chooses among its samples)",
    },
    "threshold": {
        "metavar": "PERCENT",
        "type": percents,
        "action": "append",
        "help": "with --combine=best-oracle: the share of the samples that must be right; the first is measured, all "
        "are shown (repeatable, or P,P; default: 1)",
    },
    "shots": {
        "metavar": "K",
        "type": int,
        "help": "show K solved examples before each question",
    },
    "shot-pool": {
        "metavar": "FILE|BENCHMARK",
        "help": "with --shots: take the examples from this file or benchmark (default: the benchmark itself, without "
        "questions related to the one that is asked)",
    },
    "reasoning": {
        "metavar": "HOW",
        "help": "cot: ask the model to reason, and to end with a line that holds its final answer; cot-2: to reason, "
        "and to answer in a second turn",
    },
    "explain": {
        "action": "store_true",
        "default": None,
        "help": "ask the model to answer first, and then to explain its answer",
    },
    "rotate": {
        "metavar": "N|all",
        "help": "ask each question with its options in N cyclic orders, or in all; it counts as right only if every "
        "answer is right",
    },
    "run": {
        "metavar": "NAME",
        "help": "name of the run folder under reports/; an existing run is continued (default: time and model); with "
        "--shard=auto, NAME-3of8",
    },
    "answers": {
        "metavar": "RUN|PLACE",
        "action": "append",
        "help": "use the answers of another run of the same model: its name or folder; or share answers with other "
        "runs and machines in a place: a folder, s3://BUCKET/PREFIX, gs:// or az:// (repeatable; default: the run's "
        "own answers alone)",
    },
    "fresh": {
        "action": "store_true",
        "default": None,
        "help": "ask every question anew, in a new run; answers of runs and places that --answers names are not used",
    },
    "tags": {
        "metavar": "FILE",
        "action": "append",
        "help": "add tags of your own to the questions: a table with the column id and a column for each dimension "
        "(repeatable)",
    },
    "limit": {
        "metavar": "N",
        "type": int,
        "help": "ask at most N questions of each benchmark: a stratified sample of those selected, with whole pairs",
    },
    "shard": {
        "metavar": "I/N|auto",
        "help": "ask the I-th of N shards of the selected questions, after --limit; pairs and questions about one "
        "image stay together; auto: read I and N from the environment of a scheduler (Slurm, Kubernetes, SkyPilot, "
        "GitLab and others)",
    },
    "allow-upload": {
        "action": "store_true",
        "default": None,
        "help": "allow sending data that are not declared public to another machine",
    },
    "trust-remote-code": {
        "action": "store_true",
        "default": None,
        "help": "run the Python code that comes with the checkpoint, if the model's config asks for it too",
    },
    "max-cost": {
        "metavar": "SUM",
        "type": float,
        "help": "stop once answers and judging have cost this sum, by the prices in their configs",
    },
    "batch-size": {
        "metavar": "N",
        "type": int,
        "help": "prompts in a batch (default: the model's own number, else 32)",
    },
    "concurrency": {
        "metavar": "N",
        "type": int,
        "help": "maximum of calls in flight, for models that allow several (default: the model's own number)",
    },
    "ray-address": {
        "metavar": "HOST:PORT",
        "help": "with --model=ray:MODEL: the Ray cluster that holds the copies of the model, or auto for the one that "
        "Ray finds (default: a local one, started for the run)",
    },
    "replicas": {
        "metavar": "N|auto",
        "help": "with --model=ray:MODEL: the number of copies of the model (default: auto, as many as fit, also on "
        "nodes that join during the run)",
    },
    "max-tokens": {
        "metavar": "N",
        "type": int,
        "help": "maximum of new tokens per answer; 0: no limit (default: set by the model's config, else by the "
        "benchmark)",
    },
    "deadline": {
        "metavar": "SECONDS",
        "type": float,
        "help": "a batch that takes longer ends in errors (default: 600, and 60 more for each prompt)",
    },
    "max-errors": {
        "metavar": "N",
        "type": int,
        "help": f"stop after N errors in a row in a process (default: {DEFAULT_MAX_ERRORS}; 0: never)",
    },
    "answers-from-category": {
        "action": "store_true",
        "default": None,
        "help": "score gmai-mmbench-test against the column 'category'; every report says so",
    },
    "baseline": {
        "metavar": "RUN",
        "action": "append",
        "help": "gate: fail if the model is worse than this run folder or baseline file (repeatable); pytest needs the "
        "form --baseline=RUN",
    },
    "margin": {
        "metavar": "POINTS",
        "type": float,
        "help": "gate: pass only if a loss of POINTS against the baseline is ruled out (default: 2)",
    },
    "gate-slices": {
        "metavar": "DIMENSION",
        "action": "append",
        "help": "gate: guard each slice of a dimension of the lexicon too (repeatable, or DIMENSION,DIMENSION)",
    },
    "looks": {
        "metavar": "J",
        "type": int,
        "help": "gate: how many runs will be compared with this baseline; the 5 % of error are divided by it "
        "(default: 1)",
    },
    "inconclusive": {
        "metavar": "pass|fail",
        "help": "gate: an inconclusive verdict has exit code 11 (fail, the default) or 0 (pass)",
    },
    "require": {
        "metavar": "all|baseline|shared",
        "help": "gate: the questions that a pass needs: all of the baseline (baseline, the default), the whole data "
        "set too (all), or only those of both runs (shared)",
    },
    "gate": {
        "metavar": "required|off",
        "help": "required: refuse to run, with exit code 4, if there are no rules of a gate (--baseline or "
        "pyproject.toml); off: run without the rules of pyproject.toml",
    },
}

SELECT: Mapping[str, Any] = {
    "metavar": "EXPRESSION",
    "help": "ask only the questions that match: whole words of tags, benchmarks and ids, and "
    "lexicon(DIMENSION='VALUE'), joined by and, or, not and brackets; `medvqa lexicon` prints the tags",
}
"""The option --select of `medvqa run`; pytest has -k and -m instead."""

OLD_NAMES: Mapping[str, str] = {"repeat": "samples"}
"""Earlier names of options, which remain valid."""

LISTS = frozenset({"benchmark", "technique", "prompt", "gate-slices", "metric-like"})
"""Options that take NAME,NAME."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run, with defaults filled in.

    `typed`: True if any option was given. Only then are options validated before collection. `model_typed`: a model was
    named, so questions must be asked. `data_typed`: the text that named the data folder, such as --data=DIR or
    MEDVQA_DATA=DIR; "" without one. `empty`: options without a value, as from an unset variable. `shard`, `run`: with
    --shard=auto, those of this task, and `shard_source` names the variables that they were read from.
    """

    model: str
    benchmarks: tuple[str, ...]
    data: Path | None
    data_typed: str
    model_typed: bool
    techniques: tuple[str, ...]
    judge: str | None
    ff_gap: float | None
    extract_with: str | None
    rules_first: bool
    judge_prompts: tuple[str, ...]
    extraction: str
    metric_like: tuple[str, ...]
    ablate: str | None
    prompts: tuple[str, ...]
    samples: int | None
    combine: str | None
    thresholds: tuple[float, ...]
    shots: int | None
    shot_pool: str | None
    reasoning: str | None
    explain: bool
    rotate: str | None
    run: str | None
    answers: tuple[str, ...]
    """Addresses (`address.Address`), whole paths, and names of runs."""
    fresh: bool
    tags: tuple[Path, ...]
    limit: int | None
    shard: str | None
    shard_source: str
    allow_upload: bool
    trust_remote_code: bool
    max_cost: float | None
    batch_size: int | None
    concurrency: int | None
    ray_address: str | None
    replicas: str | None
    max_tokens: int | None
    deadline: float | None
    max_errors: int
    answers_from_category: bool
    baselines: tuple[str, ...]
    margin: float | None
    gate_slices: tuple[str, ...]
    looks: int | None
    inconclusive: str | None
    require: str | None
    gate: str | None
    typed: bool
    empty: tuple[str, ...]

    @classmethod
    def of(cls, parsed: Mapping[str, Any], cwd: Path) -> Options:
        """Return the options that argparse parsed, by name; None or missing if not typed.

        UsageError for a text with a NUL character, and if --shard=auto finds no shard; nothing else is checked yet.

        `cwd` is the folder that relative paths start from; ~ is the home folder.
        """
        raw = {name: parsed.get(name) for name in OPTIONS}
        _refuse_nul(raw)
        data, data_typed = data_folder(raw["data"], cwd)
        shard, shard_source, run = _shard(raw["shard"], raw["run"])
        return cls(
            model=raw["model"] or DEFAULT_MODEL,
            benchmarks=listed(raw["benchmark"] or ()),
            data=data,
            data_typed=data_typed,
            model_typed=raw["model"] is not None,
            techniques=listed(raw["technique"] or ()),
            judge=raw["judge"],
            ff_gap=raw["ff-gap"],
            extract_with=raw["extract-with"],
            rules_first=bool(raw["rules-first"]),
            judge_prompts=tuple(map(_expanded, raw["judge-prompt"] or ())),
            extraction=raw["extraction"] or "sound",
            metric_like=listed(raw["metric-like"] or ()),
            ablate=raw["ablate"],
            prompts=tuple(map(os.path.expanduser, listed(raw["prompt"] or ()))),
            samples=raw["samples"],
            combine=raw["combine"],
            thresholds=tuple(dict.fromkeys(itertools.chain.from_iterable(raw["threshold"] or ()))),
            shots=raw["shots"],
            shot_pool=None if raw["shot-pool"] is None else os.path.expanduser(raw["shot-pool"]),
            reasoning=raw["reasoning"],
            explain=bool(raw["explain"]),
            rotate=raw["rotate"],
            run=run,
            answers=tuple(dict.fromkeys(_answers(text, cwd) for text in raw["answers"] or () if text)),
            fresh=bool(raw["fresh"]),
            tags=tuple(Path(cwd, os.path.expanduser(path)) for path in raw["tags"] or ()),
            limit=raw["limit"],
            shard=shard,
            shard_source=shard_source,
            allow_upload=bool(raw["allow-upload"]),
            trust_remote_code=bool(raw["trust-remote-code"]),
            max_cost=raw["max-cost"],
            batch_size=raw["batch-size"],
            concurrency=raw["concurrency"],
            ray_address=raw["ray-address"],
            replicas=None if raw["replicas"] is None else str(raw["replicas"]),
            max_tokens=raw["max-tokens"],
            deadline=raw["deadline"],
            max_errors=DEFAULT_MAX_ERRORS if raw["max-errors"] is None else raw["max-errors"],
            answers_from_category=bool(raw["answers-from-category"]),
            baselines=tuple(map(os.path.expanduser, raw["baseline"] or ())),
            margin=raw["margin"],
            gate_slices=tuple(raw["gate-slices"] or ()),
            looks=raw["looks"],
            inconclusive=raw["inconclusive"],
            require=raw["require"],
            gate=raw["gate"],
            typed=any(value is not None for value in raw.values()),
            empty=tuple(name for name, value in raw.items() if _empty(name, value)),
        )


def _refuse_nul(raw: Mapping[str, Any]) -> None:
    for name, value in raw.items():
        if any("\0" in text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)):
            from medvqa.items import UsageError

            raise UsageError(f"--{name}: a value holds a NUL character, which no path and no command line may have")


def _shard(typed: str | None, run: str | None) -> tuple[str | None, str, str | None]:
    """Return the shard, the source of --shard=auto (else ""), and the run's name, which --shard=auto extends."""
    if typed != "auto":
        return typed, "", run
    # Imported here: pytest reads options in every repository.
    from medvqa.session import sharding

    task = sharding.read(os.environ)
    return str(task.shard), task.source, task.named(run) if run else run


def _answers(typed: str, cwd: Path) -> str:
    """Return the address or the whole path that --answers names (UsageError for a wrong address).

    A name without a slash stays: it may be a run's.
    """
    if ":" in typed:
        from medvqa.records import address
        from medvqa.records.address import Address

        if address.is_address(typed):
            return str(Address.of(typed))
    typed = typed.rstrip("/") or typed
    path = Path(cwd, os.path.expanduser(typed))
    return typed if path.name == typed else str(path.absolute())


def data_folder(typed: str | Path | None, cwd: Path) -> tuple[Path | None, str]:
    """Return the data folder of --data, else of MEDVQA_DATA, and the text that named it; (None, "") without both.

    It need not exist.
    """
    name = str(typed) if typed is not None else os.environ.get(ENV_DATA, "")
    if not name:
        return None, ""
    # Not `Path.resolve`, which raises an error for links that go in a circle.
    folder = Path(os.path.realpath(os.path.join(cwd, os.path.expanduser(name))))
    return folder, f"{'--data' if typed is not None else ENV_DATA}={name}"


@contextmanager
def occupied(place: str) -> Iterator[None]:
    """Show this process only the devices of a place, such as "0" or "0,1", within the block."""
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = place
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = before


def listed(typed: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a repeatable option that takes NAME,NAME, without repetitions; "" for an empty one."""
    return tuple(dict.fromkeys(name.strip() for names in typed for name in names.split(",")))


def _empty(name: str, value: object) -> bool:
    """Whether an option was given without a value, or with a name that is empty."""
    if isinstance(value, list):
        return "" in (listed(value) if name in LISTS else value)
    return value == ""


def _expanded(prompt: str) -> str:
    """Return TASK:FILE with ~ expanded."""
    task, colon, file = prompt.partition(":")
    return f"{task}{colon}{os.path.expanduser(file)}"


@dataclass(frozen=True, slots=True)
class Setting:
    """The folders and the process of a run.

    `root` holds models/ and reports/. `cwd`: the folder that relative paths start from. `workers`: number of asking
    processes, 0 for this one alone. `stops_early`: any wrong answer may end the session, so little is asked ahead.
    `collects_only`: nothing will be asked. `selects`: the options that select questions, as typed. `by_outcome`: they
    select by earlier outcomes.
    """

    root: Path
    cwd: Path
    workers: int = 0
    stops_early: bool = False
    collects_only: bool = False
    selects: tuple[str, ...] = ()
    by_outcome: bool = False

    @property
    def reports(self) -> Path:
        """The folder of run folders."""
        return self.root / "reports"
