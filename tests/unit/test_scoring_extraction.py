"""Reading options out of free text: the corpus readings.toml, laws, hostile input, and answers of real models."""

import json
import re
import string
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.benchmarks.mediconfusion import mediconfusion_rule
from medvqa.scoring import read_options
from medvqa.scoring.text import HEAD, TAIL
from support.laws import examples

MEDICONFUSION = Path(__file__).parents[3] / "shared" / "reference" / "mediconfusion"
READINGS = tomllib.loads((Path(__file__).parents[1] / "support/readings.toml").read_text(encoding="utf-8"))
LESION, BLEED, CELL = (READINGS["options"][name] for name in ("lesion", "bleed", "cell"))


def cases(group: dict[str, Any]) -> list[tuple[str, str]]:
    """(response, expected) of each line of a group; a line that starts with spaces goes on with the one before."""
    pairs = (line.split(maxsplit=1) for line in re.sub(r"\n +", " ", group["read"].strip()).splitlines())
    return [(response.replace("⏎", "\n"), expected) for expected, response in pairs]


def said(response: str, options: dict[str, str], *, multiple: bool = False, finished: bool = True) -> str:
    """What is read, as readings.toml writes it."""
    reading = read_options(response, options, multiple=multiple, finished=finished)
    assert reading.why
    assert "\n" not in reading.why
    assert (reading.status == "read") == bool(reading.letters)
    return "".join(reading.letters) if reading.letters else reading.status.replace("unparsed", "-")


@pytest.mark.parametrize(
    ("group", "response", "expected"),
    [
        pytest.param(group, *case, id=f"{group['about']}: {case[0][-40:]!r}")
        for group in READINGS["groups"]
        for case in cases(group)
    ],
)
def test_responses_are_read_as_expected(group: dict[str, Any], response: str, expected: str) -> None:
    options = READINGS["options"][group["options"]]
    finished = group.get("finished", True)
    assert said(response, options, multiple=group.get("multiple", False), finished=finished) == expected


@pytest.mark.parametrize("multiple", [False, True])
def test_space_and_invisible_characters_do_not_count(multiple: bool) -> None:
    for response in ("", "   \n", "\u200b\ufeff"):
        assert said(response, LESION, multiple=multiple) == "-"
    for response in (" B \n", "\ufeffB\u200b", "\tB\r\n"):
        assert said(response, LESION, multiple=multiple) == "B"


def test_letters_come_in_the_order_of_the_options() -> None:
    options = dict(reversed(CELL.items()))
    assert read_options("A, C, B", options, multiple=True).letters == ("C", "B", "A")


def test_why_names_the_rule_and_the_words() -> None:
    assert read_options("Hm. So the answer is B.", LESION).why == 'answer: "Hm. So the answer is B."'
    assert read_options("A and B", LESION).why == "several answers: A/B"
    assert read_options("A. nevus", LESION).why == "a letter with another option's text: A/B"
    assert read_options("I can't help.", LESION).why == 'says "can\'t help."'
    assert read_options("<think>B", LESION).why == "nothing but reasoning"


def test_only_the_ends_of_a_long_response_are_read() -> None:
    filler = "The border is regular. " * 3000
    assert len(filler) > HEAD + TAIL
    assert said(f"B. {filler}", LESION) == "B"
    assert said(f"{filler}\nThe answer is B.", LESION) == "B"
    assert said(f"{filler}The answer is B.{filler}", LESION) == "-"
    assert said(f"<think>{filler}The answer is A.{filler}</think>The answer is B.", LESION) == "B"
    # "not", cut off from what it denies, would leave an answer
    for length in range(HEAD - 12, HEAD + 4):
        assert said(f"{'x' * length} is not B{filler}", LESION) == "-"
    for length in range(TAIL - 12, TAIL + 4):
        assert said(f"{filler}It is not B{' x' * (length // 2)}", LESION) == "-"


def test_the_recorded_answers_of_a_real_model() -> None:
    """GPT-4o on MediConfusion: what the official cleaner reads is read alike, and what it does not is a refusal."""
    if not MEDICONFUSION.is_dir():
        pytest.skip(f"no {MEDICONFUSION}")
    questions = json.loads((MEDICONFUSION / "dataset.json").read_text())
    statuses: Counter[str] = Counter()
    for key, recorded in json.loads((MEDICONFUSION / "gpt4o_mc_predictions.json").read_text()).items():
        options = {letter: questions[key][f"option_{letter}"] for letter in "AB"}
        for image in ("im1", "im2"):
            response = recorded["answer"][image]["answer"]["full_answer"]
            reading = read_options(response, options)
            assert reading.letters == mediconfusion_rule(response, options).letters
            statuses[reading.status] += 1
    assert statuses == {"read": 332, "refused": 20}


# Laws.


def parts(text: str) -> list[str]:
    return text.replace("⏎", "\n").split("|")


LETTERS = st.sampled_from("ABCDEF")
WORDS = ("Melanoma", "Nevus", "Basal cell carcinoma", "Cyst", "Abscess", "No abscess", "Wart")
FRAGMENTS = parts(
    "The answer is |Answer: |not | but | and | or |, |. |⏎|⏎⏎|) |(|)|So |I think | is correct| is wrong|However, |"
    "Wait, no, |option |<answer>|</answer>|**|?|the |it is |I cannot tell. |I can't help. |vitamin |答案是|选|"
    "Final answer: |no |if |<think>|</think>"
)


@st.composite
def questions(draw: st.DrawFn) -> dict[str, str]:
    texts = draw(st.lists(st.sampled_from(WORDS), min_size=2, max_size=6))
    return dict(zip(string.ascii_uppercase, texts, strict=False))


@given(st.data(), questions(), st.booleans())
def test_relabelling_options_permutes_what_is_read(
    data: st.DataObject, options: dict[str, str], multiple: bool
) -> None:
    letters = list(options)
    renamed = dict(zip(letters, data.draw(st.permutations(letters)), strict=True))
    pieces = data.draw(st.lists(st.sampled_from([*FRAGMENTS, *letters, *WORDS]), max_size=12))
    # A letter that touches others is no letter: keep them apart.
    response = "".join(f" {piece} " if piece in options or piece in WORDS else piece for piece in pieces)
    relabelled = "".join(
        f" {renamed.get(piece, piece)} " if piece in options or piece in WORDS else piece for piece in pieces
    )
    new_options = {renamed[letter]: text for letter, text in options.items()}
    before = read_options(response, options, multiple=multiple)
    after = read_options(relabelled, new_options, multiple=multiple)
    assert {renamed[letter] for letter in before.letters} == set(after.letters), (before, after)
    assert before.status == after.status


TEMPLATES = parts(
    "{}|({})|{}.|{})|Answer: {}|The answer is {}.|The correct answer is {} because it fits.|I choose {}|Option {}|"
    "{} is correct.|not {} but {}|{} and {}|I cannot tell.|<think>{}</think>{}|It is not {}|选{}|{}, {}|"
    "{}. Wait, no, actually {}|{}⏎⏎The border is regular.|Final answer: {}"
)
MARKDOWN = ("**{}**", "*{}*", "__{}__", "_{}_", "`{}`", "***{}***", "**_{}_**")
BLOCKS = (*MARKDOWN, "# {}", "### {}", "> {}", "- {}", "* {}", "```\n{}\n```", "  {}  \n", "<b>{}</b>", "<p>{}</p>")


@given(st.sampled_from(TEMPLATES), st.lists(LETTERS, min_size=2, max_size=2), st.sampled_from(MARKDOWN), st.booleans())
def test_markdown_around_letters_changes_nothing(template: str, letters: list[str], mark: str, multiple: bool) -> None:
    plain = read_options(template.format(*letters), CELL, multiple=multiple)
    marked = read_options(template.format(*map(mark.format, letters)), CELL, multiple=multiple)
    assert (marked.letters, marked.status) == (plain.letters, plain.status)


@given(st.sampled_from(TEMPLATES), st.lists(LETTERS, min_size=2, max_size=2), st.sampled_from(BLOCKS), st.booleans())
def test_markdown_around_the_whole_changes_nothing(
    template: str, letters: list[str], block: str, multiple: bool
) -> None:
    response = template.format(*letters)
    plain = read_options(response, CELL, multiple=multiple)
    marked = read_options(block.format(response), CELL, multiple=multiple)
    assert (marked.letters, marked.status) == (plain.letters, plain.status)


@given(
    st.one_of(st.text(), st.lists(st.sampled_from([*FRAGMENTS, *string.ascii_uppercase, *WORDS])).map("".join)),
    st.dictionaries(
        st.sampled_from(string.ascii_uppercase), st.one_of(st.text(max_size=20), LETTERS, st.sampled_from(WORDS))
    ),
    st.booleans(),
)
@examples(300)
def test_nothing_raises_and_only_options_are_read(response: str, options: dict[str, str], multiple: bool) -> None:
    reading = read_options(response, options, multiple=multiple)
    assert set(reading.letters) <= set(options)
    assert (reading.status == "read") == bool(reading.letters)
    assert multiple or len(reading.letters) <= 1
    assert list(reading.letters) == [letter for letter in options if letter in reading.letters]
    assert not re.search(r"[\n\ue000-\uf8ff]", reading.why)


HOSTILE = parts(
    "a|A |B x |B. |(B|(| |⏎|*|_|> |- A⏎|A⏎|A,|A and |'|\"|\t|<|[ |the answer is |answer |answer: B⏎|answer⏎|"
    "B is the most |B is correct. |so the |not A but |if |<think>|</think>|<think></think>|<answer>|<br |\\boxed{|"
    '\\boxed{B}|"answer": |{"answer": "B"}|"answer": [|nevus |no nevus, |wait, no |cannot |答案是|选B|Ｂ|'
    "\ufdfa|a\u0301|B⏎Question: |B? "
)


@pytest.mark.parametrize("size", [40_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_hostile_text_is_read_in_passing(unit: str, size: int) -> None:
    """Anything but linear time would show as a hang."""
    response = unit * (size // len(unit))
    options = BLEED | {"C": "nevus", "D": "no nevus"}
    for multiple in (False, True):
        assert set(read_options(response, options, multiple=multiple).letters) <= set(options)


@given(
    st.dictionaries(
        st.sampled_from("ABCDEFGHI"), st.from_regex(r"[a-z]{3,9}( [a-z]{3,9})?", fullmatch=True), min_size=1
    ),
    st.booleans(),
    st.data(),
)
def test_a_letter_alone_is_read_like_a_letter_with_space_around_it(
    options: dict[str, str], multiple: bool, data: st.DataObject
) -> None:
    letter = data.draw(st.sampled_from(sorted(options)))
    assert read_options(letter, options, multiple=multiple) == read_options(f" {letter}\n", options, multiple=multiple)
