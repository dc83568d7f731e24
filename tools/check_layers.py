#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every #include against layers.txt: folders only include what they may, and nothing above the torch line sees LibTorch."""
import pathlib
import re
import sys

TORCH = re.compile(r'\s*#\s*include\s*[<"](torch|ATen|c10)/')
OURS = re.compile(r'\s*#\s*include\s*"lockstep/(\w+/\w+)')


def layer_of(path):
    """The layer of "data/core_loader.h": data_core, the part of a folder that needs no LibTorch."""
    folder, name = path.split("/")[:2]
    return f"{folder}_core" if name.startswith("core_") else folder


def table(path):
    allowed, above = {}, set()
    below_line = False
    for line in path.read_text().splitlines():
        if "the torch line" in line:
            below_line = True
        if not line.strip() or line.startswith("#"):
            continue
        folder, uses = line.split(":")
        allowed[folder] = {folder, *uses.split()}
        if not below_line:
            above.add(folder)
    return allowed, above


def below(allowed, folder):
    """The folder and all that it may reach through those that it may use: a test may look at any of it."""
    seen, open_ones = set(), [folder]
    while open_ones:
        at = open_ones.pop()
        if at not in seen:
            seen.add(at)
            open_ones.extend(allowed.get(at, ()))
    return seen


def faults(root):
    allowed, above = table(root / "layers.txt")
    for path in sorted((root / "lockstep").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        folder = layer_of(str(path.relative_to(root / "lockstep")))
        if folder not in allowed:
            yield f"{path.relative_to(root)}: folder is not in layers.txt"
            continue
        usable = below(allowed, folder) if path.name.endswith("_test.cc") else allowed[folder]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            ours = OURS.match(line)
            if ours and layer_of(ours[1]) not in usable and layer_of(ours[1]).removesuffix("_core") not in usable:
                yield f"{path.relative_to(root)}:{number}: {folder} may not include {layer_of(ours[1])}"
            if folder in above and TORCH.match(line):
                yield f"{path.relative_to(root)}:{number}: {folder} is above the torch line"


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(faults(root))
    print("\n".join(found) or f"{len(table(root / 'layers.txt')[0])} folders")
    sys.exit(bool(found))
