"""The phantom that ships: drawn by its script, read by the real readers, fair to whoever does not look."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvqa.benchmarks import folders, load, phantom
from medvqa.items import Answer
from medvqa.tags import lexicon
from tools import phantom as script
from tools.overlays import GRANULARITIES, bounding_box
from tools.questions import gmai_mmbench
from tools.scenes import draw

FOLDER = folders.bundled("fixtures") / "phantom"
BENCHMARKS = {benchmark.name.removeprefix("phantom-"): benchmark for benchmark in phantom.BENCHMARKS}
LEXICONS = {
    "gmai-mmbench": lexicon.gmai_mmbench(),
    "mediconfusion": lexicon.mediconfusion(),
    "medlesionvqa": lexicon.medlesionvqa(),
}
NOT_ASKED_FOR = Path("no such folder")
"""The phantom's readers do not look at --data."""


@pytest.fixture(scope="module")
def items():
    return {name: load(benchmark, NOT_ASKED_FOR) for name, benchmark in BENCHMARKS.items()}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phantom")
    script.main([str(folder)])
    return folder


def shipped(folder):
    """The files of a phantom, without the indexes that the reader puts beside a TSV."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not path.name.endswith(".medvqa-index.jsonl"))


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def table(folder):
    with (folder / "gmai-mmbench" / "PHANTOM_VAL.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


class TestFiles:
    @pytest.mark.slow
    def test_the_script_draws_what_ships(self, drawn):
        assert shipped(drawn) == shipped(FOLDER)
        for name in shipped(FOLDER):
            made, there = (drawn / name).read_bytes(), (FOLDER / name).read_bytes()
            if name.suffix in {".md", ".json", ".jsonl"}:
                assert made == there, name
            elif name.suffix == ".png":
                assert (pixels(made) == pixels(there)).all(), name
            elif name.suffix == ".jpg":
                # Decoders may differ by a level or two.
                assert np.abs(pixels(made) - pixels(there)).mean() < 1, name
            else:
                assert name.suffix == ".tsv"

    @pytest.mark.slow
    def test_the_table_too(self, drawn):
        for made, there in zip(table(drawn), table(FOLDER), strict=True):
            made_image, image = made.pop("image"), there.pop("image")
            assert made == there
            if len(image) <= 64:
                assert made_image == image
            else:
                assert (pixels(base64.b64decode(made_image)) == pixels(base64.b64decode(image))).all()

    @pytest.mark.slow
    def test_another_seed_draws_another_phantom(self, tmp_path):
        script.main([str(tmp_path), "--seed", "1"])
        assert "--seed 1" in (tmp_path / "README.md").read_text()
        lines = {folder: (folder / "medlesionvqa" / "phantom.jsonl").read_text() for folder in (tmp_path, FOLDER)}
        assert lines[tmp_path] != lines[FOLDER]
        images_of = [
            {(folder / name).read_bytes() for name in shipped(folder) if name.suffix in {".png", ".jpg"}}
            for folder in (tmp_path, FOLDER)
        ]
        assert not images_of[0] & images_of[1]

    def test_is_small(self):
        assert sum((FOLDER / name).stat().st_size for name in shipped(FOLDER)) < 3_000_000

    def test_says_what_it_is_and_whose(self):
        text = (FOLDER / "README.md").read_text()
        assert "python -m tools.phantom" in text
        assert "CC0" in text

    def test_nothing_to_do_is_said(self, capsys):
        with pytest.raises(SystemExit):
            script.main([])
        assert "name a folder DIR, or --contact-sheet FILE" in capsys.readouterr().err

    def test_the_contact_sheet_is_the_documentations(self, tmp_path):
        script.main(["--contact-sheet", str(tmp_path / "sheet.png")])
        there = Path(__file__).parents[2] / "docs" / "images" / "phantom.png"
        assert (pixels((tmp_path / "sheet.png").read_bytes()) == pixels(there.read_bytes())).all()


class TestContent:
    def test_about_three_hundred_questions(self, items):
        counts = {name: len(found) for name, found in items.items()}
        assert counts == {"gmai-mmbench": 143, "mediconfusion": 72, "medlesionvqa": 92}

    def test_every_image_can_be_read(self, items):
        for item in (item for found in items.values() for item in found):
            for image in item.images:
                assert image.pil().size == (112, 112)

    @pytest.mark.filterwarnings("error")
    def test_every_tag_is_in_its_lexicon(self, items):
        for name, found in items.items():
            assert lexicon.unknown_values(found, LEXICONS[name]) == {}

    def test_tags_of_an_item_lie_on_one_branch_of_the_tree(self, items):
        trees = LEXICONS["gmai-mmbench"].trees
        for item in items["gmai-mmbench"]:
            tags = {dimension: values[0] for dimension, values in item.tags.items()}
            for top in ("task", "department"):
                assert (tags[top], tags["modality"], tags["label"]) in trees[top, "modality", "label"]
            if item.kind == "single_choice":
                branch = tags["granularity"], tags["modality"], tags["label"]
                assert branch in trees["granularity", "modality", "label"]

    def test_both_kinds_of_choice_at_all_granularities(self, items):
        there = {(item.kind, item.tags["granularity"][0]) for item in items["gmai-mmbench"]}
        levels = [lexicon.slug(level) for level in GRANULARITIES]
        assert there == {(kind, level) for kind in ("single_choice", "multiple_response") for level in levels}

    def test_several_letters_are_right_where_several_may_be(self, items):
        sizes = Counter(len(item.answers) for item in items["gmai-mmbench"] if item.kind == "multiple_response")
        assert set(sizes) == {2, 3}
        choices = [item for item in items["medlesionvqa"] if item.kind == "multiple_response"]
        assert {len(item.answers) for item in choices} == {1, 2}

    def test_some_rows_refer_to_the_image_of_another(self):
        references = [row["image"] for row in table(FOLDER) if len(row["image"]) <= 64]
        assert len(references) == 8
        assert set(references) <= {row["index"] for row in table(FOLDER)}

    def test_mask_and_contour_level_ask_the_same(self, items):
        asked = defaultdict(list)
        for item in items["gmai-mmbench"]:
            asked[item.tags["granularity"][0]].append((item.question, dict(item.options), item.answers))
        assert len(asked["mask_level"]) > 20
        assert sorted(map(repr, asked["mask_level"])) == sorted(map(repr, asked["contour_level"]))

    def test_a_box_encloses_nothing_that_is_a_wrong_option(self):
        for row, picture in gmai_mmbench.rows(0):
            if picture.granularity == "Box level":
                findings, masks = picture.scene.findings, draw(picture.scene)[1]
                wrong = {row[letter] for letter in "ABCDE"} - {findings[marked].name for marked in picture.marked}
                for marked in picture.marked:
                    left, top, right, bottom = bounding_box(masks[marked])
                    for finding, mask in zip(findings, masks, strict=True):
                        if finding.name in wrong:
                            assert mask[top:bottom, left:right].sum() < 0.4 * mask.sum(), row["question"]

    def test_all_categories_and_clusters_of_pairs(self, items):
        found = items["mediconfusion"]
        categories = Counter(value for item in found for value in item.tags["category"])
        assert set(categories) == set(LEXICONS["mediconfusion"].dimensions["category"].values)
        pairs_in_cluster = Counter(len({i.pair_id for i in found if i.cluster_id == item.cluster_id}) for item in found)
        assert set(pairs_in_cluster) == {1, 2}

    def test_the_images_of_a_pair_resemble_each_other(self, items):
        by_pair = defaultdict(list)
        for item in items["mediconfusion"]:
            by_pair[item.pair_id].append(np.asarray(item.images[0].pil()).astype(float).ravel())
        similarities = [np.corrcoef(*pair)[0, 1] for pair in by_pair.values()]
        assert len(similarities) == 36
        assert min(similarities) > 0.5
        assert max(similarities) < 0.9999

    def test_all_kinds_abilities_and_attributes(self, items):
        found = items["medlesionvqa"]
        dimensions = LEXICONS["medlesionvqa"].dimensions
        for dimension in ("ability", "attribute", "question_type"):
            there = {value for item in found for value in item.tags.get(dimension, ())}
            assert there == set(dimensions[dimension].values)
        assert {"face", "hand", "foot", "abdomen"} <= {value for i in found for value in i.tags.get("body_region", ())}

    def test_text_only_questions_have_no_image_and_the_others_have(self, items):
        dependence = Counter((item.tags["modality_dependence"], bool(item.images)) for item in items["medlesionvqa"])
        assert dependence == {(("multimodal",), True): 82, (("text_only",), False): 10}


def looked_at(items):
    """The items that need an image, with the key as texts: what a model that does not look must guess."""
    for item in items:
        if item.images:
            yield item, tuple(sorted(item.options.get(answer, answer) for answer in item.answers))


class TestFairness:
    def test_a_constant_letter_is_right_by_chance(self, items):
        """For each number of options the share of each letter among the right ones, within 5 points of even."""
        for found in items.values():
            by_size = defaultdict(list)
            for item in found:
                if item.options:
                    by_size[tuple(item.options)].append(item.answers)
            for letters, keys in by_size.items():
                right = Counter(letter for key in keys for letter in key)
                for letter in letters:
                    even = sum(right.values()) / len(letters)
                    assert abs(right[letter] - even) <= max(0.05 * len(keys), 1.5), (letters, right)

    def test_the_commonest_answer_to_a_question_is_right_by_chance(self, items):
        """Whoever knows how often each answer is right, but does not look, does no better than to guess."""
        for found in items.values():
            by_question = defaultdict(list)
            for item, key in looked_at(found):
                by_question[item.question].append(key)
            for question, keys in by_question.items():
                counts = Counter(keys)
                assert len(counts) > 1, question
                assert max(counts.values()) == min(counts.values()), (question, counts)

    def test_the_options_do_not_tell(self, items):
        """The same, with the options seen: the commonest right answer among those offered, per question text."""
        for found in items.values():
            by_question = defaultdict(list)
            for item, key in looked_at(found):
                if item.kind == "single_choice":
                    by_question[item.question].append((item, key[0]))
            for asked in by_question.values():
                right = Counter(key for _, key in asked)
                guesses = [max(item.options.values(), key=lambda option: (right[option], option)) for item, _ in asked]
                hits = sum(guess == key for guess, (_, key) in zip(guesses, asked, strict=True))
                chance = sum(1 / len(item.options) for item, _ in asked)
                assert hits <= chance + 3 * np.sqrt(chance)

    def test_who_does_not_look_gets_no_pair_right(self, items):
        pairs = defaultdict(list)
        for item in items["mediconfusion"]:
            pairs[item.pair_id].append(item)
        for first, second in pairs.values():
            assert (first.question, first.options) == (second.question, second.options)
            assert set(first.answers) != set(second.answers)
            assert first.images[0].path != second.images[0].path
        orders = Counter(tuple(item.answers[0] for item in pair) for pair in pairs.values())
        assert orders == {("A", "B"): 18, ("B", "A"): 18}


class TestScoring:
    @pytest.fixture
    def open_items(self, items):
        return [item for item in items["medlesionvqa"] if not item.options]

    def test_each_kind_is_open_somewhere(self, open_items):
        assert {item.kind for item in open_items} == {"judgment", "fill_in_the_blank", "short_answer"}

    def test_the_reference_is_correct(self, open_items):
        for item in open_items:
            for reference in item.answers:
                score = BENCHMARKS["medlesionvqa"].score(item, Answer(reference))
                assert (score.value, score.outcome) == (1.0, "correct"), (item.question, reference)

    def test_every_other_term_is_wrong(self, open_items):
        for item in open_items:
            others = item.extra["vocabulary"].keys() - set(item.answers)
            assert others
            for other in others:
                score = BENCHMARKS["medlesionvqa"].score(item, Answer(other))
                assert (score.value, score.outcome) == (0.0, "wrong"), (item.question, other)

    def test_another_spelling_is_the_same_term(self, open_items):
        for item in open_items:
            for term, spellings in item.extra["vocabulary"].items():
                for spelling in spellings:
                    score = BENCHMARKS["medlesionvqa"].score(item, Answer(spelling))
                    assert score.outcome == ("correct" if term in item.answers else "wrong"), (item.question, spelling)

    def test_a_sentence_around_the_term_changes_nothing(self, open_items):
        for item in open_items:
            score = BENCHMARKS["medlesionvqa"].score(item, Answer(f"The answer is {item.answers[0]}."))
            assert score.outcome == "correct", (item.question, item.answers)

    def test_every_vocabulary_is_named_in_its_question(self, open_items):
        for item in open_items:
            if item.kind != "judgment":
                assert all(term in item.question for term in item.extra["vocabulary"])

    def test_right_letters_are_correct(self, items):
        for name, found in items.items():
            for item in found:
                if item.options:
                    score = BENCHMARKS[name].score(item, Answer(", ".join(item.answers)))
                    assert (score.value, score.outcome) == (1.0, "correct"), (item.id, item.question)


def test_pairs_say_what_is_in_the_json():
    """The fields of MediConfusion's dataset.json, captions, similarities and unrevised questions aside."""
    pairs = json.loads((FOLDER / "mediconfusion" / "dataset.json").read_text())
    fields = {f"{field}_{side}" for field in ("im", "category") for side in (1, 2)}
    fields |= {f"im_{side}_{field}" for field in ("local", "correct") for side in (1, 2)}
    assert {frozenset(pair) for pair in pairs.values()} == {frozenset(fields | {"question", "option_A", "option_B"})}
