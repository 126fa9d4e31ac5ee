"""The folders that ship are found, and a broken installation says so."""

from pathlib import Path

import pytest

from medvqa.data import folders
from medvqa.items import UsageError


@pytest.mark.parametrize(
    ("name", "file"),
    [("benchmark_tests", "test_phantom.py"), ("models", "random.toml"), ("fixtures", "phantom")],
)
def test_a_bundled_folder_is_found(name: str, file: str) -> None:
    assert (folders.bundled(name) / file).exists()


def test_the_wheels_copy_comes_before_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src/medvqa/suite"
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "src/medvqa/data/folders.py"))
    (tmp_path / "models").mkdir()
    assert folders.bundled("models") == tmp_path / "models"
    (package / "models").mkdir(parents=True)
    assert folders.bundled("models") == package / "models"


def test_a_missing_folder_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "lib/site-packages/medvqa/data/folders.py"))
    with pytest.raises(UsageError, match="the folder 'models' of pytest-medvqa is missing"):
        folders.bundled("models")
