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
HEALTHY_S = float(os.environ.get("LOCKSTEP_HEALTHY_S", 10))
PATIENCE_S = 300
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

    def launched(self, moments, has_lines, forbids=False, spy=True):
        peer = os.environ.get("LOCKSTEP_PEER_PYTHON")
        path = os.environ["PATH"] + (f":{pathlib.Path(peer).parent}" if peer and spy else "")
        env = dict(os.environ, PATH=path, PIPE=str(self.folder / "pipe"), PYTHONPATH=str(pythons.ROOT / "python"), LOCKSTEP_STOP_GRACE="2",
                   CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        env.pop("LOCKSTEP_RUN_DIR", None)
        if not has_lines:
            env["LOCKSTEP_RUN_DIR"] = str(self.folder / "run")
            (self.folder / "run").mkdir(exist_ok=True)
        words = [",".join(f"{kind}:{rank}:{step}" for kind, rank, step in moments), *(["lines"] if has_lines else [])]
        with open(self.folder / "log", "w") as log:
            launcher = subprocess.Popen([LOCKSTEP, "launch", "-n", "2", "--", sys.executable, SCRIPT, *words], cwd=self.folder, env=env, stdout=log,
                                        stderr=log, start_new_session=True, preexec_fn=forbid_ptrace if forbids else None)
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.terminate)
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

    def check_moment(self, launcher, moment, has_lines, can_spy):
        """That a rank which stands still is named, with its line. Then it goes on."""
        kind, rank, step = moment
        self.until(lambda: self.step() >= step, launcher)
        # It stands still once nothing has changed for a second.
        self.until(lambda: all(each["unchanged_s"] > 1 for each in self.why().values()), launcher)
        ranks = self.why()
        self.assertEqual(self.step(), step)
        self.assertEqual(sorted(ranks), [0, 1])
        told = f"{moment}\n{json.dumps(ranks[rank], indent=1)}"
        self.assertRegex(ranks[rank]["text"], rf"^rank {rank} \(process \d+ on \S+\): ", told)
        self.assertIn(ranks[rank]["process"]["state"], ("S", "D"), told)
        self.assertTrue(ranks[rank]["process"]["wait"], told)
        if has_lines:
            self.assertEqual(ranks[rank]["phase"], "loading" if kind == "loader" else "forward", told)
            self.assertEqual(ranks[rank]["step"], step, told)
        # As root, py-spy reads /proc/PID/mem where the system forbids it ptrace and process_vm_readv.
        if has_lines or can_spy is None or ranks[rank]["python"]:
            self.assertTrue(any(re.fullmatch(rf"{LINES[kind]} \(freeze\.py:\d+\)", line) for line in ranks[rank]["python"] or ()), told)
        else:
            self.assertRegex(ranks[rank]["python_note"] or "", can_spy, told)
        (self.folder / "pipe").open("w").close()

    def check(self, moments, has_lines, forbids=False):
        spy = self.spy()
        can_spy = "pip install py-spy" if not spy else "the system forbids py-spy" if forbids else None
        launcher = self.launched(moments, has_lines, forbids, bool(spy))
        for moment in moments:
            self.check_moment(launcher, moment, has_lines, can_spy)
        self.until(lambda: self.step() > moments[-1][2], launcher)

    ALL = [("loader", 1, 5), ("collective", 1, 8), ("lock", 0, 12)]

    def test_a_script_without_lines(self):
        self.check(self.ALL, has_lines=False)

    def test_a_script_with_lines(self):
        self.check(self.ALL, has_lines=True)

    def test_where_the_system_forbids_ptrace(self):
        self.check(self.ALL, has_lines=False, forbids=True)

    def test_where_the_system_forbids_ptrace_with_lines(self):
        self.check(self.ALL, has_lines=True, forbids=True)

    @staticmethod
    def spy():
        peer = os.environ.get("LOCKSTEP_PEER_PYTHON")
        return shutil.which("py-spy", path=os.environ["PATH"] + (f":{pathlib.Path(peer).parent}" if peer else ""))

    def test_the_watch_names_the_rank_by_itself(self):
        launcher = self.launched([("loader", 1, 30)], has_lines=True)
        self.until(lambda: re.search(r"warning: rank 1 \(process \d+ on \S+\) is in loading of step 30 for \d\d s", self.log()), launcher)
        (self.folder / "pipe").open("w").close()
        self.until(lambda: "the ranks go on" in self.log(), launcher)

    def check_healthy(self, has_lines):
        launcher = self.launched([], has_lines)
        self.until(lambda: self.step() >= 5, launcher)
        until, asked, steps = time.monotonic() + HEALTHY_S, 0, 0
        while time.monotonic() < until:
            self.why()
            asked, steps = asked + 1, max(steps, self.step())  # The script may be about to write its step.
        self.assertIsNone(launcher.poll(), self.log())
        self.assertNotIn("warning", self.log())
        self.assertFalse((self.folder / "run/watch.jsonl").exists())
        print(f"healthy, asked {asked} times in {HEALTHY_S:.0f} s, {steps} steps", flush=True)

    def test_a_healthy_run_has_no_alarm(self):
        self.check_healthy(has_lines=True)

    def test_a_healthy_run_without_lines_has_no_alarm(self):
        self.check_healthy(has_lines=False)

    @unittest.skipUnless(COUNT, "LOCKSTEP_FROZEN_SEEDS asks for none")
    def test_drawn(self):
        draw = random.Random(FIRST)
        has_lines, forbids = draw.random() < 0.5, draw.random() < 0.3
        steps = sorted(draw.sample(range(2, 20 * COUNT), COUNT))
        moments = [(draw.choice(list(LINES)), draw.randrange(2), step) for step in steps]
        print(f"seeds {FIRST} to {FIRST + COUNT - 1}: lines {has_lines}, ptrace {'forbidden' if forbids else 'allowed'}, {moments}", flush=True)
        self.check(moments, has_lines, forbids)
        print(f"named {COUNT} of {COUNT}", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
