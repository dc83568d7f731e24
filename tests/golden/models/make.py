#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes models.json: outputs and gradients of PyTorch modules built like ours, for weights and inputs made by a formula.

    python tests/golden/models/make.py

Made with: torch 2.11.0 (CPU). network_test.cc reads it.
"""
import json
import pathlib

import torch
import torch.nn.functional as F


def numbers(shape, seed):
    """Number i is ((i * 37 + seed * 11) % 101 - 50) / 256."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([((i * 37 + seed * 11) % 101 - 50) / 256 for i in range(count)], dtype=torch.float64).reshape(shape)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(6, 5)
        self.fc2 = torch.nn.Linear(5, 4)
        self.fc3 = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Cnn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(2, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = torch.nn.Linear(32 * 1 * 2, 128)
        self.fc2 = torch.nn.Linear(128, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def record(model, input_shape):
    """Gradients are long: of each, the sum, the sum weighted by i % 17 - 8, and the first three numbers."""
    model = model.double()
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            parameter.copy_(numbers(parameter.shape, seed))
    output = model(numbers([4, *input_shape], 50) * 4)
    loss = F.cross_entropy(output, torch.tensor([0, 1, 2, 1]))
    loss.backward()
    parameters = []
    for name, parameter in model.named_parameters():
        gradient = parameter.grad.flatten()
        weights = torch.arange(len(gradient), dtype=torch.float64) % 17 - 8
        parameters.append({"name": name, "shape": list(parameter.shape), "sum": gradient.sum().item(),
                           "weighted": (gradient * weights).sum().item(), "first": gradient[:3].tolist()})
    return {"input_shape": input_shape, "output": output.flatten().tolist(), "loss": loss.item(), "parameters": parameters}


golden = {"mlp": record(Mlp(), [1, 2, 3]), "cnn": record(Cnn(), [2, 4, 8])}
pathlib.Path(__file__).with_name("models.json").write_text(json.dumps(golden, indent=1) + "\n")
