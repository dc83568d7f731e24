# SPDX-License-Identifier: Apache-2.0
"""Finds out within a minute whether the check can build and how long that takes: compilers, CMake, headers, memory and the driver."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import machine

ASK_S = 8
TOOLS = ("cmake", "ninja", "g++", "clang++", "nasm")


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ASK_S)
        return (done.stdout or done.stderr).strip().partition("\n")[0] or f"exit {done.returncode}"
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__


def memory_gib(name):
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 2**20
    return 0.0


def package_folder(name):
    spec = importlib.util.find_spec(name)
    return pathlib.Path(list(spec.submodule_search_locations)[0]) if spec and spec.submodule_search_locations else None


def headers(torch):
    """Returns the folders that have a toolkit's headers, as text."""
    if not torch:
        return "PyTorch is not there"
    folders = [*torch.parent.glob("nvidia/*/include"), pathlib.Path("/usr/local/include"), pathlib.Path("/usr/local/cuda/include")]
    found = []
    for name in ("cuda_runtime_api.h", "nccl.h", "crt/host_defines.h", "nv/target"):
        places = [str(folder) for folder in folders if (folder / name).exists() or (folder / "cccl" / name).exists()]
        found.append(f"{name}: {', '.join(places) or 'nowhere (carried in third_party)' if '/' in name else ', '.join(places) or 'nowhere'}")
    return "; ".join(found)


def lines():
    path = machine.path_with_tools()
    cores, memory = len(os.sched_getaffinity(0)), memory_gib("MemAvailable")
    for name in TOOLS:
        place = shutil.which(name, path=path)
        yield f"{name}: {first_line([place, '--version']) if place else 'not found'}"
    yield f"{cores} cores, {memory:.0f} GiB of memory available, {memory_gib('MemTotal'):.0f} in all"
    if memory < 2 * cores:
        yield f"  LOCKSTEP_JOBS={cores} compiles on all cores: by the memory that is there now it would be {max(1, int(memory / 2))}"
    torch = package_folder("torch")
    yield f"torch: {torch or 'not found'}; triton: {package_folder('triton') or 'not found'}; Python {sys.version.split()[0]}"
    yield f"headers: {headers(torch)}"
    yield f"driver: {first_line(['nvidia-smi', '--query-gpu=name,driver_version,memory.total,mig.mode.current', '--format=csv,noheader'])}"
    yield f"NVML: {first_line(['sh', '-c', 'ldconfig -p | grep nvidia-ml || echo not known to the loader'])}"
    proc = pathlib.Path("/proc/driver/nvidia")
    yield f"/proc/driver/nvidia: {'there' if proc.exists() else 'missing: no telemetry'}"
    yield f"devices: {' '.join(sorted(str(each) for each in pathlib.Path('/dev').glob('nvidia*'))) or 'no /dev/nvidia*'}"
    disk = shutil.disk_usage("/tmp")
    yield f"/tmp: {disk.free / 2**30:.0f} GiB free"


def probe():
    for line in lines():
        print(line, flush=True)
    return 0
