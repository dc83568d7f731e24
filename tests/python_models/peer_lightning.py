# SPDX-License-Identifier: Apache-2.0
"""Trains a class of stepping_lightning.py with Lightning's own Trainer in float64: python peer_lightning.py answers each line that it reads, a
SPEC, with the steps' losses and the epochs' metrics: peer_server.py. SPEC is JSON: {"object", "args", "steps", "seed",
"global_batch"}. The samples of a step are those of docs/formats/batches.md."""
import logging
import warnings

import lightning
import torch

import stepping_lightning
from peer import EpochOrder, idx, part_of_batch
from peer_server import serve


class Order:
    """A batch sampler: the samples of each epoch's batches."""

    def __init__(self, size, spec):
        self.size, self.spec, self.epoch = size, spec, 0

    def __len__(self):
        return -(-self.size // self.spec["global_batch"])

    def __iter__(self):
        order = EpochOrder(self.size, self.spec["seed"], self.epoch)
        self.epoch += 1
        for index in range(len(self)):
            yield [order[place] for place in part_of_batch(self.size, index, self.spec["global_batch"], 0, 1)]


class Losses(lightning.Callback):
    def __init__(self):
        self.losses, self.metrics = [], []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))

    def on_train_epoch_end(self, trainer, module):
        self.metrics.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def data(name):
    return torch.utils.data.TensorDataset(idx(f"{name}-images-idx3-ubyte").unsqueeze(1).double() / 255, idx(f"{name}-labels-idx1-ubyte").long())


def trained(spec):
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(spec["seed"])
    net = getattr(stepping_lightning, spec["object"])(**spec["args"])
    seen, train = Losses(), data("train")
    trainer = lightning.Trainer(max_steps=spec["steps"], accelerator="cpu", devices=1, precision="64-true", logger=False, callbacks=[seen],
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(net, torch.utils.data.DataLoader(train, batch_sampler=Order(len(train), spec)),
                torch.utils.data.DataLoader(data("t10k"), batch_size=256))
    return {"losses": seen.losses, "metrics": seen.metrics}


if __name__ == "__main__":
    serve(trained)
