"""The neighbours: samples in their released formats load, are scored as by hand, and reveal no answer."""

from __future__ import annotations

import base64
import gzip
import json
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medvqa import benchmarks, metrics, tables
from medvqa.benchmarks import origins
from medvqa.cli import main
from medvqa.items import Answer, Benchmark, DataError, Item, Result
from support.neighbours import CANARY, NAMES, PATIENT, Neighbour, found

pytest.importorskip("pyarrow")

SAMPLES = found()
every = pytest.mark.parametrize("neighbour", SAMPLES, ids=[sample.name for sample in SAMPLES])


def benchmark_of(neighbour: Neighbour) -> Benchmark:
    (benchmark,) = (each for each in benchmarks.pytest_medvqa_benchmarks() if each.name == neighbour.name)
    return benchmark


def loaded(neighbour: Neighbour, data: Path) -> tuple[Benchmark, dict[str, Item]]:
    neighbour.write(data)
    benchmark = benchmark_of(neighbour)
    return benchmark, {item.id: item for item in benchmarks.load(benchmark, data)}


def test_the_samples_are_of_all_neighbours() -> None:
    assert sorted(sample.name for sample in SAMPLES) == sorted(NAMES)


@every
def test_a_sample_loads_with_its_images_and_prompts(neighbour: Neighbour, tmp_path: Path) -> None:
    benchmark, items = loaded(neighbour, tmp_path)
    assert list(items) == list(neighbour.ids)
    for item in items.values():
        assert item.images
        for image in item.images:
            assert image.pil().size == (4, 3), image.name
        asked = [benchmark.prompt, *benchmark.prompts.values()]
        prompts = [prompt(item, "mc") for prompt in asked if not isinstance(prompt, str)]
        for text in neighbour.texts.get(item.id, ()):
            assert text in prompts[0].text
        assert CANARY not in repr([item, *prompts])
        assert prompts[0].images == item.images
        assert prompts[0].max_tokens


@every
def test_cases_are_scored_as_by_hand(neighbour: Neighbour, tmp_path: Path) -> None:
    benchmark, items = loaded(neighbour, tmp_path)
    assert neighbour.cases
    for case in neighbour.cases:
        item, answer = items[case.item], Answer(case.answer)
        score = benchmark.score(item, answer)
        assert (score.outcome, score.value) == (case.outcome, case.value), (case, score.why)
        if case.official is not None:
            assert benchmark.owners.rule is not None
            official = benchmark.owners.rule.score(item, answer)
            assert official.outcome == case.official, (case, official.why)


@every
def test_measures_are_those_computed_by_hand(neighbour: Neighbour, tmp_path: Path) -> None:
    benchmark, items = loaded(neighbour, tmp_path)
    assert neighbour.answers.keys() == items.keys()
    results = [
        Result("run", item, "", Answer(text), benchmark.score(item, Answer(text)))
        for item, text in ((items[name], text) for name, text in neighbour.answers.items())
    ]
    measured = {
        measure.name: measure
        for measure in metrics.measures(results, benchmark.metrics, (), benchmark=benchmark.name, signature={})
        if not measure.slice
    }
    for name, (numerator, denominator) in neighbour.measures.items():
        assert measured[name].n == denominator, name
        assert measured[name].value == pytest.approx(numerator / denominator), name


@every
def test_errors_about_bad_cells_reveal_no_answer(
    neighbour: Neighbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell of a sample holds each of some wrong values, one at a time."""
    neighbour.write(tmp_path)
    benchmark, read = benchmark_of(neighbour), tables.read
    rows: dict[Path, list[tables.TableRow]] = {}

    def spoilt(path: Path, **options: Any) -> Iterator[tables.TableRow]:
        if path not in rows:
            rows[path] = list(read(path, **options))
        for number, row in enumerate(rows[path]):
            wrong = {column: value} if number == place and column in row.values else {}
            yield msgspec.structs.replace(row, values=row.values | wrong)

    column, value, place = "", None, 0
    monkeypatch.setattr(tables, "read", spoilt)
    benchmarks.load(benchmark, tmp_path)
    columns = sorted({name for read_rows in rows.values() for row in read_rows for name in row.values})
    assert columns
    longest = max(map(len, rows.values()))
    for place, column, value in product(range(longest), columns, (None, "", "?", 7, ["?"], {"?": "?"})):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                said = repr(benchmarks.load(benchmark, tmp_path))
            except DataError as error:
                said = str(error)
                assert "\n" not in said
                assert "Error:" not in said, f"no line for people: row {place}, {column} = {value!r}: {said}"
        assert CANARY not in said
        assert CANARY not in " ".join(str(warning.message) for warning in warned)


@every
def test_its_file_says_where_it_comes_from(neighbour: Neighbour) -> None:
    origin = benchmark_of(neighbour).origin
    assert origin is not None
    assert origin.licence
    assert origin.home.startswith("https://")
    assert origins.how_to_obtain(benchmark_of(neighbour))
    assert origins.sought(benchmark_of(neighbour))


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The files of a folder, also unpacked: compressed ones, and the data of pages."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield path, content
            if content.startswith(b"\x1f\x8b"):
                yield path, gzip.decompress(content)
            for packed in re.findall(rb">([A-Za-z0-9+/=]{8,})<", content):
                with suppress(zlib.error):
                    yield path, zlib.decompress(base64.b64decode(packed))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with all samples."""
    folder = tmp_path / "data"
    folder.mkdir()
    for sample in SAMPLES:
        sample.write(folder)
    return folder


def test_columns_that_hold_the_answer_reach_no_file_and_no_terminal(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.chdir(root)
    assert main(["run", "--model=random", f"--data={data}", "--run=first"]) == 0
    printed = "".join(capfd.readouterr())
    written = dict(contents(root))
    about = json.loads(written[root / "reports/first/run.json"])
    assert about["benchmarks"].keys() == {sample.name for sample in SAMPLES}
    assert all(word.encode() in b"".join(dict(contents(data)).values()) for word in (CANARY, PATIENT))
    searched = [(path, content) for path, content in contents(tmp_path) if data not in path.parents]
    assert any(path.name == "index.html" and b"Which bone of patient 0" in content for path, content in searched)
    for word in (CANARY, PATIENT):
        assert [path.name for path, content in searched if word.encode() in content] == []
        assert word not in printed
