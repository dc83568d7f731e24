# SPDX-License-Identifier: Apache-2.0
"""Digits with DistributedDataParallel, over any number of nodes: ddp_two_nodes.py FOLDER [EPOCHS]

The lines that end with `# lockstep` are all that was added to a script as the clusters' guides have it.
"""
import gzip
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import lockstep  # lockstep

FOLDER = pathlib.Path(sys.argv[1])
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 10


def digits(part):
    images = gzip.decompress((FOLDER / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((FOLDER / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    images = torch.frombuffer(bytearray(images), dtype=torch.uint8).reshape(len(labels), 1, 8, 8).float() / 255
    return TensorDataset(images, torch.tensor(list(labels)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(16 * 3 * 3, 10)

    def forward(self, x):
        return self.fc(self.dropout(torch.relu(nn.functional.max_pool2d(self.conv(x), 2)).flatten(1)))


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(42)
    data = digits("train")
    model = DistributedDataParallel(Net().to(device))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)
    sampler = DistributedSampler(data, seed=42)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    run = lockstep.start(model=model, optimizer=optimizer, scheduler=scheduler)  # lockstep
    for epoch in run.epochs(EPOCHS):  # lockstep: was `for epoch in range(EPOCHS):`
        sampler.set_epoch(epoch)
        for images, labels in run.steps(loader):  # lockstep: was `in loader:`
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            run.log(loss=loss)  # lockstep
        scheduler.step()
    if dist.get_rank() == 0:
        model.eval()
        test = digits("t10k")
        with torch.no_grad():
            right = (model.module(test.tensors[0].to(device)).argmax(1).cpu() == test.tensors[1]).float().mean()
        torch.save(model.module.state_dict(), os.path.join(run.folder, "weights.pt"))
        print(f"accuracy {right:.4f}")
    dist.destroy_process_group()


main()
