"""Fingerprints of many images, remembered in the user's cache directory between calls."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from medvqa import medical
from medvqa.items import Image
from medvqa.likeness.pictures import BITS, Fingerprint, of_image
from medvqa.tables import cached
from medvqa.tables.progress import Progress

STAMP = (3, BITS)
"""Version of the stored fingerprints, for other rules of decoding or hashing."""
EVERY = 120.0
"""Seconds after which fingerprints are stored before all are done."""
AHEAD = 64
"""Images that are taken on at a time."""
MOST_THREADS = 8


class _StoredLook(msgspec.Struct, frozen=True, array_like=True):
    """A fingerprint and the state of the file that it was computed from; `name` is that of `_name`."""

    name: str
    size: int
    mtime_ns: int
    turned: bool
    fingerprint: Fingerprint


def fingerprints(
    images: Sequence[Image], folder: Path, *, turned: bool = False, progress: Progress | None = None
) -> list[Fingerprint]:
    """Return the fingerprint of each image, in order, from the user's cache where its file has not changed.

    The cache of each `folder` is a file of its own; it knows an image by its name and its file's size and time of
    change. What was computed is stored at the end, every two minutes, and if the caller is interrupted.
    """
    place = cached.place_of(folder, "looks")
    stored = {look.name: look for look in cached.load(place, STAMP, _StoredLook) or ()}
    states = _states(images)
    done: dict[int, Fingerprint] = {}
    for number, (image, state) in enumerate(zip(images, states, strict=True)):
        known = stored.get(_name(image))
        if known is not None and (known.size, known.mtime_ns) == state and known.turned >= turned:
            done[number] = known.fingerprint
    missing = [number for number in range(len(images)) if number not in done]
    saved = time.monotonic()
    computed = False
    pool = ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1))
    try:
        with warnings.catch_warnings():
            # Pillow warns of odd metadata, which do not matter here; filters are not safe to set within threads.
            warnings.simplefilter("ignore")
            for start in range(0, len(missing), AHEAD):
                some = missing[start : start + AHEAD]
                looks = pool.map(lambda number: of_image(images[number], turned=turned), some)
                for number, found in zip(some, looks, strict=True):
                    done[number] = found
                    if found.content:
                        key = _name(images[number])
                        stored[key] = _StoredLook(key, *states[number], turned, found)
                        computed = True
                if progress is not None:
                    progress(len(done), len(images))
                if computed and time.monotonic() - saved > EVERY:
                    _store(place, stored)
                    saved, computed = time.monotonic(), False
    finally:
        pool.shutdown(cancel_futures=True)
        if computed:
            _store(place, stored)
    return [done[number] for number in range(len(images))]


def _name(image: Image) -> str:
    """The key of an image in the cache: a digest of its file's path, which may name a patient, and its place within."""
    place = [str(image.cell)] if image.cell is not None else []
    window = [repr(image.window)] if image.window is not None else []
    key = "\0".join([image.path, *place, *window, image.view])
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def _states(images: Sequence[Image]) -> list[tuple[int, int]]:
    """Size and time of change of each image's file, (-1, 0) if there is none."""
    known: dict[str, tuple[int, int]] = {}
    for image in images:
        if image.path not in known:
            try:
                known[image.path] = medical.stamp(image.path)
            except (OSError, ValueError):
                known[image.path] = -1, 0
    return [known[image.path] for image in images]


def _store(place: Path, looks: Mapping[str, _StoredLook]) -> None:
    # Without a cache, they are computed again next time.
    with suppress(OSError):
        cached.store(place, STAMP, looks.values())
