#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes options.json beside this file: what PyTorch's schedulers, GradScaler, AveragedModel, autocast and clipping give.

    python tests/golden/trainer/make.py        (torch 2.11)

The network of `losses`: fc1 4 -> 8, tanh, fc2 8 -> 3; parameter number i in registration order holds
((7 * k + 3 * i) % 11 - 5) / 10 at place k. Batch b of five samples: x[r][c] = ((3 * r + 5 * c + 2 * b) % 7 - 3) / 4, target (r + b) % 3.
"""
import json
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler as schedulers
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

warnings.filterwarnings("ignore")


def optimizer(lr=0.1, momentum=0.9):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr, momentum=momentum)


def rates(make, count, lr=0.1, values=None):
    """Each step's learning rate and momentum; `values` are what a plateau sees."""
    opt = optimizer(lr)
    scheduler = make(opt)
    out = []
    for t in range(count):
        out.append([opt.param_groups[0]["lr"], opt.param_groups[0]["momentum"]])
        opt.step()
        scheduler.step(values[t]) if values else scheduler.step()
    return out


def group_rates(max_rates, lrs, count):
    """Each step's learning rate of each group, under OneCycleLR with a list of max_lr."""
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs]
    opt = torch.optim.SGD(groups, lr=lrs[0], momentum=0.9)
    scheduler = schedulers.OneCycleLR(opt, max_lr=max_rates, total_steps=count)
    out = []
    for _ in range(count):
        out.append([group["lr"] for group in opt.param_groups])
        opt.step()
        if len(out) < count:
            scheduler.step()
    return out


def warmed(make, warmup, factor):
    def build(opt):
        first = schedulers.LinearLR(opt, start_factor=factor, end_factor=1.0, total_iters=warmup)
        return schedulers.SequentialLR(opt, [first, make(opt)], milestones=[warmup])
    return build


PLATEAU = [1.0, 0.9, 0.9, 0.9, 0.91, 0.9, 0.5, 0.49999, 0.6, 0.7, 0.8, 0.4, 0.41, 0.42, 0.43, 0.44, 0.45]
KINDS = {
    "step": lambda o: schedulers.StepLR(o, step_size=3, gamma=0.5),
    "exponential": lambda o: schedulers.ExponentialLR(o, gamma=0.8),
    "multistep": lambda o: schedulers.MultiStepLR(o, milestones=[2, 5, 5, 9], gamma=0.3),
    "cosine": lambda o: schedulers.CosineAnnealingLR(o, T_max=12, eta_min=0.01),
    "linear": lambda o: schedulers.LinearLR(o, start_factor=0.25, end_factor=0.75, total_iters=6),
    "onecycle": lambda o: schedulers.OneCycleLR(o, max_lr=0.5, total_steps=12),
}


def schedules():
    out = {name: rates(make, 12) for name, make in KINDS.items()}
    for name in ("step", "multistep", "cosine", "linear"):
        out["warm " + name] = rates(warmed(KINDS[name], 4, 0.1), 12)
    out["plateau min"] = rates(lambda o: schedulers.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=2, min_lr=0.01),
                               len(PLATEAU), values=PLATEAU)
    out["plateau max"] = rates(lambda o: schedulers.ReduceLROnPlateau(o, mode="max", factor=0.1, patience=0), len(PLATEAU), values=PLATEAU)
    return out


def scaler():
    """The scale after each step: 2001 finite ones, an overflow, a finite one, two overflows."""
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(torch.zeros(2))
    opt = torch.optim.SGD([weight], lr=0.0)
    finite = [True] * 2001 + [False, True, False, False]
    out = []
    for is_finite in finite:
        scaler.scale(torch.zeros(()))
        weight.grad = torch.tensor([1.0, 2.0 if is_finite else float("inf")])
        scaler.step(opt)
        scaler.update()
        out.append(scaler.get_scale())
    return {"finite": finite[1995:], "scale": out[1995:]}


class Net(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.fc1 = torch.nn.Linear(4, 8, dtype=dtype)
        self.fc2 = torch.nn.Linear(8, 3, dtype=dtype)
        with torch.no_grad():
            for i, p in enumerate(self.parameters()):
                p.view(-1).copy_(torch.tensor([((7 * k + 3 * i) % 11 - 5) / 10 for k in range(p.numel())], dtype=dtype))

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


def batch(b, dtype):
    x = torch.tensor([[((3 * r + 5 * c + 2 * b) % 7 - 3) / 4 for c in range(4)] for r in range(5)], dtype=dtype)
    return x, torch.tensor([(r + b) % 3 for r in range(5)])


def losses(precision, clip_value=None, clip_norm=None, ema=None, swa=False, accumulate=1):
    dtype = torch.float64 if precision == "fp64" else torch.float32
    net = Net(dtype)
    opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    average = None
    if ema:
        average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(ema))
    elif swa:
        average = AveragedModel(net)
    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    out = []
    for b in range(8):
        x, y = batch(b, dtype)
        with torch.autocast("cpu", dtype=narrow, enabled=narrow is not None):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        out.append(loss.item())
        scaler.scale(loss / accumulate).backward()
        if (b + 1) % accumulate:
            continue
        scaler.unscale_(opt)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip_norm)
        if clip_value:
            torch.nn.utils.clip_grad_value_(net.parameters(), clip_value)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        if average is not None and (ema or b % 2 == 1):  # An epoch is two batches.
            average.update_parameters(net)
    result = {"losses": out, "weight": net.fc2.weight.flatten().tolist()}
    if average is not None:
        result["average"] = average.module.fc2.weight.flatten().tolist()
    return result


def main():
    assert torch.__version__.startswith("2.11"), torch.__version__
    torch.set_num_threads(1)
    out = {
        "schedules": schedules(),
        "onecycle_groups": group_rates([0.5, 0.05, 1.25], [0.1, 0.01, 0.25], 12),
        "plateau_values": PLATEAU,
        "scaler": scaler(),
        "runs": {
            "fp64": losses("fp64"),
            "fp32": losses("fp32"),
            "bf16": losses("bf16"),
            "fp16": losses("fp16"),
            "clip_value": losses("fp64", clip_value=0.02),
            "clip_norm": losses("fp64", clip_norm=0.05),
            "accumulate": losses("fp64", accumulate=2),
            "ema": losses("fp64", ema=0.7),
            "swa": losses("fp64", swa=True),
        },
    }
    path = pathlib.Path(__file__).with_name("options.json")
    path.write_text(json.dumps(out, indent=1) + "\n")


main()
