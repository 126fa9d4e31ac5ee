"""Compare a judge's scores with those of people, or of another judge.

Draw answers for people to score, write a sheet without the judge's scores, read the scores of all raters, and compute
their agreement (`coefficients`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import cast

import msgspec

from medvqa import printing, tables
from medvqa.items import DataError, QuestionKey, Result, UsageError
from medvqa.judging import handed_in, reviews
from medvqa.judging.coefficients import Ratings
from medvqa.judging.coefficients import agreements as agreements
from medvqa.judging.coefficients import dimension_of as dimension_of
from medvqa.judging.handed_in import CONSENSUS, answer_id
from medvqa.judging.templates import SCALE, SHOWN_SCALE
from medvqa.records import run_folder, run_record
from medvqa.records.run_record import RUN

COLUMNS = ("id", "question", "reference", "response", "score", "remark")
"""Columns of a sheet; people fill in `score`, and `remark` if they like."""

NAMED = 5
"""Most ids listed in a note or an error."""

_ANSWER_ID = re.compile("k[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers of a run by `answer_id`, sorted by item: all `results`, and those that a judge `scored`.

    `judge` is the judge's name. The same answer in several samples of a question appears once, with the judge's first
    score; `samples` lists the numbers of these samples, 0 if the question was asked once. `answers` has the `answer_id`
    of every result, and `digest` is that of the run (`run_folder.answers_digest`). `judgements` has every result that a
    judge scored, in all samples.
    """

    folder: Path
    judge: str
    results: Mapping[str, Result]
    scored: Mapping[str, Result]
    samples: Mapping[str, tuple[int, ...]]
    answers: Mapping[QuestionKey, str] = field(default_factory=dict)
    digest: str = ""
    judgements: tuple[Result, ...] = ()


def judged(folder: Path) -> Judged:
    """Return the answers of a run folder.

    Raises UsageError if run.json has wrong types, if a judge scored no answer, or if a rescore was stopped (then scores
    are of two judges); DataError for a score off the scale.
    """
    if (folder / RUN).exists():
        run_folder.check_scored(folder, run_record.read_run(folder))
    return judged_of(folder, run_folder.read(folder).results)


def judged_of(folder: Path, stored: Sequence[Result]) -> Judged:
    """Return the answers of these results; messages call their run `folder` (for errors see `judged`)."""
    results: dict[str, Result] = {}
    samples: dict[str, list[int]] = {}
    answers: dict[QuestionKey, str] = {}
    for result in stored:
        name = answers[result.key] = answer_id(result)
        samples.setdefault(name, []).append(result.sample)
        if name not in results or (is_scored(result) and not is_scored(results[name])):
            results[name] = result
    scored = {name: result for name, result in results.items() if is_scored(result)}
    if not scored:
        raise UsageError(
            f"{folder}: no answer was scored by a judge, so there is none to compare; "
            f"score its open answers by medvqa rescore {folder} --judge=MODEL"
        )
    for result in scored.values():
        if result.score.value not in SCALE:
            raise DataError(f"{folder}: a score of the judge, {result.score.value}, is not on the scale {SHOWN_SCALE}")
    names = sorted({result.judgement.judge for result in scored.values() if result.judgement})
    numbers = {name: tuple(numbers) for name, numbers in samples.items()}
    digest = run_folder.answers_digest(stored)
    judgements = tuple(filter(is_scored, stored))
    return Judged(folder, " and ".join(names), results, scored, numbers, answers, digest, judgements)


def is_scored(result: Result) -> bool:
    """Return whether a judge scored an answer by its reference."""
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
    questions = {result.key.question.names for result in other.results.values()}
    missing = {name: result for name, result in one.scored.items() if name not in other.scored}
    reasons: dict[str, list[str]] = {}
    for name, result in missing.items():
        if name in other.results:
            why = f"were not scored by a judge in {other.folder}"
        elif result.key.question.names in questions:
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
    """Return scores by rater and `answer_id`, and notes of omissions, from what people hand in (`handed_in.read`).

    `id` is an `answer_id` from a sheet, or the data set's own id; the optional columns benchmark, technique and sample
    make the latter unambiguous. Scores may have a decimal comma. Of `reviews`, those with a score count. Raises
    DataError, with file and row, for an unknown or ambiguous id, and for a score that is missing or off the scale.
    """
    by_item: dict[str, list[str]] = {}
    for name, result in run.results.items():
        by_item.setdefault(result.item.id, []).append(name)
    notes: list[str] = []

    def of_reviews(path: Path) -> Iterator[tuple[str, float, str]]:
        read = reviews.read(path, run.digest, run.answers)
        scores = [(run.answers[review.key], review.score, review.where) for review in read if review.score is not None]
        without = len(read) - len(scores)
        if not scores:
            raise UsageError(
                f"--human={path}: none of its {without:,} reviews has a score. Choose a score on the page, for answers "
                "that a judge scored"
            )
        if without:
            notes.append(f"{without:,} reviews in {path} have no score, and are left out")
        yield from scores

    given = handed_in.read(
        files,
        run.judge,
        "score",
        of_row=lambda row: (_answer(row, run, by_item), _score(row)),
        of_reviews=of_reviews,
        note=lambda answer: _same(run, answer),
    )
    scores = {
        rater: kept
        for rater, said in given.items()
        if (kept := {answer: score for answer, score in said.items() if answer in run.scored})
    }
    answers = dict.fromkeys(answer for said in given.values() for answer in said)
    if unjudged := [run.results[answer].item.id for answer in answers if answer not in run.scored]:
        count = f"{len(unjudged):,} answers that people scored have no score by the judge, and are left out"
        notes.append(f"{count}: {printing.some(unjudged, NAMED)}")
    if not scores:
        raise UsageError(f"{run.folder}: the judge scored none of the answers that people scored")
    return scores, notes


def _same(run: Judged, answer: str) -> str:
    """Return a note if several samples are the same answer, else ""."""
    samples = run.samples[answer]
    return f": samples {', '.join(map(str, samples))} are the same response" if len(samples) > 1 else ""


def _answer(row: tables.TableRow, run: Judged, by_item: Mapping[str, Sequence[str]]) -> str:
    name = row.identifier("id")
    if name in run.results:
        return name
    # Sheets that are safe to open put an apostrophe before an id such as "=1".
    candidates = by_item.get(name) or by_item.get(name.removeprefix("'"), ())
    if not candidates:
        if _ANSWER_ID.fullmatch(name):
            raise ValueError(f"id {name} comes from a sheet, but {run.folder} has no such answer: another response?")
        raise ValueError(f"{run.folder} has no item '{name[:80]}'")
    fields = ("benchmark", "technique", "sample")
    wanted = [row.identifier(field) if row.text(field).strip() else "" for field in fields]
    answers = {
        (run.results[answer].item.benchmark, run.results[answer].technique, str(sample or "")): answer
        for answer in candidates
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
        raise ValueError(f"score '{written[:80]}' is not on the scale {SHOWN_SCALE}")
    return value


def judge_and_people(run: Judged, people: Mapping[str, Mapping[str, float]], notes: Iterable[str] = ()) -> Ratings:
    """Return the scores of the judge, of the consensus if there are several people, and of every person.

    The consensus is that of `consensus`.
    """
    names = [name for name in run.scored if any(name in scores for scores in people.values())]
    by_person = {rater: tuple(scores.get(name) for name in names) for rater, scores in people.items()}
    scores = {run.judge: tuple(_value(run.scored[name]) for name in names)}
    if len(by_person) > 1:
        together = consensus(people)
        scores[CONSENSUS] = tuple(together[name] for name in names)
    return Ratings(tuple(run.scored[name] for name in names), {**scores, **by_person}, tuple(notes))


def consensus(people: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the median of the people's scores of each answer, from scores by rater and `answer_id`.

    If the median falls between two scores, it is the lower one: credit refused by half of the people is not given. So
    the consensus is on the scale.
    """
    given: dict[str, list[float]] = {}
    for scores in people.values():
        for name, score in scores.items():
            given.setdefault(name, []).append(score)
    return {name: median_low(scores) for name, scores in given.items()}


def _value(result: Result) -> float:
    return cast(float, result.score.value)  # a result of `Judged.scored` has a value


def sample(run: Judged, number: int, dimension: str | None, seed: int = 0) -> tuple[Result, ...]:
    """Draw up to `number` judged answers, stratified by a dimension and the judge's score, in random order.

    All answers have the same chance, and strata get their share, rounded up or down: figures over the sample estimate
    those over the run without weights. The sample is systematic with a random start; answers are sorted by stratum, in
    random order within (Cochran 1977, Sampling Techniques, chapter 8). `seed` fixes the draw on every machine. Raises
    UsageError if `number` is below 1.
    """
    if number < 1:
        raise UsageError(f"--sample={number}: draw at least one answer")
    answers = list(run.scored.values())
    if number < len(answers):
        tags = {result.key: result.item.tags.get(dimension or "", ()) for result in answers}
        answers.sort(
            key=lambda result: (
                tags[result.key],
                result.score.value or 0.0,
                _random(seed, "draw", *result.key.names),
            )
        )
        # In whole numbers: place i is (start + i * all) // number, with a start in [0, all).
        start = int.from_bytes(_random(seed, "start")) % len(answers)
        answers = [answers[(start + i * len(answers)) // number] for i in range(number)]
    return tuple(sorted(answers, key=lambda result: _random(seed, "order", *result.key.names)))


def _random(seed: int, *names: str) -> bytes:
    return hashlib.sha256(msgspec.json.encode([seed, *names])).digest()


def write_sheet(path: Path, results: Iterable[Result]) -> None:
    """Write the answers for people, without the judge's scores (UsageError as by `handed_in.write_sheet`)."""
    rows = (
        (
            answer_id(result),
            result.item.question,
            " / ".join(result.item.answers),
            result.answer.text if result.answer else "",
            "",
            "",
        )
        for result in results
    )
    handed_in.write_sheet(path, COLUMNS, rows, option="--output", filled_in="scores")
