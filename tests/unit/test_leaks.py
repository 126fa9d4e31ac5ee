"""`medvqa leaks`: images and questions of a benchmark that a training set has, and scores without them."""

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import likeness, statistics
from medvqa.cli import main
from medvqa.comparing.without import WithoutOverlap
from medvqa.items import Image, Item, UsageError
from medvqa.likeness import near, questions, remembered
from medvqa.report import leaks
from medvqa.statistics import UnitTable
from support.laws import examples


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own, and the working folder `here`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "cache"


def picture(seed: int, size: int = 96) -> PIL.Image.Image:
    """A made-up scan: smooth patches in grey."""
    random = np.random.default_rng(seed)
    drawn = PIL.Image.new("L", (size, size), 20)
    draw = PIL.ImageDraw.Draw(drawn)
    for _ in range(12):
        x, y, r = (int(value) for value in random.integers(0, size, 3))
        draw.ellipse((x - r // 3, y - r // 4, x + r // 3, y + r // 4), fill=int(random.integers(40, 255)))
    return drawn.convert("RGB")


def encoded(image: PIL.Image.Image, kind: str = "PNG", **more: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **more)
    return buffer.getvalue()


# Hashes of images.


@examples(40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 60))
def test_near_hashes_are_those_of_a_full_comparison(seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    one = random.integers(0, 2**64, (7, 4), dtype=np.uint64)
    other = random.integers(0, 2**64, (40, 4), dtype=np.uint64)
    for row in range(30):
        flipped = [int(bit) for bit in random.integers(0, 256, int(random.integers(0, 70)))]
        other[row] = one[row % 7]
        for bit in flipped:
            other[row, bit // 64] ^= np.uint64(1 << (bit % 64))
    pairs = near.within(one, other, most)
    bits = np.array([[sum(int(a ^ b).bit_count() for a, b in zip(x, y, strict=True)) for y in other] for x in one])
    expected = sorted((i, int(bits[i, j]), j) for i, j in zip(*np.nonzero(bits <= most), strict=True))
    assert list(zip(pairs.one.tolist(), pairs.bits.tolist(), pairs.other.tolist(), strict=True)) == expected


def test_near_hashes_keep_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "COLUMNS", 10)
    other = np.array([[(1 << (n % 30)) - 1] for n in range(120)], dtype=np.uint64)
    pairs = near.within(np.zeros((1, 1), dtype=np.uint64), other, 29)
    assert len(pairs.one) == near.KEPT
    assert pairs.bits.tolist() == sorted(n % 30 for n in range(120))[: near.KEPT]


def test_no_hashes_are_near_to_none() -> None:
    nothing, one = np.empty((0, 4), dtype=np.uint64), np.zeros((1, 4), dtype=np.uint64)
    assert [len(near.within(a, b, 9).one) for a, b in ((nothing, one), (one, nothing), (nothing, nothing))] == [0, 0, 0]


def test_bits_are_counted_without_numpy_2_alike() -> None:
    words = np.random.default_rng(0).integers(0, 2**64, (50, 3), dtype=np.uint64)
    assert near.counted(words).tolist() == [[int(word).bit_count() for word in row] for row in words]


@pytest.mark.parametrize("seed", range(3))
def test_copies_look_alike_and_other_images_do_not(seed: int) -> None:
    image = picture(seed)
    look = likeness.fingerprint(encoded(image)).looks[0]

    def bits(copy: bytes) -> int:
        return (int(look, 16) ^ int(likeness.fingerprint(copy).looks[0], 16)).bit_count()

    assert bits(encoded(image, "JPEG", quality=60)) <= likeness.NEAR
    assert bits(encoded(image.resize((61, 61)))) <= likeness.NEAR
    assert bits(encoded(picture(seed + 100))) > 3 * likeness.NEAR


def test_a_file_saved_again_without_loss_has_the_same_pixels() -> None:
    jpeg = encoded(picture(1), "JPEG")
    one, other = likeness.fingerprint(jpeg), likeness.fingerprint(encoded(PIL.Image.open(io.BytesIO(jpeg)), "BMP"))
    assert one.content != other.content
    assert one.pixels == other.pixels


def test_orientations_are_those_of_a_picture_that_was_turned() -> None:
    image, flip = picture(2), PIL.Image.Transpose
    looks = likeness.fingerprint(encoded(image), turned=True).looks
    turned = [image.transpose(each) for each in (flip.ROTATE_90, flip.ROTATE_180, flip.ROTATE_270)]
    mirrored = image.transpose(flip.FLIP_LEFT_RIGHT)
    every = [image, *turned, mirrored, *(mirrored.transpose(flip(n)) for n in (2, 3, 4))]
    assert len(set(looks)) == 8
    for look, view in zip(looks, every, strict=True):
        assert (int(look, 16) ^ int(likeness.fingerprint(encoded(view)).looks[0], 16)).bit_count() <= 4


def test_plain_pictures_have_no_look() -> None:
    plain = likeness.fingerprint(encoded(PIL.Image.new("RGB", (40, 40), (9, 9, 9))))
    assert plain.pixels
    assert plain.looks == ()


def test_pictures_of_more_than_8_bits_are_scaled() -> None:
    values = np.asarray(picture(3).convert("L")).astype(np.uint16) * 16
    deep = likeness.fingerprint(encoded(PIL.Image.fromarray(values)))
    assert (int(deep.looks[0], 16) ^ int(likeness.fingerprint(encoded(picture(3))).looks[0], 16)).bit_count() <= 8


@pytest.mark.parametrize("data", [b"", b"nothing", encoded(picture(1))[:300], b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_what_is_no_picture_has_the_digest_of_its_bytes_alone(data: bytes) -> None:
    found = likeness.fingerprint(data)
    assert found.content
    assert found.why
    assert not found.pixels


def test_fingerprints_are_remembered_until_a_file_changes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(encoded(picture(number)))
    images = [Image(f"{n}.png", str(tmp_path / f"{n}.png")) for n in range(3)]
    read: list[str] = []
    of_image = remembered.of_image

    def counting(image: Image, *, turned: bool) -> likeness.Fingerprint:
        read.append(image.name)
        return of_image(image, turned=turned)

    monkeypatch.setattr(remembered, "of_image", counting)
    first = remembered.fingerprints(images, tmp_path)
    assert remembered.fingerprints(images, tmp_path) == first
    assert sorted(read) == ["0.png", "1.png", "2.png"]
    (tmp_path / "1.png").write_bytes(encoded(picture(7)))
    os.utime(tmp_path / "1.png", (1, 1))
    read.clear()
    assert remembered.fingerprints(images, tmp_path)[1] != first[1]
    assert read == ["1.png"]
    read.clear()
    assert len(remembered.fingerprints(images, tmp_path, turned=True)[0].looks) == 8
    assert len(read) == 3
    (stored,) = cache.rglob("*-looks.jsonl")
    assert stored.stat().st_mode & 0o077 == 0
    for damaged in (b"", b"[3,256]\n", stored.read_bytes()[:-5]):
        stored.write_bytes(damaged)
        assert remembered.fingerprints(images[:1], tmp_path) == first[:1]
    remembered.fingerprints(images, tmp_path)
    stored.chmod(0o666)
    read.clear()
    remembered.fingerprints(images, tmp_path)
    assert len(read) == 3, "anybody could have written it"


# Questions.


def test_what_is_remembered_names_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "SMITH_JOHN"
    folder.mkdir()
    (folder / "good.png").write_bytes(encoded(picture(1)))
    (folder / "bad.png").write_bytes(b"no picture")
    images = [Image(f"SMITH_JOHN/{name}", str(folder / name)) for name in ("good.png", "bad.png")]
    _, bad = remembered.fingerprints(images, folder)
    assert bad.why.startswith("not an image")
    stored = [file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert len(stored) == 1
    assert not [word for word in (b"SMITH", b"SMITH".hex().encode()) if word in stored[0]]


def test_words_are_compared_without_case_width_and_marks() -> None:
    assert likeness.words("<image>\nIs the ＬＩＶＥＲ enlarged?") == ["is", "the", "liver", "enlarged"]
    assert likeness.words("<image 1> T2-weighted_scan") == ["t2", "weighted", "scan"]
    assert likeness.words("图中有 CT 吗？") == ["图", "中", "有", "ct", "吗"]
    assert likeness.words("Größe der Läsion") == ["grösse", "der", "läsion"]


LONG = "Which of the following findings is most likely shown in this axial slice of the upper abdomen?"


def test_nearly_equal_questions_of_one_table_are_pairs() -> None:
    texts = [LONG, LONG.upper(), LONG.replace("Which", "What"), "Which plane?", "What plane?", f"Hint: {LONG}", ""]
    index = likeness.QuestionIndex(texts)
    assert index.of == [0, 0, 1, 2, 3, 4, 5]
    assert sorted(index.near()) == [(0, 1), (0, 4), (1, 4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LONG, ((0, 0.0),)),
        (LONG.upper().replace("?", " ."), ((0, 0.0),)),
        (f"Answer briefly.\n{LONG}\nA. cyst\nB. stone", ((0, 0.0),)),
        (f"USER: {LONG} Options: A. cyst B. stone ASSISTANT: A", ((0, 0.0),)),
        (LONG.replace("Which", "What"), ((0, pytest.approx(1 / 15, abs=1e-6)),)),
        (LONG.replace("axial", "coronal"), ()),
        ("Is it?", ((1, 0.0),)),
        ("Well, is it? It is.", ()),
        ("", ()),
    ],
)
def test_questions_are_found_in_texts(text: str, expected: Sequence[tuple[int, float]]) -> None:
    index = likeness.QuestionIndex([LONG, "is it", "", "Is it?"])
    assert index.of == [0, 1, 2, 1]
    assert len(index) == 2
    assert index.matches(text) == index.matches(text) == expected


@examples(100)
@given(st.lists(st.lists(st.sampled_from("abcde"), min_size=8, max_size=14), min_size=1, max_size=8), st.data())
def test_near_questions_are_those_of_a_full_comparison(questions: list[list[str]], data: st.DataObject) -> None:
    index = likeness.QuestionIndex(map(" ".join, questions))
    text = data.draw(st.lists(st.sampled_from("abcde"), max_size=30))

    def runs(of: list[str]) -> set[tuple[str, ...]]:
        return {tuple(of[i : i + 3]) for i in range(len(of) - 2)}

    shares = {
        place: len(runs(question) & runs(text)) / len(runs(question))
        for place, question in zip(index.of, questions, strict=True)
    }
    expected = {place for place, share in shares.items() if share >= likeness.ENOUGH}
    assert {place for place, _ in index.matches(" ".join(text))} == expected


def test_questions_of_one_form_are_found_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [f"Does the picture of the chest that was taken on day one show any {name}" for name in map(str, range(40))]
    expected = likeness.QuestionIndex(asked).matches(asked[3])
    assert len(expected) == 40
    monkeypatch.setattr(questions, "MANY", 1)
    assert likeness.QuestionIndex(asked).matches(asked[3]) == expected
    monkeypatch.setattr(questions, "MOST", 5)
    assert len(likeness.QuestionIndex(asked).matches(asked[3])) == 6


@pytest.mark.parametrize(
    "text", ["<image" + "_" * 500_000, "<" + " " * 500_000, "<image 1" * 60_000, "\ufdfa" * 50_000]
)
def test_hostile_texts_are_read_in_a_moment(text: str) -> None:
    assert likeness.QuestionIndex([LONG]).matches(text) == ()


# A training set.


@pytest.fixture
def training(tmp_path: Path) -> Path:
    folder = tmp_path / "train"
    (folder / "pics").mkdir(parents=True)
    return folder


def rows(folder: Path) -> dict[str, list[str]]:
    files = likeness.TrainingSet.listed(folder, "--against=X")
    return {row.where: list(row.texts) for table in files.tables for row in files.rows(table)}


def test_files_are_listed_by_their_kind(training: Path, tmp_path: Path) -> None:
    for name in ("a.png", "pics/b", "c.csv", "d.ZIP", "e.nii.gz", "f.md", ".hidden.png", "g.parquet"):
        (training / name).write_bytes(b"x")
    (training / ".git").mkdir()
    (training / ".git/h.png").write_bytes(b"x")
    (training / "linked").symlink_to(tmp_path)
    files = likeness.TrainingSet.listed(training, "--against=train")
    assert files.images == ("a.png", "e.nii.gz", "pics/b")
    assert files.tables == ("c.csv", "g.parquet")
    assert (files.archives, files.links, files.others) == (("d.ZIP",), ("linked",), 1)


def test_a_folder_that_cannot_be_read_is_listed(training: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (training / "a.png").write_bytes(b"x")
    scandir, shut = os.scandir, {"pics"}

    def scanned(path: str) -> object:
        if Path(path).name in shut:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scanned)
    files = likeness.TrainingSet.listed(training, "--against=X")
    assert (files.images, files.closed) == (("a.png",), ("pics",))
    shut.add("train")
    with pytest.raises(UsageError, match="--against=X: cannot be read: Permission denied"):
        likeness.TrainingSet.listed(training, "--against=X")


def test_every_text_of_a_table_counts(training: Path) -> None:
    (training / "a.csv").write_text("q,n\nWhy?,1\n")
    (training / "b.jsonl").write_text('{"turns": [{"value": "Who?"}, {"value": 7}]}\n{"turns": null}\n')
    (training / "c.json").write_text('[{"q": "What?"}, "bare"]')
    (training / "d.json").write_text('{"k1": {"q": "Where?"}, "data": [{"q": "When?"}]}')
    (training / "e.json").write_text('{"q": "one"}\n{"q": "two"}\n')
    assert rows(training) == {
        "a.csv row 2": ["Why?", "1"],
        "b.jsonl line 1": ["Who?"],
        "b.jsonl line 2": [],
        "c.json record 1": ["What?"],
        "c.json record 2": ["bare"],
        "d.json k1": ["Where?"],
        "d.json data 1": ["When?"],
        "e.json line 1": ["one"],
        "e.json line 2": ["two"],
    }


def item(name: str, question: str, *images: Path) -> Item:
    return Item(name, "b", "short_answer", question, images=tuple(Image(each.name, str(each)) for each in images))


def found(items: Sequence[Item], training: Path, **more: bool) -> likeness.Overlaps:
    trained = likeness.read(likeness.TrainingSet.listed(training, "--against=X"))
    return likeness.find(items, trained, training / "items", **more)


def test_each_kind_of_overlap_has_its_level(training: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.png" for n in range(6)]
    for number, path in enumerate(paths):
        path.write_bytes(encoded(picture(number)))
    (training / "pics/same.png").write_bytes(paths[0].read_bytes())
    picture(1).save(training / "pics/pixels.bmp")
    picture(2).save(training / "pics/alike.jpg", quality=70)
    picture(3).transpose(PIL.Image.Transpose.ROTATE_90).save(training / "pics/turned.png")
    table = [("pics/same.png", "Is it enlarged?"), ("pics/pixels.bmp", "Something else"), ("no.png", "Is it small?")]
    with (training / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "q"), *table])
    items = [
        *(item(str(n), "Is it enlarged?", path) for n, path in enumerate(paths[:4])),
        item("4", "Is it small?", paths[4]),
        item("5", "Nothing?", paths[5]),
        item("6", "Is it small?"),
        item("7", "Nothing?", tmp_path / "missing.png"),
        item("8", "Nothing?", paths[5], paths[0]),
    ]
    overlaps = found(items, training)
    assert overlaps.levels == {
        "0": "image and question",
        "1": "image",
        "2": "look-alike",
        "6": "question of no image",
        "8": "image",
    }
    assert overlaps.alone == {"3", "4"}
    assert set(overlaps.lacking) == {"7"}
    assert "no such file" in overlaps.lacking["7"]
    assert overlaps.up_to("look-alike") == {"0", "1", "2", "8"}
    first = next(each for each in overlaps.found if each.item == "0")
    assert (first.trained, first.joined, first.rows) == ("pics/same.png", True, 1)
    assert first.question is not None
    assert first.question.where == "t.csv row 2"
    turned = found(items, training, turned=True)
    assert turned.levels["3"] == "look-alike"
    (match,) = [each.match for each in turned.found if each.item == "3"]
    assert match is not None
    assert match.turn == "turned 90°"


@pytest.mark.parametrize(
    ("cell", "joined"),
    [
        ("xm1/source.png", True),
        ("imgs/xm1/source.png", True),
        ("/data/old/imgs/xm1/source.png", True),
        ("..\\imgs\\xm1\\source.png", True),
        ("source.png", False),
        ("xm2/source.png", False),
        ("xm1", False),
        ("long-file-name-1", True),
        ("7", False),
    ],
)
def test_a_row_names_an_image_by_the_end_of_its_path(training: Path, tmp_path: Path, cell: str, joined: bool) -> None:
    for number, name in enumerate(("xm1/source.png", "xm2/source.png", "xm3/long-file-name-1.png", "7.png")):
        (training / "imgs" / name).parent.mkdir(parents=True, exist_ok=True)
        (training / "imgs" / name).write_bytes(encoded(picture(number if number < 2 else 0)))
    (tmp_path / "one.png").write_bytes(encoded(picture(0)))
    (training / "t.jsonl").write_text(json.dumps({"img": cell, "q": "Is it?"}) + "\n" + '{"img": "", "q": ""}\n')
    (overlap, *_) = found([item("1", "is it", tmp_path / "one.png")], training).found
    assert overlap.joined == joined


def test_images_within_tables_are_compared(training: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from base64 import b64encode

    from pyarrow import parquet

    values = [{"bytes": encoded(picture(n), "JPEG"), "path": None} for n in range(3)]
    parquet.write_table(pyarrow.table({"image": values, "text": ["Is it?", "Other", "Is it?"]}), training / "p.parquet")
    cells = b64encode(encoded(picture(5))).decode()
    (training / "t.tsv").write_text(f"index\timage\tquestion\n1\t{cells}\tIs it?\n")
    for number in (1, 2, 5):
        (tmp_path / f"{number}.png").write_bytes(encoded(picture(number)))
    overlaps = found([item(str(n), "Is it?", tmp_path / f"{n}.png") for n in (1, 2, 5)], training)
    assert overlaps.levels == {"1": "look-alike", "2": "image and question", "5": "image and question"}
    trained = {each.item: each.trained for each in overlaps.found}
    assert trained == {"1": "p.parquet record 2", "2": "p.parquet record 3", "5": "t.tsv row 1"}


def test_files_that_cannot_be_read_are_named_and_the_rest_compared(training: Path, tmp_path: Path) -> None:
    (training / "a.csv").write_text("q\nIs it?\nbroken,row\n")
    (training / "b.json").write_text("{")
    (training / "c.png").write_bytes(b"no picture")
    (training / "LICENCE").write_bytes(b"text")
    trained = likeness.read(likeness.TrainingSet.listed(training, "--against=X"))
    overlaps = likeness.find([item("1", "Is it?")], trained, tmp_path)
    assert overlaps.levels == {"1": "question of no image"}
    assert sorted(trained.unreadable) == ["a.csv", "b.json", "c.png"]


# Scores.


def table_of(numerators: Sequence[float], groups: Sequence[int], slices: Sequence[int] | None = None) -> UnitTable:
    size = len(numerators)
    units = np.arange(size) if slices is None else np.arange(size) // 2
    of = np.zeros(size, dtype=np.intp) if slices is None else np.asarray(slices)
    return UnitTable(np.array(numerators, float), np.ones(size), units, np.array(groups), of, int(of.max()) + 1)


def part_of(table: UnitTable, kept: Sequence[bool]) -> UnitTable:
    mask = np.array(kept, float)
    return UnitTable(
        table.numerator * mask, table.denominator * mask, table.unit, table.group, table.slice, table.slices
    )


def jackknife(table: UnitTable, kept: Sequence[bool], over: Sequence[int]) -> tuple[float, float]:
    """The difference and its standard error by leaving out each group in turn."""
    mask = np.array(kept)
    slices = [table.slice == place for place in over]
    shares = [1 - (own & mask).sum() / own.sum() for own in slices]

    def ratio(rows: np.ndarray) -> float:
        return float(table.numerator[rows].sum() / table.denominator[rows].sum())

    def difference(rows: np.ndarray) -> float:
        """The share that is left out, which is fixed, times clean minus left out."""
        apart = [ratio(rows & own & mask) - ratio(rows & own & ~mask) for own in slices]
        return float(np.mean([share * each for share, each in zip(shares, apart, strict=True)]))

    groups = np.unique(table.group)
    without = np.array([difference(table.group != group) for group in groups])
    size = len(groups)
    return difference(np.ones(len(mask), bool)), float(
        np.sqrt((size - 1) / size * ((without - without.mean()) ** 2).sum())
    )


@examples(20)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_difference_of_a_part_has_the_variance_of_a_jackknife(seed: int, macro: bool) -> None:
    random = np.random.default_rng(seed)
    size = 1200
    groups = np.sort(random.integers(0, 400, size))
    numerators = (random.random(size) < 0.4 + 0.3 * random.random(400)[groups]).astype(float)
    kept = random.random(size) > 0.15
    slices = np.tile([0, 1], size // 2) if macro else None
    table = table_of(numerators.tolist(), groups.tolist(), slices)
    over = [0, 1] if macro else [0]
    numbers = statistics.part_difference(
        table, part_of(table, kept.tolist()), over=over if macro else None, binary=True
    )
    difference, se = jackknife(table, kept.tolist(), over)
    assert numbers.difference == pytest.approx(difference)
    assert numbers.se == pytest.approx(se, rel=0.03)
    assert numbers.low is not None
    assert numbers.high is not None
    assert numbers.low < difference < numbers.high


def test_the_difference_of_a_part_counts_units_and_groups() -> None:
    table = table_of([1, 1, 0, 1, 0, 1, 1, 0], [0, 0, 1, 2, 3, 4, 5, 6])
    numbers = statistics.part_difference(
        table, part_of(table, [False, True, True, False, True, True, True, True]), binary=True
    )
    assert (numbers.whole, numbers.part) == (5 / 8, pytest.approx(3 / 6))
    assert (numbers.units, numbers.groups, numbers.left_out, numbers.groups_left_out) == (8, 7, 2, 2)
    assert numbers.low is numbers.high is None, "two groups tell nothing about others"


def test_the_difference_of_a_part_is_undefined_without_units() -> None:
    table = table_of([1, 0, 1, 0, 1], [0, 1, 2, 3, 4])
    numbers = statistics.part_difference(table, part_of(table, [False] * 5), binary=True)
    assert (numbers.whole, numbers.part, numbers.difference, numbers.low) == (0.6, None, None, None)
    same = statistics.part_difference(table, table, binary=True)
    assert (same.difference, same.low, same.left_out) == (0.0, None, 0)
    with pytest.raises(ValueError, match="part of the table"):
        statistics.part_difference(table, table_of([1], [0]), binary=True)


def newcombe(left: tuple[int, int], rest: tuple[int, int]) -> tuple[float, float]:
    """The interval of left minus rest: method 10 of Newcombe (1998), as statsmodels has it."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(*left, *rest, compare="diff", method="newcomb")
    return float(low), float(high)


def test_the_difference_of_a_part_is_bounded_as_newcombe_s_of_two_proportions() -> None:
    """Of one unit a group, in large samples: the share that is left out, times clean minus left out."""
    values = [1] * 60 + [0] * 140 + [1] * 700 + [0] * 1100
    table = table_of(values, range(2000))
    numbers = statistics.part_difference(table, part_of(table, [False] * 200 + [True] * 1800), binary=True)
    low, high = newcombe((60, 200), (700, 1800))
    assert (numbers.left, numbers.counted) == (0.3, (60.0, 200.0))
    assert numbers.difference == pytest.approx(0.1 * (700 / 1800 - 0.3))
    assert (numbers.low, numbers.high) == (pytest.approx(-0.1 * high, abs=2e-4), pytest.approx(-0.1 * low, abs=2e-4))


@pytest.mark.parametrize("right", [0.9, 0.95, 0.98])
def test_a_good_model_is_seldom_better_on_few_leaked_questions_by_chance(right: float) -> None:
    """300 questions of which 12 are leaked, without any effect: linearisation said so in 24 to 42 % of runs."""
    random = np.random.default_rng(int(100 * right))
    kept = [False] * 12 + [True] * 288
    better, times = 0, 600
    for _ in range(times):
        table = table_of((random.random(300) < right).tolist(), range(300))
        numbers = statistics.part_difference(table, part_of(table, kept), binary=True)
        better += numbers.high is not None and numbers.high < 0
    assert better / times <= 0.022 + 2 * (0.022 * 0.978 / times) ** 0.5


def test_below_ten_leaked_questions_only_counts_are_told() -> None:
    table = table_of([1] * 7 + [0] * 2 + [1, 0] * 40, range(89))
    numbers = statistics.part_difference(table, part_of(table, [False] * 9 + [True] * 80), binary=True)
    assert (numbers.few, numbers.counted, numbers.low, numbers.high) == (True, (7.0, 9.0), None, None)
    row = leaks._row(WithoutOverlap("b", "mc", "accuracy", "image", 9, True, numbers))
    assert row[3:9] == (9, "7/9", f"{4700 / 89:.2f}", "50.00", "–", "–")


# The command.


def listed() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path("leaks.csv").read_text())))


def test_the_command_shows_scores_with_and_without_overlap(training: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from medvqa.benchmarks import folders

    phantom = folders.bundled("fixtures") / "phantom/mediconfusion"
    pairs = json.loads((phantom / "dataset.json").read_text())
    for number in range(1, 31):
        (training / f"pics/{number}.jpg").write_bytes((phantom / f"images/{number}.jpg").read_bytes())
    lines = [
        json.dumps({"image": f"pics/{pair['im_1_local']}.jpg", "text": f"<image>\n{pair['question']}"})
        for pair in pairs.values()
    ]
    (training / "train.jsonl").write_text("\n".join(lines))
    assert main(["run", "--model=random", "--benchmark=phantom-mediconfusion", "--run=r"]) == 0
    capsys.readouterr()
    assert main(["leaks", "reports/r", f"--against={training}", "--json=leaks.json"]) == 0
    printed = capsys.readouterr().out
    assert "r, with and without overlap" in printed
    assert "image and question" in printed
    table = listed()
    assert {row["overlap"] for row in table} == {"image and question", "image", "look-alike", "question alone"}
    assert all(not Path(row["training_image"]).is_absolute() for row in table)
    scores = json.loads(Path("leaks.json").read_text())["scores"]
    shown = {(row["measure"], row["without"]): row for row in scores}
    results = [json.loads(line) for line in Path("reports/r/results.jsonl").read_text().splitlines()]
    left_out = {row["item"] for row in table if row["overlap"] in ("image and question", "image")}
    clean = [row["score"]["value"] for row in results if row["item"]["id"] not in left_out]
    row = shown["individual_accuracy", "image"]
    assert row["part"] == pytest.approx(sum(clean) / len(clean))
    assert row["low"] <= row["difference"] <= row["high"]
    assert main(["leaks", f"--against={training}", "--benchmark=phantom-mediconfusion"]) == 0, (
        "its own file is replaced"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against=nowhere"], "--against=nowhere: no such folder"),
        (["--against=empty"], "--against=empty: no image and no table is in this folder; nothing can be compared"),
        (["--against=file"], "--against=file: a file; name the folder around it"),
        (["--against=.", "--near=65"], "--near=65: a whole number of at most 64 is expected"),
        (["--against=.", "--turned", "--data=nowhere"], "--data=nowhere: no such folder"),
        (["--against=.", "--output=file"], "file exists already, and is no list of leaks; name another file"),
        (["--against=.", "--benchmark=phantm"], "no benchmark 'phantm'"),
        (["--against=.", "nowhere"], "nowhere is no run folder"),
    ],
)
def test_a_wrong_option_is_an_error(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("mine\n")
    Path("empty").mkdir()
    assert main(["leaks", *words]) == 4
    assert message in capsys.readouterr().err
    assert Path("file").read_text() == "mine\n"


def test_names_from_outside_are_printable_and_no_formula(training: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from medvqa.benchmarks import folders

    image = (folders.bundled("fixtures") / "phantom/mediconfusion/images/1.jpg").read_bytes()
    (training / "=cmd()\x1b[31m.jpg").write_bytes(image)
    (training / "\x1b[2Jbad.png").write_bytes(b"no")
    Path(os.fsdecode(os.fsencode(training) + b"/\xff.jpg")).write_bytes(image)
    assert main(["leaks", f"--against={training}", "--benchmark=phantom-mediconfusion", "--json=j.json"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed + Path("leaks.csv").read_text()
    cells = [row["training_image"] for row in listed() if row["training_image"]]
    assert cells
    assert all(not cell.startswith("=") for cell in cells)


def test_without_imagehash_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "imagehash", None)
    with pytest.raises(UsageError, match=r"pip install 'pytest-medvqa\[data\]'"):
        likeness.fingerprint(encoded(picture(1)))


def dicom(path: Path, seed: int, **more: object) -> None:
    """Write a CT of 12 bits; `more` are further elements of its header."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    values = np.asarray(picture(seed).convert("L")).astype(np.uint16) * 16
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, generate_uid(entropy_srcs=["7"])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = Dataset()
    file.file_meta = meta
    file.SOPClassUID, file.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
    file.Modality, file.PatientName = "CT", "Planted^Name"
    file.Rows, file.Columns = values.shape
    file.SamplesPerPixel, file.PhotometricInterpretation, file.PixelRepresentation = 1, "MONOCHROME2", 0
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, 12, 11
    file.RescaleSlope, file.RescaleIntercept = 1, 0
    for name, value in more.items():
        setattr(file, name, value)
    file.PixelData = values.tobytes()
    file.save_as(path, enforce_file_format=True)


def test_medical_files_are_compared_by_their_bytes_and_their_pictures(
    training: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pydicom")
    window: dict[str, object] = {"WindowCenter": 2048, "WindowWidth": 4096}
    dicom(tmp_path / "1.dcm", 1)
    (training / "same.dcm").write_bytes((tmp_path / "1.dcm").read_bytes())
    dicom(tmp_path / "2.dcm", 2)
    dicom(training / "burnt.dcm", 2, BurnedInAnnotation="YES", **window)
    dicom(training / "no-window.dcm", 3)
    picture(4).save(tmp_path / "4.png")
    dicom(training / "4.dcm", 4, **window)
    images = [Image(f"{n}.dcm?range=0,4095", str(tmp_path / f"{n}.dcm")) for n in (1, 2)]
    images.append(Image("4.png", str(tmp_path / "4.png")))
    items = [Item(image.name, "b", "short_answer", "Is it?", images=(image,)) for image in images]
    trained = likeness.read(likeness.TrainingSet.listed(training, "--against=X"))
    overlaps = likeness.find(items, trained, tmp_path)
    kinds = {each.item: (each.match and each.match.kind, each.trained) for each in overlaps.found}
    assert kinds["1.dcm?range=0,4095"] == ("bytes", "same.dcm")
    assert kinds["2.dcm?range=0,4095"][1] == "burnt.dcm"
    assert kinds["4.png"][1] == "4.dcm"
    assert "no-window.dcm" in trained.unreadable
    dicom(training / "other.dcm", 5)
    (training / "b.parquet").write_text("{")
    lines = leaks.text({}, likeness.read(likeness.TrainingSet.listed(training, "--against=X")), "X", 16).splitlines()
    assert lines[1].startswith("! files that could not be compared: 1; b.parquet: ")
    assert lines[2] == (
        "! images that could not be decoded, and were compared by their bytes alone: 3; no-window.dcm and 2 more: "
        "12 bits a pixel, but models see 8 bits, and the file declares no window"
    )
    stored = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert b"Planted" not in stored + "".join(trained.unreadable.values()).encode()


def test_a_question_mark_in_a_name_is_no_view(training: Path, tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(encoded(picture(1)))
    (training / "x?window=lung").write_bytes(encoded(picture(1)))
    (training / "y?frame=0.png").write_bytes(encoded(picture(2)))
    assert found([item("1", "Is it?", tmp_path / "1.png")], training).levels == {"1": "image"}
