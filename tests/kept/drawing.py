"""The kept runs: how each was made, what is drawn from them, and what is left out of comparisons.

`runs/RUN` are run folders without what `medvqa report` draws, `logs/RUN` the logs of their processes,
`expected/CASE` what the version that made them drew. make.py writes all three, tests/session/test_kept.py reads them.
"""

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNS, LOGS, EXPECTED, SUITE = HERE / "runs", HERE / "logs", HERE / "expected", HERE / "suite"
DATE = "2001-02-03"
"""The day on which all kept runs began; other dates are those of a comparison."""
DRAWN = {"metrics.json", "summary.md", "junit.xml", "gate.xml", "index.html"}
"""Files of a run folder that `medvqa report` draws anew."""
LARGE = 4000
"""Bytes from which an expected file is stored packed."""
PAGES = ("report-serial", "report-judged", "report-repeated", "report-techniques", "report-merged", "report-ruled")
"""Cases whose pages are stored whole, as are pages that compare; of others a digest tells whether they are equal."""

TEXT = ("--model=candidate", "--benchmark=kept")
GATED = ("--benchmark=kept", "--baseline=main.medvqa", "--margin=5")
MADE: Mapping[str, tuple[str, ...]] = {
    "serial": ("--model=candidate", "--benchmark=phantom", "--limit=10"),
    "spread": ("--model=candidate", "--benchmark=phantom", "--limit=10", "-n2"),
    "judged": (
        *("--model=candidate", "--benchmark=phantom-medlesionvqa", "--limit=20"),
        *("--judge=rubric", "--extract-with=judge"),
    ),
    "closest": (
        *("--model=candidate:b", "--benchmark=phantom-mediconfusion", "--limit=12"),
        *("--technique=ff", "--judge=rubric"),
    ),
    "repeated": ("--model=random:3", "--benchmark=kept", "--limit=10", "--repeat=3"),
    "techniques": ("--model=random", "--benchmark=phantom-mediconfusion", "--limit=10", "--technique=mc,gd,ps"),
    "official": ("--model=candidate", "--benchmark=phantom-gmai-mmbench", "--limit=12", "--extraction=official"),
    "blank": ("--model=echo:A", "--benchmark=phantom-gmai-mmbench", "--limit=12", "--ablate=blank"),
    "whole": TEXT,
    "part1": (*TEXT, "--shard=1/2"),
    "part2": (*TEXT, "--shard=2/2"),
    "killed": (*TEXT, "--batch-size=3"),
    "killed-spread": (*TEXT, "--batch-size=3", "-n2"),
    "main": ("--model=replay:main.jsonl", "--benchmark=kept"),
    "same": ("--model=replay:main.jsonl", *GATED),
    "worse": ("--model=replay:worse.jsonl", *GATED),
    "other": ("--model=replay:other.jsonl", *GATED),
    "ruled": ("--model=replay:other.jsonl", "--benchmark=kept"),
    "vlm": ("--model=phantom-vlm", "--benchmark=phantom", "--limit=4"),
}
"""What was typed after `pytest --run=RUN`; `ruled` found rules.toml as its pyproject.toml, `merged` is two parts."""
ENDED = tuple(run for run in MADE if not run.startswith("killed") and run != "vlm")
"""Sessions that another machine repeats to the bit; log-probabilities of `vlm` depend on the processor."""
KILLED = {"killed": "k14", "killed-spread": "k21"}
"""Runs that were killed, and the question during which they were."""
EXIT: Mapping[str, int] = {"worse": 10, "other": 11, "ruled": 11} | dict.fromkeys(("whole", "part1", "part2"), 1)
"""Exit codes of the sessions that did not end with 0: of `candidate` some questions end in error."""

PLUGIN = "--plugin=conftest.py"
CASES: Mapping[str, str] = {
    **{f"report-{run}": f"report reports/{run} --images=none" for run in [*MADE, "merged"]},
    "report-thumbs": "report reports/techniques",
    "report-several": "report reports/main reports/worse reports/other --images=none -o several.html",
    "compare-two": (
        "compare reports/main reports/worse --slices=10 --bootstrap --json=c.json --csv=c.csv --markdown=c.md"
    ),
    "compare-all": "compare reports/serial reports/spread --slices=all --flips=all --json=c.json",
    "compare-ranked": (
        "compare reports/main reports/worse reports/other reports/same --slices=10 --json=c.json --markdown=c.md"
    ),
    "compare-judged": (
        "compare reports/judged reports/serial --slices=10 --anyway --benchmark=phantom-medlesionvqa --json=c.json"
    ),
    "compare-refused": "compare reports/official reports/blank",
    "compare-baseline": "compare reports/other --baseline=main.medvqa --measure=exact_match",
    "gate-same": "gate reports/same",
    "gate-worse": "gate reports/worse --baseline=main.medvqa --margin=20",
    "gate-other": "gate reports/other --baseline=reports/main --inconclusive=pass",
    "gate-ruled": "gate reports/other --rules=rules.toml",
    "gate-merged": "gate reports/merged --baseline=reports/whole --gate-slices=modality",
    "gate-error": "gate reports/whole --baseline=main.medvqa",
    "gate-killed": "gate reports/killed --baseline=main.medvqa",
    "gate-plan": "gate --plan --baseline=main.medvqa --gate-slices=organ",
    "gate-plan-data": "gate --plan --benchmark=phantom --margin=5",
    "rescore-official": "rescore reports/whole --extraction=official",
    "rescore-judged": "rescore reports/serial --judge=rubric --answers=judged",
    "rescore-stored": "rescore reports/judged --judge=rubric --extract-with=judge --rules-first",
    "rescore-lead": "rescore reports/closest --ff-gap=8",
    "merge": "merge reports/part1 reports/part2 -o again",
    "merge-one": "merge reports/part1 -o again",
    "merge-others": "merge reports/whole reports/serial -o again",
    "baseline": "baseline reports/main -o again.medvqa",
    "baseline-digests": "baseline reports/judged -o again.medvqa --no-responses",
    "baseline-killed": "baseline reports/killed -o again.medvqa",
}
"""What is typed after `medvqa`, with --plugin=conftest.py where the command has it."""


# --- laying out -----------------------------------------------------------------------------------------------------


def lay_suite(root: Path) -> None:
    """A repository with the kept benchmark and models, and without a run."""
    root.mkdir(parents=True, exist_ok=True)
    for path in SUITE.glob("*"):
        if path.is_file():
            shutil.copy(path, root)
    shutil.copy(HERE.parent / "support/judges.py", root)
    for name, wrong in (("main", 4), ("worse", 2), ("other", 5)):
        (root / f"{name}.jsonl").write_text(recorded(wrong), "utf-8")


def recorded(wrong: int) -> str:
    """Answers to the questions of text, all right but each `wrong`-th: a file for `replay`."""
    lines = []
    for n in range(36):
        letters = sorted({"ABCD"[n % 4], "ABCD"[(n + (n % 6 == 5)) % 4]})
        said = ", ".join(letters) if n % wrong else "ABCD"[(n + 2) % 4]
        lines.append(json.dumps({"benchmark": "kept", "id": f"k{n:02}", "response": said}))
    return "\n".join(lines) + "\n"


def lay_runs(root: Path, names: Iterable[str], *, logs: Iterable[str] = ()) -> None:
    """Copies of the run folders, of the logs of those that are named, and of the baseline file."""
    for name in names:
        shutil.copytree(RUNS / name, root / "reports" / name)
    for name in logs:
        shutil.copytree(LOGS / name, root / "reports" / name / "answers", dirs_exist_ok=True)
    shutil.copy(HERE / "main.medvqa", root)


# --- drawing --------------------------------------------------------------------------------------------------------


def draw(root: Path, case: str) -> dict[str, bytes]:
    """Type a case in a repository: what was printed, and the files that are new or changed, all normalised."""
    from medvqa.cli import main

    arguments = CASES[case].split()
    if arguments[0] != "baseline":
        arguments.append(PLUGIN)
    before = contents(root)
    output, folder = io.StringIO(), Path.cwd()
    os.chdir(root)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main(arguments)
    finally:
        os.chdir(folder)
    found = {"output.txt": f"{output.getvalue()}exit code {code}\n".encode()}
    found |= {name: content for name, content in contents(root).items() if before.get(name) != content}
    drawn = {name: normal(name, content, root) for name, content in sorted(found.items())}
    if arguments[0] == "rescore":
        # The session of today is in the sum.
        drawn = {name: _TOOK.sub(rb"\1TIME", content) for name, content in drawn.items()}
    return dict(_short(case, name, content) for name, content in drawn.items())


def _short(case: str, name: str, content: bytes) -> tuple[str, bytes]:
    if not name.endswith("/index.html") or case in PAGES:
        return name, content
    return f"{name}.sha256", f"{hashlib.sha256(content).hexdigest()}\n".encode()


def told(output: str, root: Path) -> str:
    """What the plugin says at the end of a session: the section `medvqa`, normalised, without pytest's last line."""
    lines = output.splitlines()
    begin = next(number for number, line in enumerate(lines) if re.fullmatch(r"=+ medvqa =+", line))
    end = next(number for number in range(begin + 1, len(lines)) if re.fullmatch(r"=+ .* =+", lines[number]))
    text = "".join(f"{line}\n" for line in lines[begin + 1 : end])
    return normal("output.txt", text.encode(), root).decode()


def session_of(root: Path, run: str, output: str) -> dict[str, bytes]:
    """What a session leaves: what it said, and the names of its files."""
    names = sorted(path.name for path in (root / "reports" / run).iterdir())
    return {"output.txt": told(output, root).encode(), "files.txt": "".join(f"{name}\n" for name in names).encode()}


_ASIDE = {"__pycache__", "answers"}


def contents(root: Path) -> dict[str, bytes]:
    """The files of a repository that commands write, but for stored answers."""
    found = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {
        str(name): path.read_bytes()
        for name, path in found.items()
        if name.name not in ("calls", ".gitignore") and not _ASIDE & set(name.parts)
    }


def expected(case: str) -> dict[str, bytes]:
    """What is stored for a case."""
    folder = EXPECTED / case
    return {
        str(path.relative_to(folder)).removesuffix(".gz"): (
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def store(case: str, found: Mapping[str, bytes]) -> None:
    """Store what a case drew in place of what was stored."""
    shutil.rmtree(EXPECTED / case, ignore_errors=True)
    for name, content in found.items():
        path = EXPECTED / case / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if len(content) > LARGE:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(content, 9, mtime=0))
        else:
            path.write_bytes(content)


# --- normalising ----------------------------------------------------------------------------------------------------

_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00:00|Z| UTC)?")
_TOOK = re.compile(rb'("Took",\s*"\w+": ")[^"]*')
_SESSION = re.compile(r'("session": ?")[0-9a-f]{8}(")')


def normal(name: str, content: bytes, root: Path) -> bytes:
    """A drawn file less dates of today, names of sessions, and the folder that it was drawn in.

    Of a baseline file its lines; of a page its frame and its blocks as indented JSON.
    """
    if name.endswith(".medvqa"):
        assert content[4:8] == bytes(4), "a baseline file has no date"
        content = gzip.decompress(content)
    text = content.decode()
    if name.endswith(".html"):
        text = _page(text)
    text = text.replace(str(root), "ROOT")
    text = _DATE.sub(lambda match: match[0] if match[0].startswith(DATE) else "NOW", text)
    return _SESSION.sub(r"\1SESSION\2", text).encode()


_BLOCK = re.compile(r"<(script|style)\b([^>]*)>(.*?)</\1>", re.DOTALL)
_POLICY = re.compile(r"sha256-[A-Za-z0-9+/=]+")


def _page(text: str) -> str:
    """The frame of a page and its blocks as JSON, without script and style: `tox run -e web` compares those."""
    blocks: dict[str, bytes] = {}

    def inflated(match: re.Match[str]) -> str:
        kind, attributes, content = match.groups()
        name = re.search(r'id="block-([^"]+)"', attributes)
        if name is None:
            return kind
        if not name[1].startswith("images/"):  # whose name is their digest
            blocks[name[1]] = zlib.decompress(base64.b64decode(content))
        return f"block {name[1]}"

    frame = _POLICY.sub("sha256", _BLOCK.sub(inflated, text))
    shown = {name: _block(name, content, blocks["head"]) for name, content in blocks.items()}
    return frame + json.dumps(shown, indent=1, ensure_ascii=False)


def _block(name: str, content: bytes, head: bytes) -> Any:
    from medvqa.report.bundle import columns

    if name == "columns":
        heads = json.loads(head)["columns"]
        return {each["name"]: repr(columns.read(content, columns.TypedArray(**each)).tolist()) for each in heads}
    return json.loads(content)


# --- comparing runs that were made anew -------------------------------------------------------------------------------

_PASSING = {"started", "finished", "versions", "seconds", "session", "commit", "ci", "hardware"}
"""Fields that differ from session to session."""
_LATER = {"selection", "questions", "file", "typed", "read_from", "identity", "schema"}
"""Fields that the version of the kept runs did not write yet."""


def comparable(value: Any) -> Any:
    """JSON without dates, durations, versions and names of sessions, and fields that the kept runs lack."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items() if name not in _PASSING | _LATER}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def run_of(folder: Path) -> Any:
    """What run.json says, as far as it is to be the same."""
    about = json.loads((folder / "run.json").read_text("utf-8"))
    about.pop("reading_rules", None)  # Of a run made anew it is that of today.
    return comparable(about)


def results_of(folder: Path) -> list[str]:
    """The lines of results.jsonl, less durations: the last of each question and sample, sorted."""
    last: dict[Any, str] = {}
    for line in (folder / "results.jsonl").read_text("utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            told = json.loads(line)
            key = told["item"]["benchmark"], told["item"]["id"], told["technique"], told.get("sample", 0)
            last[key] = json.dumps(comparable(told), ensure_ascii=False)
    return [last[key] for key in sorted(last)]


def answers_of(folder: Path) -> dict[str, str]:
    """The stored answers by their keys, less durations; all logs of a folder. Read without the project's code."""
    found = {}
    for path in sorted([*folder.rglob("*.log"), *folder.rglob("*.answers")]):
        for line in path.read_text("utf-8").splitlines():
            _, name, content = line.split(" ", 2)
            # Files of earlier versions have the key alone, and `about` in place of `head`.
            if re.fullmatch("(answer/)?[0-9a-f]{64}", name):
                found[name.removeprefix("answer/")] = json.dumps(comparable(json.loads(content)), ensure_ascii=False)
    return found


if __name__ == "__main__":
    sys.exit("make.py draws")
