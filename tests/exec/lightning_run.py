# SPDX-License-Identifier: Apache-2.0
"""Training as Lightning's users write it: nothing of Lockstep in it. Prints a line a rank when it starts and when it ends."""
import json

import lightning
import torch
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
    lightning.seed_everything(1)
    data = torch.utils.data.TensorDataset(torch.randn(6400, 8))
    trainer = lightning.Trainer(accelerator="cpu", devices=2, num_nodes=2, strategy="ddp", max_epochs=30, logger=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=16))
