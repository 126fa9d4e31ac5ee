"""The synthetic benchmark that ships, in the forms of the other three."""

import pytest


@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)
