"""PMC-VQA: figures of articles, in the two test sets that are in use."""

import pytest


@pytest.mark.vqa("pmc-vqa-test-clean")
def test_test_clean(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("pmc-vqa-test-2")
def test_test_2(medvqa_item, evaluate):
    evaluate(medvqa_item)
