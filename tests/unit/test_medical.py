"""DICOM, NIfTI and slides become pictures that equal those of their own libraries, and nothing of their headers."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import io
import os
import struct
import sys
import tomllib
import unicodedata
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from medvqa import benchmarks, child_process, medical
from medvqa.benchmarks import own
from medvqa.benchmarks.table_files import benchmark_file, table
from medvqa.image import TextCell
from medvqa.items import Answer, Benchmark, DataError, Image, Item, Result, Score
from medvqa.medical import MedicalError, decoder_process, dicom, volumes, windows
from medvqa.medical.views import parse, split
from medvqa.records import run_folder
from medvqa.tables.image_files import image_file
from support import scans

pydicom = pytest.importorskip("pydicom", reason="needs pydicom: pip install 'pytest-medvqa[dicom]'")
nibabel = pytest.importorskip("nibabel")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Draw pictures in this process, where they can be patched."""
    monkeypatch.setattr(decoder_process, "picture", medical.picture)
    return monkeypatch


RNG = np.random.default_rng(7)
CT = RNG.integers(0, 4096, (48, 64), dtype=np.uint16)
HU = {"RescaleSlope": 1, "RescaleIntercept": -1024}


def grey(path: Path, view: str = "", **fields: Any) -> np.ndarray[Any, Any]:
    """The first channel of a picture."""
    return np.asarray(Image(f"{path.name}{view}", str(path), **fields).pil())[:, :, 0]


def error(path: Path, view: str = "", **fields: Any) -> str:
    with warnings.catch_warnings(record=True) as warned, pytest.raises(DataError) as raised:
        Image(f"{path.name}{view}", str(path), **fields).pil()
    assert not [warning for warning in warned if scans.PLANTED in str(warning.message)]
    assert scans.PLANTED not in str(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def by_pydicom(path: Path) -> np.ndarray[Any, Any]:
    """A rendering by pydicom's own functions, in 8 bits."""
    header = pydicom.dcmread(path)
    values = pydicom.pixels.apply_modality_lut(header.pixel_array, header)
    shown = pydicom.pixels.apply_voi_lut(values, header)
    low = header.get("RescaleIntercept", 0)
    high = (2**header.BitsStored - 1) * header.get("RescaleSlope", 1) + low
    if header.PixelRepresentation:
        low, high = -(2 ** (header.BitsStored - 1)) + low, 2 ** (header.BitsStored - 1) - 1 + low
    return np.rint((shown - low) / (high - low) * 255).astype(np.uint8)


# References


@pytest.mark.parametrize(
    ("reference", "path", "parts"),
    [
        ("ct/17.dcm", "ct/17.dcm", ""),
        ("ct/17.dcm?window=lung", "ct/17.dcm", "window=lung"),
        ("v.nii.gz?axis=2&slice=40", "v.nii.gz", "axis=2&slice=40"),
        ("what?.png", "what?.png", ""),
        ("a?b.dcm?frame=2", "a?b.dcm", "frame=2"),
        ("https://example.org/?a=1&b=2#c", "https://example.org/?a=1&b=2#c", ""),
        ("page?id=3", "page?id=3", ""),
        ("x.dcm?windw=lung", "x.dcm", "windw=lung"),
        ("?window=lung", "?window=lung", ""),
    ],
)
def test_a_reference_is_a_path_and_the_parts_of_a_view(reference: str, path: str, parts: str) -> None:
    assert split(reference) == (path, parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("windw=lung", "no such part; there are: window, range, frame"),
        ("window=lungs", "window=CENTRE,WIDTH, or one of abdomen, bone, brain"),
        ("window=1,2,3", "window=CENTRE,WIDTH"),
        ("window=nan,2", "window=CENTRE,WIDTH"),
        ("window=40,0", "a width of more than 1"),
        ("window=40,-400", "a width of more than 1"),
        ("range=5,5", "LOW is less than HIGH"),
        ("range=1e9,2", "range=LOW,HIGH"),
        ("window=lung&range=1,2", "say the same thing twice"),
        ("frame=1&frame=2", "is there twice"),
        ("frame=0", "frames count from 1"),
        ("frame=-1", "a whole number"),
        ("frame=9999999999", "a whole number"),
        ("axis=3", "0 (left to right), 1 (posterior to anterior) or 2"),
        ("axis=2&display=upside-down", "radiological or neurological"),
        ("region=1,2,3", "region=X,Y,WIDTH,HEIGHT"),
        ("region=1,2,3,0", "at least 1"),
        ("region=0,0,9,9&size=0", "1 to 16384"),
        ("region=0,0,9,9&size=9&level=1", "say the same thing twice"),
        ("level=1", "goes with ?region="),
    ],
)
def test_a_wrong_view_says_what_to_type(parts: str, message: str) -> None:
    with pytest.raises(MedicalError) as raised:
        parse(parts)
    assert message in str(raised.value)
    with pytest.raises(DataError, match=r"image x\.dcm"):
        Image(f"x.dcm?{parts}")


def test_a_window_is_centre_and_width_and_a_range_black_and_white() -> None:
    assert parse("window=-600,1500").window == parse("window=lung").window == (-1350, 149)
    assert parse("range=-1350,149").window == (-1350, 149)
    assert Image("x.dcm?window=40,400").window == (-160, 239)
    assert Image("x.dcm?window=40,400", window=(-160, 239)).window == (-160, 239)
    with pytest.raises(DataError, match="another window"):
        Image("x.dcm?window=40,400", window=(0, 1))


def test_the_view_is_in_the_key_and_in_records_and_old_keys_stay() -> None:
    assert Image("x.png", digest="d").key == "d"
    assert Image("x.png", digest="d", window=(0, 4095)).key == "d window 0.0 4095.0"
    assert Image("x.dcm?frame=3&window=lung", digest="d").key == "d window -1350.0 149.0 view window=lung&frame=3"
    slices = {
        Image(f"v.nii?{parts}", digest="d").key
        for parts in (
            "axis=2&slice=4",
            "slice=4&axis=2",
            "axis=2&slice=4&display=radiological",
            "axis=2&slice=5",
            "axis=2&slice=4&display=neurological",
        )
    }
    assert len(slices) == 3
    item = Item("1", "b", "short_answer", "?", images=(Image("a.png"), Image("x.dcm?frame=3", "/x.dcm")))
    line = run_folder.encode(Result("r", item, "p", Answer("?"), Score(None, "unscored")))
    assert b'"window":null},{"name":"x.dcm?frame=3"' in line, "lines without a view are as before"
    assert run_folder.decode(line).item.images == (Image("a.png"), Image("x.dcm?frame=3"))
    assert run_folder.decode(line).item.images[1].view == "frame=3"


def test_a_benchmark_file_finds_a_name_with_letters_and_their_dots_apart(tmp_path: Path) -> None:
    apart_name = unicodedata.normalize("NFD", "Schädel.dcm")
    scans.dicom(tmp_path / apart_name, CT, bits=12)
    (tmp_path / "q.jsonl").write_text('{"image": "Schädel.dcm?range=0,4095", "question": "Q?", "answer": "x"}\n')
    (tmp_path / "q.toml").write_text('file = "q.jsonl"\nallow_burned_in = true\n')
    (item,) = own.completed(benchmark_file(tmp_path / "q.toml")).items(tmp_path)
    assert item.images[0].pil().size == (64, 48)
    assert item.images[0].allow_burned_in


def test_a_wrong_view_names_row_and_column(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("image,question,answer\na.dcm?windw=lung,Q?,x\n")
    with pytest.raises(
        DataError, match=r"q\.csv row 2, column 'image': 'a\.dcm\?windw=lung' has a wrong view: \?windw=: no such part"
    ):
        list(table(tmp_path / "q.csv").items(tmp_path))


def test_views_of_one_file_share_its_name(tmp_path: Path) -> None:
    scans.dicom(tmp_path / "a.dcm", CT, bits=12, **HU)
    (tmp_path / "q.csv").write_text(
        "image,question,answer\na.dcm?window=lung,Q?,x\na.dcm?window=bone,Why?,y\nb.png,Q?,z\n"
    )
    items = benchmarks.load(own.completed(table(tmp_path / "q.csv")), tmp_path)
    assert [item.images[0].name for item in items] == ["a.dcm?window=lung", "a.dcm?window=bone", "b.png"]
    assert items[0].cluster_id == items[1].cluster_id != items[2].cluster_id
    assert items[0].images[0].path == str(tmp_path / "a.dcm")
    located = benchmarks.load(
        own.completed(Benchmark(name="b", items=lambda _: [Item("1", images=(Image("a.dcm?window=lung"),))])), tmp_path
    )
    assert located[0].images[0].pil().size == (64, 48)
    assert image_file("a.dcm?window=bone", folder=tmp_path, root=tmp_path, where="", window=(0, 1)).window == (
        -500,
        1299,
    )
    with pytest.raises(DataError, match="leaves"):
        image_file("../a.dcm?window=bone", folder=tmp_path, root=tmp_path, where="row 1")


# DICOM


@pytest.mark.parametrize("name", ["lung", "brain", "bone"])
@pytest.mark.parametrize("signed", [False, True])
def test_twelve_bit_ct_equals_the_rendering_of_pydicom(tmp_path: Path, name: str, signed: bool) -> None:
    centre, width = windows.NAMED[name]
    pixels = (CT.astype(np.int16) - 2048) if signed else CT
    rescale = {"RescaleSlope": 1, "RescaleIntercept": 0 if signed else -1024}
    named = scans.dicom(tmp_path / "a.dcm", pixels, bits=12, **rescale)
    own_window = scans.dicom(
        tmp_path / "b.dcm", pixels, bits=12, **rescale, WindowCenter=[centre, 1], WindowWidth=[width, 2]
    )
    expected = by_pydicom(own_window)
    assert (grey(named, f"?window={name}") == expected).all()
    assert (grey(named, f"?window={centre},{width}") == expected).all()
    assert (grey(own_window) == expected).all(), "the first window of a file is declared"
    low, high = windows.limits(centre, width)
    assert (grey(named, window=(low, high)) == expected).all()
    assert len({*expected.ravel()}) > 20 or name == "brain"


@pytest.mark.parametrize("function", ["LINEAR_EXACT", "SIGMOID"])
def test_functions_of_windows_equal_those_of_pydicom(tmp_path: Path, function: str) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, WindowCenter=2000, WindowWidth=900, VOILUTFunction=function)
    # The order of the operations differs: halves may be rounded to the other side.
    assert np.abs(grey(path).astype(int) - by_pydicom(path)).max() <= 1


def test_a_voi_lut_equals_that_of_pydicom(tmp_path: Path) -> None:
    lut = pydicom.Dataset()
    lut.LUTDescriptor = [4096, 0, 12]
    lut.LUTData = list(range(4095, -1, -1))
    lut["LUTDescriptor"].VR, lut["LUTData"].VR = "US", "US"
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, VOILUTSequence=[lut])
    assert (grey(path) == np.rint((4095 - CT) / 4095 * 255)).all()
    assert (grey(path, "?range=0,4095") == np.rint(CT / 4095 * 255)).all(), "a window of one's own replaces it"


def test_sixteen_bits_need_a_window_and_the_error_says_what_to_type(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, **HU)
    message = error(path)
    assert "12 bits a pixel, but models see 8 bits, and the file declares no window" in message
    assert "Type ?window=CENTRE,WIDTH or ?range=LOW,HIGH after the name, or for CT ?window=NAME: abdomen" in message
    assert message.endswith("; & takes the place of ? behind another ?")
    eight = scans.dicom(tmp_path / "b.dcm", CT.astype(np.uint8), Modality="MR")
    assert (grey(eight) == CT.astype(np.uint8)).all()
    assert "named windows are in Hounsfield units" in error(eight, "?window=lung")
    assert (grey(eight, "?range=0,100") == np.rint(np.clip(CT.astype(np.uint8) / 100, 0, 1) * 255)).all()


def test_monochrome1_is_inverted_and_padding_is_black(tmp_path: Path) -> None:
    pixels = np.array([[0, 1000], [4095, 2000]], dtype=np.uint16)
    tags = {"PhotometricInterpretation": "MONOCHROME1", "WindowCenter": 2048, "WindowWidth": 4096}
    path = scans.dicom(tmp_path / "a.dcm", pixels, bits=12, **tags)
    assert (grey(path) == [[255, 193], [0, 130]]).all()
    path = scans.dicom(tmp_path / "b.dcm", pixels, bits=12, PixelPaddingValue=0, **tags)
    assert (grey(path) == [[0, 193], [0, 130]]).all()
    path = scans.dicom(tmp_path / "c.dcm", pixels, bits=12, PixelPaddingValue=0, PixelPaddingRangeLimit=1000, **tags)
    assert (grey(path) == [[0, 0], [0, 130]]).all()
    signed = pixels.astype(np.int16) - 1000
    path = scans.dicom(tmp_path / "d.dcm", signed, PixelPaddingValue=-1000, syntax=scans.IMPLICIT, **tags)
    assert grey(path)[0, 0] == 0


def test_bits_above_those_stored_are_no_part_of_a_value(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT | 0x7000, bits=12)
    assert (grey(path, "?range=0,4095") == np.rint(CT / 4095 * 255)).all()


def test_frames_are_named_and_have_their_own_windows(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", np.stack([CT, CT // 2, CT // 4]), bits=12)
    assert (grey(path, "?frame=3&range=0,4095") == np.rint(CT // 4 / 4095 * 255)).all()
    assert "3 frames; name one: ?frame=1 to ?frame=3" in error(path, "?range=0,4095")
    assert "?frame=4: it has 3, from 1" in error(path, "?range=0,4095&frame=4")
    groups = []
    for width in (100, 4096):
        voi, group = pydicom.Dataset(), pydicom.Dataset()
        voi.WindowCenter, voi.WindowWidth = 2048, width
        group.FrameVOILUTSequence = [voi]
        groups.append(group)
    rescale, shared = pydicom.Dataset(), pydicom.Dataset()
    rescale.RescaleSlope, rescale.RescaleIntercept, rescale.RescaleType = 2, 0, "HU"
    shared.PixelValueTransformationSequence = [rescale]
    path = scans.dicom(
        tmp_path / "b.dcm",
        np.stack([CT, CT]),
        bits=12,
        SharedFunctionalGroupsSequence=[shared],
        PerFrameFunctionalGroupsSequence=groups,
    )
    low, high = windows.limits(2048, 4096)
    assert (grey(path, "?frame=2") == np.rint(np.clip((CT * 2.0 - low) / (high - low), 0, 1) * 255)).all()
    assert (grey(path, "?frame=1") != grey(path, "?frame=2")).any()


def test_colours_are_shown_and_palettes_looked_up(tmp_path: Path) -> None:
    rgb = RNG.integers(0, 256, (16, 20, 3), dtype=np.uint8)
    path = scans.dicom(tmp_path / "a.dcm", rgb)
    assert (np.asarray(Image("a", str(path)).pil()) == rgb).all()
    assert "a window is for grey images" in error(path, "?range=0,9")
    planar = np.ascontiguousarray(rgb.transpose(2, 0, 1))
    path = scans.dicom(tmp_path / "b.dcm", rgb, PlanarConfiguration=1, PixelData=planar.tobytes())
    assert (np.asarray(Image("b", str(path)).pil()) == rgb).all()
    ybr = pydicom.pixels.convert_color_space(rgb, "RGB", "YBR_FULL")
    path = scans.dicom(tmp_path / "c.dcm", ybr, PhotometricInterpretation="YBR_FULL")
    assert np.abs(np.asarray(Image("c", str(path)).pil()).astype(int) - rgb).max() <= 2
    ramp = np.arange(256, dtype=np.uint16)
    palette = {"PhotometricInterpretation": "PALETTE COLOR"}
    for name, values in (("Red", ramp * 257), ("Green", (255 - ramp) * 257), ("Blue", ramp * 0)):
        palette[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        palette[f"{name}PaletteColorLookupTableData"] = values.astype("<u2").tobytes()
    numbers = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    path = scans.dicom(tmp_path / "d.dcm", numbers, **palette)
    shown = np.asarray(Image("d", str(path)).pil())
    assert (shown[:, :, 0] == numbers).all()
    assert (shown[:, :, 1] == 255 - numbers).all()


# Compression


@pytest.mark.parametrize("syntax", [scans.IMPLICIT, scans.JPEG_LOSSLESS, scans.JPEG_LS, scans.JPEG_2000, scans.RLE])
def test_lossless_compression_changes_no_pixel(tmp_path: Path, syntax: str) -> None:
    plain = scans.dicom(tmp_path / "a.dcm", CT, bits=12, **HU)
    packed = scans.dicom(tmp_path / "b.dcm", CT, bits=12, syntax=syntax, **HU)
    assert pydicom.dcmread(packed, stop_before_pixels=True).file_meta.TransferSyntaxUID == syntax
    assert (grey(packed, "?window=bone") == grey(plain, "?window=bone")).all()


def test_gdcm_alone_decodes_jpeg_lossless(tmp_path: Path, here: pytest.MonkeyPatch) -> None:
    assert pydicom.pixels.get_decoder(scans.JPEG_LOSSLESS).available_plugins == ("gdcm",)
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, syntax=scans.JPEG_LOSSLESS)
    _without("gdcm", here)
    assert "JPEG Lossless needs python-gdcm: pip install 'pytest-medvqa[dicom]'" in error(path, "?range=0,4095")


@pytest.mark.parametrize(
    ("module", "syntax", "message"),
    [
        ("jpeg_ls", scans.JPEG_LS, "JPEG-LS needs pyjpegls"),
        ("openjpeg", scans.JPEG_2000, "JPEG 2000 needs pylibjpeg-openjpeg"),
    ],
)
def test_a_missing_decoder_is_named(
    tmp_path: Path, here: pytest.MonkeyPatch, module: str, syntax: str, message: str
) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, syntax=syntax)
    _without(module, here)
    assert f"{message}: pip install 'pytest-medvqa[dicom]'" in error(path, "?range=0,4095")


def _without(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == module else find(name, *rest))


@pytest.mark.parametrize(("module", "name"), [("pydicom", "a.dcm"), ("nibabel", "a.nii"), ("openslide", "a.svs")])
def test_a_missing_reader_is_named(tmp_path: Path, here: pytest.MonkeyPatch, module: str, name: str) -> None:
    path = tmp_path / name
    if module == "pydicom":
        scans.dicom(path, CT)
    elif module == "nibabel":
        scans.nifti(path, np.zeros((2, 2, 2), np.int16))
    else:
        path.write_bytes(b"slide")
    here.setitem(sys.modules, module, None)
    assert f"need {module}: pip install 'pytest-medvqa[dicom]'" in error(
        path, "?window=lung" if module != "openslide" else ""
    )


def test_no_extra_names_a_codec_of_the_gpl() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(name for extra in project["optional-dependencies"].values() for name in extra)]
    assert not [
        name
        for name in named
        if "libjpeg" in name and "openjpeg" not in name and not name.startswith("pylibjpeg>") and name != "pylibjpeg"
    ]


# Hostile files


def test_a_file_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "IM000001", CT, bits=12)
    assert grey(path, "?range=0,4095").shape == (48, 64)
    path = scans.nifti(tmp_path / "v.nii", np.zeros((2, 3, 4), np.uint8)).rename(tmp_path / "volume")
    assert grey(path, "?axis=2&slice=0").shape == (3, 2)
    (tmp_path / "a.dcm").write_bytes(b"no DICOM" * 40)
    assert "DICM is missing at byte 128" in error(tmp_path / "a.dcm")
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(b"no NIfTI" * 100))
    assert "no NIfTI file" in error(tmp_path / "a.nii.gz")
    PIL.Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    assert "?frame=: this is no medical file, which has window, range" in error(tmp_path / "a.png", "?frame=1")
    assert "named windows are in Hounsfield units" in error(tmp_path / "a.png", "?window=lung")
    assert "no such file" in error(tmp_path / "b.dcm")
    (tmp_path / "c.dcm").touch()
    assert "empty" in error(tmp_path / "c.dcm")


def test_a_view_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12)
    assert "?axis=: this is a DICOM file, which has window, range, frame" in error(path, "?axis=2&slice=0")
    path = scans.nifti(tmp_path / "a.nii", np.zeros((2, 3, 4), np.uint8))
    assert "?frame=: this is a NIfTI file" in error(path, "?frame=1")


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"Rows": 60000, "Columns": 60000}, "more than 89,478,485 pixels"),
        ({"Rows": 480}, "damaged or cut off"),
        ({"Rows": 0}, "without pixels"),
        ({"NumberOfFrames": 2_000_000}, "more than 100,000 frames"),
        ({"SamplesPerPixel": 3}, "samples and bits do not fit together"),
        ({"BitsStored": 40}, "samples and bits do not fit together"),
        ({"HighBit": 15, "BitsStored": 12}, "HighBit is not BitsStored - 1"),
        ({"PhotometricInterpretation": "MUSTERMANN^ERIKA"}, "PhotometricInterpretation is not known"),
        ({"WindowCenter": 1, "WindowWidth": 0, "VOILUTFunction": "LINEAR_EXACT"}, "has no width"),
        (
            {"WindowCenter": 1, "WindowWidth": 4, "VOILUTFunction": "MUSTERMANN^ERIKA"},
            "function of the file is not known",
        ),
    ],
)
def test_a_hostile_header_is_one_line(tmp_path: Path, tags: dict[str, Any], message: str) -> None:
    assert message in error(scans.dicom(tmp_path / "a.dcm", CT, **{"bits": 12, **tags}))


def test_a_cut_off_or_lying_file_is_one_line(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, syntax=scans.JPEG_2000)
    whole = path.read_bytes()
    place = whole.index(b"\xff\x4f\xff\x51")
    path.write_bytes(whole[: place + 8] + struct.pack(">2I", 2**30, 2**30) + whole[place + 16 :])
    assert "its compressed frame is damaged, or has another size than its header says" in error(path, "?range=0,4095")
    for cut in (100, 140, 200, 400, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:cut])
        assert error(path, "?range=0,4095")
    deflated = scans.dicom(tmp_path / "b.dcm", CT, bits=12)
    deflated.write_bytes(deflated.read_bytes().replace(b"1.2.840.10008.1.2.1\0UI", b"1.2.840.10008.1.2.1.99\0\0"))
    broken = deflated.read_bytes().replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.9.9.9\0")
    deflated.write_bytes(broken)
    assert "transfer syntax 1.2.840.10008.9.9.9 is not read" in error(deflated)
    noise = np.random.default_rng(1).integers(0, 256, 5000, dtype=np.uint8).tobytes()
    path.write_bytes(whole[:132] + noise)
    assert error(path)
    path.write_bytes(whole[:300] + noise)
    assert error(path)


def test_a_compressed_frame_may_not_be_larger_than_the_picture(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, syntax=scans.RLE)
    bomb = struct.pack("<16I", 2, 64, 64 + 2000, *[0] * 13) + b"\x81\0" * 2000
    path.write_bytes(_with_frame(path, bomb))
    assert "its compressed frame is damaged, or has another size than its header says" in error(path, "?range=0,4095")
    path = scans.dicom(tmp_path / "b.dcm", CT, bits=12, syntax=scans.JPEG_LS)
    stream = path.read_bytes()
    place = stream.index(b"\xff\xf7")
    path.write_bytes(stream[: place + 9] + b"\xff" + stream[place + 10 :])
    assert "its compressed frame is damaged, or has another size than its header says" in error(path, "?range=0,4095")


def test_an_rle_segment_of_an_odd_picture_may_be_filled_up(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", np.ones((3, 6), np.uint8), bits=8, syntax=scans.RLE)
    path.write_bytes(path.read_bytes().replace(b"\x28\0\x11\0US\2\0\6", b"\x28\0\x11\0US\2\0\5"))
    path.write_bytes(_with_frame(path, struct.pack("<16I", 1, 64, *[0] * 14) + (b"\7" + bytes(range(8))) * 2))
    assert grey(path).tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 0, 1], [2, 3, 4, 5, 6]]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is not known")
@pytest.mark.parametrize("syntax", [scans.RLE, scans.JPEG_2000])
def test_a_compressed_frame_takes_memory_by_the_size_of_the_picture(tmp_path: Path, syntax: str) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, syntax=syntax)
    assert grey(path, "?range=0,4095").shape == (48, 64)
    whole = path.read_bytes()
    if syntax == scans.RLE:
        path.write_bytes(_with_frame(path, struct.pack("<16I", 2, 64, 80, *[0] * 13) + b"\x81\0" * 2**23))
    else:
        place = whole.index(b"\xff\x4f\xff\x51") + 8
        path.write_bytes(whole[:place] + struct.pack(">8I", *[20000, 20000, 0, 0] * 2) + whole[place + 32 :])
    assert "its compressed frame is damaged, or has another size than its header says" in error(path, "?range=0,4095")
    process = decoder_process._child.process
    peak = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmHWM" in line)
    assert int(peak.split()[1]) < 800 * 2**10, "in kB; without a limit, RLE unpacks to 1 GiB, and JPEG 2000 to 1.6"


def _with_frame(path: Path, frame: bytes) -> bytes:
    """The file with another compressed frame."""
    whole = path.read_bytes()
    return whole[: whole.rindex(b"\xe0\x7f\x10\0")] + (
        b"\xe0\x7f\x10\0OB\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\0\0\0\0\xfe\xff\0\xe0"
        + struct.pack("<I", len(frame))
        + frame
        + b"\xfe\xff\xdd\xe0\0\0\0\0"
    )


def test_a_file_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12)
    odd = path.rename(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.dcm")))
    assert grey(odd, "?range=0,4095").shape == (48, 64)


def test_a_process_that_is_gone_is_started_again(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, syntax=scans.JPEG_LOSSLESS)
    expected = grey(path, "?range=0,4095")
    gone = decoder_process._child.process
    gone.kill()
    gone.wait()
    assert (grey(path, "?range=0,4095") == expected).all()


@pytest.mark.parametrize(
    ("decoder", "seconds", "message"),
    [("time.sleep(60)", 1, "took longer than"), ("os.abort()", 60, "damaged: its decoder crashed")],
)
def test_a_decoder_that_hangs_or_crashes_ends_one_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoder: str, seconds: int, message: str
) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12)
    start = (
        "import json, os, sys, time; sys.path[:] = json.loads(sys.argv[1]); "
        "from medvqa.medical import decoder_process, dicom; "
        f"decoder_process.SECONDS = {seconds}; dicom.header_of = lambda *_: {decoder}; decoder_process.serve()"
    )
    with monkeypatch.context() as patch:
        patch.setattr(decoder_process, "_child", child_process.Child("", isolated=True))
        patch.setattr(child_process, "_START", start)
        assert message in error(path, "?range=0,4095")
    assert grey(path, "?range=0,4095").shape == (48, 64)


def test_a_header_has_limits(tmp_path: Path, here: pytest.MonkeyPatch) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, **HU)
    here.setattr(dicom, "MAX_ELEMENTS", 5)
    assert "its header has more than 5 elements" in error(path, "?window=lung")
    here.setattr(dicom, "MAX_ELEMENTS", 500)
    here.setitem(medical.MAX_BYTES, "dicom", 100)
    assert "larger than 0 GiB" in error(path, "?window=lung")


@pytest.mark.filterwarnings("ignore:Expected explicit VR")
def test_random_bytes_in_a_header_end_in_one_line_or_a_picture(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT[:8, :8].copy(), bits=12, WindowCenter=1, WindowWidth=99)
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(150):
        changed = bytearray(whole)
        for place in rng.integers(132, len(whole) - 128, 3):
            changed[place] = rng.integers(0, 256)
        path.write_bytes(bytes(changed))
        try:
            Image("a.dcm", str(path)).pil()
        except DataError as refused:
            assert "\n" not in str(refused)


# NIfTI


@pytest.mark.parametrize("codes", ["RAS", "LPS", "PIR", "ASL", "IPR"])
@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_axis_and_slice_mean_the_same_for_every_orientation(tmp_path: Path, codes: str, suffix: str) -> None:
    ras = np.arange(2 * 3 * 4, dtype=np.int16).reshape(2, 3, 4)
    to = nibabel.orientations
    turned = nibabel.Nifti1Image(ras, np.eye(4)).as_reoriented(
        to.ornt_transform(to.axcodes2ornt("RAS"), to.axcodes2ornt(codes))
    )
    assert "".join(nibabel.aff2axcodes(turned.affine)) == codes
    path = scans.nifti(tmp_path / f"v{suffix}", np.asarray(turned.dataobj), turned.affine)
    window = "range=0,255"
    # The patient's right is on the left, anterior or superior is up; sagittal slices look to the left.
    assert (grey(path, f"?axis=2&slice=3&{window}") == ras[::-1, ::-1, 3].T).all()
    assert (grey(path, f"?axis=1&slice=2&{window}") == ras[::-1, 2, ::-1].T).all()
    assert (grey(path, f"?axis=0&slice=1&{window}") == ras[1, ::-1, ::-1].T).all()
    assert (grey(path, f"?axis=2&slice=3&display=neurological&{window}") == ras[:, ::-1, 3].T).all()
    assert (grey(path, f"?axis=0&slice=1&display=neurological&{window}") == ras[1, ::-1, ::-1].T).all()


def test_a_slice_and_a_volume_are_named(tmp_path: Path) -> None:
    voxels = np.arange(2 * 3 * 4 * 5, dtype=np.int16).reshape(2, 3, 4, 5)
    path = scans.nifti(tmp_path / "v.nii.gz", voxels)
    assert (grey(path, "?axis=2&slice=1&volume=4&range=0,255") == voxels[::-1, ::-1, 1, 4].T).all()
    assert "5 volumes; name one: ?volume=0 to ?volume=4" in error(path, "?axis=2&slice=1&range=0,255")
    assert "?volume=5: it has volumes 0 to 4" in error(path, "?axis=2&slice=1&volume=5&range=0,255")
    assert "?slice=4: axis 2 has slices 0 to 3" in error(path, "?axis=2&slice=4&volume=0&range=0,255")
    message = error(path, "?volume=0&range=0,255")
    assert "a volume of 2 x 3 x 4 voxels (left to right, posterior to anterior, inferior to superior)" in message
    assert "such as ?axis=2&slice=2" in message


def test_voxels_of_more_than_8_bits_need_a_window(tmp_path: Path) -> None:
    voxels = np.arange(24).reshape(2, 3, 4)
    view = "?axis=2&slice=3"
    path = scans.nifti(tmp_path / "a.nii", voxels.astype(np.int16))
    assert "voxels of type int16, but models see 8 bits" in error(path, view)
    assert grey(path, f"{view}&window=liver").max() == round((23 + 45) / 149 * 255)
    path = scans.nifti(tmp_path / "b.nii", voxels.astype(np.int16), cal_min=0, cal_max=51)
    assert (grey(path, view) == voxels[::-1, ::-1, 3].T * 5).all(), "the display range of a file is declared"
    path = scans.nifti(tmp_path / "c.nii", voxels.astype(np.uint8))
    assert (grey(path, view) == voxels[::-1, ::-1, 3].T).all()
    values = voxels.astype(np.float32)
    values[0, 0, 3] = np.nan
    assert "some values are NaN" in error(scans.nifti(tmp_path / "d.nii", values), f"{view}&range=0,1")
    colours = np.zeros((2, 3, 4), np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")]))
    colours["G"] = 9
    path = scans.nifti(tmp_path / "e.nii", colours)
    assert Image("e", str(path)).name == "e"
    assert np.asarray(Image(f"e{view}", str(path)).pil())[0, 0].tolist() == [0, 9, 0]


def test_unknown_left_and_right_is_refused(tmp_path: Path) -> None:
    path = scans.nifti(tmp_path / "a.nii", np.zeros((2, 3, 4), np.uint8))
    whole = path.read_bytes()
    path.write_bytes(whole[:252] + bytes(4) + whole[256:])
    message = error(path, "?axis=2&slice=0")
    assert "left and right are unknown" in message


def test_a_hostile_volume_is_one_line(tmp_path: Path, here: pytest.MonkeyPatch) -> None:
    whole = scans.nifti(tmp_path / "a.nii", np.zeros((2, 3, 4), np.uint8)).read_bytes()
    view, path = "?axis=2&slice=0", tmp_path / "b.nii"

    def changed(place: int, value: bytes) -> str:
        path.write_bytes(whole[:place] + value + whole[place + len(value) :])
        return error(path, view)

    assert "a volume of more than 2 GiB" in changed(40, struct.pack("<4h", 3, 30000, 30000, 30000))
    assert "more than 89,478,485 pixels" in changed(40, struct.pack("<4h", 3, 30000, 30000, 1)), "before it is read"
    assert "its dimensions are none" in changed(42, struct.pack("<h", -3))
    assert "damaged" in changed(42, struct.pack("<3h", 900, 900, 900)), "the file is shorter than it says"
    assert "damaged" in changed(70, struct.pack("<h", 77))
    assert changed(40, struct.pack("<8h", 7, 2, 3, 4, 2, 2, 2, 2))
    packed = tmp_path / "c.nii.gz"
    noise = RNG.integers(0, 256, (20, 20, 20), dtype=np.uint8)
    packed.write_bytes(gzip.compress(scans.nifti(tmp_path / "d.nii", noise).read_bytes())[:-5000])
    assert "damaged" in error(packed, "?axis=2&slice=19")
    here.setattr(volumes, "MAX_VOLUME", 10)
    assert "a volume of more than" in error(tmp_path / "a.nii", view)


# Slides


def test_a_region_of_a_slide(tmp_path: Path) -> None:
    pytest.importorskip("openslide")
    rgb = RNG.integers(0, 256, (32, 48, 3), dtype=np.uint8)
    path = scans.slide(tmp_path / "s.tif", rgb)

    def shown(view: str) -> np.ndarray[Any, Any]:
        return np.asarray(Image(f"s.tif?{view}", str(path)).pil())

    assert (shown("region=5,6,20,10") == rgb[6:16, 5:25]).all()
    assert (shown("region=5,6,20,10&level=0") == rgb[6:16, 5:25]).all()
    assert shown("region=0,0,48,32&size=12").shape == (8, 12, 3)
    assert shown("region=0,0,4,4&size=12").shape == (4, 4, 3), "a small region is not enlarged"
    assert "the slide has 48 x 32 pixels" in error(path, "?region=40,0,9,9")
    assert "the slide has levels 0 to 0" in error(path, "?region=0,0,9,9&level=1")
    assert "this is a slide" in error(path, "?region=0,0,9,9&range=0,9")
    slide = path.rename(tmp_path / "s.svs")
    assert "a slide of 48 x 32 pixels; name a region: ?region=X,Y,WIDTH,HEIGHT" in error(slide)
    (tmp_path / "no.svs").write_bytes(b"no slide")
    assert "no slide that openslide reads" in error(tmp_path / "no.svs", "?region=0,0,1,1")
    several = "[Virtual Microscope Specimen]\nNoLayers=1\nNoJpegColumns=1\nNoJpegRows=1\nImageFile=../../secret.jpg\n"
    (tmp_path / "several.svs").write_text(several)
    assert "a slide of several files" in error(tmp_path / "several.svs", "?region=0,0,1,1")


# What leaves the file


def test_read_gives_a_png_without_a_header(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, WindowCenter=2048, WindowWidth=4096)
    image = Image("a.dcm", str(path))
    data = image.read()
    assert data.startswith(b"\x89PNG")
    assert not any(word in data for word in (b"MUSTERMANN", b"4711", b"KLINIKUM"))
    shown = PIL.Image.open(io.BytesIO(data))
    assert shown.info == {}
    assert (np.asarray(shown) == np.asarray(image.pil())).all()
    assert image.pil().info == {}
    volume = scans.nifti(tmp_path / "v.nii.gz", np.zeros((2, 3, 4), np.uint8))
    assert scans.PLANTED.encode() in gzip.decompress(volume.read_bytes())
    assert Image("v.nii.gz?axis=2&slice=1", str(volume)).read().startswith(b"\x89PNG")


def test_the_digest_is_that_of_the_file_and_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12)
    image = Image("a.dcm?range=0,4095", str(path)).pinned()
    assert image.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert image.pil().size == (64, 48)
    assert image.blanked().size == (64, 48)
    assert image.blanked().pil().getextrema() == ((127, 127),) * 3
    scans.dicom(path, CT // 2, bits=12)
    with pytest.raises(DataError, match="has changed since it was indexed"):
        image.pil()


def test_a_medical_file_may_lie_within_another(tmp_path: Path) -> None:
    data = scans.dicom(tmp_path / "a.dcm", CT, bits=12).read_bytes()
    (tmp_path / "table").write_bytes(b"xx" + base64.b64encode(data) + b"yy")
    length = len(base64.b64encode(data))
    image = Image("row 1?range=0,4095", str(tmp_path / "table"), cell=TextCell(2, length))
    assert (np.asarray(image.pil())[:, :, 0] == np.rint(CT / 4095 * 255)).all()
    slide = Image("row 2?region=0,0,1,1", str(tmp_path / "table"), cell=TextCell(2, length))
    assert "?region=: this is a DICOM file, which has window, range, frame" in error_of(slide)
    inner = Image("row 3?slice=1", str(tmp_path / "table"), cell=TextCell(2, length))
    assert error_of(inner).endswith("slices are named in a folder or a file, not in a cell of a table")


def error_of(image: Image) -> str:
    with pytest.raises(DataError) as raised:
        image.pil()
    return str(raised.value)


def test_burnt_in_annotation_is_refused_unless_allowed(tmp_path: Path) -> None:
    pixels = CT.astype(np.uint8)
    path = scans.dicom(tmp_path / "a.dcm", pixels, BurnedInAnnotation="YES")
    assert "annotation is burnt into the pixels (BurnedInAnnotation = YES)" in error(path)
    allowed = Image("a.dcm", str(path), allow_burned_in=True)
    assert (np.asarray(allowed.pil())[:, :, 0] == pixels).all()
    assert allowed.key == replace(allowed, allow_burned_in=False).key
    (tmp_path / "q.csv").write_text("image,question,answer\na.dcm,Q?,x\n")
    for allow in (True, False):
        (item,) = own.completed(table(tmp_path / "q.csv", allow_burned_in=allow)).items(tmp_path)
        assert item.images[0].allow_burned_in is allow


@pytest.mark.parametrize(
    ("tags", "signs"),
    [
        ({}, (False, False)),
        ({"BurnedInAnnotation": "YES"}, (True, False)),
        ({"Modality": "US"}, (False, True)),
        ({"Modality": "US", "BurnedInAnnotation": "NO"}, (False, False)),
        ({"SOPClassUID": scans.SECONDARY}, (False, True)),
    ],
)
def test_signs_of_burnt_in_text(tmp_path: Path, tags: dict[str, str], signs: tuple[bool, bool]) -> None:
    path = scans.dicom(tmp_path / "a.dcm", CT, **tags)
    assert Image("a.dcm", str(path)).burnt_in() == signs
    assert Image("b.dcm", str(tmp_path / "b.dcm")).burnt_in() == (False, False)


# ---- what was shown --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "tags", "said"),
    [
        ("?window=lung", {"PixelSpacing": [0.7, 0.8]}, "window lung: centre -600, width 1500; pixels of 0.7 × 0.8 mm"),
        ("?window=40,400", {}, "window: centre 40, width 400"),
        ("?range=-160,239", {}, "window: centre 40, width 400"),
        (
            "",
            {"WindowCenter": [50, 1], "WindowWidth": [350, 2], "ImagerPixelSpacing": [0.14, 0.14]},
            "the file's own window: centre 50, width 350; pixels of 0.14 × 0.14 mm at the detector",
        ),
        ("?window=40,400", {"PixelSpacing": [0, -1]}, "window: centre 40, width 400"),
    ],
)
def test_a_picture_tells_its_window_and_spacing(tmp_path: Path, parts: str, tags: dict[str, Any], said: str) -> None:
    about = {"Modality": "CT", "RescaleSlope": 1, "RescaleIntercept": -1024, "PatientName": "MUSTERMANN^ERIKA"}
    path = scans.dicom(tmp_path / "a.dcm", CT, bits=12, **about, **tags)
    image = Image(f"a.dcm{parts}", str(path))
    assert image.pictured()[1] == said
    assert image.pil().info == {}, "no file that is written has it"


def test_a_slice_of_a_volume_tells_its_window_and_spacing(tmp_path: Path) -> None:
    voxels = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    path = scans.nifti(tmp_path / "v.nii", voxels, np.diag([0.5, 0.6, 3.0, 1.0]), xyzt_units=2)
    picture, said = Image("v.nii?axis=1&slice=2&window=40,80", str(path)).pictured()
    assert said == "window: centre 40, width 80; pixels of 3 × 0.5 mm"
    assert picture.size == (4, 6)
    unknown = scans.nifti(tmp_path / "u.nii", voxels, np.diag([0.5, 0.6, 3.0, 1.0]))
    assert Image("u.nii?axis=1&slice=2&window=40,80", str(unknown)).pictured()[1] == "window: centre 40, width 80"


def test_a_plain_image_tells_the_window_of_its_benchmark(tmp_path: Path) -> None:
    PIL.Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8)).save(tmp_path / "x.png")
    image = Image("x.png", str(tmp_path / "x.png"), window=(0, 63))
    assert image.pictured()[1] == "window: centre 32, width 64"
    assert replace(image, window=None, blank=True, size=(8, 8)).pictured()[1] == ""
