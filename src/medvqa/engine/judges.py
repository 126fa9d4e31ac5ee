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
from medvqa.engine.stream import AnswerMemory, Limits, Reply, Stream, Submitted, Ticket, Traffic
from medvqa.items import Answer, AnswerError, Benchmark, Item, Judgement, Prompt, Query, Score, Technique

TRIES = 3
"""Sessions (or runs that share stored replies) that send a prompt again after unreadable replies."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A judge's case about an answer, and its prompt in flight; without a prompt its score is known."""

    item: Item
    case: judging.Case
    ticket: Ticket | None


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The score of one answer after judging; `judgement` is None if no prompt was sent.

    `new_replies` holds the replies from this session; `reused` counts replies from earlier sessions.
    """

    score: Score
    judgement: Judgement | None = None
    new_replies: tuple[Answer, ...] = ()
    reused: int = 0


@dataclass(frozen=True, slots=True)
class JudgeReplies:
    """The replies about one answer, and the `reading` of the last one, None if there is a problem.

    `why`: the judge did not answer. `unread`: its last reply is unreadable. `new_replies` and `reused` are as in
    `JudgedAnswer`.
    """

    reading: judging.JudgeReading | None
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

    def begin(
        self, benchmark: Benchmark, item: Item, technique: Technique, answer: Answer, score: Score
    ) -> Pending | None:
        """Submit the judge's prompts about an answer; None if its `score` by rule stands."""
        case = judging.case_of(benchmark, item, technique, answer, score, self.settings)
        return None if case is None else self.submit(item, case)

    def submit(self, item: Item, case: judging.Case) -> Pending:
        """Submit the prompt of a case."""
        return Pending(item, case, self._send(case) if case.prompts else None)

    def finish(self, pending: Pending) -> JudgedAnswer:
        """Wait for the judge and return the score; outcome `error` without a readable reply.

        Raises the exception of a memory that cannot store replies.
        """
        case, item = pending.case, pending.item
        if pending.ticket is None:
            return JudgedAnswer(judging.score(case, item, (), self.settings))
        replies = self.replies(pending)
        if replies.reading is not None:
            score = judging.score(case, item, (replies.reading,), self.settings)
        elif case.extractor is not None and not replies.why:
            score = replace(case.otherwise, why=f"{replies.unread}; by rule: {case.otherwise.why}")
        else:
            score = Score(None, "error", why=replies.why or replies.unread)
        return JudgedAnswer(score, replies.judgement, replies.new_replies, replies.reused)

    def replies(self, pending: Pending) -> JudgeReplies:
        """Wait for the judge's replies about a case, the last of which is read; raises as `finish`."""
        replies: list[Reply] = []
        reading, why, unread, following = None, "", "", pending.ticket
        while following is not None:
            reply = self._stream.wait(following)
            if isinstance(reply.answer, AnswerError):
                why = f"judge '{self._name}' did not answer: {reply.answer}"
                break
            replies.append(reply)
            step: _Step = reply.then
            following = step.following
            if not isinstance(step.read, judging.Complaint):
                reading = step.read
            elif following is None:
                unread = self._unreadable(step.read, reply.answer, len(replies))
        new = tuple(answer for reply in replies for answer in reply.new)
        return JudgeReplies(reading, self._judgement(pending.case, replies), why, unread, new, len(replies) - len(new))

    def _unreadable(self, complaint: judging.Complaint, answer: Answer, tries: int) -> str:
        cut = "; its reply was cut off: let it write more tokens" if scoring.cut_off(answer) else ""
        return f"judge '{self._name}' gave no reply that can be read, in {tries} tries: {complaint.why}{cut}"

    def _judgement(self, case: judging.Case, replies: Sequence[Reply]) -> Judgement:
        given = [reply.answer for reply in replies if isinstance(reply.answer, Answer)]
        used: Counter[str] = Counter()
        for answer in given:
            used.update(answer.usage or {})
        seconds = [answer.seconds for answer in given if answer.seconds is not None]
        return Judgement(
            self._name,
            case.template,
            case.task,
            tuple(answer.text for answer in given),
            sum(seconds) if seconds else None,
            dict(used) if any(answer.usage is not None for answer in given) else None,
            tuple(reply.digest for reply in replies),
        )

    def _send(self, case: judging.Case, sample: int = 0) -> Ticket:
        return self._stream.submit(case.prompts[0], partial(self._read, case, sample), sample)

    def _read(self, case: judging.Case, sample: int, answer: Answer, reply: Reply, *, second: bool = False) -> _Step:
        """Read a reply in a lane's thread; ask again if it is unreadable, once in a session."""
        read = judging.read(case, 0, answer.text, finished=not scoring.cut_off(answer))
        if not isinstance(read, judging.Complaint):
            return _Step(read)
        if not second:
            again = judging.again(case, 0, answer.text, read)
            return _Step(read, self._stream.submit(again, partial(self._read, case, sample, second=True), sample))
        # Unreadable replies are stored, because they were paid for. A resumed run asks again, up to TRIES times.
        return _Step(read, self._send(case, sample + 1) if reply.reused and sample + 1 < TRIES else None)

    def close(self, end: float | None = None) -> None:
        """Close the stream, as `Stream.close`."""
        self._stream.close(end)


def _no_prompt(query: Query) -> Prompt:
    raise AssertionError(f"a judge takes prompts, not {query}")
