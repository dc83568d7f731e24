#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/guide/python.md as a reader would try it: each block of Python runs, and each command says what the page shows."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

import pythons

pythons.with_each(__file__)

PAGE = (pythons.ROOT / "docs/guide/python.md").read_text()
EXAMPLE = pythons.ROOT / "examples/10_python_loop/train.py"
# What a reader has already. The blocks say nothing of it.
HAVE = """
import torch, types
torch.manual_seed(1)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
loader = torch.utils.data.DataLoader(data, 16, shuffle=True)
loss_of = torch.nn.functional.cross_entropy
validate = lambda model: loss_of(model(data.tensors[0]), data.tensors[1]).item()
"""
PATIENCE_S = 300


def python_blocks():
    return re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def console():
    """[(command, its lines of output)] of the indented block with prompts."""
    block, = re.findall(r"(?:^    \$ .*\n(?:    .*\n)*)+", PAGE, re.M)
    commands = []
    for line in block.splitlines():
        line = line.strip()
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    return commands


def like(line):
    """A pattern for a line whose numbers may be others."""
    return re.sub(r"\d+", lambda _: r"\d+", re.escape(line))


class Guide(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep guide ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "LOCKSTEP_RUN"))}
        (self.folder / "bin").mkdir()
        python = self.folder / "bin/python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        self.env = kept | {"PATH": f"{self.folder}/bin:{pythons.BIN}:{os.environ['PATH']}", "PYTHONPATH": str(pythons.ROOT / "python"),
                           "VIRTUAL_ENV": sys.prefix, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}

    def ran(self, text, code=0):
        (self.folder / "script.py").write_text(text)
        done = subprocess.run([sys.executable, "script.py"], cwd=self.folder, env=self.env, text=True, capture_output=True, check=False, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_the_first_block_is_a_run_and_does_no_step_twice(self):
        block = next(each for each in python_blocks() if "for epoch in run.epochs" in each)
        self.ran(HAVE + block)
        self.assertIn("nothing is left to do", self.ran(HAVE + block).stderr)
        read = "import lockstep\nr = lockstep.read('runs/script')\nprint(r.metrics[-1]['stopped_by'], r.snapshots[-1]['step'], r.layout['world'])"
        self.assertEqual(self.ran(read).stdout.split(), ["max_epochs", "40", "1"])

    def test_a_loop_of_ones_own(self):
        block, = [each for each in python_blocks() if "run.should_stop()" in each]
        self.assertIn("step < 100_000:\n    ...  ", block)
        block = block.replace("100_000", "12")
        self.ran(HAVE + "import lockstep\n" + block)
        self.assertIn("goes on from", self.ran(HAVE + "import lockstep\n" + block).stderr)

    def test_what_it_says_of_the_sampler_runs(self):
        call, = re.findall(r"`(DataLoader\(data, batch_sampler=lockstep\.Sampler\(data, batch=32\)\))`", PAGE)
        said = self.ran(HAVE + f"import lockstep\nfrom torch.utils.data import DataLoader\nprint(sum(len(y) for _, y in {call}))").stdout
        self.assertEqual(said.split(), ["64"])

    def test_names_of_options_are_those_of_start(self):
        table = re.search(r"## start\(\)\n(.*?)\n\n`run", PAGE, re.S)[1]
        named = {name for line in re.findall(r"^\| `([^|`]*)`", table, re.M) for name in re.findall(r"([a-z_]+)(?:=\S+)?", line)}
        said = self.ran("import lockstep, inspect\nprint(*inspect.signature(lockstep.start).parameters)").stdout
        self.assertEqual(named, set(said.split()) - {"objects"})

    @unittest.skipUnless((pythons.BIN / "lockstep").exists(), "there is no lockstep")
    def test_each_command_says_what_the_page_shows(self):
        (self.folder / "train.py").write_text(EXAMPLE.read_text())
        (self.folder / "datasets").symlink_to(pythons.ROOT / "datasets")
        background = None
        for command, shown in console():
            with self.subTest(command):
                if command.endswith(" &"):
                    log = open(self.folder / "background.log", "w+")
                    self.addCleanup(log.close)
                    background = subprocess.Popen(shlex.split(command[:-2]), cwd=self.folder, env=self.env, stdout=log, stderr=log)
                    self.addCleanup(background.wait)
                    self.addCleanup(background.kill)
                    self.wait_for(self.folder / "runs/train/metrics.jsonl", background)
                    continue
                done = subprocess.run(shlex.split(command), cwd=self.folder, env=self.env, text=True, capture_output=True, check=False, timeout=900)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = done.stdout + done.stderr
                if command.startswith("lockstep stop"):
                    self.assertEqual(background.wait(PATIENCE_S), 75)
                    said += (self.folder / "background.log").read_text()
                for line in shown:
                    self.assertRegex(said, like(line).replace("runs/train", r"\S*.*runs/train"))

    def wait_for(self, path, process):
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists():
            self.assertIsNone(process.poll(), (self.folder / "background.log").read_text())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
