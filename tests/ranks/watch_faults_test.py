#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight faults of one rank of four: each time the right rank and its phase are named within the limit, the run ends, and no
process is left. LOCKSTEP_WATCH_FAULTS=FIRST:COUNT chooses the seeds, LOCKSTEP_WATCH_KINDS some of the faults."""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import harness

FAULTY = harness.BIN / "faulty_training"
LONG = ("observe.log_every=1", "snapshot.every_epochs=0", "trainer.max_epochs=100000", "trainer.validate_every=0")
PHASES = "starting|loading|forward|backward|update|validation|saving"
RANKS = 4
STILL_S = 10     # What a stopped process, or ranks in different collectives, may last.
SLACK_S = 25     # For looks from outside, and for a machine that others use.
DEATH_S = 3


class Faults(harness.RanksTest):
    def told(self, run, kind):
        path = self.folder / run / "watch.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["kind"] == kind]

    def await_told(self, command, run, kind, seconds):
        return command.wait_until(lambda: self.told(run, kind), f"a word of kind {kind}", seconds)[0]

    def check(self, line, victim, pattern):
        self.assertEqual(line["ranks"], [victim], line)
        self.assertRegex(line["text"], rf"^rank {victim} \(process \d+ on \S+\) {pattern}")

    def end(self, command, code):
        command.process.send_signal(signal.SIGTERM)
        self.assertEqual(command.finish(60).code, code, command.text(1)[-2000:])

    def recipe(self, run, *settings, step=5):
        command = self.start_train(*LONG, *settings, ranks=RANKS, run=run)
        command.wait_for_step(self.folder / run, step)
        return command

    def program(self, run, fault, victim, step):
        (self.folder / run).mkdir()
        return self.start("launch", "-n", RANKS, "--", FAULTY, self.folder / run, fault, victim, step,
                          env={"LOCKSTEP_STOP_GRACE": "5", "OMP_NUM_THREADS": "1"})

    # ---- the faults ----

    def fault_frozen(self, run, draw):
        victim = draw.randrange(RANKS)
        command = self.recipe(run, step=draw.randrange(5, 300))
        os.kill(command.ranks()[victim], signal.SIGSTOP)
        line = self.await_told(command, run, "stopped", STILL_S + SLACK_S)
        self.check(line, victim, rf"is stopped by a signal for 1\d s, in ({PHASES}) of step \d+")
        self.assertEqual(line["seen"][str(victim)]["stack_note"], "a stopped process writes no stack")
        self.end(command, 75)  # SIGTERM wakes it up, and all save.

    def fault_killed(self, run, draw):
        victim = draw.randrange(RANKS)
        command = self.recipe(run, step=draw.randrange(5, 300))
        before = harness.metrics(self.folder / run)[-1]["step"]
        killed = time.time()
        os.kill(command.ranks()[victim], signal.SIGKILL)
        line = self.await_told(command, run, "ended", SLACK_S)
        self.assertLess(line["time"] - killed, DEATH_S)
        self.check(line, victim, rf"ended by signal 9 \(Killed\), in ({PHASES}) of step \d+")
        self.assertGreaterEqual(int(re.search(r"of step (\d+)", line["text"])[1]) + 1, before)
        self.assertEqual(command.finish(30).code, harness.PEER_LOST)
        self.assertLess(time.time() - killed, DEATH_S + 5)

    def fault_thrown(self, run, draw):
        victim, step = draw.randrange(RANKS), draw.randrange(1, 200)
        command = self.program(run, "throw", victim, step)
        result = command.finish(60)
        self.assertEqual(result.code, 3, result.err[-2000:])
        line, = self.told(run, "ended")
        self.check(line, victim, rf"ended with code 3, in forward of step {step}, ")
        self.assertIn(f"rank {victim} of {RANKS} ended with code 3 in forward of step {step}", result.err)

    def lost_each_other(self, run, draw, fault):
        victim, step = draw.randrange(RANKS), draw.randrange(1, 200)
        command = self.program(run, fault, victim, step)
        result = command.finish(60 + STILL_S + SLACK_S)
        self.assertNotEqual(result.code, 0)
        line, = self.told(run, "apart")
        self.assertEqual(self.told(run, "ended"), [])
        return line, victim, step

    def fault_skipped(self, run, draw):
        line, victim, step = self.lost_each_other(run, draw, "skip")
        self.check(line, victim, rf"is in collective (\d+), all_reduce Float of \d+ elements \(bucket 1\), in backward of step {step}; "
                                 rf"ranks [\d, ]+ in collective \1, all_reduce Float of 4 elements \(\[4\]\), in forward of step {step}, ")

    def fault_shaped(self, run, draw):
        line, victim, step = self.lost_each_other(run, draw, "shape")
        self.check(line, victim, rf"is in collective (\d+), all_reduce Float of 12 elements \(\[12\]\), in forward of step {step}, .*; "
                                 rf"ranks [\d, ]+ in collective \1, all_reduce Float of 4 elements \(\[4\]\), in forward of step {step}, ")

    def fault_loader(self, run, draw):
        victim, step = draw.randrange(RANKS), draw.randrange(40, 200)
        command = self.program(run, "load", victim, step)
        line = self.await_told(command, run, "late", 60 + STILL_S + SLACK_S)
        samples = "|".join((self.folder / run / "stuck-samples").read_text().split())
        self.check(line, victim, rf"is in loading of step \d+, sample ({samples}) is not there yet for \d+ s, ")
        self.assertTrue(any("Source::read" in frame or "nanosleep" in frame or "BatchReader" in frame
                            for frame in line["seen"][str(victim)]["stack"]), line)
        command.process.send_signal(signal.SIGTERM)
        result = command.finish(60)
        self.assertEqual(result.code, 128 + signal.SIGTERM, result.err[-2000:])

    def fault_full_disk(self, run, draw):
        """Rank 0 alone writes, so it is always at fault."""
        place = self.folder / run
        place.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={draw.randrange(200, 300)}k", "tmpfs", place], capture_output=True, text=True)
        if made.returncode != 0:
            print(f"full_disk: cannot mount a tmpfs here: {made.stderr.strip()}", file=sys.stderr)
            return
        try:
            result = self.train("data.kind=synthetic", "data.samples=400", "data.shape=[8,8]", "data.classes=4", "data.global_batch=40",
                                "model.hidden=[100]", "snapshot.keep=0", f"snapshot.every_steps={draw.randrange(2, 9)}", "trainer.max_epochs=6",
                                ranks=RANKS, run=run)
            self.assertEqual(result.code, 6, result.err[-2000:])
            self.assertIn("No space left on device", result.err)
            self.assertRegex(result.err, rf"rank 0 of {RANKS} ended with code 6 in saving of step \d+")
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)

    def fault_starved(self, run, draw):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            print("starved: this machine has one core", file=sys.stderr)
            return
        victim = draw.randrange(RANKS)
        command = self.recipe(run, step=50)
        for rank, pid in command.ranks().items():
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), {cores[0] if rank == victim else cores[1]})
        # Each in a session of its own: with autogroups, all of one session share what a single one would get.
        others = [subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{cores[0]}}})\nwhile True: pass"],
                                   start_new_session=True)
                  for _ in range(12)]
        try:
            line = self.await_told(command, run, "slow", 150)
        finally:
            for other in others:
                other.kill()
                other.wait()
        self.check(line, victim, rf"is slower than the others for 30 s, in ({PHASES}) of step \d+.*: a thread of it has no core for \d\d % of the time")
        self.end(command, 75)

    def test_each_fault_is_named(self):
        first, _, count = os.environ.get("LOCKSTEP_WATCH_FAULTS", "7:1").partition(":")
        kinds = os.environ.get("LOCKSTEP_WATCH_KINDS", "frozen,killed,thrown,skipped,shaped,loader,full_disk,starved").split(",")
        for seed in range(int(first), int(first) + int(count)):
            for kind in kinds:
                with self.subTest(kind=kind, seed=seed):
                    began = time.monotonic()
                    getattr(self, f"fault_{kind}")(f"{kind}-{seed}", random.Random(f"{kind} {seed}"))
                    for command in self.commands:
                        self.assertIsNotNone(command.wait_until_gone(5), f"processes are left: {command.members()}")
                    print(f"fault {kind}, seed {seed}: named, {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    harness.main()
