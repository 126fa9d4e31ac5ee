"""What another harness takes for as many single choices as bench/run.py asks, with a model that answers at once.

    python bench/other_harness.py inspect [--rows 4550]        needs inspect-ai 0.3.285
    python bench/other_harness.py lmms-eval                    needs lmms-eval 0.7.3 and torch
    python bench/other_harness.py vlmevalkit --checkout DIR    scores answers alone; a checkout at commit e8e78f0

Run each in an environment of its own. The questions have no images. It prints the CPU time and the largest memory of
the process, imports included, and what it wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import resource
import sys
import tempfile
import time
import types
from pathlib import Path

OPTIONS = {"A": "naevus", "B": "melanoma", "C": "keratosis", "D": "none"}
STARTED = time.perf_counter()


def inspect(rows: int, folder: Path) -> float:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    @modelapi(name="instant")
    class Instant(ModelAPI):
        async def generate(self, **_: object) -> ModelOutput:
            return ModelOutput.from_content("instant", "ANSWER: A")

    samples = [
        Sample(input=f"What is shown in image {n}?", choices=[*OPTIONS.values()], target="AB"[n % 2], id=str(n))
        for n in range(rows)
    ]
    task = Task(dataset=MemoryDataset(samples), solver=multiple_choice(), scorer=choice())
    [log] = eval(task, model=get_model("instant/a"), log_dir=str(folder), display="none")
    assert log.results is not None, log.error
    return float(log.results.scores[0].metrics["accuracy"].value)


def lmms_eval(rows: int, folder: Path) -> float:
    from lmms_eval.api.model import lmms
    from lmms_eval.api.task import ConfigurableTask
    from lmms_eval.evaluator import simple_evaluate
    from lmms_eval.loggers import EvaluationTracker
    from lmms_eval.tasks._task_utils.mmmu_mcq_utils import parse_mmmu_multi_choice_response as read

    class Instant(lmms):
        def generate_until(self, requests: list) -> list[str]:
            return ["A"] * len(requests)

        loglikelihood = generate_until_multi_round = generate_until

    docs = [{"question": f"What is shown in image {n}?", "answer": "AB"[n % 2]} for n in range(rows)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    config = {
        "task": "choices", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": f"{folder}/docs.jsonl"}},
        "test_split": "test", "output_type": "generate_until", "doc_to_visual": lambda doc: [],
        "doc_to_text": lambda doc, _=None: f"{doc['question']}\n" + "\n".join(map(". ".join, OPTIONS.items())),
        "doc_to_target": "answer", "generation_kwargs": {"max_new_tokens": 16},
        "process_results": lambda doc, said: {"accuracy": float(read(said[0], [*OPTIONS], OPTIONS) == doc["answer"])},
        "metric_list": [{"metric": "accuracy", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    tracker = EvaluationTracker(output_path=f"{folder}/out")
    results = simple_evaluate(
        model=Instant(), tasks=[ConfigurableTask(config=config)], log_samples=True, evaluation_tracker=tracker,
        datetime_str="now", cli_args=None, bootstrap_iters=0, process_docs_parallel=1,
    )  # fmt: skip
    tracker.general_config_tracker.log_experiment_args(
        model_source="instant", model_args="", system_instruction="", chat_template="", fewshot_as_multiturn=False
    )
    samples, accuracy = results.pop("samples"), float(results["results"]["choices"]["accuracy,none"])
    tracker.save_results_aggregated(results=results, samples=samples, datetime_str="now")
    for name, written in samples.items():
        tracker.save_results_samples(task_name=name, samples=written)
    return accuracy


def vlmevalkit(rows: int, folder: Path, checkout: Path) -> float:
    import pandas as pd

    # The packages import all models and data sets, and what these need.
    for name in ("vlmeval", "vlmeval.dataset", "vlmeval.dataset.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(checkout / name.replace(".", "/"))]
        sys.modules[name] = package
    score = importlib.import_module("vlmeval.dataset.utils.multiple_choice").mcq_vanilla_eval
    answered = [
        {"index": n, "question": f"What is shown in image {n}?", **OPTIONS, "answer": "AB"[n % 2], "prediction": "A"}
        for n in range(rows)
    ]
    data = pd.DataFrame(answered)
    return float(score(None, data, data, 4, f"{folder}/result.pkl", "GMAI-MMBench_VAL")["hit"].mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("harness", choices=("inspect", "lmms-eval", "vlmevalkit"))
    parser.add_argument("--rows", type=int, default=4_550)
    parser.add_argument("--checkout", type=Path)
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(sys.stderr):
        folder = Path(name)
        if typed.harness == "vlmevalkit":
            right = vlmevalkit(typed.rows, folder, typed.checkout)
        else:
            right = (inspect if typed.harness == "inspect" else lmms_eval)(typed.rows, folder)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    used = resource.getrusage(resource.RUSAGE_SELF)
    io = next(line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("write_bytes"))
    print(f"{typed.harness}: {right:.2f} of {typed.rows} right")
    print(f"{used.ru_utime + used.ru_stime:.1f} s CPU, {time.perf_counter() - STARTED:.1f} s")
    print(f"{used.ru_maxrss / 1024:.0f} MB, kept {size / 1e6:.1f} MB, {io}")


if __name__ == "__main__":
    main()
