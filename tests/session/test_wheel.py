"""The wheel, built from the source distribution, works in a folder that knows nothing of this repository."""

import json
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

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


def test_the_wheel_runs_the_phantom_in_another_repository(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-c", ROOT / "constraints.txt", wheel], check=True)
    repository = tmp_path / "repository"
    repository.mkdir()
    suite = ["--pyargs", "medvqa.suite.benchmark_tests", "--run=first", "--model=random"]
    subprocess.run([python, "-m", "pytest", *suite], cwd=repository, check=True)
    subprocess.run([environment / "bin" / "medvqa", "report", "reports/first"], cwd=repository, check=True)
    results = (repository / "reports/first/results.jsonl").read_text().splitlines()
    assert len(results) > 200
    assert json.loads((repository / "reports/first/metrics.json").read_text())["measures"]
    assert {path.name for path in repository.iterdir()} <= {"reports", ".pytest_cache"}
