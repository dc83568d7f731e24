# SPDX-License-Identifier: Apache-2.0
"""Trains a class with Lightning's own Trainer: python peer_lit.py STEPS FOLDER prints the microseconds of a step."""
import logging
import sys
import time
import warnings

import lightning
import torch

from peer_net import Net, samples


class Lit(lightning.LightningModule):
    """The network of peer_net.py with steps and an optimizer of its own."""

    def __init__(self, hidden, num_classes):
        super().__init__()
        self.net = Net(hidden, num_classes)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.001, momentum=0.9)


class Clock(lightning.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 1:
            self.started = time.perf_counter()

    def on_train_end(self, trainer, module):
        print((time.perf_counter() - self.started) / (trainer.global_step - 1) * 1e6)


def main():
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(*samples(sys.argv[2]))
    trainer = lightning.Trainer(max_steps=int(sys.argv[1]), accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, callbacks=[Clock()])
    trainer.fit(Lit(32, 10), torch.utils.data.DataLoader(data, batch_size=32, shuffle=True))


if __name__ == "__main__":
    main()
