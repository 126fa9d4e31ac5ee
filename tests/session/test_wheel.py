"""The wheel, built from the source distribution, works in a folder that knows nothing of this repository."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import medvqa

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmark_tests", "fixtures", "models")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built from the unpacked source distribution, as an index would do it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_carries_what_a_user_edits_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    metadata = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"
    assert {name.partition("/")[0] for name in names} == {"medvqa", metadata.rstrip("/")}
    assert {"medvqa/py.typed", metadata + "licenses/LICENSE"} <= names
    assert {f"medvqa/judging/prompts/{task}.txt" for task in ("score", "closeness", "options")} <= names
    for folder in FOLDERS:
        files = {path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        expected = {path.relative_to(ROOT).as_posix() for path in files if not path.match("*.medvqa-index.jsonl")}
        shipped = {name for name in names if name.startswith(f"medvqa/suite/{folder}/")}
        assert {name.removeprefix("medvqa/suite/") for name in shipped} == expected
    pages = {name.removeprefix("medvqa/suite/docs/") for name in names if name.startswith("medvqa/suite/docs/")}
    docs = ROOT / "docs"
    shipped_docs = (path for pattern in ("*.md", "schedulers/*", "schemas/*") for path in docs.glob(pattern))
    assert pages == {str(path.relative_to(docs)) for path in shipped_docs}


def test_the_description_of_the_wheel_names_pages_by_the_command_that_prints_them(wheel: Path) -> None:
    """Links into the repository lead nowhere on an index."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    assert "(`medvqa help start`)" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


def test_the_wheel_passes_the_smoke_test_of_a_release(wheel: Path, tmp_path: Path) -> None:
    """The step of the release's workflow, in a folder that has the wheel and nothing else."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    (smoke,) = [step["run"] for step in workflow["jobs"]["smoke"]["steps"] if step.get("name") == "Smoke"]
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / wheel.name).hardlink_to(wheel)
    # The step takes the newest versions; CI those that are pinned, so that a release elsewhere does not make it red.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | {"PATH": path, "PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_COMPILE": "0"}
    subprocess.run(["bash", "-euo", "pipefail", "-c", smoke], cwd=tmp_path, env=variables, check=True)
    results = (tmp_path / "empty/reports/second/results.jsonl").read_text().splitlines()
    assert len(results) > 200
    assert json.loads((tmp_path / "empty/reports/first/metrics.json").read_text())["measures"]
    assert {path.name for path in (tmp_path / "empty").iterdir()} <= {"reports", ".pytest_cache"}


def test_a_release_is_named_alike_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == medvqa.__version__
    assert f"## {medvqa.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    tested = workflow["jobs"]["smoke"]["strategy"]["matrix"]["python-version"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [text.rpartition(" ")[2] for text in project["classifiers"] if ":: 3." in text]
    assert set(named) <= set(tested), "a Python that is named is smoked"
