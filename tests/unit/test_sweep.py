"""Sweeps: a file of settings becomes a grid of runs, each of which is asked once."""

import csv
import io
import json
import os
import shlex
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import comparing
from medvqa.cli import main
from medvqa.commands import sweeping
from medvqa.commands.sweeping import Sweep
from medvqa.items import Answer, UsageError
from medvqa.records import run_folder
from medvqa.report.grid import GridRow
from medvqa.session.display import Display
from medvqa.session.options import Options
from medvqa.session.project import Project
from medvqa.session.registry import Registry
from support.laws import examples

BENCHMARK = "phantom-mediconfusion"


def read(folder: Path, text: str) -> Sweep:
    file = folder / "grid.toml"
    file.write_text(text)
    return sweeping.read(file)


def names(sweep: Sweep) -> list[str]:
    return [cell.run for cell in sweep.cells]


# The file


def test_a_grid_is_every_combination_in_order_and_names_tell_the_settings(tmp_path: Path) -> None:
    sweep = read(
        tmp_path,
        """
        [options]
        benchmark = "phantom-mediconfusion"
        limit = 8

        [grid]
        model = ["random", "hf:/models/My Model"]
        ablate = ["", "blank"]
        shots = [0, 3]
        explain = [false, true]
        technique = [["mc", "gd"]]
        """,
    )
    assert sweep.settings == ("model", "ablate", "shots", "explain", "technique")
    assert len(sweep.cells) == 16
    assert names(sweep)[:4] == [
        "grid-random-mc+gd",
        "grid-random-explain-mc+gd",
        "grid-random-shots-3-mc+gd",
        "grid-random-shots-3-explain-mc+gd",
    ]
    assert names(sweep)[-1] == "grid-hf-models-My-Model-blank-shots-3-explain-mc+gd"
    assert sweep.cells[0].options == {
        "benchmark": ["phantom-mediconfusion"],
        "limit": 8,
        "model": "random",
        "technique": ["mc", "gd"],
    }
    assert sweep.cells[3].command == (
        "medvqa run --benchmark=phantom-mediconfusion --limit=8 --model=random --shots=3 --explain --technique=mc "
        "--technique=gd --run=grid-random-shots-3-explain-mc+gd"
    )
    assert sweep.base == {"model": "random", "ablate": "", "shots": "", "explain": "", "technique": "mc,gd"}


def test_several_levels_of_a_perturbation_are_one_value(tmp_path: Path) -> None:
    levels = 'perturb = ["", "gaussian_noise:2-4", "typos:5", "contrast_up:3-1"]'
    sweep = read(tmp_path, f'name = "noise"\n[options]\nmodel = "random"\n[grid]\n{levels}')
    assert [cell.settings["perturb"] for cell in sweep.cells] == [
        *("", "gaussian_noise:2", "gaussian_noise:3", "gaussian_noise:4", "typos:5"),
        "contrast_up:3-1",  # Refused when it is asked.
    ]
    with pytest.raises(UsageError, match="a value is there twice"):
        read(tmp_path, '[grid]\nperturb = ["gaussian_noise:1-3", "gaussian_noise:2"]')


def test_combinations_are_included_and_excluded(tmp_path: Path) -> None:
    sweep = read(
        tmp_path,
        """
        name = "images"
        max-cost = 2
        [grid]
        model = ["random", "majority"]
        ablate = ["", "blank", "text-only"]
        [base]
        ablate = "blank"
        [[exclude]]
        model = "majority"
        ablate = "text-only"
        [[exclude]]
        model = "random"
        ablate = ""
        [[include]]
        model = "random"
        repeat = 3
        """,
    )
    assert names(sweep) == [
        "images-random-blank",
        "images-random-text-only",
        "images-majority",
        "images-majority-blank",
        "images-random-blank-samples-3",
    ]
    assert sweep.base == {"model": "random", "ablate": "blank", "samples": ""}
    assert sweep.max_cost == 2
    assert [(cell.run, other.run, name) for cell, other, name in sweep.neighbours()] == [
        ("images-random-text-only", "images-random-blank", "ablate"),
        ("images-majority", "images-majority-blank", "ablate"),
        ("images-majority-blank", "images-random-blank", "model"),
        ("images-random-blank-samples-3", "images-random-blank", "samples"),
    ]


def test_names_stay_apart_and_short(tmp_path: Path) -> None:
    sweep = read(tmp_path, f'[grid]\nmodel = ["echo:a/b", "echo:a b", "echo:{"x" * 300}"]\n')
    assert len(set(names(sweep))) == 3
    for name in names(sweep):
        run_folder.check_name(name, "--run")
        assert name.startswith("grid-echo-")


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5, unique=True))
@examples(30)
def test_a_cell_has_its_name_whatever_else_is_in_the_grid(values: list[str]) -> None:
    cells = [{"model": value, "shots": shots} for value in values for shots in (None, 3)]
    made = sweeping._cells("grid", {}, cells)
    assert len({cell.run for cell in made}) == len(made)
    for cell in made:
        run_folder.check_name(cell.run, "--run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grid]\nmodle = ['x']", "line 2: [grid] modle: medvqa run has no such option. Did you mean 'model'?"),
        ("[options]\n\nlimt = 3", "line 3: [options] limt: medvqa run has no such option. Did you mean 'limit'?"),
        ("[gird]\nmodel = ['x']", "line 1: no key 'gird'; there are: name, max-cost, options, grid, "),
        ("[grid]\nmodel = []", "line 2: [grid] model: the list is empty"),
        ("[grid]\nmodel = 'x'", "line 2: [grid] model: a list is expected; an option of all runs belongs to [options]"),
        ("[grid]\nmodel = ['x', 'x']", "line 2: [grid] model: a value is there twice"),
        ("[grid]\nshots = [0, '']", "line 2: [grid] shots: a value is there twice"),
        ("[grid]\nsamples = [2]\nrepeat = [3]", "line 3: [grid] repeat: samples is there twice"),
        ("[options]\nsamples = 2\nrepeat = 3", "line 3: [options] repeat: samples is there twice"),
        ("[grid]\nshots = ['three']", "line 2: [grid] shots: a whole number is expected, not 'three'"),
        ("[grid]\nshots = [1.5]", "line 2: [grid] shots: a whole number is expected, not 1.5"),
        ("[grid]\nff-gap = [true]", "line 2: [grid] ff-gap: a number is expected, not True"),
        ("[grid]\nexplain = ['yes']", "line 2: [grid] explain: true or false is expected, not 'yes'"),
        ("[grid]\nmodel = [{a = 1}]", "line 2: [grid] model: a text is expected, not {'a': 1}"),
        ("[grid]\ntechnique = [[]]", "line 2: [grid] technique: the list is empty"),
        ("[grid]\nrun = ['x']", "line 2: [grid] run: a sweep names its runs after their settings"),
        ("[options]\nfresh = true", "line 2: [options] fresh: a sweep that goes on reuses its stored answers; give"),
        ("[options]\nmax-cost = 1", "line 2: [options] max-cost: write max-cost at the top of the file: it holds"),
        ("max-cost = -1", "line 1: max-cost: a sum above 0 is expected"),
        ("name = 3", "line 1: Expected `str`, got `int` - at `$.name`"),
        ("[options]\nlimit = 3\n[grid]\nlimit = [1]", "line 4: [grid] limit: it is in [options] already, for all runs"),
        ("[grid]\nmodel = ['x']\n[base]\nmodel = 'y'", "line 4: [base] model: y is no value of the grid"),
        ("[grid]\nmodel = ['x']\n[base]\nlimit = 3", "line 4: [base] limit: 3 is no value of the grid"),
        (
            "[grid]\nmodel = ['x']\n[[exclude]]\nmodel = 'x'\n[[exclude]]\nmodel = 'z'",
            "line 6: [exclude] model: no combination of the grid matches",
        ),
        ("[grid]\nmodel = ['x']\n[[exclude]]\nmodel = 'x'", "line 3: [exclude]: no combination is left"),
        ("[grid]\nmodel = ['x']\n[[exclude]]", "line 3: [exclude]: no combination of the grid matches"),
        ("[grid]\nmodel = ['x']\n[[include]]\nmodel = 'x'", "line 4: [include] model: this combination is in the grid"),
        ("[exclude]\nmodel = 'x'", "line 1: Expected `array`, got `object` - at `$.exclude`"),
        ("[[grid]]\nmodel = ['x']", "line 1: Expected `object`, got `array` - at `$.grid`"),
        ("[grid]\nlimit = [" + ",".join(map(str, range(1, 10_002))) + "]", "10,001 combinations; at most 10,000"),
        ("[grid", "not TOML"),
        ("[grid]\nmax-tokens = [" + "9" * 5000 + "]", "not TOML"),
        ("", "grid: no option has a list of values, such as model ="),
        ("[options]\nlimit = 3", "grid: no option has a list of values, such as model ="),
        ("[grid]\nlimit = [inf]", "line 2: [grid] limit: a whole number is expected, not inf"),
        ("[options]\nlimit = nan", "line 2: [options] limit: a whole number is expected, not nan"),
        ("[grid]\nff-gap = [" + "9" * 400 + "]", "line 2: grid.ff-gap[0]: a whole number of more than 64 bits"),
        ("[options]\ndeadline = 'many'", "line 2: [options] deadline: a number is expected, not 'many'"),
        ("max-cost = nan", "line 1: max-cost: a sum above 0 is expected"),
        ("max-cost = inf", "line 1: max-cost: a sum above 0 is expected"),
        ("max-cost = " + "9" * 400, "line 1: max-cost: a whole number of more than 64 bits"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "grid.toml"))


def test_numbers_that_differ_in_a_late_digit_are_runs_of_their_own(tmp_path: Path) -> None:
    assert len(set(names(read(tmp_path, "[grid]\nff-gap = [1.0000001, 1.0000002]")))) == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(tmp_path / "no.toml")]) == 4
    assert "no.toml: cannot be read: No such file or directory" in capsys.readouterr().err


def test_the_exit_code_is_that_of_the_worst_run() -> None:
    def code(*codes: int) -> int:
        return sweeping.exit_code(GridRow("x", {}, "finished", each) for each in codes)

    assert code() == 0
    assert [code(0, 11), code(11, 10), code(10, 1), code(1, 4), code(4, 2), code(0, 5)] == [11, 10, 1, 4, 2, 5]


# The runs


GRID = f"""
[options]
benchmark = "{BENCHMARK}"
limit = 24

[grid]
model = ["random", "majority"]
ablate = ["", "blank"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def test_a_sweep_runs_its_grid_and_writes_its_tables(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "grid.toml"]) == 0
    printed, told = capsys.readouterr()
    assert "grid: 4 of 4 runs finished; base: model=random, ablate=default" in printed
    assert "[4/4] grid-majority-blank: finished, 24 answers" in told
    written = json.loads((project / "reports/grid/sweep.json").read_text())
    assert [run["run"] for run in written["runs"]] == [
        "grid-random",
        "grid-random-blank",
        "grid-majority",
        "grid-majority-blank",
    ]
    assert written["runs"][1]["settings"] == {"model": "random", "ablate": "blank"}
    assert {run["state"] for run in written["runs"]} == {"finished"}
    assert Counter(gain["effect"] for gain in written["gains"]) == {
        "the gain of the image": 6,
        "model majority instead of random": 6,
    }
    rows = list(csv.DictReader(io.StringIO((project / "reports/grid/sweep.csv").read_text())))
    assert len(rows) == 4 * 3
    assert rows[0]["measure"] == "set_accuracy"
    assert (project / "reports/grid/index.html").is_file()
    assert "# grid: 4 of 4 runs finished" in (project / "reports/grid/sweep.md").read_text()


def test_a_gain_is_the_paired_comparison_of_its_two_runs(project: Path) -> None:
    assert main(["sweep", "grid.toml"]) == 0
    written = json.loads((project / "reports/grid/sweep.json").read_text())
    gain = next(gain for gain in written["gains"] if gain["setting"] == "ablate")
    assert (gain["new_run"], gain["baseline_run"]) == ("grid-random", "grid-random-blank")
    new, baseline = (comparing.load(project / "reports" / gain[end]) for end in ("new_run", "baseline_run"))
    paired = comparing.compare(new, baseline, Registry.of([]).benchmarks)
    (table,) = [t for t in paired.tables if t.metric == gain["measure"] and not t.slice]
    assert [gain[name] for name in ("difference", "low", "high", "p")] == [
        *(table.shown.difference, table.shown.low, table.shown.high),
        table.p,
    ]


def test_a_measure_that_is_no_percentage_has_no_percent_sign(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "grid.toml").write_text(
        f'[options]\nbenchmark = "{BENCHMARK}"\nlimit = 24\nrotate = "all"\n[grid]\nmodel = ["echo:A", "random"]\n'
    )
    assert main(["sweep", "grid.toml"]) == 0
    printed = capsys.readouterr().out
    (header, first, *_), _ = (part.splitlines()[1:] for part in printed.split("\n\n")[2:4])
    assert "rotation_consistency, %" in header
    assert "first_position_bias  " in header
    assert first[header.index("first_position_bias") :].split() == ["0.5", "0.5–0.5"]


def test_warnings_of_the_runs_stand_above_the_tables(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "grid.toml").write_text(
        f'[options]\nbenchmark = "{BENCHMARK}"\nlimit = 4\n'
        '[grid]\nmodel = ["echo:A", "echo:B"]\nreasoning = ["", "cot"]\n'
    )
    assert main(["sweep", "grid.toml"]) == 0
    warning = f"! grid-echo-A-cot, grid-echo-B-cot: {BENCHMARK}: 4 of 4 replies have no line that holds the answer."
    assert warning in capsys.readouterr().out


def test_finished_runs_are_not_asked_again(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from medvqa.backends import baselines

    assert main(["sweep", "grid.toml"]) == 0
    first = capsys.readouterr().out
    before = {file: file.read_bytes() for file in project.glob("reports/*/r*.json*")}

    def asked(self: Any, *arguments: Any) -> list[Answer]:
        raise AssertionError("a finished run was asked")

    for kind in (baselines.Random, baselines.Majority):
        monkeypatch.setattr(kind, "generate", asked)
    assert main(["sweep", "grid.toml"]) == 0
    assert capsys.readouterr().out == first
    assert {file: file.read_bytes() for file in project.glob("reports/*/r*.json*")} == before


def test_runs_of_a_sweep_share_answers_and_another_sweep_names_them(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import medvqa\n"
        "from medvqa.items import Answer\n"
        "class Warm(medvqa.Backend):\n"
        "    name = 'warm'\n"
        "    sends_to = None\n"
        "    def fingerprint(self):\n"
        "        return 'warm 1'\n"
        "    def generate(self, prompts):\n"
        "        with open('asked', 'a') as file:\n"
        "            file.write('x' * len(prompts))\n"
        "        return [Answer('A') for _ in prompts]\n"
    )
    options = f'[options]\nbenchmark = "{BENCHMARK}"\nlimit = 8\nmodel = "warm"\n'
    for name, answers, grid in (
        ("grid", "", 'ablate = ["", "blank"]'),
        ("other", 'answers = ["grid-default", "grid-blank"]\n', 'ablate = ["", "blank"]'),
        # Runs that differ only in how answers are read ask once.
        ("rules", 'answers = "grid-default"\n', 'extraction = ["sound", "official"]'),
    ):
        (project / f"{name}.toml").write_text(f"{options}{answers}[grid]\n{grid}\n")
        assert main(["sweep", f"{name}.toml"]) == 0
        assert len((project / "asked").read_text()) == 16
    (project / "alone.toml").write_text(f'{options}[grid]\nextraction = ["sound", "official"]\n')
    assert main(["sweep", "alone.toml"]) == 0
    assert len((project / "asked").read_text()) == 24, "the second run uses the answers of the first"


def test_runs_of_the_printed_commands_are_those_of_the_sweep(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from medvqa.backends import baselines

    assert main(["sweep", "grid.toml", "--dry-run"]) == 0
    for command in capsys.readouterr().out.splitlines()[1:]:
        assert main(shlex.split(command)[1:]) == 0

    def asked(self: Any, *arguments: Any) -> list[Answer]:
        raise AssertionError("a finished run was asked")

    for kind in (baselines.Random, baselines.Majority):
        monkeypatch.setattr(kind, "generate", asked)
    assert main(["sweep", "grid.toml"]) == 0
    assert "grid: 4 of 4 runs finished" in capsys.readouterr().out


def test_a_failing_cell_is_a_row_and_the_others_go_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "grid.toml").write_text(
        f'[options]\nbenchmark = "{BENCHMARK}"\nlimit = 8\n[grid]\nmodel = ["random", "nowhere", "echo:A"]\n'
    )
    assert main(["sweep", "grid.toml"]) == 4
    printed = capsys.readouterr().out
    assert "grid: 2 of 3 runs finished" in printed
    assert "! grid-nowhere: failed: no model 'nowhere'" in printed
    written = json.loads((project / "reports/grid/sweep.json").read_text())
    assert [(run["state"], run["exit_code"]) for run in written["runs"]] == [
        ("finished", 0),
        ("failed", 4),
        ("finished", 0),
    ]
    assert [gain["new_run"] for gain in written["gains"]] == ["grid-echo-A"] * 3


def test_a_cell_whose_options_have_changed_fails_and_says_how(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "grid.toml"]) == 0
    (project / "grid.toml").write_text(GRID.replace("limit = 24", "limit = 24\nsamples = 2"))
    capsys.readouterr()
    assert main(["sweep", "grid.toml"]) == 4
    assert "grid-random: failed: run 'grid-random' cannot go on" in capsys.readouterr().out


def test_a_larger_selection_goes_on_with_the_same_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "grid.toml"]) == 0
    (project / "grid.toml").write_text(GRID.replace("limit = 24", ""))
    assert main(["sweep", "grid.toml"]) == 0
    written = json.loads((project / "reports/grid/sweep.json").read_text())
    assert [run["answers"] for run in written["runs"]] == [72] * 4


def test_a_dry_run_prints_commands_and_reasons_and_asks_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "grid.toml").write_text('[options]\nlimit = 8\n[grid]\nmodel = ["random"]\ntechnique = ["mc", "ff"]\n')
    assert main(["sweep", "grid.toml", "--dry-run"]) == 4
    assert capsys.readouterr().out.splitlines() == [
        "grid: 2 runs",
        "medvqa run --limit=8 --model=random --technique=mc --run=grid-random-mc",
        "medvqa run --limit=8 --model=random --technique=ff --run=grid-random-ff",
        "! technique 'ff' needs a judge, which compares free answers with the options: add --judge=MODEL, a config of "
        "models/ or BACKEND:ARGUMENT",
    ]
    assert not (project / "reports").exists()


def test_a_sweep_over_data_of_ones_own_names_its_models(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "cases.csv").write_text("id,question,A,B,answer\n1,Is it?,yes,no,A\n2,Is it not?,yes,no,B\n")
    (project / "klinik.toml").write_text('file = "cases.csv"\n')
    grid = '[options]\nbenchmark = "klinik.toml"\n[grid]\nablate = ["", "blank"]\n'
    (project / "grid.toml").write_text(grid)
    line = "no model was named, and phantom-vlm is the default for the phantom alone; this run asks klinik."
    assert main(["sweep", "grid.toml", "--dry-run"]) == 4
    assert line in capsys.readouterr().out
    assert main(["sweep", "grid.toml"]) == 4
    assert line in capsys.readouterr().out
    (project / "grid.toml").write_text(grid.replace("[options]", '[options]\nmodel = "random"'))
    assert main(["sweep", "grid.toml", "--dry-run"]) == 0


def test_a_sweep_does_not_write_into_a_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--model=random", f"--benchmark={BENCHMARK}", "--limit=8", "--run=grid"]) == 0
    capsys.readouterr()
    assert main(["sweep", "grid.toml"]) == 4
    assert "grid is a run; give the sweep another name" in capsys.readouterr().err


def test_ctrl_c_ends_the_sweep_with_its_tables(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from medvqa.backends import baselines

    def interrupted(self: Any, *arguments: Any) -> list[Answer]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(baselines.Majority, "generate", interrupted)
        assert main(["sweep", "grid.toml"]) == 2
    printed = capsys.readouterr().out
    assert "grid: 2 of 4 runs finished" in printed
    assert "! grid-majority-blank: not asked: the sweep was interrupted" in printed
    assert printed.endswith("to go on: medvqa sweep grid.toml\n")
    assert main(["sweep", "grid.toml"]) == 0
    assert "grid: 4 of 4 runs finished" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_run_draws_its_reports_ends_the_sweep(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """The run is finished, and no other is asked."""
    from medvqa import report

    draw = report.write

    def drawn(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), number)
        return draw(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(report, "write", drawn)
        assert main(["sweep", "grid.toml"]) == 2
    printed = capsys.readouterr().out
    assert "grid: 1 of 4 runs finished" in printed
    assert "! grid-majority: not asked: the sweep was interrupted" in printed
    assert {path.name for path in (project / "reports").glob("grid*")} == {"grid", "grid-random"}
    assert main(["sweep", "grid.toml"]) == 0
    assert "grid: 4 of 4 runs finished" in capsys.readouterr().out


def test_all_runs_together_cost_at_most_the_sum(project: Path) -> None:
    """Each answer costs 1: the first run takes 8 of 12, the second stops at 4, the third is not asked."""
    (project / "conftest.py").write_text(
        "import medvqa\n"
        "from medvqa.items import Answer\n"
        "class Priced(medvqa.Backend):\n"
        "    name = 'priced'\n"
        "    sends_to = None\n"
        "    priced = True\n"
        "    batch_size = 1\n"
        "    def generate(self, prompts):\n"
        "        return [Answer('A', usage={'cost': 1.0}) for _ in prompts]\n"
    )
    (project / "grid.toml").write_text(
        f'max-cost = 12\n[options]\nbenchmark = "{BENCHMARK}"\nlimit = 8\n[grid]\nmodel = ["priced:a", "priced:b", '
        '"priced:c"]\n'
    )
    assert main(["sweep", "grid.toml"]) == 2
    written = json.loads((project / "reports/grid/sweep.json").read_text())
    assert [(run["state"], run["answers"], run["cost"]) for run in written["runs"]] == [
        ("finished", 8, 8.0),
        ("unfinished", 4, 4.0),
        ("not asked", 0, 0.0),
    ]
    run = project / "reports/grid-priced-b/run.json"
    about = json.loads(run.read_text())
    del about["usage"], about["sessions"][0]["usage"], about["sessions"][0]["finished"]
    run.write_text(json.dumps(about))  # as a killed session leaves it: its stored answers alone tell their price
    assert main(["sweep", "grid.toml"]) == 2, "the sum stays spent"
    again = json.loads((project / "reports/grid/sweep.json").read_text())
    assert sum(run["cost"] for run in again["runs"]) == 12
    (project / "grid.toml").write_text((project / "grid.toml").read_text().replace("max-cost = 12", "max-cost = 100"))
    assert main(["sweep", "grid.toml"]) == 0


def test_a_shard_of_the_environment_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a sweep are named after their settings, and would all be named after the shard too."""
    monkeypatch.setenv("MEDVQA_SHARD", "1/2")
    text = (project / "grid.toml").read_text().replace("[options]", '[options]\nshard = "auto"')
    (project / "auto.toml").write_text(text)
    reasons = sweeping.check(
        sweeping.read(project / "auto.toml"), Project(project, project, Registry.of([]), Options.of({}, project))
    )
    assert set(reasons.values()) == {
        'shard = "auto": runs of a sweep are named after their settings; write shard = "I/N"'
    }


def test_cells_are_asked_in_order_with_their_numbers(project: Path) -> None:
    told: list[tuple[int, str, float]] = []
    sweep = sweeping.read(project / "grid.toml")
    ended = sweeping.conduct_all(
        sweep,
        Project(project, project, Registry.of([]), Options.of({}, project)),
        Display(),
        on_done=lambda number, done, cost: told.append((number, done.run, cost)),
    )
    assert told == [(number, done.run, 0.0) for number, done in enumerate(ended, 1)]
    assert [done.questions for done in ended] == [24] * 4
