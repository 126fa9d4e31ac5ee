"""Several runs as one comparison: pairs, board, one set of questions, one family, and the units behind the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from medvqa import comparing, metrics
from medvqa.comparing import Compared, Side, Study
from medvqa.items import Answer, Benchmark, Image, Item, Prompt, Result, Score
from support.laws import examples


def score(item: Item, answer: Answer) -> Score:
    right = answer.text in item.answers
    return Score(float(right), "correct" if right else "wrong", (answer.text,))


SINGLE = Benchmark(
    name="single",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=score,
    metrics=(metrics.accuracy, metrics.macro_accuracy("organ"), metrics.invalid_rate),
    headline=("accuracy", "macro_accuracy", "invalid_rate"),
    dimensions=("organ",),
)
PAIRS = replace(
    SINGLE,
    name="pairs",
    metrics=(metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion),
    headline=("set_accuracy", "individual_accuracy", "confusion"),
)
KNOWN = {"single": SINGLE, "pairs": PAIRS}


def question(n: int, benchmark: str, part: int = 0) -> Item:
    """A question about its own image; with a `part`, one of the two of a pair."""
    tags = {"organ": (("lung", "heart", "liver")[n % 3],)}
    paired: dict[str, Any] = {"id": f"{n}/{part}", "pair_id": str(n), "answers": ("AB"[part - 1],)} if part else {}
    item = Item(f"q{n:03}", benchmark, "single_choice", f"Which? {n}", {"A": "a", "B": "b"}, ("A",), (), tags)
    return replace(item, images=(Image(f"{n}-{part}.png", digest=f"{n}-{part}"),), **paired)


def results(texts: Sequence[str], benchmark: str = "single") -> list[Result]:
    """An answer for each letter: E ends in error, `-` is not asked, other letters than A and B are unparsed."""
    items = [question(n, benchmark) for n in range(len(texts))]
    if benchmark == "pairs":
        items = [question(n // 2, benchmark, 1 + n % 2) for n in range(len(texts))]
    return [
        Result("run", item, "", None, Score(None, "error"))
        if text == "E"
        else Result(
            "run", item, "", Answer(text), score(item, Answer(text)) if text in "AB" else Score(0.0, "unparsed")
        )
        for item, text in zip(items, texts, strict=True)
        if text != "-"
    ]


def side(name: str, answers: Sequence[Result], *, model: str = "", **signature: str) -> Side:
    about = {"signature": {"data": "1", **signature}, "prompts": {"mc": "plain@1"}}
    run = {
        "model": {"name": model or name, "fingerprint": model or name},
        "benchmarks": dict.fromkeys({result.item.benchmark for result in answers}, about),
    }
    return Side(name, run, tuple(metrics.latest(answers)))


def derived(study: Study, new: int, baseline: int, compared: Compared) -> tuple[int, int]:
    """The flips of a measure from the values of its units, as the page derives them: better and worse."""
    key = compared.benchmark, compared.technique, compared.metric
    (scale,) = [each for each in study.scales if (each.benchmark, each.technique, each.metric) == key]
    change = scale.values[:, new] - scale.values[:, baseline]
    rose, fell = int((change > 0).sum()), int((change < 0).sum())
    return (rose, fell) if scale.better == "higher" else (fell, rose)


LETTERS = st.sampled_from("AAABBBE-x")


@examples(60)
@given(st.data())
def test_flips_that_the_page_derives_are_those_of_the_comparison(data: st.DataObject) -> None:
    """Runs that lack questions or scores, with a run off the board, by items and by pairs."""
    runs = data.draw(st.integers(2, 4))
    number = data.draw(st.sampled_from([6, 12]))

    def drawn(name: str, **about: str) -> Side:
        texts = [data.draw(st.lists(LETTERS, min_size=number, max_size=number)) for _ in KNOWN]
        answers = [result for text, kind in zip(texts, KNOWN, strict=True) for result in results(text, kind)]
        return side(name, [*answers, *results(["A"], "single")], **about)

    sides = [drawn(f"m{i}") for i in range(runs)]
    sides += [drawn("blank", model="m0", ablation="blank"), drawn("blank1", model="m1", ablation="blank")][
        : data.draw(st.integers(0, 2))
    ]
    study = comparing.study(sides, KNOWN)
    places = {each.name: place for place, each in enumerate(sides)}
    checked = [(v.paired.new.name, v.paired.baseline.name, m) for v in study.versus for m in v.paired.tables]
    checked += [(pair.new, pair.baseline, pair.compared) for ranking in study.rankings for pair in ranking.pairs]
    for new, baseline, measure in checked:
        if measure.headline and not measure.slice and not measure.metric.startswith("macro"):
            own = measure.comparison
            assert derived(study, places[new], places[baseline], measure) == (own.gained, own.lost), (new, baseline)
    keys = [{result.key.question for result in each.results} for each in study.aligned]
    assert all(set(unit) <= set().union(*keys) for scale in study.scales for unit in scale.units)
