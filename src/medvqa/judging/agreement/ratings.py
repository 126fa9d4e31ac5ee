"""Who gave which answer which score: judges by their runs, people by the files that they fill in."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import cast

import msgspec

from medvqa import records
from medvqa.data import tables
from medvqa.items import DataError, Result, UsageError

SCALE = (0.0, 0.5, 1.0)
"""What an open answer can get: wrong, partly right, right (MedLesionVQA, A.5.1)."""

CONSENSUS = "consensus"
"""The column of what several people say together."""

FORMATS = (
    "scores by people are a table (XLSX, or CSV or TSV in UTF-8) with the columns id and score; several raters have a "
    "file each (repeat --human), or a row each and a column rater"
)

NAMED = 5
"""Ids that a note or an error names."""

_ANSWER_ID = re.compile("k[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers of a run by `answer_id`, sorted by item: those that a judge gave a score, and the others.

    `judge` is the judge's name. An answer that came in several samples of its question stands once, with the first
    score that the judge gave it; `samples` has the numbers of all of them, 0 where the question was asked once.
    """

    folder: Path
    judge: str
    scored: Mapping[str, Result]
    others: Mapping[str, Result]
    samples: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Ratings:
    """Scores of the same answers by several raters: `scores[rater][i]` is that of `results[i]`, or None.

    Raters are in the order in which they are shown; `notes` say in a sentence each what is not compared, and why.
    """

    results: tuple[Result, ...]
    scores: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...] = ()


def names_of(result: Result) -> tuple[str, ...]:
    """What names a result: benchmark, item and technique, and the sample where there are several."""
    return result.key.names


def _question(result: Result) -> tuple[str, ...]:
    """What names the question of a result: benchmark, item and technique."""
    return result.key.question.names


def answer_id(result: Result) -> str:
    """What names one answer in a sheet: a digest of benchmark, item, technique and response.

    It says nothing of the score, is the same in every run and sample with this response, and begins with a letter, so
    that no spreadsheet takes it for a number or a date.
    """
    response = result.answer.text if result.answer else ""
    content = msgspec.json.encode([*_question(result), response])
    return f"k{hashlib.sha256(content).hexdigest()[:16]}"


def judged(folder: Path) -> Judged:
    """The answers of a run folder.

    UsageError if run.json has wrong types, if scoring anew was stopped (scores are then of two judges), or if no answer
    was scored by a judge; DataError for a score off the scale.
    """
    if (folder / records.RUN).exists():
        records.check_scored(folder, records.read_run(folder))
    results: dict[str, Result] = {}
    samples: dict[str, list[int]] = {}
    for result in records.read(folder).results:
        name = answer_id(result)
        samples.setdefault(name, []).append(result.sample)
        if name not in results or (_is_scored(result) and not _is_scored(results[name])):
            results[name] = result
    scored = {name: result for name, result in results.items() if _is_scored(result)}
    if not scored:
        raise UsageError(
            f"{folder}: no answer was scored by a judge, so there is none to compare; "
            f"medvqa rescore {folder} --judge=MODEL has its open answers scored"
        )
    for result in scored.values():
        if result.score.value not in SCALE:
            raise DataError(
                f"{folder}: item {result.item.id} has the judge's score {result.score.value}, "
                f"which is not on the scale {_scale()}"
            )
    names = sorted({result.judgement.judge for result in scored.values() if result.judgement})
    others = {name: result for name, result in results.items() if name not in scored}
    return Judged(
        folder, " and ".join(names), scored, others, {name: tuple(numbers) for name, numbers in samples.items()}
    )


def _is_scored(result: Result) -> bool:
    judgement = result.judgement
    return judgement is not None and judgement.task == "score" and result.score.value is not None


def two_judges(one: Judged, other: Judged) -> Ratings:
    """The scores of two judges for the same responses; UsageError when there are none, or the two are one run."""
    if one.folder.resolve() == other.folder.resolve():
        raise UsageError(f"{one.folder} and {other.folder} are the same run; name two, or --human=FILE")
    shared = [name for name in one.scored if name in other.scored]
    if not shared:
        raise UsageError(f"{one.folder} and {other.folder} have no judged answer in common: same item, same response")
    names = [one.judge, other.judge]
    if one.judge == other.judge:
        names = [f"{run.judge} ({run.folder.name})" for run in (one, other)]
        names = names if names[0] != names[1] else [f"{run.judge} ({run.folder})" for run in (one, other)]
    scores = {
        name: tuple(_value(run.scored[answer]) for answer in shared)
        for name, run in zip(names, (one, other), strict=True)
    }
    # An item with two responses is told once, for the first run.
    notes = (*_not_in(one, other, responses=True), *_not_in(other, one, responses=False))
    return Ratings(tuple(one.scored[name] for name in shared), scores, notes)


def _not_in(one: Judged, other: Judged, *, responses: bool) -> list[str]:
    """What became of the judged answers of one run that the other has no score for.

    `responses`: also those to whose items the other run has another response.
    """
    asked = {_question(result) for results in (other.scored, other.others) for result in results.values()}
    left = {name: result for name, result in one.scored.items() if name not in other.scored}
    reasons: dict[str, list[str]] = {}
    for name, result in left.items():
        if name in other.others:
            why = f"were not scored by a judge in {other.folder}"
        elif _question(result) in asked:
            if not responses:
                continue
            why = f"have another response in {other.folder}"
        else:
            why = f"are not in {other.folder}"
        reasons.setdefault(why, []).append(result.item.id)
    return [f"{len(ids):,} judged answers of {one.folder} {why}: {_some(ids)}" for why, ids in reasons.items()]


def scores_of_people(files: Sequence[Path], run: Judged) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Scores by rater and `answer_id`, and notes of what is left out, from files with the columns id and score.

    `id` is that of a sheet (`answer_id`) or the data set's own, which the columns benchmark, technique and sample,
    where there are any, tell apart. A row's rater is in its column `rater`, else the rater of a file is its name
    without ending. A score may be written with a decimal comma. DataError names file and row of an id that the run does
    not have or has more than once, of a score that is missing or off the scale, and of an answer that one rater scores
    twice.
    """
    stems = Counter(path.stem for path in files)
    by_item: dict[str, list[str]] = {}
    for name, result in (*run.scored.items(), *run.others.items()):
        by_item.setdefault(result.item.id, []).append(name)
    found: dict[str, dict[str, float]] = {}
    places: dict[tuple[str, str], str] = {}
    unjudged: dict[str, str] = {}
    for path in files:
        if not path.is_file():
            raise UsageError(f"--human={path}: no such file")
        rater_of_file = path.stem if stems[path.stem] == 1 else str(path)
        for row in tables.read(path, needed=[("id", "score")], fold=True, hint=f"; {FORMATS}"):
            try:
                answer, score = _answer(row, run, by_item), _score(row)
                rater = row.text("rater").strip() if "rater" in row.values else rater_of_file
                if not rater:
                    raise ValueError("rater is blank")
                if rater in (run.judge, CONSENSUS):
                    raise ValueError(f"the rater is called '{rater}', as what the scores are compared with; rename it")
                if before := places.get((rater, answer)):
                    raise ValueError(
                        f"{rater} scores this answer a second time, after {before}; keep one of them"
                        f"{_same(run, answer)}"
                    )
            except ValueError as error:
                raise row.error(str(error)) from None
            places[rater, answer] = row.where
            if answer in run.scored:
                found.setdefault(rater, {})[answer] = score
            else:
                unjudged[answer] = run.others[answer].item.id
    notes = []
    if unjudged:
        count = f"{len(unjudged):,} answers that people scored have no score by the judge, and are left out"
        notes.append(f"{count}: {_some(unjudged.values())}")
    if not found:
        raise UsageError(f"{run.folder}: the judge scored none of the answers that people scored")
    return found, notes


def _same(run: Judged, answer: str) -> str:
    """That several samples are one answer, where they are."""
    samples = run.samples[answer]
    return f": samples {', '.join(map(str, samples))} are the same response" if len(samples) > 1 else ""


def _answer(row: tables.TableRow, run: Judged, by_item: Mapping[str, Sequence[str]]) -> str:
    name = row.identifier("id")
    if name in run.scored or name in run.others:
        return name
    # A sheet that is safe to open writes an id such as "=1" with an apostrophe before it.
    candidates = by_item.get(name) or by_item.get(name.removeprefix("'"), ())
    if not candidates:
        if _ANSWER_ID.fullmatch(name):
            raise ValueError(f"id {name} is that of a sheet, and {run.folder} has no such answer: another response?")
        raise ValueError(f"{run.folder} has no item '{name[:80]}'")
    fields = ("benchmark", "technique", "sample")
    wanted = [row.identifier(field) if row.text(field).strip() else "" for field in fields]
    results = [(answer, run.scored.get(answer) or run.others[answer]) for answer in candidates]
    there = {
        (result.item.benchmark, result.technique, str(sample or "")): answer
        for answer, result in results
        for sample in run.samples[answer]
    }
    fitting = {at: there[at] for at in there if all(want in ("", has) for want, has in zip(wanted, at, strict=True))}
    # An item asked by several techniques usually has a judge for one of them; of its samples none is preferred.
    judged = {at[:2] for at, answer in fitting.items() if answer in run.scored}
    found = {answer for at, answer in fitting.items() if not judged or at[:2] in judged}
    if len(found) == 1:
        return found.pop()
    listed = "; ".join(sorted(_place(*at) for at in there))
    if not fitting:
        raise ValueError(f"{run.folder} has no item '{name[:80]}' of {_place(*wanted)}; there is: {listed}")
    columns = "benchmark, technique and sample" if any(sample for *_, sample in there) else "benchmark and technique"
    raise ValueError(f"{run.folder} has several items '{name[:80]}'; say in columns {columns} which: {listed}")


def _place(benchmark: str, technique: str, sample: str) -> str:
    return ", ".join(filter(None, (benchmark, technique, sample and f"sample {sample}")))


def _score(row: tables.TableRow) -> float:
    written = row.text("score").strip()
    if not written:
        raise ValueError("score is missing; fill it in, or take the row out")
    try:
        value = float(written.replace(",", "."))
    except ValueError:
        value = -1.0
    if value not in SCALE:
        raise ValueError(f"score '{written[:80]}' is not on the scale {_scale()}")
    return value


def beside(run: Judged, people: Mapping[str, Mapping[str, float]], notes: Iterable[str] = ()) -> Ratings:
    """The judge's scores, those of each person, and where there are several their consensus.

    The consensus is the median of the scores that people gave an answer, of one person that person's. Between two
    scores, as where two people differ, it is the lower one: credit that half of the people refuse is not given. So it
    is on the scale.
    """
    names = [name for name in run.scored if any(name in scores for scores in people.values())]
    given = {rater: tuple(scores.get(name) for name in names) for rater, scores in people.items()}
    scores = {run.judge: tuple(_value(run.scored[name]) for name in names)}
    if len(given) > 1:
        together = ([score for score in row if score is not None] for row in zip(*given.values(), strict=True))
        scores[CONSENSUS] = tuple(median_low(row) for row in together)
    return Ratings(tuple(run.scored[name] for name in names), {**scores, **given}, tuple(notes))


def _value(result: Result) -> float:
    return cast(float, result.score.value)  # of `Judged.scored`


def _scale() -> str:
    return ", ".join(f"{value:g}" for value in SCALE)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:NAMED]) + (f" and {len(listed) - NAMED:,} more" if len(listed) > NAMED else "")
