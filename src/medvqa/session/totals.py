"""What the deliveries of a session add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from medvqa.records import identities
from medvqa.records.recall import OWN
from medvqa.records.run_record import RecordedIdentity, RecordedSession, part_of
from medvqa.session import endpoints
from medvqa.session.delivery import Delivery


class Totals:
    """Numbers of one session so far."""

    def __init__(self) -> None:
        """Start at zero."""
        self.answers = 0
        """Results, those of stored answers included."""
        self.reused: Counter[str] = Counter()
        """Stored answers by their source."""
        self.usage: Counter[str] = Counter()
        self.judge_usage: Counter[str] = Counter()
        self.judge_asked = self.judge_reused = 0
        self.served_by: set[str] = set()
        self.pool: Mapping[str, Any] = {}
        """The last state of a pool of models, as `medvqa.Backend.status`; {} for other models."""
        self.endpoints: endpoints.Endpoints = {}
        self.judge_endpoints: endpoints.Endpoints = {}
        self.stopped = ""
        """Why the session stopped early: the first reason."""
        self._identities: list[RecordedIdentity] = []

    def add(self, delivery: Delivery) -> None:
        """Add a delivery."""
        self.answers += len(delivery.lines)
        self.usage.update(delivery.usage)
        self.served_by.update(delivery.served_by)
        self.stopped = self.stopped or delivery.stopped
        if delivery.reused:
            self.reused.update(delivery.reused)
        if delivery.judge_asked or delivery.judge_reused:
            self.judge_asked += delivery.judge_asked
            self.judge_reused += delivery.judge_reused
            self.judge_usage.update(delivery.judge_usage)
        if delivery.engine:
            self.pool = delivery.engine
        if delivery.endpoints:
            self.endpoints = endpoints.added(self.endpoints, delivery.endpoints)
        if delivery.judge_endpoints:
            self.judge_endpoints = endpoints.added(self.judge_endpoints, delivery.judge_endpoints)
        if delivery.identity is not None:
            self._identities.append(part_of(RecordedIdentity, delivery.identity))

    @property
    def cost(self) -> float:
        """The price of all answers and replies; 0 without prices."""
        return self.usage["cost"] + self.judge_usage["cost"]

    def recorded(self, session: RecordedSession) -> RecordedSession:
        """Return the entry of the session in run.json with these numbers."""
        reused = self.reused.total()
        judged = self.judge_asked or self.judge_reused
        return structs.replace(
            session,
            asked=self.answers - reused,
            reused=reused,
            answers_from={name: number for name, number in self.reused.items() if name != OWN},
            judge_asked=self.judge_asked if judged else None,
            judge_reused=self.judge_reused if judged else None,
            usage=dict(self.usage),
            judge_usage=dict(self.judge_usage),
            identity=identities.joined(self._identities, reused) if reused else None,
            stopped=self.stopped,
        )
