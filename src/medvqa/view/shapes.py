"""What the server sends: each answer of `/api/` is one of these shapes as JSON, or bytes.

`tools/bundle_types.py` writes them as TypeScript to web/src/served.ts. Fields with their default values are left out.
"""

from __future__ import annotations

from typing import Literal

from medvqa.report.bundle.page_blocks import PlotBlock
from medvqa.report.bundle.shape import Shape

RunState = Literal["running", "finished", "unfinished", "unreadable"]
"""`running`: a session holds the folder. `unfinished`: none does, and questions have no result."""


class HeadlineNumber(Shape, frozen=True):
    """One headline measure of a run over all its questions, as metrics.json has it."""

    benchmark: str
    technique: str
    name: str
    title: str
    """For people."""
    value: float | None
    low: float | None
    high: float | None
    n: int
    shown: str
    """The value as all reports show it, such as "62.50 %" or "5/8"."""
    comparable: str
    """A digest of signature and selection: numbers with equal digests belong to one trend."""
    interval: str = ""
    """The interval as all reports show it, or the reason for its absence; "" if counts are shown."""
    lower: bool = False
    """Whether less is better."""
    percent: bool = True


class GateAttempt(Shape, frozen=True):
    """The verdict in gate.json."""

    result: Literal["passed", "failed", "inconclusive", "unknown"]
    attempt: int
    reason: str
    """The first reason, "" without one."""
    baseline: str = ""
    stale: bool = False
    """Whether it may be the verdict on other results than those of the run."""


class RunEntry(Shape, frozen=True):
    """One run folder in the list."""

    name: str
    """Its path below the served folder, with "/": it names the run in all addresses."""
    state: RunState
    model: str
    label: str
    """Ablation and protocol in few words, "" for the defaults."""
    started: str
    """ISO 8601 with time zone, "" if unknown."""
    finished: str
    answered: int
    selected: int
    """Questions selected by all sessions, 0 if unknown."""
    part: str
    """The selected part, such as "10 of 60, by --limit=10"; "" for the whole."""
    benchmarks: list[str]
    numbers: list[HeadlineNumber]
    gate: GateAttempt | None = None
    stale: bool = False
    """Whether metrics.json is of other results than those of the run."""
    unchecked: bool = False
    """Whether it is not known of which results metrics.json is: an earlier version wrote it."""
    why: str = ""
    """The reason for being unreadable, for having no numbers, or for being unfinished if all questions are answered."""
    errors: int = 0
    """Answers that ended in error, and have no score."""
    stopped: str = ""
    """Why the last session stopped early, "" if it did not."""
    tags: tuple[str, ...] = ()
    """The dimensions of the user's own tags (--tags)."""


class RunList(Shape, frozen=True):
    """`GET /api/runs?since=VERSION`: the run folders below the served folder, the latest first."""

    root: str
    """The name of the served folder."""
    version: int
    """Rises with each look at the folders, also over restarts."""
    runs: list[RunEntry]
    left_out: int = 0
    """Folders beyond the limit that are not listed."""
    partial: bool = False
    """Whether `runs` are those of which a file or the state has changed since `since`, and not all."""
    gone: tuple[str, ...] = ()
    """Names of runs that are there no more, since `since`."""
    unread: int = 0
    """Runs that are not read yet: they are in a later list."""


class PartProgress(Shape, frozen=True):
    """One benchmark and technique of a run."""

    benchmark: str
    title: str
    technique: str
    answered: int
    selected: int
    """0 if unknown."""
    outcomes: dict[str, int]
    """Number of results by outcome, without zeros."""
    score: float
    """Sum of the scores so far."""
    scored: int
    """Number of results that have a score."""


class RunProgress(Shape, frozen=True):
    """`GET /api/runs/NAME/progress`: how far a run is. Its numbers are those so far."""

    name: str
    state: RunState
    answered: int
    selected: int
    parts: list[PartProgress]
    rate: float | None
    """Results per second over the last minute, null if none came."""
    seconds_left: float | None
    since: str
    """Start of the present session, ISO 8601."""
    last: str
    """Time of the last result, ISO 8601, "" without one."""
    version: int
    """Rises with each change of the results; an equal number means equal results."""
    truncated: int = 0
    """Answers cut off at a token limit."""
    unread: int = 0
    """Broken lines of results.jsonl."""
    stopped: str = ""
    """Why the last session stopped early, "" if it did not or one is running."""
    why: str = ""
    """The reason for being unreadable, or unfinished if all questions are answered."""


class ItemRow(Shape, frozen=True):
    """One result, with its question."""

    row: int
    """Its place in the run, in the order in which keys first came; -1 in a history."""
    benchmark: str
    id: str
    technique: str
    variant: str
    sample: int
    kind: str
    question: str
    options: list[tuple[str, str]]
    """As the model saw them."""
    answers: list[str]
    extracted: list[str]
    outcome: str
    score: float | None
    why: str
    response: str
    cut: int
    """Characters of the response that are left out, 0 if none are."""
    seconds: float | None
    images: list[str]
    """`images.address` of each image, "" if it has none: `GET /api/runs/NAME/images/ADDRESS`."""
    pair: str = ""
    truncated: bool = False


class ItemPage(Shape, frozen=True):
    """`GET /api/runs/NAME/items?start=&count=&order=&benchmark=&technique=&outcome=&id=&text=`: some of the results."""

    rows: list[ItemRow]
    matching: int
    """Number of results that match, of which `rows` are those from `start` on."""
    total: int
    version: int
    """As in `RunProgress`."""


class Pace(Shape, frozen=True):
    """`GET /api/runs/NAME/pace`: how long the answers of a run took, and their tokens, as they came."""

    plots: list[PlotBlock]


class Drawn(Shape, frozen=True):
    """`GET /api/bundle?run=NAME&run=NAME`: a bundle that can be read by `GET /api/bundles/KEY/BLOCK`.

    One run: its page. Several: their comparison, the first of them as the baseline. The answer comes when it is drawn.
    """

    key: str
    """It changes if a file of the runs does."""
    notes: list[str]
    """Lines about runs that are not comparable."""


class HistoryRow(Shape, frozen=True):
    """One result of an item in one of the runs."""

    run: str
    model: str
    label: str
    started: str
    same: bool
    """Whether question, options, key and images equal those of the latest run that has the item."""
    item: ItemRow


class History(Shape, frozen=True):
    """`GET /api/history?benchmark=&id=`: the results of one item over all runs, the latest first."""

    benchmark: str
    id: str
    rows: list[HistoryRow]
    unread: list[str]
    """Runs that could not be read, each with its reason."""


class Problem(Shape, frozen=True):
    """Every answer that is no success: a sentence for people."""

    error: str
