"""The options of a run: one table, from which all doors and the documentation take theirs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

ENV_DATA = "MEDVQA_DATA"
VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable that says which GPUs a process sees; CUDA reads it when it is first used."""
DEFAULT_MODEL = "phantom-vlm"
DEFAULT_MAX_ERRORS = 50
"""More than a batch of the default size, so that one batch that hangs does not stop a run."""
MAX_NUMBER = 10**12
"""run.json holds no number above 2**53."""

Kind = Literal["text", "path", "count", "flag", "whole number", "number"]
"""What a value is. count: a whole number, or a word such as all. path: of commands."""


class WrongValueError(ValueError):
    """A value that an option does not take: the `value`, and what is `expected`, such as "a text"."""

    def __init__(self, value: object, expected: str) -> None:
        """Keep both for the message."""
        super().__init__(value, expected)
        self.value, self.expected = value, expected


def home_path(text: str) -> Path:
    """Return a path with ~ expanded: shells leave it alone in `--rules=~/rules.toml`."""
    # Unlike Path.expanduser, it leaves an unknown user alone.
    return Path(os.path.expanduser(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A row of the table.

    `field`: its attribute of `Options`. `common`: one of the twenty that most people need. `page`: the page of the
    documentation about it. `several`: it can be repeated; `lists`: its values may be NAME,NAME. `low`: the least
    number, or a number below all if `above`; `high`: the greatest one; `hint` ends the message about others. `read`
    makes the attribute from a typed value and the current folder.
    """

    name: str
    field: str
    section: str
    help: str
    metavar: str
    kind: Kind = "text"
    common: bool = False
    page: str = ""
    several: bool = False
    lists: bool = False
    default: Any = None
    low: float | None = None
    above: bool = False
    high: float | None = None
    hint: str = ""
    read: Callable[[Any, Path], Any] | None = None

    def arguments(self, help: str = "") -> dict[str, Any]:
        """Return arguments of `argparse.ArgumentParser.add_argument`; `help` replaces the row's."""
        # argparse formats a help text with %, which is plain text in the table.
        described = {"help": (help or self.help).replace("%", "%%")}
        if self.kind == "flag":
            return {"action": "store_true", "default": None, **described}
        types = {"whole number": int, "number": float, "path": home_path}
        typed = {"type": types[self.kind]} if self.kind in types else {}
        return {"metavar": self.metavar, **typed, **({"action": "append"} if self.several else {}), **described}

    def attribute(self, typed: Any, cwd: Path) -> Any:
        """Return the attribute of `Options` for a value that argparse gives; None if the option was not typed."""
        if self.kind == "flag":
            return bool(typed)
        if self.several:
            values = listed(typed or ()) if self.lists else tuple(typed or ())
            return values if self.read is None else tuple(self.read(value, cwd) for value in values)
        if typed is None or (typed == "" and self.default is not None):
            return self.default
        return typed if self.read is None else self.read(typed, cwd)

    def given(self, value: object) -> Any:
        """Return a value of Python or TOML as argparse gives it (WrongValueError)."""
        if self.kind == "flag":
            if not isinstance(value, bool):
                raise WrongValueError(value, "True or False")
            return value or None
        if not self.several:
            return self._single(value)
        if isinstance(value, list | tuple):
            return [self._single(one) for one in value]
        with suppress(WrongValueError):
            return [self._single(value)]
        raise WrongValueError(value, "a text or a list of texts" if self.kind == "text" else "a number")

    def _single(self, value: object) -> Any:
        if isinstance(value, str | os.PathLike):
            if self.kind in ("text", "count"):
                return os.fspath(value)
        elif self.kind != "text" and isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(ValueError, OverflowError):
                if self.kind == "number":
                    return float(value)
                if int(value) == value:
                    return str(int(value)) if self.kind == "count" else int(value)
        raise WrongValueError(value, "a text" if self.kind in ("text", "count") else f"a {self.kind.rstrip('s')}")

    def check(self, value: float) -> None:
        """Raise UsageError for a number out of range."""
        if self.high is not None and value > self.high:
            bound = f"of at most {self.high:,.15g}"
        elif self.low is not None and not (value > self.low if self.above else value >= self.low):
            bound = f"above {self.low:g}" if self.above else f"from {self.low:g} on"
        else:
            return
        from medvqa.items import UsageError

        number = "a whole number" if self.kind == "whole number" else "a number"
        raise UsageError(f"--{self.name}={value:.15g}: {number} {bound} is expected{self.hint}")


def _home(text: str, cwd: Path) -> str:
    return os.path.expanduser(text)


def _path(text: str, cwd: Path) -> Path:
    return Path(cwd, os.path.expanduser(text))


def _task_file(text: str, cwd: Path) -> str:
    """Return TASK:FILE with ~ expanded."""
    task, colon, file = text.partition(":")
    return f"{task}{colon}{os.path.expanduser(file)}"


def _answers(text: str, cwd: Path) -> str:
    """Return the address or the whole path that --answers names (UsageError for a wrong address).

    A name without a slash stays: it may be a run's.
    """
    if ":" in text:
        from medvqa.records import address
        from medvqa.records.address import Address

        if address.is_address(text):
            return str(Address.of(text))
    text = text.rstrip("/") or text
    path = Path(cwd, os.path.expanduser(text))
    return text if path.name == text else str(path.absolute())


def _section(title: str) -> Callable[..., Any]:
    """Return a function that makes the fields of a section: help, metavar ("" for a flag), and fields of `Option`."""

    def made(help: str, metavar: str = "", **row: Any) -> Any:
        row.setdefault("kind", "text" if metavar else "flag")
        if row["kind"] == "whole number":
            row.setdefault("high", MAX_NUMBER)
        return field(metadata={"row": {"section": title, "help": help, "metavar": metavar, **row}})

    return made


_models = _section("Model and judge")
_questions = _section("Questions")
_asking = _section("How questions are asked")
_scoring = _section("How answers are scored")
_runs = _section("Runs and stored answers")
_limits = _section("Consent, cost and speed")
_gate = _section("Gate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a run, with defaults filled in.

    `typed`: True if any option was given. Only then are options validated before collection. `model_typed`: a model was
    named, so questions must be asked. `data_typed`: the text that named the data folder, such as --data=DIR or
    MEDVQA_DATA=DIR; "" without one. `empty`: options without a value, as from an unset variable. `shard`, `run`: with
    --shard=auto, those of this task, and `shard_source` names the variables that they were read from.
    """

    model: str = _models(
        f"the model to ask: a config of models/, or BACKEND:ARGUMENT (default: {DEFAULT_MODEL} for the phantom, none "
        "for other data)",
        "MODEL",
        common=True,
        default=DEFAULT_MODEL,
        page="models.md",
    )
    benchmarks: tuple[str, ...] = _questions(
        "evaluate this benchmark or group, or the benchmark that a file such as klinik.toml declares "
        "(repeatable, or NAME,NAME; default: all whose data are found, and phantom if there is no folder of data)",
        "NAME",
        name="benchmark",
        several=True,
        lists=True,
        common=True,
        page="data.md",
    )
    data: Path | None = _questions(  # noqa: RUF009 - a field, not a default
        f"folder of the data sets (default: {ENV_DATA}); pytest needs the form --data=DIR",
        "DIR",
        common=True,
        page="data.md",
    )
    techniques: tuple[str, ...] = _asking(
        "how models are asked: mc (multiple choice), gd, ps, ff (with --judge); repeatable, or mc,gd,ps "
        "(default: what the model's config says, else mc)",
        "NAME",
        name="technique",
        several=True,
        lists=True,
        common=True,
        page="asking.md",
    )
    judge: str | None = _models(
        "the model that judges open answers: a config of models/, or BACKEND:ARGUMENT (default: none)",
        "MODEL",
        common=True,
        page="scoring.md",
    )
    ff_gap: float | None = _scoring(
        "with --technique=ff: the option that the judge rates closest is the answer if it leads by POINTS (default: 3)",
        "POINTS",
        kind="number",
        page="scoring.md",
    )
    extract_with: str | None = _scoring(
        "judge: let the judge read answers in which rules find no option", "WHAT", page="scoring.md"
    )
    rules_first: bool = _scoring(
        "score open answers by rule, without the judge, where a rule is certain, such as one equal to the reference",
        page="scoring.md",
    )
    judge_prompts: tuple[str, ...] = _scoring(
        "use this file as the judge's prompt for TASK: score, closeness or options (repeatable)",
        "TASK:FILE",
        name="judge-prompt",
        several=True,
        read=_task_file,
        page="scoring.md",
    )
    extraction: str = _scoring(
        "how answers are read: sound (default), or official, the rule of each benchmark's owners where they "
        "published one; official:2025-08 is the version of that month",
        "RULE",
        common=True,
        default="sound",
        page="scoring.md",
    )
    metric_like: tuple[str, ...] = _scoring(
        "show the counts of another evaluation kit too, flaws included: llava-med or medevalkit (repeatable, "
        "or KIT,KIT; medvqa report has it for stored runs)",
        "KIT",
        several=True,
        lists=True,
        page="scoring.md",
    )
    ablate: str | None = _asking(
        "take the picture away: text-only (no image), blank (grey) or shuffle (another item's)",
        "HOW",
        common=True,
        page="asking.md",
    )
    prompts: tuple[str, ...] = _asking(
        "ask by a named prompt of the benchmark, by the prompt in a file, or by all named prompts (repeatable, "
        "or NAME,NAME; default: the benchmark's own)",
        "NAME|FILE|all",
        name="prompt",
        several=True,
        lists=True,
        common=True,
        read=_home,
        page="asking.md",
    )
    samples: int | None = _asking(
        "ask each question N times, if the model samples its answers; --combine makes one score of them",
        "N",
        kind="whole number",
        common=True,
        low=2,
        high=10_000,
        hint="; without --samples each question is asked once",
        page="asking.md",
    )
    combine: str | None = _asking(
        "with --samples: mean (average the scores, the default) or vote (majority of the options)",
        "HOW",
        page="asking.md",
    )
    shots: int | None = _asking(
        "show K solved examples before each question",
        "K",
        kind="whole number",
        low=1,
        hint="; without --shots no examples are shown",
        page="asking.md",
    )
    shot_pool: str | None = _asking(
        "with --shots: take the examples from this file or benchmark (default: the benchmark itself, without "
        "questions related to the one that is asked)",
        "FILE|BENCHMARK",
        read=_home,
        page="asking.md",
    )
    reasoning: str | None = _asking(
        "cot: ask the model to reason, and to end with a line that holds its final answer; cot-2: to reason, "
        "and to answer in a second turn",
        "HOW",
        common=True,
        page="asking.md",
    )
    explain: bool = _asking(
        "ask the model to answer first, and then to explain its answer",
        page="asking.md",
    )
    perturb: str | None = _asking(
        "change images or questions before the model sees them: gaussian_noise, motion_blur, typos and others, at "
        "level 1 to 5 (default: 3)",
        "NAME[:LEVEL]",
        page="robustness.md",
    )
    abstain: bool = _asking(
        'offer the answer "Cannot be determined" with each question, and show coverage and the accuracy of what was '
        "answered",
        page="robustness.md",
    )
    confidence: bool = _asking(
        "ask the model to end its reply with the probability that its answer is right, in percent",
        page="robustness.md",
    )
    wrong_costs: float | None = _scoring(
        "with --abstain: show effective_reliability, the mean of answers in which a right one counts 1, none 0, and "
        "a wrong one -K (medvqa report has it for stored runs)",
        "K",
        kind="number",
        low=0,
        above=True,
        high=10**6,
        page="robustness.md",
    )
    rotate: str | None = _asking(
        "ask each question with its options in N cyclic orders, or in all; it counts as right only if every "
        "answer is right",
        "N|all",
        kind="count",
        page="asking.md",
    )
    run: str | None = _runs(
        "name of the run folder under reports/; an existing run is continued (default: time and model); with "
        "--shard=auto, NAME-3of8",
        "NAME",
        common=True,
        page="scale.md",
    )
    answers: tuple[str, ...] = _runs(
        "use the answers of another run of the same model: its name or folder; or share answers in a place: a folder, "
        "s3://BUCKET/PREFIX, gs:// or az:// (repeatable; default: the run's own answers alone)",
        "RUN|PLACE",
        several=True,
        common=True,
        page="scale.md",
    )
    """Addresses (`address.Address`), whole paths, and names of runs."""
    track: tuple[str, ...] = _runs(
        "tell an experiment tracker of the run's end: mlflow or wandb, which find their server by their own "
        "environment variables (repeatable, or NAME,NAME)",
        "NAME",
        several=True,
        lists=True,
        page="python.md",
    )
    fresh: bool = _runs(
        "ask every question anew, in a new run; answers of runs and places that --answers names are not used",
        common=True,
        page="scale.md",
    )
    tags: tuple[Path, ...] = _questions(
        "add tags of your own to the questions: a table with the column id and a column for each dimension "
        "(repeatable)",
        "FILE",
        several=True,
        read=_path,
        page="data.md",
    )
    limit: int | None = _questions(
        "ask at most N questions of each benchmark: a stratified sample of those selected, with whole pairs",
        "N",
        kind="whole number",
        common=True,
        low=1,
        page="data.md",
    )
    shard: str | None = _questions(
        "ask the I-th of N shards of the selected questions, after --limit; auto: read I and N from the environment "
        "of a scheduler (Slurm, Kubernetes, SkyPilot, GitLab and others)",
        "I/N|auto",
        common=True,
        page="scale.md",
    )
    shard_source: str
    allow_upload: bool = _limits(
        "allow sending data that are not declared public to another machine",
        common=True,
        page="gpus-and-servers.md",
    )
    trust_remote_code: bool = _limits(
        "run the Python code that comes with the checkpoint, if the model's config asks for it too",
        page="gpus-and-servers.md",
    )
    max_cost: float | None = _limits(
        "stop once answers and judging have cost this sum, by the prices in their configs",
        "SUM",
        kind="number",
        common=True,
        page="gpus-and-servers.md",
    )
    batch_size: int | None = _limits(
        "prompts in a batch (default: the model's own number, else 32)",
        "N",
        kind="whole number",
        common=True,
        low=1,
        page="scale.md",
    )
    concurrency: int | None = _limits(
        "maximum of calls in flight, for models that allow several (default: the model's own number)",
        "N",
        kind="whole number",
        low=1,
        page="scale.md",
    )
    columns: tuple[str, ...] = _models(
        "with --model=replay:FILE or human:FILE: the column that holds the id, response, question, benchmark, "
        "technique, finish, reader or score (repeatable; default: known by its name); --set id= finds questions by "
        "their text and options",
        "ROLE=COLUMN",
        name="set",
        several=True,
        page="models.md",
    )
    ray_address: str | None = _models(
        "with --model=ray:MODEL: the Ray cluster, or auto for the one that Ray finds (default: a local one, started "
        "for the run)",
        "HOST:PORT",
        page="scale.md",
    )
    replicas: str | None = _models(
        "with --model=ray:MODEL: the number of copies of the model (default: auto, as many as fit)",
        "N|auto",
        kind="count",
        page="scale.md",
    )
    max_tokens: int | None = _limits(
        "maximum of new tokens per answer; 0: no limit (default: set by the model's config, else by the benchmark)",
        "N",
        kind="whole number",
        low=0,
        hint="; 0: no limit",
        page="asking.md",
    )
    deadline: float | None = _limits(
        "a batch that takes longer ends in errors (default: 600, and 60 more for each prompt)",
        "SECONDS",
        kind="number",
        low=0,
        above=True,
        # 30 years: clocks refuse much larger numbers.
        high=1e9,
        page="scale.md",
    )
    max_errors: int = _limits(
        f"stop after N errors in a row in a process (default: {DEFAULT_MAX_ERRORS}; 0: never)",
        "N",
        kind="whole number",
        default=DEFAULT_MAX_ERRORS,
        low=0,
        hint="; 0: never stop",
        page="scale.md",
    )
    answers_from_category: bool = _scoring(
        "score gmai-mmbench-test against the column 'category'; every report says so",
        page="data.md",
    )
    baselines: tuple[str, ...] = _gate(
        "fail if the model is worse than this run folder or baseline file (repeatable); pytest needs the form "
        "--baseline=RUN",
        "RUN",
        name="baseline",
        several=True,
        common=True,
        read=_home,
        page="comparing.md",
    )
    margin: float | None = _gate(
        "pass only if a loss of POINTS against the baseline is ruled out (default: 2)",
        "POINTS",
        kind="number",
        common=True,
        page="comparing.md",
    )
    gate_slices: tuple[str, ...] = _gate(
        "guard each slice of a dimension of the lexicon too (repeatable, or DIMENSION,DIMENSION)",
        "DIMENSION",
        several=True,
        lists=True,
        page="comparing.md",
    )
    looks: int | None = _gate(
        "how many runs will be compared with this baseline; the 5 % of error are divided by it (default: 1)",
        "J",
        kind="whole number",
        page="comparing.md",
    )
    inconclusive: str | None = _gate(
        "an inconclusive verdict has exit code 11 (fail, the default) or 0 (pass)",
        "pass|fail",
        page="comparing.md",
    )
    require: str | None = _gate(
        "the questions that a pass needs: all of the baseline (baseline, the default), the whole data "
        "set too (all), or only those of both runs (shared)",
        "all|baseline|shared",
        page="comparing.md",
    )
    gate: str | None = _gate(
        "required: refuse to run, with exit code 4, if there are no rules of a gate (--baseline or "
        "pyproject.toml); off: run without the rules of pyproject.toml",
        "required|off",
        page="comparing.md",
    )
    stop: str | None = _gate(
        "early: end the run, with the verdict FAIL, once a loss of more than the margin is shown at any time with an "
        "error of at most 5 %; questions are asked in a drawn order",
        "early",
        page="comparing.md",
    )
    data_typed: str
    model_typed: bool
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
        attributes = {row.field: row.attribute(raw[name], cwd) for name, row in OPTIONS.items()}
        attributes["answers"] = tuple(dict.fromkeys(_answers(text, cwd) for text in raw["answers"] or () if text))
        attributes["data"], data_typed = data_folder(raw["data"], cwd)
        attributes["shard"], shard_source, attributes["run"] = _shard(raw["shard"], raw["run"])
        return cls(
            **attributes,
            shard_source=shard_source,
            data_typed=data_typed,
            model_typed=raw["model"] is not None,
            typed=any(value is not None for value in raw.values()),
            empty=tuple(name for name, value in raw.items() if _is_empty(OPTIONS[name], value)),
        )

    def check(self) -> None:
        """Raise UsageError for an option without a value, and for a number out of range."""
        from medvqa.items import UsageError

        for name in self.empty:
            how = OPTIONS[name].metavar
            names = f", or --{name}={how},{how}" if OPTIONS[name].lists else ""
            raise UsageError(f"--{name}: a value is empty; write --{name}={how}{names}, or leave it out")
        for row in OPTIONS.values():
            if row.kind in ("whole number", "number") and (value := getattr(self, row.field)) is not None:
                row.check(value)


def _rows() -> Iterator[Option]:
    for one in fields(Options):
        if "row" in one.metadata:
            yield Option(**{"name": one.name.replace("_", "-"), "field": one.name, **one.metadata["row"]})


OPTIONS: Mapping[str, Option] = {row.name: row for row in _rows()}
"""The rows by their names."""
SECTIONS: Mapping[str, tuple[Option, ...]] = {
    title: tuple(row for row in OPTIONS.values() if row.section == title)
    for title in dict.fromkeys(row.section for row in OPTIONS.values())
}
"""The rows by the titles of their sections."""
SELECT = Option(
    name="select",
    field="select",
    section="Questions",
    metavar="EXPRESSION",
    help="ask only the questions that match: whole words of tags, benchmarks and ids, and "
    "lexicon(DIMENSION='VALUE'), joined by and, or, not and brackets; `medvqa lexicon` prints the tags",
    page="data.md",
)
"""The option --select of `medvqa run`; pytest has -k and -m instead."""
OLD_NAMES: Mapping[str, str] = {"repeat": "samples"}
"""Earlier names of options, which remain valid."""


def names_of(name: str) -> list[str]:
    """Return the names of an option, earlier ones last."""
    return [name, *(old for old, new in OLD_NAMES.items() if new == name)]


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


def _is_empty(row: Option, value: object) -> bool:
    """Whether an option was given without a value, or with a name that is empty."""
    if isinstance(value, list):
        return "" in (listed(value) if row.lists else value)
    return value == ""
