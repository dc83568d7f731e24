# SPDX-License-Identifier: Apache-2.0
"""A training that tests start, stop and kill: train.py RUN [NAME=VALUE...], or `train(folder, **given)` in a process of its own.

Each rank notes the ids of the samples that it trains on. At the end rank 0 writes RUN/weights.pt, which tests compare.
"""
import json
import os
import pathlib
import random
import signal
import sys
import time

import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.utils.data import DataLoader, Dataset, DistributedSampler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import lockstep  # noqa: E402

DEFAULTS = {"epochs": 3, "samples": 40, "batch": 4, "accumulate": 1, "sampler": "plain", "workers": 0, "every_steps": 3, "width": 6,
            "global_batch": 0, "keep": 3, "first": 0, "persistent": 0, "draws": 0, "ddp": "", "stop_reading": 0, "kill_at": 0, "signal_at": 0, "signal": "TERM", "at_rank": 0, "job_end": 0}


class Points(Dataset):
    """Points with noise that the reader draws, as augmentations do."""

    def __init__(self, size, has_noise):
        self.size, self.has_noise = size, has_noise

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return torch.tensor([i / self.size, random.random() if self.has_noise else 0.5, 1.0]), torch.tensor([i % 3 / 3.0]), i


def made_loader(given, world):
    data = Points(given.samples, given.sampler == "plain")
    workers = {"num_workers": given.workers, "persistent_workers": bool(given.persistent)}
    if given.sampler == "lockstep":
        size = {"global_batch": given.global_batch} if given.global_batch else {"batch": given.batch}
        return DataLoader(data, batch_sampler=lockstep.Sampler(data, seed=5, **size), **workers)
    if world > 1:
        return DataLoader(data, given.batch, sampler=DistributedSampler(data, seed=5), **workers)
    return DataLoader(data, given.batch, shuffle=True, **workers)


def require_gradient(gradient):
    if not gradient.any():
        raise AssertionError("a backward pass that is not the program's")


def made_model(given, world):
    """With dropout and BatchNorm; without, and in float64, where ranks must not matter."""
    if given.sampler == "lockstep":
        net = torch.nn.Sequential(torch.nn.Linear(3, given.width), torch.nn.Tanh(), torch.nn.Linear(given.width, 1)).double()
    else:
        net = torch.nn.Sequential(torch.nn.Linear(3, given.width), torch.nn.BatchNorm1d(given.width), torch.nn.Dropout(0.2),
                                  torch.nn.Linear(given.width, 1))
    if world == 1:
        return net, net
    model = torch.nn.parallel.DistributedDataParallel(net, **({given.ddp: True} if given.ddp and "hook" not in given.ddp else {}))
    if given.ddp == "comm_hook":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if given.ddp == "hook":
        net[0].weight.register_hook(require_gradient)
    return net, model


def train(folder, tell=lambda step: None, **options):
    given = type("Given", (), dict(DEFAULTS, **options))
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(1)
    if world > 1:
        torch.distributed.init_process_group("gloo")
    net, model = made_model(given, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=10**6)
    loader = made_loader(given, world)
    if given.job_end:
        os.environ["LOCKSTEP_JOB_END"] = str(int(time.time()) + given.job_end)
    run = lockstep.start(model=model, optimizer=optimizer, scheduler=scheduler, folder=folder, every_steps=given.every_steps, keep=given.keep,
                         log_every=2, monitor="val_loss", mode="max")
    first = run.step
    ids = open(pathlib.Path(folder) / f"ids-{rank}.jsonl", "a", buffering=1)
    for epoch in run.epochs(given.epochs):
        factor = 1.0
        if given.draws:  # Some programs choose a resolution for the epoch, and seed PyTorch anew.
            torch.manual_seed(1000 + epoch)
            factor = 1 + random.random() + torch.rand(()).item()
        for x, y, numbers in run.steps(loader, accumulate=given.accumulate):
            tell(run.step)
            if rank == given.at_rank and first == given.first and run.step + 1 in (given.kill_at, given.signal_at):
                os.kill(os.getpid(), signal.SIGKILL if given.kill_at else getattr(signal, "SIG" + given.signal))
            loss = torch.nn.functional.mse_loss(model(x.to(net[0].weight.dtype)), y.to(net[0].weight.dtype))
            (factor * loss * run.weight / given.accumulate).backward()
            if run.is_update_due:
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            run.log(loss=loss)
            if run.weight > 0:
                ids.write(json.dumps({"epoch": epoch, "step": run.step + 1, "ids": numbers.tolist()}) + "\n")
            if given.stop_reading and run.step % 10 + 1 == given.stop_reading:
                break
        run.log(val_loss=1.0 / (epoch + 1))
    if rank == 0:
        torch.save(net.state_dict(), pathlib.Path(folder) / "weights.pt")
    return {"rank": rank, "first": first, "steps": run.step, "samples": run.samples}


if __name__ == "__main__":
    words = dict(word.partition("=")[::2] for word in sys.argv[2:])
    print(json.dumps(train(sys.argv[1], **{key: type(DEFAULTS[key])(value) for key, value in words.items()})), flush=True)
