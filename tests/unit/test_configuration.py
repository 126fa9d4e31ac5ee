"""Two configurations: which settings differ, by one sentence each; who asks says which of them count."""

from typing import Any

import pytest

from medvqa.records import configuration
from medvqa.records.configuration import announced_judge
from medvqa.records.run_record import RunRecord
from support.runs import record

SLAKE: dict[str, Any] = {
    "items": 9,
    "data_sha256": "d" * 64,
    "answers": "given",
    "signature": {"data": "d" * 12, "extraction": "sound", "answers": "given"},
    "prompts": {"mc": "slake/mc@1"},
    "max_tokens": {"mc": {"single_choice": 32}},
}
RUN: dict[str, Any] = {
    "name": "first",
    "model": {"name": "tiny", "fingerprint": "f1"},
    "config": {"name": "tiny", "backend": "echo", "argument": "A", "options": {}},
    "techniques": ["mc"],
    "extraction": "sound",
    "benchmarks": {"slake": SLAKE},
}


def slake(**changes: Any) -> dict[str, Any]:
    return {"benchmarks": {"slake": {**SLAKE, **changes}}}


def between(one: RunRecord, other: RunRecord) -> list[str]:
    found = configuration.differences(
        configuration.configuration(one), configuration.configuration(other), lambda _: True, "either"
    )
    return [difference.between("a", "b") for difference in found]


def test_equal_runs_have_equal_configurations_whatever_else_they_say() -> None:
    later = record(RUN, name="second", started="2026-01-02", usage={"input": 3}, versions={"python": "3.13"})
    assert between(record(RUN), later) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model": {"name": "huge", "fingerprint": "f1"}}, "the model's name is 'tiny' in a and 'huge' in b"),
        ({"config": {**RUN["config"], "argument": "B"}}, "the model's argument is 'A' in a and 'B' in b"),
        ({"techniques": ["mc", "gd"]}, "the techniques is mc in a and mc, gd in b"),
        ({"ablation": "blank"}, "the ablation is none in a and blank in b"),
        ({"repeat": 5}, "--samples is not set in a and 5 in b"),
        ({"protocol": {"rotations": None}}, "--rotate is not set in a and all in b"),
        ({"protocol": {"explain": True}}, "--explain is not set in a and set in b"),
        ({"protocol": {"combine": "vote"}}, "--combine is mean in a and vote in b"),
        (
            {"tags": {"dimensions": ["sign"], "sha256": "1" * 64}},
            "the tags of your own (--tags) is not set in a and sign, 111111111111 in b",
        ),
        (slake(data_sha256="e" * 64), f"slake: the data set is {'d' * 64} in a and {'e' * 64} in b"),
        (slake(prompts={"mc": "slake/mc@2"}), "slake: the prompt of mc is slake/mc@1 in a and slake/mc@2 in b"),
        (slake(max_tokens={"mc": {"single_choice": 0}}), "slake: the token limit of mc is 32 in a and none in b"),
        (
            slake(max_tokens={"mc": {"single_choice": 32, "short_answer": 256}}),
            "slake: the token limit of mc is 32 in a and single_choice 32, short_answer 256 in b",
        ),
        (
            slake(signature={**SLAKE["signature"], "ablation": "blank"}),
            "slake: the ablation is none in a and blank in b",
        ),
        (slake(signature={**SLAKE["signature"], "judge": "j@1"}), "slake: the judge is not recorded in a and j@1 in b"),
    ],
)
def test_each_difference_is_one_sentence(changes: dict[str, Any], line: str) -> None:
    assert between(record(RUN), record(RUN, **changes)) == [line]


def test_who_asks_says_which_settings_count_and_where_they_must_be_known() -> None:
    one, other = record(RUN), record(RUN, ablation="blank", benchmarks={})
    configurations = configuration.configuration(one), configuration.configuration(other)
    assert [each.setting.name for each in configuration.differences(*configurations, lambda _: True)] == ["ablation"]
    assert configuration.differences(*configurations, lambda setting: setting.name != "ablation") == []
    lacking = configuration.differences(*configurations, lambda setting: setting.part == "prompt", "first")
    assert [(each.first, each.second) for each in lacking] == [("slake/mc@1", None)]
    assert configuration.differences(*reversed(configurations), lambda setting: setting.part == "prompt", "first") == []


# --- going on -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"config": {**RUN["config"], "backend": "hf"}}, "the model's backend was 'echo' and is 'hf'"),
        ({"techniques": ["gd"]}, "the techniques was mc and is gd"),
        ({"protocol": {"shots": 3}}, "--shots was not set and is 3"),
        ({"tags": {"dimensions": ["sign"]}}, "its questions had other tags of your own (--tags)"),
        (slake(prompts={"mc": "slake/mc@2"}), "slake: the prompt of mc was slake/mc@1 and is slake/mc@2"),
        (slake(max_tokens={"mc": {"single_choice": 64}}), "slake: the token limit of mc was 32 and is 64"),
        (
            slake(declared={"slices": {"organ": 3}}),
            "slake: the slices that were fixed before the run were none, and are organ",
        ),
    ],
)
def test_a_run_does_not_go_on_otherwise(changes: dict[str, Any], line: str) -> None:
    assert configuration.why_not_continued(record(RUN), record(RUN, **changes)) == [line]


@pytest.mark.parametrize(
    "changes",
    [
        {"extraction": "official"},
        {"config": {**RUN["config"], "options": {"batch_size": 8}}},
        {"benchmarks": {}},
        {"benchmarks": {"slake": SLAKE, "other": SLAKE}},
        slake(signature={**SLAKE["signature"], "repeat": "3"}),
    ],
)
def test_a_run_goes_on_with_what_may_differ(changes: dict[str, Any]) -> None:
    assert configuration.why_not_continued(record(RUN), record(RUN, **changes)) == []


def test_a_run_without_token_limits_had_those_of_its_model() -> None:
    old = record(RUN, benchmarks={"slake": {name: value for name, value in SLAKE.items() if name != "max_tokens"}})
    assert configuration.why_not_continued(old, record(RUN, config={**RUN["config"], "own_max_tokens": 32})) == []
    assert configuration.why_not_continued(old, record(RUN, config={**RUN["config"], "own_max_tokens": 8})) == [
        "slake: the token limit of mc was 8 and is 32"
    ]


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ({"rescoring": True}, "it was being scored again"),
        ({"merged": [{"name": "a", "samples": {"0": 1}}]}, "its answers were combined from other runs"),
    ],
)
def test_some_runs_never_go_on(before: dict[str, Any], line: str) -> None:
    (reason,) = configuration.why_not_continued(record(RUN, **before), record(RUN))
    assert reason.startswith(line)


def test_a_judge_that_is_not_loaded_yet_is_told_by_its_config() -> None:
    config = {"name": "j", "backend": "openai", "argument": "big", "options": {}}
    announced = record(RUN, judge={"config": {**config, "argument": "small"}})
    known = record(RUN, judge={"config": config, "identity": "big@1"})
    (difference,) = announced_judge(announced, known)
    assert difference.between("this run", "main") == "the judge's argument is 'small' in this run and 'big' in main"
    assert announced_judge(announced, record(RUN, judge={"config": config, "fingerprint": "f"})) == []
    assert announced_judge(record(RUN), known) == []
