"""RadImageNet-VQA: choice, closed and open questions about CT and MRI images."""

import pytest


@pytest.mark.vqa("radimagenet-vqa")
def test_radimagenet_vqa(medvqa_item, evaluate):
    evaluate(medvqa_item)
