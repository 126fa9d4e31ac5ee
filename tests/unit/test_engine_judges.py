"""The judge's stream beside the model's: what they share, and what a judge's replies come to."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from medvqa import judging
from medvqa.benchmarks import medlesionvqa
from medvqa.engine import AnswerMemory, Judge, Limits, Recollection, Reply, Stream, Ticket, Traffic
from medvqa.items import Answer, AnswerError, Item, Prompt, Query, Score
from support.streams import Ahead, item, prompt
from support.stubs import backend

BENCHMARK = medlesionvqa.BENCHMARKS[0]
UNSCORED = Score(None, "unscored")
ASKED = Item("7", BENCHMARK.name, "short_answer", "Which colour?", answers=("red",))
SETTINGS = judging.Settings()


class Speaker:
    """Says what a function says; `most` is the most calls of all speakers that were in flight."""

    name = "speaker"
    capabilities = frozenset({"generate"})
    flying = most = 0
    lock = threading.Lock()

    def __init__(self, say: Callable[[str], str | AnswerError], batch_size: int = 4) -> None:
        self.say = say
        self.batch_size = batch_size
        self.asked: list[str] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        self.asked += [prompt.text for prompt in prompts]
        said = [self.say(prompt.text) for prompt in prompts]
        return [each if isinstance(each, AnswerError) else Answer(each) for each in said]


class Stored(AnswerMemory):
    """A memory in which some answers are of an earlier session, and some questions must be asked alone."""

    def __init__(self, known: dict[str, str] | None = None, alone: Callable[[str], bool] = lambda key: False) -> None:
        self.known = known or {}
        self.alone = alone
        self.calls: list[int] = []

    def recall(self, tickets: Sequence[Ticket]) -> list[Recollection]:
        return [
            Recollection(key, Answer(self.known[key]), "first")
            if key in self.known
            else Recollection(key, alone=self.alone(key))
            for key in (f"{ticket.sample} {ticket.prompt.text}" for ticket in tickets)
        ]

    def begin(self, call: int, keys: Sequence[str]) -> None:
        self.calls.append(call)

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        self.known.update({key: answer.text for key, answer in zip(keys, answers, strict=True)})


def judged(model: Speaker, memory: Stored | None = None, answer: str = "scarlet") -> Any:
    made = backend(model)
    judge = Judge(made, SETTINGS, Limits.of(made, deadline=60), memory)
    try:
        pending = judge.begin(BENCHMARK, ASKED, "mc", Answer(answer), UNSCORED)
        assert pending is not None
        return judge.finish(pending)
    finally:
        judge.close()


def test_a_reply_becomes_a_score() -> None:
    found = judged(Speaker(lambda text: "<result>0.5</result>"))
    assert (found.score.value, found.score.outcome) == (0.5, "partial")
    assert (found.judgement.judge, found.judgement.replies) == ("speaker", ("<result>0.5</result>",))
    assert (len(found.new_replies), found.reused) == (1, 0)


def test_what_stands_by_rule_is_not_asked_about() -> None:
    model = Speaker(lambda text: "<result>1</result>")
    assert judged(model, answer="").judgement is None
    made = backend(model)
    judge = Judge(made, SETTINGS, Limits.of(made))
    choice = Item("8", BENCHMARK.name, "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",))
    score = Score(1.0, "correct", ("A",))
    assert judge.begin(BENCHMARK, choice, "mc", Answer("A"), score) is None
    judge.close()
    assert model.asked == []


def test_a_second_try_follows_a_complaint_and_a_third_does_not() -> None:
    model = Speaker(lambda text: "<result>1</result>" if "could not be used" in text else "fine")
    assert judged(model).score.outcome == "correct"
    assert len(model.asked) == 2
    silly = Speaker(lambda text: "fine")
    found = judged(silly)
    assert found.score.outcome == "error"
    assert found.score.why == (
        "judge 'speaker' gave no reply that can be read, in 2 tries: It has no <result>...</result>."
    )
    assert found.judgement.replies == ("fine", "fine")
    assert len(silly.asked) == 2


def test_what_an_earlier_session_could_not_read_is_asked_for_thrice_at_most() -> None:
    memory, totals = Stored(), []
    model = Speaker(lambda text: "fine")
    for _ in range(5):
        assert judged(model, memory).score.outcome == "error"
        totals.append(len(model.asked))
    assert totals == [2, 4, 6, 6, 6]
    memory = Stored()
    judged(Speaker(lambda text: "fine"), memory)
    well = Speaker(lambda text: "<result>1</result>")
    found = judged(well, memory)
    assert (found.score.outcome, len(well.asked), found.reused) == ("correct", 1, 2)
    assert judged(well, memory).score.outcome == "correct"
    assert len(well.asked) == 1, "from then on the reply is known"


def test_who_does_not_answer_is_named() -> None:
    found = judged(Speaker(lambda text: AnswerError("out to lunch")))
    assert found.score == Score(None, "error", why="judge 'speaker' did not answer: out to lunch")
    assert found.judgement.replies == ()


def test_what_is_made_of_an_answer_comes_with_it_also_where_it_was_stored() -> None:
    model, memory = Speaker(str.upper, 2), Stored({"0 q1": "known"})
    seen: list[tuple[str, str]] = []

    def follow(query: Query, answer: Answer, reply: Reply) -> str:
        seen.append((query.item.id, answer.text))
        return f"{query.item.id}!"

    queries = [item(n) for n in range(4)]
    stream = Stream(backend(model), prompt, Ahead(queries), Limits.of(backend(model)), memory, follow=follow)
    replies = [stream.answer(query) for query in queries]
    stream.close()
    assert [reply.then for reply in replies] == ["0!", "1!", "2!", "3!"]
    assert sorted(seen) == [("0", "Q0"), ("1", "known"), ("2", "Q2"), ("3", "Q3")]


def test_what_goes_wrong_there_is_raised_in_its_test_alone() -> None:
    def follow(query: Query, answer: Answer, reply: Reply) -> str:
        if query.item.id == "1":
            raise ValueError("unlucky")
        return "fine"

    model = Speaker(str.upper)
    queries = [item(n) for n in range(3)]
    stream = Stream(backend(model), prompt, Ahead(queries), Limits.of(backend(model)), follow=follow)
    assert stream.answer(queries[0]).then == "fine"
    with pytest.raises(ValueError, match="unlucky"):
        stream.answer(queries[1])
    assert stream.answer(queries[2]).then == "fine"
    stream.close()


def test_what_must_be_asked_alone_is_alone_among_all_streams() -> None:
    """Two streams, each with a question that killed a process before: while one of them is asked, nothing else is."""
    traffic, lock = Traffic(), threading.Lock()
    flying: list[str] = []
    together: set[frozenset[str]] = set()

    def say(text: str) -> str:
        with lock:
            flying.append(text)
            together.add(frozenset(flying))
        threading.Event().wait(0.002)
        with lock:
            flying.remove(text)
        return text

    def alone(key: str) -> bool:
        return key.split()[1] in ("q5", "j3", "j20")

    model, judge = Speaker(say, 1), Speaker(say, 1)
    queries = [item(n) for n in range(30)]
    judging_stream: Stream = Stream(
        backend(judge), prompt, Ahead([]), Limits(1, 3, 60), Stored(alone=alone), traffic=traffic
    )

    def follow(query: Query, answer: Answer, reply: Reply) -> Any:
        return judging_stream.submit(Prompt(f"j{query.item.id}"), lambda answer, reply: answer.text)

    stream = Stream(
        backend(model), prompt, Ahead(queries), Limits(1, 2, 60), Stored(alone=alone), follow=follow, traffic=traffic
    )
    for query in queries:
        reply = judging_stream.wait(stream.answer(query).then)
        assert reply.then == f"j{query.item.id}"
    stream.close()
    judging_stream.close()
    assert len(model.asked) == len(judge.asked) == 30
    for suspect in ("q5", "j3", "j20"):
        assert {each for each in together if suspect in each} == {frozenset({suspect})}
    assert any(len(each) > 1 for each in together)


def test_calls_of_all_streams_have_numbers_of_their_own() -> None:
    memories = [Stored(), Stored()]
    for memory in memories:
        model = Speaker(str.upper, 2)
        queries = [item(n) for n in range(6)]
        stream = Stream(backend(model), prompt, Ahead(queries), Limits.of(backend(model)), memory)
        for query in queries:
            stream.answer(query)
        stream.close()
    assert not set(memories[0].calls) & set(memories[1].calls)


def test_one_budget_is_that_of_all_streams() -> None:
    traffic = Traffic()

    class Dear(Speaker):
        def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
            self.asked += [prompt.text for prompt in prompts]
            return [Answer("x", usage={"cost": 1.0}) for _ in prompts]

    model, other = Dear(str, 1), Dear(str, 1)
    second = Stream(backend(other), prompt, Ahead([]), Limits(1, 1, 60, budget=3), traffic=traffic)
    queries = [item(n) for n in range(20)]
    first = Stream(backend(model), prompt, Ahead(queries), Limits(1, 1, 60, budget=3), traffic=traffic)
    ticket = second.submit(Prompt("a"), lambda answer, reply: None)
    second.wait(ticket)
    for query in queries[:4]:
        first.answer(query)
    first.close()
    second.close()
    assert len(model.asked) == 4, "what is waited for, and no more, once 3 were spent by both"
    assert traffic.spent == 5
