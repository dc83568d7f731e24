# SPDX-License-Identifier: Apache-2.0
"""Times a step of the small network on MNIST in Lightning's Trainer, with every optional feature turned off."""
import logging
import sys
import time
import warnings

import torch

import peer

try:
    import lightning
except ImportError:
    peer.say(missing="lightning")
    sys.exit()

asked = peer.arguments(data="", batch=64, window=200, repeats=5, warm=100)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
images, labels = peer.mnist(asked.data, asked.device)
steps = 1 + asked.warm + asked.window * asked.repeats


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = peer.Cnn()

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x.float() / 255), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.001, fused=True)


class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        return ((images[at], labels[at]) for at in peer.batches(len(images), asked.batch, asked.device))


class Clock(lightning.Callback):
    def __init__(self):
        self.times = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        done = batch_idx - asked.warm
        if done < 0 or done % asked.window:
            return
        outputs["loss"].item()
        self.times.append((time.perf_counter(), time.process_time()))


torch.manual_seed(1)
peer.allow_tf32()
clock = Clock()
trainer = lightning.Trainer(accelerator="gpu" if asked.device == "cuda" else "cpu", devices=1, max_steps=steps, callbacks=[clock],
                            logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Net(), torch.utils.data.DataLoader(Batches(), batch_size=None))
windows = [(after[0] - before[0]) / asked.window for before, after in zip(clock.times, clock.times[1:])]
cpu = (clock.times[-1][1] - clock.times[0][1]) / (asked.window * len(windows))
peer.say(step_s=sorted(windows)[len(windows) // 2], windows_s=windows, cpu_s=cpu, lightning=lightning.__version__)
