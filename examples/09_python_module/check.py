# SPDX-License-Identifier: Apache-2.0
"""The trained weights in plain Python: python check.py weights.pt prints their accuracy on the digits held out."""
import gzip
import pathlib
import sys

import torch
from net import Net

DATA = pathlib.Path(__file__).resolve().parents[2] / "datasets/digits"


def bytes_of(name, header):
    return torch.frombuffer(bytearray(gzip.decompress((DATA / name).read_bytes())[header:]), dtype=torch.uint8)


net = Net(num_classes=10, width=48)
net.load_state_dict(torch.load(sys.argv[1], weights_only=True))
images = bytes_of("t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 8, 8) / 255
labels = bytes_of("t10k-labels-idx1-ubyte.gz", 8)
print(f"accuracy in Python {(net.eval()(images).argmax(1) == labels).float().mean():.4f}")
