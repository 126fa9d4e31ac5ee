"""Read the shard of `--shard=auto` from the environment variables of schedulers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medvqa import printing
from medvqa.items import UsageError
from medvqa.tags.selection import Shard

AUTO = "auto"
"""The value of --shard that reads the environment."""
ENV_SHARD, ENV_SHARDS = "MEDVQA_SHARD", "MEDVQA_SHARDS"
"""Variables that the user sets: the shard, as I/N; and the number of shards."""
MAX_SHARDS = 1_000_000
_SHOWN = 40
"""Characters of a wrong value that a message shows."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """The variables by which a scheduler numbers its tasks.

    `index`: the task's number. `first`: the lowest number, or the variable that holds it. `count`, `last` and `step`:
    variables of the number of tasks, of the highest number and of the distance of two numbers; "" without one.
    `marker`: a variable without which the numbering does not count. `absent`: the value of `index` outside of an array.
    """

    scheduler: str
    index: str
    first: int | str = 0
    count: str = ""
    last: str = ""
    step: str = ""
    marker: str = ""
    absent: str = ""


NUMBERINGS: Sequence[Numbering] = (
    # https://slurm.schedmd.com/sbatch.html#lbAK and https://slurm.schedmd.com/job_array.html
    Numbering(
        "Slurm",
        "SLURM_ARRAY_TASK_ID",
        first="SLURM_ARRAY_TASK_MIN",
        count="SLURM_ARRAY_TASK_COUNT",
        last="SLURM_ARRAY_TASK_MAX",
        step="SLURM_ARRAY_TASK_STEP",
    ),
    # https://slurm.schedmd.com/srun.html#lbAJ. Only srun sets SLURM_STEP_NUM_TASKS: the batch script itself has
    # SLURM_PROCID=0 too, and SLURM_NTASKS counts the tasks that it may start.
    Numbering("Slurm", "SLURM_PROCID", count="SLURM_STEP_NUM_TASKS", marker="SLURM_STEP_NUM_TASKS"),
    # https://kubernetes.io/docs/tasks/job/indexed-parallel-processing-static/
    Numbering("Kubernetes", "JOB_COMPLETION_INDEX"),
    # https://docs.skypilot.co/en/latest/examples/pools.html and running-jobs/environment-variables.html
    Numbering("SkyPilot", "SKYPILOT_JOB_RANK", count="SKYPILOT_NUM_JOBS"),
    Numbering("SkyPilot", "SKYPILOT_NODE_RANK", count="SKYPILOT_NUM_NODES"),
    # https://docs.gitlab.com/ci/variables/predefined_variables/
    Numbering("GitLab", "CI_NODE_INDEX", first=1, count="CI_NODE_TOTAL"),
    # https://circleci.com/docs/reference/variables/
    Numbering("CircleCI", "CIRCLE_NODE_INDEX", count="CIRCLE_NODE_TOTAL"),
    # https://buildkite.com/docs/pipelines/configure/environment-variables
    Numbering("Buildkite", "BUILDKITE_PARALLEL_JOB", count="BUILDKITE_PARALLEL_JOB_COUNT"),
    # https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html
    Numbering("AWS Batch", "AWS_BATCH_JOB_ARRAY_INDEX", count="AWS_BATCH_JOB_ARRAY_SIZE"),
    # https://gridscheduler.sourceforge.net/htmlman/htmlman1/qsub.html
    Numbering(
        "Grid Engine",
        "SGE_TASK_ID",
        first="SGE_TASK_FIRST",
        last="SGE_TASK_LAST",
        step="SGE_TASK_STEPSIZE",
        absent="undefined",
    ),
    # https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=variables-environment-variable-reference
    Numbering("LSF", "LSB_JOBINDEX", first=1, count="LSB_JOBINDEX_END", absent="0"),
)
"""Each scheduler's numberings, outermost first: an array of jobs may have several tasks in each job."""


@dataclass(frozen=True, slots=True)
class TaskShard:
    """The shard of this task; `source`: the variables that it was read from, such as "CI_NODE_INDEX=3 of 1-8"."""

    shard: Shard
    source: str

    def named(self, run: str) -> str:
        """Return a run's name with the shard: two tasks must not write one run folder."""
        end = self.shard.suffix
        return run if run.endswith(end) else f"{run}{end}"


@dataclass(frozen=True, slots=True)
class _Place:
    """The task's place in one numbering: `position` counts from 0; `count` is None if no variable tells it."""

    numbering: Numbering
    value: int
    position: int
    count: int | None
    numbers: str


def read(environment: Mapping[str, str]) -> TaskShard:
    """Return the shard of this task of an array.

    MEDVQA_SHARD=I/N comes first. MEDVQA_SHARDS=N replaces the scheduler's own number of tasks, for schedulers that tell
    none and for arrays of which some tasks run again. UsageError if no scheduler is recognised, if several are, or if a
    variable has a wrong value.
    """
    if typed := environment.get(ENV_SHARD):
        return TaskShard(_typed(typed), f"{ENV_SHARD}={typed}")
    shards = _number(environment, ENV_SHARDS) if environment.get(ENV_SHARDS) else None
    if shards == 0:
        raise UsageError(f"--shard=auto: {ENV_SHARDS}=0: at least 1 is expected")
    places = [_place(numbering, environment, shards) for numbering in NUMBERINGS if _is_set(numbering, environment)]
    if not places:
        raise UsageError(_nothing(environment))
    # A job of one task has numbers too: GitLab and SkyPilot always set a total.
    several = [place for place in places if place.count != 1] or places[:1]
    names = list(dict.fromkeys(place.numbering.scheduler for place in several))
    if len(names) > 1:
        variables = " and ".join(f"{place.numbering.index} ({place.numbering.scheduler})" for place in several)
        raise UsageError(
            f"--shard=auto: {variables} are set, of {len(names)} schedulers: unset those that do not divide the run, "
            f"or set {ENV_SHARD}=I/N"
        )
    return _joined(several, shards)


def _typed(text: str) -> Shard:
    number, _, of = text.partition("/")
    if not (_is_number(number) and _is_number(of) and 1 <= int(number) <= int(of) <= MAX_SHARDS):
        raise UsageError(f"--shard=auto: {ENV_SHARD}={_shown(text)}: I/N is expected, such as {ENV_SHARD}=3/8")
    return Shard(int(number), int(of))


def _is_set(numbering: Numbering, environment: Mapping[str, str]) -> bool:
    if numbering.marker and not environment.get(numbering.marker):
        return False
    return environment.get(numbering.index, "") not in ("", numbering.absent)


def _place(numbering: Numbering, environment: Mapping[str, str], shards: int | None) -> _Place:
    """Return the task's place; `shards`: the value of MEDVQA_SHARDS."""
    value = _number(environment, numbering.index)
    if numbering.last:
        return _in_range(numbering, environment, value, shards)
    first = int(numbering.first)
    count = _number(environment, numbering.count) if numbering.count and environment.get(numbering.count) else None
    if value < first or (count is not None and value >= first + count):
        known = f"{numbering.count}={count}, " if count is not None else ""
        raise UsageError(f"--shard=auto: {numbering.index}={value}: {known}and numbers count from {first}")
    numbers = "" if count is None else f"{first}-{first + count - 1}"
    return _Place(numbering, value, value - first, count, numbers)


def _in_range(numbering: Numbering, environment: Mapping[str, str], value: int, shards: int | None) -> _Place:
    """Return the task's place in an array such as 1-15:2, which names its own first and last number."""
    first, last = _number(environment, str(numbering.first)), _number(environment, numbering.last)
    step = _number(environment, numbering.step) if environment.get(numbering.step) else 1
    count = (last - first) // step + 1 if step else 0
    told = _number(environment, numbering.count) if numbering.count and environment.get(numbering.count) else count
    numbers = f"{first}-{last}{f':{step}' if step != 1 else ''}"
    if shards is not None and told != shards:
        # Some tasks of an array run again, by their old numbers.
        return _Place(numbering, value, value, None, "")
    if not first <= value <= last or step == 0 or told != count or (value - first) % step:
        raise UsageError(
            f"--shard=auto: {numbering.index}={value} is one of {told:,} tasks from {first} to {last}, which are no "
            f"range {numbers}: number all tasks of the array alike, such as 0-7; to run some of them again, set "
            f"{ENV_SHARDS}=N, the number of shards, and count from 0"
        )
    if count == 1 and shards is None:
        raise UsageError(
            f"--shard=auto: {numbering.index}={value} is the only task of its array. To run one of N shards again, set "
            f"{ENV_SHARDS}=N and count from 0; for a run without shards, leave --shard out"
        )
    return _Place(numbering, value, (value - first) // step, count, numbers)


def _joined(places: Sequence[_Place], shards: int | None) -> TaskShard:
    """Return the shard of a task in nested numberings, outermost first."""
    position, total = 0, 1
    for place in places[1:]:
        if place.count is None:
            raise UsageError(_uncounted(place.numbering))
        total *= place.count
        position = position * place.count + place.position
    outer = places[0]
    if shards is not None:
        if shards % total:
            inner = ", ".join(f"{place.numbering.count}={place.count}" for place in places[1:])
            raise UsageError(f"--shard=auto: {ENV_SHARDS}={shards} is no multiple of the tasks of each job ({inner})")
        count = shards // total
    elif outer.count is not None:
        count = outer.count
    else:
        raise UsageError(_uncounted(outer.numbering))
    if outer.position >= count:
        raise UsageError(
            f"--shard=auto: {outer.numbering.index}={outer.value} and {ENV_SHARDS}={shards}: numbers count from "
            f"{outer.value - outer.position} to {outer.value - outer.position + count - 1}"
        )
    if count * total > MAX_SHARDS:
        raise UsageError(f"--shard=auto: {count * total:,} shards: at most {MAX_SHARDS:,}")
    sources = [f"{p.numbering.index}={p.value}{f' of {p.numbers}' if p.numbers else ''}" for p in places]
    if shards is not None:
        sources.append(f"{ENV_SHARDS}={shards}")
    return TaskShard(Shard(outer.position * total + position + 1, count * total), ", ".join(sources))


def _uncounted(numbering: Numbering) -> str:
    """Return the error for a numbering that does not tell the number of tasks."""
    if numbering.scheduler == "Kubernetes":
        add = (
            "a Job does not tell its tasks the number of completions. Add this line to the container's env, with your "
            f'number: - {{name: {ENV_SHARDS}, value: "8"}}'
        )
    else:
        add = f"{numbering.count} is not set. Set {ENV_SHARDS}=N, the number of tasks"
    return f"--shard=auto: {numbering.index} is set ({numbering.scheduler}), and {add}"


def _nothing(environment: Mapping[str, str]) -> str:
    """Return the error if no scheduler is recognised."""
    if environment.get("SLURM_JOB_ID"):
        return (
            "--shard=auto: this Slurm job is no array, and srun did not start this process: type srun before the "
            f"command, or submit with sbatch --array=0-7, or set {ENV_SHARD}=I/N"
        )
    looked = ", ".join(f"{numbering.index} ({numbering.scheduler})" for numbering in NUMBERINGS)
    return (
        f"--shard=auto: no task of an array is known here: none of these variables is set: {ENV_SHARD}, {looked}. "
        f"Type --shard=I/N, or set {ENV_SHARD}=I/N"
    )


def _number(environment: Mapping[str, str], variable: str) -> int:
    """Return the value of a variable (UsageError)."""
    text = environment.get(variable)
    if text is None or not _is_number(text):
        shown = "is not set" if text is None else f"is {_shown(text)}"
        raise UsageError(f"--shard=auto: {variable} {shown}: a whole number is expected, at most {MAX_SHARDS:,}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_SHARDS)) and int(text) <= MAX_SHARDS


def _shown(text: str) -> str:
    """Return a variable's value as one printable line of limited length."""
    return repr(printing.line(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else ""))


def without_auto(words: Sequence[str], shard: str, run: str) -> list[str]:
    """Return a typed command with this task's shard and run in place of --shard=auto and --run.

    So the command can be typed outside of the scheduler too.
    """
    return [*_without(words, "shard", "run"), f"--shard={shard}", f"--run={run}"]


def without_once(words: Sequence[str]) -> list[str]:
    """Return a typed command without the options that its continuation leaves out: --fresh and --stop=early."""
    return _without([word for word in words if word not in ("--fresh", "--medvqa-fresh")], "stop")


def _without(words: Sequence[str], *names: str) -> list[str]:
    """Return words without these options and their values, typed as `--run=NAME` or `--run NAME`."""
    left_out = {f"--{prefix}{name}" for prefix in ("", "medvqa-") for name in names}
    kept, skips = list[str](), False
    for word in words:
        name, equals, _ = word.partition("=")
        if skips:
            skips = False
        elif name in left_out:
            skips = not equals
        else:
            kept.append(word)
    return kept
