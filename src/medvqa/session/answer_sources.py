"""What --answers names: runs whose answers a session may use, and places that it shares answers with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvqa.items import UsageError
from medvqa.records import address, answer_places, log, run_record
from medvqa.records.answer_places import Place
from medvqa.records.log import ANSWERS, LogHead
from medvqa.records.recall import OWN, Finder, LogFolder, ResultAnswers
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN, RunRecord


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """The runs and places that --answers names, the own run left out. `runs`: folders by their names for the user."""

    runs: Mapping[str, Path]
    places: tuple[Place, ...] = ()

    def __bool__(self) -> bool:
        """Whether any is named."""
        return bool(self.runs or self.places)

    @property
    def names(self) -> tuple[str, ...]:
        """The names for the user."""
        return (*self.runs, *(place.name for place in self.places))

    @property
    def folders(self) -> list[LogFolder]:
        """Folders with logs of others."""
        return [LogFolder(name, folder / ANSWERS) for name, folder in self.runs.items()]

    def finders(self, head: LogHead, judge: str) -> list[Finder]:
        """Return the answers in results of the runs, as far as they are of the model of `head`.

        `judge`: the judge's name in signatures, for role judge.
        """
        if head.fingerprint is None:
            return []
        found: list[Finder] = []
        for name, folder in self.runs.items():
            about = _about(folder)
            # The record of a merged run has no sessions; its logs do.
            fresh = any(session.options is not None and session.options.fresh for session in about.sessions)
            if not (fresh or log.is_kept_apart(folder / ANSWERS, head.identity)) and is_of(about, head, judge):
                found.append(ResultAnswers(folder, name, head.role, about))
        return found


NONE = AnswerSources({})


def is_of(about: RunRecord, head: LogHead, judge: str) -> bool:
    """Whether the answers, or the judge's replies, in results of a run are of the model of `head`."""
    if head.role == "judge":
        return about.judge is not None and about.judge.identity == judge
    return (about.config.backend, about.model.fingerprint) == (head.backend, head.fingerprint)


def _about(folder: Path) -> RunRecord:
    """Return run.json of a run, an empty record if it is missing: a killed run may have none (UsageError)."""
    return run_record.read_run(folder) if (folder / RUN).is_file() else RunRecord()


def of(typed: Sequence[str], run: Path) -> AnswerSources:
    """Return what --answers names, as `Options.answers` has it (UsageError).

    A name without a slash is that of a run beside the own one, `run`, else of a folder here.
    """
    runs, places = dict[str, Path](), dict[str, Place]()
    for text in typed:
        folder = None if address.is_address(text) else _run_of(text, run)
        if folder is None:
            place = answer_places.open_place(text if address.is_address(text) else Path(text).absolute(), os.environ)
            places[place.name] = place
        elif folder.resolve() != run.resolve():
            runs[folder.name if folder.parent == run.parent else text] = folder
    return AnswerSources(runs, tuple(places.values()))


def _run_of(text: str, run: Path) -> Path | None:
    """Return the folder of a run, None if a text names another folder (UsageError)."""
    candidates = run.parent / text, Path(text).absolute()
    folder = next((path for path in candidates if path == run or is_run(path)), None)
    # A folder is not made by a name that is mistyped.
    named = os.sep not in text or os.path.realpath(Path(text).parent) == os.path.realpath(run.parent)
    if folder is None and named and not Path(text).is_dir():
        raise UsageError(
            f"--answers={text}: {run.parent / text} is no run. Name the folder of a run, to use its answers if the "
            f"model is the same; or type --answers=./{Path(text).name} to make a new folder in which runs share answers"
        )
    return folder


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, which may have been killed before its first result."""
    try:
        names = (RUN, RESULTS)
        return any((folder / name).is_file() for name in names) or bool(log.logs(folder / ANSWERS))
    except OSError:
        return False


def line(used: Mapping[str, int], total: int, sources: AnswerSources, *, nameless: bool = False) -> str | None:
    """Return the line that says how many of `total` answers came from where; None if nothing was named or borrowed.

    `nameless`: the model has no fingerprint.
    """
    named = {name: used.get(name, 0) for name in (OWN, *sources.names)} | dict(used)
    if not sources and not any(name != OWN for name in used):
        return None
    parts = [f"{number:,} from {name}" for name, number in named.items() if number or name != OWN]
    why = ". The model has no fingerprint, so its answers are not shared between runs" if nameless and sources else ""
    return f"answers: {sum(used.values()):,} of {total:,} were stored: {', '.join(parts)}{why}"
