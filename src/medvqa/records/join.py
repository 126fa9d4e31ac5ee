"""Make one run of several: of the parts of one run, such as shards, or of runs whose answers become samples.

`medvqa merge` and `medvqa combine` are two names of it. A process that is killed on the way leaves no run folder, and
the same command may be typed again (`making`).
"""

from __future__ import annotations

import errno
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from medvqa import decode, files
from medvqa.items import QuestionKey, Result, UsageError
from medvqa.protocols.protocol import OPTION_OF, Protocol
from medvqa.records import sent_prompts
from medvqa.records.configuration import JUDGE_CONFIG, RunSetting, configuration, differences
from medvqa.records.coverage import (
    METRICS,
    Coverage,
    MetricsHead,
    absent_shares,
    cover,
    origins,
    own_shards,
    select_from,
    strangers,
)
from medvqa.records.identities import of_sessions
from medvqa.records.lock import Lock
from medvqa.records.log import ANSWERS
from medvqa.records.private import make_private
from medvqa.records.recall import EARLIER_REPLIES, copy_answers
from medvqa.records.run_folder import RESULTS, check_scored, encode, read, write_atomic
from medvqa.records.run_record import (
    MAX_RUN,
    REPLAY,
    AnsweringConfig,
    MergedPart,
    RecordedModel,
    RunRecord,
    Selection,
    read_run,
    write_run,
)
from medvqa.records.selected import selected, store_selected

_OF_MODELS = ("model", "config", "limit")
_COMBINED = frozenset({"combine", "samples", "repeat"})
_COMBINED |= {OPTION_OF[field] for field in _COMBINED if field in OPTION_OF}
"""Settings of a protocol, by their options and in signatures, that combining replaces."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """The content of one run folder; `about` is its record.

    `keys`: the selected questions, () for a run of an earlier version; for these, `missing` names questions without a
    result. `numbers`: the new number of each sample, if the answers become samples of another run.
    """

    name: str
    about: RunRecord
    results: tuple[Result, ...]
    missing: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()
    keys: tuple[QuestionKey, ...] = ()
    numbers: Mapping[int, int] = field(default_factory=dict)

    @property
    def model(self) -> tuple[str, str]:
        """The model's name and its fingerprint, or the options of its config without one."""
        model, config = self.about.model, self.about.config
        return model.name, repr(model.fingerprint or (config.argument, config.options))

    @property
    def asked(self) -> tuple[QuestionKey, ...]:
        """The selected questions; of a run of an earlier version, those with a result."""
        return self.keys or tuple(result.key for result in self.results)

    @property
    def benchmarks(self) -> set[str]:
        """The benchmarks with selected questions or results."""
        return {key.benchmark for key in self.asked}


@dataclass(frozen=True, slots=True)
class Joined:
    """One run made from several; `notes`: notes for the reader. `keys`: its selected questions, None if unknown."""

    about: RunRecord
    results: tuple[Result, ...]
    notes: tuple[str, ...]
    keys: frozenset[QuestionKey] | None
    covered: Coverage

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of questions without a result."""
        return self.covered.missing

    @property
    def complete(self) -> bool:
        """Whether no question or shard is known to be missing, every run ended, and each result has an answer."""
        return self.covered.complete and not self.covered.errors


def load(folder: Path) -> RunPart:
    """Read a run folder; UsageError if it is none."""
    about, stored, keys = read_run(folder), read(folder), selected(folder)
    check_scored(folder, about)
    if keys:
        return RunPart(folder.name, about, stored.results, unread=stored.unread, keys=keys)
    advice = f"Write it anew: medvqa report {folder}"
    drawn = decode.stored(folder / METRICS, MetricsHead, MAX_RUN, advice) or MetricsHead()
    return RunPart(folder.name, about, stored.results, frozenset(drawn.missing), stored.unread)


def join(runs: Sequence[RunPart], name: str, samples: Protocol | None = None) -> Joined:
    """Make one run of several of one configuration.

    Without `samples`, they are parts of one run: shards, or runs that were stopped. A benchmark may be in some of them
    only. Answers to the same question must be equal; if it ended in error in one run, the answer of another counts.

    With `samples`, the answers of each run become samples of one run, numbered from 1 in the order of the runs, and
    are combined as it says; its other fields are those of the runs. The runs must have asked the same questions. Only a
    vote takes answers of different models.

    UsageError names the first difference of the configurations, a question with different answers, and runs that share
    stored answers.
    """
    notes = _check_parts(runs) if samples is None else _check_samples(runs, samples)
    if samples is not None:
        runs = _renumbered(runs)
    results = _union(runs)
    wanted = frozenset[QuestionKey]().union(*(run.keys for run in runs))
    # A part of an earlier version did not record its questions.
    keys = wanted if all(run.keys or (run.about.selected.empty and not run.results) for run in runs) else None
    about = _record(runs, name, samples, keys)
    if samples is None and not (about.selection is not None and about.selection.whole):
        _check_shares(runs)
    several = len(about.techniques) > 1
    lacking = {key.name(technique=several) for key in wanted}.union(*(run.missing for run in runs))
    about = msgspec.structs.replace(
        about, missing=tuple(sorted(lacking - {key.name(technique=several) for key in results}))
    )
    errors = sum(result.score.outcome == "error" for result in results.values())
    covered = cover(about, keys or (), results.keys(), errors=errors)
    return Joined(about, tuple(results[key] for key in sorted(results)), tuple(notes), keys, covered)


@contextmanager
def making(folder: Path, *, replaces: bool = False) -> Iterator[Path]:
    """Yield a place of the same name for a new run; it becomes `folder` after the block.

    `replaces`: in place of an existing folder. If the block fails, `folder` stays as it was. A process that is killed
    leaves its place in `.NAME.making`, and the next one clears it. UsageError if another process makes the same folder,
    if it exists, or if it cannot be written.
    """
    hidden = folder.with_name(f".{folder.name}.making")
    lock, place = Lock(hidden), folder
    try:
        lock.acquire()
        with files.making(folder, hidden) as place:
            yield place
            if folder.exists() and not replaces:
                raise UsageError(f"{folder} exists: name another with -o")
    except OSError as error:
        raise UsageError(f"run folder {folder} cannot be written: {error.strerror or error}") from error
    except UsageError as error:
        raise UsageError(str(error).replace(str(place), str(folder))) from error
    finally:
        lock.release()


def write(joined: Joined, folder: Path, parts: Iterable[Path] = (), samples: Iterable[Path] = ()) -> None:
    """Write a run folder (UsageError); results keep the names of their runs.

    `parts`: the folders of the parts of one run. Their stored answers and judge's replies are copied, so that the run
    can continue. `samples`: the folders of runs that were combined. Prompts of all of these are kept.
    """
    with files.writing(f"run folder {folder}"):
        parts = list(parts)
        for part in parts:
            for own in (ANSWERS, EARLIER_REPLIES):
                files.check_subfolder(part, own)
        if folder.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
        make_private(folder)
        for part in parts:
            copy_answers(part, folder)
        if joined.keys is not None:
            store_selected(folder, joined.keys)
        write_atomic(folder / RESULTS, (encode(result) + b"\n" for result in joined.results))
        sent_prompts.join(folder, [*parts, *samples], {result.prompt for result in joined.results})
        write_run(folder, joined.about)


# --- what the runs have in common -----------------------------------------------------------------------------------


def _compared(run: RunPart) -> dict[RunSetting, object]:
    """The settings in which runs that are joined must not differ, most important first."""
    fingerprint = run.about.model.fingerprint
    return {setting: value for setting, value in configuration(run.about).items() if _counts(setting, fingerprint)}


def _counts(setting: RunSetting, fingerprint: str | None) -> bool:
    if setting.part == "config":
        # A fingerprint covers everything that can change an answer; not a checkpoint's path or a batch size.
        return fingerprint is None or setting.name == "backend"
    if setting.part == "judge":
        return setting not in JUDGE_CONFIG
    return setting.part != "slices"


def _renumbered(runs: Sequence[RunPart]) -> list[RunPart]:
    """The runs, with their samples numbered from 1 in the order of the runs."""
    renumbered, last = [], 0
    for run in runs:
        own = sorted({key.sample for key in run.asked} | {result.sample for result in run.results})
        numbers = {sample: last + place for place, sample in enumerate(own, 1)}
        results = (replace(result, sample=numbers[result.sample]) for result in run.results)
        # The run is finished: its results are what it selected.
        keys = tuple(key._replace(sample=numbers[key.sample]) for key in run.asked)
        renumbered.append(replace(run, results=tuple(results), keys=keys, numbers=numbers))
        last += len(own)
    return renumbered


def _union(runs: Sequence[RunPart]) -> dict[QuestionKey, Result]:
    """The results of all runs by their keys; an answer counts before an error. UsageError for two answers."""
    results: dict[QuestionKey, tuple[Result, str]] = {}
    for run in runs:
        for result in run.results:
            earlier = results.get(result.key)
            if earlier is None or earlier[0].score.outcome == "error":
                results[result.key] = result, run.name
            elif result.score.outcome != "error" and _said(earlier[0]) != _said(result):
                key = result.key
                sample = f"sample {key.sample}" if key.sample else ""
                which = ", ".join(filter(None, (key.technique, key.variant, sample)))
                raise UsageError(
                    f"a question of {key.benchmark} ({which}) is {_shown(earlier[0])} in {earlier[1]} and "
                    f"{_shown(result)} in {run.name} (medvqa compare --json=FILE names it): leave one of "
                    "the two runs out"
                )
    return {key: result for key, (result, _) in results.items()}


def _said(result: Result) -> tuple[Any, ...]:
    """The values that two runs must agree on: all of a result except its run, times and usage."""
    answer = result.answer and (result.answer.text, result.answer.option_logprobs, result.answer.finish)
    return result.prompt, answer, result.score


def _shown(result: Result) -> str:
    text = result.answer.text if result.answer is not None else ""
    return f"{result.score.outcome} ({text[:40]!r}{'…' if len(text) > 40 else ''})"


# --- parts of one run -------------------------------------------------------------------------------------------------


def _check_parts(runs: Sequence[RunPart]) -> list[str]:
    """Return notes about runs that did not end, lines not read, and versions; UsageError for another configuration."""
    known: dict[RunSetting, object] = {}
    for place, run in enumerate(runs):
        # A setting that a run lacks (a model never loaded, a benchmark not run) is no difference.
        now = _compared(run)
        for difference in differences(known, now, lambda _: True):
            where = next(earlier for earlier in runs[:place] if difference.setting in _compared(earlier))
            raise UsageError(f"runs of different configurations: {difference.between(where.name, run.name)}")
        known = {**known, **now}
        for line in strangers(run.about, Counter(result.run for result in run.results)):
            raise UsageError(f"{run.name} cannot be merged: {line}")
    _check_once(runs)
    notes = [f"not read: {line}" for run in runs for line in run.unread]
    unended = [run.name for run in runs if not run.keys and not run.about.finished]
    notes += [f"{run} did not end: its missing results are not known" for run in unended]
    return notes + _versions(runs)


def _check_once(runs: Sequence[RunPart]) -> None:
    """UsageError if two runs are one, or hold the same one: its tokens and cost would count twice."""
    seen: dict[tuple[str, str], int] = {}
    for place, run in enumerate(runs):
        for name, started in origins(run.about):
            known = seen.setdefault((name, started), place)
            if name and started and known != place:
                where = "named twice" if runs[known].name == run.name else f"in {runs[known].name} and in {run.name}"
                raise UsageError(f"{name} is {where}: leave one of them out")


def _versions(runs: Sequence[RunPart]) -> list[str]:
    """Sentences about packages with different versions."""
    versions: dict[str, dict[str, None]] = {}
    for run in runs:
        for package, version in run.about.versions.items():
            versions.setdefault(package, {})[version] = None
    return [
        f"the runs had different versions of {name}: {', '.join(had)}" for name, had in versions.items() if len(had) > 1
    ]


def _check_shares(runs: Sequence[RunPart]) -> None:
    """UsageError if two runs are shards of different selections of a benchmark."""
    selected: dict[tuple[str, int, bool], tuple[str, str]] = {}
    for run in runs:
        how = _how(run.about)
        for benchmark in sorted(run.benchmarks):
            for of in sorted({shard.of for shard in own_shards(run.about)}):
                # A run of an earlier version records only its limit, and is compared with its like.
                before, where = selected.setdefault((benchmark, of, run.about.selection is not None), (how, run.name))
                if before != how:
                    raise UsageError(
                        f"shards of different selections: {benchmark} was selected by {before or 'no option'} in "
                        f"{where} and by {how or 'no option'} in {run.name}. Type the same options, except "
                        "--shard, for all shards"
                    )


def _how(run: RunRecord) -> str:
    """The selecting options before sharding; --lf and --sw select within a shard."""
    if run.selection is None:
        return "" if run.options.limit is None else f"--limit={run.options.limit}"
    typed = {option for option in run.selection.how if not option.startswith(("--shard=", "--lf", "--sw"))}
    return " ".join(sorted(typed))


# --- samples of one run -----------------------------------------------------------------------------------------------


def _check_samples(runs: Sequence[RunPart], samples: Protocol) -> list[str]:
    """Return notes about models; UsageError for the first difference that is not allowed."""
    first, *others = runs
    for run in runs if others else ():
        if run.about.readers is not None:
            join = "join the files of readers by medvqa read import"
            raise UsageError(f"these runs cannot be combined: the samples of {run.name} are its readers; {join}")
    for run in others:
        same = first.model == run.model
        for difference in differences(
            _compared(first), _compared(run), lambda setting: setting.name not in _COMBINED, "either"
        ):
            of_model = difference.setting.part in _OF_MODELS
            if of_model and not same and (samples.combine == "vote" or _recorded(runs)):
                continue
            advice = "; only --combine=vote takes answers of several models" if of_model and not same else ""
            line = difference.between(first.name, run.name)
            raise UsageError(f"these runs cannot be combined: {line}{advice}")
    _check_questions(runs)
    _check_apart(runs)
    models, notes = sorted({run.model for run in runs}), list[str]()
    if len(models) > 1 and _recorded(runs):
        notes.append("these answers are recordings: they do not tell whether one model gave them")
    elif len(models) > 1:
        notes.append(f"these answers are those of {len(models)} models: {', '.join(name for name, _ in models)}")
    if len(runs) > 1 and _equal_texts(runs):
        notes.append(
            "these runs gave equal answers to every question: with one seed, a model's samples are copies of each other"
        )
    return notes


def _recorded(runs: Sequence[RunPart]) -> bool:
    return all(run.about.replays for run in runs)


def _check_questions(runs: Sequence[RunPart]) -> None:
    """UsageError if two runs asked different questions."""
    first, *others = runs
    for run in others:
        asked, other = ({key._replace(sample=0) for key in part.asked} for part in (first, run))
        for more, here, there in ((asked - other, first, run), (other - asked, run, first)):
            if more:
                raise UsageError(
                    f"these runs cannot be combined: {len(more):,} of the questions of {here.name} are not in "
                    f"{there.name}; medvqa compare --json=FILE names them"
                )


def _check_apart(runs: Sequence[RunPart]) -> None:
    """UsageError if two runs hold the same stored answers: one draw of a model must not count twice."""
    for place, run in enumerate(runs):
        answers = {result.key: result.answer for result in run.results if result.answer is not None}
        for other in runs[:place]:
            if run.name == other.name:
                raise UsageError(f"these runs cannot be combined: {run.name} is named twice")
            # An answer knows how long it took, to the last bit: a copy of it comes from a log.
            copies = [
                result.key
                for result in other.results
                if result.answer is not None and result.answer.seconds and result.answer == answers.get(result.key)
            ]
            if copies and run.model == other.model:
                raise UsageError(
                    f"these runs cannot be combined: {len(copies):,} answers of {run.name} are stored answers that "
                    f"{other.name} has, too, so they are no further samples. Ask in a run without --answers, or for "
                    "more with --samples=N"
                )


def _equal_texts(runs: Sequence[RunPart]) -> bool:
    """Whether every run has the same texts."""
    texts = [sorted((r.key._replace(sample=0), r.answer.text) for r in run.results if r.answer) for run in runs]
    return bool(texts[0]) and all(text == texts[0] for text in texts)


# --- the record of all of them ----------------------------------------------------------------------------------------


def _record(
    runs: Sequence[RunPart], name: str, samples: Protocol | None, keys: Collection[QuestionKey] | None
) -> RunRecord:
    """The record of the joined run: that of the first, with data, times and usage of all of them."""
    abouts = [run.about for run in runs]
    if samples is not None:
        whole = replace(
            abouts[0].protocol,
            samples=sum(len(run.numbers) for run in runs),
            combine=samples.combine,
        )
        abouts = [about.under(whole) for about in abouts]
    first, usage, judge_usage = abouts[0], Counter[str](), Counter[str]()
    for about in abouts:
        usage.update(about.usage)
        judge_usage.update(about.judge_usage)
    # If several runs describe a benchmark, the one that names its judge counts.
    benchmarks = [entry for about in abouts for entry in about.benchmarks.items()]
    joined = msgspec.structs.replace(
        first,
        kind="merged" if samples is None else "combined",
        name=name,
        names=(),  # of one run alone, as are its sessions
        sessions=(),
        model=next((about.model for about in abouts if about.model.name), first.model),
        judge=next((about.judge for about in abouts if about.judge is not None), None),
        options=msgspec.structs.replace(first.options, shard=None),
        benchmarks=dict(sorted(benchmarks, key=lambda entry: (entry[0], "judge" in entry[1].signature))),
        # The rules of some of the answers are not those of all.
        gate=first.gate if samples is None and all(about.gate == first.gate for about in abouts) else None,
        # All shards of a benchmark have the same numbers: do not sum them.
        left_out=dict(sorted({k: v for about in abouts for k, v in about.left_out.items()}.items())),
        unread_answers=tuple(sorted({line for about in abouts for line in about.unread_answers})),
        served_by=tuple(sorted({name for about in abouts for name in about.served_by})),
        unshared_answers=sum(about.unshared_answers for about in abouts),
        usage=dict(usage),
        judge_usage=dict(judge_usage),
        started=min((about.started for about in abouts if about.started), default=""),
        finished=max((about.finished for about in abouts if about.finished), default=""),
        merged=tuple(_origins(runs)),
        selection=None,
    )
    if samples is not None:
        joined = _of_models(joined, runs)
    if keys is None:
        return joined
    selection = _selection(abouts, joined, keys)
    joined = msgspec.structs.replace(joined, selection=selection)
    if samples is not None or absent_shares(joined):
        return joined
    # All shards together are the whole selection.
    how = tuple(option for option in selection.how if not option.startswith("--shard="))
    return msgspec.structs.replace(joined, selection=msgspec.structs.replace(selection, how=how))


def _origins(runs: Sequence[RunPart]) -> Iterator[MergedPart]:
    """Yield what the record of the joined run says of each run.

    Of a shard, this includes its benchmarks. It may be empty: it is a shard of the benchmarks that it knows and that
    shards by the same options selected. Other options, such as another test file, select for themselves.
    """
    selected = defaultdict[tuple[str, int], set[str]](set)
    for run in runs:
        for shard in own_shards(run.about):
            selected[_how(run.about), shard.of] |= run.benchmarks
    for run in runs:
        about = run.about
        part = MergedPart(
            name=run.name,
            names=tuple(sorted({result.run for result in run.results} - {run.name})),
            merged=about.merged,
            started=about.started,
            finished=about.finished,
            versions=about.versions,
            usage=about.usage,
            judge_usage=about.judge_usage,
            identity=of_sessions(about, len(run.results)),
        )
        if run.numbers:
            yield msgspec.structs.replace(
                part,
                model=about.model.name,
                fingerprint=about.model.fingerprint,
                samples={str(sample): number for sample, number in run.numbers.items()},
            )
            continue
        shards = own_shards(about)
        alike = set[str]().union(*(selected[_how(about), shard.of] for shard in shards))
        benchmarks = sorted(run.benchmarks | (alike & about.benchmarks.keys()))
        yield msgspec.structs.replace(
            part,
            shard=about.options.shard,
            shards=tuple(map(str, shards)) if len(shards) > 1 else (),
            benchmarks=tuple(benchmarks) if shards and run.keys else None,
        )


def _of_models(joined: RunRecord, runs: Sequence[RunPart]) -> RunRecord:
    """Return the record with the names of the models, if there are several."""
    models = list(dict.fromkeys(run.model for run in runs))
    if len(models) == 1:
        return joined
    names = [model_name for model_name, _ in models]
    known = [run.about.model.fingerprint for run in runs]
    return msgspec.structs.replace(
        joined,
        model=RecordedModel(
            name=" + ".join(names),
            fingerprint=None if None in known else sha256("\0".join(map(str, known)).encode()).hexdigest(),
        ),
        config=AnsweringConfig(backend=REPLAY if _recorded(runs) else ""),
        options=msgspec.structs.replace(joined.options, model=None),
        benchmarks={
            name: msgspec.structs.replace(benchmark, signature={**benchmark.signature, "models": "+".join(names)})
            for name, benchmark in joined.benchmarks.items()
        },
    )


def _selection(abouts: Sequence[RunRecord], joined: RunRecord, keys: Collection[QuestionKey]) -> Selection:
    """The selection of all runs."""
    selections = [about.selected for about in abouts]
    by_outcome = any(selection.ranked_by_outcome for selection in selections)
    every = all(selection.every for selection in selections)
    if joined.kind == "combined" and not (every or by_outcome or any(key.variant for key in keys)):
        # Runs that selected some of their samples may hold all of them together.
        every = len(keys) == len({key.question for key in keys}) * (joined.repeat or 1)
    how = [typed for selection in selections for typed in selection.how]
    return select_from(keys, joined, how, by_outcome=by_outcome, every=every)
