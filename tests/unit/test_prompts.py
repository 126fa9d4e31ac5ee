"""Templates: only the template is formatted, and what a model sees decides the digest."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.benchmarks import own
from medvqa.items import TECHNIQUES, Benchmark, Image, Item, Prompt, PromptFunction, Shot, UsageError
from medvqa.protocols import naming, prompt_files, prompts
from medvqa.protocols.prompts import Template, Templates

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
        replace(plain, shots=(Shot("q", "a", end="<|endofchunk|>"),)),
        replace(plain, shots=(Shot("q", "a", ITEM.images),)),
        replace(plain, images=(Image("2.png"),)),
        replace(plain, images=(Image("1.png", blank=True),)),
        replace(plain, images=(Image("1.png", digest="ab", blank=True),)),
        replace(plain, images=(Image("1.png", digest="ab"),)),
    ]
    assert len({prompts.digest(prompt) for prompt in [plain, *seen]}) == 11
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


# The order of text and images


def test_the_order_is_seen_only_if_it_is_not_the_default() -> None:
    plain = ASK.prompt(ITEM)
    assert plain.order == "images-first"
    assert ASK.label == "slake/mc@61a63074", "labels of earlier versions stay"
    other = replace(ASK, order="text-first")
    assert other.label != ASK.label
    assert other.prompt(ITEM).order == "text-first"
    assert prompts.digest(other.prompt(ITEM)) != prompts.digest(plain)


# Named prompts

SHORT = Templates("short", {"mc": ASK})
SLAKE = Benchmark(
    name="slake",
    items=lambda _: (),
    prompt=PromptFunction(ASK.prompt, ("mc", "ps")),
    prompts={"short": SHORT, "4-long": SHORT},
)


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ([], ("",)),
        (["default"], ("default",)),
        (["short"], ("short",)),
        (["4"], ("4-long",)),
        (["4", "short", "4-long"], ("4-long", "short")),
        (["all"], ("default", "short", "4-long")),
    ],
)
def test_names_of_prompts(typed: list[str], names: tuple[str, ...]) -> None:
    assert naming.asked(typed, SLAKE) == names


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("shrt", "has no prompt of that name; it has: default, short, 4-long. Did you mean 'short'?"),
        ("5", "has no prompt of that name; it has: default, short, 4-long. A file is named with its folder or suffix"),
    ],
)
def test_an_unknown_name_is_refused(typed: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        naming.asked([typed], SLAKE)
    assert str(caught.value).startswith(f"--prompt={typed}: benchmark 'slake' {message}")
    assert str(caught.value).endswith("A file is named with its folder or suffix: --prompt=prompts/NAME.txt")


def test_a_technique_without_a_prompt_of_that_name_is_refused() -> None:
    naming.check(["short", "default"], ["mc"], SLAKE)
    naming.check(["short"], ["ff"], SLAKE)  # The benchmark leaves it out anyway.
    with pytest.raises(UsageError) as caught:
        naming.check(["short"], ["mc", "ps"], SLAKE)
    assert str(caught.value) == (
        "--prompt=short: benchmark 'slake' has no such prompt for technique 'ps', only for mc; prompts of ps: default"
    )


@pytest.mark.parametrize("name", ["all", "default", "7", "r1", "a+b", "a b", "", ".x", "x" * 61])
def test_some_names_are_not_free(name: str) -> None:
    assert not naming.is_name(name)
    with pytest.raises(UsageError, match=r"benchmark 'slake': prompts is .*; expected: a dict of names"):
        own.check(replace(SLAKE, prompts={name: "{question}"}))


def test_a_prompt_of_ones_own_is_one_line() -> None:
    changed = own.completed(replace(SLAKE, prompts={"brief": "{question}\n{options}\nOne letter:"}))
    ask = changed.prompts["brief"]
    assert isinstance(ask, Templates)
    assert ask(ITEM, "mc").text == "Which?\nA. liver\nB. spleen\nOne letter:"
    assert ask.techniques == ("mc", "gd")
    assert ask(ITEM, "mc").template.startswith("slake/brief@")
    with pytest.raises(UsageError, match=r"has the field \{answer\}"):
        own.completed(replace(SLAKE, prompts={"brief": "{question} {answer}"}))


def test_a_text_without_options_is_refused_for_choice_questions() -> None:
    ask = Templates("open", {"mc": Template("open", "{question}")})
    assert ask(replace(ITEM, kind="short_answer", options={}), "mc").text == "Which?"
    with pytest.raises(UsageError, match=r"prompt 'open' shows no options, .*single_choice: add \{options\}"):
        ask(ITEM, "mc")


# Files


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_text_file_is_a_prompt(tmp_path: Path) -> None:
    text = "Read the scan.\r\n{question}\r\n{options}\r\nLetter: {{A}}\n"
    prompt = prompt_files.read(written(tmp_path, "mine.txt", text))
    assert (prompt.name, prompt.techniques) == ("mine", ("mc", "gd"))
    asked = prompt(ITEM, "mc")
    assert asked.text == "Read the scan.\nWhich?\nA. liver\nB. spleen\nLetter: {A}"
    assert asked.template.startswith("mine/mc@")
    assert asked.max_tokens is None
    assert prompt_files.read(written(tmp_path, "mine.txt", text + " "))(ITEM, "mc").template != asked.template


TOML = """
text = '''{question}
{options}Letter: '''
option = "({letter}) {text}\\n"
system = "You read scans."
order = "text-first"
max_tokens = 8

[ps]
text = "Q: {question} A:"

[judgment]
text = "{question} Yes or no?"
max_tokens = 4
"""


def test_a_toml_has_settings_and_parts_for_techniques_and_kinds(tmp_path: Path) -> None:
    prompt = prompt_files.read(written(tmp_path, "mine.toml", TOML))
    assert prompt.techniques == ("mc", "gd", "ps")
    asked = prompt(ITEM, "mc")
    assert asked.text == "Which?\n(A) liver\n(B) spleen\nLetter: "
    assert (asked.system, asked.order, asked.max_tokens) == ("You read scans.", "text-first", 8)
    assert prompt(ITEM, "ps").text == "Q: Which? A:"
    assert prompt(ITEM, "ps").max_tokens is None
    judged = prompt(replace(ITEM, kind="judgment", options={}), "mc")
    assert (judged.text, judged.system, judged.max_tokens) == ("Which? Yes or no?", "You read scans.", 4)
    about = prompt.about("mc")
    assert [entry["text"] for entry in about.values()] == ["{question}\n{options}Letter: ", "{question} Yes or no?"]
    assert next(iter(about.values()))["order"] == "text-first"


def test_a_toml_may_have_further_turns(tmp_path: Path) -> None:
    """As MedXpertQA's official protocol, whose questions hold their options."""
    written_prompt = """
system = "You are a helpful medical assistant."
text = "Q: {question}\\n{options}A: Let's think step by step."
then = ["Therefore, among {first} through {last}, the answer is"]
"""
    prompt = prompt_files.read(written(tmp_path, "two.toml", written_prompt))
    assert prompt.converses
    asked = prompt(ITEM, "mc")
    assert (asked.text, asked.then) == (
        "Q: Which?\nA. liver\nB. spleen\nA: Let's think step by step.",
        ("Therefore, among A through B, the answer is",),
    )
    assert prompt(ITEM, "gd").then == ()
    (about,) = prompt.about("mc").values()
    assert about["then"] == "Therefore, among {first} through {last}, the answer is"
    assert not prompt_files.read(written(tmp_path, "mine.toml", TOML)).converses


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mine.toml", 'text = "{question}"\nthen = "x"', ", line 2: Expected `array`, got `str` - at `$.then`"),
        ("mine.toml", 'text = "{question}"\nthen = [3]', ", line 2: Expected `str`, got `int` - at `$.then[0]`"),
        ("mine.toml", 'text = "{question}"\nthen = ["{x}"]', ", line 2: the texts of `then` may have the fields"),
        ("mine.txt", "Look.\nAnswer {query}\n{options}", ", line 2: the text has the field {query}. Its fields are"),
        ("mine.txt", "a\nb {question} }\n", ", line 2: the text has a single }"),
        ("mine.txt", "{options}\n", ", line 1: the text has no field {question}"),
        ("mine.txt", b"\xff{question}", " line 1: not UTF-8: invalid start byte"),
        ("mine.toml", "text = ", ": not TOML: Invalid value (at end of document)"),
        ("mine.toml", 'system = "x"', ': no prompt; write text = "..."'),
        ("mine.toml", 'system = "x"\n\n[mc]\nmax_tokens = 1', ", line 3: [mc] has no text"),
        ("mine.toml", 'text = "{question}"\nsytem = "x"', ", line 2: no key 'sytem'; there are: text, option"),
        ("mine.toml", 'text = "{question}"\n[mcq]\ntext = "x"', ", line 2: no key 'mcq'; there are: text, option"),
        ("mine.toml", 'text = "{question}"\nsystem = 3', ", line 2: Expected `str`, got `int` - at `$.system`"),
        (
            "mine.toml",
            'text = "{question}"\nmax_tokens = true',
            ", line 2: Expected `int | null`, got `bool` - at `$.max_tokens`",
        ),
        ("mine.toml", 'text = "{question}"\nmax_tokens = -1', ", line 2: Expected `int` >= 0 - at `$.max_tokens`"),
        (
            "mine.toml",
            'text = "{question}"\norder = "x"',
            ", line 2: order: Invalid enum value 'x'; there are: images-first, in-place, text-first.",
        ),
        ("mine.toml", 'text = "{question}"\noption = "{letter}"', ", line 2: option needs the field {text}"),
        ("mine.toml", 'text = "{question}"\noption = "{text} {x}"', ", line 2: option needs the field {text}"),
        ("mine.toml", 'order = "text-first"\ntext = "Q\\n{x}"', ", line 2: the text has the field {x}"),
        ("all.txt", "{question}", ": the file's name names the prompt: rename the file"),
        ("r1.txt", "{question}", ": the file's name names the prompt: rename the file"),
        ("my prompt.txt", "{question}", ": the file's name names the prompt: rename the file"),
        ("mine.txt", "x" * 2**17, ": cannot be read: "),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        prompt_files.read(written(tmp_path, name, content), f"prompts/{name}")
    assert str(caught.value).startswith(f"--prompt=prompts/{name}{message}")


def test_a_missing_file_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--prompt=.*gone\.txt: cannot be read: No such file or directory$"):
        prompt_files.read(tmp_path / "gone.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UsageError, match=r"^--prompt=.*pipe\.txt: cannot be read: "):
        prompt_files.read(tmp_path / "pipe.txt")


@pytest.mark.parametrize(("typed", "file"), [("mine", False), ("4", False), ("a.txt", True), ("a/b", True)])
def test_a_folder_or_a_suffix_names_a_file(typed: str, *, file: bool) -> None:
    assert prompt_files.is_file(typed) == file


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_a_text_is_sent_as_written_or_refused(text: str) -> None:
    """A text that passes the check is formatted without an error, and keeps every other character."""
    template = Template("x", text)
    if prompts.wrong_field(text) is None:
        filled = template.prompt(replace(ITEM, question="Q", options={})).text
        expected = text.replace("{question}", "Q").replace("{options}", "")
        assert filled == expected.replace("{{", "{").replace("}}", "}") or "{{" in text or "}}" in text
