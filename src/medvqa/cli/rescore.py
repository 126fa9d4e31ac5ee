"""`medvqa rescore`: stored answers scored again, by a judge or another rule; the model is asked nothing."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa.cli.common import Commands, known_from, say
from medvqa.items import (
    OPTION_TECHNIQUES,
    Benchmark,
    Extraction,
    Item,
    MedVQAError,
    Result,
    UsageError,
)
from medvqa.session.options import DEFAULT_MAX_ERRORS, ENV_DATA

if TYPE_CHECKING:
    from medvqa import engine, judging
    from medvqa.session.judges import Judging


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    rescore = commands.add_parser(
        "rescore",
        parents=[common],
        help="score the answers of a run again, by a judge or another rule; the model is asked nothing",
    )
    rescore.add_argument("run", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    rescore.add_argument("--judge", metavar="MODEL", help="what judges: a config of models/, or BACKEND:ARGUMENT")
    rescore.add_argument(
        "--ff-gap",
        type=float,
        metavar="POINTS",
        help="as for pytest; without --judge, from the replies that the run holds",
    )
    rescore.add_argument("--extract-with", metavar="WHAT", help="as for pytest")
    rescore.add_argument("--rules-first", action="store_true", help="as for pytest")
    rescore.add_argument("--judge-prompt", action="append", default=[], metavar="TASK:FILE", help="as for pytest")
    rescore.add_argument("--extraction", metavar="RULE", help="how answers are read (default: as they were)")
    rescore.add_argument(
        "--answers", type=Path, metavar="DIR", help="where replies are stored (default: .answers beside the run folder)"
    )
    rescore.add_argument("--fresh", action="store_true", help="ask the judge everything anew, whatever is stored")
    rescore.add_argument("--allow-upload", action="store_true", help="as for pytest")
    rescore.add_argument("--trust-remote-code", action="store_true", help="as for pytest")
    rescore.add_argument("--max-cost", type=float, metavar="SUM", help="stop when judging has cost this much")
    rescore.add_argument("--deadline", type=float, metavar="SECONDS", help="as for pytest")
    rescore.add_argument(
        "--max-errors",
        type=int,
        default=DEFAULT_MAX_ERRORS,
        metavar="N",
        help="stop after N errors in a row (0: never)",
    )
    rescore.add_argument(
        "--data", type=Path, default=os.environ.get(ENV_DATA), metavar="DIR", help="where images of the page are read"
    )
    rescore.set_defaults(command=run)


@dataclass(slots=True)
class _Tally:
    """What judging took: replies asked for and reused, and what the former used."""

    asked: int = 0
    reused: int = 0
    usage: Counter[str] = field(default_factory=Counter)

    def add(self, judged: engine.JudgedAnswer) -> None:
        self.asked += len(judged.asked)
        self.reused += judged.reused
        for reply in judged.asked:
            self.usage.update(reply.usage or {})


def run(options: argparse.Namespace) -> tuple[str, bool]:
    """The summary of the run as it is scored now, and whether anything in it ended in an error.

    Results and run.json change once all is scored, so that no run is judged by two; replies are stored as they come.
    """
    from medvqa import benchmarks, records

    known = known_from(options.plugin).benchmarks
    about, stored = records.read_run(options.run), records.read(options.run)
    for result in stored.results:
        if result.item.benchmark not in known:
            raise benchmarks.not_known(f"{options.run} holds", result.item.benchmark, known)
    extraction = _extraction(options, about, stored.results, known)
    judging = _judging(options)
    _check(options, about, stored.results, extraction, judging, known)
    started, session, tally = _now(), secrets.token_hex(4), _Tally()
    if judging is None:
        settings = _settings(about, options.ff_gap)
        scored = [_by_rule(result, known, extraction, settings) for result in stored.results]
        if options.ff_gap is not None:
            scored = _by_lead(options, scored, known, settings)
        told: Mapping[str, Any] = {}
    else:
        with _judge(options, judging, session) as (judge, told):
            scored = list(_scored(options, stored.results, known, extraction, judge, tally))
    if len(scored) < len(stored.results):
        return _stopped(options, scored, tally), True
    if lost := [now for was, now in zip(stored.results, scored, strict=True) if _is_lost(was, now)]:
        return (
            f"{len(lost)} results that have a score got no answer of the judge, the first: {lost[0].score.why}. "
            f"{options.run} is as it was; replies are stored: to go on, type the same again"
        ), True
    now = _about(about, scored, known, extraction, judging, told)
    if judging is None and options.ff_gap is not None:
        now = _with_lead(now, options.ff_gap)
    now["sessions"] = [
        *about.get("sessions", []),
        {
            "session": session,
            "started": started,
            "finished": _now(),
            "rescored": {"judge": options.judge, "extraction": extraction, "ff_gap": options.ff_gap},
            "asked": 0,
            "reused": 0,
            "judge_asked": tally.asked,
            "judge_reused": tally.reused,
            **({"judge_usage": dict(tally.usage)} if tally.usage else {}),
        },
    ]
    if used := Counter(about.get("judge_usage", {})) + tally.usage:
        now["judge_usage"] = dict(used)
    _write(options.run, now, stored.results, scored)
    return _reported(options), any(result.score.outcome == "error" for result in scored)


def _extraction(
    options: argparse.Namespace,
    about: Mapping[str, Any],
    results: Sequence[Result],
    known: Mapping[str, Benchmark],
) -> Extraction:
    """The rule that was asked for, or that of the run (UsageError)."""
    from medvqa.scoring import rules

    items: dict[str, list[Item]] = {}
    for result in results:
        items.setdefault(result.item.benchmark, []).append(result.item)
    benchmarks = [known[name] for name in items]
    if options.extraction is None:
        return rules.recorded(about, benchmarks)
    extraction = rules.resolve(options.extraction, benchmarks)
    rules.check(extraction, items, known)
    return extraction


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _judging(options: argparse.Namespace) -> Judging | None:
    """The judge that was asked for (UsageError)."""
    from medvqa.data import folders
    from medvqa.session import judges

    # Without a judge another lead takes the replies that are recorded.
    gap = options.ff_gap if options.judge is not None else None
    return judges.resolve(
        judges.Typed(options.judge, gap, options.extract_with, options.rules_first, tuple(options.judge_prompt)),
        folders=[Path("models"), folders.bundled("models")],
        backends=known_from(options.plugin).backends,
        beside=Path(),
    )


def _check(
    options: argparse.Namespace,
    about: Mapping[str, Any],
    results: Sequence[Result],
    extraction: Extraction,
    judging: Judging | None,
    known: Mapping[str, Benchmark],
) -> None:
    """UsageError for what cannot or may not be done, before anything is asked."""
    from medvqa import records
    from medvqa.scoring import rules

    names = sorted({result.item.benchmark for result in results})
    if judging is None:
        was = rules.recorded(about, [known[name] for name in names])
        if extraction != was and records.judged_by_rule(about, {}):
            raise UsageError(
                f"--extraction={extraction}: by it other answers of {options.run} would be left to the judge; add "
                f"--judge={records.judge_name(about['judge'])} --extract-with=judge"
            )
        return
    judging.check(trust_remote_code=options.trust_remote_code)
    service = judging.service
    if options.max_cost is not None and not (options.max_cost > 0 and service is not None and service.priced):
        raise UsageError(
            f"--max-cost={options.max_cost:g}: a sum of more than 0, for a judge whose config gives price_input and "
            "price_output"
        )
    if service is None or not service.remote:
        return
    sent = [name for name in names if _judged(known[name], results, judging)]
    kept = [name for name in sent if not known[name].upload]
    if kept and not options.allow_upload:
        raise UsageError(
            f"{', '.join(kept)}: released on request, and '{judging.spec}' sends questions, references and answers to "
            f"{service.origin}. Add --allow-upload if your agreement with the owners permits it"
        )
    if sent and (notice := judging.notice(sent)) is not None:
        say(notice)


def _judged(benchmark: Benchmark, results: Sequence[Result], judging: Judging) -> dict[str, str]:
    from medvqa.session import judges

    own = [result for result in results if result.item.benchmark == benchmark.name]
    techniques = sorted({result.technique for result in own})
    return judges.judged(benchmark, [result.item for result in own], techniques, judging.settings)


def _judged_by(benchmark: Benchmark, results: Sequence[Result], judging: Judging) -> list[str]:
    techniques = {result.technique for result in results if result.item.benchmark == benchmark.name}
    only = {each: [result for result in results if result.technique == each] for each in sorted(techniques)}
    return [each for each, asked in only.items() if _judged(benchmark, asked, judging)]


@contextmanager
def _judge(
    options: argparse.Namespace, judging: Judging, session: str
) -> Iterator[tuple[engine.Judge, Mapping[str, Any]]]:
    """The judge with its store, and what run.json says of it."""
    from medvqa import engine, records
    from medvqa.session.memory import Memory

    try:
        records.bury(options.run, "earlier")
    except OSError as error:
        raise UsageError(f"{options.run} cannot be written: {error.strerror}") from error
    journal = records.Journal(options.run, "rescore")
    shared = options.answers or options.run.absolute().parent / records.STORE
    model = judging.make()
    store = judging.store(model, shared, options.run.absolute(), session, fresh=options.fresh)
    memory = Memory(store, journal, records.Suspects(options.run, session))
    budget = inf if options.max_cost is None else options.max_cost
    limits = engine.Limits.of(model, deadline=options.deadline, budget=budget)
    traffic = engine.Traffic(judging.secrets)
    judge = engine.Judge(model, judging.settings, limits, memory, traffic=traffic)
    told = judging.told(model)
    try:
        yield judge, {**told, "batch_size": limits.batch_size, "concurrency": limits.concurrency}
    finally:
        judge.close()
        memory.close()
        if (close := getattr(model, "close", None)) is not None:
            close()
        records.close_journals(options.run, complete=False)


def _settings(about: Mapping[str, Any], gap: float | None = None) -> judging.Settings | None:
    """How the run was judged, or by another lead: what a judge need not see is scored as it was."""
    from medvqa import judging

    told = (about.get("judge") or {}).get("settings")
    if told is None:
        return None
    return judging.Settings(told["gap"] if gap is None else gap, told["extract"], told["rules_first"])


def _by_lead(
    options: argparse.Namespace,
    results: Sequence[Result],
    known: Mapping[str, Benchmark],
    settings: judging.Settings | None,
) -> list[Result]:
    """The results by another lead of an option, from recorded replies (UsageError where there are none)."""
    from medvqa import judging

    if settings is None or not any(each.judgement and each.judgement.task == "closeness" for each in results):
        raise UsageError(
            f"--ff-gap={options.ff_gap:g}: no judge has compared answers of {options.run} with their options; add "
            "--judge=MODEL"
        )
    return [judging.led_by(result, benchmark=known[result.item.benchmark], settings=settings) for result in results]


def _with_lead(about: Mapping[str, Any], gap: float) -> dict[str, Any]:
    """run.json with another lead."""
    told, judge = {"ff_gap": f"{gap:g}"}, about["judge"]

    def led(signature: Mapping[str, str]) -> dict[str, str]:
        return {**signature, **(told if "ff_gap" in signature else {})}

    return {
        **about,
        "judge": {
            **judge,
            "settings": {**judge["settings"], "gap": gap},
            "signature": led(judge["signature"]),
        },
        "benchmarks": {
            name: {**said, "signature": led(said.get("signature", {}))} for name, said in about["benchmarks"].items()
        },
    }


def _by_rule(
    result: Result, known: Mapping[str, Benchmark], extraction: Extraction, settings: judging.Settings | None
) -> Result:
    from medvqa import judging

    return judging.rescored(result, benchmark=known[result.item.benchmark], extraction=extraction, settings=settings)


def _scored(
    options: argparse.Namespace,
    results: Sequence[Result],
    known: Mapping[str, Benchmark],
    extraction: Extraction,
    judge: engine.Judge,
    tally: _Tally,
) -> Iterator[Result]:
    """The results in their order as the judge has them, fewer where judging was stopped.

    The judge is given as much ahead as keeps it busy.
    """
    waiting: deque[tuple[Result, engine.Pending | None]] = deque()
    left = iter(results)
    errors = number = 0
    try:
        while True:
            while len(waiting) < judge.ahead and (result := next(left, None)) is not None:
                waiting.append(_begun(result, known, extraction, judge))
            if not waiting:
                return
            result, pending = waiting.popleft()
            if pending is not None:
                judged = judge.finish(pending)
                tally.add(judged)
                result = replace(result, score=judged.score, judgement=judged.judgement)
                if judged.judgement is not None:
                    errors = errors + 1 if judged.score.outcome == "error" else 0
            if 0 < options.max_errors <= errors:
                say(f"medvqa: {errors} errors in a row, the last: {result.score.why}")
                return
            if tally.usage["cost"] >= (inf if options.max_cost is None else options.max_cost):
                say(f"medvqa: judging has cost {tally.usage['cost']:.4g}")
                return
            yield result
            number += 1
            _progress(number, len(results))
    except KeyboardInterrupt:
        say("medvqa: interrupted")


def _progress(number: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r  {number}/{total} results", end="\n" if number == total else "", file=sys.stderr, flush=True)


def _begun(
    result: Result, known: Mapping[str, Benchmark], extraction: Extraction, judge: engine.Judge
) -> tuple[Result, engine.Pending | None]:
    """A result by rule, and what the judge is asked about it."""
    from medvqa import judging

    if result.answer is None or result.technique in OPTION_TECHNIQUES:
        return result, None
    benchmark = known[result.item.benchmark]
    ruled = judging.rescored(replace(result, judgement=None), benchmark=benchmark, extraction=extraction)
    return ruled, judge.begin(benchmark, result.item, result.technique, result.answer, ruled.score)


def _is_lost(was: Result, now: Result) -> bool:
    """Whether a score would give way to a judge who cannot be reached."""
    unheard = now.judgement is not None and not now.judgement.replies and now.score.outcome == "error"
    return unheard and was.score.outcome not in ("error", "unscored")


def _stopped(options: argparse.Namespace, scored: Sequence[Result], tally: _Tally) -> str:
    without = " without --fresh" if options.fresh else ""
    return (
        f"stopped after {len(scored)} results: {options.run} is as it was. {tally.asked} replies were asked for, which "
        f"are stored; to go on, type the same again{without}"
    )


def _about(
    about: Mapping[str, Any],
    results: Sequence[Result],
    known: Mapping[str, Benchmark],
    extraction: Extraction,
    judging: Judging | None,
    told: Mapping[str, Any],
) -> dict[str, Any]:
    """run.json of the run as it is scored now."""
    from medvqa import metrics, records
    from medvqa.scoring import rules

    now = {**about, "extraction": extraction, "benchmarks": {}}
    others = records.signed(about) if judging is not None else frozenset()
    if judging is not None:
        now["judge"] = {**judging.about(), **told}
    for name, said in about.get("benchmarks", {}).items():
        benchmark = known.get(name)
        signature = {part: value for part, value in said.get("signature", {}).items() if part not in others}
        said = {part: value for part, value in said.items() if part != "read_by"}
        kinds = said.get("kinds") or {result.item.kind for result in results if result.item.benchmark == name}
        if benchmark is not None and kinds:
            read_by = rules.read_by(benchmark, extraction, kinds)
            signature["extraction"] = metrics.reading(read_by)
            said |= {"read_by": read_by} if rules.is_official(extraction) else {}
        judged, by = said.get("judged", {}), said.get("judged_by", [])
        if benchmark is not None and judging is not None:
            judged, by = _judged(benchmark, results, judging), _judged_by(benchmark, results, judging)
            if judged:
                signature |= {**judging.settings.signature(benchmark), "judge": told["identity"]}
        now["benchmarks"][name] = {**said, "judged": judged, "judged_by": by, "signature": signature}
    return now


def _write(folder: Path, about: Mapping[str, Any], before: Iterable[Result], now: Iterable[Result]) -> None:
    """Append what has changed. Until all of it is there run.json says that it is not."""
    from medvqa import records

    try:
        records.write_json(folder / records.RUN, {**about, "rescoring": True})
        recorder = records.Recorder(folder)
        try:
            for was, result in zip(before, now, strict=True):
                if was != result:
                    recorder.append(records.encode(result))
        finally:
            recorder.close()
        records.write_json(folder / records.RUN, {k: v for k, v in about.items() if k != "rescoring"})
    except OSError as error:
        raise MedVQAError(f"{folder} cannot be written: {error.strerror}") from error


def _reported(options: argparse.Namespace) -> str:
    from medvqa import benchmarks, report
    from medvqa.report import html
    from medvqa.report.terminal import summary

    known = known_from(options.plugin)
    data = Path(options.data) if options.data is not None else None

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        there = benchmarks.is_found(benchmark, data)
        return benchmarks.load(benchmark, data or Path()) if there else None

    made = report.build(options.run, known.benchmarks, known.metrics)
    return summary(report.write(made, html.draw(made, load, many="none")), width=100)
