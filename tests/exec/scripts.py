# SPDX-License-Identifier: Apache-2.0
"""Python scripts that know nothing of Lockstep, and what their ranks must say however they are started: tests for each way to
start them, and for each Python.

LOCKSTEP_BENCH_PYTHON has today's PyTorch, Accelerate and Lightning; LOCKSTEP_OLD_PYTHON has those of the clusters' guides,
which tools/old-python fetches for `make soak` alone: half a gigabyte more for the same tests.

The scripts wait for each other before they end. A thread of Gloo's may still hold the tensors of the last collective, and it
needs Python's lock to let go of them: PyTorch then aborts at exit, or hangs, without Lockstep too, where the machine is busy.
"""
import json
import os
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent
NEW = peers.PYTHON
OLD = os.environ.get("LOCKSTEP_OLD_PYTHON")
with_new = unittest.skipUnless(NEW, peers.REASON)
with_old = unittest.skipUnless(OLD, "LOCKSTEP_OLD_PYTHON names no Python with PyTorch 2.0; tools/old-python fetches one")
TASKS = 2  # On each node.


def skip_without_python():
    if not NEW and not OLD:
        peers.skip_script()


def said(output):
    """The JSON objects that lines are."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


class Scripts:
    """The tests, for a TestCase whose `output` returns what a program writes that it has started as `TASKS` tasks on each of
    `nodes` nodes."""

    python = None
    nodes = 1

    def told(self, script, *words):
        # This machine may have fewer GPUs than ranks, and a script that finds a GPU uses it. So GPUs are hidden.
        return said(self.output("env", "CUDA_VISIBLE_DEVICES=", self.python, PROGRAMS / script, *words))

    def check(self, ranks):
        """That all ranks are there, each in its place, and have trained the same weights."""
        world = self.nodes * TASKS
        places = sorted((each["rank"], each["world"], each["local_rank"]) for each in ranks)
        self.assertEqual(places, [(rank, world, rank % TASKS) for rank in range(world)])
        self.assertEqual(len({each["weights"] for each in ranks}), 1, ranks)

    def test_pytorchs_ddp(self):
        ranks = self.told("ddp.py")
        self.check(ranks)
        self.assertLess(ranks[0]["loss"], 0.2)

    def test_a_script_for_torchrun(self):
        ranks = self.told("torchrun_style.py")
        self.check(ranks)
        self.assertEqual({(each["local_world"], each["samples"]) for each in ranks}, {(TASKS, 10 * 64)})
        self.assertLess(max(each["loss"] for each in ranks), 0.2)

    def test_accelerate(self):
        ranks = self.told("accelerate_run.py")
        self.check(ranks)
        self.assertEqual(len({(each["samples"], each["loss"]) for each in ranks}), 1, ranks)
        self.assertEqual(ranks[0]["samples"], 66, "what ranks repeat to fill the last batch is not counted")
        self.assertLess(ranks[0]["loss"], 0.2)

    def test_lightning(self):
        self.check([each for each in self.told("lightning_run.py", "--num_nodes", self.nodes, "--max_epochs", 2)
                    if each["event"] == "end"])
