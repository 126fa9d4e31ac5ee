"""OmniMedVQA: multiple choice from medical classification data sets."""

import pytest


@pytest.mark.vqa("omnimedvqa")
def test_omnimedvqa(medvqa_item, evaluate):
    evaluate(medvqa_item)
