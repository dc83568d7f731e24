#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep submit` under a real Slurm, with programs that know nothing of it: test_submit.py LOCKSTEP

LOCKSTEP_BENCH_PYTHON is a Python with PyTorch and Lightning; without it the tests that train are skipped.
"""
import contextlib
import functools
import json
import pathlib
import re
import socket
import subprocess
import sys
import unittest

import bed as test_bed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
PYTHON = peers.PYTHON
PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "exec"
SINGULARITY = """#!/bin/bash
# A stand-in for the container runtime. As the real one does, it takes its flags and the image. Of the variables that it must not pass on, it keeps
# only PATH.
echo "singularity $*" | sed 's/ -- .*//'
shift; while [ "$1" = -B ]; do shift 2; done; shift
exec "$@"
"""


def knows_localhost():
    with contextlib.suppress(OSError):
        return bool(socket.getaddrinfo("localhost", None))
    return False


class UnderSlurm(test_bed.BedTest):
    program = LOCKSTEP

    def lines(self, run="run"):
        # Slurm prints this if the step before, which tried the program, has not quite ended yet.
        waiting = ("step creation temporarily disabled", "srun: Step created for job")
        return sorted(line for line in self.log(run).splitlines()
                      if not line.startswith("==") and not any(word in line for word in waiting))

    def test_any_program_gets_its_ranks_and_a_run_folder(self):
        job = self.job("--nodes", "2", "--tasks-per-node", "2", "--", "sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED")
        self.assertEqual(self.lines(), ["0 4 0 0", "1 4 1 0", "2 4 0 1", "3 4 1 1"])
        logs = sorted((self.folder / "run" / "logs").glob("rank-*.log"))
        said = [log.read_text().splitlines() for log in logs]
        self.assertEqual([lines[1] for lines in said], self.lines(), "each rank's own, and all of them in the job's log")
        self.assertTrue(said[3][0].startswith(f"== job {job}, start 1, rank 3 on n"), said[3])
        record = json.loads((self.folder / "run" / "job.json").read_text())
        self.assertEqual((record["job"], record["name"], record["nodes"], record["tasks"]), (job, "sh", 2, 4))

    def test_devices_are_asked_for_and_one_task_gets_each(self):
        words = ("--devices", "4", "--run-dir", self.folder / "run", "--", "sh", "-c", "echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES$SLURM_STEP_GPUS")
        asked = self.bed.run(LOCKSTEP, "submit", "--cluster", "generic", "--dry-run", *words, cwd=self.folder)
        self.assertIn("#SBATCH --cpus-per-task=2\n", asked, "eight cores and four devices a node, as sinfo has it")
        # This machine has fewer cores than the test cluster's nodes pretend to have. So srun could not give two to each task.
        job = self.job("--cores-per-task", "1", "--devices", "4", *words[4:])
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        self.assertEqual(len({line.split()[0] for line in self.lines()}), 4)
        self.assertIn("gres:gpu:4", self.bed.run("scontrol", "show", "job", job))

    def test_the_script_runs_again_by_hand(self):
        job = self.job("--", "echo", "hello")
        self.state(job)
        again = self.bed.run("sbatch", "--parsable", self.folder / "run" / "job.sh", cwd="/").strip()
        self.assertEqual(self.state(again)["JobState"], "COMPLETED")
        self.assertEqual(self.lines(), ["hello", "hello"], "the log is appended to")

    def test_a_program_that_ends_with_75_is_started_again(self):
        job = self.job("--", "sh", "-c", '[ "$SLURM_RESTART_COUNT" = 1 ] && echo done || exit 75')
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"))
        self.assertIn("done", self.lines())

    def test_a_chain_goes_on_once_the_time_is_up_and_ends_after_its_last_job(self):
        job = self.job("--time", "00:01:00", "--chain", "2", "--", "sh", "-c",
                       'echo start ${SLURM_RESTART_COUNT:-0}; [ "$SLURM_RESTART_COUNT" ] || exec sleep 600')
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log())
        self.assertTrue({"start 0", "start 1"} <= set(self.lines()), self.log())

    # Once both ranks have a handler, rank 0 asks Slurm to warn the batch script, as Slurm does by itself before the time limit.
    WARNED = """trap 'echo saved $RANK; exit 0' USR2; touch ready-$RANK
if [ "$SLURM_RESTART_COUNT" ]; then echo done $RANK; exit; fi
if [ $RANK = 0 ]; then until [ -e ready-1 ]; do :; done; scancel --batch --signal=USR1 $SLURM_JOB_ID; fi
while :; do sleep 600 & wait; done"""  # Slurm may signal the sleep a moment before its shell.

    def test_ranks_get_the_signal_that_they_handle_and_the_run_goes_on_once_they_have_ended(self):
        job = self.job("--tasks-per-node", "2", "--signal", "USR2@60", "--", "sh", "-c", self.WARNED)
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log())
        self.assertEqual([line for line in self.lines() if line.startswith(("saved", "done"))], ["done 0", "done 1", "saved 0", "saved 1"])

    def test_a_run_that_may_not_start_again_ends_after_the_signal(self):
        job = self.job("--tasks-per-node", "2", "--signal", "USR2@60", "--requeue", "no", "--", "sh", "-c", self.WARNED)
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"], state["Requeue"]), ("COMPLETED", "0", "0"), self.log())
        self.assertIn("saved 1", self.lines())
        state = self.state(self.job("--requeue", "no", "--", "sh", "-c", "exit 75", run="other"))
        self.assertEqual((state["JobState"], state["ExitCode"], state["Restarts"]), ("FAILED", "75:0", "0"))

    def test_a_run_that_makes_no_progress_is_not_started_for_ever(self):
        state = self.state(self.job("--", "sh", "-c", "echo start; exit 75"))
        self.assertEqual((state["JobState"], state["ExitCode"], state["Restarts"]), ("FAILED", "75:0", "2"), self.log())
        self.assertEqual(self.lines().count("start"), 3)
        self.assertIn("lockstep: error: the run does not go on: 3 starts in a row ended within a minute", self.log())

    def test_a_program_that_is_missing_on_the_node_fails_once(self):
        job = self.job("--nodes", "2", "--tasks-per-node", "4", "--", "/no/such/program")
        state = self.state(job)
        self.assertEqual((state["JobState"], state["ExitCode"]), ("FAILED", "4:0"))
        self.assertEqual(self.log().count("'/no/such/program' was not found, or does not start, on the compute node"), 1)
        self.assertIn("hint: name it by its full path there", self.log())

    def test_one_failing_task_ends_the_job(self):
        state = self.state(self.job("--tasks-per-node", "2", "--", "sh", "-c", "[ $RANK = 0 ] && exit 3; exec sleep 600"))
        self.assertEqual(state["JobState"], "FAILED")

    def test_a_container_sees_none_of_the_python_outside(self):
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "singularity").write_text(SINGULARITY)
        (bin_folder / "singularity").chmod(0o755)
        (self.folder / "image.sif").touch()
        (self.folder / "site.toml").write_text('[container]\nruntime = "singularity"\nbinds = ["/opt"]\n')
        job = self.job("--cluster", "site.toml", "--container", "image.sif", "--setup", "mine=set", "--setup", "export mine",
                       "--", "sh", "-c", "echo found $(env | grep -cE '^(CONDA_|PYTHON(PATH|HOME)|LD_LIBRARY)') $mine $RANK",
                       CONDA_PREFIX="/leak", PYTHONPATH="/leak", LD_LIBRARY_PATH="/leak",
                       PATH=f"{bin_folder}:{self.bed.environment['PATH']}")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        self.assertIn("found 0 set 0", self.lines())
        self.assertIn(f"-B /opt -B {self.folder}", self.log())

    def test_variables_of_ones_own_reach_the_tasks(self):
        self.state(self.job("--env", "MINE=two words", "--", "sh", "-c", 'echo "[$MINE]" "$LOCKSTEP_RUN_DIR"'))
        self.assertEqual(self.lines(), [f"[two words] {self.folder}/run"])

    def test_runs_are_listed_followed_and_stopped(self):
        job = self.job("--time", "00:05:00", "--chain", "3", "--", "sh", "-c", "echo begun; exec sleep 600", run="runs/mine")
        lockstep = functools.partial(self.lockstep, cwd="/")
        with subprocess.Popen([LOCKSTEP, "follow", "mine"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                              env=self.environment) as follower:
            self.assertIn(f"== job {job}, start 1", follower.stdout.readline())
            # Before this line, srun may print that it waits for the step before.
            self.assertIn("begun\n", follower.stdout)
            listed = json.loads(lockstep("ls", "--json").stdout)["runs"]
            self.assertEqual([(run["job"], run["nodes"]) for run in listed], [(job, 1)])
            self.assertEqual(lockstep("stop", "mine").stdout, f"job {job} is cancelled\n")
            self.assertEqual(self.state(job)["JobState"], "CANCELLED")
            self.assertEqual(follower.wait(timeout=60), 143)
        self.assertIn(" cancelled ", lockstep("ls").stdout)
        self.assertEqual(lockstep("stop", "mine").stdout, f"job {job} has ended already\n")
        self.assertIn("did you mean 'mine'?", lockstep("follow", "mien", code=2).stderr)

    def test_sbatch_keeps_its_message(self):
        done = self.lockstep("submit", "--run-dir", "run", "--partition", "none", "--", "true", code=4)
        self.assertIn("sbatch refuses the job: sbatch: error: invalid partition specified: none", done.stderr)
        self.assertFalse((self.folder / "run").exists())

    @unittest.skipUnless(PYTHON, peers.REASON)
    def test_an_unmodified_ddp_script(self):
        job = self.job("--nodes", "2", "--tasks-per-node", "2", "--", PYTHON, PROGRAMS / "ddp.py")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        said = [json.loads(line) for line in self.lines() if line.startswith("{")]
        self.assertEqual(sorted(each["rank"] for each in said), [0, 1, 2, 3])
        self.assertEqual({each["world"] for each in said}, {4})
        self.assertEqual(len({each["loss"] for each in said}), 1)

    def four_ranks(self, *launcher):
        job = self.job("--nodes", "2", "--tasks-per-node", "1", "--", *launcher, PROGRAMS / "ddp.py")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        said = [json.loads(text) for text in re.findall(r"\{[^{}]*\}", self.log())]  # Two ranks may share a line.
        self.assertEqual(sorted((each["rank"], each["local_rank"], each["world"]) for each in said),
                         [(0, 0, 4), (1, 1, 4), (2, 0, 4), (3, 1, 4)], self.log())
        self.assertEqual(len({each["weights"] for each in said}), 1)

    @unittest.skipUnless(PYTHON, peers.REASON)
    def test_torchrun_on_each_node_starts_the_ranks_of_one_world(self):
        self.four_ranks(PYTHON, "-m", "torch.distributed.run", "--nproc_per_node=2")

    @unittest.skipUnless(PYTHON, peers.REASON)
    @unittest.skipUnless(knows_localhost(), "Accelerate looks up the name localhost, which this machine does not know")
    def test_accelerate_on_each_node_starts_the_ranks_of_one_world(self):
        other = self.enterContext(socket.socket())
        with contextlib.suppress(OSError):  # Some other program's already.
            # This is Accelerate's default port. If it is taken, Accelerate would silently start a separate run on each node.
            other.bind(("127.0.0.1", 29500))
            other.listen()
        self.four_ranks(PYTHON, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2")

    def lines_until(self, words, run="run"):
        """What the job has written, up to the first line with these words."""
        seen = []
        with subprocess.Popen([LOCKSTEP, "follow", run], text=True, stdout=subprocess.PIPE, cwd=self.folder,
                              env=self.environment) as follower:
            for line in follower.stdout:
                seen.append(line)
                if words in line:
                    follower.terminate()
                    return seen
        self.fail(f"no line has '{words}':\n{''.join(seen)}")

    def requeued(self, program, words):
        """What four ranks of the program write where Slurm requeues them once, after the first line with these words."""
        job = self.job("--nodes", "2", "--tasks-per-node", "2", "--", PYTHON, PROGRAMS / program)
        self.lines_until(words)
        self.bed.run("scontrol", "requeue", job)
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log())
        return self.lines()

    @unittest.skipUnless(PYTHON, peers.REASON)
    def test_an_unmodified_ddp_script_that_is_requeued_goes_on_from_its_snapshot(self):
        begun = [line for line in self.requeued("ddp_snapshots.py", "epoch 2 is saved") if "begins with epoch" in line]
        self.assertEqual(sorted(line for line in begun if line.endswith(" 0")),
                         [f"rank {rank} of 4 begins with epoch 0" for rank in range(4)])
        later = {line.split()[-1] for line in begun if not line.endswith(" 0")}
        self.assertEqual((len(begun), len(later)), (8, 1), begun)
        self.assertGreater(int(later.pop()), 2)
        self.assertIn("epoch 29 is saved", self.lines())

    @unittest.skipUnless(PYTHON, peers.REASON)
    def test_an_unmodified_lightning_script_that_is_requeued_goes_on_from_its_checkpoint(self):
        said = [json.loads(line) for line in self.requeued("lightning_run.py", '"epoch": 2') if line.startswith("{")]
        self.assertEqual({(each["world"], each["local_rank"]) for each in said}, {(4, 0), (4, 1)})
        starts = [(each["rank"], each["epoch"]) for each in said if each["event"] == "start"]
        self.assertEqual(sorted(starts)[::2], [(rank, 0) for rank in range(4)])
        self.assertTrue(all(epoch >= 2 for _, epoch in sorted(starts)[1::2]), starts)
        ends = [each for each in said if each["event"] == "end"]
        self.assertEqual(sorted(each["rank"] for each in ends), [0, 1, 2, 3])
        self.assertEqual(len({each["weights"] for each in ends}), 1)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
