"""Sessions with tiny checkpoints: batches and workers change no answer, and weights that changed are asked anew."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'pytest-medvqa[hf]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'pytest-medvqa[hf]'")

from support import processes, tinies  # noqa: E402 - imports torch
from support.sessions import others  # noqa: E402

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4
LIMIT = 16
TECHNIQUES = ("mc", "gd", "ps")
ASKED = LIMIT * len(TECHNIQUES)
SUITE = """
import pytest

@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A repository of a suite file alone. No pytester: it would forget torch, which can be imported only once."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_questions.py").write_text(SUITE)
    return tmp_path


def evaluated(suite: Path, checkpoint: Path, run: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    what = (f"--model=hf:{checkpoint}", "--benchmark=phantom-mediconfusion", f"--technique={','.join(TECHNIQUES)}")
    more = (f"--limit={LIMIT}", f"--run={run}", "-p", "no:randomly", "-p", "no:benchmark")
    command = [sys.executable, "-m", "pytest", *what, *more, *others(suite, run), *arguments]
    alone = ("PYTEST_", "MEDVQA_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(alone)}
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return processes.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)


def told(suite: Path, run: str, name: str = "run.json") -> Any:
    return json.loads((suite / "reports" / run / name).read_text())


def results(suite: Path, run: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Lines of results.jsonl by item and technique."""
    lines = (suite / "reports" / run / "results.jsonl").read_text().splitlines()
    read = {(line["item"]["id"], line["technique"]): line for line in map(json.loads, lines)}
    assert len(read) == len(lines) == ASKED
    return read


def counts(suite: Path, run: str) -> tuple[int, int]:
    """How many answers the last session of a run asked for, and how many it had."""
    session = told(suite, run)["sessions"][-1]
    return session["asked"], session["reused"]


def change(folder: Path, how: Callable[[Any], None]) -> None:
    """Load the weights of a checkpoint, change them, and save them where they were."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        how(model)
    model.save_pretrained(folder)


def lettered(folder: Path) -> Path:
    """Make a checkpoint answer with a letter, now A and now B, and end there: random weights hardly ever do."""
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    letters = tokens.convert_tokens_to_ids(["ĠA", "ĠB"])

    def how(model: Any) -> None:
        said, read = model.get_output_embeddings().weight, model.get_input_embeddings().weight
        end, between = (torch.randn(read.shape[1], generator=torch.Generator().manual_seed(n)) for n in (1, 51))
        read *= 0.1  # less of the prompt's last token, which is always the same
        read[letters] += 4 * end
        said[tokens.eos_token_id] += end
        said[letters] = torch.stack((between, -between))

    change(folder, how)
    return folder


# --- what must not change an answer ---------------------------------------------------------------------------


def without_probabilities(measures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the measures that depend on answers alone; the last digits of probabilities depend on the batch."""
    return [measure for measure in measures if measure["name"] not in ("brier_score", "log_loss")]


@pytest.mark.parametrize("family", ["qwen2_5_vl", "llava"])
def test_batches_and_workers_change_nothing(family: str, suite: Path, tmp_path: Path) -> None:
    checkpoint = lettered(tinies.FAMILIES[family](tmp_path / family))
    runs = {}
    for workers, size in ((0, 1), (0, 4), (0, 16), (2, 4), (2, 16)):
        run = f"{workers}-{size}"
        spread = (f"-n{workers}",) if workers else ()
        done = evaluated(suite, checkpoint, run, "--fresh", f"--batch-size={size}", *spread)
        assert done.returncode == 0, done.stdout
        assert counts(suite, run) == (ASKED, 0)
        assert told(suite, run)["sessions"][-1]["workers"] == workers
        assert told(suite, run)["engine"]["batch_size"] == size
        runs[run] = results(suite, run), told(suite, run, "metrics.json")["measures"]
    alone, measures = runs["0-1"]
    for technique in TECHNIQUES:
        chosen = [tuple(line["score"]["extracted"]) for key, line in alone.items() if key[1] == technique]
        assert len(chosen) == LIMIT
        assert {("A",), ("B",)} <= set(chosen), technique  # not the same letter, whatever is asked
    assert {measure["technique"] for measure in measures} >= set(TECHNIQUES)
    for run, (lines, measured) in runs.items():
        assert without_probabilities(measured) == without_probabilities(measures), run
        assert lines.keys() == alone.keys()
        for key, line in lines.items():
            said, expected = line["answer"], alone[key]["answer"]
            assert {**line["score"], "why": ""} == {**alone[key]["score"], "why": ""}, (run, key)
            assert [said[name] for name in ("text", "finish", "usage")] == [
                expected[name] for name in ("text", "finish", "usage")
            ], (run, key)
            assert (expected["option_logprobs"] is None) == (key[1] == "mc")
            if expected["option_logprobs"] is None:
                assert said["option_logprobs"] is None
            else:
                assert said["option_logprobs"] == pytest.approx(expected["option_logprobs"], rel=0, abs=TOLERANCE)


def test_an_adapter_is_evaluated_as_its_merged_checkpoint(suite: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'pytest-medvqa[adapters]'")
    base = lettered(tinies.qwen2_5_vl(tmp_path / "base"))
    for number, name in enumerate(("one", "other")):
        torch.manual_seed(number)
        model = transformers.AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
        lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "qkv"], init_lora_weights=False)
        peft.get_peft_model(model, lora).save_pretrained(tmp_path / name)
    merged = shutil.copytree(base, tmp_path / "merged")
    peft.PeftModel.from_pretrained(
        transformers.AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32), tmp_path / "one"
    ).merge_and_unload().save_pretrained(merged)
    expected = {"one": (ASKED, 0), "again": (0, ASKED), "other": (ASKED, 0), "merged": (ASKED, 0), "base": (ASKED, 0)}
    for run, asked in expected.items():
        done = evaluated(suite, tmp_path / run.replace("again", "one"), run)
        assert done.returncode == 0, done.stdout
        assert counts(suite, run) == asked, run
    assert told(suite, "one")["model"]["adapters"] == [str(tmp_path / "one")]
    assert told(suite, "one")["model"]["checkpoint"] == str(base)
    by_hand, of_base = results(suite, "merged"), results(suite, "base")
    for key, line in results(suite, "one").items():
        said, same = line["answer"], by_hand[key]["answer"]
        assert (said["text"], line["score"]) == (same["text"], by_hand[key]["score"]), key
        if key[1] != "mc":
            assert said["option_logprobs"] == pytest.approx(same["option_logprobs"], rel=0, abs=TOLERANCE)
            assert said["option_logprobs"] != pytest.approx(of_base[key]["answer"]["option_logprobs"], rel=0, abs=0.01)


# --- what must ------------------------------------------------------------------------------------------------


def trained_further(model: Any) -> None:
    """Weights of the same shapes: a file of the same name and size."""
    random = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter += 0.3 * parameter.std(correction=0) * torch.randn(parameter.shape, generator=random)


def test_weights_that_changed_in_their_folder_are_asked_anew(suite: Path, tmp_path: Path) -> None:
    checkpoint = lettered(tinies.qwen2_5_vl(tmp_path / "tiny"))
    weights = checkpoint / "model.safetensors"
    former = weights.read_bytes()
    for run, expected in (("first", (ASKED, 0)), ("again", (0, ASKED))):
        assert evaluated(suite, checkpoint, run).returncode == 0
        assert counts(suite, run) == expected
    first = results(suite, "first")
    again = results(suite, "again")
    assert {key: (line["answer"], line["score"]) for key, line in again.items()} == {
        key: (line["answer"], line["score"]) for key, line in first.items()
    }

    change(checkpoint, trained_further)
    assert len(weights.read_bytes()) == len(former)
    assert evaluated(suite, checkpoint, "trained").returncode == 0
    assert counts(suite, "trained") == (ASKED, 0)
    fingerprints = {run: told(suite, run)["model"]["fingerprint"] for run in ("first", "again", "trained")}
    assert fingerprints["first"] == fingerprints["again"] != fingerprints["trained"]
    trained = results(suite, "trained")
    assert trained.keys() == first.keys()
    for key, line in trained.items():
        if key[1] != "mc":
            assert line["answer"]["option_logprobs"] != first[key]["answer"]["option_logprobs"]

    file = suite / "reports/first/results.jsonl"
    kept = file.read_text()
    for spread in ((), ("-n2",)):
        refused = evaluated(suite, checkpoint, "first", *spread)
        assert refused.returncode not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
        assert (
            f"run 'first' cannot go on: the model's fingerprint was '{fingerprints['first']}' and is "
            f"'{fingerprints['trained']}'. Name another with --run=NAME"
        ) in refused.stdout
        # Nothing that the run had is lost, and the other weights answered nothing.
        assert file.read_text() == kept

    weights.write_bytes(former)
    assert evaluated(suite, checkpoint, "back").returncode == 0
    assert counts(suite, "back") == (0, ASKED)
    assert told(suite, "back")["model"]["fingerprint"] == fingerprints["first"]
