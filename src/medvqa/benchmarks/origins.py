"""What a benchmark's `origin` says: the files of its questions in a data folder, and how to get them."""

from __future__ import annotations

from pathlib import Path

from medvqa.items import Benchmark, Origin

HUB = "https://huggingface.co"


def needs_files(benchmark: Benchmark) -> bool:
    """Return whether the benchmark reads files of a data folder."""
    origin = benchmark.origin
    return origin is not None and (origin.find is not None or bool(origin.reads or origin.files))


def files_of(benchmark: Benchmark, data: Path) -> tuple[Path, ...]:
    """Return the files with the benchmark's questions in a data folder, () if they are missing (OSError)."""
    return () if benchmark.origin is None else found(benchmark.origin, data)


def found(origin: Origin, data: Path) -> tuple[Path, ...]:
    """Return the files of an origin with questions in a data folder, () if they are missing (OSError)."""
    if origin.find is not None:
        return tuple(origin.find(data))
    paths = [tuple(sorted(path for path in data.glob(name) if path.is_file())) for name in _names(origin)]
    return next(filter(None, paths), ()) if origin.reads else tuple(path for each in paths for path in each)


def sought(benchmark: Benchmark) -> str:
    """Describe the files with the benchmark's questions, relative to the data folder; "" if nothing says."""
    return "" if benchmark.origin is None else " or ".join(_names(benchmark.origin))


def _names(origin: Origin) -> tuple[str, ...]:
    return origin.reads or tuple(file.to for file in origin.files if not file.unpack)


def elsewhere(benchmark: Benchmark) -> Path | None:
    """Return the folder of another tool that may hold the benchmark's files, None without one."""
    origin = benchmark.origin
    return None if origin is None or origin.elsewhere is None else origin.elsewhere()


def how_to_obtain(benchmark: Benchmark) -> str:
    """Say how to get the benchmark's files; "" if its origin does not."""
    origin = benchmark.origin
    if origin is None or origin.apply or not origin.files:
        return "" if origin is None else origin.apply
    terms = f"{origin.terms[0].upper()}{origin.terms[1:]}, then fetch it" if origin.terms else "Fetch it"
    folder = origin.files[0].to.partition("/")[0]
    by_hand = f"; or put the files of {HUB}/datasets/{origin.hub} into DATA/{folder}/" if origin.hub else ""
    note = f" ({origin.note})" if origin.note else ""
    return f"{terms}: medvqa fetch {benchmark.name} --data=DATA{by_hand}{note}"
