"""Run folders for the tests of the page, and a reader of it."""

import base64
import hashlib
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from medvqa import benchmarks, comparing, metrics, scoring
from medvqa.benchmarks import phantom
from medvqa.comparing import gating
from medvqa.items import Answer, Benchmark, Image, Item, Judgement, Prompt, Query, Result, Score
from medvqa.protocols import prompts
from medvqa.records import run_folder, run_record
from medvqa.records.run_folder import Recorder
from medvqa.records.sent_prompts import PromptRecorder, line_of
from support.bundles import BundleReader

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
SUSPECT = "all models read it"
VOID = {"meta", "link", "img", "br", "hr", "input", "line", "circle", "rect", "path", "use"}


def guesses() -> list[Result]:
    """The phantom answered by a guesser that is right half of the time, with probabilities of the options."""
    return list(_guesses())


@cache
def _guesses() -> tuple[Result, ...]:
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
            made.append(
                scoring.result(
                    Query(item), asked, answer, benchmark=benchmark, run="first", digest=prompts.digest(asked)
                )
            )
    return tuple(made)


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


def changed(results: list[Result], seed: int, share: float, right: float = 0.7) -> list[Result]:
    """The same questions, of which another model answered a share anew, right as often as is said."""
    draw = random.Random(seed)
    made = []
    for result in results:
        if draw.random() < share:
            item = result.item
            wrong = draw.choice([*(item.options or ("no",)), "I cannot say."])
            answer = Answer(item.answers[0] if draw.random() < right else wrong, None, seconds=draw.random())
            benchmark = PHANTOM[item.benchmark]
            asked = Prompt("?", item=item.id)
            result = scoring.result(
                Query(item), asked, answer, benchmark=benchmark, run="second", digest=prompts.digest(asked)
            )
        made.append(result)
    return made


def repeated(results: list[Result], times: int) -> list[Result]:
    """The same questions asked several times, of which the last sample of each is another answer."""
    other = {(r.item.benchmark, r.item.id): r for r in changed(results, 5, 1.0, 0.2)}
    return [
        replace(other[r.item.benchmark, r.item.id] if sample == times else r, sample=sample)
        for r in results
        for sample in range(1, times + 1)
    ]


def several_runs(reports: Path, only: str = "") -> list[Path]:
    """Three runs that can be compared, the first of which is the baseline; `only` one benchmark of them."""
    first = [result for result in guesses() if only in result.item.benchmark]
    return [
        write(reports / "first", first),
        write(reports / "second", changed(first, 2, 0.4), model={"name": "other"}),
        write(reports / "third", changed(first, 3, 0.9), model={"name": "third"}),
    ]


def many_runs(reports: Path, number: int, only: str = "", **about: object) -> list[Path]:
    """Runs of models that are right ever less often; `only` one benchmark of them.

    All models read the same wrong option of three questions. From the third run on, one question of the last run has
    no score, and another one is missing.
    """
    first = _suspect([result for result in guesses() if only in result.item.benchmark])
    same = {result.key for result in first if result.score.why == SUSPECT}
    runs = [write(reports / "model-a", first, model={"name": "guesser"}, **about)]
    for seed in range(2, number + 1):
        other = {result.key: result for result in changed(first, seed, 0.8, 1 - 0.08 * seed)}
        results = [result if result.key in same else other[result.key] for result in first]
        if seed == number > 2:
            lost = replace(results[-1], answer=None, score=Score(None, "error", (), "no answer"))
            results = [*results[1:-1], lost]
        runs.append(write(reports / f"model-{chr(96 + seed)}", results, model={"name": f"guesser {seed}"}, **about))
    return runs


def committee(reports: Path) -> list[Path]:
    """Five models, and the first two of them without the images."""
    about = {
        "benchmarks": {name: {"items": 100, "signature": {"data": "0"}, "prompts": {"mc": "x@1"}} for name in PHANTOM},
        "finished": "2026-01-02T03:06:05+00:00",
    }
    runs = many_runs(reports, 5, **about)
    fields = {name: {**of, "signature": {"data": "0", "ablation": "blank"}} for name, of in about["benchmarks"].items()}
    without = {**about, "ablation": "blank", "benchmarks": fields}
    for letter, model, seed in (("a", "guesser", 21), ("b", "guesser 2", 22)):
        results = changed(guesses(), seed, 0.9, 0.1)
        runs.append(write(reports / f"model-{letter}-blank", results, model={"name": model}, **without))
    return runs


def _suspect(results: list[Result]) -> list[Result]:
    """The same results, three of them with a wrong option read."""
    made = list(results)
    for place in [i for i, result in enumerate(results) if result.item.kind == "single_choice"][2:5]:
        item = made[place].item
        letter = next(letter for letter in item.options if letter not in item.answers)
        score = Score(0.0, "wrong", (letter,), SUSPECT)
        made[place] = replace(made[place], answer=Answer(letter, None, seconds=1.0), score=score)
    return made


def ablated(reports: Path) -> tuple[Path, Path]:
    """A run, and the run of the same model without the images."""
    about = {
        "benchmarks": {name: {"items": 100, "signature": {"data": "0"}, "prompts": {"mc": "x@1"}} for name in PHANTOM},
        "finished": "2026-01-02T03:06:05+00:00",
    }
    shown = write(reports / "shown", changed(guesses(), 3, 0.9), **about)
    fields = {name: {**of, "signature": {"data": "0", "ablation": "blank"}} for name, of in about["benchmarks"].items()}
    return shown, write(reports / "blank", guesses(), **{**about, "ablation": "blank", "benchmarks": fields})


@dataclass(frozen=True)
class ComparedRuns:
    """The page of a comparison, its runs in their order, and the JSON of `medvqa compare`."""

    page: Path
    runs: Sequence[Path]
    said: Mapping[str, Any]


COMPARED: Mapping[str, Callable[[Path], Sequence[Path]]] = {
    "two runs": lambda reports: many_runs(reports, 2, "gmai"),
    "committee": committee,
    "five runs": lambda reports: many_runs(reports, 5, "gmai"),
    "ten runs": lambda reports: many_runs(reports, 10, "mediconfusion"),
    "blank run": lambda reports: tuple(reversed(ablated(reports))),
}
"""The runs of comparisons by their names."""


def gated(reports: Path) -> Path:
    """A run with the verdict of a gate whose rules pass, fail and decide nothing, and were changed afterwards."""
    about = {
        "benchmarks": {name: {"items": 100, "signature": {"data": "0"}, "prompts": {"mc": "x@1"}} for name in PHANTOM},
        "finished": "2026-01-02T03:06:05+00:00",
    }
    before = changed(guesses(), 3, 0.9)
    baseline = write(reports / "main", before, **about)
    run = write(reports / "change", changed(before, 4, 0.3, 0.0), **about)
    floors = (
        gating.Floor(benchmark="phantom-gmai-mmbench", measure="accuracy", at_least=0.9, point=True),
        gating.Floor(benchmark="phantom-medlesionvqa", measure="mean_score", at_least=0.2),
        gating.Floor(benchmark="phantom-mediconfusion", measure="set_accuracy", at_least=0.45),
    )
    rules = gating.Rules(baseline=(str(baseline),), margin=20, slices=("modality", "task"), floor=floors)
    known = PHANTOM
    gate = gating.prepare(rules, gating.load(rules, Path()), run_record.read_run(run), known)
    assert gate is not None
    gating.write(run, gating.decided(gate, run, comparing.load(run)))
    return run


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
    recorder = Recorder(folder)
    for each in results:
        recorder.append(run_folder.encode(each))
    recorder.close()
    run_folder.write_json(folder / "run.json", {**ABOUT, "name": folder.name, **about})
    return folder


def keep_prompts(folder: Path, results: Sequence[Result], prompts: Iterable[Prompt], *, public: bool = True) -> None:
    """Add the prompts of results to a run folder, as a session does."""
    recorder = PromptRecorder(folder)
    recorder.append(
        line_of(prompt, result.prompt, result.item, public=public, keeps_shots=public)
        for result, prompt in zip(results, prompts, strict=True)
    )
    recorder.close()


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


def marked(results: list[Result], *, right: bool) -> list[Result]:
    """The same questions and answers, all of them right or all wrong."""
    value, outcome = (1.0, "correct") if right else (0.0, "wrong")
    return [replace(result, score=replace(result.score, value=value, outcome=outcome)) for result in results]


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
    def blocks(self) -> dict[str, str]:
        """The blocks of the bundle by name, as they stand in the page: base64."""
        return {
            each.attributes["id"].removeprefix("block-"): each.text
            for each in self.all("script", type="application/octet-stream")
        }

    def bytes_of(self, name: str) -> bytes:
        """The content of a block; image files are not deflated."""
        content = base64.b64decode(self.blocks[name], validate=True)
        return content if name.startswith("images/") else zlib.decompress(content)

    def block(self, name: str) -> Any:
        """A block of JSON."""
        return json.loads(self.bytes_of(name))

    @property
    def told(self) -> str:
        """All that the page tells: the strings and numbers of its blocks, in their order, as readable text."""
        return " ".join(
            json.dumps(self.block(name), ensure_ascii=False).replace('\\"', '"')
            for name in self.blocks
            if name != "columns" and not name.startswith("images/")
        )

    @property
    def results(self) -> list[dict[str, Any]]:
        """Its results by `BundleReader.row`, each with its texts (`answered`) and, in a run, its terms of the score."""
        read = BundleReader({name: self.bytes_of(name) for name in self.blocks})
        names = ("numerator", "denominator", "prompt_numerator", "prompt_denominator")
        terms = [column for name in names if (column := f"results.{name}") in read.columns]
        return [
            {
                **(row := read.row(place)),
                **row["row"]["key"],
                "answered": read.answers[place],
                "terms": [read.columns[column][place] for column in terms],
            }
            for place in range(len(read.answers))
        ]

    @property
    def text(self) -> str:
        """All text that is shown without the script."""
        return " ".join(" ".join(self.words).split())


def check_frame(parsed: Page, *, folder: bool = False) -> None:
    """Check that only the app and its style may run, that blocks are base64, and that nothing leads out of the page."""
    (policy,) = [m.attributes["content"] for m in parsed.all("meta", http_equiv="Content-Security-Policy")]
    (style,) = parsed.all("style")
    (script,) = [each for each in parsed.all("script") if "type" not in each.attributes]
    assert script.attributes == {}
    assert {"head", "tables/words", "columns"} <= parsed.blocks.keys()
    for content in parsed.blocks.values():
        assert re.fullmatch(r"[A-Za-z0-9+/=]+", content)

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    beside = " file: 'self'" if folder else ""
    assert policy == (
        f"default-src 'none'; img-src data:{beside}; style-src {source(style.text)}; script-src {source(script.text)}; "
        "base-uri 'none'; form-action 'none'"
    )
    for each in parsed.elements:
        assert not [a for a in each.attributes if a.startswith("on") or a in ("style", "srcdoc", "formaction")]
        for link in (each.attributes.get(a, "") for a in ("href", "src", "xlink:href")):
            assert link == "" or link.startswith("#")
    assert "sourceMappingURL" not in script.text
