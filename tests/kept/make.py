"""Make the kept runs, and draw what is expected from them.

    python tests/kept/make.py              makes all run folders, logs and the baseline file anew, and draws
    python tests/kept/make.py --expected   draws anew from the folders as they are, and notes anew what sessions say

Type `--expected` when an issue changes a page, a table or a message on purpose: read the difference (`git diff`, packed
files by `gzip -dc`), and say in the commit what changed. Never type it to make a test pass whose change nobody wanted.
Make the runs themselves anew only when the form of a run folder or of a store changes on purpose, so that old ones are
no longer read; until then they stand for the folders that users have. Folders of `-n2` and of killed runs come out in
another order each time. Python and the packages of constraints.txt are needed, so that pages are equal to the byte.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from kept.drawing import (
    CASES,
    DATE,
    DRAWN,
    ENDED,
    EXIT,
    EXPECTED,
    HERE,
    KILLED,
    LOGS,
    MADE,
    RUNS,
    draw,
    lay_runs,
    lay_suite,
    session_of,
    store,
)

VERSIONS = {"python": "3.11.0", "pytest-medvqa": "0.1.0", "numpy": "2.0.0", "pytest": "9.0.0"}
REPOSITORY = HERE.parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--expected", action="store_true", help="draw anew from the folders as they are")
    if not parser.parse_args().expected:
        make_runs()
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve() / "repository"
            lay_suite(root)
            lay_runs(root, [*MADE, "merged"], logs=("judged",))
            store(case, draw(root, case))
            print(case)
    for run in ENDED:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve() / "repository"
            lay_suite(root)
            lay_runs(root, () if run == "main" else ("main",))
            store(f"session-{run}", session_of(root, run, make_run(root, run)))


def make_runs() -> None:
    for folder in (RUNS, LOGS):
        shutil.rmtree(folder, ignore_errors=True)
    for run in MADE:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve() / "repository"
            lay_suite(root)
            if (HERE / "main.medvqa").exists():
                shutil.copy(HERE / "main.medvqa", root)
            make_run(root, run)
            keep(root, run)
            if run == "main":
                medvqa(root, "baseline", "reports/main", "-o", str(HERE / "main.medvqa"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "repository"
        lay_suite(root)
        lay_runs(root, ("part1", "part2"))
        medvqa(root, "merge", "reports/part1", "reports/part2", "-o", "merged", "--plugin=conftest.py")
        keep(root, "merged")


def make_run(root: Path, run: str) -> str:
    """What a session says; it is in a process group of its own, which the model of killed runs kills."""
    if run == "ruled":
        shutil.copy(root / "rules.toml", root / "pyproject.toml")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--run={run}", *MADE[run]],
        cwd=root,
        env=environment | {"KEPT_KILLS": KILLED.get(run, "")},
        start_new_session=True,
        capture_output=True,
        text=True,
    )
    wanted = -signal.SIGKILL if run in KILLED else EXIT.get(run, 0)
    print(run, done.returncode)
    if done.returncode != wanted:
        sys.exit(f"{done.stdout}{done.stderr}\n{run}: exit code {done.returncode}, and {wanted} is expected")
    return done.stdout


def medvqa(root: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "medvqa.cli", *arguments], cwd=root)
    print(*arguments, done.returncode)


def keep(root: Path, run: str) -> None:
    """Take a run's folder and its logs out of a repository, without what tells of this machine and of today."""
    folder = root / "reports" / run
    for name in DRAWN:
        (folder / name).unlink(missing_ok=True)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            scrub(path, root, run)
    shutil.copytree(folder, RUNS / run, ignore=shutil.ignore_patterns("answers"))
    if (folder / "answers").exists():
        shutil.copytree(folder / "answers", LOGS / run)


def scrub(path: Path, root: Path, run: str) -> None:
    """Rewrite a file with the day of all kept runs, sessions by their order, and no path, version or duration."""
    if path.name == "run.json":
        about = dated(json.loads(path.read_text("utf-8")), run)
        about["versions"] = VERSIONS
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    elif path.suffix == ".log":
        text = log_text(path.read_text("utf-8").splitlines(), run)
    elif path.suffix == ".json":
        text = path.read_text("utf-8")
    else:
        text = SECONDS.sub(plain_seconds, path.read_text("utf-8"))
        text = re.sub(r'("session":")[0-9a-f]{8}"', rf'\g<1>{session_name(run)}"', text)
    text = text.replace(str(REPOSITORY), "/medvqa")
    if str(root) in text:
        sys.exit(f"{path}: names {root}")
    path.unlink()
    path.with_name(scrubbed_name(path.name)).write_text(text, "utf-8")


SECONDS = re.compile(r'"seconds":(-?[\d.e-]+)')


def plain_seconds(match: re.Match[str]) -> str:
    """Durations that a model of the suite says are eighths; a measured one becomes one eighth."""
    return match[0] if (float(match[1]) * 8).is_integer() else '"seconds":0.125'


def session_name(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:8]


_NUMBERS: dict[str, int] = {}


def scrubbed_name(name: str) -> str:
    """A log by its number and its process; their order stays."""
    if not name.endswith(".log"):
        return name
    number = _NUMBERS.setdefault(name, len(_NUMBERS))
    return f"20010203T040506.{number:06}-{name.split('-')[1]}-{number:016x}.log"


def dated(value: Any, run: str) -> Any:
    if isinstance(value, dict):
        told = {name: dated(each, run) for name, each in value.items()}
        told |= {"started": f"{DATE}T04:05:06+00:00"} if "started" in told else {}
        told |= {"finished": f"{DATE}T04:06:16+00:00"} if "finished" in told else {}
        told |= {"session": session_name(run)} if "session" in told else {}
        return {name: each for name, each in told.items() if name not in ("commit", "ci", "hardware")}
    return [dated(each, run) for each in value] if isinstance(value, list) else value


def log_text(lines: list[str], run: str) -> str:
    """The lines of a log with their checksums, as docs/decisions/0010-one-log.md defines them."""
    head = json.loads(lines[0].split(" ", 2)[2])
    key = identity(head).encode()
    text = ""
    for line in lines:
        _, name, content = line.split(" ", 2)
        if name == "head":
            content = json.dumps(dated(head, run), ensure_ascii=False, separators=(",", ":"))
        elif name == "closed":
            digest = hashlib.blake2b(text.encode(), digest_size=16, key=key).hexdigest()
            content = json.dumps(json.loads(content) | {"digest": digest}, separators=(",", ":"))
        rest = f"{name} {SECONDS.sub(plain_seconds, content)}"
        text += f"{hashlib.blake2b(rest.encode(), digest_size=8, key=key).hexdigest()} {rest}\n"
    return text


def identity(head: dict[str, Any]) -> str:
    """What keys the checksums of a log."""
    content = [2, head["role"], head["backend"], head["fingerprint"]]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()[:32]


if __name__ == "__main__":
    main()
