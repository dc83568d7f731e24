#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep submit --restarts` under a real Slurm: a failed program is started again in its job: test_restarts.py LOCKSTEP"""
import json
import pathlib
import re
import sys
import unittest

import bed as test_bed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
STEPS = 12
# A loop as users write it. Rank 0 saves, and all ranks load. In the first start the machine of one rank kills this rank.
TRAIN = f"""
import os, signal, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer, first = torch.optim.SGD(net.parameters(), lr=0.1), 0
if os.path.exists("saved.pt"):
    saved = torch.load("saved.pt")
    net.load_state_dict(saved["net"]); first = saved["step"]
print(f"rank {{rank}} of {{world}} on {{os.environ['SLURMD_NODENAME']}} begins at step {{first}}", flush=True)
for step in range(first, {STEPS}):
    if step == 5 and os.environ["SLURMD_NODENAME"] in os.environ.get("SICK", "").split(","):
        os.kill(os.getpid(), signal.SIGKILL)
    loss = net(torch.ones(2, 4) * (step + 1)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if rank == 0:
        torch.save({{"net": net.state_dict(), "step": step + 1}}, "new.pt")
        os.replace("new.pt", "saved.pt")
    dist.barrier()
print(f"rank {{rank}} of {{world}} ends with {{sum(p.double().sum() for p in net.parameters()).item():.12f}}", flush=True)
"""


class Restarts(test_bed.BedTest):
    program = LOCKSTEP
    shape = {"nodes": 3, "cores": 2, "gpus": 0, "task_plugin": "task/none"}

    def restarts(self, *words, nodes=3, most=2, **more):
        return self.job("--nodes", nodes, "--restarts", most, *words, **more)

    def begun(self, words, count):
        self.until(lambda: (self.folder / "run/logs/job.log").exists() and self.log().count(words) >= count, "no rank has begun")

    def kept(self):
        return [json.loads(line) for line in (self.folder / "run/restarts.jsonl").read_text().splitlines()]

    @unittest.skipUnless(peers.PYTHON, peers.REASON)
    def test_a_ddp_script_goes_on_without_the_node_of_the_rank_that_was_killed(self):
        (self.folder / "train.py").write_text(TRAIN)
        job = self.restarts("--env", "SICK=n2", "--", peers.PYTHON, "train.py")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        log = self.log()
        self.assertEqual(sorted(re.findall(r"rank (\d) of (\d) on (n\d) begins at step (\d)", log)),
                         [("0", "2", "n1", "5"), ("0", "3", "n1", "0"), ("1", "2", "n3", "5"), ("1", "3", "n2", "0"), ("2", "3", "n3", "0")])
        self.assertRegex(log, r"warning: the step is started again without n2 \(restart 1 of 2\): rank 1 on n2 ended first, by SIGKILL")
        ends = re.findall(r"rank \d of 2 ends with (\S+)", log)
        self.assertEqual((len(ends), len(set(ends))), (2, 1))
        self.assertEqual([(each["restart"], each["again"]) for each in self.kept()], [(0, True)])

    @unittest.skipUnless(peers.PYTHON, peers.REASON)
    def test_it_is_started_as_often_as_was_asked(self):
        (self.folder / "train.py").write_text(TRAIN)
        job = self.restarts("--env", "SICK=n1,n2,n3", "--", peers.PYTHON, "train.py", most=1)
        ended = self.state(job)
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "137:0"), self.log())
        self.assertEqual(len(re.findall(r" of 3 on n\d begins at step 0", self.log())), 3)
        self.assertEqual(len(re.findall(r" of 2 on n\d begins at step 5", self.log())), 2)
        self.assertIn("error: the step is not started again after 1 restart: rank ", self.log())
        self.assertRegex(self.lockstep("report", "run").stdout, r"rank \d on n\d ended (first, )?by SIGKILL|by SIGKILL")

    def test_a_node_that_slurm_has_lost_is_left_out(self):
        work = 'echo begun on $SLURMD_NODENAME; if [ "$LOCKSTEP_RESTARTS" = 0 ]; then exec sleep 600; fi; echo done of $WORLD_SIZE'
        job = self.restarts("--", "sh", "-c", work)
        self.begun("begun on", 3)
        # The script runs on the first node of the job; that one has to stay.
        self.bed.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
        ended = self.state(job)
        self.assertEqual((ended["JobState"], ended["Restarts"]), ("COMPLETED", "0"), self.log())
        self.assertIn("the step is started again without n3 (restart 1 of 2): Slurm has lost n3", self.log())
        self.assertEqual(self.log().count("done of 2\n"), 2)

    def test_an_error_that_comes_at_once_each_time_is_tried_twice(self):
        job = self.restarts("--", "sh", "-c", "echo try $LOCKSTEP_RESTARTS; exit 5", nodes=1, most=5)
        self.assertEqual(self.state(job)["ExitCode"], "5:0", self.log())
        self.assertEqual(re.findall(r"try \d", self.log()), ["try 0", "try 1"])
        self.assertIn("error: the step is not started again, the same code came within a minute of each of two starts: rank 0 on n", self.log())

    def test_a_good_end_and_a_wish_to_start_again_are_no_failures(self):
        job = self.restarts("--", "sh", "-c", 'echo try; [ "$SLURM_RESTART_COUNT" ] || exit 75')
        ended = self.state(job)
        self.assertEqual((ended["JobState"], ended["Restarts"]), ("COMPLETED", "1"), self.log())
        self.assertEqual(self.log().count("try\n"), 6)
        self.assertFalse((self.folder / "run/restarts.jsonl").exists())


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
