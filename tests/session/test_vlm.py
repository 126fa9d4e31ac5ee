"""phantom-vlm: what it is trained on, the script that trains it, and the checkpoint that ships."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from medvqa.benchmarks import folders, phantom
from tools.questions import SHIPPED_SEED
from tools.vlm import Recipe, data, lessons

CHECKPOINT = folders.bundled("models") / "phantom-vlm"
LIMIT = 8_000_000
"""Bytes of weights in the wheel."""


@pytest.fixture(scope="module")
def lesson():
    return data.phantoms([1])


@pytest.fixture(scope="module")
def both():
    return data.phantoms([1, 2])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A checkpoint after two steps of each part."""
    pytest.importorskip("torch", reason="training needs torch")
    pytest.importorskip("transformers", reason="training needs transformers")
    from tools.vlm.__main__ import main

    folder = tmp_path_factory.mktemp("vlm") / "made"
    main([str(folder), "--phantoms", "1", "--see", "2", "--words", "2", "--letters", "2", "--last", "2"])
    return folder


def said(item):
    return item.benchmark, item.kind, item.question, dict(item.options), item.answers


class TestData:
    def test_the_shipped_seed_is_refused(self):
        with pytest.raises(ValueError, match="seed 0 is what ships: it is reserved for evaluation"):
            data.phantoms([3, SHIPPED_SEED])

    def test_the_recipe_leaves_it_out(self):
        assert SHIPPED_SEED not in Recipe().seeds
        assert len(Recipe(phantoms=7).seeds) == 7

    def test_questions_and_pictures_are_those_that_the_readers_see(self):
        """Of the shipped seed, which only a test may look at."""
        shipped = [item for benchmark in phantom.BENCHMARKS for item in benchmark.items(Path())]
        made = data.phantom(SHIPPED_SEED)
        assert list(map(said, shipped)) == [said(one.item) for one in made.asked]
        for item, one in list(zip(shipped, made.asked, strict=True))[::9]:
            if one.picture is not None:
                there = np.asarray(item.images[0].pil()).astype(int)
                # Decoders of JPEG may differ by a level or two.
                assert np.abs(there - made.images[one.picture]).mean() < 1

    @pytest.mark.slow
    def test_phantoms_are_joined(self, lesson, both):
        second = data.phantom(2)
        assert len(both.asked) == len(lesson.asked) + len(second.asked)
        last = max(one.picture for one in both.asked if one.picture is not None)
        assert last == len(both.images) - 1
        assert (both.images[last] == second.images[-1]).all()

    @pytest.mark.slow
    def test_processes_draw_the_same(self, both):
        drawn = data.phantoms([1, 2], processes=2)
        assert both.asked == drawn.asked
        assert (both.images == drawn.images).all()


class TestLessons:
    def test_prompts_are_the_benchmarks_own(self, lesson):
        prompts = {benchmark.name: benchmark.prompt for benchmark in phantom.BENCHMARKS}
        for one in lesson.asked:
            exercise = lessons.as_benchmark(one)
            assert exercise.prompt == prompts[one.item.benchmark](one.item, "mc")
            assert exercise.answer == ",".join(one.item.answers)

    def test_the_end_of_each_line_of_options_is_known(self, lesson):
        for one in lesson.asked:
            exercise = lessons.as_benchmark(one)
            assert [letter for letter, _, _ in exercise.lines] == list(one.item.options)
            assert (
                tuple(letter for letter, right, _ in exercise.lines if right) == one.item.answers[: len(exercise.lines)]
            )
            for letter, _, end in exercise.lines:
                assert exercise.prompt.text[:end].endswith(one.item.options[letter])
                assert exercise.prompt.text[end] == "\n"

    def test_options_are_rearranged_and_the_right_ones_stay(self, lesson):
        rng = np.random.default_rng(0)
        choices = [one for one in lesson.asked if one.item.options]
        pools = lessons.pools_of(choices)
        orders = set()
        for one in choices:
            item = lessons.rearranged(one, pools, rng).item
            assert {item.options[letter] for letter in item.answers} == {
                one.item.options[letter] for letter in one.item.answers
            }
            assert list(item.options) == list(one.item.options)
            assert len(set(item.options.values())) == len(item.options)
            assert set(item.options.values()) <= set(pools[item.question])
            orders.add(item.answers)
        assert len(orders) > 5

    def test_copying_names_what_is_right(self, lesson):
        rng = np.random.default_rng(0)
        choices = [one for one in lesson.asked if one.item.options]
        for _ in range(50):
            exercise = lessons.copying(choices, ["liver", "spleen", "In the left half", "2 cm", "bacteria"], rng)
            assert exercise.picture is None
            question = exercise.prompt.text.split("?")[0]
            for letter, right, _ in exercise.lines:
                assert right == (exercise.prompt.options[letter] in question)
            assert exercise.answer == ",".join(letter for letter, right, _ in exercise.lines if right)

    def test_several_answers_are_not_asked_for_in_words(self, lesson):
        several = next(one for one in lesson.asked if len(one.item.answers) == 3)
        with pytest.raises(ValueError, match="has 3 right answers"):
            lessons.by_text(several, np.random.default_rng(0))


@pytest.mark.slow
class TestScript:
    def test_what_it_writes_is_read_by_transformers_and_answers(self, made, lesson):
        import torch
        from PIL import Image
        from transformers import AutoModelForImageTextToText, AutoProcessor

        model = AutoModelForImageTextToText.from_pretrained(made).eval()
        processor = AutoProcessor.from_pretrained(made)
        assert model.dtype == torch.float32
        content = [{"type": "image", "image": Image.fromarray(lesson.images[0])}, {"type": "text", "text": "What?"}]
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        assert model.generate(**inputs, max_new_tokens=3).shape[1] <= inputs["input_ids"].shape[1] + 3

    def test_training_shows_the_model_what_the_processor_would(self, made, lesson):
        from PIL import Image
        from transformers import AutoProcessor

        from tools.vlm import training

        processor = AutoProcessor.from_pretrained(made)
        for one in (lesson.asked[0], lesson.asked[-1]):
            exercise = lessons.as_benchmark(one)
            ready = training.collate(processor, [exercise])
            picture = [] if one.picture is None else [Image.fromarray(lesson.images[one.picture])]
            content = [{"type": "image"} for _ in picture] + [{"type": "text", "text": exercise.prompt.text}]
            text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
            there = processor(text=text + exercise.answer + "<|end|>", images=picture or None, return_tensors="pt")
            assert ready.tokens.tolist() == there["input_ids"].tolist()
            practised = ready.labels[0] != training.IGNORED
            assert processor.tokenizer.decode(ready.tokens[0, practised]) == exercise.answer + "<|end|>"
            if picture:
                assert (training.pixels(lesson.images[[one.picture]]) - there["pixel_values"]).abs().max() < 1e-6

    def test_it_says_what_made_it(self, made):
        record = json.loads((made / "training.json").read_text("utf-8"))
        assert record["recipe"] == {"phantoms": 1, "see": 2, "words": 2, "letters": 2, "last": 2, "seed": 1}
        assert {"minutes", "torch", "transformers"} <= record.keys()


class TestCheckpoint:
    def test_it_is_small(self):
        assert sum(path.stat().st_size for path in CHECKPOINT.glob("*.safetensors")) <= LIMIT

    def test_a_letter_is_one_token_and_so_it_is_after_the_chat_template(self):
        transformers = pytest.importorskip("transformers", reason="the checkpoint needs transformers")
        pytest.importorskip("torch", reason="the checkpoint needs torch")
        processor = transformers.AutoProcessor.from_pretrained(CHECKPOINT)
        asked = processor.apply_chat_template([{"role": "user", "content": "Which?"}], add_generation_prompt=True)
        before = processor.tokenizer.encode(asked, add_special_tokens=False)
        for letter in "ABCDEF":
            after = processor.tokenizer.encode(asked + letter, add_special_tokens=False)
            assert after[:-1] == before
            assert processor.tokenizer.decode(after[-1:]) == letter

    @pytest.mark.slow
    def test_it_looks_at_the_images(self):
        """Above chance with them, at chance with grey ones; pairs are never told apart without."""
        pytest.importorskip("torch", reason="the checkpoint needs torch")
        pytest.importorskip("transformers", reason="the checkpoint needs transformers")
        script = Path(__file__).parents[2] / "bench" / "phantom_vlm.py"
        table = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout
        row = re.compile(
            r"(?P<questions>\S.*?) +(?P<by>PS|GD|MC) +(?P<shown>image|grey|none) +(?P<value>[\d.]+) +"
            r"(?P<low>[\d.]+)- *(?P<high>[\d.]+) +(?P<n>\d+)(?: +(?P<chance>[\d.]+))?"
        )
        rows = {(m["questions"], m["by"], m["shown"]): m for m in map(row.match, table.splitlines()) if m}
        seen, grey = (rows["both, single choice", "PS", shown] for shown in ("image", "grey"))
        assert int(seen["n"]) >= 100
        assert float(seen["low"]) > float(seen["chance"])
        assert float(grey["low"]) <= float(grey["chance"]) <= float(grey["high"])
        for by in ("PS", "GD", "MC"):
            assert float(rows["phantom-mediconfusion, pairs", by, "none"]["value"]) == 0
