#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains recipes/digits.toml with PyTorch's DistributedDataParallel on two processes, and writes what came of it.

    python tests/golden/ddp/make.py

needs a full PyTorch. It writes weights.safetensors, from which both sides start, and digits.json, whose losses
tests/ranks/numerics_test.py compares with Lockstep's. Order, batches and weights of samples are those of docs/formats/batches.md.
"""
import gzip
import json
import pathlib
import socket
import struct
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parents[2] / "datasets/digits"
sys.path.insert(0, str(HERE.parent))
from epoch_order import EpochOrder, part_of_batch  # noqa: E402

WORLD, EPOCHS, GLOBAL_BATCH, SEED, LR, HIDDEN, STEPS_KEPT = 2, 10, 50, 1, 0.015, 32, 60
PRECISIONS = {"fp32": torch.float32, "fp64": torch.float64}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(64, HIDDEN)
        self.fc2 = torch.nn.Linear(HIDDEN, 10)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def idx(name):
    raw = gzip.decompress((DATA / f"{name}.gz").read_bytes())
    dims = struct.unpack(f">{raw[3]}I", raw[4:4 + 4 * raw[3]])
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(dims)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def mean_over_ranks(total, count):
    sums = torch.tensor([total, count], dtype=torch.float64)
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


def train(rank, weights, dtype):
    """Losses of each epoch and each step, means over the samples of all ranks."""
    net = Net().to(dtype)
    net.load_state_dict(weights)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=LR, fused=True)
    images, labels = idx("train-images-idx3-ubyte"), idx("train-labels-idx1-ubyte").long()
    epoch_losses, step_losses = [], []
    for epoch in range(EPOCHS):
        order = EpochOrder(len(images), SEED, epoch)
        epoch_sum, epoch_count = 0.0, 0
        for batch in range(-(-len(images) // GLOBAL_BATCH)):
            ids = [order[place] for place in part_of_batch(len(images), batch, GLOBAL_BATCH, rank, WORLD)]
            samples = min(GLOBAL_BATCH, len(images) - batch * GLOBAL_BATCH)
            loss = torch.nn.functional.cross_entropy(ddp(images[ids].to(dtype) / 255), labels[ids])
            optimizer.zero_grad()
            (loss * (len(ids) * WORLD / samples)).backward()
            optimizer.step()
            part = loss.item() * len(ids)
            epoch_sum, epoch_count = epoch_sum + part, epoch_count + len(ids)
            step_losses.append(mean_over_ranks(part, len(ids)))
        epoch_losses.append(mean_over_ranks(epoch_sum, epoch_count))
    return {"epoch_losses": epoch_losses, "step_losses": step_losses[:STEPS_KEPT]}


def work(rank, port, weights):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    found = {name: train(rank, weights, dtype) for name, dtype in PRECISIONS.items()}
    if rank == 0:
        found = {"made_with": f"torch {torch.__version__}", **found}
        (HERE / "digits.json").write_text(json.dumps(found, indent=1) + "\n")
    dist.destroy_process_group()


def main():
    torch.manual_seed(SEED)
    weights = Net().state_dict()
    write_safetensors(HERE / "weights.safetensors", weights)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, (port, weights), WORLD)


if __name__ == "__main__":
    main()
