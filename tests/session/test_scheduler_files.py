"""The files for schedulers of docs/scale.md run as processes, and give the measures of the run in one piece.

The files are those that users copy. REPLACED lists all that a test changes in them: the model, the data, and the
numbers of tasks. Steps of a service (checkout, artifacts, mounts) are imitated; `pip install` is left out.
"""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from medvqa.session.sharding import NUMBERINGS
from support import slurm

ROOT = Path(__file__).parents[2]
REPLACED = {
    "--model=qwen-vl": "--model=random",
    "--benchmark=vqa-rad": "--benchmark=phantom-mediconfusion",
    "--data=/data": "--data=data",
    "--answers=s3://BUCKET/answers": "--answers=file:///bucket/answers",
    "--pyargs medvqa.suite.benchmark_tests -n 8": "-p no:cacheprovider benchmark_tests -n 1",
    # Two tasks in place of eight, and two nodes in place of four.
    "--array=0-7": "--array=0-1",
    "MEDVQA_SHARDS=8 sbatch --parsable --array=2,5": "MEDVQA_SHARDS=2 sbatch --parsable --array=1",
    "-*of8": "-*of2",
    "--nodes=4": "--nodes=2",
    "-*of4": "-*of2",
    "completions: 8": "completions: 2",
    '{name: MEDVQA_SHARDS, value: "8"}': '{name: MEDVQA_SHARDS, value: "2"}',
    "num_nodes: 8": "num_nodes: 2",
    "shard: [1, 2, 3, 4, 5, 6, 7, 8]": "shard: [1, 2]",
    "MEDVQA_SHARD: ${{ matrix.shard }}/8": "MEDVQA_SHARD: ${{ matrix.shard }}/2",
    "parallel: 8": "parallel: 2",
}
FILE = re.compile(r"^`([^`\n]+)`(?:[^\n]+\n)+\n```(?:bash|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A paragraph that begins with a file's name, and the block that follows it."""
COPIED = {
    "nodes.sbatch": "nodes.sbatch",
    "kubernetes-evaluate.yaml": "evaluate.yaml",
    "kubernetes-merge.yaml": "merge.yaml",
    "skypilot.yaml": "qwen.yaml",
    "github.yml": ".github/workflows/medvqa.yml",
    "gitlab.yml": ".gitlab-ci.yml",
}
"""Files of docs/schedulers/ by the names of their copies; test_served.py runs the others."""
SERVED = {"served.sbatch", "qwen-served.toml"}
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def smaller(text: str) -> str:
    """A text with what a test changes in it."""
    for before, after in REPLACED.items():
        text = text.replace(before, after)
    return text


def section() -> str:
    """The page's section on job arrays."""
    page = (ROOT / "docs/scale.md").read_text("utf-8")
    return page.partition("\n## Job arrays\n")[2].partition("\n## ")[0]


WRITTEN = dict(FILE.findall(section()))
WRITTEN |= {copy: (ROOT / "docs/schedulers" / name).read_text("utf-8") for name, copy in COPIED.items()}
FILES = {name: smaller(text) for name, text in WRITTEN.items()}


def typed(place: int) -> str:
    """The commands of one of the section's console blocks."""
    return "\n".join(line.removeprefix("$ ") for line in CONSOLE.findall(smaller(section()))[place].splitlines())


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a task: those of this process without any scheduler's, and sbatch and srun on PATH."""
    commands = tmp_path_factory.mktemp("cluster") / "bin"
    slurm.install(commands)
    told = re.compile("|".join(f"{numbering.index.rpartition('_')[0]}_" for numbering in NUMBERINGS) + "|MEDVQA_")
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {name: value for name, value in os.environ.items() if not told.match(name)} | {"PATH": path}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A folder with the suite, the run in one piece, and its baseline file."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "benchmark_tests", folder / "benchmark_tests")
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = benchmark_tests\n")
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/activate").touch()
    (folder / "data").mkdir()
    ran("medvqa run --model=random --benchmark=phantom-mediconfusion --run=whole", folder, environment)
    ran("medvqa baseline reports/whole -o main.medvqa", folder, environment)
    return folder


@pytest.fixture
def checkout(project: Path, tmp_path: Path) -> Path:
    """A copy of the project without runs."""
    return copied(project, tmp_path / "checkout")


def copied(project: Path, folder: Path) -> Path:
    return shutil.copytree(project, folder, ignore=shutil.ignore_patterns("reports"))


def start(script: str, folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start lines of a shell."""
    command = ["bash", "-c", script]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=dict(environment), stdout=pipe, stderr=subprocess.STDOUT, text=True
    )


def output(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for a process, and return its output; AssertionError for another exit code."""
    said, _ = process.communicate(timeout=100)
    assert process.returncode == code, said
    return said


def ran(script: str, folder: Path, environment: Mapping[str, str]) -> str:
    return output(start(script, folder, environment))


def check(folder: Path, project: Path, sources: Sequence[str]) -> None:
    """The merged run has the measures of the run in one piece, and its gate passed. `sources` are its tasks'."""
    merged, whole = (json.loads((run / "metrics.json").read_text()) for run in (folder, project / "reports/whole"))
    assert merged["measures"] == whole["measures"]
    assert merged["gate"]["outcome"] == "PASS"
    parts = [json.loads(path.read_text()) for path in sorted(folder.parent.glob("qwen-*of*/run.json"))]
    assert [part["sessions"][-1].get("shard_source") for part in parts] == list(sources)
    assert [part["options"]["shard"] for part in parts] == [f"{n + 1}/{len(sources)}" for n in range(len(sources))]


def test_a_slurm_array(checkout: Path, project: Path, environment: dict[str, str]) -> None:
    """A shard that is lost is named, and run again by the page's command; the merged run is then made anew."""
    for name in ("evaluate.sbatch", "merge.sbatch"):
        (checkout / name).write_text(FILES[name])
    evaluate, merge = typed(0).splitlines()
    ran(f"set -e\n{evaluate}\nrm -r reports/qwen-2of2\n{merge}", checkout, environment)
    assert json.loads((checkout / "job-100.json").read_text()) == [0, 0]
    assert json.loads((checkout / "job-101.json").read_text()) == [1]
    said = (checkout / "qwen-merge-101.txt").read_text()
    assert "! shard 2/2 is missing" in said
    assert "to run shard 2/2: type the command of qwen-1of2 with --shard=2/2 --run=qwen-2of2" in said
    assert "or as tasks of Slurm: MEDVQA_SHARDS=2 sbatch --array=1 FILE" in said
    assert not (checkout / "reports/qwen/gate.json").exists()
    ran(f"set -e\n{typed(1)}", checkout, environment)
    assert json.loads((checkout / "job-103.json").read_text()) == [0], (checkout / "qwen-merge-103.txt").read_text()
    assert "medvqa: shard 1 of 2 (SLURM_ARRAY_TASK_ID=0 of 0-1)" in (checkout / "qwen-100_0.txt").read_text()
    sources = ["SLURM_ARRAY_TASK_ID=0 of 0-1", "SLURM_ARRAY_TASK_ID=1, MEDVQA_SHARDS=2"]
    check(checkout / "reports/qwen", project, sources)


def test_slurm_nodes(checkout: Path, project: Path, environment: dict[str, str]) -> None:
    """Each node has a task with workers of its own."""
    (checkout / "nodes.sbatch").write_text(FILES["nodes.sbatch"])
    ran("sbatch nodes.sbatch", checkout, environment)
    said = (checkout / "qwen-100.txt").read_text()
    assert json.loads((checkout / "job-100.json").read_text()) == [0], said
    check(checkout / "reports/qwen", project, ["SLURM_PROCID=0 of 0-1", "SLURM_PROCID=1 of 0-1"])


def test_kubernetes(checkout: Path, project: Path, environment: dict[str, str]) -> None:
    """The commands of both Jobs run, each pod with the index that Kubernetes gives it."""
    spec = yaml.safe_load(FILES["evaluate.yaml"])["spec"]
    assert spec["completionMode"] == "Indexed"
    (container,) = spec["template"]["spec"]["containers"]
    own = {variable["name"]: variable["value"] for variable in container["env"]}
    pods = [
        subprocess.Popen(
            container["command"], cwd=checkout, env=environment | own | {"JOB_COMPLETION_INDEX": str(index)}
        )
        for index in range(spec["completions"])
    ]
    assert [pod.wait(timeout=100) for pod in pods] == [0, 0]
    (container,) = yaml.safe_load(FILES["merge.yaml"])["spec"]["template"]["spec"]["containers"]
    subprocess.run(container["command"], cwd=checkout, env=environment, check=True)
    sources = [f"JOB_COMPLETION_INDEX={index}, MEDVQA_SHARDS=2" for index in range(2)]
    check(checkout / "reports/qwen", project, sources)


def test_skypilot(checkout: Path, project: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Nodes have folders of their own, and share a bucket, which is a folder here."""
    _, evaluate, merge = yaml.safe_load_all(FILES["qwen.yaml"])
    bucket, count = tmp_path / "bucket", evaluate["num_nodes"]
    bucket.mkdir()

    def node(task: dict[str, Any], rank: int, of: int) -> subprocess.Popen[str]:
        folder = copied(project, tmp_path / f"{task['name']}{rank}")
        own = {"SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": str(of)}
        return start(task["run"].replace("/bucket/", f"{bucket}/"), folder, environment | own)

    for process in [node(evaluate, rank, count) for rank in range(count)]:
        output(process)
    output(node(merge, 0, 1))
    check(bucket / "qwen", project, [f"SKYPILOT_NODE_RANK={rank} of 0-1" for rank in range(2)])


def test_github(project: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Each job has a checkout of its own; artifacts are all that they share."""
    jobs = yaml.safe_load(FILES[".github/workflows/medvqa.yml"])["jobs"]
    artifacts = tmp_path / "artifacts"

    def filled(text: str, shard: object) -> str:
        return text.replace("${{ matrix.shard }}", str(shard))

    def job(name: str, shard: object = None) -> tuple[Path, subprocess.Popen[str]]:
        folder = copied(project, tmp_path / f"{name}{shard}")
        own = {variable: filled(value, shard) for variable, value in jobs[name].get("env", {}).items()}
        lines = ["set -e"]
        for step in jobs[name]["steps"]:
            action = step.get("uses", "").partition("@")[0]
            if "run" in step and not step["run"].startswith("pip install"):
                lines.append(step["run"])
            elif action == "actions/download-artifact":
                for found in sorted(artifacts.iterdir()):
                    if fnmatch.fnmatch(found.name, step["with"]["pattern"]):
                        shutil.copytree(found, folder / step["with"]["path"], dirs_exist_ok=True)
        return folder, start("\n".join(lines), folder, environment | own)

    def upload(name: str, shard: object, folder: Path) -> None:
        for step in jobs[name]["steps"]:
            if step.get("uses", "").startswith("actions/upload-artifact"):
                hidden = shutil.ignore_patterns(".*")
                shutil.copytree(
                    folder / step["with"]["path"], artifacts / filled(step["with"]["name"], shard), ignore=hidden
                )

    shards = jobs["evaluate"]["strategy"]["matrix"]["shard"]
    for shard, (folder, process) in [(shard, job("evaluate", shard)) for shard in shards]:
        output(process)
        upload("evaluate", shard, folder)
    assert jobs["report"]["needs"] == "evaluate"
    folder, process = job("report")
    output(process)
    check(folder / "reports/qwen", project, [f"MEDVQA_SHARD={shard}/2" for shard in shards])


def test_gitlab(project: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Each job has a checkout of its own, and the files of the stages before it."""
    jobs = yaml.safe_load(FILES[".gitlab-ci.yml"])
    count = jobs["evaluate"]["parallel"]
    folders = [copied(project, tmp_path / f"evaluate{number}") for number in range(1, count + 1)]
    report = copied(project, tmp_path / "report")
    started = [
        start(
            "\n".join(["set -e", *jobs["evaluate"]["script"]]),
            folder,
            environment | {"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(count)},
        )
        for number, folder in enumerate(folders, 1)
    ]
    for process, folder in zip(started, folders, strict=True):
        output(process)
        for pattern in jobs["evaluate"]["artifacts"]["paths"]:
            for path in folder.glob(pattern):
                shutil.copytree(path, report / path.relative_to(folder))
    ran("\n".join(["set -e", *jobs["report"]["script"]]), report, environment | {"CI_NODE_TOTAL": "1"})
    check(report / "reports/qwen", project, [f"CI_NODE_INDEX={number} of 1-2" for number in range(1, 3)])


def test_every_file_of_the_section_is_run() -> None:
    """No file stands on the page that these tests do not know."""
    assert set(FILES) == {
        "evaluate.sbatch",
        "merge.sbatch",
        "nodes.sbatch",
        "evaluate.yaml",
        "merge.yaml",
        "qwen.yaml",
        ".github/workflows/medvqa.yml",
        ".gitlab-ci.yml",
    }


def test_every_file_of_the_folder_is_run_and_each_replaced_word_stands_in_one() -> None:
    assert {path.name for path in (ROOT / "docs/schedulers").iterdir()} == {*COPIED, *SERVED}
    text = "\n".join([section(), *WRITTEN.values()])
    assert [before for before in REPLACED if before not in text] == []
