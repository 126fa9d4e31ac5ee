"""The neighbours: what becomes of rows in the owners' format, and the traps of these data sets."""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

import medvqa
from medvqa import benchmarks, tables
from medvqa.benchmarks import origins, slake
from medvqa.cli import main
from medvqa.items import Answer, DataError, Item, Prompt, Result, Score, UsageError
from medvqa.protocols.shots import Chooser, Pool
from medvqa.records import run_folder
from medvqa.scoring import rules
from support.neighbours import (
    CANARY,
    FILES,
    KEPT,
    PATIENT,
    Neighbour,
    dumped,
    found,
    kept,
    own,
    redrawn,
    sample_of,
    write,
)

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'pytest-medvqa[data]'")

SAMPLES = found()
every_file = pytest.mark.parametrize("file", FILES)
every = pytest.mark.parametrize("neighbour", SAMPLES, ids=[sample.name for sample in SAMPLES])
ON_REQUEST = {
    benchmark.name for file in FILES for benchmark in own(file) if benchmark.origin and benchmark.origin.on_request
}
NAMED = {benchmark.name: benchmark for file in FILES for benchmark in own(file)}


@every_file
def test_a_sample_becomes_what_it_became(file: str) -> None:
    """Items, prompts, scores, counts and refusals; `support.neighbours` says how to write them anew."""
    assert dumped(redrawn(file)) + "\n" == (KEPT / f"{file}.json").read_text("utf-8")


@every_file
def test_answers_are_scored_as_by_hand(file: str, tmp_path: Path) -> None:
    sample = kept(file)
    write(tmp_path, sample["files"], sample["pictures"])
    assert sample["cases"]
    for name, cases in sample["cases"].items():
        items = {item.id: item for item in benchmarks.load(NAMED[name], tmp_path)}
        for question, text, ours, theirs, *_ in cases:
            item, answer = items[question], Answer(text)
            assert NAMED[name].score(item, answer).outcome == ours, text
            if theirs is not None:
                assert rules.scorer(NAMED[name], "official")(item, answer).outcome == theirs, text


@pytest.mark.parametrize("rule", ["sound", "official"])
@every
def test_hostile_answers_are_read_in_time(neighbour: Neighbour, rule: str) -> None:
    texts = ["1" * 300_000, "1,111" * 60_000, "1." * 100_000, "is " * 100_000, "-" * 300_000, "1e" * 100_000, "\x00"]
    texts += ["(" * 10_000, "Answer:" * 5000, "boxed{" * 5000, "\ud800", "<answer>" * 100_000, "\\boxed{" * 100_000]
    began = time.process_time()
    for kind, text in product(("single_choice", "short_answer"), texts):
        options = {"A": "x" * 10_000, "B": "y"} if kind == "single_choice" else {}
        item = Item("1", neighbour.name, kind, "?", options, ("A",))  # type: ignore[arg-type]
        benchmark = NAMED[neighbour.name]
        if kind in neighbour.sample["expected"][neighbour.name]["facts"]["official"]:
            assert rules.scorer(benchmark, rule)(item, Answer(text)).value in (0.0, 1.0, None)
    assert time.process_time() - began < 60


@every
def test_errors_about_bad_cells_reveal_no_answer(
    neighbour: Neighbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell of a sample holds each of some wrong values, one at a time."""
    neighbour.write(tmp_path)
    benchmark, read = NAMED[neighbour.name], tables.read
    rows: dict[Path, list[tables.TableRow]] = {}

    def spoilt(path: Path, **options: Any) -> Iterator[tables.TableRow]:
        if path not in rows:
            rows[path] = list(read(path, **options))
        for number, row in enumerate(rows[path]):
            wrong = {column: value} if number == place and column in row.values else {}
            yield msgspec.structs.replace(row, values=row.values | wrong)

    column, value, place = "", None, 0
    monkeypatch.setattr(tables, "read", spoilt)
    benchmarks.load(benchmark, tmp_path)
    columns = sorted({name for read_rows in rows.values() for row in read_rows for name in row.values})
    assert columns
    longest = max(map(len, rows.values()))
    for place, column, value in product(range(longest), columns, (None, "", "?", 7, ["?"], {"?": "?"})):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                said = repr(benchmarks.load(benchmark, tmp_path))
            except DataError as error:
                said = str(error)
                assert "\n" not in said
                assert "Error:" not in said, f"no line for people: row {place}, {column} = {value!r}: {said}"
        assert CANARY not in said
        assert CANARY not in " ".join(str(warning.message) for warning in warned)


@every
def test_its_file_says_where_it_comes_from(neighbour: Neighbour) -> None:
    benchmark = NAMED[neighbour.name]
    assert benchmark.origin is not None
    assert benchmark.origin.licence
    assert benchmark.origin.home.startswith("https://")
    assert origins.how_to_obtain(benchmark)
    assert origins.sought(benchmark)


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The files of a folder, also unpacked: compressed ones, and the data of pages."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield path, content
            if content.startswith(b"\x1f\x8b"):
                yield path, gzip.decompress(content)
            for packed in re.findall(rb">([A-Za-z0-9+/=]{8,})<", content):
                with suppress(zlib.error):
                    yield path, zlib.decompress(base64.b64decode(packed))


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a run, which keeps nothing elsewhere."""
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


def test_columns_that_hold_the_answer_reach_no_file_and_no_terminal(
    apart: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    for sample in SAMPLES:
        sample.write(data)
    assert main(["run", "--model=random", f"--data={data}", "--run=first"]) == 0
    printed = "".join(capfd.readouterr())
    written = dict(contents(apart))
    about = json.loads(written[apart / "reports/first/run.json"])
    assert about["benchmarks"].keys() == {sample.name for sample in SAMPLES} - ON_REQUEST
    assert all(word.encode() in b"".join(dict(contents(data)).values()) for word in (CANARY, PATIENT))
    searched = [(path, content) for path, content in contents(tmp_path) if data not in path.parents]
    assert any(path.name == "index.html" and b"Which bone of patient 0" in content for path, content in searched)
    for word in (CANARY, PATIENT):
        assert [path.name for path, content in searched if word.encode() in content] == []
        assert word not in printed


# --- MMMU -------------------------------------------------------------------------------------------------------------


def test_options_are_data_and_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaders that call eval run the code in a cell; the samples have some."""
    monkeypatch.chdir(tmp_path)
    assert "mkdir('owned')" in json.dumps(redrawn("mmmu"))
    assert not Path("owned").exists()


def test_answers_to_the_test_split_become_a_submission(tmp_path: Path) -> None:
    exam = NAMED["mmmu-health-test"]
    questions = [
        Item("test_Pharmacy_2", exam.name, "single_choice", "?", {"A": "a", "B": "b"}),
        Item("test_Pharmacy_10", exam.name, "short_answer", "?"),
        Item("test_Public_Health_1", exam.name, "short_answer", "?"),
    ]
    texts = ("(B)", "0.5 mg", None)
    results = [
        Result("run", item, "", answer, exam.score(item, answer) if answer else Score(None, "error"))
        for item, text in zip(questions, texts, strict=True)
        for answer in [None if text is None else Answer(text)]
    ]
    assert exam.owners.submission is not None
    path = exam.owners.submission(results, tmp_path)
    assert path.name == "mmmu-health-test-submission.json"
    assert list(json.loads(path.read_text()).items()) == [
        ("test_Pharmacy_2", "B"),
        ("test_Pharmacy_10", "0.5 mg"),
        ("test_Public_Health_1", ""),
    ]


# --- SLAKE ------------------------------------------------------------------------------------------------------------


def slake_rows(data: Path, *changes: dict[str, Any], file: str) -> Path:
    first = kept("slake")["files"]["slake/test.json"][0]
    return write(data, {f"slake/{file}": [first | change for change in changes]}, {})


def test_examples_never_share_an_image_with_the_question_in_either_language(tmp_path: Path) -> None:
    slake_rows(tmp_path, {"img_id": 7, "img_name": "xmlab7/source.jpg"}, file="test.json")
    [question] = benchmarks.load(NAMED["slake-en-test"], tmp_path)
    zh = {"q_lang": "zh", "answer": "包含"}
    slake_rows(
        tmp_path,
        {"qid": 20, **zh, "img_id": 7, "img_name": "xmlab7/source.jpg"},
        {"qid": 21, **zh, "img_id": 8, "img_name": "xmlab8/source.jpg"},
        {"qid": 22, **zh, "img_id": 7, "img_name": "xmlab7/other.jpg"},
        {"qid": 23, **zh, "img_id": 9, "img_name": "xmlab7/source.jpg"},
        {"qid": 24, **zh, "img_id": 10, "img_name": "xmlab10/source.jpg", "answer": " "},
        file="train.json",
    )
    pool = Pool("slake-zh-train", benchmarks.load(NAMED["slake-zh-train"], tmp_path))
    assert [item.id for item in Chooser(pool, [question]).candidates(question)] == ["21"]


def test_training_and_validation_are_evaluated_on_request_alone(tmp_path: Path) -> None:
    for file in ("test.json", "train.json", "validation.json"):
        slake_rows(tmp_path, {}, {"qid": 11, "q_lang": "zh"}, file=file)
    known = {benchmark.name: benchmark for benchmark in slake.BENCHMARKS}
    for names, chosen in (
        (["slake"], ["slake-en-test", "slake-zh-test"]),
        ([], ["slake-en-test", "slake-zh-test"]),
        (["slake-zh-train"], ["slake-zh-train"]),
    ):
        assert [benchmark.name for benchmark in benchmarks.choose(names, known, tmp_path)] == chosen


# --- ReXVQA -----------------------------------------------------------------------------------------------------------


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    sample = kept("rexvqa")
    write(tmp_path, sample["files"], {"elsewhere/MUSTERMANN0/a0/0.png": 1})
    (tmp_path / "rexvqa/deid_png").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="leaves the data folder"):
        benchmarks.load(NAMED["rexvqa-test"], tmp_path)


# --- MedXpertQA -------------------------------------------------------------------------------------------------------


class Reasoner(medvqa.Backend):
    """Reasons first, naming another option; its second reply is the letter."""

    title = "reasoner"
    sends_to = None
    converses = True
    _asked: ClassVar[list[Prompt]] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        self._asked.extend(prompts)
        return [Answer("B" if prompt.turns else "It could be A or C. The answer is C.") for prompt in prompts]


class OneTurn(medvqa.Backend):
    """Takes one turn alone."""

    title = "one-turn"
    sends_to = None

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer("C") for _ in prompts]


def test_the_second_reply_is_scored(apart: Path, tmp_path: Path) -> None:
    sample_of("medxpertqa-mm").write(tmp_path / "data")
    options: Any = {"data": tmp_path / "data", "folder": tmp_path, "benchmark": "medxpertqa-mm"}
    for extraction in ("sound", "official"):
        run = medvqa.evaluate(Reasoner(), run=extraction, extraction=extraction, **options)
        results = {result.item.id: result for result in run_folder.read(run.folder).results}
        outcomes = {name: result.score.outcome for name, result in results.items()}
        assert outcomes == {"MM-0": "correct", "MM-1": "wrong", "MM-2": "wrong"}
        answer = results["MM-0"].answer
        assert answer is not None
        assert answer.earlier == ("It could be A or C. The answer is C.",)
    second = next(prompt for prompt in Reasoner._asked if prompt.turns)
    assert second.text == "Therefore, among A through E, the answer is"
    assert second.turns[0].reply.startswith("It could be")
    with pytest.raises(UsageError, match=r"'medxpertqa-mm': backend 'oneturn' takes .* --prompt=direct$"):
        medvqa.evaluate(OneTurn(), run="refused", **options)
    with pytest.raises(
        UsageError, match=r"benchmark 'medxpertqa-mm': it has turns of its own; leave --reasoning=cot out"
    ):
        medvqa.evaluate(Reasoner(), run="refused", reasoning="cot", **options)
    direct = medvqa.evaluate(OneTurn(), run="direct", prompt="direct", **options)
    assert {result.score.extracted for result in run_folder.read(direct.folder).results} == {("C",)}


def test_the_options_are_printed_once_and_in_the_order_of_a_rotation() -> None:
    benchmark = NAMED["medxpertqa-mm"]
    options = dict(zip("ABCDE", ("Femur", "Fibula", "Tibia", "Radius", "Ulna"), strict=True))
    item = Item("MM-0", benchmark.name, "single_choice", "Which bone?", options, ("A",))
    for ask in (benchmark.prompt, *benchmark.prompts.values()):
        assert not isinstance(ask, str)
        assert "Answer Choices: (A) Femur (B) Fibula (C) Tibia (D) Radius (E) Ulna\nA:" in ask(item, "mc").text
