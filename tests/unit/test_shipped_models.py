"""The configs that ship: all can be used, and those of checkpoints ask a tiny one of their architecture."""

from pathlib import Path
from typing import Any

import pytest

from medvqa import configs
from medvqa.backend import loaded
from medvqa.backends import pytest_medvqa_backends
from medvqa.benchmarks import gmai_mmbench, mediconfusion
from medvqa.items import Answer, Image, Item, Prompt, Technique
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
