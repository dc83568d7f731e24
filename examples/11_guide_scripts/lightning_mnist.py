# SPDX-License-Identifier: Apache-2.0
"""Digits with Lightning: lightning_mnist.py FOLDER [EPOCHS]

The lines that end with `# lockstep` are all that was added.
"""
import gzip
import os
import pathlib
import sys

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lockstep  # lockstep

FOLDER = pathlib.Path(sys.argv[1])
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 10


def digits(part):
    images = gzip.decompress((FOLDER / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((FOLDER / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    images = torch.frombuffer(bytearray(images), dtype=torch.uint8).reshape(len(labels), -1).float() / 255
    return TensorDataset(images, torch.tensor(list(labels)))


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))

    def training_step(self, batch, index):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        images, labels = batch
        self.log("val_accuracy", (self.net(images).argmax(1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main():
    L.seed_everything(42)
    nodes = int(os.environ.get("SLURM_NNODES", 1))
    devices = max(1, int(os.environ.get("WORLD_SIZE", 1)) // nodes)
    trainer = L.Trainer(max_epochs=EPOCHS, num_nodes=nodes, devices=devices, accelerator="auto", enable_progress_bar=False, logger=False,
                        enable_checkpointing=False, callbacks=[lockstep.Lightning(every_steps=20)])  # lockstep: the callback
    model = Classifier()
    test = DataLoader(digits("t10k"), batch_size=256)
    trainer.fit(model, DataLoader(digits("train"), batch_size=32, shuffle=True), test)
    found = trainer.validate(model, test, verbose=False)
    if trainer.is_global_zero:
        torch.save(model.state_dict(), os.path.join(os.environ.get("LOCKSTEP_RUN_DIR", "."), "weights.pt"))
        print(f"val_accuracy {found[0]['val_accuracy']:.4f}")


main()
