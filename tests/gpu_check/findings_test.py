#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of findings about the GPU path: each of the 28 has a row that says what became of it, and each test that it names is there."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/dev/gpu-findings.md"
STATES = ("mended", "refuted", "open", "told")
FINDINGS = 28
SOURCES = ("lockstep", "tests")


def dotted_names():
    """Tests of GoogleTest, and those of CMake's files whose names have a dot too, such as `Install.HasPublicHeadersAlone`."""
    found = set()
    for path in (ROOT / "tests").rglob("CMakeLists.txt"):
        found.update(re.findall(r"add_test\(NAME (\w+\.\w+)", path.read_text()))
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.cc"):
            found |= {".".join(each) for each in re.findall(r"TEST(?:_F|_P)?\((\w+), *(\w+)\)", path.read_text(errors="replace"))}
    return found


def script_names():
    """Those whose scripts lie in the folder that they are named after."""
    found = set()
    for path in (ROOT / "tests").rglob("*_test.py"):
        found.add(f"{path.parent.name}/{path.stem.removesuffix('_test')}")
    # tests/gpu holds those that build and those that need a GPU.
    return found | {name.replace("gpu/", "gpu_build/", 1) for name in found if name.startswith("gpu/")}


def is_there(name, tests, scripts):
    short = name.rpartition("/")[2]
    if short.startswith("…"):
        return any(each.endswith("." + short[1:]) for each in tests)
    if "." not in name:
        return name in scripts or (ROOT / name).exists()
    return short in tests or (short.endswith("*") and any(each.startswith(short[:-1]) for each in tests))


class Findings(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text()

    def test_each_has_a_row_that_begins_with_its_state(self):
        rows = dict(re.findall(r"^\| (\d+) \| .*? \| (\w+).* \|$", self.text, re.M))
        self.assertEqual(sorted(map(int, rows)), list(range(1, FINDINGS + 1)))
        for number, state in rows.items():
            self.assertIn(state, STATES, f"finding {number}")

    def test_each_test_that_is_named_exists(self):
        # A test of C++ has a dot and a capital behind it, a script's a folder of tests/ before it.
        named = set(re.findall(r"`((?:\w+/)?\w+\.[A-Z]\w+\*?|\w+/\w+\.\*|…[A-Z]\w+|(?:gpu_build|gpu_check|ranks|python_models)/\w+)`", self.text))
        self.assertGreater(len(named), 20)
        tests, scripts = dotted_names(), script_names()
        self.assertEqual([name for name in sorted(named) if not is_there(name, tests, scripts)], [])


if __name__ == "__main__":
    unittest.main()
