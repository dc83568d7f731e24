#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that dies is started again, the others give it their state, and the training ends as one that was left alone.

LOCKSTEP_HEAL_SEED draws other moments, LOCKSTEP_HEAL_KILLS is how many a run gets."""
import ctypes
import errno
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import harness

DENSE = ("model.hidden=[64,64]", "optimizer.name=adamw", "optimizer.lr=0.005", "trainer.average=ema", "observe.log_every=1")
SAME = ("epochs", "steps", "samples", "train_loss", "val_loss", "val_accuracy", "weights_digest", "sample_digest")
SEED = int(os.environ.get("LOCKSTEP_HEAL_SEED", "1"))
KILLS = int(os.environ.get("LOCKSTEP_HEAL_KILLS", "20" if harness.SOAK else "4"))
UNLIMITED = ("trainer.heal_window=0", "trainer.heal_limit=1000000")


def reset_at_close(pid):
    """Lets the kernel reset all connections of a process when it dies, as it does if data that the process has not read are left."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        copy = libc.syscall(438, process, int(link.name), 0)  # pidfd_getfd
        if copy < 0 and ctypes.get_errno() == errno.EBADF:
            continue  # It was closed meanwhile.
        if copy < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        if not os.readlink(f"/proc/self/fd/{copy}").startswith("socket:"):
            os.close(copy)
            continue
        with socket.socket(fileno=copy) as one:
            if one.type == socket.SOCK_STREAM and one.family != socket.AF_UNIX:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(process)


class Heal(harness.RanksTest):
    heal = "auto"

    def whole(self, *settings, ranks, run="whole", **keywords):
        return self.trained(*settings, "trainer.heal=off", ranks=ranks, run=run, **keywords)

    def last_step(self, run):
        return max((line["step"] for line in harness.metrics(self.folder / run) if line["event"] == "step"), default=0)

    def is_healed(self, command, healings):
        return command.text(1).count("is started again") >= healings

    def kill(self, command, *victims):
        """Kills the present processes of these ranks."""
        pids = command.ranks()
        for victim in victims:
            os.kill(pids[victim], signal.SIGKILL)

    def healed(self, *settings, ranks, kills, draw, run="healed", at_once=1, **keywords):
        """A training whose ranks are killed at random moments. Returns its final object and its log."""
        command = self.start_train(*settings, *UNLIMITED, ranks=ranks, run=run, **keywords)
        command.wait_for_step(self.folder / run, 1)
        healings = 0
        for _ in range(kills):
            reached = self.last_step(run)
            wanted = reached + draw.randrange(2, 7)  # The first may still be a survivor's, with the dead rank's gradients.
            if command.process.poll() is not None:
                break
            try:
                command.wait_until(lambda: self.last_step(run) >= wanted, f"step {wanted}")
                time.sleep(draw.random() * 0.02)
                self.kill(command, *draw.sample(range(ranks), at_once))
            except (AssertionError, ProcessLookupError, KeyError):
                break  # The training has ended meanwhile.
            healings += at_once
            deadline = time.monotonic() + 60
            while not self.is_healed(command, healings) and command.process.poll() is None:
                self.assertLess(time.monotonic(), deadline, command.text(1)[-3000:])
                time.sleep(harness.POLL_S)
        result = command.finish()
        self.assertEqual(result.code, 0, result.err[-4000:])
        self.assertGreater(healings, 0)
        return result.object, result.err

    def check_told_once(self, run="healed"):
        """Every step has one line, in order, with the loss of the run that was left alone."""
        lines = {name: [(line["step"], line["loss"]) for line in harness.metrics(self.folder / name) if line["event"] == "step"]
                 for name in (run, "whole")}
        self.assertEqual(lines[run], lines["whole"])
        ends = {name: [(line["step"], line["train_loss"], line["metrics"]) for line in harness.metrics(self.folder / name)
                       if line["event"] == "validation"] for name in (run, "whole")}
        self.assertEqual(ends[run], ends["whole"])

    def check(self, *settings, ranks, kills=KILLS, at_once=1, **keywords):
        draw = random.Random(SEED * 1000 + ranks)
        whole = self.whole(*settings, ranks=ranks, **keywords)
        healed, err = self.healed(*settings, ranks=ranks, kills=kills, draw=draw, at_once=at_once, **keywords)
        self.assertEqual({key: healed[key] for key in SAME}, {key: whole[key] for key in SAME}, err[-4000:])
        self.check_told_once()
        print(f"{ranks} ranks: healed {err.count('is started again')} times")
        return err

    def test_two_ranks(self):
        err = self.check(*DENSE, "trainer.max_epochs=8", ranks=2)
        self.assertRegex(err, r"rank \d of 2 ended by signal 9 \(Killed\); it is started again, and the others give it the state "
                              r"from memory")
        self.assertRegex(err, r"healings: \d+")

    def test_three_ranks(self):
        self.check(*DENSE, "trainer.max_epochs=8", ranks=3)

    def test_buffers_and_random_choices_of_the_dead_rank_come_back(self):
        self.check("model.name=cnn", "trainer.clip_norm=1", "snapshot.every_steps=7", "observe.log_every=1", "trainer.max_epochs=2",
                   ranks=2)

    def test_accumulated_batches_and_a_snapshot_of_each_step(self):
        self.check(*DENSE, "trainer.accumulate=3", "snapshot.every_steps=1", "trainer.max_epochs=10", ranks=2)

    def test_two_at_once(self):
        self.check(*DENSE, "trainer.max_epochs=8", ranks=3, kills=max(1, KILLS // 2), at_once=2)

    def test_a_rank_dies_amid_a_large_message(self):
        self.check("model.hidden=[1500,1500]", "observe.log_every=1", "trainer.max_epochs=3", "snapshot.every_epochs=0", ranks=2)

    def test_a_rank_dies_while_the_other_is_stopped(self):
        """The stopped rank hears of all that happened at once. In about one of sixty cases Gloo then waits for its time limit."""
        command = self.start_train(*DENSE, *UNLIMITED, "trainer.max_epochs=100000", "trainer.validate_every=0", ranks=2, run="healed")
        draw = random.Random(SEED)
        for healings in range(1, KILLS + 1):
            reached = self.last_step("healed")
            command.wait_until(lambda reached=reached: self.last_step("healed") > reached + 1, "the next steps", 20)
            pids = command.ranks()
            victim = draw.randrange(2)
            time.sleep(draw.random() * 0.01)
            os.kill(pids[1 - victim], signal.SIGSTOP)
            command.wait_until(lambda pid=pids[victim]: harness.state_of_process(pid) == "S", "the wait for the stopped rank")
            reset_at_close(pids[victim])
            os.kill(pids[victim], signal.SIGKILL)
            os.kill(pids[1 - victim], signal.SIGCONT)
            command.wait_until(lambda healings=healings: self.is_healed(command, healings), "the healing", 20)
        print(f"2 ranks: healed {KILLS} times")
        command.process.send_signal(signal.SIGTERM)
        self.assertIn(command.finish().code, (75, 128 + signal.SIGTERM))  # The ranks may be about to meet.

    def test_a_resumed_run_is_healed_too(self):
        settings = (*DENSE, "trainer.max_epochs=6")
        whole = self.whole(*settings, ranks=2)
        self.trained(*DENSE, "trainer.max_epochs=3", ranks=2, run="healed")
        healed, _ = self.healed(*settings, ranks=2, kills=2, draw=random.Random(SEED))
        self.assertEqual({key: healed[key] for key in SAME}, {key: whole[key] for key in SAME})

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_no_snapshot_is_read(self):
        trace = self.folder / "trace"
        settings = (*DENSE, "trainer.max_epochs=8", "snapshot.every_epochs=1", *UNLIMITED)
        command = harness.Command(
            ["strace", "-f", "-e", "trace=openat,open", "-o", trace, harness.BIN / "lockstep", "train", harness.DIGITS, "--devices", 2,
             "--run-dir", self.folder / "run", "--json", *(word for each in ("trainer.threads=1", *settings) for word in ("--set", each))],
            self.folder)
        self.commands.append(command)
        command.wait_for_step(self.folder / "run", 100)
        self.kill(command, 1)
        command.wait_until(lambda: self.is_healed(command, 1), "the healing")
        self.assertEqual(command.finish(300).code, 0)
        opened = [line for line in trace.read_text(errors="replace").splitlines() if re.search(r"(\.safetensors|state\.json|MANIFEST)\"", line)]
        self.assertTrue([line for line in opened if "O_WRONLY" in line or "O_RDWR" in line], "no snapshot was written")
        self.assertEqual([line for line in opened if "O_RDONLY" in line], [])

    def test_an_error_of_all_ranks_is_not_healed(self):
        place = self.folder / "run"
        place.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=240k", "tmpfs", place], capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted here: {made.stderr.strip()}")
        try:
            result = self.train("data.kind=synthetic", "data.samples=400", "data.shape=[8,8]", "data.classes=4", "data.global_batch=40",
                                "model.hidden=[100]", "snapshot.keep=0", "snapshot.every_steps=8", "trainer.max_epochs=6", ranks=3)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)
        self.assert_failed(result, 6, "No space left on device", "rank 0 of 3 ended with code 6 in saving of step 60")
        self.assertNotIn("is started again", result.err)

    def test_a_rank_that_dies_twice_in_a_row_is_named(self):
        command = self.start_train(*DENSE, "trainer.max_epochs=100000", ranks=2)
        command.wait_for_step(self.folder / "run", 3)
        self.kill(command, 1)
        command.wait_until(lambda: self.is_healed(command, 1), "the healing")
        reached = self.last_step("run")
        command.wait_until(lambda: self.last_step("run") > reached + 3, "steps after the healing")
        self.kill(command, 1)
        result = command.finish()
        self.assertEqual(result.code, harness.PEER_LOST, result.err)
        self.assertIn("rank 1 of 2 ended by signal 9 (Killed) and is not started again: it died twice within 120 s", result.err)

    def test_healing_has_a_limit_and_can_be_off(self):
        for settings, said in ((("trainer.heal_limit=0",), "want at most 0 (trainer.heal_limit)"), (("trainer.heal=off",), "the others were stopped")):
            with self.subTest(settings=settings):
                command = self.start_train(*DENSE, "trainer.max_epochs=100000", *settings, ranks=2, run=settings[0])
                command.wait_for_step(self.folder / settings[0], 3)
                self.kill(command, 0)
                result = command.finish()
                self.assertEqual(result.code, harness.PEER_LOST, result.err)
                self.assertIn(said, result.err)

    def test_a_stop_after_a_healing_writes_one_snapshot(self):
        command = self.start_train(*DENSE, "trainer.max_epochs=100000", "snapshot.every_epochs=0", ranks=3)
        command.wait_for_step(self.folder / "run", 3)
        self.kill(command, 0)
        command.wait_until(lambda: self.is_healed(command, 1), "the healing")
        reached = self.last_step("run")
        command.wait_until(lambda: self.last_step("run") > reached + 1, "a step after the healing")
        command.process.send_signal(signal.SIGTERM)
        result = command.finish()
        self.assertEqual(result.code, 75, result.err[-3000:])
        self.assertEqual(len(harness.snapshots(self.folder / "run")), 1)

    def test_nothing_grows(self):
        """Descriptors, threads and memory of the rank that survives all healings."""
        command = self.start_train(*DENSE, "trainer.max_epochs=100000", *UNLIMITED, ranks=2)
        command.wait_for_step(self.folder / "run", 3)
        survivor = command.ranks()[0]

        def sizes():
            status = pathlib.Path(f"/proc/{survivor}/status").read_text()
            return (len(os.listdir(f"/proc/{survivor}/fd")), int(re.search(r"Threads:\s+(\d+)", status)[1]),
                    int(re.search(r"VmRSS:\s+(\d+)", status)[1]))

        seen = []
        count = 200 if harness.SOAK else 12
        for healings in range(1, count + 1):
            self.kill(command, 1)
            command.wait_until(lambda: self.is_healed(command, healings), f"healing {healings}")
            reached = self.last_step("run")
            command.wait_until(lambda: self.last_step("run") > reached + 1, f"steps after healing {healings}")
            seen.append(sizes())
        first = seen[2]

        def has_not_grown():
            last = sizes()
            seen.append(last)
            return last[0] <= first[0] + 3 and last[1] <= first[1] + 2 and last[2] < first[2] * 1.1 + 8000

        try:  # Gloo closes connections, and ends their threads, some time after a healing.
            command.wait_until(has_not_grown, f"the rank was as small as {first}", 20)
        finally:
            print(f"after 3 and {count} healings: descriptors, threads, kB: {first}, {seen[-1]}")
        command.process.send_signal(signal.SIGTERM)
        self.assertEqual(command.finish().code, 75)


if __name__ == "__main__":
    harness.main()
