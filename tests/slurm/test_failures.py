#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each way to fail in failures.py, as `ls`, `follow` and `report` tell it, under a real Slurm: test_failures.py LOCKSTEP"""
import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import unittest

import bed as test_bed
import failures

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
PARTITIONS = """PartitionName=gpu Nodes=@NODES@ Default=YES MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=low Nodes=@NODES@ MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=CANCEL
PartitionName=lowest Nodes=@NODES@ MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE"""


class Failures(test_bed.BedTest):
    program = LOCKSTEP

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(test_bed.Bed(partitions=PARTITIONS, conf="PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE"))

    def begin(self, row):
        """Submits the job. Returns its number."""
        here = self.folder / row.name
        here.mkdir()
        for name, text in row.files.items():
            (here / name).parent.mkdir(exist_ok=True)
            (here / name).write_text(text)
            (here / name).chmod(0o755 if text.startswith("#!") else 0o644)
        variables = {name: value.replace("FOLDER", str(here)) for name, value in row.variables.items()}
        done = self.lockstep("submit", "--run-dir", f"../runs/{row.name}", "--json", *row.words, cwd=here,
                             PATH=f"{here}/bin:{self.environment['PATH']}", **variables)
        job = json.loads(done.stdout)["job"]
        if row.scancel and "--sbatch=--begin=now+1hour" not in row.job:
            self.when_it_says(failures.BEGUN, row.name)
        if row.scancel:
            self.bed.run("scancel", job)
        return job

    def when_it_says(self, words, run):
        log = self.folder / "runs" / run / "logs/job.log"
        self.until(lambda: log.exists() and words in log.read_text(), f"'{words}' is not in {log}")

    def nodes_of(self, ended):
        return self.bed.run("scontrol", "show", "hostnames", ended["NodeList"]).split()

    def check(self, row, job):
        ended = self.state(job)
        run = f"runs/{row.name}"
        # Slurm kills a process that has not ended 5 s after SIGTERM (KillWait of this test cluster). On a busy machine it may take longer.
        if row.scancel and self.state_in_ls(run) == (row.state, 128 + signal.SIGKILL):
            row = dataclasses.replace(row, code=128 + signal.SIGKILL)
        self.assertEqual(self.state_in_ls(run), (row.state, row.code), "ls")
        followed = self.lockstep("follow", run, code=row.code)
        self.assertIn(f"job {job}: {row.state}", followed.stderr)
        report = json.loads(self.lockstep("report", run, "--json").stdout)["runs"][0]
        verdict = report["verdict"]["text"]
        self.assertEqual((report["end"]["state"], report["end"]["exit_code"]), (row.state, row.code), "report")
        first = report["end"]["first"]
        if row.rank is None:
            if row.name != "recipe":  # Either of its two ranks may be the first.
                self.assertIsNone(first if row.state not in ("stopped", "failed") else None)
            self.assertRegex(verdict, row.says.replace("NODE", ended["NodeList"]))
        else:
            node = self.nodes_of(ended)[row.rank // row.per_node]
            self.assertEqual((first["rank"], first["node"], first["code"]), (row.rank, node, row.code))
            blamed = rf"rank {row.rank} on {node} ended.*{row.says}"
            self.assertRegex(verdict, f"It failed: {blamed}", self.log(run))
            self.assertRegex(followed.stderr, blamed)
        if row.launched:
            launched = first["launched"]
            self.assertEqual((launched["launcher"], launched["rank"], launched["code"]), row.launched)
        text = self.lockstep("report", run).stdout
        self.assertIn(verdict, " ".join(text.split()))
        self.assertIn(row.last, text.split("\nRun\n")[0])
        self.assertIn(row.last, followed.stdout + followed.stderr)

    def state_in_ls(self, run):
        runs = json.loads(self.lockstep("ls", "--json", cwd="/").stdout)["runs"]
        return next((each["state"], each["exit_code"]) for each in runs if each["run_dir"] == str(self.folder / run))

    def test_each_is_told_as_it_was(self):
        jobs = [(row, self.begin(row)) for row in failures.possible()]
        for row, job in jobs:
            with self.subTest(row.name):
                self.check(row, job)

    def test_what_happens_to_nodes_and_the_queue_is_told_as_it_was(self):
        for row in failures.DISTURBING:
            with self.subTest(row.name):
                job = self.begin(row)
                self.when_it_says(failures.BEGUN, row.name)
                node = self.bed.run("squeue", "--noheader", "--format=%N", f"--jobs={job}").strip()
                self.bed.run(*(word.replace("JOB", job).replace("NODE", node) for word in row.disturb), timeout=180)
                self.check(row, job)

    def test_a_full_disk_under_the_run_folder_hides_no_failure(self):
        small = self.folder / "runs"
        small.mkdir()
        self.bed.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small)
        self.addCleanup(self.bed.run, "umount", "-l", small)
        job = self.job("--", "sh", "-c", "dd if=/dev/zero of=$LOCKSTEP_RUN_DIR/fill bs=4k; exit 3", run="runs/full")
        self.assertEqual(self.state(job)["ExitCode"], "3:0")
        self.assertEqual(self.state_in_ls("runs/full"), ("failed", 3))
        self.assertIn("No space left on device", self.lockstep("follow", "runs/full", code=3).stdout)
        text = self.lockstep("report", "runs/full").stdout
        self.assertIn("full: It failed, with code 3", text)
        self.assertIn("No space left on device", text.split("\nRun\n")[0])

    def test_a_partition_that_is_not_there_is_refused_before_the_queue(self):
        done = self.lockstep("submit", "--partition", "none", "--", "true", code=4)
        self.assertIn("invalid partition specified: none", done.stderr)
        self.assertEqual(list((self.folder / "runs").iterdir()), [])


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
