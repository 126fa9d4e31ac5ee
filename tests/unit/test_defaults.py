"""Defaults of a benchmark of one's own, and what a stranger's items must be like."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import medvqa
from medvqa import benchmarks, metrics
from medvqa.benchmarks import own
from medvqa.items import Answer, Benchmark, DataError, Image, Item, Kind, UsageError, usual
from medvqa.session.registry import Registry

OPTIONS = {"A": "liver", "B": "spleen"}


def made(items: Callable[[Path], Iterable[object]], **fields: object) -> Benchmark:
    """A benchmark with its defaults."""
    return own.completed(Benchmark(name="mine", items=items, **fields))  # type: ignore[arg-type]


def test_a_name_and_items_are_enough(tmp_path: Path) -> None:
    def items(folder: Path) -> Iterable[Item]:
        yield Item("1", question="Which organ?", options=OPTIONS, answers=("A",), images=(Image("images/1.png"),))
        yield Item("2", question="Which organs?", options=OPTIONS, answers=("A", "B"))
        yield Item("3", question="Which organ?", answers=("liver",))

    benchmark = made(items)
    first, second, third = benchmarks.load(benchmark, tmp_path)
    assert [(item.benchmark, item.kind) for item in (first, second, third)] == [
        ("mine", "single_choice"),
        ("mine", "multiple_response"),
        ("mine", "short_answer"),
    ]
    assert first.images == (Image("images/1.png", f"{tmp_path}/images/1.png"),)
    assert benchmark.techniques == ("mc", "gd", "ps", "ff")
    assert benchmark.judged == {"short_answer", "fill_in_the_blank"}
    asked = {technique: own.prompts_of(benchmark)(first, technique) for technique in benchmark.techniques}
    options = "Which organ?\nA. liver\nB. spleen\nAnswer with the letter of the correct option only."
    assert asked["mc"].text == asked["gd"].text == options
    assert (asked["mc"].max_tokens, asked["gd"].max_tokens) == (512, None)
    assert (asked["ps"].text, asked["ff"].text) == (
        "Question: Which organ? Answer:",
        "Which organ?\nAnswer briefly.",
    )
    scored = [(first, "B"), (second, "A"), (second, "A, B"), (third, "liver")]
    assert [benchmark.score(item, Answer(text)).outcome for item, text in scored] == [
        "wrong",
        "partial",
        "correct",
        "unscored",
    ]


@pytest.mark.parametrize(("key", "said", "outcome"), [("yes", "Yes.", "correct"), ("false", "True", "wrong")])
def test_judgments_are_scored_by_rule(key: str, said: str, outcome: str) -> None:
    item = Item("1", "mine", "judgment", "Is it a liver?", answers=(key,))
    assert own.score(item, Answer(said)).outcome == outcome
    assert own.score(replace(item, answers=("malignant",)), Answer(said)).outcome == "unscored"


def test_a_benchmark_keeps_what_it_declares() -> None:
    declared = made(lambda _: (), metrics=(metrics.exact_match,), headline=("exact_match",), prompt="Hm. {question}")
    assert (declared.metrics, declared.headline) == ((metrics.exact_match,), ("exact_match",))
    shipped = benchmarks.pytest_medvqa_benchmarks()[0]
    assert own.completed(shipped) is shipped
    with pytest.raises(TypeError, match="completed"):
        usual()


def test_the_registry_fills_in_the_defaults() -> None:
    from types import ModuleType

    module = ModuleType("conftest")
    module.mine = Benchmark(name="mine", items=lambda _: ())  # type: ignore[attr-defined]
    known = Registry.of([module])
    assert known.benchmarks["mine"].metrics == own.METRICS
    given = Benchmark(name="given", items=lambda _: (), prompt="{question}")
    completed = known.with_objects(benchmarks=[given]).benchmarks["given"]
    item = Item("1", "given", "judgment", "Is it a liver?", answers=("yes",))
    assert completed.score(item, Answer("Yes.")).outcome == "correct"
    module.given = given  # type: ignore[attr-defined]
    assert "given" in Registry.of([module]).with_objects(benchmarks=[given]).benchmarks, "the same one, not another"


def test_a_prompt_of_ones_own_is_a_text() -> None:
    item = Item("1", "mine", "single_choice", "Which {organ}?", OPTIONS, ("A",))
    text = "{question}\n{options}\nAnswer with {{one}} letter."
    asked = own.prompts_of(made(lambda _: (), prompt=text))(item, "mc")
    assert asked.text == "Which {organ}?\nA. liver\nB. spleen\nAnswer with {one} letter."
    assert asked.template.startswith("mine/own@")
    other = own.prompts_of(made(lambda _: (), prompt=text + "!"))(item, "mc")
    assert other.template != asked.template
    shipped = {each.name: each for each in benchmarks.pytest_medvqa_benchmarks()}["mediconfusion"]
    changed = own.completed(replace(shipped, name="mediconfusion-mine", prompt=text))
    assert own.prompts_of(changed)(item, "mc").text == asked.text
    assert own.prompts_of(changed)(item, "mc").template.startswith("mediconfusion-mine/own@")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{Question}", "has the field {Question}. Its fields are {question} and {options}"),
        ("{question} {options!r}", "has the field {options!r}"),
        ("{question:>9}", "has the field {question:>9}"),
        ("{question.__class__}", "has the field {question.__class__}"),
        ('{question} as {"letter": "A"}', "a brace that stands for itself is written twice: {{ or }}"),
        ("{options}", "has no field {question}"),
        ("{question} {", "has a single {"),
    ],
)
def test_a_prompt_with_other_fields_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        made(lambda _: (), prompt=text)
    assert str(caught.value).startswith("benchmark 'mine': the prompt ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"id": "1"}, "it yielded a value of type dict; expected: items yields a medvqa.Item for each question"),
        (Item(1, question="Q?"), "mine, item 1: its id is 1; an id is a text"),  # type: ignore[arg-type]
        (Item("1", question="Q?", options=["x"]), "options a dict such as"),  # type: ignore[arg-type]
        (Item("1", "mine", "essay", "Q?"), "no kind 'essay'; there are: single_choice"),  # type: ignore[arg-type]
        (Item("1", question="Q?", answers="A"), "answers is 'A'; write answers=('A',)"),  # type: ignore[arg-type]
        (Item("1", question="Q?", images=("1.png",)), "write images=(medvqa.Image("),  # type: ignore[arg-type]
        (Item("1", question="Q?", options=OPTIONS, answers=("C",)), "answer 'C' is none of its options A, B"),
        (Item("1", question="Q?", images=(Image("../1.png"),)), "item 1: path '../1.png' leaves"),
    ],
)
def test_items_that_are_not_as_their_class_says_are_refused(item: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        benchmarks.load(made(lambda _: [item], public=True), tmp_path)
    assert message in str(caught.value)
    with pytest.raises(DataError) as caught:
        benchmarks.load(made(lambda _: [item]), tmp_path)
    told = str(caught.value)
    assert told.startswith(("mine, item number 1: ", "benchmark 'mine', items: "))
    assert not any(text in told for text in ("essay", "'A';", "'C' is", "1.png'"))


def test_lists_do_as_well_as_tuples(tmp_path: Path) -> None:
    item = Item("1", question="Q?", answers=["x"], images=[Image("1.png")])  # type: ignore[arg-type]
    [loaded] = benchmarks.load(made(lambda _: [item]), tmp_path)
    assert (loaded.answers, loaded.images) == (("x",), (Image("1.png", f"{tmp_path}/1.png"),))


def test_each_kind_has_a_default_prompt() -> None:
    kinds: tuple[Kind, ...] = medvqa.items.KINDS  # type: ignore[attr-defined]
    assert set(own.BY_KIND) == set(kinds)
