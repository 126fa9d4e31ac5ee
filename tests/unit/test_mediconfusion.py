"""MediConfusion: rows become items, the official numbers come out, and damaged files are named."""

import csv
import dataclasses
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks
from medvqa.benchmarks import mediconfusion, origins
from medvqa.items import Answer, DataError, DataWarning, Image, Item, Prompt, Technique, UsageError
from medvqa.protocols import naming
from medvqa.protocols.prompts import Templates
from medvqa.tags import lexicon, selection
from support.laws import examples

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
needs_reference = pytest.mark.skipif(
    not (REFERENCE / "mediconfusion").is_dir(), reason="the MediConfusion data set is not here"
)
(BENCHMARK,) = mediconfusion.BENCHMARKS

ROW = {
    "im_1": "train/radiology/images/ROCO_1.jpg",
    "im_2": "test/radiology/images/ROCO_2.jpg",
    "im_1_local": 20000,
    "im_2_local": 20001,
    "category_1": ["Cerebral", "Head and Neck"],
    "category_2": ["Cardiac"],
    "BiomedCLIP_sim": 0.9,
    "DINO_sim": 0.5,
    "question": "What is {shown} here?",
    "option_A": "A stent",
    "option_B": "No stent",
    "im_1_correct": "B",
    "im_2_correct": "A",
    "cap_1": "A caption.",
}


def row(**changes: Any) -> dict[str, Any]:
    """A row with some fields replaced, or left out where the change is None."""
    return {key: value for key, value in (ROW | changes).items() if value is not None}


def write_json(data: Path, content: object) -> Path:
    """DATA/mediconfusion/dataset.json with this content; text and bytes as they are."""
    folder = data / "mediconfusion"
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    (folder / "dataset.json").write_bytes(content)
    return data


def write_csv(data: Path, pairs: Mapping[str, Mapping[str, Any]]) -> Path:
    """DATA/mediconfusion/dataset.csv as pandas writes it: an unnamed index, and lists as Python prints them."""
    folder = data / "mediconfusion"
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(column for pair in pairs.values() for column in pair))
    with (folder / "dataset.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["", "id", *columns])
        writer.writeheader()
        for number, (pair_id, pair) in enumerate(pairs.items()):
            writer.writerow({"": number, "id": pair_id, **pair})
    return data


def load(data: Path) -> list[Item]:
    return list(BENCHMARK.items(data))


def test_the_chat_prompt_is_the_owners_to_the_byte(tmp_path: Path) -> None:
    first, _ = load(write_json(tmp_path, {"10001": row()}))
    prompt = BENCHMARK.prompt(first, "mc")
    assert prompt.text == (
        "Based on the image, choose the correct option for the following question.\n"
        "Question: What is {shown} here?\n"
        "A: A stent\n"
        "B: No stent\n"
        "Answer with the option's letter from the given choices directly. Your answer should be just one letter.\n"
        "Answer: "
    )
    assert prompt.system == "You are a helpful assitant expert in medical domain."
    assert prompt.images == first.images


def test_the_prompts_of_the_other_techniques_are_the_owners_to_the_byte(tmp_path: Path) -> None:
    """`greedy`, `prefix` and `gpt4`, each `default`, of their configs/prompts/answering.json."""
    first, _ = load(write_json(tmp_path, {"10001": row()}))
    asked = {technique: BENCHMARK.prompt(first, technique) for technique in BENCHMARK.techniques}
    assert asked["gd"].text == (
        "Based on the image, choose the correct option for the following question.\n"
        "Question: What is {shown} here?\n"
        "A: A stent\n"
        "B: No stent\n"
        "Answer with the option's letter from the given choices directly.\n"
        "Answer: "
    )
    assert asked["ps"].text == "Question: What is {shown} here? Answer:", "an option follows, after a space"
    assert asked["ff"].text == "Based on the image, answer following question.\nWhat is {shown} here?"
    for technique, prompt in asked.items():
        assert (prompt.technique, prompt.options, prompt.images) == (technique, first.options, first.images)
        assert BENCHMARK.applies(first, technique)
    assert [asked[technique].system == "" for technique in ("mc", "gd", "ps", "ff")] == [False, True, True, False]
    assert len({prompt.template for prompt in asked.values()}) == 4


def test_a_pair_becomes_two_items(tmp_path: Path) -> None:
    first, second = load(write_json(tmp_path, {"10001": row()}))
    assert first == Item(
        id="10001/1",
        benchmark="mediconfusion",
        kind="single_choice",
        question="What is {shown} here?",
        options={"A": "A stent", "B": "No stent"},
        answers=("B",),
        images=(Image("mediconfusion/images/20000.jpg", str(tmp_path / "mediconfusion/images/20000.jpg")),),
        tags={
            "category": ("cerebral", "head_and_neck"),
            "biomedclip_similarity": ("0_90_to_0_91",),
            "dino_similarity": ("0_50_to_0_60",),
        },
        pair_id="10001",
        cluster_id="mediconfusion/images/20000.jpg",
        extra={"im": "train/radiology/images/ROCO_1.jpg", "BiomedCLIP_sim": 0.9, "DINO_sim": 0.5},
    )
    assert (second.id, second.answers, second.tags["category"]) == ("10001/2", ("A",), ("cardiac",))
    assert second.images[0].name == "mediconfusion/images/20001.jpg"
    assert second.extra["im"] == "test/radiology/images/ROCO_2.jpg"
    assert (second.pair_id, second.cluster_id) == (first.pair_id, first.cluster_id)


def test_another_folder_and_name(tmp_path: Path) -> None:
    folder = write_json(tmp_path / "phantom", {"1": row()}) / "mediconfusion"
    items = list(mediconfusion.items_of(folder, root=tmp_path, benchmark="phantom-pairs"))
    assert {item.benchmark for item in items} == {"phantom-pairs"}
    assert items[0].images[0].name == "phantom/mediconfusion/images/20000.jpg"


def test_json_is_preferred_to_its_twin(tmp_path: Path) -> None:
    assert origins.files_of(BENCHMARK, tmp_path) == ()
    write_csv(tmp_path, {"10001": row()})
    assert origins.files_of(BENCHMARK, tmp_path) == (tmp_path / "mediconfusion" / "dataset.csv",)
    write_json(tmp_path, {"10001": row()})
    assert origins.files_of(BENCHMARK, tmp_path) == (tmp_path / "mediconfusion" / "dataset.json",)


def test_who_asks_for_it_without_data_reads_how_to_get_it(tmp_path: Path) -> None:
    known = {BENCHMARK.name: BENCHMARK}
    with pytest.raises(benchmarks.UsageError, match=r"not there, under --data=.*huggingface.co/datasets/shahab7899"):
        benchmarks.choose(["mediconfusion"], known, tmp_path)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
pairs = st.dictionaries(
    st.text("0123456789", min_size=1, max_size=5),
    st.builds(
        row,
        question=texts,
        option_A=texts,
        option_B=texts,
        category_1=st.lists(texts, max_size=3),
        im_1_local=st.integers(0, 9),
        im_2_local=st.integers(10, 19),
        BiomedCLIP_sim=st.none() | st.floats(0, 1),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.filterwarnings("ignore::medvqa.items.DataWarning")
@examples(50)
@given(pairs)
def test_the_twin_says_the_same(pairs: dict[str, dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        twin = load(write_csv(data, pairs))
        assert load(write_json(data, pairs)) == twin


@examples(50)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=8))
def test_items_share_a_cluster_when_images_connect_them(links: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        content = {str(k): row(im_1_local=a, im_2_local=b) for k, (a, b) in enumerate(links)}
        items = load(write_json(Path(name), content))
    reach = [{a, b} for a, b in links]
    for _ in links:
        reach = [set().union(*(other for other in reach if other & one)) for one in reach]
    for i, one in enumerate(items):
        for j, other in enumerate(items):
            assert (one.cluster_id == other.cluster_id) == (reach[i // 2] == reach[j // 2])


def test_a_warning_names_unknown_categories_and_keeps_them(tmp_path: Path) -> None:
    write_json(tmp_path, {"10001": row(category_1=["Dental"])})
    with pytest.warns(DataWarning, match=r"^category: not in the lexicon of mediconfusion, kept as they are: dental$"):
        first, _ = load(tmp_path)
    assert first.tags["category"] == ("dental",)


def test_a_warning_names_a_pair_with_one_answer_for_both(tmp_path: Path) -> None:
    write_json(tmp_path, {"10001": row(im_1_correct="A")})
    with pytest.warns(DataWarning, match=r"^mediconfusion/dataset.json id 10001: A is correct for both images$"):
        assert len(load(tmp_path)) == 2


OTHER = r"Is this the file of another data set\?$"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r": empty file$"),
        (b" \n", r": empty file$"),
        (b"{}", r": no rows$"),
        (b'{"10001": {', r": not JSON: .* line 1 column 12"),
        (b"\xff\xff", r" line 1: not UTF-8: invalid start byte"),
        (b'{\n"\xff": {}}', r" line 2: not UTF-8: invalid start byte"),
        (b"[" * 100_000, r": not JSON: "),
        ({"10001": row(BiomedCLIP_sim=float("nan"))}, r": not JSON: "),
        ({"10001": row(question="\ud800")}, r": not JSON: "),
        (b"[1, 2]", r" record 1: Expected `object`, got `int`\. " + OTHER),
        (b'{"10001": {},\n"10002": 3}', r" id 10001: .*missing.*" + OTHER),
        (b'{"10001":\n 3}', r" id 10001: Expected `object`, got `int`\. " + OTHER),
        (
            b"index\timage\tquestion\n17\tiVBO\tWhat?\n",
            r": missing column id; found: index, image, question\. " + OTHER,
        ),
        ({"a.jpg": {"local": 20192, "dlink": "ftp:", "file_name": "b.jpg"}}, r" id a.jpg: .*missing.*" + OTHER),
        ({"10001": ["im_1"]}, r" line 1: missing column id; found: 10001\. " + OTHER),
        ({"10001": row(question=None)}, r" id 10001: .*missing required field `question`\. " + OTHER),
        ({"10001": row(question=7)}, r" id 10001: Expected `str`, got `int` - at `\$\.question`\. " + OTHER),
        ({"10001": row(category_2="Cardiac")}, r" id 10001: Expected `array`, got `str` - at `\$\.category_2`"),
        ({"10001": row(im_2_correct="C")}, r" id 10001: the correct answer for image 2 is 'C', and the options are"),
        (
            {"10001": row(im_1_local="../../../etc/passwd")},
            r" id 10001: path 'images/../../../etc/passwd.jpg' leaves",
        ),
        (f'{{"7": {json.dumps(row())}, "7": {json.dumps(row())}}}', r": the key '7' occurs twice$"),
        (f'{{"7": {{"question": "", {json.dumps(row())[1:]}}}', r": the key 'question' occurs twice$"),
    ],
)
def test_what_is_wrong_with_a_json_file_is_said(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(DataError, match=r"^mediconfusion/dataset\.json" + message):
        load(write_json(tmp_path, content))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "", r": empty file$"),
        (lambda text: text.splitlines()[0], r": no rows$"),
        (lambda text: "index\timage\n1\tiVBO\n", r": missing column id; found: index, image\. " + OTHER),
        (lambda text: text.replace("10001", ""), r" row 2, column 'id': blank$"),
        (lambda text: text + "1" + text.splitlines()[1][1:], r" row 3: pair 10001 occurs twice$"),
        (
            lambda text: text[: text.index("What is")] + "\n",
            r" row 2: only 11 cells where the first line has 16; the file ends here, it may be truncated; ",
        ),
        (lambda text: text.replace("What is {shown} here?", ""), r" row 2: .*missing required field `question`"),
        (
            lambda text: text[: text.index("Head and")],
            r" row 2: a quote is never closed, the file may be truncated; ",
        ),
        (lambda text: text.replace("['Cardiac']", "__import__('os')"), r" row 2: Expected `array`.*category_2"),
        (lambda text: text.replace("['Cardiac']", "-" * 999), r" row 2: Expected `array`.*category_2"),
        (
            lambda text: text.replace("['Cardiac']", "['" + "c" * 999 + "']"),
            r" row 2: Expected `array`.*category_2",
        ),
        (
            lambda text: text.replace("A stent", "A" * 2**20 + "A"),
            r" row 2, column 'option_A': more than 1 MiB of text$",
        ),
        (lambda text: text.replace("A stent", "\udcff"), r" line 2: not UTF-8: invalid start byte"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_said(tmp_path: Path, damage: Any, message: str) -> None:
    path = write_csv(tmp_path, {"10001": row()}) / "mediconfusion" / "dataset.csv"
    path.write_bytes(damage(path.read_text()).encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"^mediconfusion/dataset\.csv" + message):
        load(tmp_path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path, {"10001": row()})
    monkeypatch.setattr(mediconfusion, "MAX_BYTES", 100)
    with pytest.raises(DataError, match=r"^mediconfusion/dataset\.json: larger than 100 bytes$"):
        load(tmp_path)


def test_a_folder_without_the_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"mediconfusion: neither dataset\.json nor dataset\.csv$"):
        load(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.sampled_from([*ROW]), children, max_size=14),
    max_leaves=10,
)


@pytest.mark.filterwarnings("ignore::medvqa.items.DataWarning")
@examples(200)
@given(
    st.sampled_from(["dataset.json", "dataset.csv"]),
    st.binary(max_size=200)
    | st.dictionaries(st.text(max_size=3), json_values, max_size=3).map(lambda value: json.dumps(value).encode())
    | st.builds(lambda key, value: json.dumps({"1": ROW | {key: value}}).encode(), st.sampled_from([*ROW]), json_values)
    | st.lists(st.text(max_size=10), max_size=9).map(lambda cells: ("id\n" + ",".join(cells)).encode(errors="replace")),
)
def test_no_content_raises_anything_but_data_errors(file: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "mediconfusion"
        folder.mkdir()
        (folder / file).write_bytes(content)
        try:
            items = load(Path(name))
        except DataError as error:
            assert str(error).startswith(f"mediconfusion/{file}")
        else:
            assert all(Path(item.images[0].path).is_relative_to(folder.resolve()) for item in items)


def test_the_owners_rule_is_kept_beside_ours(tmp_path: Path) -> None:
    first, _ = load(write_json(tmp_path, {"10001": row()}))
    assert BENCHMARK.owners.rule is not None
    read = {
        text: (BENCHMARK.score(first, Answer(text)).outcome, BENCHMARK.owners.rule.score(first, Answer(text)).outcome)
        for text in ("B", "**B**", "A stent is seen")
    }
    # The owners take the article for an option, and no Markdown.
    assert read["B"] == ("correct", "correct")
    assert read["**B**"] == ("correct", "unparsed")
    assert read["A stent is seen"][1] == "wrong"


def slots(items: Iterable[Item]) -> Counter[str]:
    """Image slots by category, in the names of the data set."""
    return Counter(lexicon.display("category", tag) for item in items for tag in item.tags["category"])


@needs_reference
def test_the_released_data_have_the_published_sizes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        items = load(REFERENCE)
    assert len(items) == 352
    assert len({item.pair_id for item in items}) == 176
    assert len({item.images[0].name for item in items}) == 228
    assert slots(items) == {
        "Cerebral": 79,
        "Vascular": 73,
        "Head and Neck": 67,
        "Cardiac": 52,
        "Spinal": 51,
        "Gastrointestinal": 43,
        "Musculoskeletal": 42,
        "Pulmonary": 20,
        "Nuclear Medicine": 14,
    }
    assert [item.id for item in benchmarks.load(BENCHMARK, REFERENCE)] == sorted(item.id for item in items)


@needs_reference
def test_images_of_one_article_are_in_one_group() -> None:
    """58 groups; the ids of groups that images alone would make are the same, but for those that are joined."""
    items = load(REFERENCE)
    clusters = Counter({item.pair_id: item.cluster_id for item in items}.values())
    assert len(clusters) == 58
    assert [size for _, size in clusters.most_common(3)] == [26, 20, 18]
    named = json.loads((REFERENCE / "mediconfusion/image_dict.json").read_text()).values()
    article = {f"mediconfusion/images/{each['local']}.jpg": Path(each["dlink"]).name for each in named}
    groups: dict[str, set[str | None]] = {}
    for item in items:
        groups.setdefault(article[item.images[0].name], set()).add(item.cluster_id)
    assert len(groups) == 219
    assert {len(ids) for ids in groups.values()} == {1}
    by_image = selection.components(
        [item.images[0].name for item in items if item.pair_id == pair] for pair in {item.pair_id for item in items}
    )
    other = {(by_image[item.images[0].name], item.cluster_id) for item in items} - {(id, id) for id in clusters}
    assert len(other) == 2


@needs_reference
def test_images_that_the_table_does_not_have_make_groups_of_their_own(tmp_path: Path) -> None:
    """The same numbers for other pictures: someone's own data in this format."""
    pairs = json.loads((REFERENCE / "mediconfusion" / "dataset.json").read_bytes())
    own = {id: pair | {"im_1": "own/1.jpg", "im_2": ""} for id, pair in pairs.items()}
    clusters = Counter({item.pair_id: item.cluster_id for item in load(write_json(tmp_path, own))}.values())
    assert [len(clusters), *(size for _, size in clusters.most_common(3))] == [60, 25, 20, 18]


@needs_reference
def test_the_twin_of_the_released_data_says_the_same(tmp_path: Path) -> None:
    pairs = json.loads((REFERENCE / "mediconfusion" / "dataset.json").read_bytes())
    assert load(write_csv(tmp_path, pairs)) == load(write_json(tmp_path, pairs))


@needs_reference
def test_a_recorded_run_has_the_owners_counts() -> None:
    """Answers of GPT-4o under the official rule; counted by hand, without the metrics of this project."""
    folder = REFERENCE / "mediconfusion"
    recorded = json.loads((folder / "gpt4o_mc_predictions.json").read_text())
    totals = json.loads((folder / "gpt4o_mc_scores.json").read_text())
    assert BENCHMARK.owners.rule is not None
    correct: list[Item] = []
    invalid: list[Item] = []
    for item in load(REFERENCE):
        pair, number = item.id.split("/")
        response = recorded[pair]["answer"][f"im{number}"]["answer"]["full_answer"]
        outcome = BENCHMARK.owners.rule.score(item, Answer(response)).outcome
        assert outcome in ("correct", "wrong", "unparsed")
        if outcome == "correct":
            correct.append(item)
        if outcome == "unparsed":
            invalid.append(item)
    assert len(correct) == totals["individual_score"].pop("total") == 189
    assert len(invalid) == totals["invalid"].pop("total") == 20
    assert sum(count == 2 for count in Counter(item.pair_id for item in correct).values()) == 30
    assert slots(correct) == totals["individual_score"]
    assert slots(invalid) == Counter(totals["invalid"])


# Named prompts

EXAMPLE = Item(
    "1/1", "mediconfusion", "single_choice", "What is {shown} here?", {"A": "A stent", "B": "No stent"}, ("A",)
)
HEAD = "Based on the image, choose the correct option for the following question."
FILLED = "Question: What is {shown} here?\nA: A stent\nB: No stent\n"
DIRECTLY = "Answer with the option's letter from the given choices directly."
ONE_LETTER = f"{DIRECTLY} Your answer should be just one letter."
SHORT = "Answer with the option's letter directly."
TABLE_4 = {
    "0-original": f"{HEAD}\n{FILLED}{ONE_LETTER}\nAnswer: ",
    "1-short": f"Answer the following question about the image.\n{FILLED}{SHORT}\nAnswer: ",
    "2-options-last": (
        f"Answer the following question about the image with the correct option's letter directly.\n{FILLED}Answer: "
    ),
    "3-careful": (
        f"Carefully and skillfully review the image and answer the following question.\n{FILLED}{SHORT}\nAnswer: "
    ),
    "4-expert": (
        "You are an expert radiologist AI with deep knowledge in radiology image analysis. "
        f"{HEAD}\n{FILLED}{SHORT}\nAnswer: "
    ),
    "5-a-or-b": f"{HEAD}\n{FILLED}Simply respond with 'A' or 'B' based on your answer.\nAnswer: ",
    "6-please": (
        "Based on the image, please choose the correct option for the following question.\n"
        f"{FILLED}Please answer with the option's letter from the given choices directly.\nAnswer: "
    ),
    "7-one-line": (
        f"{HEAD} Question: What is {{shown}} here? Option A: A stent Option B: No stent {ONE_LETTER} Answer: "
    ),
    "8-explained": (
        "You are given a radiology image, based on which you will need to carefully answer a medical question related "
        "to the image. You will be given two answer options: A and B from which you have to choose the right answer. "
        "The correct answer can always be determined just by looking at the radiology image itself. Take a close look "
        f"at the image think carefully, and answer the following question.\n{FILLED}{ONE_LETTER}\nAnswer: "
    ),
    "9-bare": f"{FILLED}Correct answer option: ",
    "10-important": (
        "You are given a radiology image, and your critical task is to take a close look and choose the correct option "
        "for the following question. It is extremely important to answer the following question correctly.\n"
        f"{FILLED}{ONE_LETTER}\nAnswer: "
    ),
}
QUOTED = f'{HEAD}\nQuestion: What is {{shown}} here?\n("A": A stent)\n("B": No stent)\n{ONE_LETTER}\n#answer: ("'
CHAT = TABLE_4["0-original"]
GREEDY = f"{HEAD}\n{FILLED}{DIRECTLY}\nAnswer: "
PREFIX = "Question: What is {shown} here? Answer:"
ALONE = "What is {shown} here?"
OPEN = "Based on the image, answer following question.\nWhat is {shown} here?"
BLIP_2 = f"Question: {HEAD} What is {{shown}} here?\nA: A stent\nB: No stent\n{DIRECTLY} Answer:"
SYSTEM = "You are a helpful assitant expert in medical domain."


def named(name: str, technique: Technique = "mc") -> Prompt:
    ask = BENCHMARK.prompts[name]
    assert callable(ask)
    return ask(EXAMPLE, technique)


@pytest.mark.parametrize("name", TABLE_4)
def test_the_prompts_of_table_4_to_the_byte(name: str) -> None:
    prompt = named(name)
    assert prompt.text == TABLE_4[name]
    assert (prompt.system, prompt.order, prompt.max_tokens) == (SYSTEM, "images-first", 32)
    with pytest.raises(UsageError, match="is not defined for technique 'ps'; it has: mc"):
        named(name, "ps")


def test_all_stands_for_the_eleven_prompts_of_table_4() -> None:
    assert BENCHMARK.owners.paper_prompts == tuple(TABLE_4)
    assert naming.asked(["all"], BENCHMARK) == tuple(TABLE_4)
    assert len({named(name).template for name in TABLE_4}) == 11


def test_prompt_0_is_the_benchmarks_own() -> None:
    own = BENCHMARK.prompt
    assert callable(own)
    assert named("0-original") == own(EXAMPLE, "mc"), "stored answers to one serve the other"


@pytest.mark.parametrize(
    ("name", "texts", "system", "order"),
    [
        ("owners-default", {"mc": QUOTED, "gd": GREEDY, "ps": PREFIX, "ff": OPEN}, "", "images-first"),
        ("instructblip", {"mc": QUOTED, "gd": GREEDY, "ps": PREFIX, "ff": OPEN}, "", "images-first"),
        ("molmo", {"mc": QUOTED, "gd": QUOTED, "ps": PREFIX, "ff": OPEN}, "", "images-first"),
        ("radfm", {"mc": QUOTED, "gd": GREEDY, "ps": ALONE, "ff": OPEN}, "", "images-first"),
        ("llama", {"mc": QUOTED, "gd": GREEDY, "ps": f"Question: {ALONE}", "ff": OPEN}, "", "images-first"),
        ("llava", {"mc": QUOTED, "gd": GREEDY, "ps": ALONE, "ff": OPEN}, "", "text-first"),
        ("blip-2", {"mc": BLIP_2, "gd": BLIP_2, "ps": PREFIX, "ff": PREFIX}, "", "images-first"),
        ("deepseek", {"mc": CHAT, "gd": GREEDY, "ps": ALONE, "ff": OPEN}, "", "images-first"),
        ("llava-med", {"mc": CHAT, "gd": GREEDY, "ps": ALONE, "ff": OPEN}, "", "images-first"),
        ("claude", {"mc": CHAT, "ff": OPEN}, SYSTEM, "images-first"),
        ("gpt", {"mc": CHAT, "ff": OPEN}, SYSTEM, "text-first"),
        ("gemini", {"mc": CHAT, "ff": OPEN}, SYSTEM, "text-first"),
        ("o1", {"mc": CHAT, "ff": OPEN}, "", "text-first"),
    ],
)
def test_the_owners_prompts_by_model_to_the_byte(
    name: str, texts: Mapping[Technique, str], system: str, order: str
) -> None:
    """Their configs/prompts/answering.json and Models/NAME.py at a3045b0, which choose the text by the model's name."""
    prompt = BENCHMARK.prompts[name]
    assert isinstance(prompt, Templates)
    assert prompt.techniques == tuple(texts)
    for technique, text in texts.items():
        asked = named(name, technique)
        assert asked.text == text, technique
        assert asked.system == system, technique
        assert asked.order == ("images-first" if technique == "ps" else order), "LLaVA's PS shows the image first"
    assert len(BENCHMARK.prompts) == len(TABLE_4) + 13


def test_phantom_inherits_the_prompts_of_its_format() -> None:
    by_name = {benchmark.name: benchmark for benchmark in benchmarks.pytest_medvqa_benchmarks()}
    assert by_name["phantom-mediconfusion"].prompts == BENCHMARK.prompts
    assert by_name["phantom-mediconfusion"].owners.paper_prompts == BENCHMARK.owners.paper_prompts
    with pytest.raises(UsageError, match="benchmark 'gmai-mmbench-val' has no named prompts; it has: default"):
        naming.asked(["all"], by_name["gmai-mmbench-val"])


# Similarity of a pair's images


@pytest.mark.parametrize(
    ("biomedclip", "dino", "tags"),
    [
        (0.9, 0.4999, ("0_90_to_0_91", "0_00_to_0_50")),
        (0.91, 0.5, ("0_91_to_0_92", "0_50_to_0_60")),
        (0.8999, 0.6, ("0_00_to_0_90", "0_60_and_above")),
        (1, -1, ("0_92_and_above", "below_0_00")),
    ],
)
def test_similarities_are_tags_in_fixed_ranges(
    tmp_path: Path, biomedclip: float, dino: float, tags: tuple[str, str]
) -> None:
    first, second = load(write_json(tmp_path, {"1": row(BiomedCLIP_sim=biomedclip, DINO_sim=dino)}))
    assert (first.tags["biomedclip_similarity"], first.tags["dino_similarity"]) == tuple((tag,) for tag in tags)
    assert {name: first.tags[name] == second.tags[name] for name in ("biomedclip_similarity", "dino_similarity")} == {
        "biomedclip_similarity": True,
        "dino_similarity": True,
    }


def test_a_pair_without_similarities_has_no_such_tags(tmp_path: Path) -> None:
    first, _ = load(write_json(tmp_path, {"1": row(BiomedCLIP_sim=None, DINO_sim=None)}))
    assert set(first.tags) == {"category"}


def test_a_similarity_beyond_1_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"BiomedCLIP_sim is 93\.0; a cosine similarity lies between -1 and 1"):
        load(write_json(tmp_path, {"1": row(BiomedCLIP_sim=93)}))
    with pytest.raises(DataError, match="DINO_sim is nan"):
        load(write_csv(tmp_path / "csv", {"1": {**ROW, "DINO_sim": "nan"}}))


@needs_reference
def test_the_ranges_of_similarity_divide_the_176_pairs() -> None:
    items = [item for item in load(REFERENCE) if item.id.endswith("/1")]
    counts = {
        name: Counter(item.tags[name][0] for item in items) for name in ("biomedclip_similarity", "dino_similarity")
    }
    assert counts == {
        "biomedclip_similarity": {"0_90_to_0_91": 88, "0_91_to_0_92": 47, "0_92_and_above": 41},
        "dino_similarity": {"0_00_to_0_50": 35, "0_50_to_0_60": 72, "0_60_and_above": 69},
    }
    assert lexicon.display("dino_similarity", "0_00_to_0_50") == "0.00 to 0.50"


# Variants


def test_a_variant_is_a_benchmark_of_its_own_in_the_same_format(tmp_path: Path) -> None:
    easy = mediconfusion.variant("mediconfusion-easy")
    assert not origins.files_of(easy, tmp_path)
    folder = write_json(tmp_path, {"1": row(BiomedCLIP_sim=0.35)}) / "mediconfusion"
    folder.rename(tmp_path / "mediconfusion-easy")
    assert [path.name for path in origins.files_of(easy, tmp_path)] == ["dataset.json"]
    first, second = benchmarks.load(easy, tmp_path)
    assert (first.benchmark, first.pair_id, second.id) == ("mediconfusion-easy", "1", "1/2")
    assert first.images[0].name == "mediconfusion-easy/images/20000.jpg"
    assert first.tags["biomedclip_similarity"] == ("0_00_to_0_90",)
    assert easy.prompt(first, "mc") == dataclasses.replace(  # type: ignore[operator]
        BENCHMARK.prompt(first, "mc"), benchmark="mediconfusion-easy"
    )
    assert (easy.public, easy.metrics) == (False, BENCHMARK.metrics)
    assert easy.origin is not None
    assert easy.origin.release is None
    assert mediconfusion.variant("unfiltered", "mc/unfiltered", public=True).public


@pytest.mark.parametrize(("name", "folder"), [("", ""), ("easy", "../easy"), ("easy", "/tmp/easy"), (" ", "x")])
def test_a_variant_lies_in_the_data_folder(name: str, folder: str) -> None:
    with pytest.raises(UsageError, match="write a name, and a folder within the data folder"):
        mediconfusion.variant(name, folder)
