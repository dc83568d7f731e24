#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed headers of ours are those of a list, no more and no less: headers_test.py INCLUDE LIST"""
import pathlib
import sys

include, wanted_file = map(pathlib.Path, sys.argv[1:])
wanted = set(wanted_file.read_text().split())
found = {str(path.relative_to(include)) for path in (include / "lockstep").rglob("*") if path.is_file()}
for name in sorted(found - wanted):
    print(f"{name} is installed, but is not in {wanted_file.name}")
for name in sorted(wanted - found):
    print(f"{name} is in {wanted_file.name}, but is not installed")
print(f"{len(found)} headers")
sys.exit(found != wanted)
