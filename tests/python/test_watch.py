#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks of a Python loop under `lockstep launch`, one of which stands still in its loader: the launcher names it."""
import os
import pathlib
import re
import struct
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


# Notes, then waits in a function of its own for its parent's questions.
NOTER = """
import os, sys
sys.path.insert(0, os.environ["LOCKSTEP_FILE"])
import lockstep
page = lockstep._Page(3)
page.set_run_dir("/runs/a b")
for step in range(4):
    page.enter(page.LOADING, step)
    page.enter(page.COMPUTING, step)
def stand_still():
    print(os.getpid(), flush=True)
    sys.stdin.read()
stand_still()
"""


class Page(unittest.TestCase):
    def setUp(self):
        file = self.enterContext(tempfile.NamedTemporaryFile())
        file.truncate(4096)
        env = dict(os.environ, LOCKSTEP_PAGE=file.name, LOCKSTEP_FILE=str(pythons.ROOT / "python"))
        self.process = subprocess.Popen([sys.executable, "-c", NOTER], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.process.communicate)
        self.pid = int(self.process.stdout.readline())
        self.page = pathlib.Path(file.name).read_bytes()

    def number(self, at, kind="q"):
        return struct.unpack_from("=" + kind, self.page, at)[0]

    def test_has_the_layout_of_the_docs(self):
        self.assertEqual(self.page[:8], b"KLPAGE2\0")
        self.assertEqual([self.number(at, "i") for at in (8, 12, 24)], [self.pid, 3, 2])
        self.assertEqual([self.number(at) for at in (16, 32, 40, 304)], [8, 3, -1, -1])
        self.assertEqual([self.number(56 + 8 * phase) for phase in range(8)], [0, 4, 4, 0, 0, 0, 0, 0])
        self.assertEqual(self.number(224), self.number(296))
        spent = [self.number(232 + 8 * phase) for phase in range(8)]
        self.assertTrue(all(spent[:3]) and not any(spent[3:]), spent)
        self.assertEqual(self.page[856:1880].rstrip(b"\0"), b"/runs/a b")

    def test_python_writes_its_lines_when_asked(self):
        number, descriptor = self.number(312, "i"), self.number(848, "i")
        self.assertGreater(number, 32)
        self.assertEqual(self.number(316, "i"), self.pid, "the main thread")
        text = pathlib.Path(f"/proc/{self.pid}/fd/{descriptor}")
        for times in (1, 2):
            os.kill(self.pid, number)
            deadline = time.monotonic() + 30
            while (said := text.read_text()).count(" in stand_still\n") < times:
                self.assertLess(time.monotonic(), deadline, said)
                time.sleep(0.01)
        self.assertIsNone(self.process.poll(), "it goes on")


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
