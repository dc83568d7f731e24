#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep monitor` under a real Slurm: test_monitor.py LOCKSTEP"""
import json
import shlex
import subprocess
import sys
import time
import unittest

import bed as test_bed

LOCKSTEP = sys.argv.pop(1)
# Works until somebody makes the file `stop` in the current folder.
SPIN = "while [ ! -e stop ]; do :; done"


class Monitor(test_bed.BedTest):
    program = LOCKSTEP

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: (self.folder / "stop").touch())

    def status(self, *words, **more):
        return json.loads(self.lockstep("monitor", *words, "--json", **more).stdout.splitlines()[-1])

    def until(self, holds, look, seconds=60):
        """What `look` gives once it `holds`."""
        deadline = time.monotonic() + seconds
        while True:
            seen = look()
            if holds(seen):
                return seen
            if time.monotonic() > deadline:
                self.fail(f"not within {seconds} s: {seen}")

    def start_without_exec(self, *flags):
        """The number of a job whose step works on all that the job has."""
        script = self.folder / "job.sh"
        script.write_text(f"#!/bin/bash\nsrun sh -c '{SPIN}'\n")
        said = self.bed.run("sbatch", "--parsable", "-o", "job.out", *flags, script, cwd=self.folder)
        job = said.strip()
        self.until(lambda steps: f"{job}.0" in steps, lambda: self.bed.run("squeue", "--steps", "--noheader", "--format=%i", f"--jobs={job}"))
        return job

    @staticmethod
    def works(status):
        """Two nodes with two tasks each, of which each uses a core's part."""
        nodes = status["nodes"]
        return len(nodes) == 2 and all(len(node["tasks"]) == 2 and all((task["cores"] or 0) > 0.02 for task in node["tasks"]) for node in nodes)

    def test_a_submitted_program_is_seen_at_work_and_to_its_end(self):
        job = self.job("--nodes", "2", "--tasks-per-node", "2", "--devices", "0", "--", "sh", "-c", SPIN)
        pipe = self.enterContext(subprocess.Popen([LOCKSTEP, "monitor", "run"], cwd=self.folder, env=self.environment, text=True,
                                                  stdout=subprocess.PIPE))
        self.addCleanup(pipe.kill)
        seen = self.until(self.works, lambda: self.status("run", "--once"))
        self.assertEqual((seen["schema"], seen["job"], seen["state"]), (1, job, "running"))
        self.assertEqual(seen["run_dir"], str(self.folder / "run"))
        self.assertEqual([task["rank"] for node in seen["nodes"] for task in node["tasks"]], [0, 1, 2, 3])
        self.assertTrue(all(node["local_world"] == 2 and not node["is_silent"] for node in seen["nodes"]))
        self.assertIsNone(seen["training"])
        self.assertIn("2/2", self.lockstep("monitor", "run", "--once").stdout)
        live = self.status("run", "--live")
        self.assertTrue(self.works(live), live)
        (self.folder / "stop").touch()
        blocks, _ = pipe.communicate(timeout=120)
        self.assertEqual(pipe.returncode, 0)
        self.assertIn("run · job " + job, blocks)
        self.assertNotIn("\x1b", blocks)
        ended = self.status("run")
        self.assertEqual(ended["state"], "ended")
        self.assertTrue(all(node["has_ended"] for node in ended["nodes"]))

    def test_live_asks_the_nodes_of_a_job_that_exec_did_not_start(self):
        for flags in (["--exclusive"], ["--gpus-per-node=4", "--ntasks-per-node=2", "--cpus-per-task=4"],
                      ["--gpus-per-task=2", "--mem=0"]):
            job = self.start_without_exec("-N2", "-n4", "--ntasks-per-node=2", *flags)
            seen = self.until(self.works, lambda job=job: self.status(job, "--live"))
            self.assertEqual((seen["job"], seen["state"], seen["run_dir"]), (job, "running", None))
            self.assertEqual([task["rank"] for node in seen["nodes"] for task in node["tasks"]], [0, 1, 2, 3])
            self.bed.run("scancel", job)
            self.state(job)

    def test_live_shows_a_job_from_within_and_a_machine_without_one(self):
        output = self.bed.batch(f"cd {self.folder}; {shlex.quote(str(LOCKSTEP))} monitor --live --json", "-w", "n1,n2", "-n2", "--gpus-per-task=1", "--cpus-per-task=2")
        seen = json.loads(output.splitlines()[-1])
        self.assertEqual([node["node"] for node in seen["nodes"]], ["n1", "n2"])
        alone = self.status("--live")
        self.assertEqual((alone["job"], len(alone["nodes"])), (None, 1))
        self.assertGreater(alone["nodes"][0]["memory_total_bytes"], 0)

    def test_what_there_is_not_is_an_error_that_says_so(self):
        self.assertIn("there is no run in ", self.lockstep("monitor", "--once", code=2).stderr)
        self.assertIn("there is no run 'nothing'", self.lockstep("monitor", "nothing", "--once", code=2).stderr)
        self.assertIn("Invalid job id specified", self.lockstep("monitor", "4242", "--live", "--once", code=4).stderr)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
