#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep submit --nodes A-B` under a real Slurm: each start of a run takes what the queue has: test_sizes.py LOCKSTEP"""
import json
import pathlib
import subprocess
import sys
import unittest

import bed as test_bed

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
DIGITS = str(ROOT / "recipes/digits.toml")
NODES = ("n1", "n2", "n3", "n4")
# All these numbers of ranks divide 24 samples evenly. In float64 the order of a sum matters little.
SETTINGS = ["data.global_batch=24", "trainer.precision=fp64", "trainer.validate_every=0", "snapshot.every_epochs=0",
            "observe.log_every=1", "trainer.max_epochs=100000", "model.hidden=[1024,1024]"]


def words_of(settings):
    return [word for setting in settings for word in ("--set", setting)]


class Sizes(test_bed.BedTest):
    program = LOCKSTEP
    shape = {"nodes": 4, "cores": 2, "gpus": 0, "task_plugin": "task/none"}

    def tearDown(self):
        self.leave(4)

    def leave(self, count):
        """Lets the queue have the first `count` nodes. What runs on the others goes on."""
        for number, node in enumerate(NODES, 1):
            state = ["state=resume"] if number <= count else ["state=drain", "reason=test"]
            # Slurm refuses to resume a node that is not drained.
            subprocess.run(["scontrol", "update", f"nodename={node}", *state], env=self.environment, check=False, capture_output=True)
        # A star means that Slurm still waits for the node's answer. Until it comes, no job gets the node.
        self.until(lambda: "*" not in self.bed.run("sinfo", "-N", "--noheader", "--format=%T"), "a node does not answer")

    def lines(self, event, run="run"):
        path = self.folder / run / "metrics.jsonl"
        if not path.exists():
            return []
        whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in map(json.loads, whole) if line["event"] == event]

    def until_start(self, number):
        self.until(lambda: len(self.lines("run_started")) == number, f"start {number} has not begun")

    def until_a_step_of(self, number):
        begun = self.lines("run_started")[number - 1]["step"]
        self.until(lambda: any(line["step"] > begun for line in self.lines("step")), f"start {number} took no step")

    def test_a_recipe_hops_over_one_three_two_and_four_nodes(self):
        sizes = (1, 3, 2, 4)
        self.leave(sizes[0])
        job = self.job(DIGITS, "--nodes", "1-4", "--tasks-per-node", "1", *words_of(SETTINGS))
        for start, size in enumerate(sizes[1:], 1):
            self.until_start(start)
            self.leave(size)  # What runs goes on where it is.
            self.until_a_step_of(start)
            self.bed.run("scontrol", "requeue", job)
        self.until_start(len(sizes))
        self.until_a_step_of(len(sizes))
        self.bed.run(LOCKSTEP, "stop", self.folder / "run")
        self.assertEqual(self.state(job)["ExitCode"], "75:0", self.log())
        self.assertEqual([line["world"] for line in self.lines("run_started")], list(sizes), self.log())
        hopped = json.loads((self.folder / "run/snapshots/latest/state.json").read_text())

        alone = self.lockstep("train", DIGITS, "--run-dir", "alone", "--json", *words_of(SETTINGS), "--set", f"trainer.max_steps={hopped['step']}")
        whole = json.loads(alone.stdout.splitlines()[-1])
        self.assertEqual("".join(hopped["sample_digest"]), whole["sample_digest"])
        losses = {run: {line["step"]: line["loss"] for line in self.lines("step", run)} for run in ("run", "alone")}
        self.assertEqual(losses["run"].keys(), losses["alone"].keys())
        furthest = max(abs(losses["run"][step] - loss) for step, loss in losses["alone"].items())
        self.assertLess(furthest, 1e-6)

        report = self.lockstep("report", "run").stdout
        self.assertIn("1, 3, 2, 4 nodes, start by start", report)
        told = json.loads(self.lockstep("report", "run", "--json").stdout)["runs"][0]
        self.assertEqual(told["sizes"], list(sizes))
        self.assertLess(told["node_hours"], 4 * told["wall_s"] / 3600)

    def test_a_program_has_a_task_on_each_node_that_it_got(self):
        for free, expected in ((4, 3), (2, 2)):
            self.leave(free)
            run = f"run-{free}"
            job = self.job("--nodes", "2-3", "--tasks-per-node", "2", "--", "sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"', run=run)
            self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log(run))
            said = [line for line in self.log(run).splitlines() if line.startswith("rank ")]
            self.assertEqual(sorted(said), [f"rank {rank} of {2 * expected}" for rank in range(2 * expected)])

    def test_a_batch_that_counts_per_rank_is_refused(self):
        recipe = self.folder / "digits.toml"
        recipe.write_text(pathlib.Path(DIGITS).read_text().replace("global_batch =", "batch ="))
        refused = self.lockstep("submit", recipe, "--nodes", "1-4", "--dry-run", code=3)
        self.assertIn("a job of 1 to 4 nodes needs one batch for each size, but data.batch (", refused.stderr)
        self.assertIn("set data.global_batch", refused.stderr)

    def test_steps_that_this_slurm_does_not_know_are_a_usage_error(self):
        version = tuple(map(int, self.bed.run("sbatch", "--version").split()[1].split(".")[:2]))
        words = ["submit", "--nodes", "2-4:2", "--run-dir", "run", "--", "true"]
        if version >= (23, 2):
            self.lockstep(*words)
            return
        refused = self.lockstep(*words, code=2)
        self.assertIn("this Slurm takes no steps between numbers of nodes, but --nodes is 2-4:2", refused.stderr)
        self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    test_bed.skip_where_impossible()
    unittest.main(verbosity=2)
