"""MediConfusion: one question about two images that a vision encoder confuses."""

import pytest


@pytest.mark.vqa("mediconfusion")
def test_mediconfusion(item, evaluate):
    evaluate(item)
