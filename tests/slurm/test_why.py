#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who holds up a job of two nodes under a real Slurm: `lockstep why`, and the word about a frozen rank: test_why.py LOCKSTEP"""
import json
import os
import pathlib
import signal
import sys
import unittest

import bed as test_bed

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
DIGITS = str(ROOT / "recipes/digits.toml")


class Why(test_bed.BedTest):
    program = LOCKSTEP
    shape = {"nodes": 2, "cores": 2, "gpus": 0, "task_plugin": "task/none"}

    def told(self):
        path = self.folder / "run/watch.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def steps(self):
        path = self.folder / "run/metrics.jsonl"
        return path.read_text().count('"event":"step"') if path.exists() else 0

    def test_a_frozen_rank_of_four_on_two_nodes_is_named(self):
        job = self.job(DIGITS, "--nodes", "2", "--tasks-per-node", "2", "--set", "trainer.max_epochs=1000000", "--set", "trainer.validate_every=0",
                       "--set", "snapshot.every_epochs=0", "--set", "observe.log_every=1")
        self.until(lambda: self.steps() > 30, "no steps")
        healthy = json.loads(self.lockstep("why", "run", "--json").stdout)
        self.assertEqual([rank["rank"] for rank in healthy["ranks"]], [0, 1, 2, 3])
        self.assertIsNone(healthy["verdict"])
        self.assertTrue(all(rank["step"] > 0 and rank["collective"]["number"] > 0 for rank in healthy["ranks"]))
        self.assertTrue(all(any(frame.startswith("lockstep::") for frame in rank["stack"]) for rank in healthy["ranks"]), healthy)
        pid = self.until(lambda: self.training_process(job, 2), "rank 2 is not there")
        os.kill(pid, signal.SIGSTOP)
        first = self.until(self.told, "no word about the frozen rank")[0]
        self.assertEqual((first["kind"], first["ranks"]), ("stopped", [2]), first["text"])
        self.assertRegex(first["text"], rf"^rank 2 \(process {pid} on n2\) is stopped by a signal for 1\d s, ")
        self.until(lambda: f"warning: rank 2 (process {pid} on n2)" in self.log(), "no warning in the job's log")  # srun brings it.
        self.assertEqual(first["seen"]["2"]["stack_note"], "a stopped process writes no stack")
        answer = json.loads(self.lockstep("why", job, "--json").stdout)
        self.assertEqual(answer["verdict"]["ranks"], [2])
        self.assertTrue(answer["ranks"][0]["stack"] and answer["ranks"][0]["process"]["wait"], answer)
        os.kill(pid, signal.SIGCONT)
        self.until(lambda: self.told()[-1]["kind"] == "goes_on", "no word about its going on")
        self.until(lambda: not list((self.folder / "run/watch").glob("*.json")), "what ranks told is still there")
        self.bed.run(LOCKSTEP, "stop", self.folder / "run")
        self.assertEqual(self.state(job)["ExitCode"], "75:0", self.log())


if __name__ == "__main__":
    test_bed.skip_where_impossible()
    unittest.main(verbosity=2)
