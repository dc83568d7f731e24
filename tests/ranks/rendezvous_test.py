#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that srun would start find each other through a file, and leave nothing of it behind."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import BIN, DIGITS, LAUNCHERS

WORLD = 2


def task(rank):
    """The variables of one task of a Slurm step on one node."""
    return {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0",
            "SLURM_NTASKS": str(WORLD), "SLURM_STEP_NUM_TASKS": str(WORLD), "SLURM_STEP_TASKS_PER_NODE": str(WORLD),
            "SLURM_STEP_NODELIST": "n1.invalid", "SLURM_SRUN_COMM_PORT": "40001"}


class Rendezvous(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-rendezvous-")))
        self.here = self.folder / "here"
        self.here.mkdir()

    def run_step(self, *words, code=0, **more):
        """Runs `lockstep` with these words as each task; returns what rank 0 printed."""
        clean = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
        clean |= {"OMP_NUM_THREADS": "1", "LOCKSTEP_DOCTOR": "off", "LOCKSTEP_MEET_TIMEOUT": "60", **more}
        tasks = [subprocess.Popen([str(word) for word in (BIN / "lockstep", *words)], env=clean | task(rank), cwd=self.here, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(WORLD)]
        said = [each.communicate(timeout=120) for each in tasks]
        self.errors = [err for _, err in said]
        # Both ranks start in the same way. Rank 0 must report why it cannot listen.
        self.assertEqual(tasks[0].returncode, code, self.errors[0])
        if code == 0:
            self.assertEqual(tasks[1].returncode, 0, self.errors[1])
        return said[0][0]

    def left(self, folder):
        return sorted(str(path.relative_to(folder)) for path in folder.iterdir())

    def train(self, *words, **more):
        return self.run_step("train", DIGITS, "--set", "trainer.max_steps=2", "--set", "trainer.max_epochs=1", "--json", *words, **more)

    def test_nothing_is_left_in_the_working_folder(self):
        run = self.folder / "runs elsewhere/digits"
        result = json.loads(self.train("--run-dir", run).splitlines()[-1])
        self.assertEqual(result["world"], WORLD)
        self.assertEqual(self.left(self.here), [])
        self.assertNotIn(".meeting", self.left(run))
        self.run_step("eval", run, "--json")
        self.assertEqual(self.left(self.here), [], "neither .meeting nor runs")
        self.assertNotIn(".meeting", self.left(run))

    def test_a_run_in_the_default_place_keeps_its_own_folder_alone(self):
        self.train()
        self.assertEqual(self.left(self.here), ["runs"])
        runs = self.left(self.here / "runs")
        self.assertEqual(len(runs), 1, runs)
        self.assertNotIn(".meeting", self.left(self.here / "runs" / runs[0]))

    def test_an_interface_that_is_not_there_ends_rank_0_and_leaves_nothing(self):
        run = self.folder / "digits"
        self.train("--run-dir", run, code=4, LOCKSTEP_INTERFACE="gone9", LOCKSTEP_MEET_TIMEOUT="1")
        self.assertIn("LOCKSTEP_INTERFACE='gone9' names no interface that has an address; those that have one: lo (127.0.0.1)", self.errors[0])
        self.assertEqual(self.left(self.here), [])


unittest.main(verbosity=2)
