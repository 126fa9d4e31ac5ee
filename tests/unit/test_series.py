"""Slices of a DICOM series, by folder and by file of several frames."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.image import Image
from medvqa.items import DataError
from medvqa.medical import MedicalError, decoder_process, series, views
from medvqa.medical.series import FrameHeader
from support import scans
from support.laws import examples

AXIAL = [1, 0, 0, 0, 1, 0]


def write(
    folder: Path, number: int, position: list[float], *, name: str = "", value: int | None = None, **tags: Any
) -> Path:
    """Write a slice whose pixels all have the `value`; its SliceLocation and its name tell nothing."""
    folder.mkdir(exist_ok=True)
    pixels = np.full((4, 6), number if value is None else value, np.uint16)
    settings: dict[str, Any] = {
        "SeriesInstanceUID": "1.2.3",
        "SOPInstanceUID": f"1.2.3.{number}",
        "SeriesNumber": 4,
        "InstanceNumber": number,
        "ImageOrientationPatient": AXIAL,
        "ImagePositionPatient": position,
        "SliceLocation": -100 * number % 7,
        "PixelSpacing": [0.5, 0.5],
        "WindowCenter": 128,
        "WindowWidth": 256,
        **tags,
    }
    settings = {keyword: value for keyword, value in settings.items() if value is not None}
    return scans.dicom(folder / (name or f"IM{(number * 37) % 101:03}"), pixels, **settings)


def stack(folder: Path, count: int = 5, **tags: Any) -> Path:
    """Write slices 2.5 mm apart; the first instance is the uppermost."""
    for number in range(1, count + 1):
        write(folder, number, [0, 0, 50 - 2.5 * number], **tags)
    return folder


def of(folder: Path, parts: str, **settings: Any) -> Image:
    return Image(f"{folder.name}/?{parts}", str(folder), **settings)


def level(image: Image) -> int:
    """The pixel in the middle, which tells the instance: the window shows stored values as they are."""
    picture = image.pil()
    return int(picture.getpixel((picture.width // 2, picture.height // 2))[0])  # type: ignore[index]


def test_instance_position_and_slice_name_the_same_picture(tmp_path: Path) -> None:
    folder = stack(tmp_path / "SER")
    (folder / "README.txt").write_text("no picture")
    # Instance 2 of 5 lies at 45 mm: the fourth from the feet.
    by_instance, by_position, by_slice = (of(folder, part) for part in ("instance=2", "position=45", "slice=4"))
    assert [level(image) for image in (by_instance, by_position, by_slice)] == [2, 2, 2]
    said = "slice 4 of 5 from feet to head, position 45 mm, instance 2; the file's own window: centre 128, width 256"
    assert {image.pictured()[1] for image in (by_instance, by_position, by_slice)} == {
        f"{said}; pixels of 0.5 × 0.5 mm"
    }
    assert level(of(folder, "position=44.1")) == 2, "the nearest within half a distance"
    assert by_instance.pinned().digest == by_slice.pinned().digest
    assert by_instance.is_there
    assert not of(tmp_path / "absent", "slice=1").is_there


@pytest.mark.parametrize(
    ("orientation", "direction", "words"),
    [
        (AXIAL, [0, 0, 1], "from feet to head"),
        ([1, 0, 0, 0, -1, 0], [0, 0, 1], "from feet to head"),
        ([1, 0, 0, 0, 0, -1], [0, 1, 0], "from front to back"),
        ([0, 1, 0, 0, 0, -1], [1, 0, 0], "from right to left"),
        ([1, 0, 0, 0, 0.8, 0.6], [0, -0.6, 0.8], "from feet to head"),
    ],
)
def test_directions_are_those_of_the_patient(
    tmp_path: Path, orientation: list[float], direction: list[float], words: str
) -> None:
    for number in (1, 2, 3):
        place = [10 * number * part for part in direction]
        write(tmp_path / "SER", number, place, ImageOrientationPatient=orientation)
    image = of(tmp_path / "SER", "slice=1")
    assert level(image) == 1
    assert f"slice 1 of 3 {words}, position 10 mm, instance 1" in image.pictured()[1]


def refused(image: Image) -> str:
    with pytest.raises(DataError) as error:
        image.pil()
    assert scans.PLANTED not in str(error.value)
    return str(error.value)


def test_names_outside_the_series_say_what_is_there(tmp_path: Path) -> None:
    folder = stack(tmp_path / "SER")
    assert refused(of(folder, "instance=9")) == "image SER/?instance=9: ?instance=9: there are 1 to 5 (5)"
    assert "?slice=6: there are 1 to 5, from feet to head" in refused(of(folder, "slice=6"))
    assert "?slice=0: there are 1 to 5" in refused(of(folder, "slice=0"))
    assert "?position=99: slices are at 37.5 to 47.5 mm, from feet to head" in refused(of(folder, "position=99"))
    (tmp_path / "empty").mkdir()
    assert "no DICOM picture is there" in refused(of(tmp_path / "empty", "slice=1"))
    assert "no such file" in refused(of(tmp_path / "absent", "slice=1"))
    assert "a folder; name a slice of its series: ?slice=1" in refused(Image("SER", str(folder)))


def test_what_is_no_stack_is_refused_with_a_sentence(tmp_path: Path) -> None:
    def made(name: str, number: int, position: list[float], **tags: Any) -> Path:
        folder = stack(tmp_path / name)
        write(folder, number, position, **tags)
        return folder

    two = made("two", 90, [0, 0, 0], SeriesInstanceUID="9.9", SeriesNumber=1)
    assert "2 series in one folder; give each a folder of its own" in refused(of(two, "instance=3"))
    echo = made("echo", 90, [0, 0, 45], EchoTime=80)
    assert "several pictures lie at 45 mm, which differ in EchoTime; type ?instance=" in refused(of(echo, "slice=1"))
    assert level(of(echo, "instance=90")) == 90
    scout = made("scout", 90, [0, 0, 0], ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
    assert "1 of its 6 pictures are localisers" in refused(of(scout, "slice=1"))
    assert level(of(scout, "instance=3")) == 3
    mixed = made("mixed", 90, [0, 0, 0], ImageOrientationPatient=[1, 0, 0, 0, 0, -1])
    assert "its pictures have different orientations" in refused(of(mixed, "position=0"))
    spaced = made("spaced", 90, [0, 0, 50], PixelSpacing=[0.7, 0.7])
    assert "its pictures have different pixel spacings" in refused(of(spaced, "slice=1"))
    nowhere = made("nowhere", 90, [0, 0, 0], ImagePositionPatient=None)
    assert "1 of 6 pictures do not say where they lie; type ?instance=" in refused(of(nowhere, "slice=1"))
    gap = made("gap", 90, [0, 0, 52.5])
    assert "1 slice is missing between 47.5 and 52.5 mm, where others are 2.5 mm apart" in refused(of(gap, "slice=1"))
    uneven = made("uneven", 90, [0, 0, 51.5])
    assert "uneven distances: 4 mm between 47.5 and 51.5 mm" in refused(of(uneven, "slice=1"))
    twice = stack(tmp_path / "twice")
    shutil.copy(twice / "IM037", twice / "copy")
    assert "two files are the same picture" in refused(of(twice, "instance=1"))
    without = stack(tmp_path / "without", SOPInstanceUID=None)
    assert level(of(without, "slice=1")) == 5
    number = made("number", 90, [0, 0, 50], InstanceNumber=3)
    assert "?instance=3: 2 pictures have it" in refused(of(number, "instance=3"))
    linked = stack(tmp_path / "linked")
    (linked / "link").symlink_to(tmp_path / "two" / "IM037")
    assert "a folder with links" in refused(of(linked, "slice=1"))


def test_several_slices_are_a_montage(tmp_path: Path) -> None:
    folder = stack(tmp_path / "SER")
    image = of(folder, "instance=1,2,3&montage=2x2&range=0,255")
    pixels = np.asarray(image.pil())[..., 0]
    assert pixels.shape == (8, 12)
    assert [int(pixels[y, x]) for y, x in ((1, 1), (1, 7), (5, 1), (5, 7))] == [1, 2, 3, 0]
    shown = image.pictured()[1]
    assert "instance 1; slice 4 of 5" in shown
    assert shown.endswith("pixels of 0.5 × 0.5 mm")
    write(folder, 3, [0, 0, 42.5], WindowCenter=60)
    assert "windows of their own; type one for all" in refused(of(folder, "instance=1,3&montage=2x1"))


@pytest.mark.parametrize(
    "parts",
    [
        *("slice=1,2", "slice=1&instance=1", "montage=2x1&slice=1", "slice=1,2,3&montage=2x1", "slice=a"),
        *("instance=1,,2&montage=3x1", "frame=2&instance=1", "montage=2x2", "slice=1,2&montage=0x2", "position=1e9"),
    ],
)
def test_wrong_parts_are_refused(parts: str) -> None:
    with pytest.raises(MedicalError):
        views.parse(parts)


def test_pixels_of_a_slice_are_square(tmp_path: Path) -> None:
    folder = stack(tmp_path / "SER", PixelSpacing=[1.0, 0.5])
    image = of(folder, "slice=1")
    assert image.pil().size == (6, 8)
    assert image.pictured()[1].endswith("pixels of 1 × 0.5 mm, shown with square pixels")
    alone = next(folder.iterdir())
    assert Image("alone.dcm", str(alone)).pil().size == (6, 4), "a file by itself is shown as it is stored"


def enhanced(path: Path, positions: list[float]) -> Path:
    """Write an enhanced CT whose frames are not in the order of their positions; frame N has the value N."""
    from pydicom.dataset import Dataset
    from pydicom.sequence import Sequence

    def nested(keyword: str, **values: Any) -> Dataset:
        inner, outer = Dataset(), Dataset()
        for name, value in values.items():
            setattr(inner, name, value)
        setattr(outer, keyword, Sequence([inner]))
        return outer

    shared = nested("PlaneOrientationSequence", ImageOrientationPatient=AXIAL)
    shared.update(nested("PixelMeasuresSequence", PixelSpacing=[0.5, 0.5]))
    shared.update(nested("FrameVOILUTSequence", WindowCenter=128, WindowWidth=256))
    frames = [nested("PlanePositionSequence", ImagePositionPatient=[0, 0, position]) for position in positions]
    pixels = np.stack([np.full((4, 6), number, np.uint16) for number in range(1, len(positions) + 1)])
    return scans.dicom(
        path,
        pixels,
        SharedFunctionalGroupsSequence=Sequence([shared]),
        PerFrameFunctionalGroupsSequence=Sequence(frames),
        SeriesInstanceUID="1.2.3",
    )


def test_frames_of_an_enhanced_file_are_slices(tmp_path: Path) -> None:
    path = enhanced(tmp_path / "x.dcm", [30, 10, 20])
    assert [level(Image(f"x.dcm?slice={number}", str(path))) for number in (1, 2, 3)] == [2, 3, 1]
    image = Image("x.dcm?position=30", str(path))
    assert level(image) == 1
    assert "slice 3 of 3 from feet to head, position 30 mm;" in image.pictured()[1]
    assert level(Image("x.dcm?frame=3", str(path))) == 3
    for part in ("position=20", "slice=2"):
        assert "both name a picture; drop one of them" in refused(Image(f"x.dcm?frame=3&{part}", str(path)))
    assert "of several frames, name ?slice= or ?frame=" in refused(Image("x.dcm?instance=1", str(path)))
    folder = tmp_path / "SER"
    folder.mkdir()
    shutil.copy(path, folder / "one")
    assert level(of(folder, "slice=1")) == 2


def test_a_changed_file_of_a_folder_is_another_picture(tmp_path: Path) -> None:
    folder = stack(tmp_path / "SER")
    before = of(folder, "slice=5").pinned()
    assert before.digest
    assert level(before) == 1
    write(folder, 1, [0, 0, 47.5], value=99)
    assert "the file has changed since it was indexed" in refused(before)
    after = of(folder, "slice=5").pinned()
    assert after.digest != before.digest
    assert level(after) == 99


def test_headers_are_read_once_for_each_state_of_a_folder(tmp_path: Path) -> None:
    folder = stack(tmp_path / "SER")
    decoder_process._indexed.cache_clear()
    for number in (1, 2, 3):
        of(folder, f"slice={number}").pil()
    assert decoder_process._indexed.cache_info().misses == 1


def test_a_damaged_file_of_a_folder_is_an_error_without_its_text(tmp_path: Path) -> None:
    folder = stack(tmp_path / "SER")
    (folder / "IM999").write_bytes(b"\0" * 128 + b"DICM" + os.urandom(64))
    assert "file 6 of 6 by name: a damaged DICOM" in refused(of(folder, "slice=1"))


SHIPPED = {
    "77654033/CT2": "161 slices are missing between -99.48 and 103 mm, where others are 1.25 mm apart",
    "98892001/CT2N": "2 of its 2 pictures are localisers",
    "98892001/CT5N": "",
    "98892003/MR1": "3 series in one folder; give each a folder of its own",
    "98892003/MR2": "3 series in one folder; give each a folder of its own",
    "98892003/MR700": "its pictures have different orientations",
}
"""Folders of pydicom's own test files, and what is said of them."""


@pytest.mark.parametrize(("name", "problem"), SHIPPED.items())
def test_series_of_pydicom_are_sorted_or_refused(name: str, problem: str) -> None:
    folder = Path(importlib.util.find_spec("pydicom").origin).parent / "data/test_files/dicomdirtests" / name
    pictures = series.index(str(folder))
    lowest = views.parse("slice=1")
    if problem:
        with pytest.raises(MedicalError) as error:
            series.slices(pictures, str(folder), lowest)
        assert problem in str(error.value)
        return
    (first,) = series.slices(pictures, str(folder), lowest)
    assert first.words == "slice 1 of 5 from feet to head, position -1.238 mm, instance 10"
    picture, shown = of(folder, "slice=5&window=brain").pictured()
    assert picture.size == tuple(reversed(pictures[0].size))
    assert shown.startswith("slice 5 of 5 from feet to head, position 8.762 mm, instance 6; window brain")


@examples(200)
@given(st.integers(2, 12), st.randoms(use_true_random=False), st.floats(0.5, 10), st.booleans())
def test_the_order_of_files_does_not_matter(count: int, random: Any, distance: float, turned: bool) -> None:
    orientation = (1.0, 0.0, 0.0, 0.0, -1.0 if turned else 1.0, 0.0)
    pictures = [
        FrameHeader(
            f"{random.random()} {n}", 0, str(n), "s", n, False, (4, 4), orientation, (0, 0, n * distance), (1, 1), ()
        )
        for n in range(1, count + 1)
    ]
    random.shuffle(pictures)
    view = views.parse("slice=" + ",".join(map(str, range(1, count + 1))) + "&montage=12x1")
    named = series.slices(pictures, "/x", view)
    by_path = {f"/x/{picture.file}": picture.instance for picture in pictures}
    assert [by_path[one.path] for one in named] == list(range(1, count + 1))


def test_a_table_names_slices_and_import_says_what_is_wrong(tmp_path: Path) -> None:
    from medvqa.benchmarks import table_files
    from medvqa.cli.dispatch import main

    stack(tmp_path / "SER01")
    rows = ["id,image,question,A,B,answer"]
    rows += ["one,SER01/?instance=2,Is it bright?,yes,no,A", "two,SER01/?slice=5|SER01/?slice=1,Is it bright?,yes,no,B"]
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    assert main(["import", str(tmp_path / "cases.csv"), "--yes", f"--to={tmp_path / 'cases.toml'}"]) == 0
    first, second = table_files.read(tmp_path / "cases.toml").items(tmp_path)
    assert [level(image) for image in (*first.images, *second.images)] == [2, 1, 5]
    rows += ["three,SER01/?instance=9,Is it dark?,yes,no,A"]
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    report = tmp_path / "report.txt"
    assert main(["import", str(tmp_path / "cases.csv"), "--yes", "--show-cells", f"--report={report}"]) == 1
    assert "?instance=9: there are 1 to 5 (5)" in report.read_text()
