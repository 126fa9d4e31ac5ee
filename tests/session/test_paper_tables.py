"""Each command of docs/papers.md, run in its order on small data in the owners' formats; and the scripts of papers/."""

import importlib.util
import itertools
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import medvqa
from medvqa.benchmarks import published
from medvqa.cli import main
from support import released

pd = pytest.importorskip("pandas", reason="needs pandas: pip install 'pytest-medvqa[pandas]'")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
SCRIPTS = ROOT / "papers"
PAPERS = {"MediConfusion": "mediconfusion", "GMAI-MMBench": "gmai-mmbench", "MedLesionVQA": "medlesionvqa"}
CONFTEST = """
import medvqa
from medvqa.benchmarks import mediconfusion

easy = mediconfusion.variant("mediconfusion-easy")


class Scripted(medvqa.Backend):
    sends_to = None

    def generate(self, prompts):
        said = {"<kind>": "<kind>lack of knowledge</kind>", "<result>": "<result>1</result>"}
        return [medvqa.Answer(next((said[tag] for tag in said if tag in p.text), "A: 9\\nB: 2")) for p in prompts]
"""
SMALLER = {"--samples=100": "--samples=10", "--samples=1,10,100": "--samples=1,5,10", "--train=84": "--train=4"}


@dataclass(frozen=True)
class Row:
    """The commands of one row of the page, or of the text below a paper's rows."""

    paper: str
    label: str
    commands: Sequence[str]

    def __str__(self) -> str:
        return f"{self.paper} {self.label}"


def rows_of_page() -> Iterator[Row]:
    paper = ""
    for line in re.sub(r"\n(?=[^\n#-])", " ", PAGE.read_text("utf-8")).splitlines():
        paper = line.removeprefix("## ") if line.startswith("## ") else paper
        if paper in PAPERS and (commands := re.findall(r"`((?:medvqa|python papers/)[^`]* [^`]*)`", line)):
            label, said, _ = line.removeprefix("- ").partition(": ")
            yield Row(paper, label if said else line[:30], commands)


ROWS = list(rows_of_page())


@dataclass(frozen=True)
class Bench:
    """A folder with the data of all papers, and runs of each paper's main row by three models."""

    folder: Path
    runs: dict[str, list[str]]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MEDVQA_DATA", "DATA")
        (folder / "conftest.py").write_text(CONFTEST)
        for name in ("mediconfusion", "mediconfusion-easy"):
            released.mediconfusion(folder / "DATA", name)
        released.gmai_mmbench(folder / "DATA")
        released.medlesionvqa(folder / "DATA")
        (folder / "visual-prompts.csv").write_text("id,visual_prompt\n10001/1,arrow\n")
        (folder / "values.csv").write_text("id,attribute_value\ntest1,red\n")
        (folder / "ratings.csv").write_text("id,score\n" + "".join(f"test{n},{n % 2}\n" for n in range(28)))
        runs: dict[str, list[str]] = {}
        for title, name in PAPERS.items():
            command = next(row.commands[0] for row in ROWS if row.paper == title)
            for number, model in enumerate(("random", "random:7", "majority")):
                words = [word.replace("=MODEL", f"={model}") for word in shlex.split(command)[1:]]
                assert main([*(w.replace("JUDGE", "scripted") for w in words), f"--run={name}-{number}"]) == 0
                runs.setdefault(title, []).append(f"reports/{name}-{number}")
        sizes = (f"{Path(run).name},{10**n}\n" for n, run in enumerate(runs["MedLesionVQA"], 6))
        (folder / "sizes.csv").write_text("run,parameters\n" + "".join(sizes))
    return Bench(folder, runs)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"papers_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_shown(output: str) -> list[list[str]]:
    """The cells of the table with the published rows."""
    lines = [re.split(r"  +", line.strip()) for line in output.splitlines()]
    start = next(i for i, line in enumerate(lines) if line[0] == "percent")
    return lines[start : lines.index([""], start)]


def check_paper(words: Sequence[str], output: str) -> None:
    """Check the columns, the published rows and the last row that `medvqa paper` prints."""
    typed = dict(word.removeprefix("--").partition("=")[::2] for word in words)
    table = published.read(words[1]).numbered(typed.get("table", ""))
    headings, *rows, own = rows_shown(output)
    assert headings[1:] == [column.title for column in table.columns]
    assert [row[0].removesuffix(" †") for row in rows] == [
        of.name for of in table.rows if of.ablation == typed.get("ablate", "")
    ]
    assert own[0] == "> random"
    blank = [column.title for column, cell in zip(table.columns, own[1:], strict=True) if cell == "–"]
    assert blank == BLANK.get((words[1], typed.get("table", "")), [])


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_commands_of_a_row_give_its_table(
    row: Row, bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("MEDVQA_DATA", "DATA")
    runs = list(bench.runs[row.paper])
    for number, command in enumerate(row.commands):
        (program, *words), name = shlex.split(command), re.sub(r"\W", "-", f"{row}-{number}")
        if words[0] == "rescore":
            shutil.copytree(runs[0], f"reports/{name}")
            runs = [f"reports/{name}", *runs]
        places = itertools.cycle(runs)
        # A group is of runs that are named before.
        words = [word.replace("=RUN,RUN", "=" + ",".join(runs[:2])) for word in words]
        words = [re.sub(r"\bRUN\b", lambda _, places=places: next(places), word) for word in words]
        judge = "scripted" if program == "medvqa" else "echo:A: 9\nB: 2"
        words = [SMALLER.get(word, word).replace("JUDGE", judge).replace("MODEL", "random") for word in words]
        if words[0] in ("run", "paper") and any(word.startswith("--model=") for word in words):
            words, runs = [*words, f"--run={name}"], [f"reports/{name}", *runs]
        capsys.readouterr()
        if program == "python":
            monkeypatch.setattr("sys.argv", words)
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")
        else:
            assert main(words) == 0, command
        output = capsys.readouterr().out
        assert output.strip()
        if words[0] == "paper":
            check_paper(words, output)
        for shown in SHOWN.get((row.paper, row.label, words[0]), ()):
            assert shown in output


BLANK = {
    ("mediconfusion", "6"): ["Unfiltered set", "Unfiltered conf.", "Unfiltered indiv."],
    ("gmai-mmbench", "12"): ["2D Mcls_acc", "2D Mcls_recall"],
    ("medlesionvqa", ""): ["AVG val", "AVG test"],
}
"""Columns that a run on these data cannot have."""
SHOWN: dict[tuple[str, str, str], Sequence[str]] = {
    ("MediConfusion", "Table 5", "paper"): ("prompt", "set_accuracy %", "sd", "10-important"),
    ("MediConfusion", "Table 8", "papers/mediconfusion_table_8.py"): ("Frequency threshold (%)", "Set acc.", "47.16"),
    ("MediConfusion", "Table 9", "papers/mediconfusion_table_9.py"): ("Confusion", "Invalid", "41.48"),
    ("MediConfusion", "Table 10", "combine"): ("set_accuracy %", "individual_accuracy %", "confusion %"),
    ("MediConfusion", "Figure 4", "lexicon"): ("category", "questions", "Cerebral"),
    ("MediConfusion", "Figure 8", "papers/mediconfusion_figure_8.py"): ("BiomedCLIP: 10 pairs", "DINO: 10 pairs"),
    ("GMAI-MMBench", "Tables 5 to 7", "papers/gmai_mmbench_tables_5_to_7.py"): (
        "Modalities",
        "Labels",
        "Cases",
        "Table 7",
    ),
    ("MedLesionVQA", "Figure 6", "lexicon"): ("lesion", "disease", "body_region"),
    ("MedLesionVQA", "Figure 7", "lexicon"): ("Lesion Recognition + multi-choice", "questions"),
}
"""Headings and words of the other tables, by row and command."""


# --- the scripts ------------------------------------------------------------------------------------------------------


class Alternating(medvqa.Backend):
    """Says A, B, A and nothing in its samples, and selects its second answer."""

    sends_to = None

    def generate(self, prompts: Any) -> list[medvqa.Answer]:
        return [medvqa.Answer("2" if "Select the best answer" in p.text else "ABA?"[p.sample % 4 - 1]) for p in prompts]


class Closest(medvqa.Backend):
    """Finds the option closest that the free answer names."""

    sends_to = None

    def generate(self, prompts: Any) -> list[medvqa.Answer]:
        said = [re.findall(r"^([AB?])$", prompt.text, re.M) for prompt in prompts]
        scores = {"A": "A: 9\nB: 1", "B": "A: 1\nB: 9", "?": "A: 1\nB: 1"}
        return [medvqa.Answer(scores[letters[-1]]) for letters in said]


def test_each_script_is_short() -> None:
    for path in SCRIPTS.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 60, path.name
        modules = re.findall(r"^(?:import|from) (medvqa\S*)", path.read_text(), re.M)
        assert modules == ["medvqa"], f"{path.name} imports more than the public face"


def test_the_oracle_is_right_from_a_share_of_right_answers_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A, B, A, ?: A in 50 %, B in 25 % of four answers. At 50 % every A question is right, none of B."""
    monkeypatch.chdir(tmp_path)
    module = script("mediconfusion_table_8")
    run = medvqa.evaluate(Alternating, "phantom-mediconfusion", samples=4)
    monkeypatch.setattr(module, "THRESHOLDS", (1, 25, 26, 50, 51, 75))
    assert module.table(run).to_numpy().tolist() == [
        *(["1", 100, 100], ["25", 100, 100], ["26", 0, 50], ["50", 0, 50], ["51", 0, 0], ["75", 0, 0]),
    ]


def test_the_oracle_counts_whole_pairs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = script("mediconfusion_table_8").table
    run = medvqa.evaluate(Alternating, "phantom-mediconfusion", samples=4, limit=4)
    results = run.results.sort_values(["pair", "item"])
    # B could not be asked in the first pair: A is no pair.
    lost = results.outcome.mask((results.pair == results.pair.iloc[0]) & (results.expected == "B"), "error")
    found = table(SimpleNamespace(results=results.assign(outcome=lost)))
    assert found.to_numpy().tolist()[0] == ["1", 100, 100]
    without = SimpleNamespace(results=results.assign(outcome=results.outcome.mask(results.expected == "B", "error")))
    assert found.columns.tolist() == table(without).columns.tolist()
    assert table(without)["Set acc."].isna().all(), "no pair is whole"
    with pytest.raises(SystemExit, match="no answered questions in pairs"):
        table(medvqa.evaluate("echo:A", "phantom-gmai-mmbench", limit=4))


def test_the_model_selects_one_of_its_answers_and_that_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It selects its second answer, B, which is right for one image of each pair."""
    monkeypatch.chdir(tmp_path)
    released.mediconfusion(tmp_path / "data")
    found = script("mediconfusion_table_9").table(Alternating, Closest, "data", 3)
    assert found.to_numpy().tolist() == [["3", 0, 50, 100, 0]]
    assert list(found.columns) == ["row", "Set acc.", "Indiv. acc.", "Confusion", "Invalid"]
    # 50 errors in a row would end a run of all questions.
    assert not medvqa.load("reports/best-of-3-answers").results.outcome.eq("error").any()


def test_a_question_that_ends_in_errors_is_not_selected_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Alternating):
        def generate(self, prompts: Any) -> list[Any]:
            answers = zip(prompts, super().generate(prompts), strict=True)
            return [medvqa.items.AnswerError("no") if p.item == "10001/1" else answer for p, answer in answers]

    monkeypatch.chdir(tmp_path)
    released.mediconfusion(tmp_path / "data")
    found = script("mediconfusion_table_9").table(Failing, Closest, "data", 3)
    assert found["Set acc."].tolist() == [0]


def test_always_a_has_the_first_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = medvqa.evaluate("echo:A", "phantom-mediconfusion", rotate="all", limit=8)
    shares = script("position_shares").table(run).droplevel("benchmark")
    assert shares.to_numpy().tolist() == [[100, 50], [0, 50]]


def test_a_contour_is_no_case_of_its_own(tmp_path: Path) -> None:
    """81 questions in each split, every fourth at contour level: 61 cases of tasks, and all by granularity."""
    released.gmai_mmbench(tmp_path)
    items = medvqa.questions("gmai-mmbench", data=tmp_path)
    table = script("gmai_mmbench_tables_5_to_7").table
    assert [table(number, items).Cases.sum() for number in (5, 6, 7)] == [122, 122, 162]
    assert table(5, items)["Cases (published)"].sum() == 20_244
    assert table(7, items)["Cases (published)"].sum() == 25_831


def test_similarities_are_counted_by_bin(tmp_path: Path) -> None:
    released.mediconfusion(tmp_path)
    counts = script("mediconfusion_figure_8").table(str(tmp_path), "DINO_sim")
    assert counts.to_dict() == {0.3: 2, 0.4: 2, 0.5: 2, 0.6: 2, 0.7: 2}
