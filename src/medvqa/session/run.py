"""A run folder while its run lasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from medvqa import judging, records, report
from medvqa.comparing.gating import Gate, Verdict
from medvqa.items import Benchmark, Item, Outcome, Query
from medvqa.plugin.collection import LeftOut
from medvqa.report import html
from medvqa.session import gates
from medvqa.session.asker import STOP, usage
from medvqa.session.plan import Plan


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).digest()


class Recording:
    """Appends results as they come, and writes the reports at the end."""

    def __init__(self, plan: Plan, folder: Path, session: str, workers: int) -> None:
        """Begin a session of a run: open its folder (UsageError when it cannot be made) and write run.json."""
        self._plan = plan
        before = records.read_run(folder) if (folder / records.RUN).is_file() else {}
        self._recorder = records.Recorder(folder)
        # What stands there already is not written again: a run that goes on ten times grows no longer for it.
        self._known: dict[str, bytes] = {}
        if before:
            self._take_over(anew=plan.reads_anew(before))
        self._stop = folder / STOP
        self._outcomes: dict[str, Outcome] = {}
        self.counts: Counter[Outcome] = Counter()
        self.usage: Counter[str] = Counter()
        self.judge_usage: Counter[str] = Counter()
        self._judge_used = Counter(before.get("judge_usage", {}))
        self._served_by: set[str] = set()
        self._used = Counter(before.get("usage", {}))
        for ended in before.get("sessions", []):
            if "finished" not in ended and "usage" not in ended:
                self._make_up(ended)
        self._left_out: LeftOut = before.get("left_out", {})
        now = _now()
        about = plan.about()
        self._session: dict[str, Any] = {
            "session": session,
            "started": now,
            "workers": workers,
            "options": about["options"],
            "asked": 0,
            "reused": 0,
        }
        self._about: dict[str, Any] = {
            "name": folder.name,
            "started": before.get("started", now),
            "model": before.get("model", {}),
            **about,
            # A part of a run in which there is nothing to judge needs no judge.
            "judge": about["judge"] or before.get("judge"),
            "benchmarks": {**before.get("benchmarks", {}), **about["benchmarks"]},
            "sessions": [*before.get("sessions", []), self._session],
        }
        for told, used in (("usage", self._used), ("judge_usage", self._judge_used)):
            if used:
                self._about[told] = dict(used)
        if "gate" in before:
            self._about["gate"] = before["gate"]
        self.verdict: Verdict | None = None
        self._told = False
        self._write()

    def _take_over(self, *, anew: bool) -> None:
        """Note the results that are there, scored anew where answers were read by another rule."""
        known = self._plan.known.benchmarks
        for line, result in records.lines(self._recorder.folder):
            if anew and result.item.benchmark in known:
                judge = self._plan.judge
                rescored = judging.rescored(
                    result,
                    benchmark=known[result.item.benchmark],
                    extraction=self._plan.extraction,
                    settings=judge.settings if judge is not None else None,
                )
                line = records.encode(rescored)
                self._recorder.append(line)
            if result.score.outcome != "error":
                self._known[self._plan.name_of(Query(result.item, result.technique, result.sample))] = _digest(line)

    def _make_up(self, ended: dict[str, Any]) -> None:
        """Count what a session asked that did not live to say so: its answers are stored, and were paid for."""
        folder = self._recorder.folder
        shared = self._plan.options.answers or folder.parent / records.STORE
        asked, used = Counter[str](), {"candidate": Counter[str](), "judge": Counter[str]()}
        for store in (shared, folder / records.OWN_ANSWERS, folder / records.OWN_REPLIES):
            for writer, answers in records.answers_asked(store, {ended.get("session", "")}):
                asked[writer.role] += len(answers)
                used[writer.role].update(usage(answers))
        ended.update(asked=asked["candidate"], usage=dict(used["candidate"]))
        if asked["judge"]:
            ended.update(judge_asked=asked["judge"], judge_usage=dict(used["judge"]))
        self._used.update(used["candidate"])
        self._judge_used.update(used["judge"])

    def _write(self) -> None:
        records.write_json(self._recorder.folder / records.RUN, self._about)

    def take(
        self,
        lines: Sequence[str],
        outcomes: Mapping[str, Outcome],
        about: Mapping[str, Any],
        usage: Mapping[str, float],
        reused: int,
        served_by: Collection[str],
        judged: Mapping[str, Any],
    ) -> None:
        """Append results as encoded by the process that evaluated; OSError when the disk does not take them.

        Of their answers so many are `reused`, asked for in an earlier session; `usage` is that of the others. `judged`
        tells the same of a judge's replies.
        """
        # A test that asks about one item twice gives more lines than names.
        names = list(outcomes) if len(outcomes) == len(lines) else [""] * len(lines)
        for name, line in zip(names, (line.encode() for line in lines), strict=True):
            known = self._known.pop(name, None) if self._known else None
            if known is None or (known != _digest(line) and outcomes[name] != "error"):
                # An error takes no score away that is there.
                self._recorder.append(line)
        self._session["reused"] += reused
        self._session["asked"] += len(lines) - reused
        if judged["asked"] or judged["reused"]:
            for name in ("asked", "reused"):
                self._session[f"judge_{name}"] = self._session.get(f"judge_{name}", 0) + judged[name]
            self.judge_usage.update(judged["usage"])
        for name, outcome in outcomes.items():
            if name in self._outcomes:
                self.counts[self._outcomes[name]] -= 1
            self._outcomes[name] = outcome
            self.counts[outcome] += 1
        self.usage.update(usage)
        self._served_by.update(served_by)
        if about and not self._told:
            self._told = True
            self._about.update({**about, **({"judge": self._judge(about["judge"])} if "judge" in about else {})})
            self._write()

    def _judge(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """What is known of the judge, once it was made: its identity is part of the signature of what it judges."""
        for about in self._about["benchmarks"].values():
            if about.get("judged"):
                about.setdefault("signature", {})["judge"] = told["identity"]
        return {**(self._about["judge"] or {}), **told}

    def stop(self, why: str) -> None:
        """Let workers end after the item that they are asking."""
        records.write_atomic(self._stop, why.encode())

    def is_complete(self, expected: Collection[str]) -> bool:
        """Whether every expected item has a result and none ended in error."""
        return not self._missing(expected) and "error" not in self._outcomes.values()

    def _missing(self, expected: Collection[str]) -> list[str]:
        return sorted(set(expected) - self._outcomes.keys() - self._known.keys())

    def finish(self, expected: Collection[str], left_out: LeftOut, gate: Gate | None = None) -> report.Report:
        """Close the folder, decide what is gated, and write the reports."""
        self._recorder.close()
        folder = self._recorder.folder
        self._stop.unlink(missing_ok=True)
        missing = self._about["missing"] = self._missing(expected)
        records.close_journals(folder, complete=not missing)
        for own in (records.OWN_ANSWERS, records.OWN_REPLIES):
            records.remove_empty(folder / own)
        self._about["finished"] = self._session["finished"] = _now()
        if self.usage:
            self._session["usage"] = dict(self.usage)
        if used := self._used + self.usage:
            self._about["usage"] = dict(used)
        if self.judge_usage:
            self._session["judge_usage"] = dict(self.judge_usage)
        if used := self._judge_used + self.judge_usage:
            self._about["judge_usage"] = dict(used)
        if left := {**self._left_out, **left_out}:
            self._about["left_out"] = left
        if self._served_by:
            self._about["served_by"] = sorted(self._served_by)
        self._write()
        self.verdict = gates.settle(gate, folder, self._about, missing)
        known = self._plan.known
        made = report.build(folder, known.benchmarks, known.metrics, missing)
        # Thousands of images take minutes, which nobody has asked for at the end of a run.
        return report.write(made, html.draw(made, self._items, many="none"))

    def _items(self, benchmark: Benchmark) -> Sequence[Item] | None:
        return self._plan.items(benchmark.name) if benchmark.name in self._plan.benchmarks else None
