"""Let lmms-eval write logs of its own about questions of the phantom: `python -m tools.harness_logs.lmms_eval_log`.

Needs `pip install lmms-eval==0.7.3`. A task is declared here, and a model that gives the invented answers. Writes
lmms-eval's results JSON and sample logs, in one of which the scores name the question, as those of the task MMMU do.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from lmms_eval.api.task import ConfigurableTask
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.loggers import EvaluationTracker
from lmms_eval.tasks.mmmu.utils import parse_multi_choice_response

from tools.harness_logs.phantom_questions import LOGS, letters, rows


class InventedAnswers(lmms):  # type: ignore[misc]
    """A model that gives the invented answer to each prompt."""

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Return the answers."""
        replies = {prompt(row): row["reply"] for row in rows()}
        return [replies[request.args[0]] for request in requests]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Return one log-likelihood for all."""
        return [(-1.0, True) for _ in requests]

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        """Return nothing."""
        raise NotImplementedError


def prompt(doc: dict[str, Any], kwargs: object = None) -> str:
    """Return the text of a question, as most tasks of lmms-eval write it."""
    options = "\n".join(f"{letter}. {doc[letter]}" for letter in letters(doc))
    return f"{doc['question']}\n{options}\nAnswer with the option's letter from the given choices directly."


def process(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """Return the scores of a question by the rule of the task MMMU, with its id as that task has it.

    The rule draws a letter if it finds none.
    """
    random.seed(1)
    read = parse_multi_choice_response(results[0], letters(doc), {letter: doc[letter] for letter in letters(doc)})
    scores: dict[str, Any] = {"accuracy": float(read == doc["answer"])}
    if doc["named"]:
        scores["phantom_acc"] = {"id": doc["index"], "answer": doc["answer"], "parsed_pred": read}
    return scores


def config(name: str, data: Path) -> dict[str, Any]:
    """Return a task as the YAML files of lmms-eval declare it."""
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_visual": lambda doc: [],
        "doc_to_text": prompt,
        "doc_to_target": "answer",
        "process_results": process,
        "generation_kwargs": {"max_new_tokens": 16},
        "metric_list": [
            {"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in ("accuracy",)
        ],
    }


def write(name: str, date: str, folder: Path, *, named: bool) -> None:
    """Let lmms-eval write one log."""
    data = folder / f"{name}.jsonl"
    fields = ("index", "question", *"ABCDE", "answer")
    docs = [{**{field: row[field] for field in fields}, "named": named} for row in rows()]
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    tracker = EvaluationTracker(output_path=str(folder / "out"))
    results = simple_evaluate(
        model=InventedAnswers(),
        tasks=[ConfigurableTask(config=config(name, data))],
        log_samples=True,
        evaluation_tracker=tracker,
        datetime_str=date,
        cli_args=None,
        bootstrap_iters=0,
        process_docs_parallel=1,
    )
    tracker.general_config_tracker.log_experiment_args(
        model_source="recorded",
        model_args="pretrained=recorded",
        system_instruction="",
        chat_template="",
        fewshot_as_multiturn=False,
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples, datetime_str=date)
    for task, written in samples.items():
        tracker.save_results_samples(task_name=task, samples=written)
    for path in (folder / "out").rglob("*.json*"):
        (LOGS / path.name).write_text(path.read_text("utf-8").replace(str(folder), "data"), "utf-8")


if __name__ == "__main__":
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write("phantom", "20261127_120000", Path(folder), named=True)
        write("phantom_nameless", "20261127_130000", Path(folder), named=False)
