#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep exec` under a real Slurm, with programs that know nothing of it: test_exec.py LOCKSTEP

LOCKSTEP_BENCH_PYTHON is a Python with PyTorch; without it the tests that train are skipped.
"""
import json
import pathlib
import shlex
import subprocess
import sys
import unittest

import bed as test_bed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402

LOCKSTEP = sys.argv.pop(1)
PYTHON = peers.PYTHON
DDP = pathlib.Path(__file__).resolve().parents[1] / "exec/ddp.py"
SAY = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR $MASTER_PORT ${CUDA_VISIBLE_DEVICES:-none}"


class Said:
    """What each task of a launch was told, by rank."""

    def __init__(self, output):
        lines = sorted((line.split() for line in output.splitlines()), key=lambda words: int(words[0]))
        self.places = [tuple(int(word) for word in words[:5]) for words in lines]
        self.masters = {(words[5], words[6]) for words in lines}
        self.devices = [words[7] for words in lines]


class UnderSlurm(test_bed.BedTest):
    def srun(self, *flags, program=("sh", "-c", SAY), options=()):
        return self.bed.run("srun", *flags, LOCKSTEP, "exec", *options, "--", *program, cwd=self.folder)

    def test_each_way_to_ask_for_tasks_gives_ranks_that_meet(self):
        two_by_two = [(0, 4, 0, 2, 0), (1, 4, 1, 2, 0), (2, 4, 0, 2, 1), (3, 4, 1, 2, 1)]
        launches = {
            "-N2 --ntasks-per-node=2": two_by_two,
            "-N2 -n4 -m block": [(0, 4, 0, 3, 0), (1, 4, 1, 3, 0), (2, 4, 2, 3, 0), (3, 4, 0, 1, 1)],
            "-N2 -n4 -m cyclic": [(0, 4, 0, 3, 0), (1, 4, 0, 1, 1), (2, 4, 1, 3, 0), (3, 4, 2, 3, 0)],
            "-N2 -n3 -m block": [(0, 3, 0, 2, 0), (1, 3, 1, 2, 0), (2, 3, 0, 1, 1)],
            "-N1 -n4": [(rank, 4, rank, 4, 0) for rank in range(4)],
            "-n1": [(0, 1, 0, 1, 0)],
            "-N1 -n10 -O": [(rank, 10, rank, 10, 0) for rank in range(10)],
        }
        for flags, places in launches.items():
            said = Said(self.srun(*flags.split()))
            self.assertEqual(said.places, places, flags)
            self.assertEqual(len(said.masters), 1, flags)

    def test_rank_zero_may_be_on_any_node(self):
        hosts = self.folder / "hosts"
        hosts.write_text("n2\nn1\nn1\n")
        output = self.bed.run("env", f"SLURM_HOSTFILE={hosts}", "srun", "-n3", "-m", "arbitrary", LOCKSTEP, "exec", "--", "sh", "-c", SAY,
                              cwd=self.folder)
        said = Said(output)
        self.assertEqual(said.places, [(0, 3, 0, 1, 1), (1, 3, 0, 2, 0), (2, 3, 1, 2, 0)])
        self.assertEqual(len(said.masters), 1)

    def test_the_parts_of_a_heterogeneous_step_are_one_world(self):
        command = [LOCKSTEP, "exec", "--", "sh", "-c", SAY]
        said = Said(self.bed.run("srun", "-n1", *command, ":", "-N2", "-n2", *command, cwd=self.folder))
        self.assertEqual(said.places, [(0, 3, 0, 1, 0), (1, 3, 0, 1, 1), (2, 3, 0, 1, 2)])
        self.assertEqual(len(said.masters), 1)

    def test_one_device_stays_one_and_all_stay_all(self):
        self.assertEqual(Said(self.srun("-N1", "-n2", "--gpus-per-task=1")).devices, ["0", "1"])
        self.assertEqual(Said(self.srun("-N1", "-n2", "--gpus-per-node=2")).devices, ["0,1", "0,1"])

    def test_two_steps_of_a_job_meet_apart(self):
        script = f"cd {self.folder}; for i in 1 2; do srun --exact -N2 -n2 {shlex.quote(LOCKSTEP)} exec -- sh -c '{SAY}; sleep 1' > step$i & done; wait"
        self.bed.batch(script, "-N2", "-n4")
        first, second = (Said((self.folder / f"step{i}").read_text()) for i in (1, 2))
        self.assertEqual(first.places, second.places)
        self.assertEqual(len(first.masters | second.masters), 2)

    def test_nothing_is_left_on_the_nodes(self):
        self.srun("-w", "n1,n2", "--ntasks-per-node=2", options=["--run-dir", str(self.folder / "run")], program=["sleep", "3"])
        for node in ("n1", "n2"):
            telemetry = self.folder / f"run/telemetry-{node}.jsonl"
            self.until(lambda: "agent_ended" in telemetry.read_text(), "the node's agent did not end")
            events = [json.loads(line)["event"] for line in telemetry.read_text().splitlines()]
            self.assertEqual((events[0], events[1], events[-1]), ("agent_started", "sample", "agent_ended"))

    def test_a_later_job_starts_from_what_an_earlier_one_compiled(self):
        self.bed.environment["LOCKSTEP_CACHE"] = str(self.folder / "kept")
        self.addCleanup(self.bed.environment.pop, "LOCKSTEP_CACHE")
        self.srun("-N1", "-n1", program=("sh", "-c", "test ! -e $TRITON_CACHE_DIR/kernel && echo compiled > $TRITON_CACHE_DIR/kernel"))
        self.until((self.folder / "kept/node-caches/generic.zip").exists, "the node's agent gave no cache back")
        self.assertEqual(self.srun("-N2", "-n4", program=("sh", "-c", "cat $TRITON_CACHE_DIR/kernel")).split(), ["compiled"] * 4)

    def test_tasks_that_wait_for_ever_are_told_of(self):
        run = self.folder / "run"
        with self.bed.start("srun", "-w", "n1,n2", "-n2", LOCKSTEP, "exec", "--run-dir", run, "--stuck-after", "3", "--", "sleep", "600",
                            cwd=self.folder, stderr=subprocess.PIPE) as step:
            told = set()
            for line in step.stderr:
                told |= {node for node in ("n1", "n2") if f"{node}: 1 task did nothing for 3 s" in line}
                if len(told) == 2:
                    break
            step.terminate()
        self.assertEqual(told, {"n1", "n2"})
        events = [json.loads(line) for line in (run / "telemetry-n1.jsonl").read_text().splitlines()]
        self.assertEqual([each["code"] for each in events if each["event"] == "warning"], ["tasks-stuck"])

    def test_a_program_that_is_missing_ends_the_step_with_its_reason(self):
        with self.assertRaises(AssertionError) as failure:
            self.srun("-N2", "-n2", program=["pyhton", "train.py"])
        self.assertIn("program 'pyhton' was not found in PATH", str(failure.exception))

    @unittest.skipUnless(PYTHON, peers.REASON)
    def test_an_unmodified_script_of_pytorchs_ddp_trains_on_two_nodes(self):
        output = self.bed.run("srun", "-w", "n1,n2", "--ntasks-per-node=2", LOCKSTEP, "exec", "--", PYTHON, DDP, cwd=self.folder, timeout=240)
        ranks = sorted((json.loads(line) for line in output.splitlines()), key=lambda each: each["rank"])
        self.assertEqual([(each["rank"], each["world"], each["local_rank"], each["node"]) for each in ranks],
                         [(0, 4, 0, "n1"), (1, 4, 1, "n1"), (2, 4, 0, "n2"), (3, 4, 1, "n2")])
        self.assertEqual(len({each["loss"] for each in ranks}), 1)
        self.assertLess(ranks[0]["loss"], 0.2)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
