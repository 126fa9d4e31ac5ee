"""Answers that were cut off, walks through the options, and the held-back responses."""

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from medvqa.items import Answer, Item
from medvqa.scoring import (
    read_options,
    read_term,
    rules,
    score_closed_vocabulary,
    score_multiple_choice,
    score_single_choice,
)

CHEST = {"A": "pneumonia", "B": "pleural effusion", "C": "pneumothorax", "D": "normal"}
SKIN = {"A": "papule", "B": "plaque", "C": "scale", "D": "crust"}

TEXTS = {
    "A": ("would show consolidation, which is absent here", "typically appears as an airspace opacity"),
    "B": ("the costophrenic angles are sharp, so this is unlikely", "would show a meniscus"),
    "C": ("a visceral pleural line is visible at the right apex", "would show absent lung markings, as seen here"),
    "D": ("not the case, given the above", "would have no such line"),
}
ANNOUNCED = {
    "dash": "Let's analyze each option:\n\n{A0} - {a}.\n\n{B0} - {b}.\n\n{C0} - {c}.\n\n{D0} - {d}.\n\nThe "
    "correct answer is C.",
    "bold": "To determine the answer, let's evaluate the options.\n\n**{A0}**: {a}.\n**{B0}**: {b}.\n**{C0}**: {c}.\n"
    "**{D0}**: {d}.\n\n**Answer: C**",
    "numbered": "Let's go through the choices one by one:\n\n1. **{A0}** - {a}.\n2. **{B0}** - {b}.\n3. "
    "**{C0}** - {c}.\n"
    "4. **{D0}** - {d}.\n\nTherefore, the correct answer is **C. pneumothorax**.",
    "bullets": "Here's a breakdown of the options:\n\n*   **Pneumonia:** {a}.\n*   **Pleural effusion:** {b}.\n"
    "*   **Pneumothorax:** {c}.\n*   **Normal:** {d}.\n\nTherefore, the answer is C.",
    "brackets": "I will consider each option in turn.\n(A) Pneumonia: {a}.\n(B) Pleural effusion: {b}.\n"
    "(C) Pneumothorax: {c}.\n(D) Normal: {d}.\nFinal answer: C",
    "options": "Let's look at the options.\nOption A: Pneumonia. {a}.\nOption B: Pleural effusion. {b}.\n"
    "Option C: Pneumothorax. {c}.\nOption D: Normal. {d}.\nSo the answer is C.",
    "headings": "## Analysis of the options\n\n### {A0}\n{a}.\n\n### {B0}\n{b}.\n\n### {C0}\n{c}.\n\n### {D0}\n{d}.\n\n"
    "## Conclusion\nThe answer is **C**.",
    "letters": "Going through the options:\nA: {a}.\nB: {b}.\nC: {c}.\nD: {d}.\n\nAnswer: C",
    "prose": "Let me consider each possibility. Pneumonia {a}. Pleural effusion: {b}. Pneumothorax: {c}. Normal: {d}. "
    "The best answer is C.",
    "table": "Evaluation of the options:\n\n| Option | Comment |\n|---|---|\n| {A0} | {a} |\n| {B0} | {b} |\n"
    "| {C0} | {c} |\n| {D0} | {d} |\n\nThe answer is C.",
    "question first": "The question asks what the radiograph shows. Let's rule out the options:\n\nA) "
    "pneumonia: {a}\n\n"
    "B) pleural effusion: {b}\n\nC) pneumothorax: {c}\n\nD) normal: {d}\n\nThe answer is (C).",
    "german": "Gehen wir die Optionen der Reihe nach durch:\n\nA. Pneumonia - hier würde man eine Verschattung "
    "sehen.\n\n"
    "B. Pleural effusion - die Winkel sind frei.\n\nC. Pneumothorax - eine Pleuralinie ist sichtbar.\n\nDie "
    "richtige Antwort ist C.",
    "chinese": "让我们逐一分析选项：\n\nA. pneumonia - 通常表现为实变。\n\nB. pleural effusion - 肋膈角锐利。\n\n"
    "C. pneumothorax - 可见胸膜线。\n\n因此，正确答案是C。",
    "spanish": "Analicemos cada opción:\n\nA. pneumonia - se vería una consolidación.\n\nB. pleural effusion - "
    "los ángulos "
    "están libres.\n\nC. pneumothorax - se ve la línea pleural.\n\nLa respuesta correcta es C.",
    "french": "Analysons chaque option :\n\nA. pneumonia : on verrait une condensation.\n\nB. pleural effusion "
    ": les culs-de-sac "
    "sont libres.\n\nC. pneumothorax : on voit la ligne pleurale.\n\nLa bonne réponse est C.",
}
BARE = {
    "bare dash": "{A0} - {a}.\n{B0} - {b}.\n{C0} - {c}.\n{D0} - {d}.\nThe answer is C.",
    "bare colon": "{A0}: {a}.\n{B0}: {b}.\n{C0}: {c}.\n{D0}: {d}.\nAnswer: C",
    "bare text": "Pneumonia {a}. Pleural effusion: {b}. Pneumothorax: {c}. Normal: {d}. So the answer is C.",
    "elimination": "A is not likely, because this {a}. B is possible, but {b}. C is plausible: {c}. D: {d}. The "
    "answer is C.",
    "description": "The radiograph shows pneumonia-like opacities. The pleural effusion that one would expect "
    "is absent. The image "
    "shows pneumothorax. It is not normal. The correct answer is C.",
}


def filled(walk: str, way: int) -> str:
    labels = {f"{letter}0": f"{letter}. {text}" for letter, text in CHEST.items()}
    return walk.format(**labels, **{letter.lower(): texts[way] for letter, texts in TEXTS.items()})


WALKS = [
    pytest.param(filled(walk, way), finish, id=f"{name}, {finish}")
    for way, finish, walks in ((0, "length", ANNOUNCED | BARE), (1, "stop", ANNOUNCED))
    for name, walk in walks.items()
]


def single(response: str, finish: str) -> str:
    item = Item("1", "example", "single_choice", "What is shown?", CHEST, ("C",))
    return score_single_choice(item, Answer(response, finish=finish)).outcome


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("walk", "finish"), WALKS)
def test_a_walk_through_the_options_is_never_read_as_a_wrong_letter_wherever_it_ends(
    walk: str, finish: str, step: int
) -> None:
    cuts = list(range(0, len(walk) + 1, step))
    if finish == "stop":  # "A", where the model stopped, is the answer A and not the beginning of "Answer"
        cuts = [cut for cut in cuts if not (walk[cut - 1 : cut].isalnum() and walk[cut : cut + 1].isalnum())]
    wrong = [walk[:cut] for cut in cuts if single(walk[:cut], finish) == "wrong"]
    assert not wrong, (len(wrong), wrong[0])
    assert single(walk, "stop") == "correct"


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ("The answer is C", "correct"),
        ("The answer is C. The image", "correct"),
        ("Final answer: C.", "correct"),
        ("<answer>C</answer>", "correct"),
        ("C\n\nExplanation: there is a", "correct"),
        ("C. pneumothorax\n\nExplanation: there is a", "correct"),
        ("C. pneumothorax\nQuestion: Is the heart", "correct"),
        ("C", "unparsed"),
        ("(C)", "unparsed"),
        ("C. pneumothorax", "unparsed"),
        ("The image shows a pneumothorax", "unparsed"),
        ("It looks like C, but", "unparsed"),
        ("A: no, B: no, C: yes", "unparsed"),
        ("The answer is A or", "unparsed"),
        ("The answer is not", "unparsed"),
        ("I'm sorry, but I can't help with", "refused"),
    ],
)
def test_of_an_answer_that_was_cut_off_only_an_explicit_statement_counts(response: str, outcome: str) -> None:
    assert single(response, "length") == outcome


def test_the_reason_says_that_the_answer_was_cut_off() -> None:
    reading = read_options("A. pneumonia - would", CHEST, finished=False)
    assert (reading.status, reading.letters) == ("unparsed", ())
    assert "cut off" in reading.why
    assert "cut off" not in read_options("Let's see.", CHEST).why


@pytest.mark.parametrize("response", ["The answer is P", "Answer: N", "The answer is A"])
def test_a_letter_where_the_answer_was_cut_off_may_be_the_beginning_of_an_option(response: str) -> None:
    """Tokens end within words: "P" may go on to "pneumothorax"."""
    options = {"A": "mass", "P": "pneumothorax", "N": "pneumonia", "X": "normal", "Y": "abscess", "Z": "plaque"}
    assert read_options(response, options, finished=False).status == "unparsed"
    assert read_options(f"{response}.", options, finished=False).status == "read"


@pytest.mark.parametrize(
    ("response", "outcome", "extracted"),
    [
        ("The correct answers are A and C. The lesion", "correct", ("A", "C")),
        ("Answer: A, C\n\nThe lesion", "correct", ("A", "C")),
        ("<answer>A, C</answer>", "correct", ("A", "C")),
        ("The correct answers are A and C", "unparsed", ()),
        ("Answer: A,", "unparsed", ()),
        ("A, C", "unparsed", ()),
        ("1. papule\n2. scale\n", "unparsed", ()),
        ("<answer>A, C", "unparsed", ()),
    ],
)
def test_a_list_that_was_cut_off_may_lack_options(response: str, outcome: str, extracted: tuple[str, ...]) -> None:
    item = Item("1", "example", "multiple_response", "Which?", SKIN, ("A", "C"))
    score = score_multiple_choice(item, Answer(response, finish="length"))
    assert (score.outcome, score.extracted) == (outcome, extracted)


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ("Yes, the border is regular and", "correct"),
        ("The answer is yes. The", "correct"),
        ("The border is regular", "unparsed"),
        ("Yes", "unparsed"),
        ("No", "unparsed"),
        ("The statement is", "unparsed"),
    ],
)
def test_terms_of_an_answer_that_was_cut_off(response: str, outcome: str) -> None:
    item = Item("2", "example", "judgment", "Is the border regular?", answers=("yes",))
    assert score_closed_vocabulary(item, Answer(response, finish="length"), {"yes": [], "no": []}).outcome == outcome


SESSION = {
    "conftest.py": """
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("chest/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "pneumonia", "B": "pleural effusion"}


class Walker(Backend):
    name = title = "walker"
    sends_to = None

    def generate(self, prompts):
        walk = "Let's analyze each option:\\n\\nA. pneumonia - would show"
        return [Answer(walk, finish=self.argument) for _ in prompts]


def pytest_medvqa_backends():
    return [Walker]


def pytest_medvqa_benchmarks():
    def items(data):
        return [Item(f"q{n}", "chest", "single_choice", "What?", OPTIONS, ("A",)) for n in range(4)]

    return [Benchmark(name="chest", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates))]
""",
    "test_chest.py": """
import pytest

@pytest.mark.vqa("chest")
def test_chest(item, evaluate):
    evaluate(item)
""",
}


@pytest.mark.parametrize("finish", ["length", "stop"])
def test_a_session_of_unfinished_walks_has_no_right_answers(pytester: pytest.Pytester, finish: str) -> None:
    """A is right in every question: a guess would be rewarded."""
    for name, text in SESSION.items():
        (pytester.path / name).write_text(text)
    pytester.runpytest_inprocess(f"--model=walker:{finish}", "--run=walks", "-p", "no:randomly")
    folder = pytester.path / "reports" / "walks"
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert [result["score"]["outcome"] for result in results] == ["unparsed"] * 4
    whys = {result["score"]["why"] for result in results}
    assert all(("cut off" in why) == (finish == "length") for why in whys), whys


@pytest.mark.slow
def test_no_held_back_response_is_read_otherwise_where_it_is_cut_off() -> None:
    wrong = []
    for line in (Path(__file__).parents[1] / "support/held_back.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "options" not in row or row["half"] == "misleading":
            continue
        for cut in range(1, len(row["response"])):
            response = row["response"][:cut]
            said = read_options(response, row["options"], multiple=row.get("multiple", False), finished=False)
            if said.letters and list(said.letters) != row["expected"]:
                wrong.append(response)
    # "The correct answer is E", of "E. coli", says no more than "The correct answer is E".
    assert {response.rstrip(". ") for response in wrong} <= {"The correct answer is E"}


def test_the_held_back_responses_are_read_as_expected() -> None:
    """docs/scoring.md quotes these numbers; `python bench/reading.py` prints them."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    total: Counter[str] = Counter()
    readings = sha256()
    for line in (Path(__file__).parents[1] / "support/held_back.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        finished = row["finish"] != "length"
        if "vocabulary" in row:
            said = read_term(row["response"], row["vocabulary"], finished=finished)
        else:
            multiple = row.get("multiple", False)
            said = read_options(row["response"], row["options"], multiple=multiple, finished=finished)
        meaning = list(said.letters) if said.status == "read" else said.status
        readings.update(f"{row['response']}\0{meaning}\0".encode("utf-8", "surrogatepass"))
        right[row["half"]] += meaning == row["expected"]
        wrong[row["half"]] += said.status == "read" and meaning != row["expected"]
        total[row["half"]] += 1
    assert total == {"development": 235, "held back": 208, "later": 480, "misleading": 425}
    assert wrong == {"development": 0, "held back": 0, "later": 0, "misleading": 0}, wrong
    assert right["development"] + right["held back"] + right["later"] >= 0.97 * (235 + 208 + 480), right
    assert right["misleading"] >= 359, right
    assert right["held back"] >= 0.97 * total["held back"], right
    # If only this fails, answers are read otherwise than in the last release: count EDITION up once before the next,
    # and write the new digest. New rows of the file change the digest alone.
    assert (rules.EDITION, readings.hexdigest()[:16]) == (3, "cda038018ac4a28e")
