from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from math import exp
from pathlib import Path
from typing import Any

import openpyxl
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import judging
from medvqa.backends import pytest_medvqa_backends
from medvqa.backends.baselines import Echo, Majority, Random
from medvqa.backends.replay import FORMATS, Replay, read
from medvqa.benchmarks import mediconfusion
from medvqa.items import (
    Answer,
    AnswerError,
    DataError,
    DataWarning,
    Item,
    Kind,
    Model,
    Prompt,
    Result,
    Score,
    Technique,
    UsageError,
)
from medvqa.protocols.protocol import NEEDS
from medvqa.records import run_folder
from medvqa.scoring import likeliest
from medvqa.tables import limits
from support.laws import examples

(MEDICONFUSION,) = mediconfusion.BENCHMARKS
REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "mediconfusion"


def prompt(item: str, *, letters: str = "", kind: Kind = "single_choice", **more: Any) -> Prompt:
    options = {letter: f"option {letter}" for letter in letters}
    return Prompt("?", benchmark="bench", item=item, kind=kind, options=options, **more)


def item(item_id: str, *answers: str, kind: Kind = "single_choice", benchmark: str = "bench") -> Item:
    return Item(id=item_id, benchmark=benchmark, kind=kind, question="?", answers=answers)


def texts(model: Model, prompts: Iterable[Prompt]) -> list[str]:
    answers = model.generate(list(prompts))
    assert all(isinstance(answer, Answer) for answer in answers), answers
    return [answer.text for answer in answers if isinstance(answer, Answer)]


def refusal(model: Model, asked: Prompt) -> str:
    (answer,) = model.generate([asked])
    assert isinstance(answer, AnswerError)
    return str(answer)


def test_shipped_backends_are_models() -> None:
    backends = {kind.name: kind for kind in pytest_medvqa_backends()}
    assert set(backends) == {"replay", "human", "random", "majority", "echo", "openai", "hf", "ray", "serve", "vllm"}
    assert [name for name, kind in backends.items() if kind.wraps] == ["ray"]
    every = frozenset(NEEDS.values())
    for name, backend in backends.items():
        if backend.wraps:
            continue
        letters = frozenset({"generate", "option_logprobs"})
        words = frozenset({"generate"})
        able = {"majority": words, "echo": words, "human": words, "openai": letters, "serve": letters}.get(name, every)
        assert backend("x").capabilities == able
    for model in (Random("7"), Majority(""), Echo("A")):
        assert isinstance(model, Model)


@pytest.mark.parametrize(("name", "argument"), [("random", "x"), ("majority", "A"), ("echo", ""), ("replay", "absent")])
def test_a_wrong_argument_can_be_found_early(name: str, argument: str) -> None:
    with pytest.raises(UsageError, match=f"^--model={name}:"):
        {kind.name: kind for kind in pytest_medvqa_backends()}[name](argument).check()


def test_importing_the_backends_is_light() -> None:
    code = "import sys, medvqa.backends as b; b.pytest_medvqa_backends(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "medvqa.backends.replay" in modules
    assert not {"pandas", "numpy", "openpyxl", "PIL", "scipy", "pytest"} & set(modules)


# random


@given(st.permutations([str(number) for number in range(12)]), st.integers(1, 12))
def test_random_depends_on_the_item_alone(order: list[str], size: int) -> None:
    prompts = {number: prompt(number, letters="ABCDE") for number in order}
    alone = {number: texts(Random("3"), [asked])[0] for number, asked in prompts.items()}
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    together = {
        number: text
        for batch in batches
        for number, text in zip(batch, texts(Random("3"), [prompts[n] for n in batch]), strict=True)
    }
    assert alone == together


def test_random_is_uniform_over_the_options() -> None:
    draws = Counter(texts(Random(), [prompt(str(number), letters="ABCDE") for number in range(5000)]))
    assert set(draws) == set("ABCDE")
    # Chi-squared with 4 degrees of freedom exceeds 23.5 once in 10,000.
    assert sum((draws[letter] - 1000) ** 2 / 1000 for letter in "ABCDE") < 23.5


def test_random_is_uniform_over_the_nonempty_sets() -> None:
    asked = [prompt(str(number), letters="ABC", kind="multiple_response") for number in range(7000)]
    draws = Counter(texts(Random(), asked))
    assert set(draws) == {"A", "B", "C", "A,B", "A,C", "B,C", "A,B,C"}
    assert sum((count - 1000) ** 2 / 1000 for count in draws.values()) < 27.9  # 6 degrees of freedom


def test_random_differs_between_seeds_benchmarks_and_items() -> None:
    asked = [prompt(str(number), letters="ABCD") for number in range(200)]
    elsewhere = [Prompt("?", benchmark="other", item=p.item, options=p.options) for p in asked]
    draws = [texts(Random(), asked), texts(Random("1"), asked), texts(Random(), elsewhere)]
    for left, right in ((0, 1), (0, 2), (1, 2)):
        agreement = sum(a == b for a, b in zip(draws[left], draws[right], strict=True))
        assert 20 < agreement < 85  # 50 expected, standard deviation 6
    assert texts(Random("0"), asked) == draws[0]
    assert (Random().title, Random("7").title) == ("random", "random:7")


@pytest.mark.parametrize("technique", ["gd", "ps"])
def test_random_weighs_options_uniformly_and_apart_for_each_technique(technique: Technique) -> None:
    asked = [prompt(str(number), letters="ABCDE", technique=technique) for number in range(5000)]
    told = [answer.option_logprobs for answer in Random().generate(asked) if isinstance(answer, Answer)]
    assert all(sum(map(exp, each.values())) == pytest.approx(1) for each in told)
    draws = [likeliest(each, technique) for each in told]
    assert sum((draws.count(letter) - 1000) ** 2 / 1000 for letter in "ABCDE") < 23.5  # as above
    other = prompt("1", letters="ABCDE", technique="ps" if technique == "gd" else "gd")
    assert Random().generate([other])[0] != Random().generate(asked[1:2])[0]
    assert Random().generate(asked[7:8]) == Random().generate(asked[5:10])[2:3]


def test_random_draws_open_answers_from_the_key() -> None:
    colours = [item(str(n), answer, kind="short_answer") for n, answer in enumerate(["red", "red", "blue", "green"])]
    others = [item("j", "yes", kind="judgment"), item("o", "large", kind="short_answer", benchmark="other")]
    model, shuffled = Random(), Random()
    model.fit([*colours, *others])
    shuffled.fit([*others, *reversed(colours)])
    asked = [prompt(str(number), kind="short_answer") for number in range(300)]
    draws = Counter(texts(model, asked))
    assert set(draws) == {"red", "blue", "green"}
    assert min(draws.values()) > 60  # 100 expected of each, however frequent it is in the key
    assert texts(shuffled, asked) == texts(model, asked)
    assert texts(model, [prompt("x", kind="judgment")]) == ["yes"]


def test_random_counts_one_reference_of_an_item() -> None:
    model = Random()
    model.fit([item("1", "naevus", "mole", kind="short_answer")])
    assert set(texts(model, [prompt(str(n), kind="short_answer") for n in range(20)])) == {"naevus"}


def test_random_says_when_there_is_nothing_to_draw_from() -> None:
    model = Random()
    model.fit([item("1", kind="short_answer")])
    assert refusal(model, prompt("1", kind="short_answer")) == (
        "random has nothing to draw from: 1 (short_answer) has no options, and bench no reference answers to "
        "questions of that kind"
    )


def test_random_needs_a_whole_number() -> None:
    with pytest.raises(UsageError, match=r"^--model=random:x: the seed must be a whole number, such as --model=ran"):
        Random("x").check()


# majority and echo


def test_majority_is_the_most_frequent_key_of_benchmark_and_kind() -> None:
    model = Majority()
    model.fit(
        [
            *(item(f"s{n}", letter) for n, letter in enumerate("ABBCC")),
            *(item(f"o{n}", "D", benchmark="other") for n in range(9)),
            *(item(f"m{n}", *key, kind="multiple_response") for n, key in enumerate(["A", "CA", "AC"])),
            *(item(f"j{n}", answer, kind="judgment") for n, answer in enumerate(["no", "yes", "yes"])),
            item("w"),
        ]
    )
    asked = [prompt("1", letters="ABCD"), prompt("2", kind="multiple_response"), prompt("3", kind="judgment")]
    assert texts(model, asked) == ["B", "A,C", "yes"]


@given(
    st.lists(st.sampled_from("ABCDE"), min_size=1).flatmap(lambda key: st.tuples(st.just(key), st.permutations(key)))
)
def test_majority_does_not_depend_on_the_order(keys: tuple[list[str], list[str]]) -> None:
    answers = []
    for key in keys:
        model = Majority()
        model.fit(item(str(number), letter) for number, letter in enumerate(key))
        answers += texts(model, [prompt("1")])
    assert answers[0] == answers[1]
    assert keys[0].count(answers[0]) == max(map(keys[0].count, "ABCDE"))


def test_majority_without_a_key() -> None:
    model = Majority()
    model.fit([item("1"), item("2", "yes", kind="judgment")])
    assert refusal(model, prompt("1")) == (
        "majority needs an answer key, and that of bench is withheld for single_choice"
    )


def test_majority_takes_no_argument() -> None:
    with pytest.raises(UsageError) as raised:
        Majority("A").check()
    assert str(raised.value) == ("--model=majority:A: majority takes no argument; a constant answer is --model=echo:A")


def test_echo() -> None:
    model = Echo("A patient: 1")
    assert model.title == "echo:A patient: 1"
    assert texts(model, [prompt("1"), prompt("2", kind="judgment")]) == ["A patient: 1"] * 2
    with pytest.raises(UsageError, match=r"^--model=echo: echo needs the text .* such as --model=echo:A$"):
        Echo("").check()


# replay: the formats

Table = list[tuple[str, str]]


def as_tsv(rows: Table, path: Path) -> None:
    pandas.DataFrame(rows, columns=["index", "prediction"]).to_csv(path, sep="\t", index=False, quoting=1)


def as_csv(rows: Table, path: Path) -> None:
    pandas.DataFrame(rows, columns=["Index", "Prediction"]).to_csv(path, index=False, encoding="utf-8-sig")


def as_xlsx(rows: Table, path: Path) -> None:
    frame = pandas.DataFrame([("N/A", *row) for row in rows], columns=["answer", "index", "prediction"])
    with path.open("wb") as file:
        frame.to_excel(file, index=False, engine="openpyxl")


def as_jsonl(rows: Table, path: Path) -> None:
    path.write_text("".join(json.dumps({"id": index, "response": text}) + "\n\n" for index, text in rows), "utf-8")


def as_json(rows: Table, path: Path) -> None:
    records = [{"index": index, "prediction": text} for index, text in rows]
    path.write_text(json.dumps(records, indent=4, ensure_ascii=False), "utf-8")


def as_results(rows: Table, path: Path) -> None:
    lines = [
        {"run": "r", "item": {"id": index, "benchmark": "bench"}, "answer": {"text": text}, "technique": "mc"}
        for index, text in rows
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


WRITERS = [as_tsv, as_csv, as_xlsx, as_jsonl, as_json, as_results]

# What XML cannot hold is left out, and the carriage return, which it normalises.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=40)
LONG = st.text(st.sampled_from("AB \"',;\t\n={[#"), max_size=200)
IDS = st.lists(st.from_regex(r"[a-zA-Z_/é-]{1,9}|[1-9][0-9]{0,5}", fullmatch=True), unique=True, min_size=1, max_size=8)


@pytest.mark.parametrize("write", WRITERS)
@examples(40)
@given(data=st.data())
def test_tables_come_back_as_written(tmp_path_factory: Any, write: Callable[..., None], data: st.DataObject) -> None:
    rows = [(index, data.draw(TEXT | LONG)) for index in data.draw(IDS)]
    path = tmp_path_factory.getbasetemp() / "answers"
    write(rows, path)
    assert texts(Replay(str(path)), [prompt(index) for index, _ in rows]) == [text for _, text in rows]


def test_the_official_result_file_comes_back() -> None:
    path = REFERENCE / "gpt4o_mc_predictions.json"
    if not path.is_file():
        pytest.skip("the recorded GPT-4o answers are not beside the repository")
    model = Replay(str(path))
    pairs = json.loads((REFERENCE / "dataset.json").read_text())
    ids = [f"{pair}/{number}" for pair in pairs for number in (1, 2)]
    responses = texts(model, [prompt(item_id) for item_id in ids])
    # The run's own totals: 20 of 352 responses name no option.
    assert len(responses) == 352
    assert sum(response not in ("A", "B") for response in responses) == 20
    recorded = json.loads(path.read_text())
    assert responses[4:6] == [recorded["10003"]["answer"][im]["answer"]["full_answer"] for im in ("im1", "im2")]
    assert model._unknown_ids([item(item_id) for item_id in ids]) == []
    assert model.title == "replay:gpt4o_mc_predictions.json"


@pytest.mark.parametrize("indent", [None, 4])
def test_the_official_result_file_in_both_depths(tmp_path: Path, indent: int | None) -> None:
    flat = {"full_answer": "B", "A": 0, "B": 10}
    nothing = {"full_answer": None, "A": 0, "B": 0}
    pairs = {
        "10001": {"answer": {"im1": flat, "im2": nothing}, "score": {}},
        "10002": {"answer": {"im1": {"answer": flat, "logprob": -0.1}, "im2": {"answer": nothing}}, "score": {}},
    }
    path = tmp_path / "gpt_mc.txt"
    path.write_text(json.dumps(pairs, indent=indent))
    asked = [prompt(item_id) for item_id in ("10001/1", "10001/2", "10002/1", "10002/2")]
    assert texts(Replay(str(path)), asked) == ["B", "", "B", ""]


def free_form(text: str | None, a: object, b: object, reason: str | None = "Close.") -> dict[str, Any]:
    return {"A": a, "B": b, "gpt_reason": reason, "full_answer": text}


def test_free_form_results_answer_one_technique_and_bring_their_judge(tmp_path: Path) -> None:
    pairs = {
        "10001": {"answer": {"im1": free_form("A stent. " * 2000, 9, 2), "im2": free_form(None, 1, 1)}},
        "10002": {"answer": {"im1": {"answer": free_form("Air", 0, 0, "")}, "im2": free_form("Water", 5, 5, None)}},
    }
    path = tmp_path / "gpt_gpt4.json"
    path.write_text(json.dumps(pairs))
    ids = ("10001/1", "10001/2", "10002/1", "10002/2")
    model = Replay(str(path))
    assert Replay(str(path)).judged()
    assert texts(model, [prompt(id, technique="ff") for id in ids]) == ["A stent. " * 2000, "", "Air", "Water"]
    assert "has no answer for 10001/1; asked: bench mc 10001/1" in refusal(model, prompt("10001/1"))

    def judged(id: str, text: str) -> str:
        question = replace(
            item(id), benchmark="mediconfusion", pair_id=id, options={"A": "a", "B": "b"}, answers=("A",)
        )
        by_file = judging.Settings(recorded=True)
        found = judging.case_of(MEDICONFUSION, question, "ff", Answer(text), Score(None, "unscored"), by_file)
        assert found is not None
        assert found.template == "recorded/closeness"
        (said,) = model.generate([found.prompts[0]])
        return said.text if isinstance(said, Answer) else str(said)

    assert judged("10001/1", "A stent. " * 2000) == "A: 9\nB: 2\nYour explanation: Close."
    assert judged("10002/2", "Water") == "A: 5\nB: 5\nYour explanation: "
    assert judged("10002/1", "Air") == f"{path} has no scores of a judge for 10002/1"
    assert judged("10002/2", "Fire") == f"{path} has the scores of a judge for 10002/2, but for another answer"
    signed = judging.Settings(recorded=True).signature(MEDICONFUSION, "ff")
    assert signed["judge_prompts"] == "recorded/closeness"


def test_a_result_file_of_two_kinds_of_answers_is_refused(tmp_path: Path) -> None:
    mixed = {"im1": free_form("Air", 9, 2), "im2": {"full_answer": "A", "A": 10, "B": 0}}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"10001": {"answer": mixed}}))
    with pytest.raises(DataError, match=r"some answers have a gpt_reason and some have none, .* that differs: 10001/2"):
        Replay(str(path)).check()


@pytest.mark.parametrize("content", ["", "{", '{"gpt_reason": 1}', '[{"id": 1, "response": "\\"gpt_reason\\""}]'])
def test_no_other_file_brings_a_judge(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    assert not Replay(str(path)).judged()
    assert not Replay(str(tmp_path / "none.json")).judged()


def test_ids_of_spreadsheets(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["INDEX", "note", "prediction "])  # type: ignore[union-attr]
    for row in (
        (17, None, "A"),
        (18.0, None, "B_x000D_\n"),
        ("19.0", None, 3),
        (" 20 ", None, None),
        (),
        (21, 1, True),
    ):
        book.active.append(row)  # type: ignore[union-attr]
    book.save(tmp_path / "x.xlsx")
    answers = texts(Replay(str(tmp_path / "x.xlsx")), [prompt(str(number)) for number in range(17, 22)])
    assert answers == ["A", "B\r\n", "3", "", "True"]
    (tmp_path / "x.csv").write_text("index,prediction\n17.0,A\n18.50,B\nv1.0,C\n")
    assert texts(Replay(str(tmp_path / "x.csv")), map(prompt, ("17", "18.50", "v1.0"))) == ["A", "B", "C"]


def test_values_that_look_missing_are_text(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("index\tprediction\nNA\tN/A\nnull\tNone\n")
    assert texts(Replay(str(tmp_path / "x.tsv")), map(prompt, ("NA", "null"))) == ["N/A", "None"]


def test_a_long_answer_is_read_whole_and_the_csv_module_left_alone(tmp_path: Path) -> None:
    import csv

    limit = csv.field_size_limit()
    as_csv([("1", "x" * 300_000)], tmp_path / "x.csv")
    assert texts(Replay(str(tmp_path / "x.csv")), [prompt("1")]) == ["x" * 300_000]
    assert csv.field_size_limit() == limit


def test_results_of_a_run(tmp_path: Path) -> None:
    whole = Answer("B", option_logprobs={"A": -2.5}, seconds=0.5, finish="length", usage={"input": 3})
    lines: list[tuple[str, Answer | None]] = [("1", None), ("2", Answer("A")), ("1", whole), ("3", None)]
    path = tmp_path / "results.jsonl"
    path.write_bytes(
        b"\n".join(
            run_folder.encode(Result("run", item(item_id), "digest", answer, Score(None, "error")))
            for item_id, answer in lines
        )
    )
    model = Replay(str(path))
    assert model.generate([prompt("1"), prompt("2")]) == [whole, Answer("A")]  # the last line counts
    assert refusal(model, prompt("3")) == f"{path} has no answer for 3: none was recorded"


def test_answers_belong_to_the_benchmark_and_technique_that_the_file_tells(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [
        {"id": "1", "response": "bench mc", "benchmark": "bench", "technique": "mc"},
        {"id": "1", "response": "bench ff", "benchmark": "bench", "technique": "ff"},
        {"id": "1", "response": "other", "benchmark": "other", "technique": None},
        {"id": 2, "response": "any"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    model = Replay(str(path))
    assert texts(model, [prompt("1"), prompt("1", technique="ff"), Prompt("?", benchmark="other", item="1")]) == [
        "bench mc",
        "bench ff",
        "other",
    ]
    assert texts(model, [prompt("2"), Prompt("?", benchmark="third", item="2", technique="ps")]) == ["any", "any"]
    assert refusal(model, prompt("1", technique="gd")) == (
        f"{path} has no answer for 1; asked: bench gd 1, first of 4 recorded: bench mc 1"
    )


def test_a_failed_request_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    as_csv([("1", "Failed to obtain answer via API. "), ("2", "B")], path)
    assert refusal(Replay(str(path)), prompt("1")) == f"{path} has no answer for 1: none was recorded"
    path.write_text('{"id": 1, "response": null}\n{"id": 2, "response": ""}')
    assert refusal(Replay(str(path)), prompt("1")).endswith("none was recorded")
    assert texts(Replay(str(path)), [prompt("2")]) == [""]


@pytest.mark.parametrize("names", [("id", "response"), ("index", "prediction")])
@pytest.mark.parametrize("finish", ["finish", "finish_reason"])
def test_a_row_may_say_that_the_answer_was_cut_off(tmp_path: Path, names: tuple[str, str], finish: str) -> None:
    path = tmp_path / "x.jsonl"
    rows = [dict(zip((*names, finish), row, strict=True)) for row in (("1", "A", "length"), ("2", "B", None))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = Replay(str(path)).generate([prompt("1"), prompt("2")])
    assert answers == [Answer("A", finish="length"), Answer("B", finish="")]


def test_an_item_that_the_file_lacks(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    as_csv([("1", "A"), ("2", "B")], path)
    answers = Replay(str(path)).generate([prompt("2"), prompt("10003/1")])
    assert answers[0] == Answer("B", finish="")
    assert str(answers[1]) == (f"{path} has no answer for 10003/1; asked: bench mc 10003/1, first of 2 recorded: 1")


def test_benchmarks_that_the_file_lacks_are_named_before_they_are_asked(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    as_csv([("1", "A")], path)
    said = f"{path} has no answer to any question of other: type --benchmark=bench"
    with pytest.warns(DataWarning, match=re.escape(said)):
        Replay(str(path)).fit([item("1"), item("2"), replace(item("3"), benchmark="other")])


def test_a_file_without_any_answer_to_the_run_is_refused_before_it_asks(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    as_csv([("zz1", "A"), ("zz2", "A")], path)
    said = f"{path} has 2 answers, and none to a question of bench; the first is to zz1. Type the benchmark"
    with pytest.raises(DataError, match=re.escape(said)):
        Replay(str(path)).fit([item("1"), item("2")])


def test_answers_to_unknown_items_are_warned_about_once(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    as_csv([(str(number), "A") for number in range(9)], path)
    with pytest.warns(DataWarning) as caught:
        Replay(str(path)).fit([item("1"), item("3")])
    assert [str(warning.message) for warning in caught] == [
        f"{path} has 7 answers to items not in the benchmarks of this run: 0, 2, 4, 5, 6, ..."
    ]
    with pytest.warns(DataWarning, match=r"has 1 answer to an item not in the benchmarks of this run: 8$"):
        Replay(str(path)).fit([item(str(number)) for number in range(8)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Replay(str(path)).fit([item(str(number)) for number in range(9)])


def test_a_run_need_not_take_all_recorded_benchmarks(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    as_results([("1", "A"), ("2", "B")], path)
    assert Replay(str(path))._unknown_ids([item("1", benchmark="other")]) == []
    assert Replay(str(path))._unknown_ids([item("1")]) == ["2"]


def test_the_fingerprint_is_that_of_the_content(tmp_path: Path) -> None:
    prints = []
    for name, text in (("a", "B"), ("b", "B"), ("c", "A")):
        as_csv([("1", text)], tmp_path / name)
        prints.append(Replay(str(tmp_path / name)).fingerprint())
    assert prints[0] == prints[1] != prints[2]
    assert len(prints[0]) == 64


@pytest.mark.parametrize("write", [as_jsonl, pytest.param(as_results, marks=pytest.mark.slow)])
def test_100_000_lines_are_all_read(tmp_path: Path, write: Callable[..., None]) -> None:
    path = tmp_path / "answers"
    write([(str(number), "The correct answer is B.") for number in range(100_000)], path)
    assert len(read(path).answers) == 100_000


# replay: bad files


@pytest.mark.parametrize("argument", ["", "absent.json", "folder", "a\0b", "x" * 5000])
def test_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError) as raised:
        Replay(argument).check()
    expected = {
        "": "--model=replay: replay needs a file of recorded answers: --model=replay:FILE",
        "folder": "--model=replay:folder: a folder; a run's answers are in its results.jsonl",
    }
    assert str(raised.value) == expected.get(argument, f"--model=replay:{argument}: no such file")


@pytest.mark.skipif(not os.path.isfile("/proc/self/mem"), reason="needs a file whose first byte cannot be read")
def test_an_unreadable_file() -> None:
    with pytest.raises(UsageError, match=r"^--model=replay:/proc/self/mem: cannot be read: Input/output error$"):
        Replay("/proc/self/mem").check()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f": empty file; {FORMATS}"),
        (b"\xef\xbb\xbf \n", f": empty file; {FORMATS}"),
        (b"\x89PNG\r\n\x1a\n\xff", f" line 1: not UTF-8: invalid start byte; {FORMATS}"),
        (b"index,prediction\n1,A\n2,\xff\n", f" line 3: not UTF-8: invalid start byte; {FORMATS}"),
        (b"PK\x03\x04 and no more", ": no readable XLSX: BadZipFile: File is not a zip file; " + FORMATS),
        (b"some text\n", f": missing column index, prediction; found: some text; {FORMATS}"),
        (b"index,answer\n1,A\n", f": missing column prediction; found: index, answer; {FORMATS}"),
        (b"index,prediction\n", f": no rows; {FORMATS}"),
        (b"index,prediction,PREDICTION\n1,A,B\n", ", first line: column 'prediction' occurs twice"),
        (
            b"index,prediction\n1,A\n\n2\n",
            " row 4: only 1 cells where the first line has 2; the file ends here, it may be truncated",
        ),
        (b"index,prediction\n1,A,B\n2,A\n", " row 2: more cells where the first line has 2"),
        (b'index,prediction\n1,A\n2,"B\n', " row 3: a quote is never closed, the file may be truncated"),
        (b'index,prediction\n1,"A\n\n"\n2,"B\n', " row 3 (line 5): a quote is never closed, the file may be truncated"),
        (b'index\tprediction\n1\t"A" B\n', " row 2: text follows a closing quote"),
        (b"index,prediction\n1,A\n2,B\n1,A\n", " row 4: answers 1, as row 2 does; keep one of them"),
        (b"index,prediction\n17,A\n17.0,A\n", " row 3: answers 17, as row 2 does; keep one of them"),
        (b"index,prediction\n ,A\n", " row 2, column 'index': blank"),
        (
            b'{"id": 1, "response": "A"}\n\n{"id": 1, "response": "B"}',
            " line 3: answers 1, as line 1 does; keep one of them",
        ),
        (b'{"id": 1, "response": "A"}\n{"id": 2, "resp', " line 2: not JSON: Input data was truncated"),
        (
            b'{"id": 1, "response": "A"}\n{"id": 2, "answer": "B"}',
            f" line 2: missing column response; found: id, answer; {FORMATS}",
        ),
        (b'{"id": 1, "response": "A"}\n7', f" line 2: Expected `object`, got `int`; {FORMATS}"),
        (b'{"id": 1, "response": ["A"]}', " line 1, column 'response': no text: ['A']"),
        (b'{"id": null, "response": "A"}', " line 1, column 'id': blank"),
        (
            b'{"id": 1, "response": "A"}\n{"id": 2, "response": "A", "response": "B"}',
            " line 2: the key 'response' occurs twice",
        ),
        (b'{"id": 1, "response": "A", "Response": "B"}', " line 1: column 'response' occurs twice"),
        (b'[{"id": 1, "response": "A", "RESPONSE": "B"}]', " record 1: column 'response' occurs twice"),
        (
            b'{"1": {"answer": {"im1": {"full_answer": "A"}, "im2": {"full_answer": "A"}}},'
            b' "1": {"answer": {"im1": {"full_answer": "B"}, "im2": {"full_answer": "A"}}}}',
            ": the key '1' occurs twice",
        ),
        (b'{"id": 1, "response": "A", "finish": ["length"]}', " line 1, column 'finish': no text: ['length']"),
        (
            b'{"id": 1, "response": "A", "technique": "CoT"}',
            " line 1, column 'technique': no technique 'CoT'; known: mc, gd, ps, ff",
        ),
        (b'[{"index": 1, "prediction": "A"}, 3]', f" record 2: Expected `object`, got `int`; {FORMATS}"),
        (b'[{"index": 1, "prediction": "A"}', ": not JSON: Expecting ',' delimiter: line 1 column 33"),
        (b"[]", f": no rows; {FORMATS}"),
        (b"{}", f": no rows; {FORMATS}"),
        (b"[" * 100_000, ": not JSON: nested too deep"),
        (b'{"a": "\xff"}', " line 1: not UTF-8: invalid start byte; "),
        (b'{"accuracy": 0.5}', f" line 1: missing column index, prediction; found: accuracy; {FORMATS}"),
        (b'{\n"10001": {"answer": {"im1": {"full_ans', ": not JSON: Unterminated string starting at: line 2 column 30"),
        (b'{"10001": {"answer": {"im1": {}}}}', " pair 10001: Object missing required field `im2` - at `$.answer`; "),
        (b'{"10001": {"answer": {"im1": {}, "im2": {}}}}', f" pair 10001: no full_answer in im1; {FORMATS}"),
        (b'{"item": {"id": 1}, "answer": null}', " line 1: no result: Expected `str`, got `int` - at `$.item.id`"),
        (b'{"item": {"id": "1"}, "answer": null}\n{"it', " line 2: no result: Input data was truncated"),
    ],
)
def test_a_bad_file_is_named_with_its_row(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "answers.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as raised:
        Replay(str(path)).check()
    assert str(raised.value).startswith(f"{path}{message}")


def test_missing_fields_are_listed_with_those_found(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"qid": 1, "Text": "A"}\n{"qid": 2}')
    with pytest.raises(DataError) as raised:
        read(path)
    assert str(raised.value) == (f"{path} line 1: missing column index, prediction; found: qid, text; {FORMATS}")


def sheet(path: Path, body: str) -> None:
    """Write a workbook whose first sheet has the given XML as its rows."""
    book = openpyxl.Workbook()
    buffer = BytesIO()
    book.save(buffer)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "xl/worksheets/sheet1.xml":
                content = content.replace(b"<sheetData></sheetData>", f"<sheetData>{body}</sheetData>".encode())
                assert body.encode() in content
            target.writestr(name, content)


def cells(*values: str) -> str:
    return "".join(f'<c t="inlineStr"><is><t>{value}</t></is></c>' for value in values)


HEADER = f'<row r="1">{cells("index", "prediction")}</row>'


def test_a_sheet_that_claims_too_many_rows(tmp_path: Path) -> None:
    sheet(tmp_path / "x.xlsx", f'{HEADER}<row r="99999999999">{cells("1", "A")}</row>')
    with pytest.raises(DataError, match=r"x\.xlsx: more than 1,048,576 rows$"):
        read(tmp_path / "x.xlsx")


def test_a_spreadsheet_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet(tmp_path / "x.xlsx", HEADER + f"<row>{cells('1', 'A' * 100_000)}</row>")
    monkeypatch.setattr(limits, "MAX_UNPACKED", 100_000)
    with pytest.raises(DataError, match=r"x\.xlsx: more than 100,000 bytes when unpacked; write it as CSV$"):
        read(tmp_path / "x.xlsx")


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "x.csv").open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(DataError, match=r"x\.csv: larger than 1,024 MiB$"):
        Replay(str(tmp_path / "x.csv")).check()


def test_a_date_is_no_answer(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"index": [1], "prediction": pandas.to_datetime(["2024-03-04"])})
    frame.to_excel(tmp_path / "x.xlsx", index=False)
    with pytest.raises(DataError, match=r"x\.xlsx row 2, column 'prediction': no text: 2024-03-04 00:00:00$"):
        read(tmp_path / "x.xlsx")


def xlsx_bytes() -> bytes:
    buffer = BytesIO()
    pandas.DataFrame({"index": [1, 2], "prediction": ["A", "=B"]}).to_excel(buffer, index=False)
    return buffer.getvalue()


SEEDS = [
    b'{"10001": {"answer": {"im1": {"full_answer": "A"}, "im2": {"answer": {"full_answer": null}}}}}',
    b'{"item": {"id": "1"}, "answer": {"text": "A"}}\n{"item": {"id": "2"}, "answer": null}\n',
    b'{"id": 1, "response": "A"}\n{"id": "2", "response": "B", "technique": "mc"}\n',
    b'index\tprediction\n1\t"A"\n2.0\tB\n',
    xlsx_bytes(),
]


@examples(300)
@given(st.sampled_from(SEEDS), st.data())
def test_damaged_files_are_read_or_are_data_errors(tmp_path_factory: Any, seed: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(seed)))
    damage = data.draw(st.binary(max_size=4))
    content = seed[:place] + damage + data.draw(st.sampled_from([b"", seed[place:], seed[place + len(damage) :]]))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    with suppress(DataError):
        assert read(path).answers
