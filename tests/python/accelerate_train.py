# SPDX-License-Identifier: Apache-2.0
"""A script with Accelerate and Lockstep's three lines: accelerate_train.py RUN [kill_at=STEP] [signal_at=STEP] [workers=N]."""
import os
import pathlib
import signal
import sys

import accelerate
import torch
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import lockstep  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1])
AT = {key: int(value) for key, _, value in (word.partition("=") for word in sys.argv[2:])}


def main():
    torch.set_num_threads(1)
    accelerate.utils.set_seed(3)
    accelerator = accelerate.Accelerator(cpu=True)
    data = TensorDataset(torch.rand(24, 4), torch.rand(24, 1))
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    loader = DataLoader(data, 4, shuffle=True, num_workers=AT.get("workers", 0), persistent_workers="workers" in AT)
    model, optimizer, loader, scheduler = accelerator.prepare(net, optimizer, loader, scheduler)
    run = lockstep.start(model=model, optimizer=optimizer, scheduler=scheduler, folder=FOLDER, every_steps=2)
    for _ in run.epochs(3):
        for x, y in run.steps(loader):
            if accelerator.is_main_process and run.step + 1 in (AT.get("kill_at"), AT.get("signal_at")):
                os.kill(os.getpid(), signal.SIGKILL if "kill_at" in AT else signal.SIGTERM)
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            scheduler.step()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), FOLDER / "weights.pt")
    accelerator.wait_for_everyone()


main()
