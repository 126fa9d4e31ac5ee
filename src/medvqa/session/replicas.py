"""The copies of a pool of models in words: in the progress line, in run.json, and after the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pool_state(status: Mapping[str, Any]) -> str:
    """Return the state of a pool (`medvqa.Backend.status`) for the line, such as "8 replicas 12.3/s each, queue 4"."""
    if "replicas" not in status:
        return ""
    rate = status.get("rate")
    speed = "" if rate is None else f" {rate:.3g}/s each" if rate < 10 else f" {rate:.0f}/s each"
    return f"{_copies(status)}{speed}, queue {status.get('queue', 0)}"


def pool_facts(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a pool for run.json, without its values of a moment."""
    return {name: value for name, value in status.items() if name not in ("queue", "rate")}


def pool_lines(status: Mapping[str, Any]) -> list[str]:
    """Return the lines about a pool that follow the summary: copies, restarts, batches asked again, problems."""
    if "replicas" not in status:
        return []
    nodes = len(status.get("nodes", ()))
    parts = [f"{_copies(status)} on {nodes} node{'' if nodes == 1 else 's'} at the end"]
    parts += [f"{number} {one if number == 1 else more}" for name, one, more in _EVENTS if (number := status.get(name))]
    return [f"pool: {', '.join(parts)}", *(f"! {problem}" for problem in status.get("problems", ()))]


_EVENTS = (
    ("restarts", "copy was lost and started again", "copies were lost and started again"),
    ("asked_again", "batch was asked again", "batches were asked again"),
)
"""Counts in a pool's status -> words for one, and for several."""


def _copies(status: Mapping[str, Any]) -> str:
    """Return the number of copies, such as "2 of 8 replicas" if fewer fit than were asked for."""
    number, asked = status["replicas"], status.get("replicas_asked", 0)
    some = f"{number} of {asked}" if asked > number else str(number)
    return f"{some} replica{'' if max(number, asked) == 1 else 's'}"
