#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py WEIGHTS.pt: the trained weights back in the Python class, by strict names, and its accuracy on the digits."""
import gzip
import pathlib
import sys

import torch

from net import Net

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "datasets/digits"


def bytes_of(name):
    return bytearray(gzip.decompress((DIGITS / f"{name}.gz").read_bytes()))


images = torch.frombuffer(bytes_of("t10k-images-idx3-ubyte")[16:], dtype=torch.uint8).view(-1, 1, 8, 8) / 255
labels = torch.frombuffer(bytes_of("t10k-labels-idx1-ubyte")[8:], dtype=torch.uint8)
net = Net(width=48)
net.load_state_dict(torch.load(sys.argv[1], weights_only=True), strict=True)
with torch.no_grad():
    right = (net.eval()(images).argmax(1) == labels).double().mean()
print(f"accuracy in Python {right:.4f}")
