"""Tell an experiment tracker of a run's end: `--track=mlflow`, `--track=wandb`.

Each tracker is a hook `pytest_medvqa_finished`: what fails in it is one line, and the run stays as it is. Its own
environment variables say where the numbers go, such as MLFLOW_TRACKING_URI or WANDB_MODE=offline. It gets measures,
settings and the verdict, and neither questions nor answers nor images. A run that goes on is one run there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from medvqa import printing
from medvqa.decode import did_you_mean, shown
from medvqa.items import UsageError
from medvqa.records import run_folder
from medvqa.records.run_record import Selection

if TYPE_CHECKING:
    from medvqa.comparing.gating import Verdict
    from medvqa.session.run import End

EXPERIMENT = "medvqa"
"""The experiment of MLflow and the project of W&B, where their environment variables name none."""
LONGEST = 500
"""Characters of a setting: the least that a tracker takes."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What a tracker gets of a run: numbers are fractions, by BENCHMARK/TECHNIQUE/MEASURE, with /low, /high and /n.

    `identity` is that of the run, whatever session tells of it.
    """

    identity: str
    name: str
    settings: Mapping[str, str]
    tags: Mapping[str, str]
    numbers: Mapping[str, float]
    complete: bool


def tracked_run(run: End, verdict: Verdict | None) -> TrackedRun:
    """Return what a tracker gets of a run (UsageError for one without a report)."""
    if run.report is None:
        raise UsageError(f"{run.name}: there is no report to track")
    record = run.report.run
    settings = {
        "model": record.model_name,
        "backend": record.config.backend,
        "fingerprint": record.model.fingerprint or "",
        "benchmarks": ",".join(record.benchmarks),
        "techniques": ",".join(record.techniques),
        "extraction": record.extraction,
        "ablation": record.ablation or "",
        "judge": record.judge.name if record.judge is not None else "",
        "version": record.versions.get(run_folder.DISTRIBUTION, ""),
    }
    last = record.last_session
    tags = {
        "complete": str(run.complete),
        "selection": _selected(run.report.selection),
        "verdict": "none" if verdict is None else str(verdict.outcome),
        "commit": last.commit,
        "ci": last.ci,
        "hardware": last.hardware,
    }
    numbers = dict[str, float]()
    for measure in run.measures:
        if not measure.slice:
            key = re.sub(r"[^\w./ -]", "_", f"{measure.benchmark}/{measure.technique}/{measure.name}")
            values = {"": measure.value, "/low": measure.low, "/high": measure.high, "/n": measure.n}
            numbers |= {key + end: float(value) for end, value in values.items() if value is not None}
    numbers |= {f"usage/{name}": float(value) for name, value in record.usage.items()}
    identity = blake2b(f"{record.name}\n{record.started}".encode(), digest_size=8).hexdigest()
    return TrackedRun(identity, run.name, _printable(settings), _printable(tags), numbers, run.complete)


def _selected(selection: Selection) -> str:
    """What a part of a benchmark was selected by; "whole" if no part is one."""
    keys = [(name, technique) for name, techniques in selection.benchmarks.items() for technique in techniques]
    lines = {f"{name} {technique}": selection.line(name, technique) for name, technique in keys}
    return "; ".join(f"{key}: {line}" for key, line in lines.items() if line) or "whole"


def _printable(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: printing.line(text)[:LONGEST] for name, text in texts.items() if text}


def mlflow(run: End, verdict: Verdict | None) -> None:
    """Log the run to MLflow, by the client: an active run of the process is left alone."""
    # A server that is away would hold the end of a session for minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    from mlflow import MlflowClient
    from mlflow.entities import Metric, RunTag

    tracked, client = tracked_run(run, verdict), MlflowClient()
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
    experiment = client.get_experiment_by_name(name)
    place = experiment.experiment_id if experiment is not None else client.create_experiment(name)
    there = client.search_runs([place], f"tags.`medvqa.run` = '{tracked.identity}'", max_results=1)
    started = there[0] if there else client.create_run(place, run_name=tracked.name)
    at, number = started.info.start_time, len(there)
    metrics = [Metric(key, value, at, number) for key, value in tracked.numbers.items()]
    tags = {f"medvqa.{key}": text for key, text in {**tracked.settings, **tracked.tags}.items()}
    tags["medvqa.run"] = tracked.identity
    for first in range(0, len(metrics), 500):
        client.log_batch(started.info.run_id, metrics=metrics[first : first + 500])
    client.log_batch(started.info.run_id, tags=[RunTag(key, text) for key, text in tags.items()])
    client.set_terminated(started.info.run_id, "FINISHED" if tracked.complete else "FAILED")


def wandb(run: End, verdict: Verdict | None) -> None:
    """Log the run to Weights & Biases, without the code, the host and the terminal that it would add by itself."""
    import wandb as client

    tracked = tracked_run(run, verdict)
    off = dict.fromkeys(("x_disable_stats", "x_disable_meta", "x_disable_machine_info", "disable_git"), True)
    kept: dict[str, Any] = {"save_code": False, "x_save_requirements": False, "console": "off", "silent": True}
    kept["host"] = ""  # Without one, W&B asks the machine for its name.
    settings = client.Settings(**off, **kept)
    started = client.init(
        project=os.environ.get("WANDB_PROJECT", EXPERIMENT),
        id=tracked.identity,
        name=tracked.name,
        resume="allow",
        config={**tracked.settings, **tracked.tags},
        settings=settings,
        reinit="create_new",
    )
    started.summary.update(tracked.numbers)
    started.finish(exit_code=0 if tracked.complete else 1)


TRACKERS: Mapping[str, Callable[[End, Verdict | None], None]] = MappingProxyType({"mlflow": mlflow, "wandb": wandb})


def chosen(names: Sequence[str]) -> list[Callable[..., object]]:
    """Return the hooks of trackers (UsageError for an unknown one, or one that is not installed)."""
    for name in names:
        if name not in TRACKERS:
            raise UsageError(f"--track={shown(name)}: no such tracker{did_you_mean(name, TRACKERS)}")
        found = find_spec(name)
        # W&B makes a folder `wandb` where it runs, which Python takes for a package without a file.
        if found is None or found.origin is None:
            raise UsageError(f"--track={name} needs: pip install 'pytest-medvqa[{name}]'")
    return [TRACKERS[name] for name in dict.fromkeys(names)]
