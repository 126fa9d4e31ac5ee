"""Asking and scoring: one answer or error for each prompt, whatever a model does."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import pytest

from medvqa import engine, scoring
from medvqa.engine import batches
from medvqa.items import (
    TECHNIQUES,
    Answer,
    AnswerError,
    Benchmark,
    Item,
    OfficialRule,
    Outcome,
    Owners,
    Prompt,
    Query,
    Result,
    Score,
    UsageError,
)
from medvqa.protocols import prompts
from medvqa.protocols.protocol import NEEDS
from support.runs import record
from support.stubs import backend

ITEM = Item("1", "slake", "single_choice", "Which organ?", {"A": "liver", "B": "spleen"}, ("A",))


class Scripted:
    """Says what it was given, or raises it."""

    name = "scripted"
    capabilities = frozenset({"generate"})

    def __init__(self, said: Sequence[Answer | AnswerError] | Exception) -> None:
        self.said = said

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Answer | AnswerError]:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


RAISED = f"{__file__.removeprefix(os.getcwd() + os.sep)}:{Scripted.generate.__code__.co_firstlineno + 2}"


def score(item: Item, answer: Answer) -> Score:
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,))


SLAKE = Benchmark(
    name="slake",
    items=lambda data: [ITEM],
    prompt=lambda item, technique: Prompt(item.question, technique=technique),
    score=score,
    metrics=(),
)


def evaluate(said: Sequence[Answer | AnswerError] | Exception) -> Result:
    prompt = SLAKE.prompt(ITEM, "mc")
    (answer,) = engine.ask(Scripted(said), [prompt])
    return scoring.result(
        Query(ITEM, prompt.technique), prompt, answer, benchmark=SLAKE, run="r", digest=prompts.digest(prompt)
    )


def test_an_answer_is_scored() -> None:
    result = evaluate([Answer("A")])
    assert (result.run, result.item, result.technique) == ("r", ITEM, "mc")
    assert result.score == Score(1.0, "correct", ("A",))
    assert result.answer is not None
    assert result.answer.text == "A"


def test_the_time_of_a_batch_is_shared_out_where_the_model_did_not_tell() -> None:
    told, shared = engine.ask(Scripted([Answer("A", seconds=7.0), Answer("B")]), [Prompt("a"), Prompt("b")])
    assert isinstance(told, Answer)
    assert isinstance(shared, Answer)
    assert told.seconds == 7.0
    assert shared.seconds is not None
    assert 0 <= shared.seconds < 7


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (AnswerError("the line was busy"), "the line was busy"),
        (RuntimeError("out of paper"), f"model 'scripted': {RAISED}: RuntimeError: out of paper"),
        ([AnswerError("only this one")], "only this one"),
        ([], "model 'scripted' gave 0 answers to 1 prompts"),
        ([None], "model 'scripted' gave a NoneType instead of an Answer"),
        ([Answer("A"), Answer("B")], "model 'scripted' gave 2 answers to 1 prompts"),
    ],
)
def test_no_answer_is_an_error_that_says_why(said: Sequence[Answer] | Exception, why: str) -> None:
    result = evaluate(said)
    assert result.score == Score(None, "error", (), why)
    assert result.answer is None


class TwoStages(Scripted):
    """Raises what it was given in its first stage, and says it in the second one; says what it was asked."""

    converses = True

    def __init__(self, said: Sequence[Answer | AnswerError] | Exception = ()) -> None:
        super().__init__(said)
        self.events: list[str] = []

    def compute(self, prompts: Sequence[Prompt]) -> Callable[[], Sequence[Answer | AnswerError]]:
        self.events.append(f"computed {prompts[0].text}")
        replies = self.generate(prompts)

        def rest() -> Sequence[Answer | AnswerError]:
            self.events.append(f"decoded {prompts[0].text}")
            return replies

        return rest


def test_a_batch_is_computed_and_the_rest_is_left() -> None:
    model = TwoStages([Answer("A")])
    rest = batches.computed(backend(model), [Prompt("a")])
    assert not isinstance(rest, batches.Failure)
    assert model.events == ["computed a"]
    assert [answer.text for answer in rest() if isinstance(answer, Answer)] == ["A"]
    assert model.events == ["computed a", "decoded a"]


def test_a_first_stage_that_raises_leaves_nothing() -> None:
    assert isinstance(batches.computed(backend(TwoStages(ValueError("bad"))), [Prompt("a")]), batches.Failure)


def test_a_conversation_is_computed_to_its_end() -> None:
    model = TwoStages([Answer("A")])
    rest = batches.computed(backend(model), [Prompt("a", then=("b",))])
    assert model.events == ["computed a", "decoded a", "computed b", "decoded b"]
    assert callable(rest)


def test_being_stopped_is_not_an_answer() -> None:
    class Stopped(Scripted):
        def generate(self, prompts: Sequence[Prompt]) -> Sequence[Answer | AnswerError]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.ask(Stopped([]), [Prompt("a")])


def test_an_error_of_one_prompt_leaves_the_others(tmp_path: Path) -> None:
    first, second = engine.ask(Scripted([Answer("A"), AnswerError("no")]), [Prompt("a"), Prompt("b")])
    assert isinstance(first, Answer)
    assert isinstance(second, AnswerError)


def test_a_benchmark_without_a_published_rule_keeps_its_own() -> None:
    assert scoring.scorer(SLAKE, "sound") is scoring.scorer(SLAKE, "official") is score
    assert scoring.rules.resolve("sound", [SLAKE]) == "sound"
    with pytest.raises(UsageError, match=r"^--extraction=official: no published rule reads answers to slake; leave it"):
        scoring.rules.resolve("official", [SLAKE])


def _saying(name: str, item: Item, answer: Answer) -> Score:
    return Score(None, "unscored", (name,))


def test_of_each_benchmark_the_version_counts_that_was_in_force() -> None:
    """Rules of two owners, one without versions, and what each of them reads."""
    old, new, only = (partial(_saying, name) for name in ("old", "new", "only"))

    def of(**rule: Any) -> Benchmark:
        return replace(SLAKE, owners=Owners(rule=OfficialRule(**rule)))

    first = of(score=new, version="2026-01", earlier={"2025-03": old})
    second = replace(of(score=only, kinds=frozenset({"single_choice"})), name="second")
    third = replace(of(score=new, version="2025-09", note="As they say."), name="third")
    both = [first, second, third]
    assert scoring.rules.resolve("official", both) == "official:2026-01"
    assert scoring.rules.resolve("official", [second]) == "official"
    read = {}
    for typed in ("official:2025-03", "official:2025-09", "official:2026-01"):
        assert scoring.rules.resolve(typed, both) == typed
        read[typed[9:]] = [scoring.scorer(each, typed)(ITEM, Answer("A")).extracted[0] for each in both]
    assert read == {
        "2025-03": ["old", "only", "new"],
        "2025-09": ["old", "only", "new"],
        "2026-01": ["new", "only", "new"],
    }
    assert scoring.scorer(second, "official")(replace(ITEM, kind="multiple_response"), Answer("A")) == score(
        replace(ITEM, kind="multiple_response"), Answer("A")
    )
    assert scoring.rules.read_by(third, "official:2026-01", {"single_choice"}) == {
        "single_choice": "official 2025-09 (As they say.)"
    }
    assert scoring.rules.recorded("official", both) == "official:2025-03"
    assert scoring.rules.recorded("official", [second]) == "official"
    assert scoring.rules.recorded(record().extraction, both) == "sound"


def test_a_model_that_is_not_there_answers_nothing() -> None:
    model = engine.Unavailable("gone", "no weights")
    assert [str(error) for error in model.generate([Prompt("a"), Prompt("b")])] == ["no weights", "no weights"]


def test_every_technique_needs_a_capability() -> None:
    assert NEEDS.keys() == set(TECHNIQUES)


@pytest.mark.parametrize(
    ("answer", "outcome", "why"),
    [
        (Answer("", {"A": -0.5, "B": -0.7}), "correct", "chose A (liver), p = 0.55"),
        (Answer("", {"A": -0.9, "B": -0.7}), "wrong", "chose B (spleen), p = 0.55; correct is A (liver)"),
        (Answer("", {"A": nan, "B": -0.7}), "error", "the log-probability of A is nan, not a finite number"),
        (Answer(""), "error", "the model gave no log-probabilities, but technique 'gd' needs them"),
        (AnswerError("the line was busy"), "error", "the line was busy"),
    ],
)
def test_the_likeliest_letter_is_scored_by_the_benchmark_s_own_rule(
    answer: Answer | AnswerError, outcome: Outcome, why: str
) -> None:
    prompt = Prompt("Which?", options=ITEM.options, technique="gd")
    result = scoring.result(
        Query(ITEM, prompt.technique), prompt, answer, benchmark=SLAKE, run="r", digest=prompts.digest(prompt)
    )
    assert (result.score.outcome, result.score.why, result.technique) == (outcome, why, "gd")
    assert result.item == ITEM
    assert result.answer == (None if outcome == "error" else answer)
