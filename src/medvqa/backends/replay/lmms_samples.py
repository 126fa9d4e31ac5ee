"""lmms-eval's sample logs, `DATE_samples_TASK.jsonl`, one object for each question (`--log_samples`).

https://github.com/EvolvingLMMs-Lab/lmms-eval/blob/75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3/lmms_eval/loggers/evaluation_tracker.py
writes it (`save_results_samples`). `doc_id` is the place of the question in its data set, so it is no id: an id is read
from the scores of a task (such as `mmmu_acc`), else the question is found by its text in `input`, the prompt.
`resps` are the answers, and `filtered_resps` what the task's filters left of them; equal ones are written once. All
other fields are the task's scores. Log-likelihoods of options are no answers in text, and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from medvqa import files
from medvqa.backends.replay.logged_json import decoded
from medvqa.backends.replay.recording import (
    UNKNOWN,
    AnswerColumns,
    Entry,
    Harness,
    Recording,
    collected,
    id_in,
    missing,
    score_of,
)
from medvqa.items import Answer, DataError
from medvqa.tables import json_text, limits, text_of, whole

NEEDED = frozenset({"doc_id", "target", "filtered_resps"})
"""Fields by which a line is known."""
_OWN = NEEDED | {"doc", "input", "arguments", "resps", "doc_hash", "token_counts", "input_media"}
"""Fields that hold no score."""
_SCORES = ("score", "correct", "exact_match", "is_correct")
_NAME = re.compile(r"(?P<date>.*_)samples_(?P<task>.+)\.jsonl")


class _Metric(msgspec.Struct):
    metric: str = ""


class _Task(msgspec.Struct):
    output_type: str = ""
    metric_list: list[_Metric] = []


class _Results(msgspec.Struct):
    lmms_eval_version: str = ""
    model_name: str | None = None
    configs: dict[str, _Task] = {}


def read(path: Path, columns: AnswerColumns) -> Recording:
    """Return the answers of a sample log (DataError with the line; UsageError for a typed field that is missing)."""
    return collected(_entries(path, columns), _harness(path))


def _harness(path: Path) -> Harness:
    """What the name of a sample log tells, and the results JSON beside it, if that is there and readable."""
    name = _NAME.fullmatch(path.name)
    if name is None:
        return Harness("lmms-eval")
    task = name["task"]
    try:
        results = decoded(files.read(path.with_name(f"{name['date']}results.json"), limits.MAX_RESULT), "", _Results)
    except (DataError, OSError):
        return Harness("lmms-eval", task=task)
    asked = results.configs.get(task, _Task())
    scoring = ", ".join(metric.metric for metric in asked.metric_list)
    return Harness("lmms-eval", results.lmms_eval_version, results.model_name or "", task, asked.output_type, scoring)


def _entries(path: Path, columns: AnswerColumns) -> Iterator[Entry]:
    with limits.opened(path, str(path)) as file:
        for number, line in json_text.lines(file, str(path), limits.MAX_RESULT):
            where = f"{path} line {number}"
            sample = decoded(line, where, dict[str, Any])
            if lacking := sorted(NEEDED - sample.keys()):
                raise DataError(f"{where}: missing field {', '.join(lacking)}")
            yield from _of_sample(sample, where, f"line {number}", columns)


def _of_sample(sample: Mapping[str, Any], where: str, place: str, columns: AnswerColumns) -> Iterator[Entry]:
    """Yield the answers to one question: several if it was asked several times."""
    scores = {name: value for name, value in sample.items() if name not in _OWN}
    doc = sample.get("doc")
    parts = [part for part in (doc, *scores.values()) if isinstance(part, dict)]
    response = "resps" if sample.get("resps") is not None else "filtered_resps"
    if columns.response is not None:
        response = columns.response.strip()
        if response not in sample:
            raise missing("response", columns.response, where, sample)
    replies = _texts(sample[response])
    if replies is None:
        raise DataError(
            f"{where}, field '{response}': no text. Log-likelihoods of options are no answers: ask with a task whose "
            "output_type is generate_until"
        )
    item = _id(sample, parts, columns, where)
    prompt = sample.get("input")
    if not item and not isinstance(prompt, str):
        raise DataError(f"{where}: no id of the question, and no text in 'input'; doc_id counts lines, and is no id")
    # With an id, the prompt shows whether it is that of the question.
    asked = prompt if isinstance(prompt, str) and (not item or columns.question != "") else ""
    score = _score(scores)
    for number, reply in enumerate(replies, 1):
        answer = Answer(reply, finish=UNKNOWN)
        number = number if len(replies) > 1 else 0
        yield Entry(where, place, item, answer, sample=number, prompt=asked, their_score=score)


def _texts(value: object) -> list[str] | None:
    """The answers in a field: a text, or texts in one or two lists; None for log-likelihoods."""
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    texts = [value] if isinstance(value, str) else value
    return texts if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts) else None


def _id(sample: Mapping[str, Any], parts: list[dict[str, Any]], columns: AnswerColumns, where: str) -> str:
    """The id of the question: the typed field, else one that the scores or the question itself hold; "" without one."""
    if columns.id is not None:
        if not columns.id.strip():
            return ""
        value: Any = sample
        for step in columns.id.strip().split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if not (text := text_of(value)):
            raise missing("id", columns.id, where, sample)
        return whole(text)
    return id_in(parts)


def _score(scores: Mapping[str, Any]) -> float | None:
    """The task's own score of an answer: of the first field that is a number, or holds one by a usual name."""
    for value in scores.values():
        held = [value, *(value.get(name) for name in _SCORES)] if isinstance(value, dict) else [value]
        for number in held:
            if isinstance(number, int | float | bool) and (score := score_of(number)) is not None:
                return score
    return None
