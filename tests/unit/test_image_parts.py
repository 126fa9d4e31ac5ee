"""Images that are sent to servers have the pixels of `Image.pil` and nothing else."""

from __future__ import annotations

import base64
import io
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.PngImagePlugin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.backends.openai import image_parts
from medvqa.backends.openai.image_parts import DataURLs, data_url
from medvqa.backends.openai.without_metadata import copied
from medvqa.items import DataError, Image

LIMIT = 5 * 2**20
NAME = b"Jane Doe 1970"
SECRET = b"\xff\xfe\x00\x0f" + NAME
"""A JPEG comment."""


def noise(width: int = 40, height: int = 30, channels: int = 3, seed: int = 0) -> PIL.Image.Image:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def encoded(picture: PIL.Image.Image, form: str = "JPEG", **how: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **how)
    return buffer.getvalue()


def stored(folder: Path, data: bytes, name: str = "x") -> Image:
    (folder / name).write_bytes(data)
    return Image(name, str(folder / name))


def sent(image: Image, max_pixels: int | None = None, max_bytes: int = LIMIT) -> bytes:
    """The file that is sent; with the pixels of the image."""
    url = data_url(image, max_pixels, max_bytes)
    kind, text = re.fullmatch("data:image/(png|jpeg);base64,(.*)", url).groups()  # type: ignore[union-attr]
    data = base64.b64decode(text, validate=True)
    with PIL.Image.open(io.BytesIO(data)) as opened:
        assert opened.format == kind.upper()
        assert opened.getexif().get(0x0112) is None
        if max_pixels is None:
            assert np.array_equal(np.asarray(opened.convert("RGB")), np.asarray(image.pil()))
    assert NAME not in data
    return data


def segments(data: bytes) -> list[int]:
    """The markers of a JPEG up to its first scan."""
    found, place = [], 2
    while data[place + 1] != 0xDA:
        found.append(data[place + 1])
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return found


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def chunks(data: bytes) -> list[bytes]:
    found, place = [], 8
    while place < len(data):
        found.append(data[place + 4 : place + 8])
        place += 12 + int.from_bytes(data[place : place + 4], "big")
    return found


# --- what is copied ---------------------------------------------------------------------------------------------

ADOBE = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"
JPEG = encoded(noise())


@pytest.mark.parametrize(
    "data",
    [
        JPEG,
        encoded(noise(channels=1)),
        encoded(noise(), progressive=True),
        encoded(noise(), subsampling=0, quality=100),
        encoded(noise(), subsampling=2, restart_marker_blocks=2),
        encoded(noise(), optimize=True, dpi=(300, 300), comment=NAME, icc_profile=b"x" * 70_000),
        encoded(noise(), keep_rgb=True),
        encoded(noise(1, 1)),
        JPEG[:2] + JPEG[20:],
        JPEG[:2] + ADOBE + b"\x01" + JPEG[20:],
        JPEG[:2] + ADOBE + b"\x00" + JPEG[20:],
    ],
)
def test_a_jpeg_is_copied_without_its_metadata(tmp_path: Path, data: bytes) -> None:
    data = data[:2] + SECRET + data[2:] + b"PK\x03\x04" + NAME
    file = sent(stored(tmp_path, data))
    assert file.startswith(b"\xff\xd8")
    assert file.endswith(b"\xff\xd9")
    assert set(segments(file)) <= {0xE0, 0xEE, 0xDB, 0xC0, 0xC1, 0xC2, 0xC4, 0xDD}
    assert copied(file, 10**6) == copied(data, 10**6), "a copy is its own copy"
    assert len(file) < len(data)


def test_a_thumbnail_stays_here(tmp_path: Path) -> None:
    thumbnail = b"\xff\xe0\x00\x1fJFIF\x00\x01\x01\x00\x00\x01\x00\x01\x02\x02" + NAME[:12] + b"!!!"
    assert len(thumbnail) == 2 + 0x1F
    extended = b"\xff\xe0\x00\x0cJFXX\x00\x10Jane"
    file = sent(stored(tmp_path, JPEG[:2] + thumbnail + extended + JPEG[20:]))
    assert b"Jane" not in file
    assert file[:20] == JPEG[:20]


def test_a_picture_within_exif_stays_here(tmp_path: Path) -> None:
    inner = encoded(noise(8, 8, seed=1))
    exif = b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00" + inner
    data = JPEG[:2] + b"\xff\xe1" + struct.pack(">H", 2 + len(exif)) + exif + JPEG[2:]
    assert sent(stored(tmp_path, data)) == copied(JPEG, 10**6).data  # type: ignore[union-attr]


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_is_copied_without_its_metadata(tmp_path: Path, channels: int) -> None:
    texts = PIL.PngImagePlugin.PngInfo()
    texts.add_text("Patient", NAME.decode())
    texts.add_itxt("Patient", NAME.decode(), zip=True)
    data = encoded(noise(channels=channels), "PNG", pnginfo=texts, dpi=(300, 300), icc_profile=b"x" * 100)
    gamma = chunk(b"gAMA", struct.pack(">I", 100_000))
    late = chunk(b"tEXt", b"date:create\x00" + NAME)
    for before, after in ((b"", b""), (gamma, b""), (gamma, late)):
        file = sent(stored(tmp_path, data[:33] + before + data[33:-12] + after + data[-12:] + NAME))
        assert chunks(file) == [b"IHDR", b"IDAT", b"IEND"]
        assert file[33:] in encoded(noise(channels=channels), "PNG"), "the compressed pixels are the file's"


def test_a_transparent_colour_is_dropped_as_it_is_for_other_models(tmp_path: Path) -> None:
    for picture, colour in ((noise(), (1, 2, 3)), (noise(channels=1), 7)):
        data = encoded(picture, "PNG", transparency=colour)
        assert b"tRNS" in data
        assert chunks(sent(stored(tmp_path, data))) == [b"IHDR", b"IDAT", b"IEND"]


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([1, 3]),
    st.sampled_from(["PNG", "JPEG"]),
    st.booleans(),
    st.integers(1, 100),
    st.sampled_from([0, 1, 2]),
)
def test_what_is_sent_has_the_pixels_of_the_image(
    tmp_path_factory: pytest.TempPathFactory,
    width: int,
    height: int,
    channels: int,
    form: str,
    progressive: bool,
    quality: int,
    subsampling: int,
) -> None:
    how = {"progressive": progressive, "quality": quality, "subsampling": subsampling} if form == "JPEG" else {}
    data = encoded(noise(width, height, channels), form, **how)
    assert len(sent(stored(tmp_path_factory.getbasetemp(), data, "copy"))) <= len(data)


@given(st.sampled_from(["JPEG", "progressive", "PNG"]), st.data())
def test_a_damaged_file_is_sent_only_as_others_see_it(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    """Changed bytes, cuts and insertions: never other pixels than those of `pil`, and nothing where it refuses."""
    kind, how = ("JPEG", {"progressive": True}) if form == "progressive" else (form, {})
    file = bytearray(encoded(noise(9, 9), kind, **how))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(file) - 1))
        what = data.draw(st.sampled_from(["change", "cut", "insert", "remove"]))
        if what == "change":
            file[place] = data.draw(st.integers(0, 255))
        elif what == "cut":
            del file[max(place, 1) :]
        elif what == "insert":
            file[place:place] = data.draw(st.binary(max_size=9))
        elif len(file) > 1:
            del file[place]
    image = stored(tmp_path_factory.getbasetemp(), bytes(file), "damaged-copy")
    try:
        image.pil()
    except DataError as refused:
        with pytest.raises(DataError, match=re.escape(str(refused))):
            data_url(image, None, LIMIT)
    else:
        sent(image)


@given(st.binary(max_size=200), st.sampled_from([b"\xff\xd8", b"\x89PNG\r\n\x1a\n", JPEG[:40], JPEG[:-2]]))
def test_any_bytes_are_a_copy_or_none(rest: bytes, start: bytes) -> None:
    file = copied(start + rest, 10**6)
    assert file is None or len(file.data) <= len(start + rest)


# --- what is decoded --------------------------------------------------------------------------------------------


def sixteen_bits() -> bytes:
    data = encoded(noise(4, 4), "PNG")
    header = struct.pack(">IIBBBBB", 4, 4, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\x00" + bytes(24) for _ in range(4)))
    return data[:8] + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + data[-12:]


def interlaced() -> bytes:
    data = encoded(noise(1, 1), "PNG")
    return data[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1)) + data[33:]


def animated() -> bytes:
    return encoded(noise(), "PNG", save_all=True, append_images=[noise(seed=1)])


def oriented(value: int = 6) -> PIL.Image.Exif:
    exif = PIL.Image.Exif()
    exif[0x0112] = value
    exif[0x010E] = NAME.decode()
    return exif


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
DECODED = {
    "turned JPEG": encoded(noise(), exif=oriented()),
    "turned by XMP": encoded(noise(), xmp=XMP),
    "CMYK": encoded(PIL.Image.merge("CMYK", [noise(channels=1, seed=seed) for seed in range(4)])),
    "turned PNG": encoded(noise(), "PNG", exif=oriented()),
    "interlaced": interlaced(),
    "animated": animated(),
    "palette": encoded(noise().quantize(16), "PNG"),
    "alpha": encoded(noise(channels=4), "PNG"),
    "grey and alpha": encoded(noise().convert("LA"), "PNG"),
    "one bit": encoded(noise().convert("1"), "PNG"),
    "WebP": encoded(noise(), "WEBP", lossless=True),
    "BMP": encoded(noise(), "BMP"),
    "GIF": encoded(noise(channels=1), "GIF"),
    "TIFF": encoded(noise(), "TIFF"),
}


@pytest.mark.parametrize("name", DECODED)
def test_other_pictures_are_written_as_png(tmp_path: Path, name: str) -> None:
    if name == "turned by XMP" and XMP not in DECODED[name]:
        pytest.skip("this Pillow neither writes the XMP of a JPEG nor turns by it")
    assert chunks(sent(stored(tmp_path, DECODED[name]))) == [b"IHDR", b"IDAT", b"IEND"]
    assert copied(DECODED[name], 10**6) is None or name.startswith("turned")


def test_sixteen_bits_are_refused_as_for_other_models_unless_there_is_a_window(tmp_path: Path) -> None:
    assert copied(sixteen_bits(), 10**6) is None
    with pytest.raises(DataError, match="16 bits a channel"):
        data_url(stored(tmp_path, sixteen_bits()), None, LIMIT)
    data = encoded(PIL.Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 9), "PNG")
    windowed = Image("x", str(tmp_path / "x"), window=(0, 500))
    (tmp_path / "x").write_bytes(data)
    assert sent(windowed)[24:26] == b"\x08\x00"


def test_an_orientation_that_turns_nothing_is_no_reason_to_decode(tmp_path: Path) -> None:
    assert sent(stored(tmp_path, encoded(noise(), exif=oriented(1)))) == sent(stored(tmp_path, JPEG, "y"))


def test_a_phone_s_file_of_several_pictures_is_its_first(tmp_path: Path) -> None:
    data = encoded(noise(), "MPO", save_all=True, append_images=[noise(seed=1)])
    assert sent(stored(tmp_path, data)) == copied(JPEG, 10**6).data  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("marker", "bits"),
    [(0xC0, 12), (0xC9, 8), (0xCA, 8), (0xC3, 8), (0xC5, 8)],
    ids=["12 bits", "arithmetic", "progressive arithmetic", "lossless", "hierarchical"],
)
def test_other_codings_of_jpeg_are_never_copied(tmp_path: Path, marker: int, bits: int) -> None:
    frame = JPEG.index(b"\xff\xc0")
    data = JPEG[: frame + 1] + bytes([marker]) + JPEG[frame + 2 : frame + 4] + bytes([bits]) + JPEG[frame + 5 :]
    assert copied(data, 10**6) is None
    image = stored(tmp_path, data)
    try:
        image.pil()
    except DataError as error:
        with pytest.raises(DataError, match=re.escape(str(error))):
            data_url(image, None, LIMIT)
    else:
        sent(image)


PNG = encoded(noise(4, 4, 1), "PNG")
ROWS = b"".join(b"\x00" + bytes(4) for _ in range(4))


def png(rows: bytes, *more: bytes) -> bytes:
    return PNG[:33] + b"".join((*more, chunk(b"IDAT", rows), PNG[-12:]))


@pytest.mark.parametrize(
    "data",
    [
        JPEG[:-2],
        JPEG[: len(JPEG) // 2],
        JPEG[:21],
        JPEG[:2] + b"\x00" + JPEG[2:],
        JPEG[:2] + JPEG[2:-2] * 2 + JPEG[-2:],
        JPEG[:20] + b"\xff\xdb\x00\x07Jane!" + JPEG[20:],
        JPEG[:20] + b"\xff\xc4\x00\x13" + bytes(17) + JPEG[20:-2],
        JPEG[:20] + b"\xff\xdd\x00\x06Jane" + JPEG[20:],
        JPEG[:20] + b"\xff\xdc\x00\x04\x00\x10" + JPEG[20:],
        JPEG[:20] + ADOBE + b"\x01" + ADOBE + b"\x00" + JPEG[20:],
        JPEG[:2] + JPEG[-2:],
        PNG[:-12],
        PNG[:-5],
        PNG[:40] + b"!" + PNG[41:],
        PNG[:-12] + PNG[33:],
        png(zlib.compress(ROWS) + NAME),
        png(zlib.compress(ROWS + NAME)),
        png(zlib.compress(ROWS[:-1])),
        png(zlib.compress(b"\x05" + ROWS[1:])),
        png(zlib.compress(ROWS)[:-4]),
        png(zlib.compress(ROWS), chunk(b"NAME", NAME)),
        png(zlib.compress(ROWS), chunk(b"n\x00me", NAME)),
        png(zlib.compress(ROWS), PNG[8:33]),
        PNG[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 4, 8, 0, 0, 0, 0)) + PNG[33:],
    ],
)
def test_an_irregular_file_is_never_copied(data: bytes) -> None:
    assert copied(data, 10**6) is None


def test_limits_are_read_from_the_header() -> None:
    """A file that claims a hundred million pixels, with a stream that grows, is not unpacked."""
    huge = PNG[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 10_000, 10_000, 8, 0, 0, 0, 0)) + PNG[33:]
    assert copied(huge, 10**6) is None
    frame = JPEG.index(b"\xff\xc0")
    claims = JPEG[: frame + 5] + struct.pack(">HH", 60_000, 60_000) + JPEG[frame + 9 :]
    assert copied(claims, 10**8) is None
    assert copied(JPEG, 40 * 30) is not None
    assert copied(JPEG, 40 * 30 - 1) is None


def test_grey_stays_grey(tmp_path: Path) -> None:
    for name, picture in (("w", noise(channels=1)), ("x", noise(channels=1).convert("RGB"))):
        for form, how in (("TIFF", {}), ("WEBP", {"lossless": True})):
            assert sent(stored(tmp_path, encoded(picture, form, **how), name))[25] == 0
    assert sent(stored(tmp_path, encoded(noise(), "TIFF")))[25] == 2
    blank = stored(tmp_path, JPEG).blanked()
    assert sent(blank)[25] == 0


def test_limits_of_pixels_and_bytes_hold_as_before(tmp_path: Path) -> None:
    image = stored(tmp_path, encoded(noise(200, 200), quality=100))
    assert sent(image).startswith(b"\xff\xd8")
    small = sent(image, max_pixels=100 * 100)
    assert PIL.Image.open(io.BytesIO(small)).size == (100, 100)
    assert small.startswith(b"\x89PNG")
    data = base64.b64decode(data_url(image, None, 40_000).partition(",")[2])
    assert data.startswith(b"\xff\xd8")
    assert len(data) <= 40_000
    with pytest.raises(DataError, match="image x: more than 100 bytes as a JPEG"):
        data_url(image, None, 100)


# --- images that are held ---------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    def count(image: Image, max_pixels: int | None, max_bytes: int) -> str:
        made.append(image.name)
        return data_url(image, max_pixels, max_bytes)

    monkeypatch.setattr(image_parts, "data_url", count)
    return made


def test_equal_files_are_encoded_once(tmp_path: Path, counted: list[str]) -> None:
    urls = DataURLs(None, LIMIT)
    images = [stored(tmp_path, JPEG, "1.jpg"), stored(tmp_path, JPEG, "2.jpg"), stored(tmp_path, PNG, "3.jpg")]
    assert [urls.of(image) for image in images * 3] == [data_url(image, None, LIMIT) for image in images] * 3
    assert counted == ["1.jpg", "3.jpg"]


def test_a_changed_file_and_another_picture_of_a_file_are_encoded_anew(tmp_path: Path, counted: list[str]) -> None:
    urls = DataURLs(None, LIMIT)
    image = stored(tmp_path, JPEG)
    first, blank = urls.of(image), urls.of(image.blanked())
    pinned = image.pinned()
    changed = urls.of(stored(tmp_path, PNG))
    assert len({first, blank, changed}) == 3
    assert urls.of(pinned) == first, "the picture of its digest"
    assert len(counted) == 3


def test_the_least_recent_are_let_go(tmp_path: Path, counted: list[str]) -> None:
    images = [stored(tmp_path, encoded(noise(seed=seed)), f"{seed}.jpg") for seed in range(4)]
    sizes = [len(data_url(image, None, LIMIT)) for image in images]
    urls = DataURLs(None, LIMIT, most=sum(sizes[:3]) + 99)
    for number in (0, 1, 2, 0, 3, 0, 1):
        urls.of(images[number])
    assert counted == ["0.jpg", "1.jpg", "2.jpg", "3.jpg", "1.jpg"]
    none = DataURLs(None, LIMIT, most=0)
    assert none.of(images[0]) == none.of(images[0])
    assert len(counted) == 7


def test_an_image_that_cannot_be_read_is_an_error_each_time(tmp_path: Path) -> None:
    urls = DataURLs(None, LIMIT)
    for _ in range(2):
        with pytest.raises(DataError, match=r"image x\.png: no such file"):
            urls.of(Image("x.png", str(tmp_path / "x.png")))
