#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file python/lockstep.py: which Python it asks for, what it imports, and how large its parts are."""
import ast
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import pythons

MODULE = pythons.ROOT / "python/lockstep.py"
READ = "import sys, lockstep; lockstep.read('.').metrics; print('torch' in sys.modules, 'numpy' in sys.modules)"
# What came after 3.8 into the library. vermin knows all of it, where it is there.
LATER = ("removeprefix", "removesuffix", "functools.cache\n", "itertools.pairwise", "bit_count", "zip(strict", "math.lcm", "is_relative_to",
         "datetime.UTC", "from __future__", "random.randbytes", "slots=True", "kw_only")


def reading(python):
    """A process of this Python that reads a run folder without PyTorch."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run([python, "-c", READ], cwd=MODULE.parent, env=env, text=True, capture_output=True, check=False)


def old_python():
    """A Python 3.8, or None: of PATH, or one that pyenv has."""
    root = os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")
    # Another user's folder, which su keeps in the variable, finds nothing here. pathlib's glob() throws.
    found = [shutil.which("python3.8"), *glob.glob(f"{glob.escape(str(root))}/versions/3.8.*/bin/python")]
    return next((each for each in found if each and reading_version(each) == "3.8"), None)


def reading_version(python):
    said = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True, capture_output=True, check=False)
    return said.stdout.strip()


class Module(unittest.TestCase):
    def setUp(self):
        self.text = MODULE.read_text()
        self.tree = ast.parse(self.text)

    def test_asks_for_python_3_8(self):
        ast.parse(self.text, feature_version=(3, 8))
        for later in LATER:
            self.assertNotIn(later, self.text)
        for node in ast.walk(self.tree):
            self.assertFalse(isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and isinstance(node.left, ast.Dict), "dict | dict")

    def test_vermin_finds_nothing_that_came_after_python_3_8(self):
        vermin = pathlib.Path(os.environ.get("LOCKSTEP_PEER_PYTHON", "none")).with_name("vermin")
        if not vermin.exists():
            self.skipTest("LOCKSTEP_PEER_PYTHON names no Python with vermin")

        def faults_of(path):
            return subprocess.run([vermin, "--target=3.8-", "--violations", "--no-tips", path], text=True, capture_output=True, check=False)
        done = faults_of(MODULE)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotEqual(faults_of(__file__).returncode, 0, "it finds what this file uses of later ones")

    def test_python_3_8_reads_a_run(self):
        python = old_python()
        if not python:
            self.skipTest("there is no Python 3.8")
        done = reading(python)
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["False", "False"]), done.stderr)

    def test_imports_no_torch(self):
        done = reading(sys.executable)
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["False", "False"]), done.stderr)

    def test_asks_for_nothing_but_torch_and_the_library(self):
        names = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module.partition(".")[0])
        names -= {"torch", "numpy", "pandas", "xxhash", "lightning", "pytorch_lightning", "transformers"}
        self.assertLessEqual(names, set(sys.stdlib_module_names))

    def test_no_class_is_several(self):
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                self.assertLessEqual(sum(isinstance(each, ast.FunctionDef) for each in node.body), 20, node.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
