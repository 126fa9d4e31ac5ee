"""The report about a table, and the roles of its columns."""

import csv
import json
import math
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import PIL.Image
import pytest
from scipy.stats import t as student

from medvqa import benchmarks, importing, medical
from medvqa.benchmarks import table_files
from medvqa.benchmarks.table import TableQuestion
from medvqa.benchmarks.table_declaration import TableDeclaration
from medvqa.cli import main
from medvqa.importing import asking, power, report_text, settings, textonly, writing
from medvqa.importing.problem_groups import grouped
from medvqa.importing.roles import Guess
from medvqa.importing.validation import Validation
from medvqa.items import DataError, Image, Item, Kind, UsageError, withholding
from medvqa.medical import decoder_process
from medvqa.tables import TableRow, people
from medvqa.tables.problems import TableProblem, row_list

HEADER = ("id", "image", "question", "A", "B", "C", "answer", "kind", "pair", "patient", "modality", "modality")


def picture(path: Path, shade: int = 0, mode: str = "L") -> None:
    """Write a small image of circles that differs with `shade`."""
    import PIL.ImageDraw

    path.parent.mkdir(parents=True, exist_ok=True)
    image = PIL.Image.new(mode, (32, 32))
    if mode == "L":
        drawing, draw = PIL.ImageDraw.Draw(image), random.Random(shade)
        for _ in range(4):
            x, y = draw.randrange(24), draw.randrange(24)
            drawing.ellipse((x, y, x + draw.randrange(4, 16), y + draw.randrange(4, 16)), fill=draw.randrange(60, 255))
    image.save(path)


def validated(path: Path, typed: Sequence[str] = ()) -> Validation:
    sheet = importing.read(path, path.name)
    roles, values = settings.split(typed)
    return validation_of(sheet, importing.guess(sheet, roles), path, values)


def declared(
    sheet: importing.Sheet, guess: Guess, path: Path, typed: TableDeclaration | None = None
) -> TableDeclaration:
    """The declaration of a table, beside it."""
    chosen = settings.guessed(sheet, guess.columns, typed or TableDeclaration())
    return writing.declared(sheet, guess.columns, chosen, file=path, images=None, to=path.with_suffix(".toml"))


def validation_of(
    sheet: importing.Sheet, guess: Guess, path: Path, typed: TableDeclaration | None = None
) -> Validation:
    declaration = declared(sheet, guess, path, typed)
    return importing.validate(sheet, guess, table_files.table_of(declaration, path.with_suffix(".toml")))


# One row for each mistake, by its kind: the changed cells, and a part of the line.
ROWS: dict[str, tuple[dict[str, str], str]] = {
    "missing_id": ({"id": ""}, "no id"),
    "duplicate_id": ({"id": "q-missing-key"}, "the id of row"),
    "empty_question": ({"question": ""}, "the question is empty"),
    "no_option": ({"answer": "D"}, "'D' is none of its options A, B, C"),
    "two_options_match": ({"B": "Liver ", "A": "liver", "answer": "liver"}, "is the text of options A and B"),
    "equal_options": ({"B": "kidney", "C": "Kidney"}, "options B and C are equal"),
    "one_option": ({"B": "", "C": "", "answer": "A"}, "one option alone"),
    "option_gap": ({"B": ""}, "option B is blank, and option C is not"),
    "option_prefix": ({"A": "A. liver"}, "begins with its letter"),
    "unknown_kind": ({"kind": "quiz"}, "no kind 'quiz'"),
    "kind_options": ({"kind": "short_answer"}, "a short_answer question has no options"),
    "several_right": ({"kind": "single_choice", "answer": "A,C"}, "2 right options"),
    "no_judgment": (
        {"kind": "judgment", "A": "", "B": "", "C": "", "answer": "maybe"},
        "'maybe' is neither yes nor no",
    ),
    "no_kind": ({"A": "", "B": "", "C": "", "answer": "yes"}, "the answer is yes or no, and no kind says so"),
    "no_answer": ({"id": "q-missing-key", "answer": ""}, "the key is withheld"),
    "letter_and_text": ({"A": "B", "answer": "B"}, "'B' is a letter, and the text of option A"),
    "placeholder": ({"answer": "TODO"}, "'TODO' stands for a missing value"),
    "image_missing": ({"image": "nowhere.png"}, "no image 'nowhere.png'"),
    "image_leaves": ({"image": "../secret.png"}, "leaves the folder"),
    "image_absolute": ({"image": "C:\\Bilder\\17.png"}, "is an absolute path"),
    "image_url": ({"image": "https://example.org/17.png"}, "is a URL"),
    "image_backslash": ({"image": "ct\\17.png"}, "has a backslash"),
    "image_separator": ({"image": "ok.png; ok2.png"}, "2 paths in a cell"),
    "image_damaged": ({"image": "damaged.png"}, "'damaged.png' is damaged"),
    "image_empty": ({"image": "empty.png"}, "is empty (0 bytes)"),
    "image_format": ({"image": "text.png"}, "is not an image"),
    "image_bits": ({"image": "deep.png"}, "has 16 bits a channel"),
    "image_view": ({"image": "ok.dcm?window=lungs"}, "?window=lungs"),
    "image_folder": ({"image": "folder"}, "is a folder"),
    "too_many_images": ({"image": "|".join(f"{i}.png" for i in range(101))}, "101 images"),
    "error_cell": ({"answer": "#REF!"}, "the spreadsheet's error #REF!"),
    "white_space": ({"kind": "  "}, "only white space"),
    "mojibake": ({"question": "Which organ is grÃ¶ÃŸer?"}, "'grÃ¶ÃŸer?' in place of 'größer?'"),
    "control": ({"question": "Which\u200b organ is dark?"}, "the invisible character U+200B"),
    "html": ({"question": "Which <b>organ</b> is bold?"}, "HTML: <b>"),
    "date": ({"B": "2. Jan"}, "'2. Jan' looks like a date"),
    "number": ({"B": "17.0"}, "'17.0' looks like a whole number"),
    "scientific": ({"id": "1.23E+15"}, "scientific notation"),
    "pair_size": ({"pair": "alone"}, "a pair of 1 question"),
    "patient_spelling": ({"patient": "P 007"}, "one patient in 2 spellings"),
    "leak_question": ({"question": "Where is the liver in this scan?", "answer": "A"}, "holds the right answer"),
    "leak_file": ({"image": "liver.png", "answer": "A"}, "the name of the image file holds the right answer"),
    "no_image": ({"image": ""}, "no image although its text is about one"),
    "private_file": ({"image": "Mueller_Hans.png"}, "may hold a name of a patient"),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> tuple[Validation, dict[str, int], str]:
    """The report about a table with all these mistakes, the row of each, and the report's text."""
    path, numbers = bad_table(tmp_path_factory.mktemp("bad"))
    validation = validated(path)
    return validation, numbers, report_text.text(validation, every=True)


def bad_table(folder: Path) -> tuple[Path, dict[str, int]]:
    """Write a table with all these mistakes; return it, and the row of each."""
    for number, name in enumerate(("ok", "ok2", "liver", "Mueller_Hans", "copy_a")):
        picture(folder / f"{name}.png", number)
    (folder / "copy_b.png").write_bytes((folder / "copy_a.png").read_bytes())
    picture(folder / "deep.png", mode="I;16")
    (folder / "damaged.png").write_bytes((folder / "ok.png").read_bytes()[:60])
    (folder / "empty.png").touch()
    (folder / "text.png").write_text("no image")
    (folder / "folder").mkdir()
    base = dict(zip(HEADER, ("", "ok.png", "", "liver", "spleen", "kidney", "B", "", "", "", "CT", "CT"), strict=True))
    rows: list[list[str]] = []
    numbers = {}

    def add(name: str, **changes: str) -> None:
        number = len(rows) + 2
        numbers.setdefault(name, number)
        row = base | {"id": f"q{number}", "question": f"Which organ is shown in picture {number}?"} | changes
        rows.append([row[column] for column in HEADER])

    for kind, (changes, _) in sorted(ROWS.items(), key=lambda entry: entry[0] == "duplicate_id"):
        add(kind, **changes)
    add("patient_spelling_2", patient="p007")
    add("pair_equal", pair="p1")
    add("pair_equal_2", pair="p1")
    add("copies", image="copy_a.png|copy_b.png")
    add("first", id="d1", question="Which organ is this?")
    add("duplicate_row", id="d2", question="Which organ is  THIS?")
    add("conflict_2", id="d3", question="Which organ is this?", answer="C")
    for _ in range(20):
        add("fine")
    wide = [*rows[-1], "and more"]
    path = folder / "cases.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows, wide, rows[-1][:-2]])
        file.write('"q99","ok.png","never closed\n')
    return path, numbers


def test_a_report_that_withholds_cells_has_the_same_lines_without_them(
    bad: tuple[Validation, dict[str, int], str], tmp_path: Path
) -> None:
    path, _ = bad_table(tmp_path)
    with withholding():
        validation = validated(path)
        written = report_text.text(validation, every=True) + json.dumps(report_text.values(validation))
    assert [(m.kind, m.row, m.column) for m in validation.problems] == [
        (m.kind, m.row, m.column) for m in bad[0].problems
    ]
    for mistake in validation.problems:
        assert mistake.kind == "duplicate_column" or not re.search(r"(?<!\w)'", mistake.what + mistake.do), mistake
    cells = {cell for changes, _ in ROWS.values() for column, cell in changes.items() if column != "kind"}
    told = {"folder", "alone", "#REF!", "liver", "spleen", "kidney", "answer", "CT", "A. liver"}
    assert [cell for cell in cells - told if len(cell.strip()) > 3 and cell in written] == []


NAMED = (
    "id,image,question,A,B,answer,Name,Modalität\n"
    '1,SMITH_JOHN/1.dcm,Welches Organ?,Leber,Milz,A,"Smith, John",CT\n'
    '2,MUSTERMANN_ERIKA/IM1,Welches Organ?,Leber,Milz,A,"Mustermann, Erika",CT\n'
    '3,Mustermann_ct.nii.gz,Welches Organ?,Leber,Milz,B,"Mustermann, Erika",MR\n'
    '4,4.png,Befund bei Frau Mustermann?,Leber,Milz,A,"Mustermann, Erika",MR\n'
    '5,5.png,Welches Organ?,Herr Müller,Milz,B,"Müller, Jürgen",CT\n'
    '6,6.png,Wie ist Muellers Leber?,normal,gross,A,"Müller, Jürgen",CT\n'
    '7,7.png,Welches Organ?,Leber,Milz,B,"Smith, John",JOHN\n'
    '8,8.png,Welches Organ?,Leber,Milz,B,"Smith, John",JOHN\n'
    'SMITHJOHN,9.png,Welches Organ?,Leber,Milz,A,"Ohne, Befund",MR\n'
    '10,10.png,Wie geht es Herrn Fremd?,Leber,Milz,A,"Ohne, Befund",MR\n'
)


def test_names_in_paths_and_texts_are_reported_by_their_rows(tmp_path: Path) -> None:
    """Names are compared with the column of names; what looks like one is suspected without it too."""
    path = tmp_path / "cases.csv"
    path.write_text(NAMED, encoding="utf-8")
    for number in range(4, 11):
        picture(tmp_path / f"{number}.png", number)
    with withholding():
        validation = validated(path)
        written = report_text.text(validation, every=True) + json.dumps(report_text.values(validation))
    found = {(m.row, m.column) for m in validation.problems if m.kind == "private_name"}
    images = {(row, "image") for row in (2, 3, 4)}
    tags = {(row, "Modalität") for row in (8, 9)}
    assert found == {*images, (5, "question"), (6, "A"), (7, "question"), *tags, (10, "id"), (11, "question")}
    assert {m.row for m in validation.problems if m.kind == "private_file"} == {2, 3, 4}
    for name in ("smith", "mustermann", "müller", "mueller", "erika", "fremd"):
        assert name not in written.casefold(), name
    assert validation.groups is not None
    assert (validation.groups.patients, validation.grouped_by) == (4, "Name")


def test_a_column_of_names_becomes_that_of_patients_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(NAMED, encoding="utf-8")
    sheet = importing.read(path, path.name)
    guess = importing.guess(sheet, [])
    to = tmp_path / "klinik.toml"
    chosen = settings.guessed(sheet, guess.columns, TableDeclaration())
    declaration = writing.declared(sheet, guess.columns, chosen, file=path, images=None, to=to)
    items = {item.id: item for item in benchmarks.load(table_files.benchmark_of(declaration, to), tmp_path)}
    groups = [items[id].cluster_id for id in ("1", "7", "2", "3", "4", "5")]
    assert groups[0] == groups[1] != groups[2] == groups[3] == groups[4] != groups[5]
    values = repr([(item.cluster_id, item.extra, item.tags) for item in items.values()])
    assert "Mustermann" not in values
    for typed in (["patient="], ["patient=id"]):
        columns = importing.guess(sheet, typed).columns
        assert columns.one.get("patient") != sheet.position("Name")
    plain = tmp_path / "plain.csv"
    plain.write_text("id,question,answer,name\n" + "".join(f"{n},Q?,so,Pneumonie\n" for n in range(4)))
    assert "patient" not in importing.guess(importing.read(plain, "plain.csv"), []).columns.one, "a name of anything"


@pytest.mark.parametrize("kind", ROWS)
def test_each_kind_of_mistake_has_its_line(bad: tuple[Validation, dict[str, int], str], kind: str) -> None:
    validation, numbers, text = bad
    found = [
        m for m in validation.problems if m.kind == kind and (m.row == numbers[kind] or kind == "patient_spelling")
    ]
    assert len(found) == 1
    assert ROWS[kind][1] in found[0].what
    lines = [line for line in text.splitlines() if found[0].what in line and found[0].do in line]
    assert lines
    assert all("cases.csv row" in line for line in lines)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("row_width", "more cells where the first line has 12"),
        ("row_width", "only 10 cells where the first line has 12"),
        ("quote", "a quote is never closed"),
        ("duplicate_column", "column 'modality' occurs twice"),
        ("pair_equal", "a pair with equal answers"),
        ("duplicate_row", "the same question, image and answer as row"),
        ("conflict", "the same question and image with other answers"),
    ],
)
def test_mistakes_of_several_rows_have_their_line(
    bad: tuple[Validation, dict[str, int], str], kind: str, part: str
) -> None:
    validation, _, text = bad
    assert [m for m in validation.problems if m.kind == kind and part in m.what]
    assert part in text


def test_the_report_has_a_line_for_each_kind_and_none_for_a_fine_row(
    bad: tuple[Validation, dict[str, int], str],
) -> None:
    validation, numbers, text = bad
    assert len({problem.kind for problem in validation.problems}) >= 45
    # A line each, and each says what to type.
    assert all(problem.what and problem.do for problem in validation.problems)
    fine = numbers["fine"]
    assert [problem for problem in validation.problems if problem.row in range(fine, fine + 19)] == []
    assert validation.pictures.equal == [("copy_a.png", "copy_b.png")]
    assert "equal files: 'copy_a.png', 'copy_b.png'" in text
    assert "Mueller" not in text + json.dumps(report_text.values(validation)), "a suspected name"


# Spreadsheets, Parquet, JSON lines


def workbook(path: Path) -> None:
    """Write a spreadsheet with the mistakes that only a spreadsheet has."""
    import datetime

    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["id", "question", "A", "B", "answer", "birth"])
    for number in range(2, 10):
        sheet.append([number, f"Which side is number {number}?", "left", "right", "A", datetime.date(1950, 1, number)])
    sheet["E3"] = '=IF(1=1,"A","B")'
    sheet["E4"] = "#REF!"
    sheet["E4"].data_type = "e"
    sheet["C5"] = datetime.datetime(2024, 1, 2)
    sheet["A6"] = float(2**60)
    sheet["G7"] = "beside"
    sheet.merge_cells("B8:B9")
    sheet.row_dimensions[9].hidden = True
    sheet.column_dimensions["F"].hidden = True
    book.create_sheet("notes")
    book.create_sheet("old").sheet_state = "hidden"
    book.save(path)


@pytest.mark.parametrize(
    ("kind", "row", "part"),
    [
        ("formula", 3, "a formula; copy the column and paste it as values"),
        ("error_cell", 4, "the spreadsheet's error #REF!"),
        ("date", 5, "a date: a spreadsheet may have made it from text such as 1-2"),
        ("scientific", 6, "a number of more than 15 digits"),
        ("row_width", 7, "more cells where the first line has 6"),
        ("merged", 9, "merged cells B8:B9: only the first holds a value"),
        ("hidden_rows", 9, "row 9: hidden in the spreadsheet, and read like all others"),
        ("hidden_columns", None, "hidden columns, 1 in all, which are read like all others"),
        ("several_sheets", None, "3 sheets; only the first, 'Sheet', is read"),
        ("hidden_sheets", None, "hidden sheets: 'old'"),
    ],
)
def test_mistakes_of_a_spreadsheet(tmp_path: Path, kind: str, row: int | None, part: str) -> None:
    workbook(tmp_path / "cases.xlsx")
    validation = validated(tmp_path / "cases.xlsx")
    found = [mistake for mistake in validation.problems if mistake.kind == kind]
    assert [mistake.row for mistake in found] == [row]
    assert part in report_text.text(validation)
    # Birth dates are not read.
    assert validation.private == ("birth",)
    assert "1950" not in report_text.text(validation)


def parquet(path: Path, *pictures: bytes) -> None:
    import pyarrow
    from pyarrow import parquet as writer

    rows = [
        {"id": "1", "image": {"bytes": pictures[0], "path": "a"}, "question": "Is it dark?", "answer": "yes"},
        {"id": "1", "image": {"bytes": pictures[1], "path": "b"}, "question": "", "answer": "TODO"},
    ]
    writer.write_table(pyarrow.Table.from_pylist(rows), path)


def test_mistakes_of_parquet(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    good = (tmp_path / "a.png").read_bytes()
    parquet(tmp_path / "cases.parquet", good, good[:50])
    validation = validated(tmp_path / "cases.parquet", typed=["kind=judgment"])
    assert {mistake.kind for mistake in validation.problems if mistake.refused} == {
        *("duplicate_id", "empty_question", "placeholder", "image_damaged"),
    }
    assert "cases.parquet record 2, column 'question': the question is empty" in report_text.text(validation)


def test_cells_end_at_the_sign_that_a_benchmark_file_takes(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("Frage, kurz;Antwort;Nr\nWarum, bitte?;so;1\n")
    sheet = importing.read(path, path.name)
    assert sheet.columns == ("Frage, kurz", "Antwort", "Nr")
    assert [tuple(row.values.values()) for row in sheet.rows] == [("Warum, bitte?", "so", "1")]


def test_every_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": 1, "question": "Why?", "answer": "so"}\n{"id": 2,\n[1]\n{"id": 1, "answer": ["x", 3]}\n')
    lines = report_text.text(validated(path))
    for part in (
        "cases.jsonl line 2: not JSON",
        "line 3: Expected `object`, got `array`",
        "line 4, column 'id': the id of line 1",
    ):
        assert part in lines
    assert "line 4, column 'question': the question is empty" in lines


@pytest.mark.parametrize(("encoding", "name"), [("cp1252", "cp1252"), ("gb18030", "gb18030"), ("utf-16", "utf-16")])
def test_another_encoding_is_guessed_and_declared(tmp_path: Path, encoding: str, name: str) -> None:
    text = "Frage,Antwort\nWelche Größe hat der Tumor über dem Auge?,groß\n"
    if encoding == "gb18030":
        text = "问题,答案\n图中显示的是哪个器官？,肝脏\n"
    path = tmp_path / "cases.csv"
    path.write_bytes(text.encode(encoding))
    sheet = importing.read(path, path.name)
    assert sheet.encoding == name
    assert [m.kind for m in sheet.problems.found] == ["encoding"]
    assert list(sheet.rows[0].values.values())[1] in ("groß", "肝脏")


def test_a_declared_encoding_must_fit(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_bytes("question,answer\nWhy?,größer\n".encode("cp1252"))
    assert importing.read(path, "cases.csv", encoding="cp1252").problems.found == []
    with pytest.raises(DataError, match=r"cases\.csv line 2: not UTF-8"):
        importing.read(path, "cases.csv", encoding="utf-8")


def test_rows_above_the_names_of_columns_are_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("Fragen der Radiologie,,\nid,question,answer\n1,Why?,so\n")
    validation = validated(path)
    assert [mistake.kind for mistake in validation.problems] == ["header"]
    assert validation.questions == 1


# Roles


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("Nr;Bild;Frage;Antwort A;Antwort B;Richtige Antwort;Patientennummer", "id image question A B answer patient"),
        ("编号;图片;问题;选项A;选项B;答案;患者编号", "id image question A B answer patient"),
        ("qid;Image Path;Question;Option 1;Option 2;Correct Answer;MRN", "id image question A B answer patient"),
        ("index;img;stem;choice_0;choice_1;label;subject", "id image question A B answer patient"),
        ("id;img;prompt;opt A;opt B;gt;case", "id image question A B answer case"),
    ],
)
def test_roles_by_name(tmp_path: Path, header: str, roles: str) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(f"{header}\n1;a.png;Why?;x;y;A;p1\n2;b.png;How?;x;y;B;p2\n")
    guess = importing.guess(importing.read(path, "cases.csv"))
    assert guess.questions == ()
    assert {**guess.columns.one, "image": guess.columns.images[0]} == {
        role: place for place, role in enumerate(roles.split())
    }


def test_roles_by_content(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("x,y,A,B,z\nscans/1.png,Which side?,left,right,A\nscans/2.jpg,Which one?,left,right,B\n")
    guess = importing.guess(importing.read(path, "cases.csv"))
    assert guess.columns.images == (0,)
    assert [(question.role, question.candidates) for question in guess.questions] == [
        ("question", (1,)),
        ("answer", (4,)),
    ]


def numbered_cases(path: Path, repeated: int, rows: int = 40) -> Path:
    """Write a table without ids, whose cases are numbered, with the first number in `repeated` more rows."""
    numbers = [1] * repeated + list(range(1, rows - repeated + 1))
    lines = [f"K{number:03},Ist Befund {row} sichtbar?,ja,nein,{'AB'[row % 2]}" for row, number in enumerate(numbers)]
    path.write_text("\n".join(["Fall-Nr,Frage,A,B,Antwort", *lines]))
    return path


def test_cases_that_nearly_all_differ_may_be_ids_with_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = numbered_cases(tmp_path / "k.csv", 1)
    assert main(["import", str(path), "--yes"]) == 4
    line = (
        "k.csv: no column is called id, and 39 of 40 values differ in that of the case: type --set case=Fall-Nr if it "
    )
    assert f"{line}joins questions ('Fall-Nr'). Type --set id=Fall-Nr" in capsys.readouterr().err
    assert not path.with_suffix(".toml").exists()
    assert main(["import", str(path), "--yes", "--set", "id=Fall-Nr"]) == 1
    shown = capsys.readouterr().out
    assert "1 to correct" in shown
    assert "k.csv row 3, column 'Fall-Nr': " in shown
    assert main(["import", str(path), "--yes", "--set", "case=Fall-Nr"]) == 0
    shown = capsys.readouterr().out
    assert "39 groups for the intervals, the largest of 2 questions" in shown
    assert "no column is the id: questions are called by their rows, and otherwise if these move" in shown
    sheet = importing.read(path, path.name)
    asked: list[str] = []
    guess = asking.completed(sheet, (), with_images=False, ask=lambda text: asked.append(text) or "0")  # type: ignore[func-returns-value]
    assert len(asked) == 1
    assert guess.columns.one["case"] == 0
    assert "id" not in guess.columns.one


@pytest.mark.parametrize("repeated", [0, 5, 20])
def test_cases_that_join_questions_or_none_are_no_ids(tmp_path: Path, repeated: int) -> None:
    sheet = importing.read(numbered_cases(tmp_path / "k.csv", repeated), "k.csv")
    guess = importing.guess(sheet)
    assert guess.questions == ()
    assert guess.columns.one["case"] == 0


def test_typed_roles_win(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("frage,antwort,answer,organ\nWhy?,so,x,liver\nHow?,thus,y,liver\n")
    sheet = importing.read(path, "cases.csv")
    guess = importing.guess(sheet, ["answer=Antwort", "slice=organ", "private=answer"])
    assert guess.columns.one == {"question": 0, "answer": 1}
    assert guess.columns.slices == (3,)
    assert guess.columns.private == (2,)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("answer", "--set=answer: write ROLE=COLUMN; there are: question, answer"),
        ("colour=x", "--set=colour=x: write ROLE=COLUMN"),
        ("answer=nowhere", "--set=answer=nowhere: no column 'nowhere'; there are: question, answer"),
        ("window=1", "--set=window=1: write the raw values for black and white"),
        ("window=5,5", "--set=window=5,5: two different numbers"),
        ("numbers_from=2", "--set=numbers_from=2: options are counted from 0 or from 1"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, typed: str, message: str) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("question,answer\nWhy?,so\n")
    with pytest.raises(UsageError) as error:
        importing.guess(importing.read(path, "cases.csv"), settings.split([typed])[0])
    assert str(error.value).startswith(message)


def test_a_column_that_has_no_role_is_declared_so(tmp_path: Path) -> None:
    # Kinds of questions of another data set, which a benchmark file would take for its own kinds.
    path = tmp_path / "cases.csv"
    path.write_text(
        "question,answer,question type,index\nWhy?,so,organ,1\nHow?,so,organ,1\nWho?,me,side,1\nWhen?,now,side,2\n"
    )
    sheet = importing.read(path, "cases.csv")
    guess = importing.guess(sheet, ["id="])
    assert guess.columns.one == {"question": 0, "answer": 1}
    to = tmp_path / "cases.toml"
    chosen = TableDeclaration()
    declaration = writing.declared(sheet, guess.columns, chosen, file=path, images=None, to=to)
    assert declaration.columns == {"question": "question", "answer": "answer", "id": "", "kind": ""}
    items = benchmarks.load(table_files.benchmark_of(declaration, to), tmp_path)
    assert [(item.id, item.kind, item.tags["question_type"]) for item in items] == [
        *(("2", "short_answer", ("organ",)), ("3", "short_answer", ("organ",))),
        *(("4", "short_answer", ("side",)), ("5", "short_answer", ("side",))),
    ]


def ambiguous(tmp_path: Path) -> importing.Sheet:
    path = tmp_path / "cases.csv"
    path.write_text("text,Lösung,Musterantwort\nWelche Seite?,links,rechts\nWelches Organ?,Leber,Milz\n")
    return importing.read(path, "cases.csv")


def test_without_a_terminal_one_line_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        asking.completed(ambiguous(tmp_path), [], with_images=False, ask=None)
    assert str(error.value) == (
        "cases.csv: 2 columns could be the answer ('Lösung', 'Musterantwort'); no column is called question ('text'). "
        "Type --set answer=COLUMN --set question=text"
    )


def test_a_terminal_is_asked_and_sees_no_cell(tmp_path: Path) -> None:
    replies, asked = iter(["7", "2\n", "1\n"]), []

    def ask(text: str) -> str:
        asked.append(text)
        return next(replies)

    guess = asking.completed(ambiguous(tmp_path), [], with_images=False, ask=ask)
    assert guess.columns.one == {"answer": 2, "question": 0}
    assert asked[0].startswith("Which column has the right answer? (2 columns could be the answer)\n  1  Lösung (2 ")
    assert not any("Leber" in text or "links" in text for text in asked)
    assert asked[1].startswith(
        "Type a number from 1 to 2, or the name of a column.\nWhich column has the right answer?"
    )
    named = iter(["musterantwort", "Text"])
    by_name = asking.completed(ambiguous(tmp_path), [], with_images=False, ask=lambda text: next(named))
    assert by_name.columns.one == guess.columns.one


def test_three_wrong_numbers_end_the_questions(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="or answer with a number"):
        asking.completed(ambiguous(tmp_path), [], with_images=False, ask=lambda text: "x")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("frage,antwort\nWelches Organ ist zu sehen?,Leber\n", {"language": "de"}),
        ("frage,antwort\n图中是哪个器官？,肝\n", {"language": "zh"}),
        ("question,A,B,answer\nWhich is it?,x,y,1\nWhich is the other?,x,y,2\n", {"language": "en", "numbers_from": 1}),
        ("question,A,B,answer\nWhich is it?,x,y,0\nWhich is the other?,x,y,1\n", {"language": "en", "numbers_from": 0}),
        ("question,options,answer\nWhich is it?,x|y,A\n", {"language": "en", "separator": "|"}),
        ("question,answer\nIs the liver large?,yes\nIs it dark?,no\n", {"language": "en", "kind": "judgment"}),
        ("frage,antwort\nIst die Leber zu sehen?,ja\nIst es die Milz?,nein\n", {"language": "de", "kind": "judgment"}),
    ],
)
def test_settings_are_guessed(tmp_path: Path, content: str, expected: dict[str, Any]) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(content)
    sheet = importing.read(path, "cases.csv")
    guess = importing.guess(sheet)
    assert settings.guessed(sheet, guess.columns, TableDeclaration()) == TableDeclaration(**expected)
    assert validation_of(sheet, guess, path).refused == 0


# Privacy

SECRETS = ("Schmidt", "Petra", "1957", "PAT-4711", "Hauptstrasse")


def test_cells_of_patients_are_in_no_output(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(
        "id,question,answer,patient_id,Name,DOB,Adresse,who,when\n"
        '1,Why is it?,so,PAT-4711,"Schmidt, Petra",3.12.1957,Hauptstrasse 1,"Schmidt, Petra",1957-12-03\n'
        '2,How is it?,so,pat-4711 ,"Schmidt, Paul",4.12.1957,Hauptstrasse 2,"Schmidt, Paul",1957-12-04\n'
        "2,,so,=PAT-4711,x,x,x,x,x\n" + '3,Who is it?,so,P,"Schmidt, A",5.12.1957,x,"Schmidt, A",1957-12-05\n' * 4
    )
    validation = validated(path)
    assert validation.private == ("Name", "DOB", "Adresse", "who", "when")
    written = report_text.text(validation, every=True) + json.dumps(report_text.values(validation))
    assert [secret for secret in SECRETS if secret in written] == []
    assert "patient_spelling" in {mistake.kind for mistake in validation.problems}
    assert validation.groups is not None
    assert validation.groups.patients > 0


@pytest.mark.parametrize(
    ("file", "suspicion"),
    [
        ("Mueller_Hans.png", "a name"),
        ("SMITH_JOHN/1.dcm", "a name"),
        ("MUSTERMANN_ERIKA/IM1", "a name"),
        ("Mustermann_ct.nii.gz", "a name"),
        ("MUSTERMANN/SERIES1/IM1", "a name"),
        ("DICOM/SERIES1/IM2", ""),
        ("ISIC_0024306.jpg", ""),
        ("IMG_0001.dcm", ""),
        ("MUELLER^HANS.dcm", "a name"),
        ("scans/Anna Schmidt/1.png", "a name"),
        ("19570312_ct.png", "a date"),
        ("ct/3.12.1957.png", "a date"),
        ("Axial_Chest_CT.png", ""),
        ("synpic100.jpg", ""),
        ("ct/17.png", ""),
        ("a3f91b20240199.png", ""),
    ],
)
def test_suspected_names_of_people_in_file_names(file: str, suspicion: str) -> None:
    assert people.suspected(file) == suspicion


# Figures


def case(
    number: int,
    question: str = "q",
    options: dict[str, str] | None = None,
    answers: tuple[str, ...] = (),
    kind: Kind = "short_answer",
    files: tuple[str, ...] = (),
    **extra: str,
) -> TableQuestion:
    """A question as a row has it."""
    item = Item(str(number), "", kind, question, options or {}, answers, tuple(map(Image, files)), extra=extra)
    links = [f"image {Path(file).as_posix()}" for file in files] + [f"{role} {text}" for role, text in extra.items()]
    return TableQuestion(TableRow("t.csv", "row", number, 0, {}), item, tuple(links))


def cases(n: int, answer: str = "ABCD", patients: int = 0) -> list[TableQuestion]:
    draw, options = random.Random(0), {"A": "liver", "B": "spleen", "C": "kidney", "D": "lung"}
    return [
        case(
            i + 2,
            f"Which organ is number {i}?",
            options,
            (draw.choice(answer),),
            "single_choice",
            (f"{i}.png",),
            **({"patient": f"p{i % patients}"} if patients else {}),
        )
        for i in range(n)
    ]


def baselines(listed: list[TableQuestion]) -> dict[str, textonly.TextBaseline]:
    return {one.name: one for one in textonly.baselines([one.item for one in listed], power.grouped(listed))}


def test_power_is_that_of_the_plan() -> None:
    listed = cases(300, patients=120)
    groups = power.groups_of(listed, power.grouped(listed))
    assert (groups.questions, groups.patients, groups.images, groups.groups, groups.largest) == (300, 120, 300, 120, 3)
    # 60 groups of 3 and 60 of 2: 300^2 / (60 * 9 + 60 * 4).
    assert groups.effective == pytest.approx(90000 / 780)
    shown = power.power_of(groups)
    assert shown is not None
    # Student's quantiles of 114.4 degrees of freedom, 1.981 and 0.845, and the design effect 780 / 300.
    quantiles = student.ppf(0.975, 90000 / 780 - 1) + student.ppf(0.8, 90000 / 780 - 1)
    assert shown.difference == pytest.approx(
        (quantiles * math.sqrt(0.2 / 300), quantiles * math.sqrt(0.2 / 300 * 2.6)), rel=1e-4
    )
    assert shown.needed[0] == pytest.approx((2.8015852 / 0.05) ** 2 * 0.2, rel=0.02)


@pytest.mark.parametrize(
    ("groups", "size", "said"),
    [
        (60, 1, "with 60 questions in 60 groups, a difference of about 16 points between two models is shown"),
        (20, 30, "with 600 questions in 20 groups, a difference of about 5 points between two models is shown with "
        "80 % power (none, if the questions of a group are answered alike), if they differ in 20 % of the questions"),
        (8, 4, "with 32 questions in 8 groups, no difference between two models is shown with 80 % power"),
        (4, 50, "with 200 questions in 4 groups, no difference between two models is shown with 80 % power"),
    ],
)  # fmt: skip
def test_no_difference_is_promised_beyond_the_questions_in_which_the_models_differ(
    groups: int, size: int, said: str
) -> None:
    """A power line of normal quantiles promised 28 points for 20 groups of 30, where the models differ in 20 %."""
    listed = cases(groups * size, patients=groups)
    found = power.groups_of(listed, power.grouped(listed))
    shown = power.power_of(found)
    assert shown is not None
    assert all(each is None or each <= shown.discordance for each in shown.difference)
    lines = list(
        report_text._power(Validation("t", "row", groups * size, (), TableDeclaration(), groups=found, power=shown))
    )
    assert lines[0].startswith(said)


def test_questions_of_one_image_patient_or_case_are_one_group() -> None:
    linked = [
        case(2, files=("a.png",)),
        case(3, files=("./a.png",), patient="p"),
        case(4, patient="p"),
        case(5, case="p"),
    ]
    assert power.grouped(linked) == [0, 0, 0, 1]


def test_a_preferred_letter_is_found() -> None:
    listed = cases(100, "AAAB")
    found = baselines(listed)
    always = found["always A"]
    assert always.value == sum(one.item.answers == ("A",) for one in listed) / 100
    assert always.chance == 0.25
    assert always.low is not None
    assert always.above_chance
    assert found["words of question and options"].value > 0.5


def test_a_word_that_tells_the_answer_is_found_in_other_patients() -> None:
    # The right option is the one about the left side if the question names it.
    draw = random.Random(1)
    listed = []
    for i in range(120):
        side = draw.choice(("left", "right"))
        texts = [f"the {side} one", f"the {'left' if side == 'right' else 'right'} one"]
        draw.shuffle(texts)
        options = dict(zip("AB", texts, strict=True))
        right = next(letter for letter, text in options.items() if side in text)
        listed.append(case(i, f"Which {side} organ {i}?", options, (right,), "single_choice", (f"{i}.png",)))
    found = baselines(listed)
    assert found["words of question and options"].value > 0.95
    assert not any(one.above_chance for name, one in found.items() if name.startswith("always"))


def test_options_that_occur_once_are_not_learnt() -> None:
    draw = random.Random(3)
    listed = [
        case(
            i,
            f"Which of them is {i}?",
            dict(zip("ABC", (f"x{i}", f"y{i}", f"z{i}"), strict=True)),
            (draw.choice("ABC"),),
            "single_choice",
        )
        for i in range(60)
    ]
    found = baselines(listed)
    # All options are equally rare, so the first is taken.
    often = found["the option that is right most often elsewhere"]
    assert often.value == sum(one.item.answers == ("A",) for one in listed) / 60
    assert not any(one.above_chance for one in found.values())


def test_judgments_have_baselines_of_their_own() -> None:
    draw = random.Random(4)
    judged = [
        case(
            i,
            f"Is there {organ} in picture {i}?",
            {},
            ("yes" if organ == "blood" else "no",),
            "judgment",
            (f"{i}.png",),
        )
        for i, organ in enumerate(draw.choice(("blood", "air", "bone")) for _ in range(90))
    ]
    listed = [*cases(100), *judged]
    found = baselines(listed)
    assert [(one.n, one.chance) for one in found.values()] == [*[(100, 0.25)] * 4, *[(90, 0.5)] * 2]
    assert found["always no"].value == sum(one.item.answers == ("no",) for one in judged) / 90
    assert found["words of questions for yes or no"].value == 1


def test_random_answers_are_not_above_chance() -> None:
    listed = cases(200)
    assert not any(one.above_chance for one in baselines(listed).values())


def test_similar_images_are_listed(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 1)
    picture(tmp_path / "b.png", 2)
    with PIL.Image.open(tmp_path / "a.png") as image:
        image.convert("RGB").save(tmp_path / "c.png")
    (tmp_path / "cases.csv").write_text("image,question,answer\na.png,Why?,so\nb.png,How?,so\nc.png,Who?,so\n")
    validation = validated(tmp_path / "cases.csv")
    assert validation.pictures.near == (("a.png", "c.png"),)
    assert "similar images: 'a.png' and 'c.png'" in report_text.text(validation)


def test_without_imagehash_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "imagehash", None)
    picture(tmp_path / "a.png")
    (tmp_path / "cases.csv").write_text("image,question,answer\na.png,Why?,so\n")
    text = report_text.text(validated(tmp_path / "cases.csv"))
    assert "similar images were not looked for: pip install 'pytest-medvqa[data]'" in text


@pytest.mark.parametrize(
    ("there", "rows", "advice"),
    [
        ("ct/17.PNG", ("ct/17.png", "17.PNG", "ct/17"), ["'ct/17.PNG' is there; write that"] * 3),
        ("ct/17.png", ("17.png?window=lung", "ct/17.png"), ["'ct/17.png?window=lung' is there; write that"]),
    ],
)
def test_a_missing_image_names_the_file_that_is_meant_with_its_view(
    tmp_path: Path, there: str, rows: tuple[str, ...], advice: list[str]
) -> None:
    picture(tmp_path / there)
    (tmp_path / "cases.csv").write_text("image,question,answer\n" + "".join(f"{row},Why?,so\n" for row in rows))
    found = validated(tmp_path / "cases.csv").problems
    assert [problem.do for problem in found if problem.kind == "image_missing"] == advice


def test_a_folder_with_two_question_marks_says_how_the_parts_are_joined(tmp_path: Path) -> None:
    (tmp_path / "SER").mkdir()
    (tmp_path / "cases.csv").write_text("image,question,answer\nSER/?slice=3?window=lung,Why?,so\nSER,How?,so\n")
    done = [problem.do for problem in validated(tmp_path / "cases.csv").problems if problem.kind == "image_folder"]
    assert done == ["write & in place of the second ?", "write the path of a file, or name a slice: ?slice=1"]


def test_letters_as_answers_without_options_are_a_warning_that_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "cases.csv").write_text("question,a1,a2,answer\nWhich?,liver,spleen,A\nWhich one?,liver,spleen,B\n")
    (warning,) = validated(tmp_path / "cases.csv").problems[:1]
    assert (warning.kind, warning.refused) == ("letter_alone", False)
    assert warning.do == "name their columns as A, B and so on"
    typed = ("A=a1", "B=a2")
    assert not [one for one in validated(tmp_path / "cases.csv", typed=typed).problems if one.kind == "letter_alone"]


def test_numbers_of_cases_are_no_tag_unless_typed_and_years_are_one(tmp_path: Path) -> None:
    lines = [f"Which?,so,P{100 + n // 2},{2019 + n // 4},T{n // 4}\n" for n in range(8)]
    (tmp_path / "cases.csv").write_text("question,answer,code,year,station\n" + "".join(lines))
    sheet = importing.read(tmp_path / "cases.csv", "cases.csv")
    assert [sheet.columns[place] for place in importing.guess(sheet, ()).columns.tags] == ["year", "station"]
    assert [sheet.columns[place] for place in importing.guess(sheet, ("tag=code",)).columns.tags] == ["code"]


def test_a_slice_of_as_many_values_as_questions_is_a_warning(tmp_path: Path) -> None:
    lines = [f"Which {n}?,so,{20 + n},{'CT' if n % 2 else 'MR'}\n" for n in range(6)]
    (tmp_path / "cases.csv").write_text("question,answer,age,modality\n" + "".join(lines))
    found = validated(tmp_path / "cases.csv", typed=("slice=age", "slice=modality")).problems
    (warning,) = [one for one in found if one.kind == "slice_values"]
    assert (warning.column, warning.refused) == ("age", False)
    assert warning.do.endswith('such as { column = "age", cuts = [18, 65] }')


def test_images_that_all_lie_in_one_inner_folder_share_one_line_that_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    for name in ("ct/1.png", "mrt/1.png"):
        picture(tmp_path / "my images" / name)
    (tmp_path / "cases.csv").write_text("image,question,answer\nct/1.png,Why?,so\nmrt/1.png?window=lung,How?,so\n")
    missing = [one for one in validated(tmp_path / "cases.csv").problems if one.kind.startswith("image")]
    assert {one.do for one in missing} == {f"type '--images={tmp_path.relative_to('/')}/my images'"}
    (group,) = grouped(missing)
    assert group.rows == (2, 3)
    picture(tmp_path / "old" / "ct" / "1.png")  # Two folders may be meant.
    assert {one.do for one in validated(tmp_path / "cases.csv").problems if one.kind == "image_missing"} == {
        "3 files of that name are in other folders; write the path"
    }


@pytest.mark.parametrize("place", ["t/Bilder", "Bilder", "."])
def test_missing_images_that_are_in_a_folder_near_are_one_line_that_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(20):
        picture(tmp_path / place / f"{number}.png", number)
    (tmp_path / "t").mkdir(exist_ok=True)
    asked = "".join(f"{number}.png,Why {number}?,so\n" for number in range(39))
    (tmp_path / "t" / "cases.csv").write_text(f"image,question,answer\n{asked}")
    with withholding():
        report = report_text.text(validated(tmp_path / "t" / "cases.csv"))
    there, missing = [line for line in report.splitlines() if "column 'image'" in line]
    shown = Path(os.path.relpath(place, "t")).as_posix()
    told = f"most images are in '{shown}', and none is in the folder of the images; type --images={place}"
    assert there == f"  cases.csv rows 2 to 21, column 'image': {told}"
    told = "no image [cell]; put it there, or correct its name"
    assert missing == f"  cases.csv rows 22 to 40, column 'image': {told}"


@pytest.mark.parametrize("folder", ["Station7", "hufnagel", "Mustermann_Erika"])
def test_a_folder_that_may_tell_of_someone_is_not_named(tmp_path: Path, folder: str) -> None:
    picture(tmp_path / folder / "1.png")
    (tmp_path / "cases.csv").write_text("image,question,answer\n1.png,Why?,so\n")
    with withholding():
        assert folder not in report_text.text(validated(tmp_path / "cases.csv"))


def test_missing_images_are_one_line_that_names_the_first(tmp_path: Path) -> None:
    asked = "".join(f"{number}.png,Why {number}?,so\n" for number in range(39))
    (tmp_path / "cases.csv").write_text(f"image,question,answer\n{asked}")
    validation = validated(tmp_path / "cases.csv")
    (line,) = [line for line in report_text.text(validation).splitlines() if "column 'image'" in line]
    told = "39 images are not there: '0.png', '1.png', '2.png' and 36 more; put them there, or correct their names"
    assert line == f"  cases.csv rows 2 to 40, column 'image': {told}"
    assert report_text.text(validation, every=True).count("no image '") == 39


def test_a_reader_that_is_not_installed_is_one_line_and_no_mistake_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pydicom", None)
    # The process that draws medical files has modules of its own.
    monkeypatch.setattr(decoder_process, "picture", medical.picture)
    for name in ("1.dcm", "2.dcm"):
        (tmp_path / name).write_bytes(bytes(128) + b"DICM" + name.encode())
    (tmp_path / "cases.csv").write_text("image,question,answer\n1.dcm,Why?,so\n2.dcm,How?,so\n")
    (group,) = grouped(one for one in validated(tmp_path / "cases.csv").problems if one.kind == "image_reader")
    line = "cases.csv rows 2 and 3, column 'image': DICOM files need pydicom; type pip install 'pytest-medvqa[dicom]'"
    assert group.line("cases.csv", "row") == line


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ((4,), "4"),
        ((4, 5), "4 and 5"),
        ((4, 5, 6, 9), "4 to 6 and 9"),
        (range(2, 40, 2), "2, 4, 6, 8, 10, 12, 14, 16, 18, 20 and more (19 in all)"),
    ],
)
def test_rows_are_listed_as_ranges(rows: Sequence[int], text: str) -> None:
    assert row_list(rows) == text


def test_equal_mistakes_of_rows_are_one_line() -> None:
    mistakes = [
        TableProblem("html", row, "question", "HTML: <b>", "write plain text", refused=False) for row in (4, 5, 9)
    ]
    (group,) = grouped(mistakes)
    assert group.line("a.csv", "row") == "a.csv rows 4, 5 and 9, column 'question': HTML: <b>; write plain text"


def test_json_holds_no_command_of_a_ci_log() -> None:
    text = report_text.as_json({"what": "##[error]x"})
    assert "##" not in text
    assert json.loads(text) == {"what": "##[error]x"}


# The command


def test_the_command_writes_a_benchmark_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        picture(tmp_path / "bilder" / f"{number}.png", number)
    (tmp_path / "fragen.csv").write_text(
        "Nr;Bild;Frage;Antwort A;Antwort B;Richtige Antwort;Modalität;Patientennummer\n"
        + "".join(
            f"{n};{n}.png;Welches Organ ist hier zu sehen?;Leber;Milz;{'AB'[n % 2]};{['CT', 'MRT'][n % 2]};{n}\n"
            for n in range(4)
        ),
        encoding="utf-8",
    )
    typed = ["import", "fragen.csv", "--images=bilder", "--to=klinik.toml", "--yes", "--json=r.json", "--report=r.txt"]
    assert main(typed) == 0
    output = capsys.readouterr().out
    assert "none found" in output
    assert "medvqa run --benchmark=klinik.toml --model=random" in output
    declared = table_files.declared((tmp_path / "klinik.toml").read_bytes(), "klinik.toml")
    assert declared == TableDeclaration(
        file="fragen.csv",
        images="bilder",
        language="de",
        options=["Antwort A", "Antwort B"],
        tags=["Modalität"],
        columns={
            "question": "Frage",
            "answer": "Richtige Antwort",
            "id": "Nr",
            "patient": "Patientennummer",
            "image": "Bild",
        },
    )
    assert json.loads((tmp_path / "r.json").read_text())["questions"] == 4
    assert (tmp_path / "r.txt").read_text().startswith("fragen.csv: 4 questions")


def test_the_command_writes_nothing_while_a_mistake_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text("question,answer\n,so\n")
    assert main(["import", "cases.csv", "--yes"]) == 1
    assert "nothing was written: correct these mistakes" in capsys.readouterr().out
    assert not (tmp_path / "cases.toml").exists()


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["nowhere.csv"], "nowhere.csv: no such file"),
        (["cases.csv", "--to=x.yaml"], "--to=x.yaml: the name of a benchmark file ends in .toml"),
        (["."], ".: a folder; name the table in it: medvqa import FOLDER/FILE"),
        (["cases.csv", "--images=nowhere"], "--images=nowhere: no such folder"),
        (["old.xls"], "old.xls: an old or an encrypted Excel file; save it as XLSX, without a password"),
        (["other.csv"], "other.csv: no column is called question"),
        (["cases.csv", "--set=language=German"], "--set=language=German: 'German' is no language code"),
        (["cases.csv", "--report=nowhere/r.txt"], "nowhere/r.txt: cannot be written"),
    ],
)
def test_the_command_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, header in (("cases", "question,answer"), ("other", "x,y")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\nWhy is it so?,so\n")
    (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1")
    assert main(["import", *typed, "--yes"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_another_benchmark_file_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text("question,answer\nWhy is it so?,so\n")
    assert main(["import", "cases.csv", "--yes"]) == 0
    assert main(["import", "cases.csv", "--yes"]) == 0
    capsys.readouterr()
    assert main(["import", "cases.csv", "--yes", "--set=title=Mine"]) == 4
    assert "nothing was written: cases.toml is there already: delete it" in capsys.readouterr().out
    assert "Mine" not in (tmp_path / "cases.toml").read_text()


def test_names_of_columns_with_line_ends_stay_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text('"Frage\n(kurz)",x,"Richtige\nAntwort"\n,1,so\n')
    sheet = importing.read(path, "cases.csv")
    validation = validation_of(sheet, importing.guess(sheet, ["question=frage (KURZ)"]), path)
    assert "cases.csv row 2, column 'Frage (kurz)': the question is empty" in report_text.text(validation)
    assert dict(validation.columns) == {"Frage (kurz)": "question", "Richtige Antwort": "answer"}


def test_a_window_is_declared(tmp_path: Path) -> None:
    picture(tmp_path / "deep.png", mode="I;16")
    path = tmp_path / "cases.csv"
    path.write_text("image,question,answer\ndeep.png,Why?,so\n")
    assert [mistake.kind for mistake in validated(path).problems] == ["image_bits"]
    assert validated(path, typed=["window=0,4095"]).problems == ()


def test_a_dicom_file_with_burnt_in_text_is_refused_without_its_header(tmp_path: Path) -> None:
    import numpy as np
    import pydicom

    file = pydicom.dataset.FileDataset("", {}, preamble=b"\0" * 128)
    file.file_meta = pydicom.dataset.FileMetaDataset()
    file.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    file.SOPClassUID, file.SOPInstanceUID, file.Modality = pydicom.uid.CTImageStorage, "1.2.3", "CT"
    file.PatientName, file.BurnedInAnnotation = "Petermann^Ute", "YES"
    file.Rows = file.Columns = 8
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME2"
    file.BitsAllocated, file.BitsStored, file.HighBit, file.PixelRepresentation = 16, 12, 11, 0
    file.PixelData = np.arange(64, dtype=np.uint16).tobytes()
    file.save_as(tmp_path / "x.dcm", enforce_file_format=True)
    path = tmp_path / "cases.csv"
    path.write_text('image,question,answer\n"x.dcm?range=0,63",Why?,so\nx.dcm?window=lungs,How?,so\n')
    validation = validated(path)
    assert [mistake.kind for mistake in validation.problems if mistake.refused] == ["image_view", "image_burnt_in"]
    assert "Petermann" not in report_text.text(validation) + json.dumps(report_text.values(validation))
    file.BurnedInAnnotation = "NO"
    file.save_as(tmp_path / "x.dcm", enforce_file_format=True)
    assert [mistake.kind for mistake in validated(path).problems if mistake.refused] == ["image_view"]


def test_another_sheet_is_read_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    book = openpyxl.Workbook()
    book.create_sheet("Fragen").append(["question", "answer"])
    book["Fragen"].append(["Why is it so?", "so"])
    book["Fragen"].row_dimensions[2].hidden = True
    book.save(tmp_path / "cases.xlsx")
    assert main(["import", "cases.xlsx", "--yes", "--set=sheet=Fragen"]) == 0
    assert "row 2: hidden in the spreadsheet" in capsys.readouterr().out
    assert table_files.declared((tmp_path / "cases.toml").read_bytes(), "").sheet == "Fragen"
    assert main(["import", "cases.xlsx", "--yes", "--set=sheet=Other"]) == 4
    assert "cases.xlsx: no sheet 'Other'; there are: Sheet, Fragen" in capsys.readouterr().err


def test_the_command_asks_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io
    import sys

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text(
        "text,Lösung,Musterantwort\nWelche Seite ist es?,links,rechts\n", encoding="utf-8"
    )
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(sys, "stdin", Terminal("2\n1\n"))
    assert main(["import", "cases.csv"]) == 0
    assert shown.getvalue().startswith(
        "Which column has the right answer? (2 columns could be the answer)\n  1  Lösung"
    )
    assert 'answer = "Musterantwort"' in (tmp_path / "cases.toml").read_text()
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert main(["import", "cases.csv", "--to=more.toml"]) == 4
    assert "the input ended before all questions were answered" in shown.getvalue()
