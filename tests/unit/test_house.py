"""The shape of the house: the order of rooms, light imports, and packaging files that agree with each other."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import medvqa
from tools import frozen

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEAVY = {
    *("PIL", "huggingface_hub", "imagehash", "krippendorff", "nibabel", "openai", "openpyxl", "openslide", "pandas"),
    *("pyarrow", "pydicom", "scipy", "sklearn", "torch", "transformers"),
}


def pins(name: str) -> dict[str, str]:
    """What a constraints file pins: canonical name -> version."""
    requirements = [
        Requirement(line) for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")
    ]
    assert all([s.operator for s in r.specifier] == ["=="] for r in requirements)
    return {canonicalize_name(r.name): next(iter(r.specifier)).version for r in requirements}


def imported_with(module: str) -> set[str]:
    """The top-level packages that importing a module brings into a fresh interpreter."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_rooms_import_one_way() -> None:
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_no_circle_of_files() -> None:
    """Stricter than import-linter's siblings: files that import their own room's __init__ count too."""
    graph = grimp.build_graph("medvqa", exclude_type_checking_imports=True, cache_dir=None)
    assert "medvqa.report.html.page" in graph.modules, "else nothing is looked at"
    TopologicalSorter({file: graph.find_modules_directly_imported_by(file) for file in graph.modules}).prepare()


def test_class_names_are_unique() -> None:
    """So that a name in a traceback, an issue or a search has one meaning; private classes included."""
    places: dict[str, list[str]] = {}
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert "Benchmark" in places, "else nothing is looked at"
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_room_of_several_files_is_checked_for_circles() -> None:
    (checked,) = (each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["type"] == "acyclic_siblings")
    rooms = {
        path.parent for path in (ROOT / "src/medvqa").glob("*/__init__.py") if len([*path.parent.rglob("*.py")]) > 1
    }
    assert {f"medvqa.{room.name}" for room in rooms} == set(checked["ancestors"])


def test_every_room_has_its_place() -> None:
    order = PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = {path.stem for path in (ROOT / "src/medvqa").glob("[a-z]*.py")}
    rooms |= {path.parent.name for path in (ROOT / "src/medvqa").glob("*/__init__.py")}
    assert set(order) == rooms


def test_every_room_but_the_doors_is_checked_for_imports_of_pytest() -> None:
    layers, forbidden, _ = PYPROJECT["tool"]["importlinter"]["contracts"]
    assert set(forbidden["source_modules"]) == {f"medvqa.{room}" for room in layers["layers"]} - {
        "medvqa.cli",
        "medvqa.plugin",
    }


def test_functions_are_short() -> None:
    """Under 60 lines without signature and docstring."""
    long = set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if body and (node.end_lineno or 0) - body[0].lineno >= 60:
                    long.add(f"{path.relative_to(ROOT / 'src/medvqa').as_posix()}: {node.name}")
    assert long == set()


def test_the_plugin_imports_next_to_nothing() -> None:
    assert imported_with("medvqa.plugin") & (HEAVY | {"msgspec", "numpy", "rich"}) == set()


@pytest.mark.parametrize("room", PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"])
def test_rooms_import_heavy_packages_only_where_they_use_them(room: str) -> None:
    assert imported_with(f"medvqa.{room}") & HEAVY == set()


def test_reports_and_gates_need_neither_engine_nor_session() -> None:
    code = "import sys, medvqa.report, medvqa.comparing.gating; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"medvqa.engine", "medvqa.session", "medvqa.plugin", "pytest"} & set(modules) == set()


def test_a_session_needs_no_pytest() -> None:
    assert imported_with("medvqa.session") & {"pytest", "_pytest", "xdist"} == set()


def test_one_version() -> None:
    assert medvqa.__version__ == version("pytest-medvqa") == PYPROJECT["project"]["version"]


def test_lowest_versions_are_the_lower_bounds() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    used = [
        *PYPROJECT["project"]["dependencies"],
        *(text for name in extras if name != "test" for text in extras[name]),
    ]
    bounds = [Requirement(text) for text in used]
    assert all([s.operator for s in bound.specifier] == [">="] for bound in bounds)
    lowest = {bound.name: next(iter(bound.specifier)) for bound in bounds}
    pinned = pins("constraints-lowest.txt")
    assert lowest.keys() == pinned.keys()
    assert [name for name in lowest if not lowest[name].contains(pinned[name])] == []
    assert [name for name in lowest if not pinned[name].startswith(lowest[name].version)] == []


def test_constraints_pin_all_that_is_installed() -> None:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    named = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["project"]["optional-dependencies"]["test"], "tox"]
    for environment in ("testenv:lint", "testenv:typing"):
        named += [line for line in tox[environment]["deps"].split() if not line.startswith("{")]
    pinned = pins("constraints.txt")
    assert [name for name in named if canonicalize_name(Requirement(name).name) not in pinned] == []


def test_counterparts_are_pinned_and_named_by_no_registry() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    named = [Requirement(text).name for text in tox["testenv:counterparts"]["deps"].split()]
    assert [name for name in named if canonicalize_name(name) not in pins("constraints-counterparts.txt")] == []
    npm = json.loads((ROOT / "tests/counterparts/package.json").read_text())
    locked = json.loads((ROOT / "tests/counterparts/package-lock.json").read_text())["packages"]
    assert locked["node_modules/azurite"]["version"] == npm["dependencies"]["azurite"]
    assert {entry["resolved"] for entry in locked.values() if "resolved" in entry} == {"absent"}


def test_continuous_integration_fails_where_counterparts_are_missing() -> None:
    steps = (ROOT / ".ci/run").read_text().partition("tox run -e counterparts\n")[2]
    assert steps.index("export COUNTERPARTS=") < steps.index('-m "slow or seconds or hypothesis"')
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    assert "COUNTERPARTS" in tox["testenv"]["pass_env"].split()


def test_files_that_the_lowest_versions_leave_out_are_there() -> None:
    tree = ast.parse((ROOT / "tests/conftest.py").read_text())
    (value,) = (
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OWN_LOGIC"
    )
    left_out = {node.value for node in ast.walk(value) if isinstance(node, ast.Constant)}
    assert left_out, "else nothing is looked at"
    assert left_out - {path.name for path in (ROOT / "tests").glob("*/test_*.py")} == set()


def test_environments_of_other_pythons_have_what_tests_need_but_torch() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    environment = tox["testenv:py3{12,13}"]
    extras = PYPROJECT["project"]["optional-dependencies"]
    there = {Requirement(text).name for name in environment["extras"].split(", ") for text in extras[name]}
    there |= set(environment["deps"].split())
    needed = {Requirement(text).name for text in extras["test"]}
    assert needed - there == {"accelerate", "bitsandbytes", "peft", "playwright", "torch", "transformers"}
    pythons = {line.rpartition(" ")[2] for line in PYPROJECT["project"]["classifiers"] if "Python :: 3." in line}
    assert pythons == {"3.11", "3.12", "3.13"}


def test_tests_that_take_seconds_are_there() -> None:
    named = (ROOT / "tests/seconds.txt").read_text("utf-8").split()
    assert named == sorted(set(named))
    places = [(name, *name.split("::")) for name in named]
    gone = [name for name, file, *_, test in places if f"def {test}(" not in (ROOT / "tests" / file).read_text("utf-8")]
    assert gone == []


def test_continuous_integration_runs_the_readmes_second_command() -> None:
    commands = re.findall(r"^\$ (python3 -m venv .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    lines = (ROOT / ".ci/run").read_text().splitlines()
    steps = commands[1].split(" && ")
    assert lines[lines.index(steps[0]) :][: len(steps)] == steps


INNER = re.compile(r"""(?:\bmakepyfile\(|,)\s*(test_\w+)=|path / "(test_\w+)\.py\"""")
"""A file of a suite that a test writes."""


def test_inner_suites_have_names_of_their_own() -> None:
    """A session within this process would find the module of that name that is imported already."""
    ours = {path.stem for path in (ROOT / "tests").rglob("*.py") if "kept" not in path.parts}
    inner = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for names in INNER.findall(path.read_text("utf-8"))
        for name in names
        if name
    }
    assert {"test_slake", "test_drawn", "test_module"} <= inner, "else nothing is looked at"
    assert inner & ours == set()


def test_no_file_of_the_package_holds_an_unresolved_merge() -> None:
    """Scripts and style sheets of the page are run by no other fast test."""
    marker = re.compile(r"^(<{7} |>{7} |={7}$)", re.MULTILINE)
    suffixes = {".py", ".js", ".html", ".css", ".json", ".toml", ".txt"}
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in suffixes]
    assert [path.name for path in files if marker.search(path.read_text(encoding="utf-8"))] == []


def test_frozen_tests_assert_what_they_did() -> None:
    """Tests of guarantees may move and be renamed (tests/frozen.txt)."""
    listed = frozen.written()
    assert {line.guarantee for line in listed} >= {"kills", "parts", "privacy", "gates", "hostile input"}
    told = "if this is meant, type `python tools/frozen.py` and name the tests in the commit"
    assert list(map(str, frozen.lost(listed, frozen.all_digests().values()))) == [], told


def test_a_frozen_test_that_asserts_less_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "TESTS", tmp_path)
    path = tmp_path / "test_a.py"

    def digests(text: str) -> dict[str, str]:
        path.write_text(text)
        return frozen.digests([path])

    first = digests("def test_a():\n    x = f()\n    assert x == 1, 'told'\ndef test_b():\n    assert x == 1, 'told'\n")
    listed = [frozen.Frozen("kills", name, digest) for name, digest in first.items()]
    moved = digests(
        "def test_c():\n    y, x = 2, f()\n    assert  x==1, 'told'\ndef test_b():\n    assert x == 1, 'told'\n"
    )
    assert frozen.lost(listed, moved.values()) == []
    weaker = digests("def test_a():\n    x = f()\n    assert x\ndef test_b():\n    assert x == 1, 'told'\n")
    assert [line.name for line in frozen.lost(listed, weaker.values())] == ["test_a.py::test_b"]
    cases = digests(
        "@pytest.mark.parametrize('a', [1, 2])\ndef test_a(a):\n    with pytest.raises(E, match='m'):\n        f(a)\n"
    )
    fewer = digests(
        "@pytest.mark.parametrize('a', [1])\ndef test_a(a):\n    with pytest.raises(E, match='m'):\n        f(a)\n"
    )
    assert cases != fewer


def test_frozen_tests_that_move_keep_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where several of them assert the same."""
    monkeypatch.setattr(frozen, "TESTS", tmp_path)
    monkeypatch.setattr(frozen, "LIST", tmp_path / "frozen.txt")
    frozen.LIST.write_text("# what this is\n")
    test = "def test_{}():\n    assert f() == 1\n"
    path = tmp_path / "test_a.py"
    path.write_text("".join(map(test.format, "abc")))
    frozen.main("kills", str(path))
    path.write_text("".join(map(test.format, "axy")))
    frozen.main()
    assert [line.name for line in frozen.written()] == [f"test_a.py::test_{name}" for name in "axy"]
    assert capsys.readouterr().out == ""
    path.write_text("".join(map(test.format, "ax")))
    frozen.main()
    assert capsys.readouterr().out == "gone: test_a.py::test_y\n"
    assert len(frozen.written()) == 2
