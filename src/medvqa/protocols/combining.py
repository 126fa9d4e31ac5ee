"""Combine the results of one question: its samples and its rotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from medvqa.items import QuestionKey, Result, Variant
from medvqa.protocols import rotation, voting
from medvqa.protocols.protocol import Protocol

NO_PROMPTS: Mapping[str, Sequence[str]] = MappingProxyType({})


def combined(
    results: Iterable[Result], protocol: Protocol, prompts: Mapping[str, Sequence[str]] = NO_PROMPTS
) -> tuple[Result, ...]:
    """Return the results that metrics count, sorted by key: one for each question if the protocol combines answers.

    With `combine="mean"`, metrics average the samples of a question, so the results stay as they are. Rotations are
    folded last: those of each sample, or the votes. Questions drop out if they lack an answer: a sample of a vote, a
    rotation, or one of the `prompts` of their benchmark. UsageError if a vote has nothing to vote on (`voting.ballot`).
    """
    if protocol.combine == "vote":
        ballots = voting.by_question(tuple(results)).values()
        results = [voting.vote(samples) for samples in ballots if voting.has_all(samples, protocol.complete)]
    if protocol.rotations != 0:
        results = rotation.folded(results, protocol.rotations)
    return tuple(_by_every_prompt(results, prompts))


def _by_every_prompt(results: Iterable[Result], prompts: Mapping[str, Sequence[str]]) -> Iterable[Result]:
    """Leave out questions that lack a prompt, or some samples of one: their means would be those of other prompts."""
    if not prompts:
        return results
    results = tuple(results)
    samples: dict[QuestionKey, dict[str, set[int]]] = {}
    for result in results:
        if result.item.benchmark in prompts:
            of_prompt = samples.setdefault(result.key.question, {})
            of_prompt.setdefault(Variant.parse(result.variant).prompt, set()).add(result.sample)
    whole = {
        question
        for question, of_prompt in samples.items()
        if of_prompt.keys() == set(prompts[question.benchmark])
        and len({frozenset(numbers) for numbers in of_prompt.values()}) == 1
    }
    return [result for result in results if result.item.benchmark not in prompts or result.key.question in whole]


def label(protocol: Protocol, models: Sequence[str] = ()) -> str:
    """Return how answers are combined, for titles, in few words: "vote of 10, every order"; "" for means.

    `models`: the names of the models that gave them, if there are several.
    """
    of = "" if protocol.samples is None else f" of {protocol.samples}"
    names = []
    if protocol.combine == "vote" and protocol.readers:
        names.append("panel majority")
    elif protocol.combine == "vote":
        names.append(f"vote{of}" + (f" by {len(models)} models" if len(models) > 1 else ""))
    if protocol.rotations != 0:
        names.append("every order" if protocol.rotations is None else f"{protocol.rotations} orders")
    return ", ".join(names)


def votes(results: Sequence[Result], protocol: Protocol) -> voting.Votes | None:
    """Return the number of ties and of answers that did not vote; None if the protocol does not vote."""
    if protocol.combine != "vote":
        return None
    whole = [samples for samples in voting.by_question(results).values() if voting.has_all(samples, protocol.complete)]
    return voting.Votes.of([sample for samples in whole for sample in samples])


def first(results: Iterable[Result], samples: int) -> tuple[Result, ...]:
    """Return the first samples of each question; an answer without a number is the only one."""
    return tuple(result for result in results if result.sample <= samples)
