#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep snapshot export` writes, read by the real PyTorch: weights by strict names, and an optimizer that goes
on as if it had never stopped. Snapshots are written here, in the format of docs/formats/snapshot-format.md."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import peer

peer.require("torch", "xxhash")
import torch
import xxhash

LOCKSTEP = pathlib.Path(os.environ["LOCKSTEP_BIN"]) / "lockstep"
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "sgd-plain": lambda p: torch.optim.SGD(p, lr=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), eps=1e-7, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                               torch.nn.Linear(144, 5)).double()


def train(model, optimizer, first, steps):
    for step in range(first, first + steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.randn(6, 1, 8, 8).double()), torch.arange(6) % 5)
        loss.backward()
        optimizer.step()


def safetensors_bytes(tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        part = tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def write_snapshot(folder, model, optimizer, kind):
    names = [name for name, _ in model.named_parameters()]
    saved = optimizer.state_dict()
    state = {f"{names[i]}.{part}": value.long() if part == "step" else value
             for i, parts in saved["state"].items() for part, value in parts.items() if value is not None}
    keys = ("lr", "momentum", "dampening", "nesterov", "betas", "eps", "amsgrad", "weight_decay")
    group = saved["param_groups"][0]
    about = {"optimizer": {"name": kind.split("-")[0], "groups": [
        {"settings": {key: group[key] for key in keys if key in group}, "params": names}]}}
    files = {"model.safetensors": safetensors_bytes(model.state_dict()),
             "optimizer.safetensors": safetensors_bytes(state), "state.json": json.dumps(about).encode()}
    folder.mkdir(parents=True)
    manifest = "lockstep-snapshot 1\n"
    for name, content in files.items():
        (folder / name).write_bytes(content)
        manifest += f"{xxhash.xxh3_64_hexdigest(content)}  {len(content)}  {name}\n"
    (folder / "MANIFEST").write_text(manifest + xxhash.xxh3_64_hexdigest(manifest.encode()) + "\n")


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def export(self, run, to, *more):
        subprocess.run([LOCKSTEP, "snapshot", "export", run, "--to", self.folder / to, *more], check=True,
                       stdout=subprocess.DEVNULL)
        return self.folder / to

    def test_an_optimizer_goes_on_as_if_it_had_never_stopped(self):
        for kind, make in OPTIMIZERS.items():
            with self.subTest(kind):
                model = network()
                optimizer = make(model.parameters())
                train(model, optimizer, 0, 4)
                write_snapshot(self.folder / kind / "snapshots/step-0000000004", model, optimizer, kind)
                loaded = torch.load(self.export(self.folder / kind, f"{kind}.pt"))
                self.assertEqual(set(loaded), {"model", "optimizer"})

                again = network()
                again.load_state_dict(loaded["model"], strict=True)
                restored = make(again.parameters())
                restored.load_state_dict(loaded["optimizer"])
                train(model, optimizer, 4, 3)
                train(again, restored, 4, 3)
                for (name, a), b in zip(model.state_dict().items(), again.state_dict().values()):
                    self.assertTrue(torch.equal(a, b), f"{kind}: {name}")
                groups = [{k: v for k, v in o.state_dict()["param_groups"][0].items() if k != "param_names"}
                          for o in (optimizer, restored)]
                self.assertEqual(groups[0], groups[1])

    def test_weights_alone_are_a_flat_state_dict(self):
        model = network()
        write_snapshot(self.folder / "run/snapshots/step-0000000001", model, OPTIMIZERS["sgd"](model.parameters()), "sgd")
        path = self.export(self.folder / "run", "weights.pt", "--weights")
        for options in ({}, {"mmap": True}):
            other = network()
            other.load_state_dict(torch.load(path, **options), strict=True)
            for a, b in zip(model.state_dict().values(), other.state_dict().values()):
                self.assertTrue(torch.equal(a, b))


if __name__ == "__main__":
    unittest.main(verbosity=2)
