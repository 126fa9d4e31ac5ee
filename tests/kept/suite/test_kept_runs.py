import pytest


@pytest.mark.vqa("phantom")
def test_phantom(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("kept")
def test_text(item, evaluate):
    evaluate(item)
