# SPDX-License-Identifier: Apache-2.0
"""The network of peer_ddp.py as a class, for a recipe with model.name = "python:bench/peer_net.py:Net"."""
import torch


class Net(torch.nn.Module):
    def __init__(self, hidden, num_classes, features=784):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(features, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, num_classes))

    def forward(self, x):
        return self.layers(x.flatten(1))
