"""Let VLMEvalKit write answers to questions of the phantom, and its scores.

Type `python -m tools.harness_logs.vlmevalkit_log CHECKOUT`.
CHECKOUT is a folder of https://github.com/open-compass/VLMEvalKit at commit e8e78f0. The answers, in a table as
`inference.infer_data_job` makes it, go through its `dump`, and through its rule for questions with options.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import types
from pathlib import Path

import pandas

from tools.harness_logs.phantom_questions import LOGS, rows


def write(checkout: Path) -> None:
    """Let VLMEvalKit write its files: the answers as XLSX, TSV and JSON, and the scored ones as XLSX."""
    # The packages import all models and data sets, and what these need.
    for name in ("vlmeval", "vlmeval.dataset", "vlmeval.dataset.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(checkout / name.replace(".", "/"))]
        sys.modules[name] = package
    smp = importlib.import_module("vlmeval.smp")
    choices = importlib.import_module("vlmeval.dataset.utils.multiple_choice")
    data = pandas.DataFrame([{name: text for name, text in row.items() if name != "image"} for row in rows()])
    data["index"] = data["index"].astype(int)
    data["prediction"] = data.pop("reply")
    # As pandas reads its tables: an empty text would be an option.
    data[[*"ABCDE"]] = data[[*"ABCDE"]].replace("", None)
    for ending in ("xlsx", "tsv", "json"):
        smp.dump(data, str(LOGS / f"recorded_PHANTOM_VAL.{ending}"))
    with tempfile.TemporaryDirectory() as folder:
        scored = choices.mcq_vanilla_eval(None, data, data, 1, f"{folder}/result.pkl", "GMAI-MMBench_VAL")
    smp.dump(scored, str(LOGS / "recorded_PHANTOM_VAL_exact_matching_result.xlsx"))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
