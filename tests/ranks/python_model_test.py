#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python class with tied weights, dropout and batch normalisation: exported, trained on two ranks, and back in Python with
the same outputs. LOCKSTEP_BENCH_PYTHON is a Python with PyTorch."""
import csv
import json
import os
import pathlib
import subprocess
import sys

import harness

PYTHON = os.environ.get("LOCKSTEP_BENCH_PYTHON", sys.executable)
COMPILE = harness.SOURCE / "python/compile_model.py"
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

    def test_a_compiled_pass_trains_as_the_plain_one(self):
        self.require_inductor()
        exported, compiled = self.folder / "net.pt", self.folder / "net.pt2"
        small = ("--set", "width=24", "--set", "drop=0.0")
        self.python(harness.SOURCE / "python/export_model.py", f"{NETS}:Tied", exported, *small)
        self.python(COMPILE, f"{NETS}:Tied", compiled, "--batch", 25, "--shape", "1,8,8", "--precision", "fp64", "--device", "cpu", *small)
        settings = (f"model.name=script:{exported}", "trainer.max_epochs=3", "optimizer.lr=0.003", "trainer.precision=fp64")
        plain = self.trained(*settings, run="plain")
        settings += (f"model.compiled={compiled}",)
        ours = self.trained(*settings, env=self.libraries(), run="compiled")
        self.assertEqual(ours["sample_digest"], plain["sample_digest"])
        self.assertEqual(ours["val_accuracy"], plain["val_accuracy"])
        for name in ("train_loss", "val_loss"):
            # Sums are fused, so their last bits are others.
            self.assertAlmostEqual(ours[name], plain[name], delta=1e-9)
        self.lockstep("eval", self.folder / "compiled")
        refused = {"data.global_batch=40": (3, "was compiled for batches of F64 [25, 1, 8, 8], this rank's are F64 [20, 1, 8, 8]"),
                   "trainer.precision=fp32": (5, "was compiled for 'conv.weight' F64 [4, 1, 3, 3], this network has F32 [4, 1, 3, 3]"),
                   "model.compiled=none.pt2": (6, "there is no file"), f"model.compiled={exported}": (5, "holds no compiled network")}
        for setting, (code, words) in refused.items():
            self.assert_failed(self.train(*settings, setting, env=self.libraries(), run="refused", ranks=2), code, words)

    def require_inductor(self):
        if subprocess.run([PYTHON, "-c", "import torch._inductor.lowering"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{PYTHON} cannot import TorchInductor")

    def libraries(self):
        """What a compiled file is linked with, where Lockstep is built against a PyTorch that lacks some of it."""
        site = self.python("-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parent.parent)").strip()
        return {"LD_LIBRARY_PATH": ":".join(map(str, pathlib.Path(site).glob("nvidia/*/lib")))}

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
