"""Questions of a benchmark as a spreadsheet, with images as PNG, DICOM and NIfTI files: a hospital's form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import openpyxl

from medvqa.items import Image, Item

WORD = "MUSTERMANN"
"""The patient's name in the header of each DICOM and NIfTI file."""


def export(items: Sequence[Item], folder: Path, *, slices: Sequence[str]) -> Path:
    """Write `questions.xlsx`, with a column for each of `slices`, and the images into `scans/`; return the table.

    Every third image becomes PNG, DICOM or a slice of a NIfTI volume; only grey pictures become NIfTI.
    """
    letters = sorted({letter for item in items for letter in item.options})
    columns = ["id", "question", *letters, "answer", "kind", "image", "pair", "cluster", *slices]
    sheet = openpyxl.Workbook()
    assert sheet.active is not None
    sheet.active.append(columns)
    scans = _Scans(folder / "scans")
    for item in items:
        answers = ",".join(item.answers) if item.options else "|".join(item.answers)
        sheet.active.append(
            [
                *(item.id, item.question, *(item.options.get(letter, "") for letter in letters), answers, item.kind),
                *("|".join(map(scans.written, item.images)), item.pair_id, item.cluster_id),
                *("|".join(item.tags.get(dimension, ())) for dimension in slices),
            ]
        )
    sheet.save(folder / "questions.xlsx")
    return folder / "questions.xlsx"


class _Scans:
    """The folder of the images: each picture is written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        folder.mkdir(parents=True)

    def written(self, image: Image) -> str:
        """Write an image if it is new; return its reference for a cell."""
        if image.key not in self._names:
            pixels = np.asarray(image.pil())
            number, grey = len(self._names), bool((pixels == pixels[..., :1]).all())
            if number % 3 == 0 or (number % 3 == 2 and not grey):
                image.pil().save(self._folder / f"{number}.png")
                reference = f"{number}.png"
            elif number % 3 == 1:
                _dicom(self._folder / f"{number}.dcm", pixels, grey=grey)
                reference = f"{number}.dcm?range=0,4080" if grey else f"{number}.dcm"
            else:
                _nifti(self._folder / f"{number}.nii.gz", pixels[..., 0])
                reference = f"{number}.nii.gz?axis=2&slice=1&range=-1000,1550"
            self._names[image.key] = reference
        return self._names[image.key]


def _dicom(path: Path, pixels: np.ndarray, *, grey: bool) -> None:
    """Write a CT slice of 12 bits that is 16 times the grey picture, or a colour picture of 8 bits."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    scan = Dataset()
    scan.file_meta = meta
    scan.SOPClassUID, scan.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    scan.PatientName, scan.Modality = f"{WORD}^ERIKA", "CT"
    scan.Rows, scan.Columns = pixels.shape[:2]
    scan.SamplesPerPixel = 1 if grey else 3
    scan.PhotometricInterpretation = "MONOCHROME2" if grey else "RGB"
    scan.BitsAllocated, scan.BitsStored, scan.HighBit = (16, 12, 11) if grey else (8, 8, 7)
    scan.PixelRepresentation = 0
    if not grey:
        scan.PlanarConfiguration = 0
    scan.PixelData = (pixels[..., 0].astype("<u2") * 16 if grey else pixels).tobytes()
    scan.save_as(path, enforce_file_format=True)


def _nifti(path: Path, grey: np.ndarray) -> None:
    """Write a volume of three slices: in the middle one, the value -1000 is black and 1550 white.

    The picture is an axial slice with the patient's right on its left, so x falls from left to right, and y downwards.
    """
    import nibabel

    volume = np.zeros((*grey.T.shape, 3), np.int16)
    volume[..., 1] = grey.T[::-1, ::-1].astype(np.int16) * 10 - 1000
    made = nibabel.Nifti1Image(volume, np.eye(4))
    made.header["descrip"] = WORD
    made.header.set_sform(np.eye(4), code=1)
    nibabel.save(made, path)
