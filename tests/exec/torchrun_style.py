# SPDX-License-Identifier: Apache-2.0
"""Training as torchrun's manual has one write it, its variables and all: nothing of Lockstep in it."""
import hashlib
import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    local_world = int(os.environ["LOCAL_WORLD_SIZE"])
    with_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if with_gpu else torch.device("cpu")
    if with_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(backend="nccl" if with_gpu else "gloo", init_method="env://")
    assert (dist.get_rank(), dist.get_world_size()) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if dist.is_torchelastic_launched() and dist.get_rank() == 0:
        print(f"run {os.environ['TORCHELASTIC_RUN_ID']}, start {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)

    torch.manual_seed(1)
    samples = torch.randn(64, 8, generator=torch.Generator().manual_seed(2))
    data = TensorDataset(samples, samples.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Linear(8, 1).to(device), device_ids=[local_rank] if with_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = torch.zeros((), device=device)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
            seen += len(inputs)
    dist.all_reduce(seen)
    weights = model.module.weight.detach().cpu().numpy().tobytes()
    print(json.dumps({"rank": dist.get_rank(), "world": dist.get_world_size(), "local_rank": local_rank,
                      "local_world": local_world, "samples": int(seen.item()), "loss": round(loss.item(), 6),
                      "weights": hashlib.sha256(weights).hexdigest()[:16]}), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    # If a thread of Gloo frees its last tensor while the interpreter ends, the interpreter aborts.
    os._exit(0)


if __name__ == "__main__":
    main()
