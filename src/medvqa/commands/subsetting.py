"""A cheap subset of a benchmark by the answers of known models, and the whole as a new model's run of it shows."""

from __future__ import annotations

import csv
import io
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from medvqa import comparing, decode, figures, metrics, printing
from medvqa.benchmarks import not_known
from medvqa.comparing import Side
from medvqa.items import Benchmark, Result, UsageError, withholding
from medvqa.metrics import Tabled
from medvqa.records import run_folder
from medvqa.records.run_record import Count
from medvqa.statistics import subset
from medvqa.statistics.subset import LEAST_DRAWN, LEAST_MODELS, Whole

Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
MAX_BYTES = 2**27
SHOWN = 12
"""Most ids of keys to review that a terminal shows; the file has all."""
TAG, DRAWN = "subset", "drawn"
"""The dimension and the value of the tag that selects the drawn questions."""


@dataclass(frozen=True, slots=True)
class DrawnUnit:
    """A drawn unit of the measure: the id of its pair or question, its stratum, and the known models' mean score."""

    id: str
    stratum: Count
    predicted: Fraction


@dataclass(frozen=True, slots=True)
class Suspect:
    """A question whose key may be wrong: its correlation with the rest (`rest_correlations`) is negative.

    `answer` is the commonest wrong one, of no fewer models than the key.
    """

    id: str
    correlation: float
    key: str
    answer: str


@dataclass(frozen=True, slots=True)
class SubsetFile:
    """The content of subset.json. `data_sha256` is of the questions, as run.json has it.

    `runs`: names of the known runs, each with the digest of its results. `strata`: the number of units of each stratum
    in the whole, of `of` together. `mean` is the known models' mean over all of these. The other numbers are as in
    `statistics.subset.Subset`.
    """

    benchmark: str
    technique: str
    measure: str
    data_sha256: str
    runs: Mapping[str, str]
    seed: int
    of: Count
    mean: Fraction
    slope: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    error: float
    random_error: float
    strata: tuple[Count, ...]
    units: tuple[DrawnUnit, ...]
    suspects: tuple[Suspect, ...]


def draw(sides: Sequence[Side], known: Mapping[str, Benchmark], size: int, seed: int, measure: str) -> SubsetFile:
    """Draw about `size` questions by finished runs on all of the same questions (UsageError).

    Whole pairs are drawn for a measure of pairs. `measure` is as in `_measure`.
    """
    import numpy as np

    benchmark, technique = _part(sides, known)
    benchmark = comparing.under_protocols(benchmark, sides, technique)
    of_runs = [_results(side, benchmark.name, technique) for side in sides]
    tabled = _measure(benchmark, sides, of_runs, measure)
    ids = _ids(tabled[0])
    of, questions = len(ids), len({result.item.id for result in of_runs[0]})
    number = size * of // questions
    if number < LEAST_DRAWN or size > questions:
        least = -(-LEAST_DRAWN * questions // of)
        raise UsageError(
            f"--size={size}: {benchmark.name} has {questions:,} questions, of which at least {LEAST_DRAWN} "
            f"{tabled[0].metric.unit}s are drawn: type a number from {least:,} to {questions:,}"
        )
    drawn = subset.draw(np.array([one.terms[0] for one in tabled]), number, seed)
    units = [
        DrawnUnit(ids[place], int(drawn.stratum[place]), float(drawn.predicted[place]))
        for place in np.flatnonzero(drawn.drawn).tolist()
    ]
    return SubsetFile(
        *(benchmark.name, technique, tabled[0].metric.name, sides[0].run.benchmark(benchmark.name).data_sha256),
        {side.name: run_folder.decisive_digest(side.answers)[0] for side in sides},
        *(seed, of, float(drawn.predicted.mean())),
        *(drawn.slope, drawn.error, drawn.random_error),
        tuple(np.bincount(drawn.stratum).tolist()),
        tuple(units),
        _suspects(of_runs),
    )


def read(path: Path) -> SubsetFile:
    """Read the JSON file of a subset, also if its table of tags is named (UsageError)."""
    return decode.decode(json_beside(path), SubsetFile, limit=MAX_BYTES)


def json_beside(path: Path) -> Path:
    """Return the JSON file of a subset's table (UsageError if the path names no file)."""
    if not path.name or path.is_dir():
        raise UsageError(f"{path}: a folder; name the file of a subset, such as subset.csv")
    return path.with_suffix(".json")


def estimate(part: SubsetFile, side: Side, known: Mapping[str, Benchmark]) -> Whole:
    """Return the whole benchmark's value as a finished run of the subset shows it (UsageError)."""
    import numpy as np

    if side.run.benchmark(part.benchmark).data_sha256 != part.data_sha256 or part.benchmark not in known:
        raise UsageError(f"{side.name} asked other questions than those of {part.benchmark} that the subset is of")
    results = _results(side, part.benchmark, part.technique)
    if not results:
        raise UsageError(f"{side.name} has no answers by {part.technique}, as the runs that drew the subset have")
    benchmark = comparing.under_protocols(known[part.benchmark], [side], part.technique)
    (tabled,) = _measure(benchmark, [side], [results], part.measure)
    scores = dict(zip(_ids(tabled), tabled.terms[0].tolist(), strict=True))
    if lacking := sum(unit.id not in scores for unit in part.units):
        raise UsageError(f"{side.name} lacks {lacking:,} of the {len(part.units):,} units of the subset")
    damaged, stratum = "the file of the subset is damaged", [unit.stratum for unit in part.units]
    ids = {unit.id for unit in part.units}
    if {*stratum} != {*range(len(part.strata))} or sum(part.strata) != part.of or len(ids) < len(part.units):
        raise UsageError(f"{damaged}: its units and strata do not belong together; draw it again")
    residual = np.array([scores[unit.id] - part.slope * unit.predicted for unit in part.units])
    try:
        return subset.whole(residual, np.array(stratum), np.array(part.strata), part.slope * part.mean)
    except ValueError as error:
        raise UsageError(f"{damaged}: {error}; draw it again") from None


def tags(part: SubsetFile) -> str:
    """Return the table that --tags reads: ids as they are, with the tag of the drawn questions."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("benchmark", "id", TAG))
    writer.writerows((part.benchmark, unit.id, DRAWN) for unit in part.units)
    return text.getvalue()


def _part(sides: Sequence[Side], known: Mapping[str, Benchmark]) -> tuple[Benchmark, str]:
    """Return the one benchmark and technique of finished runs on the same questions (UsageError)."""
    if len(sides) < 2:
        raise UsageError("subset: two runs at least are needed, of different models on the same questions")
    parts = {(name, technique) for side in sides for name, own in side.asked.items() for technique in own}
    if len(parts) != 1:
        listed = ", ".join(f"{name} ({technique})" for name, technique in sorted(parts)) or "nothing"
        raise UsageError(f"subset: one benchmark and technique is expected, the runs have {listed}: type --benchmark")
    ((name, technique),) = parts
    for side in sides:
        if (side.covered and not side.covered.complete) or side.selected:
            why = "; ".join((*side.lacking, *side.selected)) or "unfinished"
            raise UsageError(f"{side.name}: a finished run on the whole benchmark is needed: {why}")
    if len({side.run.benchmark(name).data_sha256 for side in sides}) > 1:
        raise UsageError(f"subset: the runs asked different questions of {name}: {', '.join(s.name for s in sides)}")
    if name not in known:
        raise not_known("the runs have", name, known)
    return known[name], technique


def _results(side: Side, benchmark: str, technique: str) -> list[Result]:
    return metrics.latest(
        [each for each in side.results if (each.item.benchmark, each.technique) == (benchmark, technique)]
    )


def _measure(
    benchmark: Benchmark, sides: Sequence[Side], of_runs: Sequence[Sequence[Result]], name: str
) -> list[Tabled]:
    """Return the terms of a measure in each run: `name`, else the first headline measure that fits (UsageError).

    It must be a mean over units, each with a score from 0 to 1.
    """
    fitting: dict[str, list[Tabled]] = {}
    with withholding(not benchmark.public):
        tables = [{one.metric.name: one for one in metrics.tables(own, benchmark.metrics, ())} for own in of_runs]
    for each in tables[0]:
        own = [table[each] for table in tables if each in table]
        whole = [one.over is None and one.bounded and bool((one.terms[1] == 1).all()) for one in own]
        if whole == [True] * len(tables):
            fitting[each] = own
    chosen = name or next((each for each in benchmark.headline if each in fitting), "")
    if chosen not in fitting:
        runs = ", ".join(side.name for side in sides)
        raise UsageError(
            f"--measure={name or benchmark.headline[0]}: no mean of scores that all units have in {runs} (answers in "
            f"error have none); there are: {', '.join(fitting) or 'none'}"
        )
    return fitting[chosen]


def _ids(tabled: Tabled) -> list[str]:
    """Return the id of each unit: of a pair, or of a question."""
    items = [unit[0].item for unit in tabled.frame.units]
    return [item.id if tabled.metric.unit == "item" else item.pair_id or item.id for item in items]


def _suspects(of_runs: Sequence[Sequence[Result]]) -> tuple[Suspect, ...]:
    """Return questions to review, the most suspect first; () with fewer than `LEAST_MODELS` runs."""
    import numpy as np

    by_run = [{result.item.id: result for result in own} for own in of_runs]
    ids = [id for id in by_run[0] if all(id in own and own[id].score.value is not None for own in by_run)]
    scores = np.array([[own[id].score.value for id in ids] for own in by_run], dtype=float)
    found = []
    for id, correlation in zip(ids, subset.rest_correlations(scores).tolist(), strict=True):
        item, given = by_run[0][id].item, [own[id].score for own in by_run]
        right = [score.extracted for score in given if score.value == 1]
        kept = {(), tuple(sorted(item.answers)), *right}
        wrong = Counter(score.extracted for score in given if score.extracted not in kept)
        answer, count = wrong.most_common(1)[0] if wrong else ((), 0)
        if correlation < 0 and count and count >= len(right):
            key = "".join(sorted(item.answers)) if item.options else " or ".join(item.answers)
            found.append(Suspect(id, correlation, key, "".join(answer)))
    return tuple(sorted(found, key=lambda each: (each.correlation, each.id)))


def text(part: SubsetFile, path: Path, known: Mapping[str, Benchmark]) -> str:
    """Return what a terminal prints of a drawn subset, with the commands that come next."""
    name, units = part.benchmark, len(part.units)
    ratio = f"{part.error / part.random_error:.2f}" if part.random_error else "-"
    lines = [
        f"wrote {path} and {path.with_suffix('.json')}: {units:,} of {part.of:,} units of {part.measure}, {name} "
        f"({part.technique}), by {len(part.runs)} runs and seed {part.seed}",
        f"expected standard error of a new model's {part.measure} on the whole: {100 * part.error:.1f} points; of a "
        f"random sample of as many: {100 * part.random_error:.1f} (ratio {ratio}; each run predicted by the others)",
        shlex.join(["medvqa", "run", f"--benchmark={name}", f"--tags={path}", "--model=MODEL"])
        + f" --select=\"lexicon({TAG}='{DRAWN}')\" --run=NAME asks the subset",
        f"medvqa subset {shlex.quote(str(path))} --of=reports/NAME estimates the whole",
    ]
    if part.error >= part.random_error > 0:
        lines.append("! these runs do not predict each other: a random sample (--limit) is as good")
    if not known[name].public:
        holds = "ids, keys and answers" if part.suspects else "ids"
        lines.append(f"! these files hold {holds} of data that are not public: share them as you may share the data")
    if len(part.runs) < LEAST_MODELS:
        return "\n".join([*lines, f"! no keys were checked: at least {LEAST_MODELS} runs are needed"])
    keys = "key" if len(part.suspects) == 1 else "keys"
    weak = ", of fewer than 10 runs often by chance" if len(part.runs) < 2 * LEAST_MODELS else ""
    lines.append(
        f"{len(part.suspects):,} {keys} to review, in {path.with_suffix('.json')}: a negative correlation with the "
        f"rest{weak}, where another answer is at least as common"
    )
    if known[name].public and part.suspects:
        lines.append(f"  {printing.some([each.id for each in part.suspects], SHOWN)}")
    return "\n".join(lines)


def text_of(part: SubsetFile, side: Side, whole: Whole) -> str:
    """Return the estimate of the whole as a line, and what it is not."""
    value, low, high = (figures.number(end) for end in (whole.value, whole.low, whole.high))
    known = [f"! {side.name} was one of the runs that drew the subset: the estimate is not of a new model"]
    return "\n".join(
        [
            *known * (side.name in part.runs),
            f"{part.benchmark} ({part.technique}), {part.measure} of {side.name}, whole benchmark estimated: {value} % "
            f"(95 % interval {low} to {high}), standard error {100 * whole.error:.1f} points",
            f"from {len(part.units):,} of {part.of:,} units, drawn and predicted by {', '.join(part.runs)}; seed "
            f"{part.seed}, data {part.data_sha256[:12]}",
            "! an estimate, never the benchmark's number: the run's own tables are of the subset. The interval is for "
            "these questions, not for other patients",
        ]
    )
