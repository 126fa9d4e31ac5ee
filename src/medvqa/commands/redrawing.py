"""Draw the reports of run folders again, and the page that compares several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from medvqa import benchmarks, comparing, files, memory, printing, report
from medvqa.comparing import blank
from medvqa.items import Benchmark, Item
from medvqa.records.lock import Lock
from medvqa.records.run_record import RUN
from medvqa.report import Report, html
from medvqa.report.html import Images, Pictures
from medvqa.session.registry import Registry


@contextmanager
def locked(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a run folder, if the folder is one, within the block (UsageError)."""
    lock = Lock(folder)
    try:
        with files.writing(f"run folder {folder}"):
            if (folder / RUN).is_file() and (line := lock.acquire()) is not None:
                say(line)
        yield
    finally:
        lock.release()


@memory.no_cycle_search()
def redrawn(folder: Path, registry: Registry, data: Path | None) -> Report:
    """Draw the reports of a run anew, with few images alone, and return them as they are written (UsageError)."""
    built = report.build(folder, registry.benchmarks)
    return report.write(built, pictures_of(built, data, many="none"))


def pictures_of(built: Report, data: Path | None, images: str | None = None, *, many: Images = "folder") -> Pictures:
    """Return the images of a report's page, from the data folder. For `images` and `many` see `html.draw`."""

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        return benchmarks.load_found(benchmark, data)

    return html.draw(built, load, images, many=many)


def write_gap(folder: Path, without_images: Path, registry: Registry) -> None:
    """Write blank.json of a run: its gap to the run without the images (UsageError)."""
    found = blank.against(comparing.load(folder), comparing.load(without_images), registry.benchmarks)
    with files.writing(str(folder)):
        blank.write(folder, found)


def compared_page(
    runs: Sequence[Path],
    output: Path | None,
    registry: Registry,
    pictures: Sequence[Pictures] = (),
    equivalent: float | None = None,
) -> list[str]:
    """Write the page that compares runs with the first; return lines: runs that are not comparable, and its path.

    `equivalent` as for `comparing.study`.
    """
    sides = comparing.named_apart(comparing.load_runs(runs), list(map(str, runs)))
    study = comparing.study(sides, registry.benchmarks, flips=False, equivalent=equivalent)
    messages = [f"! not comparable: {printing.line(line)}" for line in study.refusals]
    if not study.comparable:
        return [*messages, "no comparison was written; medvqa compare --anyway compares them nevertheless"]
    file = output or runs[0].resolve().parent / html.comparison_name(study)
    content = html.comparison_page(study, registry.benchmarks, html.inside(pictures))
    with files.writing(f"-o {file}"):
        files.replace(file, content)
    return [*messages, f"comparison: {file}"]
