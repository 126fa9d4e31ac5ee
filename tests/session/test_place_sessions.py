"""Runs of several processes over one shared store, in a folder: what one has answered, another does not ask."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.repositories import Repository

pytest.importorskip("obstore")
pytestmark = [pytest.mark.slow, pytest.mark.sessions]


def last_session(repository: Repository) -> dict[str, Any]:
    session: dict[str, Any] = json.loads((repository.folder("run") / "run.json").read_text())["sessions"][-1]
    return session


def test_another_folder_and_other_workers_ask_nothing(tmp_path: Path) -> None:
    one, two = Repository(tmp_path / "one"), Repository(tmp_path / "two")
    shared = ("--model=slow:0", "--run=run", f"--answers=file://{tmp_path}/store")
    code, output = one.run(*shared, "-n2")
    assert code == 0, output
    assert f"answers to slow are kept in file://{tmp_path}/store too" in output
    assert sum(one.asked.values()) == 40
    assert last_session(one)["unshared_answers"] == 0
    code, output = two.run(*shared)
    assert code == 0, output
    assert "40 stored ones reused, 0 asked for" in output
    assert not two.asked
    assert two.measures("run") == one.measures("run")
    # --fresh reads nothing there.
    code, output = two.run(*shared[::2], "--run=again", "--fresh")
    assert code == 0, output
    assert sum(two.asked.values()) == 40


def test_a_wrong_address_is_refused_without_its_key(tmp_path: Path) -> None:
    one = Repository(tmp_path / "one")
    code, output = one.run("--model=slow:0", "--answers=s3://key:hunter2@bucket/x")
    assert code == 4, output
    assert "keys are read from the environment alone" in output
    assert "hunter2" not in output
    assert not any(b"hunter2" in path.read_bytes() for path in one.path.rglob("*") if path.is_file())


def test_what_the_store_did_not_take_is_put_by_the_next_run(tmp_path: Path) -> None:
    one = Repository(tmp_path / "one")
    store = tmp_path / "store"
    store.mkdir()
    # The model's folder cannot be made there: what lies in its place is a file.
    shared = ("--model=slow:0", "--run=run", f"--answers=file://{store}")
    assert one.run(*shared, "-k", "q00000")[0] == 0
    (folder,) = filter(Path.is_dir, store.iterdir())
    moved = folder.rename(tmp_path / "moved")
    folder.write_text("")
    code, output = one.run(*shared)
    assert code == 0, output
    assert f"answers cannot be put into file://{store}: " in output
    assert f"40 answers are not in file://{store}. They are safe in" in output
    assert last_session(one)["unshared_answers"] == 40
    folder.unlink()
    moved.rename(folder)
    code, output = one.run(*shared)
    assert code == 0, output
    assert sum(one.asked.values()) == 40
    assert last_session(one)["unshared_answers"] == 0
    two = Repository(tmp_path / "two")
    assert two.run(*shared)[0] == 0
    assert not two.asked


def test_a_model_without_a_fingerprint_uses_no_answers_of_others_and_says_so(tmp_path: Path) -> None:
    one = Repository(tmp_path / "one")
    assert one.run("--model=echo:A", "--run=first")[0] == 0
    for source in ("first", "./place"):
        code, output = one.run("--model=echo:A", f"--answers={source}")
        assert code == 0, output
        assert (
            "'echo:A' has no fingerprint: answers are kept in the run folder alone, and none of another run is used"
        ) in output
