"""Whether a run's stored answers come from the model that answers now, as recorded by its sessions."""

from __future__ import annotations

from collections.abc import Sequence

from medvqa.records.run_record import RecordedIdentity, RecordedSession, RunRecord

NAMED_ONLY = frozenset({"openai"})
"""Backends whose fingerprint is only a name and an address, which earlier versions did not verify."""


def joined(identities: Sequence[RecordedIdentity], reused: int) -> RecordedIdentity:
    """Join the records of a session's processes about `reused` stored answers, for run.json."""
    problems = [identity.problem for identity in identities if identity.problem]
    looked_at = sum(identity.reused for identity in identities)
    if looked_at < reused:
        problems.append("a process ended before it could ask any of them again")
    again = [identity for identity in identities if identity.asked_again is not None]
    hows = dict.fromkeys(identity.how for identity in identities if identity.how)
    return RecordedIdentity(
        reused=reused,
        problem=problems[0] if problems else None,
        how=None if problems else "; ".join(hows),
        asked_again=sum(identity.asked_again or 0 for identity in again) if again else None,
        same=sum(identity.same or 0 for identity in again) if again else None,
    )


def of_run(run: RunRecord, results: int) -> tuple[list[str], list[str]]:
    """Problems with a run's stored answers that block a verdict, and notes; a line each.

    A session whose answers are all identified makes up for earlier ones.
    """
    problems: list[str] = []
    notes: list[str] = []
    for session in reversed(run.sessions):
        identity = identity_of(session, run.config.backend)
        if identity is not None:
            _add(identity, problems, notes)
        if not (identity and identity.problem) and _covers(session, results):
            break
    else:
        for part in run.merged:
            for identity in part.identity:
                _add(identity, problems, notes)
    if (apart := _apart(run, results)) is not None:
        _add(apart, problems, notes)
    return problems, notes


def _covers(session: RecordedSession, results: int) -> bool:
    """Whether a session has seen as many questions as the run has results."""
    return session.asked + session.reused >= results


def _apart(run: RunRecord, results: int) -> RecordedIdentity | None:
    """The record of a session of an unidentified model that used no answer of the earlier ones; None without one.

    It asked other questions (-k, --lf), so nothing shows that one model gave both. A later session that used all
    makes up for it.
    """
    if is_identified(run):
        return None
    sessions = [session for session in run.sessions if session.asked or session.reused]
    for place in range(len(sessions) - 1, 0, -1):
        session, before = sessions[place], sum(one.asked for one in sessions[:place])
        if _covers(session, results):
            return None
        if before and not session.reused:
            problem = (
                f"a later session asked {session.asked:,} others, and none of these again; repeat the run's "
                "command without what chooses among the questions"
            )
            return RecordedIdentity(reused=before, problem=problem)
    return None


def identity_of(session: RecordedSession, backend: str) -> RecordedIdentity | None:
    """A session's record about its stored answers; None if it used none, or none is in doubt."""
    if session.identity is None and session.reused and backend in NAMED_ONLY:
        problem = "the run is of an earlier version, which did not look behind the name of a server's model"
        return RecordedIdentity(reused=session.reused, problem=problem)
    return session.identity


def is_identified(run: RunRecord) -> bool:
    """Whether the fingerprint identifies the model over time; a server's does only with a revision."""
    if run.config.backend in NAMED_ONLY:
        return bool(run.config.options.get("revision"))
    return run.model.fingerprint is not None


def shared_sessions(one: RunRecord, other: RunRecord) -> tuple[str, ...]:
    """Return the sessions that two runs have in common: one of them is then a copy of the other, or both are one."""
    first, second = ({session.session for session in run.sessions} for run in (one, other))
    return tuple(sorted(filter(None, first & second)))


def is_same_run(one: RunRecord, other: RunRecord) -> bool:
    """Whether two run.json are of one run, perhaps at different times, or under a name that it had before."""
    first, second = ({run.name, *run.names} - {""} for run in (one, other))
    if not first & second:
        return False
    if all(run.sessions for run in (one, other)):
        return bool(shared_sessions(one, other))
    # A merged run has no sessions.
    return bool(one.started) and one.started == other.started


def of_sessions(run: RunRecord, results: int) -> tuple[RecordedIdentity, ...]:
    """The decisive record of a run's sessions, for a merged run: one entry at most."""
    problems, _ = of_run(run, results)
    each = (identity_of(session, run.config.backend) for session in run.sessions)
    identities = [identity for identity in each if identity is not None]
    identities += [identity for part in run.merged for identity in part.identity]
    identities += [apart] if (apart := _apart(run, results)) is not None else []
    return tuple(identity for identity in identities if bool(identity.problem) == bool(problems))[-1:]


def _add(identity: RecordedIdentity, problems: list[str], notes: list[str]) -> None:
    """Add a session's line to the problems or notes."""
    number = f"{identity.reused:,} stored answers were used"
    again = f" ({identity.same or 0:,} of {identity.asked_again:,} scored the same)" if identity.asked_again else ""
    if identity.problem:
        problems.append(
            f"{number}, and it is not known that they are of the model that answers now: {identity.problem}{again}. "
            "Ask all anew in another run: --fresh --run=NAME"
        )
    elif again:
        # A model identified by its fingerprint needs no line: storing does not affect the verdict.
        notes.append(f"{number}; their model is known by {identity.how}{again}")
