#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains under a real Slurm: four ranks on two nodes with no other set-up, two jobs at once, a stop and a requeue's resume."""
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import bed as test_bed

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKSTEP = str(pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin")) / "lockstep")
DIGITS = str(ROOT / "recipes/digits.toml")
FOUR = ["srun", "-w", "n1,n2", "--ntasks-per-node=2"]


def ended(text):
    return json.loads(text.strip().splitlines()[-1])


class Train(test_bed.BedTest):
    program = LOCKSTEP

    def setUp(self):
        super().setUp()
        self.environment["LOCKSTEP_RUNS"] = str(self.folder)

    def start(self, command):
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        out, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, err)
        return ended(out)

    def test_four_ranks_on_two_nodes_train_with_no_other_set_up(self):
        result = self.finish(self.start([*FOUR, LOCKSTEP, "train", DIGITS, "--json"]))
        self.assertEqual(result["world"], 4)
        self.assertGreaterEqual(result["val_accuracy"], 0.96)
        layout = json.loads((pathlib.Path(result["run_dir"]) / "layout.json").read_text())
        self.assertEqual((layout["nodes"], layout["source"], layout["hosts"]), (2, "slurm", ["n1", "n2"]))
        self.assertFalse((self.folder / ".meeting").exists(), "the rendezvous file was left behind")
        self.assertFalse((pathlib.Path(result["run_dir"]) / ".meeting").exists(), "the rendezvous file was left behind")

    def test_two_jobs_on_the_same_nodes_do_not_disturb_each_other(self):
        jobs = [self.start([*FOUR, "--overcommit", LOCKSTEP, "train", DIGITS, "--json", "--set", f"trainer.seed={seed}"])
                for seed in (11, 12)]
        first, second = (self.finish(job) for job in jobs)
        self.assertNotEqual(first["run_dir"], second["run_dir"])
        self.assertNotEqual(first["weights_digest"], second["weights_digest"])
        for result in (first, second):
            self.assertEqual((result["world"], result["epochs"]), (4, 10))

    def metrics(self, event):
        lines = (self.folder / "run/metrics.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def test_a_job_of_a_minute_stops_by_the_clock_is_requeued_once_and_goes_on(self):
        job = self.job(DIGITS, "--nodes", "2", "--tasks-per-node", "1", "--time", "00:01:00", "--set", "trainer.max_epochs=1000000",
                       "--set", "trainer.validate_every=0", "--set", "trainer.max_time=00:00:40", "--set", "snapshot.every_epochs=0")
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log())
        self.assertEqual([line["stopped_by"] for line in self.metrics("run_ended")], ["job_end", "max_time"])
        stopped, ended_at = (line["step"] for line in self.metrics("run_ended"))
        self.assertEqual([line["step"] for line in self.metrics("snapshot")], [stopped, ended_at])
        self.assertEqual([line["step"] for line in self.metrics("run_started")], [0, stopped])

    def test_a_killed_rank_of_two_nodes_costs_no_step_where_the_state_is_held_in_memory(self):
        for victim in (0, 3):
            run = f"killed-{victim}"
            job = self.job(DIGITS, "--nodes", "2", "--tasks-per-node", "2", "--set", "trainer.max_epochs=1000000", "--set", "snapshot.in_memory=1", "--set", "trainer.heal=off",
                           "--set", "trainer.validate_every=0", "--set", "snapshot.every_epochs=0", "--set", "observe.log_every=1", run=run)
            self.when_there_is(self.folder / run / "metrics.jsonl", '"step":30,')
            os.kill(self.until(lambda: self.training_process(job, victim), f"rank {victim} is not there"), signal.SIGKILL)
            self.assertEqual(self.state(job)["JobState"], "FAILED", self.log(run))
            steps = [line["step"] for line in map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines()) if line["event"] == "step"]
            names = [path.name for path in (self.folder / run / "snapshots").glob("step-*")]
            self.assertEqual(len(names), 1, self.log(run))
            self.assertIn(int(names[0].removeprefix("step-")) - steps[-1], (-1, 0, 1), self.log(run))
            self.lockstep("snapshot", "verify", self.folder / run / "snapshots" / names[0])

    def test_stop_is_a_request_that_the_training_answers(self):
        job = self.job(DIGITS, "--nodes", "2", "--tasks-per-node", "1", "--set", "trainer.max_epochs=1000000", "--set",
                       "trainer.validate_every=0", "--set", "snapshot.every_epochs=0")
        self.when_there_is(self.folder / "run/metrics.jsonl")
        said = self.bed.run(LOCKSTEP, "stop", self.folder / "run")
        self.assertEqual(said, f"job {job} writes a snapshot and ends\n")
        state = self.state(job)
        self.assertEqual((state["ExitCode"], state["Restarts"]), ("75:0", "0"), self.log())
        self.assertEqual([line["stopped_by"] for line in self.metrics("run_ended")], ["request"])
        answer, = [json.loads(path.read_text()) for path in (self.folder / "run/requests").iterdir()]
        self.assertEqual((answer["state"], answer["step"]), ("done", self.metrics("run_ended")[0]["step"]))

    def when_there_is(self, path, text=""):
        self.until(lambda: path.exists() and text in path.read_text(), f"'{text}' is not in {path}")

    def test_a_signal_to_the_step_stops_all_ranks_and_the_next_start_goes_on(self):
        run_dir = self.folder / "stopped"
        longer = ["--json", "--set", "trainer.max_epochs=40", "--set", "snapshot.every_epochs=0", "--set", "observe.log_every=1"]
        command = [*FOUR, LOCKSTEP, "train", DIGITS, *longer, "--run-dir", str(run_dir)]
        whole = self.finish(self.start([*FOUR, LOCKSTEP, "train", DIGITS, *longer, "--run-dir", str(self.folder / "whole")]))
        process = self.start(command)
        metrics = run_dir / "metrics.jsonl"
        deadline = time.monotonic() + 120
        while not (metrics.exists() and '"event":"step"' in metrics.read_text()):
            self.assertLess(time.monotonic(), deadline, "no step within two minutes")
            self.assertIsNone(process.poll(), "the job ended before its first step")
            time.sleep(0.02)
        steps = subprocess.run(["squeue", "-s", "-h", "-o", "%i"], env=self.environment, capture_output=True, text=True, check=True)
        step = next(each for each in steps.stdout.split() if each.endswith(".0"))
        subprocess.run(["scancel", "--signal=USR1", step], env=self.environment, check=True)
        out, err = process.communicate(timeout=120)
        self.assertEqual(ended(out)["stopped_by"], "signal", err)
        self.assertEqual(process.returncode, 75, err)
        resumed = self.finish(self.start(command))
        self.assertTrue(resumed["resumed_from"].startswith(str(run_dir)))
        for key in ("weights_digest", "sample_digest", "steps"):
            self.assertEqual(resumed[key], whole[key], key)


if __name__ == "__main__":
    test_bed.skip_where_impossible()
    unittest.main(verbosity=2)
