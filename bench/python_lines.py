#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what Lockstep's lines cost a Python script. One process trains blocks of steps with and without `run.steps`, by turns.

    PYTHON bench/python_lines.py                      one rank
    lockstep launch -n 2 -- PYTHON bench/python_lines.py

Trains MNIST's network on random images, 64 a step and rank, with DistributedDataParallel if there are several ranks. Rank 0 prints the
ratio of speeds with its 95 % interval from 200 pairs of blocks. A ratio of 1 means that the lines cost nothing. Exits with 1 if the
interval reaches below 0.98.

PYTHONPATH names the folder of lockstep.py. LINES_PAIRS and LINES_STEPS set other counts."""
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import lockstep  # noqa: E402

PAIRS = int(os.environ.get("LINES_PAIRS", 200))
STEPS = int(os.environ.get("LINES_STEPS", 50))
ALLOWED = 0.98


def network():
    return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(800, 10))


def interval(ratios, draws=2000):
    """Returns the 95 % interval of the median, by bootstrapping over the pairs."""
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def main():
    torch.set_num_threads(1)
    world = int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = network()
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batch = (torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)))
    batches = [batch] * STEPS

    def block(source):
        start = time.perf_counter()
        for images, labels in source:
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return time.perf_counter() - start

    with tempfile.TemporaryDirectory() as folder:
        run = lockstep.start(model=model, optimizer=optimizer, folder=os.environ.get("LOCKSTEP_RUN_DIR") or folder, every_epochs=10 ** 6)
        ratios, seconds = [], []
        for pair in run.epochs(PAIRS + 2):
            # Each of the two comes first in every second pair, because a machine's speed drifts.
            plain = block(batches) if pair % 2 else None
            lined = block(run.steps(batches))
            plain = plain or block(batches)
            if pair >= 2:
                ratios.append(plain / lined)
                seconds.append((plain / STEPS, lined / STEPS))
        if len(ratios) < PAIRS:
            sys.exit("stopped early by " + str(run.stopped_by))
    low, high = interval(ratios)
    if int(os.environ.get("RANK", 0)) == 0:
        plain, lined = (1e3 * statistics.median(each) for each in zip(*seconds))
        print(f"{world} rank(s): {plain:.3f} ms a step, {lined:.3f} with the lines; "
              f"ratio {statistics.median(ratios):.4f}, 95 % interval {low:.4f} to {high:.4f}", flush=True)
    return 0 if low >= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
