"""The gate: rules, baselines and a run -> PASS, FAIL or INCONCLUSIVE."""

from __future__ import annotations

from medvqa.comparing.gating import rules
from medvqa.comparing.gating.deciding import attempts, changed, decide, decided, settle
from medvqa.comparing.gating.early import Watch, drawn, stopping
from medvqa.comparing.gating.preparing import Gate, Target, load, prepare
from medvqa.comparing.gating.rules import DEFAULT_MARGIN, BenchmarkRule, Floor, Rules, SliceRule, from_json, typed_over
from medvqa.comparing.gating.rules import above as rules_above
from medvqa.comparing.gating.rules import read as read_rules
from medvqa.comparing.gating.selftest import Tried, selftest
from medvqa.comparing.gating.verdict import (
    FAILED,
    FILE,
    UNDECIDED,
    Against,
    Decided,
    Flipped,
    Moved,
    Ruling,
    Verdict,
    begin,
    digest,
    not_current,
    read,
    read_if_whole,
    remove,
    standing_fail,
    take_back,
    with_history,
    write,
)

__all__ = [
    "DEFAULT_MARGIN",
    "FAILED",
    "FILE",
    "UNDECIDED",
    "Against",
    "BenchmarkRule",
    "Decided",
    "Flipped",
    "Floor",
    "Gate",
    "Moved",
    "Rules",
    "Ruling",
    "SliceRule",
    "Target",
    "Tried",
    "Verdict",
    "Watch",
    "attempts",
    "begin",
    "changed",
    "decide",
    "decided",
    "digest",
    "drawn",
    "from_json",
    "load",
    "not_current",
    "prepare",
    "read",
    "read_if_whole",
    "read_rules",
    "remove",
    "rules",
    "rules_above",
    "selftest",
    "settle",
    "standing_fail",
    "stopping",
    "take_back",
    "typed_over",
    "with_history",
    "write",
]
