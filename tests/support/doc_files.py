"""Files that the examples of docs/*.md work on, for their invisible blocks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image

import medvqa
from medvqa import benchmarks
from medvqa.benchmarks import own

DOCS = Path(__file__).parents[2] / "docs"
QUESTIONS = """id,image,question,A,B,C,answer,modality
q1,ct/17.png,Which organ is shown?,liver,spleen,kidney,A,CT
q2,ct/18.png,Which organs are shown?,liver,spleen,kidney,"A,C",CT
q3,mri/4.png,Which sequence is this?,,,,T2|T2-weighted,MRI
"""
TEST = "import pytest\n@pytest.mark.vqa\ndef test_questions(medvqa_item, evaluate):\n    evaluate(medvqa_item)\n"


def write_shown(page: str, begins: str, file: str) -> None:
    """Write the block of a page that begins with this text."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if block.startswith(begins))
    Path(file).write_text(block, "utf-8")


def write_cases() -> None:
    """Write the German cases of your-questions.md with their images, and the test that asks."""
    Path("pytest.ini").unlink()
    write_shown("your-questions.md", "Nr;Bild;", "fragen.csv")
    for number, name in enumerate(("bilder/ct/17", "bilder/ct/18", "bilder/mrt/4", "images/ct/17", "images/ct/18")):
        _noise(Path(f"{name}.png"), 16, 50 + number)
    _noise(Path("images/mri/4.png"), 16, 55)
    Path("test_questions.py").write_text(TEST)


def write_case_file() -> None:
    """Write the file that declares the German cases, and check the kinds and answers of its questions."""
    write_shown("your-questions.md", 'file = "fragen.csv"', "klinik.toml")
    assert [
        (item.kind, item.answers) for item in medvqa.benchmark_file(Path("klinik.toml").resolve()).items(Path())
    ] == [
        ("single_choice", ("A",)),
        ("multiple_response", ("A", "C")),
        ("short_answer", ("T2", "T2-Wichtung")),
    ]


def write_questions() -> None:
    """Write the English questions, and the conftest.py that makes a benchmark of them."""
    Path("questions.csv").write_text(QUESTIONS)
    Path("conftest.py").write_text(
        'import medvqa\nquestions = medvqa.table("questions.csv", images="images/", tags=("modality",))\n'
    )


def check_same_items(benchmark: medvqa.Benchmark) -> None:
    """Check that a benchmark in code has the items of the table, and that their images are there."""
    table = medvqa.table(Path("questions.csv").resolve(), images=Path("images").resolve())
    loaded = benchmarks.load(own.completed(benchmark), Path.cwd())
    from_table = benchmarks.load(own.completed(table), Path.cwd())
    assert [item.kind for item in loaded] == ["single_choice", "multiple_response", "short_answer"]
    content = [[(item.id, item.kind, item.options, item.answers) for item in items] for items in (loaded, from_table)]
    assert content[0] == content[1]
    assert all(Path(image.path).is_file() for item in loaded for image in item.images)


def write_nodules() -> None:
    """Write images with a region for each question, as for robustness.md."""
    rows = ["id,image,question,A,B,answer,box"]
    for number in range(8):
        _noise(Path(f"{number}.png"), 96, 40 + number)
        rows.append(f'{number},{number}.png,Is nodule {number} solid?,yes,no,{"AB"[number % 2]},"10,10,30,20"')
    Path("nodules.csv").write_text("\n".join(rows))
    Path("nodules.toml").write_text('file = "nodules.csv"')


def write_ct() -> None:
    """Write a CT of four pixels: -1024, -600, -224 and 149 Hounsfield units."""
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    meta = FileMetaDataset()
    meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = ExplicitVRLittleEndian, CTImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    ct = FileDataset("17.dcm", Dataset(), file_meta=meta, preamble=bytes(128))
    ct.SOPClassUID, ct.SOPInstanceUID = CTImageStorage, "1.2.3"
    ct.Modality, ct.PatientName, ct.PhotometricInterpretation = "CT", "Mustermann^Erika", "MONOCHROME2"
    ct.Rows = ct.Columns = 2
    ct.SamplesPerPixel, ct.BitsAllocated, ct.BitsStored, ct.HighBit, ct.PixelRepresentation = 1, 16, 12, 11, 0
    ct.RescaleSlope, ct.RescaleIntercept = 1, -1024
    ct.PixelData = np.array([[0, 424], [800, 1173]], dtype="<u2").tobytes()
    ct["PixelData"].VR = "OW"
    ct.save_as("17.dcm", enforce_file_format=True)


def check_lung_window(lung: medvqa.Image) -> None:
    """Check the window by name, and the grey levels of the four pixels."""
    assert lung.window == (-1350, 149)
    assert np.asarray(replace(lung, path="17.dcm").pil())[:, :, 0].tolist() == [[55, 128], [192, 255]]


def _noise(path: Path, size: int, spread: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.effect_noise((size, size), spread).save(path)
