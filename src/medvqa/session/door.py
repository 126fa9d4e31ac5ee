"""Conduct a whole run in this process, as pytest's plugin does: for `medvqa run` and `medvqa.evaluate`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from medvqa import engine, report
from medvqa.data.expressions import Expression
from medvqa.items import Query, UsageError
from medvqa.session import selecting
from medvqa.session.asker import Asker
from medvqa.session.ending import Ending
from medvqa.session.loop import OnProgress, ask_all
from medvqa.session.opening import Process
from medvqa.session.options import Options, Setting, occupied
from medvqa.session.plan import Plan
from medvqa.session.registry import Registry
from medvqa.session.resolving import resolve
from medvqa.session.run import Finished, Run, cut_short, name_of, process_of

NOTHING_SELECTED, INTERRUPTED = 5, 2
"""Exit codes, as pytest's."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run in this process.

    `questions`: number of selected questions. `stopped`: the reason of an early end, else None. `interrupted`: Ctrl-C
    or a signal ended the run, or came while its reports were drawn. `notes`: lines about the gate and about missing
    questions. `auto_shard`: the shard that --shard=auto read, such as "3/8"; "" without it.
    """

    folder: Path
    finished: Finished
    questions: int
    stopped: str | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    auto_shard: str = ""

    @property
    def exit_code(self) -> int:
        """5 if nothing was selected (in any shard), 2 if the run stopped early; else the code of the reports."""
        if self.stopped is not None:
            return INTERRUPTED
        # An empty shard is recorded, and no mistake.
        return self.finished.exit_code if self.questions or self.finished.asked else NOTHING_SELECTED


def conduct(
    options: Options,
    setting: Setting,
    registry: Registry,
    *,
    select: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    on_progress: OnProgress = lambda counts, total, state: None,
    command: Callable[[str, str], str] | None = None,
) -> Ended:
    """Resolve, check, select, ask and report, with the same run folder, store and numbers as pytest.

    `select`: an expression, as for --select. `registry.with_objects` takes objects instead of names. `say` gets lines
    for the user before the first question, `on_progress` the outcomes after each. `command` returns the command that
    continues a run, from its name and its automatic shard ("" if it has none); only callers whose process ends after
    the run have one, and SIGTERM then ends it in time. UsageError and DataError come before the first question. If a
    model cannot be made, its exception is the cause of the UsageError.
    """
    expression = None if select is None else Expression.parse(select)
    setting = replace(setting, selects=selecting.as_typed(options, select))
    plan = resolve(options, setting, registry)
    plan.check_model_named()
    process = replace(process_of(plan, name_of(options, setting), secrets.token_hex(4)), say=say)
    run, ending = Run(plan, process), Ending()
    with ExitStack() as stack:
        stack.callback(run.release)
        ending.listen()
        stack.callback(ending.restore, ends_process=command is not None)
        held = run.check()
        if held is not None:
            stack.enter_context(occupied(held[0]))
        selected = selecting.select(plan, expression)
        stack.enter_context(_writes(run.folder))
        lines = run.open()
        auto_shard = str(plan.shard) if options.shard_source else ""
        if command is not None:
            ending.last_words = cut_short(run.folder, command(run.folder.name, auto_shard))
        for line in [*lines, *report.left_out(selected.left_out)]:
            say(line)
        stopped, finished = _ask(plan, process, run, selected, ending, say, on_progress)
        notes = tuple(run.notes(finished))
        interrupted = ending.interrupted or ending.heard
        return Ended(run.folder, finished, len(selected.queries), stopped, notes, interrupted, auto_shard)


def tells_logprobs(options: Options, setting: Setting, registry: Registry, *, select: str | None = None) -> bool:
    """Ask a server the first question by GD and store nothing; return False if it told no log-probabilities.

    Its options say what is asked for, and only an answer tells what comes. Checks are those of `conduct`, and raise the
    same errors; any other failure of the question is left to the run.
    """
    plan = resolve(replace(options, techniques=("gd",)), setting, registry)
    Run(plan, process_of(plan, name_of(options, setting), secrets.token_hex(4))).check()
    selected = selecting.select(plan, None if select is None else Expression.parse(select))
    if not selected.queries:
        return True
    model = plan.make_model()
    try:
        engine.ask(model, [plan.prompt(selected.queries[0])], plan.secrets)
        return "option_logprobs" in (model.capabilities or ())
    finally:
        model.close()


def _ask(
    plan: Plan,
    process: Process,
    run: Run,
    selected: selecting.Selected,
    ending: Ending,
    say: Callable[[str], None],
    on_progress: OnProgress,
) -> tuple[str | None, Finished]:
    """Ask the selected questions and write the reports, also if asking fails; return why it stopped early, or None."""
    stopped, ended = None, False
    queries: Sequence[Query] = selected.queries
    if process.sources.places:
        queries = selecting.in_own_order(queries, process.session)
    try:
        if queries:
            stopped = ask_all(
                run,
                Asker(plan, process),
                queries,
                selected.left_out,
                ending=ending,
                say=say,
                on_progress=on_progress,
            )
            ended = stopped is None
        elif selected.empty_shard:
            for line in run.promise():
                say(line)
            run.select_empty_shard()
    finally:
        ending.begin()
        finished = run.finish(ended=ended, shared_by=ending.puts_by())
    return stopped, finished


@contextmanager
def _writes(folder: Path) -> Iterator[None]:
    """Convert an OSError, such as that of a full disk, to a UsageError that names the run folder."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"run folder {folder} cannot be written: {error.strerror or error}") from error
