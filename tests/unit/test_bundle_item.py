"""Prompts of a bundle: rebuilt from the recorded questions, and proved by the recorded digests."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks, report
from medvqa.items import Answer, Benchmark, DataError, Image, Item, Prompt, Query, Result, Score, Technique
from medvqa.protocols import prompts as protocol_prompts
from medvqa.records.private import is_pseudonym
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
from support.runs import record

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
    results = [recorded(query, protocol_prompts.pinned(plan.prompt(query))) for query in queries]
    assert results, "else nothing is tried"
    folder = pages.write(root / "first", results, **about(plan).as_json())
    return report.build(folder, plan.registry.benchmarks)


def recorded(query: Query, prompt: Prompt) -> Result:
    digest = protocol_prompts.digest(prompt)
    score = Score(1.0, "correct", ("A",))
    return Result(
        "first", query.item, digest, Answer("A"), score, query.technique, None, query.sample, query.variant.name
    )


def load(benchmark: Benchmark) -> Sequence[Item] | None:
    return benchmarks.load_found(benchmark, None)


def outcomes(made: report.Report, load: sent.Load | None = load) -> Counter[str]:
    """Numbers of results whose prompt is proved, is of the recorded template, or cannot be shown."""
    rebuilder = sent.Rebuilder(made, load)
    found = (rebuilder.prompt(result) for part in made.parts for result in part.results)
    return Counter(each if isinstance(each, str) else "proved" if each.proved else "template" for each in found)


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
def test_every_prompt_of_a_run_is_rebuilt_and_proved(tmp_path: Path, name: str) -> None:
    typed = PROTOCOLS[name]
    names = {"several prompts": [PAIRS], "another pool": [GMAI]}.get(name, [GMAI, PAIRS, LESIONS])
    made = asked(planned(tmp_path, *names, **typed), tmp_path)
    found = outcomes(made)
    number = sum(len(part.results) for part in made.parts)
    assert found == {"proved": number}


def test_a_prompt_file_is_rebuilt_from_its_record_without_the_file(tmp_path: Path) -> None:
    file = tmp_path / "closely.toml"
    file.write_text(
        'system = "You read images."\ntext = "Look.\\n{question}\\n{options}Which?"\noption = "({letter}) {text}\\n"\n'
        'then = ["One of {first} to {last}?"]\n[gd]\ntext = "{question} {options}"\n'
    )
    plan = planned(tmp_path, GMAI, prompt=[str(file)], technique=["mc", "gd"])
    made = asked(plan, tmp_path)
    file.unlink()
    made = report.build(made.folder, Registry.of([]).benchmarks)
    assert outcomes(made, None).keys() == {"proved"}
    block = packed(made, None)
    (system,) = {prompt.system for prompt in block.prompts}
    assert system == "You read images."
    turns = {turn for prompt in block.prompts for turn in prompt.then}
    assert turns
    assert turns <= {f"One of A to {letter}?" for letter in "BCDEFG"}


# Without proof


def test_without_data_only_the_template_is_known_if_no_digest_of_an_image_is(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI, PAIRS), tmp_path)
    assert outcomes(made, None) == {"proved": 3, "template": 3}
    assert outcomes(made, lambda benchmark: None) == {"proved": 3, "template": 3}


def test_many_images_are_not_read_for_a_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = asked(planned(tmp_path, PAIRS), tmp_path)
    monkeypatch.setattr(sent, "MOST_READ", 2)
    assert outcomes(made) == {"template": 3}


def test_solved_examples_that_are_not_at_hand_are_not_guessed(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI, shots=2), tmp_path)
    assert outcomes(made, None) == {sent.NO_DATA: 3}
    made = asked(planned(tmp_path, GMAI, ablate="shuffle"), tmp_path)
    assert outcomes(made, None) == {sent.NO_DATA: 3}


def test_a_run_that_claims_many_solved_examples_costs_no_time(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI, shots=2), tmp_path)
    made = replace(made, run=record({**made.run.as_json(), "protocol": {"shots": 10**9}}))
    assert outcomes(made) == {sent.TOO_MANY: 3}


def test_private_questions_that_a_run_does_not_hold_are_no_examples_on_its_page(tmp_path: Path) -> None:
    plan = planned(tmp_path, LESIONS, shots=1)
    assert outcomes(private(asked(plan, tmp_path)))[sent.PRIVATE] > 0
    whole = private(asked(plan, tmp_path / "whole", 1000))
    assert outcomes(whole).keys() == {"proved"}
    names = {name for prompt in packed(whole).prompts for example in prompt.examples for name in example.images}
    assert names
    assert all(is_pseudonym(Image(name)) for name in names), "images of private data keep their pseudonyms"


def private(made: report.Report) -> report.Report:
    """The same run of data that are not declared public."""
    return replace(made, parts=tuple(replace(p, benchmark=replace(p.benchmark, public=False)) for p in made.parts))


def changed(made: report.Report, **fields: object) -> report.Report:
    parts = [
        replace(part, results=tuple(replace(r, item=replace(r.item, **fields)) for r in part.results))
        for part in made.parts
    ]
    return replace(made, parts=tuple(parts))


def test_a_prompt_that_differs_from_the_one_that_was_sent_is_not_shown(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI), tmp_path)
    assert outcomes(changed(made, question="Is it well?")) == {sent.DIFFERS: 3}
    assert outcomes(changed(made, images=(Image("other.png", digest="0" * 64),))) == {sent.DIFFERS: 3}


def test_an_unknown_template_is_named(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI), tmp_path)
    made = changed(made, question="Is it well?")
    abouts = {GMAI: {**made.run.as_json()["benchmarks"][GMAI], "prompts": {"mc": "mine/mc@12345678"}}}
    assert outcomes(replace(made, run=record({**made.run.as_json(), "benchmarks": abouts}))) == {
        "The run used the prompt mine/mc@12345678, which this version does not have.": 3
    }


def test_a_question_that_ended_before_its_prompt_was_made_has_none(tmp_path: Path) -> None:
    made = asked(planned(tmp_path, GMAI), tmp_path)
    digest = protocol_prompts.digest(Prompt("", technique="mc"))
    parts = [replace(part, results=tuple(replace(r, prompt=digest) for r in part.results)) for part in made.parts]
    assert outcomes(replace(made, parts=tuple(parts))) == {sent.NOT_MADE: 3}


def test_a_users_prompt_function_that_fails_fails_no_report(tmp_path: Path) -> None:
    def fails(item: Item, technique: Technique) -> Prompt:
        raise ZeroDivisionError

    def refuses(item: Item, technique: Technique) -> Prompt:
        raise DataError("no such file")

    made = asked(planned(tmp_path, GMAI), tmp_path)
    for function, why in ((fails, sent.FAILS), (refuses, f"{sent.FAILS} no such file")):
        parts = [replace(part, benchmark=replace(part.benchmark, prompt=function)) for part in made.parts]
        failing = replace(made, parts=tuple(parts))
        assert outcomes(failing) == {why: 3}
        assert outcomes(private(failing)) == {sent.FAILS: 3}, "a message may name files of patients"


@pytest.mark.parametrize(
    "parts",
    [
        {"text": "{question.__class__.__mro__}"},
        {"text": "{question!r:>999999999}"},
        {"text": "{question}{0}"},
        {"text": "{question}", "option": "{text.format}"},
        {"text": "{question}", "then": "{first:>999999999}"},
        {"text": "{question}", "system": "another"},
        {"text": "{"},
        {},
    ],
)
def test_a_recorded_template_is_used_only_if_it_is_whole_and_harmless(parts: dict[str, str]) -> None:
    assert sent._template("mine/mc@12345678", parts) is None


# Packing


def packed(made: report.Report, load: sent.Load | None = load) -> sent.SentPrompts:
    block = of_run(made, html.Pictures("none", "", load=load))["prompts"]
    return msgspec.json.decode(block, type=sent.SentPrompts)


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
    result = recorded(Query(item), own.prompt(item, "mc"))
    run = {"benchmarks": {"mine": {"prompts": {"mc": ""}, "max_tokens": {"mc": {"short_answer": 64}}}}}
    made = report.build(pages.write(tmp_path / "first", [result], **run), {"mine": benchmarks.own.completed(own)})
    block = packed(made)
    (prompt,) = block.prompts
    assert block.texts == [["Compare. ", 0]]
    assert (prompt.proved, prompt.system, prompt.order, prompt.images) == (True, "Be brief.", "in-place", [1, 0])
    assert (prompt.tokens, prompt.compared, prompt.blank) == (64, "", False)


def test_images_of_private_data_are_named_as_the_run_names_them(tmp_path: Path) -> None:
    own = Benchmark(name="mine", items=lambda data: [], prompt=lambda item, technique: Prompt("?", item.images))
    item = Item("1", "mine", "short_answer", "?", images=(Image("Mustermann.png", digest="c" * 64),))
    hidden = replace(item, images=(replace(item.images[0], name="sha256-cccccccccccc"),))
    result = replace(recorded(Query(item), own.prompt(item, "mc")), item=hidden)
    made = report.build(pages.write(tmp_path / "first", [result]), {"mine": benchmarks.own.completed(own)})
    whole = of_run(made, html.Pictures("none", "", load=lambda benchmark: [item]))
    assert not any(b"Mustermann" in block for block in whole.values())
    assert outcomes(made, None) == {"proved": 1}
