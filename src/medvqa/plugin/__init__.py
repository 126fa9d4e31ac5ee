"""The plugin, the only package that imports pytest. Each hook calls the module that does its work.

Import lazily: pytest loads this module in every repository of an environment, most of which have no vqa tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from medvqa.plugin import finding as finding  # before all other modules of the package

# isort: split
from medvqa import printing
from medvqa.items import Item, MedVQAError, check_system
from medvqa.plugin import hookspecs, options
from medvqa.plugin.controller import Controller
from medvqa.plugin.process import (
    CONTROLLER,
    MARKED,
    SHORT,
    STATE,
    TERMINAL,
    collects_only,
    has_state,
    is_worker,
    occupy,
    project_of,
    short_of,
    usage_error,
    wants_tracebacks,
)

if TYPE_CHECKING:
    from medvqa.items import Model, Result
    from medvqa.plugin.process_state import State
    from medvqa.session.delivery import Delivery

FETCHED = ".medvqa-fetch.jsonl"
"""The list of received files, by which a folder of fetched data is known (`medvqa.fetching.manifest.NAME`)."""
AUTO = "PYTEST_XDIST_AUTO_NUM_WORKERS"
"""Environment variable that sets the number of workers for xdist's -n auto."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Announce the three hooks, and register the fixtures."""
    pluginmanager.add_hookspecs(hookspecs)
    pluginmanager.register(_fixtures(pluginmanager), "medvqa-fixtures")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register `--medvqa-NAME`."""
    options.register(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Iterator[None]:
    """Register `--NAME` if no conftest has taken the name; refuse a path after an option and a space."""
    cwd = early_config.invocation_params.dir
    detached = options.detached(args, cwd)
    options.keep_outside(early_config.known_args_namespace.file_or_dir, [value for _, value in detached], cwd)
    yield
    short = early_config.stash[SHORT] = options.register_aliases(parser, args)
    for option, value in detached:
        if option in short.own or option.startswith("--medvqa-"):
            raise usage_error(options.detached_error(option, value), early_config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Hide other GPUs from an xdist worker before any plugin that may use CUDA is configured."""
    if is_worker(config):
        occupy(config, config.workerinput.get("medvqa_place"))  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and check the typed options before collection."""
    config.addinivalue_line(
        "markers",
        "vqa(name): run the test once for each item of the benchmark or group of that name; without a name, of every "
        "benchmark of the run.",
    )
    config.addinivalue_line(
        "markers",
        "lexicon(**tags): the tags of an item, set by the plugin; select by them with -m \"lexicon(modality='ct')\".",
    )
    if is_worker(config):
        return
    # Nothing is captured now.
    config.stash[TERMINAL] = os.dup(1)
    config.add_cleanup(lambda: os.close(config.stash[TERMINAL]))
    config.stash[CONTROLLER] = Controller(config)
    config.pluginmanager.register(config.stash[CONTROLLER], "medvqa-controller")
    if config.getoption("htmlpath", None):  # pytest-html's --html
        from medvqa.plugin.html_columns import Columns

        config.pluginmanager.register(Columns(), "medvqa-columns")
    if config.option.help:
        return
    try:
        if options.read(config).typed:
            check_system()
            # pytest does not catch warnings yet: Python prints them.
            with printing.printable_warnings():
                config.stash[CONTROLLER].check()
    except MedVQAError as error:
        raise usage_error(error, config) from error


def _benchmark_names(marks: Sequence[pytest.Mark]) -> list[str] | None:
    """Return the names in `vqa` marks; [] for marks without a name, None without a mark."""
    vqa_marks = [mark for mark in marks if mark.name == "vqa"]
    return [str(mark.args[0]) for mark in vqa_marks if mark.args] if vqa_marks else None


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of GPU places that can hold a copy, if the model takes GPUs."""
    try:
        typed_options = options.read(config)
    except MedVQAError:
        return None  # `pytest_configure` reports it
    if not typed_options.typed or os.environ.get(AUTO):
        return None
    from medvqa.session.places import auto

    try:
        return auto(project_of(config))
    except MedVQAError:
        return None  # `Controller.check` reports it


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders of fetched data: what an archive holds, such as test.txt or conftest.py, is not run."""
    if not os.path.lexists(collection_path / FETCHED) or config.rootpath.is_relative_to(collection_path):
        return None
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """Leave out tests of benchmarks that were not chosen or have no data."""
    own_marks = getattr(obj, "pytestmark", None)
    names = _benchmark_names([*(own_marks if isinstance(own_marks, list) else []), *collector.iter_markers("vqa")])
    if names is None:
        return None
    marked = collector.config.stash.setdefault(MARKED, set())
    marked.update(names)
    from medvqa.plugin import collection

    plan = collection.plan_of(collector.config)
    marked.update(names or plan.benchmarks)
    return None if collection.items_for(plan, names) else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test case for each item."""
    names = _benchmark_names(list(metafunc.definition.iter_markers("vqa")))
    if names is not None:
        try:
            check_system()
        except MedVQAError as error:
            raise pytest.Collector.CollectError(str(error)) from error
        from medvqa.plugin import collection

        collection.parametrize(collection.plan_of(metafunc.config), metafunc, names)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Give items their tags before -k and -m are applied, and apply --limit and --shard after."""
    if not has_state(config):
        return (yield)
    from medvqa.plugin import collection
    from medvqa.plugin.ahead import ask

    state, refusal = config.stash[STATE], None
    collection.add_tags(state.plan, items, keywords=bool(config.option.keyword))
    try:
        collection.check_marks(config.option.markexpr, items)
    except MedVQAError as error:
        if not is_worker(config):
            raise usage_error(error, config) from error
        refusal = str(error)
    result = yield
    state.left_out = collection.leave_out(state.plan, config, items)
    state.empty_shard = collection.reduce(state.plan, config, items)
    early = state.plan.options.stop is not None
    if early or state.asker.process.sources.places:
        collection.order(items, state.asker.process, drawn=early)
    if is_worker(config):
        if ask(items):
            refusal = refusal or state.refusal(config)
        if refusal is not None:
            # An error would be a crash of the worker: without tests, the controller ends with it (`Controller`).
            config.workeroutput["medvqa_refusal"] = refusal  # type: ignore[attr-defined]
            items.clear()
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the controller the tracebacks of users' code that failed in a worker, if they are shown."""
    config = session.config
    if is_worker(config) and wants_tracebacks(config):
        from medvqa import usercode

        config.workeroutput["medvqa_tracebacks"] = usercode.take_tracebacks()  # type: ignore[attr-defined]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the questions that must end with a result."""
    config = session.config
    if is_worker(config):
        config.workeroutput["medvqa_marked"] = sorted(config.stash.get(MARKED, ()))  # type: ignore[attr-defined]
    if not has_state(config) or collects_only(config):
        return
    keys, left_out = config.stash[STATE].select(session)
    if is_worker(config):
        # For a controller without the stored selection: nothing was asked, or the run folder is on another machine.
        state = config.stash[STATE]
        selection = [tuple(key) for key in keys], left_out, state.evaluates, state.empty_shard
        config.workeroutput["medvqa_selected"] = selection  # type: ignore[attr-defined]
    else:
        state = config.stash[STATE]
        config.stash[CONTROLLER].select(keys, left_out, evaluates=state.evaluates, empty_shard=state.empty_shard)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """List the left-out questions before the first call; with -q, only the report lists them.

    Say which short options are another plugin's if `Controller` has not: no option of medvqa's was typed.
    """
    if not has_state(config):
        return []
    told = options.read(config).typed or not config.stash[STATE].evaluates
    notice = [] if told else options.notice(short_of(config))
    if config.get_verbosity() < 0:
        return notice
    from medvqa.report import left_out

    return [*notice, *left_out(config.stash[STATE].left_out)]


def _fixtures(manager: pytest.PytestPluginManager) -> ModuleType:
    """Return a module with the fixtures of a session. They look it up: `request` would cost an object per test.

    They are registered with the plugin, so that fixtures of a repository's own plugins override them.
    """

    def state() -> State:
        from medvqa.plugin.process_state import state_of

        config: Any = manager.get_plugin("pytestconfig")
        return state_of(config)

    @pytest.fixture(scope="session")
    def medvqa_model() -> Iterator[Model]:
        """The model that --model names. Each process that runs tests has one."""
        session: Any = manager.get_plugin("session")
        if (refusal := state().refusal(session.config)) is not None:
            pytest.fail(printing.lines(refusal), pytrace=False)
        yield state().open(session)
        if (delivery := state().close(session)) is not None:
            _deliver(session.config, delivery)

    @pytest.fixture(scope="session")
    def model(medvqa_model: Model) -> Model:
        """The same as `medvqa_model`, unless the repository has a fixture of this name."""
        return medvqa_model

    @pytest.fixture(scope="session")
    def _medvqa_asked() -> None:
        """Hold the technique, variant and sample as its parameter, if there are several."""

    @pytest.fixture(scope="session")
    def evaluate(medvqa_model: Model, _medvqa_asked: None) -> Iterator[Callable[[Item], Result]]:
        """A function: ask the model about an item, score and record the answer, return the Result."""
        process_state = state()

        def ask(item: Item) -> Result:
            return process_state.evaluate(item, medvqa_model)

        process_state.values = {"medvqa_model": medvqa_model, "_medvqa_asked": None, "evaluate": ask}
        yield ask
        process_state.values = {}

    # pytest finds fixtures in a module itself, but of other objects in their class.
    module = ModuleType("medvqa.plugin.fixtures")
    vars(module).update(medvqa_model=medvqa_model, model=model, _medvqa_asked=_medvqa_asked, evaluate=evaluate)
    return module


def _deliver(config: Any, delivery: Delivery) -> None:
    """Give the controller the last delivery of a process, after all its tests."""
    if is_worker(config):
        config.workeroutput["medvqa_last"] = delivery.plain()
    else:
        config.stash[CONTROLLER].take_last(delivery)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Follow the tests, so that the model can be asked about the next ones ahead."""
    if not has_state(item.config):
        return (yield)
    state = item.config.stash[STATE]
    state.begin(item, nextitem)
    result = yield
    state.end()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the outcome of the item into the report: a wrong answer fails its test, without a traceback."""
    report = yield
    if call.when == "call" and has_state(item.config):
        item.config.stash[STATE].label(item, report)
    if report.outcome == "skipped" and has_state(item.config):
        from medvqa.plugin.ahead import item_of

        if item_of(item) is not None:
            report.medvqa_skipped = True  # type: ignore[attr-defined]
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Drop unused data: the terminal reporter keeps all reports of a session, three for each test."""
    own = report.__dict__
    if "medvqa" in own:
        del report.medvqa
    if "medvqa_outcome" in own or (report.outcome == "passed" and "lexicon" in report.keywords):
        report.keywords = {}


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
    """Count items by outcome, apart from pytest's own passed and failed."""
    own = report.__dict__
    if "medvqa_requeued" in own:
        return "", "", ""
    if "medvqa_outcome" not in own or report.outcome not in ("passed", "failed"):  # pytest-rerunfailures has "rerun"
        return None
    from medvqa.plugin.terminal_output import status

    return status(own["medvqa_outcome"], config.get_verbosity())
