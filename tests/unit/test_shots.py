"""Solved examples: none is connected to its question, and each question has the same ones in every run."""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks
from medvqa.benchmarks import phantom
from medvqa.items import Image, Item, Shot, UsageError
from medvqa.protocols import shots
from medvqa.protocols.prompts import Template
from medvqa.protocols.shots import Chooser, Form, Pool
from support.laws import examples

CONTENTS = 4
"""Different pictures among the files of `folder`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve files; those with equal numbers modulo CONTENTS have equal bytes."""
    made = tmp_path_factory.mktemp("pictures")
    for number in range(12):
        (made / f"{number}.png").write_bytes(b"%d" % (number % CONTENTS))
    return made


def digest(number: int) -> str:
    return hashlib.sha256(b"%d" % (number % CONTENTS)).hexdigest()


few = st.sampled_from(("1", "2", "3"))
sources: st.SearchStrategy[Mapping[str, Any]] = st.one_of(
    st.just({}),
    few.map(lambda name: {"patient_id": name}),
    few.map(lambda name: {"meta": {"patientID": int(name)}}),
    few.map(lambda name: {"meta": {"case_id": [name, "9"]}}),
)
drawn = st.fixed_dictionaries(
    {
        "split": st.sampled_from(("val", "test")),
        "kind": st.sampled_from(("single_choice", "short_answer")),
        "ability": st.sampled_from(("a", "b")),
        "pictures": st.lists(st.tuples(st.integers(0, 40), st.sampled_from(("name", "file", "digest"))), max_size=2),
        "pair": st.none() | few,
        "cluster": st.none() | few,
        "extra": sources,
        "question": st.sampled_from(("Which?", " which?  ", "Where?", "What?")),
        "has_key": st.booleans(),
    }
)


def picture(number: int, how: str, folder: Path) -> Image:
    """An image that is known by name, by its file, or by its digest; only files 0 to 11 exist."""
    if how == "name" or number > 11:
        return Image(f"{number}.png")
    name = f"{how}-{number}.png"
    return Image(name, str(folder / f"{number}.png")) if how == "file" else Image(name, digest=digest(number))


def made(number: int, row: Mapping[str, Any], folder: Path) -> Item:
    open_ended = row["kind"] == "short_answer"
    answers = ("A",) if not open_ended else ("a cyst",)
    return Item(
        f"q{number}",
        row["split"],
        row["kind"],
        row["question"],
        {} if open_ended else {"A": "a cyst", "B": "an abscess"},
        answers if row["has_key"] else (),
        tuple(picture(*each, folder) for each in row["pictures"]),
        {"ability": (row["ability"],)},
        row["pair"],
        row["cluster"],
        row["extra"],
    )


def facts(item: Item) -> set[tuple[str, str]]:
    """All that identifies the patient, picture or pair of a question, written without the code under test."""
    known = {("pair", item.pair_id or ""), ("cluster", item.cluster_id or "")} - {("pair", ""), ("cluster", "")}
    for image in item.images:
        known.add(("image", image.name))
        if image.digest:
            known.add(("bytes", image.digest))
        elif image.path:
            known.add(("bytes", hashlib.sha256(Path(image.path).read_bytes()).hexdigest()))
    if not item.images:
        known.add(("text", " ".join(item.question.lower().split())))
    for fields in (item.extra, item.extra.get("meta", {})):
        known |= {("patient", str(fields[name])) for name in ("patient_id", "patientID") if name in fields}
        known |= {("case", case) for case in fields.get("case_id", ())}
    return known


def connected(item: Item, items: Iterable[Item]) -> set[tuple[str, str]]:
    """The questions that are connected to one, by repeated search."""
    left, group, known = list(items), {shots.node(item)}, facts(item)
    while found := [other for other in left if shots.node(other) in group or facts(other) & known]:
        for other in found:
            left.remove(other)
            group.add(shots.node(other))
            known |= facts(other)
    return group


@given(st.lists(drawn, min_size=2, max_size=25), st.integers(1, 5), st.booleans(), st.booleans())
@examples(300)
def test_no_example_is_connected_to_its_question(
    folder: Path, rows: list[Mapping[str, Any]], count: int, own: bool, fixed: bool
) -> None:
    """Of its own benchmark, or of another split; through pairs, clusters, images, patients and cases."""
    everything = [made(number, row, folder) for number, row in enumerate(rows)]
    items = [item for item in everything if own or item.benchmark == "val"]
    pool = [item for item in everything if own or item.benchmark == "test"]
    chooser = Chooser(Pool("pool", tuple(pool), fixed=fixed), items, "ability")
    for item in items:
        chosen = chooser.choose(item, count)
        related = connected(item, [*items, *pool])
        assert related.isdisjoint(map(shots.node, chosen))
        assert all(example.kind == item.kind and example.answers for example in chosen)
        assert len({shots.node(example) for example in chosen}) == len(chosen)
        free = [each for each in pool if each.kind == item.kind and each.answers and shots.node(each) not in related]
        assert len(chosen) == min(count, len(free)), "all that are free can be chosen"
        if fixed:
            assert list(chosen) == free[:count]


@given(st.lists(drawn, min_size=2, max_size=25), st.integers(1, 5), st.randoms())
@examples(100)
def test_the_choice_depends_on_nothing_but_pool_and_question(
    folder: Path, rows: list[Mapping[str, Any]], count: int, draw: random.Random
) -> None:
    items = [made(number, row, folder) for number, row in enumerate(rows)]
    chooser = Chooser(Pool("val", tuple(items)), items, "ability")
    mixed = draw.sample(items, len(items))
    again = Chooser(Pool("val", tuple(mixed)), draw.sample(items, len(items)), "ability")
    for item in draw.sample(items, len(items) // 2):
        assert again.choose(item, count) == chooser.choose(item, count)
        assert chooser.choose(item, count)[: count - 1] == chooser.choose(item, count - 1), "more shots keep the first"


@given(st.lists(drawn, min_size=2, max_size=25), st.integers(1, 4))
@examples(100)
def test_shuffled_images_of_examples_are_of_neither_group(
    folder: Path, rows: list[Mapping[str, Any]], count: int
) -> None:
    items = [made(number, row, folder) for number, row in enumerate(rows)]
    chooser = Chooser(Pool("val", tuple(items)), items, "ability")
    for item in items:
        chosen = chooser.choose(item, count)
        try:
            exchanged = chooser.exchanged(item, count)
        except UsageError as error:
            assert "the pool val has no unrelated image" in str(error)
            continue
        assert [replace(one, images=()) for one in exchanged] == [replace(one, images=()) for one in chosen]
        of_item = {fact for other in items if shots.node(other) in connected(item, items) for fact in facts(other)}
        for before, after in zip(chosen, exchanged, strict=True):
            assert bool(before.images) == bool(after.images)
            shown = {("image", image.name) for image in after.images}
            assert shown.isdisjoint(of_item | facts(before))


def question(number: int, ability: str = "a", **named: Any) -> Item:
    options = {"A": "a cyst", "B": "an abscess"}
    tags = {"ability": (ability,)}
    return Item(
        f"q{number}", "val", "single_choice", "What?", options, ("B",), (Image(f"{number}.png"),), tags, **named
    )


def test_examples_share_the_first_dimension_while_it_lasts() -> None:
    items = [question(number, "ab"[number % 2]) for number in range(8)]
    chooser = Chooser(Pool("val", tuple(items)), items, "ability")
    for item in items:
        abilities = [example.tags["ability"] for example in chooser.choose(item, 5)]
        other = ("b",) if item.tags["ability"] == ("a",) else ("a",)
        assert abilities == [item.tags["ability"]] * 3 + [other] * 2


def test_examples_are_of_different_groups_while_there_are_some() -> None:
    items = [question(number, cluster_id=str(number // 4)) for number in range(16)]
    chooser = Chooser(Pool("val", tuple(items)), items)
    for item in items:
        groups = [example.cluster_id for example in chooser.choose(item, 5)]
        assert len(set(groups[:3])) == 3
        assert len(groups) == 5
        assert item.cluster_id not in groups


def test_every_question_of_the_phantom_has_five_examples_of_its_kind() -> None:
    for benchmark in phantom.BENCHMARKS:
        items = benchmarks.load(benchmark, Path())
        chooser = Chooser(Pool(benchmark.name, items), items, benchmark.dimensions[0])
        used = set()
        for item in items:
            chosen = chooser.choose(item, 5)
            assert len(chosen) == 5
            pictures = {image.sha256() for image in item.images}
            assert pictures.isdisjoint(image.sha256() for example in chosen for image in example.images)
            assert item.pair_id is None or item.pair_id not in {example.pair_id for example in chosen}
            used |= {example.id for example in chosen}
        assert len(used) > len(items) / 2, "the draw is spread over the pool"


def test_two_splits_that_share_a_picture_share_no_example(tmp_path: Path) -> None:
    for name, colour in (("val", 10), ("copy-of-val", 10), ("other", 20)):
        PIL.Image.new("L", (8, 8), colour).save(tmp_path / f"{name}.png")
    asked = replace(question(1), images=(Image("val.png", str(tmp_path / "val.png")),))
    pool = [
        replace(question(number), benchmark="test", images=(Image(name, str(tmp_path / f"{name}.png")),))
        for number, name in enumerate(("copy-of-val", "other"))
    ]
    chooser = Chooser(Pool("test", tuple(pool)), [asked])
    assert chooser.choose(asked, 2) == (pool[1],)
    # A data set whose images have digests, and a pool of files.
    known = replace(asked, images=(asked.images[0].pinned(),))
    assert Chooser(Pool("test", tuple(pool)), [known]).choose(known, 2) == (pool[1],)


@pytest.mark.parametrize(
    ("item", "technique", "written"),
    [
        (question(1), "mc", "B"),
        (question(1), "gd", "B"),
        (question(1), "ps", "an abscess"),
        (question(1), "ff", "an abscess"),
        (replace(question(1), kind="multiple_response", answers=("A", "B")), "mc", "A,B"),
        (Item("1", "val", "judgment", "Is it?", answers=("yes", "true")), "mc", "yes"),
        (Item("1", "val", "short_answer", "What?", answers=("a cyst",)), "ps", "a cyst"),
    ],
)
def test_answers_are_written_as_a_model_should_write_them(item: Item, technique: Any, written: str) -> None:
    assert shots.reference(item, technique) == written


def test_an_example_is_asked_by_the_prompt_of_the_question() -> None:
    ask = Template("val/mc", "Question: {question}\n{options}Answer:", "{letter}. {text}\n")
    (shot,) = shots.solved([question(1)], "mc", ask.prompt)
    assert shot == Shot("Question: What?\nA. a cyst\nB. an abscess\nAnswer:", "B", (Image("1.png"),))


def test_a_form_of_the_pool_writes_examples_and_question() -> None:
    form = Form(
        Template("own/mc", "Q: {question}\n{options}A:", "{letter}) {text}\n", "Look. "),
        "({letter}) {text}",
        ("!", "."),
    )
    pool = Pool("own", (question(1), question(2), question(3)), fixed=True, forms={"mc": form})
    written = shots.formed(enumerate(pool.items), "mc", form)
    assert written[0] == Shot("Q: What?\nA) a cyst\nB) an abscess\nA:", "(B) an abscess", (Image("1.png"),), "!")
    assert [shot.end for shot in written] == ["!", ".", "."]
    assert pool.prompt(question(4), "mc").system == "Look. "
    with pytest.raises(UsageError, match="--shot-pool=own: it has no prompt for technique 'ps', only for mc"):
        pool.prompt(question(4), "ps")


def test_images_of_a_private_pool_lose_their_names(folder: Path) -> None:
    image = Image("Jane Doe.png", str(folder / "1.png"))
    (shot,) = shots.anonymous([Shot("?", "B", (image,))])
    assert shot.images == (replace(image, name=shots.IMAGE_NAME, digest=digest(1)),)


def test_all_pairs_of_connected_questions_have_one_group() -> None:
    items = [
        question(1, pair_id="p"),
        question(2, pair_id="p", cluster_id="c"),
        question(3, cluster_id="c"),
        question(4),
    ]
    groups = shots.groups(items)
    same = {
        (one.id, other.id)
        for one, other in combinations(items, 2)
        if groups[shots.node(one)] == groups[shots.node(other)]
    }
    assert same == {("q1", "q2"), ("q1", "q3"), ("q2", "q3")}


def test_a_mask_and_a_contour_of_perhaps_one_case_are_kept_apart() -> None:
    """In GMAI-MMBench no field joins them, and the drawn pictures differ."""
    mask, contour, also = ({"granularity": (f"{level}_level",)} for level in ("mask", "contour", "contour"))
    asked = replace(question(1), tags=mask)
    twin, other = replace(question(2), tags=contour), replace(question(3), tags=also, options={"A": "x", "B": "y"})
    beside = replace(question(4), images=twin.images, tags={"granularity": ("image_level",)})
    items = [asked, twin, other, beside, replace(question(5), tags=mask)]
    chooser = Chooser(Pool("val", tuple(items)), items)
    assert sorted(named(chooser.choose(asked, 5))) == ["q3", "q5"], "nor a question about the twin's picture"
    assert sorted(named(chooser.choose(beside, 5))) == ["q1", "q3", "q5"]


def test_the_phantom_s_masks_get_no_contour_of_the_same_label() -> None:
    items = benchmarks.load(phantom.BENCHMARKS[0], Path())
    chooser = Chooser(Pool("phantom-gmai-mmbench", items), items, "task")
    for item in items:
        for example in chooser.choose(item, 5):
            levels = {item.tags["granularity"][0], example.tags["granularity"][0]}
            assert levels != shots.OUTLINED or item.tags["label"] != example.tags["label"]


def named(items: Sequence[Item]) -> list[str]:
    return [item.id for item in items]


def test_examples_stay_the_same_in_later_versions() -> None:
    """A changed choice would change the prompts of runs that go on, and forget stored answers."""
    items = [question(number, "abc"[number % 3]) for number in range(12)]
    chooser = Chooser(Pool("val", tuple(items)), items, "ability")
    assert {item.id: named(chooser.choose(item, 3)) for item in items[:3]} == {
        "q0": ["q9", "q6", "q3"],
        "q1": ["q4", "q7", "q10"],
        "q2": ["q8", "q5", "q11"],
    }
