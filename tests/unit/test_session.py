"""A run without pytest: planned, asked, delivered and finished in one process."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks
from medvqa.cli import main
from medvqa.items import (
    OUTCOMES,
    Answer,
    AnswerError,
    Benchmark,
    DataError,
    Item,
    OfficialRule,
    Origin,
    Owners,
    PromptFunction,
    Query,
    QuestionKey,
    Score,
    UsageError,
)
from medvqa.paper_tables import PaperColumn, PaperTable, Row
from medvqa.protocols.prompts import Template, Templates
from medvqa.records import run_folder, run_record, selected
from medvqa.records.selected import SELECTED
from medvqa.session.asker import Asker
from medvqa.session.conftests import found, load
from medvqa.session.delivery import Delivery
from medvqa.session.loop import ask_all
from medvqa.session.options import OPTIONS, Options
from medvqa.session.plan import Plan
from medvqa.session.project import Project
from medvqa.session.registry import Registry
from medvqa.session.resolving import resolve
from medvqa.session.run import End, Run, process_of
from medvqa.session.selecting import BLOCK, in_own_order
from support.strangers import CONFTEST, TEST


def module(text: str, name: str = "conftest") -> ModuleType:
    made = ModuleType(name)
    made.__file__ = f"/somewhere/{name}.py"
    exec(text, vars(made))
    return made


def plan(root: Path, *modules: ModuleType, **typed: object) -> Plan:
    registry = Registry.of(modules or [module(CONFTEST)])
    given = {"model": "stubborn:A", "benchmark": ["slake"], **typed}
    return resolve(Project(root, root, registry, Options.of(given, root)))


def queries(planned: Plan) -> list[Query]:
    return [
        Query(item, technique, sample)
        for name in planned.benchmarks
        for item in planned.items(name)
        for technique in planned.techniques
        for sample in planned.samples or (0,)
    ]


def run(planned: Plan, name: str = "first", session: str = "a1", count: int | None = None) -> End:
    process = process_of(planned, name, session)
    made, asker = Run(planned, process), Asker(planned, process)
    made.check()
    made.open()
    ask_all(made, asker, queries(planned)[:count])
    return made.finish()


# A whole run


def test_a_run_needs_no_pytest(tmp_path: Path) -> None:
    """The rooms above reports, and the command that draws reports, leave pytest alone."""
    rooms = "medvqa.session.loop, medvqa.commands.rescoring, medvqa.session.run, medvqa.cli.report, medvqa.cli"
    code = f"import sys, {rooms}; print({{'pytest', '_pytest', 'xdist'}} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


def test_medvqa_report_imports_no_pytest(tmp_path: Path) -> None:
    run(plan(tmp_path))
    (tmp_path / "conftest.py").write_text(CONFTEST)
    code = (
        "import sys; from medvqa.cli import main; main(sys.argv[1:])\n"
        "print({'pytest', '_pytest', 'medvqa.plugin'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", code, "report", "reports/first", "--plugin=conftest.py"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_all_questions_are_asked_and_reported(tmp_path: Path) -> None:
    finished = run(plan(tmp_path))
    assert (finished.asked, finished.problem, finished.incomplete, finished.exit_code) == (True, None, False, 0)
    folder = tmp_path / "reports/first"
    stored = run_folder.read(folder).results
    assert [result.key for result in stored] == sorted(query.key for query in queries(plan(tmp_path)))
    measures = json.loads((folder / "metrics.json").read_text())["measures"]
    accuracy = next(each for each in measures if each["name"] == "accuracy" and not each["slice"])
    assert (accuracy["value"], accuracy["n"]) == (pytest.approx(8 / 24), 24)


def test_a_run_equals_that_of_pytest(tmp_path: Path, pytester: pytest.Pytester) -> None:
    """The measures are the same."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_slake=TEST)
    arguments = ("--model=moody", "--benchmark=slake", "--run=first", "-p", "no:benchmark", "-p", "no:randomly")
    assert pytester.runpytest_inprocess(*arguments).ret == 1
    run(plan(tmp_path, model="moody"))
    one, other = (
        json.loads((root / "reports/first/metrics.json").read_text())["measures"] for root in (pytester.path, tmp_path)
    )
    assert one == other


def test_a_run_goes_on(tmp_path: Path) -> None:
    """What was asked is not asked again; the questions of both sessions are selected."""
    run(plan(tmp_path), count=10)
    run(plan(tmp_path), session="b2")
    sessions = run_record.read_run(tmp_path / "reports/first").as_json()["sessions"]
    assert [(each["asked"], each["reused"]) for each in sessions] == [(10, 0), (14, 10)]
    assert len(selected.selected(tmp_path / "reports/first")) == 24


@given(st.integers(0, 1000), st.text())
def test_sessions_that_share_a_place_ask_in_orders_of_their_own(number: int, session: str) -> None:
    asked = in_own_order(range(number), session)
    assert asked == in_own_order(range(number), session), "all workers of a session have one order"
    assert sorted(asked) == list(range(number))
    jumps = [after for before, after in itertools.pairwise(asked) if after != before + 1]
    assert all(place % BLOCK == 0 for place in [*asked[:1], *jumps]), "neighbours stay together"


def test_runs_that_begin_together_ask_most_questions_once() -> None:
    """Three runs of one speed, each of which reads every minute what the others have put."""
    orders = [in_own_order(range(8000), f"session {n}") for n in range(3)]
    known: set[int] = set()
    asked = 0
    while len(known) < 8000:
        minute: set[int] = set()
        for order in orders:
            own = [query for query in order if query not in known][:1200]
            asked += len(own)
            minute.update(own)
        known |= minute
    assert asked < 1.5 * 8000


def test_errors_in_a_row_end_a_run(tmp_path: Path) -> None:
    finished = run(plan(tmp_path, model="broken", **{"max-errors": 3}))
    assert (finished.incomplete, finished.exit_code) == (True, 1)
    assert len(run_folder.read(tmp_path / "reports/first").results) == 3
    about = run_record.read_run(tmp_path / "reports/first")
    assert about.last_session.stopped.startswith("3 errors in a row, the last: ")
    assert "stopped: 3 errors in a row" in (tmp_path / "reports/first/summary.md").read_text()


def test_a_session_that_goes_on_does_not_tell_why_an_earlier_one_stopped(tmp_path: Path) -> None:
    run(plan(tmp_path, model="broken", **{"max-errors": 3}))
    run(plan(tmp_path, model="broken", **{"max-errors": 0}), session="b2")
    about = run_record.read_run(tmp_path / "reports/first")
    assert [bool(session.stopped) for session in about.sessions] == [True, False]
    assert about.last_session.stopped == ""


def test_a_model_that_cannot_be_made_leaves_the_reason(tmp_path: Path) -> None:
    planned = plan(tmp_path, model="unmakable")
    process = process_of(planned, "first", "a1")
    asker = Asker(planned, process)
    with pytest.raises(UsageError) as caught:
        ask_all(Run(planned, process), asker, queries(planned))
    assert str(caught.value) == "model 'unmakable', load(): <string>:50: RuntimeError: no weights here"
    assert not (tmp_path / "reports/first/results.jsonl").exists()


def test_nothing_asked_leaves_no_folder(tmp_path: Path) -> None:
    planned = plan(tmp_path)
    made = Run(planned, process_of(planned, "first", "a1"))
    made.check()
    assert made.finish() == End(made.folder)
    assert not (tmp_path / "reports/first").exists()


@pytest.mark.parametrize("name", ["../up", "", ".hidden", "a/b", "x" * 121])
def test_a_run_s_name_is_that_of_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="a run's name is a letter or digit"):
        process_of(plan(tmp_path), name, "a1")


# Options and registry


def test_options_know_every_row_of_the_table(tmp_path: Path) -> None:
    empty = Options.of({}, tmp_path)
    assert (empty.typed, empty.model, empty.extraction) == (False, "phantom-vlm", "sound")
    assert all(Options.of({name: ["1"] if row.several else "1"}, tmp_path).typed for name, row in OPTIONS.items())


MINE = """
from medvqa import Answer, Backend

class Mine(Backend):
    sends_to = None
    def generate(self, prompts):
        return [Answer("A") for _ in prompts]

class _Helper(Backend):
    pass
"""


def test_a_backend_needs_no_hook(tmp_path: Path) -> None:
    known = Registry.of([module(MINE), module(CONFTEST, "other")]).backends
    assert "mine" in known
    assert not any(name.startswith("_") for name in known)
    assert run(plan(tmp_path, module(MINE), module(CONFTEST, "other"), model="mine")).exit_code == 0


def test_a_backend_that_is_imported_or_returned_counts_once() -> None:
    text = MINE + "\ndef pytest_medvqa_backends():\n    return [Mine]\n"
    first = module(text)
    second = module("", "second")
    vars(second)["Mine"] = vars(first)["Mine"]
    assert "mine" in Registry.of([first, second]).backends


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [(MINE, "backends", "mine"), (CONFTEST, "benchmarks", "slake")],
    ids=["backend", "benchmark"],
)
def test_two_of_one_name_are_refused_with_both_files(text: str, kind: str, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        Registry.of([module(text, "one"), module(text, "two")])
    assert str(caught.value) == (
        f"two {kind} are called '{name}', in /somewhere/one.py and in /somewhere/two.py; rename one of them"
    )


METRIC = """
from medvqa import metrics
from medvqa.metrics import accuracy, metric

@metric()
def long(results):
    "Long answers / answers."
    return float(len(results[0].answer.text) > 200), 1.0

_hidden = metrics.macro_accuracy("modality")
"""


def test_a_metric_needs_no_hook_and_a_shipped_one_is_no_new_one() -> None:
    first, other = module(METRIC), module("", "other")
    vars(other)["long"] = vars(first)["long"]
    known = Registry.of([first, other])
    assert [metric.name for metric in known.metrics] == ["long"]
    assert known.origins["metrics", "long"] == "/somewhere/conftest.py"


def test_a_metric_of_a_benchmark_is_its_own() -> None:
    text = METRIC + CONFTEST.replace("(metrics.accuracy, ", "(metrics.accuracy, long, ")
    known = Registry.of([module(text)])
    assert known.metrics == ()
    assert "long" in [metric.name for metric in known.benchmarks["slake"].metrics]


def test_a_benchmark_needs_no_hook() -> None:
    """A value that a module holds and returns from its hook counts once; an underscore hides it."""
    text = CONFTEST.replace("return [Benchmark(", "return [questions]\n\nquestions = (Benchmark(").replace(
        "True)]", "True))"
    )
    assert "slake" in Registry.of([module(text)]).benchmarks
    hidden = text.replace("def pytest_medvqa_benchmarks", "def _benchmarks").replace("questions", "_questions")
    assert "slake" not in Registry.of([module(hidden)]).benchmarks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def pytest_medvqa_metrics():\n    return 1 / 0",
            "pytest_medvqa_metrics: /somewhere/conftest.py:2: ZeroDivisionError: division by zero; expected: a "
            "function without parameters that returns a list of metrics",
        ),
        (
            "def pytest_medvqa_benchmarks():\n    return ['slake']",
            "/somewhere/conftest.py: pytest_medvqa_benchmarks returned a value of type str; expected: a function "
            "without parameters that returns a list of benchmarks",
        ),
        (
            "def pytest_medvqa_benchmarks():\n    pass",
            "pytest_medvqa_benchmarks: /somewhere/conftest.py:1: TypeError: 'NoneType' object is not iterable; "
            "expected: a function without parameters that returns a list of benchmarks",
        ),
        (
            METRIC.replace("def long", "def accuracy") + CONFTEST,
            "/somewhere/conftest.py: benchmark 'gmai-mmbench-val' has a metric 'accuracy' already; write "
            '@medvqa.metric(name="another_name")',
        ),
    ],
    ids=["raises", "another type", "no list", "the name of a benchmark's"],
)
def test_bad_hooks_are_one_line(text: str, message: str) -> None:
    made = ModuleType("conftest")
    made.__file__ = "/somewhere/conftest.py"
    exec(compile(text, made.__file__, "exec"), vars(made))
    with pytest.raises(UsageError) as caught:
        Registry.of([made])
    assert str(caught.value) == message


def distribution(folder: Path, *lines: str) -> None:
    """An installed package without code: its entry points."""
    info = folder / "boards-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boards\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def test_a_package_offers_a_module_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path, "[medvqa]", "boards = boards_of_mine")
    (tmp_path / "boards_of_mine.py").write_text(MINE + METRIC)
    monkeypatch.syspath_prepend(tmp_path)
    known = Registry.of()
    assert "mine" in known.backends
    assert known.origins["metrics", "long"] == str(tmp_path / "boards_of_mine.py")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nosuch_module", "ModuleNotFoundError: No module named 'nosuch_module'"),
        ("json:dumps", "a module is expected, such as package.module without a colon"),
        ("broken_boards", "/broken_boards.py:2: RuntimeError: no licence"),
    ],
)
def test_a_broken_entry_point_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    distribution(tmp_path, "[medvqa]", f"boards = {value}")
    (tmp_path / "broken_boards.py").write_text("\nraise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as caught:
        Registry.of()
    assert str(caught.value).startswith(f"package boards, entry point medvqa: boards = {value}: ")
    assert message in str(caught.value)


# The end of a run

FINISHED = """
def pytest_medvqa_finished(run, verdict):
    values = {m.name: m.value for m in run.measures if not m.slice}
    (run.folder / "ended.txt").write_text(f"{run.name} {values['accuracy']:.2f} {run.complete} {verdict}")
"""


def test_a_hook_gets_the_finished_run(tmp_path: Path) -> None:
    assert run(plan(tmp_path, module(CONFTEST + FINISHED))).notes == ()
    assert (tmp_path / "reports/first/ended.txt").read_text() == "first 0.33 True None"


def test_a_hook_that_raises_is_one_line(tmp_path: Path) -> None:
    hook = "def pytest_medvqa_finished(run):\n    raise OSError('no network')\n"
    finished = run(plan(tmp_path, module(CONFTEST), module(hook, "hooks"), module(FINISHED, "other")))
    assert (finished.exit_code, finished.problem) == (0, None)
    assert finished.notes == ("! pytest_medvqa_finished: <string>:2: OSError: no network",)
    assert (tmp_path / "reports/first/ended.txt").is_file(), "other hooks are called"


# The conftest.py files of a project


def project(root: Path) -> Path:
    (root / "tests/deep").mkdir(parents=True)
    (root / "sub/inner").mkdir(parents=True)
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests", "other/*", "/absolute"]')
    for folder in (".", "tests", "tests/deep", "sub", "sub/inner"):
        (root / folder / "conftest.py").write_text("")
    return root


def test_conftests_lie_from_the_root_to_the_current_folder_and_in_testpaths(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("raise RuntimeError('outside of the project')")
    root = project(tmp_path / "mine")
    files, skipped = found(root / "sub")
    assert [str(file.relative_to(root)) for file in files] == ["conftest.py", "sub/conftest.py", "tests/conftest.py"]
    assert skipped == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest.ini", "[pytest]\ntestpaths = tests\n  sub"),
        ("tox.ini", "[tox]\n[pytest]\ntestpaths = tests sub"),
        ("setup.cfg", "[tool:pytest]\ntestpaths = tests sub"),
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = "tests sub"'),
    ],
)
def test_testpaths_are_read_where_pytest_reads_them(tmp_path: Path, file: str, text: str) -> None:
    project(tmp_path)
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / file).write_text(text)
    names = [str(path.relative_to(tmp_path)) for path in found(tmp_path)[0]]
    assert names == ["conftest.py", "tests/conftest.py", "sub/conftest.py"]


def test_a_conftest_beside_a_run_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "theirs/run").mkdir(parents=True)
    (tmp_path / "theirs/run/run.json").write_text("{}")
    for folder in ("theirs", "theirs/run"):
        (tmp_path / folder / "conftest.py").write_text("")
        files, skipped = found(tmp_path / folder)
        assert files == []
        assert [file for file, _ in skipped] == [tmp_path / folder / "conftest.py"]


def test_a_file_is_imported_as_pytest_imports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is on the path, that of a package is the folder above; an error names file and line."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/__init__.py").write_text("")
    (tmp_path / "suite/strange_words.py").write_text("word = 'yes'")
    (tmp_path / "suite/conftest.py").write_text(
        "from suite.strange_words import word as _\nfrom . import strange_words"
    )
    assert vars(load(tmp_path / "suite/conftest.py"))["_"] == "yes"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conftest.py").write_text("import os\n\ndef f(:\n")
    with pytest.raises(UsageError, match=r"^conftest\.py:3: SyntaxError: invalid syntax$"):
        load(tmp_path / "conftest.py")
    (tmp_path / "conftest.py").write_text("import nosuch")
    with pytest.raises(UsageError, match=r"^conftest\.py:1: ModuleNotFoundError: No module named 'nosuch'$"):
        load(tmp_path / "conftest.py")


# Deliveries and selections

KEYS = st.builds(QuestionKey, st.text(), st.text(), st.sampled_from(["mc", "ff"]), st.text(), st.integers(0, 9))


@given(st.lists(st.tuples(KEYS, st.sampled_from(OUTCOMES))), st.dictionaries(st.text(), st.integers(0, 9)))
def test_a_delivery_survives_the_way_to_the_controller(
    outcomes: list[tuple[QuestionKey, str]], reused: dict[str, int]
) -> None:
    lines = [f'{{"n":{number}}}' for number in range(len(outcomes))]
    delivery = Delivery(lines, outcomes, {"cost": 0.5}, reused, 1, 2, {"input": 3}, ["x"], {"engine": {}}, {"b": {}})
    plain = delivery.plain()
    assert Delivery.of(plain) == delivery
    # What execnet can send: it looks at the exact type.
    assert all(type(key) is tuple for key, _ in plain["outcomes"])


@given(first=st.lists(KEYS), second=st.lists(KEYS))
def test_selections_of_sessions_add_up(
    tmp_path_factory: pytest.TempPathFactory, first: list[QuestionKey], second: list[QuestionKey]
) -> None:
    folder = tmp_path_factory.mktemp("run") / "first"
    for session, keys in (("a1", first), ("b2", second)):
        selected.select(folder, session, keys)
        selected.select(folder, session, keys)
        assert selected.selected_by(folder, session) == tuple(keys)
        selected.add_selected(folder)
        selected.remove_selected(folder, session)
        assert selected.selected_by(folder, session) is None
    assert selected.selected(folder) == tuple(sorted({*first, *second}))
    assert [path.name for path in folder.iterdir()] == [SELECTED]


def test_a_damaged_selection_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    run(plan(tmp_path))
    folder = tmp_path / "reports/first"
    (folder / SELECTED).write_text('["a"\n')
    (folder / ".selected-dead.jsonl").write_text("")
    with pytest.raises(DataError, match=r"selected\.jsonl: damaged: .*; remove it, and repeat the run's command"):
        run(plan(tmp_path), session="b2")
    (folder / SELECTED).unlink()
    assert run(plan(tmp_path), session="b2").exit_code == 0
    assert [path.name for path in folder.glob("*selected*")] == [SELECTED]


def test_a_selection_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / SELECTED).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"is a symbolic link; remove it, and repeat"):
        selected.selected(tmp_path)


def test_keys_that_cannot_be_added_cost_no_report(tmp_path: Path) -> None:
    """The results count; that the selection is not known is said, and is exit code 1."""
    planned = plan(tmp_path)
    process = process_of(planned, "first", "a1")
    made, asker = Run(planned, process), Asker(planned, process)
    made.open()
    ask_all(made, asker, queries(planned))
    (made.folder / SELECTED).write_text("damaged")
    finished = made.finish()
    assert finished.report is not None
    assert "the keys of the selected questions could not be stored" in str(finished.problem)
    assert finished.exit_code == 1


# Beside fixtures of the suite's own

OWN_MODEL = """
import pytest
@pytest.fixture
def model():
    return "mine"
"""


def test_a_model_of_a_plugin_of_the_suite_comes_first(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(fx=OWN_MODEL, test_it="def test_it(model):\n    assert model == 'mine'\n")
    pytester.makeconftest("pytest_plugins = ['fx']")
    pytester.syspathinsert()
    result = pytester.runpytest_inprocess("-p", "no:benchmark")
    assert result.ret == 0
    assert not (pytester.path / "reports").exists()


@pytest.mark.parametrize(
    "fixture",
    [
        "@pytest.fixture(params=['a', 'b'])\ndef evaluate(evaluate, request):\n    return evaluate",
        "@pytest.fixture\ndef evaluate(evaluate, tmp_path):\n    return evaluate",
    ],
    ids=["parametrized", "of a function"],
)
def test_an_evaluate_of_the_suite_may_wrap_the_plugin_s(pytester: pytest.Pytester, fixture: str) -> None:
    pytester.makeconftest(f"{CONFTEST}\nimport pytest\n\n{fixture}\n")
    pytester.makepyfile(test_slake=TEST)
    arguments = ("--model=stubborn:A", "--benchmark=slake", "--repeat=2", "--run=first", "-p", "no:benchmark")
    assert pytester.runpytest_inprocess(*arguments).ret == 0
    assert len(run_folder.read(pytester.path / "reports/first").results) == 48


@pytest.mark.slow
def test_workers_that_die_where_nothing_was_typed_end_in_exit_code_1(pytester: pytest.Pytester) -> None:
    deadly = CONFTEST.replace("[Answer(self.argument) for _ in prompts]", "__import__('os')._exit(3)")
    # Without a benchmark of its own, the phantom is what a run asks where nothing was typed.
    pytester.makeconftest(deadly.partition("def pytest_medvqa_benchmarks")[0])
    pytester.makepyfile(test_toy=TEST.replace('"slake"', '"phantom-mediconfusion"'))
    (pytester.path / "models").mkdir()
    (pytester.path / "models/phantom-vlm.toml").write_text('backend = "stubborn"\nargument = "A"\n')
    result = pytester.runpytest_subprocess("-n1", "--max-worker-restart=0", "-p", "no:randomly")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["! the workers died before anything was answered", "to go on: pytest *"])


# Commands


@pytest.mark.parametrize(
    "command",
    [("report", "reports/first"), ("rescore", "reports/first"), ("gate", "reports/first", "--baseline=reports/first")],
    ids=["report", "rescore", "gate"],
)
def test_a_command_executes_conftest_once(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(plan(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("conftest.py").write_text(CONFTEST + "\nopen('executed', 'a').write('x')\n")
    main([*command, "--plugin=conftest.py"])
    assert Path("executed").read_text() == "x"


def own_benchmark(**fields: object) -> ModuleType:
    """A conftest.py with a benchmark of two questions."""

    def items(_: Path) -> Iterator[Item]:
        for number in (1, 2):
            yield Item(f"q{number}", question="Q?", options={"A": "x", "B": "y"}, answers=("A",))

    made = ModuleType("conftest")
    made.__file__ = "/somewhere/conftest.py"
    vars(made)["mine"] = Benchmark(**{"name": "mine", "items": items, **fields})  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a\nb"}, r"benchmark 'a\\nb': name must be printable text of 1 to 100 characters"),
        ({"name": ""}, "benchmark '': name must be"),
        ({"name": 5}, "benchmark 5: name must be"),
        ({"items": [1]}, r"benchmark 'mine': items is \[1\]; expected: a function"),
        ({"prompt": 5}, "prompt is 5; expected: a function, or a text with {question}"),
        ({"score": 1.0}, "score is 1.0; expected: a function"),
        ({"origin": "x"}, "origin is 'x'; expected: an Origin or None"),
        ({"origin": Origin(find=["x"])}, r"origin.find is \['x'\]; expected: a function or None"),  # type: ignore[arg-type]
        ({"owners": Owners(rule=OfficialRule(score=5))}, "owners.rule.score is 5; expected"),  # type: ignore[arg-type]
        ({"metrics": ("accuracy",)}, r"metrics is \('accuracy',\); expected: a tuple of metrics"),
        ({"dimensions": "modality"}, r"dimensions is 'modality'; expected: a tuple of names of tags"),
        ({"prompt": PromptFunction(print, "mc")}, "techniques is 'mc'; expected: a tuple of techniques, which are mc"),
        ({"prompt": Templates("x", {"mc": 5})}, "a prompt has the template 5; expected: a Template"),  # type: ignore[dict-item]
        (
            {"prompts": {"x": Templates("x", {"mc": Template("x/mc", "{question}", "{lettr}.")})}},
            r"the text '{lettr}.' of template 'x/mc' has the field {lettr}. Its fields are {letter} and {text}",
        ),
        ({"judged": ("essay",)}, "expected: a set of kinds, which are single_choice"),
        ({"public": "no"}, "public is 'no'; expected: True or False"),
    ],
)
def test_a_benchmark_with_a_wrong_field_is_one_line(fields: dict[str, object], message: str) -> None:
    made = own_benchmark(**fields)
    with pytest.raises(UsageError, match=f"^/somewhere/conftest.py: .*{message}"):
        Registry.of([made])
    with pytest.raises(UsageError, match=message):
        Registry.of().with_objects(benchmarks=[made.mine])


def rows_of_two() -> PaperTable:
    columns = (PaperColumn("Accuracy", "accuracy"),)
    return PaperTable("Signs", "Table 2", "", {"test": "mine"}, columns, (Row("Doe-VL", (61.3, 3.0)),))


@pytest.mark.parametrize(
    ("published", "message"),
    [
        (rows_of_two, "ValueError: Signs: the row Doe-VL has 2 values, and the table 1 columns"),
        (dict, "TypeError: it returned a value of type dict"),
    ],
)
def test_published_rows_that_are_none_are_one_line(published: Callable[[], PaperTable], message: str) -> None:
    made = Registry.of([own_benchmark(owners=Owners(published=published))]).benchmarks["mine"]
    assert made.owners.published is not None
    with pytest.raises(
        UsageError, match=f"benchmark 'mine', published: .*{message}.*; expected: published returns a P"
    ):
        made.owners.published()


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (Score(5.0, "correct"), r"ValueError: value is 5\.0; a number from 0 to 1 is expected"),
        (Score(float("nan"), "correct"), "value is nan; a number from 0 to 1"),
        (Score("1", "correct"), "value is '1'; a number from 0 to 1"),  # type: ignore[arg-type]
        (Score(None, "correct"), "value is None and the outcome 'correct'; None is for unscored and error"),
        (Score(0.0, "unscored"), r"value is 0\.0 and the outcome 'unscored'"),
        (Score(1.0, "great"), "outcome is 'great'; there are: correct, partial"),  # type: ignore[arg-type]
        (Score(1.0, "correct", extracted="A"), "extracted is 'A'; a tuple of texts"),  # type: ignore[arg-type]
        (Score(1.0, "correct", why=5), "why is 5; a text is expected"),  # type: ignore[arg-type]
        (1.0, "it returned a value of type float"),
        (SystemExit(0), "SystemExit: 0"),
    ],
)
def test_a_score_that_is_none_costs_its_question(score: object, message: str) -> None:
    def give(item: Item, answer: Answer) -> object:
        if isinstance(score, BaseException):
            raise score
        return score

    benchmark = Registry.of([own_benchmark(score=give)]).benchmarks["mine"]
    (item, _) = benchmarks.load(benchmark, Path())
    with pytest.raises(AnswerError, match=f"benchmark 'mine', score: .*{message}.*; expected: score returns a Score"):
        benchmark.score(item, Answer("A"))
