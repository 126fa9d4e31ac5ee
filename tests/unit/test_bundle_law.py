"""The law of the format: what is written is read back as it was, by a reader that shares no code with the writer."""

import json
import struct
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import KINDS, OUTCOMES, TECHNIQUES, Answer, Image, Item, Result, Score
from medvqa.report.bundle import packing
from support import pages, written
from support.bundles import FORMATS, BundleReader
from support.laws import examples

NAMES = st.text(max_size=5) | st.sampled_from(["__proto__", "constructor", "kind", "prompt", "</script>"])
LETTERS = st.sampled_from("ABCDE")
SINGLE = st.floats(0, 1e6, width=32)
TAGS = st.dictionaries(
    NAMES.filter(lambda name: name != "kind"), st.lists(NAMES, unique=True, max_size=3).map(tuple), max_size=3
)
ITEMS = st.builds(
    Item,
    NAMES,
    st.just("strange"),
    st.sampled_from(KINDS),
    NAMES,
    st.dictionaries(LETTERS, NAMES, max_size=4),
    st.lists(LETTERS, max_size=2).map(tuple),
    st.lists(st.builds(Image, NAMES.filter(lambda name: "?" not in name)), max_size=2).map(tuple),
    TAGS,
    pair_id=st.none() | NAMES,
)
ANSWERS = st.builds(
    Answer,
    NAMES,
    seconds=st.none() | SINGLE,
    finish=st.none() | NAMES,
    usage=st.none() | st.dictionaries(NAMES, SINGLE, max_size=2),
)
SCORES = st.builds(
    Score, st.none() | st.floats(0, 1), st.sampled_from(OUTCOMES), st.lists(LETTERS, max_size=2).map(tuple), NAMES
)


@st.composite
def runs(draw: st.DrawFn) -> list[Result]:
    """Results with keys of their own; the results of one question have one item."""
    items = draw(st.lists(ITEMS, unique_by=lambda item: item.id, min_size=1, max_size=4))
    keys = draw(
        st.lists(
            st.tuples(
                st.sampled_from(range(len(items))),
                st.sampled_from(TECHNIQUES),
                st.sampled_from(["", "x", "r2"]),
                st.integers(0, 5),
            ),
            unique=True,
            max_size=6,
        )
    )
    return [
        Result(
            "r", items[place], "", draw(st.none() | ANSWERS), draw(SCORES), technique, variant=variant, sample=sample
        )
        for place, technique, variant, sample in keys
    ]


@given(runs())
@examples(300)
def test_a_bundle_is_read_as_it_was_written(results: list[Result]) -> None:
    benchmark, _ = pages.hostile()
    read = BundleReader(written.blocks_of(benchmark, results))
    assert len(read.columns["results.question"]) == len(read.answers) == len(results)
    for r, result in enumerate(results):
        own = {"prompt": [result.variant]} if result.variant == "x" else {}
        told = expected(result)
        assert read.row(r) == {**told, "tags": {**told["tags"], **own}}


def expected(result: Result) -> dict[str, Any]:
    """A result without empty lists of tags, its times in single precision."""
    told = written.expected(result)
    told["tags"] = {name: values for name, values in told["tags"].items() if values}
    told["row"]["key"]["sample"] = result.sample
    return told


def test_chunks_of_answers_end_where_the_head_says() -> None:
    benchmark, (first, *_) = pages.hostile()
    blocks = written.blocks_of(benchmark, [replace(first, sample=k) for k in range(packing.CHUNK + 1)])
    head = json.loads(blocks["head"])
    assert [len(json.loads(blocks[f"answers/{k}"])) for k in range(head["answers"])] == [head["chunk"], 1]
    last = head["columns"][-1]
    assert last["start"] + last["length"] * struct.calcsize(FORMATS[last["type"]]) == len(blocks["columns"])
