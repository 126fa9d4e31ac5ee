"""GMAI-MMBench: choice questions on images of many modalities, tasks and departments."""

import pytest


@pytest.mark.vqa("gmai-mmbench-val")
def test_validation(medvqa_item, evaluate):
    evaluate(medvqa_item)


@pytest.mark.vqa("gmai-mmbench-test")
def test_test(medvqa_item, evaluate):
    evaluate(medvqa_item)
