"""MedXpertQA-MM: questions of medical exams with one to six images."""

import pytest


@pytest.mark.vqa("medxpertqa-mm")
def test_medxpertqa(medvqa_item, evaluate):
    evaluate(medvqa_item)
