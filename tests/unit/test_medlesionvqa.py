"""MedLesionVQA: lines become items of a split, prompts say what is asked, and damaged files are named."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks, metrics
from medvqa.benchmarks import medlesionvqa, origins
from medvqa.items import KINDS, Answer, Benchmark, DataError, DataWarning, Image, Item, Result
from medvqa.tags import lexicon
from support.laws import examples

VAL, TEST = medlesionvqa.BENCHMARKS

LINE = {
    "id": "17",
    "split": "val",
    "image": "images/17.jpg",
    "ability": "lesion_recognition",
    "attribute": None,
    "question_type": "multi_choice",
    "question": "Which lesions are {visible}?",
    "options": {"A": "papule", "B": "plaque", "C": "ulcer"},
    "answer": "AB",
    "modality_dependence": "multimodal",
    "language": "en",
    "meta": {"body_region": "forehead", "lesions": ["papule", "plaque"], "diseases": ["acne"]},
}
OPEN = {"options": None, "answer": "red", "question_type": "short_answer"}
MISSING = object()


def line(**changes: Any) -> dict[str, Any]:
    """A line with some values replaced, or left out where the change is MISSING."""
    return {key: value for key, value in (LINE | changes).items() if value is not MISSING}


def write(data: Path, *lines: Mapping[str, Any] | str | bytes, file: str = "val.jsonl") -> Path:
    """DATA/medlesionvqa/FILE with these lines; text and bytes as they are."""
    folder = data / "medlesionvqa"
    folder.mkdir(exist_ok=True)
    texts = [json.dumps(content) if isinstance(content, Mapping) else content for content in lines]
    (folder / file).write_bytes(b"\n".join(text if isinstance(text, bytes) else text.encode() for text in texts))
    return data


def load(data: Path, benchmark: Benchmark = VAL) -> list[Item]:
    return list(benchmark.items(data))


def ids(data: Path, benchmark: Benchmark) -> list[str]:
    return [item.id for item in load(data, benchmark)]


def test_a_line_becomes_an_item(tmp_path: Path) -> None:
    (item,) = load(write(tmp_path, line(attribute="color", device="phone")))
    assert item == Item(
        id="17",
        benchmark="medlesionvqa-val",
        kind="multiple_response",
        question="Which lesions are {visible}?",
        options={"A": "papule", "B": "plaque", "C": "ulcer"},
        answers=("A", "B"),
        images=(Image("medlesionvqa/images/17.jpg", str(tmp_path / "medlesionvqa/images/17.jpg")),),
        tags={
            "ability": ("lesion_recognition",),
            "attribute": ("color",),
            "question_type": ("multi_choice",),
            "modality_dependence": ("multimodal",),
            "language": ("en",),
            "body_region": ("head", "face", "forehead"),
            "lesion": ("papule", "plaque"),
            "disease": ("acne",),
        },
        cluster_id="medlesionvqa/images/17.jpg",
        extra={"device": "phone", "meta": LINE["meta"]},
    )


def test_a_window_is_that_of_all_images_of_the_line(tmp_path: Path) -> None:
    (item,) = load(write(tmp_path, line(image=["images/1.png", "images/2.png"], window=[0, 4095])))
    assert [image.window for image in item.images] == [(0, 4095), (0, 4095)]
    assert "window" not in item.extra


@pytest.mark.parametrize(
    ("question_type", "kind", "text"),
    [
        (
            "multi_choice",
            "multiple_response",
            "Which lesions are {visible}?\nA. papule\nB. plaque\nC. ulcer\nOne or more options are correct. "
            "Answer with the letters of all correct options, separated by commas.",
        ),
        ("judgment", "judgment", "Which lesions are {visible}?\nAnswer with your judgment only, such as yes or no."),
        (
            "fill_in_the_blank",
            "fill_in_the_blank",
            "Which lesions are {visible}?\nAnswer with the words that fill the blank only.",
        ),
        ("short_answer", "short_answer", "Which lesions are {visible}?\nAnswer briefly."),
    ],
)
def test_every_question_type_has_a_prompt_of_ours(tmp_path: Path, question_type: str, kind: str, text: str) -> None:
    changes: dict[str, Any] = {} if kind == "multiple_response" else OPEN
    (item,) = load(write(tmp_path, line(**{**changes, "question_type": question_type})))
    prompt = VAL.prompt(item, "mc")
    assert (item.kind, prompt.kind, prompt.text) == (kind, kind, text)
    assert prompt.images == item.images
    assert prompt.template.startswith("medlesionvqa/ours-")


def test_question_types_and_abilities_of_the_paper_are_known(tmp_path: Path) -> None:
    known = lexicon.medlesionvqa().dimensions
    assert set(known["question_type"].values) == set(medlesionvqa.KINDS)
    assert set(medlesionvqa.KINDS.values()) == set(KINDS) - {"single_choice"} == set(medlesionvqa.OURS)
    # Spelt as the paper prints them, they have the same tags.
    changes = {"ability": "Suggestion & Treatment", "modality_dependence": "Text-only"}
    (item,) = load(write(tmp_path, line(**OPEN | {"question_type": "fill-in-the-blank"}, **changes)))
    assert item.kind == "fill_in_the_blank"
    assert item.tags["ability"] == ("suggestion_treatment",)
    assert item.tags["modality_dependence"] == ("text_only",)


@pytest.mark.parametrize(
    ("answer", "letters"),
    [
        ("B", ("B",)),
        ("BA", ("A", "B")),
        ("A, C", ("A", "C")),
        ("A;B", ("A", "B")),
        (["C", "A"], ("A", "C")),
        ("AA", ("A",)),
        (None, ()),
    ],
)
def test_letters_are_read_from_the_key(tmp_path: Path, answer: object, letters: tuple[str, ...]) -> None:
    (item,) = load(write(tmp_path, line(answer=answer)))
    assert item.answers == letters


@pytest.mark.parametrize(
    ("answer", "texts"),
    [("red", ("red",)), (["red", "pink", "red"], ("red", "pink")), (None, ())],
)
def test_open_questions_have_reference_texts(tmp_path: Path, answer: object, texts: tuple[str, ...]) -> None:
    (item,) = load(write(tmp_path, line(**OPEN | {"answer": answer})))
    assert item.answers == texts


@pytest.mark.parametrize(
    ("image", "names"),
    [
        (None, []),
        ([], []),
        ("a.png", ["medlesionvqa/a.png"]),
        (["x/b.png", "./x/../a.png"], ["medlesionvqa/x/b.png", "medlesionvqa/a.png"]),
    ],
)
def test_a_question_has_any_number_of_images(tmp_path: Path, image: object, names: Sequence[str]) -> None:
    (item,) = load(write(tmp_path, line(image=image)))
    assert [one.name for one in item.images] == names
    assert [one.path for one in item.images] == [str(tmp_path / name) for name in names]


def test_missing_descriptions_leave_no_tags(tmp_path: Path) -> None:
    bare = dict.fromkeys(("attribute", "modality_dependence", "language", "meta"), MISSING)
    (item,) = load(write(tmp_path, line(**bare)))
    assert item.tags == {"ability": ("lesion_recognition",), "question_type": ("multi_choice",)}
    (item,) = load(write(tmp_path, line(attribute=" ", modality_dependence="", language=None, meta=None)))
    assert item.tags == {"ability": ("lesion_recognition",), "question_type": ("multi_choice",)}


def test_images_patients_and_cases_join_items(tmp_path: Path) -> None:
    write(
        tmp_path,
        line(id=1, image="a.jpg"),
        line(id=2, image=["b.jpg", "./a.jpg"]),
        line(id=3, image="b.jpg", meta={"patient_id": 7}),
        line(id=4, image=None, meta={"patient_id": 7, "case_id": "x"}),
        line(id=5, image="c.jpg", meta={"case_id": "x"}),
        line(id=6, image="d.jpg", meta={"case_id": 7}),
        line(id=7, image=None),
    )
    clusters = {item.id: item.cluster_id for item in load(tmp_path)}
    assert len({clusters[k] for k in "12345"}) == 1
    assert clusters["6"] not in (clusters["1"], None)
    assert clusters["7"] is None


@examples(50)
@given(
    st.lists(st.tuples(st.sampled_from(["val", "test"]), st.sampled_from(["one", "two"])), min_size=1, max_size=12),
)
def test_each_item_is_in_the_benchmark_of_its_split(places: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        for file in {file for _, file in places}:
            lines = [line(id=k, split=split) for k, (split, where) in enumerate(places) if where == file]
            write(data, *lines, file=f"{file}.jsonl")
        for benchmark, split in ((VAL, "val"), (TEST, "test")):
            expected = {str(k) for k, (other, _) in enumerate(places) if other == split}
            found = origins.files_of(benchmark, data)
            # Found where there is something to find: a run over what is found must not end for want of items.
            assert {path.stem for path in found} == {file for other, file in places if other == split}
            if found:
                assert set(ids(data, benchmark)) == expected
                assert {item.benchmark for item in load(data, benchmark)} == {benchmark.name}


def test_all_splits_of_given_files(tmp_path: Path) -> None:
    write(tmp_path, line(id="1"), line(id="2", split="test"))
    path = tmp_path / "medlesionvqa" / "val.jsonl"
    items = list(medlesionvqa.items_of([path], root=tmp_path, split=None, benchmark="phantom-lesions"))
    assert [(item.id, item.benchmark) for item in items] == [("1", "phantom-lesions"), ("2", "phantom-lesions")]


def test_the_group_is_what_is_found_of_it(tmp_path: Path) -> None:
    known = {each.name: each for each in medlesionvqa.BENCHMARKS}
    write(tmp_path, line())
    assert benchmarks.choose(["medlesionvqa"], known, tmp_path) == [VAL]
    assert benchmarks.choose([], known, tmp_path) == [VAL]
    with pytest.raises(benchmarks.UsageError, match=r"'medlesionvqa-test' .* not there.*github.com/bytedance"):
        benchmarks.choose(["medlesionvqa-test"], known, tmp_path)


def test_a_byte_order_mark_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, b"\xef\xbb\xbf" + json.dumps(line()).encode(), "", line(id="18"), " ", "")
    assert ids(tmp_path, VAL) == ["17", "18"]


def test_a_warning_names_what_the_lexicon_does_not_list(tmp_path: Path) -> None:
    write(tmp_path, line(ability="guessing"), line(id="18", ability="guessing"))
    with pytest.warns(DataWarning) as caught:
        first, _ = load(tmp_path)
    assert [str(one.message) for one in caught] == [
        "ability: not in the lexicon of medlesionvqa, kept as they are: guessing"
    ]
    assert first.tags["ability"] == ("guessing",)


OTHER = r"\. Is this the file of another data set\?$"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r": empty file$"),
        (" \n\n", r": empty file$"),
        ("{", r" line 1: not JSON: "),
        (b'{"id": "\xff"}', r" line 1: not UTF-8: invalid start byte$"),
        ("[" * 10_000, r" line 1: not JSON: "),
        (" " * 2**20 + "1", r" line 1: longer than 1 MiB$"),
        ("17", r" line 1: Expected `object`, got `int`" + OTHER),
        ('{"10001": {"im_1": "train/radiology/images/ROCO_28778.jpg"}}', r" line 1: .*missing.*field `id`" + OTHER),
        (line(image=MISSING, images="17.jpg"), r" line 1: Object missing required field `image`" + OTHER),
        (line(answer=MISSING), r" line 1: Object missing required field `answer`" + OTHER),
        (line(answer=True), r" line 1: Expected `str \| array \| null`, got `bool` - at `\$\.answer`" + OTHER),
        (line(meta={"lesions": 3}), r" line 1: .*`\$\.meta\.lesions`" + OTHER),
        (line(split="train"), r" line 1: no split 'train'; known: val, test$"),
        (
            line(question_type="ranking"),
            r" line 1: no question type 'ranking'; known: multi_choice, judgment, fill_in_the_blank, short_answer$",
        ),
        (line(options=None), r" line 1: a multi_choice question has no options$"),
        (line(question_type="judgment"), r" line 1: a judgment question has options$"),
        (line(options={"a": "x"}), r" line 1: option 'a'; options are called A to Y \(Z stands for none of them\)$"),
        (line(options={"A": "x", "Z": "y"}), r" line 1: option 'Z'; options are called A to Y"),
        (line(answer="AD"), r" line 1: answer 'D' is none of its options A, B, C$"),
        (line(answer="papule"), r" line 1: answer 'a' is none of its options A, B, C$"),
        (line(answer=" "), r" line 1: the answer is empty; it is null where it is withheld$"),
        (line(**OPEN | {"answer": []}), r" line 1: the answer is empty; it is null where it is withheld$"),
        (line(window=[0]), r" line 1: Expected `array` of length 2, got 1 - at `\$\.window`" + OTHER),
        (line(window=[7, 7]), r" line 1: image .*17\.jpg: window \(7\.0, 7\.0\) is not two different numbers$"),
        (line(image="../../etc/passwd"), r" line 1: path '../../etc/passwd' leaves the data folder$"),
        (line(image=["a.jpg", "/etc/passwd"]), r" line 1: path '/etc/passwd' leaves the data folder$"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=r"^medlesionvqa/val\.jsonl" + message):
        load(write(tmp_path, content))


def test_errors_name_the_line_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, line(), "", line(id="18", split="test"), line(id="19"), "{")
    with pytest.raises(DataError, match=r"^medlesionvqa/val\.jsonl line 5: not JSON: "):
        load(tmp_path)


def test_an_id_that_occurs_twice_is_said(tmp_path: Path) -> None:
    write(tmp_path, line(id="1"), line(id="17"), file="a.jsonl")
    write(tmp_path, line(id=17), file="b.jsonl")
    with pytest.raises(
        DataError, match=r"^medlesionvqa/b\.jsonl line 1: id '17' is also that of medlesionvqa/a\.jsonl line 2$"
    ):
        load(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=8,
)


@pytest.mark.filterwarnings("ignore::medvqa.items.DataWarning")
@examples(200)
@given(
    st.binary(max_size=200)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.builds(lambda key, value: json.dumps(LINE | {key: value}).encode(), st.sampled_from([*LINE]), json_values)
)
def test_no_content_raises_anything_but_data_errors(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name), content) / "medlesionvqa"
        try:
            items = load(Path(name))
        except DataError as error:
            assert str(error).startswith("medlesionvqa/val.jsonl")
        else:
            paths = [Path(image.path) for item in items for image in item.images]
            assert all(path.is_relative_to(folder.resolve()) for path in paths)


def scored(data: Path, *answers: tuple[dict[str, Any], str]) -> list[Result]:
    """Results for lines and the responses to them."""
    items = load(write(data, *(content for content, _ in answers)))
    return [
        Result("run", item, "", Answer(text), VAL.score(item, Answer(text)))
        for item, (_, text) in zip(items, answers, strict=True)
    ]


@pytest.mark.parametrize(
    ("response", "outcome", "value"),
    [("A, B", "correct", 1.0), ("B", "partial", 0.5), ("A,B,C", "wrong", 0.0), ("C", "wrong", 0.0)],
)
def test_choices_have_the_partial_credit_of_the_paper(
    tmp_path: Path, response: str, outcome: str, value: float
) -> None:
    (result,) = scored(tmp_path, (line(), response))
    assert (result.score.outcome, result.score.value) == (outcome, value)


def test_open_answers_wait_for_a_judge(tmp_path: Path) -> None:
    (result,) = scored(tmp_path, (line(**OPEN), "red"))
    assert (result.score.outcome, result.score.value) == ("unscored", None)


def test_both_averages_are_named_and_there_is_no_published_rule(tmp_path: Path) -> None:
    for benchmark in (VAL, TEST):
        assert benchmark.owners.rule is None
        assert set(benchmark.headline) <= {metric.name for metric in benchmark.metrics}
        single = {part for dimension in benchmark.dimensions for part in dimension.split(lexicon.CROSSED)}
        assert single <= set(lexicon.medlesionvqa().dimensions)
        assert "ability+question_type" in benchmark.dimensions
        (macro,) = (metric for metric in benchmark.metrics if metric.name == "macro_score")
        assert macro.mean_over == "ability"
        assert metrics.mean_score in benchmark.metrics
