"""Backend `vllm` with a stand-in of the engine's interface; tests/engines asks the real one."""

import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa.backend import loaded
from medvqa.backends.vllm import VLLM, VLLMOptions, orphans, stepping
from medvqa.items import Answer, AnswerError, Image, Prompt, Turn, UsageError
from support import tinies, vllm_standin

PICTURES = sorted((Path(__file__).parents[2] / "fixtures/phantom/medlesionvqa/images").iterdir())
IMAGES = tuple(Image(path.name, str(path)) for path in PICTURES[:2])
OPTIONS = {"A": "a red circle", "B": "a red square in the left lung", "C": "none"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tinies.qwen2_5_vl_wide(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[vllm_standin.LLM]]:
    before = dict(os.environ)
    yield vllm_standin.install(monkeypatch)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def models(llm: type[vllm_standin.LLM], folder: Path) -> Iterator[Any]:
    made: list[VLLM] = []

    def make(**options: Any) -> VLLM:
        made.append(VLLM(str(folder), VLLMOptions(**options)))
        return loaded(made[-1])

    yield make
    for model in made:
        model.close()


def engine(number: int = 0) -> vllm_standin.Engine:
    return vllm_standin.LLM.made[number].llm_engine


def prompts(technique: Any = "mc", number: int = 8, **fields: Any) -> list[Prompt]:
    texts = [f"Question {n}: What is it? Answer:" for n in range(number)]
    fields = {"options": OPTIONS, "technique": technique, "max_tokens": 9, **fields}
    return [Prompt(text, IMAGES[:1], item=text, **fields) for text in texts]


def test_answers_come_in_order_with_limits_finish_and_usage(models: Any) -> None:
    model = models()
    asked = [*prompts(), *prompts(number=1, max_tokens=3), *prompts("ff", 1, turns=(Turn("Look.", "I do."),))]
    answers = model.generate(asked)
    alone = [model.generate([prompt])[0] for prompt in asked]
    assert list(map(str, answers)) == list(map(str, alone))
    assert len({answer.text for answer in answers}) == len(asked) - 1
    assert [answer.finish for answer in answers] == [*["stop"] * 8, "length", "stop"]
    read = [len(prompt["prompt_token_ids"]) for prompt, _ in engine().seen[-10:]]
    assert [answer.usage for answer in answers] == [{"input": count, "output": 3} for count in read]
    assert all(params.temperature == 0 and params.seed is None for _, params in engine().seen)
    assert engine().threads == {"medvqa-vllm"}


def test_many_lanes_share_the_engine(models: Any) -> None:
    model, held = models(), threading.Event()
    engine().held = held
    with ThreadPoolExecutor(64) as lanes:
        answers = lanes.map(lambda prompt: model.generate([prompt])[0], prompts(number=64))
        time.sleep(0.5)
        held.set()
    assert len({answer.text for answer in answers}) == 64
    assert engine().most > 32


def test_prompts_are_those_of_hf(models: Any, folder: Path) -> None:
    import transformers

    (prompt,) = prompts(number=1, system="Be brief.")
    models().generate([prompt])
    ((sent, _),) = engine().seen
    text = transformers.AutoTokenizer.from_pretrained(folder).decode(sent["prompt_token_ids"])
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>"
        f"{prompt.text}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert sent["multi_modal_data"]["image"][0].mode == "RGB"


def expected(model: Any, prompt: Prompt) -> dict[str, float]:
    draft = model._draft(prompt)
    scores = {}
    for key, tokens in zip(prompt.options, model._writer.options(prompt, draft.text, draft.ids), strict=True):
        steps = [vllm_standin.logprob([*draft.ids, *tokens[:n]], token) for n, token in enumerate(tokens)]
        scores[key] = sum(steps) / len(steps)
    return scores


@pytest.mark.parametrize("technique", ["gd", "ps"])
def test_scores_are_means_over_the_tokens_of_the_options(models: Any, technique: Any) -> None:
    model = models()
    for prompt, answer in zip(prompts(technique), model.generate(prompts(technique)), strict=True):
        assert answer.option_logprobs == pytest.approx(expected(model, prompt))
    assert all(params.max_tokens == 1 for _, params in engine().seen)
    # Equal beginnings are asked once: "a red circle" and "a red square".
    asked = [tuple(prompt["prompt_token_ids"]) for prompt, _ in engine().seen]
    assert len(asked) == len(set(asked))


def test_more_tokens_than_a_request_takes_are_several_requests(models: Any) -> None:
    model = models()
    draft = model._draft(prompts("gd", 1)[0])
    scores, _ = model._next(draft, {(): range(300)})
    assert scores == {(token,): vllm_standin.logprob(draft.ids, token) for token in range(300)}
    assert [len(params.logprob_token_ids) for _, params in engine().seen] == [128, 128, 44]


def test_letters_that_are_not_told_are_missing(models: Any) -> None:
    model = models()
    (prompt,) = prompts("gd", 1)
    draft = model._draft(prompt)
    letters = [tokens[0] for tokens in model._writer.options(prompt, draft.text, draft.ids)]
    engine().silent = frozenset(letters[1:])
    (answer,) = model.generate([prompt])
    assert list(answer.option_logprobs) == ["A"]
    (answer,) = model.generate(prompts("ps", 1))
    assert isinstance(answer, Answer | AnswerError)


def test_a_text_with_a_token_that_is_not_told_has_no_score(models: Any) -> None:
    model = models()
    engine().silent = frozenset(range(10_000))
    (answer,) = model.generate(prompts("ps", 1))
    assert str(answer) == "vLLM told no log-probabilities of some tokens of the options"


def test_scores_that_are_no_numbers_are_an_error(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models()
    monkeypatch.setattr(vllm_standin, "logprob", lambda *_: -math.inf)
    (answer,) = model.generate(prompts("gd", 1))
    assert isinstance(answer, AnswerError)
    assert "no numbers" in str(answer)


def test_seeds_follow_the_question_and_the_sample_in_any_order(models: Any) -> None:
    model = models(generation={"temperature": 0.7, "top_p": 0.9}, ff_generation={"temperature": 0.0})
    assert model.draws()
    assert list(model.unsampled()) == ["ff"]
    asked = [replace(prompt, sample=sample) for prompt in prompts(number=3) for sample in (1, 2)]
    first = list(map(str, model.generate(asked)))
    order = random.Random(0).sample(range(len(asked)), len(asked))
    again = model.generate([asked[place] for place in order])
    assert [first[place] for place in order] == list(map(str, again))
    assert len(set(first)) == len(asked)
    assert {params.top_p for _, params in engine().seen} == {0.9}
    model.generate(prompts("ff", 1))
    assert engine().seen[-1][1].seed is None
    assert not models().draws()


def test_a_failed_step_is_an_error_of_the_prompt_at_fault_alone(models: Any) -> None:
    model = models()
    asked = prompts(number=6)
    asked[3] = replace(asked[3], text=f"{asked[3].text} {'odd ' * 20}")
    engine().poison = str(len(model._draft(asked[3]).ids))
    with ThreadPoolExecutor(6) as lanes:
        answers = [answer for (answer,) in lanes.map(lambda prompt: model.generate([prompt]), asked)]
    assert str(answers[3]) == "vLLM's engine failed: OverflowError: out of range in the middle of a step"
    assert [type(answer) for answer in answers].count(Answer) == 5
    assert not engine().running
    assert len(vllm_standin.LLM.made) == 1
    assert all(isinstance(answer, Answer) for answer in model.generate(prompts()))


def test_an_engine_that_does_not_recover_is_made_anew(models: Any) -> None:
    model = models()
    engine().stubborn = True
    engine().poison = str(len(model._draft(prompts(number=1)[0]).ids))
    (answer,) = model.generate(prompts(number=1))
    assert isinstance(answer, Answer)
    assert vllm_standin.LLM.ended == [engine(0)]
    assert engine(1).seen


def test_an_engine_that_cannot_be_made_anew_ends_the_requests(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models()
    engine().stubborn = True
    engine().poison = str(len(model._draft(prompts(number=1)[0]).ids))
    monkeypatch.setattr(vllm_standin.LLM, "__init__", lambda *_, **__: 1 / 0)
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    (answer,) = model.generate(prompts(number=1))
    assert str(answer) == stepping.CLOSED
    model.close()
    assert [one.exc_type for one in told] == [ZeroDivisionError]


def test_a_refused_prompt_is_an_error_in_one_line(models: Any) -> None:
    model = models()
    long, fine = prompts(number=2)
    long = replace(long, text="word " * 900)
    answers = model.generate([long, fine])
    assert str(answers[0]) == (
        "vLLM refuses the prompt: VLLMValidationError: This model's maximum context length is 900 tokens. Reduce it"
    )
    assert isinstance(answers[1], Answer)
    assert len(engine().seen) == 1


def test_images_without_a_place_are_an_error(models: Any) -> None:
    model = models(form="raw", raw="{text}")
    (answer,) = model.generate(prompts(number=1))
    assert str(answer) == "the written prompt has 1 images and 0 places for them"
    (answer,) = models().generate(prompts(number=1, system="<|image_pad|>"))
    assert "holds the model's image token" in str(answer)
    (answer,) = models().generate(prompts(number=1, max_tokens=0)[:1])
    assert isinstance(answer, AnswerError)
    assert [one for number in range(3) for one in engine(number).seen] == []


def test_a_caller_that_is_interrupted_leaves_nothing_in_the_engine(
    models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            raise KeyboardInterrupt

    model, held = models(), threading.Event()
    engine().held = held
    request = stepping.EngineRequest
    with monkeypatch.context() as patch:
        patch.setattr(stepping, "EngineRequest", lambda *fields: request(*fields, Interrupted()))
        with pytest.raises(KeyboardInterrupt):
            model.generate(prompts(number=1))
    held.set()
    assert isinstance(model.generate(prompts(number=1))[0], Answer)
    assert not engine().running


def test_closing_ends_what_waits(models: Any) -> None:
    model, held = models(), threading.Event()
    engine().held = held
    with ThreadPoolExecutor(4) as lanes:
        waiting = [lanes.submit(model.generate, [prompt]) for prompt in prompts(number=4)]
        while not engine().running:
            time.sleep(0.01)
        threading.Timer(0.2, held.set).start()
        model.close()
        assert {str(future.result()[0]) for future in waiting} == {stepping.CLOSED}
    assert vllm_standin.LLM.ended == [engine()]
    model.close()
    assert str(model.generate(prompts(number=1))[0]) == stepping.CLOSED


def test_options_reach_the_engine_and_the_fingerprint(models: Any, folder: Path) -> None:
    plain = models()
    other = models(
        gpus=2,
        images=3,
        quantization="awq",
        kv_cache_dtype="fp8",
        mm_processor_kwargs={"max_pixels": 99},
        batch_invariant=True,
        engine={"enforce_eager": True},
    )
    arguments = vllm_standin.LLM.made[1].arguments
    assert arguments["model"] == str(folder)
    assert arguments["tensor_parallel_size"] == 2
    assert arguments["limit_mm_per_prompt"] == {"image": 3}
    assert arguments["quantization"] == "awq"
    assert arguments["mm_processor_kwargs"] == {"max_pixels": 99}
    assert arguments["enforce_eager"] is True
    assert os.environ["VLLM_BATCH_INVARIANT"] == "1"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert plain.resources == {"gpus": 1}
    assert plain.fingerprint() != other.fingerprint()
    assert plain.fingerprint() != models(batch_invariant=True).fingerprint()
    assert plain.fingerprint() == models(max_num_seqs=7, concurrency=3, images=4).fingerprint()
    about = other.about()
    assert about["settings"]["vllm"] == "0.0.standin"
    assert about["digests"].keys() >= {"model.safetensors", "config.json"}
    assert other.concurrency == 256
    assert other.title == folder.name


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"engine": {"dtype": "float16"}}, "`engine` has dtype: it is the option `dtype`"),
        ({"engine": {"tensor_parallel_size": 2}}, "it is the option `gpus`"),
        ({"engine": {"data_parallel_size": 2}}, "copies come from -n"),
        ({"engine": {"model": "x"}}, "which the backend sets"),
        ({"generation": {"seed": 2}}, "`generation` has seed"),
        ({"raw": "{image}"}, "no question would be asked"),
        ({"adapters": ("a", "b")}, "vLLM applies one"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        VLLMOptions(**options)


def test_an_unknown_sampling_parameter_and_a_failed_start_are_told(models: Any) -> None:
    with pytest.raises(UsageError, match=r"`generation` in the options: .*'topp'"):
        models(generation={"topp": 1})
    with pytest.raises(UsageError, match="cannot load it: ValueError: 1 validation error unknown quantization"):
        models(quantization="none-such")


def test_an_adapter_is_refused_unless_all_of_it_is_applied(models: Any, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from test_adapters import adapter

    adapter(tmp_path / "lora", base_model_name_or_path=str(folder), r=9)
    models(adapters=(str(tmp_path / "lora"),))
    arguments = vllm_standin.LLM.made[0].arguments
    assert arguments["max_lora_rank"] == 16
    assert arguments["enable_tower_connector_lora"] is True
    vllm_standin.LLM.left_out.append("visual.blocks.0.attn.qkv")
    with pytest.raises(UsageError, match=r"vLLM: 1 of 4 weights .* such as 'visual.blocks.0.attn.qkv': another model"):
        models(adapters=(str(tmp_path / "lora"),))
    assert vllm_standin.LLM.ended == [engine(1)]


def test_a_model_without_a_name_or_package_is_told_of_both_ways(
    llm: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"^--model=vllm: .*--model=vllm:FOLDER.* server .*--model=vllm-server$"):
        VLLM().check()
    VLLM(str(folder)).check()
    with pytest.raises(UsageError, match=r"^--model=vllm:/nowhere: no such folder"):
        VLLM("/nowhere").check()
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UsageError, match=r"needs vLLM, which pins its own torch .*environment of its own"):
        VLLM(str(folder)).check()


@pytest.mark.skipif(sys.platform != "linux", reason="vLLM runs on Linux")
def test_what_was_started_ends_when_this_process_is_killed() -> None:
    child = "import subprocess, sys; subprocess.Popen(['sleep', '77'], start_new_session=True)"
    script = (
        "import subprocess, sys\nfrom medvqa.backends.vllm.orphans import Watcher\nwatcher = Watcher()\n"
        f"subprocess.run([sys.executable, '-c', {child!r}])\nprint(watcher._mark, flush=True)\ninput()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        mark = process.stdout.readline().strip()
        assert len(orphans._marked(mark)) == 1
        process.send_signal(signal.SIGKILL)
        end = time.monotonic() + 20
        while orphans._marked(mark) and time.monotonic() < end:
            time.sleep(0.05)
        assert orphans._marked(mark) == []
