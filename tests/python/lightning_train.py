# SPDX-License-Identifier: Apache-2.0
"""A Lightning script with one callback more.

lightning_train.py RUN [kill_at=STEP] [signal_at=STEP] [workers=N] [plateau=1] [check_every=STEPS] [sampler=1]
"""
import os
import pathlib
import signal
import sys
import warnings

import torch
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import lockstep  # noqa: E402

warnings.filterwarnings("ignore")
import lightning as L  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1])
AT = {key: int(value) for key, _, value in (word.partition("=") for word in sys.argv[2:])}


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))

    def training_step(self, batch, index):
        if self.global_step + 1 in (AT.get("kill_at"), AT.get("signal_at")):
            os.kill(os.getpid(), signal.SIGKILL if "kill_at" in AT else signal.SIGTERM)
        with open(FOLDER / "ids.txt", "a") as file:
            print(self.current_epoch, self.global_step, *[int(each) for each in batch[1][:, 0] * 24], file=file)
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("val_loss", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        if "plateau" in AT:  # Each validation but the first halves the learning rate.
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=10.0)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


def main():
    FOLDER.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    L.seed_everything(3)
    data = TensorDataset(torch.rand(24, 4), torch.arange(24.0).reshape(24, 1) / 24)
    trainer = L.Trainer(max_epochs=3, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, val_check_interval=AT.get("check_every"),
                        callbacks=[lockstep.Lightning(folder=FOLDER, every_steps=2)])
    net = Net()
    workers = {"num_workers": AT.get("workers", 0), "persistent_workers": "workers" in AT}
    order = {"batch_sampler": lockstep.Sampler(data, batch=4)} if "sampler" in AT else {"batch_size": 4, "shuffle": True}
    trainer.fit(net, DataLoader(data, **order, **workers), DataLoader(data, 8, generator=torch.Generator(), **workers))
    trainer.validate(net, DataLoader(data, 8), verbose=False)  # As scripts do; the run is over then.
    torch.save(net.state_dict(), FOLDER / "weights.pt")


main()
