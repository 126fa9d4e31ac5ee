"""The images of a run's page: inside the page up to a size, as files beside it, or not at all.

They are found by reading the data again, never through a path in the run folder. Nothing of their files but the pixels
is passed on. An image that cannot be shown has its reason, and costs no other image.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from medvqa import files, printing
from medvqa.items import Benchmark, DataError, Image, Item, MedVQAError, Result, UsageError
from medvqa.medical import views, windows
from medvqa.perturbing import catalogue
from medvqa.protocols import perturbation
from medvqa.records.private import is_pseudonym
from medvqa.records.run_record import RunRecord
from medvqa.report.build import Report
from medvqa.report.bundle import picture_files
from medvqa.report.bundle.facts import declaring_files
from medvqa.report.bundle.images import ImageHead
from medvqa.report.bundle.picture_files import PictureFile

if TYPE_CHECKING:
    import PIL.Image

Images = Literal["inside", "folder", "none"]
IMAGES: tuple[Images, ...] = get_args(Images)
ALIASES: Mapping[str, Images] = {"thumbs": "inside"}
"""Values of earlier versions, which drew images inside the page at 384 pixels."""
FOLDER = "images"
"""The folder of image files, beside the page."""
MANY = 400
"""More images than this are not inside the page by default."""
MEGABYTES = 16
"""Size of all images inside the page by default, as written in the page: a mail takes it."""

Load = Callable[[Benchmark], Iterable[Item] | None]
"""The items of a benchmark with the paths of their images; None if the data folder is unknown."""


def parse(typed: str) -> tuple[Images, int]:
    """Read a value of --images: where images go, and their megabytes inside the page (UsageError)."""
    name, colon, number = typed.partition(":")
    mode = next((mode for mode in IMAGES if mode == ALIASES.get(name, name)), None)
    if mode is None or (colon and (mode != "inside" or not re.fullmatch("[1-9][0-9]{0,3}", number))):
        raise UsageError(
            f"--images={printing.line(typed)}: type inside, inside:N (at most N megabytes, such as inside:40), folder "
            "or none"
        )
    return mode, int(number or MEGABYTES)


@dataclass(frozen=True)
class Pictures:
    """`shown` maps (benchmark, item id) to the images of a question, in their order.

    `note`: sentences for the page's banner. `blocks`: the content of the files inside the page, by name. `left_out`:
    the reason why a benchmark's images are left out, by its name.
    """

    mode: Images | Literal["served"]
    note: str
    shown: Mapping[tuple[str, str], tuple[ImageHead, ...]] = field(default_factory=dict)
    blocks: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def of(self, item: Item) -> tuple[ImageHead, ...]:
        """Return the images of a question; one that is not shown has its name and a reason."""
        found = self.shown.get((item.benchmark, item.id), ())
        if len(found) == len(item.images):
            return found
        why = self.left_out.get(item.benchmark, "images are left out")
        return tuple(ImageHead(image.name, why=why) for image in item.images)


class _Found(NamedTuple):
    """An image of a question: its recorded name, the data folder's image, or the reason why there is none."""

    name: str
    image: Image | None
    why: str = ""


class _DrawnPictures(NamedTuple):
    """Heads by image; the files inside the page by name; a sentence about their place."""

    images: Mapping[Image, ImageHead]
    blocks: Mapping[str, bytes]
    place: str


class _LeftOut(Exception):
    """The reason why all images of a benchmark are left out: the end of a sentence."""


_Rows = Mapping[tuple[str, str], Sequence[_Found]]
_ByBenchmark = Sequence[tuple[Benchmark, Mapping[str, tuple[Image, ...]]]]


def draw(report: Report, load: Load, typed: str | None = None, *, many: Images = "folder") -> Pictures:
    """Read and draw the images of a run's questions; `typed` is the value of --images.

    None: images are inside the page, or as `many` says if they are more than MANY; those of data that are not declared
    public (`Benchmark.public`) are left out. With "folder", files are written to images/ in the run folder. No image
    fails a report. UsageError if the folder cannot be written, or for a wrong value.
    """
    mode, megabytes = (None, MEGABYTES) if typed is None else parse(typed)
    by_benchmark = _by_benchmark(report)
    if mode == "none":
        return _without("Images are left out (--images=none).", by_benchmark, "left out (--images=none)")
    notes: list[str] = []
    left_out: dict[str, str] = {}
    found: dict[tuple[str, str], tuple[_Found, ...]] = {}
    private: set[Image] = set()
    declared = declaring_files(report.run)
    for benchmark, recorded in by_benchmark:
        try:
            images = _find(benchmark, recorded, load, mode, declared.get(benchmark.name))
        except _LeftOut as error:
            notes.append(f"Images of {benchmark.name} are left out{error}.")
            left_out[benchmark.name] = f"left out{error}"
            continue
        found |= images
        if not benchmark.public:
            private |= {each.image for row in images.values() for each in row if each.image is not None}
    if not found:
        return Pictures("none", " ".join(notes or ["There are no images in this run."]), left_out=left_out)
    distinct = {each.image for row in found.values() for each in row if each.image is not None}
    if mode is None:
        mode = "inside" if len(distinct) <= MANY else many
    if mode == "none":
        command = f"medvqa report {shlex.quote(report.folder.name)} --images=folder"
        note = f"The {len(distinct):,} images are left out; `{command}` adds them."
        pictures = _without(" ".join([note, *notes]), by_benchmark, f"left out; `{command}` adds it")
        return replace(pictures, left_out={**pictures.left_out, **left_out})
    ordered = sorted(distinct, key=lambda image: (image.path, image.cell or (), image.key, image.name))
    drawn = _beside(ordered, private, report.folder) if mode == "folder" else _inside(ordered, private, megabytes)
    shown = {
        key: tuple(
            ImageHead(each.name, why=each.why) if each.image is None else drawn.images[each.image] for each in row
        )
        for key, row in found.items()
    }
    place = [drawn.place] if any(head.source for head in drawn.images.values()) else []
    note = " ".join([_counted(found, drawn), *place, *notes])
    return Pictures(mode, note, shown, drawn.blocks, left_out)


def _without(note: str, by_benchmark: _ByBenchmark, why: str) -> Pictures:
    return Pictures("none", note, left_out={benchmark.name: why for benchmark, _ in by_benchmark})


def _counted(found: _Rows, drawn: _DrawnPictures) -> str:
    """Return the number of images that could be read, and the first that could not be."""
    unread: dict[object, tuple[str, str]] = {}
    everything: set[object] = set()
    for key, row in found.items():
        for place, each in enumerate(row):
            # An image that was not read in the run has a pseudonym by its place in the question.
            image = each.image or (key[0], each.name, (key, place) if each.name.startswith("unread-") else None)
            everything.add(image)
            why = each.why if each.image is None else _unread(drawn.images[each.image])
            if why:
                unread.setdefault(image, (each.name, why))
    counted = f"Images: {len(everything) - len(unread):,} of {len(everything):,} could be read"
    if not unread:
        return f"{counted}."
    (name, why), *_ = unread.values()
    # The pseudonym of an image that the model did not read says nothing about the page.
    return f"{counted}; the first that could not is {re.sub(r'^unread-(?=[0-9])', 'image ', name)}: {why}."


def _unread(head: ImageHead) -> str:
    """Return why an image could not be read, "" if it could."""
    return "" if head.width else head.why


def _read(image: Image) -> tuple[PIL.Image.Image, str] | ImageHead:
    """Return the pixels of an image with their window in words, or a head with the reason why there are none."""
    try:
        return image.pictured()
    except DataError as error:
        return ImageHead(image.name, why=reason(image, error))


def reason(image: Image, error: DataError) -> str:
    """Return the reason of an error without the image's name, and without any path of this machine."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return f"cannot be read: {cause.strerror}"
    reason = str(error).removeprefix(f"image {image.name}: ")
    path = PurePath(image.path)
    hidden = [str(path), path.name] if path.name not in image.name else [str(path)]
    return "cannot be read" if any(name and name in reason for name in hidden) else reason


def _head(image: Image, pixels: PIL.Image.Image, shown: str, file: PictureFile | None, why: str = "") -> ImageHead:
    if file is None:
        return ImageHead(image.name, why=why, width=pixels.width, height=pixels.height, shown=shown)
    source = f"{FOLDER}/{file.name}"
    size = (*pixels.size, file.width, file.height)
    return ImageHead(image.name, source, "", *size, shown=shown, exact=file.exact)


def _asked_with(image: Image) -> str:
    """The window and the change that an image was asked with, in words; "" if the reference has none."""
    if image.blank:
        return ""
    window, change = image.window, image.alteration
    said = "" if window is None else windows.said((window[0], window[1]), views.parse(image.view).named)
    return "; ".join(filter(None, (said, "" if change is None else catalogue.words_of(change))))


def _beside(images: Sequence[Image], private: Container[Image], folder: Path) -> _DrawnPictures:
    """Write the images as files into a folder beside the page."""
    with files.writing(f"--images=folder: {folder / FOLDER}"):
        files.subfolder(folder, FOLDER)
    drawn = {}
    for image in images:
        found = _read(image)
        if isinstance(found, ImageHead):
            drawn[image] = found
            continue
        pixels, shown = found
        file = picture_files.whole(image, pixels, public=image not in private)
        drawn[image] = _head(image, pixels, shown, file)
        # Do not sync: there may be thousands of files, and they are drawn anew each time.
        files.replace(folder / FOLDER / file.name, file.content, sync=False)
    most = f"{picture_files.MOST_PIXELS:,} pixels"
    shrunk = sum(bool(head.source) and not head.exact for head in drawn.values())
    place = f"They are files in the folder {FOLDER}/ beside this page, "
    place += f"{shrunk:,} of them shrunk to {most}" if shrunk else "with all their pixels"
    place += "; send the folder too"
    return _DrawnPictures(drawn, {}, f"{place}.")


def _inside(images: Sequence[Image], private: Container[Image], megabytes: int) -> _DrawnPictures:
    """Draw the images for the page: at all their pixels if an equal share of the bytes allows it, else as JPEG.

    Small images leave their bytes to large ones.
    """
    left = megabytes * 1_000_000 * 3 // 4  # in base64, 3 bytes are 4 characters
    blocks: dict[str, bytes] = {}
    heads: dict[Image, ImageHead] = {}
    sizes: dict[Image, int] = {}

    def place(image: Image, share: int, *, whole: bool) -> bool:
        """Draw an image of at most `share` bytes; False if it has to be shrunk, but `whole` does not allow it."""
        nonlocal left
        found = _read(image)
        if isinstance(found, ImageHead):
            heads[image] = found
            return True
        pixels, shown = found
        file = None
        if sizes.get(image, 0) <= share:
            file = picture_files.exact(image, pixels, public=image not in private, most=share)
            sizes[image] = share + 1 if file is None else len(file.content)
        if sizes[image] > share:
            if whole:
                return False
            file = picture_files.shrunk(pixels, share)
        if file is None:
            why = f"it does not fit into the {megabytes} MB of this page; --images=folder shows it"
            heads[image] = _head(image, pixels, shown, None, why)
            return True
        heads[image] = head = _head(image, pixels, shown, file)
        left -= 0 if head.source in blocks else len(file.content)
        blocks[head.source] = file.content
        return True

    share = left // max(1, len(images))
    larger = [image for image in images if not place(image, share, whole=True)]
    for number, image in enumerate(larger):
        place(image, left // (len(larger) - number), whole=False)
    inexact = sum(bool(head.source) and not head.exact for head in heads.values())
    missing = sum(head.width > 0 and not head.source for head in heads.values())
    told = "They are inside this file"
    told += f", {inexact:,} of them shrunk or compressed" if inexact else ", with all their pixels"
    told += f", and {missing:,} did not fit" if missing else ""
    told += f" (at most {megabytes} MB; --images=folder shows them whole)" if inexact or missing else ""
    return _DrawnPictures(heads, blocks, f"{told}.")


def address(image: Image) -> str:
    """Return 64 hexadecimal digits that name a recorded image in addresses; "" if it was not read, or is blank.

    They are the digest of its file, or of `Image.key` if it is one of several views of a file, or changed.
    """
    if image.blank or not re.fullmatch("[0-9a-f]{64}", image.digest):
        return ""
    return image.digest if image.key == image.digest else hashlib.sha256(image.key.encode()).hexdigest()


def seen(item: Item, run: RunRecord) -> tuple[Image, ...]:
    """Return the images of a recorded question as the model saw them: changed by --perturb.

    With --ablate=shuffle they are the question's own, unchanged: the model saw those of another question.
    """
    return item.images if run.ablation == "shuffle" else perturbation.altered(item.images, item, run.protocol.perturb)


def served(results: Iterable[tuple[Result, RunRecord]]) -> Pictures:
    """Return the images of results as a server sends them, each by its `address`, when somebody looks at it.

    None is read here: the server tells why it has not got one. Of several runs, the first that has a question counts.
    """
    shown = {}
    for result, run in results:
        item = result.item
        if item.images and (item.benchmark, item.id) not in shown:
            shown[item.benchmark, item.id] = tuple(map(_served, seen(item, run)))
    return Pictures("served", "Images are read from the data folder when they are looked at.", shown)


def _served(image: Image) -> ImageHead:
    name = address(image)
    if image.blank:
        return ImageHead(image.name, why="the model got a grey picture in its place")
    if not name:
        return ImageHead(image.name, why="the run has no digest of it: it could not be read")
    return ImageHead(image.name, f"{FOLDER}/{name}.png", shown=_asked_with(image), exact=True)


def inside(drawn: Iterable[Pictures]) -> Pictures:
    """Return the images inside the pages of several runs, for a page about all of them."""
    shown: dict[tuple[str, str], tuple[ImageHead, ...]] = {}
    blocks: dict[str, bytes] = {}
    for pictures in drawn:
        if pictures.mode == "inside":
            shown |= pictures.shown
            blocks |= pictures.blocks
    if not blocks:
        return Pictures("none", "Images are left out.")
    used = {image.source for row in shown.values() for image in row}
    blocks = {name: content for name, content in blocks.items() if name in used}
    return Pictures("inside", "Images are inside this file.", shown, blocks)


def _by_benchmark(report: Report) -> _ByBenchmark:
    """Return each benchmark with the images of its questions as they were `seen`, by the ids of those that have any."""
    by_name: dict[str, tuple[Benchmark, dict[str, tuple[Image, ...]]]] = {}
    for part in report.parts:
        _, recorded = by_name.setdefault(part.benchmark.name, (part.benchmark, {}))
        recorded |= {result.item.id: seen(result.item, report.run) for result in part.results if result.item.images}
    return list(by_name.values())


def _find(
    benchmark: Benchmark,
    recorded: Mapping[str, tuple[Image, ...]],
    load: Load,
    mode: Images | None,
    declared: str | None,
) -> dict[tuple[str, str], tuple[_Found, ...]]:
    """Find the images of a benchmark's questions in its data; _LeftOut with the reason if none is to be shown.

    `declared` is the file that declares the benchmark, None if no file does.
    """
    if not recorded:
        return {}
    if mode is None and not benchmark.public:
        file = "" if declared is None else f" {shlex.quote(f'--benchmark={declared}')}"
        raise _LeftOut(
            f", since its data are not declared public; medvqa report RUN --images=inside{file} (or --images=folder) "
            "shows them"
        )
    try:
        items = load(benchmark)
        loaded = {item.id: item for item in items} if items is not None else None
    except MedVQAError as error:
        raise _LeftOut(f": {error}") from error
    if loaded is None:
        named = "the folder of its data with --data=DIR"
        if declared is not None:
            named = f"the file that declares it with {shlex.quote(f'--benchmark={declared}')}"
        raise _LeftOut(f": name {named}")
    current = {image.name: image for item in loaded.values() for image in item.images}
    found = {}
    for id, images in recorded.items():
        own = loaded[id].images if id in loaded else ()
        hidden = any(map(is_pseudonym, images))
        found[benchmark.name, id] = tuple(
            _same(image, (own[place] if place < len(own) else None) if hidden else current.get(image.name))
            for place, image in enumerate(images)
        )
    return found


def _same(recorded: Image, current: Image | None) -> _Found:
    """Compare a recorded image with that of the data."""
    if current is None:
        return _Found(recorded.name, None, "it is not in the data folder")
    if is_pseudonym(recorded):
        current = replace(current.pinned(), name=recorded.name)
    if recorded.digest and current.digest and recorded.digest != current.digest:
        return _Found(recorded.name, None, "the data folder has another image than the run")
    return _Found(recorded.name, replace(current, alteration=recorded.alteration))
