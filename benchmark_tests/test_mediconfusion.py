"""MediConfusion: one question about two images that a vision encoder confuses."""

import pytest


@pytest.mark.vqa("mediconfusion")
def test_mediconfusion(medvqa_item, evaluate):
    evaluate(medvqa_item)
