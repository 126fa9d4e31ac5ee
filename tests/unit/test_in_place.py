"""Images at their marks: the order `in-place` in prompts, at servers and in checkpoints."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.backend import loaded
from medvqa.backends.hf.checkpoint_options import HFOptions
from medvqa.backends.hf.prompting import PromptWriter
from medvqa.backends.openai import OpenAI, OpenAIOptions
from medvqa.items import Answer, Image, Item, Prompt, Shot, Turn
from medvqa.protocols import ablation, prompts, rotation
from medvqa.protocols.placing import marks, placed
from medvqa.protocols.prompts import Template
from support.laws import examples
from support.servers import Reply, Server, completion

ONE, TWO, THREE = (Image(f"{n}.png", digest=str(n)) for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "images", "parts"),
    [
        ("Is <image 1> red?", (ONE,), ["Is ", ONE, " red?"]),
        ("<image 1><image 2> Which?", (ONE, TWO), [ONE, TWO, " Which?"]),
        ("<image 1>\n <image 2>", (ONE, TWO), [ONE, TWO]),
        ("B is <image 2>, A is <image 1>", (ONE, TWO), ["B is ", TWO, ", A is ", ONE]),
        ("Is it red?", (ONE, TWO), [ONE, TWO, "Is it red?"]),
        ("Is <image 2> red?", (ONE, TWO, THREE), [ONE, THREE, "Is ", TWO, " red?"]),
        ("<image 1> and <image 1>", (ONE,), [ONE, " and <image 1>"]),
        ("<image 2> and <image 0> and <image 999>", (ONE,), [ONE, "<image 2> and <image 0> and <image 999>"]),
        ("<image 1>", (), ["<image 1>"]),
        ("<image1> <Image 1> <image  1>", (ONE,), [ONE, "<image1> <Image 1> <image  1>"]),
        ("", (ONE,), [ONE]),
        ("", (), [""]),
    ],
)
def test_each_image_stands_once_at_its_first_mark(text: str, images: tuple[Image, ...], parts: list[Any]) -> None:
    assert placed(text, images, "in-place") == parts


def test_the_other_orders_leave_marks_in_the_text() -> None:
    assert placed("<image 1>?", (ONE, TWO), "images-first") == [ONE, TWO, "<image 1>?"]
    assert placed("<image 1>?", (ONE, TWO), "text-first") == ["<image 1>?", ONE, TWO]
    assert placed("", (ONE,), "images-first") == [ONE, ""]
    assert marks("<image 2> <image 12> <image 1>") == [2, 12, 1]


@examples(100)
@given(
    st.lists(st.sampled_from(["<image 1>", "<image 2>", "<image 7>", "<image", " 1>", "text", "\n"])).map("".join),
    st.integers(0, 3),
)
def test_no_image_is_lost_or_sent_twice_and_no_text_is_lost(text: str, count: int) -> None:
    images = (ONE, TWO, THREE)[:count]
    parts = placed(text, images, "in-place")
    shown = [part for part in parts if isinstance(part, Image)]
    assert sorted(image.name for image in shown) == sorted(image.name for image in images)
    kept = "".join(part for part in parts if isinstance(part, str))
    for number in range(1, count + 1):
        text = text.replace(f"<image {number}>", "", 1)
    assert "".join(kept.split()) == "".join(text.split())


def test_ten_thousand_marks_send_an_image_once() -> None:
    assert sum(part is ONE for part in placed("<image 1>" * 10_000, (ONE,), "in-place")) == 1


def test_the_digest_knows_the_order_and_old_prompts_keep_theirs() -> None:
    prompt = Prompt("Is <image 1> red?", (ONE,))
    digests = {
        order: prompts.digest(replace(prompt, order=order)) for order in ("images-first", "text-first", "in-place")
    }
    assert len(set(digests.values())) == 3
    # Digests of before there was a third order.
    assert digests["images-first"] == "5c9d9b2583bb131524e26f0af306c0b65a79fc6b37bb767ba089ae14f630b1aa"
    assert digests["text-first"] == "92c86b4a427578dc4451f5a73ae98a049aaa12bbb619f4b81e9925d284eec457"
    template = Template("t", "{question}", order="in-place")
    assert template.label != Template("t", "{question}").label
    assert template.about()["order"] == "in-place"


def test_a_rotated_option_keeps_its_image_and_an_ablated_prompt_its_text() -> None:
    item = Item("1", "b", "single_choice", "Which?", {"A": "<image 1>", "B": "<image 2>"}, ("A",), (ONE, TWO))
    template = Template("t", "{question}\n{options}", "({letter}) {text}\n", order="in-place")
    turned = template.prompt(rotation.rotated(item, 1))
    assert placed(turned.text, turned.images, turned.order) == ["Which?\n(A) ", TWO, "\n(B) ", ONE]
    bare = ablation.withhold(turned)
    assert placed(bare.text, bare.images, bare.order) == ["Which?\n(A) <image 2>\n(B) <image 1>\n"]


# --- a server ---------------------------------------------------------------------------------------------------------


def kinds(content: list[dict[str, Any]]) -> list[str]:
    return [part["text"] if part["type"] == "text" else "IMAGE" for part in content]


def test_a_server_gets_texts_and_images_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    images = []
    for n in (1, 2):
        PIL.Image.new("RGB", (n, 1)).save(tmp_path / f"{n}.png")
        images.append(Image(f"{n}.png", str(tmp_path / f"{n}.png")))
    shot = Shot("Is <image 1> red?", "No", (images[0],))
    prompt = Prompt(
        "So?", tuple(images), shots=(shot,), turns=(Turn("See <image 2> and <image 1>.", "I do."),), order="in-place"
    )
    with Server(lambda number, request: Reply(completion("B"))) as server:
        model = loaded(OpenAI("tiny", OpenAIOptions(base_url=server.url, key_env="OPENAI_API_KEY")))
        (answer,) = model.generate([prompt])
        model.close()
    assert isinstance(answer, Answer)
    shown = [kinds(message["content"]) for message in server.requests[0].body["messages"] if message["role"] == "user"]
    assert shown == [["Is ", "IMAGE", " red?"], ["See ", "IMAGE", " and ", "IMAGE", "."], ["So?"]]
    urls = [
        p["image_url"]["url"] for p in server.requests[0].body["messages"][2]["content"] if p["type"] == "image_url"
    ]
    assert urls[1] == server.requests[0].body["messages"][0]["content"][1]["image_url"]["url"], "the second mark is 1"


# --- checkpoints ------------------------------------------------------------------------------------------------------


class Processor:
    """A processor with a chat template, as `transformers` has them; `hoists`: images before all texts."""

    all_special_ids: tuple[int, ...] = ()
    all_special_tokens = ("<s>",)

    def __init__(self, *, chat: bool = True, hoists: bool = False, token: str = "<IMG>") -> None:
        self.chat_template, self.image_token = "template" if chat else None, token
        first = "{% for c in m.content %}{% if c.type == 'image' %}<IMG>{% endif %}{% endfor %}" if hoists else ""
        image = "" if hoists else "{% if c.type == 'image' %}<IMG>{% endif %}"
        self._template = (
            "{% for m in messages %}["
            + first
            + "{% for c in m.content %}"
            + image
            + "{% if c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %}]{% endfor %}"
        )

    def apply_chat_template(self, messages: Any, **kwargs: Any) -> str:
        return jinja2.Template(self._template).render(messages=messages)


def writer(processor: Processor, **options: Any) -> Callable[[Prompt], tuple[str, list[str]]]:
    made = PromptWriter(processor, HFOptions(**options))

    def write(prompt: Prompt) -> tuple[str, list[str]]:
        written = made.write(prompt)
        return written.text, [image.name for image in written.images]

    return write


ASKED = Prompt("Is <image 2> like <image 1>?", (ONE, TWO), order="in-place")


def test_a_chat_template_gets_images_at_their_marks() -> None:
    assert writer(Processor())(ASKED) == ("[Is <IMG> like <IMG>?]", ["2.png", "1.png"])
    shot = Shot("See <image 1>", "Yes", (THREE,))
    asked = replace(ASKED, shots=(shot,))
    assert writer(Processor())(asked) == ("[See <IMG>][Yes][Is <IMG> like <IMG>?]", ["3.png", "2.png", "1.png"])


@pytest.mark.parametrize("token", ["<IMG>", "<soft>", ""], ids=["its token", "another token", "no token"])
def test_a_template_that_moves_images_keeps_the_marks_and_their_numbers(token: str) -> None:
    """A processor may name another token than its template writes, as Gemma 3's does."""
    moved = writer(Processor(hoists=True, token=token))
    assert moved(ASKED) == ("[<IMG><IMG>Is <image 2> like <image 1>?]", ["1.png", "2.png"])
    assert writer(Processor(token=token))(ASKED) == ("[Is <IMG> like <IMG>?]", ["2.png", "1.png"])


def test_a_raw_prompt_has_images_at_their_marks() -> None:
    raw = writer(Processor(chat=False), raw="USER: {image}{text} ASSISTANT:")
    assert raw(ASKED) == ("USER: Is <IMG> like <IMG>? ASSISTANT:", ["2.png", "1.png"])
    assert raw(replace(ASKED, images=(ONE, TWO, THREE))) == (
        "USER: <IMG>Is <IMG> like <IMG>? ASSISTANT:",
        ["3.png", "2.png", "1.png"],
    )
    assert raw(replace(ASKED, order="images-first")) == (
        "USER: <IMG><IMG>Is <image 2> like <image 1>? ASSISTANT:",
        ["1.png", "2.png"],
    )


def test_without_an_image_token_marks_stay_in_the_text() -> None:
    assert writer(Processor(chat=False, token=""))(ASKED) == ("Is <image 2> like <image 1>?", ["1.png", "2.png"])
