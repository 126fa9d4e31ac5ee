"""VQA-RAD: closed and open questions about radiology images, in the hub's form and in the owners' form."""

import pytest


@pytest.mark.vqa("vqa-rad")
def test_hub(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("vqa-rad-osf")
def test_osf(item, evaluate):
    evaluate(item)
