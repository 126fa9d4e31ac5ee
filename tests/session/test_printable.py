"""Nothing from outside steers a terminal, a CI log or a page that shows summary.md."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medvqa import printing
from support import processes

HOSTILE = (
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\ \x1b[2J\x9b31m\x00\x08\x7f\u202eevil\u2066 \u2028::error::c\r"
    "::stop-commands::x\n::stop-commands::y\r\n  ::error file=a::z\n##[error]q ##vso[task.complete] @team "
    "https://evil.example www.evil.example [a](https://evil.example) <img src=x onerror=1> <!-- #12 |b| `c`"
)
"""What the tests plant in every input that comes from outside."""

LINE = HOSTILE.replace("\n", " ").replace("\r", " ")

CONFTEST = f"""
import os, warnings
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, AnswerError, Benchmark, DataError, DataWarning, Item, Judgement
from medvqa.protocols.prompts import Template

H = {HOSTILE!r}
OPTIONS = {{"A": "liver " + H, "B": "spleen"}}


def items(data):
    if os.environ.get("BAD") == "data":
        raise DataError("x.tsv: column " + H + " is missing")
    warnings.warn(DataWarning("unknown value " + H))
    for n in range(6):
        yield Item(f"q{{n}}" + (H if n % 2 else ""), "hostile", "single_choice", H, OPTIONS, ("A",), (),
                   {{"modality": ("ct" + H,)}}, pair_id=H + str(n // 2))


class Speaker(Backend):
    sends_to = None
    title = "speaker" + H

    def generate(self, prompts):
        if os.environ.get("BAD") == "model":
            raise RuntimeError("500: " + H)
        return [AnswerError("500 " + H) if int(p.item[1]) == 4 else Answer("A" if int(p.item[1]) == 1 else H,
                finish=H, served_by=H + p.item[1]) for p in prompts]


def pytest_medvqa_backends():
    return [Speaker]


def pytest_medvqa_benchmarks():
    ask = Template("hostile/mc", "{{question}}\\n{{options}}", "{{letter}}. {{text}}\\n")
    return [Benchmark(name="hostile", title="Hostile " + H, items=items, prompt=ask.prompt,
                      score=scoring.score_single_choice, metrics=(metrics.accuracy, *metrics.rates),
                      dimensions=("modality",))]
"""

TEST = """
import pytest

@pytest.mark.vqa("hostile")
def test_hostile(item, evaluate):
    result = evaluate(item)
    print(item.question)
    assert result.answer is None or result.answer.text == "A"
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    return kept | {"NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"} | more


def run(folder: Path, *arguments: str, **more: str) -> str:
    """What a process printed, both streams."""
    command = [sys.executable, "-m", *arguments]
    done = processes.run(command, cwd=folder, capture_output=True, timeout=120, env=environment(**more), check=False)
    printed = (done.stdout + b"\n" + done.stderr).decode()
    assert "INTERNALERROR" not in printed, printed
    return printed


def wrong(printed: str) -> list[str]:
    """What a terminal or the reader of a log would take for more than text."""
    found = [
        f"U+{ord(c):04X} in {line!r}"
        for line in printed.split("\n")
        for c in line
        if c != "\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    lines = re.split("[\r\n\x0b\x0c\x85\u2028\u2029]", printed)
    found += [f"a command: {line!r}" for line in lines if line.lstrip().startswith("::")]
    found += [f"a command: {line!r}" for line in lines if re.search(r"##\[|##\w+\[", line)]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    (made / "conftest.py").write_text(CONFTEST)
    (made / "test_hostile.py").write_text(TEST)
    return made


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """What the session of run `r` printed."""
    return run(folder, "pytest", "-p", "no:randomly", "--model=speaker", "--run=r", "--junitxml=j.xml", "--tb=long")


def test_a_session_prints_no_control_characters(printed: str) -> None:
    assert "500 " in printed
    assert "test_hostile.py" in printed
    assert wrong(printed) == []


@pytest.mark.parametrize(
    ("arguments", "bad"),
    [
        pytest.param(("-v", "--run=v"), "", id="verbose", marks=pytest.mark.slow),
        pytest.param(("-n2", "-v", "--run=n"), "", id="workers", marks=pytest.mark.slow),
        pytest.param(("--co",), "", id="collect", marks=pytest.mark.slow),
        pytest.param(("--tb=line", "-rA", "--run=l"), "", id="lines", marks=pytest.mark.slow),
        pytest.param(("--run=d",), "data", id="data error", marks=pytest.mark.slow),
        pytest.param(("-n2", "--run=dn"), "data", id="data error of workers", marks=pytest.mark.slow),
        pytest.param(("--run=m", "--max-errors=2"), "model", id="model error", marks=pytest.mark.slow),
        pytest.param((f"--run={LINE.replace(chr(0), '')}",), "", id="run name", marks=pytest.mark.slow),
        pytest.param((f"--benchmark={LINE.replace(chr(0), '')}",), "", id="benchmark name", marks=pytest.mark.slow),
        pytest.param((f"--model=replay:{LINE.replace(chr(0), '')}",), "", id="file name", marks=pytest.mark.slow),
        pytest.param(("--model=replay:bad.csv",), "", id="column name", marks=pytest.mark.slow),
        pytest.param(("--model=bad",), "", id="config", marks=pytest.mark.slow),
    ],
)
def test_other_sessions_print_none(folder: Path, arguments: tuple[str, ...], bad: str) -> None:
    (folder / "bad.csv").write_text(f'id,"{LINE}"\n1,2\n', encoding="utf-8", newline="")
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "bad.toml").write_text(f"backend = {json.dumps(LINE)}\n")
    model = () if any(argument.startswith("--model") for argument in arguments) else ("--model=speaker",)
    shown = run(folder, "pytest", "-p", "no:randomly", *model, *arguments, BAD=bad)
    assert "evil" in shown
    assert wrong(shown) == []


def stranger(folder: Path, printed: str) -> Path:
    """A copy of the run with the hostile string in its run.json, too."""
    assert printed
    run = shutil.copytree(folder / "reports" / "r", folder / "reports" / "s", dirs_exist_ok=True)
    about = json.loads((run / "run.json").read_text())
    about["model"]["name"] = about["name"] = HOSTILE
    about["unread_answers"] = about["missing"] = [HOSTILE]
    about["left_out"] = {HOSTILE: {HOSTILE: {HOSTILE: 3}}}
    (run / "run.json").write_text(json.dumps(about))
    with (run / "results.jsonl").open("a") as lines:
        lines.write('{"' + LINE.replace('"', "") + "\n")
    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "reports/r", "--plugin=conftest.py"),
        ("report", "reports/s", "--plugin=conftest.py"),
        ("report", "reports/r"),
        ("compare", "reports/r", "reports/s", "--anyway", "--plugin=conftest.py"),
        ("compare", "reports/r", "reports/s", "--plugin=conftest.py"),
        ("gate", "reports/r", "--baseline=reports/s", "--plugin=conftest.py"),
        ("baseline", "reports/s", "-o", "b.medvqa"),
        ("merge", "reports/r", "reports/s", "-o", "m", "--plugin=conftest.py"),
        ("rescore", "reports/r", "--plugin=conftest.py", f"--judge=replay:{LINE.replace(chr(0), '')}"),
        ("agreement", "reports/s", "reports/r"),
        ("agreement", "reports/r", "--human", f"{LINE.replace(chr(0), '').replace('/', '')}.csv"),
        ("lexicon", "--benchmark=hostile", "--plugin=conftest.py"),
        ("models", "bad"),
        ("run", "--model=speaker", "--answers=reports/s", "--run=b", "--plugin=conftest.py"),
        (f"{LINE.replace(chr(0), '')}",),
        ("compare", "reports/r", "reports/s", f"--slices={LINE.replace(chr(0), '')}"),
    ],
    ids=lambda arguments: " ".join(arguments[:2])[:30].encode("ascii", "replace").decode().replace("\x1b", ""),
)
def test_no_command_prints_any(
    folder: Path,
    printed: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    from medvqa.cli import main

    stranger(folder, printed)
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "bad.toml").write_text(f"backend = {json.dumps(LINE)}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    with contextlib.suppress(SystemExit):
        main(list(arguments))
    assert wrong("\n".join(capfd.readouterr())) == []


@pytest.mark.parametrize("name", ["r", "s"])
def test_a_summary_has_no_live_mention_link_or_html(
    folder: Path, printed: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from medvqa.cli import main

    stranger(folder, printed)
    monkeypatch.chdir(folder)
    assert main(["report", f"reports/{name}", "--plugin=conftest.py"]) in (0, 1)
    summary = (folder / "reports" / name / "summary.md").read_text()
    assert "evil" in summary
    assert wrong(summary) == []
    assert "@" not in summary
    assert not re.search(r"https?://|www\.|ftp://", summary)
    assert not re.search("<|(?<![&\\\\])#\\d|`c`(?<!\\\\)", summary)
    assert not re.search(r"(?<!\\)\]\((?!index\.html\))", summary)
    for line in summary.splitlines():
        assert line[:1] in ("", "#", "M", "|", "-", "U", "E", "A", "F", "J", "*"), line


def test_junit_is_xml_without_control_characters(folder: Path, printed: str) -> None:
    assert printed
    for path in (folder / "j.xml", folder / "reports" / "r" / "junit.xml"):
        tree = ElementTree.parse(path)
        texts = [text for node in tree.iter() for text in (*node.attrib.values(), node.text or "")]
        assert any("evil" in text for text in texts)
        if path.name == "junit.xml":
            bad = [
                text
                for text in texts
                for c in text
                if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl")
            ]
            assert bad == []


def test_the_progress_of_indexing_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    from medvqa.tables.progress import show

    with show(Path(LINE.replace("/", "") + ".tsv")) as progress:
        progress(0, 2_500_000_000)
    assert "evil" in (shown := capsys.readouterr().err)
    assert wrong(shown) == []


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a\tb\nc é 漢字\u3000d\u00a0e 👍", "a\tb\nc é 漢字 d e 👍"),
        ("a\r\nb\rc", "a\nb\ufffdc"),
        ("::a\n  ::b\n\t::c\na::d", "\\::a\n  \\::b\n\t\\::c\na::d"),
        ("##[error] ##vso[x] ##teamcity[y] ## [z]", "#\\#[error] #\\#vso[x] #\\#teamcity[y] ## [z]"),
        ("\x1b[1m\x9b1m\u202e\u2066\u200b\ud800\u2028::x", "\ufffd[1m\ufffd1m" + "\ufffd" * 5 + "::x"),
    ],
)
def test_what_is_printed_of_a_text(text: str, printed: str) -> None:
    from medvqa.printing import lines

    assert lines(text) == printed
    assert lines(printed) == printed


def test_a_stream_knows_where_lines_begin_and_keeps_colours_alone() -> None:
    import io

    from medvqa.printing import PrintableStream

    def written(*pieces: str, terminal: bool) -> str:
        below = io.StringIO()
        stream = PrintableStream(below, terminal=terminal)
        for piece in pieces:
            stream.write(piece)
        return below.getvalue()

    assert written("a", "::b\n", "::c", "\n", "  ", "::d", terminal=False) == "a::b\n\\::c\n  \\::d"
    assert written("\r\x1b[2K 3 items", terminal=True) == "\r\x1b[2K 3 items"
    assert written("\x1b[31mred\x1b[0m \x1b[8mgone\x1b[2J\r\x1b]8;;x\x07", terminal=True) == (
        "\x1b[31mred\x1b[0m \ufffd[8mgone\ufffd[2J\ufffd\ufffd]8;;x\ufffd"
    )
    assert written("\x1b[31m::error\x1b[0m", terminal=True) == "\x1b[31m\\::error\x1b[0m"
    assert written("\x1b[31mred", terminal=False) == "\ufffd[31mred"


@pytest.mark.parametrize("number", [errno.EIO, errno.EPIPE])
def test_what_is_written_to_a_closed_terminal_goes_nowhere(tmp_path: Path, number: int) -> None:
    file = (tmp_path / "terminal").open("w")

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(number, "closed")

        def fileno(self) -> int:
            return file.fileno()

    stream = printing.PrintableStream(Closed(), terminal=True)
    assert stream.write("text") == 4
    stream.flush()
    file.write("later")
    file.close()
    assert (tmp_path / "terminal").read_text() == ""
