"""SLAKE: closed and open questions in English and Chinese about CT, MRI and X-ray images."""

import pytest


@pytest.mark.vqa("slake-en-test")
def test_english(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("slake-zh-test")
def test_chinese(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("slake-en-validation")
def test_english_validation(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("slake-zh-validation")
def test_chinese_validation(medvqa_item, evaluate):
    evaluate(medvqa_item)
