"""`medvqa run`: the run of pytest, in a folder without tests."""

import errno
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import KeywordMatcher, MarkMatcher
from _pytest.mark.expression import Expression as PytestExpression
from hypothesis import given, settings
from hypothesis import strategies as st

from medvqa.backend import Backend
from medvqa.cli import main
from medvqa.items import Answer, Outcome, Prompt, QuestionKey, UsageError
from medvqa.plugin.ahead import query_of
from medvqa.plugin.process_state import state_of
from medvqa.records import run_folder, run_record
from medvqa.session.display import Display
from medvqa.session.door import conduct
from medvqa.session.options import Options
from medvqa.session.project import Project
from medvqa.session.registry import Registry, spec_of
from medvqa.session.resolving import resolve
from medvqa.session.root import root_of
from medvqa.session.selecting import select
from medvqa.tags.expressions import Expression
from medvqa.tags.lexicon import mark_values
from support.laws import examples
from support.strangers import CONFTEST

MODELS = '''
import hashlib, os, pathlib, signal, threading, time
import judges


class Warm(Backend):
    """Draws its answers, and notes what it is asked."""

    name = title = "warm"
    sends_to = None

    def draws(self):
        return True

    def fingerprint(self):
        return "warm 1"

    def generate(self, prompts):
        with open("asked", "a") as file:
            file.write("".join(f"{prompt.item}#{prompt.sample}\\n" for prompt in prompts))
        seeds = (hashlib.sha256(f"{prompt.text} {prompt.sample} {len(prompt.images)}".encode()) for prompt in prompts)
        return [Answer("ABCD"[seed.digest()[0] % 4], seconds=0.25) for seed in seeds]


class Strict(Backend):
    """Judges by the rubrics."""

    name = title = "strict"
    sends_to = None

    def fingerprint(self):
        return "strict 1"

    def generate(self, prompts):
        return [Answer(judges.reply(prompt.text), seconds=0.5) for prompt in prompts]


class Interrupting(Warm):
    """Types Ctrl-C in its third call, once there are results: ARGUMENT times."""

    name = title = "interrupting"
    _calls = 0

    def generate(self, prompts):
        type(self)._calls += 1
        if type(self)._calls == 3 and not os.path.exists("interrupted"):
            pathlib.Path("interrupted").touch()
            results = pathlib.Path("reports/first/results.jsonl")
            while not (results.exists() and results.stat().st_size):
                time.sleep(0.01)
            for _ in range(int(self.argument)):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.5)
            if self.argument == "2":
                threading.Event().wait(30)
                return []  # By now another test may run, in another folder.
        return super().generate(prompts)


class Dear(Warm):
    name = title = "dear"
    priced = True

    def generate(self, prompts):
        return [Answer("A", usage={"cost": 1.0}) for _ in prompts]
'''
TESTS = """
import pytest

@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)

@pytest.mark.vqa("slake")
def test_slake(item, evaluate):
    evaluate(item)
"""
PYTEST = ("-p", "no:randomly", "-p", "no:benchmark", "-q")


@pytest.fixture
def stranger(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with backends, a benchmark and tests; `medvqa run` needs the former two alone."""
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    names = "Majority, Moody, Broken, Blind, Unmakable"
    more = "Warm, Strict, Interrupting, Dear"
    pytester.makeconftest(
        CONFTEST.replace("def pytest_medvqa_backends", MODELS + "\n\ndef pytest_medvqa_backends").replace(
            names, f"{names}, {more}"
        )
    )
    pytester.makepyfile(test_all=TESTS)
    return pytester


def run(*arguments: str) -> int:
    return main(["run", "--plugin=conftest.py", *arguments])


def with_pytest(stranger: pytest.Pytester, *arguments: str) -> int:
    return int(stranger.runpytest_inprocess(*PYTEST, *arguments).ret)


def record(folder: Path) -> dict[str, Any]:
    """The files of a run, without times, session names, and how its questions were chosen."""

    def plain(name: str) -> str:
        text = (folder / name).read_text()
        text = re.sub(r'"(started|finished|session)": ?"[^"]*"', "", text)
        text = re.sub(r'"seconds": ?[\d.e-]+| time="[\d.e-]+"', "", text)
        # What metrics.json says of results.jsonl, whose lines name the run and have times.
        text = re.sub(r'"digest": "[0-9a-f]{64}"|"mark": \{[^}]*\}', "", text)
        text = re.sub(r'"how": ?\[[^]]*\]', "", text)
        return text.replace(folder.name, "RUN")

    names = ("run.json", "metrics.json", "results.jsonl", "junit.xml", "selected.jsonl")
    return {name: plain(name).splitlines() for name in names}


@pytest.mark.parametrize(
    ("options", "keyword", "select"),
    [
        (
            ("--model=random", "--benchmark=phantom", "--technique=mc,gd", "--limit=20", "--shard=1/2"),
            ("-k", "phantom-gmai and not lesion"),
            ("--select=phantom-gmai and not lesion",),
        ),
        (
            ("--model=warm", "--judge=strict", "--repeat=2", "--ablate=blank", "--limit=6", "--batch-size=4"),
            ("-m", "lexicon(benchmark='phantom-medlesionvqa') or lexicon(benchmark='slake', modality='MRI')"),
            ("--select=lexicon(benchmark='phantom-medlesionvqa') or lexicon(benchmark='slake', modality='MRI')",),
        ),
        (("--model=moody", "--benchmark=slake", "--max-errors=0"), (), ()),
    ],
    ids=["techniques", "judged samples", "errors"],
)
def test_a_run_equals_that_of_pytest(
    stranger: pytest.Pytester, options: Sequence[str], keyword: Sequence[str], select: Sequence[str]
) -> None:
    chosen = [*options, "--benchmark=slake", "--benchmark=phantom"] if "--judge=strict" in options else options
    code = with_pytest(stranger, *chosen, *keyword, "--run=tested")
    assert run(*chosen, *select, "--run=typed") == code
    tested, typed = record(stranger.path / "reports/tested"), record(stranger.path / "reports/typed")
    assert typed == tested
    how = run_record.read_run(stranger.path / "reports/typed").as_json()["selection"]["how"]
    if select:
        assert how[0] == f'--select="{select[0].partition("=")[2]}"'


def test_each_continues_the_run_of_the_other_and_reuses_its_answers(stranger: pytest.Pytester) -> None:
    options = ("--model=warm", "--benchmark=slake")
    assert with_pytest(stranger, *options, "--run=first", "--limit=8") == 0
    assert run(*options, "--run=first", "--limit=16") == 0
    assert with_pytest(stranger, *options, "--run=first") == 0
    sessions = run_record.read_run(stranger.path / "reports/first").as_json()["sessions"]
    assert [(session["asked"], session["reused"]) for session in sessions] == [(8, 0), (8, 8), (8, 16)]
    assert run(*options, "--run=second", "--answers=first") == 0
    assert len((stranger.path / "asked").read_text().split()) == 24
    assert run(*options, "--run=third", "--answers=first", "--fresh") == 0
    assert len((stranger.path / "asked").read_text().split()) == 48


# --select

WORDS = [
    "q07",
    "Q11",
    "[q03",
    "q12]",
    "oct",
    "FUNDUS",
    "fundus_photography",
    "slake",
    "phantom-gmai-mmbench/113",
    "27/1",
    "single_choice",
    "gd]",
    "Sample1",
    "nowhere",
]
TAGS = [
    "lexicon(modality='ct')",
    "lexicon( organ = 'Heart' )",
    "lexicon(modality=\"CT\",benchmark='slake')",
    "lexicon(kind='multiple_response')",
    "lexicon(modality='nothing so called')",
]


def expressions(words: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(words),
        lambda inner: st.one_of(
            inner.map(lambda one: f"not {one}"),
            inner.map(lambda one: f"({one} )"),
            st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
        ),
        max_leaves=6,
    )


@pytest.fixture
def collected(stranger: pytest.Pytester) -> list[pytest.Item]:
    """The tests of two benchmarks, in the order in which they run, with the tags that -k and -m see."""
    stranger.path.joinpath("test_all.py").rename(stranger.path / "test_x.py")
    stranger.path.joinpath("test_x.py").write_text(
        TESTS.replace("test_slake", "test_x").replace("test_phantom", "test_y")
    )
    options = ("--model=warm", "--benchmark=slake", "--benchmark=phantom", "--repeat=2", "-k", "not nowhere")
    items, _ = stranger.inline_genitems(*PYTEST, *options)
    return items[0].session.items


def test_expressions_select_as_with_k_and_m(collected: list[pytest.Item]) -> None:
    """A whole word selects as with -k, `lexicon(...)` as with -m. Names of tests and files are no words."""
    plan = state_of(collected[0].config).plan
    keys = {id(node): query_of(node, "mc").key for node in collected}  # type: ignore[union-attr]

    def check(expression: str, matcher: Callable[[pytest.Item], Any]) -> None:
        compiled = PytestExpression.compile(expression)
        expected = [keys[id(node)] for node in collected if compiled.evaluate(matcher(node))]
        assert [query.key for query in select(plan, Expression.parse(expression)).queries] == expected

    @settings(examples(40), derandomize=True)
    @given(expressions(WORDS))
    def by_word(expression: str) -> None:
        check(expression, KeywordMatcher.from_item)

    @settings(examples(20), derandomize=True)
    @given(expressions(TAGS))
    def by_tag(expression: str) -> None:
        check(expression, lambda node: MarkMatcher.from_markers(node.iter_markers()))

    for word in WORDS:
        check(word, KeywordMatcher.from_item)
    by_word()
    by_tag()
    assert [query.key for query in select(plan).queries] == list(keys.values())


@pytest.mark.parametrize(
    ("word", "names", "matches"),
    [
        ("ct", "oct", False),
        ("ct", "fractures", False),
        ("ct", "low_dose_ct", True),
        ("CT", "ct_angiography", True),
        ("q1", "[q12]", False),
        ("[q1", "[q12]", False),
        ("[q1", "[q1-mc]", True),
        ("phantom-gmai", "[phantom-gmai-mmbench/1]", True),
        ("lesion", "phantom-medlesionvqa", False),
    ],
)
def test_a_word_is_a_whole_word(word: str, names: str, matches: bool) -> None:
    assert Expression.parse(word).matches([names], {}) == matches


def test_a_word_selects_what_its_tag_selects(tmp_path: Path) -> None:
    def selected(expression: str) -> list[QuestionKey]:
        options = Options.of({"model": "random", "benchmark": ["phantom"]}, tmp_path)
        plan = resolve(Project(tmp_path, tmp_path, Registry.of([]), options))
        return [query.key for query in select(plan, Expression.parse(expression)).queries]

    assert selected("ct") == selected("lexicon(modality='ct')")
    assert len(selected("ct")) == 40


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("ct and", "a word or lexicon(...) is expected"),
        ("ct mri", "'and' or 'or' is missing before mri"),
        ("(ct", "')' is expected"),
        ("lexicon(modality=ct)", "a value in quotes is expected: lexicon(modality='VALUE')"),
        ("lexicon()", "lexicon(...) takes NAME='VALUE'"),
        ("lexicon(modality='ct'", "')' is expected"),
        ("mark(a='b')", "mark(...) is unknown; only lexicon(...) takes values"),
        ("lexicon(modality='ct)", "the quote ' has no end, or a \\ is within it"),
        ("ct; rm", "';' cannot be read here"),
        ("__import__('os').system('true')", "__import__(...) is unknown; only lexicon(...) takes values"),
        ("not " * 101 + "ct", "more than 100 levels of brackets and 'not'"),
        ("(" * 101, "more than 100 levels of brackets and 'not'"),
        ("a" * 100_001, "longer than 100,000 characters"),
    ],
)
def test_an_expression_that_cannot_be_read_is_shown(expression: str, line: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--select: {line}")):
        Expression.parse(expression)


@given(st.text(alphabet="ab ()'\"=,\\\t\n;not andor lexicon", max_size=40))
def test_a_text_is_an_expression_or_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        Expression.parse(text).matches(["[ab]"], mark_values({"a": ("b",)}))


def test_a_dimension_that_no_item_has_is_named(stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model=echo:A", "--benchmark=slake", "--select=lexicon(modalty='ct')") == 4
    line = "no item has the dimension 'modalty'; there are: benchmark, kind, modality, organ. Did you mean 'modality'?"
    assert f"--select: {line}" in capsys.readouterr().err
    assert not (stranger.path / "reports").exists()


def test_data_of_ones_own_are_not_asked_of_the_toy(
    stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--benchmark=slake", "--reasoning=cot") == 4
    assert "no model was named, and phantom-vlm is the default for the phantom alone" in capsys.readouterr().err
    assert run("--benchmark=slake", "--benchmark=phantom") == 4
    assert "this run asks slake. Type --model=NAME" in capsys.readouterr().err
    assert not (stranger.path / "reports").exists()


# Ends


def test_nothing_selected_is_exit_code_5(stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model=echo:A", "--benchmark=slake", "--select=nowhere") == 5
    assert "no question was selected: nothing matches --select=nowhere; `medvqa lexicon`" in capsys.readouterr().out
    assert not (stranger.path / "reports").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--select=",), "--select: a value is empty; write --select=EXPRESSION, or leave it out"),
        (("--limit=0",), "--limit=0: a whole number from 1 on is expected"),
        (("--model=nobody",), "no model 'nobody'. Did you mean 'moody'?"),
        (("--gate=required",), "--gate=required: there are no rules."),
        (("--run=../up",), "a run's name is a letter or digit"),
    ],
)
def test_options_that_cannot_be_used_are_exit_code_4(
    stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str], options: Sequence[str], line: str
) -> None:
    assert run("--benchmark=slake", "--model=echo:A", *options) == 4
    assert line in capsys.readouterr().err
    assert not (stranger.path / "reports").exists()


def test_errors_in_a_row_end_the_run(stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--benchmark=slake", "--model=broken", "--max-errors=3", "--run=first") == 2
    printed = capsys.readouterr().out
    assert re.search(
        r"! stopped: 3 errors in a row, the last: .*RuntimeError: out of paper \(--max-errors=3\)", printed
    )
    assert printed.count("! stopped: ") == 1
    assert "unfinished: 3 of 24 questions have a result" in printed
    command = "medvqa run --plugin=conftest.py --benchmark=slake --model=broken --max-errors=3 --run=first"
    assert printed.endswith(f"to go on: {command}\n")


def test_a_budget_ends_the_run(stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--benchmark=slake", "--model=dear", "--max-cost=3", "--batch-size=1") == 2
    assert "! stopped: the answers have cost 3: --max-cost=3 is reached" in capsys.readouterr().out


def test_a_model_that_cannot_be_loaded_ends_the_run(
    stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was asked: a usage error by both doors, also if the run had results before."""
    options = ("--benchmark=slake", "--model=unmakable", "--run=first")
    assert run(*options) == 4
    printed = capsys.readouterr()
    assert re.fullmatch(r"medvqa: model 'unmakable'.*RuntimeError: no weights here\n", printed.err)
    assert "Traceback" not in printed.out + printed.err
    assert with_pytest(stranger, *options) == 4
    assert with_pytest(stranger, *options) == 4


OWN = """
import sys

def one(data):
    for number in range(4):
        yield Item(f"n{number}", question="Q?", options={"A": "x", "B": "y"}, answers=("A",))

def ask(item, technique):
    if item.id in ("n0", "n2"):
        raise KeyError("no words")
    return ASK.prompt(item, technique)

def read(item, answer):
    if item.id == "n1" or answer.text != "A":
        sys.exit(0)
    return scoring.score_single_choice(item, answer)

class Clinging(Majority):
    name = title = "clinging"
    def close(self):
        raise OSError("still busy")

def pytest_medvqa_finished(run):
    sys.exit(0)

own = Benchmark(name="own", items=one, prompt=ask, score=read)
"""


def test_a_prompt_or_a_score_that_fails_costs_its_question(
    stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also on the first question and on made-up answers, and by `sys.exit(0)`; the others are reported."""
    conftest = stranger.path / "conftest.py"
    conftest.write_text(conftest.read_text() + OWN)
    assert run("--benchmark=own", "--model=stubborn:A", "--run=first") == 1
    printed = capsys.readouterr().out
    assert "! own: 3 items ended in error, without a score" in printed
    assert len(re.findall(r"^! pytest_medvqa_finished: conftest.py:\d+: SystemExit: 0$", printed, re.MULTILINE)) == 1
    assert re.search(r"^own +accuracy +1/1 ", printed, re.MULTILINE)


def test_a_model_that_cannot_be_closed_costs_no_answer(
    stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    conftest = stranger.path / "conftest.py"
    conftest.write_text(conftest.read_text() + OWN)
    assert run("--benchmark=slake", "--model=clinging:A", "--run=first") == 2
    printed = capsys.readouterr().out
    assert re.search(
        r"^! stopped: model 'clinging:A', close\(\): conftest.py:\d+: OSError: still busy$", printed, re.MULTILINE
    )
    assert re.search(r"^slake +accuracy +33\.33 ", printed, re.MULTILINE)
    assert with_pytest(stranger, "--benchmark=slake", "--model=clinging:A", "--run=first") == 2


def test_a_full_disk_is_one_line_before_anything_is_asked(
    stranger: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("medvqa.files.write_all", full)
    assert run("--benchmark=slake", "--model=echo:A", "--run=first") == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"medvqa: run folder .*/first cannot be written: No space left on device", line)


def test_a_session_that_cannot_begin_to_write_says_why(
    stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--benchmark=slake", "--model=echo:A", "--run=first")
    assert run(*arguments) == 0
    page = stranger.path / "reports/first/index.html"
    page.unlink()
    page.mkdir()
    assert run(*arguments) == 2
    said = capsys.readouterr().out
    assert "! stopped: the run folder cannot be written: [Errno 21] Is a directory" in said
    assert "to go on: medvqa run" in said
    page.rmdir()
    assert run(*arguments) == 0


def test_a_reader_that_has_gone_does_not_end_the_run(
    stranger: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of `medvqa run 2>&1 | head -1`: progress and messages are lost, and no question is."""
    with open("/dev/full", "w") as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        monkeypatch.setattr("medvqa.session.display.PAUSE", 0.0)
        code = run("--benchmark=slake", "--model=echo:A", "--run=first")
        monkeypatch.undo()
        with suppress(OSError):
            gone.close()
    assert code == 0
    assert len(run_folder.read(stranger.path / "reports/first").results) == 24


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_writes_the_reports_and_says_how_to_go_on(
    stranger: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    times: int,
) -> None:
    """The second Ctrl-C ends the waiting for the call in flight, which would take half a minute."""
    before = signal.getsignal(signal.SIGINT)
    if times == 2:
        monkeypatch.setattr("medvqa.engine.FAREWELL", 30.0)
    assert run("--benchmark=slake", f"--model=interrupting:{times}", "--batch-size=4", "--run=first", "--fresh") == 2
    printed = capsys.readouterr().out
    assert "! stopped: interrupted" in printed
    assert re.search(r"unfinished: \d+ of 24 questions have a result", printed)
    assert printed.splitlines()[-1].endswith(f"--model=interrupting:{times} --batch-size=4 --run=first")
    assert (stranger.path / "reports/first/metrics.json").exists()
    assert signal.getsignal(signal.SIGINT) == before
    asked = (stranger.path / "asked").read_text().split()
    assert run("--benchmark=slake", f"--model=interrupting:{times}", "--batch-size=4", "--run=first") == 0
    assert len(set(asked)) == len(asked), "no question was asked twice"


def test_the_gate_decides_the_exit_code(stranger: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--benchmark=slake", "--model=echo:A", "--run=before") == 0
    assert run("--benchmark=slake", "--model=echo:refused", "--run=after", "--baseline=reports/before") == 10
    assert "gate: FAIL against before (exit code 10)" in capsys.readouterr().out


# The rest of a session


def test_an_empty_folder_runs_the_phantom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    assert main(["run", "--model=random", "--limit=2"]) == 0
    printed = capsys.readouterr()
    assert "phantom-gmai-mmbench" in printed.out
    assert printed.err == ""
    (folder,) = (path for path in (tmp_path / "reports").iterdir() if not path.name.startswith("."))
    assert printed.out.endswith(f"run folder: {folder}\n")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"above/pytest.ini": ""},
        {"above/pyproject.toml": "[project]\nname = 'x'\n"},
        {"above/pyproject.toml": "[project]\nname = 'x'\n", "above/inner/setup.py": ""},
        {"above/pyproject.toml": "[tool.pytest.ini_options]\n", "above/inner/pyproject.toml": ""},
        {"above/tox.ini": "[pytest]\n", "above/inner/tox.ini": "[tox]\n"},
        {"above/setup.cfg": "[tool:pytest]\n", "above/inner/setup.cfg": "[metadata]\n"},
        {"above/setup.py": ""},
        {"above/.git/HEAD": ""},
    ],
)
def test_the_root_is_that_of_pytest(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    here = pytester.mkdir("above") / "inner"
    here.mkdir()
    for name, text in files.items():
        (pytester.path / name).parent.mkdir(exist_ok=True)
        (pytester.path / name).write_text(text)
    monkeypatch.chdir(here)
    assert root_of(here) == pytester.parseconfig().rootpath


def test_a_run_takes_objects(tmp_path: Path) -> None:
    """A model and a benchmark that Python code gives are named as any other; the former may be a judge."""

    class Fixed(Backend):
        sends_to = None

        def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
            return [Answer(self._says) for _ in prompts]

        _says = ""

    model = Fixed("loud")
    model._says = "B"
    shipped = Registry.of()
    own = replace(shipped.benchmarks["phantom-gmai-mmbench"], name="own", origin=None, public=True)
    registry = shipped.with_objects(models=[model], benchmarks=[own])
    options = Options.of({"model": spec_of(model), "benchmark": ["own"], "limit": 9, "run": "first"}, tmp_path)
    seen: list[tuple[int, int]] = []

    class Seen(Display):
        def show(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
            seen.append((counts.total(), total))

    ended = conduct(Project(tmp_path, tmp_path, registry, options), Seen())
    assert (ended.exit_code, ended.questions, ended.stopped) == (0, 9, None)
    assert seen == [(number, 9) for number in range(1, 10)]
    results = run_folder.read(tmp_path / "reports/first").results
    assert {result.answer.text for result in results if result.answer} == {"B"}
    assert run_record.read_run(ended.folder).as_json()["config"]["argument"] == "loud"
    with pytest.raises(UsageError, match="a benchmark is called 'phantom-gmai-mmbench' already"):
        registry.with_objects(benchmarks=[replace(own, name="phantom-gmai-mmbench", items=lambda folder: [])])


def test_no_pytest_is_imported(tmp_path: Path) -> None:
    code = "import sys; from medvqa.cli import main; main(sys.argv[1:]); print({'pytest', '_pytest'} & {*sys.modules})"
    command = [sys.executable, "-c", code, "run", "--model=random", "--limit=1", "--select=phantom"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()"
    assert done.stderr == ""
