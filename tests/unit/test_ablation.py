"""Images taken away: what a model sees, and that shuffled images come from somewhere else."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks
from medvqa.benchmarks import phantom
from medvqa.items import Image, Item, Prompt, Shot, UsageError
from medvqa.protocols import ablation, prompts

PROMPT = Prompt(
    "Which?", (Image("1.png", "/1.png"), Image("2.png", "/2.png")), shots=(Shot("q", "a", (Image("3.png"),)),)
)


def item(n: int, *names: str, pair: str | None = None) -> Item:
    return Item(f"q{n}", "slake", "single_choice", "Which?", images=tuple(map(Image, names)), pair_id=pair)


def test_withheld_images_are_gone_from_the_examples_too() -> None:
    assert ablation.withhold(PROMPT) == Prompt("Which?", shots=(Shot("q", "a"),))


def test_a_blank_prompt_keeps_places_and_has_a_digest_of_its_own() -> None:
    blank = ablation.blank(PROMPT)
    assert [image.key for image in blank.images] == ["blank 1.png", "blank 2.png"]
    assert all(image.blank for image in (*blank.images, *blank.shots[0].images))
    digests = {prompts.digest(prompt) for prompt in (PROMPT, blank, ablation.withhold(PROMPT))}
    assert len(digests) == 3


names = st.sampled_from("abcdefghijklmnop")
some_items = st.lists(
    st.tuples(st.lists(names, max_size=2), st.none() | st.sampled_from(["p1", "p2", "p3"])), min_size=1, max_size=30
).map(lambda rows: [item(n, *found, pair=pair) for n, (found, pair) in enumerate(rows)])


@given(some_items, st.randoms())
def test_each_item_gets_the_images_of_one_that_it_has_nothing_to_do_with(items: list[Item], draw: object) -> None:
    shown = [each for each in items if each.images]
    try:
        given_to = ablation.shuffled(items)
    except UsageError:
        return
    assert given_to.keys() == {each.id for each in shown}
    assert Counter(given_to.values()) == Counter(each.images for each in shown), "each item's are shown once"
    for each in shown:
        assert not set(given_to[each.id]) & set(each.images)
        donors = [other for other in shown if other.images == given_to[each.id]]
        assert each.pair_id is None or any(other.pair_id != each.pair_id for other in donors)
    mixed = list(items)
    draw.shuffle(mixed)  # type: ignore[attr-defined]
    assert ablation.shuffled(mixed) == given_to, "in every order"


@given(st.integers(1, 40), st.integers(1, 40))
def test_half_of_the_items_may_share_an_image_and_no_more(alone: int, together: int) -> None:
    items = [item(n, "common" if n < together else f"{n}.png") for n in range(alone + together)]
    if max(together, 1) <= (alone + together) / 2:
        assert len(ablation.shuffled(items)) == alone + together
    else:
        with pytest.raises(UsageError, match=rf"{together} of the {alone + together} questions of slake with images"):
            ablation.shuffled(items)


def test_without_images_there_is_nothing_to_shuffle() -> None:
    assert ablation.shuffled([item(1), item(2)]) == {}


def test_the_partner_of_a_pair_gives_no_image() -> None:
    items = [item(n, f"{n}.png", pair=f"p{n // 2}") for n in range(40)]
    given_to = ablation.shuffled(items)
    for n, each in enumerate(items):
        assert given_to[each.id] != items[n ^ 1].images


def test_files_of_equal_content_are_the_same_image_whatever_their_names(tmp_path: Path) -> None:
    for name, colour in (("a", 10), ("copy-of-a", 10), ("b", 20), ("c", 30)):
        PIL.Image.new("L", (8, 8), colour).save(tmp_path / f"{name}.png")
    items = [
        replace(item(n), images=(Image(name, str(tmp_path / f"{name}.png")),))
        for n, name in enumerate(("a", "copy-of-a", "b", "c"))
    ]
    given_to = ablation.shuffled(items)
    for each in items[:2]:
        assert given_to[each.id][0].name in "bc"


def test_the_phantom_s_images_change_places() -> None:
    for benchmark in phantom.BENCHMARKS:
        items = benchmarks.load(benchmark, Path())
        given_to = ablation.shuffled(items)
        for each in items:
            if each.images:
                own = {image.sha256() for image in each.images}
                assert own.isdisjoint(image.sha256() for image in given_to[each.id])
