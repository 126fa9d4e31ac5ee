"""Conversations of several turns, and hidden thoughts."""

from typing import Any

import pytest

from medvqa import answers
from medvqa.backend import Backend
from medvqa.engine import Failure, Unavailable, ask, attempt
from medvqa.items import Answer, AnswerError, Item, Prompt, Result, Score, Turn
from medvqa.metrics import is_complete
from medvqa.records import baseline_file
from medvqa.records.run_folder import decode, encode

KEY = "sk-test-0123456789abcdef"


def said(reply: str, **more: Any) -> Answer:
    return Answer(reply, seconds=1.0, usage={"output": 2.0, "cost": 0.5}, **more)


class Talker(Backend):
    """Replies with a number for each turn, and notes its prompts."""

    sends_to = None
    converses = True
    _replies = ("first", "second", "third")
    _asked = ()

    def generate(self, prompts):
        self._asked += (tuple(prompts),)
        return [self._reply(prompt) for prompt in prompts]

    def _reply(self, prompt):
        reply = self._replies[len(prompt.turns)]
        return said(reply) if isinstance(reply, str) else reply


class Silent(Talker):
    converses = False


TWO = Prompt("Which?", then=("Therefore?",))


def test_the_first_turn_of_a_whole_batch_precedes_the_second() -> None:
    model = Talker()
    batch = [TWO, Prompt("Plain?"), Prompt("Three?", then=("And?", "Then?"))]
    two, plain, three = ask(model, batch)
    assert [[prompt.text for prompt in call] for call in model._asked] == [
        ["Which?", "Plain?", "Three?"],
        ["Therefore?", "And?"],
        ["Then?"],
    ]
    assert model._asked[1][0].turns == (Turn("Which?", "first"),)
    assert model._asked[2][0].turns == (Turn("Three?", "first"), Turn("And?", "second"))
    assert two == Answer("second", None, 2.0, usage={"output": 4.0, "cost": 1.0}, earlier=("first",))
    assert plain == said("first")
    assert isinstance(three, Answer)
    assert (three.text, three.earlier, three.seconds) == ("third", ("first", "second"), 3.0)


def test_an_error_or_a_refusal_ends_its_conversation_alone() -> None:
    model = Talker()
    model._replies = (AnswerError("no image"), "second")
    (failed,) = ask(model, [TWO])
    assert str(failed) == "no image"
    assert len(model._asked) == 1
    model._replies = (said("I must not.", finish="refusal"), "second")
    assert ask(model, [TWO]) == [said("I must not.", finish="refusal")]
    model._replies = ("first", AnswerError("too long"))
    (failed,) = ask(model, [TWO])
    assert isinstance(failed, AnswerError)
    assert str(failed) == "turn 2: too long"


def test_a_reply_that_was_cut_off_is_followed_by_the_next_turn_and_counts_as_truncated() -> None:
    model = Talker()
    model._replies = (said("first", finish="length"), "B")
    (answer,) = ask(model, [TWO])
    assert isinstance(answer, Answer)
    # The last reply is complete, and may be read as such.
    assert (answer.text, answer.finish, answer.cut) == ("B", "stop", True)
    assert is_complete(Result("r", Item("q"), "", answer, Score(1.0, "correct"))) is False


def test_an_exception_of_a_later_turn_fails_the_whole_batch() -> None:
    class Broken(Talker):
        def generate(self, prompts):
            if any(prompt.turns for prompt in prompts):
                raise MemoryError
            return [Answer("first")] * len(prompts)

    outcome = attempt(Broken(), [TWO, Prompt("?")])
    assert isinstance(outcome, Failure)
    assert outcome.memory


def test_a_backend_that_takes_one_turn_alone_gets_no_second() -> None:
    (failed,) = ask(Silent(), [TWO])
    assert isinstance(failed, AnswerError)
    assert "takes one turn alone" in str(failed)
    assert "converses = True" in str(failed)


def test_a_model_that_could_not_be_made_says_why() -> None:
    assert [str(error) for error in ask(Unavailable("x", "no weights"), [TWO])] == ["no weights"]


def test_recorded_answers_are_those_of_the_last_turn() -> None:
    class Recorded(Silent):
        recorded = True

    model = Recorded()
    assert ask(model, [TWO]) == [said("first")]


def test_a_wrapper_converses_as_its_inner_model() -> None:
    class Wrapper(Backend):
        wraps = True
        sends_to = None

        def generate(self, prompts):
            return self.inner.generate(prompts)

    assert Wrapper("talker", None, Talker()).converses
    assert not Wrapper("silent", None, Silent()).converses


# --- hidden thoughts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "text", "thoughts"),
    [
        ("<think>A or B?</think>\n\nB", "B", "A or B?"),
        (" <Think >\nA?</THINK> B", "B", "A?"),
        ("<thinking>A?</thinking>B", "B", "A?"),
        ("<think>It was cut", "", "It was cut"),
        ("Its start is in the template.</think>B", "B", "Its start is in the template."),
        ("<think></think>B", "B", ""),
        ("B", "B", ""),
        ("I <think> that it is B", "I <think> that it is B", ""),
    ],
)
def test_marked_thoughts_are_kept_apart(reply: str, text: str, thoughts: str) -> None:
    assert answers.without_thoughts(Answer(reply)) == Answer(text, thoughts=thoughts)


def test_the_engine_parts_thoughts_from_answers_but_not_from_recorded_ones() -> None:
    model = Talker()
    model._replies = (said(f"<think>My key is {KEY}.</think>B"),)
    assert ask(model, [Prompt("?")], {KEY}) == [said("B", thoughts="My key is [key].")]

    class Recorded(Talker):
        recorded = True

    model = Recorded()
    model._replies = (said("<think>A?</think>B"),)
    assert ask(model, [Prompt("?")]) == [said("<think>A?</think>B")]


def test_thoughts_of_all_turns_are_joined_and_not_sent_back() -> None:
    model = Talker()
    model._replies = (said("<think>one</think>first"), said("B", thoughts="two"))
    (answer,) = ask(model, [TWO])
    assert isinstance(answer, Answer)
    assert (answer.text, answer.thoughts) == ("B", "one\n\ntwo")
    assert model._asked[1][0].turns == (Turn("Which?", "first"),)


def test_long_thoughts_are_shortened() -> None:
    kept = answers.without_thoughts(Answer("B", thoughts="a" * 50_000 + "b" * 50_000)).thoughts
    assert kept.startswith("aaa")
    assert kept.endswith("bbb")
    assert "40,000 characters are left out here" in kept
    assert len(kept) < answers.MAX_THOUGHTS + 100


# --- records --------------------------------------------------------------------------------------------------------

FULL = Answer("B", thoughts="t", earlier=("first",), whole="x\nFinal answer: B", cut=True)


def result(answer: Answer) -> Result:
    item = Item("q", "b", "single_choice", "?", {"A": "a", "B": "b"}, ("B",))
    return Result("r", item, "p", answer, Score(1.0, "correct", ("B",)))


def test_answers_keep_thoughts_and_earlier_replies() -> None:
    assert answers.decode(answers.encode(FULL)) == FULL == answers.checked(FULL)
    assert b"thoughts" not in answers.encode(Answer("B"))
    assert b"whole" not in answers.encode(Answer("B"))
    assert decode(encode(result(FULL))) == result(FULL)
    assert encode(result(Answer("B"))).endswith(b'"sample":0}')


def test_the_reply_is_all_that_the_model_wrote_for_people() -> None:
    assert Answer("B").reply == "B"
    assert FULL.reply == "first\n\nx\nFinal answer: B"


def test_all_texts_of_an_answer_are_redacted() -> None:
    secret = Answer(KEY, thoughts=KEY, earlier=(KEY,), whole=KEY, cut=True)
    hidden = answers.without_secrets(secret, {KEY})
    assert hidden == Answer("[key]", thoughts="[key]", earlier=("[key]",), whole="[key]", cut=True)


def test_a_baseline_without_responses_has_no_thoughts() -> None:
    kept = baseline_file.without_response(result(FULL))
    # Whether it was cut off stays: measures count it.
    assert kept.answer == Answer(baseline_file.response_digest(FULL), cut=True)
