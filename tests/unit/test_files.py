"""Files are replaced whole and never through a link; anything but a regular file is refused without waiting."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from medvqa.cli import main
from medvqa.records.log import Log
from support import processes
from support.logs import WRITER
from support.strangers import CONFTEST, TEST

SECRET = "export PATH\n"


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}


def medvqa(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command line would do in the folder, in this process."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        patch.chdir(folder)
        code = main(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def session(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments]
    return processes.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env=environment())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one run, `r`."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_slake.py").write_text(TEST)
    done = session(folder, "--model=stubborn:A", "--run=r")
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A file of the user's outside of the run folder."""
    path = tmp_path / "home" / ".bashrc"
    path.parent.mkdir()
    path.write_text(SECRET)
    return path


@pytest.fixture
def received(made: Path, tmp_path: Path) -> Path:
    """A copy of the repository, in which the run folder came from a stranger."""
    return shutil.copytree(made, tmp_path / "received")


def untouched(home: Path) -> bool:
    return home.read_text() == SECRET and os.listdir(home.parent) == [home.name]


def test_report_replaces_links_and_leaves_what_they_lead_to(received: Path, home: Path) -> None:
    """Of names that can be guessed, also those that another process number would give."""
    run = received / "reports" / "r"
    names = ("metrics.json", "summary.md", "junit.xml", "index.html")
    for name in names:
        (run / name).unlink()
        (run / name).symlink_to(home)
        (run / f"{name}.tmp").symlink_to(home)
        (run / f".{name}").symlink_to(home)
        # A process number is a small number: a stranger may lay a link for each.
        (run / f".{name}.{os.getpid()}").symlink_to(home)
    done = medvqa(received, "report", "reports/r", "--plugin=conftest.py")
    assert done.returncode == 0, done.stderr
    assert untouched(home)
    assert not any((run / name).is_symlink() for name in names)
    assert "slake" in (run / "summary.md").read_text()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("agreement.csv", ("agreement", "reports/j", "--sample=2")),
        ("lexicon.html", ("lexicon", "--benchmark=slake", "--plugin=conftest.py", "--html=reports/r/lexicon.html")),
    ],
)
def test_other_commands_replace_links(received: Path, home: Path, name: str, arguments: tuple[str, ...]) -> None:
    run = received / "reports" / "r"
    if "agreement" in arguments:
        run = shutil.copytree(run, received / "reports" / "j")
        lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
        for line in lines:
            line["judgement"] = {"judge": "j", "task": "score", "template": "t", "replies": [], "asked": []}
            line["score"]["value"] = 1.0
        (run / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / name).symlink_to(home.parent / "authorized_keys")
    done = medvqa(received, *arguments)
    assert done.returncode == 0, done.stderr
    assert untouched(home)
    assert not (run / name).is_symlink()


@pytest.mark.parametrize(
    "name",
    [
        "results.jsonl",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("answers", "answers/deaths")),
    ],
)
def test_a_session_appends_through_no_link(received: Path, home: Path, name: str) -> None:
    path = received / "reports" / "r" / name
    if name == "results.jsonl":
        shutil.copy(path, home.parent / "lines")
        path.unlink()
        path.symlink_to(home.parent / "lines")
    elif name == "answers":
        shutil.rmtree(path, ignore_errors=True)
        path.symlink_to(home.parent)
    else:
        # A process that died while it asked.
        dead = Log(path.parents[1], "gw0")
        dead.begin_as(WRITER)
        dead.begin(1, ["a" * 64])
        path.symlink_to(home)
    before = {path.name: path.read_bytes() for path in home.parent.iterdir()}
    done = session(received, "--model=stubborn:A", "--run=r")
    assert {path.name: path.read_bytes() for path in home.parent.iterdir()} == before
    assert done.returncode != 0
    assert "is a symbolic link" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_folders_that_are_links_are_not_written_through(tmp_path: Path, home: Path) -> None:
    repository = tmp_path / "phantom"
    repository.mkdir()
    (repository / "test_phantom.py").write_text(
        TEST.replace("test_slake", "test_phantom").replace("slake", "phantom-mediconfusion")
    )
    done = session(repository, "--model=echo:A", "--run=r", "--limit=4")
    run = repository / "reports" / "r"
    assert (run / "results.jsonl").is_file(), done.stdout + done.stderr
    (run / "images").symlink_to(home.parent)
    drawn = medvqa(repository, "report", "reports/r", "--images=folder")
    assert untouched(home)
    assert drawn.returncode == 4
    assert "images is a symbolic link" in drawn.stderr


def test_merge_copies_no_answers_through_a_link(received: Path, home: Path) -> None:
    shutil.rmtree(received / "reports" / "r" / "answers", ignore_errors=True)
    (received / "reports" / "r" / "answers").symlink_to(home.parent)
    done = medvqa(received, "merge", "reports/r", "-o", "joined", "--plugin=conftest.py")
    assert not list((received / "reports").glob("joined/**/.bashrc"))
    assert done.returncode == 4
    assert "answers is a symbolic link" in done.stderr


READS = """
import os, resource, shutil, signal
from pathlib import Path
from medvqa.cli import main
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
for name in ("run.json", "results.jsonl", "gate.json", "metrics.json"):
    for kind in ("pipe", "sparse"):
        shutil.copytree("reports/r", "reports/s")
        path = Path("reports/s", name)
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            with path.open("wb") as file:
                file.truncate(2**33)
        signal.alarm(20)
        command = ["report", "reports/s"]
        if name == "metrics.json":
            # It is read of runs of earlier versions.
            Path("reports/s/selected.jsonl").unlink()
            command = ["merge", "reports/s", "-o", "t"]
        print(name, kind, main([*command, "--plugin=conftest.py"]), flush=True)
        signal.alarm(0)
        shutil.rmtree("reports/s")
shutil.copytree("reports/r", "reports/s")
for kind in ("pipe", "link"):
    path = Path("reports/s/selected.jsonl")
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/hosts")
    signal.alarm(20)
    for command in (["merge", "reports/s", "-o", "t"], ["report", "reports/s"]):
        print(kind, main([*command, "--plugin=conftest.py"]), flush=True)
    signal.alarm(0)
"""


def test_reading_a_stranger_s_folder_neither_waits_nor_fills_the_memory(received: Path) -> None:
    command = [sys.executable, "-c", READS]
    done = subprocess.run(command, cwd=received, capture_output=True, text=True, timeout=120, check=False)
    names = ("run.json", "results.jsonl", "gate.json", "metrics.json")
    cases = [f"{name} {kind} 4" for name in names for kind in ("pipe", "sparse")]
    told = [line for line in done.stdout.splitlines() if re.search(r"^\S+( \S+)? \d$", line)]
    assert told == [*cases, "pipe 4", "pipe 1", "link 4", "link 1"], done.stderr
    for case, line in zip([*cases, *["selected.jsonl"] * 2], done.stderr.splitlines(), strict=True):
        assert line.startswith("medvqa: ")
        assert case.split()[0] in line


# The room


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_umask_s_mode_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    from medvqa import files

    path = tmp_path / "a.json"
    files.replace(path, b"1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    files.replace(path, [b"2", b"3"])
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"23", 0o600)
    path.chmod(0o4755)
    files.replace(path, b"4")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    files.replace(path, b"5", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    from medvqa import files

    path = tmp_path / "a.json"
    path.write_text("old")

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise RuntimeError("out of paper")

    with pytest.raises(RuntimeError, match="out of paper"):
        files.replace(path, broken())
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "old")]
    with pytest.raises(FileNotFoundError):
        files.replace(tmp_path / "nowhere" / "a", b"")
    with pytest.raises(IsADirectoryError):
        files.replace(tmp_path, b"")
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_is_replaced_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medvqa import files

    calls: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("rename"), rename(*paths)))
    files.replace(tmp_path / "a", b"1")
    assert calls == ["fsync", "rename", "fsync"]


def test_temporary_names_cannot_be_guessed_and_fit_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medvqa import files

    seen: list[str] = []
    rename = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (seen.append(Path(old).name), rename(old, new)))
    for _ in range(2):
        files.replace(tmp_path / ("x" * 255), b"1")
    assert len(set(seen)) == 2
    assert all(str(os.getpid()) != name.rpartition(".")[2] and len(name) >= 20 for name in seen)


def test_appending_follows_no_link_and_takes_regular_files_alone(tmp_path: Path) -> None:
    from medvqa import files

    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a symbolic link"):
        files.appending(tmp_path / "link")
    with pytest.raises(OSError, match="is not a regular file"):
        files.appending(tmp_path / "pipe")
    with pytest.raises(OSError, match="is not a regular file"):
        files.reading(tmp_path / "pipe")
    with pytest.raises(OSError, match="is not a regular file"):
        files.reading(tmp_path)
    descriptor = files.appending(tmp_path / "new")
    os.write(descriptor, b"1")
    os.close(descriptor)
    assert (tmp_path / "new").read_bytes() == b"1"
    with pytest.raises(FileExistsError):
        files.appending(tmp_path / "new", new=True)


def test_no_other_code_opens_files_for_writing() -> None:
    """One place writes: what else would is found by name."""
    import re

    import medvqa

    root = Path(medvqa.__file__).parent
    writes = re.compile(
        r"""open\([^)\n]*["'](?:[wax]b?\+?|[wax]\+?b)["']|write_text\(|write_bytes\(|os\.(?:open|replace|rename|link)\("""
        r"|\.replace\(path\)|\.rename\(|shutil\.(?!disk_usage|which)|tempfile|\.save\(path|O_CREAT"
    )
    # All but the first write to nowhere. Those of `view` write to the server's own temporary folder, too.
    allowed = {"files.py", "cli/dispatch.py", "child_process.py", "printing.py"}
    # `serve` keeps the log of a server without a run in one.
    allowed |= {"backends/serve/__init__.py", *(f"view/{name}.py" for name in ("drawing", "image_process", "serve"))}
    found = [
        f"{name}:{number}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if (name := path.relative_to(root).as_posix()) not in allowed and not name.startswith("build/")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if writes.search(line) and "O_RDONLY" not in line
    ]
    assert found == []
