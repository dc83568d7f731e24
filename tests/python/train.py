# SPDX-License-Identifier: Apache-2.0
"""A training that tests start, stop and kill: train.py RUN [NAME=VALUE...]. Each rank notes the ids that it trains on.

At its end it writes RUN/weights.pt, which tests compare. `kill_at=STEP` ends it by SIGKILL in the middle of that step.
"""
import json
import os
import pathlib
import random
import signal
import sys

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import lockstep  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1])
GIVEN = {"epochs": 3, "samples": 40, "batch": 4, "accumulate": 1, "sampler": "plain", "workers": 0, "every_steps": 3, "kill_at": 0,
         "signal_at": 0, "signal": "TERM", "rank": 0, "width": 6, "bad": "", "pause": "", "world_batch": 0, "keep": 3}
for word in sys.argv[2:]:
    key, _, value = word.partition("=")
    GIVEN[key] = type(GIVEN[key])(value)
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Points(Dataset):
    """Points of a plane with noise that the reader draws, as augmentations do."""

    def __len__(self):
        return GIVEN["samples"]

    def __getitem__(self, i):
        noise = random.random() if GIVEN["sampler"] != "lockstep" else 0.5
        return torch.tensor([i / GIVEN["samples"], noise, 1.0]), torch.tensor([i % 3 / 3.0]), i


def loader_for(data):
    if GIVEN["sampler"] == "lockstep":
        kind = {"global_batch": GIVEN["world_batch"]} if GIVEN["world_batch"] else {"batch": GIVEN["batch"]}
        return DataLoader(data, batch_sampler=lockstep.Sampler(data, seed=5, **kind), num_workers=GIVEN["workers"])
    if WORLD > 1:
        return DataLoader(data, GIVEN["batch"], sampler=DistributedSampler(data, seed=5), num_workers=GIVEN["workers"])
    return DataLoader(data, GIVEN["batch"], shuffle=True, num_workers=GIVEN["workers"])


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(1)
    if WORLD > 1:
        torch.distributed.init_process_group("gloo")
    net = torch.nn.Sequential(torch.nn.Linear(3, GIVEN["width"]), torch.nn.BatchNorm1d(GIVEN["width"]), torch.nn.Dropout(0.2), torch.nn.Linear(GIVEN["width"], 1))
    if GIVEN["sampler"] == "lockstep":
        net = torch.nn.Sequential(torch.nn.Linear(3, GIVEN["width"]), torch.nn.Tanh(), torch.nn.Linear(GIVEN["width"], 1)).double()
    model = torch.nn.parallel.DistributedDataParallel(net) if WORLD > 1 else net
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=1000)
    loader = loader_for(Points())
    run = lockstep.start(model=model, optimizer=optimizer, scheduler=scheduler, folder=FOLDER, every_steps=GIVEN["every_steps"],
                         keep=GIVEN["keep"], log_every=2, monitor="val_loss")
    first = run.step
    with open(FOLDER / f"ids-{RANK}.jsonl", "a") as ids:
        for epoch in run.epochs(GIVEN["epochs"]):
            for x, y, numbers in run.steps(loader, accumulate=GIVEN["accumulate"]):
                if RANK == GIVEN["rank"] and run.step + 1 == GIVEN["kill_at"]:
                    os.kill(os.getpid(), signal.SIGKILL)
                if RANK == GIVEN["rank"] and run.step + 1 == GIVEN["signal_at"] and first == 0:
                    os.kill(os.getpid(), getattr(signal, "SIG" + GIVEN["signal"]))
                if GIVEN["pause"] and run.step + 1 == GIVEN["signal_at"] and first == 0:
                    print("waits", flush=True)
                    sys.stdin.readline()
                x, y = x.to(next(net.parameters()).dtype), y.to(next(net.parameters()).dtype)
                loss = torch.nn.functional.mse_loss(model(x), y)
                (loss * run.weight / GIVEN["accumulate"]).backward()
                if run.is_update_due:
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                run.log(loss=loss)
                if run.weight > 0:
                    ids.write(json.dumps({"epoch": epoch, "step": run.step + 1, "ids": numbers.tolist()}) + "\n")
                    ids.flush()
            run.log(val_loss=1.0 / (epoch + 1))
    if RANK == 0:
        torch.save(net.state_dict(), FOLDER / "weights.pt")
    print(json.dumps({"rank": RANK, "steps": run.step, "first": first, "samples": run.samples}), flush=True)


main()
