"""MMMU, Health and Medicine: college exams with images within the text."""

import pytest


@pytest.mark.vqa("mmmu-health-val")
def test_validation(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("mmmu-health-test")
def test_test(medvqa_item, evaluate):
    evaluate(medvqa_item)
