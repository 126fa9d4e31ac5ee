"""The run folder of a session in progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from medvqa import judging, records, report
from medvqa.comparing.gating import Gate, Verdict
from medvqa.items import Benchmark, DataError, Item, Outcome, QuestionKey
from medvqa.report import html
from medvqa.session import endpoints, gates, stores
from medvqa.session.about import about
from medvqa.session.delivery import Delivery, LeftOut, used
from medvqa.session.plan import Plan
from medvqa.session.replicas import pool_facts


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _earlier_names(before: Mapping[str, Any], name: str) -> dict[str, list[str]]:
    """Return the earlier names of a renamed run; its results have them."""
    names = {*before.get("names", ()), *([before["name"]] if before.get("name") else [])} - {name}
    return {"names": sorted(names)} if names else {}


def _begun(
    plan: Plan, before: Mapping[str, Any], name: str, session: str, workers: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a session that begins now, and run.json with it behind those of `before`; both are filled in place."""
    now = _now()
    fields = about(plan)
    begun = {
        "session": session,
        "started": now,
        "workers": workers,
        "options": fields["options"],
        **({"shard_source": plan.options.shard_source} if plan.options.shard_source else {}),
        "asked": 0,
        "reused": 0,
    }
    return begun, {
        "name": name,
        **_earlier_names(before, name),
        "started": before.get("started", now),
        "model": before.get("model", {}),
        **fields,
        # A session without open questions needs no judge.
        "judge": fields["judge"] or before.get("judge"),
        "benchmarks": {**before.get("benchmarks", {}), **fields["benchmarks"]},
        "sessions": [*before.get("sessions", []), begun],
    }


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).digest()


class Recording:
    """Appends results as they come, and writes the reports at the end."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        session: str,
        workers: int,
        selected: Collection[QuestionKey] = (),
        *,
        empty_shard: bool = False,
    ) -> None:
        """Begin a session of a run: open its folder (UsageError when it cannot be made) and write run.json.

        `selected`: the known keys of all sessions of the run. `empty_shard`: it is known that there are none.
        """
        self._plan = plan
        self._empty_shard = empty_shard
        before = records.read_run(folder) if (folder / records.RUN).is_file() else {}
        self._recorder = records.Recorder(folder)
        # Stored results are not appended again, so that continuing a run does not grow its file.
        self._stored: dict[QuestionKey, bytes] = {}
        anew = not before or plan.reads_anew(before)
        if before:
            self._take_over(anew=anew)
        self._outcomes: dict[QuestionKey, Outcome] = {}
        self.counts: Counter[Outcome] = Counter()
        self.usage: Counter[str] = Counter()
        self.judge_usage: Counter[str] = Counter()
        self._judge_used = Counter(before.get("judge_usage", {}))
        self._served_by: set[str] = set()
        self.engine: Mapping[str, Any] = {}
        """The last state of a pool of models."""
        self.endpoints: endpoints.Endpoints = {}
        self.judge_endpoints: endpoints.Endpoints = {}
        """The numbers of the model's and the judge's endpoints in this session."""
        self._endpoints_before = before.get("engine", {}).get("endpoints", {})
        self._judge_endpoints_before = (before.get("judge") or {}).get("endpoints", {})
        self._identities: list[Mapping[str, Any]] = []
        self._used = Counter(before.get("usage", {}))
        for session_before in before.get("sessions", []):
            if "finished" not in session_before and "usage" not in session_before:
                self._make_up(session_before)
        self._left_out: LeftOut = before.get("left_out", {})
        self._session, self._about = _begun(plan, before, folder.name, session, workers)
        # Results of earlier sessions keep their edition of the rules, and the run is called after the oldest.
        if not anew:
            self._about.pop("reading_rules", None)
            self._about |= {name: before[name] for name in ("reading_rules",) if name in before}
        for field, total in (("usage", self._used), ("judge_usage", self._judge_used)):
            if total:
                self._about[field] = dict(total)
        # Rules stored before the first answer, and the parts of a merged run.
        self._about |= {name: before[name] for name in ("gate", "merged") if name in before}
        self._before = records.Selection.of(before)
        self._covered: records.Coverage | None = None
        self._select(selected)
        if before:
            report.remove(folder)
        self.verdict: Verdict | None = None
        self._has_facts = False
        self._write()

    def _select(self, selected: Collection[QuestionKey]) -> None:
        """Note the selection of all sessions, this one included, in run.json."""
        if selected or self._empty_shard:
            how, chosen = (*self._before.how, *self._plan.setting.selects), self._plan.setting.by_outcome
            by_outcome = self._before.by_outcome or chosen
            every = self._plan.has_every_answer(selected)
            if self._before.benchmarks.keys() - self._plan.benchmarks.keys():
                # This session's plan does not know the questions of these benchmarks.
                every = every and self._before.every
            selection = records.select_from(selected, self._about, how, by_outcome=by_outcome, every=every)
            # Lost keys stay counted until as many questions are selected again.
            questions = max(self._before.questions, selection.questions)
            self._about["selection"] = replace(selection, questions=questions).as_json()

    def _take_over(self, *, anew: bool) -> None:
        """Note the results of earlier sessions; score them again if they were read by other rules."""
        benchmarks = self._plan.registry.benchmarks
        for line, result in records.lines(self._recorder.folder):
            if anew and result.item.benchmark in benchmarks:
                judge = self._plan.judge
                rescored = judging.rescored(
                    result,
                    benchmark=benchmarks[result.item.benchmark],
                    extraction=self._plan.extraction,
                    settings=judge.settings if judge is not None else None,
                )
                line = records.encode(rescored)
                self._recorder.append(line)
            if result.score.outcome != "error":
                self._stored[result.key] = _digest(line)

    def _make_up(self, killed: dict[str, Any]) -> None:
        """Count the stored answers of a killed session: they were paid for."""
        folder = self._recorder.folder
        shared, _ = stores.of(self._plan.options.answers, folder.parent)
        numbers, usage = Counter[str](), {"candidate": Counter[str](), "judge": Counter[str]()}
        for store in (shared, folder / records.OWN_ANSWERS, folder / records.OWN_REPLIES):
            for writer, answers in records.answers_asked(store, {killed.get("session", "")}):
                numbers[writer.role] += len(answers)
                usage[writer.role].update(used(answers))
        killed.update(asked=numbers["candidate"], usage=dict(usage["candidate"]))
        if numbers["judge"]:
            killed.update(judge_asked=numbers["judge"], judge_usage=dict(usage["judge"]))
        self._used.update(usage["candidate"])
        self._judge_used.update(usage["judge"])

    def _write(self) -> None:
        records.write_json(self._recorder.folder / records.RUN, self._about)

    def take(self, delivery: Delivery) -> None:
        """Append the results of a delivery.

        OSError if they cannot be written, DataError if a worker read other data than run.json describes.
        """
        for name, digest in delivery.data.items():
            if digest != (own := self._about["benchmarks"][name]["data_sha256"]):
                raise DataError(
                    f"benchmark {name}: its items differ between processes: their digest is {own[:12]} where the run "
                    f"began, and {digest[:12]} in a worker. Draw nothing in them, or draw with a fixed seed"
                )
        for line, (key, outcome) in zip(map(str.encode, delivery.lines), delivery.outcomes, strict=True):
            stored = self._stored.pop(key, None) if self._stored else None
            if stored is None or (stored != _digest(line) and outcome != "error"):
                # An error does not replace a score.
                self._recorder.append(line)
            if key in self._outcomes:
                self.counts[self._outcomes[key]] -= 1
            self._outcomes[key] = outcome
            self.counts[outcome] += 1
        self._session["reused"] += delivery.reused
        self._session["asked"] += len(delivery.lines) - delivery.reused
        if delivery.judge_asked or delivery.judge_reused:
            for name, number in (("judge_asked", delivery.judge_asked), ("judge_reused", delivery.judge_reused)):
                self._session[name] = self._session.get(name, 0) + number
            self.judge_usage.update(delivery.judge_usage)
        self.usage.update(delivery.usage)
        if delivery.stopped:
            self.note_stop(delivery.stopped)
        if delivery.identity is not None:
            self._identities.append(delivery.identity)
        self._served_by.update(delivery.served_by)
        if delivery.engine:
            self.engine = delivery.engine
        self.endpoints = endpoints.added(self.endpoints, delivery.endpoints)
        self.judge_endpoints = endpoints.added(self.judge_endpoints, delivery.judge_endpoints)
        if delivery.facts and not self._has_facts:
            self._has_facts = True
            facts = dict(delivery.facts)
            self._about.update({**facts, **({"judge": self._judge(facts["judge"])} if "judge" in facts else {})})
            self._write()

    def _judge(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The judge's fields in run.json once it is loaded; its identity enters the signatures of judged benchmarks."""
        for fields in self._about["benchmarks"].values():
            if fields.get("judged"):
                fields.setdefault("signature", {})["judge"] = facts["identity"]
        return {**(self._about["judge"] or {}), **facts}

    @property
    def complete(self) -> bool:
        """Whether every selected question of the run has a result, and none of this session ended in error."""
        return self._covered is not None and self._covered.finished and "error" not in self._outcomes.values()

    @property
    def missing(self) -> Sequence[str]:
        """Names of selected questions without a result, of all sessions; known after `finish`."""
        return self._covered.missing if self._covered is not None else ()

    def note_stop(self, why: str) -> None:
        """Note why this session stopped early; the first reason counts."""
        self._session.setdefault("stopped", why)

    def note_unshared(self, number: int | None) -> None:
        """Note how many answers of this machine a shared store lacks; None without such a store."""
        if number is not None:
            self._session["unshared_answers"] = self._about["unshared_answers"] = number

    def finish(self, selected: Collection[QuestionKey], left_out: LeftOut, gate: Gate | None = None) -> report.Report:
        """Close the folder, find missing results, decide the gate, and write the reports.

        `selected` are the keys that all sessions of the run selected.
        """
        self._recorder.close()
        folder = self._recorder.folder
        self._select(selected)
        stored = records.read(folder)
        self._covered = covered = records.coverage(folder, self._about, stored, selected)
        self._about["missing"] = list(covered.missing)
        records.close_journals(folder, complete=not covered.missing)
        for own in (records.OWN_ANSWERS, records.OWN_REPLIES):
            records.remove_empty(folder / own)
        self._about["finished"] = self._session["finished"] = _now()
        if self._session["reused"]:
            self._session["identity"] = records.joined_identity(self._identities, self._session["reused"])
        if self.usage:
            self._session["usage"] = dict(self.usage)
        if total := self._used + self.usage:
            self._about["usage"] = dict(total)
        if self.judge_usage:
            self._session["judge_usage"] = dict(self.judge_usage)
        if total := self._judge_used + self.judge_usage:
            self._about["judge_usage"] = dict(total)
        if left := {**self._left_out, **left_out}:
            self._about["left_out"] = left
        if self.engine:
            self._about["engine"] = {**self._about.get("engine", {}), **pool_facts(self.engine)}
        if asked := endpoints.added(self._endpoints_before, self.endpoints):
            self._about["engine"] = {**self._about.get("engine", {}), "endpoints": asked}
        if asked := endpoints.added(self._judge_endpoints_before, self.judge_endpoints):
            self._about["judge"] = {**(self._about["judge"] or {}), "endpoints": asked}
        if self._served_by:
            self._about["served_by"] = sorted(self._served_by)
        self._write()
        self.verdict = gates.settle(gate, folder, self._about, covered, stored)
        # An earlier session may have asked a benchmark whose file this one does not name.
        known = self._plan.registry.with_runs([folder]).benchmarks
        drawn = report.build(folder, known, stored, data=self._plan.options.data)
        # Thousands of images would take minutes: `medvqa report --images` draws them.
        return report.write(drawn, html.draw(drawn, self._items, many="none"))

    def _items(self, benchmark: Benchmark) -> Sequence[Item] | None:
        return self._plan.items(benchmark.name) if benchmark.name in self._plan.benchmarks else None
