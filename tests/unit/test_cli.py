"""The command line: a report from a folder, the lexical tree, and one line for what is wrong."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvqa import printing
from medvqa.cli import main
from medvqa.items import Answer, DataWarning, Item, Result, Score
from medvqa.records import run_folder
from medvqa.records.lock import Lock
from medvqa.records.run_folder import Recorder
from medvqa.records.run_record import RUN
from support.strangers import CONFTEST


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a conftest that brings a benchmark, and a run of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    recorder = Recorder(tmp_path / "reports" / "first")
    for n in range(20):
        item = Item(
            f"q{n:02}", "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",), (), {"modality": ("ct",)}
        )
        score = Score(1.0, "correct", ("A",)) if n < 15 else Score(0.0, "wrong", ("B",))
        recorder.append(run_folder.encode(Result("first", item, "", Answer("A"), score)))
    recorder.close()
    run_folder.write_json(tmp_path / "reports" / "first" / "run.json", {"name": "first", "finished": "2026-01-02"})
    return tmp_path


def test_report_redraws_a_folder(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "reports/first", "--plugin=conftest.py"]) == 0
    assert "75.00" in capsys.readouterr().out
    measures = json.loads((stranger / "reports/first/metrics.json").read_text())["measures"]
    assert next(m["value"] for m in measures if m["name"] == "accuracy") == 0.75


def test_a_report_is_the_same_when_it_is_drawn_again(stranger: Path) -> None:
    main(["report", "reports/first", "--plugin=conftest.py"])
    files = [stranger / "reports/first" / name for name in ("metrics.json", "summary.md", "junit.xml")]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    main(["report", "reports/first", "--plugin=conftest.py"])
    assert [file.read_bytes() for file in files] == before


def test_an_unknown_option_is_an_error_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["models", "--modle=random"])
    assert ended.value.code == 4
    printed = capsys.readouterr().err
    assert printed.startswith("usage: medvqa models ")
    assert printed.endswith("medvqa models: error: unrecognized arguments: --modle=random\n")


def test_lexicon_prints_counts_and_what_selects_a_branch(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "--benchmark=slake", "--plugin=conftest.py", "--dimension=modality"]) == 0
    printed = capsys.readouterr().out
    assert "slake: 24 items" in printed
    assert "lexicon(modality='fundus_photography')" in printed
    assert "organ" not in printed


def test_lexicon_wants_the_data_folder_that_is_named(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "--data=elsewhere"]) == 4
    assert capsys.readouterr().err == "medvqa: --data=elsewhere: no such folder\n"


def test_lexicon_shows_the_phantom_when_no_data_are_there(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "--noconftest"]) == 0
    printed = capsys.readouterr().out
    assert "phantom-gmai-mmbench" in printed
    assert "lexicon(granularity='box_level')" in printed


def test_a_dimension_is_shown_for_the_benchmarks_that_have_it(
    stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lexicon", "--dimension=granularity", "--benchmark=phantom"]) == 0
    printed = capsys.readouterr().out
    assert "phantom-gmai-mmbench: 143 items" in printed
    assert "phantom-mediconfusion" not in printed


WEIGHTY = """

class Weighty(Majority):
    def size(self):
        return int(self.argument) if self.argument else None


def pytest_medvqa_backends():
    return [Weighty, Majority]
"""


def test_models_lists_the_configs_here_and_those_that_ship(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stranger / "models").mkdir()
    (stranger / "models/zebra.toml").write_text('backend = "weighty"\nargument = "7151234"\ndescription = "Striped"')
    (stranger / "models/random.toml").write_text('backend = "random"\nargument = "9"\ndescription = "Mine"')
    (stranger / "weighty.py").write_text(CONFTEST + WEIGHTY)
    assert main(["models", "--plugin=weighty.py", "--noconftest"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["model", "backend", "argument", "capabilities", "size", "description"]
    names = [line.split()[0] for line in lines]
    assert names == sorted(names)
    assert {"always-a", "gpt-4o", "majority", "zebra"} <= set(names)
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert rows["zebra"].split() == ["weighty", "7151234", "generate", "7.2", "MB", "Striped"]
    assert rows["random"].split()[:3] == ["random", "9", "generate,"]
    assert rows["random"].split()[-2:] == ["–", "Mine"]
    assert "generate, option_logprobs" in rows["gpt-4o"]
    (start,) = {line.index("GPT-4o at") for line in lines if line.startswith("gpt-4o ")}
    assert next(line for line in lines if line.startswith("zebra"))[start:] == "Striped", "columns are aligned"


def test_models_by_name_and_backends_that_are_not_known_here(
    stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stranger / "models").mkdir()
    (stranger / "models/zebra.toml").write_text('backend = "weighty"\ndescription = "Striped"')
    (stranger / "weighty.py").write_text(CONFTEST + WEIGHTY)
    assert main(["models", "echo:B", "always-a"]) == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["echo:B", "echo", "B"],
        ["always-a", "echo", "A"],
    ]
    assert main(["models", "weighty:16600000000", "zebra", "--plugin=weighty.py", "--noconftest"]) == 0
    _, large, unknown = capsys.readouterr().out.splitlines()
    assert "16.6 GB" in large
    assert " – " in unknown
    assert main(["models", "--noconftest"]) == 0
    zebra = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("zebra"))
    assert "unknown: --plugin=FILE" in zebra


def test_models_finds_a_checkpoint_beside_its_config(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("phantom-vlm "))
    assert row.split()[1:3] == ["hf", "phantom-vlm"], "the argument as it is written"
    assert " 7.8 MB " in row, "1.9 M parameters of 4 bytes"


def test_models_needs_no_extra(stranger: Path) -> None:
    (stranger / "tiny").mkdir()
    header = b'{"x":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]}}'
    (stranger / "tiny/model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4000))
    code = (
        "import sys; sys.modules |= dict.fromkeys(['torch', 'transformers', 'openai', 'huggingface_hub']);"
        "from medvqa.cli import main; sys.exit(main(['models']) or main(['models', 'hf:tiny']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Qwen/Qwen3-VL-8B-Instruct" in done.stdout
    assert "4.0 kB" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models", "gpt-4"], "no model 'gpt-4'. Did you mean 'gpt-4o'?"),
        (["report", "reports/nosuch"], "no run folder: run.json cannot be read"),
        (["report", "reports/first", "--noconftest"], "benchmark 'slake', which is not known here"),
        (["report", "reports/first", "--plugin=nosuch.py"], "--plugin=nosuch.py: no such Python file"),
        (["lexicon", "--benchmark=nosuch"], "no benchmark 'nosuch'; known: "),
        (["lexicon", "--dimension=nosuch", "--noconftest"], "no dimension 'nosuch'; there are: ability, attribute"),
        (["lexicon", "--benchmark=mediconfusion"], "was asked for but is not there"),
    ],
)
def test_what_is_wrong_is_one_line(
    stranger: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("medvqa: ")
    assert message in line


def test_a_tilde_is_the_home_folder_in_every_path(
    stranger: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(stranger))
    assert main(["report", "~/reports/first"]) == 0
    assert main(["compare", "~/reports/first", "~/reports/first", "--json=~/one.json"]) == 0
    assert (stranger / "one.json").is_file()
    capsys.readouterr()
    assert main(["gate", "~/reports/first", "--baseline=~/reports/first", "--rules=~/none.toml"]) == 4
    assert f"{stranger}/none.toml" in capsys.readouterr().err


def test_the_installed_command_runs_and_bears_a_closed_pipe(stranger: Path) -> None:
    command = shutil.which("medvqa", path=str(Path(sys.executable).parent))
    assert command is not None
    done = subprocess.run(
        f"{command} lexicon --benchmark=phantom | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("phantom-")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("redirected", "code", "shown"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, "phantom-"),
        (">/dev/full", 1, "medvqa: standard output cannot be written: No space left on device\n"),
    ],
)
def test_streams_that_cannot_be_written(stranger: Path, redirected: str, code: int, shown: str) -> None:
    command = [sys.executable, "-c", "from medvqa.cli import main; raise SystemExit(main())", "lexicon"]
    line = f"{shlex.join([*command, '--benchmark=phantom'])} {redirected}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert (done.stdout + done.stderr).startswith(shown)
    assert "Traceback" not in done.stderr


# Tables, counts and splits


def test_a_table_has_a_row_for_each_run_each_group_and_chance(
    stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(stranger / "reports/first", stranger / "reports/second")
    runs = ["reports/first", "reports/second"]
    assert main(["table", *runs, "--by=modality", "--group=both=first,reports/second/", "--csv=table.csv"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:6]] == [
        ["run", "overall", "CT"],
        ["first", "75.00", "75.00"],
        ["second", "75.00", "75.00"],
        ["mean", "of", "both", "(2", "runs)", "75.00", "75.00"],
        ["chance", "50.00", "50.00"],
    ]
    assert (stranger / "table.csv").read_text().splitlines()[1].startswith("first,1,accuracy,,,0.75,")
    assert main(["table", *runs, "--by=modality", "--gap"]) == 0
    assert "+25.00" in capsys.readouterr().out
    assert (
        main(["table", *runs, "--by=modality", "--measure=accuracy,invalid_rate", "--csv=table.csv", "--latex=x.tex"])
        == 0
    )
    assert Path("x.tex").read_text().count("toprule") == 2
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("slake: ")]
    assert titles == ["slake: accuracy by modality, percent", "slake: invalid_rate by modality, percent"]
    assert "\nfirst,1,invalid_rate,modality,ct,0.0," in (stranger / "table.csv").read_text()


def test_a_table_names_columns_of_few_questions_and_shows_a_measure_without_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Table 12's Overall of several models: no slice of it exists."""
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--model=echo:A", "--benchmark=phantom-gmai-mmbench", "--run=first"]) == 0
    capsys.readouterr()
    assert main(["table", "reports/first", "--by=task"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "! accuracy: few units, read with care: BVR (2 items), CR (9 items), IQG (8 items), OR-HN (2 items), "
        "OR-P (4 items)"
    )
    assert main(["table", "reports/first", "--measure=table12_overall"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "phantom-gmai-mmbench: table12_overall, percent",
        "run     overall",
    ]
    results = tmp_path / "reports/first/results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[1:]))
    assert main(["table", "reports/first", "--by=task"]) == 0
    assert f"! first is unfinished: {len(lines) - 1} of {len(lines)} questions have a result" in capsys.readouterr().out


def test_a_run_of_open_questions_is_judged_sorted_and_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options that no other test types."""
    monkeypatch.chdir(tmp_path)
    asked = ["--model=echo:A", "--benchmark=phantom-medlesionvqa", "--run=first", "--judge=echo:<result>0.5</result>"]
    assert main(["run", *asked]) == 0
    judge = ["--allow-upload", "--trust-remote-code", "--deadline=60"]
    assert main(["rescore", "reports/first", "--judge=echo:<result>0</result>", *judge]) == 0
    stored = run_folder.read(tmp_path / "reports/first").results
    assert {result.score.value for result in stored if result.judgement is not None} == {0}
    kinds = ["--judge=echo:<kind>none</kind>", *judge, "--partial", "--no-images", "--answers=reports/first"]
    assert main(["classify", "reports/first", *kinds]) == 0
    errors = json.loads((tmp_path / "reports/first/errors.json").read_text())
    assert errors["partial"] is True
    capsys.readouterr()
    assert main(["classify", "reports/first", "--deadline=0"]) == 4
    assert "--deadline=0: a number above 0 is expected" in capsys.readouterr().err
    assert main(["table", "reports/first", "--by=ability", "--measure=exact_match", "--intervals"]) == 0
    assert re.search(r"^first +\d+\.\d\d \(\d+\.\d\d–\d+\.\d\d\)", capsys.readouterr().out, re.MULTILINE)
    assert main(["audit", "reports/first", "--public"]) == 0
    assert capsys.readouterr().out == "all benchmarks are declared public\n"
    assert main(["audit", "reports/first", "--data=nowhere"]) == 4
    assert "or are declared public. Name a benchmark by --benchmark=NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by=organ"], "--by=organ: no such dimension; there are: "),
        (["--measure=f1"], "--measure=f1: reports/first has no such measure; there are: accuracy"),
        (["--by=kind+modality"], "--by=kind+modality: the benchmark does not declare this crossing among its dimens"),
        (["--measure=invalid_rate", "--gap"], "--gap: invalid_rate has no level of chance"),
        (["--group=open"], "--group=open: write a name and runs, as --group=open=reports/a,reports/b"),
        (["--group=open=third"], "--group=open=third: 'third' is none of the runs; there are: reports/first, first"),
        (["--benchmark=other"], "--benchmark=other: not in all of these runs; in all are: slake"),
        (
            ["--benchmark=slake,other"],
            "--benchmark=slake,other: a table is about one benchmark, and these are 2; type a",
        ),
    ],
)
def test_a_table_of_things_that_are_not_there_is_refused(
    stranger: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["table", "reports/first", *arguments]) == 4
    assert message in capsys.readouterr().err


def test_counts_stand_in_a_table_for_each_dimension(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "--benchmark=phantom-medlesionvqa", "--counts", "--dimension=ability+question_type"]) == 0
    lines = [line.rsplit(maxsplit=1) for line in capsys.readouterr().out.rstrip().splitlines()]
    assert lines[1] == ["ability+question_type", "questions"]
    assert lines[2] == ["Attribute Recognition + fill-in-the-blank", "8"]
    assert lines[-1] == ["together", "92"]


def test_the_tree_of_crossed_dimensions_opens_one_into_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "--benchmark=phantom-medlesionvqa", "--dimension=ability+question_type"]) == 0
    assert "lexicon(ability='attribute_recognition', question_type='judgment')" in capsys.readouterr().out
    assert main(["lexicon", "--benchmark=phantom-medlesionvqa", "--dimension=ability+organ"]) == 4
    assert "no dimension 'ability+organ'; there are: ability, " in capsys.readouterr().err


def test_tags_of_one_s_own_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patterns.csv").write_text("id,pattern\n1,devices\n2/1,vascular\n")
    command = ["lexicon", "--benchmark=phantom-mediconfusion", "--tags=patterns.csv"]
    assert main([*command, "--counts", "--dimension=pattern"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.rstrip().splitlines()]
    assert rows[2:] == [["devices", "2"], ["vascular", "1"], ["together", "3"]]
    assert main([*command, "--tags=absent.csv"]) == 4
    assert "/absent.csv: no such file" in capsys.readouterr().err


def test_a_split_is_written_and_selects_by_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    command = ["split", "--benchmark=phantom-mediconfusion"]
    assert main([*command, "--whole=pairs", "--train=16", "--output=pairs.csv"]) == 0
    printed = capsys.readouterr().out
    assert "wrote pairs.csv: 16 pairs to train and 20 pairs to test, by category, seed 0" in printed
    assert (
        "pairs of test are connected to train by shared images, patients or articles; --whole=groups keeps" in printed
    )
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "0 pairs of test are connected to train" in printed
    assert "--tags=split.csv --model=MODEL --select=\"lexicon(split='test')\" asks test" in printed
    rows = (tmp_path / "split.csv").read_text().splitlines()
    assert (rows[0], len(rows)) == ("benchmark,id,split", 37)
    assert main(command) == 4
    assert "split.csv exists already; remove it, or name another file" in capsys.readouterr().err
    count = ["lexicon", "--benchmark=phantom-mediconfusion", "--tags=split.csv", "--counts", "--dimension=split"]
    assert main(count) == 0
    assert capsys.readouterr().out.split()[-2:] == ["together", "72"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark=phantom"], "--benchmark=phantom: these are several; name one of phantom-gmai-mmbench, "),
        (["--benchmark=phantom-mediconfusion", "--by=organ"], "--by=organ: no such dimension; there are: category"),
        (["--benchmark=phantom-mediconfusion", "--train=36"], "--train=36: a number of pairs from 1 to 35, or a share"),
        (["--benchmark=phantom-mediconfusion", "--train=half"], "--train=half: a number of pairs from 1 to 35"),
        (["--benchmark=phantom-mediconfusion", "--train=nan%"], "--train=nan%: a number of pairs from 1 to 35"),
        (["--benchmark=phantom-medlesionvqa", "--train=0"], "--train=0: a number of questions from 1 to 91"),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["split", *arguments]) == 4
    assert message in capsys.readouterr().err


def test_ctrl_c_ends_a_command_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("medvqa.cli.lexicon.known_and_named", interrupt)
    assert main(["lexicon"]) == 2
    assert capsys.readouterr().err == "medvqa: interrupted\n"


@pytest.mark.parametrize("module", ["medvqa.cli.dispatch", "medvqa.cli.lexicon", "medvqa.session.registry"])
def test_ctrl_c_while_a_command_is_imported_is_one_line(module: str, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from medvqa.cli import main\n"
        "sys.exit(main())\n"
    )
    typed = [sys.executable, "-c", code, "lexicon"]
    ended = subprocess.run(typed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "medvqa: interrupted\n")


@pytest.mark.parametrize("command", ["classify", "rescore"])
def test_a_run_folder_that_cannot_be_locked_is_one_line(
    stranger: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stranger / "reports/locked"
    folder.mkdir(parents=True)
    (folder / RUN).write_text("{}")

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Lock, "acquire", full)
    assert main([command, str(folder)]) == 4
    assert capsys.readouterr().err.endswith(f"medvqa: run folder {folder} cannot be written: No space left on device\n")


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("medvqa.items.os", SimpleNamespace(name="nt"))
    assert main(["models"]) == 4
    assert capsys.readouterr().err.startswith("medvqa: Windows is not supported: install and run it in WSL")


def test_the_command_line_is_there_without_posix() -> None:
    """Else Windows would show a traceback in place of that line."""
    code = "import sys; sys.modules['fcntl'] = sys.modules['resource'] = None; import medvqa.cli, medvqa.plugin"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_terminal_without_utf_8_gets_question_marks() -> None:
    said = "import sys; from medvqa.cli import dispatch; dispatch._call = lambda _: '95 \u2013 \u2022'; dispatch.main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", said, "help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "95 ? ?\n", "")


def test_refusals_say_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = ["--benchmark=phantom-mediconfusion", "--limit=4"]
    (tmp_path / "other.csv").write_text("case,said\n1/1,A\n")
    assert main(["run", "--model=random", "--technique=ps", *pairs, "--run=first"]) == 0
    for words, code, said in (
        (["run", "--model=majority", "--technique=gd", *pairs], 4, "has: generate; it can be asked by mc, ff"),
        (
            ["run", "--model=random", "--technique=mc", *pairs, "--baseline=reports/first", "--run=new"],
            4,
            ". Add --technique=ps",
        ),
        (["run", "--model=replay:other.csv", *pairs], 4, "type --set id=COLUMN --set response=COLUMN"),
        (["gate", "reports/frist", "--required"], 1, "there is no folder reports/frist"),
        (["gate", "reports/frist", "--required"], 1, "Did you mean 'first'?"),
    ):
        capsys.readouterr()
        assert main(words) == code, words
        assert said in "".join(capsys.readouterr()), words


def test_warnings_about_data_are_one_line_and_others_name_their_place() -> None:
    with printing.printable_warnings():
        assert warnings.formatwarning("two\nlines", DataWarning, "x.py", 1) == "! two\ufffdlines\n"
        assert warnings.formatwarning("another's", UserWarning, "x.py", 1).startswith("x.py:1: UserWarning: another's")
