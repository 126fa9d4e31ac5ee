"""Runs side by side: cells, means of groups of runs, gaps to chance, papers' layouts, bold figures and formats."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from medvqa import benchmarks, comparing
from medvqa.benchmarks import published
from medvqa.cli import main
from medvqa.figures import Column, Table, latex, markdown, terminal, texts
from medvqa.items import Measure
from medvqa.report import papers, side_by_side
from medvqa.report.side_by_side import as_table


def measure(value: float | None, chance: float | None, **slices: str) -> Measure:
    references = {} if chance is None else {"random": chance}
    return Measure("mine", "accuracy", value, None, None, 10, slice=slices, references=references)


OPEN = [measure(0.3, 0.25), measure(0.5, 0.25, task="disease_diagnosis"), measure(0.1, 0.2, task="bone")]
OTHER = [measure(0.5, 0.25), measure(0.8, 0.25, task="disease_diagnosis"), measure(0.4, 0.2, task="bone")]
SHORT = [measure(0.9, 0.25), measure(0.9, 0.25, task="bone"), measure(1.0, 0.1, kind="judgment")]


def as_csv(tables: list[side_by_side.SideBySide]) -> str:
    return side_by_side.in_full(tables).csv()


def table(**runs: list[Measure]) -> side_by_side.SideBySide:
    return side_by_side.side_by_side(runs, "accuracy", "task")


def values(row: side_by_side.SideRow) -> list[float | None]:
    return [figure.value for figure in row.figures]


def test_a_long_tag_is_clipped_where_people_read_it_and_the_numbers_stay() -> None:
    long = "x" * 200_000
    found = table(open=[*OPEN, replace(measure(0.5, 0.25, task=long), n=2, count=1)])
    shown = as_table(found)
    assert shown.headings[-1] == "x" * 59 + "…"
    assert len(terminal(shown)) < 400
    assert "1/2" in terminal(shown)
    (few,) = side_by_side.of_few(found)
    assert len(few) < 80
    assert "x" * 1000 in as_csv([found])
    drawn = terminal(Table("", texts(long, "n"), ((long, "1"),)))
    assert [line.split()[-1] for line in drawn.splitlines()] == ["n", "1"]


def test_a_row_for_each_run_and_a_column_for_each_value_in_the_order_of_names() -> None:
    found = table(open=OPEN, other=OTHER)
    assert [column.slice for column in found.columns] == [{}, {"task": "bone"}, {"task": "disease_diagnosis"}]
    assert {row.name: values(row) for row in found.rows} == {
        "open": [0.3, 0.1, 0.5],
        "other": [0.5, 0.4, 0.8],
        "chance": [0.25, 0.2, 0.25],
    }
    shown = as_table(found)
    assert shown.headings == ["run", "overall", "B", "DD"]
    assert shown.texts[-1] == ["chance", "25.00", "20.00", "25.00"]


def test_the_mean_of_a_group_is_unweighted_and_undefined_where_a_run_lacks_a_cell() -> None:
    groups = {"both": ["open", "other"], "all": ["other", "short"]}
    found = side_by_side.side_by_side({"open": OPEN, "other": OTHER, "short": SHORT}, "accuracy", "task", groups)
    both, everyone, _ = found.rows[-3:]
    assert (both.name, both.runs) == ("mean of both", 2)
    assert values(both) == pytest.approx((0.4, 0.25, 0.65))
    assert values(everyone) == pytest.approx((0.7, 0.65, None))
    assert as_table(found).texts[-2] == ["mean of all (2 runs)", "70.00", "65.00", "–"]


def gaps(groups: dict[str, list[str]] | None = None, **runs: list[Measure]) -> side_by_side.SideBySide:
    return side_by_side.side_by_side(runs, "accuracy", "task", groups, gap=True)


def test_gaps_are_to_the_chance_of_the_same_run_and_slice() -> None:
    """Insufficiency 1 of GMAI-MMBench: the mean of the models minus the row Random, task by task."""
    found = gaps({"both": ["open", "other"]}, open=OPEN, other=OTHER)
    assert [values(row) for row in found.rows] == [
        pytest.approx((0.05, -0.1, 0.25)),
        pytest.approx((0.25, 0.2, 0.55)),
        pytest.approx((0.15, 0.05, 0.4)),
    ]
    assert as_table(found).texts[0] == ["open", "+5.00", "-10.00", "+25.00"]
    (without,) = gaps(open=[measure(0.3, None), measure(0.5, None, task="bone")]).rows
    assert values(without) == [None, None]


def test_a_mean_gap_of_next_to_nothing_has_no_minus_sign() -> None:
    above = [measure(0.3, 0.25), measure(0.31, 0.25, task="bone")]
    found = gaps({"both": ["above", "below"]}, above=above, below=[measure(0.19999999, 0.25)])
    assert as_table(found).texts[-1][1] == "+0.00"


def test_the_row_of_chance_is_left_out_if_the_runs_differ_in_it() -> None:
    other = [measure(0.5, 0.5), *OTHER[1:]]
    assert [row.name for row in table(open=OPEN, other=other).rows] == ["open", "other"]
    chance = table(open=OPEN, short=SHORT).rows[-1]
    assert (chance.name, values(chance)) == ("chance", [0.25, None, None]), "bone differs, short has no diagnosis"


def test_few_units_are_counts_and_intervals_stand_beside_the_others() -> None:
    """One question of two is no 50.00 %, and a mean over such cells is none either."""
    whole = Measure("mine", "accuracy", 0.3, 0.2, 0.45, 60, count=18, references={"random": 0.25})
    rare = Measure(
        "mine", "accuracy", 0.5, None, None, 2, slice={"task": "bone"}, count=1, units=2, references={"random": 0.2}
    )
    runs = {"one": [whole, rare], "two": [whole, rare]}
    found = side_by_side.side_by_side(runs, "accuracy", "task", {"both": ["one", "two"]})
    assert as_table(found).texts[0] == ["one", "30.00", "1/2"]
    assert as_table(found).texts[2] == ["mean of both (2 runs)", "30.00", "–"]
    assert as_table(found, intervals=True).texts[0] == ["one", "30.00 (20.00–45.00)", "1/2"]
    found = gaps(one=[whole, rare])
    assert as_table(found, intervals=True).texts[0] == ["one", "+5.00 (-5.00 to +20.00)", "1/2"]
    assert as_csv([found]).splitlines()[1].split(",")[5:9] == [
        "0.04999999999999999",
        "-0.04999999999999999",
        "0.2",
        "60",
    ]


def test_the_csv_holds_fractions() -> None:
    groups = {"both": ["open", "other"]}
    lines = as_csv([side_by_side.side_by_side({"open": OPEN, "other": OTHER}, "accuracy", "task", groups)]).splitlines()
    assert lines[:3] == [
        "run,runs,measure,dimension,slice,value,low,high,n,column,benchmark,technique,bold,source",
        "open,1,accuracy,,,0.3,,,10,overall,mine,,False,",
        "open,1,accuracy,task,bone,0.1,,,10,B,mine,,False,",
    ]
    assert lines[7].startswith("mean of both,2,accuracy,,,0.4")
    assert lines[-1] == "chance,1,accuracy,task,disease_diagnosis,0.25,,,,DD,,,False,"


def test_latex_has_the_texts_of_the_terminal() -> None:
    shown = as_table(table(open_1=OPEN))
    assert latex(shown).splitlines() == [
        "% accuracy by task, percent",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"run & overall & B & DD \\",
        r"\midrule",
        r"open\_1 & 30.00 & 10.00 & 50.00 \\",
        r"chance & 25.00 & 20.00 & 25.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


# --- bold -------------------------------------------------------------------------------------------------------------

KNOWN = {benchmark.name: benchmark for benchmark in benchmarks.pytest_medvqa_benchmarks()}
PHANTOMS = ("random", "majority", "echo:A")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three baselines, of the three phantom benchmarks."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for model in PHANTOMS:
            name = model.removesuffix(":A")
            assert main(["run", f"--model={model}", "--benchmark=phantom", "--technique=mc", f"--run={name}"]) == 0
    return folder / "reports"


def paths(runs: Path) -> list[str]:
    return [str(runs / model.removesuffix(":A")) for model in PHANTOMS]


def test_bold_are_the_runs_than_which_the_comparison_shows_none_to_be_better(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["table", *paths(runs), "--layout=mediconfusion", "--benchmark=phantom-mediconfusion", "--format=csv"]
    assert main(words) == 0
    output = capsys.readouterr()
    lines = [line.split(",") for line in output.out.splitlines()[1:]]
    bold = {(line[0], line[2]) for line in lines if line[9] != "" and line[12] == "True"}
    sides = comparing.load_beside([Path(path) for path in paths(runs)], ["phantom-mediconfusion"])
    study = comparing.study(sides, KNOWN, units=False)
    ranked = {(row.name, ranking.metric) for ranking in study.rankings for row in ranking.rows if row.best == 1}
    assert len(study.rankings) == 3
    # Where all runs may be the best, bold would say nothing.
    apart = {ranking.metric for ranking in study.rankings if any(row.best > 1 for row in ranking.rows)}
    assert "confusion" in apart
    assert bold == {(name, metric) for name, metric in ranked if metric in apart}
    assert ("echo", "confusion") not in bold
    assert ("random", "confusion") in bold, "less confusion is better"
    assert "! in bold (• in a terminal): no other run of the table is shown to be better on the" in output.err


def test_a_column_without_a_comparison_of_all_runs_has_no_bold(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", *paths(runs), "--benchmark=phantom-gmai-mmbench"]) == 0
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith("!")}
    assert rows["run"][3] == "BVR", "two questions: no p-value"
    assert [rows[name][3] for name in ("random", "majority", "echo")] == ["0/2", "2/2", "2/2"]
    assert not rows["majority"][1].startswith("•"), "none is shown to be better than another"
    assert not rows["chance"][1].startswith("•")
    assert main(["table", paths(runs)[0], "--benchmark=phantom-gmai-mmbench"]) == 0
    assert "•" not in capsys.readouterr().out, "one run is compared with none"


def test_runs_that_are_not_comparable_have_no_bold(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = runs.parent / "reports" / "official"
    if not other.exists():
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(runs.parent)
            asked = ["--benchmark=phantom", "--technique=mc", "--extraction=official", "--run=official"]
            assert main(["run", "--model=majority", *asked]) == 0
            capsys.readouterr()
    assert main(["table", paths(runs)[0], str(other), "--benchmark=phantom-gmai-mmbench"]) == 0
    output = capsys.readouterr().out
    assert "! not comparable: " in output
    assert "•" not in output


# --- papers' layouts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "benchmark", "headings"),
    [
        ("gmai-mmbench", "phantom-gmai-mmbench", ["val", "test", "AR", "BVR"]),
        ("gmai-mmbench:3", "phantom-gmai-mmbench", ["val", "test", "CS", "D"]),
        ("mediconfusion", "phantom-mediconfusion", ["set MC", "indiv. MC", "conf. MC", "best set"]),
        ("medlesionvqa", "phantom-medlesionvqa", ["micro", "macro", "Lesion", "Loc."]),
    ],
)
def test_the_columns_are_those_of_the_paper(
    runs: Path, capsys: pytest.CaptureFixture[str], layout: str, benchmark: str, headings: list[str]
) -> None:
    words = ["table", *paths(runs), f"--layout={layout}", f"--benchmark={benchmark}", "--format=markdown"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    title = published.read(layout.partition(":")[0]).numbered(layout.partition(":")[2]).title
    assert lines[0] == f"{benchmark} as {title}, percent"
    cells = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    assert cells[: 1 + len(headings)] == ["run", *headings]
    assert [line.split("|")[1].strip() for line in lines[4:7]] == ["random", "majority", "echo"]
    assert "published" not in "\n".join(lines)
    assert main([*words, "--published"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("|") and "published" in line]
    table = published.read(layout.partition(":")[0]).numbered(layout.partition(":")[2])
    assert len(rows) == len([row for row in table.rows if not row.ablation])
    assert "**" not in "".join(rows)
    assert any(line.startswith("- published figures: ") for line in lines)


def test_published_rows_name_their_source_and_are_fractions_in_files(runs: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    file = tmp_path / "table.parquet"
    words = ["table", *paths(runs), "--layout=mediconfusion", "--benchmark=phantom-mediconfusion", "--published"]
    assert main([*words, "-o", str(file)]) == 0
    frame = pandas.read_parquet(file)
    row = frame[(frame.run == "GPT-4o") & (frame.column == "set MC")].iloc[0]
    assert (row.value, row.bold, row.source) == (0.1875, False, "Sepehri et al. 2024, Table 1")
    assert not frame[frame.source != ""].bold.any()
    types = frame.dtypes.astype(str)
    assert types[["run", "runs", "value", "bold"]].tolist() == ["string", "int64", "float64", "bool"]


def test_the_paper_of_the_benchmark_gives_the_layout_unless_a_measure_is_typed() -> None:
    known = list(KNOWN.values())
    for name, title in (
        ("gmai-mmbench-val", "GMAI-MMBench"),
        ("mediconfusion", "MediConfusion"),
        ("medlesionvqa-test", "MedLesionVQA"),
    ):
        found = papers.layout("", {name}, known)
        assert found is not None
        assert found.title == title
        assert papers.layout("slices", {name}, known) is None
    department = papers.layout("paper:3", {"gmai-mmbench-val", "gmai-mmbench-test"}, known)
    assert department is not None
    assert department.title == "GMAI-MMBench by department"
    for names in ({"phantom-gmai-mmbench"}, {"gmai-mmbench-val", "mediconfusion"}, {"slake-en"}):
        assert papers.layout("", names, known) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--layout=paper"],
            "--layout=paper: name one paper by --layout=PAPER; the benchmarks of these runs have none",
        ),
        (["--layout=mediconfusoin"], "no published rows of 'mediconfusoin'"),
        (["--layout=gmai-mmbench:99"], "no published figures of table 99"),
        (["--layout=gmai-mmbench:5"], "--layout=gmai-mmbench:5: no measure gives it"),
        (["--layout=gmai-mmbench", "--by=task"], "--by: the columns are those of GMAI-MMBench; leave it out"),
        (["--published"], "--published: the rows are in the layout of a paper, such as --layout=gmai-mmbench"),
        (["--layout=gmai-mmbench", "--published", "--gap"], "--published: the paper's rows have no level of chance"),
        (["--layout=:3"], "--layout=:3: name one paper by --layout=PAPER"),
        (["--format=parquet"], "--format=parquet: name a file by -o FILE"),
        (["-o", "."], "-o=.: a folder; name a file"),
    ],
)
def test_a_layout_or_file_that_is_not_there_is_refused(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["table", *paths(runs), "--benchmark=phantom-gmai-mmbench", *arguments]) == 4
    assert message in capsys.readouterr().err


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_ending_of_the_file_tells_the_format(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["table", *paths(runs), "--benchmark=phantom-gmai-mmbench", "--intervals"]
    begins = {"table.tex": "% phantom-gmai", "table.md": "phantom-gmai", "table.csv": "run,runs,", "table.txt": "phant"}
    for name, start in begins.items():
        capsys.readouterr()
        assert main([*words, "-o", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out.startswith(f"{tmp_path / name}: the table as ")
        assert (tmp_path / name).read_text().startswith(start)
    assert main([*words, "-o", str(tmp_path / "table.txt"), "--format=latex"]) == 0
    assert (tmp_path / "table.txt").read_text() == (tmp_path / "table.tex").read_text()
    pairs = ["table", *paths(runs), "--layout=mediconfusion", "--benchmark=phantom-mediconfusion"]
    assert main([*pairs, "-o", str(tmp_path / "pairs.tex")]) == 0
    assert "\\textbf{" in (tmp_path / "pairs.tex").read_text()
    assert "% in bold" in (tmp_path / "pairs.tex").read_text()


HOSTILE = (
    r"\input{/etc/passwd}",
    "50% & more_of #1 {~^}",
    "$x$ <b>|\"'`*[1em]",
    "\u6a21\u578b \u03b1 \u2264 \u041f \U0001f600",
    "\u0105\u00fe\u00e9\u0301 \u2013 \u2212 \u2020\u2026",
    "\\end{tabular}\n\\write18{x}\x00\x1b[31m",
    "\u202e\ud800",
)


def test_marks_of_bold_stand_around_what_is_escaped() -> None:
    bold = frozenset({(0, 0), (0, 1)})
    table = Table("", (Column("a_b"), Column("%", "figure")), ((r"*_\x", "-1.00 (2.00–3.00)"),), bold=bold)
    assert markdown(table).splitlines()[2] == r"| **\*\_\\x** | **-1.00 \(2.00–3.00\)** |"
    assert latex(table).splitlines()[4] == r"\textbf{{*}\_\textbackslash{}x} & \textbf{$-$1.00 (2.00--3.00)} \\"
    assert terminal(table).splitlines()[1].split()[0] == r"•*_\x"


@pytest.mark.slow
def test_latex_compiles_with_booktabs_alone(runs: Path, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex: apt-get install texlive-latex-base texlive-latex-recommended")
    words = ["table", *paths(runs), "--layout=mediconfusion", "--benchmark=phantom-mediconfusion", "--published"]
    assert main([*words, "--intervals", "-o", str(tmp_path / "paper.tex")]) == 0
    bold = frozenset((place, 0) for place in range(len(HOSTILE)))
    hostile = Table(HOSTILE[-2], texts(*HOSTILE), tuple(HOSTILE for _ in HOSTILE), bold=bold)
    (tmp_path / "hostile.tex").write_text(latex(hostile))
    letters = [chr(code) for code in range(0x20, 0x3000) if chr(code).isprintable()]
    (tmp_path / "letters.tex").write_text(latex(Table("", texts("letter"), tuple((letter,) for letter in letters))))
    for name in ("paper", "hostile"):
        assert compiled(tmp_path, f"\\input{{{name}.tex}}") == ""
    lines = (tmp_path / "letters.tex").read_text().splitlines()[4:-2]
    assert len(lines) == len(letters)
    # A table of all of them is longer than a page may be.
    assert compiled(tmp_path, "\n\n".join(line.removesuffix(r"\\").strip() for line in lines)) == ""


def compiled(folder: Path, body: str) -> str:
    """The errors of pdflatex."""
    (folder / "main.tex").write_text(
        f"\\documentclass{{article}}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "main.tex"]
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    return "" if done.returncode == 0 else done.stdout.decode(errors="replace")[-600:]
