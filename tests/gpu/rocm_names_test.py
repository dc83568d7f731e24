#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sources of lockstep/gpu read as ROCm's: a syntax-only compile against small recorded headers of HIP and of a ROCm
LibTorch, once with the names of LibTorch 2.11 and once with those before. Proves names and types, nothing more.

Usage: rocm_names_test.py COMPILER SOURCE_ROOT TORCH VERSION
"""
import pathlib
import subprocess
import sys


def main():
    compiler, root, torch, version = sys.argv[1], *map(pathlib.Path, sys.argv[2:4]), sys.argv[4]
    stubs = root / "tests/gpu/rocm_stubs"
    major, minor = version.split(".")[:2]
    sources = sorted((root / "lockstep/gpu").glob("*.cc"))
    assert sources, "lockstep/gpu has no sources"
    failed = False
    for torch_version in sorted({int(major) * 100 + int(minor), 209}):
        for source in sources:
            command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-DUSE_ROCM", "-D__HIP_PLATFORM_AMD__",
                       "-DUSE_C10D_NCCL", "-DUSE_DISTRIBUTED", f"-DLOCKSTEP_TORCH_VERSION={torch_version}",
                       f"-I{root}", "-isystem", str(stubs), "-isystem", str(torch / "include"), "-isystem",
                       str(torch / "include/torch/csrc/api/include"), str(source)]
            done = subprocess.run(command, capture_output=True, text=True)
            print(f"{source.name} for LibTorch {torch_version}: {'well' if done.returncode == 0 else 'FAILED'}")
            if done.returncode != 0:
                print(done.stderr)
                failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
