"""MMMU, Health and Medicine: college exams with images within the text."""

import pytest


@pytest.mark.vqa("mmmu-health-val")
def test_validation(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("mmmu-health-test")
def test_test(item, evaluate):
    evaluate(item)
