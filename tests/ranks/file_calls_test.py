#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""File-system calls of one rank from its start to its end: what a thousand ranks ask of a shared file system at once.

Counted by strace: open, stat, readlink and access in all their forms, by all threads. A Python rank makes 30 000 to 47 000.
"""
import re
import shutil
import sys
import unittest

import harness

CALLS = re.compile(r"\b(open|openat|stat|newfstatat|lstat|statx|readlink|readlinkat|access|faccessat|faccessat2)\(")
LIMIT = 300


class FileCalls(harness.RanksTest):
    def calls(self):
        """The calls of a rank that takes one step with the digits, saves and ends."""
        trace = self.folder / "trace"
        command = ["strace", "-f", "-e", "trace=file", "-o", trace, harness.BIN / "lockstep-train", "train", harness.DIGITS,
                   "--run-dir", self.folder / "run", "--set", "trainer.max_steps=1", "--set", "trainer.threads=1"]
        self.commands.append(harness.Command(command, self.folder))
        result = self.commands[-1].finish()
        self.assertEqual(result.code, 0, result.err)
        return [line for line in trace.read_text(errors="replace").splitlines() if CALLS.search(line)]

    def test_a_rank_makes_few_and_loads_no_library_that_its_recipe_does_without(self):
        calls = self.calls()
        self.assertGreater(len(calls), 20, "strace saw next to nothing")
        self.assertLess(len(calls), LIMIT, "\n".join(calls[-100:]))
        self.assertEqual([line for line in calls if "libhdf5" in line or "liblockstep_hdf5" in line], [])


if __name__ == "__main__":
    if not shutil.which("strace"):
        print("skipped: no strace (apt-get install strace)")
        sys.exit(harness.SKIPPED)
    unittest.main()
