"""The GitHub Action: well formed, and its steps do what they say in a user's repository."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from medvqa.cli import main
from support.installed import Door

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


def test_it_is_a_composite_action() -> None:
    assert set(ACTION) == {"name", "description", "inputs", "outputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) != ("uses" in step), step["name"]
        assert "run" not in step or step["shell"] == "bash", step["name"]
    assert all(set(each) == {"description", "default"} for each in ACTION["inputs"].values())


def test_it_names_its_inputs_and_no_others() -> None:
    names = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text()))
    assert names == set(ACTION["inputs"])


def test_it_names_the_files_that_a_ci_reads() -> None:
    values = {name: each["value"] for name, each in ACTION["outputs"].items()}
    assert values == {
        name: f"reports/${{{{ inputs.run }}}}/{name.replace('-', '.')}" for name in ("gate-xml", "junit-xml")
    }


def test_no_input_is_a_part_of_a_script() -> None:
    assert [step["name"] for step in ACTION["runs"]["steps"] if EXPRESSION.search(step.get("run", ""))] == []


def test_no_step_uses_an_action_without_its_version() -> None:
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[a-z/-]+@v\d+", each) for each in used)


def script(name: str) -> str:
    return str(next(step["run"] for step in ACTION["runs"]["steps"] if step["name"] == name))


def bash(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One script as GitHub runs it."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
        | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", []),
        ("-n 2 --gate-slices=kind", ["-n", "2", "--gate-slices=kind"]),
        ("-n 2\n--gate-slices=kind\n\n  --data=data\n", ["-n", "2", "--gate-slices=kind", "--data=data"]),
        ("* $(touch evil)", ["*", "$(touch", "evil)"]),
    ],
)
def test_arguments_are_split_at_blanks_and_lines(tmp_path: Path, given: str, said: list[str]) -> None:
    """A YAML block has them on lines of their own."""
    told = stubbed(tmp_path, "Gate", given)
    assert told[told.index("--inconclusive=x") + 1 :] == said


def stubbed(folder: Path, step: str, arguments: str = "", tests: str = "x") -> list[str]:
    """The arguments that a step gives to Python; a `python` that says them stands for it."""
    (folder / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (folder / "python").chmod(0o755)
    names = ("BASELINE", "BENCHMARK", "MODEL", "MARGIN", "INCONCLUSIVE", "RUN")
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    done = bash(script(step), folder, PATH=path, ARGUMENTS=arguments, TESTS=tests, **dict.fromkeys(names, "x"))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_baseline_gets_the_arguments_that_are_not_the_gate_s(tmp_path: Path) -> None:
    """The two runs must ask the same questions of the same data; options of the gate need a baseline."""
    given = (
        "--data=data --gate-slices=kind -n 2\n--looks 3 --limit=5 --gate-slices kind --gate=required --require=all * "
    )
    told = stubbed(tmp_path, "Baseline", given)
    assert told[told.index("--run=x-baseline") + 1 :] == ["--data=data", "-n", "2", "--limit=5", "*"]


@pytest.mark.parametrize("step", ["Baseline", "Gate"])
def test_a_repository_without_tests_runs_those_of_the_package(tmp_path: Path, step: str) -> None:
    assert stubbed(tmp_path, step, tests="")[2:5] == ["--pyargs", "medvqa.suite.benchmark_tests", "--rootdir=."]
    assert stubbed(tmp_path, step, tests="mine")[2] == "mine", "a wrong folder is an error, not other tests"
    (tmp_path / "benchmark_tests").mkdir()
    assert stubbed(tmp_path, step, tests="")[2:4] == ["benchmark_tests", "--model=x"]


def test_the_installation_is_pinned() -> None:
    assert '-c "$SOURCE/constraints.txt"' in script("Install")


PRIVATE = """
import medvqa

klinik = medvqa.table("cases.csv", name="klinik", public={public})
"""


def uploads(folder: Path, upload: str, run: str = "gate") -> bool:
    output = folder / "output"
    output.write_text("")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = bash(script("Public"), folder, PATH=path, UPLOAD=upload, RUN=run, GITHUB_OUTPUT=str(output))
    assert done.returncode == 0, done.stderr
    return {"upload=true\n": True, "upload=false\n": False}[output.read_text()]


def test_only_runs_of_public_data_are_uploaded_unless_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = next(step for step in ACTION["runs"]["steps"] if step["name"] == "Report")
    assert report["if"] == "always() && steps.public.outputs.upload == 'true'"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text("question,A,B,answer\nWhich organ?,liver,spleen,A\n")
    for name, public in (("gate", True), ("ours", False)):
        (tmp_path / "conftest.py").write_text(PRIVATE.format(public=public))
        assert main(["run", "--model=random", "--benchmark=klinik", f"--run={name}"]) == 0
        for typed, expected in (("public", public), ("true", True), ("false", False), ("", False)):
            assert uploads(tmp_path, typed, name) is expected, (name, typed)
    (tmp_path / "conftest.py").unlink()
    assert not uploads(tmp_path, "public", "gate"), "a benchmark that is not known is not public"
    assert not uploads(tmp_path, "public", "none"), "a run that was refused has no folder"
    assert main(["run", "--model=random", "--benchmark=phantom-gmai-mmbench", "--limit=5", "--run=toy"]) == 0
    assert uploads(tmp_path, "public", "toy")


def test_a_step_of_its_own_decides(tmp_path: Path) -> None:
    """A model that ends the process lets the step before it end with 0."""
    names = [step["name"] for step in ACTION["runs"]["steps"]]
    assert names.index("Gate") < names.index("Verdict")
    (verdict,) = (step for step in ACTION["runs"]["steps"] if step["name"] == "Verdict")
    assert verdict["if"] == "always()"
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    (tmp_path / "reports/gate").mkdir(parents=True)
    done = bash(script("Verdict"), tmp_path, PATH=path, RUN="gate", FOUNDED="")
    assert done.returncode == 1, done.stderr
    assert "gate: no verdict: reports/gate has none. A session that dies, or is not gated, leaves none" in done.stdout


URL = "https://github.com/o/r/actions/runs/1/artifacts/2"


def test_the_summary_links_what_was_uploaded(tmp_path: Path) -> None:
    """In a job's summary there is no file beside it."""
    names = [step["name"] for step in ACTION["runs"]["steps"]]
    assert names.index("Report") < names.index("Summary")
    report, told = (step for step in ACTION["runs"]["steps"] if step["name"] in ("Report", "Summary"))
    assert told["env"]["REPORT"] == f"${{{{ steps.{report['id']}.outputs.artifact-url }}}}"
    (tmp_path / "reports/gate").mkdir(parents=True)
    (tmp_path / "reports/gate/summary.md").write_text("# a & b\n\nEvery answer: [index.html](index.html).\n")
    for url, link in ((URL, f"[index.html]({URL})"), ("", "index.html")):
        summary = tmp_path / "summary.md"
        summary.write_text("before\n")
        done = bash(script("Summary"), tmp_path, RUN="gate", REPORT=url, GITHUB_STEP_SUMMARY=str(summary))
        assert done.returncode == 0, done.stderr
        assert summary.read_text() == f"before\n# a & b\n\nEvery answer: {link}.\n"
    summary.write_text("")
    assert bash(script("Summary"), tmp_path, RUN="none", REPORT="", GITHUB_STEP_SUMMARY=str(summary)).returncode == 0
    assert summary.read_text() == ""


SLICES = """# gate

| headline |

## Gate: PASS against main

- Largest losses by slice: ward Anna

Every question and answer: [index.html](index.html) of run gate.

## klinik by ward

| Anna |

### more by ward

| Anna |
"""


def test_slices_of_data_that_are_not_uploaded_stay_here(tmp_path: Path) -> None:
    """Whoever may read the repository reads the job's summary and the comment, and gets them by mail."""
    for step in ("Summary", "Comment"):
        (told,) = (each for each in ACTION["runs"]["steps"] if each["name"] == step)
        assert told["env"]["UPLOADED"] == "${{ steps.public.outputs.upload }}"
    server = Comments()
    for uploaded, named in (("true", True), ("false", False)):
        server.told(tmp_path, SLICES, uploaded=uploaded)
        summary = tmp_path / f"{uploaded}.md"
        paths = {"GITHUB_STEP_SUMMARY": str(summary), "REPORT": "", "UPLOADED": uploaded}
        assert bash(script("Summary"), tmp_path, RUN="gate", **paths).returncode == 0
        for text in (summary.read_text(), server.kept[0]["body"]):
            assert ("Anna" in text) is named
            assert "| headline |" in text
            assert "## Gate: PASS against main\n" in text


@dataclass
class Done:
    code: int
    summary: str
    printed: str
    values: Mapping[str, str]


def act(
    folder: Path,
    *,
    own_tests: bool = True,
    binaries: Path | None = None,
    github: Mapping[str, str] | None = None,
    **inputs: str,
) -> Done:
    """Run the action's scripts as GitHub does, without the steps that use other actions but the cache.

    `own_tests`: the repository has benchmark_tests. `binaries` is the folder of Python and its commands. `github`:
    values of the context, and variables, that differ. The cache is the folder `cache` beside the repository.
    """
    cache = folder.parent / "cache"
    cache.mkdir(exist_ok=True)
    values = {f"inputs.{name}": each["default"] for name, each in ACTION["inputs"].items()}
    values |= {f"inputs.{name.replace('_', '-')}": value for name, value in {"install": "false", **inputs}.items()}
    values |= {"steps.report.outputs.artifact-url": URL, "github.action_path": str(ROOT), "github.token": "secret"}
    values |= {"github.ref_name": "main", "github.event.repository.default_branch": "main", "github.event_name": "push"}
    values |= {"github.run_id": str(uuid.uuid4().int), "github.run_attempt": "1", **(github or {})}
    if own_tests:
        shutil.copytree(ROOT / "benchmark_tests", folder / "benchmark_tests")
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    summary = folder.parent / "summary.md"
    summary.write_text("")
    environment = {
        "PATH": os.pathsep.join((str(binaries or Path(sys.executable).parent), os.environ["PATH"])),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(folder.parent / "output"),
        **{name: value for name, value in (github or {}).items() if name.isupper()},
        # The installed package, and not the one that is tested here.
        **({"PYTHONPATH": ""} if binaries else {}),
    }
    code, printed = 0, ""
    for step in ACTION["runs"]["steps"]:
        condition = step.get("if", "")
        if not holds(condition, values) or (code and condition != "always()"):
            continue
        mine = filled(step.get("env", step.get("with", {})), values)
        if step.get("uses") == "actions/cache/restore@v4":
            kept = sorted(cache.glob(f"{mine['restore-keys']}*"), key=lambda each: each.stat().st_mtime_ns)
            if kept:
                shutil.copytree(kept[-1], folder / mine["path"], dirs_exist_ok=True)
        if step.get("uses") == "actions/cache/save@v4":
            shutil.copytree(folder / mine["path"], cache / mine["key"])
        if "run" not in step:
            continue
        output = Path(environment["GITHUB_OUTPUT"])
        output.write_text("")
        done = bash(step["run"], folder, **environment | mine)
        told = (line.partition("=") for line in output.read_text().splitlines())
        values |= {f"steps.{step.get('id')}.outputs.{name}": value for name, _, value in told}
        code = code or done.returncode
        printed += done.stdout + done.stderr
    return Done(code, summary.read_text(), printed, values)


def filled(texts: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {name: EXPRESSION.sub(lambda found: values.get(found[1], ""), text) for name, text in texts.items()}


def holds(condition: str, values: Mapping[str, Any]) -> bool:
    if condition in ("", "always()"):
        return True
    condition = condition.removeprefix("always() && ")
    found = re.fullmatch(r"((?:inputs|steps)\.[a-z.-]+) == '(.*)'", condition)
    assert found is not None, condition
    return bool(values.get(found[1], "") == found[2])


@pytest.mark.slow
def test_the_phantom_gate_passes_as_written(tmp_path: Path) -> None:
    done = act(tmp_path / "checkout")
    assert done.code == 0, done.printed
    assert "## Gate: PASS against gate-baseline" in done.summary
    assert f"Every question and answer: [index.html]({URL}) of run gate." in done.summary
    for name in ("index.html", "gate.xml", "junit.xml"):
        assert (tmp_path / "checkout/reports/gate" / name).is_file()


@pytest.mark.slow
def test_a_foreign_repository_without_tests_is_gated(door: Door) -> None:
    """The package is installed there, and the repository has neither tests nor models."""
    options = {"model": "random", "baseline_model": "random", "arguments": "--limit=20\n--gate-slices=kind"}
    done = act(door.folder, own_tests=False, binaries=door.environment / "bin", inconclusive="pass", **options)
    assert done.code == 0, done.printed
    assert "## Gate: " in done.summary
    assert (door.folder / "reports/gate/gate.xml").is_file()
    assert done.values["steps.public.outputs.upload"] == "true"


@pytest.mark.slow
def test_a_model_that_cannot_be_told_apart_fails_and_is_summarised(tmp_path: Path) -> None:
    options = {"model": "random:1", "baseline_model": "random", "arguments": "-n 2 --gate-slices=kind"}
    done = act(tmp_path / "checkout", **options)
    assert done.code == 11, done.printed
    assert "## Gate: INCONCLUSIVE against gate-baseline, flip_icc 0.1 (exit code 11)" in done.summary.replace("\\", "")
    lenient = act(tmp_path / "lenient", **options, inconclusive="pass")
    assert lenient.code == 0, lenient.printed


@pytest.mark.slow
def test_an_input_is_no_command(tmp_path: Path) -> None:
    done = act(tmp_path / "checkout", baseline="$(touch evil)", arguments="; touch worse", model="random")
    assert done.code == 4, done.printed
    assert done.summary == ""
    assert not (tmp_path / "checkout/evil").exists()
    assert not (tmp_path / "checkout/worse").exists()


TWO = {"model": "random", "benchmark": "phantom-mediconfusion"}
"""Inputs that suffice in an empty repository."""
PULL_REQUEST = {"github.event_name": "pull_request", "github.ref_name": "7/merge"}
BY_HAND = {"github.event_name": "workflow_dispatch"}


@pytest.mark.slow
def test_an_empty_repository_keeps_its_first_run_and_gates_the_next(tmp_path: Path, door: Door) -> None:
    there: Any = {"own_tests": False, "binaries": door.environment / "bin"}
    early = act(tmp_path / "early", **there, github=PULL_REQUEST, **TWO)
    assert early.code == 4, "nothing to compare with is no PASS"
    assert "no verdict: no baseline is kept. Run this workflow on the branch main first" in early.printed
    assert not any((tmp_path / "cache").iterdir())

    first = act(tmp_path / "first", **there, **TWO)
    assert first.code == 0, first.printed
    assert "this run of the branch main becomes it" in first.printed
    (kept,) = (tmp_path / "cache").iterdir()
    assert "liver" not in (kept / "main.medvqa").read_text("utf-8", "replace"), "no answer is in the cache"

    same = act(tmp_path / "same", **there, github=PULL_REQUEST, **TWO)
    assert same.code == 0, same.printed
    assert "## Gate: PASS against " in same.summary, same.summary
    worse = act(tmp_path / "worse", **there, github=PULL_REQUEST, **TWO | {"model": "echo:neither"})
    assert worse.code in (10, 11), worse.printed
    assert [kept] == list((tmp_path / "cache").iterdir()), "a pull request moves no baseline"

    assert act(tmp_path / "pushed", **there, **TWO).code == 0
    assert [kept] == list((tmp_path / "cache").iterdir()), "a push moves no baseline"
    assert act(tmp_path / "by-hand", **there, github=BY_HAND, **TWO).code == 0
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize(("event", "code"), [("push", 0), ("pull_request_target", 4)])
def test_no_pull_request_founds_a_baseline(tmp_path: Path, event: str, code: int) -> None:
    """An event of a pull request may have the default branch's name and cache, and anybody's code."""
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(0o755)
    names = ("BASELINE", "BENCHMARK", "MODEL", "MARGIN", "INCONCLUSIVE", "RUN", "ARGUMENTS", "TESTS")
    main_branch = {
        "FROM": "kept",
        "BRANCH": "main",
        "DEFAULT_BRANCH": "main",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    done = bash(script("Gate"), tmp_path, PATH=path, EVENT=event, **main_branch, **dict.fromkeys(names, ""))
    assert done.returncode == code, done.stderr
    assert (tmp_path / "output").exists() == (code == 0)


PULL_REQUEST_7 = '{"pull_request": {"number": 7}}'


class Comments:
    """GitHub's comments of pull request 7, by its API; `status`: what a writing is answered with."""

    def __init__(self, *kept: Mapping[str, Any], status: int = 200) -> None:
        self.kept = [dict(each) for each in kept]
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                outer.asked.append(f"{self.command} {self.path}")
                assert self.headers["Authorization"] == "Bearer secret"
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
                if self.command == "GET":
                    page = int(self.path.rpartition("=")[2])
                    self.reply(200, outer.kept[100 * (page - 1) : 100 * page])
                elif status != 200:
                    self.reply(status, {})
                elif self.command == "PATCH":
                    number = int(self.path.rpartition("/")[2])
                    next(each for each in outer.kept if each["id"] == number).update(sent)
                    self.reply(200, {})
                else:
                    outer.kept.append({"id": 1 + len(outer.kept), "user": {"type": "Bot"}, **sent})
                    self.reply(201, {})

            do_GET = do_PATCH = do_POST = answer

            def reply(self, code: int, body: Any) -> None:
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def told(
        self, folder: Path, summary: str, run: str = "gate", event: str = PULL_REQUEST_7, uploaded: str = "true"
    ) -> str:
        """Run the step of the comment; return what it printed."""
        (folder / "reports" / run).mkdir(parents=True, exist_ok=True)
        (folder / "reports" / run / "summary.md").write_text(summary)
        (folder / "event.json").write_text(event)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        address = f"http://127.0.0.1:{self.server.server_port}"
        variables = {"GITHUB_API_URL": address, "GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_PATH": "event.json"}
        variables |= {
            "COMMENT": "true",
            "TOKEN": "secret",
            "SOURCE": str(ROOT),
            "RUN": run,
            "REPORT": URL,
            "UPLOADED": uploaded,
        }
        done = bash(script("Comment"), folder, **variables, PATH=path)
        assert done.returncode == 0, done.stderr
        assert "secret" not in done.stdout + done.stderr
        return done.stdout


def test_a_pull_request_has_one_comment_that_is_replaced(tmp_path: Path) -> None:
    person = {"id": 1, "user": {"type": "User"}, "body": "<!-- medvqa gate: gate -->\nI quote it."}
    server = Comments(person, *({"id": n, "user": {"type": "Bot"}, "body": "built"} for n in range(2, 105)))
    assert server.told(tmp_path, "# First\n[index.html](index.html)\n") == "the pull request has a comment\n"
    assert server.told(tmp_path, "# Second\n") == "the comment of the pull request is replaced\n"
    assert server.told(tmp_path, "# Of another gate\n", run="other") == "the pull request has a comment\n"
    assert [each["body"] for each in server.kept[104:]] == [
        "<!-- medvqa gate: gate -->\n# Second\n",
        "<!-- medvqa gate: other -->\n# Of another gate\n",
    ]
    for name in ("a-b", "a_b"):
        assert server.told(tmp_path, "# x\n", run=name) == "the pull request has a comment\n"
    assert server.kept[0] == person
    server.told(tmp_path, "long " * 20_000)
    assert len(server.kept[104]["body"]) == 65_536
    assert server.kept[104]["body"].endswith("The rest is in the summary of the job.\n")


def test_a_comment_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    refusing = Comments(status=403)
    told = refusing.told(tmp_path, "# First\n")
    assert told.startswith("::warning::the comment of the pull request was not written: 403 ")
    assert "pull-requests: write" in told
    assert refusing.told(tmp_path, "# First\n", event="{}") == "no pull request: no comment\n"
    assert refusing.asked[-1].startswith("POST"), "a push asks nothing"
