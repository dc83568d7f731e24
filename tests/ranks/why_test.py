#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep why` on ranks that are frozen, compute, load and wait, of a training and of a Python script that knows nothing of Lockstep."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys

import harness

# Rank 1 does what its argument says. Rank 0 waits for it, as in a collective.
SCRIPT = """
import os, socket, sys

def spin():
    while True: pass

def read_sample():
    return open(os.path.join(sys.argv[2], "samples")).read()

def wait_for_peer():
    own, peer = socket.socketpair()
    own.recv(1)

def train():
    if os.environ["RANK"] == "0": wait_for_peer()
    spin() if sys.argv[1] == "compute" else read_sample()

train()
"""


class Why(harness.RanksTest):
    def why(self, run):
        result = self.start("why", self.folder / run, "--json").finish(100)
        self.assertEqual(result.code, 0, result.err)
        shown = self.start("why", self.folder / run).finish(100).out
        return result.object, shown

    def until(self, command, run, condition, what):
        """Asks until the ranks have come to what they do for good."""
        def asked():
            with contextlib.suppress(AssertionError):  # Too early: the run has no lock yet.
                answer, shown = self.why(run)
                return condition(answer["ranks"]) and (answer, shown)
        return command.wait_until(asked, what, 100)

    def training(self, fault):
        (self.folder / fault).mkdir()
        return self.start("launch", "-n", 3, "--", harness.BIN / "faulty_training", self.folder / fault, fault, 1, 30,
                          env={"LOCKSTEP_STOP_GRACE": "1", "OMP_NUM_THREADS": "1"})

    def end(self, command):
        command.process.send_signal(signal.SIGTERM)
        command.finish(60)

    def has(self, stack, name):
        return any(name in frame for frame in stack or [])

    def test_a_training_that_computes(self):
        command = self.training("compute")
        answer, shown = self.until(command, "compute", lambda ranks: self.has(ranks[1]["stack"], "spin") and ranks[0]["unchanged_s"] > 1,
                                   "rank 1 computes")
        rank = answer["ranks"][1]
        self.assertEqual((rank["phase"], rank["state"]), ("forward", "R"))
        self.assertRegex(shown, r"rank 1 \(process \d+ on \S+\): forward of step 30, .*, it computes")
        waits = answer["ranks"][0]
        self.assertEqual((waits["phase"], waits["state"]), ("forward", "S"))
        # The collective runs in a thread of c10d's, and the training's thread waits for that.
        self.assertTrue(self.has(waits["stack"], "c10d::Work::wait"), waits)
        self.assertTrue(self.has(waits["stack"], "lockstep::Group::all_reduce_sum"), waits)
        self.assertEqual(waits["collective"]["detail"], "[4]")
        self.end(command)

    def test_a_training_that_loads(self):
        command = self.training("load")
        answer, shown = self.until(command, "load", lambda ranks: ranks[1]["loading_sample"] is not None and ranks[1]["unchanged_s"] > 2, "rank 1 loads")
        sample = answer["ranks"][1]["loading_sample"]
        self.assertIn(str(sample), (self.folder / "load" / "stuck-samples").read_text().split())
        self.assertEqual(answer["ranks"][1]["phase"], "loading")
        self.assertRegex(shown, rf"rank 1 \(process \d+ on \S+\): loading of step \d+, sample {sample} is not there yet for \d+ s, it sleeps")
        self.end(command)

    # ---- a Python script ----

    def script(self, mode):
        (self.folder / "train.py").write_text(SCRIPT)
        os.mkfifo(self.folder / "samples")
        lockstep = harness.BIN / "lockstep"
        return self.start("launch", "-n", 2, "--", lockstep, "exec", "--stay", "--no-agent", "--run-dir", self.folder / "run", "--",
                          sys.executable, self.folder / "train.py", mode, self.folder, env={"LOCKSTEP_STOP_GRACE": "1"})

    def check_lines(self, rank, function):
        """py-spy's lines, or the way to have them."""
        if shutil.which("py-spy") is None:
            self.assertRegex(rank["python_note"], "py-spy is not there|forbids py-spy|py-spy failed")
        else:
            self.assertRegex(rank["python"][0], rf"^{function} \(train.py:\d+\)$", rank)
            self.assertRegex(rank["python"][-1], r"^<module> \(train.py:\d+\)$")

    def test_a_script_that_loads_and_one_that_waits(self):
        command = self.script("load")

        def both_wait(ranks):
            return [rank["process"]["system_call"] for rank in ranks] == ["recvfrom", "open"]
        answer, shown = self.until(command, "run", both_wait, "both ranks wait")
        self.assertIsNone(answer["verdict"])
        waits, loads = answer["ranks"]
        self.assertEqual(waits["process"]["system_call"], "recvfrom")
        self.assertRegex(waits["process"]["file"], r"^socket:\[\d+\]$")
        self.assertEqual(loads["process"]["system_call"], "open")
        self.check_lines(waits, "wait_for_peer")
        self.check_lines(loads, "read_sample")
        self.assertIn("    its thread is in recvfrom of socket:[", shown)
        self.assertIn("train.py", loads["process"]["command"])
        self.end(command)

    def test_a_script_that_computes(self):
        command = self.script("compute")
        answer, shown = self.until(command, "run", lambda ranks: len(ranks) == 2 and ranks[1]["process"]["state"] == "R" and
                                   ranks[0]["process"]["system_call"] == "recvfrom", "rank 1 computes")
        self.assertGreater(answer["ranks"][1]["process"]["cpu_s"], 0)
        self.check_lines(answer["ranks"][1], "spin")
        self.assertRegex(shown, r"rank 1 \(process \d+ on \S+\): it ")
        self.end(command)

    def test_a_script_that_is_frozen(self):
        command = self.script("load")
        self.until(command, "run", lambda ranks: len(ranks) == 2 and ranks[1]["process"]["system_call"] == "open", "rank 1 loads")
        pid = next(pid for pid, env in command.members().items() if env.get("RANK") == "1" and
                   pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1].endswith("train.py"))
        os.kill(pid, signal.SIGSTOP)
        answer, shown = self.until(command, "run", lambda ranks: ranks[1]["state"] == "T" and ranks[1]["process"]["state"] == "T", "rank 1 is frozen")
        self.assertEqual(answer["ranks"][1]["pid"], pid)
        self.assertRegex(shown, r"rank 1 \(process \d+ on \S+\): stopped\n")
        self.check_lines(answer["ranks"][1], "read_sample")
        told = command.wait_until(lambda: (self.folder / "run/watch.jsonl").exists() and (self.folder / "run/watch.jsonl").read_text(), "a verdict", 60)
        line = json.loads(told.splitlines()[0])
        self.assertEqual((line["kind"], line["ranks"]), ("stopped", [1]))
        self.end(command)  # It wakes the rank up.

    def test_a_run_that_has_ended_is_not_asked(self):
        (self.folder / "train.py").write_text("pass")
        self.start("exec", "--stay", "--no-agent", "--run-dir", self.folder / "run", "--", sys.executable, self.folder / "train.py").finish()
        result = self.start("why", self.folder / "run").finish()
        self.assertEqual(result.code, 4)
        self.assertIn("no parent watches its ranks", result.err)


if __name__ == "__main__":
    harness.main()
