"""Reviews that `medvqa view` keeps in a run folder: checked, whole, by one writer at a time, read by the commands."""

import json
import os
import stat
from pathlib import Path

import pytest

from medvqa.cli import main
from medvqa.items import Answer, DataError, Item, Judgement, Result, Score
from medvqa.judging import taxonomy
from medvqa.judging.taxonomy import Classified, ErrorJudge, ErrorSample
from medvqa.records import run_folder, selected
from medvqa.records.run_folder import RESULTS, Recorder
from medvqa.view import reviews
from medvqa.view.reviews import ReviewsChanged
from medvqa.view.run_index import RunIndex

NAME = "shapes"


def result(name: str, response: str = "It is A.") -> Result:
    """A wrong answer that a judge scored."""
    item = Item(name, NAME, "short_answer", "Which lesion?", {}, ("wheal",), cluster_id=f"c{name}")
    judgement = Judgement("gpt-4", "judging/score@1f2e3d4c", "score", ("<result>0</result>",))
    return Result("run", item, "", Answer(response), Score(0.0, "wrong"), "mc", judgement)


def append(folder: Path, *results: Result) -> str:
    """Add results to a run folder; return the digest of its answers."""
    recorder = Recorder(folder)
    for each in results:
        recorder.append(run_folder.encode(each))
    recorder.close()
    return run_folder.answers_digest(run_folder.read(folder).results)


def line(digest: str, name: str, **changes: object) -> str:
    key = {"benchmark": NAME, "item": name, "technique": "mc"}
    return json.dumps({"review": 1, "run": digest, **key, "tags": ["perception"], **changes}) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    append(tmp_path / "run", *(result(str(n)) for n in range(4)))
    return tmp_path / "run"


@pytest.fixture
def digest(folder: Path) -> str:
    return run_folder.answers_digest(run_folder.read(folder).results)


def test_what_is_saved_is_read_again(folder: Path, digest: str) -> None:
    empty = reviews.read(RunIndex(folder))
    assert (empty.text, empty.earlier) == ("", 0)
    text = line(digest, "0", comment="é") + line(digest, "1")
    tag = reviews.save(RunIndex(folder), text, empty.etag)
    saved = reviews.read(RunIndex(folder))
    assert (saved.text, saved.etag) == (text, tag) != ("", empty.etag)
    assert reviews.save(RunIndex(folder), "", tag) == empty.etag
    assert not (folder / reviews.FILE).exists()


def test_a_change_by_another_is_no_loss(folder: Path, digest: str) -> None:
    before = reviews.read(RunIndex(folder)).etag
    tag = reviews.save(RunIndex(folder), line(digest, "0"), before)
    with pytest.raises(ReviewsChanged, match="changed meanwhile"):
        reviews.save(RunIndex(folder), line(digest, "1"), before)
    assert reviews.read(RunIndex(folder)).text == line(digest, "0")
    reviews.save(RunIndex(folder), line(digest, "0") + line(digest, "1"), tag)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "reviews line 1: not JSON"),
        ('{"id": 1}', "reviews line 1: 'review' is None"),
        (line("f" * 32, "0"), "of another run"),
        ("OWN9", "reviews line 1: the run has no result 'shapes 9 mc'"),
        ("OWN0OWN0", "reviews line 2: a second review of 'shapes 0 mc', after reviews line 1"),
    ],
)
def test_a_wrong_file_is_refused_and_nothing_is_written(folder: Path, digest: str, text: str, message: str) -> None:
    for name in "09":
        text = text.replace(f"OWN{name}", line(digest, name))
    with pytest.raises(DataError, match=message):
        reviews.save(RunIndex(folder), text, reviews.read(RunIndex(folder)).etag)
    assert sorted(path.name for path in folder.iterdir()) == [RESULTS]


def test_reviews_of_earlier_answers_move_aside(folder: Path, digest: str) -> None:
    reviews.save(RunIndex(folder), line(digest, "0"), reviews.read(RunIndex(folder)).etag)
    now = append(folder, result("4"))
    saved = reviews.read(RunIndex(folder))
    assert (saved.text, saved.earlier) == ("", 1)
    with pytest.raises(DataError, match="of another run"):
        reviews.save(RunIndex(folder), line(digest, "0"), saved.etag)
    reviews.save(RunIndex(folder), line(now, "4"), saved.etag)
    assert reviews.read(RunIndex(folder)).text == line(now, "4")
    assert (folder / f"reviews-{digest[:12]}.jsonl").read_text() == line(digest, "0")


def test_permissions_are_those_of_the_results(folder: Path, digest: str) -> None:
    (folder / RESULTS).chmod(0o640)
    reviews.save(RunIndex(folder), line(digest, "0"), reviews.read(RunIndex(folder)).etag)
    assert stat.S_IMODE((folder / reviews.FILE).stat().st_mode) == 0o640


@pytest.mark.parametrize("digest_there", ["../../x", "a/b", "", "x" * 500, "\u202e"])
def test_a_hostile_digest_names_no_file_elsewhere(folder: Path, digest: str, digest_there: str) -> None:
    (folder / reviews.FILE).write_text(line(digest_there, "0"))
    reviews.save(RunIndex(folder), line(digest, "0"), reviews.read(RunIndex(folder)).etag)
    assert len(list(folder.glob("reviews-*.jsonl"))) == 1
    assert not list(folder.parent.glob("*.jsonl"))


def test_a_link_is_neither_read_nor_written_through(folder: Path, digest: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (folder / reviews.FILE).symlink_to(secret)
    with pytest.raises(DataError, match="symbolic link"):
        reviews.read(RunIndex(folder))
    with pytest.raises(DataError, match="symbolic link"):
        reviews.save(RunIndex(folder), line(digest, "0"), "x")
    assert secret.read_text() == "secret"


@pytest.mark.parametrize("content", [b"\xff", b"[1]", b"{", b"\x00" * 100])
def test_a_damaged_file_has_its_reason(folder: Path, content: bytes) -> None:
    (folder / reviews.FILE).write_bytes(content)
    try:
        assert reviews.read(RunIndex(folder)).text == ""
    except DataError as error:
        assert str(error).startswith(reviews.FILE)


def test_the_digest_is_that_of_the_page(folder: Path, digest: str) -> None:
    """The last line of a key counts, and broken lines count as none."""
    with (folder / RESULTS).open("ab") as file:
        file.write(b"broken\n\n")
    now = append(folder, result("0", "Another."))
    assert now != digest
    reviews.save(RunIndex(folder), line(now, "0"), reviews.read(RunIndex(folder)).etag)


def test_the_commands_read_the_saved_file(folder: Path, digest: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(line(digest, str(n), score=0.5 if n else 0.0) for n in range(4))
    reviews.save(RunIndex(folder), text, reviews.read(RunIndex(folder)).etag)
    assert main(["agreement", str(folder), f"--human={folder / reviews.FILE}"]) == 0
    assert "gpt-4 – reviews" in capsys.readouterr().out
    results = run_folder.read(folder).results
    gmai = taxonomy.shipped("gmai-mmbench")
    classified = Classified(
        taxonomy.digest(results),
        {NAME: gmai},
        {NAME: ErrorSample(4, 4, "", {})},
        tuple(taxonomy.label_of(each, "irrelevant response", "judge") for each in results),
        ErrorJudge("gpt-4", "gpt-4@12345678", "judging/kind@12345678", False),
    )
    corrections = taxonomy.corrections([folder / reviews.FILE], classified, results, say=lambda line: None)
    assert set(corrections["reviews"].values()) == {"perceptual error"}


def test_the_file_is_none_of_the_results(folder: Path, digest: str) -> None:
    before = run_folder.read(folder)
    reviews.save(RunIndex(folder), line(digest, "0"), reviews.read(RunIndex(folder)).etag)
    assert run_folder.read(folder) == before
    assert selected.selected(folder) == ()
    assert not [name for name in os.listdir(folder) if name.startswith(".medvqa-")]
