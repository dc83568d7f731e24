#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every launch line of launch_lines.py under a real Slurm, through `layout`, `exec` and `train`: each gives the right rank, world,
local rank, node rank and device, and all ranks one address and port, or is refused with the reason. LOCKSTEP_BIN is the folder of
the programs; `train` takes one step of each line with LOCKSTEP_SOAK=1, else of a sample."""
import json
import os
import pathlib
import sys
import unittest

import bed as test_bed
from launch_lines import LINES, SAY, check, lockstep_program, objects, told_by_exec

BIN = pathlib.Path(os.environ["LOCKSTEP_BIN"])
LOCKSTEP = BIN / "lockstep"
SOAK = os.environ.get("LOCKSTEP_SOAK") == "1"
ONE_STEP = ["--json", "--resume", "none", "--set", "trainer.max_steps=1", "--set", "trainer.accelerator=cpu", "--set",
            "trainer.validate_every=0", "--set", "observe.tensorboard=false"]


class EveryLine(test_bed.BedTest):
    def setUp(self):
        super().setUp()
        (self.folder / "say.py").write_text(SAY)

    def run_line(self, line, *program):
        """Its output; None where it was refused as it should be."""
        if not line.says:
            return line.run(self.bed, program, self.folder)
        with self.assertRaises(AssertionError) as refusal:
            line.run(self.bed, program, self.folder)
        self.assertIn(line.says, str(refusal.exception))
        return None

    def test_layout_and_exec_know_each_rank_and_its_device_and_where_all_meet(self):
        for line in LINES:
            with self.subTest(line.text):
                output = self.run_line(line, *lockstep_program(LOCKSTEP, sys.executable))
                if output is not None:
                    check(self, line, output)

    def test_train_takes_a_step_with_every_rank(self):
        for number, line in enumerate(LINES if SOAK else LINES[4::9]):
            with self.subTest(line.text):
                run_dir = self.folder / f"run{number}"
                output = self.run_line(line, LOCKSTEP, "train", "digits", *ONE_STEP, "--run-dir", run_dir)
                if output is not None:
                    self.assertEqual([ended["world"] for ended in objects(output)], [len(line.where)])
                    self.assertEqual(json.loads((run_dir / "layout.json").read_text())["world"], len(line.where))

    def test_two_jobs_on_the_same_nodes_have_ports_of_their_own(self):
        words = ["srun", "-N2", "-n2", "-w", "n1,n2", LOCKSTEP, "exec", "--no-agent", "--", "sh", "-c", f"{sys.executable} say.py; sleep 2"]
        jobs = [self.bed.start(*words, cwd=self.folder, stdout=-1) for _ in range(2)]
        masters = [{(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in told_by_exec(job.communicate(timeout=60)[0])} for job in jobs]
        self.assertEqual([len(each) for each in masters], [1, 1])
        self.assertNotEqual(*masters)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
