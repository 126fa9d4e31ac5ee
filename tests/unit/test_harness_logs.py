"""Recorded answers in the files of other programs: logs that these wrote themselves, and hostile ones.

The scripts in tools/harness_logs let Inspect, lmms-eval, MedEvalKit and VLMEvalKit write the logs.
"""

import json
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import medvqa
from medvqa import benchmarks
from medvqa.backends.baselines import Echo
from medvqa.backends.replay import AnswerColumns, Harness, Replay, inspect_logs, read
from medvqa.benchmarks import phantom
from medvqa.items import Answer, DataError, DataWarning, Image, Item, Prompt, UsageError
from medvqa.tables import limits
from tools.harness_logs.phantom_questions import LOGS, letters, rows

GMAI = next(benchmark for benchmark in phantom.BENCHMARKS if benchmark.name == "phantom-gmai-mmbench")
NAMED = "20261127_120000_samples_phantom.jsonl"
NAMELESS = "20261127_130000_samples_phantom_nameless.jsonl"
SCORED = "recorded_PHANTOM_VAL_exact_matching_result.xlsx"
REPLIES = {row["index"]: row["reply"] for row in rows()}


@pytest.fixture(scope="module")
def items() -> tuple[Item, ...]:
    return benchmarks.load(GMAI, Path("."))


def of(id: str, **more: Any) -> Item:
    return Item(**{"id": id, "benchmark": "bench", "question": "Which?", "options": {"A": "x", "B": "y"}, **more})


def texts(recording: Any) -> dict[str, str]:
    return {key[2]: answer.text for key, answer in recording.answers.items()}


# What harnesses wrote


@pytest.mark.parametrize(
    ("name", "harness", "scored"),
    [
        ("named.eval", "Inspect", True),
        ("results.json", "MedEvalKit", True),
        (SCORED, "VLMEvalKit", True),
        (NAMED, "lmms-eval", True),
        ("recorded_PHANTOM_VAL.xlsx", "VLMEvalKit", False),
        ("recorded_PHANTOM_VAL.tsv", "VLMEvalKit", False),
        ("recorded_PHANTOM_VAL.json", "VLMEvalKit", False),
    ],
)
def test_answers_ids_and_scores_are_read(name: str, harness: str, scored: bool, items: tuple[Item, ...]) -> None:
    recording = read(LOGS / name)
    assert texts(recording) == REPLIES
    assert recording.harness.name == harness
    assert recording.placed(items) is recording
    scores = {key[2]: score for key, score in recording.their_scores.items()}
    assert scores.keys() == (REPLIES.keys() if scored else set())
    if scored:
        assert (scores["1"], scores["2"]) == (1.0, 0.0)  # both answers are "ANSWER: A"; the keys are A and B


def test_the_record_names_harness_version_model_task_and_rule() -> None:
    assert read(LOGS / "named.eval").harness == Harness(
        "Inspect", "0.3.285", "mockllm/model", "task", "multiple_choice", "choice"
    )
    assert read(LOGS / NAMED).harness == Harness(
        "lmms-eval", "unknown@unknown", "recorded", "phantom", "generate_until", "accuracy"
    )
    assert Replay(str(LOGS / SCORED)).about() == {"recorded_by": {"name": "VLMEvalKit", "scoring": "hit"}}


def test_the_rule_of_inspect_reads_only_its_own_form() -> None:
    theirs = read(LOGS / "named.eval").their_scores
    assert theirs["", "mc", "1", "", 0] == 1.0
    assert REPLIES["3"] == rows()[2]["answer"]
    assert theirs["", "mc", "3", "", 0] == 0.0


def test_inspects_solver_tells_the_technique_and_epochs_the_samples() -> None:
    model = Replay(str(LOGS / "twice.eval"))
    assert model.recorded_by("any") == ("mc",)
    assert (model.samples(), model.draws()) == (2, True)
    asked = [Prompt("?", item=name, sample=sample) for name in ("1", "2", "3") for sample in (1, 2)]
    assert [answer.text for answer in model.generate(asked)] == [REPLIES[prompt.item] for prompt in asked]


@pytest.mark.parametrize(("name", "count"), [("numbered.json", 4), (NAMELESS, 12)])
def test_without_ids_questions_are_found_by_their_text(name: str, count: int, items: tuple[Item, ...]) -> None:
    model = Replay(str(LOGS / name))
    with pytest.warns(DataWarning, match=rf"has no ids of questions: {count} of {count} answers were found by their"):
        model.fit(items)
    placed = model._recording
    assert texts(placed) == dict(list(REPLIES.items())[:count])
    assert {key[0] for key in placed.answers} == {GMAI.name}
    assert len(placed.their_scores) == count


def test_results_without_answers_name_the_file_that_holds_them() -> None:
    with pytest.raises(DataError) as raised:
        read(LOGS / "20261127_120000_results.json")
    assert str(raised.value).endswith(
        "results.json: results of lmms-eval, which hold no answers. They are in 20261127_120000_samples_TASK.jsonl, in "
        "the same folder, if it ran with --log_samples"
    )


def test_a_run_replays_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = medvqa.evaluate(
        f"replay:{LOGS / 'results.json'}",
        GMAI.name,
        run="replayed",
        set=["id=id", "response=response"],
        max_errors=200,
        progress=False,
    )
    answered = run.results[run.results["outcome"] != "error"]
    assert {*answered["item"]} == REPLIES.keys()
    model = json.loads((tmp_path / "reports" / "replayed" / "run.json").read_text())["model"]
    assert model["recorded_by"] == {"name": "MedEvalKit", "scoring": "correct"}


# Tables of any shape


@pytest.mark.parametrize(
    "columns",
    [
        ("question_id", "model_answer"),
        ("QID", "Pred"),
        ("index", "response"),
        ("id", "prediction"),
        ("Frage-ID", "Modellantwort"),
        ("id", "output"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_columns_are_known_by_names_that_import_knows(tmp_path: Path, columns: tuple[str, str], ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    if ending == "csv":
        path.write_text(f"{','.join(columns)},other\n1,A,z\n2,B,z\n")
    else:
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in ("1A", "2B")))
    assert texts(read(path)) == {"1": "A", "2": "B"}


def test_typed_columns_come_before_known_names(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,response,Case No,raw reply,way\n1,A,c1,B,mc\n2,A,c2,C,ff\n")
    recording = read(path, AnswerColumns(id="case no", response="Raw reply", technique="way"))
    assert [(key[1:3], answer and answer.text) for key, answer in recording.answers.items()] == [
        (("mc", "c1"), "B"),
        (("ff", "c2"), "C"),
    ]
    model = Replay(str(path), AnswerColumns(id="case no"))
    assert model.fingerprint().startswith(f"{Replay(str(path)).fingerprint()}-")
    with pytest.raises(UsageError) as raised:
        read(path, AnswerColumns(id="nr"))
    assert str(raised.value) == (
        f"--set id=nr: {path} has no such column; there are: id, response, case no, raw reply, way."
    )


def test_several_columns_of_one_role_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,output,completion\n1,A,B\n")
    with pytest.raises(UsageError, match=r"2 columns could be the response \('output', 'completion'\)\. Type --set"):
        read(path)
    assert texts(read(path, AnswerColumns(response="completion"))) == {"1": "B"}


def test_a_table_of_questions_and_answers(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("question,A,B,response\nWhich?,x,y,B\nWhat?,x,y,A\n")
    asked = [of("1"), of("2", question=" What? "), of("3", question="Whose?")]
    placed = read(path).placed(asked)
    assert texts(placed) == {"1": "B", "2": "A"}
    assert texts(read(path, AnswerColumns(id="")).placed(asked)) == {"1": "B", "2": "A"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            [of("1"), of("7")],
            " row 2: no id, and 2 questions of this run have its question and options (1, 7); so it is with 1 of 1 "
            "answers. Name the column of ids: --set id=COLUMN",
        ),
        (
            [of("1", options={"A": "y", "B": "x"})],
            " row 2: no id, and no question of this run has its question and options; so it is with all 1 answers. "
            "Name the column of ids: --set id=COLUMN",
        ),
    ],
)
def test_a_text_that_names_no_one_question_is_refused(tmp_path: Path, asked: list[Item], message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("question,A,B,response\nWhich?,x,y,B\n")
    with pytest.raises(DataError) as raised:
        Replay(str(path)).fit(asked)
    assert str(raised.value) == f"{path}{message}"


def test_two_answers_to_one_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("question,A,B,response\nWhich?,x,y,B\nWhich?,x,y,A\n")
    with pytest.raises(DataError, match=r"x\.csv row 3: answers 1, as row 2 does; keep one of them$"):
        Replay(str(path)).fit([of("1")])


def test_ids_that_count_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("index,question,prediction\n1,Whose?,A\n")
    with pytest.raises(DataError, match=r"x\.csv row 2: its id 1 is that of another question here\. Type --set id="):
        Replay(str(path)).fit([of("1")])
    Replay(str(path)).fit([of("1", question="Whose?  ")])


def test_nan_in_an_array_is_an_empty_cell(tmp_path: Path) -> None:
    assert b"NaN" in (LOGS / "recorded_PHANTOM_VAL.json").read_bytes(), "else nothing is tried"
    path = tmp_path / "x.json"
    path.write_text('[{"index": 1, "prediction": "A"}, {"index": 2, "answer": NaN}]')
    with pytest.raises(DataError, match=r"x\.json record 2: missing column prediction; found: index, answer"):
        read(path)
    path.write_text('[{"index": 1, "prediction": "A"}, {"index": 2, "prediction": NaN}]')
    assert read(path).answers["", "", "2", "", 0] is None
    path.write_text('[{"index": 1, "INDEX": 2, "prediction": NaN}]')
    with pytest.raises(DataError, match=r"x\.json record 1: two columns have the same name"):
        read(path)
    path.write_text('[{"index": 1, "prediction": NaN}, 3]')
    with pytest.raises(DataError, match=r"x\.json: "):
        read(path)


def test_typed_columns_may_leave_nothing_to_find_a_question_by(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("index,prediction\n1,A\n")
    with pytest.raises(DataError, match=r"x\.csv row 2: neither an id nor a question; type --set id=COLUMN or"):
        read(path, AnswerColumns(id=""))


def test_ids_stay_if_only_the_texts_differ(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("index,question,prediction\n1,Whose?,A\n")
    Replay(str(path), AnswerColumns(question="")).fit([of("1")])
    log = archive(tmp_path / "x.eval", {"header.json": START, "samples/1_epoch_1.json": sample(id="7")})
    with pytest.raises(DataError, match="its id 7 is that of another question here"):
        Replay(str(log)).fit([of("7", question="Whose?")])
    Replay(str(log), AnswerColumns(question="")).fit([of("7", question="Whose?")])


def test_options_in_another_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("index,question,A,B,prediction\n1,Which?,y,x,A\n")
    with pytest.raises(DataError, match=r"x\.csv row 2: its options stand in another order than those of 1 here"):
        Replay(str(path)).fit([of("1")])


@pytest.mark.parametrize("cell", ['"[""y"", ""x""]"', '"{""A"": ""y"", ""B"": ""x""}"', '"A. y\nB. x"'])
def test_options_in_one_cell_are_read(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"id,question,options,response\n1,Which?,{cell},A\n")
    with pytest.raises(DataError, match="its options stand in another order than those of 1 here"):
        Replay(str(path)).fit([of("1")])
    path.write_text("id,question,options,response\n1,Which?,of the organ,A\n")
    Replay(str(path)).fit([of("1")])
    path.write_text('{"id": "1", "question": "Which?", "options": {"B": "y", "A": "x"}, "response": "A"}\n')
    Replay(str(path)).fit([of("1")])


def test_other_options_under_one_question_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("index,question,A,B,prediction\n1,Which?,p,q,A\n")
    with pytest.raises(
        DataError, match=r"x\.csv row 2: its options are not those of 1 here, so its letters name others"
    ):
        Replay(str(path)).fit([of("1")])
    path.write_text("index,question,A,B,prediction\n1,Which?,X.,y,A\n")
    Replay(str(path)).fit([of("1")])


@pytest.mark.parametrize("question", ["", ",question"])
def test_an_id_of_two_benchmarks_is_refused_if_nothing_tells_which(tmp_path: Path, question: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"id{question},response\n1{question and ',Which?'},A\n")
    with pytest.raises(DataError, match=r"^1 is the id of a question of bench and of another one of second"):
        Replay(str(path)).fit([of("1"), of("1", benchmark="second", question="Say which?")])
    with pytest.raises(DataError, match=r"^1 is the id of a question of bench and of another one of second"):
        Replay(str(path)).fit([of("1"), of("1", benchmark="second", images=(Image("x.png", "/x.png"),))])
    Replay(str(path)).fit([of("1"), of("1", benchmark="second")])
    path.write_text("id,benchmark,response\n1,bench,A\n1,second,B\n")
    Replay(str(path)).fit([of("1"), of("1", benchmark="second", question="Say which?")])


def test_without_items_an_answer_without_an_id_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("question,A,B,response\nWhich?,x,y,B\n")
    (answer,) = Replay(str(path)).generate([Prompt("?", item="1")])
    assert str(answer).endswith("has no answer for 1: it has no ids, and `fit` found no items")


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model_DATA.pkl"
    path.write_bytes(pickle.dumps({"1": "A"}))
    with pytest.raises(DataError, match=r"model_DATA\.pkl: a pickle of Python, which can run any code when it is read"):
        read(path)


def test_a_folder_of_medevalkit_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(UsageError, match=r"a folder; its answers are in results\.json$"):
        Replay(str(tmp_path)).check()


# lmms-eval


def lmms(path: Path, *samples: dict[str, Any]) -> Path:
    usual = {"doc_id": 0, "target": "A", "filtered_resps": "A", "input": "Which?\nA. x\nB. y"}
    path.write_text("".join(json.dumps({**usual, **sample}) + "\n" for sample in samples))
    return path


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("Which?\nA. x\nB. y\nAnswer with the letter.", ["1"]),
        ("<image>\nQuestion: Which?\nOptions:\n(A) x\n(B) y", ["1"]),
        ("Which?\nA. y\nB. x", []),
        ("Which?", []),
        ("Which?\nA. x\nB. y\nC. z", []),
        ("Which?\n1x\n2y", []),
        ("Which?\n1. x\n2. y", ["1"]),
        ("Say which?\nA. x\nB. y", []),
        ("Which?\nA. ax\nB. by", []),
    ],
)
def test_a_prompt_holds_the_question_in_whole_lines(tmp_path: Path, prompt: str, found: list[str]) -> None:
    recording = read(lmms(tmp_path / "x_samples_t.jsonl", {"input": prompt}))
    if found:
        assert list(texts(recording.placed([of("1"), of("2", question="Whose?")]))) == found
    else:
        with pytest.raises(DataError, match="no question of this run has its question and options"):
            recording.placed([of("1")])


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Whose?\nA. x\nB. y", "its id 1 is that of another question here"),
        ("Which?\nA. y\nB. x", "its options stand in another order than those of 1 here"),
        ("Which?\nA. x\nB. y\n\nWhich?\n(A) y\n(B) z", "its options are not those of 1 here"),
    ],
)
def test_an_id_of_a_sample_log_is_checked_by_its_prompt(tmp_path: Path, prompt: str, message: str) -> None:
    path = lmms(tmp_path / "x.jsonl", {"input": prompt, "acc": {"index": 1}})
    with pytest.raises(DataError, match=message):
        Replay(str(path)).fit([of("1")])
    Replay(str(path), AnswerColumns(question="")).fit([of("1")])
    Replay(str(lmms(path, {"acc": {"index": 1}}))).fit([of("1")])


def test_answers_before_filters_and_several_samples(tmp_path: Path) -> None:
    sample = {
        "resps": ["I say A.", "Or B."],
        "filtered_resps": ["A", "B"],
        "score": {"question_id": 7, "correct": True},
    }
    path = lmms(tmp_path / "x_samples_t.jsonl", sample)
    recording = read(path)
    assert recording.answers["", "", "7", "", 2] == Answer("Or B.", finish="")
    assert recording.their_scores["", "", "7", "", 1] == 1.0
    assert read(path, AnswerColumns(response="filtered_resps")).answers["", "", "7", "", 2] == Answer("B", finish="")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"doc_id": 1, "target": "", "filtered_resps": [[-1.5, true], [-2.5, false]]}',
            " line 1, field 'filtered_resps': no text. Log-likelihoods of options are no answers: ask with a task "
            "whose output_type is generate_until",
        ),
        (
            '{"doc_id": 1, "target": "", "filtered_resps": "A"}',
            " line 1: no id of the question, and no text in 'input'; doc_id counts lines, and is no id",
        ),
        (
            '{"doc_id": 1, "target": "", "filtered_resps": "A", "input": "?"}\n{"doc_id": 2}',
            " line 2: missing field filtered_resps, target",
        ),
        (
            '{"doc_id": 1, "target": "", "filtered_resps": "A", "input": "?"}\n{"doc',
            " line 2: Input data was truncated",
        ),
        (
            '{"doc_id": 1, "target": "", "filtered_resps": "A", "input": "?"}\n' + "[" * 100_000,
            " line 2: ",
        ),
    ],
)
def test_a_bad_sample_log_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "x_samples_t.jsonl"
    path.write_text(line)
    with pytest.raises(DataError) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}{message}")


def test_nan_among_scores_is_no_score(tmp_path: Path) -> None:
    path = lmms(tmp_path / "x_samples_t.jsonl", {"bleu": float("nan"), "exact_match": 1.0}, {"input": "What?"})
    assert [entry.their_score for entry in read(path).unplaced] == [1.0, None]


# Inspect: archives


def archive(path: Path, members: dict[str, str], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


START = json.dumps({"version": 2, "eval": {"task": "t", "model": "m", "dataset": {"samples": 9}}, "plan": {}})


def sample(**more: Any) -> str:
    output = {"choices": [{"message": {"role": "assistant", "content": "B"}, "stop_reason": "max_tokens"}]}
    return json.dumps({"id": "q1", "epoch": 1, "input": "Which?", "choices": ["x", "y"], "output": output, **more})


def test_an_archive_by_deflate_needs_no_extra(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/q1_epoch_1.json": sample()})
    assert read(path).answers == {("", "", "q1", "", 0): Answer("B", finish="length")}


def test_a_run_that_was_cut_off_has_a_journal(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", {"_journal/start.json": START, "samples/q1_epoch_1.json": sample()})
    assert texts(read(path)) == {"q1": "B"}


def test_texts_in_attachments_and_ids_in_metadata(tmp_path: Path) -> None:
    message = {"role": "user", "content": [{"type": "image", "image": "x"}, {"type": "text", "text": "attachment://a"}]}
    numbered = sample(id=1, input=[message], attachments={"a": "Which?"})
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/1_epoch_1.json": numbered})
    assert texts(read(path).placed([of("7")])) == {"7": "B"}
    assert texts(read(path, AnswerColumns(id="id"))) == {"1": "B"}
    named = sample(id=1, metadata={"question_id": 17})
    path = archive(tmp_path / "y.eval", {"header.json": START, "samples/1_epoch_1.json": named})
    assert texts(read(path)) == {"17": "B"}


def test_a_sample_that_ended_in_an_error_has_no_answer(tmp_path: Path) -> None:
    failed = sample(output={"model": "m", "choices": []}, error={"message": "timeout"})
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/q1_epoch_1.json": failed})
    assert read(path).answers == {("", "", "q1", "", 0): None}


def test_names_of_members_are_only_names(tmp_path: Path) -> None:
    members = {"header.json": START, "../../samples/a_epoch_1.json": "{", "/samples/b_epoch_1.json": "{"}
    path = archive(tmp_path / "x.eval", {**members, "samples/q1_epoch_1.json": sample()})
    assert texts(read(path)) == {"q1": "B"}
    assert list(tmp_path.iterdir()) == [path]


def test_without_zstandard_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError) as raised:
        read(LOGS / "named.eval")
    assert str(raised.value) == (
        f"{LOGS / 'named.eval'} header.json is compressed by Zstandard: pip install 'pytest-medvqa[inspect]'"
    )


def understated(path: Path) -> None:
    """Make the archive say that its last member has 10 bytes."""
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = (10).to_bytes(4, "little")
    path.write_bytes(content)


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = content.index(b"samples/") + 60
    content[place : place + 20] = bytes(20)
    path.write_bytes(content)


def misplaced(path: Path) -> None:
    """Make the archive say that its last member begins behind the end of the file."""
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 42 : place + 46] = (2**31).to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [understated, damaged, misplaced])
@pytest.mark.parametrize("packed", ["deflate", "zstandard"])
def test_a_damaged_member_is_named(tmp_path: Path, spoil: Callable[[Path], None], packed: str) -> None:
    path = tmp_path / "x.eval"
    if packed == "deflate":
        text = sample(metadata={"x": "".join(map(str, range(2000)))})
        archive(path, {"header.json": START, "samples/q1_epoch_1.json": text})
    else:
        pytest.importorskip("zstandard")
        path.write_bytes((LOGS / "named.eval").read_bytes())
    spoil(path)
    with pytest.raises(DataError, match=r"x\.eval (samples/\w+|header)\.json: "):
        read(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/q1_epoch_1.json": " " * 2**20})
    monkeypatch.setattr(limits, "MAX_RESULT", 2**19)
    with pytest.raises(DataError, match=r"x\.eval samples/q1_epoch_1\.json: larger than 524,288 bytes$"):
        read(path)
    monkeypatch.setattr(inspect_logs, "MAX_UNPACKED", 2**20)
    with pytest.raises(DataError, match=r"x\.eval: more than 1,048,576 bytes when unpacked$"):
        read(path)
    monkeypatch.setattr(limits, "MAX_ROWS", 1)
    with pytest.raises(DataError, match=r"x\.eval: more than 1 members$"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Input data was truncated"),
        ("[" * 100_000, ""),
        ('{"id": "q1"}', "Object missing required field `input`"),
        (sample(id=None), r"Expected `int \| str`, got `null`"),
        (sample(choices=[1]), "Expected `str`, got `int`"),
        ("\ud83d".encode("utf-8", "surrogatepass").decode("latin-1"), ""),
    ],
)
def test_a_bad_sample_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/q1_epoch_1.json": content})
    with pytest.raises(DataError, match=rf"x\.eval samples/q1_epoch_1\.json: .*{message}"):
        read(path)


def test_half_a_surrogate_pair_is_refused_beside_nan(tmp_path: Path) -> None:
    content = sample(scores={"f1": {"value": float("nan"), "answer": "\ud83d"}})
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/q1_epoch_1.json": content})
    with pytest.raises(DataError, match=r"x\.eval samples/q1_epoch_1\.json: "):
        read(path)


def test_nan_in_a_log_is_no_score(tmp_path: Path) -> None:
    scored = sample(scores={"f1": {"value": float("nan"), "answer": "B"}})
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/q1_epoch_1.json": scored})
    assert read(path).their_scores == {}


def test_a_log_without_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(START)
    with pytest.raises(DataError, match=r"x\.json: a log of Inspect without samples; log them"):
        read(path)


def test_the_texts_that_an_archive_unpacks_to_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_UNPACKED", 1000)
    long = {f"samples/{name}_epoch_1.json": sample(id=name, input="x" * 600) for name in "ab"}
    path = archive(tmp_path / "x.eval", {"header.json": START, **long})
    with pytest.raises(
        DataError, match=r"samples/b_epoch_1\.json: more than 1,000 characters of questions and answers"
    ):
        read(path)


def test_an_archive_of_a_later_version_of_zip_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", {"header.json": START, "samples/q1_epoch_1.json": sample()})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 162
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.eval"):
        read(path)


def test_a_workbook_is_no_log(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.eval", {"header.txt": ""})
    with pytest.raises(DataError, match=r"x\.eval: no readable XLSX"):
        read(path)


def test_questions_of_the_scripts_are_those_of_the_phantom(items: tuple[Item, ...]) -> None:
    by_id = {item.id: item for item in items}
    for row in rows():
        item = by_id[row["index"]]
        assert (item.question, [*item.options.values()]) == (row["question"], [row[letter] for letter in letters(row)])


def test_columns_need_recorded_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--set=id=x: it needs --model=replay:FILE or human:FILE, not 'echo:A'"):
        medvqa.evaluate(Echo("A"), "phantom-mediconfusion", set=("id=x",))
