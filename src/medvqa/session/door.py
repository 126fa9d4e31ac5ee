"""Conduct a whole run in this process, as pytest's plugin does: for `medvqa run` and `medvqa.evaluate`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from medvqa import engine, files, report
from medvqa.items import Query
from medvqa.session import selecting
from medvqa.session.asker import Asker
from medvqa.session.display import Display
from medvqa.session.ending import Ending
from medvqa.session.loop import ask_all
from medvqa.session.options import occupied
from medvqa.session.project import Project
from medvqa.session.resolving import resolve
from medvqa.session.run import End, Run, cut_short, name_of, process_of
from medvqa.tags.expressions import Expression


def conduct(
    project: Project,
    display: Display,
    *,
    select: str | None = None,
    command: Callable[[str], str] | None = None,
) -> End:
    """Resolve, check, select, ask and report, with the same run folder, store and numbers as pytest.

    `select`: an expression, as for --select. `Registry.with_objects` takes objects instead of names. `command` returns
    the command that continues a run of a name; only callers whose process ends after the run have one, and SIGTERM then
    ends it in time. UsageError and DataError come before the
    first question. If a model cannot be made, its exception is the cause of the UsageError.
    """
    expression = None if select is None else Expression.parse(select)
    plan = resolve(replace(project, selects=selecting.as_typed(project.options, select)))
    plan.check_model_named()
    process = replace(process_of(plan, name_of(project.options, project.root), secrets.token_hex(4)), say=display.say)
    run, ending = Run(plan, process, display), Ending()
    with ExitStack() as stack:
        stack.callback(run.release)
        stack.callback(display.close)
        ending.listen()
        stack.callback(ending.restore, ends_process=command is not None)
        held = run.check()
        if held is not None:
            stack.enter_context(occupied(held[0]))
        selected = selecting.select(plan, expression)
        stack.enter_context(files.writing(f"run folder {run.folder}"))
        run.open()
        if command is not None:
            ending.last_words = cut_short(run.folder, command(run.folder.name))
        for line in report.left_out(selected.left_out):
            display.say(line)
        end = _asked(run, Asker(plan, process), selected, ending)
        return replace(end, interrupted=ending.interrupted or ending.heard)


def tells_logprobs(project: Project, *, select: str | None = None) -> bool:
    """Ask a server the first question by GD and store nothing; return False if it told no log-probabilities.

    Its options say what is asked for, and only an answer tells what comes. Checks are those of `conduct`, and raise the
    same errors; any other failure of the question is left to the run.
    """
    plan = resolve(replace(project, options=replace(project.options, techniques=("gd",))))
    Run(plan, process_of(plan, name_of(project.options, project.root), secrets.token_hex(4))).check()
    selected = selecting.select(plan, None if select is None else Expression.parse(select))
    if not selected.queries:
        return True
    model = plan.make_model()
    try:
        engine.ask(model, [plan.prompt(selected.queries[0])], plan.secrets)
        return "option_logprobs" in (model.capabilities or ())
    finally:
        model.close()


def _asked(run: Run, asker: Asker, selected: selecting.Selected, ending: Ending) -> End:
    """Ask the selected questions and write the reports, also if asking fails."""
    stopped, ended = None, False
    queries: Sequence[Query] = selected.queries
    if run.plan.options.stop is not None:
        queries = selecting.in_drawn_order(queries, [query.item for query in queries], run.folder.name)
    elif asker.process.sources.places:
        queries = selecting.in_own_order(queries, asker.process.session)
    try:
        if queries:
            stopped = ask_all(run, asker, queries, selected.left_out, ending)
            ended = stopped is None
        elif selected.empty_shard:
            run.select((), selected.left_out, empty_shard=True)
            run.promise()
    finally:
        ending.begin()
        end = run.finish(ended=ended, shared_by=ending.puts_by())
    return replace(end, stopped=stopped)
