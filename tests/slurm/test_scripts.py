#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep exec` under a real Slurm with Python's own training scripts, four ranks on two nodes: test_scripts.py LOCKSTEP"""
import pathlib
import sys
import time
import unittest

import bed as test_bed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "exec"))
import scripts  # noqa: E402

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
PYTHON_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python"
LOOP = """import torch, lockstep
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
run = lockstep.start(model=model, optimizer=optimizer, log_every=1)
for epoch in run.epochs(2):
    for batch in run.steps(range(100000000)):
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).pow(2).sum()
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
"""


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

    def test_a_loop_of_lockstep_py_hears_a_request_to_stop(self):
        (self.folder / "loop.py").write_text(LOOP)
        job = self.job("--env", f"PYTHONPATH={PYTHON_FOLDER}", "--", self.python, "loop.py")
        lock, metrics = self.folder / "run/run.lock", self.folder / "run/metrics.jsonl"
        for _ in range(600):  # Until it trains, there is nobody to ask.
            if lock.exists() and metrics.exists() and '"step":' in metrics.read_text():
                break
            time.sleep(0.1)
        said = self.lockstep("stop", "run").stdout
        self.assertEqual(said, f"job {job} writes a snapshot and ends\n", self.log())
        state = self.state(job)
        self.assertEqual((state["ExitCode"], state["Restarts"]), ("75:0", "0"), self.log())
        self.assertEqual(len(list((self.folder / "run/snapshots").glob("step-*"))), 1, self.log())


@scripts.with_new
class OfToday(UnderSlurm, test_bed.BedTest):
    python = scripts.NEW


@scripts.with_old
class OfTheGuidesTime(UnderSlurm, test_bed.BedTest):
    python = scripts.OLD


scripts.skip_without_python()
test_bed.skip_where_impossible()
unittest.main(verbosity=2)
