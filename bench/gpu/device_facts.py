# SPDX-License-Identifier: Apache-2.0
"""Prints what PyTorch sees of the device as one JSON line: device_facts.py gpu|cpu. A GPU counts only if a matrix product runs on it."""
import json
import platform
import subprocess
import sys
import time

import torch


def driver():
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def copy_gb_s():
    """Returns the rate of a copy on the device that is too large for a cache. Bytes that are read and bytes that are written count."""
    source = torch.randn(2**29, device="cuda")
    target = torch.empty_like(source)
    rates = []
    for _ in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        rates.append(2 * source.nbytes / (time.perf_counter() - begin) / 1e9)
    return sorted(rates)[len(rates) // 2]


def gpu():
    left, right = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    torch.testing.assert_close((left.double() @ right.double()).float().cpu(), (left.cpu().double() @ right.cpu().double()).float())
    properties = torch.cuda.get_device_properties(0)
    runtime = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    version = torch.cuda.nccl.version()
    return {"is_gpu": True, "device": properties.name, "memory_gib": properties.total_memory / 2**30,
            "capability": f"{properties.major}.{properties.minor}", "driver": driver(), "runtime": runtime,
            "cudnn": str(torch.backends.cudnn.version()), "nccl": ".".join(map(str, version)), "copy_gb_s": copy_gb_s()}


found = gpu() if sys.argv[1] == "gpu" else {"is_gpu": False, "device": "CPU"}
print(json.dumps({**found, "torch": torch.__version__, "torch_folder": torch.__path__[0], "python": platform.python_version()}))
