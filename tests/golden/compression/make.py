#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes runs.json beside this file: what PyTorch's compression hooks give on two ranks.

    python tests/golden/compression/make.py        (torch 2.11)

The network, in float64: fc1 24 -> 32, tanh, fc2 32 -> 16, tanh, fc3 16 -> 3; parameter number i in registration order
holds 0.3 * sin(1.7 * k + i) at place k. Step t's batch of eight: x[r][c] = sin(0.37 * (r + 1) * (c + 1) + t); each rank
has four rows. Loss: the mean over rows of the sum of squares of (output - 0.5). Plain SGD, lr 0.02. PowerSGD begins with the
columns that Lockstep begins with, in place of its own random ones.
"""
import json
import pathlib
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from epoch_order import mixed  # noqa: E402

WORLD, STEPS, SEED = 2, 12, 7
RUNS = {"none": {}, "fp16": {}, "bf16": {}, "powersgd-1": {"rank": 1, "start": 3}, "powersgd-2": {"rank": 2, "start": 5},
        "powersgd-4": {"rank": 4, "start": 2}}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(24, 32)
        self.fc2 = torch.nn.Linear(32, 16)
        self.fc3 = torch.nn.Linear(16, 3)
        self.double()
        with torch.no_grad():
            for i, parameter in enumerate(self.parameters()):
                places = torch.arange(parameter.numel(), dtype=torch.float64)
                parameter.copy_((0.3 * torch.sin(1.7 * places + i)).view_as(parameter))

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def batch(step):
    rows = torch.arange(8, dtype=torch.float64).view(-1, 1)
    columns = torch.arange(24, dtype=torch.float64).view(1, -1)
    return torch.sin(0.37 * (rows + 1) * (columns + 1) + step)


def first_columns(place, rows, columns):
    key = mixed(SEED, place)
    numbers = [(mixed(key, i) >> 11) / 2**52 - 1 for i in range(rows * columns)]
    return torch.tensor(numbers, dtype=torch.float64).view(rows, columns)


def powersgd(net, settings):
    """The hook, which is told the place of the parameter that each of its random matrices is for."""
    places = {id(parameter): i for i, parameter in enumerate(net.parameters())}
    state = powerSGD_hook.PowerSGDState(None, settings["rank"], settings["start"])
    randn = torch.randn

    def hook(state, bucket):
        wanted = []
        for parameter in bucket.parameters():
            matrix = parameter.view(parameter.shape[0], -1)
            n, m = matrix.shape
            r = min(n, m, settings["rank"])
            if (n + m) * r * 2 < n * m:
                wanted.append((places[id(parameter)], m, r))

        def columns(*shape, **_):
            place, m, r = wanted.pop(0)
            assert shape == (1, m, r), (shape, place)
            return first_columns(place, m, r).unsqueeze(0)

        torch.randn = columns
        try:
            return powerSGD_hook.powerSGD_hook(state, bucket)
        finally:
            torch.randn = randn

    return state, hook


def train(rank, name, settings):
    net = Net()
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    if name == "fp16":
        parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "bf16":
        parallel.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif settings:
        parallel.register_comm_hook(*powersgd(net, settings))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        rows = batch(step)[4 * rank:4 * rank + 4]
        loss = (parallel(rows) - 0.5).pow(2).sum(1).mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / WORLD)
    return {"settings": settings, "losses": losses, "fc1": net.fc1.weight.flatten()[:40].tolist(),
            "fc2": net.fc2.weight.flatten()[:40].tolist(), "fc3": net.fc3.bias.tolist()}


def worker(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    runs = {name: train(rank, name, settings) for name, settings in RUNS.items()}
    if rank == 0:
        (HERE / "runs.json").write_text(json.dumps({"seed": SEED, "runs": runs}, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(worker, args=(port,), nprocs=WORLD)
