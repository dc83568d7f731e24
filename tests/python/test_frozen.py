#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks of a Python script under `lockstep launch`, of which one stands still: in its data loader, in a collective, in a lock; with
Lockstep's lines and without, where py-spy may look and where the system forbids it. `lockstep why` names the rank, what its process
does, and its Python line as far as it can be seen.

LOCKSTEP_FROZEN_SEEDS=FIRST:COUNT draws frozen runs; `tools/soak python_watch` counts on from run to run.
"""
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import pythons

pythons.with_each(__file__)

SCRIPT = pathlib.Path(__file__).with_name("freeze.py")
LOCKSTEP = pythons.BIN / "lockstep"
FIRST, COUNT = map(int, os.environ.get("LOCKSTEP_FROZEN_SEEDS", "0:0").split(":"))
HEALTHY_S = float(os.environ.get("LOCKSTEP_HEALTHY_S", 20))
PATIENCE_S = 180
LINES = {"loader": "read_sample", "collective": "average_alone", "lock": "take_lock"}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
PTRACE, PROCESS_VM_READV = 101, 310  # Of x86-64.


def forbid_ptrace():
    """Has the kernel answer ptrace and process_vm_readv with EPERM, for this process and its children, as a container's rules do."""
    def jump(number):
        return struct.pack("HBBI", 0x15, 0, 1, number) + struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | 1)
    program = struct.pack("HBBI", 0x20, 0, 0, 0) + jump(PTRACE) + jump(PROCESS_VM_READV) + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    buffer = ctypes.create_string_buffer(program)
    libc = ctypes.CDLL(None, use_errno=True)
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer)))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


class Frozen(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep frozen ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.mkfifo(self.folder / "pipe")

    def launched(self, kind, rank, step, has_lines, forbids=False, spy=True):
        peer = os.environ.get("LOCKSTEP_PEER_PYTHON")
        path = os.environ["PATH"] + (f":{pathlib.Path(peer).parent}" if peer and spy else "")
        env = dict(os.environ, PATH=path, PIPE=str(self.folder / "pipe"), PYTHONPATH=str(pythons.ROOT / "python"), LOCKSTEP_STOP_GRACE="2",
                   CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        env.pop("LOCKSTEP_RUN_DIR", None)
        if not has_lines:
            env["LOCKSTEP_RUN_DIR"] = str(self.folder / "run")
            (self.folder / "run").mkdir(exist_ok=True)
        command = [LOCKSTEP, "launch", "-n", "2", "--", sys.executable, SCRIPT, kind, str(rank), str(step), *(["lines"] if has_lines else [])]
        with open(self.folder / "log", "w") as log:
            launcher = subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True,
                                        preexec_fn=forbid_ptrace if forbids else None)
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.terminate)
        self.until(lambda: self.step() >= step, launcher)
        return launcher

    def step(self):
        path = self.folder / "step"
        text = path.read_text() if path.exists() else ""
        return int(text) if text else 0

    def log(self):
        return (self.folder / "log").read_text()

    def until(self, is_so, launcher):
        deadline = time.monotonic() + PATIENCE_S
        while not (found := is_so()):
            self.assertTrue(launcher.poll() is None and time.monotonic() < deadline, self.log())
            time.sleep(0.1)
        return found

    def why(self):
        """What `lockstep why` says of each rank, once they stand still."""
        done = subprocess.run([LOCKSTEP, "why", "run", "--json"], cwd=self.folder, text=True, capture_output=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr + self.log())
        return {each["rank"]: each for each in json.loads(done.stdout.splitlines()[-1])["ranks"]}

    def stands_still(self, launcher):
        """The ranks, once none has taken a step for two seconds."""
        def is_so():
            before = self.step()
            time.sleep(2)
            return before == self.step()
        self.until(is_so, launcher)
        return self.why()

    def check(self, kind, rank, step, has_lines, forbids=False, spy=True):
        launcher = self.launched(kind, rank, step, has_lines, forbids, spy)
        ranks = self.stands_still(launcher)
        told = json.dumps(ranks[rank], indent=1)
        self.assertRegex(ranks[rank]["text"], rf"^rank {rank} \(process \d+ on \S+\): ", told)
        self.assertIn(ranks[rank]["process"]["state"], ("S", "D"), told)
        self.assertTrue(ranks[rank]["process"]["wait"], told)
        if has_lines:
            self.assertEqual(ranks[rank]["phase"], "loading" if kind == "loader" else "forward", told)
            self.assertEqual(ranks[rank]["step"], step, told)
        if has_lines or (spy and not forbids):
            self.assertTrue(any(re.fullmatch(rf"{LINES[kind]} \(freeze\.py:\d+\)", line) for line in ranks[rank]["python"]), told)
        else:
            self.assertRegex(ranks[rank]["python_note"], "the system forbids py-spy" if spy else "pip install py-spy", told)
        self.assertEqual(sorted(ranks), [0, 1])
        return launcher

    def test_a_script_without_lines(self):
        for kind in LINES:
            with self.subTest(kind):
                self.setUp()
                self.check(kind, 1, 5, has_lines=False, spy=bool(self.spy()))

    def test_a_script_with_lines(self):
        for kind in LINES:
            with self.subTest(kind):
                self.setUp()
                self.check(kind, 1, 5, has_lines=True, spy=bool(self.spy()))

    def test_where_the_system_forbids_ptrace(self):
        for kind in LINES:
            for has_lines in (False, True):
                with self.subTest(kind, has_lines=has_lines):
                    self.setUp()
                    self.check(kind, 1, 5, has_lines, forbids=True, spy=bool(self.spy()))

    @staticmethod
    def spy():
        peer = os.environ.get("LOCKSTEP_PEER_PYTHON")
        return shutil.which("py-spy", path=os.environ["PATH"] + (f":{pathlib.Path(peer).parent}" if peer else ""))

    def test_the_watch_names_the_rank_by_itself(self):
        launcher = self.check("loader", 1, 30, has_lines=True)
        self.until(lambda: re.search(r"warning: rank 1 \(process \d+ on \S+\) is in loading of step 30 for 1\d s", self.log()), launcher)

    def test_a_healthy_run_has_no_alarm(self):
        for has_lines in (True, False):
            with self.subTest(has_lines=has_lines):
                self.setUp()
                launcher = self.launched("none", 0, 5, has_lines)
                until, asked = time.monotonic() + HEALTHY_S / 2, 0
                while time.monotonic() < until:
                    self.why()
                    asked += 1
                self.assertIsNone(launcher.poll(), self.log())
                self.assertNotIn("warning", self.log())
                self.assertFalse((self.folder / "run/watch.jsonl").exists())
                print(f"healthy, asked {asked} times in {HEALTHY_S / 2:.0f} s", flush=True)

    @unittest.skipUnless(COUNT, "LOCKSTEP_FROZEN_SEEDS asks for none")
    def test_drawn(self):
        for seed in range(FIRST, FIRST + COUNT):
            draw = random.Random(seed)
            kind, rank, has_lines, forbids = draw.choice(list(LINES)), draw.randrange(2), draw.random() < 0.5, draw.random() < 0.3
            with self.subTest(f"seed {seed}: {kind}, rank {rank}, lines {has_lines}, forbids {forbids}"):
                self.setUp()
                self.check(kind, rank, draw.randrange(3, 40), has_lines, forbids)
                self.doCleanups()


if __name__ == "__main__":
    unittest.main(verbosity=2)
