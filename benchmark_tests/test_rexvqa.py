"""ReXVQA: questions about chest X-ray studies."""

import pytest


@pytest.mark.vqa("rexvqa-test")
def test_rexvqa(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("rexvqa-valid")
def test_rexvqa_validation(item, evaluate):
    evaluate(item)
