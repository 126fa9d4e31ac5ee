"""Benchmarks that a TOML file declares: keys, formats of the table, German and Chinese, slices, words and records."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medvqa import benchmarks, printing, scoring
from medvqa.benchmarks import table_files, toml_text
from medvqa.benchmarks.table_declaration import JudgmentWords, NumberRanges, TableDeclaration, labels_of
from medvqa.items import Answer, Benchmark, DataError, Item, UsageError
from medvqa.session.registry import Registry
from medvqa.tables import encodings

GERMAN = """Nr;Frage;Option 1;Option 2;Option 3;Antwort;Bild;Modalität;Alter;Patient;Fragetyp
f1;Welches Organ?;a) Leber;b) Milz;c) Niere;b;1.png;CT;45,5;Müller;
f2;Liegt ein Erguss vor?;;;;Ja;2.png;MRT;17;Müller;Ja/Nein
f3;Welche Organe?;Leber;Milz;;Ａ，Ｂ;2.png;MRT;65;Meier;Mehrfachauswahl
"""
DECLARED = """file = "fragen.csv"
language = "de"
options = ["Option 1", "Option 2", "Option 3"]
crossings = ["modality+age"]
[slices]
modality = "Modalität"
age = { column = "Alter", cuts = [18, 65] }
"""
CHINESE = [
    {"编号": "1", "问题": "有积液吗？", "答案": "有", "题型": "判断题", "病人": "张"},
    {"编号": "2", "问题": "哪个器官？", "选项A": "肝", "选项B": "脾", "答案": "Ｂ、Ａ"},
]


def declare(folder: Path, text: str = DECLARED, table: str | bytes = GERMAN, name: str = "fragen.csv") -> Benchmark:
    (folder / name).write_bytes(table if isinstance(table, bytes) else table.encode())
    (folder / "klinik.toml").write_text(text, encoding="utf-8")
    return table_files.read(folder / "klinik.toml", "klinik.toml")


def items_of(benchmark: Benchmark) -> dict[str, Item]:
    return {item.id: item for item in benchmarks.load(benchmark, Path())}


def test_a_whole_path_of_a_table_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's file must not read one's own table; a path from its own folder on shows where it leads."""
    (tmp_path / "mine.csv").write_text("question,answer\nQ?,x\n")
    (tmp_path / "theirs").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for written in (f"{tmp_path}/mine.csv", "~/mine.csv", f"{tmp_path}/theirs/../mine.csv"):
        with pytest.raises(UsageError, match="key 'file': a whole path that leads out"):
            declare(tmp_path / "theirs", f'file = "{written}"\n')
    for written in ("../mine.csv", f"{tmp_path}/theirs/fragen.csv"):
        declare(tmp_path / "theirs", f'file = "{written}"\n')


def test_an_invisible_character_in_a_key_is_shown(tmp_path: Path) -> None:
    for invisible in ("\u200b", "\u200d", "\u034f", "\u3164", "\ufe00", "\U000e0100"):
        for text in (f'"fi{invisible}le" = "x"', f'file = "x"\n[slices]\n"a{invisible}" = "b"'):
            with pytest.raises(UsageError) as caught:
                declare(tmp_path, text)
            assert invisible not in printing.lines(str(caught.value))
            assert "\ufffd" in printing.lines(str(caught.value))


@pytest.mark.parametrize("key", ["file", "images", "linked"])
def test_a_file_declares_only_data_within_its_folder_public(tmp_path: Path, key: str) -> None:
    """A file that a stranger hands over must not send one's own data to another machine."""
    own, stranger = tmp_path / "own", tmp_path / "stranger"
    own.mkdir()
    stranger.mkdir()
    for folder in (own, stranger):
        (folder / "x.csv").write_text("question,answer\nWhich organ?,liver\n")
    (stranger / "linked.csv").symlink_to(own / "x.csv")
    lines = {
        "file": 'file = "../own/x.csv"',
        "images": 'file = "x.csv"\nimages = "../own"',
        "linked": 'file = "linked.csv"',
    }
    (stranger / "s.toml").write_text(lines[key])
    assert not table_files.read(stranger / "s.toml").public
    (stranger / "s.toml").write_text(f"public = true\n{lines[key]}")
    with pytest.raises(UsageError, match=r"key 'public': the path of '(file|images)' leads out of the file's folder"):
        table_files.read(stranger / "s.toml")
    (stranger / "s.toml").write_text('public = true\nfile = "x.csv"\nimages = "."')
    assert table_files.read(stranger / "s.toml").public


def test_a_run_of_a_stranger_does_not_declare_ones_own_data_public(tmp_path: Path) -> None:
    folders = []
    for name, public in (("own", False), ("stranger", True)):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        about = {"benchmarks": {"ward": {"declared": {"sha256": "0" * 64, "public": public}}}}
        (folders[-1] / "run.json").write_text(json.dumps(about))
    for runs in (folders, folders[::-1]):
        assert not Registry.of().with_runs(runs).benchmarks["ward"].public
    assert Registry.of().with_runs(folders[1:]).benchmarks["ward"].public


def test_a_german_sheet_needs_few_keys(tmp_path: Path) -> None:
    benchmark = declare(tmp_path)
    assert (benchmark.name, benchmark.public, benchmark.dimensions) == (
        "klinik",
        False,
        ("modality", "age", "modality+age"),
    )
    items = items_of(benchmark)
    first, second, third = items.values()
    assert (first.options, first.answers) == ({"A": "Leber", "B": "Milz", "C": "Niere"}, ("B",))
    assert first.tags == {"modality": ("ct",), "age": ("18_to_under_65",)}
    assert [image.path for image in first.images] == [f"{tmp_path}/1.png"]
    assert (second.kind, second.answers, second.tags["age"]) == ("judgment", ("Ja",), ("under_18",))
    assert (third.kind, third.answers, third.tags["age"]) == ("multiple_response", ("A", "B"), ("65_and_over",))
    assert first.cluster_id == second.cluster_id == third.cluster_id
    prompt = benchmark.prompt(first, "mc")  # type: ignore[operator]
    assert "Antworten Sie nur mit dem Buchstaben" in prompt.text
    assert prompt.template.startswith("own/single-choice-de@")


def test_a_chinese_table_has_chinese_names_words_and_prompts(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in CHINESE)
    benchmark = declare(tmp_path, 'file = "t.jsonl"\nlanguage = "zh"\n', lines, "t.jsonl")
    first, second = items_of(benchmark).values()
    assert (first.kind, first.answers, second.answers) == ("judgment", ("有",), ("A", "B"))
    assert "请只回答" in benchmark.prompt(first, "mc").text  # type: ignore[operator]
    assert benchmark.prompt(second, "ff").template.startswith("own/ff-zh@")  # type: ignore[operator]


def test_every_format_holds_the_same_questions(tmp_path: Path) -> None:
    from medvqa.tables import sheets

    expected = items_of(declare(tmp_path))
    header, *rows = [line.split(";") for line in GERMAN.splitlines()]
    objects = [dict(zip(header, row, strict=True)) for row in rows]
    first, *others = GERMAN.splitlines()
    texts: dict[str, bytes] = {
        "bom.csv": GERMAN.encode("utf-8-sig"),
        "sep.csv": f"sep=;\r\n{GERMAN}".encode(),
        "commas.csv": "\n".join([f"{first};Größe, etwa", *(f"{row};1,5" for row in others)]).encode(),
        "tabs.tsv": GERMAN.replace(";", "\t").encode(),
        "pipes.csv": GERMAN.replace(";", "|").encode(),
        "cp1252.csv": GERMAN.replace("Ａ，Ｂ", "A,B").encode("cp1252"),
        "utf16.csv": GERMAN.encode("utf-16"),
        "array.json": json.dumps(objects).encode(),
        "lines.jsonl": "\n".join(map(json.dumps, objects)).encode(),
    }
    more = {"pipes.csv": 'delimiter = "|"', "cp1252.csv": 'encoding = "cp1252"', "utf16.csv": 'encoding = "utf-16"'}
    for name, content in texts.items():
        text = f"{more.get(name, '')}\n{DECLARED.replace('fragen.csv', name)}"
        assert items_of(declare(tmp_path, text, content, name)) == expected, name
    sheets.write(tmp_path / "fragen.xlsx", header, rows)
    sheet = (tmp_path / "fragen.xlsx").read_bytes()
    in_sheet = DECLARED.replace(".csv", ".xlsx")
    assert items_of(declare(tmp_path, in_sheet, sheet, "fragen.xlsx")) == expected
    assert items_of(declare(tmp_path, f'sheet = "Sheet1"\n{in_sheet}', sheet, "fragen.xlsx")) == expected
    with pytest.raises(DataError, match=r"fragen\.xlsx: no sheet 'Fälle'; there are: Sheet1"):
        items_of(declare(tmp_path, f'sheet = "Fälle"\n{in_sheet}', sheet, "fragen.xlsx"))
    with pytest.raises(DataError, match=r"fragen\.csv: sheet = 'Sheet1' is for XLSX, and this is none"):
        items_of(declare(tmp_path, f'sheet = "Sheet1"\n{DECLARED}'))


def test_parquet_holds_numbers_lists_and_images(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    pictures = [{"bytes": b"one", "path": None}, {"bytes": b"two", "path": None}, {"bytes": b"one", "path": None}]
    table = pyarrow.table(
        {
            "frage": ["a?", "b?", "c?"],
            "antwort": ["A", "B", "A"],
            "optionen": [["ja", "nein"]] * 3,
            "bild": pictures,
            "alter": [17.5, 70.0, float("nan")],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    text = 'file = "t.parquet"\n[slices]\nage = { column = "Alter", cuts = [18], labels = ["Kind", "älter"] }\n'
    first, second, third = items_of(
        declare(tmp_path, text, (tmp_path / "t.parquet").read_bytes(), "t.parquet")
    ).values()
    assert (first.tags, second.tags, third.tags) == ({"age": ("kind",)}, {"age": ("älter",)}, {})
    assert [image.read() for image in (*first.images, *second.images)] == [b"one", b"two"]
    assert first.cluster_id == third.cluster_id != second.cluster_id  # the same bytes are the same image
    assert first.options == {"A": "ja", "B": "nein"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('fil = "x.csv"', "line 1: no key 'fil'; there are: file, name, "),
        ('title = "x"', "key 'file': write the path of the table"),
        (
            'file = "x.csv"\n[columns]\nFrage = "question"',
            "line 3: [columns]: no key 'Frage'. Columns are the values: write question",
        ),
        (
            'file = "x.csv"\n[columns]\nanswers = "Antwort"',
            "no key 'answers'. Columns are the values: write answer =",
        ),
        ('file = "x.csv"\n[slices]\nage = { column = "a", cut = [1] }', "line 3: [slices.age]: no key 'cut'; "),
        (
            'file = "x.csv"\n[slices]\nage = { column = "a", cuts = [2, 1] }',
            "'slices.age.cuts': 1 to 50 rising numbers",
        ),
        ('file = "x.csv"\n[slices]\nage = { column = "a", cuts = [nan] }', "'slices.age.cuts': 1 to 50 rising numbers"),
        ('file = "x.csv"\n[slices]\nage = { column = "a", cuts = [1], labels = ["x"] }', "so as many labels"),
        ('file = "x.csv"\n[slices]\nage = { column = "a", cuts = [1], labels = ["x", "X"] }', "two labels are alike"),
        ('file = "x.csv"\n[slices]\nAlter = "Alter"', "'slices.Alter': a slice is named by small letters"),
        ('file = "x.csv"\n[slices]\nkind = "Art"', "'slices.kind': a slice is named by small letters"),
        ('file = "x.csv"\ncrossings = ["age"]', "'crossings': 'age': write it as modality+age"),
        ('file = "x.csv"\ncrossings = ["age+kind"]', "'crossings': 'age+kind': no slice 'age'"),
        ('file = "x.csv"\ntags = ["Age"]\n[slices]\nage = "Age"', "'tags': 'age' is a slice already"),
        ('file = "x.csv"\npublic = "no"', "line 2: Expected `bool`, got `str` - at `$.public`"),
        ('file = "x.csv"\nlanguage = "deutsch!"', "'deutsch!' is no language code, such as de"),
        (
            'file = "x.csv"\nencoding = "unicode_escape"',
            "key 'encoding': 'unicode_escape' is not known; there are: utf-8",
        ),
        ('file = "x.csv"\ndelimiter = ", "', "key 'delimiter': one sign between cells"),
        ('file = "x.csv"\nkind = "essay"', "key 'kind': there are: single_choice"),
        ('file = "x.csv"\nwindow = [1, 1]', "key 'window': two different numbers"),
        ('file = "x.csv"\nwindow = [1, inf]', "key 'window': two different numbers"),
        ('file = "x.csv"\noptions = ["A"]', "key 'options': a list names the column of each option, 2 to 25"),
        ('file = "x.csv"\noptions = ["A", "B"]\nseparator = ";"', "key 'separator': it belongs to options in one cell"),
        ('file = "x.csv"\noptions = "o"\n[columns]\nB = "b"', "key 'columns.B': the key 'options' names them already"),
        ('file = "x.csv"\n[columns]\nid = ["a", "b"]', "key 'columns.id': one column is expected"),
        ('file = "x.csv"\n[words]\nyes = ["Nein"]', "key 'words.yes': 'Nein' means no, too"),
        ('file = "x.csv"\n[words]\nyes = ["x"]\nno = ["X."]', "key 'words.yes': 'x' means no, too"),
        ('file = "x.csv"\n[words]\nno = ["!"]', "key 'words.no': '!' holds no word"),
        ('file = "x.csv"\nprompt = "{frage}"', "key 'prompt': it has the field {frage}"),
        ('file = "x.csv"\nname = "a,b"', "key 'name': a name has no comma"),
        ('file = "x.csv"\nname = "x.toml"', "key 'name': a name cannot end in .toml"),
        ('file = "x.csv"\nname = " "', "name must be printable text"),
        ('file = "x.csv"\nnumbers_from = 2', "key 'numbers_from': options are counted from 0 or from 1"),
        ('file = ""', "key 'file': write the path of the table"),
        ('file = "a\\u0000b"', "key 'file': a path has no NUL character"),
        ('file = "x.csv"\nimages = "\\u0000"', "key 'images': a path has no NUL character"),
        ('file = "x.csv"\nwindow = [0, 1' + "0" * 400 + "]", "line 2: window[1]: a whole number of more than 64 bits"),
        ('file = "x.csv"\n' + "a." * 900 + "b = 1", "no key 'a'"),
        ('file = "x.csv"\ntitle = "' + "x" * 70_000 + '"', "cannot be read"),
        ("file = 3", "line 1: Expected `str`, got `int` - at `$.file`"),
        ("file = ", "not TOML"),
    ],
)
def test_a_wrong_key_is_one_line_that_names_it(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text(text.replace("[words]", 'language = "de"\n[words]'), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        table_files.read(tmp_path / "k.toml", "k.toml")
    assert str(caught.value).startswith(("k.toml: ", "k.toml, line "))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_options_may_be_texts_between_separators_and_answers_their_numbers(tmp_path: Path) -> None:
    text = 'file = "t.csv"\noptions = "Wahl"\nseparator = ";"\nnumbers_from = 1\ndelimiter = ","\n'
    table = 'Frage,Wahl,Antwort\nQ?,Leber; Milz;Niere,２\nQ?,A) Leber; B) Milz,"1, 2"\nQ?,B: Leber;A: Milz,1\n'
    first, second, third = items_of(declare(tmp_path, text, table, "t.csv")).values()
    assert (first.options, first.answers) == ({"A": "Leber", "B": "Milz", "C": "Niere"}, ("B",))
    assert (second.options, second.answers) == ({"A": "Leber", "B": "Milz"}, ("A", "B"))
    assert third.options == {"A": "B: Leber", "B": "A: Milz"}  # letters of others are texts


def test_texts_are_compared_without_case_width_and_unicode_form(tmp_path: Path) -> None:
    decomposed = "Fu\u0308\u00df e"
    table = f"Frage,A,B,Antwort\nQ?,FÜSSE,Arm,{decomposed.replace(' ', '')}\nQ?,FÜSSE,Arm,b) arm\n"
    items = items_of(declare(tmp_path, 'file = "t.csv"\n', table, "t.csv"))
    assert [item.answers for item in items.values()] == [("A",), ("B",)]
    german = items_of(
        declare(tmp_path, 'file = "t.csv"\ntags = ["Größe"]\n', "Frage,Antwort,Gro\u0308ße\nQ?,x,K\n", "t.csv")
    )
    assert next(iter(german.values())).tags == {"größe".casefold(): ("k",)}


def test_numbers_and_units_stay_texts(tmp_path: Path) -> None:
    table = "Frage;A;B;Antwort\nDosis von 0,5 mg?;0,5 mg;1.000;0,5 MG\n"
    (item,) = items_of(declare(tmp_path, 'file = "t.csv"\nlanguage = "de"\ndelimiter = ";"\n', table, "t.csv")).values()
    assert (item.question, item.options, item.answers) == ("Dosis von 0,5 mg?", {"A": "0,5 mg", "B": "1.000"}, ("A",))
    assert scoring.normalise("GROẞE Übung") == scoring.normalise("große U\u0308BUNG") == "grosse übung"


def test_names_of_files_are_found_in_either_unicode_form(tmp_path: Path) -> None:
    (tmp_path / "Fu\u0308r.png").write_bytes(b"apart")
    table = "Frage,Antwort,Bild\nGru\u0308n?,x,F\u00fcr.png\nQ?,x,nicht da ü.png\n"
    first, second = items_of(declare(tmp_path, 'file = "t.csv"\n', table, "t.csv")).values()
    assert (first.question, first.images[0].read()) == ("Gr\u00fcn?", b"apart")
    assert second.images[0].name == "nicht da ü.png"


@pytest.mark.parametrize(
    ("language", "right", "answer", "outcome"),
    [
        ("de", "Ja", "Ja, es liegt ein Erguss vor.", "correct"),
        ("de", "nein", "Ja.", "wrong"),
        ("de", "WAHR", "Das ist richtig.", "correct"),
        ("de", "ja", "Die Aussage ist falsch.", "wrong"),
        ("de", "ja", "yes", "correct"),
        ("de", "ja", "Es liegt kein Erguss vor", "unparsed"),
        ("de", "ja", "Ja oder nein?", "unparsed"),
        ("zh", "有", "是的，有积液", "correct"),
        ("zh", "有", "没有", "wrong"),
        ("zh", "有", "图中有积液", "unparsed"),
        ("zh", "是", "答案是没有。", "wrong"),
        ("zh", "是", "是否有积液？否", "wrong"),
        ("zh", "是", "这是一张CT图像", "unparsed"),
        ("zh", "不存在", "否", "correct"),
        ("zh", "是", "无法判断", "abstained"),
        ("zh", "是", "是，否", "unparsed"),
        ("zh", "有", "对吗？不对", "wrong"),
    ],
)
def test_judgments_are_read_by_the_words_of_the_language(
    language: str, right: str, answer: str, outcome: str, tmp_path: Path
) -> None:
    text = f'file = "t.csv"\nkind = "judgment"\nlanguage = "{language}"\n'
    benchmark = declare(tmp_path, text, f"Frage,Antwort\nQ?,{right}\n", "t.csv")
    (item,) = items_of(benchmark).values()
    assert benchmark.score(item, Answer(answer)).outcome == outcome


def test_the_end_of_a_cut_answer_is_no_clause(tmp_path: Path) -> None:
    text = 'file = "t.csv"\nkind = "judgment"\nlanguage = "zh"\n'
    benchmark = declare(tmp_path, text, "Frage,Antwort\nQ?,有\n", "t.csv")
    (item,) = items_of(benchmark).values()
    assert benchmark.score(item, Answer("是", finish="length")).outcome == "unparsed"


def test_words_of_ones_own_are_read_and_signed(tmp_path: Path) -> None:
    text = (
        'file = "t.csv"\nkind = "judgment"\nlanguage = "de"\n[words]\nyes = ["liegt vor"]\nno = ["liegt nicht vor"]\n'
    )
    benchmark = declare(tmp_path, text, "Frage,Antwort\nQ?,liegt vor\n", "t.csv")
    (item,) = items_of(benchmark).values()
    assert benchmark.score(item, Answer("Liegt nicht vor.")).outcome == "wrong"
    assert benchmark.score(item, Answer("ja")).outcome == "correct"
    assert benchmark.declared is not None
    kept = benchmark.declared.about([item], tmp_path)
    assert kept.words.startswith("de+")
    again = table_files.recorded("klinik", kept)
    assert again.score(item, Answer("Liegt nicht vor.")).outcome == "wrong"


def test_without_a_language_judgments_are_english_as_before(tmp_path: Path) -> None:
    benchmark = declare(tmp_path, 'file = "t.csv"\nkind = "judgment"\n', "Frage,Antwort\nQ?,yes\n", "t.csv")
    (item,) = items_of(benchmark).values()
    assert [benchmark.score(item, Answer(text)).outcome for text in ("Yes.", "ja", "There is no mass")] == [
        "correct",
        "unparsed",
        "unparsed",
    ]
    assert benchmark.prompt(item, "mc").template.startswith("own/judgment@")  # type: ignore[operator]


def test_written_files_are_read_as_they_were_declared(tmp_path: Path) -> None:
    declaration = TableDeclaration(
        file='bösartig "\x7f\\.csv',
        name="klinik 1",
        title="Klinik\tund\nmehr",
        language="de",
        options="Wahl",
        separator="\n",
        numbers_from=0,
        window=[-1000.0, 400.5],
        tags=["Organ"],
        columns={"question": "Frage ]#", "image": ["Bild 1", "Bild 2"]},
        slices={"age": NumberRanges("Alter", [18, 65.5], ["jung", "mittel", "alt"]), "modality": "Modalität"},
        crossings=["age+modality"],
        words=JudgmentWords(["liegt vor"], []),
        prompt="{question}\n{options}",
    )
    path = tmp_path / "klinik.toml"
    table_files.write(declaration, path, note="Zeile 1\nZeile 2 \x1b[31m")
    content = path.read_bytes()
    assert table_files.declared(content, "klinik.toml") == declaration
    assert content.decode().startswith("# Zeile 1\n# Zeile 2 ")
    assert b"\x1b" not in content
    with pytest.raises(UsageError, match="key 'kind'"):
        table_files.write(TableDeclaration(file="x.csv", kind="essay"), path)
    assert path.read_bytes() == content
    with pytest.raises(UsageError, match="not UTF-8"):
        table_files.write(TableDeclaration(file="f\udcfc.csv"), path)


def test_ranges_have_names_that_tell_them_apart() -> None:
    assert labels_of(NumberRanges("a", [-1, 0.5])) == [
        "under minus 1",
        "minus 1 to under 0.5",
        "0.5 and over",
    ]


def test_toml_is_written_with_escapes() -> None:
    import tomllib

    values = {"a b": 'x"\n\\\x7f\u2028', "list": ["a", 1, 2.5, True], "t": {"k": {"x": [], "y": "z"}, "": "empty"}}
    assert tomllib.loads(toml_text.written(values)) == values
    with pytest.raises(TypeError):
        toml_text.written({"none": None})


def test_a_missing_file_names_its_neighbour_and_an_unknown_benchmark_its_file(tmp_path: Path) -> None:
    declare(tmp_path)
    with pytest.raises(
        UsageError, match=r"klinkk\.toml: no such file; files in .*: klinik\.toml\. Did you mean 'klinik\.toml'"
    ):
        Registry.of().with_files(["klinkk.toml"], tmp_path)
    with pytest.raises(UsageError, match=r"no benchmark 'klinik'; the file is named by --benchmark=klinik\.toml"):
        Registry.of().with_files(["klinik"], tmp_path)
    known, names = Registry.of().with_files(["klinik.toml", "phantom", "./klinik.toml"], tmp_path)
    assert names == ["klinik", "phantom"]
    assert known.benchmarks["klinik"].metrics
    (tmp_path / "two").mkdir()
    declare(tmp_path / "two")
    with pytest.raises(
        UsageError, match=r"two/klinik\.toml: a benchmark is called 'klinik' already; write another name"
    ):
        known.with_files(["two/klinik.toml"], tmp_path)
    (tmp_path / "phantom.toml").write_text('file = "fragen.csv"\n')
    with pytest.raises(UsageError, match="a benchmark is called 'phantom' already"):
        known.with_files(["phantom.toml"], tmp_path)


def test_a_table_in_place_of_its_file_is_told_what_to_type(tmp_path: Path) -> None:
    registry = Registry.of()

    def refused(name: str) -> str:
        with pytest.raises(UsageError) as raised:
            registry.with_files([name], tmp_path)
        return str(raised.value)

    assert refused("t/my cases.csv") == "--benchmark=t/my cases.csv: no such file"
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "my cases.csv").touch()
    told = "a table; type `medvqa import 't/my cases.csv'`, which checks it; the file that declares it is named: "
    assert refused("t/my cases.csv") == f"--benchmark=t/my cases.csv: {told}--benchmark=my cases.toml"
    (tmp_path / "my cases.toml").touch()
    assert refused("t/my cases.csv").endswith("a table; the file that declares it is named: --benchmark=my cases.toml")
    (tmp_path / "t" / "my cases.toml").touch()
    assert refused("t/my cases.csv").endswith("named: --benchmark=t/my cases.toml")
    assert refused("./t") == "--benchmark=./t: a folder; --data=DIR names the folder of the data sets"


@pytest.mark.parametrize("write", [lambda path: path.write_bytes(b"\xff\xfe\0"), lambda path: path.mkdir()])
def test_what_is_no_file_of_a_benchmark_is_refused(write: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path / "k.toml")
    with pytest.raises(UsageError, match=r"^k\.toml( line 1)?: "):
        table_files.read(tmp_path / "k.toml", "k.toml")


def test_a_guess_needs_only_the_bytes() -> None:
    import io

    assert 'encoding = "cp1252"' in encodings.advice(io.BytesIO("Größe, Übung".encode("cp1252")))
    assert 'encoding = "gb18030"' in encodings.advice(io.BytesIO("问题,答案".encode("gb18030")))
    assert 'encoding = "utf-16"' in encodings.advice(io.BytesIO("x".encode("utf-16")))
