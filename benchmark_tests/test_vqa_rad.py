"""VQA-RAD: closed and open questions about radiology images, in the hub's form and in the owners' form."""

import pytest


@pytest.mark.vqa("vqa-rad")
def test_hub(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("vqa-rad-osf")
def test_osf(medvqa_item, evaluate):
    evaluate(medvqa_item)
