"""The images of a page: exact pixels or as many as fit, no metadata, and a reason for each that is missing."""

import hashlib
import io
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.PngImagePlugin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks, report
from medvqa.benchmarks import medlesionvqa
from medvqa.cli import main
from medvqa.items import Answer, Benchmark, Image, Item, Result, Score, UsageError
from medvqa.records import private
from medvqa.report import html
from medvqa.report.bundle import metadata, picture_files, pictures
from medvqa.report.bundle.images import ImageHead
from support import pages
from support.laws import examples
from support.runs import record

SECRET = b"patient Miller"


def load(benchmark: Benchmark) -> tuple[Item, ...]:
    return benchmarks.load(benchmark, Path())


@pytest.fixture(scope="module")
def phantom(tmp_path_factory: pytest.TempPathFactory) -> report.Report:
    return report.build(pages.write(tmp_path_factory.mktemp("reports") / "first", pages.guesses()), pages.PHANTOM)


# ---- files without metadata ------------------------------------------------------------------------------------------


def drawing(width: int, height: int, colours: int = 40) -> PIL.Image.Image:
    pixels = bytes((x * 7 + y * 13 + c * 50) % 256 for y in range(height) for x in range(width) for c in range(3))
    return PIL.Image.frombytes("RGB", (width, height), pixels).quantize(colours).convert("RGB")


def png(picture: PIL.Image.Image, **options: object) -> bytes:
    about = PIL.PngImagePlugin.PngInfo()
    about.add_text("Comment", SECRET.decode())
    about.add_itxt("XML:com.adobe.xmp", SECRET.decode())
    return saved(picture, "PNG", pnginfo=about, **options)


def saved(picture: PIL.Image.Image, format: str, **options: Any) -> bytes:
    content = io.BytesIO()
    picture.save(content, format, **options)
    return content.getvalue()


def described() -> PIL.Image.Exif:
    exif = PIL.Image.Exif()
    exif[0x010E] = SECRET.decode()
    return exif


def jpeg(picture: PIL.Image.Image, **options: object) -> bytes:
    return saved(picture, "JPEG", exif=described(), comment=SECRET, icc_profile=SECRET, **options) + SECRET


FILES: dict[str, Callable[[PIL.Image.Image], bytes]] = {
    "png": png,
    "grey png": lambda picture: png(picture.convert("L")),
    "palette png": lambda picture: png(picture.quantize(16)),
    "gamma png": lambda picture: with_chunk(png(picture), b"gAMA", struct.pack(">I", 100_000)),
    "jpg": jpeg,
    "grey jpg": lambda picture: jpeg(picture.convert("L")),
    "progressive jpg": lambda picture: jpeg(picture, progressive=True),
    "webp": lambda picture: saved(picture, "WEBP", lossless=True) + SECRET,
}


def with_chunk(data: bytes, kind: bytes, content: bytes) -> bytes:
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return data[:33] + chunk + data[33:]


def opened(content: bytes) -> PIL.Image.Image:
    with PIL.Image.open(io.BytesIO(content)) as picture:
        return picture.convert("RGB")


@given(st.sampled_from(sorted(FILES)), st.integers(1, 40), st.integers(1, 40))
@examples(100)
def test_a_file_without_metadata_has_the_same_pixels(name: str, width: int, height: int) -> None:
    data = FILES[name](drawing(width, height))
    assert SECRET in data
    found = metadata.without_metadata(data)
    assert found is not None
    content, format = found
    assert format == name.rpartition(" ")[2]
    assert SECRET not in content
    assert opened(content).tobytes() == opened(data).tobytes()
    assert metadata.without_metadata(content) == found


@given(st.sampled_from(sorted(FILES)), st.data())
@examples(200)
def test_damaged_files_are_no_errors(name: str, data: st.DataObject) -> None:
    whole = FILES[name](drawing(9, 7))
    place = data.draw(st.integers(0, len(whole) - 1))
    for damaged in (whole[:place], whole[:place] + data.draw(st.binary(max_size=9)) + whole[place + 1 :]):
        found = metadata.without_metadata(damaged)
        assert found is None or len(found[0]) <= len(damaged)


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP", b"GIF89a", b"\xff" * 99]
)
def test_other_bytes_are_no_such_file(data: bytes) -> None:
    assert metadata.without_metadata(data) is None


# ---- files of a page -------------------------------------------------------------------------------------------------


def on_disk(folder: Path, name: str, data: bytes, **fields: Any) -> Image:
    (folder / name).write_bytes(data)
    return Image(name, str(folder / name), **fields)


@pytest.mark.parametrize("name", FILES)
def test_a_public_image_keeps_its_coded_pixels(tmp_path: Path, name: str) -> None:
    data = FILES[name](drawing(30, 20))
    image = on_disk(tmp_path, "1", data)
    file = picture_files.exact(image, image.pil(), public=True)
    assert file is not None
    assert file.format == name.rpartition(" ")[2]
    assert (file.content, file.format) == metadata.without_metadata(data)
    assert (file.width, file.height, file.exact) == (30, 20, True)
    assert file.name == f"{hashlib.sha256(file.content).hexdigest()}.{file.format}"


def turned(picture: PIL.Image.Image) -> bytes:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    return saved(picture, "JPEG", exif=exif)


def see_through(picture: PIL.Image.Image) -> bytes:
    picture = picture.convert("RGBA")
    picture.putalpha(100)
    return saved(picture, "PNG")


OTHERS: dict[str, Callable[[PIL.Image.Image], bytes]] = {
    "turned": turned,
    "see-through": see_through,
    "see-through webp": lambda picture: saved(picture.convert("RGBA"), "WEBP", lossless=True, exif=described()),
    "four colours of print": lambda picture: saved(picture.convert("CMYK"), "JPEG"),
    "gif": lambda picture: saved(picture, "GIF", comment=SECRET),
    "bmp": lambda picture: saved(picture, "BMP"),
    "tiff": lambda picture: saved(picture, "TIFF", description=SECRET.decode()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_image_that_browsers_could_show_otherwise_is_coded_anew(tmp_path: Path, name: str) -> None:
    image = on_disk(tmp_path, "1", OTHERS[name](drawing(30, 20)))
    pixels = image.pil()
    file = picture_files.exact(image, pixels, public=True)
    assert file is not None
    assert file.format == "png"
    assert opened(file.content).tobytes() == pixels.tobytes()
    assert SECRET not in file.content


@pytest.mark.parametrize("name", [*FILES, *OTHERS])
def test_of_a_private_image_nothing_but_pixels_is_passed_on(tmp_path: Path, name: str) -> None:
    image = on_disk(tmp_path, "1", (FILES | OTHERS)[name](drawing(30, 20)))
    pixels = image.pil()
    assert pixels.info == {}
    file = picture_files.exact(image, pixels, public=False)
    assert file is not None
    assert SECRET not in file.content
    assert SECRET not in picture_files._jpeg(pixels, 20).content
    assert opened(file.content).tobytes() == pixels.tobytes()
    chunks = set()
    at = 8
    while at < len(file.content):
        chunks.add(file.content[at + 4 : at + 8])
        at += 12 + int.from_bytes(file.content[at : at + 4])
    assert chunks <= {b"IHDR", b"PLTE", b"IDAT", b"IEND"}


def test_raw_values_are_shown_by_the_window_of_the_model(tmp_path: Path) -> None:
    data = saved(PIL.Image.new("I;16", (9, 6), 3072), "PNG")
    raw = on_disk(tmp_path, "raw.png", data)
    windowed = replace(raw, window=(0, 4096))
    drawn = pictures._inside([raw, windowed], frozenset(), 16)
    assert drawn.images[raw].why.startswith("16 bits a channel"), "and nothing in black"
    head = drawn.images[windowed]
    assert opened(drawn.blocks[head.source]).getpixel((4, 3)) == (191, 191, 191)


@given(st.integers(1, 900), st.integers(1, 900), st.integers(300, 60_000))
@examples(40)
def test_a_shrunk_picture_fits(width: int, height: int, most: int) -> None:
    picture = PIL.Image.effect_noise((width, height), 40).convert("RGB")
    file = picture_files.shrunk(picture, most)
    if file is None:
        longest = min(max(width, height), picture_files.LEAST_SIDE)
        assert len(picture_files._jpeg(picture, longest).content) > most
        return
    assert len(file.content) <= most
    assert opened(file.content).size == (file.width, file.height)
    assert file.width <= width
    assert not file.exact


def test_a_very_large_picture_is_shrunk_beside_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_files, "MOST_PIXELS", 100)
    image = on_disk(tmp_path, "1.png", png(drawing(40, 20)))
    drawn = pictures._beside([image], frozenset(), tmp_path)
    head = drawn.images[image]
    assert (head.width, head.height, head.drawn_width, head.drawn_height) == (40, 20, 14, 7)
    assert not head.exact
    assert "1 of them shrunk to 100 pixels" in drawn.place


# ---- the images of a run ---------------------------------------------------------------------------------------------


def test_a_small_run_carries_its_images_whole(phantom: report.Report) -> None:
    drawn = html.draw(phantom, load)
    assert drawn.mode == "inside"
    assert drawn.note == "Images: 262 of 262 could be read. They are inside this file, with all their pixels."
    parsed = pages.Page(html.render(phantom, drawn).decode())
    for part in phantom.parts:
        for result in part.results:
            (loaded,) = [item for item in load(part.benchmark) if item.id == result.item.id]
            for head, image in zip(drawn.of(result.item), loaded.images, strict=True):
                assert head.exact
                assert opened(drawn.blocks[head.source]).tobytes() == image.pil().tobytes()
            break
    heads = parsed.block("tables/images")
    assert {head["name"] for head in heads} == {i.name for p in phantom.parts for r in p.results for i in r.item.images}
    assert {head["source"] for head in heads} == {name for name in parsed.blocks if name.startswith("images/")}


def test_images_as_files_lie_beside_the_page(phantom: report.Report) -> None:
    drawn = html.draw(phantom, load, "folder")
    parsed = pages.Page(html.render(phantom, drawn).decode())
    heads = parsed.block("tables/images")
    for head in heads:
        content = (phantom.folder / head["source"]).read_bytes()
        assert head["source"].partition("/")[2].partition(".")[0] == hashlib.sha256(content).hexdigest()
        assert opened(content).size == (head["width"], head["height"])
    (policy,) = parsed.all("meta", http_equiv="Content-Security-Policy")
    assert "img-src data: file: 'self';" in policy.attributes["content"]
    assert "files in the folder images/ beside this page, with all their pixels; send the folder too." in drawn.note


def test_images_inside_the_page_share_its_bytes(phantom: report.Report) -> None:
    drawn = html.draw(phantom, load, "inside:2")
    assert sum(map(len, drawn.blocks.values())) <= 1_500_000
    heads = {head for row in drawn.shown.values() for head in row}
    shrunk = [head for head in heads if head.source and not head.exact]
    left_out = [head for head in heads if not head.source]
    assert shrunk
    assert all(head.why == "it does not fit into the 2 MB of this page; --images=folder shows it" for head in left_out)
    assert f"{len(shrunk)} of them shrunk or compressed" in drawn.note
    assert "(at most 2 MB; --images=folder shows them whole)" in drawn.note
    again = html.draw(phantom, load, "inside:2")
    assert (again.shown, again.blocks) == (drawn.shown, drawn.blocks), "the same run gives the same page"


@pytest.mark.parametrize(
    ("typed", "many", "limit", "mode", "note"),
    [
        ("none", "folder", 400, "none", "Images are left out (--images=none)."),
        (None, "folder", 3, "folder", "files in the folder images/"),
        (None, "none", 3, "none", "The 262 images are left out; `medvqa report first --images=folder` adds them."),
        ("inside", "none", 3, "inside", "inside this file"),
        ("thumbs", "none", 3, "inside", "inside this file"),
    ],
)
def test_the_banner_says_where_images_are(
    phantom: report.Report,
    typed: str | None,
    many: pictures.Images,
    limit: int,
    mode: str,
    note: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "MANY", limit)
    drawn = html.draw(phantom, load, typed, many=many)
    assert drawn.mode == mode
    assert note in drawn.note
    item = phantom.parts[0].results[0].item
    (head,) = drawn.of(item)
    assert head.name == item.images[0].name
    assert bool(head.source) != bool(head.why)


@pytest.mark.parametrize(
    "typed", ["", "all", "inside:", "inside:0", "inside:x", "inside:99999", "folder:3", "none:1", "in\x1b"]
)
def test_other_values_are_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="type inside, inside:N") as raised:
        html.parse(typed)
    assert "\x1b" not in str(raised.value)


def run_of(
    folder: Path, images: Sequence[Image], *, public: bool = True
) -> tuple[report.Report, Benchmark, list[Item]]:
    """A run with one question on each image."""
    benchmark = replace(medlesionvqa.BENCHMARKS[0], public=public)
    items = [
        Item(f"q{n}", benchmark.name, "multiple_response", "?", {"A": "a"}, ("A",), (image,))
        for n, image in enumerate(images)
    ]
    results = [Result("r", item, "", Answer("A"), Score(1.0, "correct", ("A",))) for item in items]
    return report.build(pages.write(folder, results), {benchmark.name: benchmark}), benchmark, items


def heads_of(made: report.Report, drawn: html.Pictures) -> list[ImageHead]:
    return [head for result in made.parts[0].results for head in drawn.of(result.item)]


def test_an_image_that_cannot_be_shown_costs_only_itself(tmp_path: Path) -> None:
    good = [on_disk(tmp_path, f"{n}.png", png(drawing(9 + n, 9))).pinned() for n in range(3)]
    broken = on_disk(tmp_path, "broken.png", png(drawing(30, 30))[:200])
    changed = replace(on_disk(tmp_path, "changed.png", png(drawing(8, 8))), digest="0" * 64)
    gone, unknown = Image("gone.png", str(tmp_path / "gone.png")), Image("unknown.png", "?")
    made, _, items = run_of(tmp_path / "run", [good[0], broken, changed, gone, unknown, *good[1:]])
    now = [
        replace(item, images=(item.images[0] if item.id != "q2" else on_disk(tmp_path, "changed.png", b"x"),))
        for item in items
    ]
    now = [replace(item, images=(item.images[0].pinned(),)) for item in now if item.id != "q4"]
    drawn = html.draw(made, lambda benchmark: now)
    heads = heads_of(made, drawn)
    assert [head.name for head in heads] == [item.images[0].name for item in items]
    assert [bool(head.source) for head in heads] == [True, False, False, False, False, True, True]
    assert heads[1].why.startswith("damaged: ")
    assert [head.why for head in heads[2:5]] == [
        "the data folder has another image than the run",
        "no such file",
        "it is not in the data folder",
    ]
    assert drawn.note.startswith("Images: 3 of 7 could be read; the first that could not is broken.png: damaged: ")


def test_samples_and_shared_images_are_counted_once(tmp_path: Path) -> None:
    image = on_disk(tmp_path, "1.png", png(drawing(9, 9)))
    made, benchmark, items = run_of(tmp_path / "run", [image, image])
    results = [
        Result("r", item, "", Answer("A"), Score(1.0, "correct", ("A",)), sample=k) for item in items for k in (1, 2)
    ]
    made = report.build(pages.write(tmp_path / "twice", results, repeat=2), {benchmark.name: benchmark})
    drawn = html.draw(made, lambda benchmark: items)
    assert drawn.note.startswith("Images: 1 of 1 could be read.")
    assert len(drawn.blocks) == 1


def test_no_path_of_this_machine_is_in_a_reason(tmp_path: Path) -> None:
    folder = tmp_path / "SMITH_JOHN"
    folder.mkdir()
    scan = on_disk(folder, "SMITH.png", b"no image")
    made, _, items = run_of(tmp_path / "run", [replace(scan, name="scans/SMITH.png")], public=False)
    hidden = replace(scan.pinned(), name=f"sha256-{scan.sha256()[:12]}", path="")
    assert private.is_pseudonym(hidden)
    results = [replace(result, item=replace(result.item, images=(hidden,))) for result in made.parts[0].results]
    made = report.build(pages.write(tmp_path / "hidden", results), made.known)
    for forbidden in (False, True):
        if forbidden:
            (folder / "SMITH.png").unlink()
            (folder / "SMITH.png").mkdir()
        drawn = html.draw(made, lambda benchmark: items, "inside")
        (head,) = heads_of(made, drawn)
        assert head.name == hidden.name
        assert head.why
        assert "SMITH" not in f"{head} {drawn.note}"
        assert "inside this file" not in drawn.note


def lesion(tmp_path: Path) -> tuple[report.Report, Item]:
    """A run of one question on one image of a benchmark whose data are not public."""
    image = on_disk(tmp_path, "1.png", png(drawing(300, 20)))
    made, _, (item,) = run_of(tmp_path / "run", [image], public=False)
    return made, item


def test_images_that_are_not_public_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    made, item = lesion(tmp_path)
    left_out = html.draw(made, lambda benchmark: [item])
    assert (left_out.mode, left_out.blocks) == ("none", {})
    reason = "left out, since its data are not declared public; medvqa report RUN --images=inside (or"
    assert reason in left_out.note
    (head,) = left_out.of(item)
    assert (head.name, head.source) == ("1.png", "")
    assert head.why.startswith(reason)
    declared = replace(made, run=record(benchmarks={item.benchmark: {"declared": {"file": "klinik.toml"}}}))
    note = html.draw(declared, lambda benchmark: None).note
    assert "medvqa report RUN --images=inside --benchmark=klinik.toml (or --images=folder) shows them" in note
    note = html.draw(declared, lambda benchmark: None, "inside").note
    assert note.endswith("left out: name the file that declares it with --benchmark=klinik.toml.")
    note = html.draw(made, lambda benchmark: None, "inside").note
    assert note.endswith("left out: name the folder of its data with --data=DIR.")
    asked = html.draw(made, lambda benchmark: [item], "folder")
    (head,) = asked.of(item)
    content = (made.folder / head.source).read_bytes()
    assert SECRET not in content
    assert opened(content).size == (300, 20)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    made, item = lesion(tmp_path)
    (made.folder / "images").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="images is a symbolic link"):
        html.draw(made, lambda benchmark: [item], "folder")


def test_a_page_about_several_runs_has_the_images_that_are_inside_their_pages(tmp_path: Path) -> None:
    made, item = lesion(tmp_path)
    there = html.draw(made, lambda benchmark: [item], "inside")
    beside = html.draw(made, lambda benchmark: [item], "folder")
    both = html.inside([there, beside])
    assert (both.mode, both.blocks) == ("inside", there.blocks)
    assert both.of(item) == there.of(item)
    none = html.inside([beside])
    assert (none.mode, none.blocks, none.of(item)) == ("none", {}, (ImageHead("1.png", why="images are left out"),))


def test_the_command_writes_the_page_with_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pages.write(tmp_path / "first", pages.guesses())
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    assert main(["report", str(folder), "--images=none"]) == 0
    none = pages.Page((folder / html.FILE).read_text())
    assert main(["report", str(folder)]) == 0
    inside = pages.Page((folder / html.FILE).read_text())
    assert "Images are left out (--images=none)." in none.told
    assert not [name for name in none.blocks if name.startswith("images/")]
    assert len([name for name in inside.blocks if name.startswith("images/")]) > 200
    capsys.readouterr()
    assert main(["report", str(folder), "--images=all"]) == 4
    assert "--images=all: type inside, inside:N" in capsys.readouterr().err
