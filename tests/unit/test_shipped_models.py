"""The configs that ship: all can be used, and those of checkpoints ask a tiny one of their architecture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import configs
from medvqa.backend import loaded
from medvqa.backends import pytest_medvqa_backends
from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.benchmarks import gmai_mmbench, mediconfusion
from medvqa.items import Answer, Image, Item, Prompt, Technique
from medvqa.protocols.prompts import Templates
from support import tinies

SHIPPED = [Path(__file__).parents[2] / "models"]
PICTURES = Path(__file__).parents[2] / "fixtures/phantom/medlesionvqa/images"
BACKENDS = {kind.name: kind for kind in pytest_medvqa_backends()}
CONFIGS = {config.name: config for config in configs.available(SHIPPED)}
TINY = {
    "blip-2": tinies.blip_2,
    "gemma-3": tinies.gemma3,
    "idefics3": tinies.idefics3,
    "instructblip": tinies.instructblip,
    "internvl": tinies.internvl,
    "llama-3.2-vision": tinies.mllama,
    "llava-1.5": tinies.llava,
    "llava-next": tinies.llava_next,
    "llava-onevision": tinies.llava_onevision,
    "medgemma": tinies.gemma3,
    "mediconfusion-blip-2": tinies.blip_2,
    "mediconfusion-instructblip": tinies.instructblip,
    "mediconfusion-llama": tinies.mllama,
    "mediconfusion-llava": tinies.llava_next,
    "paligemma": tinies.paligemma,
    "qwen-vl": tinies.qwen3_vl,
    "qwen2-vl": tinies.qwen2_vl,
    "qwen2.5-vl": tinies.qwen2_5_vl,
    "qwen3-vl": tinies.qwen3_vl,
    "smolvlm": tinies.smolvlm,
}
TEXTS: dict[Technique, str] = {
    "mc": "Question: What is it?\nA: a red circle\nB: a blue square\nAnswer with the option's letter.\nAnswer: ",
    "gd": "Question: What is it?\nA: a red circle\nB: a blue square\nAnswer with the option's letter.\nAnswer: ",
    "ps": "Question: What is it? Answer:",
}
OPTIONS = {"A": "a red circle", "B": "a blue square"}


def options(name: str) -> Any:
    return configs.make(CONFIGS[name], BACKENDS).options


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_can_be_used(name: str) -> None:
    config = configs.resolve(name, folders=SHIPPED, backends=BACKENDS)
    assert config.description
    configs.make(config, BACKENDS)
    comments = (SHIPPED[0] / f"{name}.toml").read_text()
    if config.backend in ("hf", "openai"):
        assert "# Verified: " in comments, "what was verified, and how"
    if config.backend == "hf":
        assert "Weights: " in comments, "their licence"
        shipped = (SHIPPED[0] / config.argument).is_dir()
        assert shipped or "revision = " in comments, "how to pin them"


LIMITS: dict[str, tuple[int, int, int]] = {
    "blip-2": (32, 30, 512),
    "claude": (2048, 2048, 1024),
    "gemini": (0, 0, 4096),
    "gpt-4o": (0, 0, 1024),
    "idefics3": (32, 512, 1024),
    "instructblip": (32, 128, 512),
    "internvl": (32, 512, 4096),
    "llama-3.2-vision": (100, 100, 128),
    "llava-next": (100, 100, 512),
    "mediconfusion-blip-2": (32, 30, 512),
    "mediconfusion-claude": (2048, 2048, 512),
    "mediconfusion-gemini": (0, 0, 512),
    "mediconfusion-gpt-4o": (0, 0, 512),
    "mediconfusion-instructblip": (32, 128, 512),
    "mediconfusion-llama": (100, 100, 512),
    "mediconfusion-llava": (100, 100, 512),
    "mediconfusion-o1": (0, 0, 4096),
    "openai-reasoning": (0, 0, 4096),
    "qwen-vl": (32, 512, 2048),
    "qwen2-vl": (32, 512, 2048),
    "qwen2.5-vl": (32, 512, 2048),
    "qwen3-vl": (32, 512, 2048),
}
"""New tokens for MediConfusion by mc and by ff, and for GMAI-MMBench, where they are not those of the benchmark."""


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_has_the_limits_that_owners_give_its_model(name: str) -> None:
    config = CONFIGS[name]
    limits = configs.make(config, BACKENDS).token_limits()
    known = {each.name: each for each in [*mediconfusion.BENCHMARKS, *gmai_mmbench.BENCHMARKS]}
    configs.check_token_limits(config, limits, known)
    if limits is None:
        assert config.backend in ("echo", "majority", "random")
        return
    item = Item("1", "x", "single_choice", "What?", OPTIONS)
    asked: list[tuple[str, Technique]] = [("mediconfusion", "mc"), ("mediconfusion", "ff"), ("gmai-mmbench-val", "mc")]
    found = tuple(
        configs.token_limit(None, config, limits, known[benchmark], known[benchmark].prompt(item, technique))
        for benchmark, technique in asked
    )
    assert found == LIMITS.get(name, (32, 512, 512))
    written = (SHIPPED[0] / f"{name}.toml").read_text()
    assert bool(config.max_tokens) == ("# New tokens" in written), "their source"


TABLE_3: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mediconfusion-blip-2": ("blip-2", "images-first", {"temperature": 1.0, "num_beams": 5, "top_p": 0.9}),
    "mediconfusion-claude": ("claude", "images-first", {"temperature": 0.2}),
    "mediconfusion-gemini": ("gemini", "text-first", {"temperature": 0.2}),
    "mediconfusion-gpt-4o": ("gpt", "text-first", {"temperature": 0.7}),
    "mediconfusion-instructblip": ("instructblip", "images-first", {"temperature": 1.0, "num_beams": 5, "top_p": 0.9}),
    "mediconfusion-llama": ("llama", "images-first", {"temperature": 0.2}),
    "mediconfusion-llava": ("llava", "text-first", {"temperature": 0.2}),
    "mediconfusion-o1": ("o1", "text-first", {}),
}
"""Prompt, order and free-form sampling of MediConfusion's Table 3 and of the owners' code."""


def test_the_configs_of_table_3_ask_as_the_owners_do() -> None:
    (benchmark,) = mediconfusion.BENCHMARKS
    assert TABLE_3.keys() == {name for name, config in CONFIGS.items() if config.prompts}
    for name, (prompt, order, sampling) in TABLE_3.items():
        config = CONFIGS[name]
        configs.check_prompts(config, {benchmark.name: benchmark})
        assert configs.prompt_of(config, benchmark) == (prompt,)
        ask = benchmark.prompts[prompt]
        assert isinstance(ask, Templates)
        assert {ask.by_technique[technique].order for technique in ("mc", "ff")} == {order}
        if config.backend == "hf":
            of_ff = options(name).ff_generation
            assert {key: value for key, value in of_ff.items() if key != "do_sample"} == sampling, name
            assert (options(name).generation | of_ff)["do_sample"], name
            # Multiple choice has temperature 0, which the owners' code replaces by 0.1 for InstructBLIP.
            assert options(name).generation.get("temperature") == (0.1 if "instructblip" in name else None)
        else:
            sent = [options(name).parameters(technique, 0) for technique in ("mc", "ff")]
            assert sent == [{} if not sampling else {"temperature": 0.0}, sampling], name


def test_free_form_answers_may_have_a_temperature_of_their_own() -> None:
    warm = OpenAIOptions(ff_temperature=0.7)
    assert [warm.parameters(technique)["temperature"] for technique in ("mc", "ff")] == [0.0, 0.7]
    assert OpenAIOptions(temperature=0.3).parameters("ff")["temperature"] == 0.3
    cold = OpenAI("tiny", OpenAIOptions(base_url="https://x.example/v1"), None)
    other = OpenAI("tiny", OpenAIOptions(base_url="https://x.example/v1", ff_temperature=0.7), None)
    assert cold.fingerprint() != other.fingerprint()
    assert (cold.draws(), other.draws()) == (False, True)
    assert other.unsampled() == ("mc",)
    cold_ff = OpenAIOptions(base_url="https://x.example/v1", temperature=0.7, ff_temperature=0.0)
    assert OpenAI("tiny", cold_ff, None).unsampled() == ("ff",)
    sampling = {"do_sample": True, "temperature": 0.2}
    assert BACKENDS["hf"]("tiny", HFOptions(ff_generation=sampling)).unsampled() == ("mc",)
    assert BACKENDS["hf"]("tiny", HFOptions(generation=sampling)).unsampled() == ()
    with pytest.raises(ValueError, match="no temperature is sent"):
        OpenAIOptions(reasoning=True, ff_temperature=0.7)
    with pytest.raises(ValueError, match="`ff_generation` has max_length"):
        HFOptions(ff_generation={"max_length": 3})


def test_each_checkpoint_has_its_architecture_tested() -> None:
    assert TINY.keys() == {
        name for name, config in CONFIGS.items() if config.backend == "hf" and not name.startswith("phantom")
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_a_config_asks_a_tiny_checkpoint_of_its_architecture(name: str, tmp_path: Path) -> None:
    if name == "smolvlm":
        pytest.importorskip("num2words")  # its processor, in transformers, needs it
    folder = TINY[name](tmp_path / "tiny")
    model = loaded(BACKENDS["hf"](str(folder), options(name)))
    shown = [Image(path.name, str(path)) for path in sorted(PICTURES.glob("*.png"))[:2]]
    try:
        for technique, text in TEXTS.items():
            prompts = [Prompt(text, (image,), options=OPTIONS, technique=technique) for image in shown]
            for answer in model.generate(prompts):
                assert isinstance(answer, Answer), answer
                if technique == "mc":
                    assert answer.text
                else:
                    assert answer.option_logprobs is not None
                    assert answer.option_logprobs.keys() == OPTIONS.keys()
        if options(name).ff_generation:
            free = [Prompt("What is it?", (image,), technique="ff", max_tokens=4) for image in shown]
            # Together with multiple choice, which has other settings.
            for answer in model.generate([*free, *(replace(prompt, technique="mc") for prompt in free)]):
                assert isinstance(answer, Answer), answer
    finally:
        model.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen-vl", "qwen2-vl", "qwen2.5-vl", "qwen3-vl"])
def test_the_pixels_of_a_large_image_are_limited(name: str, tmp_path: Path) -> None:
    import PIL.Image

    PIL.Image.new("RGB", (3000, 2000)).save(tmp_path / "large.png")
    model = loaded(BACKENDS["hf"](str(TINY[name](tmp_path / "tiny")), options(name)))
    try:
        shown = (Image("large.png", str(tmp_path / "large.png")),)
        (answer,) = model.generate([Prompt(TEXTS["gd"], shown, options=OPTIONS, technique="gd")])
    finally:
        model.close()
    assert isinstance(answer, Answer), answer
    assert answer.usage is not None
    assert 1_100 < answer.usage["input"] < 1_400, "1,280 tokens of the image, and the text"
