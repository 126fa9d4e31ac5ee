"""A small benchmark of text, a model and a judge whose words depend on the question alone; the kept runs ask these.

What they ask and say must never change; imports and forms of classes may.
"""

import hashlib
import os
import signal
import time
from pathlib import Path

import judges

from medvqa import Backend, metrics, scoring
from medvqa.items import CHOICE_KINDS, Answer, AnswerError, Benchmark, Item, OfficialRule, Owners
from medvqa.protocols.prompts import Template

ASK = Template("kept/mc", "{question}\n{options}", "{letter}. {text}\n")
ORGANS = {"A": "liver", "B": "spleen", "C": "kidney", "D": "lung"}
MODALITIES = ("ct", "mri", "ultrasound")
CALLS = os.open(Path(__file__).with_name("calls"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def items(data):
    for n in range(36):
        kind = "multiple_response" if n % 6 == 5 else "single_choice"
        key = ("ABCD"[n % 4], "ABCD"[(n + 1) % 4]) if kind == "multiple_response" else ("ABCD"[n % 4],)
        tags = {"modality": (MODALITIES[n % 3],), "organ": ("upper", "lower")[n % 2 : n % 2 + 1]}
        yield Item(
            f"k{n:02}", "kept", kind, f"Which organ is number {n}?", ORGANS, tuple(sorted(key)), tags=tags,
            cluster_id=f"c{n // 2}" if n < 12 else None,
        )  # fmt: skip


def first_letter(item, answer):
    return scoring.score_single_choice(item, Answer(answer.text[:1]))


class Candidate(Backend):
    """Right in about half of all questions; else wrong, evasive, silent or cut off."""

    name = title = "candidate"
    sends_to = None
    batch_size = 4

    def fingerprint(self):
        return f"candidate {self.argument}"

    def fit(self, items):
        self._known = {(item.benchmark, item.id): item for item in items}

    def generate(self, prompts):
        os.write(CALLS, " ".join([str(os.getpid()), *(prompt.item for prompt in prompts), "\n"]).encode())
        if {prompt.item for prompt in prompts} & set(os.environ.get("KEPT_KILLS", "").split()):
            time.sleep(0.5)
            os.killpg(0, signal.SIGKILL)
        return [self._say(prompt) for prompt in prompts]

    def _say(self, prompt):
        item = self._known[prompt.benchmark, prompt.item]
        drawn = hashlib.sha256(
            f"{self.argument}/{item.benchmark}/{item.id}/{prompt.technique}/{prompt.sample}".encode()
        )
        number = drawn.digest()[0] % 20
        if number == 18:
            return AnswerError("the line was busy")
        usage = {"input": 100 + number, "output": number}
        finish = "length" if number == 19 else "stop"
        return Answer(self._words(item, number, prompt.technique), seconds=number / 8, finish=finish, usage=usage)

    def _words(self, item, number, technique):
        if number in EVASIONS:
            return EVASIONS[number]
        right = [letter for letter in item.options if (letter in item.answers) == (number < 10)]
        if item.kind not in CHOICE_KINDS:
            return item.answers[0] if number < 10 else ("yes", "It is red.", "2 cm", "a mole")[number % 4]
        if technique == "ff":
            return f"I see {item.options[right[0]]}."
        if item.kind == "multiple_response":
            return ", ".join(right)
        return (f"{right[0]}", f"The answer is {right[0]}.", f"{right[0]}. {item.options[right[0]]}")[number % 3]


EVASIONS = {
    14: "I cannot assist with that.",
    15: "It cannot be determined from this image.",
    16: "Hm \x1b[31m <b>",
    17: "",
    19: "Let us look at the picture in detail. First, the",
}


class Rubric(Backend):
    """A judge that follows the script of the project's tests."""

    name = title = "rubric"
    sends_to = None
    batch_size = 4

    def fingerprint(self):
        return "rubric"

    def generate(self, prompts):
        os.write(CALLS, " ".join([str(os.getpid()), *("judge" for _ in prompts), "\n"]).encode())
        return [Answer(judges.reply(prompt.text), seconds=0.25, usage={"input": 50, "output": 3}) for prompt in prompts]


def pytest_medvqa_backends():
    return [Candidate, Rubric]


def pytest_medvqa_benchmarks():
    return [
        Benchmark(
            name="kept",
            title="A benchmark of text",
            items=items,
            prompt=ASK.prompt,
            score=lambda item, answer: (
                scoring.score_partial_credit if item.kind == "multiple_response" else scoring.score_single_choice
            )(item, answer),
            owners=Owners(
                rule=OfficialRule(
                    score=first_letter, kinds=frozenset({"single_choice"}), note="The first letter is read."
                )
            ),
            metrics=(metrics.accuracy, metrics.exact_match, metrics.macro_accuracy("modality"), *metrics.rates),
            dimensions=("modality", "organ"),
            public=True,
        )
    ]
