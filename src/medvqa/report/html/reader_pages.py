"""The pages of readers: a file for each, with the reader's questions in order and their images, and nothing else.

A page has codes in place of ids, and no name of a file: a reader is blind to keys, pairs and data folders.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path

import msgspec

from medvqa import __version__, files, printing
from medvqa.items import CHOICE_KINDS, DataError, Image, Item, of_data, withholding
from medvqa.readings.reading_file import first_line
from medvqa.readings.study_plan import ReadingPlan, StudyRecord, file_name
from medvqa.report.bundle import picture_files
from medvqa.report.bundle.head import VERSION
from medvqa.report.bundle.images import ImageHead
from medvqa.report.bundle.pictures import FOLDER, reason
from medvqa.report.bundle.questions import encode
from medvqa.report.bundle.reading_page import CheckedKey, ReadingHead, ReadingTask
from medvqa.report.html import page

LARGEST = 150_000_000
"""Bytes of images inside a page; if one has more, those of all pages are files in a folder beside them."""
Opinions = Mapping[tuple[str, str], tuple[str, ...]]
"""What reviewers said of a question, by its benchmark and id."""


def write(
    folder: Path,
    plan: ReadingPlan,
    record: StudyRecord,
    items: Iterable[Item],
    private: Container[str],
    opinions: Opinions,
    show: Callable[[int, int], None],
) -> None:
    """Write the page of each reader, readable by its owner alone (DataError, OSError).

    `private`: names of benchmarks that are not declared public.
    """
    by_id = {(item.benchmark, item.id): item for item in items}
    with files.making(folder / FOLDER, folder / ".medvqa-new") as place:
        scratch = place.parent
        heads = _drawn(files.subfolder(scratch, FOLDER), by_id.values(), private, show)
        pages = []
        for reader, order in record.orders.items():
            tasks = [
                _task(plan, code, number, by_id[record.questions[code]], heads, opinions) for code, number in order
            ]
            pages.append((reader, tasks, dict.fromkeys(image.source for task in tasks for image in task.images)))
        beside = any(sum((scratch / source).stat().st_size for source in own) > LARGEST for _, _, own in pages)
        for reader, tasks, own in pages:
            head = ReadingHead(
                VERSION,
                "reading",
                plan.name,
                f"pytest-medvqa {__version__}",
                plan.task,
                first_line(msgspec.structs.replace(record.study, reader=reader)),
                plan.instructions,
                tasks,
                plan.confidence,
                plan.arm,
            )
            blocks = {"head": encode(head)} | {name: (scratch / name).read_bytes() for name in own if not beside}
            drawn = page.draw(f"{plan.name} · {reader}", blocks, folder=beside, saves=True)
            files.replace(folder / file_name(reader, ".html"), drawn, mode=0o600)
    if not beside:
        files.remove_folders(folder / FOLDER)


def _task(
    plan: ReadingPlan, code: str, sitting: int, item: Item, heads: Mapping[Image, ImageHead], opinions: Opinions
) -> ReadingTask:
    hides, checks = plan.technique == "ff" and plan.task == "answer", plan.task == "review"
    return ReadingTask(
        item.benchmark,
        code,
        "short_answer" if hides and item.kind in CHOICE_KINDS else item.kind,
        item.question,
        [] if hides else list(item.options.items()),
        [msgspec.structs.replace(heads[image], name=f"Image {n}") for n, image in enumerate(item.images, 1)],
        sitting,
        CheckedKey(list(item.answers), opinions.get((item.benchmark, item.id), ())) if checks else None,
    )


def _drawn(
    folder: Path, items: Iterable[Item], private: Container[str], show: Callable[[int, int], None]
) -> dict[Image, ImageHead]:
    """Write the images of items into a folder, as the model gets them; return their heads, without names."""
    of = {image: item.benchmark for item in items for image in item.images}
    heads = {}
    for done, (image, benchmark) in enumerate(of.items(), 1):
        try:
            pixels, shown = image.pictured()
        except DataError as error:
            with withholding(benchmark in private):
                what = printing.line(f"{benchmark}: image {of_data(image.name)}: {reason(image, error)}")
            raise DataError(f"{what}; readers need every image: mend it, or select other questions") from None
        file = picture_files.whole(image, pixels, public=benchmark not in private)
        files.replace(folder / file.name, file.content, mode=0o600, sync=False)
        size = (*pixels.size, file.width, file.height)
        heads[image] = ImageHead("", f"{FOLDER}/{file.name}", "", *size, shown=shown, exact=file.exact)
        show(done, len(of))
    return heads
