#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the folders under lockstep/ to their rules:
- a folder has at most 45 sources and headers, tests apart;
- a name's first word is shared by fewer than 8 headers of a folder, else it is a folder itself;
- a source includes the header of its own name, or is a program's main.cc, or a command that the folder's commands.h lists;
- cmake/public_headers.txt is what lockstep/lockstep.h includes, by way of others too, and at most 60 headers;
- a public header opens with a comment that says what it is for and shows a use of at most 10 lines;
- an example includes lockstep/lockstep.h and no other header of ours.
What breaks a rule for a reason stands in tools/budget_exceptions.txt.
"""
import collections
import pathlib
import sys

from check_budgets import exceptions
from check_layers import included, reachable

MOST_FILES, MOST_SHARING, MOST_PUBLIC, MOST_USE = 45, 8, 60, 10
DOOR = "lockstep/lockstep.h"


def includes(path):
    """The headers of ours that a file includes."""
    found = (included(line) for line in path.read_text().splitlines())
    return [name for name in found if name.startswith("lockstep/")]


def listed(path):
    """The lines of a list, comments and blank ones left out."""
    lines = path.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def size_faults(folder, files):
    if len(files) > MOST_FILES:
        yield f"{folder}: {len(files)} sources and headers, want at most {MOST_FILES}"
    words = collections.Counter(f.name.split("_")[0] for f in files if f.suffix == ".h" and "_" in f.name)
    for word, count in words.items():
        if count >= MOST_SHARING:
            yield f"{folder}: {count} headers begin with '{word}_', want a folder of that name"


def name_fault(root, source, allowed):
    """What is wrong with a source's name, or None."""
    name = str(source.relative_to(root))
    if source.name == "main.cc" or name in allowed:
        return None
    if any(pathlib.PurePath(header).stem == source.stem for header in includes(source)):
        return None
    commands = source.parent / "commands.h"
    text = commands.read_text() if commands.exists() else ""
    if any(f"{verb}_{source.stem}(" in text for verb in ("add", "run")):
        return None
    return f"{name}: includes no {source.stem}.h, want a header of the source's own name"


def public_faults(root):
    public, wanted = listed(root / "cmake/public_headers.txt"), reachable(DOOR, lambda name: includes(root / name))
    for name in sorted(wanted - public):
        yield f"cmake/public_headers.txt: {name} is missing, which {DOOR} includes"
    for name in sorted(public - wanted):
        yield f"cmake/public_headers.txt: {name} is not included by {DOOR}"
    if len(wanted) > MOST_PUBLIC:
        yield f"{DOOR}: {len(wanted)} public headers, want at most {MOST_PUBLIC}"


def opening(path):
    """The number of the first line, and the lines, of the comment between a header's #pragma once and its includes."""
    lines = path.read_text().splitlines()
    first = lines.index("#pragma once") + 2
    length = 0
    while first + length < len(lines) and lines[first + length].startswith("///"):
        length += 1
    return first + 1, [line[3:] for line in lines[first:first + length]]


def use(path):
    """The number of the first line, and the lines, of the code that a header's opening comment shows."""
    first, comment = opening(path)
    code = [at for at, line in enumerate(comment) if line.startswith("     ")]
    if not code:
        return first, []
    return first + code[0], [line[5:] for line in comment[code[0]:code[-1] + 1]]


def opening_faults(root):
    for name in sorted(listed(root / "cmake/public_headers.txt")):
        _, comment = opening(root / name)
        _, code = use(root / name)
        if not comment or not comment[0].strip() or comment[0].startswith("     "):
            yield f"{name}: has no comment after #pragma once, want one that says what the header is for"
        elif not 1 <= len(code) <= MOST_USE:
            yield f"{name}: its opening comment shows {len(code)} lines of code, want 1 to {MOST_USE}"


def example_faults(root):
    for path in sorted((root / "examples").rglob("*.cc")):
        for name in includes(path):
            if name != DOOR:
                yield f"{path.relative_to(root)}: includes {name}, want {DOOR} alone"


def faults(root):
    allowed = exceptions(root / "tools/budget_exceptions.txt")
    folders = collections.defaultdict(list)
    for path in sorted((root / "lockstep").rglob("*")):
        if path.suffix in (".cc", ".h") and not path.name.endswith("_test.cc"):
            folders[str(path.parent.relative_to(root))].append(path)
    for folder, files in folders.items():
        yield from size_faults(folder, files)
        for source in files:
            fault = name_fault(root, source, allowed) if source.suffix == ".cc" else None
            if fault:
                yield fault
    yield from public_faults(root)
    yield from opening_faults(root)
    yield from example_faults(root)


if __name__ == "__main__":
    root = pathlib.Path(__file__).resolve().parent.parent
    found = list(faults(root))
    print("\n".join(found) or f"{len(listed(root / 'cmake/public_headers.txt'))} public headers")
    sys.exit(bool(found))
