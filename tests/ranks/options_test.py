#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Options of the trainer as a recipe's user sets them: strategies give the same losses, compression and finders do what they
say, and what cannot be honoured is refused."""
import collections
import json
import os
import resource

import harness

SCRIPTS = harness.SOURCE / "tests/golden/script"


class Options(harness.RanksTest):
    def losses(self, *settings, ranks, run):
        self.trained("trainer.max_epochs=3", "data.global_batch=50", *settings, ranks=ranks, run=run)
        return harness.epoch_losses(self.folder / run)

    def assert_close(self, found, wanted, tolerance):
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.assertLessEqual(abs(one - other), tolerance)

    def test_single_dp_and_ddp_give_the_same_losses(self):
        for precision, tolerance in (("fp32", 1e-5), ("fp64", 1e-11)):
            common = f"trainer.precision={precision}"
            single = self.losses(common, "trainer.strategy=single", ranks=1, run=f"single-{precision}")
            self.assertEqual(self.losses(common, "trainer.strategy=ddp", ranks=1, run=f"alone-{precision}"), single)
            self.assert_close(self.losses(common, "trainer.strategy=ddp", ranks=3, run=f"ddp-{precision}"), single, tolerance)
            self.assert_close(self.losses(common, "trainer.strategy=dp", ranks=3, run=f"dp-{precision}"), single, tolerance)

    def test_compression_changes_the_numbers_a_little(self):
        plain = self.losses(ranks=2, run="plain")
        for settings in (("fp16",), ("bf16",), ("powersgd", "trainer.compression_start=10", "trainer.compression_rank=2")):
            losses = self.losses(f"trainer.compression={settings[0]}", *settings[1:], ranks=2, run=settings[0])
            self.assertNotEqual(losses, plain)
            self.assertLess(abs(losses[-1] - plain[-1]), 0.3 * plain[-1], settings)

    def page_faults(self, steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        self.trained("model.name=cnn", "data.kind=synthetic", "data.samples=20000", "data.classes=10", "data.shape=[1,28,28]",
                     "data.global_batch=32", "trainer.threads=1", f"trainer.max_steps={steps}", "trainer.validate_every=0", run=f"steps-{steps}")
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before

    def test_a_run_folder_may_have_a_name_that_is_not_utf8(self):
        run = os.fsdecode(b"run-\xff")
        command = ("train", harness.DIGITS, "--devices", 2, "--run-dir", self.folder / run, "--json", "--set", "trainer.max_epochs=1")
        for words in (command, ("eval", self.folder / run, "--json"), command):  # The last one finds the run finished.
            result = self.start(*words).finish()
            self.assertEqual(result.code, 0, result.err)
            self.assertIn("run-\ufffd", result.object.get("run_dir", "run-\ufffd"))

    def test_a_step_takes_its_memory_from_the_step_before(self):
        # With glibc's default thresholds, a step of this network causes hundreds of page faults.
        self.assertLess(self.page_faults(500) - self.page_faults(100), 400 * 30)

    def test_a_script_model_trains_on_any_number_of_ranks(self):
        common = (f"model.name=script:{SCRIPTS / 'traced-plain.pt'}", "trainer.precision=fp64")
        one = self.losses(*common, ranks=1, run="script-1")
        self.assert_close(self.losses(*common, ranks=3, run="script-3"), one, 1e-11)

    def test_a_trace_holds_the_steps_that_were_asked_for(self):
        common = ("trainer.max_steps=6", "trainer.max_epochs=1")
        plain = self.trained(*common, ranks=2, run="plain")
        traced = self.trained(*common, "observe.profile=[3,4]", "observe.profile_ranks=1", ranks=2, run="traced")
        self.assertEqual(traced["weights_digest"], plain["weights_digest"])
        self.assertEqual([path.name for path in (self.folder / "traced/trace").iterdir()], ["rank-0000.pt.trace.json"])
        events = json.loads((self.folder / "traced/trace/rank-0000.pt.trace.json").read_text())["traceEvents"]
        counts = collections.Counter(event["name"] for event in events if event.get("ph") == "X")
        self.assertEqual(sorted(name for name in counts if name.startswith("ProfilerStep")), ["ProfilerStep#3", "ProfilerStep#4"])
        for name in ("forward", "backward", "update", "aten::_fused_adam_"):
            self.assertEqual(counts[name], 2, (name, counts))
        self.assertGreaterEqual(counts["gloo:all_reduce"], 2, counts)
        resumed = self.trained("trainer.max_epochs=1", "observe.profile=[3,4]", ranks=2, run="plain")
        self.assertEqual(resumed["resumed_from"].rsplit("/")[-1], "step-0000000006")
        self.assertFalse((self.folder / "plain/trace").exists())
        self.assertIn("observe.profile is [5, 4], which ends before it begins", self.refused(3, "observe.profile=[5,4]"))

    def refused(self, code, *settings, ranks=1):
        words = [harness.DIGITS, "--devices", ranks]
        for each in settings:
            words += ["--set", each]
        result = self.start("train", *words).finish()
        self.assertEqual(result.code, code, result.err)
        return result.err

    def test_what_a_strategy_cannot_honour_is_refused(self):
        for setting in ("trainer.compression=fp16", "trainer.sync_batchnorm=true", "trainer.static_graph=true"):
            said = self.refused(3, "trainer.strategy=dp", setting, ranks=2)
            self.assertIn("works between ranks, and trainer.strategy is dp", said)
        self.assertIn("trainer.strategy is single", self.refused(3, "trainer.strategy=single", ranks=2))
        self.assertIn("trainer.compression_start = 1, want a whole number of steps, 2 to 1e9",
                      self.refused(3, "trainer.compression=powersgd", "trainer.compression_start=1", ranks=2))

    def test_a_plateau_may_watch_the_training_loss(self):
        """Regression: it was refused at the end of the first epoch, though snapshots and early stopping take it."""
        settings = ("scheduler.name=plateau", "scheduler.monitor=train_loss", "scheduler.patience=0", "scheduler.threshold=0.9",
                    "trainer.max_epochs=3", "observe.log_every=29")
        self.trained(*settings, ranks=1, run="run")
        rates = [line["learning_rate"] for line in harness.metrics(self.folder / "run") if line["event"] == "step"]
        self.assertEqual(rates[0], rates[1])
        self.assertAlmostEqual(rates[2], 0.1 * rates[1])

    def test_a_warm_up_that_leaves_nothing_of_the_run_is_refused(self):
        """Regression: the message said that the run's length was not known."""
        for warmup, run_length in ((3, 3), (4, 3)):
            said = self.refused(3, "scheduler.name=cosine", f"scheduler.warmup={warmup}", f"trainer.max_epochs={run_length}")
            self.assertIn(f"scheduler.warmup (--set) is {warmup} epochs, and the whole run has {run_length}", said)
        self.trained("scheduler.name=cosine", "scheduler.warmup=3", "trainer.max_epochs=4", "trainer.max_steps=1", ranks=1)

    def test_a_model_whose_mode_is_fixed_is_refused(self):
        said = self.refused(5, f"model.name=script:{SCRIPTS / 'traced-eval.pt'}")
        self.assertIn("is fixed to evaluation mode", said)
        self.assertIn("export_model.py", said)

    def test_a_schedule_by_epoch_takes_its_length_from_a_limit_of_steps(self):
        recipe = self.folder / "steps.toml"
        recipe.write_text(harness.DIGITS.read_text().replace("max_epochs = 10\n", ""))
        self.trained("trainer.max_steps=87", "data.global_batch=50", f"data.path={harness.SOURCE / 'datasets/digits'}",
                     "scheduler.name=cosine", "observe.log_every=29", recipe=recipe, ranks=1, run="run")
        rates = [line["learning_rate"] for line in harness.metrics(self.folder / "run") if line["event"] == "step"]
        for found, wanted in zip(rates, (1, 0.75, 0.25)):
            self.assertAlmostEqual(found / rates[0], wanted, places=6)
        self.assertEqual(len(rates), 3)

    def test_a_loss_that_is_not_finite_ends_the_run_with_its_step(self):
        lost = ("optimizer.name=sgd", "optimizer.lr=1e30", "trainer.max_epochs=3", "data.global_batch=50")
        for ranks in (1, 2):
            result = self.train(*lost, "snapshot.monitor=val_loss", ranks=ranks, run=f"lost-{ranks}")
            self.assert_failed(result, 3, "the gradient of training step ", "(epoch 0) is not finite: ", "for train-images-idx3",
                               "guard.on_nonfinite")
            self.assertEqual(harness.snapshots(self.folder / f"lost-{ranks}"), [])
        self.trained(*lost, "guard.on_nonfinite=ignore", "snapshot.monitor=val_accuracy", "snapshot.mode=max", ranks=2, run="ignored")
        self.assertNotIn("best", harness.snapshots(self.folder / "ignored"))
        self.assertIn("one of stop, skip, rollback, ignore", self.refused(3, "guard.on_nonfinite=cry"))

    def test_a_metric_that_never_comes_is_told_before_the_first_step(self):
        gives = "and this training gives train_loss, val_accuracy, val_f1, val_loss, val_top5"
        for setting, who in (("early_stopping.monitor", "early_stopping"), ("snapshot.monitor", "snapshot.monitor")):
            result = self.train(f"{setting}=val_acc", run=setting)
            self.assert_failed(result, 3, f"{who} waits for 'val_acc', {gives}")
            self.assertEqual(harness.metrics(self.folder / setting), [])
        self.assertIn("plateau waits for 'val_los', " + gives, self.refused(3, "scheduler.name=plateau", "scheduler.monitor=val_los"))
        said = self.refused(3, "scheduler.name=plateau", "trainer.validate_every=0")
        self.assertIn("plateau waits for 'val_loss', and this training gives train_loss\n", said)
        self.assertIn("data.split makes a validation set", said)
        for setting in ("early_stopping.monitor=train_loss", "snapshot.monitor=val_top5"):
            self.trained("trainer.max_epochs=1", setting, ranks=2, run=f"known-{setting}")

    def test_a_model_that_does_not_fit_its_data_is_told_with_the_input(self):
        said = self.refused(3, f"model.name=plugin:{harness.BIN / 'libplugin_torn.so'}", "data.global_batch=50")
        self.assertIn("the model failed in validation, with an input of [200, 1, 8, 8] of Byte: mat1 and mat2 shapes", said)
        self.assertNotIn("bug in Lockstep", said)

    def test_the_finders_answer_and_leave_nothing_behind(self):
        for what, key, least, most in (("lr", "lr", 1e-4, 0.5), ("batch", "batch", 1, 1437)):
            result = self.start("train", harness.DIGITS, "--devices", 2, "--find", what, "--json").finish()
            self.assertEqual(result.code, 0, result.err)
            self.assertGreaterEqual(result.object[key], least)
            self.assertLessEqual(result.object[key], most)
        self.assertEqual([each for each in self.folder.iterdir() if each.is_dir()], [])
        self.assertIn("want lr or batch", self.start("train", harness.DIGITS, "--find", "momentum").finish().err)


if __name__ == "__main__":
    harness.main()
