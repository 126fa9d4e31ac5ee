"""bench/gpu.py: its sizes are those of the published checkpoints, its table tells what ran, and it runs on a CPU."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'pytest-medvqa[hf]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'pytest-medvqa[hf]'")

from support import tinies  # noqa: E402 - imports torch

WAYS = ("", " -n 1", " -n 2", " without prefix caching")
BENCH = Path(__file__).parents[2] / "bench"
PUBLISHED = {"qwen2-vl-2b": 2.21e9, "qwen2.5-vl-3b": 3.75e9, "qwen2.5-vl-7b": 8.29e9, "qwen3-vl-8b": 8.77e9}
"""Parameters of the published checkpoints."""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("gpu")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_size_has_the_parameters_of_the_published_checkpoint(name: str, gpu: ModuleType) -> None:
    tokens = tinies.tokenizer("<|im_end|>", "<|endoftext|>", *gpu.SPECIAL)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(gpu.configuration(gpu.SIZES[name], tokens))
    assert sum(parameter.numel() for parameter in model.parameters()) == pytest.approx(PUBLISHED[name], rel=0.01)


def test_the_table_has_ratios_of_each_round_and_tells_why_a_row_is_empty(
    gpu: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, ours, absent = (gpu.Row(title, "python", ()) for title in ("bare", "ours", "absent"))
    rounds = {
        bare: (gpu.Took(10.0, 20_000.0, 50.0), gpu.Took(30.0, 20_000.0, 50.0), gpu.Took(10.0, 20_000.0, 50.0)),
        ours: (gpu.Took(5.0, 24_500.0, 90.0), gpu.Took(10.0, 24_000.0, 96.0), gpu.Took(8.0, 24_000.0, 96.0)),
        absent: ("no | vllm", gpu.Took(1.0, None, None), "no | vllm"),
    }
    gpu.table(list(rounds.items()), "mc", 512, 100)
    assert capsys.readouterr().out.splitlines() == [
        "| mc | 512 | bare | 10.00 | 1.00 | 20.0 | 50 % |  |",
        "| mc | 512 | ours | 12.50 | 2.00 | 24.5 | 94 % |  |",
        "| mc | 512 | absent |  |  |  |  | no / vllm |",
    ]


def test_memory_is_summed_over_gpus_and_utilization_is_of_the_busiest_within_the_row(gpu: ModuleType) -> None:
    samples = [gpu.Sample(*each) for each in ((0, "0", 9e4, 0), (1, "0", 1e4, 80), (2, "0", 2e4, 90), (1, "1", 500, 0))]
    assert gpu.used(samples, 1, 2) == (20_500, 85)
    assert gpu.used(samples, 3, 4) == (None, None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_runs_on_a_cpu() -> None:
    command = [sys.executable, str(BENCH / "gpu.py"), "--tiny", "--techniques", "ps"]
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [re.split(r" *\| *", row)[1:-1] for row in done.stdout.splitlines() if row.startswith("| ps")]
    titles = ["bare loop of transformers", *(f"`hf:`{more}" for more in ("", " -n 1", " -n 2"))]
    assert [row[2] for row in rows] == [*titles, "vLLM alone", *(f"`vllm:`{more}" for more in WAYS)]
    for *_, title, speed, ratio, _, _, why in rows:
        if "vllm" in title.lower() and importlib.util.find_spec("vllm") is None:
            assert why == "ModuleNotFoundError: No module named 'vllm'"
        else:
            assert (float(speed) > 0, float(ratio) > 0, why) == (True, True, "")
