"""Options of trackers, and where a session ran; the trackers themselves: tests/trackers."""

import subprocess
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from medvqa.items import UsageError
from medvqa.session import surroundings, tracking


def test_an_unknown_tracker_is_refused_and_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UsageError, match=r"--track='mlfow': no such tracker; there are: mlflow, wandb. Did you mean 'mlflow'"
    ):
        tracking.chosen(["mlfow"])
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'pytest-medvqa\[wandb\]'"):
        tracking.chosen(["wandb"])
    monkeypatch.setattr(tracking, "find_spec", lambda name: ModuleSpec(name, None, is_package=True))
    with pytest.raises(UsageError, match=r"--track=wandb needs: pip install"):
        tracking.chosen(["wandb"])  # the folder that an earlier run of W&B left here


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, ""),
        ({"BUILD_URL": "http://u:secret@[::1]:80/a"}, "http://[::1]:80/a"),
        ({"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r"}, ""),
        (
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7"},
            "https://github.com/o/r/actions/runs/7",
        ),
        ({"CI_JOB_URL": "https://u:secret@git.example.org:8443/o/r/-/jobs/1?token=secret#x"},
         "https://git.example.org:8443/o/r/-/jobs/1"),
        ({"CI_JOB_URL": "javascript:alert(1)", "BUILD_URL": "http://ci/job/1/"}, "http://ci/job/1/"),
        ({"CI_JOB_URL": "https://[broken", "BUILD_URL": "https://ci:port/"}, ""),
        ({"CI_JOB_URL": "https://ci/\x1b[31mred"}, "https://ci/�[31mred"),
    ],
)  # fmt: skip
def test_the_address_of_a_job_has_no_secrets(variables: dict[str, str], address: str) -> None:
    assert surroundings.ci(variables) == address


def test_the_commit_of_a_folder(tmp_path: Path) -> None:
    assert surroundings.commit(tmp_path) == ""
    for command in ("init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m x"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    clean = surroundings.commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "file").write_text("one")
    assert surroundings.commit(tmp_path) == clean, "a file that git does not know changes nothing"
    subprocess.run(["git", "add", "file"], cwd=tmp_path, check=True)
    assert surroundings.commit(tmp_path) == f"{clean}-dirty"
    assert surroundings.commit(tmp_path / "none") == ""


def test_the_hardware_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A processor\nmodel name\t: A processor\n")
    for gpu in ("1", "2"):
        (tmp_path / "gpus" / gpu).mkdir(parents=True)
        (tmp_path / "gpus" / gpu / "information").write_text("Model: \t\t NVIDIA H100\nIRQ: 1\n")
    monkeypatch.setattr(surroundings, "CPUS", tmp_path / "cpuinfo")
    monkeypatch.setattr(surroundings, "GPUS", tmp_path / "gpus")
    assert surroundings.hardware().startswith("A processor (")
    assert surroundings.hardware().endswith(" cores), 2 x NVIDIA H100")
    monkeypatch.setattr(surroundings, "CPUS", tmp_path / "none")
    assert surroundings.hardware()
