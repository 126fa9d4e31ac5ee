"""Places on GPUs: one for each process that makes the model, none held twice, a dead worker's given on."""

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdist.plugin import pytest_xdist_auto_num_workers

from medvqa.backends.hf import HF
from medvqa.items import UsageError
from medvqa.session.places import Leases
from support.strangers import CONFTEST, TEST

PLACED = '''

import fcntl
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from medvqa.items import UsageError

HERE = Path(__file__).parent
TOLD = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
SEEN = []


def pytest_configure(config):
    SEEN.append(os.environ.get("CUDA_VISIBLE_DEVICES", "none"))


@dataclass(frozen=True)
class Options:
    places: tuple[str, ...] | None = ("0", "1", "2")
    size: int | None = None


class Placed(Majority):
    """Answers where it runs; dies at the argument's number of a prompt, once. No two live ones share a place."""

    Options = Options

    title = "placed"

    def load(self):
        self._place = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
        if self.options.places is not None:
            # Held for as long as the process lives.
            self._lock = open(HERE / f"{self._place}.lock", "w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.environ.get("PYTEST_XDIST_WORKER") == "gw2":
            (HERE / "back").touch()

    def places(self):
        assert self.argument != "unready"
        return self.options.places

    def check(self):
        if self.argument == "unready":
            raise UsageError("not installed")

    def size(self):
        return self.options.size

    def memory(self, place):
        return None if "9" in place else 1_000_000_000 * (1 + len(place))

    def about(self):
        return {"place": self._place}

    def generate(self, prompts):
        if prompts[0].item == self.argument and not (HERE / "died").exists():
            (HERE / "died").write_text(self._place)
            os.kill(os.getpid(), signal.SIGKILL)
        while (HERE / "died").exists() and not (HERE / "back").exists():
            time.sleep(0.01)  # leaves some tests to the worker that comes
        worker = os.environ.get("PYTEST_XDIST_WORKER", "serial")
        return [Answer(f"{self._place} {worker} {SEEN[0]}") for _ in prompts]


def pytest_medvqa_backends():
    return [Placed, Majority]
'''
COMMON = ("--benchmark=slake", "--batch-size=1", "-p", "no:randomly", "-p", "no:benchmark")


@pytest.fixture(autouse=True)
def _environment(outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "PYTEST_XDIST_AUTO_NUM_WORKERS"):
        monkeypatch.delenv(name, raising=False)


def session(
    pytester: pytest.Pytester,
    *arguments: str,
    places: Sequence[str] | None = ("0", "1"),
    size: int = 0,
    plugins: Sequence[object] = (),
) -> pytest.RunResult:
    """A session of a stranger's repository whose model says how large it is, and that it can run in these places."""
    # TOML has no null: that a model takes no place is the default of its options.
    pytester.makeconftest(
        CONFTEST + PLACED.replace('= ("0", "1", "2")', "= None") if places is None else CONFTEST + PLACED
    )
    pytester.makepyfile(test_slake=TEST)
    (pytester.path / "models").mkdir(exist_ok=True)
    options = "" if places is None else f"places = {json.dumps(list(places))}"
    (pytester.path / "models/mine.toml").write_text(f'backend = "placed"\n[options]\nsize = {size}\n{options}')
    if "-n2" in arguments or ("--collect-only" not in arguments and "-nauto" in arguments):
        return pytester.runpytest_subprocess(*COMMON, *arguments)  # its workers start warm
    return pytester.runpytest_inprocess(*COMMON, *arguments, plugins=plugins)


def where(pytester: pytest.Pytester) -> dict[str, set[str]]:
    """The workers that answered, and the places where each of them did."""
    (folder,) = (path for path in (pytester.path / "reports").iterdir() if path.is_dir())
    found = defaultdict(set)
    for line in (folder / "results.jsonl").read_text().splitlines():
        place, worker, seen = json.loads(line)["answer"]["text"].split()
        assert seen == place or worker == "serial", "a worker has its place before anybody is configured"
        found[worker].add(place)
    return dict(found)


def errors(result: pytest.RunResult) -> list[str]:
    return [line for line in result.errlines if line.startswith("ERROR: ")]


def about(pytester: pytest.Pytester) -> dict[str, Any]:
    (folder,) = (path for path in (pytester.path / "reports").iterdir() if path.is_dir())
    told: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return told


def test_each_worker_has_a_place_of_its_own_of_those_that_are_large_enough(pytester: pytest.Pytester) -> None:
    result = session(pytester, "--model=mine", "-nauto", places=("0", "2,3", "9"), size=3_000_000_000)
    assert result.ret == 0, result.stdout.str()
    assert where(pytester) == {"gw0": {"2,3"}, "gw1": {"9"}}


def test_serially_it_is_the_first_place(pytester: pytest.Pytester) -> None:
    result = session(pytester, "--model=mine")
    assert result.ret == 0, result.stdout.str()
    assert where(pytester) == {"serial": {"0"}}
    assert about(pytester)["model"]["place"] == "0"


@pytest.mark.parametrize("spread", [(), pytest.param(("-n2",), marks=pytest.mark.slow)])
def test_a_model_on_the_cpu_takes_none(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = session(pytester, "--model=mine", *spread, places=None)
    assert result.ret == 0, result.stdout.str()
    assert set.union(*where(pytester).values()) == {"none"}


@pytest.mark.parametrize("item", [pytest.param("q00", marks=pytest.mark.slow), "q13"])
def test_the_worker_that_replaces_a_dead_one_gets_its_place(pytester: pytest.Pytester, item: str) -> None:
    # Fewer workers than places: the third place stays free.
    result = session(pytester, f"--model=placed:{item}", "-n2")
    assert result.ret == 0, result.stdout.str()
    assert "replacing crashed worker gw" in result.stdout.str()
    found = where(pytester)
    assert found["gw2"] == {(pytester.path / "died").read_text()}
    assert {len(places) for places in found.values()} == {1}
    assert set.union(*found.values()) == {"0", "1"}
    # Those that lived side by side had places of their own: each model holds a lock on its place.
    assert "BlockingIOError" not in result.stdout.str()


def test_more_workers_than_places_is_one_line_before_anything_loads(pytester: pytest.Pytester) -> None:
    result = session(pytester, "--model=mine", "-n8")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert errors(result) == [
        "ERROR: -n 8, and 'mine' finds GPUs for 2 copies (CUDA_VISIBLE_DEVICES=0 and 1): "
        "type -n 2, or choose a model that runs on the CPU"
    ]
    assert "collected" not in result.stdout.str()
    assert not (pytester.path / "reports").exists()


def test_workers_counted_another_way_run_out_of_places_with_the_same_line(pytester: pytest.Pytester) -> None:
    result = session(pytester, "--model=mine", "--dist=load", "--tx=3*popen")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = errors(result)
    assert line.startswith("ERROR: -n 3, and 'mine' finds GPUs for 2 copies")


@pytest.mark.parametrize("spread", [(), ("-n1",), ("-nauto",)])
def test_a_model_that_fits_nowhere_is_one_line(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = session(pytester, "--model=mine", *spread, places=("0", "1,2"), size=5_600_000_000)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert errors(result) == [
        "ERROR: 'mine' has 5.6 GB of weights, and the largest place on the GPUs here 4.0 GB: "
        "spread a copy over several, or choose a smaller model or one on the CPU"
    ]


def test_a_model_that_takes_more_gpus_than_there_are(pytester: pytest.Pytester) -> None:
    result = session(pytester, "--model=mine", places=())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert errors(result) == ["ERROR: 'mine' takes more GPUs than are here: choose a model that runs on the CPU"]


class Workers:
    """A plugin that notes how many workers a session would start: with --collect-only, xdist counts and starts none."""

    count: int | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        self.count = config.option.numprocesses


def workers(pytester: pytest.Pytester, *arguments: str, **more: Any) -> int | None:
    """The workers of `-n auto`."""
    noted = Workers()
    result = session(pytester, "-nauto", "--collect-only", *arguments, plugins=[noted], **more)
    assert result.ret == 0, result.stdout.str()
    return noted.count


def test_auto_is_the_number_of_places(pytester: pytest.Pytester) -> None:
    assert workers(pytester, "--model=mine", places=("0", "1", "2")) == 3
    assert workers(pytester, "--model=mine", places=("0", "1,2", "9"), size=3_000_000_000) == 2


def test_auto_is_left_to_xdist_without_a_model_on_gpus(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    xdists_own = pytest_xdist_auto_num_workers(SimpleNamespace(option=SimpleNamespace(numprocesses="auto")))
    assert workers(pytester, "--model=stubborn:A", places=("0",) * (xdists_own + 1)) == xdists_own
    result = session(pytester, "--model=nosuch", "-nauto")
    assert errors(result)[0].startswith("ERROR: no model 'nosuch'; there are: ")
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")
    assert workers(pytester, "--model=mine", places=("0", "1", "2")) == 1


@pytest.mark.parametrize("spread", [(), ("-n2",), ("-nauto",)])
def test_a_backend_that_is_not_ready_is_not_asked(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = session(pytester, "--model=placed:unready", *spread)
    assert errors(result) == ["ERROR: not installed"]


@pytest.mark.parametrize("spread", [(), pytest.param(("-n1",), marks=pytest.mark.slow)])
def test_a_repository_without_the_plugins_options_is_left_alone(
    pytester: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    pytester.makeconftest(CONFTEST + PLACED)
    pytester.makepyfile("import os\ndef test_it(): assert 'CUDA_VISIBLE_DEVICES' not in os.environ")
    assert pytester.runpytest_inprocess(*spread, "-p", "no:randomly", "-p", "no:benchmark").ret == 0


def test_the_environment_is_as_before_after_a_serial_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    session(pytester, "--collect-only")
    pytester.runpytest_inprocess(*COMMON, "--model=mine")
    assert where(pytester) == {"serial": {"0"}}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"


@given(st.lists(st.text("0123456789,", min_size=1), min_size=1, unique=True), st.lists(st.integers(0, 7)))
def test_no_place_is_held_twice(places: list[str], events: list[int]) -> None:
    """Workers come (an even number) and go (an odd one), some more than once."""
    leases = Leases(places, "x")
    held: dict[str, str] = {}
    for number, event in enumerate(events):
        if event % 2:
            gone = f"gw{event}"
            leases.give_back(gone)
            held.pop(gone, None)
            if held:
                gone = sorted(held)[event % len(held)]
                leases.give_back(gone)
                del held[gone]
        elif len(held) == len(places):
            with pytest.raises(UsageError, match=f"-n {len(places) + 1}, and 'x' finds GPUs for "):
                leases.take(f"gw{number}")
        else:
            held[f"gw{number}"] = leases.take(f"gw{number}")
        assert len(set(held.values())) == len(held)
        assert set(held.values()) <= set(places)


@pytest.mark.parametrize(
    ("says", "memory"),
    [
        ("echo 81559", 81559 * 2**20),
        ('[ "$3" = --id=0,1 ] && echo 81559 && echo 24576', (81559 + 24576) * 2**20),
        ("echo '[N/A]'", None),
        ("echo no devices; exit 6", None),
        (None, None),
    ],
)
def test_memory_is_what_the_driver_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, memory: int | None
) -> None:
    if says is not None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert HF("x").memory("0,1") == memory


def test_the_place_that_was_freed_last_is_given_first(tmp_path: Path) -> None:
    leases = Leases(["0", "1", "2"], "x")
    assert [leases.take("gw0"), leases.take("gw1")] == ["0", "1"]
    leases.give_back("gw1")
    leases.give_back("gw1")
    assert leases.take("gw2") == "1"
