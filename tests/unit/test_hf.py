"""Checkpoints of fourteen families: one at a time or batched, with or without a cache, a model says the same."""

import copy
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import PIL.Image
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'pytest-medvqa[hf]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'pytest-medvqa[hf]'")

from transformers import cache_utils  # noqa: E402

from medvqa import configs, engine  # noqa: E402
from medvqa.backend import loaded  # noqa: E402
from medvqa.backends import pytest_medvqa_backends, weights  # noqa: E402
from medvqa.backends.hf import HF, HFOptions, asking, checkpoint, loading  # noqa: E402
from medvqa.items import Answer, AnswerError, DataError, Image, Prompt, Shot, Technique, Turn, UsageError  # noqa: E402
from support import tinies  # noqa: E402 - imports torch

OPTIONS: dict[str, HFOptions] = {
    "paligemma": HFOptions(raw="{image}answer en {text}"),
    # Their processors put the tokens of the image before the text.
    "blip_2": HFOptions(raw="{text}"),
    "instructblip": HFOptions(raw="{text}"),
}
ONE_IMAGE = frozenset(OPTIONS)
"""Families whose checkpoints take one image, and no prompt without."""
DEFAULTS = HFOptions()
TOLERANCE = 1e-4
SIZES = ((28, 28), (56, 40), (100, 60), (33, 90), (64, 64))
CHOICES = (
    {"A": "a red circle", "B": "none"},
    {"A": "yes", "B": "no", "C": "it cannot be determined from this picture of the chest", "D": "oedema"},
    {"A": "malignant", "B": "benign lesion", "C": "B"},
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The tiny checkpoint of a family."""

    @cache
    def made(family: str) -> Path:
        if family == "smolvlm" and find_spec("num2words") is None:
            pytest.skip("transformers' SmolVLMProcessor needs num2words")
        return tinies.FAMILIES[family](tmp_path_factory.mktemp("tiny") / family)

    return made


@pytest.fixture(scope="session")
def load(folder: Callable[[str], Path]) -> Iterator[Callable[..., HF]]:
    """Loads a tiny checkpoint with options (those of the family if none are given)."""
    models: list[HF] = []

    @cache
    def usual(family: str) -> HF:
        return made(family, OPTIONS.get(family, HFOptions()))

    def made(family: str, options: HFOptions) -> HF:
        models.append(loaded(HF(str(folder(family)), replace(options, max_new_tokens=8))))
        return models[-1]

    yield lambda family, options=None: usual(family) if options is None else made(family, options)
    for model in models:
        model.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Image]:
    random = np.random.default_rng(0)
    root = tmp_path_factory.mktemp("pictures")
    made = []
    for width, height in SIZES:
        path = root / f"{width}x{height}.png"
        PIL.Image.fromarray(random.integers(0, 255, (height, width, 3), np.uint8)).save(path)
        made.append(Image(path.name, str(path)))
    return made


def questions(family: str, technique: Technique, pictures: Sequence[Image], count: int = 16) -> list[Prompt]:
    """Prompts of many lengths with images of many sizes, with several images and without any where that can be."""
    shown = (1,) if family in ONE_IMAGE else (1, 1, 0, 2, 1, 3)
    return [
        Prompt(
            "Is the lesion in the left lung benign? " * (number % 4) + ("Answer: " if number % 2 else "What is shown?"),
            images=tuple(pictures[(number + each) % len(pictures)] for each in range(shown[number % len(shown)])),
            options=CHOICES[number % len(CHOICES)],
            technique=technique,
            item=str(number),
        )
        for number in range(count)
    ]


def answered(answers: Sequence[Answer | AnswerError]) -> list[Answer]:
    assert [str(answer) for answer in answers if isinstance(answer, AnswerError)] == []
    return [answer for answer in answers if isinstance(answer, Answer)]


def in_batches(model: HF, prompts: Sequence[Prompt], size: int) -> list[Answer]:
    return [
        a for start in range(0, len(prompts), size) for a in answered(model.generate(prompts[start : start + size]))
    ]


def assert_same(some: Sequence[Answer], others: Sequence[Answer]) -> None:
    for one, other in zip(some, others, strict=True):
        assert (one.text, one.finish, one.usage) == (other.text, other.finish, other.usage)
        if one.option_logprobs is not None or other.option_logprobs is not None:
            assert one.option_logprobs == pytest.approx(other.option_logprobs, abs=TOLERANCE)
            assert best(one) == best(other)


def best(answer: Answer) -> str:
    assert answer.option_logprobs is not None
    return max(answer.option_logprobs, key=answer.option_logprobs.__getitem__)


FAST = frozenset({"mllama", "paligemma", "qwen2_vl"})
"""Families of the fast tier: cross-attention to the image, a raw prompt, and as many image tokens as the size asks."""
every_family = pytest.mark.parametrize(
    "family", [family if family in FAST else pytest.param(family, marks=pytest.mark.slow) for family in tinies.FAMILIES]
)


# --- laws over the families ---------------------------------------------------------------------------------


@pytest.mark.parametrize("technique", ["mc", "gd", "ps"])
@every_family
def test_batched_equals_unbatched(
    family: str, technique: Technique, load: Callable[..., HF], pictures: list[Image]
) -> None:
    model, prompts = load(family), questions(family, technique, pictures)
    alone = in_batches(model, prompts, 1)
    for size in (4, 16):
        assert_same(in_batches(model, prompts, size), alone)
    if technique == "mc":
        assert len({answer.text for answer in alone}) > 4  # not all the same, whatever is asked


@every_family
def test_scores_are_those_of_a_plain_forward_pass(
    family: str, load: Callable[..., HF], folder: Callable[[str], Path], pictures: list[Image]
) -> None:
    model = load(family)
    plain = transformers.AutoModelForImageTextToText.from_pretrained(folder(family), dtype=torch.float32).eval()
    likelihoods = questions(family, "ps", pictures, 6)
    letters = [replace(prompt, technique="gd") for prompt in likelihoods]
    said = answered(model.generate([*letters, *likelihoods]))
    for prompt, answer in zip([*letters, *likelihoods], said, strict=True):
        assert answer.option_logprobs is not None
        for letter, text in prompt.options.items():
            option = letter if prompt.technique == "gd" else text
            scores = plain_scores(family, model, plain, prompt, option)
            assert len(scores) == 1 or prompt.technique == "ps"
            assert answer.option_logprobs[letter] == pytest.approx(sum(scores) / len(scores), abs=TOLERANCE)


def plain_scores(family: str, model: HF, plain: Any, prompt: Prompt, option: str) -> list[float]:
    """The log-probability of each token of an option, by one forward pass over prompt and option together."""
    processor = model._loaded.processor
    pictures = [PIL.Image.open(image.path).convert("RGB") for image in prompt.images]
    if processor.chat_template is not None:
        shown = [{"type": "image"} for _ in pictures]
        turn = {"role": "user", "content": [*shown, {"type": "text", "text": prompt.text}]}
        text = processor.apply_chat_template([turn], add_generation_prompt=True)
    else:
        text = OPTIONS[family].raw.replace("{image}", "<image>").replace("{text}", prompt.text)
    text = text.rstrip(" ")
    parted = "" if text.endswith("\n") else " "
    how = {
        "images": [pictures] if pictures else None,
        "return_tensors": "pt",
        "add_special_tokens": not (processor.tokenizer.bos_token and text.startswith(processor.tokenizer.bos_token)),
    }
    if family == "paligemma":  # ends the prompt itself, and takes the option apart from it
        before, whole = processor(text=[text], **how), processor(text=[text], suffix=[option], **how)
        whole = {name: value[:, :-1] if value.dim() == 2 else value for name, value in whole.items()}  # its end token
    else:
        before, whole = processor(text=[text], **how), processor(text=[text + parted + option], **how)
    if family == "instructblip":  # its Q-Former reads the question, not the answer
        whole = {**whole, **{name: value for name, value in before.items() if name.startswith("qformer")}}
    whole = {name: value for name, value in whole.items() if name != "labels"}
    with torch.no_grad():
        logits = plain(**whole).logits[0]
    ids, start = whole["input_ids"][0], before["input_ids"].shape[1]
    assert ids[:start].tolist() == before["input_ids"][0].tolist()
    steps = logits[start - 1 : -1].log_softmax(-1)
    return steps.gather(1, ids[start:, None])[:, 0].tolist()


@every_family
def test_generation_is_greedy_by_plain_forward_passes(
    family: str, load: Callable[..., HF], folder: Callable[[str], Path], pictures: list[Image]
) -> None:
    model = load(family)
    (prompt,) = questions(family, "mc", pictures, 1)
    (answer,) = answered(model.generate([prompt]))
    part = model._made([prompt]).parts[0]
    plain = transformers.AutoModelForImageTextToText.from_pretrained(folder(family), dtype=torch.float32).eval()
    state = {name: value for name, value in part.inputs.items() if name != "labels"}
    said: list[int] = []
    with torch.no_grad():
        while len(said) < 8 and (not said or said[-1] != model._loaded.tokenizer.eos_token_id):
            said.append(int(plain(**state).logits[0, -1].argmax()))
            for name, more in (("input_ids", said[-1]), ("attention_mask", 1), ("mm_token_type_ids", 0)):
                if name in state:
                    state[name] = torch.cat([state[name], torch.tensor([[more]])], dim=1)
            if "token_type_ids" in state:
                kind = 1 if family == "paligemma" else 0
                state["token_type_ids"] = torch.cat([state["token_type_ids"], torch.tensor([[kind]])], dim=1)
            if "cross_attention_mask" in state:
                mask = state["cross_attention_mask"]
                state["cross_attention_mask"] = torch.cat([mask, mask[:, -1:]], dim=1)
    assert answer.text == model._loaded.tokenizer.decode(said, skip_special_tokens=True)
    assert answer.usage == {"input": part.inputs["attention_mask"].sum().item(), "output": len(said)}
    assert answer.finish == ("stop" if said[-1] == model._loaded.tokenizer.eos_token_id else "length")


@every_family
def test_answers_depend_on_the_image(family: str, load: Callable[..., HF], pictures: list[Image]) -> None:
    (prompt,) = questions(family, "gd", pictures, 1)
    one, other = answered(load(family).generate([prompt, replace(prompt, images=(pictures[-1],))]))
    assert one.option_logprobs is not None
    assert one.option_logprobs != pytest.approx(other.option_logprobs, abs=TOLERANCE)


def test_a_batch_may_mix_techniques(load: Callable[..., HF], pictures: list[Image]) -> None:
    model = load("qwen2_5_vl")
    techniques: tuple[Technique, ...] = ("mc", "ps", "gd", "ff")
    prompts = [
        replace(one, technique=techniques[n % 4]) for n, one in enumerate(questions("qwen2_5_vl", "mc", pictures))
    ]
    mixed = answered(model.generate(prompts))
    assert_same(mixed, in_batches(model, prompts, 1))
    assert [answer.option_logprobs is None for answer in mixed] == [True, False, False, True] * 4
    assert all(answer.text == "" for answer in mixed if answer.option_logprobs is not None)


# --- prompts ------------------------------------------------------------------------------------------------


def text_of(model: HF, prompt: Prompt) -> str:
    return model._writer.write(prompt).text


def test_a_prompt_is_written_by_the_chat_template(load: Callable[..., HF], pictures: list[Image]) -> None:
    shot = Shot("Is it red?", "Yes", (pictures[0],))
    prompt = Prompt("Is it blue?", tuple(pictures[1:3]), system="Be brief.", shots=(shot,))
    written = load("qwen3_vl")._writer.write(prompt)
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    assert written.text == (
        f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{image}Is it red?<|im_end|>\n"
        f"<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\n{image}{image}Is it blue?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert written.images == (pictures[0], *pictures[1:3])


def test_the_text_may_precede_the_images_in_a_chat(load: Callable[..., HF], pictures: list[Image]) -> None:
    model = load("qwen2_vl")
    first = Prompt("Is it blue?", tuple(pictures[:2]), max_tokens=4, options=CHOICES[0])
    after = replace(first, order="text-first")
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    assert f"user\n{image}{image}Is it blue?" in text_of(model, first)
    assert f"user\nIs it blue?{image}{image}" in text_of(model, after)
    for technique in ("mc", "gd", "ps"):
        for answer in model.generate([replace(prompt, technique=technique) for prompt in (first, after)]):
            assert isinstance(answer, Answer), answer


def test_images_may_stand_at_their_marks_in_a_chat(load: Callable[..., HF], pictures: list[Image]) -> None:
    model = load("qwen2_vl")
    prompt = Prompt("Is <image 2> like <image 1>?", tuple(pictures[:2]), options=CHOICES[0], order="in-place")
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    assert f"user\nIs {image} like {image}?" in text_of(model, prompt)
    swapped = replace(prompt, text="Is <image 1> like <image 2>?", images=tuple(pictures[1::-1]))
    for technique in ("mc", "gd"):
        first, second = model.generate([replace(each, technique=technique) for each in (prompt, swapped)])
        assert_same([first], [second])  # type: ignore[list-item]


def test_shots_with_images_are_answered(load: Callable[..., HF], pictures: list[Image]) -> None:
    shots = (Shot("Is it red?", "Yes", (pictures[0],)), Shot("Is it blue?", "No", (pictures[1], pictures[2])))
    prompts = [Prompt("Is it?", (picture,), "Be brief.", shots, options=CHOICES[0]) for picture in pictures]
    for technique in ("mc", "gd", "ps"):
        asked = [replace(prompt, technique=technique) for prompt in prompts]
        assert_same(in_batches(load("qwen2_vl"), asked, 5), in_batches(load("qwen2_vl"), asked, 1))


@pytest.mark.parametrize("technique", ["mc", "gd", "ps"])
def test_a_raw_prompt_holds_shots_with_their_own_ends(
    load: Callable[..., HF], pictures: list[Image], technique: Technique
) -> None:
    """As Med-Flamingo is asked, whose own checkpoint is none of transformers'."""
    options = HFOptions(form="raw", raw="{system}{image}{text}")
    shots = tuple(
        Shot(f"Question: Is it {colour}? Answer:", "Yes", (picture,), end)
        for colour, picture, end in zip(("red", "blue"), pictures[:2], ("<|endofchunk|>", "|endofchunk|>"), strict=True)
    )
    prompt = Prompt(
        "Question: Is it? Answer:", (pictures[2],), "Look. ", shots, options=CHOICES[0], technique=technique
    )
    assert text_of(load("llava", options), prompt) == (
        "Look. <image>Question: Is it red? Answer: Yes<|endofchunk|><image>Question: Is it blue? Answer: "
        "Yes|endofchunk|><image>Question: Is it? Answer:"
    )
    answers = load("llava", options).generate([prompt, replace(prompt, shots=shots[::-1])])
    assert all(isinstance(answer, Answer) for answer in answers)
    if technique != "mc":
        first, second = (answer.option_logprobs for answer in answers if isinstance(answer, Answer))
        assert first != second, "the order of shots counts"


def test_a_prompt_is_written_by_a_raw_template(load: Callable[..., HF], pictures: list[Image]) -> None:
    options = HFOptions(form="raw", raw="{system}\n{image}Q: {text}\nA:")
    shot = Shot("Is it {text}?", "Yes", (pictures[0],))
    prompt = Prompt("Is it {image}?", tuple(pictures[1:3]), system="Be brief.", shots=(shot,))
    assert text_of(load("llava", options), prompt) == (
        "Be brief.\n<image>Q: Is it {text}?\nA: Yes\n\n\n<image><image>Q: Is it {image}?\nA:"
    )


def test_earlier_turns_are_written_with_the_images_in_the_first(load: Callable[..., HF], pictures: list[Image]) -> None:
    turns = (Turn("Is it red?", "I look."), Turn("And?", "It is."))
    prompt = Prompt("Therefore?", tuple(pictures[:2]), system="Be brief.", turns=turns)
    written = load("qwen3_vl")._writer.write(prompt)
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    assert written.text == (
        f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{image}{image}Is it red?<|im_end|>\n"
        "<|im_start|>assistant\nI look.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"
        "<|im_start|>assistant\nIt is.<|im_end|>\n<|im_start|>user\nTherefore?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert written.images == tuple(pictures[:2])
    raw = HFOptions(form="raw", raw="{system}\n{image}Q: {text}\nA:")
    assert text_of(load("llava", raw), prompt) == (
        "Be brief.\n<image><image>Q: Is it red?\nA: I look.\n\n\nQ: And?\nA: It is.\n\n\nQ: Therefore?\nA:"
    )


def test_a_reply_may_not_hold_the_image_token(load: Callable[..., HF]) -> None:
    (answer,) = load("llava").generate([Prompt("Therefore?", turns=(Turn("Is it?", "I see <image>."),))])
    assert str(answer) == "the prompt's text holds the model's image token '<image>'"


@pytest.mark.parametrize("form", ["auto", "raw"])
def test_two_turns_of_a_batch_are_asked_as_those_of_each_prompt(
    load: Callable[..., HF], pictures: list[Image], form: Literal["auto", "raw"]
) -> None:
    model = load("qwen2_vl", HFOptions(form=form))
    then = [("Therefore?",), (), ("So?", "Then?")]
    prompts = [Prompt(f"Is it {n}?", (pictures[n],), then=then[n], max_tokens=8) for n in range(3)]
    together = answered(engine.ask(model, prompts))
    alone = [answer for prompt in prompts for answer in answered(engine.ask(model, [prompt]))]
    assert [len(answer.earlier) for answer in together] == [1, 0, 2]
    assert [(answer.text, answer.earlier) for answer in together] == [(a.text, a.earlier) for a in alone]


def test_a_system_prompt_of_the_config_replaces_the_benchmarks(load: Callable[..., HF]) -> None:
    prompt = Prompt("Is it blue?", system="Be brief.")
    assert "<|im_start|>system\nSay it in Latin.<" in text_of(
        load("qwen3_vl", HFOptions(system="Say it in Latin.")), prompt
    )
    assert "system" not in text_of(load("qwen3_vl", HFOptions(system="")), prompt)


def test_a_template_must_not_lose_or_refuse_anything_unnoticed(folder: Callable[[str], Path], tmp_path: Path) -> None:
    path = shutil.copytree(folder("llava"), tmp_path / "llava")
    (path / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.content[-1].text }}{% endif %}{% endfor %}"
    )
    model = loaded(HF(str(path)))
    (answer,) = model.generate([Prompt("Is it?", system="Be brief.")])
    assert str(answer) == (
        'the model\'s chat template drops the system prompt; system = "" in the options leaves it out knowingly'
    )
    (path / "chat_template.jinja").write_text("{{ raise_exception('no system here') }}")
    (answer,) = loaded(HF(str(path))).generate([Prompt("Is it?", system="Be brief.")])
    assert str(answer) == (
        "the model's chat template refuses the prompt: no system here; "
        'system = "" in the options leaves the system prompt out'
    )
    (path / "chat_template.jinja").write_text("{{ messages[-1].content[-1].text }}")
    (answer,) = loaded(HF(str(path))).generate([Prompt("Is it?", shots=(Shot("Was it?", "Yes"),))])
    assert str(answer) == "the model's chat template drops a part of the prompt"


def test_a_config_that_needs_a_chat_template_says_so(folder: Callable[[str], Path]) -> None:
    with pytest.raises(UsageError, match="has no chat template: leave `form` out, and set `raw`"):
        loaded(HF(str(folder("paligemma")), HFOptions(form="chat")))


def test_text_that_holds_the_image_token_is_not_asked(load: Callable[..., HF], pictures: list[Image]) -> None:
    good = Prompt("Is it?", (pictures[0],))
    bad, answer = load("llava").generate([replace(good, text="Is it <image>?"), good])
    assert str(bad) == "the prompt's text holds the model's image token '<image>'"
    assert isinstance(answer, Answer)


def test_an_image_that_cannot_be_read_is_the_error_of_its_item(
    load: Callable[..., HF], pictures: list[Image], tmp_path: Path
) -> None:
    (tmp_path / "x.png").write_bytes(b"no image")
    good = questions("qwen3_vl", "ps", pictures, 3)
    prompts = [good[0], Prompt("?", (Image("x.png", str(tmp_path / "x.png")),)), *good[1:], Prompt("?", (Image("y"),))]
    answers = load("qwen3_vl").generate(prompts)
    assert [str(answers[n]) for n in (1, 4)] == [
        "image x.png: not an image (PNG, JPEG, WEBP, BMP, GIF, TIFF)",
        "image y: not here; it was withheld, or the reference comes from a run folder, which keeps no images",
    ]
    assert_same(answered([answers[n] for n in (0, 2, 3)]), in_batches(load("qwen3_vl"), good, 1))


# --- options that are scored --------------------------------------------------------------------------------


def test_an_option_follows_where_a_model_would_write_it(load: Callable[..., HF]) -> None:
    """Nothing after white space or a control token, else a space; spaces at the prompt's end belong to the option."""
    writer = load("llava")._writer
    tokenizer = load("llava")._loaded.tokenizer

    def follows(text: str, option: str) -> tuple[str, str]:
        text = writer.open(text)
        ids = tokenizer(text)["input_ids"]
        return text, tokenizer.decode(writer.continuations(text, ids, [option])[0])

    assert follows("ASSISTANT:", "A") == ("ASSISTANT:", " A")
    assert follows("Answer: ", "no ") == ("Answer:", " no")
    assert follows("model\n", "A") == ("model\n", "A")
    assert follows("yes</s>", "A") == ("yes</s>", "A")
    tight = load("llava", HFOptions(lead=""))._writer
    assert tight.open("Answer: ") == "Answer: "
    assert tokenizer.decode(tight.continuations("A:", tokenizer("A:")["input_ids"], ["B"])[0]) == "B"


def test_an_option_that_changes_the_tokens_of_the_prompt_is_an_error(load: Callable[..., HF]) -> None:
    tight = HFOptions(form="raw", raw="{text}", lead="")
    (answer,) = load("llava", tight).generate([Prompt("Is it mal", options={"A": "ignant"}, technique="ps")])
    assert str(answer) == (
        "the prompt's end 'Is it mal' and the option 'ignant' share a token, so that the option cannot be scored after "
        "the prompt; `lead` or `raw` in the options can part them"
    )


def test_a_letter_must_be_one_token(load: Callable[..., HF], pictures: list[Image]) -> None:
    good = Prompt("Is it?", (pictures[0],), options={"A": "yes", "B": "no"}, technique="gd")
    bad, answer = load("qwen3_vl").generate([replace(good, options={"A": "yes", "AB": "no"}), good])
    assert str(bad) == (
        "technique 'gd' reads the next token, and the letter 'AB' is more than one after this prompt; "
        "technique 'ps' scores whole texts"
    )
    assert isinstance(answer, Answer)


@pytest.mark.parametrize("technique", ["gd", "ps"])
def test_scoring_needs_options(load: Callable[..., HF], technique: Technique) -> None:
    (answer,) = load("qwen3_vl").generate([Prompt("Is it?", technique=technique, item="7")])
    assert str(answer) == f"technique '{technique}' scores options, and 7 has none"


def test_an_empty_option_is_an_error(load: Callable[..., HF]) -> None:
    (answer,) = load("qwen3_vl").generate([Prompt("Is it?", options={"A": " ", "B": "no"}, technique="ps")])
    assert isinstance(answer, AnswerError)


def test_a_model_with_an_encoder_generates_and_does_not_score(tmp_path: Path, pictures: list[Image]) -> None:
    model = loaded(HF(str(tinies.blip_2_t5(tmp_path / "t5")), replace(OPTIONS["blip_2"], max_new_tokens=8)))
    prompts = questions("blip_2", "mc", pictures, 5)
    answers = in_batches(model, prompts, 5)
    assert_same(answers, in_batches(model, prompts, 1))
    assert all(answer.usage is not None and answer.usage["output"] <= 8 for answer in answers)
    (refusal,) = model.generate([replace(prompts[0], technique="ps")])
    assert str(refusal) == "a model with an encoder and a decoder cannot score options here; ask it by technique 'mc'"


def test_log_probabilities_that_are_no_numbers_are_an_error(
    folder: Callable[[str], Path], pictures: list[Image]
) -> None:
    model = loaded(HF(str(folder("qwen3_vl"))))
    with torch.no_grad():
        model._loaded.model.lm_head.weight.fill_(math.nan)
    for technique in ("gd", "ps"):
        (answer,) = model.generate([Prompt("Is it?", options=CHOICES[0], technique=technique)])
        assert str(answer) == "the model gave log-probabilities that are no numbers: [nan, nan]"


def test_a_batch_that_does_not_fit_is_raised(folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(HF(str(folder("qwen3_vl"))))

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(model._loaded.model, "forward", full)
    with pytest.raises(torch.OutOfMemoryError):
        model.generate([Prompt("Is it?", options=CHOICES[0], technique="gd")])


# --- preparing ahead ----------------------------------------------------------------------------------------


def test_what_was_prepared_is_used_and_answers_are_the_same(
    folder: Callable[[str], Path], pictures: list[Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(HF(str(folder("qwen2_vl"))))
    made: list[Sequence[Prompt]] = []
    make = model._made
    monkeypatch.setattr(model, "_made", lambda prompts: made.append(prompts) or make(prompts))
    batches = [questions("qwen2_vl", "ps", pictures, count) for count in (3, 4, 5)]
    expected = [answered(model.generate(batch)) for batch in batches]
    made.clear()
    model.prepare(batches[0])
    for number, batch in enumerate(batches):
        if number + 1 < len(batches):
            model.prepare(batches[number + 1])
        assert_same(answered(model.generate(list(batch))), expected[number])
    assert made == batches
    model.prepare(batches[0])
    assert_same(answered(model.generate(batches[0][:2])), expected[0][:2])
    assert len(made) == 5


@pytest.mark.parametrize("technique", ["mc", "gd", "ps"])
def test_what_is_left_after_the_device_needs_no_model(
    technique: Technique, folder: Callable[[str], Path], pictures: list[Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(HF(str(folder("qwen2_vl"))))
    prompts = [*questions("qwen2_vl", technique, pictures, 3), Prompt("Is it?", technique="mc", max_tokens=0)]
    expected = model.generate(prompts)
    rest = model.compute(prompts)
    monkeypatch.setattr(model._loaded.model, "forward", None)
    said = rest()
    assert_same(answered(said[:-1]), answered(expected[:-1]))
    assert isinstance(said[-1], AnswerError)


def test_tensors_for_a_gpu_are_pinned_while_they_are_made(
    folder: Callable[[str], Path], pictures: list[Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(HF(str(folder("qwen2_vl"))))
    prompts = questions("qwen2_vl", "gd", pictures, 3)
    expected = answered(model.generate(prompts))
    pinned: list[str] = []

    def pin(tensor: Any) -> Any:
        pinned.append(threading.current_thread().name)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    assert_same(answered(model.generate(prompts)), expected)
    assert pinned == []
    monkeypatch.setattr(model._asker, "_device", "cuda")
    assert_same(answered(model.generate(prompts)), expected)
    assert len(pinned) >= 3
    assert {name.rpartition("_")[0] for name in pinned} == {"medvqa-processor"}


# --- the cache of the prompts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "copied"), [("qwen2_vl", set()), ("mllama", set()), ("gemma3", {"DynamicSlidingWindowLayer"})]
)
def test_an_option_copies_no_cache_that_can_be_cut_back(
    family: str, copied: set[str], load: Callable[..., HF], pictures: list[Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, prompts = load(family), questions(family, "ps", pictures, 4)
    seen: list[Any] = []
    deep = copy.deepcopy

    def copied_deep(it: Any, *known: Any) -> Any:
        seen.append(it)
        return deep(it, *known)

    monkeypatch.setattr(copy, "deepcopy", copied_deep)
    model.generate(prompts)
    kinds = cache_utils.Cache, cache_utils.CacheLayerMixin
    assert {type(it).__name__ for it in seen if isinstance(it, kinds)} == copied


@pytest.mark.parametrize(
    "layer",
    [
        lambda: cache_utils.DynamicLayer(),
        lambda: cache_utils.DynamicSlidingWindowLayer(sliding_window=4),
        lambda: cache_utils.DynamicSlidingWindowLayer(sliding_window=9),
        lambda: cache_utils.DynamicSlidingWindowLayer(sliding_window=64),
    ],
)
def test_a_cache_that_was_cut_back_is_what_it_was(layer: Callable[[], Any]) -> None:
    cache = cache_utils.DynamicCache()
    cache.layers = [layer(), cache_utils.DynamicLayer()]
    random = torch.Generator().manual_seed(0)

    def grow(count: int) -> None:
        for each in range(2):
            cache.update(*torch.rand(2, 3, 2, count, 4, generator=random), each)

    grow(6)
    before = [(each.keys.clone(), each.values.clone(), each.get_seq_length()) for each in cache.layers]
    prefix = asking._Prefix({"past_key_values": cache})
    for width in (1, 3, 5, 1):
        assert asking._continuable(prefix, width) is cache
        grow(width)
        asking._cut_back(prefix)
        for each, (keys, values, length) in zip(cache.layers, before, strict=True):
            assert torch.equal(each.keys, keys)
            assert torch.equal(each.values, values)
            assert each.get_seq_length() == length


def test_states_that_are_overwritten_are_copied() -> None:
    layer = cache_utils.LinearAttentionLayer()
    cache = cache_utils.DynamicCache()
    cache.layers = [layer]
    cache.update_recurrent_state(torch.ones(1, 2, 3, 3), 0)
    prefix = asking._Prefix({"past_key_values": cache})
    for _ in range(2):
        asking._continuable(prefix, 2)
        cache.update_recurrent_state(torch.rand(1, 2, 3, 3), 0)
        asking._cut_back(prefix)
        states = cache.layers[0].recurrent_states
        state = states[0] if isinstance(states, list | dict) else states
        assert torch.equal(state, torch.ones(1, 2, 3, 3))


def test_a_cache_of_another_kind_is_copied_whole() -> None:
    class Own(cache_utils.DynamicCache):  # type: ignore[misc]
        pass

    cache = Own()
    prefix = asking._Prefix({"past_key_values": cache})
    assert asking._continuable(prefix, 2) is not cache
    asking._cut_back(prefix)
    assert prefix.cache is cache


# --- files --------------------------------------------------------------------------------------------------


def test_a_fingerprint_changes_with_weights_files_and_settings(folder: Callable[[str], Path], tmp_path: Path) -> None:
    path = shutil.copytree(folder("llava"), tmp_path / "llava")
    prints = [loaded(HF(str(path))).fingerprint()]
    assert prints == [loaded(HF(str(path), HFOptions(batch_size=3))).fingerprint()]
    prints += [
        loaded(HF(str(path), options)).fingerprint()
        for options in (
            HFOptions(max_new_tokens=7),
            HFOptions(dtype="bfloat16"),
            HFOptions(attention="eager"),
            HFOptions(system=""),
            HFOptions(lead=""),
            HFOptions(form="raw"),
            HFOptions(form="raw", raw="{text}"),
            HFOptions(generation={"repetition_penalty": 1.1}),
            HFOptions(processor={"do_center_crop": False}),
            HFOptions(seed=1),
        )
    ]
    weights = path / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    prints.append(loaded(HF(str(path))).fingerprint())
    template = path / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    prints.append(loaded(HF(str(path))).fingerprint())
    assert len(set(prints)) == len(prints)


def test_the_digest_of_a_large_file_is_kept_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CACHED_FROM", 4)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"12345")
    fresh = weights.digest(path)
    assert list(tmp_path.glob("cache/*/*")) == []  # it has only just changed
    monkeypatch.setattr(weights, "SETTLED", -1.0)
    assert weights.digest(path) == fresh
    (kept,) = tmp_path.glob("cache/*/*.sha256")
    kept.write_text("0" * 64)
    assert weights.digest(path) == "0" * 64
    kept.write_text("damaged")
    assert weights.digest(path) == fresh
    times = path.stat()
    path.write_bytes(b"54321")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert weights.digest(path) not in (fresh, "0" * 64)


def test_one_of_many_readers_computes_a_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CACHED_FROM", 4)
    monkeypatch.setattr(weights, "SETTLED", -1.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"12345")
    computed: list[str] = []
    file_digest = hashlib.file_digest

    def slow(file: Any, kind: str) -> Any:
        computed.append(kind)
        time.sleep(0.2)
        return file_digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", slow)
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(weights.digest, [path] * 8))
    assert digests == {hashlib.sha256(b"12345").hexdigest()}
    assert computed == ["sha256"]


def test_a_digest_needs_no_cache_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "CACHED_FROM", 4)
    monkeypatch.setattr(weights, "SETTLED", -1.0)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"12345")
    assert weights.digest(path) == hashlib.sha256(b"12345").hexdigest()


def test_the_hubs_name_of_a_file_is_its_digest_until_the_file_changes(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    real = hashlib.sha256(b"12345").hexdigest()
    named = "ab" * 32  # not of its content, so that the test sees whether it was read

    def linked(name: str) -> Path:
        (blobs / name).write_bytes(b"12345")
        time.sleep(0.02)
        link = snapshot / f"{name[:8]}.safetensors"
        link.symlink_to(Path("../../blobs") / name)
        return link

    link = linked(named)
    assert weights.digest(link) == named == weights.hub_name(link)
    assert weights.digest(linked("cd" * 20)) == real  # a git object's name
    assert weights.digest(blobs / named) == real  # no link of a snapshot
    assert weights.hub_name(snapshot / "nothing") is None
    time.sleep(0.02)
    with link.open("r+b") as file:
        file.write(b"54321")
    assert weights.digest(link) == hashlib.sha256(b"54321").hexdigest()
    other = linked("ef" * 32)
    time.sleep(0.02)
    os.utime(other, ns=(0, 0))  # its time of change tells
    assert weights.digest(other) == real


def refused(argument: str, options: HFOptions = DEFAULTS) -> str:
    with pytest.raises(UsageError) as raised:
        HF(argument, options).check()
    return str(raised.value)


def test_check_says_what_is_missing(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused("") == (
        "--model=hf: hf needs a folder with a checkpoint, or ORG/NAME on the hub: --model=hf:FOLDER"
    ).replace("hf: hf", "hf:: hf")
    assert refused("./tiny") == (
        f"--model=hf:./tiny: no such folder: {tmp_path / 'tiny'}. A repository on the hub is ORG/NAME"
    )
    HF("org/name").check()  # may be on the hub
    path = shutil.copytree(folder("llava"), tmp_path / "llava")
    HF("llava").check()
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    assert refused("llava").startswith(
        f"{path}: no model.safetensors, and pytorch_model.bin is a pickle, which can run code when it is loaded."
    )
    (path / "pytorch_model.bin").unlink()
    assert refused("llava").startswith(f"{path}: no weights; model.safetensors or model.safetensors.index.json")
    index = path / "model.safetensors.index.json"
    for content in ('{"weight_map": {"x": "model-1.safetensors"}}', '{"weight_map": {"x": "../../etc/passwd"}}'):
        index.write_text(content)
        assert refused("llava").startswith(f"{index} names files that are not there: ")
    index.write_text("[]")
    assert refused("llava").startswith(f"{index}: no index of weight files: ")
    (path / "config.json").write_text("[]")
    assert refused("llava") == f"{path / 'config.json'}: no model config"
    (path / "config.json").unlink()
    assert refused("llava").startswith(f"{path / 'config.json'}: no model config: ")


def test_check_names_the_extra(folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "find_spec", lambda name: None if name == "accelerate" else find_spec(name))
    argument = str(folder("llava"))
    HF(argument).check()
    assert refused(argument, HFOptions(gpus=2)) == (
        f"--model=hf:{argument} over several GPUs needs accelerate: pip install 'pytest-medvqa[hf]'"
    )
    monkeypatch.setattr(checkpoint, "find_spec", lambda name: None)
    assert refused(argument) == (f"--model=hf:{argument} needs torch and transformers: pip install 'pytest-medvqa[hf]'")


def test_code_of_a_checkpoint_runs_only_when_config_and_user_say_so(
    folder: Callable[[str], Path], tmp_path: Path
) -> None:
    path = shutil.copytree(folder("llava"), tmp_path / "llava")
    config = json.loads((path / "config.json").read_text())
    config["auto_map"] = {"AutoModelForImageTextToText": "code.Model"}
    (path / "config.json").write_text(json.dumps(config))
    HF(str(path)).check()  # transformers knows the type: its own code runs
    config["model_type"] = "homemade"
    (path / "config.json").write_text(json.dumps(config))
    (path / "code.py").write_text("raise SystemExit('this must not run')")
    assert refused(str(path)) == (
        f"--model=hf:{path}: 'homemade' is no model of transformers, but of Python code in the checkpoint. "
        "Read that code; then set trust_remote_code = true in a config's [options], and add --trust-remote-code"
    )
    trusting = HFOptions(trust_remote_code=True)
    HF(str(path), trusting).check()
    assert HF(str(path), trusting).consent() == "runs Python code that comes with its checkpoint"
    assert HF(str(path)).consent() is None


def test_the_user_is_asked_before_code_of_a_checkpoint_runs(
    pytester: pytest.Pytester, folder: Callable[[str], Path]
) -> None:
    config = f'backend = "hf"\nargument = "{folder("qwen3_vl")}"\n[options]\ntrust_remote_code = true\n'
    (pytester.mkdir("models") / "mine.toml").write_text(config)
    result = pytester.runpytest_subprocess("--model=mine", "--benchmark=phantom")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*'mine' runs Python code that comes with its checkpoint. Read it; if you trust it, add --trust-remote-code"]
    )


def test_a_check_imports_no_torch(folder: Callable[[str], Path]) -> None:
    code = (
        "import sys; from medvqa.backends.hf import HF; HF(sys.argv[1]).check(); HF(sys.argv[1]).consent(); "
        "print(*{'torch', 'transformers', 'PIL'} & sys.modules.keys())"
    )
    command = [sys.executable, "-c", code, str(folder("llava"))]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == ""


def test_a_checkpoint_that_transformers_cannot_load_is_one_line(folder: Callable[[str], Path], tmp_path: Path) -> None:
    path = shutil.copytree(folder("llava"), tmp_path / "llava")
    (path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UsageError, match=f"{path}: transformers .* cannot load it: "):
        loaded(HF(str(path)))
    (path / "config.json").write_text('{"model_type": "no-such-type"}')
    with pytest.raises(UsageError, match=f"{path}: transformers .* cannot load it: "):
        loaded(HF(str(path)))


@pytest.mark.parametrize("content", [b"", b"\xff" * 8 + b"{}", b"\x02" + b"\0" * 7 + b"[]", b"\x02" + b"\0" * 7 + b"{"])
def test_a_damaged_weight_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{path}: no safetensors file"):
        weights.header(path)


def test_a_repository_of_the_hub_is_taken_from_the_cache_with_its_commit(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "1234567890abcdef1234567890abcdef12345678"
    repository = tmp_path / "models--org--tiny-llava"
    shutil.copytree(folder("llava"), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = loaded(HF("org/tiny-llava"))
    assert (model.title, model.about()["revision"]) == ("org/tiny-llava", commit)
    assert model.fingerprint() != loaded(HF(str(folder("llava")))).fingerprint()
    with pytest.raises(UsageError, match="--model=hf:org/other: "):
        loaded(HF("org/other"))
    with pytest.raises(UsageError, match="--model=hf:org/tiny-llava: "):
        loaded(HF("org/tiny-llava", HFOptions(revision="v2")))


def test_a_config_names_a_folder_beside_it(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    path = shutil.copytree(folder("llava"), models / "tiny")
    (models / "tiny.toml").write_text('backend = "hf"\nargument = "tiny"\n[options]\nmax_new_tokens = 3\n')
    (models / "letter.toml").write_text('backend = "echo"\nargument = "tiny"\n')
    monkeypatch.chdir(tmp_path)
    backends = {kind.name: kind for kind in pytest_medvqa_backends()}
    found = configs.resolve("tiny", folders=[models], backends=backends)
    assert found.argument == str(path)
    assert configs.make(found, backends).options == HFOptions(max_new_tokens=3)
    assert configs.resolve("letter", folders=[models], backends=backends).argument == "tiny"


# --- token limits ------------------------------------------------------------------------------------------


def test_the_limit_of_a_prompt_is_the_number_of_new_tokens(load: Callable[..., HF], pictures: list[Image]) -> None:
    """Prompts of one batch may have limits of their own; each begins as it does under another limit."""
    model = load("qwen2_vl")
    prompt = Prompt("What is shown?", (pictures[0],))
    prompts = [replace(prompt, max_tokens=limit) for limit in (3, None, 12, 3)]
    answers = answered(model.generate(prompts))
    assert [answer.usage and answer.usage["output"] for answer in answers] == [3, 8, 12, 3]
    assert {answer.finish for answer in answers} == {"length"}
    texts = [answer.text for answer in answers]
    assert texts[2].startswith(texts[1])
    assert texts[1].startswith(texts[0])
    assert texts[0] == texts[3]


def test_a_checkpoint_needs_a_limit(load: Callable[..., HF]) -> None:
    (answer,) = load("qwen2_vl").generate([Prompt("What?", max_tokens=0)])
    assert isinstance(answer, AnswerError)
    assert "a checkpoint needs a limit" in str(answer)


def test_the_limit_that_was_the_default_leaves_the_fingerprint_as_it_was(
    folder: Callable[[str], Path],
) -> None:
    """What a fingerprint is made of, as it was while the option's default was 32."""
    usual, said = loaded(HF(str(folder("qwen2_vl")))), loaded(HF(str(folder("qwen2_vl")), HFOptions(max_new_tokens=32)))
    assert usual.about()["settings"]["generation"]["max_new_tokens"] == 32
    assert usual.fingerprint() == said.fingerprint()


# --- what is told -------------------------------------------------------------------------------------------


def test_a_run_tells_what_was_asked_and_how(load: Callable[..., HF], folder: Callable[[str], Path]) -> None:
    model = load("qwen2_vl")
    about = json.loads(json.dumps(model.about()))
    assert model.title == "qwen2_vl"
    assert about["model"] == "Qwen2VLForConditionalGeneration"
    assert about["processor"] == "Qwen2VLProcessor"
    assert about["devices"] == ["cpu"]
    assert {"model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"} <= about["digests"].keys()
    stored = checkpoint.Checkpoint(folder("qwen2_vl")).parameters()
    assert stored == {"F32": about["parameters"]}
    settings = about["settings"]
    assert (settings["dtype"], settings["device"], settings["form"], settings["seed"]) == ("float32", "cpu", "chat", 0)
    assert settings["attention"] in ("sdpa", "eager")
    assert settings["pixels"]["size"] == {"shortest_edge": 784, "longest_edge": 7056}
    assert settings["pixels"]["backend"] == ("pil" if find_spec("torchvision") is None else "torchvision")
    assert settings["generation"]["max_new_tokens"] == 8
    assert settings["generation"]["do_sample"] is False


def test_settings_of_a_processor_are_data(load: Callable[..., HF], pictures: list[Image]) -> None:
    small = HFOptions(processor={"size": {"shortest_edge": 28 * 28, "longest_edge": 28 * 28}})
    prompt = Prompt("Is it?", (pictures[2],))
    (few,), (many,) = load("qwen2_vl", small).generate([prompt]), load("qwen2_vl").generate([prompt])
    assert isinstance(few, Answer)
    assert isinstance(many, Answer)
    assert few.usage is not None
    assert many.usage is not None
    assert few.usage["input"] < many.usage["input"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            HFOptions(processor={"max_pixel": 9}),
            "`processor` in the options has 'max_pixel', which the checkpoint's processor does not know"
            ". Did you mean 'max_pixels'",
        ),
        (
            HFOptions(generation={"repetition_penaltee": 9}),
            "`generation` in the options has 'repetition_penaltee', which the checkpoint's generation does not know"
            ". Did you mean 'repetition_penalty'",
        ),
        (HFOptions(generation={"zzzz": 9}), "the checkpoint's generation does not know; there are: "),
    ],
)
def test_a_setting_that_would_be_ignored_is_a_usage_error(
    folder: Callable[[str], Path], options: HFOptions, message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        loaded(HF(str(folder("qwen2_vl")), options))
    assert message in str(raised.value)


def test_only_the_end_tokens_of_a_checkpoints_generation_settings_count(
    folder: Callable[[str], Path], tmp_path: Path, pictures: list[Image]
) -> None:
    path = shutil.copytree(folder("qwen2_vl"), tmp_path / "qwen2_vl")
    prompts = questions("qwen2_vl", "mc", pictures, 4)
    greedy = answered(loaded(HF(str(path))).generate(prompts))
    settings = json.loads((path / "generation_config.json").read_text())
    settings |= {"do_sample": True, "temperature": 5.0, "repetition_penalty": 3.0, "max_new_tokens": 2, "top_k": 3}
    (path / "generation_config.json").write_text(json.dumps(settings))
    assert_same(answered(loaded(HF(str(path))).generate(prompts)), greedy)


def test_options_must_make_sense() -> None:
    for wrong, message in (
        ({"raw": "{image}"}, "`raw` has no {text}"),
        ({"processor": {"padding": False}}, "`processor` has padding, which the backend sets"),
        ({"generation": {"max_length": 9}}, "`generation` has max_length; the length is set by `max_new_tokens`"),
        ({"gpus": 2, "device": "cpu"}, "`gpus` is 2 and `device` 'cpu': leave one of them out"),
        ({"chat_template": {"tools": []}}, "`chat_template` has tools, which the backend sets"),
        ({"chat_template": {"bos_token": ""}}, "`chat_template` has bos_token, which the backend sets"),
        ({"chat_template": {"a": 1}, "form": "raw"}, "`chat_template` has arguments, and `form` is 'raw'"),
        ({"quantization": "2bit"}, "Invalid enum value '2bit'"),
        ({"dtype": "int8"}, "Invalid enum value 'int8'"),
        ({"batch_size": 0}, "Expected `int` >= 1"),
    ):
        with pytest.raises(UsageError) as raised:
            configs.make(configs.ModelConfig("x", "hf", "y", options=wrong), {"hf": HF})
        assert message in str(raised.value)


# --- devices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "named", "options", "expected"),
    [
        (0, None, HFOptions(), None),
        (4, None, HFOptions(device="cpu"), None),
        (3, None, HFOptions(), ("0", "1", "2")),
        (4, None, HFOptions(gpus=2), ("0,1", "2,3")),
        (3, None, HFOptions(gpus=2), ("0,1",)),
        (1, None, HFOptions(gpus=2), ()),
        (3, None, HFOptions(device="map"), ("0,1,2",)),
        (2, "3, GPU-8f2a", HFOptions(), ("3", "GPU-8f2a")),
        (1, "0,9", HFOptions(), ("0",)),
    ],
)
def test_places_of_copies(
    count: int, named: str | None, options: HFOptions, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if named is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert HF("x", options).places() == expected


def test_the_size_of_the_weights_is_told_without_loading_them(
    folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(folder("llava"))
    parameters = sum(checkpoint.Checkpoint(folder("llava")).parameters().values())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert HF(path).size() == 4 * parameters
    assert HF(path, HFOptions(dtype="float16")).size() == 2 * parameters
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert HF(path).size() == 2 * parameters
    assert HF("org/name").size() is None


def test_a_device_that_is_not_there_is_a_usage_error(folder: Callable[[str], Path]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for options, message in (
        (HFOptions(device="cuda"), "device = 'cuda' in the options, and torch sees no GPU here"),
        (HFOptions(device="map"), "device = 'map' in the options, and torch sees no GPU here"),
        (HFOptions(gpus=2), "gpus = 2 in the options, and torch sees 0"),
    ):
        with pytest.raises(UsageError) as raised:
            loaded(HF(str(folder("llava")), options))
        assert str(raised.value) == message


def on_gpus(count: int, monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[dict[str, Any]]:
    """What transformers is asked to load, on GPUs that are not there; it fails with `error`."""
    asked: list[dict[str, Any]] = []

    def load_model(*_: Any, **how: Any) -> None:
        asked.append(how)
        raise error

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (1000 + number, 9000))
    monkeypatch.setattr(transformers.AutoModelForImageTextToText, "from_pretrained", load_model)
    return asked


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (HFOptions(), {"device_map": {"": "cuda:0"}}),
        (HFOptions(gpus=2), {"device_map": "balanced", "max_memory": {0: 900, 1: 900}}),
        (HFOptions(device="map"), {"device_map": "balanced", "max_memory": {0: 900, 1: 900, 2: 901}}),
        (HFOptions(device="cpu"), {}),
    ],
)
def test_weights_go_straight_to_their_devices(
    options: HFOptions, expected: dict[str, Any], folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = on_gpus(3, monkeypatch, ValueError("enough"))
    with pytest.raises(UsageError, match="ValueError: enough"):
        loaded(HF(str(folder("qwen2_vl")), options))
    assert {name: asked[0][name] for name in ("device_map", "max_memory") if name in asked[0]} == expected


def test_a_gpu_that_is_too_small_is_one_line(folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpus(1, monkeypatch, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    with pytest.raises(UsageError) as raised:
        loaded(HF(str(folder("qwen2_vl"))))
    assert str(raised.value) == (
        f"{folder('qwen2_vl')}: its weights do not fit into the memory that is free on the GPU: gpus = 2 in the "
        "options, at least, or quantization = '8bit' or '4bit'"
    )


def test_nothing_is_offloaded_silently() -> None:
    model = torch.nn.Linear(2**14, 2**14, bias=False, device="meta")
    with pytest.raises(UsageError) as raised:
        loading.check_placed(model, {0: 2**28, 1: 2**28}, Path("big"))
    assert str(raised.value) == (
        "big: its weights (1.0 GiB) do not fit into the memory that is free on 2 GPUs, and some would stay outside, "
        "which is slow: gpus = 4 in the options, at least"
    )
    with pytest.raises(UsageError, match=r"free on 1 GPU, .* gpus = 2 in the options, at least"):
        loading.check_placed(model, {}, Path("big"))


# --- arguments of the chat template ---------------------------------------------------------------------------


def test_a_config_gives_arguments_to_the_chat_template(folder: Callable[[str], Path], tmp_path: Path) -> None:
    path = shutil.copytree(folder("qwen2_vl"), tmp_path / "thinks")
    template = path / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if enable_thinking is false %}<quiet>{% endif %}")
    plain = loaded(HF(str(path)))
    quiet = loaded(HF(str(path), HFOptions(chat_template={"enable_thinking": False})))
    prompt = Prompt("Is it?")
    assert not text_of(plain, prompt).endswith("<quiet>")
    assert text_of(quiet, prompt) == text_of(plain, prompt) + "<quiet>"
    assert plain.fingerprint() != quiet.fingerprint()
    assert "chat_template" not in plain.about()["settings"]
    with pytest.raises(UsageError) as raised:
        loaded(HF(str(path), HFOptions(chat_template={"enable_thinkin": False})))
    assert str(raised.value).startswith(
        "`chat_template` in the options has 'enable_thinkin', which the checkpoint's chat_template does not know"
    )
    assert "enable_thinking" in str(raised.value)


# --- quantised weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "kind"), [("4bit", "Linear4bit"), ("8bit", "Linear8bitLt")])
def test_weights_are_quantised_while_they_are_loaded(
    bits: Literal["4bit", "8bit"], kind: str, pictures: list[Image], tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes: pip install 'pytest-medvqa[quantization]'")
    path = tinies.qwen2_vl(tmp_path / "wide", width=64)  # bitsandbytes' kernels for CPUs want multiples of 64
    plain = loaded(HF(str(path), HFOptions(max_new_tokens=8)))
    model = loaded(HF(str(path), HFOptions(max_new_tokens=8, quantization=bits)))
    assert kind in {type(module).__name__ for module in model._loaded.model.modules()}
    model._loaded.model.save_pretrained(tmp_path / "small")
    for technique in ("mc", "gd", "ps"):
        answered(model.generate(questions("qwen2_vl", technique, pictures, 4)))
    about = model.about()
    assert about["parameters"] == plain.about()["parameters"]
    assert about["settings"]["quantization"][0] == bits
    assert "quantization" not in plain.about()["settings"]
    assert model.fingerprint() != plain.fingerprint()
    for file in path.iterdir():
        if not (tmp_path / "small" / file.name).exists():
            shutil.copy(file, tmp_path / "small")
    stored = loaded(HF(str(tmp_path / "small"), HFOptions(max_new_tokens=8)))
    assert stored.about()["quantised"] == f"bitsandbytes {bits}"
    prompts = questions("qwen2_vl", "gd", pictures, 4)
    assert_same(answered(stored.generate(prompts)), answered(model.generate(prompts)))
    HF(str(tmp_path / "small"), HFOptions(quantization=bits)).check()
    other: Literal["4bit", "8bit"] = "8bit" if bits == "4bit" else "4bit"
    assert refused(str(tmp_path / "small"), HFOptions(quantization=other)) == (
        f"--model=hf:{tmp_path / 'small'}: quantization = '{other}' in the options, and the checkpoint is quantised "
        f"already (bitsandbytes {bits}): leave `quantization` out, or name a checkpoint that is not quantised"
    )


def test_a_missing_package_for_quantised_weights_is_named(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = find_spec
    monkeypatch.setattr(
        checkpoint, "find_spec", lambda name: None if name in ("bitsandbytes", "gptqmodel") else there(name)
    )
    path = str(folder("qwen2_vl"))
    assert refused(path, HFOptions(quantization="4bit")) == (
        f"--model=hf:{path}: quantization = '4bit' in the options: pip install 'pytest-medvqa[hf,quantization]'"
    )
    copied = shutil.copytree(path, tmp_path / "awq")
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))
    assert refused(str(copied)) == f"--model=hf:{copied}: the checkpoint is quantised (awq): pip install gptqmodel"


def test_the_size_of_quantised_weights_counts_their_bits(folder: Callable[[str], Path]) -> None:
    path = str(folder("qwen2_vl"))
    wide, eight, four = (
        HF(path, HFOptions(dtype="bfloat16", quantization=bits)).size() for bits in (None, "8bit", "4bit")
    )
    assert wide is not None
    assert eight is not None
    assert four is not None
    linear = sum(checkpoint.Checkpoint(folder("qwen2_vl")).linear().values())
    assert 0 < linear < wide // 2
    assert wide - eight == linear
    assert wide - four == int(linear * 11.5 / 8)


def test_half_precision_is_asked_for_by_option(load: Callable[..., HF], pictures: list[Image]) -> None:
    model = load("qwen3_vl", HFOptions(dtype="bfloat16"))
    assert model._loaded.model.dtype == torch.bfloat16
    for technique in ("mc", "gd", "ps"):
        answered(model.generate(questions("qwen3_vl", technique, pictures, 4)))


def test_the_page_about_checkpoints_tells_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs/gpus-and-servers.md").read_text()
    assert [option.name for option in fields(HFOptions) if f"`{option.name}`" not in page] == []


def test_loading_leaves_transformers_as_it_was(load: Callable[..., HF]) -> None:
    load("qwen3_vl")
    mapping = transformers.processing_utils.MODALITY_TO_AUTOPROCESSOR_MAPPING
    assert type(mapping)._MAPPING_NAMES["video_processor"][1] == "AutoVideoProcessor"
    assert loading.NoVideos.__name__ not in str(transformers.processing_utils.MODALITY_TO_BASE_CLASS_MAPPING)
