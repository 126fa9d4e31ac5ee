"""Read the scores of raters: of judges from their runs, of people from the files they fill in."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import cast

import msgspec

from medvqa import printing, tables
from medvqa.items import DataError, QuestionKey, Result, UsageError
from medvqa.judging import reviews
from medvqa.records import run_folder, run_record
from medvqa.records.run_record import RUN

SCALE = (0.0, 0.5, 1.0)
"""Scores of an open answer: wrong, partly right, right (MedLesionVQA, A.5.1)."""

CONSENSUS = "consensus"
"""The name of the consensus of several people, in place of a rater's."""

FORMATS = (
    "scores by people are a table (XLSX, or CSV or TSV in UTF-8) with the columns id and score; several raters have a "
    "file each (repeat --human), or a row each and a column rater"
)

NAMED = 5
"""Most ids listed in a note or an error."""

_ANSWER_ID = re.compile("k[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers of a run by `answer_id`, sorted by item: `scored` by a judge, and `others`.

    `judge` is the judge's name. The same answer in several samples of a question appears once, with the judge's first
    score; `samples` lists the numbers of these samples, 0 if the question was asked once. `answers` has the `answer_id`
    of every result, and `digest` is that of the run (`run_folder.answers_digest`).
    """

    folder: Path
    judge: str
    scored: Mapping[str, Result]
    others: Mapping[str, Result]
    samples: Mapping[str, tuple[int, ...]]
    answers: Mapping[QuestionKey, str] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Scores of the same answers by several raters: `scores[rater][i]` is the score of `results[i]`, or None.

    Raters are in the order of display; `notes` are sentences about answers that are not compared, with the reason.
    """

    results: tuple[Result, ...]
    scores: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...] = ()


def names_of(result: Result) -> tuple[str, ...]:
    """Return the parts of a result's name: benchmark, item, technique, and the sample if there are several."""
    return result.key.names


def _question(result: Result) -> tuple[str, ...]:
    return result.key.question.names


def answer_id(result: Result) -> str:
    """Return the id of an answer in a sheet: a digest of benchmark, item, technique and response.

    The response includes reasoning and explanations (`Answer.reply`).

    It does not reveal the score and is the same in every run and sample with this response. It begins with a letter, so
    that no spreadsheet reads it as a number or a date.
    """
    response = result.answer.reply if result.answer else ""
    content = msgspec.json.encode([*_question(result), response])
    return f"k{hashlib.sha256(content).hexdigest()[:16]}"


def judged(folder: Path) -> Judged:
    """Return the answers of a run folder.

    Raises UsageError if run.json has wrong types, if a judge scored no answer, or if a rescore was stopped (then scores
    are of two judges); DataError for a score off the scale.
    """
    if (folder / RUN).exists():
        run_folder.check_scored(folder, run_record.read_run(folder))
    results: dict[str, Result] = {}
    samples: dict[str, list[int]] = {}
    answers: dict[QuestionKey, str] = {}
    stored = run_folder.read(folder).results
    for result in stored:
        name = answers[result.key] = answer_id(result)
        samples.setdefault(name, []).append(result.sample)
        if name not in results or (_is_scored(result) and not _is_scored(results[name])):
            results[name] = result
    scored = {name: result for name, result in results.items() if _is_scored(result)}
    if not scored:
        raise UsageError(
            f"{folder}: no answer was scored by a judge, so there is none to compare; "
            f"score its open answers by medvqa rescore {folder} --judge=MODEL"
        )
    for result in scored.values():
        if result.score.value not in SCALE:
            raise DataError(f"{folder}: a score of the judge, {result.score.value}, is not on the scale {_scale()}")
    names = sorted({result.judgement.judge for result in scored.values() if result.judgement})
    others = {name: result for name, result in results.items() if name not in scored}
    numbers = {name: tuple(numbers) for name, numbers in samples.items()}
    digest = run_folder.answers_digest(stored)
    return Judged(folder, " and ".join(names), scored, others, numbers, answers, digest)


def _is_scored(result: Result) -> bool:
    judgement = result.judgement
    return judgement is not None and judgement.task == "score" and result.score.value is not None


def two_judges(one: Judged, other: Judged) -> Ratings:
    """Return the scores of two judges for the same responses; UsageError if there are none or the runs are the same."""
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
    # Note an item with two different responses once, for the first run.
    notes = (*_not_in(one, other, responses=True), *_not_in(other, one, responses=False))
    return Ratings(tuple(one.scored[name] for name in shared), scores, notes)


def _not_in(one: Judged, other: Judged, *, responses: bool) -> list[str]:
    """Return notes about judged answers of one run without a score in the other.

    `responses`: include answers whose question has another response in the other run.
    """
    questions = {_question(result) for results in (other.scored, other.others) for result in results.values()}
    missing = {name: result for name, result in one.scored.items() if name not in other.scored}
    reasons: dict[str, list[str]] = {}
    for name, result in missing.items():
        if name in other.others:
            why = f"were not scored by a judge in {other.folder}"
        elif _question(result) in questions:
            if not responses:
                continue
            why = f"have another response in {other.folder}"
        else:
            why = f"are not in {other.folder}"
        reasons.setdefault(why, []).append(result.item.id)
    return [
        f"{len(ids):,} judged answers of {one.folder} {why}: {printing.some(ids, NAMED)}"
        for why, ids in reasons.items()
    ]


def scores_of_people(files: Sequence[Path], run: Judged) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Return scores by rater and `answer_id`, and notes of omissions, from files with the columns id and score.

    `id` is an `answer_id` from a sheet, or the data set's own id; the optional columns benchmark, technique and sample
    make the latter unambiguous. The rater is in the column `rater`, else it is the file's name without ending. Scores
    may have a decimal comma. A file of `reviews` gives the scores of those reviews that have one. Raises DataError,
    with file and row, for an unknown or ambiguous id, for a score that is missing or off the scale, and for an answer
    scored twice by one rater.
    """
    stems = Counter(path.stem for path in files)
    by_item: dict[str, list[str]] = {}
    for name, result in (*run.scored.items(), *run.others.items()):
        by_item.setdefault(result.item.id, []).append(name)
    scores: dict[str, dict[str, float]] = {}
    places: dict[tuple[str, str], str] = {}
    unjudged: dict[str, str] = {}
    notes: list[str] = []
    for path in files:
        if not path.is_file():
            raise UsageError(f"--human={path}: no such file")
        rater_of_file = path.stem if stems[path.stem] == 1 else str(path)
        if reviews.is_reviews(path):
            given, without = _of_reviews(path, run, rater_of_file, places)
            notes += [f"{without:,} reviews in {path} have no score, and are left out"] if without else []
            for answer, score in given.items():
                if answer in run.scored:
                    scores.setdefault(rater_of_file, {})[answer] = score
                else:
                    unjudged[answer] = run.others[answer].item.id
            continue
        for row in tables.read(path, needed=[("id", "score")], fold=True, hint=f"; {FORMATS}"):
            try:
                answer, score = _answer(row, run, by_item), _score(row)
                rater = row.text("rater").strip() if "rater" in row.values else rater_of_file
                if not rater:
                    raise ValueError("rater is blank")
                _check_rater(rater, run)
                if before := places.get((rater, answer)):
                    raise ValueError(
                        f"{rater} scores this answer a second time, after {before}; keep one of them"
                        f"{_same(run, answer)}"
                    )
            except ValueError as error:
                raise row.error(str(error)) from None
            places[rater, answer] = row.where
            if answer in run.scored:
                scores.setdefault(rater, {})[answer] = score
            else:
                unjudged[answer] = run.others[answer].item.id
    if unjudged:
        count = f"{len(unjudged):,} answers that people scored have no score by the judge, and are left out"
        notes.append(f"{count}: {printing.some(list(unjudged.values()), NAMED)}")
    if not scores:
        raise UsageError(f"{run.folder}: the judge scored none of the answers that people scored")
    return scores, notes


def _check_rater(rater: str, run: Judged) -> None:
    if rater in (run.judge, CONSENSUS):
        raise ValueError(f"the rater has the same name as the judge or the consensus, '{rater}'; rename it")


def _of_reviews(
    path: Path, run: Judged, rater: str, places: dict[tuple[str, str], str]
) -> tuple[dict[str, float], int]:
    """Return the scores in a file of reviews by `answer_id`, and the number of reviews without a score.

    Reviews of several samples with one response may repeat its score.
    """
    scores: dict[str, float] = {}
    without = 0
    for review in reviews.read(path, run.digest, run.answers):
        if review.score is None:
            without += 1
            continue
        answer = run.answers[review.key]
        try:
            _check_rater(rater, run)
            if (before := places.get((rater, answer))) and scores.get(answer) != review.score:
                raise ValueError(f"{rater} gives this answer another score than in {before}{_same(run, answer)}")
        except ValueError as error:
            raise DataError(f"{review.where}: {error}") from None
        places.setdefault((rater, answer), review.where)
        scores[answer] = review.score
    if not scores:
        raise UsageError(
            f"--human={path}: none of its {without:,} reviews has a score. Choose a score on the page, for answers "
            "that a judge scored"
        )
    return scores, without


def _same(run: Judged, answer: str) -> str:
    """Return a note if several samples are the same answer, else ""."""
    samples = run.samples[answer]
    return f": samples {', '.join(map(str, samples))} are the same response" if len(samples) > 1 else ""


def _answer(row: tables.TableRow, run: Judged, by_item: Mapping[str, Sequence[str]]) -> str:
    name = row.identifier("id")
    if name in run.scored or name in run.others:
        return name
    # Sheets that are safe to open put an apostrophe before an id such as "=1".
    candidates = by_item.get(name) or by_item.get(name.removeprefix("'"), ())
    if not candidates:
        if _ANSWER_ID.fullmatch(name):
            raise ValueError(f"id {name} comes from a sheet, but {run.folder} has no such answer: another response?")
        raise ValueError(f"{run.folder} has no item '{name[:80]}'")
    fields = ("benchmark", "technique", "sample")
    wanted = [row.identifier(field) if row.text(field).strip() else "" for field in fields]
    results = [(answer, run.scored.get(answer) or run.others[answer]) for answer in candidates]
    answers = {
        (result.item.benchmark, result.technique, str(sample or "")): answer
        for answer, result in results
        for sample in run.samples[answer]
    }
    fitting = {
        place: answer
        for place, answer in answers.items()
        if all(want in ("", has) for want, has in zip(wanted, place, strict=True))
    }
    # Prefer the technique with a judge, usually one of several; do not choose between samples.
    judged = {place[:2] for place, answer in fitting.items() if answer in run.scored}
    matches = {answer for place, answer in fitting.items() if not judged or place[:2] in judged}
    if len(matches) == 1:
        return matches.pop()
    listed = "; ".join(sorted(_place(*place) for place in answers))
    if not fitting:
        raise ValueError(f"{run.folder} has no item '{name[:80]}' of {_place(*wanted)}; there is: {listed}")
    columns = "benchmark, technique and sample" if any(sample for *_, sample in answers) else "benchmark and technique"
    raise ValueError(f"{run.folder} has several items '{name[:80]}'; choose one in columns {columns}: {listed}")


def _place(benchmark: str, technique: str, sample: str) -> str:
    return ", ".join(filter(None, (benchmark, technique, sample and f"sample {sample}")))


def _score(row: tables.TableRow) -> float:
    written = row.text("score").strip()
    if not written:
        raise ValueError("score is missing; fill it in, or remove the row")
    try:
        value = float(written.replace(",", "."))
    except ValueError:
        value = -1.0
    if value not in SCALE:
        raise ValueError(f"score '{written[:80]}' is not on the scale {_scale()}")
    return value


def judge_and_people(run: Judged, people: Mapping[str, Mapping[str, float]], notes: Iterable[str] = ()) -> Ratings:
    """Return the scores of the judge, of the consensus if there are several people, and of every person.

    The consensus is the median of the people's scores of an answer. If the median falls between two scores, it is the
    lower one: credit refused by half of the people is not given. So the consensus is on the scale.
    """
    names = [name for name in run.scored if any(name in scores for scores in people.values())]
    by_person = {rater: tuple(scores.get(name) for name in names) for rater, scores in people.items()}
    scores = {run.judge: tuple(_value(run.scored[name]) for name in names)}
    if len(by_person) > 1:
        rows = ([score for score in row if score is not None] for row in zip(*by_person.values(), strict=True))
        scores[CONSENSUS] = tuple(median_low(row) for row in rows)
    return Ratings(tuple(run.scored[name] for name in names), {**scores, **by_person}, tuple(notes))


def _value(result: Result) -> float:
    return cast(float, result.score.value)  # a result of `Judged.scored` has a value


def _scale() -> str:
    return ", ".join(f"{value:g}" for value in SCALE)
