"""`medvqa lexicon --html`: a page of questions without results."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import table_files
from medvqa.cli import main
from medvqa.report import bundle, html
from support import pages
from support.bundles import BundleReader


def test_the_lexical_tree_is_a_page_without_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    file = tmp_path / "tree.html"
    assert main(["lexicon", "--benchmark=phantom", f"--html={file}"]) == 0
    assert str(file) in capsys.readouterr().out
    parsed = pages.Page(file.read_text())
    pages.check_frame(parsed)
    assert not [name for name in parsed.blocks if name.startswith(("answers/", "images/"))]
    read = BundleReader({name: parsed.bytes_of(name) for name in parsed.blocks})
    assert (read.head["kind"], read.head["runs"], read.columns["results.question"]) == ("tree", [], ())
    assert {image["why"] for image in read.tables["images"]} == {"this page has no images"}
    items = {
        (benchmark.name, item.id): item
        for benchmark in pages.PHANTOM.values()
        for item in benchmarks.load(benchmark, Path())
    }
    assert len(read.columns["questions.id"]) == len(items) == 307
    for q, place in enumerate(read.columns["questions.id"]):
        benchmark = read.head["benchmarks"][read.columns["questions.benchmark"][q]]
        item = items[benchmark["name"], read.word(place)]
        assert read.word(read.columns["questions.text"][q]) == item.question
        assert dict(read.options(read.columns["questions.options"][q])) == item.options
        tags = {
            dimension["name"]: tuple(dimension["values"][value]["value"] for value in read.listed(f"tags/{d}", q))
            for d, dimension in enumerate(read.head["dimensions"])
        }
        assert {name: values for name, values in tags.items() if values} == {"kind": (item.kind,), **item.tags}
        assert benchmark["command"] == f"pytest --model=MODEL --benchmark={item.benchmark}"


def test_the_command_names_the_file_that_declares_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "klinik.toml").write_text('file = "a.csv"')
    head = json.loads(bundle.of_tree([(table_files.read(tmp_path / "klinik.toml"), ())])["head"])
    assert head["benchmarks"][0]["command"] == "pytest --model=MODEL --benchmark=klinik.toml"


def test_a_tree_of_hostile_tags_is_the_frame_and_blocks() -> None:
    benchmark, results = pages.hostile()
    items = [replace(result.item, tags={"__proto__": ("constructor",), **result.item.tags}) for result in results]
    pages.check_frame(pages.Page(html.lexicon_page([(benchmark, items)]).decode()))


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "--benchmark=phantom-mediconfusion", f"--html={tmp_path / 'no' / 'tree.html'}"]) == 4
    assert "tree.html: cannot be written: No such file or directory" in capsys.readouterr().err
