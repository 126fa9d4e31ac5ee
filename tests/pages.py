"""Run folders for the tests of the page, and a reader of it."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

from medvqa import benchmarks, engine, metrics, records
from medvqa.benchmarks import phantom
from medvqa.items import Answer, Benchmark, Image, Item, Judgement, Prompt, Result, Score
from medvqa.report.html import pack

PHANTOM = {benchmark.name: benchmark for benchmark in phantom.BENCHMARKS}
ABOUT = {
    "name": "first",
    "started": "2026-01-02T03:04:05+00:00",
    "finished": "2026-01-02T03:06:05+00:00",
    "model": {"name": "guesser", "fingerprint": "abc123"},
    "options": {"model": "guesser"},
    "usage": {"input": 12345.0, "cost": 1.25},
    "techniques": ["mc"],
}
HOSTILE = (
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 1</script>",
    "<!--<script>",
    '"><img src=x onerror="window.pwned = 1">',
    "' onmouseover='window.pwned = 1' x='",
    "[click](javascript:window.pwned=1) ![x](https://example.org/x.png)",
    "javascript:window.pwned=1",
    "{{ 7 * 7 }}{% raw %}",
    "${window.pwned = 1}",
    "\u202egpj.exe\u2066\u200f",
    "\x00\x1b[31m",
    "=1+1",
    "@SUM(A1)",
    "+1",
    "-1",
    "__proto__",
    "https://example.org/?a=1&b=2#c",
)
VOID = {"meta", "link", "img", "br", "hr", "input", "line", "circle", "rect", "path", "use"}


def guesses() -> list[Result]:
    """The phantom answered by a guesser that is right half of the time, with probabilities of the options."""
    draw = random.Random(1)
    made = []
    for benchmark in PHANTOM.values():
        for item in benchmarks.load(benchmark, Path()):
            text = (
                item.answers[0] if draw.random() < 0.5 else draw.choice([*(item.options or ("no",)), "I cannot say."])
            )
            logprobs = {letter: -draw.random() * 3 for letter in item.options} or None
            answer = Answer(text, logprobs, seconds=draw.random(), usage={"input": 10, "output": 2})
            asked = Prompt("?", item=item.id)
            made.append(engine.result(item, asked, answer, benchmark=benchmark, run="first"))
    return made


def twice() -> list[Result]:
    """The guesses, and by likelihood of the options whatever is the opposite."""
    by_words = guesses()
    again = []
    for result in by_words:
        if result.item.kind == "single_choice":
            outcome = "wrong" if result.score.outcome == "correct" else "correct"
            score = Score(float(outcome == "correct"), outcome, ("A",), "the likeliest")
            again.append(replace(result, technique="ps", answer=replace(result.answer, text=""), score=score))
    return by_words + again


def judged(texts: tuple[str, ...] = ()) -> list[Result]:
    """The guesses, of which open answers were scored by a judge, the first at its second try."""
    made = guesses()
    places = [i for i, result in enumerate(made) if not result.item.options]
    for place in places:
        replies = ('{"score": 4, "why": "It names the finding."}',)
        if place == places[0]:
            replies = ("I would say four out of five.", *replies)
        said = Judgement(
            "referee", "judging/score@1f2e3d4c", "score", texts or replies, 1.25, {"input": 310, "output": 24}
        )
        score = Score(0.8, "partial", made[place].score.extracted, "score 4 of 5")
        made[place] = replace(made[place], judgement=said, score=score)
    return made


def write(folder: Path, results: list[Result], **about: object) -> Path:
    """A run folder."""
    recorder = records.Recorder(folder)
    for each in results:
        recorder.append(records.encode(each))
    recorder.close()
    records.write_json(folder / "run.json", {**ABOUT, "name": folder.name, **about})
    return folder


def hostile(texts: tuple[str, ...] = HOSTILE) -> tuple[Benchmark, list[Result]]:
    """A benchmark and its results in which every text of data and model is one of `texts`."""

    def scored(item: Item, answer: Answer) -> Score:
        raise NotImplementedError

    benchmark = Benchmark(
        name="strange",
        title=texts[0],
        items=lambda data: [],
        prompt=lambda item, technique: Prompt(item.question),
        score=scored,
        metrics=(metrics.accuracy, *metrics.rates),
        dimensions=(texts[3], "modality"),
    )
    made = []
    for n, text in enumerate(texts):
        tags = {texts[3]: (text,), "modality": (text, "ct"), texts[-1]: (texts[0],), "toString": ("x",)}
        item = Item(
            text,
            "strange",
            "single_choice",
            text,
            {"A": text, text: "B"},
            ("A",),
            (Image(text),),
            tags,
            pair_id=str(n // 2),
        )
        right = n % 2 == 0
        answer = Answer(text, {"A": -1.0, text: -2.0}, seconds=0.5, finish=text, usage={text: 1.0})
        outcome = "correct" if right else "wrong"
        made.append(Result("run", item, "0" * 64, answer, Score(float(right), outcome, (text,), text)))
    return benchmark, made


def harmless(results: list[Result]) -> list[Result]:
    """The same with the error of one, so that notes quote it."""
    return [*results[:-1], replace(results[-1], answer=None, score=Score(None, "error", (), results[-1].score.why))]


@dataclass
class Element:
    """A start tag, and the text until the next tag."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """What stands in a page: elements in their order, and the policy."""

    content: str
    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(self.content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = Counter(name for name, _ in attrs)
        assert max(names.values(), default=1) == 1, f"an attribute stands twice in <{tag}>: {attrs}"
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open.pop() == tag, f"</{tag}> closes nothing"
        self.elements.append(Element("/" + tag, {}))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == self.elements[-1].tag:
            self.elements[-1].text += data
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements of a name that have these attributes ("" for any value; data_x for data-x)."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            each
            for each in self.elements
            if each.tag == tag
            and all(
                name in each.attributes and each.attributes[name] in (value or each.attributes[name], value)
                for name, value in wanted.items()
            )
        ]

    @property
    def data(self) -> dict:
        """What the script reads."""
        (block,) = self.all("script", id="data")
        return pack.stretch(block.text)

    @property
    def text(self) -> str:
        """All text that is shown without the script."""
        return " ".join(" ".join(self.words).split())
