#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs each example on two ranks and looks at what it says. What an example needs and the machine lacks is said."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests/support"))
import peers  # noqa: E402

BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", HERE.parent / "build/release/bin"))
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", HERE.parent.parent / "shared/data"))
DIGITS = HERE.parent / "datasets/digits"


def python_with(module):
    """A Python that has a package: this one, or those that other tests use."""
    for python in (sys.executable, os.environ.get("LOCKSTEP_PEER_PYTHON"), peers.PYTHON):
        if python and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    return None


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-examples-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, *command, code=0):
        env = os.environ | {"LOCKSTEP_RUNS": str(self.folder), "NO_COLOR": "1"}
        done = subprocess.run([str(each) for each in command], cwd=self.folder, env=env, text=True, capture_output=True, timeout=200)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def on_two_ranks(self, name, *arguments):
        return self.run_command(BIN / "lockstep", "launch", "-n", "2", "--", BIN / name, *arguments)

    def accuracy(self, text):
        return float(re.findall(r"accuracy (?:in Python )?([0-9.]+)", text)[-1])

    def test_01_mnist_own_loop(self):
        said = self.on_two_ranks("01_mnist_own_loop", DIGITS)
        self.assertIn("on 2 ranks", said)
        self.assertGreater(self.accuracy(said), 0.9)

    def test_02_mnist_module(self):
        said = self.on_two_ranks("02_mnist_module", DIGITS)
        self.assertIn("145 steps on 2 ranks", said)
        self.assertGreater(self.accuracy(said), 0.9)

    def test_03_images_from_folders(self):
        photographs = DATA / "hymenoptera"
        if not photographs.is_dir():
            self.skipTest(f"no photographs in {photographs}")
        self.assertRegex(self.on_two_ranks("03_images_from_folders", photographs, 1), r"244 photographs of 2 classes, 1 epochs")

    def test_04_hdf5(self):
        python = python_with("h5py")
        if not python:
            self.skipTest("no Python with h5py")
        self.run_command(python, HERE / "04_hdf5/make_data.py", self.folder / "data.h5")
        self.assertGreater(self.accuracy(self.on_two_ranks("04_hdf5", self.folder / "data.h5")), 0.9)

    def test_05_resume(self):
        weights = re.compile(r"weights (\w+)")
        whole = self.on_two_ranks("05_resume", self.folder / "whole", 4)
        self.on_two_ranks("05_resume", self.folder / "parts", 2)
        rest = self.on_two_ranks("05_resume", self.folder / "parts", 4)
        self.assertIn("went on from step-0000000040", rest)
        self.assertEqual(weights.search(rest)[1], weights.search(whole)[1])

    def test_06_custom_callback(self):
        said = self.on_two_ranks("06_custom_callback", 0.2)
        self.assertRegex(said, r"ended by callback: stop at loss after \d+ steps")

    def test_07_bring_a_python_model(self):
        python = python_with("torch")
        if not python:
            self.skipTest(peers.REASON)
        here = HERE / "07_bring_a_python_model"
        self.run_command(python, HERE.parent / "python/export_model.py", f"{here / 'net.py'}:Net", self.folder / "net.pt", "--set", "width=48")
        run = self.folder / "run"
        self.run_command(BIN / "lockstep", "train", "digits", "--devices", "2", "--run-dir", run, "--set",
                         f"model.name=script:{self.folder / 'net.pt'}", "--set", "optimizer.lr=0.003")
        self.run_command(BIN / "lockstep", "snapshot", "export", run, "--to", self.folder / "weights.pt", "--weights")
        self.assertGreater(self.accuracy(self.run_command(python, here / "check.py", self.folder / "weights.pt")), 0.94)

    def test_09_python_module(self):
        if not peers.PYTHON or not list(BIN.glob("liblockstep_python*.so")):
            self.skipTest(peers.REASON if not peers.PYTHON else "this Lockstep was built without Python models")
        here, run = HERE / "09_python_module", self.folder / "run"
        hosted = ["env", f"LOCKSTEP_PYTHON={peers.PYTHON}", BIN / "lockstep"]
        self.run_command(*hosted, "train", here / "digits.toml", "--devices", "2", "--run-dir", run)
        self.run_command(BIN / "lockstep", "snapshot", "export", run, "--to", self.folder / "weights.pt", "--weights")
        self.assertGreater(self.accuracy(self.run_command(peers.PYTHON, here / "check.py", self.folder / "weights.pt")), 0.94)

    def test_10_python_loop(self):
        python = python_with("torch")
        if not python:
            self.skipTest(peers.REASON)
        command = ["env", f"PYTHONPATH={HERE.parent / 'python'}", f"LOCKSTEP_RUN_DIR={self.folder / 'run'}", BIN / "lockstep", "launch", "-n", "2", "--",
                   python, HERE / "10_python_loop/train.py", DIGITS]
        self.run_command(*command, 2)
        said = self.run_command(*command, 20)
        self.assertIn("step-0000000046: epoch 2, step 46", said)
        self.assertGreater(self.accuracy(said), 0.9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
