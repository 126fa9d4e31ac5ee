"""SLAKE: closed and open questions in English and Chinese about CT, MRI and X-ray images."""

import pytest


@pytest.mark.vqa("slake-en-test")
def test_english(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("slake-zh-test")
def test_chinese(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("slake-en-validation")
def test_english_validation(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("slake-zh-validation")
def test_chinese_validation(item, evaluate):
    evaluate(item)
