"""MedLesionVQA: lesions, from recognition to treatment, in choice and open questions."""

import pytest


@pytest.mark.vqa("medlesionvqa-val")
def test_validation(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("medlesionvqa-test")
def test_test(medvqa_item, evaluate):
    evaluate(medvqa_item)
