#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_tidy.py BUILD JOBS SECONDS: clang-tidy on the sources that need no LibTorch, those changed since they last passed.

A stamp in BUILD/tidy is named by a digest of all that the verdict depends on: the source, every header of ours that it
includes, its flags, .clang-tidy. Tests are left out: GoogleTest's macros break half of the rules. What was edited last
comes first, and SECONDS (0: no limit) end it: the next run goes on from there.
"""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys
import time

from check_layers import folder_of, reachable, table

INCLUDE = re.compile(r'^\s*#\s*include\s*"(lockstep/[^"]+)"', re.M)
FINDING = re.compile(r": (warning|error): .*\[[\w.,-]+\]$")


def torch_free(name, allowed, above):
    return folder_of(name.removeprefix("lockstep/"), allowed) in above and not name.endswith("_test.cc")


def digest(root, name, command):
    def own_includes(file):
        return [each for each in INCLUDE.findall((root / file).read_text()) if (root / each).exists()]

    state = hashlib.sha256((root / ".clang-tidy").read_bytes() + command.encode())
    for file in sorted(reachable(name, own_includes)):
        state.update(file.encode() + (root / file).read_bytes())
    return state.hexdigest()[:24]


def tidied(root, commands, name, seconds):
    """The findings. A file that does not compile has one."""
    done = subprocess.run(["clang-tidy", "--quiet", "-p", str(commands), str(root / name)], text=True, capture_output=True,
                          timeout=seconds)
    if done.returncode and not done.stdout:
        return [done.stderr]
    return [line for line in done.stdout.replace(f"{root}/", "").splitlines() if FINDING.search(line)]


def sources_of(compiled):
    """The file itself, or those that CMake compiles together in it."""
    if compiled.parent.name != "Unity" or not compiled.exists():
        return [compiled]
    return [pathlib.Path(path) for path in re.findall(r'#include "(.+)"', compiled.read_text())]


def without_precompiled_headers(words):
    """They may be another compiler's, or not made yet."""
    kept = []
    for word in words:
        if "/cmake_pch." in word:
            while kept[-1] in ("-Xclang", "-include", "-include-pch"):
                kept.pop()
        elif word != "-Winvalid-pch":
            kept.append(word)
    return kept


def commands_of(root, build):
    """How each torch-free source is compiled, the last edited first."""
    allowed, above = table(root / "layers.txt")
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        for path in sources_of(pathlib.Path(entry["file"])):
            if path.exists() and path.is_relative_to(root / "lockstep") and torch_free(str(path.relative_to(root)), allowed, above):
                words = [str(path) if word == entry["file"] else word for word in shlex.split(entry["command"])]
                found[path] = {"directory": entry["directory"], "file": str(path), "arguments": without_precompiled_headers(words)}
    return {str(path.relative_to(root)): found[path] for path in sorted(found, key=lambda path: -path.stat().st_mtime)}


def main(build, jobs, limit):
    deadline = time.monotonic() + limit
    root = pathlib.Path(__file__).resolve().parent.parent
    build = (root / build).resolve()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    commands = commands_of(root, build)
    (stamps / "compile_commands.json").write_text(json.dumps(list(commands.values())))
    wanted = {name: digest(root, name, shlex.join(entry["arguments"])) for name, entry in commands.items()}
    changed = [name for name in wanted if not (stamps / wanted[name]).exists()]
    failed, left = [], 0

    def findings_of(name):
        seconds = deadline - time.monotonic() if limit else None
        if seconds is not None and seconds <= 0:
            return None
        try:
            return tidied(root, stamps, name, seconds)
        except subprocess.TimeoutExpired:
            return None

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for name, findings in zip(changed, pool.map(findings_of, changed)):
            if findings is None:
                left += 1
            elif findings:
                failed.append(name)
                print("\n".join(findings))
            else:
                (stamps / wanted[name]).touch()
    for stamp in stamps.iterdir():
        if stamp.name not in wanted.values() and stamp.suffix != ".json":
            stamp.unlink()
    print(f"{len(wanted)} files, {len(changed)} changed" + (f", {left} of them left for the next run" if left else "") +
          (f", {len(failed)} with findings" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
