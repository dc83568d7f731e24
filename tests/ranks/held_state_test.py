#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parent of a training holds its newest state: a killed rank costs no step that was done."""
import os
import random
import shutil
import signal

import harness

SETTINGS = ("model.hidden=[64,64]", "optimizer.lr=0.005", "observe.log_every=1", "trainer.average=ema", "optimizer.name=adamw")
NOTHING_ON_DISK = ("snapshot.every_epochs=0",)
HELD = (*SETTINGS, *NOTHING_ON_DISK, "snapshot.in_memory=1")
# Ten epochs take 0.15 s. On a busy machine a signal for one of their steps would come after the last one.
LONG = ("trainer.max_epochs=100",)
SAME = ("epochs", "steps", "samples", "train_loss", "val_loss", "val_accuracy", "weights_digest", "sample_digest")


def holder_of(command):
    """Rank 0's process: the one that was handed the memory."""
    pid, = (pid for pid, env in command.members().items() if "LOCKSTEP_HELD_STATE" in env)
    return pid


class HeldState(harness.RanksTest):
    def killed(self, ranks, run, moment, victim):
        """Kills a rank once the run has come to `moment`. Returns the last step that it told of."""
        command = self.start_train(*HELD, *LONG, ranks=ranks, run=run)
        command.wait_for_step(self.folder / run, moment)
        os.kill(holder_of(command) if victim == 0 else command.ranks()[victim], signal.SIGKILL)
        result = command.finish()
        self.assertEqual(result.code, harness.PEER_LOST, result.err[-3000:])
        self.assertEqual(command.members(), {}, "processes were left over")
        steps = [line["step"] for line in harness.metrics(self.folder / run) if line["event"] == "step"]
        return steps[-1], result.err

    def check(self, ranks, moments):
        whole = self.trained(*SETTINGS, *LONG, ranks=ranks, run="whole")
        for moment in moments:
            for victim in range(ranks):
                with self.subTest(ranks=ranks, moment=moment, victim=victim):
                    run = f"killed-{moment}-{victim}"
                    last, err = self.killed(ranks, run, moment, victim)
                    names = harness.snapshots(self.folder / run)
                    self.assertEqual(len(names), 1, names)
                    step = int(names[0].removeprefix("step-"))
                    # The rank may have been killed while it copied the state of the step that it had just reported.
                    self.assertIn(step, (last - 1, last, last + 1))
                    self.assertIn(f"the state of step {step}, which was held in memory, is now in ", err)
                    self.assertEqual(self.start("snapshot", "verify", self.folder / run / "snapshots" / names[0]).finish().code, 0)
                    resumed = self.trained(*HELD, *LONG, ranks=ranks, run=run)
                    self.assertEqual({key: resumed[key] for key in SAME}, {key: whole[key] for key in SAME})

    def moments(self, seed):
        return random.Random(seed).sample(range(1, 250), 20 if harness.SOAK else 2)

    def test_one_rank(self):
        self.check(1, self.moments(1))

    def test_two_ranks(self):
        self.check(2, self.moments(2)[:1])

    def test_three_ranks(self):
        if not harness.SOAK:
            self.skipTest("one and two ranks are the sample; LOCKSTEP_SOAK=1 runs three")
        self.check(3, self.moments(3))

    def test_a_run_that_ends_by_itself_writes_what_it_would_write_without(self):
        self.trained(*SETTINGS, run="without")
        self.trained(*SETTINGS, "snapshot.in_memory=3", run="with")
        self.assertEqual(harness.snapshots(self.folder / "with"), harness.snapshots(self.folder / "without"))

    def start_tasks(self, world):
        """As a launcher of somebody else's starts its ranks."""
        port = harness.free_port()
        return [self.start_train(*HELD, "trainer.max_epochs=100000", ranks=None, env=harness.variables_of_rank(rank, port, world))
                for rank in range(world)]

    def test_a_signal_to_the_parent_alone_stops_the_training_once(self):
        for is_placed in (False, True):
            first, *others = self.start_tasks(2) if is_placed else [self.start_train(*HELD, "trainer.max_epochs=100000", ranks=1)]
            first.wait_for_step(self.folder / "run", 5)
            first.process.send_signal(signal.SIGTERM)
            for command in (first, *others):
                result = command.finish()
                self.assertEqual(result.code, 75, result.err)
            self.assertEqual(len(harness.snapshots(self.folder / "run")), 1)
            shutil.rmtree(self.folder / "run")

    def test_the_state_of_a_run_that_gave_up_is_not_written(self):
        """What it gave up for may be in that state already."""
        result = self.start_train(*HELD, "optimizer.lr=1e30", run="run").finish()
        self.assertEqual(result.code, 3, result.err)
        self.assertEqual(harness.snapshots(self.folder / "run"), [])

    def test_a_later_snapshot_on_disk_stays_the_newest(self):
        command = self.start_train(*SETTINGS, "snapshot.every_steps=1", "snapshot.in_memory=200", run="run")
        command.wait_for_step(self.folder / "run", 210)
        os.kill(holder_of(command), signal.SIGKILL)
        result = command.finish()
        self.assertNotIn("held in memory", result.err)
        self.assertNotIn(harness.snapshot_name(200), harness.snapshots(self.folder / "run"))

    def test_a_training_without_a_parent_says_that_nobody_holds_its_state(self):
        settings = (word for each in (*HELD, "trainer.max_steps=3") for word in ("--set", each))
        result = self.start("train", harness.DIGITS, "--run-dir", self.folder / "run", *settings, program="lockstep-train").finish()
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.err.count("warning: snapshot.in_memory has no effect"), 1, result.err)


if __name__ == "__main__":
    harness.main()
