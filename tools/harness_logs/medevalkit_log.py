"""Let MedEvalKit write its results.json about questions of the phantom.

Type `python -m tools.harness_logs.medevalkit_log CHECKOUT`.
CHECKOUT is a folder of https://github.com/alibaba-damo-academy/MedEvalKit at commit 9b12e3b. The questions go through
the code of its data set MedXpertQA, which keeps the id of a question; its model gives the invented answers.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from tools.harness_logs.phantom_questions import LOGS, letters, rows


class InventedModel:
    """A model that gives the invented answers."""

    def generate_outputs(self, messages: list[dict[str, Any]]) -> list[str]:
        """Return the answer to each question."""
        return [row["reply"] for row in rows()]


def write(checkout: Path) -> None:
    """Let MedEvalKit ask and score."""
    # The package imports all data sets, and what these need.
    package = types.ModuleType("utils")
    # It makes a judge when it is imported, which is asked nothing here.
    os.environ["api_key"] = "none"  # noqa: SIM112 - its own name
    package.__path__ = [str(checkout / "utils")]
    sys.modules["utils"] = package
    kind = importlib.import_module("utils.MedXpertQA.MedXpertQA").MedXpertQA
    with tempfile.TemporaryDirectory() as folder:
        data = kind(InventedModel(), folder, folder, "MM")
        for row in rows():
            sample = {
                "id": row["index"],
                "question": row["question"],
                "options": {letter: row[letter] for letter in letters(row)},
                "label": row["answer"],
                "medical_task": row["clinical VQA task"],
                "question_type": row["department"],
            }
            data.samples.append(data.construct_messages(sample))
        data.eval()
        shutil.copy(Path(folder, "results.json"), LOGS / "results.json")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
