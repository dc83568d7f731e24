#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A signal to any one rank: all stop after the same step with one snapshot, and go on as if nothing had been."""
import json
import os
import pathlib
import random
import signal
import time

import harness

STEPS = 290
STOPPED = 75
PEER = 7  # ErrorKind::kPeer


class Stop(harness.RanksTest):
    def start_run(self, ranks, run="run", *settings, **keywords):
        """Logs each step, so that a moment can be chosen, and writes no snapshot of its own accord."""
        return self.start_train("observe.log_every=1", "snapshot.every_epochs=0", *settings, ranks=ranks, run=run, **keywords)

    def check_stopped(self, result, run, world, reason="signal"):
        """One new snapshot, of the step that all ranks had taken, and no process left. Returns the step."""
        self.assertEqual(result.code, STOPPED, result.err[-3000:])
        ended = result.object
        step = ended["steps"]
        self.assertEqual((ended["stopped_by"], ended["world"]), (reason, world))
        folder = self.folder / run
        self.assertEqual(harness.snapshots(folder), [harness.snapshot_name(step)])
        self.assertEqual(os.readlink(folder / "snapshots/latest"), harness.snapshot_name(step))
        # The digest covers the samples that each rank trained on. If a rank stopped one step early or late, the digest would differ.
        self.assertEqual(ended["samples"], harness.digits_samples(step))
        self.assertEqual(ended["sample_digest"], harness.digits_digest(step))
        state = harness.state_of(folder, step)
        self.assertEqual((state["step"], state["samples"], state["world"]), (step, ended["samples"], world))
        lines = harness.metrics(folder)
        self.assertEqual([line["step"] for line in lines if line["event"] == "step"], list(range(1, step + 1)))
        self.assertEqual([line["event"] for line in lines[-2:]], ["snapshot", "run_ended"])
        verified = self.start("snapshot", "verify", folder / "snapshots" / harness.snapshot_name(step)).finish()
        self.assertEqual(verified.code, 0, verified.err)
        return step

    def stopped(self, number, victim, moment, ranks=4, run="run"):
        command = self.start_run(ranks, run)
        command.wait_for_step(self.folder / run, moment)
        os.kill(command.ranks()[victim], number)
        result = command.finish()
        self.assertEqual(command.members(), {}, "processes were left over")
        step = self.check_stopped(result, run, ranks)
        self.assertGreaterEqual(step, moment)
        self.assertLess(step, STEPS)
        return step

    def start_and_freeze(self, *settings, victim, run="run", env=None):
        """Three ranks, one of which is frozen in mid-training."""
        command = self.start_train("observe.log_every=1", "snapshot.every_epochs=0", "trainer.max_epochs=100000", *settings,
                                   ranks=3, run=run, env=env)
        command.wait_for_step(self.folder / run, 5)
        os.kill(command.ranks()[victim], signal.SIGSTOP)
        return command

    def test_the_recipe_says_how_long_ranks_wait_for_one_that_is_frozen(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                result = self.start_and_freeze("trainer.collective_timeout=1.5", victim=victim, run=f"run-{victim}").finish(60)
                self.assert_failed(result, PEER, "did not answer in time while ranks ",
                                   "trainer.collective_timeout")

    def test_a_frozen_rank_wakes_up_and_stops_with_the_others_when_the_run_is_asked_to(self):
        command = self.start_and_freeze(victim=1)
        command.process.send_signal(signal.SIGTERM)
        result = command.finish(30)
        self.assertEqual(result.code, 75, result.err[-3000:])
        self.assertEqual(len(harness.snapshots(self.folder / "run")), 1)
        self.assertEqual(command.members(), {}, "processes were left over")

    def test_a_signal_to_one_rank_of_four_stops_all_after_the_same_step(self):
        draw = random.Random(20)
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
        count = 10 if harness.SOAK else 4
        moments = [1 + place * 180 // count + draw.randrange(180 // count) for place in range(count)]
        for place, moment in enumerate(moments):
            number, victim = signals[place % 4], (place + 1) % 4
            with self.subTest(signal=number.name, victim=victim, moment=moment):
                self.stopped(number, victim, moment, run=f"run-{place}")

    def test_a_stopped_run_goes_on_as_if_nothing_had_been(self):
        whole = self.trained(ranks=3, run="whole")
        first = self.stopped(signal.SIGTERM, 1, 20, ranks=3)
        command = self.start_run(3, options=("--resume", "auto"))
        command.wait_for_step(self.folder / "run", 100)
        os.kill(command.ranks()[0], signal.SIGUSR1)
        second = command.finish()
        self.assertEqual(second.code, STOPPED, second.err[-3000:])
        self.assertEqual(second.object["resumed_from"], str(self.folder / "run/snapshots" / harness.snapshot_name(first)))
        last = self.trained(ranks=3)
        for key in ("steps", "samples", "train_loss", "val_loss", "val_accuracy", "weights_digest", "sample_digest"):
            self.assertEqual(last[key], whole[key], key)
        self.assertEqual(harness.epoch_losses(self.folder / "run"), harness.epoch_losses(self.folder / "whole"))

    def test_a_stop_after_the_last_batch_of_an_epoch_still_ends_that_epoch_once(self):
        """With one batch an epoch every stop is such a one: validation and the epoch's loss are left to the resumed run."""
        settings = (f"data.global_batch={harness.DIGITS_SIZE}", "trainer.max_epochs=60")
        whole = self.trained(*settings, ranks=2, run="whole")
        command = self.start_train(*settings, "observe.log_every=1", ranks=2)
        command.wait_for_step(self.folder / "run", 5)
        os.kill(command.ranks()[1], signal.SIGTERM)
        first = command.finish()
        self.assertEqual(first.code, STOPPED, first.err[-3000:])
        last = self.trained(*settings, ranks=2)
        for key in ("epochs", "steps", "train_loss", "val_loss", "weights_digest", "sample_digest"):
            self.assertEqual(last[key], whole[key], key)
        self.assertEqual(harness.epoch_losses(self.folder / "run"), harness.epoch_losses(self.folder / "whole"))

    def test_a_signal_to_the_launcher_reaches_the_ranks(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                run = f"run-{number.name}"
                command = self.start_run(2, run)
                command.wait_for_step(self.folder / run, 10)
                command.process.send_signal(number)
                self.check_stopped(command.finish(), run, 2)
                self.assertEqual(command.members(), {})

    def test_a_second_signal_on_the_way_changes_nothing(self):
        command = self.start_run(4)
        command.wait_for_step(self.folder / "run", 10)
        for pid in command.ranks().values():
            for number in (signal.SIGTERM, signal.SIGUSR1):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
        self.check_stopped(command.finish(), "run", 4)

    def test_a_limit_of_time_counts_all_starts_and_ends_the_run_for_good(self):
        def run(seconds):
            return self.start_run(1, options=("--set", f"trainer.max_time={seconds}", "--set", "trainer.max_epochs=100000"))

        command = run(6)
        command.wait_for_step(self.folder / "run", 20)
        os.kill(command.process.pid, signal.SIGTERM)
        first = command.finish()
        self.assertEqual(first.code, STOPPED, first.err[-3000:])
        spent = harness.state_of(self.folder / "run", first.object["steps"])["numbers"]["run.seconds"]
        self.assertTrue(0 < spent < 6, spent)
        second = run(6).finish()
        self.assertEqual((second.code, second.object["stopped_by"]), (0, "max_time"), second.err[-3000:])
        state = harness.state_of(self.folder / "run", second.object["steps"])
        self.assertTrue(6 <= state["numbers"]["run.seconds"] < 6 + spent + 30, state["numbers"])
        third = run(6).finish()
        self.assertEqual((third.code, third.object), (0, second.object))
        self.assertIn("is finished", third.err)
        more = run(7).finish()
        self.assertEqual((more.code, more.object["stopped_by"]), (0, "max_time"), more.err[-3000:])
        self.assertGreater(more.object["steps"], second.object["steps"])

    def test_a_request_in_the_folder_stops_all_ranks(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                run = self.folder / f"asked-{ranks}"
                command = self.start_run(ranks, run.name, "trainer.max_epochs=100000", "trainer.validate_every=0")
                command.wait_for_step(run, 3)
                asked = self.start("stop", run).finish()
                self.assertEqual((asked.code, asked.out), (0, "the run writes a snapshot and ends\n"), asked.err)
                result = command.finish()
                self.check_stopped(result, run.name, ranks, "request")
                answer, = [json.loads(path.read_text()) for path in (run / "requests").iterdir()]
                self.assertEqual((answer["request"], answer["state"], answer["step"]), ("stop", "done", result.object["steps"]))
                self.assertTrue(pathlib.Path(answer["snapshot"]).is_dir())
                late = self.start("stop", run).finish()
                self.assert_failed(late, 4, "no training runs in")

    def test_a_snapshot_is_written_when_somebody_asks_and_changes_no_bit(self):
        steps = ("trainer.max_epochs=100000", "trainer.max_steps=4000", "trainer.validate_every=0")
        alone = self.start_run(2, "alone", *steps).finish().object
        command = self.start_run(2, "asked", *steps)
        run = self.folder / "asked"
        command.wait_for_step(run, 3)
        asked = self.start("snapshot", "now", run, "--json").finish()
        self.assertEqual(asked.code, 0, asked.err)
        answer = asked.object
        self.assertEqual(pathlib.Path(answer["snapshot"]).name, harness.snapshot_name(answer["step"]))
        verified = self.start("snapshot", "verify", answer["snapshot"]).finish()
        self.assertEqual(verified.code, 0, verified.err)
        result = command.finish()
        self.assertEqual(result.code, 0, result.err[-3000:])
        self.assertEqual(result.object["weights_digest"], alone["weights_digest"])
        self.assert_failed(self.start("snapshot", "now", run).finish(), 4, "no training runs in")

    def test_a_run_ends_before_its_job_does(self):
        end = int(time.time()) + 33
        command = self.start_train("observe.log_every=1", "snapshot.every_epochs=0", "trainer.max_epochs=100000", ranks=2,
                                   env={"LOCKSTEP_JOB_END": str(end)})
        result = command.finish()
        self.assertEqual((result.code, result.object["stopped_by"]), (STOPPED, "job_end"), result.err[-3000:])
        self.assertEqual(harness.snapshots(self.folder / "run"), [harness.snapshot_name(result.object["steps"])])
        self.assertLess(time.time(), end)

    def test_one_rank_alone_stops_too(self):
        command = self.start_run(1)
        command.wait_for_step(self.folder / "run", 5)
        command.process.send_signal(signal.SIGTERM)
        self.check_stopped(command.finish(), "run", 1)

    def test_a_signal_before_the_first_step_ends_the_run_one_way_or_the_other(self):
        """Before a rank listens it dies of the signal; from then on it writes a snapshot. Nothing in between."""
        command = self.start_run(4)
        os.kill(command.wait_for_ranks(4)[2], signal.SIGTERM)
        result = command.finish()
        self.assertEqual(command.members(), {})
        written = harness.snapshots(self.folder / "run")
        self.assertIn((result.code, len(written)), [(128 + signal.SIGTERM, 0), (STOPPED, 1)], result.err[-3000:])

    def test_a_signal_ends_eval_and_predict_at_once_and_leaves_no_file(self):
        """There is nothing to save: a result is whole or not there."""
        synthetic = ("data.kind=synthetic", "data.shape=[1,28,28]", "data.classes=10", "data.samples=2000", "trainer.validate_every=0")
        self.trained(*synthetic, "trainer.max_steps=2")
        for words in (("eval",), ("predict", "--out", self.folder / "rows.csv")):
            for to_one_rank in (False, True):
                command = self.start(words[0], self.folder / "run", "--devices", 2, "--split", "train", "--set", "data.samples=100000000", *words[1:])
                ranks = command.wait_for_ranks(2)
                os.kill(ranks[1] if to_one_rank else command.process.pid, signal.SIGTERM)
                result = command.finish()
                self.assertEqual((result.code, result.out), (128 + signal.SIGTERM, ""), result.err[-3000:])
                self.assertEqual(command.members(), {})
                self.assertEqual([path.name for path in self.folder.glob("*rows*")], [])


if __name__ == "__main__":
    harness.main()
