#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library for GPUs as it was built: lockstep-train needs none of what it brings, what it needs is exported by the
libraries that it names, it exports one name, and it opens on a machine without a driver and says so.

Usage: library_test.py FOLDER_OF_PROGRAMS TORCH
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOOLKITS = [pathlib.Path(p) for p in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda") if p]
ENTRY = "lockstep_gpu_backend_3"


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, **more)


def needed(path):
    return re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", str(path)).stdout)


def symbols(path, *flags):
    """Names without their versions."""
    lines = run("nm", "-D", *flags, str(path)).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if " w " not in line}


def search_folders(torch):
    wheels = sorted(torch.parent.glob("nvidia/*/lib"))
    toolkits = [folder / "lib64" for folder in TOOLKITS if (folder / "lib64").is_dir()]
    system = [pathlib.Path(p) for p in ("/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib/x86_64-linux-gnu")]
    return [torch / "lib", *wheels, *toolkits, *system]


def find(name, folders):
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def closure(path, folders):
    """Every library that `path` brings, by name; None where it is not on this machine."""
    seen, open_ones = {}, [path]
    while open_ones:
        for name in needed(open_ones.pop()):
            if name in seen:
                continue
            seen[name] = find(name, folders)
            if seen[name]:
                open_ones.append(seen[name])
    return seen


def check_trainer(programs):
    for name in needed(programs / "lockstep-train"):
        assert not re.match(r"lib(torch_cuda|c10_cuda|torch_hip|c10_hip|nccl|rccl|cudnn|cublas)", name), \
            f"lockstep-train needs {name}: it would not start on a login node"


def check_symbols(library, brought):
    exported = {name for name in symbols(library, "--defined-only") if "lockstep" in name}
    assert exported == {ENTRY}, f"exports {sorted(exported)}, want {ENTRY} alone"
    there = set()
    for path in brought.values():
        if path:
            there |= symbols(path, "--defined-only")
    missing = sorted(symbols(library, "--undefined-only") - there)
    assert not missing, f"no library that it names has {missing}"


def stand_in(name, undefined, folder):
    """A library of that name in which whatever others ask of it is there, and does nothing."""
    source = folder / "stand_in.c"
    source.write_text("".join(f"int {each}(void) {{ return 1; }}\n" for each in sorted(undefined)))
    made = run("cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", str(folder / name), str(source))
    assert made.returncode == 0, made.stderr


def check_opens(programs, library, brought, folders):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        absent = [name for name, path in brought.items() if path is None]
        if absent:
            there, wanted = set(), set()
            for path in filter(None, brought.values()):
                there |= symbols(path, "--defined-only")
                wanted |= symbols(path, "--undefined-only")
            names = {each for each in wanted - there if re.fullmatch(r"(cuFile|cusparseLt|nvshmem|nvml)\w*", each)}
            for name in absent:
                stand_in(name, names, folder)
                names = set()
        paths = ":".join(str(each) for each in [folder, *folders])
        opened = run(str(programs / "open_gpu_library"), str(library), env={**os.environ, "LD_LIBRARY_PATH": paths})
    said = opened.stdout + opened.stderr
    print(said)
    if "undefined symbol" in said or "cannot open shared object" in said:
        skip(f"LibTorch's own libraries do not load here, {', '.join(absent) or 'all there'}: nothing was opened")
    assert re.match(r"(CUDA|ROCm) \d+\.\d+, (NCCL|RCCL) \d+\.\d+", said), said
    assert opened.returncode in (0, 4), said


def main():
    programs, torch = (pathlib.Path(each) for each in sys.argv[1:3])
    check_trainer(programs)
    library = next((programs / f"liblockstep_{kind}.so" for kind in ("cuda", "hip")
                    if (programs / f"liblockstep_{kind}.so").exists()), None)
    if library is None:
        skip("this build has no library for GPUs")
    folders = search_folders(torch)
    brought = closure(library, folders)
    check_symbols(library, brought)
    check_opens(programs, library, brought, folders)


if __name__ == "__main__":
    main()
