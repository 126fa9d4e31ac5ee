"""The synthetic benchmark that ships, in the forms of the other three."""

import pytest


@pytest.mark.vqa("phantom")
def test_phantom(medvqa_item, evaluate):
    evaluate(medvqa_item)
