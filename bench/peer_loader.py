#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures images a second of torchvision's ImageFolder with PyTorch's DataLoader: peer_loader.py FOLDER/train [WORKERS [EPOCHS]]"""
import sys
import time

import torch
import torchvision.transforms as T
from torchvision.datasets import ImageFolder

data = ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.PILToTensor()]))
workers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
torch.set_num_threads(1)
loader = torch.utils.data.DataLoader(data, 64, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
for epoch in range(1 + (int(sys.argv[3]) if len(sys.argv) > 3 else 5)):
    start = time.perf_counter()
    for _ in loader:
        pass
    if epoch > 0:
        print(round(len(data) / (time.perf_counter() - start)), flush=True)
