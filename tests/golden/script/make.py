#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the TorchScript files beside this one, and outputs.json with what Python makes of them.

    python tests/golden/script/make.py        (torch 2.11)
"""
import json
import pathlib
import subprocess
import sys

import torch

from nets import Plain, Tied

HERE = pathlib.Path(__file__).resolve().parent


def images(count):
    return torch.sin(torch.arange(count * 64, dtype=torch.float32) * 0.37).view(count, 1, 8, 8)


torch.manual_seed(1)
subprocess.run([sys.executable, HERE.parents[2] / "python/export_model.py", f"{HERE / 'nets.py'}:Tied", HERE / "tied.pt",
                "--set", "width=16"], check=True)
tied = torch.jit.load(HERE / "tied.pt")
torch.jit.trace(Tied().eval(), images(2)).save(HERE / "traced-eval.pt")
torch.jit.trace(Tied().train(), images(2), check_trace=False).save(HERE / "traced-train.pt")
torch.jit.trace(Plain(), images(2)).save(HERE / "traced-plain.pt")
torch.jit.freeze(torch.jit.script(Plain().eval())).save(HERE / "frozen.pt")
torch.jit.script(Plain(classes=7)).save(HERE / "seven.pt")
(HERE / "outputs.json").write_text(json.dumps({
    "eval": tied.eval()(images(3)).flatten().tolist(),
    "names": [name for name, _ in tied.named_parameters()],
    "buffers": [name for name, _ in tied.named_buffers()]}) + "\n")
