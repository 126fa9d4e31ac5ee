"""Benchmarks from spreadsheets: columns by name, kinds, answers, images, and one line for each thing that is wrong."""

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import medvqa
from medvqa import benchmarks
from medvqa.benchmarks import own
from medvqa.items import Benchmark, DataError, Item, Result, Score
from medvqa.records.private import Pseudonyms
from medvqa.tables import sheets
from medvqa.tables.image_files import ImageFolder

CSV = """id,image,question,A,B,C,answer,modality
q1,ct/1.png,Which organ?,liver,spleen,,A,CT
q2,ct/2.png,Which organs?,liver,spleen,kidney,"A, C",CT | contrast
q3,,What is a CT?,,,,computed tomography|CT,
"""


def read(folder: Path, text: str, name: str = "questions.csv", **options: object) -> dict[str, Item]:
    """The items of a table by id."""
    (folder / name).write_text(text, encoding="utf-8")
    made: Benchmark = medvqa.table(folder / name, **options)  # type: ignore[arg-type]
    return {item.id: item for item in benchmarks.load(own.completed(made), Path())}


def refusal(folder: Path, text: str, name: str = "questions.csv", **options: object) -> str:
    """The message for a table, less the path of its folder."""
    with pytest.raises(DataError) as caught:
        read(folder, text, name, **{"public": True, **options})
    return str(caught.value).replace(f"{folder}/", "")


def test_columns_are_known_by_their_names(tmp_path: Path) -> None:
    items = read(tmp_path, CSV, images=tmp_path / "images", tags=("modality",))
    first = items["q1"]
    assert (first.benchmark, first.kind, first.options) == ("questions", "single_choice", {"A": "liver", "B": "spleen"})
    assert (first.answers, first.tags) == (("A",), {"modality": ("ct",)})
    assert [(image.name, image.path) for image in first.images] == [("ct/1.png", f"{tmp_path}/images/ct/1.png")]
    assert (items["q2"].kind, items["q2"].answers) == ("multiple_response", ("A", "C"))
    assert items["q2"].tags == {"modality": ("ct", "contrast")}
    assert (items["q3"].kind, items["q3"].answers) == ("short_answer", ("computed tomography", "CT"))
    assert (items["q3"].images, items["q3"].tags, items["q3"].cluster_id) == ((), {}, None)


def test_all_formats_hold_the_same_questions(tmp_path: Path) -> None:
    expected = read(tmp_path, CSV)
    header, *rows = [line.split(";") for line in CSV.replace(",", ";").replace('"A; C"', "A, C").splitlines()]
    objects = [dict(zip(header, row, strict=True)) for row in rows]
    texts = {
        "questions.tsv": "\n".join("\t".join(row) for row in (header, *rows)),
        "questions.json": json.dumps(objects),
        "questions.jsonl": "\n".join(map(json.dumps, objects)),
    }
    for name, text in texts.items():
        assert read(tmp_path, text, name) == expected, name
    sheets.write(tmp_path / "questions.xlsx", header, rows)
    sheet = medvqa.table(tmp_path / "questions.xlsx")
    assert {item.id: item for item in benchmarks.load(own.completed(sheet), Path())} == expected


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    items = read(tmp_path, "Question_ID,Image Path,QUESTION,Option A,option_b,Correct Answer\n7,1.png,Q?,x,y,y\n")
    assert (items["7"].answers, items["7"].images[0].name) == (("B",), "1.png")
    german = {"question": "Frage", "answer": "Antwort", "A": "Wahl 1", "B": "Wahl 2"}
    items = read(tmp_path, "Frage,Antwort,Wahl 1,Wahl 2\nWas?,b,x,y\n", columns=german)
    assert (items["2"].question, items["2"].answers) == ("Was?", ("B",))  # without ids, the number of the row
    assert read(tmp_path, "Frage,Antwort,Wahl 1,Wahl 2\nWas?,b,x,y\n", columns=list(german.items())) == items


def test_options_may_be_in_one_cell(tmp_path: Path) -> None:
    as_list = {"id": 1, "question": "Q?", "options": ["liver", "spleen"], "answer": "spleen"}
    as_object = {"id": 2, "question": "Q?", "options": {"A": "liver", "B": "spleen"}, "answer": ["A", "B"]}
    items = read(tmp_path, json.dumps([as_list, as_object]), "q.json")
    assert (items["1"].options, items["1"].answers) == ({"A": "liver", "B": "spleen"}, ("B",))
    assert (items["2"].kind, items["2"].answers) == ("multiple_response", ("A", "B"))
    items = read(tmp_path, 'question\toptions\tanswer\nQ?\t"[""x"", ""y""]"\tA\n')
    assert items["2"].options == {"A": "x", "B": "y"}


def test_the_kind_is_named_or_follows_from_the_options(tmp_path: Path) -> None:
    items = read(tmp_path, "id,question,answer,kind\n1,Q?,yes,judgment\n2,Q?,no,\n3,Q?,red,Fill in the blank\n")
    assert [item.kind for item in items.values()] == ["judgment", "short_answer", "fill_in_the_blank"]
    items = read(tmp_path, "id,question,A,B,answer,kind\n1,Q?,x,y,A,multiple_response\n2,Q?,x,y,,\n")
    assert (items["1"].kind, items["2"].kind, items["2"].answers) == ("multiple_response", "single_choice", ())


def test_questions_that_share_an_image_or_a_patient_are_one_cluster(tmp_path: Path) -> None:
    rows = ["id,question,answer,image,image 2,patient,pair", "1,Q?,x,a.png,b.png,,p", "2,Q?,x,b.png,,7,p"]
    items = read(tmp_path, "\n".join([*rows, "3,Q?,x,c.png|d.png,,7,", "4,Q?,x,e.png,,8,", "5,Q?,x,,,,"]))
    assert len({items[key].cluster_id for key in "123"}) == 1
    assert (items["4"].cluster_id, items["5"].cluster_id) == ("image e.png", None)
    assert [image.name for image in items["3"].images] == ["c.png", "d.png"]
    assert [item.pair_id for item in items.values()] == ["p", "p", None, None, None]


def test_regions_are_boxes_of_the_first_image(tmp_path: Path) -> None:
    rows = ["id,question,answer,image,box", '1,Q?,x,a.png,"4,3,10,8; 0,0,2,2"', "2,Q?,x,a.png,"]
    items = read(tmp_path, "\n".join(rows))
    assert items["1"].extra == {"box_xywh": [(4, 3, 10, 8), (0, 0, 2, 2)]}
    assert items["2"].extra == {}
    # Links of patients are no boxes, and boxes join no questions.
    assert items["1"].cluster_id == "image a.png"
    for box in ([4, 3, 10, 8], [[4, 3, 10, 8]], "4,3,10,8"):
        row = {"id": 1, "question": "Q?", "answer": "x", "image": "a.png", "roi": box}
        for text, name in ((json.dumps([row]), "q.json"), (json.dumps(row), "q.jsonl")):
            (item,) = read(tmp_path, text, name, columns={"box": "roi"}).values()
            assert item.extra == {"box_xywh": [(4, 3, 10, 8)]}
    assert read(tmp_path, "\n".join(rows), columns={"box": ""})["1"].extra == {}


def test_a_column_of_body_regions_has_no_boxes(tmp_path: Path) -> None:
    items = read(tmp_path, "id,question,answer,region\n1,Q?,x,thorax\n", tags=("region",))
    assert (items["1"].tags, items["1"].extra) == ({"region": ("thorax",)}, {})


NAME = "MUSTERMANN"


def test_an_exception_in_a_benchmark_that_is_not_public_quotes_no_cell() -> None:
    def items(data: Path) -> Iterator[Item]:
        yield Item(f"{NAME}-1", question="Q?", options={"A": "x"}, answers=(NAME,))

    def broken(data: Path) -> Iterator[Item]:
        raise KeyError(NAME)

    for function in (items, broken):
        made = Benchmark(name="ward", items=function)
        with pytest.raises(DataError) as caught:
            benchmarks.load(own.completed(made), Path())
        assert NAME not in str(caught.value)
        with pytest.raises(DataError, match=NAME):
            benchmarks.load(own.completed(replace(made, public=True)), Path())


def test_a_column_of_names_groups_questions_and_stays_in_memory(tmp_path: Path) -> None:
    text = 'id,question,answer,patient\n1,Q?,x,"Mustermann, Erika"\n2,Q?,x,Ann Smith\n3,Q?,x,ERIKA MUSTERMANN\n'
    items = read(tmp_path, text)
    assert items["1"].cluster_id == items["3"].cluster_id != items["2"].cluster_id
    names = Pseudonyms.of(items.values(), digests=False)
    hidden = [names.hidden(Result("r", item, "", None, Score(0.0, "wrong"))) for item in items.values()]
    assert [result.item.cluster_id for result in hidden] == ["group 1", "group 2", "group 1"], "not by the alphabet"
    assert [result.item.extra["patient"] for result in hidden] == ["source 1", "source 2", "source 1"]
    numbers = read(tmp_path, "id,question,answer,patient\n1,Q?,x,P7\n2,Q?,x,P7\n")
    assert numbers["1"].cluster_id == "patient P7"


@pytest.mark.parametrize(("written", "there"), [("NFC", "NFD"), ("NFD", "NFC"), ("NFC", "NFC")])
def test_a_file_is_found_in_either_unicode_form(tmp_path: Path, written: str, there: str) -> None:
    """Archives and disks of a Mac spell names with letters and dots apart."""
    name, on_disk = (unicodedata.normalize(form, "bilder/Schädel.png") for form in (written, there))
    (tmp_path / on_disk).parent.mkdir()
    (tmp_path / on_disk).write_bytes(b"x")
    (image,) = read(tmp_path, f"id,question,answer,image\n1,Q?,x,{name}\n")["1"].images
    assert Path(image.path).is_file()
    (image,) = (ImageFolder(tmp_path, tmp_path).image(name, ""),)
    assert Path(image.path).is_file()


def test_arguments_and_files_that_are_wrong(tmp_path: Path) -> None:
    text = "question,answer\nQ?,x\n"
    for options, message in (
        ({"columns": {"colour": "answer"}}, "q.csv: columns.colour: no such role; there are: question, answer"),
        ({"window": (1, 1)}, "q.csv: window: two different numbers are expected"),
        ({"tags": "kind"}, "q.csv: tags: 'kind': a slice is named by small letters"),
    ):
        assert message in refusal(tmp_path, text, "q.csv", **options)
    assert "no column 'modality'" in refusal(tmp_path, text, tags="modality")
    for tag in ("id", "kind", "class", "2nd reader"):
        assert f"tags: '{tag}': a slice is named by" in refusal(tmp_path, text, tags=[tag]), "for -m"
    assert "no column 'image'" in refusal(tmp_path, text, images="images")
    assert "no column 'nr'; there are: question, answer. Write one of these for id in medvqa.table" in refusal(
        tmp_path, text, columns={"id": "nr"}
    )
    assert "write columns={'answer': 'COLUMN'} in medvqa.table" in refusal(tmp_path, "question,A,B\nQ?,x,y\n")
    with pytest.raises(DataError, match=r"nowhere\.csv: no such file"):
        benchmarks.load(own.completed(medvqa.table("nowhere.csv")), Path())
    with pytest.raises(DataError, match="a table is a file; download it"):
        benchmarks.load(own.completed(medvqa.table("https://x.example/q.csv")), Path())


def test_options_that_are_named_in_part_are_found_up_to_a_gap(tmp_path: Path) -> None:
    text = "question,answer,one,two,C,x\nQ?,C,liver,spleen,kidney,y\n"
    (item,) = read(tmp_path, text, columns={"A": "one", "B": "two"}).values()
    assert (item.options, item.answers) == ({"A": "liver", "B": "spleen", "C": "kidney"}, ("C",))


def test_an_image_may_not_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "out").symlink_to("/etc")
    assert "leaves" in refusal(tmp_path, "question,answer,image\nQ?,x,out/passwd\n", images=tmp_path / "images")


def test_paths_start_at_the_calling_file_or_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "q.csv").write_text("question,answer\nQ?,x\n")
    monkeypatch.chdir(tmp_path)
    call = "import medvqa; made = medvqa.table('q.csv')"
    module = {"__name__": "conftest", "__file__": str(tmp_path / "project" / "conftest.py")}
    exec(call, module)
    assert len(benchmarks.load(own.completed(module["made"]), Path())) == 1  # type: ignore[arg-type]
    for script in ({"__name__": "__main__", "__file__": module["__file__"]}, {"__name__": "__main__"}):
        exec(call, script)
        monkeypatch.chdir(tmp_path / "project")  # a later change of the working folder does not matter
        with pytest.raises(DataError, match="no such file"):
            benchmarks.load(own.completed(script["made"]), Path())  # type: ignore[arg-type]
        monkeypatch.chdir(tmp_path)


def test_a_table_has_a_name_and_is_private_unless_it_says_otherwise(tmp_path: Path) -> None:
    made = medvqa.table("My questions (2).csv", tags=("Body Region",))
    assert (made.name, made.public, made.dimensions) == ("my-questions-2", False, ("body_region",))
    assert medvqa.table("x.csv", name="mine", public=True).public


def test_nothing_is_read_before_it_is_needed() -> None:
    assert medvqa.table("/nowhere/questions.csv").name == "questions"


def test_blank_rows_are_no_questions(tmp_path: Path) -> None:
    items = read(tmp_path, "id,question,answer\n1,Q?,x\n,,\n , ,\n2,Q?,x\n,,\n")
    assert list(items) == ["1", "2"]
    items = read(tmp_path, "question,answer\nQ?,x\n,\nQ?,x\n")
    assert list(items) == ["2", "4"]


def test_a_text_that_begins_like_a_formula_is_read(tmp_path: Path) -> None:
    sheets.write(tmp_path / "q.xlsx", ["question", "answer"], [["=B2", "=1"]])
    (item,) = benchmarks.load(own.completed(medvqa.table(tmp_path / "q.xlsx")), Path())
    assert (item.question, item.answers) == ("=B2", ("=1",))


@pytest.mark.parametrize("cell", ["AC", "a c", "C;A", "A, c", "c+a"])
def test_several_letters_in_one_cell(cell: str, tmp_path: Path) -> None:
    assert read(tmp_path, f'question,A,B,C,answer\nQ?,x,y,z,"{cell}"\n')["2"].answers == ("A", "C")
