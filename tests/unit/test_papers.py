"""The main tables of the papers, a model's row in them, and the list of all tables and figures."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from medvqa import benchmarks, paper_tables
from medvqa.benchmarks import published
from medvqa.cli import main
from medvqa.items import Measure
from medvqa.paper_tables import BEST
from medvqa.tags import lexicon
from support import neighbours
from support.pages import Page
from support.servers import Reply, Request, Server, completion, scored

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
REFERENCE = SHARED / "reference"
PAGE = ROOT / "docs" / "papers.md"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")

PAPERS = ("mediconfusion", "gmai-mmbench", "medlesionvqa")
KNOWN = {benchmark.name: benchmark for benchmark in benchmarks.pytest_medvqa_benchmarks()}
TABLES = published.tables(KNOWN.values())

# The last table and the last figure of each paper.
LAST = {"MediConfusion": (10, 9), "GMAI-MMBench": (13, 62), "MedLesionVQA": (11, 13)}


# --- published figures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAPERS)
def test_each_row_has_a_value_for_each_column(name: str) -> None:
    table = TABLES[name]
    assert table.rows
    for row in table.rows:
        assert len(row.values) == len(table.columns), row.name
        assert all(value is None or 0 <= value <= 100 for value in row.values), row.name
    known = {
        dimension: vocabulary.values
        for words in (lexicon.gmai_mmbench(), lexicon.medlesionvqa())
        for dimension, vocabulary in words.dimensions.items()
    }
    for column in table.columns:
        for dimension, value in column.slice.items():
            assert value in known[dimension]


def test_the_best_columns_are_the_largest_of_a_row() -> None:
    table = TABLES["mediconfusion"]
    for row in table.rows:
        for best, value in zip(table.columns, row.values, strict=True):
            same = [each.measure == best.measure and each.technique != BEST for each in table.columns]
            of = [figure for figure, of_it in zip(row.values, same, strict=True) if of_it and figure is not None]
            assert best.technique != BEST or not of or value == max(of), row.name


OTHERS = [(paper, number) for paper, table in TABLES.items() for number in table.further]


@pytest.mark.parametrize(("paper", "number"), OTHERS)
def test_the_rows_of_another_table_are_whole_and_of_known_values(paper: str, number: str) -> None:
    table = TABLES[paper].numbered(number)
    assert table.source.endswith(f"Table {number}")
    known = {name: words.values for each in lexicon.lexicons() for name, words in each.dimensions.items()}
    (prompts,) = [{"prompt": each.prompts} for each in KNOWN.values() if each.name == "mediconfusion"]
    for column in table.columns:
        assert column.split in table.benchmarks
        for dimension, value in column.slice.items():
            assert value in (known | prompts)[dimension]
    for row in table.rows:
        assert len(row.values) == len(table.columns), row.name


@needs_shared
@pytest.mark.parametrize(("paper", "number"), OTHERS)
def test_the_rows_of_another_table_stand_in_the_paper(paper: str, number: str) -> None:
    """Some line of the paper's text has the digits of each row's figures, in their order: OCR loses decimal points."""
    text = (SHARED / "papers" / f"{paper}.txt").read_text()
    lines = [re.findall(r"\d[\d,.]*", line) for line in text.splitlines()]
    scale, how = (100, "{:.4f}") if paper == "medlesionvqa" else (1, "{:.2f}")
    for row in TABLES[paper].numbered(number).rows:
        values = [value / scale for value in row.values if value is not None]
        said = [{re.sub(r"\D", "", form.format(value)) for form in ("{:g}", how)} for value in values]
        assert any(_in_order(line, said) for line in lines), row.name


def _in_order(line: Sequence[str], said: Sequence[set[str]]) -> bool:
    cells = iter(re.sub(r"\D", "", cell) for cell in line)
    return all(any(cell in value for cell in cells) for value in said)


@needs_shared
def test_the_rows_of_mediconfusion_are_those_of_the_paper() -> None:
    reference = json.loads((REFERENCE / "mediconfusion/paper_table1.json").read_text())["table1"]
    rows = {row.name: row.values for row in TABLES["mediconfusion"].rows}
    for name, measures in reference.items():
        # MC, GD, FF, PS of set accuracy, individual accuracy and confusion; a blank for what was not asked.
        assert list(rows[name][:12]) == [v for column in measures for v in [*column, *[None] * (4 - len(column))]]


@needs_shared
def test_the_rows_of_gmai_mmbench_are_those_of_the_paper() -> None:
    reference = json.loads((REFERENCE / "gmai-mmbench/paper_tables.json").read_text())["table2_tasks"]
    counts = json.loads((REFERENCE / "gmai-mmbench/test_counts.json").read_text())["counts"]
    table = TABLES["gmai-mmbench"]
    rows = {row.name: dict(zip([c.title for c in table.columns], row.values, strict=True)) for row in table.rows}
    assert rows.keys() - reference.keys() == {"TransCore-M", "GPT-4o"}
    for name, row in rows.items():
        assert name not in reference or row == reference[name]
        # The published Overall is the micro mean over the tasks.
        micro = sum((row[task] or 0) * n for task, n in counts.items()) / sum(counts.values())
        assert micro == pytest.approx(row["test"], abs=0.006)


@needs_shared
def test_the_rows_of_medlesionvqa_are_those_of_the_paper() -> None:
    """One reference row lost a decimal point and a column: ours is that of the paper's text."""
    reference = json.loads((REFERENCE / "medlesionvqa/paper_table2.json").read_text())
    table = TABLES["medlesionvqa"]
    damaged = []
    for row in table.rows:
        if row.values[1] is None:
            continue
        block = reference["text" if row.ablation else "vqa"].values()
        test, abilities = row.values[1], row.values[4:]
        names = ("lesion", "location", "attribute", "spatial", "reasoning", "diagnosis", "suggestion")
        same = [of for of in block if [round(100 * of[name], 2) for name in names] == list(abilities)]
        if not same:
            damaged.append((row.name, row.ablation))
            continue
        assert round(100 * same[0]["test"], 2) == test
        for mean, value in (("micro", row.values[2]), ("macro", row.values[3])):
            assert mean not in same[0] or value == pytest.approx(100 * same[0][mean], abs=0.006), row.name
    assert damaged == [("Qwen2-VL-2B", "text-only")]
    text = (SHARED / "papers/medlesionvqa.txt").read_text()
    line = next(line for line in text.splitlines() if line.startswith("Qwen2-VL-2B") and "0.2693" in line)
    (row,) = [row for row in table.rows if row.name == "Qwen2-VL-2B" and row.ablation]
    said = [round(100 * float(f"0.{digits}"), 2) for digits in re.findall(r"\b0\.?(\d{4})\b", line)]
    assert said == [value for i, value in enumerate(row.values) if i not in (2, 3)]


def test_means_of_a_published_row_by_hand() -> None:
    """GPT-4V: the sum of column times questions is 863,653.71 over 18,344; the sum of columns 359.5 over 7."""
    (row,) = [row for row in TABLES["medlesionvqa"].rows if row.name == "GPT-4V" and not row.ablation]
    assert row.values[2:4] == (pytest.approx(47.08, abs=0.005), pytest.approx(359.5 / 7, abs=0.005))


def measure(name: str, value: float, technique: str = "mc", benchmark: str = "mediconfusion") -> Measure:
    return Measure(benchmark, name, value, None, None, 176, technique=technique)


def test_a_row_takes_each_column_from_its_measure() -> None:
    table = TABLES["mediconfusion"]
    measures = [
        measure("set_accuracy", 0.2), measure("set_accuracy", 0.3, "gd"), measure("individual_accuracy", 0.5),
        measure("set_accuracy", 0.9, "mc", "mine"),
    ]  # fmt: skip
    values = dict(zip([c.title for c in table.columns], published.figures(table, measures), strict=True))
    shown = {title: figure.value for title, figure in values.items() if figure is not None}
    assert shown == {"set MC": 0.2, "set GD": 0.3, "indiv. MC": 0.5, "best set": 0.3, "best indiv.": 0.5}
    instead = published.figures(table, measures, "mine")
    assert [figure.value for figure in instead if figure is not None] == [0.9, 0.9]


def test_a_column_of_a_slice_may_come_from_the_other_split() -> None:
    table = TABLES["gmai-mmbench"]
    bone = Measure("gmai-mmbench-val", "accuracy", 0.4, None, None, 30, slice={"task": "bone"}, technique="mc")
    overall = Measure("gmai-mmbench-val", "accuracy", 0.5, None, None, 300, technique="mc")
    found = {
        column.title: (figure.value, figure.other)
        for column, figure in zip(table.columns, published.figures(table, [bone, overall]), strict=True)
        if figure is not None
    }
    assert found == {"val": (0.5, False), "B": (0.4, True)}


# --- neighbours -------------------------------------------------------------------------------------------------------

KIT = "medevalkit_total_accuracy"
"""A measure of --metric-like, which is no metric of a benchmark."""


@pytest.mark.parametrize("name", sorted(TABLES.keys() - PAPERS))
def test_a_table_of_a_neighbour_is_of_its_group_and_its_measures(name: str) -> None:
    table = TABLES[name]
    for row in table.rows:
        assert len(row.values) == len(table.columns), row.name
        assert any(value is not None for value in row.values), row.name
        assert all(value is None or 0 < value < 100 for value in row.values), row.name
        assert row.checked in paper_tables.CHECKED, row.name
    for benchmark in table.benchmarks.values():
        assert name in (KNOWN[benchmark].group, benchmark)
    for column in table.columns:
        assert column.split in table.benchmarks
        given = {metric.name for metric in KNOWN[table.benchmarks[column.split]].metrics}
        assert column.measure in ("", KIT, *given)
        assert set(column.slice) <= {*KNOWN[table.benchmarks[column.split]].dimensions}
    assert table.source


def test_rows_counted_here_are_shares_of_their_questions() -> None:
    """The owners' counts in their example outputs: 58 and 47 of 150, by subject of 30 (`test_pinned_scorers.py`)."""
    rows = {row.name: row.values for row in TABLES["mmmu-health"].rows if row.checked == "counted"}
    counts = {"LLaVA-1.5-13B": (58, 15, 12, 11, 8, 12), "Qwen-VL": (47, 9, 9, 5, 11, 13)}
    for name, (total, *subjects) in counts.items():
        assert sum(subjects) == total
        assert rows[name] == (round(total / 1.5, 2), *(round(count / 0.3, 2) for count in subjects))


def test_published_rows_stand_only_beside_the_questions_they_are_of() -> None:
    for name, rows in (("pmc-vqa-test-2", 2), ("mmmu-health-val", 4), ("slake-zh-test", 2), ("medframeqa", 0)):
        paper = published.overall(KNOWN[name])
        assert paper is not None
        assert len(paper.rows) == rows, name
    assert published.overall(KNOWN["pmc-vqa-test-clean"]) is None
    assert published.overall(KNOWN["mmmu-health-test"]) is None
    paper = published.overall(KNOWN["vqa-rad"])
    assert paper is not None
    assert paper.rows[0] == ("MCB_RAD (copied)", "mc", (None, 60.6, 25.4))


@pytest.mark.parametrize(
    "name",
    [
        each.name
        for each in neighbours.found()
        # Rows of these two are of other questions; those of VQA-RAD count like MedEvalKit, which does not know OSF's.
        if each.name not in ("slake-zh-test", "pmc-vqa-test-clean") and not each.name.startswith("vqa-rad-osf")
    ],
)
def test_a_neighbours_row_and_page_have_the_published_rows(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'pytest-medvqa[data]'")
    data = here / "data"
    data.mkdir()
    neighbours.sample_of(name).write(data)
    paper = KNOWN[name].group or name
    typed = ["--model=majority", f"--benchmark={name}", "--data=data", "--technique=mc", "--run=first"]
    assert main(["paper", paper, *typed]) == 0
    output = capsys.readouterr().out
    table = TABLES[paper]
    for row in table.rows:
        assert row.shown in output
    assert f"published figures: {table.source}" in output
    assert main(["paper", paper, "reports/first", "--latex=row.tex"]) == 0
    assert capsys.readouterr().out.strip() in output
    assert (here / "row.tex").read_text().count("\\bottomrule") == 2
    assert ("en, all" in output and KIT in output) == (name == "slake-en-test")
    sections = Page((here / "reports/first/index.html").read_text()).block("head")["sections"]
    blocks = [block for section in sections for block in section["blocks"]]
    shown = [block for block in blocks if block.get("title") == "Compared with published results"]
    assert len(shown) == bool(table.rows)
    paper_rows = published.overall(KNOWN[name])
    assert paper_rows is not None
    # A row may have figures of slices alone, which the page does not show.
    assert {of for of, *_ in paper_rows.rows} <= {row["cells"][0] for block in shown for row in block["rows"]}
    if name == "vqa-rad":
        titles = [column["title"] for column in shown[0]["columns"]]
        assert "all %" in titles, "the published figures are no counts of MedEvalKit"
        same = "In the row of this run, all is medevalkit total accuracy, closed is closed accuracy"
        assert same in " ".join(shown[0]["notes"])


# --- medvqa paper -----------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    return tmp_path


def own_row(output: str) -> list[str]:
    """The cells of the row of the model."""
    return next(line for line in output.splitlines() if line.startswith("> ")).split()[2:]


@pytest.mark.parametrize("name", PAPERS)
def test_a_row_is_asked_for_and_printed_again(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phantom = f"phantom-{name}"
    assert main(["paper", name, "--model=random", f"--benchmark={phantom}", "--run=first"]) == 0
    asked = capsys.readouterr()
    row = own_row(asked.out)
    measures = json.loads((here / "reports/first/metrics.json").read_text())["measures"]
    values = {(m["name"], m["technique"]): m["value"] for m in measures if not m["slice"]}
    if name == "mediconfusion":
        assert "left out: ff (add --judge=MODEL)" in asked.err
        assert float(row[0]) == round(100 * values["set_accuracy", "mc"], 2)
        assert row[2] == "–"
        assert float(row[-2]) == round(100 * values["best_set_accuracy", "max(gd,mc,ps)"], 2)
        assert json.loads((here / "reports/first/run.json").read_text())["extraction"] == "official"
    assert f"the questions are those of {phantom}: compare no figure with the published ones" in asked.out
    assert main(["paper", name, "reports/first"]) == 0
    again = capsys.readouterr().out
    assert own_row(again) == row
    assert again.strip() in asked.out


MODEL = """
backend = "openai"
argument = "tiny"
[options]
base_url = "{url}"
concurrency = 4
{more}
"""
JUDGE = "--judge=echo:A: 9\nB: 2"


@pytest.mark.parametrize("tells", [True, False])
def test_gd_is_left_out_with_a_word_where_the_server_tells_no_log_probabilities(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tells: bool
) -> None:
    """One question tells it, instead of 50 errors before FF is asked."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    (here / "models").mkdir()

    def answer(number: int, request: Request) -> Reply:
        return Reply(scored(("A", -0.1), ("B", -2.5)) if tells and "logprobs" in request.body else completion("A"))

    with Server(answer) as server:
        (here / "models/tiny.toml").write_text(MODEL.format(url=server.url, more=""))
        words = ["paper", "mediconfusion", "--model=tiny", "--benchmark=phantom-mediconfusion", JUDGE, "--run=row"]
        assert main(words) == 0
        first = capsys.readouterr()
        assert sum("logprobs" in request.body for request in server.requests) == (73 if tells else 1)
        assert main(words) == 0
    row = own_row(first.out)
    assert ("gd (the server told no log-probabilities)" in first.err) is not tells
    assert (row[1] == "–") is not tells
    assert "–" not in (row[0], row[2])
    assert json.loads((here / "reports/row/run.json").read_text())["techniques"] == (
        ["mc", "gd", "ff"] if tells else ["mc", "ff"]
    )
    assert own_row(capsys.readouterr().out) == row


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("[prompts]\nphantom-mediconfusion = 'gpt'", "gd (prompt 'gpt' has none)"),
        ("reasoning = true", "gd (the model has no option_logprobs)"),
        ("top_logprobs = 0", "gd (the model has no option_logprobs)"),
    ],
)
def test_techniques_are_those_of_config_and_prompt(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: str, reason: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    (here / "models").mkdir()
    with Server(lambda number, request: Reply(completion("A"))) as server:
        (here / "models/tiny.toml").write_text(MODEL.format(url=server.url, more=more))
        words = ["--model=tiny", "--benchmark=phantom-mediconfusion", "--limit=4"]
        assert main(["paper", "mediconfusion", *words, JUDGE]) == 0
        assert reason in capsys.readouterr().err
        assert not any("logprobs" in request.body for request in server.requests)
        words = [*words[:-1], "--limit=2", "--prompt=gpt", JUDGE]
        assert main(["paper", "mediconfusion", *words]) == 0


@pytest.mark.parametrize("config", sorted(path.stem for path in (ROOT / "models").glob("mediconfusion-*.toml")))
def test_each_shipped_config_of_the_owners_has_techniques_for_its_row(config: str, here: Path) -> None:
    """Their prompts do not define all techniques; exit code 4 before anything is asked was the answer."""
    from medvqa.commands.paper_runs import _undefined
    from medvqa.session.chosen import choose
    from medvqa.session.options import Options
    from medvqa.session.project import Project
    from medvqa.session.registry import Registry

    known, table = Registry.of(), TABLES["mediconfusion"]
    chosen = choose(config, "model", Project(here, here, known, Options.of({}, here)))
    without = _undefined(table, Options.of({"benchmark": ["mediconfusion"]}, here), chosen.config, known)
    apis = {f"mediconfusion-{name}" for name in ("claude", "gemini", "gpt-4o", "o1")}
    assert ("gd" in without) == (config in apis)
    assert "mc" not in without


def test_only_rows_without_the_picture_stand_beside_such_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model=random", "--benchmark=phantom-medlesionvqa", "--ablate=text-only"]
    assert main(["paper", "medlesionvqa", *arguments]) == 0
    output = capsys.readouterr().out
    assert "Senior physicians" not in output
    assert re.search(r"^InternVL2\.5-78B +36\.36 ", output, re.M)
    assert "asked with no images" in output


def test_differences_stand_in_notes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["run", "--model=random", "--benchmark=phantom-mediconfusion", "--limit=20"]
    assert main([*common, "--rotate=all", "--run=turned"]) == 0
    capsys.readouterr()
    assert main(["paper", "mediconfusion", "reports/turned"]) == 0
    output = capsys.readouterr().out
    assert "turned was asked by another protocol than the paper's models: rotations=all" in output
    assert "turned: selected 20 of 72, by --limit=20" in output
    assert "turned: answers were read by strict rules (sound); the owners' rule is --extraction=official" in output
    assert "† Med-Flamingo: the confusions of FF and PS are exchanged" in output
    judged = ["--technique=ff", "--judge=echo:A: 9\nB: 2", "--ff-gap=2", "--prompt=blip-2"]
    assert main([*common, *judged, "--run=otherwise"]) == 0
    capsys.readouterr()
    assert main(["paper", "mediconfusion", "reports/otherwise"]) == 0
    output = capsys.readouterr().out
    assert "! otherwise was asked by the owners' prompt blip-2: compare with the model that they ask by it." in output
    assert "! turned was asked by" not in output
    prompts = r"\(judging/closeness@[0-9a-f]{8}\)"
    judge = r"! otherwise was judged by echo:A: 9.B: 2 " + prompts + "; the paper's judge is GPT-4o at temperature 0.7"
    assert re.search(judge, output)
    assert "otherwise: free answers count from a lead of 2 points (--ff-gap); the paper's is 3" in output


def test_a_part_of_the_data_and_a_recovered_key_stand_in_notes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--model=random", "--benchmark=phantom-gmai-mmbench", "--limit=20", "--run=part"]) == 0
    run = json.loads((here / "reports/part/run.json").read_text())
    run["benchmarks"]["phantom-gmai-mmbench"] |= {"release": 4550, "items": 143, "answers": "category"}
    (here / "reports/part/run.json").write_text(json.dumps(run))
    capsys.readouterr()
    assert main(["paper", "gmai-mmbench", "reports/part"]) == 0
    output = capsys.readouterr().out
    assert "! part: phantom-gmai-mmbench: the data hold 143 of the release's 4,550 questions." in output
    assert "the answer key of phantom-gmai-mmbench was recovered from the column 'category', not given by" in output


def test_answers_that_ended_in_error_stand_in_a_note(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--model=random", "--benchmark=phantom-mediconfusion", "--run=broken"]) == 0
    file = here / "reports/broken/results.jsonl"
    first, *others = file.read_text().splitlines()
    broken = json.loads(first) | {"answer": None, "error": "HTTP 400"}
    broken["score"] = {"value": None, "outcome": "error", "extracted": [], "why": "HTTP 400"}
    file.write_text("\n".join([json.dumps(broken), *others]) + "\n")
    capsys.readouterr()
    assert main(["paper", "mediconfusion", "reports/broken"]) == 0
    output = capsys.readouterr().out
    assert "! broken: 1 of 72 answers to phantom-mediconfusion ended in error, without a score." in output


def test_how_a_run_was_asked_stands_in_notes(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The generic prompt and a prompt of one's own, temperatures of model and judge, answers that count as wrong."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    (here / "models").mkdir()
    (here / "mine.txt").write_text("{question}\n{options}")

    def answer(number: int, request: Request) -> Reply:
        text = str(request.body)
        return Reply(completion("A: 9\nB: 2" if "[AI" in text else "Z" if "output Z" in text else "?"))

    with Server(answer) as server:
        more = "temperature = 0.5\nff_temperature = 0.75"
        (here / "models/warm.toml").write_text(MODEL.format(url=server.url, more=more))
        (here / "models/judge.toml").write_text(MODEL.format(url=server.url, more="temperature = 0.25"))
        words = ["run", "--model=warm", "--limit=4", "--benchmark=phantom-mediconfusion"]
        assert main([*words, "--technique=mc,ff", "--judge=judge", "--run=generic"]) == 0
        assert main([*words, "--prompt=mine.txt", "--run=mine"]) == 0
        gmai = [*words[:-1], "--benchmark=phantom-gmai-mmbench"]
        assert main([*gmai, "--run=gmai"]) == 0
        assert main([*gmai, "--run=read", "--judge=judge", "--extract-with=judge"]) == 0
    notes = {}
    for name in ("generic", "mine", "gmai", "read"):
        capsys.readouterr()
        paper = "gmai-mmbench" if name in ("gmai", "read") else "mediconfusion"
        assert main(["paper", paper, f"reports/{name}"]) == 0
        notes[name] = capsys.readouterr().out
    assert (
        "! generic was asked by one prompt for all models; the owners ask each by its own: --prompt="
        in notes["generic"]
    )
    assert "! generic was asked at temperature 0.5, 0.75 for ff." in notes["generic"]
    assert ", temperature 0.25); the paper's judge is GPT-4o at temperature 0.7." in notes["generic"]
    assert "generic: 4 of 4 answers to phantom-mediconfusion mc are unparsed, and count as wrong." in notes["generic"]
    assert "! mine was asked by mine instead of the benchmark's own prompt." in notes["mine"]
    read = "In the paper gpt-3.5-turbo-0613 read such answers: --judge=JUDGE --extract-with=judge."
    assert f"gmai: 4 of 4 answers to phantom-gmai-mmbench are unparsed, and count as wrong. {read}" in notes["gmai"]
    assert "was asked by" not in notes["gmai"]
    assert read not in notes["read"]
    assert "read was judged by" not in notes["read"] or "temperature 0.25" in notes["read"]


def test_two_runs_of_a_technique_are_refused_and_not_chosen_by_their_order(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--model=random", "--benchmark=phantom-mediconfusion", "--limit=4"]
    for name, technique in (("one", "mc"), ("two", "mc,gd"), ("three", "ps")):
        assert main([*words, f"--technique={technique}", f"--run={name}"]) == 0
    capsys.readouterr()
    assert main(["paper", "mediconfusion", "reports/one", "reports/two"]) == 4
    refusal = "reports/one and reports/two both answer phantom-mediconfusion by mc, and a row has one figure of it"
    assert refusal in capsys.readouterr().err
    assert main(["paper", "mediconfusion", "reports/two", "reports/three"]) == 0


def test_a_split_without_a_column_is_asked_only_where_no_other_is(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All columns of MedLesionVQA are of its test questions: those of val would be asked for nothing."""
    (here / "data/medlesionvqa").mkdir(parents=True)
    line = {"ability": "lesion_recognition", "question_type": "judgment", "question": "Is it red?", "answer": "yes"}
    lines = [json.dumps({**line, "id": split, "split": split, "image": None}) for split in ("val", "test")]
    words = ["paper", "medlesionvqa", "--model=echo:yes", "--judge=echo:<result>1</result>", "--data=data"]
    (here / "data/medlesionvqa/all.jsonl").write_text("\n".join(lines))
    assert main([*words, "--run=both"]) == 0
    said = "medvqa: asked about medlesionvqa-test; no column is of medlesionvqa-val (--benchmark asks it)"
    assert said in capsys.readouterr().err
    assert list(json.loads((here / "reports/both/run.json").read_text())["benchmarks"]) == ["medlesionvqa-test"]
    assert main([*words, "--benchmark=medlesionvqa-val,medlesionvqa-test", "--run=typed"]) == 0
    told = "! no column is of medlesionvqa-val: medvqa table --benchmark=medlesionvqa-val has its figures."
    assert told in capsys.readouterr().out
    assert main(["table", "reports/typed", "--benchmark=medlesionvqa-val"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown[:2] == [["MedLesionVQA,", "percent"], ["run", "micro", "macro", "Lesion"]]
    assert shown[2] == ["typed", "1/1*", "100.00*", "1/1*"]
    assert shown[3][:5] == ["!", "*", "from", "the", "validation"]
    (here / "data/medlesionvqa/all.jsonl").write_text(lines[0])
    assert main([*words, "--run=val"]) == 0
    output = capsys.readouterr()
    assert "no column is of" not in output.out + output.err
    assert "from the validation questions" in output.out


def test_what_gives_no_row_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phantom = "--benchmark=phantom-mediconfusion"
    assert main(["run", "--model=random", phantom, "--limit=2", "--run=one"]) == 0
    assert main(["run", "--model=majority", phantom, "--limit=2", "--run=other"]) == 0
    capsys.readouterr()
    for arguments, message in (
        (["mediconfusion"], "medvqa paper: name --model=MODEL, or recorded runs"),
        (["mediconfusion", "reports/one", "reports/other"], "a row is of one model, and these runs are of several"),
        (["gmai-mmbench", "reports/one"], "one has no figure of the table: it has measures of phantom-mediconfusion"),
        (["mediconfusion", "reports/one", "--model=random"], "--model: runs are recorded and nothing is asked"),
        (
            ["mediconfusion", "--model=random", phantom, "--benchmark=phantom-medlesionvqa"],
            "name benchmarks of the paper (mediconfusion), or one other that stands in for them",
        ),
        (["mediconfusion", "--model=random"], "mediconfusion"),
        # Refused before anything is asked: none of their measures is in the table, or they are several.
        (["mediconfusion", "--model=random", "--benchmark=phantom-gmai-mmbench"], "cannot stand in for mediconfusion"),
        (["mediconfusion", "--model=random", "--benchmark=phantom"], "cannot stand in for mediconfusion. Name one"),
        (
            ["medlesionvqa", "--model=random", "--benchmark=medlesionvqa-val"],
            "open answers to medlesionvqa-val need a judge: add --judge=MODEL",
        ),
    ):
        assert main(["paper", *arguments]) == 4
        assert message in capsys.readouterr().err
    assert main(["paper", "mmbench"]) == 4
    assert "no published rows of 'mmbench'" in capsys.readouterr().err


def test_a_run_that_gives_no_figure_says_what_became_of_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "conftest.py").write_text("""
import medvqa
from medvqa.paper_tables import PaperColumn, PaperTable

def items(folder):
    yield medvqa.Item("q1", question="Q?", options={"A": "x", "B": "y"}, answers=("A",))

def score(item, answer):
    return answr

def published():
    return PaperTable("Mine", "Table 2", "", {"test": "mine"}, (PaperColumn("Accuracy", "accuracy"),), ())

mine = medvqa.Benchmark(name="mine", items=items, score=score, owners=medvqa.items.Owners(published=published))
""")
    assert main(["paper", "mine", "--model=random", "--run=one"]) == 1
    said = capsys.readouterr().out
    assert "NameError: name 'answr' is not defined" in said
    assert "! one has no figure of the table, which needs a value of accuracy of mine" in said


@needs_shared
def test_recorded_answers_of_gpt_4o_give_their_figures(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MC: 30 of 176, 189 of 352, 116 of 157. FF: 5 of 176, 85 of 352, 43 of 51 (the recordings' official totals)."""
    folder, data = REFERENCE / "mediconfusion", f"--data={REFERENCE}"
    for name in ("mc", "ff"):
        model = f"--model=replay:{folder / f'gpt4o_{name}_predictions.json'}"
        assert main(["paper", "mediconfusion", model, data, f"--run={name}"]) == 0
    capsys.readouterr()
    assert main(["paper", "mediconfusion", "reports/mc", "reports/ff"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("> ")).split()[3:]
    figures = [*(f"{100 * n / of:.2f}" for n, of in ((30, 176), (5, 176), (189, 352), (85, 352), (116, 157), (43, 51)))]
    assert [cell for cell in row if cell != "–"] == [*figures, figures[0], figures[2]]
    assert main(["table", "reports/mc", "reports/ff", "--published"]) == 0
    lines = capsys.readouterr().out.splitlines()
    of_run = {line.split()[0]: line.split()[1:] for line in lines}
    assert of_run["mc"][::4][:3] == figures[::2]
    assert of_run["ff"][2::4][:3] == figures[1::2]
    assert "GPT-4o (published)" in "\n".join(lines)
    assert "•" not in "\n".join(lines), "runs by two techniques have no figure to compare"


# --- docs/papers.md ---------------------------------------------------------------------------------------------------


ROW = re.compile(r"- ((?:Table|Figure)s? \d.*?): (.*)")


def rows_of_page() -> dict[str, dict[str, str]]:
    """The text of each row, by paper and label; a row of the page may go on in further lines."""
    rows: dict[str, dict[str, str]] = {}
    paper = ""
    for line in PAGE.read_text("utf-8").replace("\n  ", " ").splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ")
        if match := ROW.fullmatch(line):
            assert match[1] not in rows.setdefault(paper, {})
            rows[paper][match[1]] = match[2]
    return rows


def numbers(label: str) -> Iterator[tuple[str, int]]:
    """The tables and figures of a label such as `Table 13; Figures 2, 10 to 26`."""
    for part in label.split("; "):
        kind, _, listed = part.partition(" ")
        for few in listed.split(", "):
            first, _, last = few.partition(" to ")
            for number in range(int(first), int(last or first) + 1):
                yield kind.removesuffix("s"), number


@pytest.mark.parametrize("paper", LAST)
def test_each_table_and_figure_of_a_paper_is_listed_once(paper: str) -> None:
    listed = [number for label in rows_of_page()[paper] for number in numbers(label)]
    tables, figures = LAST[paper]
    assert sorted(listed) == [
        *(("Figure", n) for n in range(1, figures + 1)), *(("Table", n) for n in range(1, tables + 1))
    ]  # fmt: skip


@needs_shared
@pytest.mark.parametrize(
    ("paper", "file"), list(zip(LAST, ("mediconfusion.txt", "gmai-mmbench.txt", "medlesionvqa.txt"), strict=True))
)
def test_the_papers_have_no_further_table_or_figure(paper: str, file: str) -> None:
    text = (SHARED / "papers" / file).read_text()
    for kind, last in zip(("Table", "Figure"), LAST[paper], strict=True):
        captions = {int(n) for n in re.findall(rf"^(?:<\|[^>]*>)?{kind} (\d+):", text, re.M)}
        assert captions == set(range(1, last + 1))


REASONS = ("unpublished data", "training", "construction", "examples", "constants")


def test_each_has_a_command_or_a_reason() -> None:
    for paper, rows in rows_of_page().items():
        for label, cell in rows.items():
            command = re.search(r"`(medvqa|python papers/)", cell) or cell.startswith("the same")
            assert command or cell.startswith(REASONS), f"{paper} {label}: {cell}"
    assert "not yet" not in PAGE.read_text("utf-8")
