"""The brief protocol against pytest's own: the same suites, the same outcomes, reports, files and order of fixtures."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from strangers import CONFTEST, TEST

FULL = "def pytest_runtest_setup(item):\n    pass\n"
"""A plugin that takes part in tests: all of them run by pytest's own protocol."""
WATCH = """
import json, os, pathlib
import pytest

class Watch:
    def __init__(self):
        self.lines = []
        self.brief = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid, location):
        self.lines.append(["start", nodeid])

    def pytest_runtest_logfinish(self, nodeid, location):
        self.lines.append(["finish", nodeid])

    def pytest_warning_recorded(self, warning_message, nodeid):
        self.lines.append(["warning", nodeid, str(warning_message.message)])

    def pytest_exception_interact(self, node, call, report):
        self.lines.append(["interact", node.nodeid, call.when, type(call.excinfo.value).__name__])

    def pytest_fixture_post_finalizer(self, fixturedef, request):
        if fixturedef.scope == "session" and fixturedef.cached_result is not None:
            self.lines.append(["ends", fixturedef.argname])

    def pytest_sessionfinish(self, session):
        pathlib.Path(os.environ["WATCHED"]).write_text(json.dumps(self.lines))

def pytest_configure(config):
    config.pluginmanager.register(Watch())
"""
SESSION = """

@pytest.mark.vqa("slake")
def test_more(evaluate, item):
    evaluate(item)

@pytest.fixture(scope="session")
def end():
    yield
    print("session fixture ends")

@pytest.mark.vqa("slake")
def test_with_end(item, evaluate, end):
    evaluate(item)
"""
WAYS = ["full", "brief"]


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> None:
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    # What is installed beside takes part in tests: without it, or the brief protocol would never run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("WATCHED", str(pytester.path / "watched.json"))
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=":")
    pytester.makepyfile(full=FULL, watch=WATCH)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_slake=TEST)


def run(pytester: pytest.Pytester, way: str, *arguments: str) -> pytest.RunResult:
    plugins = ["medvqa.plugin", "watch", *(["full"] if way == "full" else [])]
    loaded = [part for name in plugins for part in ("-p", name)]
    result = pytester.runpytest_subprocess(*loaded, "--model=moody", "--run=same", *arguments)
    # One name for both, since failures show it.
    made = pytester.path / "reports" / "same"
    if made.exists():
        made.rename(made.with_name(way))
    return result


def watched(pytester: pytest.Pytester) -> list[list[str]]:
    return json.loads((pytester.path / "watched.json").read_text())


def results(pytester: pytest.Pytester, way: str) -> list[object]:
    lines = (pytester.path / "reports" / way / "results.jsonl").read_text().splitlines()
    said = [json.loads(line) for line in lines]
    return [(each["item"]["id"], each["score"], each["answer"] and each["answer"]["text"]) for each in said]


def told(result: pytest.RunResult) -> list[str]:
    """What a session printed, without times, rates and addresses."""
    words = [
        (r"in \d+\.\d+s", "in T"),
        (r"  [\d.e-]+/s  [\d:]+ left", ""),  # not told in the first second
        (r"0x[0-9a-f]+", "0x"),
        ("to go on: .*", "to go on"),
    ]
    lines = []
    for line in result.outlines:
        for pattern, word in words:
            line = re.sub(pattern, word, line)
        lines.append(line.strip("="))
    return lines


def both(pytester: pytest.Pytester, *arguments: str) -> tuple[list[str], list[list[str]]]:
    """Run by each protocol; assert that nothing tells them apart, and return what it was."""
    seen = []
    for way in WAYS:
        shutil.rmtree(pytester.path / ".pytest_cache", ignore_errors=True)
        result = run(pytester, way, *arguments)
        kept = (pytester.path / "reports" / way / "results.jsonl").exists()
        seen.append((result.ret, told(result), watched(pytester), results(pytester, way) if kept else []))
    assert seen[0] == seen[1]
    return seen[0][1], seen[0][2]


# --- the two are alike ------------------------------------------------------------------------------------


SUITES = {
    "plain": TEST,
    "several functions": TEST + SESSION,
    "assertion": TEST.replace("evaluate(item)\n", "assert evaluate(item).score.outcome != 'wrong', 'mine'\n"),
    "output": TEST.replace(
        "    evaluate(item)\n",
        "    import logging, sys\n    print('to stdout', item.id)\n    print('to stderr', file=sys.stderr)\n"
        "    logging.warning('to the log')\n    evaluate(item)\n    assert item.id != 'q05'\n",
    ),
    "warnings": TEST.replace(
        "    evaluate(item)\n", "    import warnings\n    warnings.warn(item.id)\n    evaluate(item)\n"
    ),
    "raises": TEST.replace("    evaluate(item)\n", "    if item.id > 'q03':\n        raise ValueError(item.id)\n"),
    "skips": TEST.replace(
        "    evaluate(item)\n", "    if item.id > 'q03':\n        pytest.skip(item.id)\n    evaluate(item)\n"
    ),
    "skip mark": TEST.replace("@pytest.mark.vqa", "@pytest.mark.skipif(True, reason='no')\n@pytest.mark.vqa"),
    "xfail mark": TEST.replace("@pytest.mark.vqa", "@pytest.mark.xfail\n@pytest.mark.vqa"),
    "exits": TEST.replace(
        "    evaluate(item)\n", "    evaluate(item)\n    if item.id == 'q05':\n        pytest.exit('enough', 3)\n"
    ),
    "interrupted": TEST.replace(
        "    evaluate(item)\n", "    evaluate(item)\n    if item.id == 'q05':\n        raise KeyboardInterrupt\n"
    ),
    "class": "import pytest\nclass TestIt:\n"
    + "".join("    " + line + "\n" for line in TEST.splitlines()[2:]).replace(
        "(item, evaluate)", "(self, item, evaluate)"
    ),
    "fixtures": TEST.replace("evaluate):", "evaluate, tmp_path, capsys):"),
    "autouse": TEST
    + "\n@pytest.fixture(autouse=True)\ndef each():\n    print('before')\n    yield\n    print('after')\n",
    "own evaluate": TEST + "\n@pytest.fixture\ndef evaluate():\n    return print\n",
    "module setup": TEST
    + "\ndef setup_module():\n    print('set up')\n\ndef teardown_module():\n    print('torn down')\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES)
def test_nothing_tells_a_suite_that_it_was_run_briefly(pytester: pytest.Pytester, suite: str) -> None:
    pytester.makepyfile(test_slake=SUITES[suite])
    both(pytester, "-rA")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("-v",),
        ("-x",),
        ("--maxfail=3",),
        ("-s",),
        ("--stepwise",),
        ("--setup-show",),
        ("--setup-plan",),
        ("-W", "error"),
        ("--limit=5", "-k", "ct"),
        ("--max-errors=1",),
        ("--log-cli-level=INFO",),
    ],
    ids=" ".join,
)
def test_options_mean_the_same(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    both(pytester, *arguments)


def test_fixtures_end_in_the_same_order_and_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_slake=TEST + SESSION, test_b=TEST)
    _, lines = both(pytester)
    ended = [line[1] for line in lines if line[0] == "ends"]
    assert sorted(ended) == sorted(set(ended))
    assert ended.index("evaluate") < ended.index("model")


def test_junit_and_the_cache_hold_the_same(pytester: pytest.Pytester) -> None:
    files = []
    for way in WAYS:
        run(pytester, way, "--junitxml=own.xml", "-o", "junit_logging=all")
        root = ET.parse(pytester.path / "own.xml").getroot()
        for element in root.iter():
            for volatile in ("time", "timestamp", "hostname"):
                element.attrib.pop(volatile, None)
        failed = json.loads((pytester.path / ".pytest_cache/v/cache/lastfailed").read_text())
        files.append((ET.tostring(root), failed))
    assert files[0] == files[1]
    assert files[0][0].count(b"tag.modality") == 24
    again = run(pytester, "again", "--lf")
    assert len(results(pytester, "again")) == len(files[0][1]), again.stdout.str()


@pytest.mark.parametrize("spread", [("-n2",), ("-n2", "--dist=worksteal"), ("-n2", "--junitxml=own.xml")], ids=" ".join)
@pytest.mark.slow
def test_workers_give_the_same_results(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    measures = []
    for way in WAYS:
        run(pytester, way, "-p", "xdist", *spread)
        written = json.loads((pytester.path / "reports" / way / "metrics.json").read_text())
        measures.append(written["measures"])
        if "--junitxml=own.xml" in spread:
            cases = list(ET.parse(pytester.path / "own.xml").iter("testcase"))
            assert len(cases) == 24
            assert all(len(list(case.iter("property"))) == 4 for case in cases)
    assert measures[0] == measures[1]


# --- who runs what ----------------------------------------------------------------------------------------


COUNT = """
from medvqa.plugin.protocol import BriefProtocol
ran = []
run = BriefProtocol._run

def counted(self, item, nextitem):
    ran.append(item)
    run(self, item, nextitem)

BriefProtocol._run = counted

def pytest_unconfigure(config):
    print("brief:", len(ran))
"""


@pytest.mark.parametrize(
    ("suite", "more", "arguments", "brief"),
    [
        ("plain", "", (), 21),  # not the first two, before which the model is not there, nor the last, which ends it
        ("plain", "", ("--junitxml=own.xml",), 21),
        ("plain", "def pytest_runtest_logreport(report): pass", (), 21),
        ("plain", "def pytest_pyfunc_call(pyfuncitem): pass", (), 21),
        ("several functions", "", (), 22 + 24),
        ("plain", "def pytest_runtest_call(item): pass", (), 0),
        ("plain", "def pytest_runtest_teardown(item): pass", (), 0),
        ("plain", "def pytest_runtest_makereport(item): pass", (), 0),
        ("plain", "def pytest_runtest_protocol(item): pass", (), 0),
        ("plain", "", ("--setup-show",), 0),
        ("plain", "", ("--pdb",), 0),
        ("fixtures", "", (), 0),
        ("autouse", "", (), 0),
        ("own evaluate", "", (), 0),
        ("class", "", (), 0),
        ("module setup", "", (), 0),
    ],
)
def test_only_plain_tests_are_run_briefly(
    pytester: pytest.Pytester, suite: str, more: str, arguments: tuple[str, ...], brief: int
) -> None:
    pytester.makepyfile(test_slake=SUITES[suite])
    pytester.makeconftest(CONFTEST + COUNT + more)
    plugins = ("-p", "medvqa.plugin", "--model=stubborn:A")
    result = pytester.runpytest_subprocess(*plugins, *arguments)
    assert f"brief: {brief}" in result.outlines, result.stdout.str()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("arguments", "phases"), [((), 1), (("--durations=9",), 3)])
def test_reports_of_setups_and_teardowns_are_made_where_somebody_listens(
    pytester: pytest.Pytester, way: str, arguments: tuple[str, ...], phases: int
) -> None:
    conftest = """
def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    print("reports:", sum(len(stats[kind]) for kind in stats if kind != "deselected"))
"""
    pytester.makeconftest(CONFTEST + conftest)
    result = run(pytester, way, *arguments)
    # The first two tests and the last are run by pytest's own protocol.
    expected = 3 * 24 if way == "full" or phases == 3 else 21 + 3 * 3
    assert f"reports: {expected}" in result.outlines


def test_what_a_stop_tears_down_is_reported(pytester: pytest.Pytester) -> None:
    """A session fixture that fails to end, where a wrong answer ends the session: pytest's issue 11706."""
    pytester.makepyfile(
        test_slake=TEST.replace("    evaluate(item)\n", "    evaluate(item)\n    item.extra.get('end')\n")
        + "\n@pytest.fixture(scope='session')\ndef broken():\n    yield\n    raise RuntimeError('broken end')\n"
        + "\ndef test_a(broken):\n    pass\n"
    )
    source = (pytester.path / "test_slake.py").read_text()
    head, tail = source.split("@pytest.mark.vqa")
    test, fixture = tail.split("@pytest.fixture")
    pytester.makepyfile(test_slake=head + "@pytest.fixture" + fixture + "\n@pytest.mark.vqa" + test)
    printed, _ = both(pytester, "-x")
    assert any("RuntimeError: broken end" in line for line in printed)
    assert any("ERROR at teardown of test_slake" in line for line in printed)


def test_a_report_that_nobody_reads_is_small(pytester: pytest.Pytester) -> None:
    conftest = """
def pytest_terminal_summary(terminalreporter):
    kept = [report for kind in ("correct", "wrong") for report in terminalreporter.stats[kind]][1:-1]
    print("kept:", sorted({name for report in kept for name, value in vars(report).items()
                           if name.startswith("medvqa") or (name in ("keywords", "user_properties") and value)}))
"""
    pytester.makeconftest(CONFTEST + conftest)
    result = run(pytester, "brief")
    assert "kept: ['medvqa_outcome']" in result.outlines


def test_a_folder(pytester: pytest.Pytester) -> None:
    """Conftests that hold for a part of the tests: pytest's own protocol asks them alone."""
    for name in ("one", "other"):
        folder = pytester.mkdir(name)
        (folder / "conftest.py").write_text("")
        Path(folder, f"test_{name}.py").write_text(TEST)
    both(pytester)
