#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What doctor reads from #SBATCH lines, held against what a real Slurm makes of them: test_job_scripts.py LOCKSTEP"""
import json
import pathlib
import re
import sys
import unittest

import bed as test_bed

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
# Each is a job that four nodes of eight cores and four devices can run.
LINES = [
    "--nodes=2 --ntasks-per-node=4 --time=10",
    "-N2 -n 8 -t 1:30",
    "-N 1 -n4 -c2 -t 1:00:00",
    "--nodes 3 --tasks-per-node 2 --cpus-per-task 3 --time 1-2",
    "-n 6 --time=0-01:30",
    "--ntasks=4 --ntasks-per-node=2 --gpus-per-node=2 -t 2-03:04:05",
    "--nodes=2 --gres=gpu:4 --ntasks-per-node=4 --mem=512M",
    "-N1 --gres gpu:1 --time=5 --mem 1G",
    "--nodes=2 --gpus-per-task=1 --ntasks-per-node=3 -t5",
    "-N2 --gpus=8 --ntasks-per-node=4",
    "--nodes=1 --gpus-per-node=3 -n3 --exclusive",
    "-N4 --time=00:00:90 --job-name='a b' # --nodes=1",
    "--nodes=1 --nodes=2 -n2",
    "-N2 -t 90 --ntasks-per-node=1 -c8 --hint=nomultithread",
]


def seconds(text):
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def mib(text):
    return int(float(text[:-1]) * {"M": 1, "G": 1024}[text[-1]]) if text != "0" else 0


class UnderSlurm(test_bed.BedTest):
    program = LOCKSTEP

    def read_by_slurm(self, script):
        job = self.bed.run("sbatch", "--parsable", "--hold", script, cwd=self.folder).strip()
        try:
            shown = self.bed.run("scontrol", "show", "job", job)
        finally:
            self.bed.run("scancel", job)
        return dict(word.split("=", 1) for word in shown.split() if "=" in word), shown

    def test_numbers_are_those_that_slurm_reads(self):
        for line in LINES:
            with self.subTest(line=line):
                script = self.folder / "job.sh"
                script.write_text(f"#!/bin/bash\n#SBATCH {line}\nsrun hostname\n")
                asks = json.loads(self.lockstep("doctor", script, "--json").stdout)["asks"]
                slurm, shown = self.read_by_slurm(script)
                # A job whose number of nodes is Slurm's choice shows a range or a guess.
                if asks["nodes"] is not None:
                    self.assertEqual(slurm["NumNodes"].split("-")[0], str(asks["nodes"]), shown)
                self.assertEqual(slurm["NumTasks"], str(asks["tasks"]), shown)
                self.assertEqual(slurm["CPUs/Task"], str(asks["cpus_per_task"] or 1), shown)
                if asks["time_s"] is not None:
                    # Slurm counts in minutes, and rounds up.
                    self.assertEqual(seconds(slurm["TimeLimit"]), -(-asks["time_s"] // 60) * 60, shown)
                if asks["memory_mib"] is not None:
                    self.assertEqual(mib(slurm["MinMemoryNode"]), asks["memory_mib"], shown)
                self.assertEqual(self.devices(shown), (asks["devices_per_node"] or 0) * (asks["nodes"] or 1), shown)

    def devices(self, shown):
        """Of the whole job, as one of the ways says in which Slurm shows them."""
        found = re.search(r"TresPer(Node|Task|Job)=gres[:/]gpu[:=]?(\d*)", shown)
        if not found:
            return 0
        nodes = int(re.search(r"NumNodes=(\d+)", shown)[1])
        tasks = int(re.search(r"NumTasks=(\d+)", shown)[1])
        return int(found[2] or 1) * {"Node": nodes, "Task": tasks, "Job": 1}[found[1]]


if __name__ == "__main__":
    test_bed.skip_where_impossible()
    unittest.main()
