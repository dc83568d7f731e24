# SPDX-License-Identifier: Apache-2.0
"""The data set of photographs as a torchvision user writes it, for bench/python_data."""
import torchvision.transforms as T
from torchvision.datasets import ImageFolder


def photographs(split, root):
    if split == "test":
        return None
    steps = [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.PILToTensor()]
    return ImageFolder(f"{root}/{'train' if split == 'train' else 'val'}", T.Compose(steps))
