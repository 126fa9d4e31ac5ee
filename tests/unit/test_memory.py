"""The pause of the search for reference cycles, and pools of equal values."""

from __future__ import annotations

import gc

import pytest

from medvqa import memory


def test_the_search_for_cycles_goes_on_after_the_pause():
    @memory.no_cycle_search()
    def paused(error: bool) -> bool:
        with memory.no_cycle_search():
            pass
        if error:
            raise ValueError
        return not gc.isenabled()

    assert paused(False)
    assert gc.isenabled()
    with pytest.raises(ValueError):
        paused(True)
    assert gc.isenabled()


def test_a_switched_off_search_stays_off():
    gc.disable()
    try:
        with memory.no_cycle_search():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_pool_takes_no_text_of_a_stranger_for_a_mapping() -> None:
    pool = memory.EqualValues()
    for value in ((), ("{'a': 1}",), (("a", ("b",)),)):
        assert pool.hold(value, value) == value
    assert pool.tags({}) == {}
    assert pool.mapping({"a": 1}) == {"a": 1}
    assert pool.tags({"a": ("b",)}) == {"a": ("b",)}


def test_a_full_pool_holds_no_more_and_returns_what_it_holds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "MOST", 2)
    pool, text = memory.EqualValues(), "".join(["li", "ver"])
    assert pool.one(text) is text
    tags = {"organ": ("liver",)}
    for each in (pool.tags(tags), pool.tags(dict(tags)), pool.mapping({"a": 1}), pool.mapping({"a": 1})):
        assert each in (tags, {"a": 1})
    assert pool.one("".join(["li", "ver"])) is text
    assert len(pool._values) <= 4
