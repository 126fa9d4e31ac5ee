"""Instructions to reason or to explain, and the line that holds the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import answers, scoring
from medvqa.benchmarks.mediconfusion import mediconfusion_rule
from medvqa.items import KINDS, Answer, Item, Prompt
from medvqa.protocols import prompts
from medvqa.protocols.prompts import Template
from medvqa.protocols.reasoning import COT, COT_2, EXPLAIN, final_line, first_line
from support.laws import examples

OPTIONS = {"A": "benign", "B": "malignant", "C": "neither"}
ITEM = Item("q", "b", "single_choice", "Which?", OPTIONS, ("B",))


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("Final answer: B", "B"),
        ("It is round.\n\nFinal answer: B\n", "B"),
        ("**Final Answer:** B", "B"),
        ("## Final answer: **B**", "B"),
        ("- final answer : A, C", "A, C"),
        ("So:\nFinal answer: $\\boxed{B}$", "$\\boxed{B}$"),
        ("**Final answer:**\nB", "B"),
        ("```\nFinal answer: B\n```", "B"),
        ("Final answer: 5 mm: large", "5 mm: large"),
        ("Final answer: A\nWait, the margin is irregular.\nFinal answer: B", "B"),
        ("Final answer: B\n\nFinal answer: B", "B"),
        # Two answers in a row, and words after the line.
        ("Final answer: A\nFinal answer: B", None),
        ("Final answer: A\nBut it may be B.", None),
        ("The line is to begin with Final answer: A", None),
        ("Final answer:", None),
        ("B", None),
        ("", None),
        (" \n\n", None),
    ],
)
def test_the_final_line_ends_the_reply(reply: str, line: str | None) -> None:
    assert final_line(reply) == line


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("I think.\nFinal answer: B", None),
        ("I think.\nFinal answer: B\n", "B"),
        ("Final answer: B\nThe ma", None),
        ("I think that", None),
    ],
)
def test_a_reply_that_was_cut_off_needs_a_line_end(reply: str, line: str | None) -> None:
    assert final_line(reply, finished=False) == line
    read = COT.read(Answer(reply, finish="length"))
    assert (read.text, read.whole) == (line or "", reply)
    # The line is complete, so rules may read it as such; the truncation is noted apart.
    assert (read.finish, read.cut) == (("length", False) if line is None else ("stop", True))


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("B\nThe margin is irregular.", "B"),
        ("Answer: B\nThe margin is irregular; A is wrong.", "B"),
        ("**Answer:**\nB\nBecause.", "B"),
        ("\n\n(B) malignant\nFinal answer: A", "(B) malignant"),
        ("", None),
    ],
)
def test_the_first_line_of_an_explained_answer_counts(reply: str, line: str | None) -> None:
    assert first_line(reply) == line


def test_an_explanation_may_be_cut_off_after_its_answer() -> None:
    read = EXPLAIN.read(Answer("B\nThe mar", finish="length"))
    assert (read.text, read.finish, read.cut) == ("B", "stop", True)
    assert EXPLAIN.read(Answer("B becau", finish="length")).text == ""


def score(reply: str, finish: str = "stop") -> tuple[str, tuple[str, ...]]:
    answer = COT.read(answers.without_thoughts(Answer(reply, finish=finish)))
    scored = scoring.score_single_choice(ITEM, answer)
    return scored.outcome, scored.extracted


@pytest.mark.parametrize(
    "reply",
    [
        # A final line that the model only quotes: of its thoughts, of the question, of the format.
        "<think>Final answer: A</think>\nThe margin is irregular.\nFinal answer: B",
        'The question says "Final answer: A".\nIts margin is irregular.\nFinal answer: B',
        "The question says\nFinal answer: A\nbut its margin is irregular.\nFinal answer: B",
        "I shall end with\nFinal answer: <letter>\nIts margin is irregular.\nFinal answer: B",
        "I first thought that the answer is A. It is A. A!\nFinal answer: B",
    ],
)
def test_the_line_alone_is_scored(reply: str) -> None:
    assert score(reply) == ("correct", ("B",))


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is B.",
        "<think>Final answer: B</think>\nI am done.",
        "<think>Final answer: B",
        "The question says\nFinal answer: B\nand I cannot tell why.",
    ],
)
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_without_the_line_nothing_is_guessed(reply: str, finish: str) -> None:
    assert score(reply, finish) == ("unparsed", ())


def test_a_published_rule_reads_the_line_alone() -> None:
    def official(reply: str) -> tuple[str, tuple[str, ...]]:
        scored = scoring.score_single_choice(ITEM, COT.read(Answer(reply)), mediconfusion_rule)
        return scored.outcome, scored.extracted

    assert official("A is round . A\nFinal answer: **B**") == ("correct", ("B",))
    assert official("B") == ("unparsed", ())


def test_why_an_answer_is_not_read_names_the_line() -> None:
    scored = scoring.score_single_choice(ITEM, COT.read(Answer("The answer is B.")))
    assert scored.why == "the reply has no line that holds the answer"


def test_a_refusal_of_the_server_and_an_answer_that_was_read_stay() -> None:
    refusal = Answer("No.", finish="refusal")
    assert COT.read(refusal) is refusal
    read = COT.read(Answer("x\nFinal answer: B"))
    assert COT.read(read) is read


@examples(300)
@given(st.text("Final answer: AB\n*`x", max_size=60) | st.text())
def test_any_text_is_read_to_one_line_of_it_or_none(reply: str) -> None:
    for line in (final_line(reply), first_line(reply)):
        assert line is None or (line and line in reply and "\n" not in line)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("instruction", [COT, COT_2, EXPLAIN])
def test_each_kind_of_question_is_instructed(kind, instruction) -> None:
    prompt = Prompt("Which?\nAnswer: ", kind=kind, options=OPTIONS, template="b/mc@1", max_tokens=32)
    added = instruction.added(prompt)
    assert added.text.startswith("Which?\nAnswer:\n\n")
    assert "{" not in added.text + "".join(added.then)
    assert (added.template, added.max_tokens) == (f"b/mc@1+{instruction.label}", instruction.tokens)
    assert len(added.then) == (instruction is COT_2)


def test_the_second_turn_names_the_letters() -> None:
    assert COT_2.added(Prompt("?", options=OPTIONS)).then == ("Therefore, among A through C, the answer is",)
    free = COT_2.added(Prompt("?", options=OPTIONS, technique="ff"))
    assert free.then == ("Therefore, the answer is",)
    assert "letter" not in COT.added(Prompt("?", options=OPTIONS, technique="ff")).text


def test_a_template_has_further_turns_and_old_digests_stay() -> None:
    plain = Template("b/mc", "{question}")
    turned = Template("b/mc", "{question}", then=("Therefore, among {first} through {last}, the answer is",))
    assert plain.label == "b/mc@fe90ea8d"
    assert turned.label != plain.label
    prompt = turned.prompt(ITEM)
    assert prompt.then == ("Therefore, among A through C, the answer is",)
    assert prompts.digest(prompt) != prompts.digest(plain.prompt(ITEM))
