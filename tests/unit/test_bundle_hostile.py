"""Whatever a run folder holds, its page is the frame, the app, and blocks of base64; hostile text stays text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import report
from medvqa.records import run_folder
from medvqa.report import html
from medvqa.report.bundle import questions, texts
from medvqa.report.bundle.columns import TypedArray, read
from medvqa.report.html import page
from support import pages
from support.laws import examples

KNOWN = {"strange": pages.hostile()[0]}
NAMES = ("__proto__", "constructor", "hasOwnProperty", "toString", "valueOf", "</script><!--", "\u202e")


def drawn(folder: Path) -> pages.Page:
    return pages.Page(html.render(report.build(folder, KNOWN)).decode())


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> pages.Page:
    """The page of a run in which every text is hostile."""
    results = pages.harmless(pages.hostile()[1])
    return drawn(pages.write(tmp_path_factory.mktemp("strange") / "<script>\u202e", results, **about(pages.HOSTILE)))


def about(words: tuple[str, ...]) -> dict[str, Any]:
    return {
        "model": {"name": words[1], "revision": words[3], "checkpoint": words[3]},
        "options": {"model": words[4]},
        "benchmarks": {words[0]: {"items": 3, "prompts": {words[5]: words[2]}}},
        "techniques": [words[5]],
        "versions": {"python": words[0]},
    }


def strings(content: Any) -> Iterator[str]:
    """All strings of a block, names of fields among them."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield from content
        content = list(content.values())
    if isinstance(content, list):
        for each in content:
            yield from strings(each)


def test_hostile_text_makes_no_element_and_no_attribute(strange: pages.Page, tmp_path: Path) -> None:
    plain = tuple(f"text {n:02}" for n in range(len(pages.HOSTILE)))
    results = pages.harmless(pages.hostile(plain)[1])
    quiet = drawn(pages.write(tmp_path / "run", results, **about(plain)))

    def shape(parsed: pages.Page) -> list[tuple[str, list[str]]]:
        return [(each.tag, sorted(each.attributes)) for each in parsed.elements]

    assert shape(strange) == shape(quiet)
    assert strange.blocks.keys() == quiet.blocks.keys()


def test_nothing_but_the_app_and_its_style_may_run(strange: pages.Page) -> None:
    pages.check_frame(strange)


def test_the_script_stands_above_all_blocks_but_the_head_and_answers_come_last(strange: pages.Page) -> None:
    head, *others = strange.blocks
    assert head == "head"
    content = strange.content
    assert content.index('id="block-head"') < content.index("<script>") < content.index(f'id="block-{others[0]}"')
    answers = [name.startswith("answers/") for name in others]
    assert answers == sorted(answers)
    assert any(answers)


def test_controls_of_the_frame_are_named_not_obeyed(strange: pages.Page) -> None:
    assert "⟨U+202E⟩" in strange.text
    assert "\u202e" not in strange.content
    assert "\x00" not in strange.content


def test_hostile_texts_reach_the_app_unchanged(strange: pages.Page) -> None:
    read = [name for name in strange.blocks if name.startswith("tables/") or name == "answers/0"]
    words = {text for name in read for text in strings(strange.block(name))}
    assert set(pages.HOSTILE) <= words


def test_licences_stand_in_the_page(strange: pages.Page) -> None:
    assert "Jason Miller" in strange.text
    assert "Permission is hereby granted" in strange.text


@given(st.text())
@examples(200)
def test_no_control_survives(text: str) -> None:
    assert texts.HIDDEN.search(texts.visible(text)) is None
    if texts.HIDDEN.search(text) is None:
        assert texts.visible(text) == text


def test_the_app_names_the_same_characters() -> None:
    source = (Path(__file__).parents[2] / "web/src/text.ts").read_text("utf-8")
    (named,) = re.findall(r"/\(\[(.+)\]\+\)/u;", source)
    python = re.sub(r"\\u\{([0-9a-f]+)\}", lambda match: f"\\U{match[1]:0>8}", named)
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    assert re.findall(f"[{python}]", everything) == texts.HIDDEN.findall(everything)


@given(
    st.recursive(
        st.none() | st.text() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False),
        lambda each: st.lists(each) | st.dictionaries(st.text() | st.sampled_from(NAMES), each),
    )
)
@examples(200)
def test_a_block_comes_back_and_means_nothing_in_html(value: Any) -> None:
    content = questions.encode(value)
    element = page.element("answers/0", content)
    (block,) = pages.Page(element).blocks.values()
    assert set(block) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert json.loads(pages.Page(element).bytes_of("answers/0")) == value


@given(st.text(st.characters(categories=["Cs", "L"])))
@examples(50)
def test_characters_that_are_none_are_no_error(text: str) -> None:
    (shown,) = json.loads(questions.encode([text]))
    assert shown == text.encode("utf-8", "replace").decode()


def lines_of(folder: Path, *changes: dict[str, Any]) -> Path:
    """A run whose only question has these fields, once for each of `changes`; names of fields join by a dot."""
    lines = []
    for number, fields in enumerate(changes):
        content = json.loads(run_folder.encode(pages.hostile()[1][1]))
        content["item"]["id"] = f"q{number}"
        for name, value in fields.items():
            *outer, last = name.split(".")
            inner = content
            for key in outer:
                inner = inner[key]
            inner[last] = value
        lines.append(json.dumps(content))
    pages.write(folder, [])
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


@pytest.mark.parametrize(
    ("fields", "column", "shown"),
    [
        ({"answer.seconds": 1e308}, "results.seconds", float("inf")),
        ({"answer.usage": {"__proto__": 1e308, "x": -1}}, None, None),
        ({"item.options": {"__proto__": "a", "constructor": "b"}, "item.answers": ["__proto__"]}, None, None),
        ({"item.tags": {name: [name] for name in NAMES}}, None, None),
        ({"item.pair_id": "__proto__"}, None, None),
        ({"item.images": [{"name": "__proto__", "size": [-5, 10**18], "start": -5, "length": -7}]}, None, None),
        ({"score.value": 1e308}, None, None),
        ({"answer.text": 3_500_000 * "<x>"}, None, None),
        ({"item.tags": {"modality": [f"v{n}" for n in range(2000)]}}, None, None),
        ({"answer.text": "\ud800"}, None, None),
        ({"item.id": "", "item.question": "", "item.options": {"": ""}, "answer.text": ""}, None, None),
    ],
)
def test_extreme_values_are_no_errors(tmp_path: Path, fields: dict[str, Any], column: str | None, shown: Any) -> None:
    parsed = drawn(lines_of(tmp_path / "run", fields))
    pages.check_frame(parsed)
    if column is not None:
        (head,) = [TypedArray(**each) for each in parsed.block("head")["columns"] if each["name"] == column]
        assert list(read(parsed.bytes_of("columns"), head)) == [shown]


def test_many_ways_to_end_an_answer_are_no_error(tmp_path: Path) -> None:
    parsed = drawn(lines_of(tmp_path / "run", *({"answer.finish": f"end {n}"} for n in range(300))))
    assert len(parsed.block("head")["finishes"]) == 300


def test_names_of_prototypes_are_names_of_dimensions_and_values(tmp_path: Path) -> None:
    parsed = drawn(lines_of(tmp_path / "run", {"item.tags": {name: [name] for name in NAMES}}))
    dimensions = parsed.block("head")["dimensions"]
    values = {each["name"]: [value["value"] for value in each["values"]] for each in dimensions}
    assert {name: [name] for name in NAMES}.items() <= values.items()


def test_a_folder_whose_name_is_no_text_has_a_page(tmp_path: Path) -> None:
    folder = tmp_path / b"caf\xe9".decode("utf-8", "surrogateescape")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("names of files are text here")
    results = pages.hostile()[1][:1]
    pages.write(tmp_path / "run", results)
    for name in ("run.json", "results.jsonl"):
        (folder / name).write_bytes((tmp_path / "run" / name).read_bytes())
    report.write(report.build(folder, KNOWN))
    parsed = pages.Page((folder / html.FILE).read_text())
    assert parsed.block("head")["title"] == "caf?"
