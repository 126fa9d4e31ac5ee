"""The pages of readers: a file for each, with the reader's questions in order and their images, and nothing else.

A page has codes in place of ids, and no name of a file: a reader is blind to keys, pairs and data folders.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from medvqa import __version__, files, printing
from medvqa.items import CHOICE_KINDS, DataError, Image, Item, of_data, withholding
from medvqa.readings.reading_file import first_line
from medvqa.readings.study_plan import ReadingPlan, StudyRecord
from medvqa.report.bundle import picture_files
from medvqa.report.bundle.head import VERSION
from medvqa.report.bundle.images import ImageHead
from medvqa.report.bundle.pictures import FOLDER, reason
from medvqa.report.bundle.questions import encode
from medvqa.report.bundle.reading_page import CheckedKey, ReadingHead, ReadingTask
from medvqa.report.html import page

LARGEST = 150_000_000
"""Bytes of images inside a page; with more, they are files in a folder beside it."""
Show = Callable[[int, int], None]
"""Is called with the number of images that are drawn, and of all."""
Opinions = Mapping[tuple[str, str], Sequence[str]]
"""What reviewers said of a question, by its benchmark and id."""


def images_beside(reader: str) -> str:
    """Return the name of the folder of a reader's images, if they are not inside the page."""
    return f"{reader}-{FOLDER}"


def write(
    folder: Path,
    plan: ReadingPlan,
    record: StudyRecord,
    items: Mapping[tuple[str, str], Item],
    public: Mapping[str, bool],
    opinions: Opinions = MappingProxyType({}),
    show: Show = lambda done, total: None,
) -> dict[str, int]:
    """Write the page of each reader; return the bytes of its images by reader (DataError, OSError).

    `items` are found by benchmark and id; `public` tells of each benchmark whether it is declared public. If one is
    not, the files are readable by their owner alone.
    """
    mode = 0o600 if record.private else None
    sizes = {}
    with tempfile.TemporaryDirectory(prefix=".medvqa-", dir=folder) as scratch:
        drawn = _drawn(Path(scratch), items.values(), public, show)
        for reader, order in record.orders.items():
            tasks = [
                _task(plan, code, sitting, items[record.questions[code]], drawn, opinions) for code, sitting in order
            ]
            names = list(dict.fromkeys(image.source for task in tasks for image in task.images))
            contents = {name: Path(scratch, Path(name).name) for name in names}
            sizes[reader] = sum(path.stat().st_size for path in contents.values())
            beside = sizes[reader] > LARGEST
            if beside:
                own = files.subfolder(folder, images_beside(reader))
                for path in contents.values():
                    files.replace(own / path.name, path.read_bytes(), mode=mode, sync=False)
                tasks = [_moved(task, images_beside(reader)) for task in tasks]
                contents = {}
            head = _head(plan, record, reader, tasks)
            blocks = {"head": encode(head), **{name: path.read_bytes() for name, path in contents.items()}}
            files.replace(
                folder / f"{reader}.html", page.draw(head.title, blocks, folder=beside, saves=True), mode=mode
            )
    return sizes


def _head(plan: ReadingPlan, record: StudyRecord, reader: str, tasks: list[ReadingTask]) -> ReadingHead:
    return ReadingHead(
        VERSION,
        "reading",
        f"{plan.name} · {reader}",
        f"pytest-medvqa {__version__}",
        plan.task,
        first_line(msgspec.structs.replace(record.study, reader=reader)),
        plan.instructions,
        tasks,
        plan.confidence,
        plan.arm,
    )


def _task(
    plan: ReadingPlan,
    code: str,
    sitting: int,
    item: Item,
    drawn: Mapping[Image, ImageHead],
    opinions: Opinions,
) -> ReadingTask:
    hides = plan.technique == "ff" and plan.task == "answer"
    images = [
        msgspec.structs.replace(drawn[image], name=f"Image {place}") for place, image in enumerate(item.images, 1)
    ]
    checked = None
    if plan.task == "review":
        checked = CheckedKey(list(item.answers), tuple(opinions.get((item.benchmark, item.id), ())))
    return ReadingTask(
        item.benchmark,
        code,
        "short_answer" if hides and item.kind in CHOICE_KINDS else item.kind,
        item.question,
        [] if hides else list(item.options.items()),
        images,
        sitting,
        checked,
    )


def _drawn(scratch: Path, items: Iterable[Item], public: Mapping[str, bool], show: Show) -> dict[Image, ImageHead]:
    """Write the images of items into a folder, as the model gets them; return their heads, without names."""
    of = {image: item.benchmark for item in items for image in item.images}
    heads = {}
    for done, (image, benchmark) in enumerate(of.items(), 1):
        try:
            pixels, shown = image.pictured()
        except DataError as error:
            with withholding(not public[benchmark]):
                what = printing.line(f"{benchmark}: image {of_data(image.name)}: {reason(image, error)}")
            raise DataError(f"{what}; readers need every image: mend it, or select other questions") from None
        file = picture_files.whole(image, pixels, public=public[benchmark])
        scratch.joinpath(file.name).write_bytes(file.content)
        size = (*pixels.size, file.width, file.height)
        heads[image] = ImageHead("", f"{FOLDER}/{file.name}", "", *size, shown=shown, exact=file.exact)
        show(done, len(of))
    return heads


def _moved(task: ReadingTask, folder: str) -> ReadingTask:
    """Return a task whose images are in another folder."""
    images = [
        msgspec.structs.replace(image, source=f"{folder}/{image.source.removeprefix(f'{FOLDER}/')}")
        for image in task.images
    ]
    return msgspec.structs.replace(task, images=images)
