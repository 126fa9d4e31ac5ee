"""Best-self: ask for several answers to each question, and let the model select one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medvqa import engine
from medvqa.engine import Reply, Stream
from medvqa.items import Answer, AnswerError, Item, Prompt, Query, QuestionKey, Score, SelfRanking
from medvqa.judging import ranking
from medvqa.protocols.prompts import digest
from medvqa.session.plan import Plan


@dataclass(frozen=True, slots=True)
class Candidates:
    """A lookahead that asks each question of another one `number` times, as samples 1 to `number`."""

    questions: engine.Lookahead
    number: int

    def take(self, count: int) -> Sequence[Query]:
        """Return the next samples, at most `count`, but all samples of one question at least."""
        queries = self.questions.take(max(count // self.number, 1))
        return [sample for query in queries for sample in samples(query, self.number)]

    def exhausted(self) -> bool:
        """Return whether no more questions will come."""
        return self.questions.exhausted()

    def stopped(self) -> bool:
        """Return whether the session is about to end."""
        return self.questions.stopped()


def samples(query: Query, number: int) -> list[Query]:
    """Return the queries for the candidates of a question."""
    return [replace(query, sample=sample) for sample in range(1, number + 1)]


@dataclass(slots=True)
class SelectedAnswer(Reply):
    """The reply to a question: the selected candidate, or the selecting reply if it selects none.

    `prompt` and `digest` are those of the candidates. `score` is None if the answer is to be scored by rule or judge.
    `replies` are those of the candidates, and the selecting one.
    """

    replies: Sequence[Reply] = ()
    ranking: SelfRanking | None = None
    score: Score | None = None

    @property
    def new(self) -> tuple[Answer, ...]:
        """The answers that this session asked for."""
        return tuple(answer for reply in self.replies for answer in reply.new)


class RankingAsker:
    """Collects the candidates of each question, and submits the prompt that selects one as soon as all are there."""

    def __init__(self, plan: Plan, follow: Callable[[Query, Answer, Reply], Any] | None = None) -> None:
        """`follow` gets each selected answer before a test does."""
        self.number = plan.protocol.samples or 1
        self._plan = plan
        self._follow = follow
        self._lock = threading.Lock()
        self._replies: dict[QuestionKey, dict[int, Reply]] = {}

    def hear(self, stream: Stream, query: Query, answer: Answer, reply: Reply) -> engine.Ticket | None:
        """Note a candidate, in a lane's thread; return the ticket of the selection after the last one."""
        key = query.key._replace(sample=0)
        with self._lock:
            replies = self._replies.setdefault(key, {})
            replies[query.sample] = reply
            if len(replies) < self.number:
                return None
            del self._replies[key]
        first = replies[1]
        candidates = self._candidates([replies[sample] for sample in sorted(replies)])

        def select(selection: Answer, _: Reply) -> tuple[int | None, Any]:
            chosen = ranking.selected(selection, self.number)
            if chosen is None or self._follow is None:
                return chosen, None
            of_candidates = Reply(first.prompt, first.digest, candidates[chosen - 1])
            return chosen, self._follow(replace(query, sample=0), candidates[chosen - 1], of_candidates)

        return stream.submit(self._selecting(query, candidates), select)

    def _candidates(self, replies: Sequence[Reply]) -> list[Answer]:
        return [self._plan.read(reply.answer) for reply in replies if isinstance(reply.answer, Answer)]

    def answer(self, stream: Stream, query: Query) -> SelectedAnswer:
        """Wait for the candidates of a question and for the selection."""
        replies = [stream.answer(sample) for sample in samples(query, self.number)]
        if (failed := self._failed(query, replies)) is not None:
            return failed
        ticket: engine.Ticket = next(reply.then for reply in replies if reply.then is not None)
        reply = stream.wait(ticket)
        chosen, then = reply.then if isinstance(reply.answer, Answer) else (None, None)
        return self._selection(query.item, replies, reply, chosen, then)

    def ask(self, ask: Callable[[Sequence[Prompt]], Sequence[Answer | AnswerError]], query: Query) -> SelectedAnswer:
        """Ask directly, without a stream: all candidates, then the selection."""
        prompts = [self._plan.prompt(sample) for sample in samples(query, self.number)]
        replies = [Reply(prompt, digest(prompt), answer) for prompt, answer in zip(prompts, ask(prompts), strict=True)]
        if (failed := self._failed(query, replies)) is not None:
            return failed
        prompt = self._selecting(query, self._candidates(replies))
        (answer,) = ask([prompt])
        chosen = ranking.selected(answer, self.number) if isinstance(answer, Answer) else None
        return self._selection(query.item, replies, Reply(prompt, "", answer), chosen, None)

    def forget(self, stream: Stream, query: Query) -> None:
        """Drop the candidates of a question that will not be asked for again."""
        for sample in samples(query, self.number):
            stream.forget(sample)
        with self._lock:
            self._replies.pop(query.key, None)

    def _selecting(self, query: Query, candidates: Sequence[Answer]) -> Prompt:
        first = self._plan.prompt(replace(query, sample=1))
        return self._plan.limited(ranking.prompt(first, query.item, [answer.reply for answer in candidates]))

    def _failed(self, query: Query, replies: Sequence[Reply]) -> SelectedAnswer | None:
        """Return an error if a candidate is missing: a choice among fewer answers is another protocol."""
        for number, reply in enumerate(replies, 1):
            if isinstance(reply.answer, AnswerError):
                with self._lock:
                    self._replies.pop(query.key, None)
                why = AnswerError(f"answer {number} of {self.number}: {reply.answer}")
                return SelectedAnswer(reply.prompt, reply.digest, why, replies=replies)
        return None

    def _selection(
        self, item: Item, replies: Sequence[Reply], reply: Reply, chosen: int | None, then: Any
    ) -> SelectedAnswer:
        first, everything = replies[0], (*replies, reply)
        reused = _source(everything)
        if isinstance(reply.answer, AnswerError):
            why = AnswerError(f"the selection among {self.number} answers: {reply.answer}")
            return SelectedAnswer(first.prompt, first.digest, why, reused, replies=everything)
        answers = self._candidates(replies)
        ranked = SelfRanking(
            tuple(answer.reply for answer in answers), chosen, reply.answer.text, reply.prompt.template
        )
        if chosen is not None:
            return SelectedAnswer(first.prompt, first.digest, answers[chosen - 1], reused, then, everything, ranked)
        score = unselected(item, reply.answer, self.number)
        return SelectedAnswer(first.prompt, first.digest, reply.answer, reused, None, everything, ranked, score)


def unselected(item: Item, reply: Answer, number: int) -> Score:
    """Return the score of a question if the reply selects none of the candidates."""
    if not item.answers:
        return Score(None, "unscored", (), "no answer key")
    if reply.finish == "refusal":
        return Score(0.0, "refused", (), "the server reports a refusal")
    return Score(0.0, "unparsed", (), f"the model selects none of its {number} answers")


def _source(replies: Sequence[Reply]) -> str:
    """Return where the last of several answers was stored; "" if this session asked for any."""
    return replies[-1].reused if all(reply.reused for reply in replies) else ""
