"""The records that travel."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import Answer, Item, Prompt, Query, Variant, replace
from medvqa.protocols.prompts import Template

ITEM = Item("q1", "slake", "single_choice", "Which?", {"A": "liver"}, ("A",))
RECORDS = (
    ITEM,
    Answer("A", {"A": -0.5}),
    Prompt("Which?"),
    Query(ITEM),
    Variant("short", 2),
    Template("a/b", "{question}"),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
@given(st.data())
def test_replace_is_that_of_dataclasses(record: Any, data: st.DataObject) -> None:
    """Also where a field is computed, such as the name of a variant."""
    names = [field.name for field in dataclasses.fields(record) if field.init]
    changed = data.draw(st.sets(st.sampled_from(names)))
    changes = {name: getattr(record, name) for name in changed}
    assert replace(record, **changes) == dataclasses.replace(record, **changes) == record


def test_replace_changes_fields_and_refuses_others() -> None:
    variant = replace(Variant("short", 2), rotation=0)
    assert (variant, variant.name) == (Variant("short", 0), "short+r1")
    with pytest.raises(TypeError, match="texts"):
        replace(Answer("A"), texts="B")  # type: ignore[call-arg]
