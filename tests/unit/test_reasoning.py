"""Instructions to reason, to explain, to abstain or to be confident, and the lines that answer them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from medvqa import answers, judging, scoring
from medvqa.benchmarks import own
from medvqa.benchmarks.mediconfusion import mediconfusion_rule
from medvqa.items import (
    CHOICE_KINDS,
    KINDS,
    Answer,
    Benchmark,
    Item,
    Prompt,
    Query,
    ReaderNote,
    Score,
    UsageError,
)
from medvqa.protocols import prompts
from medvqa.protocols.prompts import Template
from medvqa.protocols.protocol import Protocol, assembled, check
from medvqa.protocols.reasoning import ABSTAIN, CONFIDENCE, COT, COT_2, EXPLAIN, final_line, first_line
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


# --- confidence and abstention --------------------------------------------------------------------------------------


def asked(**fields: Any) -> Callable[[str], Answer]:
    """Read a reply by a protocol with these fields."""
    protocol = Protocol(**fields)
    check(protocol)
    return lambda reply: protocol.read(Answer(reply), ITEM)


@pytest.mark.parametrize(
    ("line", "confidence"),
    [
        ("Confidence: 85", 0.85),
        ("Confidence: 85%", 0.85),
        ("confidence : 85 %.", 0.85),
        ("**Confidence:** 85", 0.85),
        ("- Confidence score: 85/100", 0.85),
        ("Confidence level\uff1a 85 percent", 0.85),
        ("Confidence: 62.5", 0.625),
        ("Confidence: 0", 0.0),
        ("Confidence: 100", 1.0),
        ("Confidence: 1%", 0.01),
        ("Confidence: 85\n\nConfidence: 85", 0.85),
        ("Confidence: 85\n```", 0.85),
        # Of which scale are they?
        ("Confidence: 1", None),
        ("Confidence: 0.85", None),
        ("Confidence: 8/10", None),
        # No numbers, and none that are probabilities.
        ("Confidence: 101", None),
        ("Confidence: -5", None),
        ("Confidence: 1e9", None),
        ("Confidence: nan", None),
        ("Confidence: inf", None),
        ("Confidence: 80-90", None),
        ("Confidence: high", None),
        ("Confidence: \u0668\u0665", None),
        ("Confidence:", None),
        ("Confidence: 85\nConfidence: 20", None),
    ],
)
def test_the_last_line_states_the_confidence_and_is_no_part_of_the_answer(line: str, confidence: float | None) -> None:
    reply = f"B\n{line}"
    answer = asked(confidence=True)(reply)
    assert (answer.text, answer.whole, answer.confidence) == ("B", reply, confidence)
    assert asked(confidence=True)(reply) == Protocol(confidence=True).read(answer, ITEM)


@pytest.mark.parametrize(
    "reply",
    [
        "B",
        "B, 85%",
        "My confidence: 85\nB",
        "Confidence: 85\nB",
        # The line may hold the answer.
        "Confidence: 85. Answer: B",
        "Confidence: B",
        "Confidence: yes",
        "Confidence:\nliver",
        # Behind the answer, only the word that was asked for with a percentage counts, once, at the end.
        "B Confidence: 0.9",
        "B Confidence: high",
        "B Confidence: 90-95",
        "B with confidence: 90",
        "B overConfidence: 90",
        "B Confidence: 90 is mine",
        "B Confidence: 90 Confidence: 20",
        "Confidence: 20\nB Confidence: 90",
        "B Confidence: 90\nOr A.",
        "B Confidence",
    ],
)
def test_a_confidence_elsewhere_is_not_read_and_nothing_is_lost(reply: str) -> None:
    assert asked(confidence=True)(reply) == Answer(reply)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("B Confidence: 90", "B"),
        ("B, Confidence: 90%", "B"),
        ("**B** **Confidence: 90**", "**B**"),
        ("B (Confidence: 90 %).", "B"),
        ("B | Confidence score: 90/100", "B"),
        ("B\nThe margin is irregular. Confidence: 90\n```", "B\nThe margin is irregular."),
    ],
)
def test_a_percentage_behind_the_answer_is_read_and_taken_off(reply: str, text: str) -> None:
    answer = asked(confidence=True)(reply)
    assert (answer.text, answer.whole, answer.confidence) == (text, reply, 0.9)
    assert scoring.score_single_choice(ITEM, answer).extracted == ("B",)


def test_the_rule_that_reads_a_confidence_is_part_of_its_version() -> None:
    other = replace(CONFIDENCE, rule="The last line alone.")
    assert other.text == CONFIDENCE.text
    assert other.label != CONFIDENCE.label
    # Instructions without a rule keep their digests.
    assert COT.label == "cot@b09bbb8b"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("B Confidence: 8", ("B", None, "stop", True)),
        ("B\nConfidence: 8", ("B", None, "stop", True)),
        ("B\nConfidence: 85\n", ("B", 0.85, "stop", True)),
        ("B\nConf", ("B\nConf", None, "length", False)),
    ],
)
def test_a_confidence_that_may_have_been_cut_off_is_not_read(reply: str, expected: tuple[object, ...]) -> None:
    answer = Protocol(confidence=True).read(Answer(reply, finish="length"), ITEM)
    assert (answer.text, answer.confidence, answer.finish, answer.cut) == expected


def test_a_confidence_follows_reasons_and_explanations() -> None:
    reasoned = asked(reasoning="cot", confidence=True)("It is round.\nFinal answer: **B**\n\n**Confidence: 70%**\n")
    assert (reasoned.text, reasoned.confidence) == ("B", 0.7)
    assert reasoned.whole.startswith("It is round.")
    explained = asked(explain=True, confidence=True)("B\nThe margin is irregular.\nConfidence: 70")
    assert (explained.text, explained.confidence) == ("B", 0.7)
    assert asked(reasoning="cot", confidence=True)("B\nConfidence: 70").text == ""


@pytest.mark.parametrize("before", ["", "<think>Confidence: 10</think>", "A? No.\n"])
def test_hidden_thoughts_state_no_confidence(before: str) -> None:
    answer = asked(confidence=True)(f"{before}B\nConfidence: 90<think>Confidence: 20")
    assert answer.confidence == 0.9
    assert scoring.score_single_choice(ITEM, answer) == scoring.score_single_choice(ITEM, Answer(f"{before}B"))


def test_a_long_hostile_reply_is_read_in_time() -> None:
    for reply in ("Confidence: 1\n" * 100_000, "Confidence: " * 500_000, "Confidence: " + "9" * 10**7, " " * 10**6):
        assert asked(confidence=True)(reply).confidence is None


@examples(500)
@given(st.text("Confidence: 0159.%/\n*`B-A", max_size=60) | st.text(), st.sampled_from(["stop", "length"]))
def test_any_reply_has_a_confidence_from_0_to_1_or_none(reply: str, finish: str) -> None:
    answer = Protocol(confidence=True).read(Answer(reply, finish=finish), ITEM)
    assert answer.confidence is None or 0 <= answer.confidence <= 1
    assert answers.checked(answer) == answer
    assert answer.text == reply or answer.whole == reply


@examples(300)
@given(
    st.sampled_from(["B", "(A)", "The answer is C.", "malignant", "A or B?", "Final answer: A", "I cannot tell."]),
    st.integers(0, 100),
    st.sampled_from(["", "%", "/100", ".", " percent"]),
    st.sampled_from(["", "cot"]),
    st.sampled_from(["\n", " "]),
)
def test_the_confidence_changes_no_answer(said: str, percent: int, sign: str, reasoning: Any, between: str) -> None:
    assume(between == "\n" or percent != 1 or sign in ("%", "/100", " percent"))
    with_line = asked(confidence=True, reasoning=reasoning)(f"{said}{between}Confidence: {percent}{sign}")
    without = asked(reasoning=reasoning)(said)
    assert with_line.text == without.text
    assert scoring.score_single_choice(ITEM, with_line) == scoring.score_single_choice(ITEM, without)
    assert with_line.confidence == (None if percent == 1 and sign in ("", ".") else percent / 100)


CANNOT = Item("q", "b", "single_choice", "Which?", {"A": "liver", "B": "Cannot be determined"}, ("B",))
OPEN = Item("q", "b", "short_answer", "Which?", answers=("liver",))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", ["Cannot be determined", "**Cannot be determined.**", "It cannot be determined"])
def test_the_offered_answer_is_read_as_abstained_by_every_rule(kind: Any, said: str) -> None:
    answers = ("B",) if kind in CHOICE_KINDS else ("yes",)
    item = Item("q", "b", kind, "Which?", OPTIONS if kind in CHOICE_KINDS else {}, answers)
    answer = Protocol(abstain=True).read(Answer(said), item)
    benchmark = own.completed(Benchmark(name="b", items=lambda data: ()))
    for of in (benchmark, replace(benchmark, score=lambda item, answer: Score(1.0, "correct"))):
        assert scoring.by_rule(item, "mc", answer, benchmark=of).outcome == "abstained"
        assert judging.case_of(of, item, "mc", answer, Score(None, "unscored"), judging.Settings()) is None
    assert said in ABSTAIN.text or said != "Cannot be determined"
    assert Protocol().read(Answer(said), item) == Answer(said)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        # An option, or the reference, says so too.
        (CANNOT, "Cannot be determined"),
        (replace(CANNOT, options={"A": "liver", "B": "It is not possible to tell"}), "Cannot be determined"),
        (replace(OPEN, answers=("Cannot be determined",)), "Cannot be determined"),
        (replace(OPEN, answers=("The scan does not show enough",)), "Cannot be determined"),
        # Another answer.
        (ITEM, "B"),
        (ITEM, "None of the above"),
        (OPEN, "Cannot be determined, but perhaps liver"),
        (OPEN, ""),
    ],
)
def test_another_answer_is_left_to_the_rules(item: Item, said: str) -> None:
    assert Protocol(abstain=True).read(Answer(said), item) == Answer(said)


def test_an_option_that_cannot_tell_is_chosen_and_not_abstained() -> None:
    answer = Protocol(abstain=True).read(Answer("Cannot be determined"), CANNOT)
    assert scoring.score_single_choice(CANNOT, answer).extracted == ("B",)


def test_the_model_may_abstain_after_reasons_with_a_confidence() -> None:
    read = asked(reasoning="cot", abstain=True, confidence=True)
    answer = read("I see no liver.\nFinal answer: Cannot be determined\nConfidence: 90")
    assert (answer.text, answer.noted, answer.confidence) == (
        "Cannot be determined",
        ReaderNote(cannot_tell=True),
        0.9,
    )
    assert asked(explain=True, abstain=True)("Cannot be determined\nNo image.").noted == ReaderNote(cannot_tell=True)


def test_each_instruction_is_added_in_order_and_signed() -> None:
    protocol = Protocol(reasoning="cot", abstain=True, confidence=True)
    prompt = assembled(Query(ITEM), lambda item, technique: Prompt("Which?", template="b/mc@1"), protocol)
    places = [prompt.text.index(said.text.partition("{")[0]) for said in (COT, ABSTAIN, CONFIDENCE)]
    assert places == sorted(places)
    assert prompt.template == f"b/mc@1+{COT.label}+{ABSTAIN.label}+{CONFIDENCE.label}"
    assert prompt.max_tokens == COT.tokens
    signature = {"reasoning": COT.label, "abstain": ABSTAIN.label, "confidence": CONFIDENCE.label}
    assert protocol.signature() == signature
    assert protocol.label == "cot, abstain, confidence"
    assert protocol.typed() == {"--reasoning": "cot", "--abstain": "", "--confidence": ""}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reasoning": "cot-2", "abstain": True}, "--abstain and --reasoning=cot-2: its second turn asks"),
        ({"reasoning": "cot-2", "confidence": True}, "type --reasoning=cot"),
        ({"shots": 2, "confidence": True}, "--shots=2 and --confidence: the solved examples have answers without a"),
        ({"samples": 3, "combine": "vote", "confidence": True}, "is the share of samples that agree"),
    ],
)
def test_instructions_that_contradict_each_other_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(Protocol(**fields))
