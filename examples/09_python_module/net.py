# SPDX-License-Identifier: Apache-2.0
"""A module as people have it. Lockstep calls its forward(); the rest of the training is Lockstep's."""
import torch


class Net(torch.nn.Module):
    def __init__(self, num_classes, width=64, drop=0.1):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.into = torch.nn.Linear(8 * 8 * 8, width)
        self.drop = torch.nn.Dropout(drop)
        self.head = torch.nn.Linear(width, num_classes)

    def forward(self, images):
        x = torch.relu(self.norm(self.conv(images))).flatten(1)
        return self.head(self.drop(torch.relu(self.into(x))))
