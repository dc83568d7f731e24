#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python class with tied weights, dropout and batch normalisation: exported, trained on two ranks, and back in Python with
the same outputs. LOCKSTEP_BENCH_PYTHON is a Python with PyTorch."""
import csv
import json
import os
import subprocess
import sys

import harness

PYTHON = os.environ.get("LOCKSTEP_BENCH_PYTHON", sys.executable)
NETS = harness.SOURCE / "tests/golden/script/nets.py"
OUTPUTS = """
import gzip, json, sys, torch
sys.path.insert(0, sys.argv[1])
from nets import Tied
raw = gzip.decompress(open(sys.argv[2], "rb").read())
images = torch.frombuffer(bytearray(raw[16:]), dtype=torch.uint8).view(-1, 1, 8, 8) / 255
net = Tied(width=24)
net.load_state_dict(torch.load(sys.argv[3], weights_only=True), strict=True)
print(json.dumps(net.eval()(images).softmax(1).tolist()))
"""


class PythonModel(harness.RanksTest):
    def python(self, *arguments):
        done = subprocess.run([PYTHON, *map(str, arguments)], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def lockstep(self, *arguments):
        result = self.start(*arguments).finish()
        self.assertEqual(result.code, 0, result.err)

    def test_goes_there_and_back(self):
        exported, weights, guesses = (self.folder / name for name in ("net.pt", "weights.pt", "guesses.csv"))
        self.python(harness.SOURCE / "python/export_model.py", f"{NETS}:Tied", exported, "--set", "width=24")
        run = self.trained(f"model.name=script:{exported}", "trainer.max_epochs=3", "optimizer.lr=0.003", ranks=2)
        self.assertGreater(run["val_accuracy"], 0.8)
        self.lockstep("snapshot", "export", self.folder / "run", "--to", weights, "--weights")
        self.lockstep("predict", self.folder / "run", "--out", guesses)
        with guesses.open(newline="") as file:
            ours = [list(map(float, row[2:])) for row in list(csv.reader(file))[1:]]
        images = harness.SOURCE / "datasets/digits/t10k-images-idx3-ubyte.gz"
        theirs = json.loads(self.python("-c", OUTPUTS, NETS.parent, images, weights))
        self.assertEqual(len(ours), len(theirs))
        largest = max(abs(a - b) for one, other in zip(ours, theirs) for a, b in zip(one, other))
        self.assertLess(largest, 1e-5)

    def test_what_cannot_be_exported_is_told(self):
        done = subprocess.run([PYTHON, harness.SOURCE / "python/export_model.py", f"{NETS}:Missing", self.folder / "net.pt"],
                              text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no class Missing", done.stderr)
        self.assertFalse((self.folder / "net.pt").exists())


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print(f"skipped: {PYTHON} has no PyTorch; set LOCKSTEP_BENCH_PYTHON")
        sys.exit(harness.SKIPPED)
    harness.main()
