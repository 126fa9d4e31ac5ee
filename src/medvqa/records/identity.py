"""Whether a run's stored answers come from the model that answers now, as recorded by its sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAMED_ONLY = frozenset({"openai"})
"""Backends whose fingerprint is only a name and an address, which earlier versions did not verify."""


def joined(identities: Sequence[Mapping[str, Any]], reused: int) -> dict[str, Any]:
    """Join the records of a session's processes about `reused` stored answers, for run.json.

    A record has `reused` (number of answers), `how` (the evidence for their model) or `problem`, `asked_again` (number
    of questions) and `same` (those that scored the same).
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
    """Problems with a run's stored answers that block a verdict, and notes; a line each.

    A session whose answers are all identified makes up for earlier ones.
    """
    problems: list[str] = []
    notes: list[str] = []
    backend = run.get("config", {}).get("backend")
    for session in reversed(run.get("sessions", ())):
        identity = identity_of(session, backend)
        if identity is not None:
            _add(identity, problems, notes)
        if not (identity or {}).get("problem") and _covers(session, results):
            break
    else:
        for part in run.get("merged", ()):
            for identity in part.get("identity", ()):
                _add(identity, problems, notes)
    if (apart := _apart(run, results)) is not None:
        _add(apart, problems, notes)
    return problems, notes


def _covers(session: Mapping[str, Any], results: int) -> bool:
    """Whether a session has seen as many questions as the run has results."""
    return bool(session.get("asked", 0) + session.get("reused", 0) >= results)


def _apart(run: Mapping[str, Any], results: int) -> dict[str, Any] | None:
    """The record of a session of an unidentified model that used no answer of the earlier ones; None without one.

    It asked other questions (-k, --lf), so nothing shows that one model gave both. A later session that used all
    makes up for it.
    """
    if is_identified(run):
        return None
    sessions = [session for session in run.get("sessions", ()) if session.get("asked") or session.get("reused")]
    for place in range(len(sessions) - 1, 0, -1):
        session, before = sessions[place], sum(one.get("asked", 0) for one in sessions[:place])
        if _covers(session, results):
            return None
        if before and not session.get("reused"):
            problem = (
                f"a later session asked {session['asked']:,} others, and none of these again; repeat the run's "
                "command without what chooses among the questions"
            )
            return {"reused": before, "problem": problem}
    return None


def identity_of(session: Mapping[str, Any], backend: str | None) -> dict[str, Any] | None:
    """A session's record about its stored answers; None if it used none, or none is in doubt."""
    identity: dict[str, Any] | None = session.get("identity")
    if identity is None and session.get("reused") and backend in NAMED_ONLY:
        problem = "the run is of an earlier version, which did not look behind the name of a server's model"
        return {"reused": session["reused"], "problem": problem}
    return identity


def is_identified(run: Mapping[str, Any]) -> bool:
    """Whether the fingerprint identifies the model over time; a server's does only with a revision."""
    config = run.get("config", {})
    if config.get("backend") in NAMED_ONLY:
        return bool(config.get("options", {}).get("revision"))
    return run.get("model", {}).get("fingerprint") is not None


def shared_sessions(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sessions that two runs have in common: one of them is then a copy of the other, or both are one."""
    first, second = ({session.get("session") for session in run.get("sessions", ())} for run in (one, other))
    return tuple(sorted(filter(None, first & second)))


def is_same_run(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two run.json are of one run, perhaps at different times, or under a name that it had before."""
    first, second = ({run.get("name"), *run.get("names", ())} - {None, ""} for run in (one, other))
    if not first & second:
        return False
    if all(run.get("sessions") for run in (one, other)):
        return bool(shared_sessions(one, other))
    # A merged run has no sessions.
    return bool(one.get("started")) and one.get("started") == other.get("started")


def of_sessions(run: Mapping[str, Any], results: int) -> list[dict[str, Any]]:
    """The decisive record of a run's sessions, for a merged run: one entry at most."""
    problems, _ = of_run(run, results)
    sessions: Iterable[Mapping[str, Any]] = run.get("sessions", ())
    backend = run.get("config", {}).get("backend")
    identities = [identity for session in sessions if (identity := identity_of(session, backend)) is not None]
    identities += [identity for part in run.get("merged", ()) for identity in part.get("identity", ())]
    identities += [apart] if (apart := _apart(run, results)) is not None else []
    return [identity for identity in identities if bool(identity.get("problem")) == bool(problems)][-1:]


def _add(identity: Mapping[str, Any], problems: list[str], notes: list[str]) -> None:
    """Add a session's line to the problems or notes."""
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
        # A model identified by its fingerprint needs no line: storing does not affect the verdict.
        notes.append(f"{number}; their model is known by {identity['how']}{again}")
