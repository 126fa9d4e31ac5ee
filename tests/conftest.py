"""Settings of the project's own tests."""

import importlib
import os
import pkgutil
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import settings

import medvqa

collect_ignore = ["kept"]
"""A suite that test_kept.py runs, which is none of this one."""

pytest_plugins = ["support.installed"]

# A session within the process of a test (pytester) forgets what it imported. Some packages with compiled parts can be
# imported only once in a process, and a module that is forgotten while its package holds it is there twice: so
# everything is imported before.
for module in pkgutil.walk_packages(medvqa.__path__, "medvqa."):
    importlib.import_module(module.name)
for name in (
    "jinja2",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "numpy",
    "openpyxl",
    "PIL.Image",
    "scipy.sparse.csgraph",
    "scipy.special",
):
    importlib.import_module(name)

for name in ("safetensors", "torch"):
    with suppress(ModuleNotFoundError):
        importlib.import_module(name)

if "CI" not in os.environ:  # there hypothesis loads a profile of its own, without deadline and reproducible
    settings.register_profile("local", deadline=None)
    settings.load_profile("local")


@pytest.fixture(scope="session", autouse=True)
def _data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests away from the key of baselines in the user's data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.delenv("MEDVQA_BASELINE_KEY", raising=False)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run sessions, which take most of the time."""
    for item in items:
        if "pytester" in getattr(item, "fixturenames", ()):
            item.add_marker("sessions")
