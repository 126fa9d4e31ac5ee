"""Pooled runs: samples are numbered anew and keep their origin, and runs that are not alike are refused by name."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import Answer, Item, Result, Score, UsageError
from medvqa.protocols.protocol import Protocol
from medvqa.records import pooling
from medvqa.records.merging import RunPart
from support.laws import examples

VOTE = Protocol(samples=1, combine="vote")
SIGNATURE = {"data": "d1", "extraction": "sound", "answers": "given"}


def about(name: str, **changes: Any) -> dict[str, Any]:
    benchmark = {
        "data_sha256": "d1",
        "signature": SIGNATURE,
        "prompts": {"mc": "slake/mc@1"},
        "questions": {"mc": 2},
        "max_tokens": {"mc": {"single_choice": 32}},
    }
    return {
        "name": name,
        "started": f"2026-01-0{1 + len(name) % 9}T00:00:00+00:00",
        "finished": "2026-01-02T00:00:00+00:00",
        "model": {"name": "warm", "fingerprint": "f1"},
        "config": {"backend": "openai", "argument": "warm", "options": {}},
        "techniques": ["mc"],
        "extraction": "sound",
        "benchmarks": {"slake": {**benchmark, **changes.pop("benchmark", {})}},
        "usage": {"input": 10.0},
        **changes,
    }


def part(name: str, samples: tuple[int, ...] = (0,), *, letter: str = "A", **changes: Any) -> RunPart:
    items = [Item(f"q{n}", "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",)) for n in range(2)]
    results = tuple(
        Result(
            name,
            item,
            "p",
            Answer(letter, seconds=0.1 * len(name) + sample),
            Score(1.0, "correct", ("A",)),
            sample=sample,
        )
        for item in items
        for sample in samples
    )
    repeat = len(samples) if samples != (0,) else None
    return RunPart(name, about(name, repeat=repeat, **changes), results, keys=tuple(result.key for result in results))


def test_samples_are_numbered_in_the_order_of_the_runs() -> None:
    pooled = pooling.pool([part("one", (1, 2)), part("three"), part("seven77", (1, 2, 3))], "all", VOTE)
    assert [(r.item.id, r.sample, r.run) for r in pooled.results if r.item.id == "q0"] == [
        ("q0", 1, "one"),
        ("q0", 2, "one"),
        ("q0", 3, "three"),
        ("q0", 4, "seven77"),
        ("q0", 5, "seven77"),
        ("q0", 6, "seven77"),
    ]
    assert (pooled.about["repeat"], pooled.about["protocol"]) == (6, {"combine": "vote"})
    assert pooled.about["benchmarks"]["slake"]["signature"] == {**SIGNATURE, "repeat": "6", "combine": "vote"}
    origin = [(entry["name"], entry["samples"]) for entry in pooled.about["merged"]]
    assert origin == [("one", {"1": 1, "2": 2}), ("three", {"0": 3}), ("seven77", {"1": 4, "2": 5, "3": 6})]
    assert pooled.about["usage"] == {"input": 30.0}
    assert pooled.about["selection"]["questions"] == 12
    assert pooled.complete
    assert pooled.missing == ()


@examples(40)
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_every_answer_becomes_one_sample(sizes: list[int]) -> None:
    runs = [part("r" * (1 + n), tuple(range(1, size + 1)) or (0,)) for n, size in enumerate(sizes)]
    pooled = pooling.pool(runs, "all", VOTE)
    total = sum(max(size, 1) for size in sizes)
    assert pooled.about["repeat"] == total
    assert len({result.key for result in pooled.results}) == len(pooled.results) == 2 * total
    for item in ("q0", "q1"):
        assert [r.sample for r in pooled.results if r.item.id == item] == list(range(1, total + 1))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"benchmark": {"data_sha256": "d2"}}, "slake's data_sha256 is 'd1' in one and 'd2' in three"),
        (
            {"benchmark": {"prompts": {"mc": "slake/mc@2"}}},
            "slake's prompt (mc) is 'slake/mc@1' in one and 'slake/mc@2'",
        ),
        ({"extraction": "official"}, "extraction is 'sound' in one and 'official' in three"),
        ({"judge": {"identity": "echo@1"}}, "the judge's identity is not set in one and 'echo@1' in three"),
        ({"ablation": "blank"}, "ablation is not set in one and 'blank' in three"),
        (
            {"benchmark": {"signature": {**SIGNATURE, "shots": "3"}}, "protocol": {"shots": 3}},
            "shots is not set in one and 3 in three",
        ),
        (
            {"benchmark": {"max_tokens": {"mc": {"single_choice": 8}}}},
            "slake's token limit (mc) is {'single_choice': 32}",
        ),
        ({"protocol": {"combine": "best-self"}}, "in three the model selected one of its answers (best-self)"),
    ],
)
def test_runs_that_differ_are_refused_by_the_difference(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as error:
        pooling.pool([part("one"), part("three", **changes)], "all", VOTE)
    assert str(error.value).startswith("these runs cannot be combined: ")
    assert line in str(error.value)


def test_models_may_differ_in_a_vote_alone() -> None:
    cold = {"model": {"name": "cold", "fingerprint": "f2"}, "benchmark": {"max_tokens": {"mc": {"single_choice": 8}}}}
    pooled = pooling.pool([part("one"), part("three", letter="B", **cold)], "all", VOTE)
    assert pooled.notes == ("these answers are those of 2 models: cold, warm",)
    assert pooled.about["model"]["name"] == "warm + cold"
    assert pooled.about["benchmarks"]["slake"]["signature"]["models"] == "warm+cold"
    for combine in ("mean", "best-oracle"):
        with pytest.raises(UsageError, match="only --combine=vote takes answers of several models"):
            pooling.pool([part("one"), part("three", **cold)], "all", Protocol(samples=1, combine=combine))  # type: ignore[arg-type]


def test_recordings_do_not_tell_their_model() -> None:
    recorded = [
        part(name, letter=letter, model={"name": f"replay:{name}", "fingerprint": name}, config={"backend": "replay"})
        for name, letter in (("one", "A"), ("three", "B"))
    ]
    pooled = pooling.pool(recorded, "all", Protocol(samples=1))
    assert pooled.notes == ("these answers are recordings: they do not tell whether one model gave them",)


def test_one_stored_answer_is_no_two_samples() -> None:
    one = part("one", (1, 2))
    other = replace(part("three", (1, 2)), results=tuple(replace(r, run="three") for r in one.results))
    with pytest.raises(
        UsageError, match="4 answers of three are stored answers that one has, too, so they are no further"
    ):
        pooling.pool([one, other], "all", VOTE)
    # Equal texts that took other times are answers of their own; a note says that they are equal.
    (note,) = pooling.pool([one, part("three", (1, 2))], "all", VOTE).notes
    assert note.startswith("these runs gave equal answers to every question")


def test_other_questions_are_refused_and_missing_answers_are_named() -> None:
    one, three = part("one"), part("three", letter="B")
    fewer = replace(three, results=three.results[:1], keys=three.keys[:1])
    with pytest.raises(UsageError, match=r"1 of the questions of one are not in three; medvqa compare"):
        pooling.pool([one, fewer], "all", VOTE)
    lacking = replace(three, results=three.results[:1])
    pooled = pooling.pool([one, lacking], "all", VOTE)
    assert pooled.missing == ("slake/q1-sample2",)
    assert not pooled.complete
