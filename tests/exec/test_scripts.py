#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep launch` with Python's own training scripts: test_scripts.py LOCKSTEP"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import scripts

LOCKSTEP = pathlib.Path(sys.argv.pop(1)).resolve()


class Launched(scripts.Scripts):
    def output(self, *program):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-scripts-"))
        done = subprocess.run([LOCKSTEP, "launch", "-n", str(scripts.TASKS), "--", *map(str, program)], cwd=folder, text=True,
                              capture_output=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


@scripts.with_new
class OfToday(Launched, unittest.TestCase):
    python = scripts.NEW


@scripts.with_old
class OfTheGuidesTime(Launched, unittest.TestCase):
    python = scripts.OLD


scripts.skip_without_python()
unittest.main(verbosity=2)
