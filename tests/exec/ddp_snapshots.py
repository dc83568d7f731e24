# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training that goes on from its snapshot, as PyTorch's fault-tolerance tutorial writes it: nothing of
Lockstep in it."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SNAPSHOT = "snapshot.pt"
EPOCHS = 30


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first = 0
    if os.path.exists(SNAPSHOT):
        snapshot = torch.load(SNAPSHOT, weights_only=True)
        model.module.load_state_dict(snapshot["model"])
        first = snapshot["epoch"] + 1
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} begins with epoch {first}", flush=True)
    data = torch.randn(6400, 8, generator=torch.Generator().manual_seed(2))
    for epoch in range(first, EPOCHS):
        for part in data[dist.get_rank()::dist.get_world_size()].split(16):
            optimizer.zero_grad()
            (model(part) - part.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "epoch": epoch}, SNAPSHOT + ".new")
            os.replace(SNAPSHOT + ".new", SNAPSHOT)
            print(f"epoch {epoch} is saved", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    # If a thread of Gloo frees its last tensor while the interpreter ends, the interpreter aborts.
    os._exit(0)


if __name__ == "__main__":
    main()
