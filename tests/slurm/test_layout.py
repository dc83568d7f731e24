#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep layout` and `lockstep hosts` under a real Slurm: test_layout.py LOCKSTEP"""
import json
import shlex
import sys
import unittest

import bed as test_bed

LOCKSTEP = sys.argv.pop(1)
QUOTED = shlex.quote(LOCKSTEP)
KEYS = ("rank", "local_rank", "local_world", "node_rank", "nodes")


def places(output):
    """One tuple of KEYS for each line, by rank."""
    return sorted(tuple(json.loads(line)[key] for key in KEYS) for line in output.splitlines())


class UnderSlurm(test_bed.BedTest):
    def layout(self, *flags):
        return self.bed.run("srun", *flags, LOCKSTEP, "layout", "--json")

    def test_two_tasks_on_each_of_two_nodes(self):
        output = self.layout("-w", "n1,n2", "--ntasks-per-node=2")
        self.assertEqual(places(output), [(0, 0, 2, 0, 2), (1, 1, 2, 0, 2), (2, 0, 2, 1, 2), (3, 1, 2, 1, 2)])
        for line in output.splitlines():
            layout = json.loads(line)
            self.assertEqual((layout["world"], layout["source"], layout["device"]), (4, "slurm", None))
            self.assertEqual(layout["hosts"], ["n1", "n2"])

    def test_uneven_and_cyclic_tasks(self):
        self.assertEqual(places(self.layout("-N2", "-n3", "-m", "block")), [(0, 0, 2, 0, 2), (1, 1, 2, 0, 2), (2, 0, 1, 1, 2)])
        self.assertEqual(places(self.layout("-N2", "-n3", "-m", "cyclic")), [(0, 0, 2, 0, 2), (1, 0, 1, 1, 2), (2, 1, 2, 0, 2)])

    def test_heterogeneous_steps_are_one_world(self):
        output = self.bed.run("srun", "-n1", LOCKSTEP, "layout", "--json", ":", "-N2", "-n2", LOCKSTEP, "layout", "--json")
        self.assertEqual(places(output), [(0, 0, 1, 0, 3), (1, 0, 1, 1, 3), (2, 0, 1, 2, 3)])

    def test_one_device_is_index_zero_and_all_go_by_local_rank(self):
        one = self.layout("-N1", "-n2", "--gpus-per-task=1").splitlines()
        self.assertEqual([json.loads(line)["device"] for line in one], [0, 0])
        every = [json.loads(line) for line in self.layout("-N1", "-n4", "--gpus-per-node=4").splitlines()]
        self.assertEqual(sorted(layout["device"] for layout in every), [0, 1, 2, 3])

    def test_a_batch_script_and_a_shell_of_salloc_are_one_process(self):
        for output in (self.bed.batch(f"{QUOTED} layout --json", "-N2", "-n4"),
                       self.bed.run("salloc", "-Q", "-N2", "-n4", LOCKSTEP, "layout", "--json")):
            layout = json.loads(output)
            self.assertEqual((layout["source"], layout["world"], layout["job"]), ("single", 1, None))

    def test_steps_and_array_tasks_have_keys_of_their_own(self):
        steps = self.bed.batch(f"srun {QUOTED} layout --json; srun {QUOTED} layout --json", "-N2", "-n2")
        keys = [json.loads(line)["job"] for line in steps.splitlines() if line.startswith("{")]  # Beside srun's own words.
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(keys[2], keys[3])
        self.assertEqual([key.split(".")[1] for key in keys], ["0", "0", "1", "1"])
        array = json.loads(self.bed.batch(f"srun {QUOTED} layout --json", "-n1", "--array=7"))
        self.assertRegex(array["job"], r"^\d+_7\.0$")

    def test_hosts_expands_the_jobs_own_list(self):
        output = self.bed.batch(f'{QUOTED} hosts "$SLURM_JOB_NODELIST"; scontrol show hostnames', "-N4")
        lines = output.splitlines()
        self.assertEqual(lines[:4], ["n1", "n2", "n3", "n4"])
        self.assertEqual(lines[4:], lines[:4])

    def test_two_beds_live_side_by_side(self):
        with test_bed.Bed() as other:
            self.assertEqual(len(other.run("srun", "-N4", LOCKSTEP, "layout").split("source")), 5)
            self.assertEqual(len(self.layout("-N4").splitlines()), 4)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
