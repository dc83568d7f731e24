#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs of python/lockstep.py that are killed, signalled, asked and damaged: as if nobody had touched them.

Each is a process of its own, forked from this one, which has loaded PyTorch and never used it.
"""
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import pythons

pythons.with_each(__file__)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch  # noqa: E402

import train  # noqa: E402

LOCKSTEP = pythons.BIN / "lockstep"
SEED = int(os.environ.get("LOCKSTEP_PYTHON_SEED", "1"))
KILLS = int(os.environ.get("LOCKSTEP_PYTHON_KILLS", "8"))


class Process:
    """A forked rank. `steps` is a pipe that gets a byte for each step."""

    def __init__(self, folder, rank=0, world=1, store=None, **given):
        steps, told = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(steps)
            self.become_rank(folder, rank, world, store, told, given)
        os.close(told)
        self.steps = steps

    @staticmethod
    def become_rank(folder, rank, world, store, told, given):
        code = 1
        try:
            with open(pathlib.Path(folder).with_suffix(f".err{rank}"), "a") as err:
                os.dup2(err.fileno(), 2)
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
            if store:
                begin = torch.distributed.init_process_group
                torch.distributed.init_process_group = lambda kind: begin(kind, init_method=f"file://{store}", rank=rank, world_size=world)
            result = train.train(folder, tell=lambda step: os.write(told, b"."), **given)
            pathlib.Path(folder, f"result-{rank}.json").write_text(json.dumps(result))
            code = 0
            if world > 1:
                torch.distributed.barrier()
        except SystemExit as end:
            code = end.code
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(code)

    def wait_for_step(self, number):
        """Until the process is in its n-th step; False if it has ended before."""
        for _ in range(number):
            if not os.read(self.steps, 1):
                return False
        return True

    def end(self):
        """The exit code, or minus the signal."""
        while os.read(self.steps, 4096):
            pass
        os.close(self.steps)
        return self.code()

    def code(self):
        status = os.waitpid(self.pid, 0)[1]
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lockstep python runs ")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.count, cls.wholes = 0, {}

    def new(self):
        type(self).count += 1
        return self.folder / f"run-{self.count}"

    def ranks(self, run, world=1, **given):
        store = self.folder / f"store-{time.monotonic_ns()}" if world > 1 else None
        return [Process(run, rank, world, store, **given) for rank in range(world)]

    def finish(self, run, world=1, code=0, **given):
        codes = [each.end() for each in self.ranks(run, world, **given)]
        self.assertEqual(codes, [code] * world, self.said(run))
        return run

    def said(self, run):
        return "".join(path.read_text() for path in sorted(run.parent.glob(run.name + ".err*")))

    def whole(self, world=1, **given):
        """An uninterrupted run; each kind once."""
        key = json.dumps([world, given], sort_keys=True)
        if key not in self.wholes:
            self.wholes[key] = self.finish(self.new(), world, **given)
        return self.wholes[key]

    def samples(self, run):
        """How often each (epoch, id) was trained on; what a dead process did after its last snapshot counts once."""
        batches = {(path.name, line["epoch"], line["step"], tuple(line["ids"]))
                   for path in run.glob("ids-*.jsonl") for line in map(json.loads, path.read_text().splitlines())}
        return collections.Counter((epoch, each) for _, epoch, _, ids in batches for each in ids)

    def check_equal(self, run, whole, within=0.0):
        found, wanted = torch.load(run / "weights.pt"), torch.load(whole / "weights.pt")
        self.assertEqual(list(found), list(wanted))
        for name in wanted:
            self.assertLessEqual(float((found[name].double() - wanted[name].double()).abs().max()), within, name)
        self.assertEqual(self.samples(run), self.samples(whole))
        faults = [fault for _, path in train.lockstep._listed_snapshots(run / "snapshots") for fault in train.lockstep._snapshot_faults(path)]
        self.assertEqual(faults, [])
        steps = [line["step"] for line in train.lockstep.read(run).metrics if line["event"] == "step"]
        self.assertEqual(steps, sorted(set(steps)), "a step is told once")

    def test_each_sample_once_an_epoch(self):
        self.assertEqual(set(self.samples(self.whole()).values()), {1})
        self.assertEqual(len(self.samples(self.whole())), 3 * 40)

    def test_killed_at_random_moments(self):
        draw, run = random.Random(SEED), self.new()
        whole, killed = self.whole(every_steps=1, epochs=20), 0
        while killed < KILLS:
            process = Process(run, every_steps=1, epochs=20)
            is_alive = process.wait_for_step(draw.randint(1, 25))
            if is_alive:
                os.kill(process.pid, signal.SIGKILL)
            if process.end() == 0:
                break
            killed += 1
        self.finish(run, every_steps=1, epochs=20)
        self.assertGreater(killed, 2)
        print(f"killed {killed} times", flush=True)
        self.check_equal(run, whole)

    def test_killed_with_workers(self):
        run = self.new()
        self.finish(run, workers=2, kill_at=18, code=-signal.SIGKILL)
        self.check_equal(self.finish(run, workers=2), self.whole(workers=2))

    def test_killed_with_persistent_workers(self):
        given = {"workers": 2, "persistent": 1, "every_steps": 3}
        # In the epoch in which workers start, after its last step, between two epochs, and in a later one.
        for end in ({"kill_at": 5}, {"signal_at": 10}, {"kill_at": 13, "every_steps": 1000}, {"kill_at": 18}):
            run = self.new()
            self.finish(run, code=75 if "signal_at" in end else -signal.SIGKILL, **dict(given, **end))
            self.check_equal(self.finish(run, **given), self.whole(**given))
            self.assertNotIn("killed by signal", self.said(run))

    def test_killed_where_persistent_workers_have_read_ahead(self):
        given = {"workers": 2, "persistent": 1, "every_steps": 1, "epochs": 4, "stop_reading": 6}
        run, whole = self.new(), self.whole(**given)
        self.finish(run, kill_at=15, code=-signal.SIGKILL, **given)
        self.check_equal(self.finish(run, **given), whole)

    def test_what_the_program_draws_at_an_epochs_beginning_is_drawn_again(self):
        for kill_at in (11, 15):  # At the beginning, and in the middle.
            run = self.new()
            self.finish(run, kill_at=kill_at, draws=1, every_steps=2, code=-signal.SIGKILL)
            self.check_equal(self.finish(run, draws=1, every_steps=2), self.whole(draws=1, every_steps=2))

    def test_killed_within_an_accumulated_step(self):
        run = self.new()
        self.finish(run, accumulate=3, kill_at=7, code=-signal.SIGKILL)
        self.check_equal(self.finish(run, accumulate=3), self.whole(accumulate=3))

    def test_two_ranks_and_a_dead_one(self):
        run = self.new()
        processes = self.ranks(run, 2, kill_at=9, at_rank=1)
        self.assertEqual(processes[1].end(), -signal.SIGKILL)
        self.assertEqual(processes[0].end(), 1)
        self.check_equal(self.finish(run, 2), self.whole(2))
        self.assertIn("goes on from", self.said(run))

    def test_three_ranks_sum_in_the_order_of_the_run_before(self):
        """A sum of three depends on its place in a bucket, and DDP fills its buckets anew in each process, after the first step."""
        given = {"width": 500, "samples": 60, "epochs": 8, "every_steps": 1, "keep": 50}
        whole = self.whole(3, **given)
        stopped = self.finish(self.new(), 3, 75, signal_at=8, at_rank=1, **given)
        for last in (7, 2, 1):  # A process that saves after its first step has not filled its buckets anew.
            with self.subTest(last=last):
                run = self.new()
                shutil.copytree(stopped, run, symlinks=True)
                for step, path in train.lockstep._listed_snapshots(run / "snapshots"):
                    if step > last:
                        shutil.rmtree(path)
                self.finish(run, 3, 75, signal_at=20, at_rank=1, first=last, **given)
                self.check_equal(self.finish(run, 3, **given), whole)
                self.assertIn(f"step-{last:010}: epoch", self.said(run))

    def test_where_ddp_does_more_than_a_sum(self):
        """A backward pass of ours would be more than one to a hook, so there the buckets stay as they are."""
        for kind, is_equal in (("gradient_as_bucket_view", True), ("find_unused_parameters", True), ("static_graph", False),
                               ("comm_hook", False), ("hook", False)):
            with self.subTest(kind):
                given = {"width": 500, "samples": 60, "ddp": kind}
                run = self.new()
                self.finish(run, 3, 75, signal_at=4, at_rank=1, **given)
                self.check_equal(self.finish(run, 3, **given), self.whole(3, **given), within=0.0 if is_equal else 0.1)

    def test_another_number_of_ranks(self):
        given = {"sampler": "lockstep", "samples": 41, "global_batch": 6}
        run, whole = self.new(), self.whole(**given)
        self.finish(run, 3, 75, signal_at=4, at_rank=2, **given)
        self.finish(run, 2, **given)
        self.assertEqual(set(self.samples(whole).values()), {1})
        self.check_equal(run, whole, within=1e-6)

    def test_a_signal_to_one_rank_stops_all_after_one_step(self):
        for name in ("TERM", "USR1"):
            run = self.new()
            self.finish(run, 2, 75, signal_at=4, at_rank=1, signal=name)
            last = [json.loads(path.read_text().splitlines()[-1])["step"] for path in run.glob("ids-*.jsonl")]
            self.assertEqual(last[0], last[1])
            self.assertEqual(train.lockstep.read(run).metrics[-1]["stopped_by"], "signal")
        self.check_equal(self.finish(run, 2), self.whole(2))

    def test_an_interrupt_stops_it_with_a_snapshot(self):
        process = Process(self.new(), epochs=10**6, every_steps=10**6)
        self.assertTrue(process.wait_for_step(2))
        os.kill(process.pid, signal.SIGINT)
        self.assertEqual(process.end(), 75)

    def test_workers_outlive_the_signal_that_stops_their_rank(self):
        run = self.new()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            process = Process(run, workers=2, epochs=10**6, every_steps=10**6)
            process.wait_for_step(11)  # The first epoch's end is where new workers begin.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            os._exit(process.end())
        self.assertEqual(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), 75, self.said(run))

    def test_the_jobs_end_stops_it_after_a_step(self):
        run = self.new()
        self.finish(run, code=75, job_end=20)
        self.assertEqual(train.lockstep.read(run).metrics[-1]["stopped_by"], "job_end")
        self.check_equal(self.finish(run), self.whole())

    @unittest.skipUnless(LOCKSTEP.exists(), f"there is no {LOCKSTEP}")
    def test_requests(self):
        run = self.new()
        process = Process(run, epochs=10**6, every_steps=10**6, keep=1)
        self.assertTrue(process.wait_for_step(1))
        saved = subprocess.run([LOCKSTEP, "snapshot", "now", run], text=True, capture_output=True, check=False, timeout=60)
        self.assertEqual(saved.returncode, 0, saved.stderr)
        self.assertIn("/snapshots/step-", saved.stdout)
        stopped = subprocess.run([LOCKSTEP, "stop", run], text=True, capture_output=True, check=False, timeout=60)
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.assertEqual(process.end(), 75)
        self.assertEqual(train.lockstep.read(run).metrics[-1]["stopped_by"], "request")
        answers = sorted(json.loads(path.read_text())["state"] for path in (run / "requests").iterdir())
        self.assertEqual(answers, ["done", "done"])

    @unittest.skipUnless(LOCKSTEP.exists(), f"there is no {LOCKSTEP}")
    def test_the_command_reads_what_it_writes(self):
        run = self.whole()
        for words in (["snapshot", "verify", run], ["snapshot", "export", run, "--weights", "--to", run / "exported.pt"]):
            done = subprocess.run([LOCKSTEP, *words], text=True, capture_output=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        exported, wanted = torch.load(run / "exported.pt"), torch.load(run / "weights.pt")
        self.assertTrue(all(torch.equal(exported[name], wanted[name]) for name in wanted))
        listed = subprocess.run([LOCKSTEP, "snapshot", "ls", run, "--json"], text=True, capture_output=True, check=True, timeout=60)
        self.assertEqual([each["step"] for each in json.loads(listed.stdout)["snapshots"]], [10, 24, 27, 30], "the best one and the newest three")

    def test_a_damaged_newest_snapshot_is_passed_over(self):
        for damage in ("model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"):
            run = self.new()
            self.finish(run, kill_at=17, every_steps=1, code=-signal.SIGKILL)
            newest = train.lockstep._listed_snapshots(run / "snapshots")[-1][1]
            path = pathlib.Path(newest, damage)
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
            self.finish(run, every_steps=1)
            self.assertIn(f"warning: {newest} is passed over", self.said(run))
            self.check_equal(run, self.whole())

    def test_a_finished_run_does_no_step(self):
        run = self.new()
        shutil.copytree(self.whole(), run, symlinks=True)
        before = (run / "ids-0.jsonl").read_text()
        self.assertEqual(json.loads((run / "result.json").read_text())["steps"], 30)
        self.finish(run)
        self.assertEqual((run / "ids-0.jsonl").read_text(), before)
        self.assertTrue((run / "result.json").exists())
        self.assertIn("nothing is left to do", self.said(run))

    def test_a_second_run_in_the_folder_is_refused(self):
        run = self.new()
        process = Process(run, epochs=10**6, every_steps=10**6)
        self.assertTrue(process.wait_for_step(1))
        self.finish(run, code=1)
        self.assertIn(f"another live run writes in '{run}': process {process.pid}", self.said(run))
        os.kill(process.pid, signal.SIGTERM)
        self.assertEqual(process.end(), 75)

    def test_another_loader_in_mid_epoch_is_refused(self):
        run = self.new()
        self.finish(run, code=75, signal_at=4)
        self.finish(run, code=1, batch=5)
        self.assertIn("batch size of 4, and the loader has 5", self.said(run))
        self.finish(run, code=1, samples=44)
        self.assertIn("data size of 40, and the loader has 44", self.said(run))
        self.finish(run, 2, code=1)
        self.assertIn("by 1 ranks, and there are 2", self.said(run))
        self.finish(run, code=1, width=7)
        self.assertIn("does not fit the model: '0.weight' is [6, 3], want [7, 3]", self.said(run))
        self.check_equal(self.finish(run), self.whole())

    @unittest.skipUnless(LOCKSTEP.exists(), f"there is no {LOCKSTEP}")
    def test_under_lockstep_launch(self):
        run = self.new()
        run.mkdir()
        command = [LOCKSTEP, "launch", "-n", "2", "--", sys.executable, pathlib.Path(train.__file__), run]
        done = subprocess.run([*command, "signal_at=4"], text=True, capture_output=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.check_equal(self.finish(run, 2), self.whole(2))

    def test_tensorboard_reads_its_files(self):
        python = os.environ.get("LOCKSTEP_PEER_PYTHON")
        if not python:
            self.skipTest("LOCKSTEP_PEER_PYTHON names no Python with TensorBoard")
        run = self.new()
        self.finish(run, kill_at=18, code=-signal.SIGKILL)
        self.finish(run)
        reader = pythons.ROOT / "tests/tensorboard/read_back.py"
        seen = json.loads(subprocess.run([python, reader, run], text=True, capture_output=True, check=True, timeout=120).stdout)
        lines = [line for line in train.lockstep.read(run).metrics if line["event"] == "step"]
        self.assertEqual([step for step, _ in seen["train_loss"]], [line["step"] for line in lines])
        self.assertEqual([step for step, _ in seen["val_loss"]], [10, 20, 30])
        for (_, value), line in zip(seen["train_loss"], lines):
            self.assertAlmostEqual(value, line["loss"], places=5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
