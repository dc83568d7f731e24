#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of a real Slurm job are killed, and their parents start them again: the run ends as one that was left alone.

LOCKSTEP_HEAL_SEED draws other moments, LOCKSTEP_HEAL_KILLS is how many the job gets."""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import time
import unittest

import bed as test_bed

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKSTEP = str(pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin")) / "lockstep")
DIGITS = str(ROOT / "recipes/digits.toml")
SETTINGS = ("trainer.max_epochs=40", "trainer.validate_every=10", "observe.log_every=1", "optimizer.name=adamw", "trainer.threads=1")
SAME = ("epochs", "steps", "samples", "train_loss", "val_loss", "val_accuracy", "weights_digest", "sample_digest", "world")
SEED = int(os.environ.get("LOCKSTEP_HEAL_SEED", "1"))
KILLS = int(os.environ.get("LOCKSTEP_HEAL_KILLS", "4"))
WORLD = 4


class Heal(test_bed.BedTest):
    program = LOCKSTEP

    def submitted(self, *settings, run):
        sets = [word for each in (*SETTINGS, *settings) for word in ("--set", each)]
        return self.job(DIGITS, "--nodes", "2", "--tasks-per-node", "2", *sets, run=run)

    def last_step(self, run):
        path = self.folder / run / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        try:
            return max((line["step"] for line in map(json.loads, lines) if line["event"] == "step"), default=0)
        except json.JSONDecodeError:  # A rank in the place of a dead one has cut the file while it was read.
            return 0

    def has_ended(self, run):
        return (self.folder / run / "result.json").exists()

    def result(self, job, run):
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log(run)[-4000:])
        return json.loads((self.folder / run / "result.json").read_text())

    def test_killed_ranks_are_replaced_in_their_step(self):
        draw = random.Random(SEED)
        job = self.submitted("trainer.heal_window=0", run="healed")
        healings = 0
        while healings < KILLS and not self.has_ended("healed"):
            wanted = self.last_step("healed") + draw.randrange(2, 30)
            self.until(lambda: self.last_step("healed") >= wanted or self.has_ended("healed"), f"step {wanted} was not reached")
            pid = self.training_process(job, draw.randrange(WORLD))
            if not pid or self.has_ended("healed"):
                break
            time.sleep(draw.random() * 0.02)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            healings += 1
            self.until(lambda: self.log("healed").count("is started again") >= healings or self.has_ended("healed"), "nobody was started again")
        healed = self.result(job, "healed")
        self.assertGreater(healings, 0)
        whole = self.result(self.submitted("trainer.heal=off", run="whole"), "whole")
        self.assertEqual({key: healed[key] for key in SAME}, {key: whole[key] for key in SAME}, self.log("healed")[-4000:])
        print(f"healed {healings} times")
        self.assertFalse((self.folder / "healed/.meeting/secret").exists(), "the secret was left behind")

    def test_a_spare_node_takes_the_place_of_a_lost_one(self):
        sets = [word for each in (*SETTINGS, "snapshot.in_memory=1", "snapshot.every_epochs=0") for word in ("--set", each)]
        job = self.job(DIGITS, "--nodes", "2", "--spares", "1", "--tasks-per-node", "2", *sets, run="spare")
        # The state that is held is at most one step behind.
        self.until(lambda: self.last_step("spare") >= 101, "step 101 was not reached")
        # The script runs on the first node of the job; that one has to stay.
        lost = time.time()
        self.bed.run("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        spare = self.result(job, "spare")
        self.assertIn("the step is started again without n2, with the spare n3 (restart 1 of 1): Slurm has lost n2", self.log("spare"))
        lines = [json.loads(line) for line in (self.folder / "spare/metrics.jsonl").read_text().splitlines()]
        starts = [line["step"] for line in lines if line["event"] == "run_started"]
        later = next(line["time"] for line in lines if line["event"] == "step" and line["step"] > starts[-1])
        print(f"the next step is done {later - lost:.1f} s after the node was lost")
        self.assertEqual(len(starts), 2)
        self.assertGreaterEqual(starts[1], 100, self.log("spare")[-4000:])
        whole = self.result(self.submitted("trainer.heal=off", run="whole"), "whole")
        self.assertEqual({key: spare[key] for key in SAME}, {key: whole[key] for key in SAME}, self.log("spare")[-4000:])

    def killed_node(self, name):
        """The node's daemon, its steps and their tasks die at one moment, and nobody tells Slurm."""
        daemon = self.bed.folder / f"slurmd-{name}.pid"
        found = {int(daemon.read_text())}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
                if f"SLURMD_NODENAME={name}".encode() not in variables or f"SLURM_CONF={self.bed.folder}/slurm.conf".encode() not in variables:
                    continue
                found.add(int(folder.name))
                parent = int(re.search(r"PPid:\s*(\d+)", (folder / "status").read_text())[1])
                if pathlib.Path(f"/proc/{parent}/comm").read_text().strip() == "slurmstepd":
                    found.add(parent)
            except OSError:
                pass
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):  # What lived for a moment only.
                    os.kill(pid, number)

    def run_with_a_killed_node(self, *flags, run):
        """Seconds from the node's death until the next step. The node is there again when the run has ended."""
        sets = [word for each in (*SETTINGS, "snapshot.in_memory=1", "snapshot.every_epochs=0") for word in ("--set", each)]
        job = self.job(DIGITS, "--nodes", "2", *flags, "--tasks-per-node", "2", *sets, run=run)
        self.until(lambda: self.last_step(run) >= 101, "step 101 was not reached")
        lost = time.time()
        self.killed_node("n2")
        try:
            self.until(lambda: self.has_ended(run), "the run has not ended")
        finally:
            self.bed.run("slurmd", "-f", self.bed.folder / "slurm.conf", "-N", "n2")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log(run)[-4000:])
        lines = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        starts = [line["step"] for line in lines if line["event"] == "run_started"]
        later = next(line["time"] for line in lines if line["event"] == "step" and line["step"] > starts[-1])
        self.assertEqual(len(starts), 2, self.log(run)[-4000:])
        self.assertGreaterEqual(starts[1], 100, self.log(run)[-4000:])
        return later - lost

    def test_a_spare_node_replaces_one_whose_daemon_died_too(self):
        seconds = self.run_with_a_killed_node("--spares", "1", run="silent")
        print(f"the next step is done {seconds:.1f} s after the node was lost")
        log = self.log("silent")
        self.assertRegex(log, r"rank [23] on n2, rank [23] on n2 were lost, with the parent process; the step is ended")
        self.assertRegex(log, r"the step is started again without n2, with the spare n3 \(restart 1 of 1\): "
                              r"rank [23] on n2 was lost with its parent process, mostly with the node\n")
        ends = [json.loads(line) for line in (self.folder / "silent/exits-n2.jsonl").read_text().splitlines()]
        self.assertEqual(sorted((end["rank"], end["code"], end.get("lost")) for end in ends), [(2, 137, True), (3, 137, True)])
        silent = json.loads((self.folder / "silent/result.json").read_text())
        whole = self.result(self.submitted("trainer.heal=off", run="whole"), "whole")
        self.assertEqual({key: silent[key] for key in SAME}, {key: whole[key] for key in SAME}, log[-4000:])

    def test_fewer_ranks_go_on_without_a_spare_node(self):
        seconds = self.run_with_a_killed_node("--restarts", "1", run="fewer")
        print(f"the next step is done {seconds:.1f} s after the node was lost")
        self.assertIn("the step is started again without n2 (restart 1 of 1): ", self.log("fewer"))
        fewer = json.loads((self.folder / "fewer/result.json").read_text())
        whole = self.result(self.submitted("trainer.heal=off", run="whole"), "whole")
        same = ("epochs", "steps", "samples", "sample_digest")
        self.assertEqual({key: fewer[key] for key in same}, {key: whole[key] for key in same}, self.log("fewer")[-4000:])
        self.assertEqual((fewer["world"], whole["world"]), (2, 4))
        self.assertAlmostEqual(fewer["train_loss"], whole["train_loss"], places=5)

    def test_a_rank_that_dies_twice_ends_the_job(self):
        job = self.submitted("trainer.max_epochs=1000000", run="twice")
        for count in (1, 2):
            reached = self.last_step("twice")
            self.until(lambda: self.last_step("twice") > reached + 5, "the run does not go on")
            os.kill(self.until(lambda: self.training_process(job, 2), "rank 2 is not there"), signal.SIGKILL)
            if count == 1:
                self.until(lambda: "is started again" in self.log("twice"), "rank 2 was not started again")
        ended = self.state(job)
        self.assertEqual(ended["JobState"], "FAILED", self.log("twice"))
        self.assertRegex(self.log("twice"), r"rank 2 of 4 ended by signal 9 \(Killed\) and is not started again: it died twice within 120 s")
        self.assertTrue(re.search(r"7:0|137:0", ended["ExitCode"]), ended["ExitCode"])


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
