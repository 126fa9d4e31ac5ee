"""NIfTI volumes -> slices.

A volume is turned to the closest canonical orientation (RAS+) first, so that `axis` and the direction of `slice` mean
the same for every file: axis 0 goes from left to right (sagittal slices), 1 from posterior to anterior (coronal), 2
from inferior to superior (axial). Axial and coronal slices have the patient's right on the left of the picture
(radiological), or on the right (neurological); sagittal ones have anterior on the left. Up is anterior in axial slices,
else superior.
Voxels are not resampled: anisotropic ones look compressed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, BinaryIO

from medvqa.medical import windows
from medvqa.medical.errors import MedicalError
from medvqa.medical.views import ImageView

if TYPE_CHECKING:
    import gzip

    import numpy as np
    import PIL.Image

MAX_VOLUME = 2**31
"""Bytes of the voxels of one volume: for a slice across the file, all of them may be read."""


def picture(
    file: BinaryIO | gzip.GzipFile, view: ImageView, window: tuple[float, float] | None, *, max_pixels: int
) -> PIL.Image.Image:
    """Return one slice of a volume; `file` is unpacked (MedicalError, and any other exception for a damaged file)."""
    import nibabel

    header = _header(nibabel, file)
    shape, volumes = _shape(header)
    turned = _turned(nibabel, header)
    _check(header, shape)
    axis, at = _place(view, shape, turned)
    volume = _volume(view, volumes)
    if math.prod(shape) // shape[turned[axis][0]] > max_pixels:
        raise MedicalError(f"more than {max_pixels:,} pixels")
    values = _slice(nibabel, file, header, shape, turned, axis, at, volume)
    upright = _upright(values, axis, view.display)
    if header.get_data_dtype().names is not None:
        return _coloured(upright, window)
    limits, applied = _window(header, view, window)
    picture = windows.grey(windows.shown(upright, *limits))
    picture.info[windows.SHOWN] = windows.described(applied, _spacing(header, turned, axis))
    return picture


def _header(nibabel: Any, file: Any) -> Any:
    block = file.read(540)
    if block[344:348] == b"n+1\0":
        return nibabel.Nifti1Header(block[:348], check=False)
    return nibabel.Nifti2Header(block[:540], check=False)


def _shape(header: Any) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Return the sizes of a volume and of the further dimensions."""
    sizes = tuple(int(size) for size in header.get_data_shape())
    if not 2 <= len(sizes) <= 7 or not all(0 < size <= 2**20 for size in sizes):
        raise MedicalError("a damaged NIfTI header: its dimensions are none of a volume")
    x, y, z = (*sizes, 1)[:3]
    return (x, y, z), sizes[3:]


def _turned(nibabel: Any, header: Any) -> list[tuple[int, bool]]:
    """Return for each axis of RAS+ the axis of the file, and whether it runs backwards."""
    import numpy as np

    if not (int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0):
        raise MedicalError(
            "its header does not say how the volume lies (sform_code and qform_code are 0), so left and right are "
            "unknown; write its orientation into the file"
        )
    orientation = nibabel.io_orientation(header.get_best_affine())
    if np.isnan(orientation).any():
        raise MedicalError("a damaged NIfTI header: its affine is none of a volume")
    found = {int(to): (place, direction < 0) for place, (to, direction) in enumerate(orientation)}
    return [found[axis] for axis in range(3)]


def _check(header: Any, shape: tuple[int, int, int]) -> None:
    kind = header.get_data_dtype()
    if math.prod(shape) * kind.itemsize > MAX_VOLUME:
        raise MedicalError(f"a volume of more than {MAX_VOLUME // 2**30} GiB")
    if kind.kind not in "iufV":
        raise MedicalError(f"voxels of type {kind.name} are not shown")


def _place(view: ImageView, shape: tuple[int, int, int], turned: list[tuple[int, bool]]) -> tuple[int, int]:
    sizes = [shape[place] for place, _ in turned]
    if view.axis is None or view.slice is None:
        raise MedicalError(
            f"a volume of {' x '.join(map(str, sizes))} voxels (left to right, posterior to anterior, inferior to "
            f"superior); name a slice, such as ?axis=2&slice={sizes[2] // 2}"
        )
    if view.slice >= sizes[view.axis]:
        raise MedicalError(f"?slice={view.slice}: axis {view.axis} has slices 0 to {sizes[view.axis] - 1}")
    return view.axis, view.slice


def _volume(view: ImageView, volumes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the place in the further dimensions."""
    longer = [size for size in volumes if size > 1]
    if len(longer) > 1:
        raise MedicalError("more than four dimensions; write one volume into a file of its own")
    count = longer[0] if longer else 1
    if view.volume is None and count > 1:
        raise MedicalError(f"{count} volumes; name one: ?volume=0 to ?volume={count - 1}")
    if (view.volume or 0) >= count:
        raise MedicalError(f"?volume={view.volume}: it has volumes 0 to {count - 1}")
    return tuple((view.volume or 0) if size > 1 else 0 for size in volumes)


def _slice(
    nibabel: Any,
    file: Any,
    header: Any,
    shape: tuple[int, int, int],
    turned: list[tuple[int, bool]],
    axis: int,
    at: int,
    volume: tuple[int, ...],
) -> np.ndarray[Any, Any]:
    """Return the voxels of a slice in RAS+: its first axis is the lower one of the two that are left."""
    proxy = nibabel.arrayproxy.ArrayProxy(file, header, mmap=False)
    if len(header.get_data_shape()) == 2:
        shape = (shape[0], shape[1], 1)
        proxy = proxy.reshape(shape)
    place, backwards = turned[axis]
    index: list[Any] = [slice(None)] * 3
    index[place] = shape[place] - 1 - at if backwards else at
    values: np.ndarray[Any, Any] = proxy[(*index, *volume)]
    first, second = (turned[other] for other in range(3) if other != axis)
    if first[0] > second[0]:
        values = values.T
    return values[:: -1 if first[1] else 1, :: -1 if second[1] else 1]


def _upright(values: np.ndarray[Any, Any], axis: int, display: str) -> np.ndarray[Any, Any]:
    """Return rows of the picture: up is anterior or superior."""
    # Columns run from the patient's right, or, in sagittal slices, from anterior.
    mirrored = axis == 0 or display != "neurological"
    return values[:: -1 if mirrored else 1, ::-1].T


def _window(header: Any, view: ImageView, window: tuple[float, float] | None) -> tuple[tuple[float, float], str]:
    """Return the values shown as black and white, and in words where they come from (MedicalError without any)."""
    import numpy as np

    if window is not None:
        return window, windows.said(window, view.named)
    low, high = float(header["cal_min"]), float(header["cal_max"])
    if math.isfinite(low) and math.isfinite(high) and low < high:
        return (low, high), f"the file's own range: {low:g} to {high:g}"
    kind = header.get_data_dtype()
    if kind == np.uint8 and header.get_slope_inter() in ((1.0, 0.0), (None, None)):
        return (0, 255), windows.ALL
    raise windows.needed(f"voxels of type {kind.name}")


def _spacing(header: Any, turned: list[tuple[int, bool]], axis: int) -> str:
    """Return the spacing of the rows and columns of a slice in words; "" if it is not known."""
    sizes = [float(size) for size in header.get_zooms()[:3]] + [0.0, 0.0, 0.0]
    column, row = (sizes[turned[other][0]] for other in range(3) if other != axis)
    return windows.spaced(row, column) if header.get_xyzt_units()[0] == "mm" else ""


def _coloured(values: np.ndarray[Any, Any], window: tuple[float, float] | None) -> PIL.Image.Image:
    import numpy as np
    import PIL.Image

    if window is not None:
        raise MedicalError("a window is for grey images, and this one has colours; remove it")
    kind = values.dtype
    if kind.names is None or kind.names[:3] != ("R", "G", "B") or any(kind[name] != np.uint8 for name in kind.names):
        raise MedicalError("its voxels are no numbers and no colours of 8 bits")
    return PIL.Image.fromarray(np.stack([values[name] for name in "RGB"], axis=-1))
