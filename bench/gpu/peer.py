# SPDX-License-Identifier: Apache-2.0
"""Functions that the PyTorch peers of bench/gpu share: arguments, MNIST's files and networks, and the timing of a step."""
import argparse
import gzip
import json
import pathlib
import resource
import statistics
import struct
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))


def arguments(**defaults):
    """Parses --device, and --NAME for each default, which has the default's type."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    for name, default in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    return parser.parse_args()


def say(**found):
    print(json.dumps(found), flush=True)


def allow_tf32(allowed=True):
    torch.backends.cudnn.allow_tf32 = allowed
    torch.set_float32_matmul_precision("high" if allowed else "highest")


def be_deterministic():
    """Makes PyTorch use deterministic kernels and full float32, to compare losses. The caller sets CUBLAS_WORKSPACE_CONFIG."""
    allow_tf32(False)
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def compiled(model, mode, device):
    """Returns `model` for a mode: `eager`, `compile`, or `graphs`, which also replays CUDA graphs. On a CPU no kernels are generated,
    because that takes minutes."""
    if mode == "eager":
        return model
    if device == "cpu":
        return torch.compile(model, backend="aot_eager")
    return torch.compile(model, mode="reduce-overhead" if mode == "graphs" else None)


def measured(step, device, window, repeats, warm):
    """Times `step`, which returns the loss. The result is the median of windows, and each window ends by reading the loss."""
    begin = time.perf_counter()
    step().item()
    first = time.perf_counter() - begin
    for _ in range(warm):
        loss = step()
    if warm:
        loss.item()
    times, used = [], time.process_time()
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(window):
            loss = step()
        loss.item()
        times.append((time.perf_counter() - begin) / window)
    cpu = (time.process_time() - used) / (window * repeats) if repeats else None
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"first_step_s": first, "step_s": statistics.median(times) if times else None, "windows_s": times, "cpu_s": cpu,
            "memory_bytes": memory, "torch": torch.__version__}


def idx(path):
    """Reads MNIST's file format, gzipped."""
    raw = gzip.decompress(pathlib.Path(path).read_bytes())
    shape = struct.unpack(f">{raw[3]}I", raw[4:4 + 4 * raw[3]])
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(shape)


class Mlp(torch.nn.Module):
    """The network `mlp` of Lockstep, with one hidden layer."""

    def __init__(self, features, hidden, classes):
        super().__init__()
        self.fc1 = torch.nn.Linear(features, hidden)
        self.fc2 = torch.nn.Linear(hidden, classes)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Cnn(torch.nn.Module):
    """The network `cnn` of Lockstep, for images of 28 × 28 pixels and ten classes."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = torch.nn.Linear(32 * 7 * 7, 128)
        self.fc2 = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def mnist(folder, device):
    """Returns MNIST's 10 000 images as bytes [N, 1, 28, 28] and their labels, on the device, so that no peer waits for a copy."""
    folder = pathlib.Path(folder)
    images = idx(folder / "t10k-images-idx3-ubyte.gz").unsqueeze(1)
    return images.to(device), idx(folder / "t10k-labels-idx1-ubyte.gz").long().to(device)


def batches(count, batch, device):
    """Yields the places of whole batches, epoch after epoch. Each epoch has a new order, drawn on the device."""
    while True:
        order = torch.randperm(count, device=device)
        for begin in range(0, count - batch + 1, batch):
            yield order[begin:begin + batch]
