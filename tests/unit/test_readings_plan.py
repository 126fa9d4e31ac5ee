"""The plan of a reader study: who reads what, in which order, by laws; and plans that are refused."""

import re
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import Image, Item, UsageError
from medvqa.readings import assigning, study_plan
from support.laws import examples

READERS = ("R1", "R2", "R3", "R4", "R5")


@st.composite
def data_sets(draw: st.DrawFn) -> list[Item]:
    """Pairs and single questions, some of which share an image."""
    pairs, singles = draw(st.integers(0, 12)), draw(st.integers(0, 30))
    images = st.integers(0, 40)
    items = [
        Item(f"p{n}/{half}", "pairs", "judgment", pair_id=str(n), images=(image(draw(images)),))
        for n in range(pairs)
        for half in (1, 2)
    ]
    items += [Item(f"s{n}", "singles", "judgment", images=(image(draw(images)),)) for n in range(singles)]
    return items or [Item("s0", "singles", "judgment")]


def image(number: int) -> Image:
    return Image(f"{number}.png", digest=f"{number:064x}")


def kin(one: Item, other: Item) -> bool:
    same_pair = one.pair_id is not None and (one.benchmark, one.pair_id) == (other.benchmark, other.pair_id)
    return same_pair or bool(set(one.images) & set(other.images))


@examples(300)
@given(data_sets(), st.integers(1, 5), st.integers(1, 5), st.integers(0, 3))
def test_each_question_has_its_readers_and_readers_have_equal_work(
    items: list[Item], readers: int, overlap: int, seed: int
) -> None:
    names = READERS[: max(readers, overlap)]
    assigned = assigning.assign(items, names, overlap, seed)
    assert assigned == assigning.assign(items, names, overlap, seed)
    assert Counter(place for places in assigned.values() for place in places) == dict.fromkeys(
        range(len(items)), overlap
    )
    readers_of = {items[p].id: {reader for reader in names if p in assigned[reader]} for p in range(len(items))}
    for one, other in combinations(items, 2):
        if one.pair_id is not None and one.pair_id == other.pair_id:
            assert readers_of[one.id] == readers_of[other.id]
    work = [len(places) for places in assigned.values()]
    assert max(work) - min(work) <= (2 if any(item.pair_id for item in items) else 1)


@examples(300)
@given(data_sets(), st.integers(1, 20), st.integers(0, 3))
def test_related_questions_never_follow_each_other(items: list[Item], sitting: int, seed: int) -> None:
    groups = assigning.kin_of(items)
    largest = max(Counter(groups).values())
    try:
        order = assigning.ordered(items, range(len(items)), sitting, seed, "R1")
    except UsageError:
        assert largest > -(-len(items) // 2)
        return
    places, sittings = [place for place, _ in order], [number for _, number in order]
    assert sorted(places) == list(range(len(items)))
    assert order == assigning.ordered(items, range(len(items)), sitting, seed, "R1")
    for before, after in pairwise(places):
        assert not kin(items[before], items[after])
    sizes = Counter(sittings)
    assert sittings == sorted(sittings)
    assert set(sizes) == set(range(1, len(sizes) + 1))
    assert max(sizes.values()) <= sitting
    assert max(sizes.values()) - min(sizes.values()) <= 1


@examples(50)
@given(st.integers(2, 30), st.integers(0, 3))
def test_halves_of_a_pair_are_in_different_halves_of_the_order(pairs: int, seed: int) -> None:
    items = [Item(f"p{n}/{half}", "pairs", "judgment", pair_id=str(n)) for n in range(pairs) for half in (1, 2)]
    order = assigning.ordered(items, range(2 * pairs), pairs, seed, "R1")
    assert Counter(number for _, number in order) == {1: pairs, 2: pairs}
    assert len({(items[place].pair_id, number) for place, number in order}) == 2 * pairs


def test_an_expert_may_read_both_halves_of_a_pair_in_sequence() -> None:
    """An adjudicator often has one pair alone, and sees its keys anyway."""
    items = [Item(f"p/{half}", "b", "judgment", pair_id="p") for half in (1, 2)]
    plan = study_plan.ReadingPlan(name="s", benchmarks=["b"], readers=["R1"])
    with pytest.raises(UsageError, match="2 of the 2 questions"):
        study_plan.record_of(plan, ["b"], items, {"b": "digest"})
    review = study_plan.ReadingPlan(name="s", benchmarks=["b"], readers=["R1"], task="review")
    assert len(study_plan.record_of(review, ["b"], items, {"b": "digest"}).orders["R1"]) == 2


def test_readers_and_seeds_have_orders_of_their_own_and_pairs_of_readers_are_balanced() -> None:
    items = [Item(f"s{n}", "b", "judgment") for n in range(60)]
    orders = [assigning.ordered(items, range(60), 20, seed, reader) for seed in (0, 1) for reader in READERS]
    assert len({tuple(order) for order in orders}) == len(orders)
    assigned = assigning.assign(items, READERS[:4], 2, 0)
    shared = [len(set(one) & set(other)) for one, other in combinations(assigned.values(), 2)]
    assert set(shared) == {10}


PLAN = 'name = "Study"\nbenchmarks = ["phantom"]\nreaders = ["R1", "R2"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAN.replace('"R2"', '"r1"'), "readers: R1 and r1 give one name of files: write codes that differ"),
        (PLAN.replace('"R1", "R2"', '"senior/R1", "Senior-R1"'), "senior/R1 and Senior-R1 give one name of files"),
        (PLAN.replace('"R2"', '"a/b/c"'), "other characters than letters"),
        (PLAN.replace('"R2"', '"a/.."'), "other characters than letters"),
        (
            PLAN.replace('"R2"', '"senior/Petermann"'),
            "a code looks like the name or the address of a person, or a date",
        ),
        (PLAN.replace('"R2"', '"a.meier@klinik.de"'), "or a date; write codes such as R1"),
        (PLAN.replace('"R2"', '"Petermann"'), "a code looks like the name or the address"),
        (PLAN.replace('"R2"', '"petermann_u"'), "a code looks like the name or the address"),
        (PLAN.replace('"R2"', '"1975-03-02"'), "or a date"),
        (PLAN.replace('"R2"', '"../R2"'), "other characters than letters"),
        (PLAN.replace('"R2"', r'"R\u0000"'), "other characters than letters|not TOML"),
        (PLAN.replace('"R1", "R2"', ""), "at least 1|length >= 1"),
        (PLAN + "overlap = 3\n", "overlap = 3: write a number of readers from 1 to 2, or"),
        (PLAN + "overlap = 0\n", "overlap"),
        (PLAN + "siting = 3\n", "no key 'siting'.*Did you mean 'sitting'?"),
        (PLAN + 'task = "answr"\n', "Did you mean 'answer'?"),
        (PLAN + 'opinions = "o.jsonl"\n', 'write task = "review"'),
        (PLAN + "margin = 0\n", "margin"),
    ],
)
def test_a_wrong_plan_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        study_plan.read_plan(path)
    assert re.search(said, str(error.value))
    assert "\n" not in str(error.value)
    assert not re.search("(?i)petermann|meier", str(error.value))


@pytest.mark.parametrize(
    "code", ["R3", "a", "senior1", "Reader-3", "MD01", "S2_b", "resident", "senior/R1", "primary/2"]
)
def test_codes_are_taken(tmp_path: Path, code: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace('"R2"', f'"{code}"'))
    assert code in study_plan.read_plan(path).readers


def test_a_reader_without_a_question_is_refused() -> None:
    plan = study_plan.ReadingPlan(name="s", benchmarks=["b"], readers=list(READERS), overlap=1)
    items = [Item(f"s{n}", "b", "judgment") for n in range(3)]
    with pytest.raises(UsageError, match="no question is left for R1, R2: ask more"):
        study_plan.record_of(plan, ["b"], items, {"b": "digest"})


def test_questions_of_one_image_are_refused() -> None:
    plan = study_plan.ReadingPlan(name="s", benchmarks=["b"], readers=["R1"])
    items = [Item(f"s{n}", "b", "judgment", images=(image(n // 3),)) for n in range(4)]
    with pytest.raises(
        UsageError, match=r"3 of the 4 questions of reader R1 share an image or a pair.* ask more questions"
    ):
        study_plan.record_of(plan, ["b"], items, {"b": "digest"})


def test_codes_need_the_keys() -> None:
    """Whoever guesses the ids of a data set cannot find their codes: the halves of a pair would be known by them."""
    plan = study_plan.ReadingPlan(name="Study", benchmarks=["b"], readers=["R1"])
    codes = [
        set(study_plan.record_of(plan, ["b"], items, {"b": "0" * 64}).questions)
        for items in (
            [Item(f"s{n}", "b", "judgment", answers=(key,)) for n, key in enumerate(keys)]
            for keys in ("yyn", "yyn", "yyy")
        )
    ]
    assert codes[0] == codes[1]
    assert not codes[0] & codes[2]
