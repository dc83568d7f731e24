#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python class with tied weights, dropout and batch normalisation: exported, trained on two ranks, and back in Python with
the same outputs. LOCKSTEP_BENCH_PYTHON is a Python with PyTorch."""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

import harness

sys.path.append(str(harness.SOURCE / "tests/support"))
import peers  # noqa: E402

PYTHON = peers.PYTHON or sys.executable
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

# Makes windows and masks as docs/guide/data.md describes them, and trains on them with PyTorch alone.
TEXT_LOSSES = """
import json, sys, torch
golden, nets, exported, book = sys.argv[1:5]
window, batch, seed, epochs = map(int, sys.argv[5:])
sys.path[:0] = [golden, nets]
from epoch_order import EpochOrder
from masked_text import sample
text = open(book, "rb").read()

net = torch.jit.load(exported).double().train()
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
losses = []
size = len(text) // window
for epoch in range(epochs):
    order = EpochOrder(size, seed, epoch)
    for begin in range(0, size, batch):
        ids, target = map(torch.tensor, zip(*(sample(text, window, seed, epoch, order[i]) for i in range(begin, min(begin + batch, size)))))
        each = torch.nn.functional.cross_entropy(net(ids).transpose(1, 2), target, reduction="none")
        loss = (each.sum(1) / (target != -100).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(json.dumps(losses))
"""

LINKED = """
import ctypes, pathlib, subprocess, sys, torch
python, folder = sys.argv[1:]
sys.path.insert(0, python)
from lockstep_host import passes
pathlib.Path(folder, "driver.cc").write_text('extern "C" int cuInit(unsigned) { return 7; }')
pathlib.Path(folder, "user.cc").write_text('extern "C" int cuInit(unsigned); int main() { return cuInit(0); }')
subprocess.run(["c++", "-shared", "-fPIC", "-o", f"{folder}/libcuda.so.1", "-Wl,-soname,libcuda.so.1", f"{folder}/driver.cc"], check=True)
link = ["c++", "-o", f"{folder}/user", f"{folder}/user.cc", "-lcuda"]
assert subprocess.run(link, capture_output=True).returncode != 0
ctypes.CDLL(f"{folder}/libcuda.so.1")
with passes.cuda_for_the_linker(torch):
    subprocess.run(link, check=True)
print(subprocess.run([f"{folder}/user"], env={"LD_LIBRARY_PATH": folder}).returncode)
"""


class PythonModel(harness.RanksTest):
    def python(self, *arguments, env=None):
        done = subprocess.run([PYTHON, *map(str, arguments)], text=True, capture_output=True, check=False, env=env)
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

    def test_a_scripted_model_of_text_trains_as_pytorch_does(self):
        """Probed with float zeros, and asked for one row of classes a sample, it could not be trained."""
        exported, book = self.folder / "text.pt", self.folder / "book.txt"
        book.write_bytes((harness.SOURCE / "LICENSE").read_bytes()[:1000])
        self.python(harness.SOURCE / "python/export_model.py", f"{NETS}:Text", exported)
        recipe = self.folder / "text.toml"
        recipe.write_text(f'[model]\nname = "script:{exported}"\n[data]\nkind = "text"\npath = "{book}"\nwindow = 32\n'
                          'global_batch = 8\n[trainer]\nmax_epochs = 3\nseed = 5\nprecision = "fp64"\n'
                          '[optimizer]\nname = "sgd"\nlr = 0.5\n[observe]\nlog_every = 1\n')
        theirs = json.loads(self.python("-c", TEXT_LOSSES, harness.SOURCE / "tests/golden", NETS.parent, exported, book, 32, 8, 5, 3))
        for ranks in (1, 2):
            self.trained(recipe=recipe, ranks=ranks, run=f"run-{ranks}")
            ours = [line["loss"] for line in harness.metrics(self.folder / f"run-{ranks}") if line["event"] == "step"]
            self.assertEqual(len(ours), len(theirs))
            for step, (one, other) in enumerate(zip(ours, theirs)):
                self.assertAlmostEqual(one, other, delta=1e-12, msg=f"step {step + 1} on {ranks} ranks")
        found = self.start("eval", self.folder / "run-2", "--split", "train", "--json").finish()
        self.assertEqual(found.code, 0, found.err)
        self.assertEqual(set(found.object["metrics"]), {"val_loss", "val_accuracy", "val_perplexity"})
        self.assert_failed(self.start("predict", self.folder / "run-2", "--split", "train").finish(), 2, "a masked language model")
        self.python(harness.SOURCE / "python/export_model.py", f"{NETS}:Text", exported, "--set", "vocabulary=300")
        self.assert_failed(self.train(recipe=recipe, run="refused"), 5, "makes [2, 32, 300] of a batch of ids I64 [2, 32]", "wants [2, 32, 257]")

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

    def test_a_driver_without_a_toolkit_is_linked_with(self):
        if not shutil.which("c++"):
            self.skipTest("there is no c++")
        env = {name: value for name, value in os.environ.items() if name not in ("LIBRARY_PATH", "CUDA_HOME")}
        self.assertEqual(self.python("-c", LINKED, COMPILE.parent, self.folder, env=env).strip(), "7")

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
        peers.skip_script()
    harness.main()
