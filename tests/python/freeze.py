# SPDX-License-Identifier: Apache-2.0
"""A training of which one rank stands still: freeze.py KIND RANK STEP [lines]. KIND is loader, collective, lock or none.

With `lines` it has those of Lockstep, else it is a script as people have it.
"""
import os
import sys
import threading

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

KIND, RANK, STEP = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
HAS_LINES = "lines" in sys.argv
BATCH = 8


def read_sample():
    open(os.environ["PIPE"]).read()  # Nobody writes to it.


def average_alone(group):
    dist.all_reduce(torch.ones(1), group=group)  # The others are elsewhere.


def take_lock(lock):
    lock.acquire()  # Somebody has it.


class Samples(Dataset):
    def __init__(self):
        self.read = 0

    def __len__(self):
        return 2 * BATCH * 10 ** 6

    def __getitem__(self, index):
        self.read += 1
        if KIND == "loader" and dist.get_rank() == RANK and self.read == BATCH * STEP + 3:
            read_sample()
        return torch.full((4,), float(index % 7))


def batches(loader, model, optimizer):
    if not HAS_LINES:
        return loader
    import lockstep
    run = lockstep.start(model=model, optimizer=optimizer, folder="run")
    next(run.epochs(1))
    return run.steps(loader)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group, lock = dist.new_group(), threading.Lock()
    lock.acquire()
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    data = Samples()
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=False))
    for step, batch in enumerate(batches(loader, model, optimizer)):
        if step == STEP and dist.get_rank() == RANK:
            if KIND == "collective":
                average_alone(group)
            if KIND == "lock":
                take_lock(lock)
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            open("step", "w").write(str(step + 1))


main()
