#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks of a Python loop under `lockstep launch`, one of which stands still in its loader: the launcher names it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import pythons

pythons.with_each(__file__)

# One sample of rank 1 is read from a pipe into which nobody writes, so this rank waits for ever.
SCRIPT = """
import os, sys, torch, torch.distributed as dist
sys.path.insert(0, os.environ["LOCKSTEP_FILE"])
import lockstep
dist.init_process_group("gloo")
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, index):
        if index == 300 and dist.get_rank() == 1:
            open(os.environ["PIPE"]).read()
        return torch.full((4,), float(index))
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
run = lockstep.start(model=net, optimizer=optimizer, folder="run")
loader = torch.utils.data.DataLoader(Samples(), batch_size=10)
for epoch in run.epochs(1):
    for batch in run.steps(loader):
        loss = net(batch).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


class Watch(unittest.TestCase):
    def test_a_rank_that_stands_still_in_its_loader_is_named(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep python watch ")))
        (folder / "train.py").write_text(SCRIPT)
        os.mkfifo(folder / "pipe")
        env = dict(os.environ, PIPE=str(folder / "pipe"), LOCKSTEP_FILE=str(pythons.ROOT / "python"), LOCKSTEP_STOP_GRACE="5",
                   CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        log = folder / "log"
        with open(log, "w") as err:
            launcher = subprocess.Popen([pythons.BIN / "lockstep", "launch", "-n", "2", "--", sys.executable, "train.py"], cwd=folder,
                                        env=env, stdout=err, stderr=err, start_new_session=True)
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.kill)
        found = self.when(launcher, log, r"warning: rank 1 \(process \d+ on \S+\) is in loading of step 30 for 1\d s, [^;]*; "
                                         r"rank 0 is in forward of step 30")
        self.assertIsNotNone(found)
        answer = subprocess.run([pythons.BIN / "lockstep", "why", "run"], cwd=folder, env=env, capture_output=True, text=True, check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"rank 0 \(process \d+ on \S+\): forward of step 30 for \d+ s")
        (folder / "pipe").open("w").close()  # Now the sample is there.
        self.assertEqual(launcher.wait(60), 0, log.read_text())

    def when(self, launcher, log, pattern):
        deadline = time.monotonic() + 90
        while not (found := re.search(pattern, log.read_text())):
            self.assertTrue(launcher.poll() is None and time.monotonic() < deadline, log.read_text())
            time.sleep(0.1)
        return found


if __name__ == "__main__":
    unittest.main(verbosity=2)
