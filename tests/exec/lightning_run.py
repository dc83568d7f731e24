# SPDX-License-Identifier: Apache-2.0
"""Training as Lightning's users write it, going on from its last checkpoint: nothing of Lockstep in it. Each rank prints a
line when it starts, after each epoch, and when it ends."""
import argparse
import json
import os
import sys

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)

    def training_step(self, batch, _):
        (samples,) = batch
        return (self.net(samples) - samples.sum(1, keepdim=True)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_train_start(self):
        self.say("start")

    def on_train_epoch_end(self):
        self.say("epoch")

    def on_train_end(self):
        self.say("end", weights=self.net.weight.sum().item())

    def say(self, event, **more):
        print(json.dumps({"event": event, "rank": self.global_rank, "world": self.trainer.world_size,
                          "local_rank": self.local_rank, "epoch": self.current_epoch, **more}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_nodes", type=int, default=2)
    parser.add_argument("--max_epochs", type=int, default=30)
    asked = parser.parse_args()
    lightning.seed_everything(1)
    data = torch.utils.data.TensorDataset(torch.randn(6400, 8))
    trainer = lightning.Trainer(accelerator="cpu", devices=2, num_nodes=asked.num_nodes, strategy="ddp", max_epochs=asked.max_epochs,
                                logger=False, enable_progress_bar=False, enable_model_summary=False,
                                callbacks=ModelCheckpoint(".", save_last=True))
    trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=16), ckpt_path="last")
    # When all work is done, PyTorch's threads can still abort the interpreter at its end.
    sys.stdout.flush()
    os._exit(0)
