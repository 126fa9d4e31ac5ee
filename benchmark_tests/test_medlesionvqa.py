"""MedLesionVQA: lesions, from recognition to treatment, in choice and open questions."""

import pytest


@pytest.mark.vqa("medlesionvqa-val")
def test_validation(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("medlesionvqa-test")
def test_test(item, evaluate):
    evaluate(item)
