#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every #include against layers.txt: a folder includes only what it may, no folder reaches itself through others,
and nothing above the torch line sees LibTorch."""
import pathlib
import sys

TORCH = ("torch/", "ATen/", "c10/")


def included(line):
    """The path that a line includes, or an empty string."""
    words = line.strip().removeprefix("#").split(maxsplit=1) if line.lstrip().startswith("#") else []
    return words[1][1:].split('"')[0].split(">")[0] if len(words) == 2 and words[0] == "include" else ""


def table(path):
    """What each folder may use, itself and base included; and the folders above the torch line."""
    allowed, above = {}, set()
    is_above = True
    for line in path.read_text().splitlines():
        if "the torch line" in line:
            is_above = False
        if not line.strip() or line.startswith("#"):
            continue
        folder, uses = line.split(":")
        allowed[folder] = {folder, "base", *uses.split()}
        if is_above:
            above.add(folder)
    return allowed, above


def folder_of(path, allowed):
    """The longest listed folder that holds "cluster/job/sweep.h", or None."""
    parts = path.split("/")[:-1]
    while parts and "/".join(parts) not in allowed:
        parts.pop()
    return "/".join(parts) or ("." if "." in allowed and "/" not in path else None)


def reachable(start, next_of):
    """`start` and all that next_of() leads to from it, step by step."""
    seen, open_ones = set(), [start]
    while open_ones:
        at = open_ones.pop()
        if at not in seen:
            seen.add(at)
            open_ones.extend(next_of(at))
    return seen


def usable_folders(allowed, folder):
    """The folder and all that it may reach through those that it may use: a test may look at any of it."""
    return reachable(folder, lambda at: allowed.get(at, ()))


def table_faults(allowed):
    for folder, uses in allowed.items():
        for used in sorted(uses - set(allowed)):
            yield f"layers.txt: {folder} may use {used}, which is not listed"
        if any(folder in usable_folders(allowed, used) for used in uses - {folder}):
            yield f"layers.txt: {folder} reaches itself through what it may use"


def faults(root):
    allowed, above = table(root / "layers.txt")
    yield from table_faults(allowed)
    for path in sorted((root / "lockstep").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        folder = folder_of(str(path.relative_to(root / "lockstep")), allowed)
        if folder is None:
            yield f"{path.relative_to(root)}: folder is not in layers.txt"
            continue
        usable = usable_folders(allowed, folder) if path.name.endswith("_test.cc") else allowed[folder]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            name = included(line)
            if name.startswith("lockstep/"):
                used = folder_of(name.removeprefix("lockstep/"), allowed)
                if used not in usable:
                    yield f"{path.relative_to(root)}:{number}: {folder} may not include {used or name}"
            if folder in above and name.startswith(TORCH):
                yield f"{path.relative_to(root)}:{number}: {folder} is above the torch line"


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(faults(root))
    print("\n".join(found) or f"{len(table(root / 'layers.txt')[0])} folders")
    sys.exit(bool(found))
