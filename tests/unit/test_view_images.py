"""Original images of runs: found by recorded digests in the data sets, with all pixels and without metadata."""

import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import PIL.Image
import PIL.PngImagePlugin
import pytest

from medvqa import benchmarks
from medvqa.items import Answer, Image, Item, Result, Score
from medvqa.records import run_folder
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RunRecord
from medvqa.report.bundle import pictures
from medvqa.report.bundle.pictures import address
from medvqa.view.images import NoImage, Originals
from medvqa.view.run_index import RunIndexes
from medvqa.view.sources import Sources
from support import pages

TOML = """
file = "ward.csv"
"""
SECRET = "patient Miller"


def result(item: Item) -> Result:
    return Result("run", item, "", Answer("A"), Score(1.0, "correct"), "mc")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a benchmark of one's own: a picture with metadata, and a damaged one."""
    folder = tmp_path_factory.mktemp("data")
    info = PIL.PngImagePlugin.PngInfo()
    info.add_text("Comment", SECRET)
    PIL.Image.radial_gradient("L").convert("RGB").save(folder / "1.png", pnginfo=info)
    (folder / "2.png").write_bytes((folder / "1.png").read_bytes()[:200])
    (folder / "ward.csv").write_text("id,question,A,B,answer,image\n1,What?,x,y,A,1.png\n2,What?,x,y,B,2.png\n")
    (folder / "ward.toml").write_text(TOML)
    return folder


@pytest.fixture(scope="module")
def originals(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Originals]:
    sources = Sources(str(data), noconftest=True, benchmarks=(str(data / "ward.toml"),))
    made = Originals(sources, tmp_path_factory.mktemp("scratch"), RunIndexes())
    yield made
    made.close()


def ward(data: Path, folder: Path) -> tuple[Path, list[Image]]:
    """A run of all questions of the benchmark, and their images as it recorded them."""
    known = Sources(str(data), noconftest=True, benchmarks=(str(data / "ward.toml"),)).registry().benchmarks
    items = benchmarks.load_found(known["ward"], data)
    assert items is not None
    pinned = [replace(item, images=tuple(image.pinned() for image in item.images)) for item in items]
    pages.write(folder, [result(item) for item in pinned])
    return folder, [image for each in run_folder.read(folder).results for image in each.item.images]


def test_an_image_has_all_pixels_and_no_metadata(originals: Originals, data: Path, tmp_path: Path) -> None:
    folder, (image, _) = ward(data, tmp_path / "run")
    assert address(image) == image.digest == hashlib.sha256((data / "1.png").read_bytes()).hexdigest()
    sent = originals.image(folder, address(image))
    assert sent.type == "image/png"
    assert SECRET.encode() not in sent.content
    with PIL.Image.open(io.BytesIO(sent.content)) as shown, PIL.Image.open(data / "1.png") as stored:
        assert shown.convert("RGB").tobytes() == stored.tobytes()


def test_a_damaged_image_costs_itself_alone(originals: Originals, data: Path, tmp_path: Path) -> None:
    folder, (image, damaged) = ward(data, tmp_path / "run")
    with pytest.raises(NoImage, match="The image ") as raised:
        originals.image(folder, address(damaged))
    assert str(data) not in str(raised.value)
    assert originals.image(folder, address(image)).content


def test_only_what_the_run_recorded_is_shown(originals: Originals, data: Path, tmp_path: Path) -> None:
    folder, (image, _) = ward(data, tmp_path / "run")
    other = pages.write(tmp_path / "other", pages.guesses()[:2])
    for name in ("0" * 64, "", "../1.png", image.digest[:12], image.digest.upper(), f"{image.digest}\n"):
        with pytest.raises(NoImage, match="recorded no such image"):
            originals.image(folder, name)
    with pytest.raises(NoImage, match="recorded no such image"):
        originals.image(other, address(image))


def test_a_run_cannot_name_files(originals: Originals, data: Path, tmp_path: Path) -> None:
    """Its paths are not read, and its names are those of the data set."""
    secret = tmp_path / "secret.png"
    PIL.Image.new("RGB", (2, 2)).save(secret)
    digest = hashlib.sha256(secret.read_bytes()).hexdigest()
    for name in (str(secret), "../secret.png", "1.png", "sha256-" + digest[:12]):
        item = Item("1", "ward", "single_choice", "What?", images=(Image(name, str(secret), digest=digest),))
        folder = pages.write(tmp_path / f"run{len(name)}", [result(item)])
        with pytest.raises(NoImage, match=r"no image of this name|changed since|another image"):
            originals.image(folder, digest)


def test_new_lines_are_read_and_a_replaced_file_anew(originals: Originals, data: Path, tmp_path: Path) -> None:
    folder, (image, _) = ward(data, tmp_path / "run")
    results, lines = folder / RESULTS, (folder / RESULTS).read_bytes().splitlines(keepends=True)
    results.unlink()
    results.write_bytes(lines[0][:-9])
    with pytest.raises(NoImage, match="recorded no such image"):
        originals.image(folder, address(image))
    with results.open("ab") as file:
        file.write(lines[0][-9:] + b"broken\n")
    assert originals.image(folder, address(image)).content
    run_folder.write_atomic(results, results.read_bytes() + b"\n")
    assert originals.image(folder, address(image)).content
    os.replace(pages.write(tmp_path / "other", pages.guesses()[:2]) / RESULTS, results)
    with pytest.raises(NoImage, match="recorded no such image"):
        originals.image(folder, "f" * 64)


def test_a_pseudonym_is_found_by_its_place(originals: Originals, data: Path, tmp_path: Path) -> None:
    _, (image, _) = ward(data, tmp_path / "run")
    hidden = replace(image, name=f"sha256-{image.digest[:12]}")
    item = Item("1", "ward", "single_choice", "What?", images=(hidden,))
    folder = pages.write(tmp_path / "hidden", [result(item)])
    assert originals.image(folder, image.digest).content


def test_changed_data_show_no_other_image(data: Path, tmp_path: Path) -> None:
    folder, (image, _) = ward(data, tmp_path / "run")
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in data.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    PIL.Image.new("RGB", (3, 3)).save(copy / "1.png")
    made = Originals(Sources(str(copy), noconftest=True, benchmarks=(str(copy / "ward.toml"),)), tmp_path, RunIndexes())
    try:
        with pytest.raises(NoImage, match="changed since"):
            made.image(folder, address(image))
    finally:
        made.close()


def test_missing_data_say_what_to_type(data: Path, tmp_path: Path) -> None:
    folder, (image, _) = ward(data, tmp_path / "run")
    item = Item("0", "gmai-mmbench-val", "single_choice", "What?", images=(Image("x", digest="a" * 64),))
    gmai = pages.write(tmp_path / "gmai", [result(item)])
    made = Originals(Sources(str(tmp_path), noconftest=True), tmp_path, RunIndexes())
    try:
        with pytest.raises(NoImage, match=r"ward is not known here.*--benchmark=FILE"):
            made.image(folder, address(image))
        with pytest.raises(NoImage, match=r"gmai-mmbench-val are not found.*--data=DIR"):
            made.image(gmai, "a" * 64)
    finally:
        made.close()


def test_views_of_one_file_have_addresses_of_their_own() -> None:
    digest = "ab" * 32
    names = ("v.nii.gz?axis=2&slice=1", "v.nii.gz?axis=2&slice=2", "v.nii.gz")
    addresses = {address(Image(name, digest=digest)) for name in names}
    assert len(addresses) == 3
    assert digest in addresses
    assert all(len(each) == 64 for each in addresses)
    assert (
        address(Image("x"))
        == address(Image("x", digest=digest, blank=True))
        == address(Image("x", digest="../x"))
        == ""
    )


def test_served_pictures_are_named_by_what_was_recorded(data: Path, tmp_path: Path) -> None:
    folder, (image, _) = ward(data, tmp_path / "run")
    blank = Item(
        "3", "ward", "single_choice", "?", images=(Image("x", digest="blank 1", blank=True), Image("unread-1"))
    )
    drawn = pictures.served((one, RunRecord()) for one in [*run_folder.read(folder).results, result(blank)])
    (head,) = drawn.shown["ward", "1"]
    assert head.source == f"images/{image.digest}.png"
    assert [bool(each.why) and not each.source for each in drawn.shown["ward", "3"]] == [True, True]
