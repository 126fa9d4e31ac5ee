"""The set-up of a run as its page tells it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from medvqa import report
from medvqa.report.bundle import facts, method
from support import pages
from support.runs import record


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses())


def told(folder: Path) -> dict[str, dict[str, str]]:
    """The facts of a run by group and name."""
    blocks = method.method_section(report.build(folder, pages.PHANTOM), ()).blocks
    return {block.title: {fact.name: fact.value for fact in block.facts} for block in blocks if block.title}


def test_model_time_and_cost_are_told(run: Path) -> None:
    groups = told(run)
    assert groups["Model"] == {"Model": "guesser", "Fingerprint": "abc123"}
    assert groups["Machine and time"]["Started"] == "2026-01-02 03:04 UTC"
    assert groups["Machine and time"]["Took"] == "2 min 0 s, 2.56 answers a second"
    assert groups["Machine and time"]["Used"] == "12,345 tokens input, cost 1.25 by the prices of the config"
    assert groups["Asking"]["Technique"] == "mc (multiple choice, in words)"
    first, commands, *_ = method.method_section(report.build(run, pages.PHANTOM), ["pytest a", "pytest b"]).blocks
    assert first.lines[0].startswith("guesser · phantom-gmai-mmbench, phantom-mediconfusion")
    assert commands.verbatim == "pytest a\npytest b"


def test_digests_and_names_of_settings_are_told_in_full_and_folders_by_their_last_part(tmp_path: Path) -> None:
    digest = 4 * "0123456789abcdef"
    model = {
        "name": "tiny",
        "checkpoint": "/home/me/secret/tiny-1b",
        "digests": {"chat_template.jinja": digest},
        "settings": {"device": "cpu", "system": "/no_think", "raw": "", "processor": {}, "pixels": {"do_pad": True}},
        "options": {"adapter": "/home/me/secret/lora", "other": "C:\\Users\\me\\x", "devices": ["cuda:0", "cuda:1"]},
    }
    prompts = {"mc": "phantom/closed@1+phantom/open@1", "ps": "phantom/likelihood@1"}
    template = {"phantom/mine@1": {"text": "{question}\n", "then": "Why?"}}
    about = {"items": 3, "release": 36, "prompts": prompts, "data_sha256": digest, "templates": template}
    benchmarks = {"phantom-mediconfusion": {**about, "questions": {"mc": 3, "ps": 2}}}
    engine = {"batch_size": 8}
    folder = pages.write(tmp_path / "run", pages.guesses()[:1], model=model, benchmarks=benchmarks, engine=engine)
    groups = told(folder)
    assert groups["Model"] == {"Model": "tiny", "Checkpoint": "tiny-1b"}
    assert groups["Settings of the model"] == {"device": "cpu", "system": "/no_think", "pixels.do_pad": "yes"}
    assert groups["Options of the model"] == {"adapter": "lora", "other": "x", "devices": "cuda:0, cuda:1"}
    assert groups["Files of the model (SHA-256)"] == {"chat_template.jinja": digest}
    assert groups["Benchmark phantom-mediconfusion"] == {
        "Questions": "3 of 36 released, 2 for ps",
        "Data": f"SHA-256 {digest}",
        "Prompts": "mc: phantom/closed@1, phantom/open@1; ps: phantom/likelihood@1",
    }
    assert groups["Template phantom/mine@1"] == {"Text": "{question}\n", "Further turns": "Why?"}
    assert groups["Machine and time"]["Batch size"] == "8"
    assert "secret" not in json.dumps(groups)


def test_licences_are_those_of_the_declaration_or_of_the_shipped_benchmark(tmp_path: Path) -> None:
    benchmarks = {
        "phantom-gmai-mmbench": {"items": 1},
        "clinic": {
            "items": 2,
            "declared": {"licence": "ours", "language": "de", "file": "d/clinic.toml", "sha256": "0"},
        },
    }
    groups = told(pages.write(tmp_path / "run", pages.guesses()[:1], benchmarks=benchmarks))
    assert groups["Benchmark phantom-gmai-mmbench"] == {"Questions": "1", "Licence": "CC0 1.0"}
    assert groups["Benchmark clinic"]["Licence"] == "ours"
    assert groups["Benchmark clinic"]["Language"] == "de"
    assert groups["Benchmark clinic"]["Declaration"] == "clinic.toml, SHA-256 0"


@pytest.mark.parametrize(
    ("sessions", "took"),
    [
        ([(0, 60, 30), (3600, 3660, 90)], "2 min 0 s, 1 answers a second"),
        ([(0, 60, 30), (3600, 3602, 0)], "1 min 2 s, 0.484 answers a second"),
        ([(3600, 3602, 0)], "2 s"),
        ([(0, None, 2), (60, 120, 30)], "1 min 0 s, 0.5 answers a second; without 1 of its sessions, not ended"),
        ([(0, None, 2)], None),
        ([], "2 min 0 s, 2.56 answers a second"),
    ],
)
def test_a_run_took_as_long_as_its_sessions(
    tmp_path: Path, sessions: list[tuple[int, int | None, int]], took: str | None
) -> None:
    def at(seconds: int) -> str:
        return datetime.fromtimestamp(seconds, UTC).isoformat()

    of_run = [
        {"started": at(start), "asked": asked} | ({"finished": at(end)} if end is not None else {})
        for start, end, asked in sessions
    ]
    assert (
        told(pages.write(tmp_path / "first", pages.guesses(), sessions=of_run))["Machine and time"].get("Took") == took
    )


def test_the_command_asks_by_the_same_protocol() -> None:
    protocol = {"prompts": ["4-expert"], "combine": "vote", "rotations": None}
    run = {"options": {"model": "m"}, "repeat": 5, "protocol": {**protocol, "reasoning": "cot"}}
    assert facts.command(record(run)) == [
        *("pytest", "--model=m", "--prompt=4-expert", "--samples=5", "--combine=vote"),
        *("--reasoning=cot", "--rotate=all"),
    ]


def test_a_hostile_set_up_is_bounded(tmp_path: Path) -> None:
    deep: dict[str, object] = {"leaf": "value"}
    for _ in range(50):
        deep = {"inner": deep}
    model = {
        "name": pages.HOSTILE[1],
        "settings": {f"{k}": "x" for k in range(5000)} | {"n" * 5000: "y"},
        "options": {"long": "z" * 100_000, "deep": deep, "list": list(range(100_000))},
        "digests": "none",
    }
    folder = pages.write(tmp_path / "run", pages.guesses()[:1], model=model)
    built = report.build(folder, pages.PHANTOM)
    section = method.method_section(built, ())
    assert len(msgspec.json.encode(section)) < 50_000
    (settings,) = [block for block in section.blocks if block.title == "Settings of the model"]
    assert settings.facts[-1].value == "4,801 more, in run.json"
    (options,) = [block for block in section.blocks if block.title == "Options of the model"]
    assert options.facts[0].value.endswith("… (100,000 characters)")
