#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep exec` under a real Slurm with Python's own training scripts, four ranks on two nodes: test_scripts.py LOCKSTEP"""
import pathlib
import sys
import unittest

import bed as test_bed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "exec"))
import scripts  # noqa: E402

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())


class UnderSlurm(scripts.Scripts):
    program = LOCKSTEP
    nodes = 2
    flags = ("-N2", f"--ntasks-per-node={scripts.TASKS}")

    def output(self, *program):
        return self.bed.run("srun", *self.flags, LOCKSTEP, "exec", "--", *program, cwd=self.folder, timeout=300)

    def test_lightning_in_an_interactive_job(self):
        self.flags = [*self.flags, "-J", "interactive"]  # By this name Lightning reads torchrun's variables, not Slurm's.
        self.test_lightning()

    def test_lightning_where_slurm_was_asked_for_tasks_alone(self):
        self.flags, self.nodes = ["-N1", f"-n{scripts.TASKS}"], 1
        self.test_lightning()

    def test_accelerate_by_submit(self):
        job = self.job("--nodes", self.nodes, "--tasks-per-node", scripts.TASKS, "--", self.python,
                       scripts.PROGRAMS / "accelerate_run.py")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        self.check(scripts.said(self.log()))


@scripts.with_new
class OfToday(UnderSlurm, test_bed.BedTest):
    python = scripts.NEW


@scripts.with_old
class OfTheGuidesTime(UnderSlurm, test_bed.BedTest):
    python = scripts.OLD


scripts.skip_without_python()
test_bed.skip_where_impossible()
unittest.main(verbosity=2)
