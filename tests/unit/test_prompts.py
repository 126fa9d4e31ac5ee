"""Templates: only the template is formatted, and what a model sees decides the digest."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import TECHNIQUES, Image, Item, Prompt, Shot
from medvqa.protocols import prompts
from medvqa.protocols.prompts import Template

ASK = Template("slake/mc", "Question: {question}\nOptions:\n{options}Answer:", "{letter}. {text}\n")
ITEM = Item("1", "slake", "single_choice", "Which?", {"A": "liver", "B": "spleen"}, ("A",), (Image("1.png"),))


def test_a_template_is_filled_to_the_byte() -> None:
    prompt = ASK.prompt(ITEM)
    assert prompt.text == "Question: Which?\nOptions:\nA. liver\nB. spleen\nAnswer:"
    assert (prompt.benchmark, prompt.item, prompt.images) == ("slake", "1", ITEM.images)
    assert prompt.template == ASK.label


@given(st.text(), st.text())
def test_braces_in_the_data_are_text(question: str, option: str) -> None:
    prompt = ASK.prompt(replace(ITEM, question=question, options={"A": option}))
    assert prompt.text == f"Question: {question}\nOptions:\nA. {option}\nAnswer:"


def test_a_prompt_never_holds_the_key() -> None:
    assert "answers" not in Prompt.__dataclass_fields__


def test_the_label_changes_with_every_part_of_a_template() -> None:
    others = [replace(ASK, text=ASK.text + " "), replace(ASK, option="{letter}: {text}\n"), replace(ASK, system="x")]
    assert len({ASK.label, *(other.label for other in others)}) == 4


def test_the_digest_sees_all_that_a_model_sees_and_nothing_else() -> None:
    plain = ASK.prompt(ITEM)
    seen = [
        replace(plain, text="other"),
        replace(plain, system="be brief"),
        replace(plain, technique="gd"),
        replace(plain, shots=(Shot("q", "a"),)),
        replace(plain, shots=(Shot("q", "a", ITEM.images),)),
        replace(plain, images=(Image("2.png"),)),
        replace(plain, images=(Image("1.png", blank=True),)),
        replace(plain, images=(Image("1.png", digest="ab", blank=True),)),
        replace(plain, images=(Image("1.png", digest="ab"),)),
    ]
    assert len({prompts.digest(prompt) for prompt in [plain, *seen]}) == 10
    moved = replace(plain, images=(Image("elsewhere.png", digest="ab"),))
    assert prompts.digest(moved) == prompts.digest(seen[-1]), "an image is its content, wherever it lies"
    assert prompts.digest(replace(plain, item="2")) == prompts.digest(plain)


@given(st.lists(st.text(), min_size=2, max_size=2))
def test_parts_do_not_run_into_one_another(parts: list[str]) -> None:
    first, second = parts
    one = Prompt(text=first, system=second)
    other = Prompt(text=first + second, system="")
    assert (prompts.digest(one) == prompts.digest(other)) == (one.text == other.text and one.system == other.system)


def test_options_are_seen_by_techniques_that_score_them() -> None:
    for technique in TECHNIQUES:
        prompt = Prompt("Question: Which? Answer:", options={"A": "liver"}, technique=technique)
        others = [replace(prompt, options={"A": "spleen"}), replace(prompt, options={"B": "liver"})]
        digests = {prompts.digest(each) for each in (prompt, *others)}
        assert len(digests) == (3 if technique in ("gd", "ps") else 1)
