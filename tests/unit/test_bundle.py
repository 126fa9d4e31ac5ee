"""The format of bundles: columns, and its declaration in TypeScript."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.report.bundle import columns
from support.laws import examples

RANGES = {"u8": (0, 2**8 - 1), "u16": (0, 2**16 - 1), "u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1)}


@given(
    st.lists(
        st.sampled_from(sorted(RANGES)).flatmap(lambda t: st.tuples(st.just(t), st.lists(st.integers(*RANGES[t]))))
    )
)
@examples(100)
def test_columns_are_read_as_they_were_written(typed: list[tuple[columns.ColumnType, list[int]]]) -> None:
    made = columns.TypedArrays()
    for place, (type, values) in enumerate(typed):
        made.add(str(place), type, values)
    assert [list(columns.read(made.block, head)) for head in made.heads] == [values for _, values in typed]
    assert all(head.start % columns.ALIGNED == 0 for head in made.heads)


def test_columns_are_little_endian_and_within_their_range() -> None:
    made = columns.TypedArrays()
    made.add("pairs", "u16", [258])
    assert struct.unpack("<H", made.block) == (258,)
    with pytest.raises(OverflowError):
        made.add("small", "u8", [256])
