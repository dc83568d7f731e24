# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits on any number of ranks. The lines that end with `# lockstep` are all that was added."""
import gzip
import os
import pathlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lockstep  # lockstep

DATA = pathlib.Path(sys.argv[1])
EPOCHS = int(sys.argv[2])


def digits(part):
    images = gzip.decompress((DATA / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((DATA / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    images = torch.frombuffer(bytearray(images), dtype=torch.uint8).reshape(len(labels), -1).float() / 255
    return TensorDataset(images, torch.tensor(list(labels)))


def accuracy(net, data):
    net.eval()
    with torch.no_grad():
        found = net(data.tensors[0]).argmax(1)
    net.train()
    return float((found == data.tensors[1]).float().mean())


def main():
    torch.manual_seed(1)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        torch.distributed.init_process_group("gloo")
    train, test = digits("train"), digits("t10k")
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))
    model = nn.parallel.DistributedDataParallel(net) if torch.distributed.is_initialized() else net
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(train, batch_sampler=lockstep.Sampler(train, global_batch=64))  # lockstep
    run = lockstep.start(model=model, optimizer=optimizer, monitor="val_accuracy", mode="max")  # lockstep
    for epoch in run.epochs(EPOCHS):  # lockstep
        for images, labels in run.steps(loader):  # lockstep
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels) * run.weight  # lockstep
            loss.backward()
            optimizer.step()
            run.log(loss=loss)  # lockstep
        run.log(val_accuracy=accuracy(net, test))  # lockstep
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
        print(f"accuracy {accuracy(net, test):.4f} after {run.step} steps")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


main()
