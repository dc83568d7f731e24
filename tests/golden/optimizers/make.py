#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes optimizers.json: what PyTorch's own optimizers make of fixed parameters and gradients in five steps, and what
torch.nn.utils.clip_grad_norm_ makes of fixed gradients. optimizer_test.cc and trainer_test.cc read it.

    python tests/golden/optimizers/make.py

Made with: torch 2.11.0 (CPU).
"""
import json
import pathlib

import torch

STEPS = 5
SHAPES = [[3, 4], [5], [2, 2], [2]]
LATE = 2  # This parameter has no gradient in the first two steps,
NEVER = 3  # and this one never has any.

CASES = [
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "weight_decay": 0.01}),
    ("sgd", {"lr": 0.1, "momentum": 0.9}),
    ("sgd", {"lr": 0.05, "momentum": 0.8, "dampening": 0.3}),
    ("sgd", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    ("adam", {"lr": 0.01}),
    ("adam", {"lr": 0.01, "amsgrad": True, "weight_decay": 0.05}),
    ("adam", {"lr": 0.02, "betas": [0.5, 0.7], "eps": 0.001}),
    ("adamw", {"lr": 0.01, "weight_decay": 0}),
    ("adamw", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("adamw", {"lr": 0.02, "betas": [0.8, 0.9], "eps": 1e-06, "weight_decay": 0.01}),
]
KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def numbers(shape, seed, dtype):
    """Number i is ((i * 37 + seed * 11) % 101 - 50) / 64: exact in every type."""
    count = 1
    for size in shape:
        count *= size
    values = [((i * 37 + seed * 11) % 101 - 50) / 64 for i in range(count)]
    return torch.tensor(values, dtype=dtype).reshape(shape)


def trained(name, options, dtype):
    parameters = [torch.nn.Parameter(numbers(shape, p, dtype)) for p, shape in enumerate(SHAPES)]
    optimizer = KINDS[name](parameters, **options)
    for step in range(STEPS):
        optimizer.zero_grad()
        for p, parameter in enumerate(parameters):
            if p == NEVER or (p == LATE and step < 2):
                continue
            parameter.grad = numbers(SHAPES[p], 10 * (step + 1) + p, dtype)
        optimizer.step()
    return [parameter.detach().flatten().tolist() for parameter in parameters]


def clipped(max_norm):
    parameters = [torch.nn.Parameter(numbers(shape, p, torch.float64)) for p, shape in enumerate(SHAPES[:2])]
    for p, parameter in enumerate(parameters):
        parameter.grad = numbers(SHAPES[p], 20 + p, torch.float64)
    torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return {"max_norm": max_norm, "gradients": [parameter.grad.flatten().tolist() for parameter in parameters]}


cases = [
    {"name": name, "options": options, "float32": trained(name, options, torch.float32),
     "float64": trained(name, options, torch.float64)}
    for name, options in CASES
]
golden = {"steps": STEPS, "shapes": SHAPES, "late": LATE, "never": NEVER, "cases": cases,
          "clip": [clipped(0.5), clipped(100.0)]}
pathlib.Path(__file__).with_name("optimizers.json").write_text(json.dumps(golden, indent=1) + "\n")
