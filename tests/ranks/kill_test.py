#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any step, then --resume auto: bit for bit the run that was left alone, or none of its samples lost."""
import json
import os
import random
import re
import signal

import harness

STEPS = 290
SAME = ("epochs", "steps", "samples", "train_loss", "val_loss", "val_accuracy", "weights_digest", "sample_digest")
# There are several buckets, so that a resume must restore their layout, and with it the order of sums.
MODEL = ("model.hidden=[64,64]", "trainer.bucket_mb=0.01", "optimizer.lr=0.005")
GONE_WITHIN_S = 2
TRIES = 3  # A promise of time is held against the best: other work may have had the cores.
REVERSED = harness.BIN / "reversed_order"
REVERSED_STEPS = 44  # Four epochs of 203 samples in batches of 20.


class Kill(harness.RanksTest):
    def settings(self, *more):
        return (*MODEL, "observe.log_every=1", "snapshot.every_steps=7", *more)

    def killed(self, ranks, run, moment, victim):
        """Starts a run and kills one of its ranks once it has come to `moment`."""
        command = self.start_train(*self.settings(), ranks=ranks, run=run)
        command.wait_for_step(self.folder / run, moment)
        os.kill(command.ranks()[victim], signal.SIGKILL)
        result = command.finish()
        self.assertEqual(result.code, harness.PEER_LOST, result.err[-3000:])
        self.assertIn(f"rank {victim} of {ranks} ended by signal 9", result.err)
        self.assertEqual(command.members(), {}, "processes were left over")
        self.assertEqual(result.out, "", "a run that was killed has no final object")
        return result

    def moments(self, seed):
        draw = random.Random(seed)
        count = 10 if harness.SOAK else 2
        return [1 + place * 180 // count + draw.randrange(180 // count) for place in range(count)]

    def check_kills(self, ranks):
        whole = self.trained(*MODEL, ranks=ranks, run="whole")
        self.assertEqual(whole["sample_digest"], harness.digits_digest(STEPS))
        for place, moment in enumerate(self.moments(ranks)):
            victim = (place + 1) % ranks
            with self.subTest(ranks=ranks, moment=moment, victim=victim):
                run = f"killed-{place}"
                self.killed(ranks, run, moment, victim)
                # The run continued from its step until the signal came. Only the folder shows which snapshot was saved then.
                saved = [name for name in harness.snapshots(self.folder / run) if re.fullmatch(r"step-\d{10}", name)]
                self.assertTrue(saved or moment < 14)
                resumed = self.trained(*self.settings(), ranks=ranks, run=run, options=("--resume", "auto"))
                self.assertEqual({key: resumed[key] for key in SAME}, {key: whole[key] for key in SAME})
                self.assertEqual(resumed["resumed_from"], str(self.folder / run / "snapshots" / saved[-1]) if saved else None)
                self.check_metrics(run)

    def check_metrics(self, run):
        lines = harness.metrics(self.folder / run)
        self.assertEqual([line["step"] for line in lines if line["event"] == "step"], list(range(1, STEPS + 1)))
        self.assertEqual(harness.epoch_losses(self.folder / run), harness.epoch_losses(self.folder / "whole"))

    def test_resumes_bit_equal_on_two_ranks(self):
        self.check_kills(2)

    def test_resumes_bit_equal_on_three_ranks(self):
        self.check_kills(3)

    def test_resumes_bit_equal_on_four_ranks(self):
        if not harness.SOAK:
            self.skipTest("two and three ranks are the sample; LOCKSTEP_SOAK=1 runs four")
        self.check_kills(4)

    def launch_reversed(self, ranks, run, *options):
        return self.start("launch", "-n", ranks, "--", REVERSED, self.folder / run, *options).finish()

    def test_resumes_bit_equal_where_parameters_run_in_another_order_than_they_are_registered(self):
        """The first step's buckets then differ from later ones, and with them, from three ranks on, the order of sums."""
        for ranks in (2, 3, 4):
            whole = self.launch_reversed(ranks, f"whole-{ranks}")
            self.assertEqual(whole.code, 0, whole.err)
            self.assertEqual(whole.object["steps"], REVERSED_STEPS)
            draw = random.Random(ranks)
            for moment in sorted(draw.sample(range(4, REVERSED_STEPS), 10 if harness.SOAK else 2)):
                with self.subTest(ranks=ranks, moment=moment):
                    run, victim = f"killed-{ranks}-{moment}", moment % ranks
                    died = self.launch_reversed(ranks, run, "--die-rank", victim, "--die-step", moment)
                    self.assertEqual(died.code, 128 + signal.SIGKILL, died.err)
                    resumed = self.launch_reversed(ranks, run)
                    self.assertEqual(resumed.code, 0, resumed.err)
                    self.assertLess(resumed.object["steps_now"], REVERSED_STEPS)
                    for key in ("steps", "samples", "weights_digest", "sample_digest"):
                        self.assertEqual(resumed.object[key], whole.object[key], key)

    def test_resumes_on_other_numbers_of_ranks_and_trains_each_sample_once(self):
        for before, after in ((3, 2), (2, 4), (4, 1)) if harness.SOAK else ((3, 2), (2, 4)):
            with self.subTest(before=before, after=after):
                run = f"from-{before}-to-{after}"
                self.killed(before, run, 40, 0)
                resumed = self.trained(*self.settings(), ranks=after, run=run)
                self.assertIsNotNone(resumed["resumed_from"])
                self.assertEqual((resumed["world"], resumed["steps"], resumed["samples"]),
                                 (after, STEPS, 10 * harness.DIGITS_SIZE))
                self.assertEqual(resumed["sample_digest"], harness.digits_digest(STEPS))
                self.assertGreaterEqual(resumed["val_accuracy"], 0.95)

    def test_a_chain_of_other_numbers_of_ranks_trains_each_sample_once(self):
        """1, 2, 3, 4 and again 1 rank, each killed in the middle of an epoch."""
        for seed in range(5 if harness.SOAK else 1):
            with self.subTest(seed=seed):
                draw, run = random.Random(seed), f"chain-{seed}"
                for place, ranks in enumerate((1, 2, 3, 4)):
                    command = self.start_train(*self.settings(), ranks=ranks, run=run)
                    command.wait_for_step(self.folder / run, 29 * 2 * place + draw.randrange(8, 29))
                    if ranks == 1:
                        command.kill_all()
                    else:
                        os.kill(command.ranks()[draw.randrange(ranks)], signal.SIGKILL)
                    self.assertNotEqual(command.finish().code, 0)
                resumed = self.trained(*self.settings(), ranks=1, run=run)
                self.assertIsNotNone(resumed["resumed_from"])
                self.assertEqual((resumed["steps"], resumed["samples"]), (STEPS, 10 * harness.DIGITS_SIZE))
                self.assertEqual(resumed["sample_digest"], harness.digits_digest(STEPS))

    def test_a_batch_per_rank_resumed_on_another_number_of_ranks_misses_no_sample(self):
        """data.batch makes the global batch another on two ranks than on three, from the place where the first run died."""
        batch = ("data.batch=20",)
        command = self.start_train(*self.settings(*batch), ranks=3)
        command.wait_for_step(self.folder / "run", 30)
        os.kill(command.ranks()[1], signal.SIGKILL)
        self.assertNotEqual(command.finish().code, 0)
        resumed = self.trained(*self.settings(*batch), ranks=2)
        self.assertIsNotNone(resumed["resumed_from"])
        self.assertEqual(resumed["samples"], 10 * harness.DIGITS_SIZE)
        self.assertEqual(resumed["sample_digest"], harness.digits_digest(STEPS))

    def check_all_are_gone_in_time(self, kill):
        """Kills in runs of four ranks; each must end whole, and one of them in time. Returns the last run's name."""
        took = []
        while len(took) < TRIES and min(took, default=GONE_WITHIN_S) >= GONE_WITHIN_S:
            run = f"run-{len(took)}"
            command = self.start_train(*self.settings(), ranks=4, run=run)
            command.wait_for_step(self.folder / run, 10)
            kill(command)
            took.append(command.wait_until_gone(30))
            self.assertIsNotNone(took[-1], "ranks outlived their launcher or one of them")
        self.assertLess(min(took), GONE_WITHIN_S, took)
        return run

    def test_kill_9_of_the_launcher_leaves_no_rank_behind(self):
        run = self.check_all_are_gone_in_time(lambda command: command.process.kill())
        # A dead writer's lock does not block.
        resumed = self.trained(*self.settings("trainer.max_epochs=3"), ranks=4, run=run)
        self.assertEqual(resumed["sample_digest"], harness.digits_digest(87))

    def test_all_ranks_are_gone_two_seconds_after_one_was_killed(self):
        self.check_all_are_gone_in_time(lambda command: os.kill(command.ranks()[3], signal.SIGKILL))

    def test_a_finished_run_takes_no_step_and_says_its_result_again(self):
        first = self.train("trainer.max_epochs=2", ranks=2)
        self.assertEqual(first.code, 0, first.err)
        before = harness.contents(self.folder / "run")
        again = self.train("trainer.max_epochs=2", ranks=2)
        self.assertEqual(again.code, 0, again.err)
        self.assertEqual(again.out, first.out)
        self.assertIn("is finished", again.err)
        self.assertEqual(harness.contents(self.folder / "run"), before)

    def test_a_finished_run_that_is_asked_for_more_goes_on(self):
        self.trained("trainer.max_epochs=2", ranks=2)
        more = self.trained("trainer.max_epochs=4", ranks=2)
        whole = self.trained("trainer.max_epochs=4", ranks=2, run="whole")
        self.assertEqual((more["steps"], more["weights_digest"]), (116, whole["weights_digest"]))
        self.assertEqual(more["sample_digest"], whole["sample_digest"])
        self.assertEqual(json.loads((self.folder / "run/result.json").read_text())["steps"], 116)

    def test_resume_none_starts_anew_and_what_was_there_before_is_not_resumed(self):
        """The old run's result and later snapshots lie in the same folder: neither may pass for the new run's."""
        seed = ("trainer.seed=2", "data.global_batch=40")
        whole = self.trained(*MODEL, *seed, "trainer.max_epochs=4", ranks=2, run="whole")
        self.trained(*MODEL, "trainer.max_epochs=4", ranks=2)
        command = self.start_train(*self.settings(*seed, "trainer.max_epochs=4"), ranks=2, options=("--resume", "none"))
        command.wait_until(lambda: any(line["event"] == "snapshot" and line["step"] == 14
                                       for line in harness.metrics(self.folder / "run")), "the snapshot of step 14")
        os.kill(command.ranks()[1], signal.SIGKILL)
        self.assertNotEqual(command.finish().code, 0)
        anew = self.trained(*self.settings(*seed, "trainer.max_epochs=4"), ranks=2)
        self.assertEqual({key: anew[key] for key in SAME}, {key: whole[key] for key in SAME})


    def test_a_run_resumed_from_an_earlier_snapshot_leaves_the_later_ones_behind(self):
        """They are of a future that is given up: a crash after it must not bring them back."""
        self.trained(*MODEL, "trainer.max_epochs=4", "snapshot.keep=0", ranks=2)
        earlier = self.folder / "run/snapshots" / harness.snapshot_name(29)
        changed = self.settings("optimizer.lr=0.001", "snapshot.keep=0", "trainer.max_epochs=5")
        command = self.start_train(*changed, ranks=2, options=("--resume", earlier))
        command.wait_until(lambda: any(line["event"] == "snapshot" and line["step"] == 42
                                       for line in harness.metrics(self.folder / "run")), "the snapshot of step 42")
        os.kill(command.ranks()[0], signal.SIGKILL)
        self.assertNotEqual(command.finish().code, 0)
        resumed = self.trained(*changed, ranks=2)
        step = int(resumed["resumed_from"].rpartition("-")[2])
        self.assertLess(step, 116, "the snapshot of the run that was given up was taken")


if __name__ == "__main__":
    harness.main()
