"""Merge several runs of one configuration into one: shards, or other parts of a run."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from medvqa import files
from medvqa.data.selection import Shard
from medvqa.items import QuestionKey, Result, UsageError
from medvqa.records.coverage import Selection, absent_shares, own_shards, select_from
from medvqa.records.folder import MAX_RUN, RESULTS, RUN, encode, read, read_run, write_atomic, write_json
from medvqa.records.identity import of_sessions
from medvqa.records.lock import Lock
from medvqa.records.private import make_private
from medvqa.records.selected import join_selected, selected
from medvqa.records.store import OWN_ANSWERS, OWN_REPLIES, copy

METRICS = "metrics.json"


@dataclass(frozen=True, slots=True)
class RunPart:
    """The content of one run folder; `about` is its run.json.

    `keys`: the selected questions, () for a run of an earlier version; for these, `missing` names questions without a
    result.
    """

    name: str
    about: Mapping[str, Any]
    results: tuple[Result, ...]
    missing: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()
    keys: tuple[QuestionKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Merged:
    """One run made from several; `notes`: notes for the reader; `missing`: items without a result.

    `complete`: no item or shard is known to be missing, and every run ended.
    """

    about: Mapping[str, Any]
    results: tuple[Result, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    complete: bool


def load(folder: Path) -> RunPart:
    """Read a run folder; UsageError if it is none."""
    about, stored, keys = read_run(folder), read(folder), selected(folder)
    if keys:
        return RunPart(folder.name, about, stored.results, unread=stored.unread, keys=keys)
    path = folder / METRICS
    try:
        missing = msgspec.json.decode(files.read(path, MAX_RUN), type=_Missing).missing if path.exists() else ()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Write it anew: medvqa report {folder}") from error
    return RunPart(folder.name, about, stored.results, frozenset(missing), stored.unread)


class _Missing(msgspec.Struct):
    missing: tuple[str, ...] = ()


def merge(runs: Sequence[RunPart], name: str) -> Merged:
    """Join runs of one configuration; answers to the same item must be equal.

    A benchmark may be in some runs only. If an item ended in error in one run, the answer of another counts. UsageError
    names the difference of the configurations, or an item with different answers.
    """
    _check_configurations(runs)
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
    several = len(runs[0].about.get("techniques", ())) > 1
    names = {key.name(technique=several) for key in results}
    lacking = {key.name(technique=several) for run in runs for key in run.keys}.union(*(run.missing for run in runs))
    missing = tuple(sorted(lacking - names))
    about = _about(runs, name)
    if not (about.get("selection") and Selection.of(about).whole):
        _check_shares(runs)
    absent = absent_shares(about)
    unended = [run.name for run in runs if not run.keys and "finished" not in run.about]
    notes = [f"not read: {line}" for run in runs for line in run.unread]
    notes += [f"{run} did not end: its missing results are not known" for run in unended]
    notes += _versions(runs)
    complete = not (
        missing or absent or unended or any(result.score.outcome == "error" for result, _ in results.values())
    )
    ordered = tuple(results[key][0] for key in sorted(results))
    return Merged(about, ordered, missing, tuple(notes), complete)


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


def write(merged: Merged, folder: Path, parts: Iterable[Path] = ()) -> None:
    """Write a run folder (UsageError); results keep the names of their runs.

    `parts`: the folders of the runs. Answers and judge's replies in these folders are copied, so that the merged run
    can continue; so are the keys of selected questions, if all parts have them.
    """
    parts = list(parts)
    try:
        stores = [(part, own) for part in parts for own in (OWN_ANSWERS, OWN_REPLIES)]
        for part, own in stores:
            files.check_subfolder(part, own)
        if folder.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
        make_private(folder)
        for part, own in stores:
            copy(part / own, folder / own)
        join_selected(parts, folder)
        write_atomic(folder / RESULTS, (encode(result) + b"\n" for result in merged.results))
        write_json(folder / RUN, {**merged.about, "missing": merged.missing})
    except OSError as error:
        raise UsageError(f"run folder {folder} cannot be written: {error.strerror}") from error


def _check_configurations(runs: Sequence[RunPart]) -> None:
    """UsageError names the first difference between two runs.

    A value that a run lacks (a model never loaded, a benchmark not run) is no difference.
    """
    first: dict[str, tuple[Any, str]] = {}
    judged = {
        name
        for run in runs
        for name, benchmark in run.about.get("benchmarks", {}).items()
        if "judge" in _signature(benchmark)
    }
    for run in runs:
        for name, value in (configuration(run.about) | _judges(run.about, judged)).items():
            before, where = first.setdefault(name, (value, run.name))
            if before != value:
                raise UsageError(
                    f"runs of different configurations: {name} is {before!r} in {where} and {value!r} in {run.name}"
                )


def _check_shares(runs: Sequence[RunPart]) -> None:
    """UsageError if two runs are shards of different selections of a benchmark."""
    selected: dict[tuple[str, int, bool], tuple[str, str]] = {}
    for run in runs:
        how = _how(run.about)
        for benchmark in sorted(_benchmarks(run)):
            for of in sorted(_counts(run.about)):
                # A run of an earlier version records only its limit, and is compared with its like.
                before, where = selected.setdefault((benchmark, of, "selection" in run.about), (how, run.name))
                if before != how:
                    raise UsageError(
                        f"shards of different selections: {benchmark} was selected by {before or 'no option'} in "
                        f"{where} and by {how or 'no option'} in {run.name}. Type the same options, except "
                        "--shard, for all shards"
                    )


def _how(about: Mapping[str, Any]) -> str:
    """The selecting options before sharding; --lf and --sw select within a shard."""
    if "selection" not in about:
        limit = about.get("options", {}).get("limit")
        return "" if limit is None else f"--limit={limit}"
    typed = {option for option in Selection.of(about).how if not option.startswith(("--shard=", "--lf", "--sw"))}
    return " ".join(sorted(typed))


def _counts(about: Mapping[str, Any]) -> set[int]:
    """The numbers of shards of a run; empty without shards."""
    return {Shard.parse(shard).of for shard in own_shards(about)}


def _benchmarks(run: RunPart) -> set[str]:
    """The benchmarks with selected questions or results."""
    return {key.benchmark for key in run.keys} or {result.item.benchmark for result in run.results}


def _shared(run: RunPart, runs: Sequence[RunPart]) -> list[str]:
    """The benchmarks of which a run is a shard, which may be empty.

    Excludes benchmarks whose other shards were selected by other options, such as another test file.
    """
    how, counts, own = _how(run.about), _counts(run.about), _benchmarks(run)
    others = [run for run in runs if _counts(run.about) & counts and _how(run.about) == how]
    alike = {name for other in others for name in _benchmarks(other)}
    return sorted(own | (alike & run.about.get("benchmarks", {}).keys()))


def configuration(about: Mapping[str, Any]) -> dict[str, Any]:
    """The values that determine a run's answers and scores, by name, most important first."""
    model = about.get("model") or {}
    fields_of_run = {f"the model's {name}": model[name] for name in ("name", "fingerprint") if name in model}
    config = about.get("config", {})
    # A fingerprint covers everything that can change an answer; not a checkpoint's path or a batch size.
    fields = ("backend", "argument", "options") if model.get("fingerprint") is None else ("backend",)
    fields_of_run |= {f"the config's {name}": config[name] for name in fields if name in config}
    fields_of_run |= {name: about[name] for name in ("techniques", "ablation", "repeat", "extraction") if name in about}
    # Left out of run.json by default: a plain run is none of another protocol.
    fields_of_run |= {name: about.get(name, {}) for name in ("protocol", "tags")}
    if judge := about.get("judge"):
        fields_of_run |= {f"the judge's {name}": judge[name] for name in ("identity", "signature") if name in judge}
    for benchmark, signed in about.get("benchmarks", {}).items():
        fields_of_run |= {f"{benchmark}'s {part}": value for part, value in _signature(signed).items()}
        fields_of_run |= {
            f"{benchmark}'s prompt ({technique})": name for technique, name in signed.get("prompts", {}).items()
        }
        fields_of_run |= {
            f"{benchmark}'s token limit ({kind})": limit for kind, limit in signed.get("max_tokens", {}).items()
        }
        fields_of_run[f"{benchmark}'s data_sha256"] = signed.get("data_sha256")
    return fields_of_run


def _signature(benchmark: Mapping[str, Any]) -> Mapping[str, str]:
    signature: Mapping[str, str] = benchmark.get("signature", {})
    return signature


def _judges(about: Mapping[str, Any], judged: Collection[str]) -> dict[str, str]:
    """The judge of each of these benchmarks, "none" if rules alone scored it.

    A judge that was set but never loaded has no name yet; that is no difference.
    """
    judges = {}
    for benchmark, benchmark_about in about.get("benchmarks", {}).items():
        unmade = about.get("judge") and benchmark_about.get("judged")
        if benchmark in judged and ("judge" in _signature(benchmark_about) or not unmade):
            judges[f"{benchmark}'s judge"] = _signature(benchmark_about).get("judge", "none")
    return judges


def _said(result: Result) -> tuple[Any, ...]:
    """The values that two runs must agree on: all of a result except its run, times and usage."""
    answer = result.answer and (result.answer.text, result.answer.option_logprobs, result.answer.finish)
    return result.prompt, answer, result.score


def _shown(result: Result) -> str:
    text = result.answer.text if result.answer is not None else ""
    return f"{result.score.outcome} ({text[:40]!r}{'…' if len(text) > 40 else ''})"


def _versions(runs: Sequence[RunPart]) -> list[str]:
    """Sentences about packages with different versions."""
    versions: dict[str, dict[str, None]] = {}
    for run in runs:
        for package, version in run.about.get("versions", {}).items():
            versions.setdefault(package, {})[version] = None
    return [
        f"the runs had different versions of {name}: {', '.join(had)}" for name, had in versions.items() if len(had) > 1
    ]


def add_usage_and_times(about: dict[str, Any], abouts: Sequence[Mapping[str, Any]]) -> None:
    """Put the sums of the usage, the first start and the last end of runs (run.json) into that of all of them."""
    for field in ("usage", "judge_usage"):
        usage: Counter[str] = Counter()
        for entry in abouts:
            usage.update(entry.get(field) or {})
        if usage:
            about[field] = dict(usage)
    for edge, choose in (("started", min), ("finished", max)):
        if times := [entry[edge] for entry in abouts if edge in entry]:
            about[edge] = choose(times)


def _about(runs: Sequence[RunPart], name: str) -> dict[str, Any]:
    """The merged run.json: that of the first run, with joined times, data, usage and names."""
    abouts = [run.about for run in runs]
    about = {**abouts[0], "name": name}
    about["model"] = next((about["model"] for about in abouts if about.get("model")), {})
    about["judge"] = next((about["judge"] for about in abouts if about.get("judge")), None)
    about["options"] = {**abouts[0].get("options", {}), "shard": None}
    about.pop("selection", None)
    # If several runs describe a benchmark, the one that names its judge counts.
    benchmarks = [entry for about in abouts for entry in about.get("benchmarks", {}).items()]
    about["benchmarks"] = dict(sorted(benchmarks, key=lambda entry: (entry[0], "judge" in _signature(entry[1]))))
    if all(run.keys or (Selection.of(run.about).empty and not run.results) for run in runs):
        parts = [Selection.of(about) for about in abouts]
        keys = [key for run in runs for key in run.keys]
        how = [typed for part in parts for typed in part.how]
        about["selection"] = select_from(
            keys,
            about,
            how,
            by_outcome=any(part.ranked_by_outcome for part in parts),
            every=all(part.every for part in parts),
        ).as_json()
    about.pop("sessions", None)  # of one run alone
    if any(about.get("gate") != abouts[0].get("gate") for about in abouts):
        about.pop("gate", None)  # the rules of some of the answers are not those of all
    # All shards of a benchmark have the same numbers: do not sum them.
    if left_out := {k: v for about in abouts for k, v in about.get("left_out", {}).items()}:
        about["left_out"] = dict(sorted(left_out.items()))
    for field in ("unread_answers", "served_by"):
        if union := {line for about in abouts for line in about.get(field, ())}:
            about[field] = sorted(union)
    if unshared := sum(about.get("unshared_answers", 0) for about in abouts):
        about["unshared_answers"] = unshared
    add_usage_and_times(about, abouts)
    kept = ("started", "finished", "versions", "usage", "judge_usage")
    about["merged"] = [
        {"name": run.name, "shard": run.about.get("options", {}).get("shard")}
        | ({"shards": list(shards)} if len(shards := own_shards(run.about)) > 1 else {})
        | ({"benchmarks": _shared(run, runs)} if shards and run.keys else {})
        | ({"merged": run.about["merged"]} if run.about.get("merged") else {})
        | {name: run.about[name] for name in kept if name in run.about}
        | ({"identity": identities} if (identities := of_sessions(run.about, len(run.results))) else {})
        for run in runs
    ]
    if "selection" in about and not absent_shares(about):
        # All shards together are the whole selection.
        about["selection"]["how"] = [
            option for option in about["selection"]["how"] if not option.startswith("--shard=")
        ]
    return about
