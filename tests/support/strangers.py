"""A repository that has nothing to do with this one, as a text: a benchmark, a backend and a test of three lines."""

CONFTEST = '''
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, AnswerError, Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("slake/mc", "{question}\\n{options}", "{letter}. {text}\\n")
MODALITIES = ("ct", "mri", "fundus_photography", "oct")
OPTIONS = {"A": "liver", "B": "spleen", "C": "kidney"}


def slake(data):
    for n in range(24):
        tags = {"modality": (MODALITIES[n % 4],), "organ": ("liver",) if n % 3 else ("liver", "heart")}
        yield Item(f"q{n:02}", "slake", "single_choice", f"Question {n}?", OPTIONS, ("ABC"[n % 3],), (), tags,
                   pair_id=f"p{n // 2}")


class Majority(Backend):
    """The example of the design: always the same answer."""

    name = title = "stubborn"
    sends_to = None

    def generate(self, prompts):
        return [Answer(self.argument) for _ in prompts]


class Moody(Majority):
    """Refuses, abstains, mumbles, fails and breaks, depending on the question."""

    name = title = "moody"
    _SAYINGS = ("A", "I cannot assist with that.", "It cannot be determined from this image.", "Hm \\x1b[31m <b>", None)

    def generate(self, prompts):
        return [AnswerError("the line was busy") if said is None else Answer(said)
                for said in (self._SAYINGS[int(p.item[1:]) % 5] for p in prompts)]


class Broken(Majority):
    def generate(self, prompts):
        raise RuntimeError("out of paper")


class Blind(Majority):
    capabilities = frozenset({"option_logprobs"})


class Unmakable(Majority):
    def load(self):
        raise RuntimeError("no weights here")


def pytest_medvqa_backends():
    return [Majority, Moody, Broken, Blind, Unmakable]


def pytest_medvqa_benchmarks():
    return [Benchmark(name="slake", items=slake, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=("modality",), public=True)]
'''

TEST = """
import pytest

@pytest.mark.vqa("slake")
def test_slake(item, evaluate):
    evaluate(item)
"""


def asked_by(conftest: str, techniques: str) -> str:
    """The file with these techniques, written as in Python: '"mc", "gd"'."""
    names = "import Answer, AnswerError, Benchmark, Item"
    asked = conftest.replace("prompt=ASK.prompt", f"prompt=PromptFunction(ASK.prompt, ({techniques}))")
    return asked.replace(names, f"{names}, PromptFunction")
