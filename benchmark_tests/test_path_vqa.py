"""PathVQA: closed and open questions about pathology images."""

import pytest


@pytest.mark.vqa("path-vqa-test")
def test_test(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("path-vqa-validation")
def test_validation(medvqa_item, evaluate):
    evaluate(medvqa_item)
