"""The protocol of a run, and the names of its variants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import DataError, UsageError, Variant
from medvqa.protocols.protocol import Protocol, check
from support.runs import record

PROTOCOLS = st.builds(
    Protocol,
    prompts=st.lists(st.text(min_size=1), max_size=3).map(tuple),
    samples=st.none() | st.integers(2, 100),
    combine=st.sampled_from(("mean", "vote")),
    shots=st.integers(0, 5),
    pool=st.text(),
    reasoning=st.sampled_from(("", "cot", "cot-2")),
    explain=st.booleans(),
    rotations=st.none() | st.integers(0, 26),
)


@given(PROTOCOLS)
def test_run_json_records_the_protocol(protocol: Protocol) -> None:
    assert record({"repeat": protocol.samples, "protocol": protocol.about()}).protocol == protocol


def test_the_default_protocol_adds_nothing_to_records() -> None:
    assert Protocol().about() == Protocol().signature() == {}
    assert record().protocol == Protocol()
    assert Protocol(samples=3).signature() == {"repeat": "3"}


def test_the_signature_holds_each_setting() -> None:
    protocol = Protocol(samples=10, combine="vote", rotations=None, shots=3)
    parts = {"repeat": "10", "combine": "vote", "rotations": "all", "shots": "3"}
    assert protocol.signature() == parts


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (Protocol(combine="vote"), "--combine=vote: it combines several answers; add --samples=N"),
        (Protocol(pool="pool.toml"), "--shot-pool=pool.toml: no solved examples are asked for; add --shots=N"),
        (Protocol(explain=True, reasoning="cot"), "--explain and --reasoning=cot: both say how to answer"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(protocol: Protocol, message: str) -> None:
    with pytest.raises(UsageError) as error:
        check(protocol)
    assert str(error.value).startswith(message)


@given(st.builds(Variant, st.sampled_from(("", "short", "4-expert", "r2d2")), st.none() | st.integers(0, 25)))
def test_a_variant_is_read_from_its_name(variant: Variant) -> None:
    assert Variant.parse(variant.name) == variant


def test_a_variant_with_a_bad_rotation_is_refused() -> None:
    assert Variant("short", 0).name == "short+r1"
    with pytest.raises(DataError, match=r"variant 'short\+r0': its last part is no rotation"):
        Variant.parse("short+r0")


@pytest.mark.parametrize(
    ("protocol", "label"),
    [
        (Protocol(), ""),
        (Protocol(prompts=("4-expert",)), "prompt 4-expert"),
        (Protocol(prompts=("default",)), ""),
        (Protocol(prompts=("all",)), ""),
        (Protocol(prompts=("1-short", "4-expert"), reasoning="cot"), "cot"),
        (Protocol(shots=1, pool="med-flamingo"), "1 shot from med-flamingo"),
        (Protocol(shots=3), "3 shots"),
        (Protocol(explain=True), "explain"),
    ],
)
def test_a_label_names_how_questions_are_asked(protocol: Protocol, label: str) -> None:
    assert protocol.label == label
