"""Problems of users' tables: one place and the same words at every door, whether a run ends or `import` collects."""

import csv
import datetime
import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import medvqa
from medvqa import benchmarks, importing
from medvqa.benchmarks import own, table_files
from medvqa.items import Benchmark, DataError, UsageError, withholding
from medvqa.tables import delimited, limits
from medvqa.tables.problems import Problems, TableProblem
from support.laws import examples

OPTIONS = "question,A,B,answer"
AGES = '[slices]\nage = { column = "Alter", cuts = [18] }'
# Keys of the benchmark file, the table, then row, column and the words of its first problem.
CASES: list[tuple[str, str | bytes, int | None, str, str]] = [
    ("", f"{OPTIONS}\n,x,y,A\n", 2, "question", "the question is empty; write it"),
    ("", f"{OPTIONS}\nTODO,x,y,A\n", 2, "question", "'TODO' stands for a missing value"),
    ("", f"{OPTIONS}\nQ?,x,y,A\nQ?,x,y,E\n", 3, "answer", "'E' is none of its options A, B; write one of A, B, or"),
    ("", "question,A,B,C,D,answer\nQ?,w,x,y,z,bad\n", 2, "answer", "'bad' is none of its options A, B, C, D"),
    ("", f"{OPTIONS}\nQ?,B,y,B\n", 2, "answer", "'B' is a letter, and the text of option A"),
    ("", f"{OPTIONS}\nQ?,² x,2 x,２ X\n", 2, "answer", "'２ X' is the text of options A and B"),
    ("", f"{OPTIONS}\nQ?,xx,XX,xx\n", 2, "B", "options A and B are equal; write another text for one of them"),
    ("", f"{OPTIONS}\nQ?,x,,A\n", 2, "A", "one option alone"),
    ("", f'{OPTIONS},box\nQ?,x,y,A,"1,2,3,4"\nQ?,x,y,A,"1,2,3"\n', 3, "box", "a region is left,top,width,height in wh"),
    ("", f"{OPTIONS},box\nQ?,x,y,A,thorax\n", 2, "box", "a region is left,top,width,height in whole pixels"),
    ("", f'{OPTIONS},bbox_xywh\nQ?,x,y,A,"1,2,0,4"\n', 2, "bbox_xywh", "a region has a left and a top of 0 or more"),
    ("", f"{OPTIONS},region,bbox\nQ?,x,y,A,thorax,1\n", None, "", ""),
    ('columns = { box = "roi" }', f'{OPTIONS},roi\nQ?,x,y,A,"1,2,3"\n', 2, "roi", "a region is left,top"),
    ("", f"{OPTIONS}\nQ?,x,y,#REF!\n", 2, "answer", "the spreadsheet's error #REF!; write its value in its place"),
    ("", f"{OPTIONS}\nQ?,x,#N/A,A\n", 2, "B", "the spreadsheet's error #N/A"),
    ("", f"{OPTIONS}\nQ?,x,y,tbd\n", 2, "answer", "'tbd' stands for a missing value"),
    ("", f"{OPTIONS}\nQ?,x,y,A\nQ?,x,y,A,z\n", 3, "", "more cells where the first line has 4; the file ends here"),
    ("", f"{OPTIONS}\nQ?,x\nQ?,x,y,A\n", 2, "", "only 2 cells where the first line has 4; put a cell with a comma"),
    ("", "question,answer,,\nQ?,x,,y\nQ?,x,,\n", 2, "", "a value in cell 4, whose column has no name; put a cell"),
    ("", f"{OPTIONS}\nQ?,x,y,A,,\n,,\nQ?,x,y,A\n", None, "", ""),
    ("", f'{OPTIONS}\nQ?,x,y,A\n"Q?,x,y,A\n', 3, "", "a quote is never closed, the file may be truncated; write"),
    ("", f'{OPTIONS}\n"Q"?,x,y,A\nQ?,x,y,A\n', 2, "", "text follows a closing quote"),
    ("", f"\n\n{OPTIONS}\nQ?,x,y,A\n", 1, "", "2 blank rows at the top; delete the rows above"),
    ("", f"Our questions,,,\n{OPTIONS}\nQ?,x,y,A\n", 1, "", "the first row has no names of columns"),
    ("", "question,answer,answer\nQ?,x,y\n", None, "first line", "column 'answer' occurs twice; rename or delete"),
    ("", "question,answer,,,x\nQ?,x,,,y\n", None, "first line", "2 columns have no name; name them"),
    (
        "",
        "question,image 1,image_1,answer\nQ?,x,y,z\n",
        None,
        "first line",
        "columns 'image 1' and 'image_1' have the s",
    ),
    ("", "question,A,B,D,answer\nQ?,x,y,z,A\n", None, "first line", "columns A, B, D are options, and there is no c"),
    (
        "",
        "question,A,B,options,answer\nQ?,x,y,z,A\n",
        None,
        "first line",
        "options are in 'options' and in columns A, B",
    ),
    ("", "id,question,answer\n1,Q?,x\n1,Q?,x\n", 3, "id", "the id of row 2; write an id that no other row has"),
    ("", "id,question,answer\n ,Q?,x\n", 2, "id", "no id"),
    ("", "question,answer,kind\nQ?,x,essay\n", 2, "kind", "no kind 'essay'; write one of single_choice, multiple_resp"),
    ("", "question,answer,kind\nQ?,x,single_choice\n", 2, "kind", "a single_choice question needs options"),
    (
        "",
        "question,answer,kind\nQ?,maybe,judgment\n",
        2,
        "answer",
        "'maybe' is neither yes nor no; write yes or no, or",
    ),
    ("", "question,A,B,answer,kind\nQ?,x,y,A,judgment\n", 2, "kind", "a judgment question has no options"),
    ("", "question,A,B,answer,kind\nQ?,x,y,AB,single_choice\n", 2, "answer", "2 right options, and the kind is single"),
    ("", "question,answer,options\nQ?,x,x or y\n", 2, "options", 'options in one cell are a JSON list; write ["liver"'),
    ("", 'question,answer,options\nQ?,x,"""text"""\n', 2, "options", "options in one cell are a JSON list"),
    ("", "question,answer,pair\nQ?,x,p\n", 2, "pair", "a pair of 1 question; a pair has 2"),
    (
        "",
        "question,answer,pair\nQ?,x,p\nQ?,x,p\nQ?,x,p\n",
        2,
        "pair",
        "a pair of 3 questions (rows 2 to 4); a pair has",
    ),
    ("", "question,answer,image\nQ?,x,../x.png\n", 2, "image", "'../x.png' leaves the folder"),
    ("", "question,answer,image\nQ?,x,/etc/passwd\n", 2, "image", "'/etc/passwd' is an absolute path"),
    ("", "question,answer,image\nQ?,x,C:\\x.png\n", 2, "image", "'C:\\x.png' is an absolute path"),
    ("", "question,answer,image\nQ?,x,a\\b.png\n", 2, "image", "'a\\b.png' has a backslash; write / between folders"),
    (
        "",
        "question,answer,image\nQ?,x,https://x.example/1.png\n",
        2,
        "image",
        "'https://x.example/1.png' is a URL; dow",
    ),
    (
        "",
        "question,answer,image\nQ?,x,a.png;b.png\n",
        2,
        "image",
        "'a.png;b.png' is 2 paths in a cell; write | between",
    ),
    ("", "question,answer,image\nQ?,x,x.dcm?window=no\n", 2, "image", "'x.dcm?window=no' has a wrong view: "),
    ("", "question,answer,image\nQ?,x,a\0.png\n", 2, "image", "has a zero byte"),
    ("", "question,answer,image\nQ?,x,folgt\n", 2, "image", "'folgt' stands for a missing value"),
    ("", f"question,answer,image\nQ?,x,{'|'.join(f'{i}.png' for i in range(101))}\n", 2, "image", "101 images; a que"),
    (AGES, "Frage,Antwort,Alter\nQ?,x,\nQ?,x,alt\n", 3, "Alter", "'alt' is no number with a decimal point; correct it"),
    (f'language = "de"\n{AGES}', "Frage;Antwort;Alter\nQ?;x;1.234\n", 2, "Alter", "'1.234' is no number with a decima"),
    (
        'language = "de"\nkind = "judgment"',
        "Frage,Antwort\nQ?,vielleicht\n",
        2,
        "Antwort",
        "'vielleicht' is neither yes",
    ),
    ('kind = "judgment"', "Frage,Antwort\nQ?,Ja\n", 2, "Antwort", "'Ja' is neither yes nor no"),
    ("numbers_from = 1", "Frage,A,B,Antwort\nQ?,x,y,3\n", 2, "Antwort", "'3' is no number of its options, 1 to 2"),
    ("numbers_from = 1", "Frage,A,B,Antwort\nQ?,x,y,B\n", 2, "Antwort", "'B' is no number of its options, 1 to 2"),
    ("", "Frage,A,B,Antwort\nQ?,x,y,A) y\n", 2, "Antwort", "'A) y' is none of its options A, B"),
    ("", json.dumps([{"question": {"a": 1}, "answer": "x"}]), 1, "question", "a value of type dict, which is no text"),
    (
        "",
        json.dumps([{"question": "Q?", "options": [*map(str, range(26))], "answer": "A"}]),
        1,
        "options",
        "26 options",
    ),
    (
        "",
        json.dumps([{"question": "Q?", "options": {"Z": "x", "A": "y"}, "answer": "A"}]),
        1,
        "options",
        "option 'Z'; op",
    ),
    ("", json.dumps([{"question": "Q?", "options": 7, "answer": "A"}]), 1, "options", "'7' is no list of options"),
    ("", '{"question": "Q?", "answer": "x"}\n{"question": "Q?"}\n', 2, "answer", "no answer, which other rows have"),
    ("", '{"question": "Q?", "answer": "x"}\n[]\n', 2, "", "Expected `object`, got `array`"),
    ("", '{"question": "Q?", "answer": "x"}\n{"question":\n', 2, "", "not JSON: "),
    ("", '{"question": "Q?", "answer": "x"}\n{"a": 1, "a": 2}\n', 2, "", "the key 'a' occurs twice"),
]


def refused(benchmark: Benchmark) -> str:
    """The error of a run, "" if it reads the table."""
    try:
        benchmarks.load(own.completed(benchmark), Path())
    except DataError as error:
        return str(error)
    return ""


def collected(benchmark: Benchmark) -> tuple[list[TableProblem], str]:
    """The problems that `import` collects from a table that is refused by none of them alone, and its name."""
    source = table_files.source_of(benchmark)
    assert source is not None
    problems = Problems(source.shown, collects=True)
    with withholding(not benchmark.public):
        source.questions(source.read(problems), problems)
    return [problem for problem in problems.found if problem.refused], source.shown


def doors(folder: Path, keys: str, table: str | bytes, *, public: bool = True) -> list[Benchmark]:
    """The benchmarks of a table: of a benchmark file, and of `medvqa.table` if no key is needed."""
    (folder / "t.csv").write_bytes(table.encode() if isinstance(table, str) else table)
    (folder / "klinik.toml").write_text(f'file = "t.csv"\npublic = {str(public).lower()}\n{keys}\n', encoding="utf-8")
    made = table_files.read(folder / "klinik.toml", str(folder / "klinik.toml"))
    return [made] if keys else [made, medvqa.table(folder / "t.csv", public=public)]


@pytest.mark.parametrize(("keys", "table", "row", "column", "words"), CASES)
def test_a_problem_has_its_place_and_words_at_every_door(
    tmp_path: Path, keys: str, table: str | bytes, row: int | None, column: str, words: str
) -> None:
    for benchmark in doors(tmp_path, keys, table):
        message = refused(benchmark).replace(f"{tmp_path}/", "")
        if not words:
            assert message == ""
            assert collected(benchmark)[0] == []
            continue
        first = collected(benchmark)[0][0]
        assert message == first.text("t.csv")
        assert (first.row, first.column) == (row, "" if column == "first line" else column)
        assert words in message
        place = f"t.csv, {column}: " if row is None else f"{row}"
        assert place in message


def workbook(**cells: Any) -> bytes:
    """A spreadsheet of two questions with these cells."""
    book = openpyxl.Workbook()
    for line in (["question", "A", "B", "answer", "more"], ["Q?", "x", "y", "A", "=ROW()"], ["Q?", "x", "y", "A", 2]):
        book.active.append(line)  # type: ignore[union-attr]
    for name, value in cells.items():
        book.active[name] = value  # type: ignore[index]
        if isinstance(value, str) and value.startswith("#"):
            book.active[name].data_type = "e"  # type: ignore[index]
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("cells", "column", "words"),
    [
        ({}, "", ""),
        ({"E3": "#REF!"}, "", ""),  # a column that is not read
        ({"B3": "=A3"}, "A", "a formula; copy the column and paste it as values"),
        ({"D3": "#WHO?"}, "answer", "the spreadsheet's error #WHO?"),
        ({"C3": datetime.datetime(2024, 1, 2)}, "B", "a date: a spreadsheet may have made it from text such as 1-2"),
    ],
)
def test_a_cell_of_a_spreadsheet_that_holds_no_value_is_refused(
    tmp_path: Path, cells: dict[str, Any], column: str, words: str
) -> None:
    test_a_problem_has_its_place_and_words_at_every_door(tmp_path, "", workbook(**cells), 3, column, words)


def test_a_text_that_claims_to_be_an_error_of_a_spreadsheet_is_withheld(tmp_path: Path) -> None:
    made, *_ = doors(tmp_path, "", workbook(D3=f"#{NAME}", B3="#REF!"), public=False)
    problems, shown = collected(made)
    said = "\n".join([refused(made), *(problem.text(shown) for problem in problems)])
    assert NAME[:5] not in said
    assert "the spreadsheet's error [cell]" in said
    assert "the spreadsheet's error #REF!" in said


def test_merged_cells_are_refused_where_they_are_read(tmp_path: Path) -> None:
    for area, is_read in (("C2:C3", True), ("D2:D3", True), ("E2:E3", False)):
        book = openpyxl.load_workbook(io.BytesIO(workbook()))
        book.active.merge_cells(area)  # type: ignore[union-attr]
        book.save(tmp_path / "t.xlsx")
        table, column = (tmp_path / "t.xlsx").read_bytes(), {"C": "B", "D": "answer"}.get(area[0], "")
        words = f"merged cells {area}: only the first holds a value; unmerge them" if is_read else ""
        test_a_problem_has_its_place_and_words_at_every_door(tmp_path, "", table, 3, column, words)


def test_merged_areas_of_a_hostile_spreadsheet_take_no_memory(tmp_path: Path) -> None:
    """An area far to the right must not make room for a larger one."""
    changed = io.BytesIO()
    areas = b'<mergeCells><mergeCell ref="XFA2:XFD1048576"/><mergeCell ref="A2:XFD200000"/></mergeCells>'
    with zipfile.ZipFile(io.BytesIO(workbook())) as parts, zipfile.ZipFile(changed, "w") as copy:
        for name in parts.namelist():
            copy.writestr(name, parts.read(name).replace(b"</sheetData>", b"</sheetData>" + areas))
    (made, *_) = doors(tmp_path, "", changed.getvalue())
    assert refused(made).endswith("t.csv: more than 4,194,304 merged cells; write it as CSV")


@pytest.mark.parametrize(
    ("keys", "table", "message"),
    [
        ("", "id,text,A,B,answer\n", "t.csv: no rows"),
        ("", "question,answer\n,\n", "t.csv: no rows"),
        (
            "",
            "text,A,B,answer\nQ?,x,y,A\n",
            "no column 'question'; there are: text, A, B, answer. Rename one of them, or",
        ),
        ("", "question,A,B\nQ?,x,y\n", 'write answer = "COLUMN" into [columns] of klinik.toml'),
        ("", "question,gold,correct\nQ?,x,y\n", "columns 'correct' and 'gold' could both be the answer"),
        ("", "Frage,Antwort,Referenz\nQ?,x,y\n", 'could both be the answer; write answer = "Antwort" into [columns]'),
        ("", "question,option a,a,b,answer\nQ?,x,x,y,A\n", "columns 'a' and 'option a' could both be option A"),
        (
            '[columns]\nquestion = "Fragen"',
            "Frage,Antwort\nQ?,x\n",
            "no column 'Fragen'; there are: Frage, Antwort. Write",
        ),
        ('[slices]\nage = "Alter"', "Frage,Antwort\nQ?,x\n", "no column 'Alter'; there are: Frage, Antwort. Write one"),
        (
            '[slices]\nwho = "Patient"',
            "Frage,Antwort,Patient\nQ?,x,4711\n",
            "column 'Patient', which names the patient",
        ),
        ('tags = ["Fall"]', "Frage,Antwort,Fall\nQ?,x,4711\n", "'fall' shows the column 'Fall', which names the case"),
        ('tags = ["a!", "a?"]', "Frage,Antwort,a!,a?\nQ?,x,1,2\n", "tags 'a!' and 'a?' are both called a"),
        (
            'images = "b"',
            "question,answer\nQ?,x\n",
            "no column 'image'; there are: question, answer. Rename one of them, w",
        ),
        (
            '[columns]\nid = "Nr"\npatient = "Nr"',
            "Frage,Antwort,Nr\nQ?,x,1\n",
            "id and patient are both the column 'Nr'",
        ),
        ("", b"Frage,Antwort\nf\xfcr,x\n", "t.csv line 2: not UTF-8: invalid start byte. It looks like Windows-1252"),
        ("", "问题,答案\n有没有积液,有\n".encode("gbk"), "It looks like Chinese text in GBK: save it as UTF-8"),
        ("", "Frage,Antwort\nf\xfcr,x\n".encode("utf-16"), 'It looks like UTF-16 (Excel calls it "Unicode Text")'),
        ('encoding = "gbk"', b"Frage,Antwort\nok,ok\n\xff\n", "t.csv line 3: not gbk, which is"),
        ('encoding = "cp1252"', b"PK\x03\x04", "t.csv: encoding = 'cp1252' is for text, and this is none"),
        ("", b"\xd0\xcf\x11\xe0", "t.csv: an old or an encrypted Excel file; save it as XLSX"),
        ("", "q\0u\0e\0s\0t\0i\0o\0n\0", "t.csv: no table: it holds zero bytes"),
        (
            "",
            "\n".join(json.dumps({"question": "Q?", "answer": "x", f"c{n}": 1}) for n in range(999)),
            "t.csv: more than 1,000 columns",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_at_every_door(
    tmp_path: Path, keys: str, table: str | bytes, message: str
) -> None:
    made, *_ = doors(tmp_path, keys, table)
    with pytest.raises(DataError) as caught:
        collected(made)
    assert refused(made) == str(caught.value)
    assert message in str(caught.value).replace(f"{tmp_path}/", "")


NAME = "MUSTERMANN"


@pytest.mark.parametrize(
    "text",
    [
        f"question,A,B,answer\nQ?,x,y,{NAME}\n",
        f"question,A,B,answer\nQ?,{NAME},{NAME.title()},{NAME}\n",
        f"id,question,answer\n{NAME},Q?,x\n{NAME},Q?,x\n",
        f"question,answer,kind\nQ?,x,{NAME}\n",
        f"question,answer,kind\nQ?,{NAME},judgment\n",
        f"question,answer,pair\nQ?,x,{NAME}\n",
        f"question,answer,image\nQ?,x,../{NAME}/1.dcm\n",
        f"question,answer,image\nQ?,x,/{NAME}/1.dcm\n",
        f"question,answer,image\nQ?,x,{NAME}\\1.dcm\n",
        f"question,answer,image\nQ?,x,https://x.example/{NAME}.png\n",
        f"question,answer,image\nQ?,x,{NAME}.dcm?window={NAME}\n",
        f"question,answer,image\nQ?,x,{NAME}\0.dcm\n",
        f"question,answer,image\nQ?,x,{NAME}.png;{NAME}.png\n",
        f"question,answer,options\nQ?,x,{NAME} or y\n",
        f"{NAME},Q?,x\nother,Q?,y\n",
        f"{NAME},Q?,{NAME},x\nother,Q?,other,y\n",
        json.dumps([{"question": {"name": NAME}, "answer": "x"}]),
        json.dumps([{"question": "Q?", "options": {NAME: "x", "A": "y"}, "answer": "A"}]),
        json.dumps([{"question": "Q?", "options": f'"{NAME}"', "answer": "A"}]),
        json.dumps({NAME: {"question": "Q?", "A": "x", "B": "y", "answer": "E"}}),
        json.dumps({NAME: 7}),
        f'{{"{NAME}": {{"question": "Q?", "answer": "E"}}, "{NAME}": {{}}}}',
    ],
)
def test_errors_of_data_that_are_not_public_quote_no_cell(text: str, tmp_path: Path) -> None:
    for made in doors(tmp_path, "", text, public=False):
        message = refused(made)
        assert NAME.casefold() not in message.casefold()
        assert "/t.csv" in message or "record 1" in message, "the file stays named"
        with suppress(DataError):
            problems, shown = collected(made)
            assert NAME.casefold() not in "".join(problem.text(shown) for problem in problems).casefold()


@pytest.mark.parametrize(
    ("table", "limit", "value", "message"),
    [
        ("question,answer\nQ?,x\n" + "Q?\n" * 5, "MAX_ROWS", 3, "more than 3 problems"),
        ("question,answer\n" + "Q?,x\n" * 5, "MAX_ROWS", 3, "t.csv row 5: more than 3 rows"),
        ('question,answer\nQ?,x\n"a\n"a\n"a\n"a\n', "MAX_BROKEN", 2, "more than 2 quotes do not match"),
        ("question,answer\n" + "Q?,x\n" * 50, "MAX_DOCUMENT", 99, "t.csv: larger than 99 bytes"),
    ],
)
def test_what_import_collects_has_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, limit: str, value: int, message: str
) -> None:
    made, *_ = doors(tmp_path, "", table)
    monkeypatch.setattr(delimited if limit == "MAX_BROKEN" else limits, limit, value)
    with pytest.raises(DataError, match=message):
        collected(made)


# Laws

CELLS = st.one_of(
    st.sampled_from(
        [
            *(
                "",
                " ",
                "A",
                "B",
                "C",
                "A,C",
                "b",
                "Ａ",
                "liver",
                "Liver",
                "spleen",
                "yes",
                "no",
                "ja",
                "TODO",
                "?",
                "1",
            ),
            *("#REF!", "#N/A", "=1+1", "2", "single_choice", "judgment", "einfachauswahl", "a.png", "../a.png", "/a"),
            *(
                "a\\b.png",
                "http://x/a.png",
                "a.png;b.png",
                "x|y",
                '["a", "b"]',
                '["a", "a"]',
                '{"A": 1}',
                "[",
                "A) liver",
            ),
            *("B) liver", "x|y", "17.0", "1e5", "2. Jan", "\x00", "\u202e", "é", "图", '"', "nan", "x.dcm?window=no"),
        ]
    ),
    st.text(max_size=8),
)
NAMES = st.sampled_from(
    [
        *("question", "answer", "A", "B", "C", "options", "image", "image 2", "id", "kind", "pair", "patient", "case"),
        *("Frage", "答案", "Name", "x", "", "modality", "Ａ", "answer ", "a\nb"),
    ]
)
KNOWN = st.sampled_from(
    [
        ["id", "question", "answer", "A", "B", "C", "kind"],
        ["question", "answer", "pair", "patient", "image"],
        ["frage", "lösung", "bild", "option 1", "option 2", "fall", "gruppe"],
        ["question", "answer", "options", "modality"],
        ["answer", "question", "A", "B", "D"],
    ]
)
HEADERS = st.one_of(st.lists(NAMES, max_size=9).map(lambda names: ["question", "answer", *names]), KNOWN, KNOWN)
GOOD = {
    **{
        "id": "{n}",
        "question": "Why {n}?",
        "frage": "Warum {n}?",
        "answer": "A",
        "lösung": "B",
        "A": "liver",
        "D": "eye",
    },
    **{
        "B": "spleen",
        "C": "kidney",
        "option 1": "Leber",
        "option 2": "Milz",
        "options": '["x", "y"]',
        "patient": "{n}",
    },
}


def filled(header: list[str], rows: list[dict[int, str]]) -> list[list[str]]:
    """Rows of good cells, but for those that are given by their place."""
    return [
        [row.get(place, GOOD.get(name, "").replace("{n}", str(n))) for place, name in enumerate(header)]
        + [row[place] for place in row if place >= len(header)]
        for n, row in enumerate(rows)
    ]


@examples(200)
@given(
    HEADERS,
    st.lists(st.dictionaries(st.integers(0, 9), CELLS, max_size=2), max_size=5),
    st.sampled_from(["csv", "json"]),
)
@example(["question", "answer", "A", "B"], [{1: "A) liver", 2: "A) liver", 3: "B) spleen"}], "csv")
@example(["question", "answer", "options"], [{1: "", 2: " "}], "csv")
@example(["question", "answer", "kind", "A", "B"], [{2: "judgment"}], "csv")
@example(["question", "answer", "x", "y", "A", "B"], [{1: "", 4: "", 5: ""}], "csv")
@example(["question", "answer", "pair"], [{2: "p"}, {0: "", 2: "p"}, {2: "p"}], "csv")
def test_import_and_a_run_refuse_the_same_rows_with_the_same_words(
    tmp_path_factory: pytest.TempPathFactory, header: list[str], rows: list[dict[int, str]], kind: str
) -> None:
    """The first refused problem of `import` is the error of a run, and what `import` takes is read by a run."""
    folder = tmp_path_factory.getbasetemp() / "law"
    folder.mkdir(exist_ok=True)
    path, to = folder / f"t.{kind}", folder / "t.toml"
    if kind == "csv":
        with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
            csv.writer(file).writerows([header, *filled(header, rows)])
    else:
        path.write_text(json.dumps([dict(zip(header, row, strict=False)) for row in filled(header, rows)]))
    for withheld in (False, True):
        with withholding(withheld):
            outcome = imported(path, to)
        if outcome is None:
            continue
        benchmark, problems = outcome
        try:
            with withholding(withheld):
                list(benchmark.items(folder))
        except DataError as error:
            first = next((problem for problem in problems if problem.refused), None)
            assert first is not None, str(error)
            assert str(error).replace(f"{folder}/", "") == first.text(path.name)
        else:
            assert {problem.kind for problem in problems if problem.refused} <= {"image_missing"}


def imported(path: Path, to: Path) -> tuple[Benchmark, tuple[TableProblem, ...]] | None:
    """The benchmark and the problems of an import that asks nothing; None if it cannot tell the columns."""
    from medvqa.importing import asking, report_text, settings, writing

    try:
        sheet = importing.read(path, path.name)
        guess = asking.completed(sheet, [], with_images=False, ask=None)
        chosen = settings.guessed(sheet, guess.columns, settings.split([])[1])
        declaration = writing.declared(sheet, guess.columns, chosen, file=path, images=None, to=to)
        benchmark = table_files.benchmark_of(declaration, to)
    except (DataError, UsageError) as error:
        assert "\n" not in str(error)
        return None
    validation = importing.validate(sheet, guess, table_files.table_of(declaration, to))
    assert report_text.text(validation)
    report_text.as_json(report_text.values(validation))
    return benchmark, validation.problems


@examples(50)
@given(st.binary(max_size=200))
@example(b"PK\x03\x04")
@example(b"PAR1")
@example(b"\xff\xfe")
@example(b"{")
@example(b'a,"b\n' * 30)
def test_any_bytes_are_a_table_or_a_data_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.csv"
    path.write_bytes(content)
    imported(path, path.with_suffix(".toml"))
