"""The folders that ship are found, and a broken installation says so."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import folders, origins
from medvqa.items import DataError, Origin, UsageError
from medvqa.session.options import Options, data_folder
from medvqa.session.registry import Registry

KNOWN = Registry.of().benchmarks
PHANTOM = ["phantom-gmai-mmbench", "phantom-mediconfusion", "phantom-medlesionvqa"]


@pytest.mark.parametrize(
    ("name", "file"),
    [("benchmark_tests", "test_phantom.py"), ("models", "random.toml"), ("fixtures", "phantom")],
)
def test_a_bundled_folder_is_found(name: str, file: str) -> None:
    assert (folders.bundled(name) / file).exists()


def test_the_wheels_copy_comes_before_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src/medvqa/suite"
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "src/medvqa/benchmarks/folders.py"))
    (tmp_path / "models").mkdir()
    assert folders.bundled("models") == tmp_path / "models"
    (package / "models").mkdir(parents=True)
    assert folders.bundled("models") == package / "models"


def test_a_missing_folder_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "lib/site-packages/medvqa/benchmarks/folders.py"))
    with pytest.raises(UsageError, match="the folder 'models' of pytest-medvqa is missing"):
        folders.bundled("models")


# --- the data folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, with a home folder in it."""
    for name in ("MEDVQA_DATA", "LMUData"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "here/home"))
    return tmp_path / "here"


def put(here: Path, *names: str) -> None:
    for name in names:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("{}")


def chosen(data: str | None, *names: str) -> list[str]:
    folder, typed = data_folder(data, Path.cwd())
    return [each.name for each in benchmarks.choose(names, KNOWN, folder, typed)]


def refusal(data: str | None, *names: str) -> str:
    with pytest.raises(UsageError) as raised:
        chosen(data, *names)
    return str(raised.value)


def test_a_data_folder_in_which_nothing_is_found_says_what_was_looked_for(here: Path) -> None:
    put(here, "tables/MMMU_DEV_VAL.tsv", "tables/notes/x")
    said = refusal("tables")
    assert said.startswith(
        "--data=tables: no benchmark is found there; it holds MMMU_DEV_VAL.tsv, notes/. Looked for\n"
    )
    for name in ("gmai-mmbench-test", "gmai-mmbench-val", "mediconfusion", "medlesionvqa-test", "medlesionvqa-val"):
        assert f"\n  {name}: {here}/tables/{name.rpartition('-')[0] or name}/" in said
    assert said.endswith("The phantom needs no data: --benchmark=phantom")
    assert chosen("tables", "phantom") == PHANTOM
    assert chosen(None) == PHANTOM


def test_the_variable_is_named_where_it_was_used(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "empty").mkdir()
    monkeypatch.setenv("MEDVQA_DATA", "empty")
    assert refusal(None).startswith("MEDVQA_DATA=empty: no benchmark is found there; it is empty.")
    monkeypatch.setenv("MEDVQA_DATA", "")
    assert chosen(None) == PHANTOM


@pytest.mark.parametrize(
    ("right", "typed", "near"),
    [
        ("wrong/data", "wrong", "wrong/data"),
        ("wrong/my data", "wrong", "'wrong/my data'"),
        ("right", "right/mediconfusion", "right"),
        ("right", "right/mediconfusion/dataset.json", "right"),
        (".", "other", "."),
    ],
)
def test_a_folder_one_level_off_is_named(here: Path, right: str, typed: str, near: str) -> None:
    put(here, f"{right}/mediconfusion/dataset.json", "other/x")
    advice = f"Try --data={near}, where mediconfusion is found"
    assert advice in refusal(typed)
    assert advice in refusal(typed, "mediconfusion")
    if near[0] not in "'.":
        assert f"Try --data={here / near}, where" in refusal(str(here / typed))


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("nosuch", "no such folder"),
        ("file", "a file; name the folder around it"),
        ("fifo", "a file; name the folder around it"),
        ("loop", "no such folder"),
        ("dangling", "no such folder"),
        ("x" * 5000, "no such folder"),
        ("~nobody/x", "no such folder"),
    ],
)
def test_what_is_no_folder(here: Path, typed: str, why: str) -> None:
    put(here, "file")
    os.mkfifo(here / "fifo")
    (here / "loop").symlink_to("loop")
    (here / "dangling").symlink_to("nothing")
    said = refusal(typed)
    assert said == f"--data={typed}"[:500] + f": {why}"


def test_what_is_shown_is_printable(here: Path) -> None:
    put(here, "a\n::error::b/\x1b[31mred\r", *(f"many/{n:03}" for n in range(300)))
    said = refusal("a\n::error::b")
    assert {c for c in said if not c.isprintable()} == {"\n"}
    assert not re.search("^ *::", said, re.MULTILINE)
    assert "it holds 000, 001, 002, 003, 004, 005, 006, 007 and 292 more" in refusal("many")


def test_a_folder_that_cannot_be_read_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root reads everything, the refusal is the reader's own."""

    def refuse(data: Path) -> list[Path]:
        raise PermissionError(13, "Permission denied")

    known = {"mediconfusion": replace(KNOWN["mediconfusion"], origin=Origin(find=refuse))}
    with pytest.raises(DataError, match=r"here: cannot be read: Permission denied"):
        benchmarks.choose((), known, here)


def test_a_link_to_a_data_folder_is_one(here: Path) -> None:
    put(here, "right/mediconfusion/dataset.json")
    (here / "link").symlink_to("right")
    assert chosen("link") == chosen("right") == chosen(str(here / "link/")) == ["mediconfusion"]


@pytest.mark.parametrize(
    ("name", "meant"), [("mediconfuson", "mediconfusion"), ("GMAI-MMBench", "gmai-mmbench"), ("lesion", "medlesionvqa")]
)
def test_a_benchmark_of_a_similar_name_is_suggested(here: Path, name: str, meant: str) -> None:
    assert refusal(None, name) == f"no benchmark '{name}'. Did you mean '{meant}'?"


def test_no_benchmark_is_called_by_an_empty_name(here: Path) -> None:
    assert "no benchmark ''; known: " in refusal(None, "")


def test_values_that_are_empty_are_noted() -> None:
    given = {"benchmark": ["a,b", "b, c"], "model": "", "data": "", "technique": ["mc,"], "baseline": [""]}
    made = Options.of(given, Path("/here"))
    assert made.benchmarks == ("a", "b", "c")
    assert made.empty == ("model", "data", "technique", "baseline")
    assert Options.of({"benchmark": ["a,,b"]}, Path("/here")).empty == ("benchmark",)


def test_a_home_folder_is_expanded_wherever_a_path_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    given = {
        "data": "~/d",
        "answers": ["~/a", "first", "b/c"],
        "baseline": ["~/b", "c"],
        "judge-prompt": ["score:~/p.txt"],
    }
    made = Options.of(given, Path("/here"))
    assert (made.data, made.answers) == (Path("/home/me/d"), ("/home/me/a", "first", "/here/b/c"))
    assert made.baselines == ("/home/me/b", "c")
    assert made.judge_prompts == ("score:/home/me/p.txt",)


# --- VLMEvalKit's folder


def test_the_folder_of_another_tool_is_read_if_a_benchmark_of_it_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here, "home/LMUData/GMAI-MMBench_VAL.tsv", "home/LMUData/MMMU_DEV_VAL.tsv", "empty/x")
    assert chosen(None) == PHANTOM, "nobody asked for a table of 9 GB"
    assert chosen(None, "gmai-mmbench") == ["gmai-mmbench-val"]
    val = KNOWN["gmai-mmbench-val"]
    assert benchmarks.folder_of(val, None) == here / "home/LMUData"
    assert [path.name for path in origins.files_of(val, here / "home/LMUData")] == ["GMAI-MMBench_VAL.tsv"]
    assert chosen("~/LMUData") == ["gmai-mmbench-val"]
    advice = f"Try --data={here}/home/LMUData, where gmai-mmbench-val is found"
    assert advice in refusal("empty", "gmai-mmbench-val"), "a folder that was named is the only one"
    monkeypatch.setenv("LMUData", str(here / "nosuch"))
    assert folders.lmu_data() == here / "home/LMUData"
    put(here, "mine/GMAI_mm_bench_TEST_part_1.tsv")
    monkeypatch.setenv("LMUData", str(here / "mine"))
    assert folders.lmu_data() == here / "mine"
    assert chosen(None, "gmai-mmbench") == ["gmai-mmbench-test"]


def test_a_copy_of_a_table_without_images_is_left_out(here: Path) -> None:
    val = KNOWN["gmai-mmbench-val"]
    put(here, "d/gmai-mmbench/GMAI-MMBench_VAL_local.tsv")
    (here / "d/gmai-mmbench/GMAI-MMBench_VAL_local.tsv").write_text("index\timage_path\n1\ta.jpg\n")
    with pytest.raises(DataError, match=r"_local\.tsv: VLMEvalKit's copy without images; put GMAI-MMBench_VAL\.tsv,"):
        benchmarks.load(val, here / "d")
    put(here, "d/gmai-mmbench/GMAI-MMBench_VAL.tsv")
    assert [path.name for path in origins.files_of(val, here / "d")] == ["GMAI-MMBench_VAL.tsv"]
    # One that stands alone, with images, is a table like any other.
    (here / "d/gmai-mmbench/own_val_local.tsv").write_text("index\timage\n")
    assert len(origins.files_of(val, here / "d")) == 2


def test_a_folder_of_a_known_name_of_which_nothing_is_read_is_told(here: Path) -> None:
    put(here, "data/mediconfusion/dataset.json", "data/gmai-mmbench/GMAI-MMBench_VALIDATION.tsv", "data/other/x")
    found = chosen("data")
    assert found == ["mediconfusion"]
    assert benchmarks.unread(found, KNOWN, here / "data") == [
        f"medvqa: gmai-mmbench is not evaluated: {here}/data/gmai-mmbench is there, and nothing in it is read: looked "
        "for gmai-mmbench/*.tsv with the word TEST in its name or GMAI_mm_bench_TEST_part_1.tsv to _11.tsv or "
        "gmai-mmbench/*.tsv with the word VAL in its name or GMAI-MMBench_VAL.tsv; it holds "
        "GMAI-MMBench_VALIDATION.tsv"
    ]
