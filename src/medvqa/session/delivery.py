"""Delivery: the message of an asking process to the controller, in plain values that xdist can send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from medvqa.items import Answer, Outcome, QuestionKey

LeftOut = dict[str, dict[str, dict[str, int]]]
"""Numbers of items that a technique is not defined for: benchmark -> technique -> kind -> number."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Results since the last delivery.

    `lines` are encoded results; `outcomes` has the key and the outcome of each. `prompts`: lines of prompts.jsonl about
    prompts that this process had not sent before. `reused` counts stored answers by
    their source; `usage` sums tokens and cost of the others. `judge_asked`, `judge_reused` and `judge_usage` count
    the judge's replies likewise. The first delivery alone has `facts`, the fields of run.json; `left_out`, sent once
    the keys of the selection are on disk; and `data`, a worker's digests of the items by benchmark. The last delivery
    of a process that reused answers has `identity`: how they were matched with the current model. `engine` is the
    present state of a pool of models. `endpoints` and `judge_endpoints` hold what was added to the numbers of each
    endpoint of the model and of the judge. `stopped`: why the process stops asking, "" if it does not. `unread`:
    stored lines that turned out to be unreadable since.
    """

    lines: list[str]
    outcomes: list[tuple[QuestionKey, Outcome]]
    prompts: list[str] = field(default_factory=list)
    usage: Mapping[str, float] = field(default_factory=dict)
    reused: Mapping[str, int] = field(default_factory=dict)
    judge_asked: int = 0
    judge_reused: int = 0
    judge_usage: Mapping[str, float] = field(default_factory=dict)
    served_by: list[str] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    left_out: LeftOut | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, Any] | None = None
    endpoints: Mapping[str, Any] = field(default_factory=dict)
    judge_endpoints: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    stopped: str = ""
    unread: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the delivery as values that xdist can send, without empty ones; an empty `left_out` says something."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        said = {name: value for name, value in plain.items() if value or (name == "left_out" and value is not None)}
        return said | {"lines": self.lines, "outcomes": [(tuple(key), outcome) for key, outcome in self.outcomes]}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Delivery:
        """Return the delivery from the values of `plain`."""
        outcomes = [(QuestionKey(*key), outcome) for key, outcome in plain["outcomes"]]
        return cls(**{**plain, "outcomes": outcomes})


def used(answers: Iterable[Answer]) -> dict[str, float]:
    """Return the sums of the tokens and costs in answers."""
    total: dict[str, float] = {}
    for answer in answers:
        for name, value in (answer.usage or {}).items():
            total[name] = total.get(name, 0) + value
    return total
