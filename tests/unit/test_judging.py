"""Judging: what a judge is asked, how its replies are read, and the scores that follow."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib import resources
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks, judging, metrics
from medvqa.benchmarks import gmai_mmbench, mediconfusion, medlesionvqa, phantom
from medvqa.items import (
    KINDS,
    TECHNIQUES,
    Answer,
    Benchmark,
    Item,
    Judgement,
    Kind,
    Measure,
    Metric,
    Outcome,
    Prompt,
    Result,
    Score,
    Technique,
    UsageError,
)
from medvqa.judging.rules import decide
from medvqa.judging.templates import FIELDS, OTHER_FIELDS, shipped
from medvqa.scoring import score_single_choice, unscored
from support import judges

SETTINGS = judging.Settings()
EXTRACT = judging.Settings(extract=True)
FIRST = judging.Settings(rules_first=True)
(PAIRS,) = mediconfusion.BENCHMARKS
LESIONS = medlesionvqa.BENCHMARKS[0]
GMAI = replace(gmai_mmbench.VAL, owners=replace(gmai_mmbench.VAL.owners, extractor=None))
"""Asked about by the project's own prompt; tests/session/test_official.py has that of its harness."""
WAITS = Score(None, "unscored")

PAIR = Item(
    "1/1", "mediconfusion", "single_choice", "What is it?", {"A": "a cyst", "B": "an abscess"}, ("A",), pair_id="1"
)
CHOICE = replace(PAIR, id="1", benchmark="gmai-mmbench-val", pair_id=None)
SEVERAL = Item(
    "2", "medlesionvqa-val", "multiple_response", "Which?", {"A": "papule", "B": "plaque", "C": "ulcer"}, ("A", "B")
)
OFFICIAL = """\
[Question]
What is it?

[Answer A]
a cyst

[Answer B]
an abscess

[AI Assistant]
It holds fluid.

[End of AI Assistant]

[System]
We would like to request your feedback on the performance of an AI assistant in response to the user question \
displayed above. The user asks the question on observing an image. We have provided two possible answers, [Answer A] \
and [Answer B] to the question. Your job is to evaluate how close the AI assistant's answer is to each of the answers. \
You don't have to decide whether the answers are correct or not. Each answer should receive an overall score on a \
scale of 1 to 10, where a higher score indicates the AI assistant's answer is closer to the specific answer. After \
providing the scores, concisely provide your explanation for the given scores. Remember, you don't need to comment on \
the correctness of the answers. Please provide your answer in the following format:
A: <SCORE>
B: <SCORE>
Your explanation: <EXPLANATION>"""
OWN = {"score": "Judge {response} by {reference}.\n{question}\n"}
SAID = {
    # colours: 1 + 0 + 0.5 + 0.5 of 4, by the families of Table 10
    "white": "It is white.", "yellow": "red", "red": "dark red", "black": "dark brown",
    # sizes: 1 + 0.5 + 0 + 0 of 4
    "1 cm": "about 10 mm", "2 cm": "2.5 cm", "3 cm": "12 cm", "4 cm": "",
    # diseases: 1 + 1 + 0 + 0 + 0 + 1 of 6, synonyms among them
    "herpes zoster": "shingles", "tinea corporis": "Ringworm", "vitiligo": "It cannot be determined from this image.",
    "urticaria": "<think>hives</think>", "impetigo": "Impetigo.",
    # lesions: 1 + 1 + 0 + 3 of 6
    "crust": "a blood scab", "plaque": "a wheal",
}  # fmt: skip


def question(kind: Kind = "short_answer", *answers: str) -> Item:
    return Item("3", "medlesionvqa-val", kind, "What is it?", answers=answers or ("red",))


def case(
    item: Item = PAIR,
    response: str = "some fluid",
    *,
    benchmark: Benchmark | None = None,
    technique: Technique | None = None,
    score: Score | None = None,
    settings: judging.Settings = EXTRACT,
    finish: str = "stop",
) -> judging.Case | None:
    """The case of a response, by FF for pairs, by MC for others, whose options the rules did not read."""
    owner = benchmark or (PAIRS if item.pair_id else GMAI if item.kind == "single_choice" else LESIONS)
    technique = technique or ("ff" if item.pair_id else "mc")
    score = score or (Score(0.0, "unparsed", (), "no option is named") if item.options else WAITS)
    return judging.case_of(owner, item, technique, Answer(response, finish=finish), score, settings)


def asked(item: Item, response: str = "some fluid", settings: judging.Settings = EXTRACT) -> judging.Case:
    found = case(item, response, settings=settings)
    assert found is not None
    assert len(found.prompts) == 1
    return found


def read(item: Item, reply: str) -> judging.JudgeReading | judging.Complaint:
    return judging.read(asked(item), 0, reply)


def scored(item: Item, reply: str, settings: judging.Settings = EXTRACT, response: str = "some fluid") -> Score:
    found = asked(item, response, settings)
    reading = judging.read(found, 0, reply)
    assert isinstance(reading, judging.JudgeReading), reading
    return judging.score(found, item, [reading], settings)


class TestWhoIsAsked:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("technique", TECHNIQUES)
    @pytest.mark.parametrize(
        "outcome", ["correct", "wrong", "partial", "refused", "abstained", "unparsed", "unscored", "error"]
    )
    @pytest.mark.parametrize("extract", [False, True])
    def test_by_kind_technique_and_outcome(
        self, kind: Kind, technique: Technique, outcome: Outcome, extract: bool
    ) -> None:
        options = {"A": "x", "B": "y"} if kind in ("single_choice", "multiple_response") else {}
        item = Item("1", "b", kind, "?", options, ("A",) if options else ("red",), pair_id="1")
        found = case(
            item,
            benchmark=LESIONS,
            technique=technique,
            score=Score(None, outcome),
            settings=judging.Settings(extract=extract),
        )
        expected = None
        if technique in ("mc", "ff") and outcome != "error":
            if not options:
                expected = "score"
            elif technique == "ff":
                expected = "closeness"
            elif extract and outcome == "unparsed":
                expected = "options"
        assert (found and found.task) == expected

    def test_only_kinds_that_the_benchmark_says(self) -> None:
        slake = replace(LESIONS, judged=frozenset({"short_answer"}))
        assert case(question("short_answer"), benchmark=slake) is not None
        assert case(question("judgment"), benchmark=slake) is None
        assert case(question("short_answer"), benchmark=replace(LESIONS, judged=frozenset())) is None

    def test_never_without_a_key(self) -> None:
        assert case(replace(PAIR, answers=())) is None
        assert case(replace(question(), answers=())) is None
        assert case(replace(CHOICE, answers=())) is None

    def test_options_are_not_looked_for_where_one_is_called_as_none_is(self) -> None:
        assert case(replace(CHOICE, options={"A": "x", "Z": "y"})) is None

    @pytest.mark.parametrize("response", ["", " \n", "\u200b", "<think>red", "<think>red</think>\n"])
    def test_an_empty_answer_needs_no_judge(self, response: str) -> None:
        for item in (PAIR, question()):
            found = case(item, response)
            assert found is not None
            assert found.prompts == ()
            score = judging.score(found, item, [], EXTRACT)
            assert (score.value, score.outcome) == (0.0, "unparsed")
            assert score.why in ("the response is empty", "nothing but reasoning")
        assert case(CHOICE, response) is None

    def test_a_refusal_that_the_server_reports_needs_no_judge(self) -> None:
        for item in (PAIR, question()):
            found = case(item, "I'd say red", finish="refusal")
            assert found is not None
            assert (found.prompts, judging.score(found, item, [], EXTRACT).outcome) == ((), "refused")
        assert case(CHOICE, "a cyst", finish="refusal") is None

    def test_phantoms_open_questions_have_a_rule_of_their_own_and_are_judged_all_the_same(self) -> None:
        owner = phantom.BENCHMARKS[2]
        for item in benchmarks.load(owner, Path()):
            answer = Answer(item.answers[0])
            rule = owner.score(item, answer)
            assert rule.outcome in ("correct", "partial"), "without a judge a rule scores it"
            found = judging.case_of(owner, item, "mc", answer, rule, SETTINGS)
            assert (found is None) == bool(item.options)
            assert judging.case_of(owner, item, "ps", answer, rule, SETTINGS) is None, "a likelihood is no text"

    def test_free_form_answers_wait_for_their_judge(self) -> None:
        score = unscored(PAIR, Answer("A"))
        assert score == Score(None, "unscored", (), "a judge has to compare it with the options")
        assert unscored(replace(PAIR, answers=()), Answer("A")).why == "no answer key"


class TestPrompts:
    def test_closeness_is_the_owners_prompt_to_the_letter(self) -> None:
        """`get_clean_up_prompt` of utils/answering.py with `conversion` of configs/prompts/answering.json."""
        (prompt,) = asked(PAIR, "It holds fluid.").prompts
        text, _, ours = prompt.text.partition("\n\nAbout the data:")
        lines = [line for line in text.split("\n") if "data-" not in line]
        assert "\n".join(lines) == OFFICIAL
        assert prompt.system == "You are a helpful and precise assistant for checking the quality of the answer."
        assert "is data" in ours

    def test_closeness_of_more_options_than_two(self) -> None:
        item = replace(PAIR, options={"A": "x", "B": "y", "C": "z"})
        (prompt,) = asked(item).prompts
        assert (
            "We have provided three possible answers, [Answer A], [Answer B] and [Answer C] to the question."
            in prompt.text
        )
        assert "\nA: <SCORE>\nB: <SCORE>\nC: <SCORE>\nYour explanation" in prompt.text
        assert scored(item, "A: 1\nB: 5\nC: 9").extracted == ("C",)
        assert scored(item, "A: 1\nB: 7\nC: 9").outcome == "unparsed"

    def test_the_rubric_is_that_of_table_10(self) -> None:
        text = shipped("score")
        for rule in (
            "Same color: 1.0; same color family: 0.5; different color families: 0.",
            "purple-related colors such as purple, dark purple, deep purple, purplish red, etc.",
            "Exactly the same: 1.0; same category: 0.5; different categories: 0.",
            "Circular category: round-like, ellipse-like.",
            "If comparative descriptions or concrete numeric values correspond to a common-sense similar size, give "
            "1.0; if they are close, give 0.5; if the gap is too large, give 0.",
            '"Blood scab" and "crust" are treated as equivalent to "scab"; "scale" is treated as equivalent to '
            '"desquamation".',
            "If the answer is a synonym of the same disease, it should be regarded as a correct answer.",
        ):
            assert text.count(rule) == 1
        red, dark = (
            next(line for line in text.split("\n") if line.startswith(name)) for name in ("Red family", "Dark")
        )
        assert "purple" in red
        assert "brown" in dark

    def test_a_prompt_is_the_items_and_has_no_images_and_no_key_of_a_choice(self) -> None:
        for item in (PAIR, CHOICE, SEVERAL, question()):
            found = asked(item)
            (prompt,) = found.prompts
            assert (prompt.benchmark, prompt.item, prompt.kind, prompt.images) == (
                item.benchmark,
                item.id,
                item.kind,
                (),
            )
            assert prompt.options == item.options
            assert prompt.template == found.template == SETTINGS.templates()[found.task]

    def test_all_references_are_shown(self) -> None:
        (prompt,) = asked(question("short_answer", "papule", "wheal")).prompts
        assert [text for before, text in judges.look(prompt.text).fenced if before in ("Reference answer:", "or")] == [
            "papule",
            "wheal",
        ]

    def test_the_choice_question_says_how_many_letters(self) -> None:
        assert "a single capital letter, such as A or Z." in asked(CHOICE).prompts[0].text
        assert "single or multiple capital letters, such as ABCD or Z." in asked(SEVERAL).prompts[0].text

    def test_reasoning_is_not_shown(self) -> None:
        (prompt,) = asked(question(), "<think>Could be blue.</think>Red").prompts
        assert "blue" not in prompt.text
        assert judges.look(prompt.text).under("Predicted answer:") == "Red"

    def test_the_judge_is_told_how_much_of_a_long_answer_it_sees(self) -> None:
        (prompt,) = asked(question(), "b" * 2000 + "m" * 5000 + "e" * 6000).prompts
        shown = judges.look(prompt.text).under("Predicted answer:")
        assert shown == "b" * 2000 + "\n[5,000 characters are left out here]\n" + "e" * 6000
        assert "\n(Of the 13,000 characters above the first 2,000 and the last 6,000 are shown.)\n" in prompt.text
        (prompt,) = asked(question(), "b" * 8000).prompts
        assert "left out" not in prompt.text

    def test_the_second_try_has_the_complaint_and_not_the_reply(self) -> None:
        found = asked(question())
        complaint = judging.read(found, 0, "I give it <result>0.7</result>, since it says: do as I say")
        assert complaint == judging.Complaint("0.7 is not one of 0.0, 0.5 and 1.0.")
        second = judging.again(found, 0, "I give it <result>0.7</result>, since it says: do as I say", complaint)
        first = found.prompts[0]
        assert second == replace(first, text=second.text)
        assert second.text.removeprefix(first.text) == (
            "\n\nYour previous reply to this could not be used: 0.7 is not one of 0.0, 0.5 and 1.0. Evaluate the "
            "predicted answer again, and write exactly one <result>score</result> with 0.0, 0.5 or 1.0."
        )
        for item, ending in ((PAIR, "\nA: <SCORE>\nB: <SCORE>\nYour explanation: <EXPLANATION>"), (CHOICE, "A or Z.")):
            again = judging.again(asked(item), 0, "", judging.Complaint("It is empty."))
            assert "It is empty." in again.text
            assert again.text.endswith(ending)

    def test_prompts_are_files_that_ship(self) -> None:
        files = {file.name for file in (resources.files("medvqa.judging") / "prompts").iterdir()}
        assert files == {f"{name}.txt" for name in (*judging.TASKS, "options-vlmevalkit", "score-without-rubric")}
        assert judging.variants("score") == ["without-rubric"]
        assert judging.variants("closeness") == []
        for task in judging.TASKS:
            for variant in judging.variants(task):
                assert judging.Settings(prompts={task: shipped(f"{task}-{variant}")}).template(task).prompt


class TestOnesOwnPrompts:
    def test_are_sent_and_named_by_their_digest(self) -> None:
        settings = judging.Settings(prompts=OWN)
        found = asked(question(), "pink", settings)
        (prompt,) = found.prompts
        fence = prompt.text.split("<")[1].split(">")[0]
        shown = [f"<{fence}>\n{text}\n</{fence}>" for text in ("pink", "red", "What is it?")]
        assert prompt.text == f"Judge {shown[0]} by {shown[1]}.\n{shown[2]}"
        assert settings.templates()["score"] == found.template != SETTINGS.templates()["score"]
        assert settings.templates()["options"] == SETTINGS.templates()["options"]
        assert judging.again(found, 0, "", judging.Complaint("No.")).text.endswith(
            "Your previous reply to this could not be used: No. Reply again, in the format that was asked for."
        )

    @given(st.sampled_from(judging.TASKS), st.integers(0, 10_000), st.characters(categories=["L", "N", "Zs"]))
    def test_every_character_changes_the_digest(self, task: judging.Task, at: int, character: str) -> None:
        text = shipped(task)
        about = text.index("=== about ===\n") + len("=== about ===\n")
        changed = text[:about] + character + text[about:]
        assert judging.Settings(prompts={task: changed}).templates()[task] != SETTINGS.templates()[task]
        assert SETTINGS.templates()[task].startswith(f"judging/{task}@")

    def test_line_ends_of_another_system_do_not(self) -> None:
        for task in judging.TASKS:
            text = "\ufeff" + shipped(task).replace("\n", "\r\n")
            assert judging.Settings(prompts={task: text}).templates() == SETTINGS.templates()

    def test_braces_are_text_unless_they_hold_a_field(self) -> None:
        own = (
            '=== system ===\nReply {"a": 1} in {fence}\n=== prompt ===\n{question}{reference}{response}{two words} {}\n'
        )
        found = asked(
            question("short_answer", "{response}"), "{question} {0}", judging.Settings(prompts={"score": own})
        )
        (prompt,) = found.prompts
        assert prompt.system.startswith('Reply {"a": 1} in data-')
        assert prompt.text.endswith("{two words} {}")
        assert [text for _, text in judges.look(prompt.text.replace("><", ">\n<")).fenced] == [
            "What is it?",
            "{response}",
            "{question} {0}",
        ]

    @pytest.mark.parametrize(
        ("task", "text", "message"),
        [
            (
                "score",
                "",
                r"judge prompt for 'score': the field {question} is missing; it needs {question}, {reference}",
            ),
            ("score", "{question} {reponse} {reference}", r"'score': the field {response} is missing"),
            ("closeness", "{question} {response}", r"'closeness': the field {options} is missing"),
            ("options", "{question} {options} {response} {response}", r"the field {response} occurs twice"),
            (
                "options",
                "=== promt ===\n{question}",
                r"no section 'promt'; there are: about, again, prompt, system\. Did you mean 'prompt'\?$",
            ),
            ("options", "=== again ===\n=== again ===\n", r"a section occurs twice"),
            ("options", "{question}\n=== prompt ===\n{question}", r"text stands before the section 'prompt'"),
            (
                "score",
                "{question}{reference}{response}{fense}",
                r"'score': the section 'prompt' has no field {fense}; there are: question, reference, response, "
                r"fence\. Did you mean 'fence'\? Write { fense } for text in braces",
            ),
            (
                "options",
                "=== system ===\n{reference}\n=== prompt ===\n{question}{options}{response}",
                r"'options': the section 'system' has no field {reference}; there are: question, "
                r"options, response, fence, letters\. Did you mean 'fence'\? Write { reference } for text in braces",
            ),
            ("score", "{question}{reference}{response}{complaint}", r"the section 'prompt' has no field {complaint}"),
            (
                "score",
                "=== prompt ===\n{question}{reference}{response}\n=== again ===\n{why}",
                r"section 'again' has no",
            ),
            (
                "scores",
                "{question}",
                r"--judge-prompt: no task 'scores'; there are: score, closeness, options\. Did you mean 'score'\?$",
            ),
        ],
    )
    def test_what_is_wrong_with_one_is_said(self, task: str, text: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            judging.Settings(prompts={task: text})

    def test_all_fields_of_the_projects_own_are_known(self) -> None:
        for task in judging.TASKS:
            text = shipped(task).partition("=== prompt ===")[2]
            known = {*FIELDS[task], *OTHER_FIELDS[task], "complaint"}
            assert {name for name in known if f"{{{name}}}" in text} >= set(FIELDS[task])
            (prompt,) = asked({"score": question(), "closeness": PAIR, "options": CHOICE}[task]).prompts
            assert not any(f"{{{name}}}" in prompt.text for name in known)


class TestSettings:
    @pytest.mark.parametrize("gap", [-1, 9.5, float("nan"), float("inf")])
    def test_a_gap_is_on_the_scale(self, gap: float) -> None:
        with pytest.raises(UsageError, match=rf"--ff-gap={gap:g}: a lead on the scale from 1 to 10 is 0 to 9 points$"):
            judging.Settings(gap=gap)

    def test_the_signature_tells_what_can_change_a_number(self) -> None:
        names = SETTINGS.templates()
        assert SETTINGS.signature() == {
            "judging": "1",
            "ff_gap": "3",
            "judge_prompts": f"{names['closeness']}+{names['score']}",
        }
        assert SETTINGS.signature(LESIONS) == {"judging": "1", "judge_prompts": names["score"]}
        assert SETTINGS.signature(PAIRS, "ff") == {"judging": "1", "ff_gap": "3", "judge_prompts": names["closeness"]}
        assert SETTINGS.signature(PAIRS, "mc") == SETTINGS.signature(GMAI) == {}, "as in a run without a judge"
        assert FIRST.signature(LESIONS)["rules"] == "first"
        owner = gmai_mmbench.BENCHMARKS[0]
        both = SETTINGS.template("options", owner.owners.extractor).label, names["options"]
        extracted = {"judging": "1", "extract": "judge", "judge_prompts": "+".join(sorted(both))}
        assert EXTRACT.signature(owner) == extracted
        assert EXTRACT.signature(GMAI, "gd") == EXTRACT.signature(PAIRS, "ps") == {}
        assert judging.Settings(gap=2.5).signature(PAIRS)["ff_gap"] == "2.5"


class TestReplies:
    @pytest.mark.parametrize(
        ("reply", "value"),
        [
            ("<result>0.5</result>", 0.5),
            ("The same colour family. <result> 1 </result>\n\nAnything else?", 1.0),
            ("<think>It may be <result>1.0</result></think>\nNo.\n<result>0.0</result>", 0.0),
            ("**<result>1.0</result>**", 1.0),
            ("<result>**0.50**</result>", 0.5),
            ("It says ‹result>1.0‹/result>, which is no answer: <result>0</result>", 0.0),
        ],
    )
    def test_a_score(self, reply: str, value: float) -> None:
        assert read(question(), reply) == judging.JudgeReading(score=value)

    @pytest.mark.parametrize(
        ("reply", "why"),
        [
            ("", "It has no <result>...</result>."),
            ("0.5", "It has no <result>...</result>."),
            ("<result>0.5", "It has no <result>...</result>."),
            ("</result>0.5<result>", "It has no <result>...</result>."),
            ("<RESULT>0.5</RESULT>", "It has no <result>...</result>."),
            ("<think><result>0.5</result>", "It has no <result>...</result>."),
            ("<result>0.5</result> or <result>1.0</result>", "It has more than one <result>."),
            ("<result>0.5</result> <result>0.5</result>", "It has more than one <result>."),
            ("<result><result>0.5</result></result>", "It has more than one <result>."),
            ("<result>0.5</result></result>", "It has more than one <result>."),
            ("<result>0.7</result>", "0.7 is not one of 0.0, 0.5 and 1.0."),
            ("<result>2</result>", "2 is not one of 0.0, 0.5 and 1.0."),
            ("<result>-1</result>", "What stands in <result>...</result> is no number."),
            ("<result>0.5 or 1</result>", "What stands in <result>...</result> is no number."),
            ("<result>nan</result>", "What stands in <result>...</result> is no number."),
            ("<result>score</result>", "What stands in <result>...</result> is no number."),
            ("<result>0,5</result>", "What stands in <result>...</result> is no number."),
            ("<result>１</result>", "What stands in <result>...</result> is no number."),
            ("<result></result>", "What stands in <result>...</result> is no number."),
            ("<result>1e0</result>", "What stands in <result>...</result> is no number."),
        ],
    )
    def test_no_score(self, reply: str, why: str) -> None:
        assert read(question(), reply) == judging.Complaint(why)

    @pytest.mark.parametrize(
        ("reply", "a", "b"),
        [
            ("A: 7\nB: 3\nYour explanation: fluid.", 7, 3),
            ("A: 7\n\nB: 3\n\nExplanation: fluid.\nA: it is near.\nB (3): far.", 7, 3),
            ("Your explanation: fluid.\nA: 7\nB: 3", 7, 3),
            ("B: 10\nA: 1", 1, 10),
            ("**A: 7**\n**B:** 3", 7, 3),
            ("[Answer A]: 7/10\nAnswer B : 3.5", 7, 3.5),
            ("<think>A: 1</think>A: 7\nB: 3", 7, 3),
            ("Here are the scores.\nA: 7\nB: 3\nC: none\nNote: B is far off.", 7, 3),
        ],
    )
    def test_closeness(self, reply: str, a: float, b: float) -> None:
        assert read(PAIR, reply) == judging.JudgeReading(closeness={"A": a, "B": b})

    @pytest.mark.parametrize(
        ("reply", "why"),
        [
            ("", "It has no line with the score for A."),
            ("A: 7", "It has no line with the score for B."),
            ("A: 7, B: 3", "What follows A is no number."),
            ("A: <SCORE>\nB: <SCORE>", "What follows A is no number."),
            ("A: 7\nB: 3\nA: 7", "It has more than one score for A."),
            ("A: 7\nB: 3\nB: 8\nYour explanation: none.", "It has more than one score for B."),
            ("A: 7\n\nB: 3\n\nExplanation: fluid.\nA: 1\nB: 1", "It has more than one score for A."),
            ("A: 7\nB: 3\nYour explanation:\nA: 7\nB: 3", "It has more than one score for A."),
            ("A: 10\nB: 1\nYour explanation:\nA：2\nB：9", "It gives A another score in another form."),
            ("A: 0\nB: 3", "0 for A is not on the scale of 1 to 10."),
            ("A: 7\nB: 11", "11 for B is not on the scale of 1 to 10."),
            ("A: 10.5\nB: 1", "10.5 for A is not on the scale of 1 to 10."),
            ("A: -7\nB: 3", "What follows A is no number."),
            ("A is 7\nB: 3", "It has no line with the score for A."),
            ("7\n3", "It has no line with the score for A."),
        ],
    )
    def test_no_closeness(self, reply: str, why: str) -> None:
        assert read(PAIR, reply) == judging.Complaint(why)

    @pytest.mark.parametrize(
        ("item", "reply", "letters"),
        [
            (CHOICE, "A", "A"),
            (CHOICE, "(B).\n", "B"),
            (CHOICE, "**A**", "A"),
            (CHOICE, "<think>A or B?</think>Z", ""),
            (SEVERAL, "AB", "AB"),
            (SEVERAL, "C, A and B", "ABC"),
            (SEVERAL, "A、C", "AC"),
            (SEVERAL, "Z.", ""),
        ],
    )
    def test_options(self, item: Item, reply: str, letters: str) -> None:
        assert read(item, reply) == judging.JudgeReading(letters=tuple(letters))

    @pytest.mark.parametrize(
        ("item", "reply", "why"),
        [
            (CHOICE, "", "It is something else than capital letters of options, or Z."),
            (CHOICE, "a", "It is something else than capital letters of options, or Z."),
            (CHOICE, "A. a cyst", "It is something else than capital letters of options, or Z."),
            (CHOICE, "The answer is A", "It is something else than capital letters of options, or Z."),
            (CHOICE, "C", "C is no option, or does not stand alone."),
            (CHOICE, "AZ", "Z is no option, or does not stand alone."),
            (CHOICE, "A, B", "It names more than one option, and exactly one is right."),
            (CHOICE, "A A", "A letter occurs twice."),
            (SEVERAL, "ABD", "D is no option, or does not stand alone."),
            (SEVERAL, "A, Z", "Z is no option, or does not stand alone."),
        ],
    )
    def test_no_options(self, item: Item, reply: str, why: str) -> None:
        assert read(item, reply) == judging.Complaint(why)

    @pytest.mark.parametrize("item", [CHOICE, SEVERAL])
    def test_letters_of_a_reply_that_was_cut_off_are_not_read(self, item: Item) -> None:
        reading = judging.read(asked(item), 0, "A", finished=False)
        assert reading == judging.Complaint("It was cut off before its end.")

    def test_the_last_number_of_a_reply_that_was_cut_off_is_not_read(self) -> None:
        found = asked(PAIR)
        assert judging.read(found, 0, "A: 3\nB: 1") == judging.JudgeReading(closeness={"A": 3.0, "B": 1.0})
        cut = judging.read(found, 0, "A: 3\nB: 1", finished=False)
        assert cut == judging.Complaint("It has no line with the score for B.")
        complete = judging.read(found, 0, "A: 3\nB: 10\nExplanation: the", finished=False)
        assert complete == judging.JudgeReading(closeness={"A": 3.0, "B": 10.0})

    def test_a_judgment_that_was_cut_off_is_not_decided_by_rule(self) -> None:
        item = question("judgment", "yes")
        settings = judging.Settings(rules_first=True)
        ended = case(item, "Yes", score=WAITS, settings=settings)
        cut = case(item, "Yes", score=WAITS, settings=settings, finish="length")
        assert ended is not None
        assert cut is not None
        assert (len(ended.prompts), len(cut.prompts)) == (0, 1)

    @given(
        st.sampled_from([PAIR, CHOICE, SEVERAL, question()]),
        st.text()
        | st.lists(
            st.sampled_from(["<result>", "</result>", "0.5", "1", "A: ", "B: ", "7", "\n", "A", "Z", " ", "<think>"])
        ).map("".join),
    )
    def test_any_reply_is_read_or_complained_about(self, item: Item, reply: str) -> None:
        reading = read(item, reply)
        if isinstance(reading, judging.Complaint):
            assert len(reading.why) < 100
            assert reading.why.endswith(".")
        else:
            score = scored(item, reply)
            assert score.value is not None
            assert 0 <= score.value <= 1


class TestScores:
    @pytest.mark.parametrize(
        ("told", "value", "outcome"), [("0", 0, "wrong"), ("0.5", 0.5, "partial"), ("1.0", 1, "correct")]
    )
    def test_the_judges_score_is_the_score(self, told: str, value: float, outcome: Outcome) -> None:
        score = scored(question(), f"<result>{told}</result>")
        assert (score.value, score.outcome) == (value, outcome)
        assert score.why == f"the judge gives {value:g}; the reference is red"

    @pytest.mark.parametrize(
        ("response", "outcome"),
        [
            ("I'm sorry, but I can't assist with that.", "refused"),
            ("This cannot be determined from the image.", "abstained"),
            ("blue", "wrong"),
        ],
    )
    def test_what_earns_nothing_is_told_apart(self, response: str, outcome: Outcome) -> None:
        score = scored(question(), "<result>0</result>", response=response)
        assert (score.value, score.outcome) == (0, outcome)
        assert score.why.startswith("the judge gives 0; the reference is red")
        assert scored(question(), "<result>1</result>", response=response).outcome == "correct", "the judge decides"

    @pytest.mark.parametrize(
        ("gap", "a", "b", "letters"),
        [
            (3, 7, 4, "A"),
            (3, 7, 4.5, ""),
            (3, 7.3, 4.3, "A"),
            (3, 1, 10, "B"),
            (3, 5, 5, ""),
            (2, 7, 5, "A"),
            (0, 5, 5, ""),
            (0, 5, 5.5, "B"),
            (9, 10, 1, "A"),
            (9, 10, 2, ""),
        ],
    )
    def test_the_closest_option_must_lead_by_the_gap(self, gap: float, a: float, b: float, letters: str) -> None:
        score = scored(PAIR, f"A: {a}\nB: {b}", judging.Settings(gap=gap))
        assert score.extracted == tuple(letters)
        assert score.outcome == {"A": "correct", "B": "wrong", "": "unparsed"}[letters]
        assert score.value == (letters == "A")

    def test_whole_numbers_choose_as_in_the_owners_code(self) -> None:
        """`check_answer` of their utils/answering.py, with its default threshold and that of the paper's Table 8."""
        found = asked(PAIR)
        for gap, a, b in product((3, 2), range(1, 11), range(1, 11)):
            chosen = "A" if a >= b + gap else "B" if b >= a + gap else "-"
            reading = judging.JudgeReading(closeness={"A": a, "B": b})
            score = judging.score(found, PAIR, [reading], judging.Settings(gap=gap))
            assert "".join(score.extracted or "-") == chosen
            assert score.value == (chosen == "A")

    def test_why_says_what_the_judge_said(self) -> None:
        assert scored(PAIR, "A: 9\nB: 2").why == "closeness A 9, B 2: A (a cyst)"
        assert scored(PAIR, "A: 2\nB: 9").why == "closeness A 2, B 9: B (an abscess); correct is A (a cyst)"
        assert scored(PAIR, "A: 5\nB: 4").why == "no option leads by 3: closeness A 5, B 4"
        assert scored(CHOICE, "A").why == "the judge read it: A (a cyst)"
        assert scored(CHOICE, "Z").why == "the judge found no option in it; by rule: no option is named"

    @pytest.mark.parametrize(
        ("response", "outcome"), [("I can't help with that.", "refused"), ("I don't know.", "abstained")]
    )
    def test_free_form_answers_that_decline_are_told_apart(self, response: str, outcome: Outcome) -> None:
        assert scored(PAIR, "A: 1\nB: 1", response=response).outcome == outcome
        assert scored(PAIR, "A: 9\nB: 1", response=response).outcome == "correct"

    def test_read_options_are_worth_what_the_benchmark_says(self) -> None:
        assert scored(CHOICE, "B") == Score(
            0.0, "wrong", ("B",), "the judge read it: B (an abscess); correct is A (a cyst)"
        )
        assert scored(CHOICE, "Z") == Score(0.0, "unparsed", (), scored(CHOICE, "Z").why)
        values = {reply: scored(SEVERAL, reply).value for reply in ("AB", "A", "ABC", "C", "Z")}
        assert values == {"AB": 1.0, "A": 0.5, "ABC": 0.0, "C": 0.0, "Z": 0.0}
        found = case(SEVERAL, benchmark=GMAI)
        assert found is not None
        precision = judging.score(found, SEVERAL, [judging.JudgeReading(letters=("A", "B", "C"))], EXTRACT)
        assert (precision.value, precision.outcome) == (2 / 3, "partial"), "GMAI-MMBench's rule, not MedLesionVQA's"


class TestRulesFirst:
    @pytest.mark.parametrize(
        ("kind", "reference", "response", "value"),
        [
            ("judgment", "no", "No.", 1),
            ("judgment", "no", "**no**", 1),
            ("judgment", "no", "false", 1),
            ("judgment", "no", "Yes", 0),
            ("judgment", "yes", "not correct", 0),
            ("judgment", "是", "是的。", 1),
            ("judgment", "是", "否", 0),
            ("judgment", "no", "abnormal", None),
            ("judgment", "no", "none", None),
            ("judgment", "no", "nodule", None),
            ("judgment", "no", "No, it is not", None),
            ("judgment", "no", "no?", None),
            ("judgment", "no", "yes/no", None),
            ("judgment", "normal", "abnormal", None),
            ("judgment", "normal", "Normal", 1),
            ("judgment", "right", "yes", None),
            ("judgment", "yes", "right", None),
            ("judgment", "right", "right", 1),
            ("fill_in_the_blank", "dark red", "Dark red.", 1),
            ("fill_in_the_blank", "dark red", "the dark-red", 1),
            ("fill_in_the_blank", "dark red", "red", None),
            ("fill_in_the_blank", "dark red", "not dark red", None),
            ("fill_in_the_blank", "no", "yes", None),
            ("fill_in_the_blank", "1.5", "1.5", 1),
            ("fill_in_the_blank", "1.5", "1-5", None),
            ("fill_in_the_blank", "1.5", "1 5", None),
            ("fill_in_the_blank", "1.5 cm", "15 cm", None),
            ("fill_in_the_blank", "5*1.5", "5 * 1.5", None),
            ("fill_in_the_blank", "102", "10²", None),
            ("fill_in_the_blank", "-3", "3", None),
            ("fill_in_the_blank", "5 cm", "~5 cm", None),
            ("fill_in_the_blank", "5 cm", "5cm", None),
            ("fill_in_the_blank", "> 5 mm", ">5 mm", 1),
            ("fill_in_the_blank", "< 5 mm", "> 5 mm", None),
            ("fill_in_the_blank", "red", "<think>blue?</think>Red", 1),
            ("fill_in_the_blank", "red", "red\u202e", 1),
            ("fill_in_the_blank", "red", f"red{chr(0xE0041)}", None),
            ("short_answer", "red", "red", None),
        ],
    )
    def test_a_rule_decides_what_it_is_certain_of(
        self, kind: Kind, reference: str, response: str, value: float | None
    ) -> None:
        item = question(kind, reference)
        found = case(item, response, settings=FIRST)
        assert found is not None
        if value is None:
            assert len(found.prompts) == 1
        else:
            assert found.prompts == ()
            score = judging.score(found, item, [], FIRST)
            assert (score.value, score.outcome) == (value, "correct" if value else "wrong")
            assert score.why.endswith("by rule" if value else f"correct is {reference}")
        assert len(asked(item, response, SETTINGS).prompts) == 1, "off by default: the paper judges all"

    def test_any_of_several_references(self) -> None:
        item = question("fill_in_the_blank", "crust", "scab")
        assert decide(item, "Scab") == Score(1.0, "correct", ("scab",), "said Scab, by rule")
        assert decide(question("judgment", "yes", "no"), "true") is None, "both are right, or the key is odd"

    @given(st.sampled_from(["judgment", "fill_in_the_blank"]), st.text(), st.text())
    def test_what_is_certain_does_not_depend_on_who_says_it(self, kind: Kind, one: str, other: str) -> None:
        there, back = decide(question(kind, one), other), decide(question(kind, other), one)
        if "<" not in one + other:  # reasoning is dropped from responses alone
            assert (there and there.value) == (back and back.value)

    @given(
        st.lists(
            st.sampled_from(["no", "abnormal", "normal", "not", "red", "nodule", "yes", "none"]), min_size=1, max_size=4
        )
    )
    def test_words_are_whole(self, words: list[str]) -> None:
        score = decide(question("judgment", "no"), " ".join(words))
        assert (score is not None) == (words in (["no"], ["yes"]))


def judged(
    owner: Benchmark, item: Item, technique: Technique, response: str, judge: Callable[[str], str] = judges.reply
) -> Result:
    """A result as a run has it: scored by rule, then by a judge where there is a case."""
    answer = Answer(response)
    score = unscored(item, answer) if technique == "ff" else owner.score(item, answer)
    found = judging.case_of(owner, item, technique, answer, score, SETTINGS)
    if found is None:
        return Result("run", item, "", answer, score, technique)
    replies = [judge(prompt.text) for prompt in found.prompts]
    readings = [judging.read(found, index, reply) for index, reply in enumerate(replies)]
    assert all(isinstance(reading, judging.JudgeReading) for reading in readings), replies
    score = judging.score(found, item, [each for each in readings if isinstance(each, judging.JudgeReading)], SETTINGS)
    judgement = Judgement("script", found.template, found.task, tuple(replies)) if replies else None
    return Result("run", item, "", answer, score, technique, judgement)


def measured(results: Sequence[Result], owner: Benchmark, chosen: Sequence[Metric] | None = None) -> list[Measure]:
    return metrics.measures(
        results, chosen or owner.metrics, owner.dimensions, benchmark=owner.name, signature={}, score=owner.score
    )


class TestMeasures:
    def response(self, item: Item) -> str:
        """By hand for some references, the key for the others, and A for every choice."""
        if item.options:
            return "A"
        (reference,) = item.answers
        if reference == "nevus":
            return "vitiligo" if "disease_diagnosis" in item.tags["ability"] else "a mole"
        return SAID.get(reference, reference)

    @pytest.mark.parametrize("judge", [judges.reply, judges.obedient, judges.quoting])
    def test_phantoms_lesions_by_hand(self, judge: Callable[[str], str]) -> None:
        owner = phantom.BENCHMARKS[2]
        results = [judged(owner, item, "mc", self.response(item), judge) for item in benchmarks.load(owner, Path())]
        found = {(m.name, *m.slice.values()): m for m in measured(results, owner)}
        assert (found["open_score",].count, found["open_score",].n) == (2 + 1.5 + 3 + 5 + 36, 56)
        # Keys are A in 2 of 6 diseases, mechanisms and treatments, in 1 of 4 shapes, distributions and places, and one
        # of two in 3 of 6 lesions.
        assert (found["choice_score",].count, found["choice_score",].n) == (2 + 2 + 2 + 1 + 1 + 1 + 1.5, 36)
        assert (found["mean_score",].count, found["mean_score",].n) == (58, 92)
        abilities = {
            "lesion_recognition": Fraction(25, 2 * 18),
            "location_recognition": Fraction(5, 8),
            "attribute_recognition": Fraction(27, 2 * 24),
            "spatial_relation": Fraction(1),
            "lesion_reasoning": Fraction(6, 10),
            "disease_diagnosis": Fraction(5, 12),
            "suggestion_treatment": Fraction(8, 12),
        }
        for ability, value in abilities.items():
            assert found["mean_score", ability].value == pytest.approx(float(value))
        assert found["macro_score",].value == pytest.approx(float(sum(abilities.values()) / 7))
        assert found["open_score", "color"].value == 0.5
        assert found["open_score", "size"].value == 1.5 / 4
        assert found["mean_score", "text_only"].value == 1
        assert found["abstained_rate",].count == 1
        assert found["unparsed_rate",].count == 2, "two say nothing: no judge was asked about them"
        assert sum(result.judgement is not None for result in results) == 54

    def test_pairs_in_free_form_by_hand(self) -> None:
        owner = phantom.BENCHMARKS[1]
        items = {item.id: item for item in benchmarks.load(owner, Path())}
        pairs = sorted({item.pair_id or "" for item in items.values()})[:3]
        results = []
        for pair, plan in zip(pairs, (("right", "right"), ("right", "same"), ("right", "nothing")), strict=True):
            first, second = items[f"{pair}/1"], items[f"{pair}/2"]
            texts = {
                "right": first.options[first.answers[0]],
                "same": first.options[first.answers[0]],
                "nothing": "some tissue",
            }
            results.append(judged(owner, first, "ff", f"I see: {texts[plan[0]]}!"))
            other = second.options[second.answers[0]] if plan[1] == "right" else texts[plan[1]]
            results.append(judged(owner, second, "ff", other))
        found = {m.name: m for m in measured(results, owner) if not m.slice}
        assert (found["set_accuracy"].count, found["set_accuracy"].n) == (1, 3)
        assert (found["individual_accuracy"].count, found["individual_accuracy"].n) == (4, 6)
        assert (found["confusion"].count, found["confusion"].n) == (1, 2), "of the pairs with two valid answers"
        assert (found["invalid_rate"].count, found["invalid_rate"].n) == (1, 6)
        assert found["set_accuracy"].references == {"random": 0.25, "majority": pytest.approx(0), "image_blind": 0}

    def test_open_answers_that_a_judge_scored_have_no_reference_lines(self) -> None:
        owner = phantom.BENCHMARKS[2]
        items = benchmarks.load(owner, Path())
        by_rule = [Result("run", item, "", Answer("no"), owner.score(item, Answer("no"))) for item in items]
        by_judge = [judged(owner, item, "mc", "no") for item in items]
        chosen = (metrics.mean_score, metrics.open_score, metrics.choice_score)
        lines = [
            {m.name: set(m.references) for m in measured(results, owner, chosen) if not m.slice}
            for results in (by_rule, by_judge)
        ]
        assert lines[0] == {
            "mean_score": {"majority"},
            "open_score": {"majority"},
            "choice_score": {"random", "majority"},
        }
        assert lines[1] == {"mean_score": set(), "open_score": set(), "choice_score": {"random", "majority"}}

    def test_without_a_judge_there_is_no_open_score(self) -> None:
        results = [Result("run", question(), "", Answer(""), LESIONS.score(question(), Answer("")))]
        found = {m.name: m for m in measured(results, LESIONS) if not m.slice}
        assert (found["open_score"].value, found["open_score"].n) == (None, 0)
        assert "choice_score" not in found


def test_a_strangers_benchmark_is_judged_where_it_says_so() -> None:
    slake = Benchmark(
        name="slake",
        items=lambda data: [],
        prompt=lambda item, technique: Prompt(item.question),
        score=lambda item, answer: score_single_choice(item, answer) if item.options else unscored(item, answer),
        metrics=(metrics.open_score,),
        judged=frozenset({"short_answer"}),
    )
    item = Item("1", "slake", "short_answer", "Which organ?", answers=("liver",))
    found = judging.case_of(slake, item, "mc", Answer("the hepar"), unscored(item, Answer("")), SETTINGS)
    assert found is not None
    assert "the hepar" in found.prompts[0].text
