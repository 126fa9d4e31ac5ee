"""Results of run folders for comparisons: their answers stay in results.jsonl, and equal questions are one object."""

from __future__ import annotations

import pickle
from math import inf
from pathlib import Path

import pytest

from medvqa import comparing
from medvqa.comparing import stored_answers
from medvqa.comparing.stored_answers import StoredAnswer
from medvqa.items import Answer, DataError, Item, Result, Score, replace
from medvqa.records import run_folder
from support.runs import record

ITEM = Item("q1", "slake", "single_choice", "Which?", {"A": "lung", "B": "liver"}, ("A",), tags={"organ": ("lung",)})
ANSWERS = (
    Answer("A, as the lung is white", seconds=0.5, usage={"input": 9.0}, thoughts="hm", earlier=("B?",), cut=True),
    Answer("", {"A": -0.1, "B": -inf}, finish="length", served_by="server"),
    None,
)


def written(folder: Path, item: Item = ITEM) -> list[Result]:
    scores = Score(1.0, "correct", ("A",), "why"), Score(0.0, "wrong"), Score(None, "error")
    results = [
        Result(folder.name, replace(item, id=f"q{n}"), "f" * 64, answer, score)
        for n, (answer, score) in enumerate(zip(ANSWERS, scores, strict=True))
    ]
    recorder = run_folder.Recorder(folder)
    for result in reversed(results):
        recorder.append(run_folder.encode(result))
    recorder.close()
    run_folder.write_json(folder / "run.json", record({"name": folder.name}))
    return results


def test_results_are_those_of_the_folder_to_the_last_byte(tmp_path: Path) -> None:
    results = written(tmp_path / "run")
    (side,) = comparing.load_runs([tmp_path / "run"])
    stored = [result.answer for result in side.results if result.answer is not None]
    assert all(isinstance(answer, StoredAnswer) for answer in stored)
    assert list(side.results) == results
    assert [*map(run_folder.encode, side.results)] == [*map(run_folder.encode, results)]
    assert run_folder.decisive_digest(side.results) == run_folder.decisive_digest(results)
    assert run_folder.answers_digest(side.results) == run_folder.answers_digest(results)
    assert stored == [*ANSWERS[:2]]
    assert stored[0] != stored[1]
    assert pickle.loads(pickle.dumps(stored[0])) == ANSWERS[0]
    changed = replace(stored[0], text="B")
    assert (type(changed), changed) == (Answer, replace(results[0].answer, text="B"))


def test_runs_share_equal_questions_and_no_others(tmp_path: Path) -> None:
    others = [replace(ITEM, options={"B": "liver", "A": "lung"}), replace(ITEM, tags={"organ": ("liver",)}), ITEM]
    folders = [tmp_path / f"run{n}" for n in range(4)]
    for folder, item in zip(folders, [ITEM, *others], strict=True):
        written(folder, item)
    items = [side.results[0].item for side in comparing.load_runs(folders)]
    assert [item is items[0] for item in items] == [True, False, False, True]
    assert [[*item.options] for item in items] == [["A", "B"], ["B", "A"], ["A", "B"], ["A", "B"]]


def test_of_many_runs_the_last_ones_hold_their_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = written(tmp_path / "run")
    first = comparing.load(tmp_path / "run")
    monkeypatch.setattr(stored_answers, "MOST_OPEN", 0)
    second = comparing.load(tmp_path / "run")
    assert [type(side.results[0].answer) for side in (first, second)] == [StoredAnswer, Answer]
    assert first.results == second.results == tuple(results)


def test_a_folder_may_be_replaced_and_grow_while_it_is_compared(tmp_path: Path) -> None:
    results = written(tmp_path / "run")
    side = comparing.load(tmp_path / "run")
    path = tmp_path / "run" / run_folder.RESULTS
    with path.open("ab") as file:
        file.write(b"{}\n")
    assert list(side.results) == results
    again = comparing.load(tmp_path / "run")
    run_folder.write_atomic(path, b"")
    assert list(again.results) == results


def test_a_file_that_was_written_over_is_an_error(tmp_path: Path) -> None:
    written(tmp_path / "run")
    side = comparing.load(tmp_path / "run")
    path = tmp_path / "run" / run_folder.RESULTS
    path.write_bytes(b" " * path.stat().st_size)
    answer = side.results[0].answer
    assert answer is not None
    with pytest.raises(DataError, match="was changed while its answers were read"):
        answer.text  # noqa: B018
