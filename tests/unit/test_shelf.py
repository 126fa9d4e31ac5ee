"""`medvqa data`: benchmarks that are there or not, whole or not."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa.cli import main
from medvqa.fetching import manifest, shelf
from medvqa.fetching.manifest import FileNote
from medvqa.items import Benchmark, DataError, Image, Item, Origin, OriginFile
from support import neighbours

TABLE = b'{"q1": "1.png", "q2": "2.png"}'


def items(data: Path) -> Iterator[Item]:
    try:
        table = json.loads((data / "made/table.json").read_text())
    except ValueError as error:
        raise DataError(f"made/table.json: not JSON: {error}") from None
    for name, image in table.items():
        yield Item(name, question="Is it?", images=(Image(f"made/images/{image}"),))


def origin(digest: str = "", *more: OriginFile, **about: Any) -> Origin:
    table = OriginFile(to="made/table.json", at="table.json", size=len(TABLE), digest=digest)
    images = (OriginFile(to=f"made/images/{n}.png", at=f"images/{n}.png") for n in (1, 2))
    told = {"licence": "CC0 1.0", "home": "https://example.org", "release": 2, "reads": ("made/table.json",)}
    return Origin(files=(table, *images, *more), **{**told, **about})


def made(**fields: object) -> Benchmark:
    return Benchmark(**{"name": "made", "items": items, "origin": origin(), **fields})  # type: ignore[arg-type]


BARE = Origin(reads=("made/table.json",))


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the whole benchmark, and a home folder of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("LMUData", "MEDVQA_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    (folder / "made/images").mkdir(parents=True)
    (folder / "made/table.json").write_bytes(TABLE)
    for number in (1, 2):
        (folder / f"made/images/{number}.png").write_bytes(neighbours.png(50 * number))
    return folder


def test_a_whole_benchmark_is_complete(data: Path) -> None:
    entry = shelf.look(made(), data)
    assert (entry.state, entry.questions, entry.images, entry.images_named) == ("complete", 2, 2, 2)
    assert entry.bytes == len(TABLE) + len(neighbours.png(50)) + len(neighbours.png(100))
    assert entry.digests == "none published"
    assert entry.lacks() == []
    assert entry.remedy == ""


def test_a_benchmark_without_a_number_of_questions_is_only_there(data: Path) -> None:
    assert shelf.look(made(origin=BARE), data).state == "there"
    assert shelf.look(Benchmark(name="own", items=lambda _: [Item("1")]), None).state == "complete"


def test_a_missing_image_makes_it_incomplete(data: Path) -> None:
    (data / "made/images/2.png").unlink()
    entry = shelf.look(made(), data)
    assert entry.state == "incomplete"
    assert entry.lacks() == ["1 of 2 images", "not there: made/images/2.png"]
    assert entry.remedy == "medvqa fetch made"


def test_fewer_questions_than_released_make_it_incomplete(data: Path) -> None:
    entry = shelf.look(made(origin=origin(release=5)), data)
    assert entry.state == "incomplete"
    assert "2 of 5 questions" in entry.lacks()


def test_a_file_of_another_size_makes_it_incomplete(data: Path) -> None:
    (data / "made/table.json").write_bytes(TABLE + b"  ")
    entry = shelf.look(made(), data)
    assert entry.state == "incomplete"
    assert entry.lacks() == [f"of another size: made/table.json ({len(TABLE) + 2} of {len(TABLE)} bytes)"]


def test_a_missing_benchmark_tells_how_to_get_it(data: Path) -> None:
    (data / "made/table.json").rename(data / "made/table.json.part")
    entry = shelf.look(made(origin=origin(terms="accept them at https://example.org")), data)
    assert entry.state == "missing"
    assert entry.lacks() == [
        "2 of 3 files are there",
        f"fetched in part: made/table.json ({len(TABLE)} of {len(TABLE)} bytes)",
    ]
    assert entry.remedy == "medvqa fetch made (accept them at https://example.org)"
    assert entry.bytes == len(neighbours.png(50)) + len(neighbours.png(100))
    apply = shelf.look(made(origin=replace(BARE, apply="Write to them")), None)
    assert apply.remedy == "Write to them"


def test_digests_are_computed_on_request(data: Path) -> None:
    md5 = hashlib.md5(TABLE, usedforsecurity=False).hexdigest()
    right, wrong = made(origin=origin(f"md5:{md5.upper()}")), made(origin=origin(f"md5:{'0' * 32}"))
    assert [shelf.look(each, data).digests for each in (right, wrong)] == ["not checked", "not checked"]
    assert shelf.look(right, data, check=True).digests == "as released"
    entry = shelf.look(wrong, data, check=True)
    assert (entry.state, entry.digests) == ("incomplete", "differ")
    assert entry.lacks() == ["with another digest: made/table.json"]


def note(path: Path, to: str, checked: str = "") -> FileNote:
    status = path.stat()
    return FileNote(to, status.st_size, hashlib.sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns, "", checked)


def test_files_that_fetch_has_checked_are_not_read_again(data: Path) -> None:
    sha = f"sha256:{hashlib.sha256(TABLE).hexdigest()}"
    table = data / "made/table.json"
    manifest.write(data / "made", note(table, "table.json", sha))
    assert shelf.look(made(origin=origin(sha)), data).digests == "as released"
    for number in (1, 2):
        manifest.write(data / "made", note(data / f"made/images/{number}.png", f"images/{number}.png"))
    assert shelf.look(made(), data).digests == "as fetched"
    (data / "made/images/2.png").write_bytes(neighbours.png(7))
    assert shelf.look(made(), data).digests == "not checked"
    entry = shelf.look(made(), data, check=True)
    assert (entry.digests, entry.digests_that_differ) == ("differ", ("made/images/2.png",))


def test_an_archive_may_be_unpacked_and_removed(data: Path) -> None:
    archive = OriginFile(to="made/images.zip", at="images.zip", unpack="made/images")
    assert shelf.look(made(origin=origin("", archive)), data).state == "complete"


@pytest.mark.parametrize("to", ["../outside", "/etc/passwd", "made/../../outside"])
def test_a_file_outside_of_the_data_folder_is_not_looked_at(data: Path, to: str) -> None:
    (data.parent / "outside").write_text("x")
    entry = shelf.look(made(origin=origin("", OriginFile(to=to, at="x"), release=None)), data)
    assert entry.files_absent == (to,)


def test_a_damaged_benchmark_is_unreadable(data: Path) -> None:
    (data / "made/table.json").write_text("{")
    entry = shelf.look(made(origin=BARE), data)
    assert entry.state == "unreadable"
    assert entry.lacks()[0].startswith("made/table.json: not JSON")


def test_questions_of_large_files_are_counted_on_request(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "LARGE", 10)
    told: list[str] = []
    entry = shelf.look(made(), data, tell=told.append)
    assert (entry.state, entry.questions, told) == ("there", None, [])
    entry = shelf.look(made(), data, check=True, tell=told.append)
    assert (entry.state, entry.questions) == ("complete", 2)
    assert told == ["counting the questions of made"]


def test_a_folder_of_vlmevalkit_is_found(data: Path, tmp_path: Path) -> None:
    lmu = tmp_path / "home/LMUData"
    (lmu / "made").mkdir(parents=True)
    (lmu / "made/table.json").write_bytes(TABLE)
    benchmark = made(origin=origin(elsewhere=lambda: lmu))
    assert not shelf.look(benchmark, data).vlmevalkit
    for nowhere in (None, tmp_path):
        entry = shelf.look(benchmark, nowhere)
        assert (entry.vlmevalkit, entry.folder, entry.questions, entry.images) == (True, str(lmu), 2, 0)


# The command.

PLUGIN = """
import medvqa
from pathlib import Path

def pytest_medvqa_benchmarks():
    return [medvqa.Benchmark(
        name="made",
        items=lambda data: [medvqa.Item("1", question="Is it?")],
        origin=medvqa.items.Origin(release=1,
                                   licence="CC0 1.0, and some more words \\x1b[31m that a table has no room for",
                                   home="https://example.org",
                                   files=(medvqa.items.OriginFile(to="made/table.json", at="table.json"),)),
    )]
"""


def test_the_command_lists_benchmarks(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("made.py").write_text(PLUGIN)
    assert main(["data", "--plugin=made.py", "made", "--data=data", "--json=list.json"]) == 0
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("made"))
    assert row.split()[:4] == ["made", "complete", "1", "–"]
    assert "\x1b" not in printed
    assert str(data / "made") in row
    (entry,) = json.loads(Path("list.json").read_text())
    assert (entry["state"], entry["questions"], entry["remedy"]) == ("complete", 1, "")
    assert entry["licence"].endswith("no room for")


def test_the_command_fails_for_a_named_benchmark_that_is_not_complete(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("made.py").write_text(PLUGIN)
    (data / "made/table.json").unlink()
    assert main(["data", "--plugin=made.py", "made", "--data=data"]) == 1
    assert "medvqa fetch NAME --data=data brings made" in capsys.readouterr().out
    assert main(["data", "--data=data"]) == 0
    printed = capsys.readouterr().out
    assert "phantom-mediconfusion" in printed
    assert "gmai-mmbench-val" in printed


def test_the_command_shows_vlmevalkit_s_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lmu = tmp_path / "home/LMUData"
    lmu.mkdir(parents=True)
    columns = ["index", "image", "question", "A", "B", "answer", "category", "clinical VQA task", "department"]
    columns += ["modality", "perceptual granularity", "original task"]
    cells = ["1", "iVBORw0KGgo=" * 9, "Is it?", "yes", "no", "A", "x", "Disease Diagnosis", "General Surgery", "CT"]
    cells += ["Image Level", "2D Classification"]
    (lmu / "GMAI-MMBench_VAL.tsv").write_text("\t".join(columns) + "\n" + "\t".join(cells) + "\n")
    (lmu / "MMMU_DEV_VAL.tsv").write_text("index\n")
    assert main(["data"]) == 0
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("gmai-mmbench-val"))
    assert "incomplete" in row
    assert "1 of 4,550" in row
    assert row.endswith(f"{lmu} (VLMEvalKit)")
    assert "GMAI-MMBench_VAL.tsv can be read here" in printed
    assert "in VLMEvalKit's own form: MMMU_DEV_VAL.tsv" in printed


def test_the_path_is_the_folder_of_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'pytest-medvqa[data]'")
    neighbours.sample_of("mmmu-health-val").write(tmp_path / "d")
    assert main(["data", "mmmu-health-val", "--data=d"]) == 1
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("mmmu-health-val"))
    assert row.split()[-1] == str(tmp_path / "d/mmmu-health")


def test_commands_to_fetch_name_the_data_folder_unless_the_variable_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["data", "vqa-rad"])
    assert "medvqa fetch NAME --data=DIR brings vqa-rad" in capsys.readouterr().out
    main(["data", "vqa-rad", f"--data={tmp_path / 'data'}"])
    assert f"medvqa fetch NAME --data={tmp_path / 'data'} brings vqa-rad" in capsys.readouterr().out
    monkeypatch.setenv("MEDVQA_DATA", str(tmp_path / "data"))
    main(["data", "vqa-rad"])
    assert "medvqa fetch NAME brings vqa-rad" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data=nowhere"], "--data=nowhere: no such folder"),
        (["phantm"], "no benchmark 'phantm'"),
        (["phantom", "--json=nowhere/list.json"], "--json=nowhere/list.json: cannot be written"),
    ],
)
def test_a_wrong_option_of_data_is_an_error(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", *words]) == 4
    assert message in capsys.readouterr().err
