#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every code that doctor can report has a heading in docs/doctor.md, an injected fault in a test, and no heading is left over."""
import pathlib
import re
import sys

CODE = r"[a-z]+(?:-[a-z]+)+"
FAMILIES = "budget layout devices network variable cache limit shm space library log container nodes check".split()


def reported(root):
    """Every literal that looks like a code: its first word is a family's name."""
    codes = set()
    for path in (root / "lockstep/cluster/doctor").glob("*.cc"):
        if not path.name.endswith("_test.cc"):
            found = re.findall(rf'"({CODE})"', path.read_text())
            codes |= {code for code in found if code.split("-")[0] in FAMILIES}
    return codes


def main():
    root = pathlib.Path(sys.argv[1])
    table = set(re.findall(rf"^\[({CODE})\]", (root / "profiles/doctor/variables.toml").read_text(), re.M))
    codes = reported(root) | table
    headings = re.findall(rf"^### ({CODE})$", (root / "docs/doctor.md").read_text(), re.M)
    tests = "".join(path.read_text() for path in (root / "lockstep/cluster/doctor").glob("*_test.cc"))
    faults = [f"{code}: no heading in docs/doctor.md" for code in sorted(codes - set(headings))]
    faults += [f"{code}: a heading, but nothing reports it" for code in sorted(set(headings) - codes)]
    faults += [f"{code}: two headings" for code in sorted({code for code in headings if headings.count(code) > 1})]
    # The variables' rows are tested by one loop over the table.
    faults += [f"{code}: no test injects it" for code in sorted(codes - table) if f'"{code}"' not in tests]
    print("\n".join(faults) or f"{len(codes)} codes, each with a heading and a test")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
