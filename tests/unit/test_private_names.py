"""Results of private data get pseudonyms, and stay the same questions."""

import json
import os
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from medvqa.commands import classifying
from medvqa.comparing.matching import partners
from medvqa.items import DataError, Image, Item, QuestionKey, Result, Score
from medvqa.records import run_folder
from medvqa.records.private import Pseudonyms, is_pseudonym


def result(*images: Image, id: str = "q1", why: str = "", **fields: Any) -> Result:
    item = Item(id, "klinik", "short_answer", "Which organ?", answers=("liver",), images=images, **fields)
    return Result("run", item, "p", None, Score(None, "error", why=why))


@pytest.fixture
def scan(tmp_path: Path) -> Image:
    (tmp_path / "SMITH").mkdir()
    (tmp_path / "SMITH/JOHN.dcm").write_bytes(b"pixels")
    return Image("SMITH/JOHN.dcm?window=lung", str(tmp_path / "SMITH/JOHN.dcm"))


def test_names_are_replaced_also_in_reasons(scan: Image) -> None:
    why = f"image {scan.name}: damaged; {scan.path}: no; JOHN.dcm? yes; JOHN.dcmx no"
    shown = result(
        scan, why=why, cluster_id="patient 4711", extra={"patient": 4711, "n": 1, "meta": {"case_id": ["9"]}}
    )
    items = [shown.item, replace(shown.item, id="q2", cluster_id="patient 12")]
    hidden = Pseudonyms.of(items, digests=True).hidden(shown)
    (image,) = hidden.item.images
    name = f"sha256-{scan.sha256()[:12]}"
    assert image.name == f"{name}?window=lung"
    assert image.window == scan.window
    assert is_pseudonym(image)
    assert hidden.score.why == f"image {name}?window=lung: damaged; {name}: no; {name}? yes; {name}.dcmx no"
    assert hidden.item.cluster_id == "group 2"
    assert hidden.item.extra == {"patient": "source 1", "n": 1, "meta": {"case_id": ["source 2"]}}
    line = run_folder.encode(hidden)
    assert not [word for word in (b"SMITH", b"JOHN.dcm?w", b"4711") if word in line]
    assert run_folder.decode(line).item.images[0].key == scan.pinned().key


def test_a_run_folder_names_no_file_of_this_machine(scan: Image) -> None:
    line = run_folder.encode(result(scan))
    planted = line.replace(b'"path":""', json.dumps({"path": scan.path})[1:-1].encode())
    assert planted != line
    (image,) = run_folder.decode(planted).item.images
    assert image.path == ""
    with pytest.raises(DataError, match="not here"):
        image.read()


@pytest.mark.parametrize(
    "why",
    [
        "[Errno 2] No such file: '{path}x'",
        '{{"path": "{path_json}"}}',
        "file://{path_url}",
        "{folder} is no good folder",
        'series JÖHN "O\'Doe" is cut',
        "IMAGE {upper}: damaged",
        "{nfd} is cut",
        "cannot open {ascii}",
        "cannot open {bytes}",
        "file:{url}",
        "folder {top} has no series",
        "kept as /tmp/{joined}.npy",
        "cut: {cut}...",
    ],
)
def test_names_are_replaced_however_they_are_spelled(tmp_path: Path, why: str) -> None:
    path = tmp_path / 'SMITH ANN/CT/JÖHN "O\'Doe".nii.gz'
    path.parent.mkdir(parents=True)
    path.write_bytes(b"voxels")
    spelled = {"path": path, "path_json": json.dumps(str(path))[1:-1], "path_url": quote(str(path))}
    spelled |= {
        "nfd": unicodedata.normalize("NFD", path.name),
        "ascii": ascii(path.name),
        "bytes": os.fsencode(path),
        "url": quote(str(path), safe=""),
        "top": path.parent.parent,
        "joined": str(path).replace("/", "_"),
        "cut": str(path)[:-9],
    }
    text = why.format(**spelled, folder=path.parent, upper=str(path).upper())
    shown = result(Image(f"SMITH ANN/CT/{path.name}?axis=2&slice=1", str(path)), why=text)
    hidden = Pseudonyms.of([shown.item], digests=True).hidden(shown).score.why
    assert not re.search("smith|j.{1,6}hn|doe", hidden, re.IGNORECASE), hidden


@pytest.mark.parametrize(
    "why",
    [
        "cannot tokenize {question}",
        "ValueError: {question}\nA. liver",
        "in {spaced}",
        "too long: {cut}",
        "no log for {id}_1",
        "unread-1{id}",
    ],
)
def test_the_question_and_parts_of_the_id_are_replaced_in_errors(why: str) -> None:
    question = "Which organ of Mrs Smith\nis shown  here?"
    spelled = {"question": question, "spaced": " ".join(question.split()), "cut": question[:30], "id": "JÖHN_DOE"}
    shown = result(Image("1.png"), id="JÖHN-DOE-1", why=why.format(**spelled))
    shown = replace(shown, item=replace(shown.item, question=question))
    hidden = Pseudonyms.of([shown.item], digests=False).hidden(shown).score.why
    assert not re.search("smith|j.hn|doe|organ", hidden, re.IGNORECASE), hidden


def test_the_words_of_a_message_stay_in_errors(scan: Image) -> None:
    why = "benchmark 'klinik': the dcm file of this image cannot be read: Which GPU?"
    shown = result(scan, id="Klinik-Doe-1", why=why)
    assert Pseudonyms.of([shown.item], digests=False).hidden(shown).score.why == why


def test_an_option_called_as_a_file_stays_in_the_reason_of_a_score(tmp_path: Path) -> None:
    (tmp_path / "lung").mkdir()
    (tmp_path / "lung/heart.png").write_bytes(b"pixels")
    shown = result(Image("lung/heart.png", str(tmp_path / "lung/heart.png")))
    scored = replace(shown, score=Score(1.0, "correct", ("A",), "chose A (heart), not B (lung); heart.png"))
    why = Pseudonyms.of([shown.item], digests=False).hidden(scored).score.why
    assert why == "chose A (heart), not B (lung); unread-1"


def test_an_image_that_was_not_read_has_its_place(scan: Image) -> None:
    shown = result(scan, Image("MARY.png", "/nowhere/MARY.png"))
    hidden = Pseudonyms.of([shown.item], digests=True).hidden(shown)
    assert [image.file for image in hidden.item.images][1] == "unread-2"
    unread = Pseudonyms.of([shown.item], digests=False).hidden(shown)
    assert [image.name for image in unread.item.images] == ["unread-1?window=lung", "unread-2"]
    assert all(map(is_pseudonym, unread.item.images))
    assert not is_pseudonym(scan)


def test_a_number_that_is_a_files_name_stays_in_a_message(tmp_path: Path) -> None:
    shown = result(Image("42", str(tmp_path / "42")), why="HTTP 42")
    assert Pseudonyms.of([shown.item], digests=True).hidden(shown).score.why == "HTTP 42"


@pytest.mark.parametrize("digests", [True, False])
def test_groups_keep_their_order_and_do_not_depend_on_a_selection(digests: bool) -> None:
    items = [Item(f"q{n}", "klinik", "short_answer", cluster_id=f"patient {n:03}") for n in range(120)]
    groups = Pseudonyms.of(items, digests=digests).groups
    assert list(groups.values()) == sorted(groups.values()) == [f"group {n:03}" for n in range(1, 121)]
    assert Pseudonyms.of(reversed(items), digests=digests).groups == groups


def test_a_judge_gets_the_images_of_a_run_with_pseudonyms(tmp_path: Path, scan: Image) -> None:
    shown = result(scan)
    hidden = Pseudonyms.of([], digests=True).hidden(shown)
    (tmp_path / "other.dcm").write_bytes(b"other")
    assert classifying._same(hidden.item, shown.item)
    assert not classifying._same(hidden.item, result(Image("other.dcm", str(tmp_path / "other.dcm"))).item)
    assert not classifying._same(hidden.item, result().item)
    assert not classifying._same(shown.item, result(Image("other.dcm")).item)


def test_runs_with_names_and_with_digests_have_the_same_questions(tmp_path: Path, scan: Image) -> None:
    def run(*results: Result) -> dict[QuestionKey, list[Result]]:
        return {each.key: [each] for each in results}

    (tmp_path / "other.dcm").write_bytes(b"other")
    named = result(replace(scan, path=""))
    hidden = Pseudonyms.of([], digests=True).hidden(result(scan))
    unread = Pseudonyms.of([], digests=False).hidden(result(scan))
    other = Pseudonyms.of([], digests=True).hidden(
        result(Image("SMITH/JOHN.dcm?window=lung", str(tmp_path / "other.dcm")))
    )
    bone = Pseudonyms.of([], digests=True).hidden(result(replace(scan, name="SMITH/JOHN.dcm?window=bone", window=None)))
    for one, two in ((named, hidden), (hidden, named), (hidden, unread), (unread, named), (hidden, hidden)):
        assert partners(run(one), run(two))
    for one, two in ((hidden, other), (hidden, bone), (named, result()), (hidden, result())):
        assert not partners(run(one), run(two))
    renamed = replace(hidden, item=replace(hidden.item, id="q9"))
    assert partners(run(hidden), run(renamed)), "found by its content"
    renamed = replace(unread, item=replace(unread.item, id="q9"))
    assert not partners(run(unread), run(renamed)), "nothing tells that it is the same image"
