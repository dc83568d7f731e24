#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainings under a real Slurm that are stopped at random moments in all the ways that a job can be: each writes one snapshot, is
started once more, and ends with the weights of a run that was left alone: test_moments.py LOCKSTEP

LOCKSTEP_MOMENT_SEEDS=FIRST:COUNT says which moments; `tools/soak moments` counts on from run to run.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import unittest

import bed as test_bed

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
RECIPE = pathlib.Path(__file__).resolve().parents[2] / "recipes/digits.toml"
PARTITIONS = """PartitionName=gpu Nodes=@NODES@ Default=YES MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=low Nodes=@NODES@ MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE"""
STEPS = 600
LAST_MOMENT = 400  # So that a run has not ended when it is to be stopped.
# What a step draws or keeps beyond its gradient.
SETTINGS = ("model.hidden=[64,64]", "optimizer.name=adamw", "optimizer.lr=0.001", "trainer.average=ema", "trainer.accumulate=2",
            "trainer.max_epochs=100000", f"trainer.max_steps={STEPS}", "trainer.validate_every=20", "snapshot.every_epochs=0",
            "snapshot.keep=0", "observe.log_every=1")
FIRST, COUNT = map(int, os.environ.get("LOCKSTEP_MOMENT_SEEDS", "0:5").split(":"))
PATIENCE = 240


def flags(settings):
    return [word for each in settings for word in ("--set", each)]


class Moments(test_bed.BedTest):
    program = LOCKSTEP
    shape = {"partitions": PARTITIONS, "conf": "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE"}
    whole = {}

    def result(self, run):
        return json.loads((self.folder / run / "result.json").read_text())

    def left_alone(self, tasks):
        """How a run of two nodes ends that nobody disturbs."""
        if tasks not in self.whole:
            job = self.job(RECIPE, "--nodes", 2, "--tasks-per-node", tasks, *flags(SETTINGS), run=f"whole-{tasks}")
            self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log(f"whole-{tasks}"))
            self.whole[tasks] = self.result(f"whole-{tasks}")
        return self.whole[tasks]

    def events(self, run, *kinds):
        path = self.folder / run / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [line for line in map(json.loads, (line for line in lines if line.endswith("\n"))) if line["event"] in kinds]

    def await_moment(self, job, run, step):
        """Waits for a step; for 0, until the run can be stopped."""
        kind, wanted = ("step", step) if step > 0 else ("run_started", 0)
        self.until(lambda: (lines := self.events(run, kind)) and lines[-1]["step"] >= wanted, f"{run} of job {job} did not come to step {step}", PATIENCE)

    def by_signal_before_the_end(self, _):
        """As --signal has Slurm do: a signal to every rank, in a job of a minute."""
        job = self.job(RECIPE, *self.words, "--time", "00:01:00", run=self.run_name)
        self.await_moment(job, self.run_name, self.moment)
        self.bed.run("scancel", "--signal=USR1", job)
        return job, "USR1 to all ranks of a job of a minute"

    def by_signal_to_one_rank(self, draw):
        job = self.job(RECIPE, *self.words, run=self.run_name)
        name = draw.choice(["SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT"])
        self.await_moment(job, self.run_name, self.moment)
        os.kill(self.training_process(job, self.victim), getattr(signal, name))
        return job, f"{name} to rank {self.victim}"

    def by_requeue(self, _):
        job = self.job(RECIPE, *self.words, run=self.run_name)
        self.await_moment(job, self.run_name, self.moment)
        self.bed.run("scontrol", "requeue", job)
        return job, "scontrol requeue"

    def by_preemption(self, _):
        job = self.job(RECIPE, *self.words, "--partition", "low", run=self.run_name)
        self.await_moment(job, self.run_name, self.moment)
        self.bed.run("srun", "-Q", "-p", "gpu", "-N4", "--exclusive", "true", timeout=PATIENCE)
        return job, "preemption"

    def without_scontrol(self, _):
        """Nobody can put the job back into the queue: it ends with 75, and whoever submits the script again goes on."""
        stub = self.folder / "bin" / "scontrol"
        stub.parent.mkdir(exist_ok=True)
        stub.write_text("#!/bin/sh\nexit 127\n")
        stub.chmod(0o755)
        job = self.job(RECIPE, *self.words, run=self.run_name, PATH=f"{stub.parent}:{self.environment['PATH']}")
        self.await_moment(job, self.run_name, self.moment)
        os.kill(self.training_process(job, self.victim), signal.SIGTERM)
        state = self.state(job)
        self.assertEqual((state["ExitCode"], state["Restarts"]), ("75:0", "0"), self.log(self.run_name))
        again = self.bed.run("sbatch", "--parsable", self.folder / self.run_name / "job.sh").strip()
        return again, "no scontrol"

    KINDS = (by_signal_before_the_end, by_signal_to_one_rank, by_requeue, by_preemption, without_scontrol)

    def check(self, seed):
        draw = random.Random(seed)
        tasks = draw.choice([1, 2])
        kind = self.KINDS[seed % len(self.KINDS)]
        self.run_name = f"run-{seed}"
        self.moment = draw.choice([0, draw.randrange(1, LAST_MOMENT), draw.randrange(1, LAST_MOMENT), draw.randrange(1, LAST_MOMENT)])
        self.victim = draw.randrange(2 * tasks)
        self.words = ["--nodes", 2, "--tasks-per-node", tasks, *flags(SETTINGS)]
        whole = self.left_alone(tasks)
        job, what = kind(self, draw)
        state = self.state(job)
        log = self.log(self.run_name)
        self.assertEqual(state["JobState"], "COMPLETED", log)
        starts, ends = (self.events(self.run_name, name) for name in ("run_started", "run_ended"))
        stops = [line for line in ends if line["stopped_by"] != "max_steps"]
        told = f"seed {seed}: {what}, {2 * tasks} ranks, moment {self.moment}: stopped after step {[line['step'] for line in stops]}"
        print(told, flush=True)
        # A job of one minute may be too short for the rest of the run. It then stops a second time.
        if kind is Moments.by_signal_before_the_end:
            self.assertEqual({line["stopped_by"] for line in stops[1:]} - {"job_end"}, set(), told)
        else:
            self.assertEqual(len(stops), 1, told)
        self.assertEqual(len(stops), len(starts) - 1, f"{told}\n{log}")
        if kind is not Moments.without_scontrol:
            self.assertEqual(int(state["Restarts"]), len(stops), f"one requeue for each stop; {told}\n{log}")
        self.assertEqual([line["step"] for line in starts[1:]], [line["step"] for line in stops], told)
        saved = [line["step"] for line in self.events(self.run_name, "snapshot")]
        self.assertEqual(saved, [*(line["step"] for line in stops), STEPS], f"one snapshot for each stop; {told}")
        for step in saved:
            self.lockstep("snapshot", "verify", self.folder / self.run_name / f"snapshots/step-{step:010}")
        left = [path.name for path in (self.folder / self.run_name / "snapshots").glob(".*")]
        self.assertEqual([name for name in left if ".tmp-" in name], [], told)
        result = self.result(self.run_name)
        for key in ("weights_digest", "sample_digest", "steps", "samples", "train_loss"):
            self.assertEqual(result[key], whole[key], f"{key}; {told}")

    def test_stopped_at_random_moments(self):
        for seed in range(FIRST, FIRST + COUNT):
            with self.subTest(f"seed {seed}"):
                self.check(seed)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
