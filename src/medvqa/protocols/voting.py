"""Combine the samples of one question into one result by majority vote.

Majority vote: MediConfusion (Sepehri et al. 2024), appendix H.2.3 and Table 10, after Wang et al. 2022. The paper takes
the most frequent of N answers and names no rule for ties. Our reading: invalid answers do not vote, and a tie is
invalid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import fsum

from medvqa.items import (
    CHOICE_KINDS,
    INVALID_OUTCOMES,
    OUTCOMES,
    Answer,
    Benchmark,
    Item,
    Outcome,
    QuestionKey,
    Result,
    Score,
    UsageError,
)

Choice = tuple[str, ...]
"""The options that an answer chose (`Score.extracted`): one letter, a whole set of letters, or a term."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """The answers to one question: votes by choice, the most frequent first; answers that cannot vote, by outcome."""

    votes: Mapping[Choice, int]
    silent: Mapping[Outcome, int]

    @property
    def winner(self) -> Choice | None:
        """The choice with the most votes; None for a tie, or without any vote."""
        most = max(self.votes.values(), default=0)
        winners = [choice for choice, number in self.votes.items() if number == most]
        return winners[0] if len(winners) == 1 else None

    @property
    def tied(self) -> bool:
        """Whether several choices have the most votes."""
        return bool(self.votes) and self.winner is None

    @property
    def line(self) -> str:
        """The numbers of votes in words."""
        total = sum(self.votes.values())
        listed = ", ".join(f"{','.join(choice)} {number}" for choice, number in self.votes.items())
        silent = ", ".join(f"{number} {outcome}" for outcome, number in self.silent.items())
        said = f"{listed} of {total} {'vote' if total == 1 else 'votes'}" if total else "no votes"
        return f"{'tie: ' if self.tied else ''}{said}" + (f"; without a vote: {silent}" if silent else "")


def ballot(samples: Iterable[Result]) -> Ballot:
    """Count the votes of the answers to one question; the order of the samples does not matter.

    Answers that name no option (unparsed, refused, abstained) and errors do not vote. UsageError for an answer that has
    a score but names no option, such as a free answer that a judge scored: nothing can be voted on.
    """
    votes: Counter[Choice] = Counter()
    silent: Counter[Outcome] = Counter()
    for result in samples:
        score = result.score
        if score.outcome in INVALID_OUTCOMES or score.outcome == "error":
            silent[score.outcome] += 1
        elif score.extracted:
            votes[tuple(sorted(score.extracted))] += 1
        elif not result.item.answers:
            # The key is withheld, and no option was read.
            silent["unparsed"] += 1
        else:
            raise undefined(result.item)
    order = sorted(votes.items(), key=lambda entry: (-entry[1], entry[0]))
    return Ballot(dict(order), {name: silent[name] for name in OUTCOMES if silent[name]})


def has_all(samples: Sequence[Result], number: int | None) -> bool:
    """Return whether the answers to a question are its samples 1 to `number`: fewer votes are another protocol."""
    numbers = {result.sample for result in samples}
    return number is None or (len(numbers) == number and min(numbers) == 1 and max(numbers) == number)


def can_vote(item: Item, benchmark: Benchmark) -> bool:
    """Return whether answers to a question name options or terms; a judge's score of a free answer names none."""
    return item.kind in CHOICE_KINDS or item.kind not in benchmark.judged


def undefined(item: Item) -> UsageError:
    """Return the error about a question whose answers name no option to vote for."""
    return UsageError(
        f"--combine=vote: answers to {item.kind} questions of {item.benchmark} choose no option that could be voted "
        "on: such answers are free text. Combine them by --combine=mean, or select other questions"
    )


def vote(samples: Sequence[Result]) -> Result:
    """Return one result for the answers to one question: the option with the most votes, with its score.

    The score is the one that the benchmark's rule gave to the answers that chose this option. It is a function of the
    chosen options; if a rule of one's own also reads other parts of an answer, it is their mean. A tie is `unparsed`.
    Without any vote the outcome is the commonest one of the invalid answers, `unparsed` if there are several; `error`
    if every answer ended in error. The text of the answer is the chosen option, "" if there is none; its confidence is
    the share of all samples that chose it.
    """
    counted = ballot(samples)
    line, winner = counted.line, counted.winner
    if winner is not None:
        voters = [result.score for result in samples if tuple(sorted(result.score.extracted)) == winner]
        value, outcome = _common(voters)
        share = len(voters) / len(samples)
        return _combined(samples, Score(value, outcome, winner, line), ", ".join(winner), share)
    if not counted.votes and counted.silent.keys() <= {"error"}:
        return _combined(samples, Score(None, "error", why=line), None)
    if any(result.score.outcome == "unscored" for result in samples):
        return _combined(samples, Score(None, "unscored", why=f"no answer key; {line}"), "")
    return _combined(samples, Score(0.0, _invalid(counted), why=line), "")


def _common(scores: Sequence[Score]) -> tuple[float | None, Outcome]:
    """Return the value and outcome of equal scores; the mean of unequal ones, each above 0 as `partial`."""
    distinct = {(score.value, score.outcome) for score in scores}
    if len(distinct) == 1:
        return distinct.pop()
    values = [score.value for score in scores if score.value is not None]
    mean = fsum(sorted(values)) / len(values)
    return mean, "partial" if mean > 0 else "wrong"


def _invalid(counted: Ballot) -> Outcome:
    """Return the outcome of a question without a winner."""
    kinds = {outcome: number for outcome, number in counted.silent.items() if outcome in INVALID_OUTCOMES}
    most = [outcome for outcome, number in kinds.items() if number == max(kinds.values())]
    return most[0] if len(most) == 1 and not counted.tied else "unparsed"


def _combined(samples: Sequence[Result], score: Score, text: str | None, share: float | None = None) -> Result:
    """Return a result with this score; it keeps the prompt and the judge if all samples share them, and no reply."""
    first = min(samples, key=lambda result: (result.sample, result.run))
    prompts, judgements = {result.prompt for result in samples}, [r.judgement for r in samples if r.judgement]
    judgement = min(judgements, key=lambda judgement: (judgement.judge, judgement.template), default=None)
    return replace(
        first,
        prompt=first.prompt if len(prompts) == 1 else "",
        # How the answers ended is known of each sample alone.
        answer=None if text is None else Answer(text, finish="", confidence=share),
        score=score,
        judgement=None if judgement is None else replace(judgement, replies=(), seconds=None, usage=None, asked=()),
        sample=0,
    )


@dataclass(frozen=True, slots=True)
class Votes:
    """The votes of a benchmark: their number with ties, and answers that did not vote, by outcome.

    `questions`: the number of votes; a question has one for each prompt and order of its options. `without`: those to
    which no answer was valid.
    """

    questions: int
    ties: int
    without: int
    answers: int
    silent: Mapping[Outcome, int]

    @classmethod
    def of(cls, results: Sequence[Result]) -> Votes:
        """Count the votes of the samples of each question."""
        ballots = [ballot(samples) for samples in by_question(results).values()]
        silent: Counter[Outcome] = Counter()
        for counted in ballots:
            silent.update(counted.silent)
        return cls(
            len(ballots),
            sum(counted.tied for counted in ballots),
            sum(not counted.votes for counted in ballots),
            len(results),
            {name: silent[name] for name in OUTCOMES if silent[name]},
        )

    def line(self, items: int) -> str:
        """Return the numbers in words; `items`: the number of items, each voted on once for each prompt and order."""
        each = ", one for each prompt and order of the options" if items < self.questions else ""
        silent = ", ".join(f"{number:,} {outcome}" for outcome, number in self.silent.items())
        return (
            f"{self.questions:,} votes on {items:,} questions{each}: {self.ties:,} "
            f"{'tie' if self.ties == 1 else 'ties'} and {self.without:,} without a valid answer (both are invalid); "
            f"{sum(self.silent.values()):,} of {self.answers:,} answers did not vote{f' ({silent})' if silent else ''}"
        )


def by_question(results: Sequence[Result]) -> dict[QuestionKey, list[Result]]:
    """Return the samples of each question and variant, sorted by key."""
    ordered = sorted(results, key=lambda result: result.key)
    grouped = groupby(ordered, key=lambda result: result.key._replace(sample=0))
    return {key: list(samples) for key, samples in grouped}
