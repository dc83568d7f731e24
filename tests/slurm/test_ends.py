#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How jobs end, as `ls`, `follow` and `report` tell it, under a real Slurm: test_ends.py LOCKSTEP"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time
import unittest

import bed as test_bed

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
LATER = "sleep 1; exec sleep 600"


class UnderSlurm(test_bed.BedTest):
    program = LOCKSTEP

    def listed(self, run):
        runs = json.loads(self.lockstep("ls", "--json", cwd="/").stdout)["runs"]
        return next((each["state"], each["exit_code"]) for each in runs if each["run_dir"] == str(self.folder / "runs" / run))

    def ended(self, name, *words, after=None, **variables):
        """Submits a job and waits for its end, which `after` may bring about. Returns its run folder's name."""
        job = self.job(*words, run=f"runs/{name}", **variables)
        if after:
            after(job)
        self.state(job)
        return name

    def when_it_says(self, words, run):
        deadline = time.monotonic() + 60
        log = self.folder / run / "logs/job.log"
        while not (log.exists() and words in log.read_text()):
            self.assertLess(time.monotonic(), deadline, f"'{words}' is not in {log}")
            time.sleep(0.05)

    def check(self, run, state, code, verdict, last=None):
        """What the three commands say of a run that has ended."""
        self.lockstep("follow", run, code=code, cwd="/")
        self.assertEqual(self.listed(run), (state, code))
        said = json.loads(self.lockstep("report", run, "--json", cwd="/").stdout)["runs"][0]
        self.assertRegex(said["verdict"]["text"], verdict)
        text = self.lockstep("report", run, cwd="/").stdout
        self.assertIn(said["verdict"]["text"], text.splitlines()[0])
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

    def test_an_exit_code_is_told_everywhere(self):
        for code, words in ((1, "code 1"), (2, "code 2"), (5, "code 5"), (7, "code 7"), (255, "code 255")):
            run = self.ended(f"code-{code}", "--", "sh", "-c", f"echo why-{code} >&2; exit {code}")
            self.check(run, "failed", code, f"It failed: rank 0 on n. ended, with {words}", f"why-{code}")

    def test_a_good_end_is_no_failure(self):
        self.check(self.ended("good", "--", "true"), "ended", 0, "Nothing has been measured")

    def test_a_signal_is_named(self):
        for name, code, words in (("KILL", 137, r"by SIGKILL \(137; often memory\)"), ("SEGV", 139, r"by SIGSEGV \(139\)"),
                                  ("ABRT", 134, r"by SIGABRT \(134\)"), ("TERM", 143, r"by SIGTERM \(143\)")):
            run = self.ended(name, "--", "sh", "-c", f"echo last-words >&2; kill -{name} $$")
            self.check(run, "failed", code, f"rank 0 on n. ended, {words}", "last-words")

    def test_the_rank_that_failed_first_is_named(self):
        run = self.ended("one-of-four", "--nodes", "2", "--tasks-per-node", "2", "--", "sh", "-c",
                         f"if [ $RANK = 3 ]; then sleep 1; echo it was me >&2; kill -9 $$; fi; {LATER}")
        self.check(run, "failed", 137, r"It failed: rank 3 on n. ended first, by SIGKILL \(137; often memory\), \d.* before the others",
                   "it was me")

    def test_a_rank_that_fails_alone(self):
        run = self.ended("alone", "--tasks-per-node", "2", "--", "sh", "-c", "[ $RANK = 0 ] || { sleep 1; exit 6; }")
        self.check(run, "failed", 6, "rank 1 on n. ended, with code 6; the other ranks ended well")

    def test_a_cancelled_job(self):
        def cancel(job):
            self.when_it_says("begun", "runs/cancelled")
            self.bed.run("scancel", job)
        run = self.ended("cancelled", "--", "sh", "-c", f"echo begun; {LATER}", after=cancel)
        self.check(run, "cancelled", 143, "It was cancelled")

    def test_a_job_that_is_cancelled_while_it_waits(self):
        run = self.ended("waiting", "--sbatch=--begin=now+1hour", "--", "true", after=lambda job: self.bed.run("scancel", job))
        self.check(run, "cancelled", 143, "It was cancelled")

    def test_a_program_that_is_not_there(self):
        run = self.ended("typo", "--nodes", "2", "--", "/no/such/program")
        self.check(run, "failed", 4, "It failed, with code 4", "'/no/such/program' was not found, or does not start")

    def test_an_option_that_the_program_does_not_know(self):
        run = self.ended("option", "--", "ls", "--no-such-option")
        self.check(run, "failed", 2, "rank 0 on n. ended, with code 2", "--no-such-option")

    def test_a_module_that_is_not_there(self):
        (self.folder / "site.toml").write_text('[modules]\nload = ["no-such-module"]\n')
        run = self.ended("module", "--cluster", "site.toml", "--", "true")
        self.check(run, "failed", 127, "It failed, with code 127", "module: command not found")

    def test_a_line_of_setup_that_fails(self):
        run = self.ended("setup", "--setup", "source /no/such/activate", "--", "true")
        self.check(run, "failed", 4, "It failed, with code 4", "/no/such/activate")

    def test_an_image_that_does_not_open(self):
        stub = self.folder / "bin"
        stub.mkdir()
        (stub / "apptainer").write_text("#!/bin/sh\necho 'FATAL: image is not a SIF file' >&2\nexit 255\n")
        (stub / "apptainer").chmod(0o755)
        (self.folder / "wrong.sif").touch()
        run = self.ended("image", "--container", "wrong.sif", "--", "true", PATH=f"{stub}:{self.environment['PATH']}")
        self.check(run, "failed", 4, "It failed, with code 4", "FATAL: image is not a SIF file")

    def test_a_full_disk(self):
        run = self.ended("full", "--", sys.executable, "-c", "f = open('/dev/full', 'w'); f.write('x'); f.close()")
        self.check(run, "failed", 1, "rank 0 on n. ended, with code 1", "No space left on device")

    def test_a_missing_module_of_python(self):
        run = self.ended("import", "--", sys.executable, "-c", "import no_such_module")
        self.check(run, "failed", 1, "with code 1", "ModuleNotFoundError: No module named 'no_such_module'")

    def test_a_node_that_is_lost(self):
        def lose(job):
            self.when_it_says("begun", "runs/lost")
            # It comes back by itself, once it registers.
            self.bed.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
        run = self.ended("lost", "--sbatch=--nodelist=n3", "--sbatch=--no-requeue", "--", "sh", "-c", f"echo begun; {LATER}", after=lose)
        self.check(run, "node lost", 7, "A node was lost")

    def test_a_requeued_job_is_told_by_its_last_start(self):
        def requeue(job):
            self.when_it_says("begun", "runs/requeued")
            self.bed.run("scontrol", "requeue", job)
            self.assertIn(self.listed("requeued")[0].split()[0], ("pending", "running", "completing"))
        run = self.ended("requeued", "--", "sh", "-c", f'echo begun; [ "$SLURM_RESTART_COUNT" ] && exit 5; {LATER}', after=requeue)
        self.check(run, "failed", 5, "rank 0 on n. ended, with code 5")

    def test_a_job_that_stops_on_request(self):
        run = self.ended("stopped", "--chain", "1", "--", "sh", "-c", "exit 75")
        self.assertEqual(self.listed(run), ("stopped", 75))

    def test_a_job_whose_time_is_up(self):
        run = self.ended("late", "--time", "00:01:00", "--", "sh", "-c", LATER)
        self.check(run, "timeout", 143, "Its time was up: Slurm ended it at its limit")

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

    def test_a_recipe_that_fails(self):
        """The training half is a stub: the record is kept by what starts it."""
        stub = self.folder / "lockstep-train"
        stub.write_text("#!/bin/sh\n[ \"$1\" = --version ] || { echo no data here >&2; exit 5; }\n")
        stub.chmod(0o755)
        (self.folder / "r.toml").write_text('[model]\nname = "mlp"\n[data]\nkind = "synthetic"\nsamples = 8\n[cluster]\nnodes = 1\n')
        run = self.ended("recipe", "r.toml", "--tasks-per-node", "2", LOCKSTEP_TRAINER=str(stub))
        self.check(run, "failed", 5, r"rank [01] on n. ended first, with code 5", "no data here")


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
