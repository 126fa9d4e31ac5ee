"""ReXVQA: questions about chest X-ray studies."""

import pytest


@pytest.mark.vqa("rexvqa-test")
def test_rexvqa(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("rexvqa-valid")
def test_rexvqa_validation(medvqa_item, evaluate):
    evaluate(medvqa_item)
