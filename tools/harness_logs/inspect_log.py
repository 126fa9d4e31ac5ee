"""Let Inspect write logs of its own about questions of the phantom, once: `python -m tools.harness_logs.inspect_log`.

Needs `pip install inspect-ai==0.3.285`. Its model mockllm gives the invented answers. Writes named.eval, where samples
have ids, numbered.json, where Inspect numbers them, and twice.eval, where each is asked twice.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice

from tools.harness_logs.phantom_questions import LOGS, letters, rows


def write(name: str, *, ids: bool, epochs: int, count: int) -> None:
    """Let Inspect write one log."""
    chosen = rows()[:count]
    samples = [
        Sample(
            input=row["question"],
            choices=[row[letter] for letter in letters(row)],
            target=row["answer"],
            id=f"{row['index']}" if ids else None,
            metadata={"department": row["department"]},
        )
        for row in chosen
    ]
    outputs = []
    for row in chosen * epochs:
        output = ModelOutput.from_content("mockllm/model", row["reply"])
        output.usage = ModelUsage()
        outputs.append(output)
    task = Task(dataset=MemoryDataset(samples, name="phantom"), solver=multiple_choice(), scorer=choice())
    format = "eval" if name.endswith(".eval") else "json"
    # Elsewhere, as it records the commit of the folder.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        model = get_model("mockllm/model", custom_outputs=outputs)
        # One at a time, so that each answer goes to its question.
        (log,) = eval(
            task,
            model=model,
            log_format=format,
            log_dir=folder,
            epochs=epochs,
            max_samples=1,
            max_connections=1,
            display="none",
        )
        if log.status != "success":
            raise SystemExit(str(log.error))
        (written,) = Path(folder).glob(f"*.{format}")
        shutil.copy(written, LOGS / name)


if __name__ == "__main__":
    LOGS.mkdir(parents=True, exist_ok=True)
    write("named.eval", ids=True, epochs=1, count=12)
    write("numbered.json", ids=False, epochs=1, count=4)
    write("twice.eval", ids=True, epochs=2, count=3)
