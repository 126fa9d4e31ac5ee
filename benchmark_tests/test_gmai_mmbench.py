"""GMAI-MMBench: choice questions on images of many modalities, tasks and departments."""

import pytest


@pytest.mark.vqa("gmai-mmbench-val")
def test_validation(item, evaluate):
    evaluate(item)


@pytest.mark.vqa("gmai-mmbench-test")
def test_test(item, evaluate):
    evaluate(item)
