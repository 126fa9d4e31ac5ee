"""The pause of the search for reference cycles."""

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
