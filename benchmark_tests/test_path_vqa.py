"""PathVQA: closed and open questions about pathology images."""

import pytest


@pytest.mark.vqa("path-vqa-test")
def test_test(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("path-vqa-validation")
def test_validation(item, evaluate):
    evaluate(item)
