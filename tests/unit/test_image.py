"""References become bytes and pixels, and hostile ones become messages."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import struct
import warnings
import zlib
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import image as room
from medvqa.image import FORMATS, TextCell, inside
from medvqa.items import DataError, Image, Item, Prompt
from medvqa.protocols import prompts
from medvqa.records import run_folder
from support.laws import examples


def encoded(image: PIL.Image.Image, form: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def stored(
    folder: Path, data: bytes, start: int = 0, length: int | None = None, encoding: str = "raw", **fields: object
) -> Image:
    """An image in a file of its own; base64 in a table of text."""
    path = folder / "picture"
    path.write_bytes(data)
    if encoding == "base64":
        fields["cell"] = TextCell(start, len(data) if length is None else length)
    return Image("set/picture", str(path), **fields)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG that claims any size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def colours() -> PIL.Image.Image:
    image = PIL.Image.new("RGB", (32, 16), (200, 30, 60))
    image.paste((10, 220, 40), (0, 0, 16, 8))
    return image


# Paths


def test_inside_gives_the_file_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    assert inside(tmp_path / "data", "deep/a.png", where="row 1") == (tmp_path / "data/deep/a.png").resolve()
    assert inside(tmp_path / "data", "deep/../a.png", where="row 1") == (tmp_path / "data/a.png").resolve()


@pytest.mark.parametrize("relative", ["../secret", "a/../../secret", "/etc/passwd", "link/secret", "link"])
def test_inside_refuses_paths_that_leave(tmp_path: Path, relative: str) -> None:
    data = tmp_path / "data"
    (data / "a").mkdir(parents=True)
    (data / "link").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"file\.jsonl line 3: path '.*' leaves the data folder"):
        inside(data, relative, where="file.jsonl line 3")


def test_inside_refuses_an_absolute_path_even_to_the_folder_itself(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="leaves the data folder"):
        inside(tmp_path, str(tmp_path / "a.png"), where="row 1")


def test_inside_follows_the_data_folder_when_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    assert inside(tmp_path / "data", "a.png", where="row 1") == (tmp_path / "disk" / "a.png").resolve()


def test_inside_names_backslashes_and_what_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 1: path .* has a backslash; paths are written with /"):
        inside(tmp_path, "..\\secret", where="row 1")
    with pytest.raises(DataError, match=r"row 1: .* is not a path"):
        inside(tmp_path, "a\0b", where="row 1")


@given(st.text(alphabet=st.sampled_from("./ab\\\0~ \ud800"), max_size=12))
@examples(200)
def test_nothing_gets_out(tmp_path_factory: pytest.TempPathFactory, relative: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        found = inside(folder, relative, where="row 1")
    except DataError:
        return
    assert found.is_relative_to(folder.resolve())


# Bytes


def test_read_takes_a_file_or_a_part_of_it(tmp_path: Path) -> None:
    assert stored(tmp_path, b"pixels").read() == b"pixels"
    assert stored(tmp_path, b"--cGl4ZWxz--", start=2, length=8, encoding="base64").read() == b"pixels"


def test_read_undoes_base64_with_line_breaks(tmp_path: Path) -> None:
    text = base64.encodebytes(bytes(range(256)))
    assert b"\n" in text.strip()
    assert stored(tmp_path, b"x" + text, start=1, length=len(text), encoding="base64").read() == bytes(range(256))


@pytest.mark.parametrize("text", [b"not base64 at all!", b"QUJD*", b"QUJDR", b"QQ==QQ==", b"=QUJ", b"\xff\xfe"])
def test_what_is_not_base64_names_the_image(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(DataError, match="image set/picture: not base64"):
        stored(tmp_path, text, encoding="base64").read()


@pytest.mark.parametrize("path", ["nowhere.png", "."])
def test_a_missing_file_names_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"image set/1\.png: no such file"):
        Image("set/1.png", path).read()


def test_a_file_that_cannot_be_read_names_the_image(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="image set/picture: cannot be read"):
        stored(tmp_path, b"pixels", start=-5, encoding="base64").read()


def test_an_empty_image_names_the_image(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="image set/picture: empty"):
        stored(tmp_path, b"").read()


@pytest.mark.parametrize("encoding", ["raw", "base64"])
def test_bytes_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setattr(room, "MAX_BYTES", 3 * 2**20)
    data = bytes(3 * 2**20)
    text = data if encoding == "raw" else base64.b64encode(data)
    assert stored(tmp_path, text, encoding=encoding).read() == data
    with pytest.raises(DataError, match="image set/picture: larger than 3 MiB"):
        stored(tmp_path, text + b"AAAAAAAA", encoding=encoding).read()


def test_a_file_that_changed_since_it_was_indexed_is_noticed(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"pixels").hexdigest()
    assert stored(tmp_path, b"pixels", digest=digest).read() == b"pixels"
    with pytest.raises(DataError, match="image set/picture: the file has changed since it was indexed"):
        stored(tmp_path, b"pixelS", digest=digest).read()


def test_digest_is_that_of_the_bytes_and_is_not_computed_twice(tmp_path: Path) -> None:
    assert stored(tmp_path, b"pixels").sha256() == hashlib.sha256(b"pixels").hexdigest()
    assert Image("gone", "", digest="known").sha256() == "known"


# Pixels


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_becomes_rgb(tmp_path: Path, colours: PIL.Image.Image, form: str) -> None:
    decoded = stored(tmp_path, encoded(colours, form)).pil()
    assert (decoded.mode, decoded.size) == ("RGB", (32, 16))
    red, green, blue = decoded.getpixel((30, 14))
    assert red > 150 > 100 > green
    assert blue < 100


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "RGB"])
def test_every_mode_becomes_rgb(tmp_path: Path, colours: PIL.Image.Image, mode: str) -> None:
    decoded = stored(tmp_path, encoded(colours.convert(mode))).pil()
    assert (decoded.mode, decoded.size) == ("RGB", (32, 16))


def deep(mode: str, values: tuple[float, ...] = (0, 1024, 4095)) -> PIL.Image.Image:
    """A row of raw values, as scanners store them."""
    image = PIL.Image.new(mode, (len(values), 1))
    for position, value in enumerate(values):
        image.putpixel((position, 0), value)
    return image


def png_of_16_bits(colour_type: int, channels: int) -> bytes:
    header = struct.pack(">IIBBBBB", 2, 1, 16, colour_type, 0, 0, 0)
    data = b"\0" + struct.pack(">H", 4000) * channels * 2
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


DEEP = [("I;16", "PNG"), ("I;16", "TIFF"), ("I;16B", "TIFF"), ("I", "TIFF"), ("F", "TIFF")]


@pytest.mark.parametrize(("mode", "form"), DEEP)
def test_more_than_eight_bits_are_refused_where_no_window_is_declared(tmp_path: Path, mode: str, form: str) -> None:
    with pytest.raises(
        DataError,
        match=r"image set/picture: (16|32) bits a channel \(.*\), but models see 8. Set the raw values "
        r"for black and white, such as Image\(\.\.\., window=\(0, 4095\)\), window = \[0, 4095\] in the file "
        r"that declares questions of your own",
    ):
        stored(tmp_path, encoded(deep(mode), form)).pil()


@pytest.mark.parametrize(("mode", "form"), DEEP)
def test_a_window_maps_raw_values_linearly(tmp_path: Path, mode: str, form: str) -> None:
    shown = stored(tmp_path, encoded(deep(mode), form), window=(0, 4095)).pil()
    assert (shown.mode, shown.size) == ("RGB", (3, 1))
    assert [shown.getpixel((x, 0)) for x in range(3)] == [(0,) * 3, (64,) * 3, (255,) * 3]
    narrow = stored(tmp_path, encoded(deep(mode), form), window=(1000, 1048)).pil()
    assert [narrow.getpixel((x, 0))[0] for x in range(3)] == [0, 128, 255], "what lies outside is black or white"
    turned = stored(tmp_path, encoded(deep(mode), form), window=(4095, 0)).pil()
    assert [turned.getpixel((x, 0))[0] for x in range(3)] == [255, 191, 0]


def test_a_window_of_negative_values(tmp_path: Path) -> None:
    shown = stored(tmp_path, encoded(deep("F", (-1000.0, 40.0, 400.0)), "TIFF"), window=(-160, 240)).pil()
    assert [shown.getpixel((x, 0))[0] for x in range(3)] == [0, 128, 255]
    with pytest.raises(DataError, match="image set/picture: some raw values are NaN"):
        stored(tmp_path, encoded(deep("F", (float("nan"), 1.0)), "TIFF"), window=(0, 1)).pil()


@pytest.mark.parametrize(("colour_type", "channels"), [(2, 3), (4, 2), (6, 4)])
def test_sixteen_bits_of_colour_are_refused(tmp_path: Path, colour_type: int, channels: int) -> None:
    data = png_of_16_bits(colour_type, channels)
    with pytest.raises(DataError, match=r"image set/picture: 16 bits a channel .*Convert the file to 8 bits"):
        stored(tmp_path, data).pil()
    with pytest.raises(DataError, match=r"image set/picture: 16 bits a channel .*Convert the file to 8 bits"):
        stored(tmp_path, data, window=(0, 4095)).pil()


def test_eight_bits_need_no_window(tmp_path: Path, colours: PIL.Image.Image) -> None:
    with pytest.raises(DataError, match="image set/picture: a window needs more than 8 bits a channel; remove it"):
        stored(tmp_path, encoded(colours), window=(0, 4095)).pil()


@pytest.mark.parametrize("window", [(1, 1), (0, float("inf")), (float("nan"), 1)])
def test_a_window_is_two_different_numbers(window: tuple[float, float]) -> None:
    with pytest.raises(DataError, match=r"image a.png: window .* is not two different numbers"):
        Image("a.png", window=window)


def test_another_window_is_another_picture(tmp_path: Path) -> None:
    image = stored(tmp_path, encoded(deep("I;16")))
    asked = [Prompt("?", (replace(image, window=window),)) for window in (None, (0, 4095), (0, 1000))]
    assert len({prompts.digest(prompts.pinned(prompt)) for prompt in asked}) == 3
    items = [[Item("1", "x", "short_answer", "?", images=prompt.images)] for prompt in asked]
    assert len({run_folder.data_digest(each) for each in items}) == 3


def test_exif_orientation_is_applied(tmp_path: Path, colours: PIL.Image.Image) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees
    decoded = stored(tmp_path, encoded(colours, "JPEG", exif=exif)).pil()
    assert decoded.size == (16, 32)


@pytest.mark.parametrize("data", [b"%PDF-1.7 no image", b"<svg xmlns='http://www.w3.org/2000/svg'/>"])
def test_what_is_not_an_image_says_which_formats_are(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DataError, match=r"image set/picture: not an image \(PNG, JPEG, .*\)"):
        stored(tmp_path, data).pil()


def test_a_format_that_pillow_knows_but_no_benchmark_uses_is_refused(tmp_path: Path, colours: PIL.Image.Image) -> None:
    with pytest.raises(DataError, match="not an image"):
        stored(tmp_path, encoded(colours, "PPM")).pil()


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_truncated_image_is_damaged(tmp_path: Path, form: str) -> None:
    noise = PIL.Image.effect_noise((64, 64), 90)
    data = encoded(noise, form)
    with pytest.raises(DataError, match="image set/picture: damaged"):
        stored(tmp_path, data[: len(data) // 2]).pil()


@pytest.mark.parametrize(("width", "height"), [(50_000, 50_000), (10_000, 10_000)])
@pytest.mark.parametrize("action", ["ignore", "error"])
def test_a_decompression_bomb_is_not_decoded(tmp_path: Path, width: int, height: int, action: str) -> None:
    bomb = stored(tmp_path, png_of(width, height))
    with warnings.catch_warnings():
        warnings.simplefilter(action, PIL.Image.DecompressionBombWarning)
        with pytest.raises(DataError, match="image set/picture: more than 89,478,485 pixels"):
            bomb.pil()


@given(data=st.data())
@examples(150)
def test_damaged_images_end_in_a_message_or_a_picture(
    tmp_path_factory: pytest.TempPathFactory, colours: PIL.Image.Image, data: st.DataObject
) -> None:
    good = encoded(colours, data.draw(st.sampled_from(FORMATS)))
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decoded = stored(tmp_path_factory.getbasetemp(), bytes(bad)).pil()
        except DataError as error:
            assert str(error).startswith("image set/picture: ")
        else:
            assert decoded.mode == "RGB"


# Blank images


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_blank_image_is_grey_and_has_the_size_of_the_one_it_stands_for(
    tmp_path: Path, colours: PIL.Image.Image, form: str, orientation: int
) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    image = stored(tmp_path, encoded(colours, form, **({} if form in ("BMP", "GIF") else {"exif": exif})))
    shown = image.blanked().pil()
    assert (shown.mode, shown.size) == ("RGB", image.pil().size)
    assert shown.getextrema() == ((127, 127),) * 3
    sent = PIL.Image.open(io.BytesIO(image.blanked().read()))
    assert (sent.format, sent.size, sent.getextrema()) == ("PNG", shown.size, ((127, 127),) * 3)


def test_a_blank_image_holds_nothing_that_leads_to_the_pixels(tmp_path: Path, colours: PIL.Image.Image) -> None:
    text = base64.b64encode(encoded(colours))
    image = stored(tmp_path, b"--" + text + b"--", start=2, length=len(text), encoding="base64", window=None)
    known = replace(image, digest=image.sha256())
    expected = Image("blank image", digest=f"blank {image.sha256()}", blank=True, size=(32, 16))
    assert image.blanked() == known.blanked() == image.blanked().blanked() == expected
    assert image.blanked().pinned() == expected
    Path(image.path).unlink()
    assert expected.pil().size == (32, 16), "nothing more is read"
    assert expected.key == f"blank {known.digest}"


def test_an_image_of_more_than_eight_bits_can_be_blank(tmp_path: Path) -> None:
    image = stored(tmp_path, encoded(deep("I;16")))
    assert image.blanked() == replace(image, window=(0, 9)).blanked()
    assert image.blanked().pil().size == (3, 1)


def test_a_blank_image_of_one_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    reason = "the file cannot be read, so the blank image has no size"
    gone = Image("set/gone.png", "/gone.png")
    with pytest.raises(DataError, match=rf"image set/gone\.png: {reason}"):
        gone.blanked().pil()
    assert gone.blanked().key == "blank set/gone.png"
    bomb = stored(tmp_path, png_of(50_000, 50_000))
    with pytest.raises(DataError, match=f"image set/picture: {reason}"):
        bomb.blanked().pil()


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_the_apparent_size_is_that_of_the_header(tmp_path: Path, colours: PIL.Image.Image, form: str) -> None:
    exif = PIL.Image.Exif()
    exif[0x010E] = "x" * 60_000
    assert stored(tmp_path, encoded(colours, form, exif=exif)[:70_000]).apparent_size() == 32 * 16


def test_the_apparent_size_of_others_is_their_bytes(tmp_path: Path, colours: PIL.Image.Image) -> None:
    data = encoded(colours, "GIF")
    (tmp_path / "a").mkdir()
    assert stored(tmp_path / "a", data).apparent_size() == len(data)
    assert stored(tmp_path, base64.b64encode(data), encoding="base64").apparent_size() == len(base64.b64encode(data))
    assert Image("none", str(tmp_path / "none")).apparent_size() == Image("none").apparent_size() == 0
    assert Image("blank", blank=True, size=(3, 4)).apparent_size() == 12


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"\xff\xd8" + b"\xff\xe0\0\2" * 99_999])
def test_the_apparent_size_of_a_damaged_file_is_found_in_no_time(tmp_path: Path, data: bytes) -> None:
    assert stored(tmp_path, data).apparent_size() in (0, len(data))


def test_a_pipe_has_no_apparent_size(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert Image("pipe", str(tmp_path / "pipe.png")).apparent_size() == 0


def test_a_withheld_image_says_so() -> None:
    for image in (Image("set/1.png"), Image("set/1.png", digest="ab" * 32)):
        with pytest.raises(
            DataError, match=r"image set/1\.png: not here; it was withheld, or the reference comes from a run"
        ):
            image.pil()
