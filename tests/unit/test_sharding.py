"""--shard=auto: the tasks of every array are exactly the shards, and nothing is guessed."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import UsageError
from medvqa.session.options import Options
from medvqa.session.sharding import NUMBERINGS, Numbering, read, without_auto, without_once
from medvqa.tags.selection import Shard
from support.laws import examples

NESTED = {"Slurm": ("SLURM_ARRAY_TASK_ID", "SLURM_PROCID"), "SkyPilot": ("SKYPILOT_JOB_RANK", "SKYPILOT_NODE_RANK")}
BY_INDEX = {numbering.index: numbering for numbering in NUMBERINGS}


def tasks(numbering: Numbering, count: int, first: int = 0, step: int = 1) -> list[dict[str, str]]:
    """The variables of each task as a scheduler sets them; `first` and `step` for those that let the user choose."""
    if not numbering.last:
        first, step = int(numbering.first), 1
    about = {
        numbering.count: str(count),
        numbering.last: str(first + (count - 1) * step),
        numbering.step: str(step),
        str(numbering.first): str(first),
    }
    set_of_all = {name: value for name, value in about.items() if len(name) > 1}
    if not numbering.count and not numbering.last:
        set_of_all["MEDVQA_SHARDS"] = str(count)
    return [set_of_all | {numbering.index: str(first + step * place)} for place in range(count)]


def shards(environments: list[dict[str, str]]) -> list[Shard]:
    return [read(environment).shard for environment in environments]


@pytest.mark.parametrize("numbering", NUMBERINGS, ids=lambda numbering: numbering.index)
@given(count=st.integers(2, 40), first=st.integers(0, 9), step=st.integers(1, 5))
@examples(40)
def test_the_tasks_of_an_array_are_all_shards(numbering: Numbering, count: int, first: int, step: int) -> None:
    """Each shard from 1 to N has one task, whatever the first number and the step."""
    assert shards(tasks(numbering, count, first, step)) == [Shard(n, count) for n in range(1, count + 1)]


@pytest.mark.parametrize("scheduler", NESTED)
@given(outer=st.integers(2, 9), inner=st.integers(1, 9), first=st.integers(0, 3))
@examples(20)
def test_tasks_within_tasks_are_numbered_through(scheduler: str, outer: int, inner: int, first: int) -> None:
    """4 jobs of 8 tasks are 32 shards; a job of one task counts as itself."""
    one, other = (BY_INDEX[index] for index in NESTED[scheduler])
    nested = [a | b for a in tasks(one, outer, first) for b in tasks(other, inner)]
    assert shards(nested) == [Shard(n, outer * inner) for n in range(1, outer * inner + 1)]


@given(count=st.integers(2, 40), again=st.sets(st.integers(0, 39), min_size=1))
@examples(40)
def test_some_tasks_run_again_by_their_old_numbers(count: int, again: set[int]) -> None:
    """`MEDVQA_SHARDS=8 sbatch --array=2,5` runs the shards 3 and 6."""
    numbers = sorted(number for number in again if number < count)
    for number in numbers:
        environment = {
            "SLURM_ARRAY_TASK_ID": str(number),
            "SLURM_ARRAY_TASK_MIN": str(numbers[0]),
            "SLURM_ARRAY_TASK_MAX": str(numbers[-1]),
            "SLURM_ARRAY_TASK_COUNT": str(len(numbers)),
            "SLURM_ARRAY_TASK_STEP": "1",
            "MEDVQA_SHARDS": str(count),
        }
        assert read(environment).shard == Shard(number + 1, count)


SLURM = {f"SLURM_ARRAY_TASK_{name}": value for name, value in {"MIN": "0", "MAX": "7", "COUNT": "8"}.items()}


@pytest.mark.parametrize(
    ("environment", "shard", "source"),
    [
        (SLURM | {"SLURM_ARRAY_TASK_ID": "2"}, "3/8", "SLURM_ARRAY_TASK_ID=2 of 0-7"),
        (
            {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "16"}
            | {"SLURM_ARRAY_TASK_STEP": "2", "SLURM_ARRAY_TASK_COUNT": "8"},
            "3/8",
            "SLURM_ARRAY_TASK_ID=5 of 1-16:2",
        ),
        # The batch script of a job with tasks: srun has not started this process.
        (
            SLURM | {"SLURM_ARRAY_TASK_ID": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"},
            "3/8",
            "SLURM_ARRAY_TASK_ID=2 of 0-7",
        ),
        ({"JOB_COMPLETION_INDEX": "2", "MEDVQA_SHARDS": "8"}, "3/8", "JOB_COMPLETION_INDEX=2, MEDVQA_SHARDS=8"),
        ({"CI_NODE_INDEX": "3", "CI_NODE_TOTAL": "8"}, "3/8", "CI_NODE_INDEX=3 of 1-8"),
        # A job of GitLab without `parallel` has a total alone; a task of SkyPilot without nodes is node 0 of 1.
        ({"CI_NODE_TOTAL": "1", "CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "3"}, "2/3", None),
        ({"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1"}, "1/1", "SKYPILOT_NODE_RANK=0 of 0-0"),
        ({"SGE_TASK_ID": "undefined", "LSB_JOBINDEX": "0", "CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2"}, "1/2", None),
        (SLURM | {"SLURM_ARRAY_TASK_ID": "2", "MEDVQA_SHARD": "4/9"}, "4/9", "MEDVQA_SHARD=4/9"),
    ],
)
def test_the_source_is_named(environment: Mapping[str, str], shard: str, source: str | None) -> None:
    """The shard is as typed by hand, and the variables are named with it."""
    task = read(environment)
    assert str(task.shard) == shard
    assert source in (None, task.source)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "none of these variables is set: MEDVQA_SHARD, SLURM_ARRAY_TASK_ID (Slurm), SLURM_PROCID (Slurm), JOB_"),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "type srun before the command"),
        ({"JOB_COMPLETION_INDEX": "2"}, "Add this line to the container's env, with your number: - {name: MEDVQA_SHAR"),
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "2"}, "AWS_BATCH_JOB_ARRAY_SIZE is not set. Set MEDVQA_SHARDS=N"),
        ({"JOB_COMPLETION_INDEX": "8", "MEDVQA_SHARDS": "8"}, "numbers count from 0 to 7"),
        ({"JOB_COMPLETION_INDEX": "0", "MEDVQA_SHARDS": "0"}, "MEDVQA_SHARDS=0: at least 1"),
        ({"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "8"}, "CI_NODE_INDEX=0: CI_NODE_TOTAL=8, and numbers count from 1"),
        ({"CI_NODE_INDEX": "9", "CI_NODE_TOTAL": "8"}, "CI_NODE_INDEX=9: CI_NODE_TOTAL=8, and"),
        ({"CIRCLE_NODE_INDEX": "3", "CIRCLE_NODE_TOTAL": "3"}, "numbers count from 0"),
        ({"CI_NODE_INDEX": "-1", "CI_NODE_TOTAL": "8"}, "CI_NODE_INDEX is '-1': a whole number is expected"),
        ({"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "²"}, "CI_NODE_TOTAL is '²': a whole number is expected"),
        ({"CI_NODE_INDEX": "\x1b[31m2", "CI_NODE_TOTAL": "8"}, "CI_NODE_INDEX is '\ufffd[31m2': a whole number"),
        ({"CI_NODE_INDEX": "9" * 5000, "CI_NODE_TOTAL": "8"}, f"CI_NODE_INDEX is '{'9' * 40}…': a whole number"),
        ({"MEDVQA_SHARD": "9/8"}, "MEDVQA_SHARD='9/8': I/N is expected, such as MEDVQA_SHARD=3/8"),
        ({"MEDVQA_SHARD": f"1/{10**7}"}, "I/N is expected"),
        (
            {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "8", "CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "3"},
            "CI_NODE_INDEX (GitLab) and CIRCLE_NODE_INDEX (CircleCI) are set, of 2 schedulers: unset those that do not",
        ),
        # --array=0,1,4,5
        (
            {"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "5"}
            | {"SLURM_ARRAY_TASK_STEP": "1", "SLURM_ARRAY_TASK_COUNT": "4"},
            "SLURM_ARRAY_TASK_ID=4 is one of 4 tasks from 0 to 5, which are no range 0-5: number all tasks",
        ),
        # --array=5, to run one task again
        (
            {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_MAX": "5"},
            "SLURM_ARRAY_TASK_ID=5 is the only task of its array. To run one of N shards again, set MEDVQA_SHARDS=N",
        ),
        (SLURM | {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_STEP": "0"}, "which are no range"),
        ({"SLURM_ARRAY_TASK_ID": "2"}, "SLURM_ARRAY_TASK_MIN is not set"),
        (
            SLURM
            | {"SLURM_ARRAY_TASK_ID": "2", "MEDVQA_SHARDS": "9", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"},
            "MEDVQA_SHARDS=9 is no multiple of the tasks of each job (SLURM_STEP_NUM_TASKS=4)",
        ),
        (
            {"SKYPILOT_JOB_RANK": "1", "SKYPILOT_NUM_JOBS": "1000000"}
            | {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "2"},
            "2,000,000 shards: at most 1,000,000",
        ),
    ],
)
def test_nothing_is_guessed(environment: Mapping[str, str], message: str) -> None:
    """An error names the variable and its value, printable and short, and says what to set."""
    with pytest.raises(UsageError) as caught:
        read(environment)
    said = str(caught.value)
    assert said.startswith("--shard=auto: ")
    assert message in said
    assert said.isprintable()
    assert len(said) < 600


@given(st.dictionaries(st.sampled_from([*BY_INDEX, "MEDVQA_SHARDS", "MEDVQA_SHARD", "CI_NODE_TOTAL"]), st.text()))
@examples(100)
def test_any_values_give_a_shard_or_an_error(environment: Mapping[str, str]) -> None:
    """No value of a variable ends in another exception."""
    try:
        shard = read(environment).shard
    except UsageError as error:
        assert str(error).isprintable()
    else:
        assert 1 <= shard.number <= shard.of


def test_options_hold_the_shard_and_the_run_of_the_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run's name gets the shard, once; without --shard=auto it stays."""
    monkeypatch.setenv("MEDVQA_SHARD", "3/8")
    for run in ("qwen", "qwen-3of8"):
        options = Options.of({"shard": "auto", "run": run}, tmp_path)
        assert (options.shard, options.run, options.shard_source) == ("3/8", "qwen-3of8", "MEDVQA_SHARD=3/8")
    options = Options.of({"shard": "3/8", "run": "qwen"}, tmp_path)
    assert (options.shard, options.run, options.shard_source) == ("3/8", "qwen", "")


def test_the_command_that_goes_on_names_the_shard() -> None:
    """It can be typed outside of the scheduler."""
    words = ["run", "--shard=auto", "--model=random", "--run", "qwen", "--limit", "5"]
    expected = ["run", "--model=random", "--limit", "5", "--shard=3/8", "--run=qwen-3of8"]
    assert without_auto(words, "3/8", "qwen-3of8") == expected
    assert without_auto(["run", "--medvqa-shard", "auto"], "3/8", "x") == ["run", "--shard=3/8", "--run=x"]


@pytest.mark.parametrize(
    "once", [["--stop=early"], ["--stop", "early"], ["--medvqa-stop", "early"], ["--fresh"], ["--medvqa-fresh"]]
)
def test_a_continued_command_neither_stops_early_nor_begins_afresh(once: list[str]) -> None:
    """With --stop=early it would stop at the same question again, however the option was typed."""
    assert without_once(["--model=random", *once, "--stopped", "--run", "early"]) == [
        *("--model=random", "--stopped", "--run", "early")
    ]
