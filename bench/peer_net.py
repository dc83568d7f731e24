# SPDX-License-Identifier: Apache-2.0
"""The network of peer_ddp.py as a class, for a recipe with model.name = "python:bench/peer_net.py:Net"."""
import pathlib

import numpy
import torch


def samples(folder):
    """Returns the images of a folder in MNIST's format, as rows from 0 to 1, and their labels."""
    pixels = numpy.fromfile(pathlib.Path(folder, "train-images-idx3-ubyte"), dtype=numpy.uint8, offset=16).reshape(-1, 784)
    labels = numpy.fromfile(pathlib.Path(folder, "train-labels-idx1-ubyte"), dtype=numpy.uint8, offset=8)
    return torch.from_numpy(pixels).float() / 255, torch.from_numpy(labels).long()


class Net(torch.nn.Module):
    def __init__(self, hidden, num_classes, features=784):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(features, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, num_classes))

    def forward(self, x):
        return self.layers(x.flatten(1))
