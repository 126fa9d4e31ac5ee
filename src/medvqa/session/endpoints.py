"""Sum the numbers of a model's endpoints over processes and sessions, and describe those that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medvqa import printing

Endpoints = Mapping[str, Mapping[str, Any]]
"""The numbers and texts of each endpoint, by its URL."""
SUMMED = ("requests", "answers", "failures", "left_out", "left_out_seconds")
_SHOWN = 300
"""Characters of a reason in a line."""


def since(now: Endpoints, before: Endpoints) -> dict[str, dict[str, Any]]:
    """Return what was added to the numbers since `before`, without endpoints that did not change."""
    changed = {url: counted for url, counted in now.items() if counted != before.get(url)}
    return {url: _combined(counted, before.get(url, {}), -1) for url, counted in changed.items()}


def added(total: Endpoints, part: Endpoints) -> dict[str, dict[str, Any]]:
    """Return the sums of the numbers of both, with the texts of `part`."""
    sums = {url: _combined(counted, total.get(url, {}), 1) for url, counted in part.items()}
    return {**{url: dict(counted) for url, counted in total.items()}, **sums}


def _combined(counted: Mapping[str, Any], other: Mapping[str, Any], sign: int) -> dict[str, Any]:
    numbers = {name: round(counted.get(name, 0) + sign * other.get(name, 0), 3) for name in SUMMED}
    # Another process may have had no reason.
    kept = {name: text for name, text in other.items() if sign > 0 and name not in SUMMED and text}
    return {**kept, **{name: text for name, text in counted.items() if text or name not in kept}, **numbers}


def lines(endpoints: Endpoints) -> list[str]:
    """Return lines about endpoints that were left out, or that could not be asked which model they serve."""
    shown = []
    for url, counted in endpoints.items():
        why, note = printing.line(str(counted.get("why", "")))[:_SHOWN], printing.line(str(counted.get("note", "")))
        if times := counted.get("left_out", 0):
            often = "once" if times == 1 else f"{times} times"
            seconds = f"{counted.get('left_out_seconds', 0):.3g} s in all"
            still = ", and was at the end" if counted.get("state") == "left out" else ""
            answers = f"{counted.get('answers', 0):,} of {counted.get('requests', 0):,} requests were answered"
            shown.append(f"! endpoint {url} was left out {often}, {seconds}{still}: {why} ({answers})")
        if note:
            shown.append(f"! endpoint {url} does not tell which model it serves: {note[:_SHOWN]}")
    return shown


def news(now: Endpoints, before: Endpoints) -> list[str]:
    """Return a line for each endpoint that was left out since `before`, or is in use again."""
    shown = []
    for url, counted in now.items():
        was = before.get(url, {})
        if counted.get("left_out", 0) > was.get("left_out", 0):
            why = printing.line(str(counted.get("why", "")))[:_SHOWN]
            shown.append(f"medvqa: endpoint {url} is left out, and its questions go to the others: {why}")
        elif was.get("state") == "left out" and counted.get("state") == "in use":
            shown.append(f"medvqa: endpoint {url} is in use again")
    return shown
