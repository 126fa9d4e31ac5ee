"""Samples of the neighbours' data sets in their released formats, and what becomes of them.

`tests/kept/neighbours/NAME.json` has the sample of benchmarks/NAME.py. Values are made up. By hand:

- `files`: rows by file; `{"grey": 10}` is a picture in a cell. `pictures`: files of pictures, with their grey.
- `answers` are tried for every question; `said` are the answers of one run.
- `cases`: a question, an answer, its outcome by our rule and by the owners', computed by hand, and the trap, if any.
- `others`: further samples. `files` replaces files (null: it is missing); `set`, `without` and `add` change a `row` (0)
  of the first file.

`python -m support.neighbours` in tests/ writes the rest, `expected` and `gives`: a change of it changes a benchmark.
"""

from __future__ import annotations

import copy
import csv
import importlib
import io
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import PIL.Image

from medvqa import benchmarks, metrics
from medvqa.benchmarks import origins
from medvqa.items import TECHNIQUES, Answer, Benchmark, Image, Item, Kit, MedVQAError, Metric, Prompt, Result, Score
from medvqa.scoring import rules

KEPT = Path(__file__).parents[1] / "kept" / "neighbours"
FILES = tuple(sorted(path.stem for path in KEPT.glob("*.json")))
"""The neighbours by the names of their files."""

CANARY = "zebracanary"
"""Stands in columns that hold the answer, such as Findings, Caption and explanation: it must reach no output."""
PATIENT = "MUSTERMANN"
"""The patient, also in paths of images, of data that are not public: it must reach no file of a run."""

SHOWN = 118
"""Characters of a line of JSON."""
CANDIDATES = ("left lung", "Yes", "liver")
"""Answers to training questions, for LLaVA-Med's accuracy of open answers."""


def png(grey: int = 100, size: tuple[int, int] = (4, 3)) -> bytes:
    """Return a grey picture; another `grey` gives other bytes."""
    buffer = io.BytesIO()
    PIL.Image.new("L", size, grey).save(buffer, "PNG")
    return buffer.getvalue()


def cell(grey: int = 100) -> dict[str, Any]:
    """Return a cell of a Parquet file that holds a picture, as the hub writes it."""
    return {"bytes": png(grey), "path": None}


def write_image(path: Path, grey: int = 100) -> None:
    """Write a picture, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(grey))


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a Parquet file, and the folders above it."""
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)


def write_rows(path: Path, rows: Any) -> None:
    """Write rows in the form that the name of the file tells; JSON may have another form than a list of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        write_parquet(path, [{name: _pictured(value) for name, value in row.items()} for row in rows])
    elif path.suffix == ".csv":
        with path.open("w", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    else:
        write_json(path, rows)


def _pictured(value: Any) -> Any:
    return cell(value["grey"]) if isinstance(value, dict) and value.keys() == {"grey"} else value


@dataclass(frozen=True)
class Neighbour:
    """A benchmark with questions in the sample of its file; `sample` is that file's content."""

    name: str
    sample: Mapping[str, Any]

    def write(self, data: Path) -> None:
        """Write the sample into a data folder."""
        write(data, self.sample["files"], self.sample["pictures"])


def kept(file: str) -> dict[str, Any]:
    """Return the sample of benchmarks/FILE.py, with what is expected of it."""
    content: dict[str, Any] = json.loads((KEPT / f"{file}.json").read_text("utf-8"))
    return content


def rows(file: str) -> list[dict[str, Any]]:
    """Return the rows of the first file of a sample."""
    return list(next(iter(kept(file)["files"].values())))


def found() -> list[Neighbour]:
    """Return the benchmarks that have questions in the samples."""
    return [Neighbour(name, sample) for file in FILES for sample in [kept(file)] for name in sample["expected"]]


def sample_of(name: str) -> Neighbour:
    """Return the sample of a benchmark."""
    return next(each for each in found() if each.name == name)


def write(data: Path, files: Mapping[str, Any], pictures: Mapping[str, int]) -> Path:
    """Write a sample into a data folder; return that."""
    for name, content in files.items():
        if content is not None:
            write_rows(data / name, content)
    for name, grey in pictures.items():
        write_image(data / name, grey)
    return data


def own(file: str) -> tuple[Benchmark, ...]:
    """Return the benchmarks of a file."""
    declared: tuple[Benchmark, ...] = importlib.import_module(f"medvqa.benchmarks.{file}").BENCHMARKS
    return declared


# --- what becomes of a sample -----------------------------------------------------------------------------------------


def redrawn(file: str) -> dict[str, Any]:
    """Return the content of a neighbour's file, with what becomes of its samples now."""
    content = kept(file)
    with tempfile.TemporaryDirectory() as folder:
        data = write(Path(folder), content["files"], content["pictures"])
        items = {each.name: _loaded(each, data) for each in own(file) if origins.files_of(each, data)}
        content["expected"] = {
            each.name: _expected(each, items[each.name], content, data) for each in own(file) if each.name in items
        }
    for other in content["others"]:
        with tempfile.TemporaryDirectory() as folder:
            data = write(Path(folder), _changed(content, other), content["pictures"])
            other["gives"] = {
                each.name: given
                for each in own(file)
                for known in [content["expected"].get(each.name, {}).get("items")]
                if (given := _gives(each, data, known)) != {}
            }
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def _changed(content: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The files of a further sample."""
    files: dict[str, Any] = copy.deepcopy(content["files"] | other.get("files", {}))
    changed = next(iter(files.values()))
    listed = list(changed.values()) if isinstance(changed, dict) else changed
    if {"set", "without", "add"} & other.keys():
        listed.extend(listed[0] | more for more in other.get("add", ()))
        row = listed[other.get("row", 0)]
        row |= other.get("set", {})
        for column in other.get("without", ()):
            del row[column]
    return files


def _loaded(benchmark: Benchmark, data: Path) -> tuple[Item, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return benchmarks.load(benchmark, data)


def _gives(benchmark: Benchmark, data: Path, known: Mapping[str, Any] | None) -> Any:
    """What differs in a further sample: an error, or the questions with the fields that are new, and warnings."""
    if not origins.files_of(benchmark, data):
        return {} if known is None else "no file"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            loaded = _shown(benchmarks.load(benchmark, data))
        except MedVQAError as error:
            return _plain(str(error), data)
    before = {name: (known or {}).get(name, {}) for name in loaded}
    changed: dict[str, Any] = {
        name: {field: item.get(field) for field in (*item, *before[name]) if item.get(field) != before[name].get(field)}
        for name, item in loaded.items()
        if item != before[name]
    }
    return {**changed, **({"warns": [str(warning.message) for warning in warned]} if warned else {})}


def _plain(text: str, data: Path) -> str:
    return text.replace(str(data.resolve()), "DATA").replace(str(data), "DATA")


def _shown(items: Sequence[Item]) -> dict[str, Any]:
    """The questions by id, without empty fields; digests of pictures are called by the first question that has them."""
    first = {item.cluster_id: f"that of {item.id}" for item in reversed(items)}
    return {item.id: _item(item, first) for item in items}


def _item(item: Item, clusters: Mapping[str | None, str]) -> dict[str, Any]:
    shown = {each.name: getattr(item, each.name) for each in fields(item) if getattr(item, each.name)}
    del shown["id"], shown["benchmark"]
    shown["images"] = [f"{image.name}: {_grey(image)}" for image in item.images]
    assert all(image.path.endswith(image.file) or image.cell for image in item.images)
    if re.search("[0-9a-f]{64}", item.cluster_id or ""):
        shown["cluster_id"] = clusters[item.cluster_id]
    plain: dict[str, Any] = json.loads(json.dumps(shown))
    return plain


def _grey(image: Image) -> str:
    try:
        return str(image.pil().convert("L").getpixel((0, 0)))
    except MedVQAError:
        return "missing"


def _expected(benchmark: Benchmark, items: Sequence[Item], content: Mapping[str, Any], data: Path) -> dict[str, Any]:
    name, tried = benchmark.name, content["answers"]
    numbered = [(item, Answer(text)) for item in items for text in tried]
    every = [
        Result("r", replace(item, id=f"{item.id}.{n}"), "", answer, benchmark.score(item, answer))
        for n, (item, answer) in enumerate(numbered)
    ]
    said = [
        Result("r", item, "", Answer(text), benchmark.score(item, Answer(text)))
        for item in items
        for text in [content["said"][name][item.id]]
    ]
    return {
        "facts": _facts(benchmark, items),
        "items": _shown(items),
        "prompts": _prompts(benchmark, items),
        "scores": {item.id: _scores(benchmark, item, tried) for item in items},
        "said": [line.partition(";")[0] for line in _measures(benchmark.metrics, benchmark, said) if ";" in line],
        "every": [_definition(metric) for metric in benchmark.metrics] + _measures(benchmark.metrics, benchmark, every),
        "kits": {kit: _kit(benchmark, kit, every) for kit in benchmark.owners.kits},
    }


def _facts(benchmark: Benchmark, items: Sequence[Item]) -> dict[str, Any]:
    kinds, origin = {item.kind for item in items}, benchmark.origin
    assert origin is not None
    return {
        "title": benchmark.title,
        "group": origin.group,
        "release": origin.release,
        "dimensions": benchmark.dimensions,
        "techniques": benchmark.techniques,
        "headline": benchmark.headline,
        "public": benchmark.public,
        "on_request": origin.on_request,
        "training": benchmark.owners.training,
        "judged": sorted(benchmark.judged),
        "official": rules.read_by(benchmark, "official", kinds),
    }


def _prompts(benchmark: Benchmark, items: Sequence[Item]) -> dict[str, Any]:
    """The texts of all prompts by question, and the rest of a prompt by its template."""
    named = {"": benchmark.prompt, **benchmark.prompts}
    shown: dict[str, Any] = {"templates": {}}
    for (name, ask), technique, item in ((n, t, i) for n in named.items() for t in TECHNIQUES for i in items):
        if isinstance(ask, str) or (technique != "mc" and technique not in benchmark.techniques):
            continue
        asked = shown.setdefault(f"{name or 'default'}, {technique}", {})
        try:
            prompt = ask(item, technique)
        except MedVQAError as error:
            asked[item.id] = str(error)
            continue
        left_out = len(item.images) - len(prompt.images)
        asked[item.id] = f"without {left_out} images: {prompt.text}" if left_out else prompt.text
        rest = _rest(prompt, item)
        assert shown["templates"].setdefault(prompt.template, rest) == rest
    return shown


def _rest(prompt: Prompt, item: Item) -> dict[str, Any]:
    same = (prompt.benchmark, prompt.item, prompt.kind, prompt.options)
    assert same == (item.benchmark, item.id, item.kind, item.options)
    assert prompt.images == item.images[: len(prompt.images)]
    left_out = {"text", "images", "benchmark", "item", "kind", "options", "technique", "template"}
    rest = {name: value for name, value in asdict(prompt).items() if value and name not in left_out}
    plain: dict[str, Any] = json.loads(json.dumps(rest))
    return plain


def _scores(benchmark: Benchmark, item: Item, tried: Sequence[str]) -> dict[str, list[str]]:
    """The answers by their score by our rule, and by the owners' where that differs."""
    shown: dict[str, list[str]] = {}
    for text in tried:
        ours, theirs = (rules.scorer(benchmark, rule)(item, Answer(text)) for rule in ("sound", "official"))
        shown.setdefault(_line(ours) + (f"; official: {_line(theirs)}" if theirs != ours else ""), []).append(text)
    return shown


def _line(score: Score) -> str:
    return f"{score.outcome} {score.value} [{', '.join(score.extracted)}] {score.why}"


def _definition(metric: Metric) -> str:
    flags = [each.name for each in fields(metric) if getattr(metric, each.name) is True]
    return f"{metric.name}: {metric.definition} ({', '.join([metric.unit, metric.better, *flags])})"


def _measures(counted: Sequence[Metric], benchmark: Benchmark, results: Sequence[Result]) -> list[str]:
    """Each measure in a line: name, value and n, with the signature; and its slices, if it is of the headline."""
    measured = metrics.measures(results, counted, benchmark.dimensions, benchmark="b", signature={})
    measured = [each for each in measured if not each.slice or each.name in benchmark.headline]
    return [
        " ".join([each.name, *each.slice.values(), f"= {each.value} of {each.n:g}"])
        + ("" if each.slice else f"; {each.signature}")
        for each in measured
    ]


def _kit(benchmark: Benchmark, kit: str, results: Sequence[Result]) -> list[str]:
    """What a kit counts, without a judge and with one."""
    lines = []
    for judged in (False, True):
        counted = benchmark.owners.kits[kit](Kit(judged=judged, training=lambda: CANDIDATES))
        lines += [_definition(metric) for metric in counted]
        lines += [line for line in _measures(counted, benchmark, results) if ";" in line]
    return list(dict.fromkeys(lines))


def dumped(value: Any, indent: int = 0) -> str:
    """Return JSON with what fits on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= SHOWN or not isinstance(value, dict | list) or not value:
        return line
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {dumped(each, indent + 1)}" for key, each in value.items()
        ]
    else:
        parts = [inner + dumped(each, indent + 1) for each in value]
    return "\n".join(["{["[isinstance(value, list)], ",\n".join(parts), " " * indent + "}]"[isinstance(value, list)]])


def main(names: Iterable[str]) -> None:
    """Write what becomes of the samples of these files, or of all."""
    for file in names or FILES:
        (KEPT / f"{file}.json").write_text(dumped(redrawn(file)) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
