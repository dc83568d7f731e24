#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How `ls`, `follow` and `report` know a job and its end, under a real Slurm: test_ends.py LOCKSTEP

test_failures.py has the ways to fail.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import unittest

import bed as test_bed

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())


class UnderSlurm(test_bed.BedTest):
    program = LOCKSTEP

    def listed(self, run):
        runs = json.loads(self.lockstep("ls", "--json", cwd="/").stdout)["runs"]
        return next((each["state"], each["exit_code"]) for each in runs if each["run_dir"] == str(self.folder / "runs" / run))

    def ended(self, name, *words):
        """Submits a job and waits for its end. Returns its run folder's name."""
        self.state(self.job(*words, run=f"runs/{name}"))
        return name

    def when_it_says(self, words, run):
        log = self.folder / run / "logs/job.log"
        self.until(lambda: log.exists() and words in log.read_text(), f"'{words}' is not in {log}")

    def check(self, run, state, code, verdict, last=None):
        """What the three commands say of a run that has ended."""
        self.lockstep("follow", run, code=code, cwd="/")
        self.assertEqual(self.listed(run), (state, code))
        said = json.loads(self.lockstep("report", run, "--json", cwd="/").stdout)["runs"][0]
        self.assertRegex(said["verdict"]["text"], verdict)
        text = self.lockstep("report", run, cwd="/").stdout
        self.assertIn(said["verdict"]["text"], " ".join(text.split()))
        if last:
            self.assertIn(last, text.split("\nRun\n")[0])

    def test_a_job_that_was_submitted_a_moment_ago_has_not_ended(self):
        self.ended("old", "--", "true")
        self.lockstep("ls", cwd="/")  # Keeps what the queue holds now.
        job = self.job("--", "sh", "-c", "sleep 3; echo done; exit 3", run="runs/new")
        self.assertNotIn("ended", self.listed("new")[0])
        followed = self.lockstep("follow", cwd="/", code=3)
        self.assertIn("done\n", followed.stdout)
        self.assertIn(f"job {job}: failed", followed.stderr)

    def test_a_job_is_known_by_its_number_from_any_folder(self):
        (self.folder / "other").mkdir()
        job = self.job("--", "sh", "-c", "echo hello; sleep 600", run="other/mine")
        self.when_it_says("hello", "other/mine")
        self.assertIn(f"{self.folder}/other/mine", self.lockstep("ls", cwd="/").stdout)
        self.assertEqual(json.loads(self.lockstep("monitor", job, "--json", cwd="/").stdout)["job"], job)
        self.assertEqual(self.lockstep("stop", job, cwd="/").stdout, f"job {job} is cancelled\n")
        self.state(job)
        self.assertIn("hello\n", self.lockstep("follow", job, cwd="/", code=143).stdout)
        self.assertIn("It was cancelled", self.lockstep("report", job, cwd="/").stdout)
        self.assertIn("there is no run '1'", self.lockstep("follow", "1", cwd="/", code=2).stderr)

    def test_two_submissions_in_one_second_have_folders_of_their_own(self):
        def submit(_):
            done = subprocess.run([LOCKSTEP, "submit", "--json", "--", "true"], text=True, capture_output=True, check=True,
                                  cwd=self.folder, env=self.environment)
            return json.loads(done.stdout)["run_dir"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            folders = list(pool.map(submit, range(8)))
        self.assertEqual(len(set(folders)), 8, folders)

    def test_a_submission_that_is_refused_leaves_no_folder(self):
        self.lockstep("submit", "--partition", "none", "--", "true", code=4)
        self.assertEqual(list((self.folder / "runs").iterdir()), [])

    def test_a_good_end_is_no_failure(self):
        self.check(self.ended("good", "--", "true"), "ended", 0, "Nothing has been measured")

    def test_what_slurm_calls_out_of_memory(self):
        """The kernel's limits are not this bed's: Slurm's answers of such a job are a stub's."""
        run = self.ended("memory", "--", "sh", "-c", "kill -9 $$")
        stub = self.folder / "bin"
        stub.mkdir()
        job = json.loads((self.folder / "runs/memory/job.json").read_text())["job"]
        (stub / "squeue").write_text("#!/bin/sh\n")
        (stub / "sacct").write_text(f"#!/bin/sh\necho '{job}|OUT_OF_MEMORY|0:125'\n")
        for each in stub.iterdir():
            each.chmod(0o755)
        self.environment["PATH"] = f"{stub}:{self.environment['PATH']}"
        self.check(run, "out of memory", 137, r"It ran out of memory: Slurm ended it; rank 0 on n. ended, by SIGKILL")
        (stub / "sacct").write_text("#!/bin/sh\nexit 1\n")
        self.assertEqual(self.listed(run)[0], "out of memory", "what Slurm said once is kept")


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
