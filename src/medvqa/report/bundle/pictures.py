"""The images of a run as its page shows them: inside the page, in a folder beside it, or not at all.

They are found by reading the data again, never through a path in the run folder, and drawn anew, so that nothing of
their files but the pixels is passed on.
"""

from __future__ import annotations

import base64
import hashlib
import io
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from medvqa import files, records
from medvqa.items import Benchmark, DataError, Image, Item, MedVQAError, UsageError
from medvqa.report.build import Part, Report
from medvqa.report.bundle.facts import declaring_files

if TYPE_CHECKING:
    import PIL.Image

Images = Literal["thumbs", "folder", "none"]
IMAGES: tuple[Images, ...] = get_args(Images)
FOLDER = "images"
"""The folder of image files, beside the page."""
INSIDE = 400
"""Maximum number of images inside the page by default: about 6 MB."""
SMALL, LARGE = 384, 1600
"""Longest side in pixels of an image inside the page, and of one in the folder."""

Load = Callable[[Benchmark], Iterable[Item] | None]
"""The items of a benchmark with the paths of their images; None if the data folder is unknown."""


@dataclass(frozen=True)
class Pictures:
    """`sources` maps (benchmark, item id) to the `src` attributes, "" for an image that could not be read.

    `note`: one or more sentences about the images' place, for the page's banner. `load` reads a benchmark's items, from
    which prompts are rebuilt; None if the data must not be read.
    """

    mode: Images
    note: str
    sources: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    load: Load | None = None


def draw(report: Report, load: Load, mode: Images | None = None, *, many: Images = "folder") -> Pictures:
    """Read and draw the images of a run's items; `mode` None chooses by their number, `many` if there are many.

    Without `mode`, images of data that are not declared public (`Benchmark.public`) are left out. With "folder", files
    are written to images/ in the run folder. Never fails a report: the note names unreadable images.
    """
    if mode == "none":
        return Pictures("none", "Images are left out (--images=none).")
    notes: list[str] = []
    wanted: dict[tuple[str, str], tuple[Image, ...]] = {}
    declared = declaring_files(report.run)
    for part in report.parts:
        wanted |= _wanted(part, load, mode, notes, declared.get(part.benchmark.name))
    distinct = {image for same_images in wanted.values() for image in same_images}
    if not distinct:
        return Pictures("none", " ".join(notes or ["There are no images in this run."]))
    if mode is None:
        mode = "thumbs" if len(distinct) <= INSIDE else many
    if mode == "none":
        command = f"medvqa report {report.folder.name} --images=folder"
        notes.append(f"The {len(distinct):,} images are left out; `{command}` adds them.")
        return Pictures("none", " ".join(notes))
    drawn, unread = _drawn(distinct, report.folder, mode)
    if unread:
        notes.append(f"{len(unread)} of {len(distinct)} images could not be read; the first: {unread[0]}.")
    where = {
        "thumbs": f"Images are inside this file, at most {SMALL} pixels wide or high.",
        "folder": f"Images are files in the folder {FOLDER}/ beside this page, at most {LARGE} pixels wide or high.",
    }[mode]
    sources = {key: tuple(drawn.get(image, "") for image in same_images) for key, same_images in wanted.items()}
    return Pictures(mode, " ".join([where, *notes]), sources)


def inside(drawn: Iterable[Pictures]) -> Pictures:
    """The images inside the pages of several runs, for a page about all of them."""
    sources: dict[tuple[str, str], tuple[str, ...]] = {}
    for picture in drawn:
        if picture.mode == "thumbs":
            sources |= picture.sources
    if not sources:
        return Pictures("none", "Images are left out.")
    return Pictures("thumbs", f"Images are inside this file, at most {SMALL} pixels wide or high.", sources)


def _wanted(
    part: Part, load: Load, mode: Images | None, notes: list[str], declared: str | None
) -> dict[tuple[str, str], tuple[Image, ...]]:
    """The image references of a part's items, with their paths; adds a reason to `notes` if there are none.

    `declared` is the file that declares the benchmark, None if no file does.
    """
    benchmark = part.benchmark
    if not any(result.item.images for result in part.results):
        return {}
    if mode is None and not benchmark.public:
        file = "" if declared is None else f" {shlex.quote(f'--benchmark={declared}')}"
        notes.append(
            f"Images of {benchmark.name} are left out, since its data are not declared public; "
            f"medvqa report RUN --images=thumbs{file} (or --images=folder) shows them."
        )
        return {}
    try:
        items = load(benchmark)
        loaded = {item.id: item for item in items} if items is not None else None
    except MedVQAError as error:
        notes.append(f"Images of {benchmark.name} are left out: {error}.")
        return {}
    if loaded is None:
        named = "the folder of its data with --data=DIR"
        if declared is not None:
            named = f"the file that declares it with {shlex.quote(f'--benchmark={declared}')}"
        notes.append(f"Images of {benchmark.name} are left out: name {named}.")
        return {}
    current = {image.name: image for item in loaded.values() for image in item.images}
    images = {}
    changed = 0
    for result in part.results:
        recorded = result.item.images
        if any(map(records.is_pseudonym, recorded)):
            own = loaded[result.item.id].images if result.item.id in loaded else ()
            shown = [_same(image, own[place] if place < len(own) else None) for place, image in enumerate(recorded)]
        else:
            shown = [_same(image, current.get(image.name)) for image in recorded]
        changed += None in shown
        if shown and None not in shown:
            images[benchmark.name, result.item.id] = tuple(image for image in shown if image is not None)
    if changed:
        notes.append(f"The data folder has other images than this run for {changed} items of {benchmark.name}.")
    return images


def _same(recorded: Image, current: Image | None) -> Image | None:
    """The data folder's image, by its recorded name, if it is the recorded one; else None."""
    if current is None:
        return None
    if records.is_pseudonym(recorded):
        current = replace(current.pinned(), name=recorded.name)
    return None if recorded.digest and current.digest and recorded.digest != current.digest else current


def _drawn(distinct: Iterable[Image], folder: Path, mode: Images) -> tuple[dict[Image, str], list[str]]:
    """The `src` attribute of each image, and the errors of unreadable ones."""
    drawn: dict[Image, str] = {}
    unread: list[str] = []
    if mode == "folder":
        try:
            files.subfolder(folder, FOLDER)
        except OSError as error:
            raise UsageError(f"--images=folder: {folder / FOLDER} cannot be written: {error.strerror}") from error
    for image in sorted(distinct, key=lambda image: (image.path, image.start)):
        try:
            pixels = image.pil()
        except DataError as error:
            unread.append(str(error))
            continue
        content = _encode(pixels, SMALL if mode == "thumbs" else LARGE)
        if mode == "thumbs":
            drawn[image] = "data:image/jpeg;base64," + base64.b64encode(content).decode()
        else:
            name = f"{FOLDER}/{hashlib.sha256(content).hexdigest()[:20]}.jpg"
            # Do not sync: there may be thousands of files, and they are drawn anew each time.
            files.replace(folder / name, content, sync=False)
            drawn[image] = name
    return drawn, unread


def _encode(pixels: PIL.Image.Image, longest: int) -> bytes:
    """A JPEG without metadata. Colour keeps its full resolution: a contour is one pixel wide."""
    pixels.thumbnail((longest, longest))
    content = io.BytesIO()
    pixels.save(content, "JPEG", quality=88, subsampling=0, optimize=True)
    return content.getvalue()
