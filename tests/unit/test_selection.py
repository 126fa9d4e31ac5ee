from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medvqa.benchmarks import mediconfusion
from medvqa.items import Image, Item, UsageError
from medvqa.tags.selection import Shard, broken_pairs, components, halves, share, straddling, stratified

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"


def item(id: str, pair: str | None = None, task: str | None = None, benchmark: str = "toy") -> Item:
    tags = {} if task is None else {"task": (task, "ignored")}
    return Item(id=id, benchmark=benchmark, kind="single_choice", question="?", tags=tags, pair_id=pair)


# components

groups = st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=4), max_size=12)


@given(groups, st.randoms(use_true_random=False))
def test_components_do_not_depend_on_order(given_groups: list[list[str]], random: object) -> None:
    shuffled = [random.sample(group, len(group)) for group in random.sample(given_groups, len(given_groups))]  # type: ignore[attr-defined]
    assert components(shuffled) == components(given_groups)


@given(groups)
def test_components_are_the_finest_partition_that_joins_the_groups(given_groups: list[list[str]]) -> None:
    found = components(given_groups)
    # By definition: grow each node's neighbourhood until nothing changes.
    for node in {member for group in given_groups for member in group}:
        reached = {node}
        while more := {m for group in given_groups if reached & set(group) for m in group} - reached:
            reached |= more
        assert {other for other, name in found.items() if name == found[node]} == reached
        assert found[node] == min(reached)
    assert found.keys() == {member for group in given_groups for member in group}


def test_components_of_mediconfusion() -> None:
    path = REFERENCE / "mediconfusion" / "dataset.json"
    if not path.exists():
        pytest.skip("the MediConfusion data set is not here")
    pairs = json.loads(path.read_text())
    found = components((pair["im_1"], pair["im_2"]) for pair in pairs.values())
    sizes = Counter(found[pair["im_1"]] for pair in pairs.values())
    assert len(sizes) == 60
    assert [size for _, size in sizes.most_common(3)] == [25, 20, 18]


def test_a_long_chain_is_one_component_in_no_time() -> None:
    start = time.process_time()
    found = components((f"{number:06}", f"{number + 1:06}") for number in reversed(range(50_000)))
    assert set(found.values()) == {"000000"}
    assert time.process_time() - start < 5


# stratified

task = st.sampled_from(["bone", "muscle", "counting", None])
single_items = st.lists(task, min_size=1, max_size=40).map(
    lambda tasks: [item(f"{number}", task=each) for number, each in enumerate(tasks)]
)
paired_items = st.lists(task, min_size=1, max_size=20).map(
    lambda tasks: [item(f"{n}/{k}", pair=f"{n}", task=each) for n, each in enumerate(tasks) for k in (1, 2)]
)
mixed_items = st.lists(st.tuples(st.sampled_from([1, 2]), st.booleans(), task), min_size=1, max_size=30).map(
    lambda units: [
        item(f"{n}/{k}", pair=f"{n}" if paired or size == 2 else None, task=each)
        for n, (size, paired, each) in enumerate(units)
        for k in range(1, size + 1)
    ]
)
limits = st.integers(1, 50)
seeds = st.integers(0, 3)


@given(mixed_items, limits, seeds)
def test_as_many_as_whole_pairs_allow(items: list[Item], limit: int, seed: int) -> None:
    drawn = stratified(items, limit, dimension="task", seed=seed)
    assert len(drawn) in {min(limit, len(items)), min(limit, len(items)) - 1}
    if len(drawn) < min(limit, len(items)):
        left = [each for each in items if each not in drawn]
        assert set(broken_pairs(left)) == set()
        assert all(each.pair_id is not None for each in left)


@given(mixed_items, limits, seeds)
def test_pairs_stay_whole_and_order_stays(items: list[Item], limit: int, seed: int) -> None:
    drawn = stratified(items, limit, dimension="task", seed=seed)
    pairs = {each.pair_id for each in drawn} - {None}
    assert drawn == [each for each in items if each in drawn]
    assert all(each in drawn for each in items if each.pair_id in pairs)


@given(mixed_items, limits, seeds, st.randoms(use_true_random=False))
def test_the_draw_does_not_depend_on_order(items: list[Item], limit: int, seed: int, random: object) -> None:
    shuffled = random.sample(items, len(items))  # type: ignore[attr-defined]
    drawn = stratified(items, limit, dimension="task", seed=seed)
    again = stratified(shuffled, limit, dimension="task", seed=seed)
    assert {each.id for each in again} == {each.id for each in drawn}


@given(single_items | paired_items, limits, limits, seeds)
def test_a_smaller_limit_is_a_part_of_a_larger_one(items: list[Item], one: int, other: int, seed: int) -> None:
    small, large = (stratified(items, limit, dimension="task", seed=seed) for limit in sorted((one, other)))
    assert {each.id for each in small} <= {each.id for each in large}


@given(single_items, limits, seeds)
@example([item(f"{n}", task="bone" if n % 4 else "muscle") for n in range(40)], 10, 0)
def test_no_stratum_is_better_served_than_another(items: list[Item], limit: int, seed: int) -> None:
    """Webster's criterion: giving one's last place to any other would not even out the shares."""
    size = Counter(each.tags.get("task", ("",))[0] for each in items)
    drawn = Counter(each.tags.get("task", ("",))[0] for each in stratified(items, limit, dimension="task", seed=seed))
    for rich in drawn:
        for poor in size:
            if drawn[poor] < size[poor]:
                assert (drawn[rich] - 0.5) / size[rich] <= (drawn[poor] + 0.5) / size[poor] + 1e-12


def test_shares_are_proportional() -> None:
    items = [item(f"{n}", task="bone" if n < 60 else "muscle" if n < 90 else None) for n in range(100)]
    drawn = stratified(items, 10, dimension="task")
    assert Counter(each.tags.get("task", ("",))[0] for each in drawn) == {"bone": 6, "muscle": 3, "": 1}


def test_seeds_differ_and_repeat() -> None:
    items = [item(f"{n}") for n in range(200)]
    draws = [tuple(each.id for each in stratified(items, 20, dimension=None, seed=seed)) for seed in (0, 1, 0)]
    assert draws[0] == draws[2] != draws[1]


def test_every_item_is_drawn_equally_often() -> None:
    items = [item(f"{n}", task="bone" if n < 15 else "muscle") for n in range(20)]
    draws = 2000
    times = Counter(each.id for seed in range(draws) for each in stratified(items, 4, dimension="task", seed=seed))
    # 4 of 20 is 400 draws each, standard deviation 18: five of these to either side.
    assert all(310 < times[each.id] < 490 for each in items)


def test_pair_ids_of_two_benchmarks_are_two_pairs() -> None:
    items = [item(f"{n}/{k}", pair=f"{n}", benchmark=name) for name in ("a", "b") for n in range(10) for k in (1, 2)]
    drawn = stratified(items, 4, dimension=None)
    assert len(drawn) == 4
    assert set(Counter((each.benchmark, each.pair_id) for each in drawn).values()) == {2}


def test_a_limit_of_one_does_not_split_a_pair() -> None:
    items = [item("1/1", "1"), item("1/2", "1")]
    assert stratified(items, 1, dimension=None) == []
    assert stratified([*items, item("2")], 1, dimension=None) == [item("2")]


def test_an_id_that_is_no_valid_unicode() -> None:
    assert len(stratified([item("\ud800"), item("b")], 1, dimension=None)) == 1


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_below_one(limit: int) -> None:
    with pytest.raises(UsageError, match=rf"--limit={limit}: at least 1 item is needed"):
        stratified([item("1")], limit, dimension=None)


def test_all_of_a_test_set_in_no_time() -> None:
    items = [item(f"{n}", task=f"task {n % 18}") for n in range(26_000)]
    start = time.process_time()
    assert len(stratified(items, 1000, dimension="task")) == 1000
    assert time.process_time() - start < 2


# broken pairs


@given(mixed_items, st.data())
def test_broken_pairs_law(items: list[Item], data: st.DataObject) -> None:
    kept = [each for each in items if data.draw(st.booleans())]
    found = broken_pairs(kept)
    assert list(found) == sorted(set(found))
    for pair in {each.pair_id for each in kept} - {None}:
        assert (pair in found) is ([each.pair_id for each in kept].count(pair) == 1)


def test_broken_pairs() -> None:
    items = [item("3/1", "3"), item("1/1", "1"), item("2/1", "2"), item("2/2", "2"), item("4")]
    assert broken_pairs(items) == ("1", "3")
    assert broken_pairs([item("1/1", "1", benchmark="a"), item("1/2", "1", benchmark="b")]) == ("1",)


# shares

linked = st.builds(
    Item,
    id=st.integers(0, 999).map(str),
    benchmark=st.sampled_from(("toy", "other")),
    kind=st.just("single_choice"),
    question=st.just("?"),
    images=st.lists(st.sampled_from("abcdefgh").map(Image), max_size=2).map(tuple),
    pair_id=st.none() | st.integers(0, 20).map(str),
    cluster_id=st.none() | st.integers(0, 20).map(str),
)
collections = st.lists(linked, max_size=60, unique_by=lambda item: (item.benchmark, item.id))


def joined(one: Item, other: Item) -> bool:
    """Whether two items must not be parted, by definition."""
    if one.benchmark != other.benchmark:
        return False
    together = [(one.pair_id, other.pair_id), (one.cluster_id, other.cluster_id)]
    return any(a is not None and a == b for a, b in together) or bool({*one.images} & {*other.images})


def sizes_of_components(items: list[Item]) -> list[int]:
    left, sizes = list(items), []
    while left:
        found = [left.pop()]
        for member in found:
            found += (near := [item for item in left if joined(member, item)])
            left = [item for item in left if item not in near]
        sizes.append(len(found))
    return sizes


@given(collections, st.integers(1, 6))
def test_shares_are_a_partition_in_order_that_parts_nobody(items: list[Item], count: int) -> None:
    shares = [share(items, Shard(number, count)) for number in range(1, count + 1)]
    place = {(item.benchmark, item.id): number for number, part in enumerate(shares) for item in part}
    assert sum(map(len, shares)) == len(place) == len(items)
    for part in shares:
        assert part == [item for item in items if item in part]
    for one in items:
        for other in items:
            if joined(one, other):
                assert place[one.benchmark, one.id] == place[other.benchmark, other.id]


@given(collections, st.integers(1, 6))
def test_shares_differ_by_at_most_the_largest_component(items: list[Item], count: int) -> None:
    for benchmark in ("toy", "other"):
        members = [item for item in items if item.benchmark == benchmark]
        sizes = [
            len([item for item in share(items, Shard(number, count)) if item.benchmark == benchmark])
            for number in range(1, count + 1)
        ]
        assert max(sizes) - min(sizes) <= max(sizes_of_components(members), default=0)


@given(collections, st.integers(1, 6), st.randoms(use_true_random=False))
def test_shares_do_not_depend_on_order_or_on_other_benchmarks(items: list[Item], count: int, random: object) -> None:
    shuffled = random.sample(items, len(items))  # type: ignore[attr-defined]
    toys = [item for item in items if item.benchmark == "toy"]
    for number in range(1, count + 1):
        drawn = share(items, Shard(number, count))
        assert {(i.benchmark, i.id) for i in share(shuffled, Shard(number, count))} == {
            (i.benchmark, i.id) for i in drawn
        }
        assert share(toys, Shard(number, count)) == [item for item in drawn if item.benchmark == "toy"]


def test_single_items_are_shared_out_evenly_and_always_the_same_way() -> None:
    items = [item(f"q{n}") for n in range(100)]
    assert [len(share(items, Shard(number, 8))) for number in range(1, 9)] == [13] * 4 + [12] * 4
    # Written down, so that a share of yesterday's run is the same today.
    assert [i.id for i in share(items[:12], Shard(2, 4))] == ["q4", "q5", "q11"]


def test_images_are_told_apart_by_their_bytes_where_these_are_known() -> None:
    def shown(id: str, name: str, digest: str) -> Item:
        return Item(id, "toy", "single_choice", "?", images=(Image(name, digest=digest),))

    same = [shown("q0", "one.png", "d1"), shown("q1", "copy.png", "d1")]
    other = [shown("q0", "one.png", "d1"), shown("q1", "one.png", "d2")]
    assert sorted(len(share(same, Shard(number, 2))) for number in (1, 2)) == [0, 2]
    assert sorted(len(share(other, Shard(number, 2))) for number in (1, 2)) == [1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0/8", "--shard=0/8: shards are numbered from 1 to their count, 1/8 to 8/8"),
        ("9/8", "--shard=9/8: shards are numbered"),
        ("1/0", "--shard=1/0: shards are numbered"),
        ("x", "--shard=x: a share is written NUMBER/COUNT, for instance --shard=2/8"),
        ("2", "--shard=2: a share is written"),
        ("-1/8", "--shard=-1/8: a share is written"),
        ("1/8/2", "--shard=1/8/2: a share is written"),
        ("²/8", "--shard=²/8: a share is written"),
    ],
)
def test_what_is_no_share_is_told(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        Shard.parse(text)


def test_a_share_is_read_as_it_is_written() -> None:
    assert Shard.parse("2/8") == Shard(2, 8)
    assert str(Shard(2, 8)) == "2/8"


@pytest.mark.slow
def test_sharing_out_130000_items_takes_no_time() -> None:
    items = [item(str(n), pair=str(n // 2)) for n in range(130_000)]
    start = time.process_time()
    drawn = share(items, Shard(3, 8))
    print(f"{1000 * (time.process_time() - start):.0f} ms")
    assert abs(len(drawn) - 130_000 / 8) <= 2


# halves


def clustered(id: str, pair: str | None, cluster: str | None, task: str | None) -> Item:
    return replace(item(id, pair, task), cluster_id=cluster)


clustered_items = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["a", "b", "c", None]), task), min_size=2, max_size=30
).map(
    lambda units: [
        clustered(f"{n}/{k}", f"{n}" if paired else None, cluster, each)
        for n, (paired, cluster, each) in enumerate(units)
        for k in ((1, 2) if paired else (1,))
    ]
)


@given(clustered_items, st.data(), seeds, st.booleans())
def test_halves_are_a_partition_that_keeps_what_belongs_together(
    items: list[Item], data: st.DataObject, seed: int, groups: bool
) -> None:
    size = data.draw(st.integers(1, len(items) - 1))
    train, test = halves(items, size, dimension="task", seed=seed, groups=groups)
    assert sorted(each.id for each in [*train, *test]) == sorted(each.id for each in items)
    assert len(train) <= size
    assert not {each.pair_id for each in train} & {each.pair_id for each in test} - {None}
    if groups:
        assert straddling(train, test) == []
        assert not {each.cluster_id for each in train} & {each.cluster_id for each in test} - {None}


@given(clustered_items, seeds, st.booleans(), st.randoms(use_true_random=False))
def test_halves_do_not_depend_on_order(items: list[Item], seed: int, groups: bool, random: object) -> None:
    shuffled = random.sample(items, len(items))  # type: ignore[attr-defined]
    size = max(1, len(items) // 2)
    one, other = (halves(each, size, dimension="task", seed=seed, groups=groups) for each in (items, shuffled))
    assert {each.id for each in one[0]} == {each.id for each in other[0]}


def test_halves_of_groups_have_their_share_of_each_value() -> None:
    """24 groups of 4 items in two tasks, 72 and 24 of them: half of each task on either side."""
    items = [clustered(f"{n}", None, f"{n // 4}", "bone" if n < 72 else "muscle") for n in range(96)]
    for seed in range(5):
        train, _ = halves(items, 48, dimension="task", seed=seed, groups=True)
        assert Counter(each.tags["task"][0] for each in train) == {"bone": 36, "muscle": 12}


def test_mediconfusion_divides_into_84_and_92_pairs() -> None:
    """As in its appendix D, whose seed is not published. Whole pairs alone share images across the parts."""
    if not (REFERENCE / "mediconfusion").is_dir():
        pytest.skip("the MediConfusion data set is not here")
    items = list(mediconfusion.items(REFERENCE))
    for groups, shared in ((False, True), (True, False)):
        train, test = halves(items, 168, dimension="category", groups=groups)
        assert (len(train), len(test)) == (168, 184)
        assert bool(straddling(train, test)) is shared
        assert broken_pairs(train) == broken_pairs(test) == ()
