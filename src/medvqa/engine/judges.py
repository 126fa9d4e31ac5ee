"""Ask a judge about answers, in its own stream, parallel to the stream of the judged model.

`begin` submits the judge's prompts about one answer without waiting; `finish` waits for the score. The judge's lanes
read replies as they arrive, so that a second try is sent before any test waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from medvqa import judging, scoring
from medvqa.backend import Backend
from medvqa.engine.stream import AnswerMemory, Limits, Stream, Submitted, Ticket, Traffic
from medvqa.items import Answer, AnswerError, Benchmark, Item, Judgement, Prompt, Query, Score, Technique

TRIES = 3
"""Sessions (or runs that share stored replies) that send a prompt again after unreadable replies."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An answer with its score by rule, and the judge's prompts in flight; `case` is None if the rule stands."""

    item: Item
    score: Score
    case: judging.Case | None = None
    tickets: tuple[Ticket, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The score of one answer after judging; `judgement` is None if the rule stands.

    `new_replies` holds the replies from this session; `reused` counts replies from earlier sessions.
    """

    score: Score
    judgement: Judgement | None = None
    new_replies: tuple[Answer, ...] = ()
    reused: int = 0


@dataclass(frozen=True, slots=True)
class JudgeReplies:
    """The replies about one answer: `readings`, one for each prompt of the case, unless there is a problem.

    `why`: the judge did not answer. `unread`: its last reply is unreadable. `new_replies` and `reused` are as in
    `JudgedAnswer`.
    """

    readings: tuple[judging.JudgeReading, ...]
    judgement: Judgement
    why: str
    unread: str
    new_replies: tuple[Answer, ...]
    reused: int


@dataclass(frozen=True, slots=True)
class _Step:
    """The reading of one reply; `following` is the next prompt if the reply was unreadable."""

    read: judging.JudgeReading | judging.Complaint
    following: Ticket | None = None


class Judge:
    """Judges answers by a model. Any thread may call `begin`; `finish` blocks its caller."""

    def __init__(
        self,
        model: Backend,
        settings: judging.Settings,
        limits: Limits,
        memory: AnswerMemory | None = None,
        *,
        ends: Callable[[], bool] = lambda: False,
        traffic: Traffic | None = None,
    ) -> None:
        """`limits`, `memory` and `traffic` are as for a `Stream`.

        After `ends()` returns True, send only prompts that a test waits for.
        """
        self.settings = settings
        self._name = model.facts.title
        self.ahead = limits.window * limits.batch_size * limits.concurrency
        """The number of answers that keep the judge busy."""
        # The stream gets prompts by `submit`, never queries.
        self._stream = Stream(model, _no_prompt, Submitted(ends), limits, memory, traffic=traffic)

    def begin(self, benchmark: Benchmark, item: Item, technique: Technique, answer: Answer, score: Score) -> Pending:
        """Submit the judge's prompts about an answer with its score by rule, if it needs a judge."""
        case = judging.case_of(benchmark, item, technique, answer, score, self.settings)
        return Pending(item, score) if case is None else self.submit(item, case, score)

    def submit(self, item: Item, case: judging.Case, score: Score) -> Pending:
        """Submit the prompts of a case."""
        return Pending(item, score, case, tuple(self._send(case, index) for index in range(len(case.prompts))))

    def finish(self, pending: Pending) -> JudgedAnswer:
        """Wait for the judge and return the score; outcome `error` without a readable reply.

        Raises the exception of a memory that cannot store replies.
        """
        case = pending.case
        if case is None:
            return JudgedAnswer(pending.score)
        if not pending.tickets:
            return JudgedAnswer(judging.score(case, pending.item, (), self.settings))
        replies = self.replies(case, pending.tickets)
        why, unread = replies.why, replies.unread
        if unread and not why and case.extractor is not None:
            score = replace(case.otherwise, why=f"{unread}; by rule: {case.otherwise.why}")
        elif why or unread:
            score = Score(None, "error", why=why or unread)
        else:
            score = judging.score(case, pending.item, replies.readings, self.settings)
        return JudgedAnswer(score, replies.judgement, replies.new_replies, replies.reused)

    def replies(self, case: judging.Case, tickets: Sequence[Ticket]) -> JudgeReplies:
        """Wait for the judge's replies to the submitted prompts of a case, and read them; raises as `finish`."""
        readings: list[judging.JudgeReading] = []
        replies: list[Answer] = []
        digests: list[str] = []
        new_replies: list[Answer] = []
        why = unread = ""
        for ticket in tickets:
            following: Ticket | None = ticket
            tries = 0
            while following is not None:
                tries += 1
                reply = self._stream.wait(following)
                if isinstance(reply.answer, AnswerError):
                    why = why or f"judge '{self._name}' did not answer: {reply.answer}"
                    break
                replies.append(reply.answer)
                digests.append(reply.digest)
                if not reply.reused:
                    new_replies.append(reply.answer)
                step: _Step = reply.then
                following = step.following
                if isinstance(step.read, judging.Complaint):
                    if following is None:
                        unread = unread or self._unreadable(step.read, reply.answer, tries)
                else:
                    readings.append(step.read)
        judgement = self._judgement(case, replies, digests)
        return JudgeReplies(
            tuple(readings), judgement, why, unread, tuple(new_replies), len(replies) - len(new_replies)
        )

    def _unreadable(self, complaint: judging.Complaint, answer: Answer, tries: int) -> str:
        cut = "; its reply was cut off: let it write more tokens" if scoring.cut_off(answer) else ""
        return f"judge '{self._name}' gave no reply that can be read, in {tries} tries: {complaint.why}{cut}"

    def _judgement(self, case: judging.Case, replies: Sequence[Answer], digests: Sequence[str]) -> Judgement:
        used: Counter[str] = Counter()
        for reply in replies:
            used.update(reply.usage or {})
        has_usage = any(reply.usage is not None for reply in replies)
        seconds = [reply.seconds for reply in replies if reply.seconds is not None]
        return Judgement(
            self._name,
            case.template,
            case.task,
            tuple(reply.text for reply in replies),
            sum(seconds) if seconds else None,
            dict(used) if has_usage else None,
            tuple(digests),
        )

    def _send(self, case: judging.Case, index: int, sample: int = 0) -> Ticket:
        return self._stream.submit(case.prompts[index], partial(self._first, case, index, sample), sample)

    def _first(self, case: judging.Case, index: int, sample: int, reply: Answer, reused: bool) -> _Step:
        read = judging.read(case, index, reply.text, finished=not scoring.cut_off(reply))
        if not isinstance(read, judging.Complaint):
            return _Step(read)
        second = judging.again(case, index, reply.text, read)
        return _Step(read, self._stream.submit(second, partial(self._second, case, index, sample), sample))

    def _second(self, case: judging.Case, index: int, sample: int, reply: Answer, reused: bool) -> _Step:
        read = judging.read(case, index, reply.text, finished=not scoring.cut_off(reply))
        # Unreadable replies are stored, because they were paid for. A resumed run asks again, up to TRIES times.
        if isinstance(read, judging.Complaint) and reused and sample + 1 < TRIES:
            return _Step(read, self._send(case, index, sample + 1))
        return _Step(read)

    def close(self, end: float | None = None) -> None:
        """Close the stream, as `Stream.close`."""
        self._stream.close(end)


def _no_prompt(query: Query) -> Prompt:
    raise AssertionError(f"a judge takes prompts, not {query}")
