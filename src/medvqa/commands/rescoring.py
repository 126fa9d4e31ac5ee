"""Score stored answers again, by a judge or another rule, without asking the model.

Results and run.json change once every answer is scored, so that no run has two judges. Replies are stored at once.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from msgspec import structs

from medvqa import benchmarks, engine, files, judging, metrics, scoring
from medvqa.commands.judge_checks import check_judge
from medvqa.items import OPTION_TECHNIQUES, Benchmark, Extraction, Item, Kind, Result, UsageError
from medvqa.judging import may_ask
from medvqa.protocols import rotation
from medvqa.protocols.question_forms import offered
from medvqa.records import run_folder, run_record
from medvqa.records.private import Pseudonyms
from medvqa.records.run_folder import Recorder
from medvqa.records.run_record import RecordedBenchmark, RecordedJudge, RecordedSession, RunRecord, part_of
from medvqa.scoring import rules
from medvqa.session import uploads
from medvqa.session.ending import interruptible
from medvqa.session.judge_replies import Replies, in_order, judge_of
from medvqa.session.judging import Judging, judged, resolve
from medvqa.session.options import Options
from medvqa.session.project import Project


@dataclass(frozen=True)
class Rescoring:
    """The results of a run folder, and the rules to score them by; made by `_plan`.

    `about`: its record. `known`: the benchmarks by name.
    """

    folder: Path
    options: Options
    about: RunRecord
    results: tuple[Result, ...]
    known: Mapping[str, Benchmark]
    extraction: Extraction
    judging: Judging | None
    root: Path

    @property
    def by_benchmark(self) -> dict[str, list[Result]]:
        """The results by benchmark, in name order."""
        names = sorted({result.item.benchmark for result in self.results})
        return {name: [result for result in self.results if result.item.benchmark == name] for name in names}

    def judged(self, name: str, results: Iterable[Result]) -> dict[str, str]:
        """Return the prompts of the judge about these results, as task -> template."""
        results = list(results)
        techniques = sorted({result.technique for result in results})
        settings = None if self.judging is None else self.judging.settings
        return judged(self.known[name], [result.item for result in results], techniques, settings)

    def judged_by(self, name: str, results: Sequence[Result]) -> list[str]:
        """Return the techniques with answers for the judge."""
        techniques = sorted({result.technique for result in results})
        return [t for t in techniques if self.judged(name, (r for r in results if r.technique == t))]


def rescore(
    folder: Path,
    project: Project,
    *,
    as_before: bool,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> str | None:
    """Score the answers of a run again, and write them. Return None, or the reason why the run is unchanged.

    `as_before`: read answers by the rule of the run, not of the options. `say` gets messages, `progress` the numbers of
    scored and of all results. UsageError, DataError.
    """
    planned = _plan(folder, project, as_before)
    for line in _check(planned):
        say(line)
    with interruptible():
        return _rescore(planned, say, progress)


def _plan(folder: Path, project: Project, as_before: bool) -> Rescoring:
    """Read the run folder and resolve the judge (UsageError, DataError)."""
    options, registered = project.options, project.registry.benchmarks
    about, stored = run_record.read_run(folder), run_folder.read(folder)
    benchmarks.check_known(f"{folder} holds", stored.results, registered)
    items: dict[str, list[Item]] = {}
    for result in stored.results:
        items.setdefault(result.item.benchmark, []).append(result.item)
    present = [registered[name] for name in items]
    extraction = rules.recorded(about.extraction, present) if as_before else rules.resolve(options.extraction, present)
    if not as_before:
        rules.check(extraction, items, registered)
    # Without --judge, --ff-gap applies to the recorded replies.
    judging = resolve(project if options.judge is not None else replace(project, options=replace(options, ff_gap=None)))
    return Rescoring(folder, options, about, stored.results, registered, extraction, judging, project.root)


def _check(rescoring: Rescoring) -> list[str]:
    """Raise UsageError if the answers cannot be scored so; return a line if data will be sent to another machine."""
    options, judging, about = rescoring.options, rescoring.judging, rescoring.about
    held = rescoring.by_benchmark
    if judging is None:
        was = rules.recorded(about.extraction, [rescoring.known[name] for name in held])
        if rescoring.extraction != was and about.judge is not None and about.judged_by_rule:
            raise UsageError(
                f"--extraction={rescoring.extraction}: by it other answers of {rescoring.folder} would be left to the "
                f"judge; add --judge={about.judge.typed} --extract-with=judge"
            )
        return []
    counts = {
        name: sum(may_ask(rescoring.known[name], result.item, result.technique, judging.settings) for result in results)
        for name, results in held.items()
    }
    sent = {name: count for name, count in counts.items() if count}
    kept = check_judge(
        judging.chosen, options, rescoring.folder, uploads.in_words(sent), rescoring.known, rescoring.root
    )
    return [line for line in (judging.notice(list(sent)), kept) if line is not None]


def _rescore(rescoring: Rescoring, say: Callable[[str], None], progress: Callable[[int, int], None]) -> str | None:
    options, results, folder = rescoring.options, rescoring.results, rescoring.folder
    started, session, replies = _now(), secrets.token_hex(4), Replies()
    facts: Mapping[str, Any] = {}
    if rescoring.judging is None:
        settings = _settings(rescoring.about, options.ff_gap)
        scored = [_by_rule(rescoring, result, settings) for result in results]
        if options.ff_gap is not None:
            scored = _by_lead(rescoring, scored, settings)
    else:
        asked = [rescoring.known[name] for name in rescoring.by_benchmark]
        with judge_of(folder, options, rescoring.judging, session, asked, say) as loaded:
            facts = loaded.entry
            scored = list(_judged(rescoring, loaded.judge, replies, say, progress))
    if len(scored) < len(results):
        without = " without --fresh" if options.fresh else ""
        return (
            f"stopped after {len(scored)} results: {folder} is as it was. {replies.asked} replies were asked for, "
            f"which are stored; to go on, type the same again{without}"
        )
    if lost := [now for was, now in zip(results, scored, strict=True) if _is_lost(was, now)]:
        return (
            f"{len(lost)} results that have a score got no answer of the judge, the first: {lost[0].score.why}. "
            f"{folder} is as it was; replies are stored: to go on, type the same again"
        )
    about = _about(rescoring, facts)
    if rescoring.judging is None and options.ff_gap is not None:
        about = _with_lead(about, options.ff_gap)
    rescored = RecordedSession(
        session=session,
        started=started,
        finished=_now(),
        rescored={"judge": options.judge, "extraction": rescoring.extraction, "ff_gap": options.ff_gap},
        judge_asked=replies.asked,
        judge_reused=replies.reused,
        judge_usage=dict(replies.usage),
    )
    usage = Counter(rescoring.about.judge_usage) + replies.usage
    about = structs.replace(about, sessions=(*about.sessions, rescored), judge_usage=dict(usage))
    _write(folder, about, results, scored)
    return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _settings(about: RunRecord, gap: float | None) -> judging.Settings | None:
    """Return the judge settings of the run, or with another lead: answers without a judge are scored as before."""
    stored = None if about.judge is None else about.judge.settings
    if stored is None:
        return None
    return judging.Settings(stored.gap if gap is None else gap, stored.extract, stored.rules_first)


def _by_rule(rescoring: Rescoring, result: Result, settings: judging.Settings | None = None) -> Result:
    benchmark = rescoring.known[result.item.benchmark]
    perturb = rescoring.about.protocol.perturb
    return judging.rescored(
        result, benchmark=benchmark, extraction=rescoring.extraction, settings=settings, perturb=perturb
    )


def _by_lead(rescoring: Rescoring, results: Sequence[Result], settings: judging.Settings | None) -> list[Result]:
    """Score results by another lead, from recorded replies (UsageError if there are none)."""
    if settings is None or not any(result.judgement and result.judgement.task == "closeness" for result in results):
        raise UsageError(
            f"--ff-gap={rescoring.options.ff_gap:g}: no judge has compared answers of {rescoring.folder} with their "
            "options; add --judge=MODEL"
        )
    by_name = rescoring.known
    return [judging.led_by(result, benchmark=by_name[result.item.benchmark], settings=settings) for result in results]


def _with_lead(about: RunRecord, gap: float) -> RunRecord:
    """Return the record with another lead."""
    lead, judge = {"ff_gap": f"{gap:g}"}, about.judge
    if judge is None or judge.settings is None:
        return about

    def led(signature: Mapping[str, str]) -> dict[str, str]:
        return {**signature, **(lead if "ff_gap" in signature else {})}

    settings = structs.replace(judge.settings, gap=gap)
    return structs.replace(
        about,
        judge=structs.replace(judge, settings=settings, signature=led(judge.signature)),
        benchmarks={
            name: structs.replace(fields, signature=led(fields.signature)) for name, fields in about.benchmarks.items()
        },
    )


def _judged(
    rescoring: Rescoring,
    judge: engine.Judge,
    replies: Replies,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> Iterator[Result]:
    """Yield the results in order with the judge's scores; fewer if judging was stopped.

    Submits as many answers ahead as keep the judge busy.
    """

    def finish(result: Result, pending: engine.Pending | None) -> tuple[Result, str]:
        if pending is None:
            return result, ""
        finished = judge.finish(pending)
        replies.add(finished.new_replies, finished.reused)
        score = rotation.score_back(finished.score, result.item, result.variant)
        judged = replace(result, score=score, judgement=finished.judgement)
        if score.outcome == "error" and not rescoring.known[result.item.benchmark].public:
            # The files and groups of a stored result have pseudonyms already; the judge's words may quote its texts.
            hidden = Pseudonyms.of((), digests=False).hidden(judged)
            judged = replace(judged, score=hidden.score)
        return judged, judged.score.why if score.outcome == "error" else ""

    yield from in_order(
        rescoring.results,
        lambda result: _begun(rescoring, result, judge),
        finish,
        judge.ahead,
        replies,
        rescoring.options,
        say=say,
        progress=progress,
    )


def _begun(rescoring: Rescoring, result: Result, judge: engine.Judge) -> tuple[Result, engine.Pending | None]:
    """Score a result by rule, and submit it to the judge if needed; return both."""
    if result.answer is None or result.technique in OPTION_TECHNIQUES:
        return result, None
    benchmark = rescoring.known[result.item.benchmark]
    item = rotation.as_shown(offered(result.item, rescoring.about.protocol.perturb), result.variant)
    ruled = _by_rule(rescoring, replace(result, judgement=None))
    score = scoring.by_rule(item, result.technique, result.answer, benchmark=benchmark, extraction=rescoring.extraction)
    return ruled, judge.begin(benchmark, item, result.technique, result.answer, score)


def _is_lost(was: Result, now: Result) -> bool:
    """Whether the error of an unreachable judge would replace a score."""
    unreached = now.judgement is not None and not now.judgement.replies and now.score.outcome == "error"
    return unreached and was.score.outcome not in ("error", "unscored")


def _about(rescoring: Rescoring, facts: Mapping[str, Any]) -> RunRecord:
    """Return the record of the rescored run; `facts`: the loaded judge's fields."""
    before, judging = rescoring.about, rescoring.judging
    results_of = rescoring.by_benchmark
    judge = before.judge
    if judging is not None:
        judge = part_of(RecordedJudge, judging.recorded().as_json() | dict(facts))
    return structs.replace(
        before,
        extraction=rescoring.extraction,
        reading_rules=rules.EDITION,
        judge=judge,
        benchmarks={
            name: _rescored(rescoring, name, fields, results_of.get(name, []), judge)
            for name, fields in before.benchmarks.items()
        },
    )


def _rescored(
    rescoring: Rescoring, name: str, fields: RecordedBenchmark, results: Sequence[Result], judge: RecordedJudge | None
) -> RecordedBenchmark:
    """Return a benchmark of the record as scored now."""
    benchmark, judging, extraction = rescoring.known.get(name), rescoring.judging, rescoring.extraction
    others = rescoring.about.judge_signed if judging is not None else frozenset()
    signature = {part: value for part, value in fields.signature.items() if part not in others}
    read_by: dict[str, str] = {}
    kinds = cast("tuple[Kind, ...]", fields.kinds) or {result.item.kind for result in results}
    if benchmark is not None and kinds:
        rule_of = rules.read_by(benchmark, extraction, kinds)
        signature["extraction"] = metrics.reading(rule_of)
        read_by = {str(kind): rule for kind, rule in rule_of.items()} if rules.is_official(extraction) else {}
    tasks, techniques = fields.judged, fields.judged_by
    if benchmark is not None and judging is not None and judge is not None:
        tasks, techniques = rescoring.judged(name, results), tuple(rescoring.judged_by(name, results))
        if tasks:
            signature |= {**judging.settings.signature(benchmark), "judge": judge.identity}
    return structs.replace(fields, judged=tasks, judged_by=techniques or (), signature=signature, read_by=read_by)


def _write(folder: Path, about: RunRecord, before: Iterable[Result], now: Iterable[Result]) -> None:
    """Append the changed results. Until all are written, run.json says `rescoring`."""
    with files.writing(str(folder)):
        run_record.write_run(folder, structs.replace(about, rescoring=True))
        recorder = Recorder(folder)
        try:
            for was, result in zip(before, now, strict=True):
                if was != result:
                    recorder.append(run_folder.encode(result))
        finally:
            recorder.close()
        run_record.write_run(folder, structs.replace(about, rescoring=False))
