"""The pages of readers: a file for each, with the reader's questions in order and their images, and nothing else.

A page has codes in place of ids, and no name of a file: a reader is blind to keys, pairs and data folders.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

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
"""Bytes of images inside a page; if one has more, those of all pages are files in a folder beside them."""
Show = Callable[[int, int], None]
"""Is called with the number of images that are drawn, and of all."""
Opinions = Mapping[tuple[str, str], Sequence[str]]
"""What reviewers said of a question, by its benchmark and id."""
Questions = Mapping[tuple[str, str], Item]
"""Items by benchmark and id."""


def write(
    folder: Path,
    plan: ReadingPlan,
    record: StudyRecord,
    items: Questions,
    public: Mapping[str, bool],
    opinions: Opinions,
    show: Show,
) -> dict[str, int]:
    """Write the page of each reader; return the bytes of its images by reader (DataError, OSError).

    `public` tells of each benchmark whether its data are declared public. Pages are readable by their owner alone.
    """
    with tempfile.TemporaryDirectory(prefix=".medvqa-", dir=folder) as temporary:
        scratch = Path(temporary)
        heads = _drawn(files.subfolder(scratch, FOLDER), items.values(), public, show)
        tasks = {
            reader: [_task(plan, code, number, items[record.questions[code]], heads, opinions) for code, number in own]
            for reader, own in record.orders.items()
        }
        sources = {
            reader: dict.fromkeys(image.source for task in own for image in task.images)
            for reader, own in tasks.items()
        }
        sizes = {reader: sum((scratch / source).stat().st_size for source in own) for reader, own in sources.items()}
        beside = max(sizes.values()) > LARGEST
        for reader, own in tasks.items():
            head = ReadingHead(
                VERSION,
                "reading",
                plan.name,
                f"pytest-medvqa {__version__}",
                plan.task,
                first_line(msgspec.structs.replace(record.study, reader=reader)),
                plan.instructions,
                own,
                plan.confidence,
                plan.arm,
            )
            blocks = {"head": encode(head)}
            if not beside:
                blocks |= {source: (scratch / source).read_bytes() for source in sources[reader]}
            drawn = page.draw(f"{plan.name} · {reader}", blocks, folder=beside, saves=True)
            files.replace(folder / f"{reader}.html", drawn, mode=0o600)
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        if beside:
            (scratch / FOLDER).rename(folder / FOLDER)
    return sizes


def _task(
    plan: ReadingPlan, code: str, sitting: int, item: Item, heads: Mapping[Image, ImageHead], opinions: Opinions
) -> ReadingTask:
    hides = plan.technique == "ff" and plan.task == "answer"
    said = tuple(opinions.get((item.benchmark, item.id), ()))
    return ReadingTask(
        item.benchmark,
        code,
        "short_answer" if hides and item.kind in CHOICE_KINDS else item.kind,
        item.question,
        [] if hides else list(item.options.items()),
        [msgspec.structs.replace(heads[image], name=f"Image {n}") for n, image in enumerate(item.images, 1)],
        sitting,
        CheckedKey(list(item.answers), said) if plan.task == "review" else None,
    )


def _drawn(folder: Path, items: Iterable[Item], public: Mapping[str, bool], show: Show) -> dict[Image, ImageHead]:
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
        files.replace(folder / file.name, file.content, mode=0o600, sync=False)
        size = (*pixels.size, file.width, file.height)
        heads[image] = ImageHead("", f"{FOLDER}/{file.name}", "", *size, shown=shown, exact=file.exact)
        show(done, len(of))
    return heads
