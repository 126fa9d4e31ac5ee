"""MedFrameQA: questions about two to five frames of a medical video."""

import pytest


@pytest.mark.vqa("medframeqa")
def test_medframeqa(medvqa_item, evaluate):
    evaluate(medvqa_item)
