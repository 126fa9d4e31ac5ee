"""Writes small DICOM files, NIfTI volumes and slides."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

PLANTED = "MUSTERMANN^ERIKA"
"""The patient of every file."""
CT = "1.2.840.10008.5.1.4.1.1.2"
SECONDARY = "1.2.840.10008.5.1.4.1.1.7"
JPEG_BASELINE = "1.2.840.10008.1.2.4.50"
JPEG_LOSSLESS = "1.2.840.10008.1.2.4.70"
JPEG_LS = "1.2.840.10008.1.2.4.80"
JPEG_2000 = "1.2.840.10008.1.2.4.90"
RLE = "1.2.840.10008.1.2.5"
EXPLICIT = "1.2.840.10008.1.2.1"
IMPLICIT = "1.2.840.10008.1.2"


def dicom(path: Path, pixels: np.ndarray[Any, Any], *, syntax: str = EXPLICIT, bits: int = 0, **tags: Any) -> Path:
    """Write a DICOM file with uncompressed pixels, or pixels compressed by an encoder of pydicom; `tags` by keyword."""
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.uid import UID, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UID(tags.get("SOPClassUID", CT))
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[path.name])
    plain = syntax if syntax in (EXPLICIT, IMPLICIT) else EXPLICIT
    meta.TransferSyntaxUID = UID(plain)
    header = FileDataset(str(path), Dataset(), file_meta=meta, preamble=b"\0" * 128)
    coloured = pixels.ndim == 3 and pixels.shape[2] == 3
    header.SOPClassUID = meta.MediaStorageSOPClassUID
    header.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    header.PatientName = PLANTED
    header.PatientID = "MRN-4711"
    header.InstitutionName = "KLINIKUM-NORD"
    header.Modality = "CT"
    header.SamplesPerPixel = 3 if coloured else 1
    header.PhotometricInterpretation = "RGB" if coloured else "MONOCHROME2"
    if coloured:
        header.PlanarConfiguration = 0
    else:
        if pixels.ndim == 3:
            header.NumberOfFrames = len(pixels)
            pixels = np.ascontiguousarray(pixels)
    header.Rows, header.Columns = pixels.shape[:2] if coloured or pixels.ndim == 2 else pixels.shape[1:]
    header.BitsAllocated = pixels.dtype.itemsize * 8
    header.BitsStored = bits or header.BitsAllocated
    header.HighBit = header.BitsStored - 1
    header.PixelRepresentation = int(pixels.dtype.kind == "i")
    header.PixelData = pixels.tobytes()
    header["PixelData"].VR = "OW" if pixels.dtype.itemsize > 1 else "OB"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Wrong values are written on purpose.
        for keyword, value in tags.items():
            setattr(header, keyword, value)
        if syntax not in (plain, JPEG_LOSSLESS, JPEG_BASELINE):
            header.compress(UID(syntax), generate_instance_uid=False)
        header.save_as(path, enforce_file_format=True)
    if syntax in (JPEG_LOSSLESS, JPEG_BASELINE):
        _by_gdcm(path, syntax)
    return path


def _by_gdcm(path: Path, syntax: str) -> None:
    """Compress a file by the encoders of gdcm."""
    import gdcm

    reader = gdcm.ImageReader()
    reader.SetFileName(str(path))
    assert reader.Read()
    change = gdcm.ImageChangeTransferSyntax()
    change.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.GetTSType(syntax)))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer = gdcm.ImageWriter()
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    writer.SetFileName(str(path))
    assert writer.Write()


def nifti(path: Path, voxels: np.ndarray[Any, Any], affine: np.ndarray[Any, Any] | None = None, **header: Any) -> Path:
    """Write a NIfTI file, packed if its name ends in .gz; the default affine is RAS+. `header`: fields by name."""
    import nibabel

    image = nibabel.Nifti1Image(voxels, np.eye(4) if affine is None else affine)
    image.header["descrip"] = PLANTED.encode()
    for name, value in header.items():
        image.header[name] = value
    image.to_filename(path)
    return path


def slide(path: Path, pixels: np.ndarray[Any, Any], tile: int = 16) -> Path:
    """Write a tiled TIFF of one level, whose sides are multiples of `tile`, which openslide reads as a slide."""
    height, width = pixels.shape[:2]
    tiles = [
        zlib.compress(pixels[y : y + tile, x : x + tile].tobytes())
        for y in range(0, height, tile)
        for x in range(0, width, tile)
    ]
    count, sizes = len(tiles), list(map(len, tiles))
    description = f"patient {PLANTED}".encode() + b"\0"
    entries = 13
    after = 8 + 2 + entries * 12 + 4
    bits_at, text_at = after, after + 6
    offsets_at = text_at + len(description) + len(description) % 2
    counts_at = offsets_at + 4 * count
    data_at = counts_at + 4 * count
    offsets = [data_at + sum(sizes[:number]) for number in range(count)]
    single = count == 1
    fields = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, 3, bits_at),
        (259, 3, 1, 8),
        (262, 3, 1, 2),
        (270, 2, len(description), text_at),
        (277, 3, 1, 3),
        (284, 3, 1, 1),
        (322, 4, 1, tile),
        (323, 4, 1, tile),
        (324, 4, count, offsets[0] if single else offsets_at),
        (325, 4, count, sizes[0] if single else counts_at),
        (339, 3, 1, 1),
    ]
    content = b"II*\0" + struct.pack("<IH", 8, entries)
    content += b"".join(struct.pack("<HHII", *field) for field in fields) + struct.pack("<I", 0)
    content += struct.pack("<3H", 8, 8, 8) + description.ljust(offsets_at - text_at, b"\0")
    content += struct.pack(f"<{count}I", *offsets) + struct.pack(f"<{count}I", *sizes)
    path.write_bytes(content + b"".join(tiles))
    return path
