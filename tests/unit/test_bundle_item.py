"""Prompts of a bundle, as the run folder keeps them."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks, report
from medvqa.items import Answer, Benchmark, Image, Item, Prompt, Query, Result, Score, Shot, Variant
from medvqa.protocols import prompts as protocol_prompts
from medvqa.protocols import rotation
from medvqa.report import html
from medvqa.report.bundle import of_run
from medvqa.report.bundle import prompts as sent
from medvqa.session.about import about
from medvqa.session.options import Options
from medvqa.session.plan import Plan
from medvqa.session.project import Project
from medvqa.session.registry import Registry
from medvqa.session.resolving import resolve
from support import pages
from support.laws import examples

text = st.text(alphabet="AB1{}0 \n", max_size=12)


@given(text, text, st.lists(text, max_size=4))
@examples(200)
def test_the_parts_of_a_text_make_it_again(whole: str, question: str, options: list[str]) -> None:
    pieces = sent.pieces_of(whole, question, options)
    assert sent.filled(pieces, question, options) == whole
    named = [piece for piece in pieces if isinstance(piece, int)]
    assert named == sorted(set(named)), "each part stands at most once, in its order"


# All protocols


def planned(root: Path, *names: str, **typed: object) -> Plan:
    registry = Registry.of([])
    given = {"model": "random", "benchmark": list(names), **typed}
    return resolve(Project(root, root, registry, Options.of(given, root)))


def asked(plan: Plan, root: Path, number: int = 3) -> report.Report:
    """The report of a run that asked the first questions of each benchmark, without a model."""
    queries = [
        Query(item, technique, sample, variant)
        for name in plan.benchmarks
        for item in plan.items(name)[:number]
        for technique, variant, sample in plan.stages([name])
        if plan.applies(query := Query(item, technique, sample, variant)) and plan.has(query)
    ]
    prompts = [protocol_prompts.pinned(plan.prompt(query)) for query in queries]
    results = [recorded(query, prompt) for query, prompt in zip(queries, prompts, strict=True)]
    assert results, "else nothing is tried"
    folder = pages.write(root / "first", results, **about(plan).as_json())
    pages.keep_prompts(folder, results, prompts)
    return report.build(folder, plan.registry.benchmarks)


def recorded(query: Query, prompt: Prompt) -> Result:
    digest = protocol_prompts.digest(prompt)
    score = Score(1.0, "correct", ("A",))
    return Result(
        "first", query.item, digest, Answer("A"), score, query.technique, None, query.sample, query.variant.name
    )


GMAI, PAIRS, LESIONS = "phantom-gmai-mmbench", "phantom-mediconfusion", "phantom-medlesionvqa"
PROTOCOLS: dict[str, dict[str, object]] = {
    "techniques": {"technique": ["mc", "gd", "ps"]},
    "rotations": {"rotate": "all"},
    "shots": {"shots": 2},
    "shots, shuffled": {"shots": 2, "ablate": "shuffle"},
    "shuffled": {"ablate": "shuffle"},
    "blank": {"ablate": "blank"},
    "text-only": {"ablate": "text-only"},
    "reasoning": {"reasoning": "cot-2"},
    "explained": {"explain": True},
    "several prompts": {"prompt": ["all"]},
    "another pool": {"shots": 1, "shot_pool": PAIRS},
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_prompt_of_a_run_is_shown_as_it_was_sent(tmp_path: Path, name: str) -> None:
    typed = PROTOCOLS[name]
    names = {"several prompts": [PAIRS], "another pool": [GMAI]}.get(name, [GMAI, PAIRS, LESIONS])
    plan = planned(tmp_path, *names, **typed)
    made = asked(plan, tmp_path)
    packer = sent.Packer(made.folder, made.run)
    results = [result for part in made.parts for result in part.results]
    places = [packer.add(result) for result in results]
    block = packer.block
    assert not block.reasons
    for result, place in zip(results, places, strict=True):
        prompt = plan.prompt(Query(result.item, result.technique, result.sample, Variant.parse(result.variant)))
        shown, item = block.prompts[place], rotation.as_shown(result.item, result.variant)
        options = [*item.options.values()]
        assert sent.filled(block.texts[shown.text], item.question, options) == prompt.text
        assert (shown.system, shown.order, tuple(shown.then)) == (prompt.system, prompt.order, prompt.then)
        assert shown.turns == [(turn.text, turn.reply) for turn in prompt.turns]
        own = [image.name for image in item.images]
        images = [own[image] if isinstance(image, int) else image for image in shown.images]
        if name == "blank":
            assert images == own
        else:
            assert images == [image.name for image in prompt.images]
        assert shown.blank == (name == "blank" and bool(prompt.images))
        examples = [(block.texts[each.text], each.answer, each.end, tuple(each.images)) for each in shown.examples]
        shots = prompt.shots
        assert examples == [([s.text], s.answer, s.end, tuple(image.name for image in s.images)) for s in shots]
        compared = {"": [], "letters": [*item.options], "texts": options, "others": shown.others}[shown.compared]
        assert compared == {"gd": [*prompt.options], "ps": [*prompt.options.values()]}.get(result.technique, [])


# What is not kept


def reasons(made: report.Report) -> list[str]:
    block = packed(made)
    assert not block.prompts
    return block.reasons


def test_prompts_that_were_not_kept_are_said_to_be(tmp_path: Path) -> None:
    """As in a run of an earlier version; nothing is guessed, and no prompt function is called."""
    made = asked(planned(tmp_path, GMAI), tmp_path)
    (made.folder / "prompts.jsonl").unlink()
    assert reasons(made) == [sent.NOT_KEPT]
    (made.folder / "prompts.jsonl").mkdir()
    assert reasons(made) == [sent.NOT_KEPT]


@pytest.mark.parametrize(
    "line", [b'"text":1', b'"text":"', b'"text":"?","images":[[]]}', b'"text":"\xff"}', b"}", b"[" * 9999]
)
def test_a_damaged_line_costs_its_prompt_alone(tmp_path: Path, line: bytes) -> None:
    made = asked(planned(tmp_path, GMAI), tmp_path)
    path = made.folder / "prompts.jsonl"
    first, *others = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([first[:77] + line, *others]) + b"\n")
    block = packed(made)
    assert (len(block.reasons), bool(block.prompts)) == (1, True)


def test_a_question_that_ended_before_its_prompt_was_made_has_none(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI), tmp_path)
    digest = protocol_prompts.digest(Prompt("", technique="mc"))
    parts = [replace(part, results=tuple(replace(r, prompt=digest) for r in part.results)) for part in made.parts]
    assert reasons(replace(made, parts=tuple(parts))) == [sent.NOT_MADE]


# Packing


def packed(made: report.Report) -> sent.SentPrompts:
    return msgspec.json.decode(of_run(made, html.Pictures("none", ""))["prompts"], type=sent.SentPrompts)


def test_prompts_that_differ_by_their_question_stand_once(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI), tmp_path, 1000)
    block = packed(made)
    (part,) = made.parts
    forms = {(result.item.kind, len(result.item.options)) for result in part.results}
    assert len(part.results) > 100
    assert len(block.texts) <= len(forms)
    assert not any(result.item.question in str(block.texts) for result in part.results)


def test_texts_that_are_too_long_for_a_page_are_left_out_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent, "MOST_TEXT", 0)
    block = packed(asked(planned(tmp_path, GMAI), tmp_path))
    assert (len(block.texts), block.reasons) == (1, [sent.TOO_MUCH])


def test_a_prompt_says_its_images_its_order_and_its_limit(tmp_path: Path) -> None:
    own = Benchmark(
        name="mine",
        items=lambda data: [],
        prompt=lambda item, technique: Prompt(
            f"Compare. {item.question}", item.images[::-1], "Be brief.", technique=technique, order="in-place"
        ),
        public=True,
    )
    images = tuple(Image(f"{name}.png", digest=name * 64) for name in "ab")
    item = Item("1", "mine", "short_answer", "Which is larger?", images=images)
    prompt = own.prompt(item, "mc")
    result = recorded(Query(item), prompt)
    run = {"benchmarks": {"mine": {"prompts": {"mc": ""}, "max_tokens": {"mc": {"short_answer": 64}}}}}
    folder = pages.write(tmp_path / "first", [result], **run)
    pages.keep_prompts(folder, [result], [prompt])
    block = packed(report.build(folder, {"mine": benchmarks.own.completed(own)}))
    (shown,) = block.prompts
    assert block.texts == [["Compare. ", 0]]
    assert (shown.system, shown.order, shown.images) == ("Be brief.", "in-place", [1, 0])
    assert (shown.tokens, shown.compared, shown.blank) == (64, "", False)


def test_images_and_examples_of_private_data_are_not_kept(tmp_path: Path) -> None:
    own = Benchmark(name="mine", items=lambda data: [])
    item = Item("1", "mine", "short_answer", "?", images=(Image("Mustermann.png", digest="c" * 64),))
    other = Image("Erika.png", digest="d" * 64)
    prompt = Prompt("?", (other, *item.images), shots=(Shot("Has Erika a fracture?", "no", (other,)),))
    hidden = replace(item, images=(replace(item.images[0], name="sha256-cccccccccccc"),))
    result = recorded(Query(item), prompt)
    folder = pages.write(tmp_path / "first", [replace(result, item=hidden)])
    pages.keep_prompts(folder, [result], [prompt], public=False)
    whole = of_run(report.build(folder, {"mine": benchmarks.own.completed(own)}), html.Pictures("none", ""))
    for content in (*whole.values(), (folder / "prompts.jsonl").read_bytes()):
        assert b"Mustermann" not in content
        assert b"Erika" not in content
    (shown,) = msgspec.json.decode(whole["prompts"], type=sent.SentPrompts).prompts
    assert (shown.images, shown.examples, shown.withheld) == (["sha256-dddddddddddd", 0], [], 1)
