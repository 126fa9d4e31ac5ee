"""Settings of the project's own tests."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.pytester import SysModulesSnapshot

from support import processes

collect_ignore = ["kept"]
"""A suite that test_kept.py runs, which is none of this one."""

pytest_plugins = ["support.installed"]

# The fast tier tries a fifth of the examples of each law (support.laws), the slow tier all of them. In CI, hypothesis
# has loaded a profile of its own, whose settings both inherit. Pytest reads this file in every session that begins in
# the root with --pyargs, also where hypothesis is not installed.
with suppress(ModuleNotFoundError):
    from hypothesis import settings

    settings.register_profile("full", deadline=None)
    settings.register_profile("quick", deadline=None, max_examples=20)
    settings.load_profile("quick")


@pytest.fixture(scope="session", autouse=True)
def _data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests away from the key of baselines in the user's data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.delenv("MEDVQA_BASELINE_KEY", raising=False)
        yield


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the outer session set must not steer the inner ones."""
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pytester(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> pytest.Pytester:
    """Start the sessions that need processes of their own warm, if the test is not marked `cold`.

    A session within this process forgets only the modules of its folder: some packages cannot be imported twice.
    """

    folder = f"{pytester.path}{os.sep}"

    def is_kept(name: str) -> bool:
        return not str(getattr(sys.modules[name], "__file__", None)).startswith(folder)

    # This plugin leaves a socket open after each session within this process.
    pytester._monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:rerunfailures")
    snapshot = partial(SysModulesSnapshot, preserve=is_kept)
    pytester._sys_modules_snapshot = snapshot()
    pytester._Pytester__take_sys_modules_snapshot = snapshot  # type: ignore[attr-defined]
    if request.node.get_closest_marker("cold"):
        return pytester

    def popen(
        command: Sequence[str | os.PathLike[str]], stdin: object = pytester.CLOSE_STDIN, **how: Any
    ) -> processes.Popen:
        folders = filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")])
        process = processes.Popen(
            command, env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)}, stdin=subprocess.PIPE, **how
        )
        assert process.stdin is not None
        if isinstance(stdin, bytes):
            process.stdin.write(stdin)
        else:
            process.stdin.close()
        return process

    pytester.popen = popen  # type: ignore[method-assign]
    return pytester


OWN_LOGIC = {
    # Sessions.
    *("test_border.py", "test_classify.py", "test_docs.py", "test_help.py", "test_judge_sessions.py"),
    *("test_neighbours.py", "test_official.py", "test_open_questions.py", "test_printable.py", "test_private.py"),
    *("test_prompt_sessions.py", "test_reasoning_sessions.py", "test_repeat.py", "test_rescore.py", "test_rotate.py"),
    *("test_run_json.py", "test_samples.py", "test_shot_sessions.py", "test_sweep_sessions.py"),
    *("test_tagged_sessions.py", "test_what_was_run.py"),
    # Units, of text and of plain values.
    *("test_bundle_failing.py", "test_bundle_item.py", "test_bundle_slices.py", "test_bundle_verdict.py"),
    *("test_several_runs.py", "test_house.py", "test_lexicon.py", "test_papers.py"),
    *("test_prompts.py", "test_protocol.py", "test_scoring_cut.py", "test_scoring_extraction.py"),
    *("test_scoring_likelihoods.py", "test_sweep.py", "test_taxonomy.py"),
}
"""Test files that the environment `lowest` leaves out: tox.ini says why. Half of the time of all sessions."""


SECONDS = frozenset(Path(__file__).with_name("seconds.txt").read_text("utf-8").split())
"""Tests of which one case takes more than a second on two cores: `pytest --durations=400` printed them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run sessions, which take most of the time, and those that no version can break alone."""
    for item in items:
        if item.nodeid.partition("[")[0].removeprefix("tests/") in SECONDS:
            item.add_marker("seconds")
        if "pytester" in getattr(item, "fixturenames", ()):
            item.add_marker("sessions")
        if item.path.name in OWN_LOGIC:
            item.add_marker("own_logic")
