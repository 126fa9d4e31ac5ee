"""Files of readings and tables of readings: what is read, and the one line that each wrong file gets."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from medvqa import tables
from medvqa.items import DataError, DataWarning, MedVQAError
from medvqa.readings import foreign, reading_file
from medvqa.readings.foreign import ReadingColumns, read_any
from medvqa.readings.reading_file import Opinion, ReaderAnswer, ReaderStudy
from medvqa.tables import sheets

STUDY = ReaderStudy(name="pilot", plan="ab" * 32, readers=("R1", "R2"), assigned={"R1": 2, "R2": 1})
R1 = ReaderAnswer("R1", "bench", "1", response="A", confidence=4, seconds=12.5, comment="edge", place=1, sitting=1)
R2 = ReaderAnswer("R2", "bench", "1", cannot_tell=True, arm="with")
LABEL_STUDIO = """\
"annotation_id","annotator","choice","created_at","id","image","lead_time","updated_at","was_cancelled"
1,"R1","A","2024-01-01","q1","a.png",8.5,"2024-01-01","False"
2,"R2","{""choices"": [""A"", ""C""]}","2024-01-01","q1","a.png",9,"2024-01-01","False"
3,"R2","","2024-01-01","q2","b.png",1,"2024-01-01","True"
"""
REDCAP = """record_id,redcap_repeat_instrument,redcap_repeat_instance,reader,finding
q1,,,,
q1,reading,1,R1,A
q1,reading,2,R2,B
q2,reading,1,R1,
"""


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path, **columns: str) -> list[ReaderAnswer]:
    lines = read_any(path, ReadingColumns(**columns))[1]
    return [line for line in lines if isinstance(line, ReaderAnswer)]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = reading_file.encode(STUDY, [R1, R2])
    assert reading_file.parse(content, "R1.jsonl") == (STUDY, [R1, R2])
    assert read_any(write(tmp_path / "any.name", content)) == (STUDY, [R1, R2])
    review = ReaderStudy(task="review", name="review")
    opinions = [Opinion("E1", "bench", "1", "accept", 7), Opinion("E1", "bench", "1", "reject", final=True)]
    assert reading_file.parse(reading_file.encode(review, opinions), "E1.jsonl") == (review, opinions)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"reader": "R1", "benchmark": "b", "item": "1", "respnse": "A"}', "no key 'respnse'"),
        ('{"reader": "R1", "benchmark": "b", "item": "1", "score": 1.5}', "float` <= 1"),
        ('{"reader": "R1", "benchmark": "b", "item": "1", "score": NaN}', "not JSON"),
        ('{"reader": "R1", "reader": "R2", "benchmark": "b", "item": "1"}', "occurs twice"),
        ('{"reader": "", "benchmark": "b", "item": "1"}', "length >= 1"),
        ('{"reader": " ", "benchmark": "b", "item": "1"}', "no reader"),
        (
            '{"reader": "R1", "benchmark": "b", "item": "1", "response": "A", "score": 1}',
            "more than one of a response, a score",
        ),
        ('{"reader": "R1", "benchmark": "b", "item": "1", "response": "A", "cannot_tell": true}', "keep one of them"),
        ('{"reader": "R1", "benchmark": "b", "item": "1", "confidence": 9}', "int` <= 5"),
        ('["R1"]', "no object"),
        ("{" * 2000, "not JSON"),
        (json.dumps({"reader": "R1", "benchmark": "b", "item": "1", "response": "x" * 30_000}), "length <= 20000"),
        (
            '{"reader": "R1", "benchmark": "bench", "item": "1", "response": "B"}',
            "another answer to '1' than in f line 2",
        ),
    ],
)
def test_a_wrong_line_is_named(line: str, said: str) -> None:
    content = reading_file.encode(STUDY, [R1]) + line.encode()
    with pytest.raises(DataError, match=r"^f line 3: ") as raised:
        reading_file.parse(content, "f")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_a_file_without_a_study_is_no_file_of_readings() -> None:
    for content, said in (
        (b"", "empty file"),
        (b'{"id": 1}', "no file of readings"),
        (b'{"readings": 2}', "invalid enum"),
    ):
        with pytest.raises(DataError, match=said if "enum" not in said else "(?i)invalid"):
            reading_file.parse(content, "f")


def test_files_of_one_study_are_joined() -> None:
    own, other = STUDY, ReaderStudy(name="pilot", plan="cd" * 32)
    study, lines = reading_file.joined([("a", own, [R1]), ("b", own, [R2]), ("again", own, [R1])])
    assert (study.readers, study.reader, lines) == (("R1", "R2"), "", [R1, R2])
    with pytest.raises(DataError, match="b: of another study than a"):
        reading_file.joined([("a", own, [R1]), ("b", other, [R2])])
    with pytest.raises(DataError, match="b: reader 'R1' has another answer"):
        reading_file.joined([("a", own, [R1]), ("b", own, [ReaderAnswer("R1", "bench", "1", response="B")])])
    table = ReaderStudy(name="table", readers=("R9",))
    assert reading_file.joined([("t", table, [R2]), ("a", own, [R1])])[0].readers == STUDY.readers


def test_tables_in_every_format(tmp_path: Path) -> None:
    columns, rows = ["ID", "Reader", "Response"], [["q1", "R1", "A"], ["q1", "R2", "B"], ["q2", "R2", ""]]
    expected = [ReaderAnswer("R1", "", "q1", response="A"), ReaderAnswer("R2", "", "q1", response="B")]
    for name in ("r.csv", "r.xlsx"):
        sheets.write(tmp_path / name, columns, rows)
        study, lines = read_any(tmp_path / name)
        assert (lines, study.readers, study.name) == (expected, ("R1", "R2"), "r")
    tsv = write(tmp_path / "r.tsv", "\n".join("\t".join(row) for row in [columns, *rows]) + "\n")
    assert read(tsv) == expected


def test_all_columns_and_other_names(tmp_path: Path) -> None:
    table = write(
        tmp_path / "r.csv",
        "question_id,rater,score,benchmark,confidence,reading time,comment,arm\n7.0,2,0.5,bench,3,20.5,ok,without\n",
    )
    assert read(table) == [
        ReaderAnswer("2", "bench", "7", score=0.5, confidence=3, seconds=20.5, comment="ok", arm="without")
    ]
    typed = write(tmp_path / "t.csv", "nr,who,answer,id\n1,R1,A,x\n")
    assert read(typed, id="nr", reader="who", response="Answer") == [ReaderAnswer("R1", "", "1", response="A")]
    german = write(tmp_path / "d.csv", "id;Leser;Punkte;Sekunden\n1;R1;0,75;12,5\n")
    assert read(german) == [ReaderAnswer("R1", "", "1", score=0.75, seconds=12.5)]
    told = write(tmp_path / "c.csv", "id,reader,response,cannot tell\n1,R1,,true\n2,R1,B,\n")
    assert read(told)[0] == ReaderAnswer("R1", "", "1", cannot_tell=True)


def test_label_studio(tmp_path: Path) -> None:
    assert read(write(tmp_path / "ls.csv", LABEL_STUDIO)) == [
        ReaderAnswer("R1", "", "q1", response="A", seconds=8.5),
        ReaderAnswer("R2", "", "q1", response="A,C", seconds=9),
    ]


def test_redcap(tmp_path: Path) -> None:
    table = write(tmp_path / "redcap.csv", REDCAP)
    assert read(table, response="finding") == [
        ReaderAnswer("R1", "", "q1", response="A"),
        ReaderAnswer("R2", "", "q1", response="B"),
    ]


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ("id,reader\n1,R1\n", {}, "missing column response"),
        ("id,response\n1,A\n", {}, "missing column reader"),
        ("reader,response\nR1,A\n", {}, "missing column id"),
        ("id,reader,response\n1,,A\n", {}, "row 2, column 'reader': no reader"),
        ("id,reader,response\n,R1,A\n", {}, "row 2, column 'id': blank"),
        ("id,reader,score\n1,R1,1.5\n", {}, "row 2: Expected `float` <= 1"),
        ("id,reader,score\n1,R1,nan\n", {}, "row 2: Expected `float"),
        (
            'id,reader,response,seconds\n1,R1,A,"1,234"\n',
            {},
            "row 2: Expected `float | null`, got `str` - at `seconds`",
        ),
        ("id,reader,score\n1,R1,good\n", {}, "row 2: Expected `float | null`, got `str` - at `score`"),
        ("id,reader,response,score\n1,R1,A,1\n", {}, "row 2: more than one of a response, a score"),
        ("id,reader,response\n1,R1,A\n1,R1,B\n", {}, "row 3: reader 'R1' has another answer to '1' than in"),
        ("id,reader,response\n1,R1,\n", {}, "no readings"),
        ("id,reader,response,arm\n1,R1,A,both\n", {}, "row 2: Invalid enum value 'both'"),
        ("id,rater,annotator,response\n1,R1,R2,A\n", {}, "2 columns could be the reader ('rater', 'annotator')"),
        ("id,reader,response\n1,R1,A\n", {"response": "answr"}, "--set response=answr: "),
        ("", {}, "empty file"),
        ("id,reader,response\n1,R1\n", {}, "only 2 cells"),
        (b"\x00" * 100, {}, "zero bytes"),
        (b"\xff\xfe\xfa,reader\n", {}, "not UTF"),
    ],
)
def test_a_wrong_table_gets_one_line(tmp_path: Path, content: str | bytes, columns: dict[str, str], said: str) -> None:
    path = write(tmp_path / "r.csv", content)
    with pytest.raises(MedVQAError) as raised:
        read(path, **columns)
    assert str(path) in str(raised.value)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_same_answer_twice_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "id,reader,response,seconds\n1,R1,A,5\n1,R1,A,7\n")
    assert read(path) == [ReaderAnswer("R1", "", "1", response="A", seconds=7)]


@pytest.mark.parametrize(
    ("codes", "number"),
    [
        (["R1", "senior/R2", "Reader 3", "3", "radiologist-4"], 0),
        (["Erika Mustermann", "R2"], 1),
        (["e.mustermann@example.org", "Mustermann, Erika"], 2),
        (["Dr. Mustermann"], 1),
        (["Mustermann"], 1),
        (["Mustermann^Erika", "1975-03-02"], 2),
        (["annotator", "Doctor B", "Other 2", "others/R1"], 0),
    ],
)
def test_names_of_people_are_warned_of_and_not_shown(tmp_path: Path, codes: Sequence[str], number: int) -> None:
    path = tmp_path / "r.csv"
    sheets.write(path, ["id", "reader", "response"], [["1", code, "A"] for code in codes])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        read(path)
    assert len(caught) == bool(number)
    for warning in caught:
        assert str(number) in str(warning.message)
        assert "ustermann" not in str(warning.message)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_file, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="larger than 10"):
        reading_file.parse(reading_file.encode(STUDY, []), "f")
    monkeypatch.setattr(reading_file, "MAX_READERS", 1)
    with pytest.raises(DataError, match="more than 1 readers"):
        read(write(tmp_path / "r.csv", "id,reader,response\n1,R1,A\n1,R2,A\n"))
    monkeypatch.setattr(tables.limits, "MAX_ROWS", 1)
    with pytest.raises(DataError, match="more than 1 rows"):
        read(write(tmp_path / "r.csv", "id,reader,response\n1,R1,A\n2,R1,A\n"))


def test_every_role_can_be_typed() -> None:
    assert set(ReadingColumns.__dataclass_fields__) == {*foreign.NAMES}
