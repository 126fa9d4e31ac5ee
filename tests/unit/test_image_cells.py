"""The index of a table agrees with pandas, finds every image, and says what is wrong with a bad table."""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import DataError, DataWarning
from medvqa.tables import TableRow, cached, image_cells, limits
from medvqa.tables.progress import show
from support.laws import examples

GENERATOR = Path(__file__).parents[2] / "bench" / "make_gmai.py"
PIXELS = [bytes([number]) * 100 for number in range(4)]
IMAGES = [base64.b64encode(pixels).decode() for pixels in PIXELS]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pytest-medvqa"


def table(folder: Path, content: str | bytes, name: str = "set.tsv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def made(folder: Path, content: str | bytes, **options: object) -> tuple[TableRow, ...]:
    return image_cells.read(table(folder, content), root=folder, **options)


def rows_of(*rows: str) -> str:
    return "index\timage\tquestion\n" + "".join(f"{row}\n" for row in rows)


# Agreement with pandas

text = st.text(st.one_of(st.sampled_from("\t\n\"', |A"), st.characters(exclude_categories=["Cs"])), max_size=12).map(
    lambda value: value.replace("\r", "").replace("\0", "")
)
picture = st.binary(min_size=49, max_size=300).map(lambda data: base64.b64encode(data).decode())


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    columns = draw(st.permutations(["Index", "image", "question", "A", "clinical VQA task"]))
    rows = draw(st.lists(st.tuples(text, text, text, picture), min_size=1, max_size=6))
    values = {
        "Index": [str(number) for number in range(len(rows))],
        "question": [row[0] for row in rows],
        "A": [row[1] for row in rows],
        "clinical VQA task": [row[2] for row in rows],
        "image": [row[3] for row in rows],
    }
    return pd.DataFrame({column: values[column] for column in columns}, dtype=str)


@given(
    frame=frames(),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    ending=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig"]),
    chunk=st.sampled_from([1, 7, 64, 2**20]),
    cut=st.booleans(),
)
@examples(300)
def test_cells_are_those_of_pandas_and_offsets_hold_the_images(
    tmp_path_factory: pytest.TempPathFactory,
    frame: pd.DataFrame,
    quoting: int,
    ending: str,
    encoding: str,
    chunk: int,
    cut: bool,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "random.tsv"
    frame.to_csv(path, sep="\t", index=False, quoting=quoting, lineterminator=ending, encoding=encoding)
    content = path.read_bytes()
    if cut and not content.endswith(b"\t" + ending.encode()):
        content = content.removesuffix(ending.encode())
        path.write_bytes(content)
    with mock.patch.object(image_cells, "PIECE", chunk):
        found = image_cells.read(path, root=folder, needed=["a"])
    reread = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    assert len(found) == len(frame) == len(reread)
    for row, wanted, seen in zip(found, frame.to_dict("records"), reread.to_dict("records"), strict=True):
        image = row.values["image"]
        cells = {column.lower(): value for column, value in wanted.items() if column != "image"}
        assert row.values == {**cells, "image": image}
        if "\r" not in content.decode(encoding).replace("\r\n", "\n"):
            cells = {column.lower(): value for column, value in seen.items() if column != "image"}
            assert row.values == {**cells, "image": image}
        assert content[image.cell.start : image.cell.start + image.cell.length].decode() == wanted["image"]
        assert image.digest == hashlib.sha256(base64.b64decode(wanted["image"])).hexdigest()
        assert image.read() == base64.b64decode(wanted["image"])


@given(
    content=st.one_of(
        st.binary(min_size=65, max_size=200),
        st.binary(min_size=60, max_size=200).map(base64.encodebytes),
        st.binary(min_size=60, max_size=90).map(lambda data: base64.b64encode(data) * 2),
        st.binary(min_size=60, max_size=90).map(lambda data: base64.b64encode(data)[:-1]),
    ),
    size=st.integers(1, 9),
)
def test_the_digest_in_pieces_is_the_digest_in_one(content: bytes, size: int) -> None:
    payload = image_cells._Payload()
    for start in range(0, len(content), size):
        payload.take(content[start : start + size])
    try:
        decoded = binascii.a2b_base64(content.translate(None, b" \t\r\n"), strict_mode=True)
    except binascii.Error:
        assert payload.digest() == ""
    else:
        assert payload.digest() == hashlib.sha256(decoded).hexdigest()


def test_values_that_pandas_takes_for_missing_are_text(tmp_path: Path) -> None:
    found = made(tmp_path, rows_of(*(f"{i}\t{IMAGES[0]}\t{v}" for i, v in enumerate(["N/A", "None", "NA", "", "nan"]))))
    assert [row.values["question"] for row in found] == ["N/A", "None", "NA", "", "nan"]


def test_rows_are_named_by_number_and_line(tmp_path: Path) -> None:
    found = made(tmp_path, rows_of(f'1\t{IMAGES[0]}\t"two\nlines"', "", f"2\t{IMAGES[1]}\tq"))
    assert [row.where for row in found] == ["set.tsv row 1 (line 2)", "set.tsv row 2 (line 5)"]
    assert found[1].values["image"].name == "set.tsv row 2"


def test_a_file_without_a_last_line_end_is_whole(tmp_path: Path) -> None:
    assert made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq")[:-1])[0].values["question"] == "q"


# References


def test_references_forward_backward_and_through_others_share_an_image(tmp_path: Path) -> None:
    found = made(tmp_path, rows_of("1\t3\tq", "2\t1\tq", f"3\t{IMAGES[0]}\tq", "4\t 3 \tq"))
    assert {row.values["image"].read() for row in found} == {PIXELS[0]}
    assert {row.values["image"].name for row in found} == {"set.tsv row 3"}


def test_a_reference_to_no_row_names_the_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"set\.tsv row 2 \(line 3\): its image is that of index '9', which no row has"):
        made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq", "2\t9\tq"))


@pytest.mark.parametrize("rows", [("1\t1\tq",), ("1\t2\tq", "2\t1\tq")])
def test_references_in_a_circle_name_the_row(tmp_path: Path, rows: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=r"set\.tsv row 1 \(line 2\): .* in a circle"):
        made(tmp_path, rows_of(*rows))


# Bad tables

BAD_TABLES = {
    "empty": (b"", r"set\.tsv: empty file"),
    "only a byte order mark": (b"\xef\xbb\xbf", r"set\.tsv: empty file"),
    "no rows": (rows_of(), r"set\.tsv: no rows"),
    "missing column": (
        "index\tquestion\n1\tq\n",
        r"set\.tsv: missing column image; found: index, question\. Is this the file of another data set\?",
    ),
    "other data set": ('[{"question": "What?"}]\n', r"set\.tsv: missing column index, image; found: "),
    "column twice": ("index\timage\tQ\tq\n", r"set\.tsv, first line: column 'q' occurs twice"),
    "truncated between cells": (
        rows_of(f"1\t{IMAGES[0]}\tq") + "2\t" + IMAGES[1][:90],
        r"set\.tsv row 2 \(line 3\): only 2 cells where the first line has 3; the file ends here, it may be truncated",
    ),
    "truncated in quotes": (
        rows_of(f"1\t{IMAGES[0]}\tq") + f'2\t{IMAGES[1]}\t"quo',
        r"set\.tsv row 2 \(line 3\): a quote is never closed, the file may be truncated",
    ),
    "too few cells": (
        rows_of("1", f"2\t{IMAGES[0]}\tq"),
        r"set\.tsv row 1 \(line 2\): only 1 cells where the first line has 3$",
    ),
    "too many cells": (
        rows_of(f"1\t{IMAGES[0]}\tq\tr"),
        r"set\.tsv row 1 \(line 2\): more cells where the first line has 3$",
    ),
    "text after a quote": (
        rows_of(f'1\t{IMAGES[0]}\t"a" b'),
        r"set\.tsv row 1 \(line 2\): text follows a closing quote",
    ),
    "not UTF-8": (
        rows_of(f"1\t{IMAGES[0]}\t").encode()[:-1] + b"\xe9\n",
        r"set\.tsv row 1 \(line 2\), column 'question': not UTF-8",
    ),
    "no index": (rows_of(f" \t{IMAGES[0]}\tq"), r"set\.tsv row 1 \(line 2\): 'index' is empty"),
    "index twice": (
        rows_of(f"7\t{IMAGES[0]}\tq", f"7\t{IMAGES[1]}\tq"),
        r"set\.tsv row 2 \(line 3\): index '7' is also that of row 1",
    ),
    "endless text": (
        rows_of(f"1\t{IMAGES[0]}\t" + "x" * (limits.MAX_TEXT + 1)),
        r"set\.tsv row 1 \(line 2\), column 'question': more than 1 MiB of text",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_names_file_and_row(tmp_path: Path, case: str) -> None:
    content, message = BAD_TABLES[case]
    with pytest.raises(DataError, match=message):
        made(tmp_path, content)


def test_columns_that_the_caller_needs_are_checked(tmp_path: Path) -> None:
    assert made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq"), needed=["question"])
    with pytest.raises(DataError, match=r"missing column answer, a; found: index, image, question"):
        made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq"), needed=["question", "answer", "a"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sub/set\.tsv: no such file"):
        image_cells.read(tmp_path / "sub" / "set.tsv", root=tmp_path)


@pytest.mark.parametrize("cell", ["x" * 65 + "!", IMAGES[0] + "=", ""])
def test_an_image_that_is_none_is_the_error_of_its_item_alone(tmp_path: Path, cell: str) -> None:
    rows = made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq", f"2\t{cell}\tq"))
    good, bad = (row.values["image"] for row in rows)
    assert good.read() == PIXELS[0]
    assert bad.digest == ""
    with pytest.raises(DataError, match=r"image set\.tsv row 2: (not base64|empty)"):
        bad.read()


# The stored index


class Calls(list[tuple[int, int]]):
    """A progress that keeps what it is told."""

    def __call__(self, done: int, total: int) -> None:
        self.append((done, total))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table counts as one that is worth to be indexed once."""
    monkeypatch.setattr(cached, "SMALL", 0)


@pytest.mark.usefixtures("large")
def test_the_second_start_reads_the_index(tmp_path: Path) -> None:
    first, second = Calls(), Calls()
    content = rows_of(f"1\t{IMAGES[0]}\tq", "2\t1\tq")
    found = made(tmp_path, content, progress=first)
    assert first[-1] == (len(content), len(content))
    assert image_cells.read(tmp_path / "set.tsv", root=tmp_path, progress=second) == found
    assert not second
    assert [path.name for path in tmp_path.glob("*set*")] == ["set.tsv"]


def test_a_small_table_leaves_nothing_beside_it(tmp_path: Path) -> None:
    calls = Calls()
    made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq"), progress=calls)
    assert [path.name for path in tmp_path.iterdir()] == ["set.tsv"]
    assert not calls


@pytest.mark.usefixtures("large")
def test_needed_columns_are_checked_in_a_stored_index_too(tmp_path: Path) -> None:
    made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq"))
    with pytest.raises(DataError, match="missing column answer"):
        image_cells.read(tmp_path / "set.tsv", root=tmp_path, needed=["answer"])


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("change", ["content and time", "content, not time", "length", "time"])
def test_a_changed_table_is_noticed(tmp_path: Path, change: str) -> None:
    before = rows_of(f"1\t{IMAGES[0]}\tbefore")
    path = table(tmp_path, before)
    image_cells.read(path, root=tmp_path)
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    after = {"length": "longer than before", "time": "before"}.get(change, "behind")
    table(tmp_path, rows_of(f"1\t{IMAGES[0]}\t{after}"))
    os.utime(path, ns=times if change == "content, not time" else (times[0], times[1] + 1))
    calls = Calls()
    assert image_cells.read(path, root=tmp_path, progress=calls)[0].values["question"] == after
    assert calls


@pytest.mark.usefixtures("large")
def test_an_index_that_cannot_be_stored_is_a_warning(tmp_path: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("")
    with pytest.warns(DataWarning, match=r"the index of set\.tsv could not be stored and is made again next time"):
        found = made(tmp_path, rows_of(f"1\t{IMAGES[0]}\tq"))
    assert len(found) == 1
    assert not list(tmp_path.glob(".*"))


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def powerless() -> Iterator[None]:
    """Be a user for whom read-only folders are read-only."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    folder.chmod(0o555)
    try:
        with powerless():
            yield
    finally:
        folder.chmod(0o755)


INDEX = """
import sys
from pathlib import Path
from medvqa.tables import image_cells
from medvqa.tables import cached
cached.SMALL = 0
calls = []
path = Path(sys.argv[1])
found = image_cells.read(path, root=path.parent, progress=lambda done, total: calls.append(done))
print(len(found), "built" if calls else "read")
"""


@pytest.mark.usefixtures("large")
def test_in_a_read_only_folder_the_index_lies_in_the_cache(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, cache = public / "data", public / "cache"
    data.mkdir()
    cache.mkdir()
    cache.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    path = table(data, rows_of(f"1\t{IMAGES[0]}\tq"))
    calls = Calls()
    with read_only(data):
        found = image_cells.read(path, root=data)
        assert image_cells.read(path, root=data, progress=calls) == found
    assert not calls
    assert [file.name for file in data.iterdir()] == ["set.tsv"]
    (stored,) = (cache / "pytest-medvqa").glob("set.tsv-*.jsonl")
    assert stored.read_text().count("\n") == 3


@pytest.mark.usefixtures("large")
def test_without_any_place_to_write_the_table_is_read_all_the_same(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(public / "cache"))
    path = table(public, rows_of(f"1\t{IMAGES[0]}\tq"))
    with read_only(public), pytest.warns(DataWarning, match=r"the index of set\.tsv could not be stored"):
        assert len(image_cells.read(path, root=public)) == 1


def test_a_table_that_may_not_be_read_is_named(public: Path) -> None:
    path = table(public, rows_of(f"1\t{IMAGES[0]}\tq"))
    path.chmod(0)
    with read_only(public):
        for call in (lambda: image_cells.read(path, root=public), lambda: image_cells.distinct([path])):
            with pytest.raises(DataError, match=r"set\.tsv: cannot be read: Permission denied"):
                call()


def test_of_several_processes_one_builds_the_index(tmp_path: Path) -> None:
    rows = (f"{number}\t{base64.b64encode(bytes(300_000)).decode()}\tq" for number in range(100))
    path = table(tmp_path, rows_of(*rows))
    runs = [
        subprocess.Popen([sys.executable, "-c", INDEX, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert sorted(run.communicate()[0] for run in runs) == ["100 built\n", "100 read\n", "100 read\n"]


def test_distinct_leaves_out_copies(tmp_path: Path) -> None:
    one, copy = (table(tmp_path, rows_of("1\t2\tq"), name) for name in ("a.tsv", "b.tsv"))
    other = table(tmp_path, rows_of("1\t3\tq"), "c.tsv")
    assert image_cells.distinct([one, copy, other]) == [one, other]


# An index is the user's own


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("change", ["edited", "of another version", "writable by others", "a link", "a pipe"])
def test_an_index_that_is_not_to_be_trusted_is_made_again(tmp_path: Path, cache: Path, change: str) -> None:
    """What else `cached` does not read is tested there."""
    found = made(tmp_path, "index\timage\tanswer\n" + "".join(f"{n}\t{IMAGES[n]}\t{'AB'[n % 2]}\n" for n in range(4)))
    (stored,) = cache.glob("*.jsonl")
    whole = stored.read_bytes()
    if change == "edited":
        stored.write_bytes(whole.replace(b'"answer":"A"', b'"answer":"B"'))
    elif change == "of another version":
        stored.write_bytes(whole.replace(f"[{image_cells.FORMAT},".encode(), b"[0,", 1))
    elif change == "writable by others":
        stored.chmod(0o666)
    else:
        stored.rename(tmp_path / "elsewhere")
        if change == "a link":
            stored.symlink_to(tmp_path / "elsewhere")
        else:
            os.mkfifo(stored)
    for expected in (1, 0):
        with mock.patch.object(image_cells, "_indexed", wraps=image_cells._indexed) as indexed:
            assert image_cells.read(tmp_path / "set.tsv", root=tmp_path) == found
            assert indexed.call_count == expected
        assert stored.read_bytes() == whole
        assert stored.stat().st_mode & 0o777 == 0o600
        assert not stored.is_symlink()


@pytest.mark.usefixtures("large")
def test_an_index_beside_the_table_is_not_read(tmp_path: Path, cache: Path) -> None:
    found = made(tmp_path, rows_of(f"1\t{IMAGES[1]}\tq"))
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["set.tsv"]
    (stored,) = cache.glob("*.jsonl")
    (tmp_path / "set.tsv.medvqa-index.jsonl").write_bytes(stored.read_bytes().replace(b'"q"', b'"p"'))
    stored.unlink()
    assert image_cells.read(tmp_path / "set.tsv", root=tmp_path) == found


@pytest.mark.usefixtures("large")
def test_a_change_in_the_middle_with_the_old_time_is_noticed(tmp_path: Path) -> None:
    rows = [f"{n}\t{IMAGES[n % 4]}\tquestion" for n in range(40)]
    with mock.patch.object(image_cells, "PIECE", 64):
        path = table(tmp_path, rows_of(*rows))
        image_cells.read(path, root=tmp_path)
        status = path.stat()
        with path.open("r+b") as file:
            file.seek(file.read().index(b"question", status.st_size // 2))
            file.write(b"Question")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        found = image_cells.read(path, root=tmp_path)
    assert [row.values["question"] for row in found].count("Question") == 1


# Progress


def test_progress_without_a_terminal_is_a_line_at_start_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    with show(Path("big.tsv")) as progress:
        progress(0, 2_500_000_000)
        assert capsys.readouterr().err == "indexing big.tsv, 2.50 GB, once ...\n"
        progress(2_500_000_000, 2_500_000_000)
    assert capsys.readouterr().err == "indexed big.tsv in 0 s\n"


def test_progress_in_a_terminal_is_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with show(Path("[red]big.tsv")) as progress:
        progress(1_000_000_000, 2_000_000_000)
    assert "indexing [red]big.tsv" in (shown := capsys.readouterr().err)
    assert "1.0/2.0 GB" in shown


def test_progress_that_is_never_called_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with show(Path("big.tsv")):
        pass
    assert capsys.readouterr().err == ""


# Size

MEMORY = """
import resource, sys
from pathlib import Path
from medvqa.tables import image_cells
path = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = image_cells.read(path, root=path.parent)
print(len(found), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 600])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, rows: int) -> None:
    subprocess.run([sys.executable, GENERATOR, tmp_path, "--rows", str(rows), "--bytes", "150e6"], check=True)
    path = tmp_path / "gmai-mmbench" / "GMAI-MMBench_VAL.tsv"
    assert 100e6 < path.stat().st_size < 200e6
    run = subprocess.run([sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True)
    count, kilobytes = map(int, run.stdout.split())
    assert count == rows
    assert kilobytes < 30_000
