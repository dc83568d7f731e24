# SPDX-License-Identifier: Apache-2.0
"""A model as people have it: tied weights, dropout, batch normalisation, a constructor with settings."""
import torch


class Net(torch.nn.Module):
    def __init__(self, width: int = 32, classes: int = 10):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.into = torch.nn.Linear(8 * 8 * 8, width)
        self.mix = torch.nn.Linear(width, width, bias=False)
        self.again = torch.nn.Linear(width, width, bias=False)
        self.again.weight = self.mix.weight
        self.drop = torch.nn.Dropout(0.1)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        x = torch.relu(self.mix(torch.relu(self.into(x))))
        return self.head(self.drop(torch.relu(self.again(x))))
