"""The record of a run: fields that nobody knows are kept, files of other versions are read or refused with a line."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kept import drawing
from medvqa.items import UsageError
from medvqa.protocols.protocol import Protocol
from medvqa.records import run_record
from medvqa.records.run_record import (
    DEEPEST,
    RUN,
    SCHEMA,
    MergedPart,
    Portion,
    RecordedBenchmark,
    RecordedSession,
    RecordError,
    RunRecord,
)
from support.runs import record
from tools import schemas

ROOT = Path(__file__).parents[2]
ODD: dict[str, Any] = {
    "later": [1, {"x": None}],
    "name": "first",
    "model": {"checkpoint": "x/y", "name": "m", "fingerprint": None},
    "repeat": None,
    "benchmarks": {"slake": {"later": 1, "items": 3, "declared": {"later": 2, "file": "a.toml", "yes": []}}},
    "sessions": [{"later": {"a": 1}, "asked": 3}],
    "protocol": {"shots": 3, "later": True},
}


def test_what_is_read_is_written_as_it_was_with_unknown_fields_and_in_its_order() -> None:
    assert json.dumps(record(ODD).as_json()) == json.dumps(ODD)
    assert record(ODD).unknown == {"later": [1, {"x": None}]}
    assert record(ODD).benchmarks["slake"].unknown == {"later": 1}


def test_a_changed_record_keeps_the_fields_that_nobody_knows() -> None:
    run = record(ODD)
    benchmark = structs.replace(run.benchmarks["slake"], items=4)
    changed = structs.replace(run, name="second", rescoring=True, benchmarks={"slake": benchmark}).as_json()
    wanted = {**ODD, "name": "second", "rescoring": True}
    wanted["benchmarks"] = {"slake": {**ODD["benchmarks"]["slake"], "items": 4}}
    assert changed == wanted
    assert list(changed) == [*ODD, "rescoring"]
    back = structs.replace(record(changed), rescoring=False)
    assert "rescoring" not in back.as_json(), "a default that no file asks for is left out"


def test_a_declared_benchmark_keeps_its_unknown_fields_when_it_changes() -> None:
    run = record(ODD)
    declared = run.benchmarks["slake"].declared
    assert declared is not None
    changed = structs.replace(run.benchmarks["slake"], declared=structs.replace(declared, file="b.toml"))
    assert changed.as_json()["declared"] == {"later": 2, "file": "b.toml"}


@pytest.mark.parametrize("run", sorted(path.name for path in drawing.RUNS.iterdir()))
def test_kept_runs_are_written_as_they_were(run: str, tmp_path: Path) -> None:
    read = run_record.read_run(drawing.RUNS / run)
    run_record.write_run(tmp_path, structs.replace(read, kind="run"))
    assert (tmp_path / RUN).read_bytes() == (drawing.RUNS / run / RUN).read_bytes()


def test_records_are_equal_by_their_fields() -> None:
    assert record(ODD) == record(ODD)
    assert record(ODD) != record({**ODD, "later": []})
    assert record(repeat=None) == record(), "a default that is written is no difference"
    assert RecordedBenchmark() != RecordedSession()


# --- other versions -------------------------------------------------------------------------------------------------


def test_a_file_of_an_earlier_version_has_defaults() -> None:
    old = record()
    assert (old.schema, old.kind, old.selection, old.judge) == (1, "run", None, None)
    assert old.benchmark("slake").max_tokens is None, "not recorded"
    assert old.benchmark("slake").judged_by is None
    assert old.protocol == Protocol()
    assert old.model_name == "unknown"
    assert old.selected.benchmarks == {}


@pytest.mark.parametrize(
    ("merged", "kind"), [([], "run"), ([{"name": "a"}], "merged"), ([{"name": "a", "samples": {"0": 1}}], "combined")]
)
def test_the_kind_of_an_earlier_run_is_told_by_its_parts(merged: list[dict[str, Any]], kind: str) -> None:
    assert record(merged=merged).kind == kind
    assert record(merged=merged, schema=SCHEMA, kind="run").kind == "run", "a file of today says it itself"


def test_a_later_schema_is_refused_with_what_to_type(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text(json.dumps({"schema": SCHEMA + 1, "benchmarks": "of another shape"}))
    with pytest.raises(UsageError) as refused:
        run_record.read_run(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / RUN}: field schema: a later version wrote schema {SCHEMA + 1} and this one reads "
        f"{SCHEMA}: pip install --upgrade pytest-medvqa"
    )


def test_an_oracle_of_an_earlier_version_is_a_run_of_samples() -> None:
    asked = {"combine": "best-oracle", "thresholds": [1.0, 50.0], "shots": 2}
    signed = {"data": "1f", "combine": "best-oracle", "thresholds": "1,50", "repeat": "3"}
    old = record(repeat=3, protocol=asked, benchmarks={"slake": {"signature": signed}})
    assert old.protocol == Protocol(samples=3, shots=2)
    assert old.as_json()["protocol"] == {"shots": 2}
    assert old.as_json()["benchmarks"]["slake"]["signature"] == {"data": "1f", "repeat": "3"}
    voted = record(protocol={"combine": "vote"}, benchmarks={"slake": {"signature": {"combine": "vote"}}})
    assert (voted.protocol.combine, voted.benchmark("slake").signature) == ("vote", {"combine": "vote"})


def test_a_run_whose_model_chose_its_answer_is_refused_with_what_to_type(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text(json.dumps({"schema": SCHEMA, "repeat": 3, "protocol": {"combine": "best-self"}}))
    with pytest.raises(UsageError) as refused:
        run_record.read_run(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / RUN}: field protocol.combine: an earlier version let the model choose among its answers "
        "(best-self), and this one does not: ask again with --samples=N in a run of another name; "
        "papers/mediconfusion_table_9.py lets it choose"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"kind": "swarm"}, "field kind: expected run, merged or combined, got 'swarm'"),
        ({"schema": "2"}, "field schema: expected `int`, got `str`"),
        ({"schema": True}, "field schema: expected `int`, got `bool`"),
        ({"schema": 10**40}, "field schema: a later version wrote schema 1"),
        ({"benchmarks": {"a": {}, "b": {"items": -1}}}, "field benchmarks.b.items: expected `int` >= 0"),
        ({"wrong_costs": -1}, "field wrong_costs: expected `float` > 0.0"),
        ({"protocol": {"shots": "3"}}, "field protocol.shots: expected `int`, got `str`"),
        ({"sessions": [{}, {"options": {"fresh": 1}}]}, "field sessions[1].options.fresh: expected `bool`, got `int`"),
    ],
)
def test_what_is_no_record_is_one_line(content: dict[str, Any], why: str) -> None:
    with pytest.raises(RecordError) as refused:
        record(content)
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("depth", [DEEPEST, 300])
def test_parts_inside_each_other_without_end_are_one_line(tmp_path: Path, depth: int) -> None:
    part = '{"name": "a", "merged": ['
    (tmp_path / RUN).write_text('{"merged": [' + part * depth + "]}" * depth + "]}")
    with pytest.raises(UsageError, match=r"run\.json: .*nested .*move the file away"):
        run_record.read_run(tmp_path)


def test_values_of_any_type_may_be_deep(tmp_path: Path) -> None:
    deep = "[" * 200 + "]" * 200
    (tmp_path / RUN).write_text('{"config": {"options": {"x": ' + deep + "}}}")
    read = run_record.read_run(tmp_path)
    run_record.write_run(tmp_path, read)
    assert run_record.read_run(tmp_path) == read


# --- parts ----------------------------------------------------------------------------------------------------------


def test_a_new_part_has_the_fields_that_are_always_there() -> None:
    assert MergedPart(name="a").as_json() == {"name": "a", "shard": None}
    assert Portion(3, 9).as_json() == {"chosen": 3, "of": 9}
    assert list(RunRecord(name="a").as_json())[:3] == ["name", "started", "model"]


def test_a_killed_session_is_one_that_nobody_counted() -> None:
    assert record(sessions=[{"asked": 3}]).sessions[0].killed
    assert not record(sessions=[{"asked": 3, "usage": {}}]).sessions[0].killed
    assert not record(sessions=[{"finished": "x"}]).sessions[0].killed


def test_a_run_under_another_protocol_says_so_in_its_signatures() -> None:
    run = record(
        repeat=5,
        protocol={"combine": "vote"},
        benchmarks={"slake": {"signature": {"data": "1", "combine": "vote", "repeat": "5"}}},
    )
    alone = run.under(Protocol())
    assert alone.protocol == Protocol()
    assert alone.benchmarks["slake"].signature == {"data": "1"}
    assert "protocol" not in alone.as_json()


# --- the published schemas ------------------------------------------------------------------------------------------


@pytest.mark.own_logic  # Another version of msgspec writes the same schema otherwise.
def test_the_published_schemas_are_those_of_the_types() -> None:
    for name, content in schemas.schemas().items():
        assert (ROOT / "docs/schemas" / name).read_bytes() == content, "type python tools/schemas.py"


def test_a_schema_names_the_fields_of_the_files() -> None:
    published = json.loads(schemas.schemas()["run.json"])
    described = published["$defs"]["RunRecord"]["properties"]
    written = json.loads((drawing.RUNS / "judged/run.json").read_text())
    assert written.keys() <= described.keys()
    assert not [name for name in json.dumps(published).split('"') if "as stored" in name]
    line = json.loads((drawing.RUNS / "judged/results.jsonl").read_text().splitlines()[0])
    assert line.keys() <= json.loads(schemas.schemas()["result.json"])["$defs"]["Result"]["properties"].keys()
