# SPDX-License-Identifier: Apache-2.0
"""A training whose ranks stand still at times: freeze.py KIND:RANK:STEP,... [lines]. KIND is loader, collective or lock.

A rank that stands still goes on once $PIPE has been written to. With `lines` the script has those of Lockstep, else it is as people
have it.
"""
import os
import sys
import threading

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

MOMENTS = {int(step): (kind, int(rank)) for kind, rank, step in (each.split(":") for each in sys.argv[1].split(",") if each)}
HAS_LINES = "lines" in sys.argv
BATCH = 8


def read_sample():
    open(os.environ["PIPE"]).read()


def average_alone(group):
    dist.all_reduce(torch.ones(1), group=group)  # The others are elsewhere.


def take_lock(lock):
    lock.acquire()  # Somebody has it.


def once_told(act):
    """Does it in a thread, once the pipe has been written to."""
    threading.Thread(target=lambda: (open(os.environ["PIPE"]).read(), act()), daemon=True).start()


class Samples(Dataset):
    def __init__(self):
        self.read = 0

    def __len__(self):
        return 2 * BATCH * 10 ** 6

    def __getitem__(self, index):
        self.read += 1
        if self.read % BATCH == 3 and MOMENTS.get(self.read // BATCH) == ("loader", dist.get_rank()):
            read_sample()
        return torch.full((4,), float(index % 7))


def stand_still(kind, is_mine, group, lock):
    if kind == "collective":
        average_alone(group) if is_mine else once_told(lambda: average_alone(group))
    if kind == "lock" and is_mine:
        lock.acquire()
        once_told(lock.release)
        take_lock(lock)
        lock.release()


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
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    data = Samples()
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=False))
    for step, batch in enumerate(batches(loader, model, optimizer)):
        if step in MOMENTS:
            kind, rank = MOMENTS[step]
            stand_still(kind, rank == dist.get_rank(), group, lock)
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            open("step", "w").write(str(step + 1))


main()
