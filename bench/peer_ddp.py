# SPDX-License-Identifier: Apache-2.0
"""The peer of bench/run, which trains the same small network with Python's DistributedDataParallel.

Start it with torchrun, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Rank 0 prints one JSON object with the time of day at
which the first step ended, and the mean time of a later step.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    steps = int(sys.argv[1])
    features, hidden, batch = (int(each) for each in sys.argv[2].split(","))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(features, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    model = DistributedDataParallel(net, gradient_as_bucket_view=True) if world > 1 else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    x, y = torch.randn(1000, features), torch.randint(0, 10, (1000,))
    part = batch // world
    first = None
    for step in range(steps):
        if step == min(200, steps // 2):
            started = time.perf_counter()
        rows = torch.arange(step * part, (step + 1) * part) % 1000
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if first is None:
            first = time.time()
    later = steps - min(200, steps // 2)
    if rank == 0:
        print(json.dumps({"first_step_at": first, "step_us": (time.perf_counter() - started) / later * 1e6}))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
