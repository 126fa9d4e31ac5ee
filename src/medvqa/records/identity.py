"""Whether stored answers that a run used are of the model that answers now: what its sessions found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAMED_ONLY = frozenset({"openai"})
"""Backends whose fingerprint is a name and an address: of runs of earlier versions nobody looked behind it."""


def joined(identities: Sequence[Mapping[str, Any]], reused: int) -> dict[str, Any]:
    """What the processes of a session found about the `reused` stored answers, as one; run.json holds it.

    Each says how many it `reused`, `how` their model was known or what the `problem` was, and how many questions were
    `asked_again`, of which `same` scored the same.
    """
    problems = [identity["problem"] for identity in identities if identity.get("problem")]
    looked_at = sum(identity["reused"] for identity in identities)
    if looked_at < reused:
        problems.append("a process ended before it could ask any of them again")
    again = {name: sum(identity.get(name, 0) for identity in identities) for name in ("asked_again", "same")}
    hows = dict.fromkeys(identity["how"] for identity in identities if identity.get("how"))
    outcome = {"problem": problems[0]} if problems else {"how": "; ".join(hows)}
    return {"reused": reused, **outcome, **(again if again["asked_again"] else {})}


def of_run(run: Mapping[str, Any], results: int) -> tuple[list[str], list[str]]:
    """Why there is no verdict on a run because of its stored answers, and what a reader should know; a line each.

    A session whose answers are all known to be of one model makes up for those before it.
    """
    problems: list[str] = []
    notes: list[str] = []
    backend = run.get("config", {}).get("backend")
    for session in reversed(run.get("sessions", ())):
        identity = identity_of(session, backend)
        if identity is not None:
            _add(identity, problems, notes)
        if not (identity or {}).get("problem") and session.get("asked", 0) + session.get("reused", 0) >= results:
            return problems, notes
    for part in run.get("merged", ()):
        for identity in part.get("identity", ()):
            _add(identity, problems, notes)
    return problems, notes


def identity_of(session: Mapping[str, Any], backend: str | None) -> dict[str, Any] | None:
    """What a session found about the stored answers that it used; None if it used none, or nothing is in doubt."""
    identity: dict[str, Any] | None = session.get("identity")
    if identity is None and session.get("reused") and backend in NAMED_ONLY:
        problem = "the run is of an earlier version, which did not look behind the name of a server's model"
        return {"reused": session["reused"], "problem": problem}
    return identity


def is_identified(run: Mapping[str, Any]) -> bool:
    """Whether a fingerprint tells that a model is the same at another time; a server's does with a revision alone."""
    config = run.get("config", {})
    if config.get("backend") in NAMED_ONLY:
        return bool(config.get("options", {}).get("revision"))
    return run.get("model", {}).get("fingerprint") is not None


def of_sessions(run: Mapping[str, Any], results: int) -> list[dict[str, Any]]:
    """What is left to say of a run's sessions where it becomes a part of another run: one entry at most."""
    problems, _ = of_run(run, results)
    sessions: Iterable[Mapping[str, Any]] = run.get("sessions", ())
    backend = run.get("config", {}).get("backend")
    identities = [identity for session in sessions if (identity := identity_of(session, backend)) is not None]
    identities += [identity for part in run.get("merged", ()) for identity in part.get("identity", ())]
    return [identity for identity in identities if bool(identity.get("problem")) == bool(problems)][-1:]


def _add(identity: Mapping[str, Any], problems: list[str], notes: list[str]) -> None:
    """Add the line of a session."""
    number = f"{identity['reused']:,} stored answers were used"
    again = (
        f" ({identity['same']:,} of {identity['asked_again']:,} scored the same)" if "asked_again" in identity else ""
    )
    if identity.get("problem"):
        problems.append(
            f"{number}, and it is not known that they are of the model that answers now: {identity['problem']}{again}. "
            "Ask all anew in another run: --fresh --run=NAME"
        )
    elif again:
        # A model that is known by what it is needs no line: the verdict is the same whether its answers were stored.
        notes.append(f"{number}; their model is known by {identity['how']}{again}")
