# SPDX-License-Identifier: Apache-2.0
"""Models for the tests of TorchScript: what trips up a trainer that does not know about it."""
import torch


class Tied(torch.nn.Module):
    """Tied weights, dropout and batch normalisation, for images of 1 x 8 x 8."""

    def __init__(self, classes: int = 10, width: int = 16, drop: float = 0.2):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.into = torch.nn.Linear(4 * 8 * 8, width)
        self.mix = torch.nn.Linear(width, width, bias=False)
        self.mix_again = torch.nn.Linear(width, width, bias=False)
        self.mix_again.weight = self.mix.weight
        self.drop = torch.nn.Dropout(drop)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        x = torch.tanh(self.mix(torch.tanh(self.into(x))))
        return self.head(self.drop(torch.tanh(self.mix_again(x))))


class Plain(torch.nn.Module):
    def __init__(self, classes: int = 10):
        super().__init__()
        self.fc = torch.nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(x.flatten(1))


class Text(torch.nn.Module):
    """Tells each byte of a text by its neighbours; 257 ids, the last of which is the mask."""

    def __init__(self, vocabulary: int = 257, width: int = 8):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.near = torch.nn.Conv1d(width, width, 3, padding=1)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.embedding(ids)
        return self.head(x + torch.tanh(self.near(x.transpose(1, 2))).transpose(1, 2))
