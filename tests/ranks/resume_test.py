#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a start takes over from a used run folder, and what it puts aside."""
import json
import os
import signal
import struct
import subprocess

import harness

LOST = ("guard.on_nonfinite=ignore", "optimizer.name=sgd", "optimizer.lr=1e9")


class Resume(harness.RanksTest):
    def snapshots(self):
        return self.folder / "run/snapshots"

    def aside(self):
        found, = (self.folder / "run").glob("abandoned-*")
        return found

    def evaluated(self):
        result = self.start("eval", self.folder / "run", "--json").finish()
        self.assertEqual(result.code, 0, result.err[-3000:])
        return result.object["snapshot"]

    def test_a_run_with_numbers_that_are_not_finite_goes_on(self):
        """Regression: NaN was written as null and refused on resume, in every snapshot."""
        self.trained("trainer.max_epochs=2", "trainer.max_steps=30", *LOST)
        state = harness.state_of(self.folder / "run", 30)
        self.assertEqual(state["metrics"]["val_loss"], "nan")
        resumed = self.trained("trainer.max_epochs=2", *LOST)
        self.assertEqual((resumed["resumed_from"], resumed["steps"]), (str(self.snapshots() / harness.snapshot_name(30)), 58))

    def test_a_state_that_cannot_be_read_is_passed_over(self):
        self.trained("trainer.max_epochs=2", "trainer.max_steps=40")
        latest = self.snapshots() / harness.snapshot_name(40)
        state = json.loads((latest / "state.json").read_text())
        self.rewrite_state(latest, json.dumps(state | {"schema": 2}))
        self.assertEqual(self.evaluated(), str(self.snapshots() / harness.snapshot_name(29)))
        result = self.train("trainer.max_epochs=2")
        self.assertEqual(result.code, 0, result.err[-3000:])
        self.assertEqual(result.object["resumed_from"], str(self.snapshots() / harness.snapshot_name(29)))
        self.assertIn(f"skipped {latest}", result.err)
        self.assertIn("its schema is 2, want 1", result.err)

    def test_a_start_removes_what_a_writer_on_another_host_left(self):
        self.trained("trainer.max_epochs=2", "trainer.max_steps=10")
        left = self.snapshots() / ".tmp-another-host-7.step-0000000015"
        left.mkdir()
        (left / "model.safetensors").write_text("half")
        self.trained("trainer.max_epochs=2", "trainer.max_steps=20")
        self.assertEqual(harness.snapshots(self.folder / "run"), [harness.snapshot_name(step) for step in (10, 20)])

    def on_host(self, name):
        """`lockstep`, on a machine of that name."""
        wrapper = self.folder / f"lockstep-on-{name}"
        wrapper.write_text(f"#!/bin/sh\nexec unshare --uts sh -c 'hostname {name}; exec \"$0\" \"$@\"' '{harness.BIN / 'lockstep'}' \"$@\"\n")
        wrapper.chmod(0o755)
        return wrapper

    def test_a_start_on_a_second_machine_removes_what_a_killed_writer_on_a_first_one_left(self):
        if subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("this machine gives no host name of one's own")
        words = ["train", harness.DIGITS, "--devices", 1, "--run-dir", self.folder / "run"]
        words += [word for each in ("model.hidden=[512,512]", "snapshot.every_steps=1", "snapshot.keep=1") for word in ("--set", each)]
        left = []
        while not left:  # A save may have ended before the kill.
            command = self.start(*words, "--set", "trainer.max_epochs=1000", program=self.on_host("first"))
            command.wait_until(lambda: list(self.snapshots().glob(".tmp-first-*.step-*")), "a save is on its way")
            command.kill_all()
            left = list(self.snapshots().glob(".tmp-first-*"))
        whole = [path for path in self.snapshots().glob("step-*")]
        result = self.start(*words, "--set", "trainer.max_epochs=1", "--json", program=self.on_host("second")).finish()
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(list(self.snapshots().glob(".tmp-*")), [])
        self.assertEqual(result.object["resumed_from"] is not None, bool(whole))

    def test_the_first_snapshot_of_each_span_of_time_stays(self):
        hours = 10**6  # Since 1970 there is one such span.
        self.trained("trainer.max_steps=25", "snapshot.every_steps=5", "snapshot.keep=2", f"snapshot.keep_every_hours={hours}")
        self.assertEqual(harness.snapshots(self.folder / "run"), [harness.snapshot_name(step) for step in (5, 20, 25)])

    def test_other_buckets_are_told_to_have_no_effect(self):
        self.trained("trainer.bucket_mb=0.01", "trainer.max_epochs=2", "trainer.max_steps=40")
        same = self.train("trainer.bucket_mb=0.01", "trainer.max_epochs=2", "trainer.max_steps=50")
        self.assertEqual(same.code, 0, same.err)
        self.assertNotIn("trainer.bucket_mb", same.err)
        other = self.train("trainer.bucket_mb=5", "trainer.max_epochs=2", "trainer.max_steps=55")
        self.assertEqual(other.code, 0, other.err)
        self.assertIn("trainer.bucket_mb = 5, before 0.01, has no effect", other.err)

    def rates(self, run):
        return {line["step"]: line["learning_rate"] for line in harness.metrics(self.folder / run) if line["event"] == "step"}

    def test_a_schedule_by_steps_needs_the_same_samples_a_step(self):
        """Regression: with a batch per rank, fewer ranks took more steps, and the schedule was at its end too early."""
        by_steps = ("scheduler.name=cosine", "scheduler.interval=step", "scheduler.T_max=87", "observe.log_every=1")
        for name, sizes in (("batch", ("data.batch=25",)), ("accumulated", ("data.batch=12", "trainer.accumulate=3"))):
            self.trained(*by_steps, *sizes, "trainer.max_steps=20", "trainer.max_epochs=3", ranks=2, run=name)
        self.trained(*by_steps, "data.global_batch=50", "trainer.max_epochs=3", ranks=2, run="whole")
        on_one = self.train(*by_steps, "data.batch=25", "trainer.max_epochs=3", ranks=1, run="batch")
        self.assert_failed(on_one, 3, "a step has 25 samples, and in ", "step-0000000020 it had 50: the schedule goes by steps",
                           "set data.global_batch = 50, which holds on any number of ranks")
        accumulated = self.train(*by_steps, "data.batch=12", "trainer.accumulate=3", "trainer.max_epochs=3", ranks=1, run="accumulated")
        self.assert_failed(accumulated, 3, "a step has 36 samples, and in ", " it had 72", "set data.global_batch = 24,")
        other = self.train(*by_steps, "data.batch=20", "trainer.accumulate=5", "trainer.max_epochs=3", ranks=1, run="accumulated")
        self.assert_failed(other, 3, "set data.global_batch and trainer.accumulate so that their product is 72")
        resumed = self.trained(*by_steps, "data.global_batch=50", "trainer.max_epochs=3", ranks=1, run="batch")
        self.assertEqual((resumed["resumed_from"], resumed["steps"]), (str(self.folder / "batch/snapshots" / harness.snapshot_name(20)), 87))
        self.assertEqual(self.rates("batch"), self.rates("whole"))

    def test_a_schedule_by_epochs_takes_any_number_of_samples_a_step(self):
        for name, settings in (("constant", ()), ("cosine", ("scheduler.name=cosine", "scheduler.T_max=3")),
                               ("warm", ("scheduler.interval=step", "scheduler.warmup=15"))):
            with self.subTest(name):
                self.trained(*settings, "data.batch=25", "trainer.max_steps=20", "trainer.max_epochs=3", ranks=2, run=name)
                resumed = self.trained(*settings, "data.batch=25", "trainer.max_epochs=3", ranks=1, run=name)
                self.assertEqual(resumed["steps"], 20 + 18 + 2 * 58)
        self.trained("scheduler.interval=step", "scheduler.warmup=25", "data.batch=25", "trainer.max_steps=20", ranks=2, run="warming")
        result = self.train("scheduler.interval=step", "scheduler.warmup=25", "data.batch=25", ranks=1, run="warming")
        self.assert_failed(result, 3, "the schedule goes by steps")

    def test_a_snapshot_that_does_not_tell_its_samples_a_step_is_taken_as_it_is(self):
        by_steps = ("scheduler.name=cosine", "scheduler.interval=step", "scheduler.T_max=87", "data.batch=25", "trainer.max_epochs=1")
        self.trained(*by_steps, "trainer.max_steps=20", ranks=2)
        latest = self.snapshots() / harness.snapshot_name(20)
        state = json.loads((latest / "state.json").read_text())
        self.assertEqual(state["numbers"].pop("run.step_samples"), 50)
        self.rewrite_state(latest, json.dumps(state))
        self.trained(*by_steps, ranks=1)

    def test_a_state_that_does_not_fit_the_model_is_an_error(self):
        self.trained("trainer.max_epochs=2", "trainer.max_steps=40")
        self.assert_failed(self.train("trainer.max_epochs=2", "model.hidden=[64]"), 5, "does not fit the model")

    def test_a_start_anew_takes_the_old_run_away_whole(self):
        """Regression: `best` was left, and pointed to the new run's snapshot of that step; the old curve was cut."""
        run = self.folder / "run"
        self.trained("trainer.max_epochs=3", "snapshot.monitor=val_loss", "observe.tensorboard=true")
        old = {path.name: path.read_bytes() for path in [run / "metrics.jsonl", run / "result.json", run / "recipe.toml",
                                                         *run.glob("events.out.tfevents.*")]}
        best = os.readlink(self.snapshots() / "best")
        steps = harness.snapshots(run)
        run_id = (self.snapshots() / "run-id").read_text()
        self.trained("trainer.max_epochs=4", options=("--resume", "none"))
        self.assertEqual((self.aside() / "run-id").read_text(), run_id)
        self.assertNotEqual((self.snapshots() / "run-id").read_text(), run_id)
        for name, content in old.items():
            self.assertEqual((self.aside() / name).read_bytes(), content, name)
        self.assertEqual(os.readlink(self.aside() / "best"), best)
        self.assertTrue((self.aside() / "best/MANIFEST").is_file())
        self.assertEqual(sorted(path.name for path in self.aside().glob("*") if path.name.startswith(("step", "best"))), steps)
        self.assertFalse(os.path.lexists(self.snapshots() / "best"))
        self.assertEqual([line["step"] for line in harness.metrics(run) if line["event"] == "run_started"], [0])
        self.assertEqual(self.evaluated(), str(self.snapshots() / harness.snapshot_name(116)))

    def test_a_start_from_an_earlier_snapshot_leaves_no_broken_link(self):
        run = self.folder / "run"
        self.trained("trainer.max_epochs=3", "snapshot.monitor=val_loss")
        old = (run / "metrics.jsonl").read_bytes()
        best = os.readlink(self.snapshots() / "best")
        self.assertNotEqual(best, harness.snapshot_name(29))
        self.trained("trainer.max_epochs=2", "snapshot.monitor=val_loss", "optimizer.lr=0.000001",
                     options=("--resume", self.snapshots() / harness.snapshot_name(29)))
        for name in ("best", "latest"):
            link = self.snapshots() / name
            self.assertEqual(os.path.lexists(link), link.exists(), f"{name} is broken")
        self.assertTrue((self.aside() / "best/MANIFEST").is_file())
        self.assertEqual((self.aside() / "metrics.jsonl").read_bytes(), old)

    def killed(self, settings, moment):
        """A run of two ranks, of which the second is killed once it has come to `moment`."""
        command = self.start_train(*settings, "observe.log_every=1", "snapshot.every_steps=5")
        command.wait_for_step(self.folder / "run", moment)
        os.kill(command.ranks()[1], signal.SIGKILL)
        self.assertEqual(command.finish().code, harness.PEER_LOST)

    def test_each_rank_takes_its_own_errors_and_sums_back(self):
        """Regression: both were made one over all ranks, so a save or a resume moved weights and epochs' losses."""
        settings = ("trainer.max_epochs=3", "trainer.precision=fp64", "model.hidden=[64]", "trainer.compression=powersgd",
                    "trainer.compression_start=3", "trainer.compression_rank=2", "snapshot.keep=0")
        whole = self.trained(*settings, run="whole")
        self.killed(settings, 40)
        resumed = self.trained(*settings)
        self.assertIn("run/snapshots/step-", resumed["resumed_from"])
        for key in ("weights_digest", "sample_digest", "train_loss", "val_loss"):
            self.assertEqual(resumed[key], whole[key], key)
        self.assertEqual(harness.epoch_losses(self.folder / "run"), harness.epoch_losses(self.folder / "whole"))
        middle = self.snapshots() / harness.snapshot_name(35)
        self.assertEqual(saved_shapes(middle)["compression.error.0"], [2, 64, 64])
        self.assertEqual(len(harness.state_of(self.folder / "run", 35)["rank_sums"]["loss"]), 2)
        for ranks in (1, 3):
            other = self.trained(*settings, ranks=ranks, run=f"on-{ranks}", options=("--resume", middle))
            self.assertEqual((other["steps"], other["sample_digest"]), (whole["steps"], whole["sample_digest"]), ranks)
            self.assertAlmostEqual(other["train_loss"], whole["train_loss"], delta=0.05 * whole["train_loss"])

    def test_a_snapshot_of_an_older_version_goes_on(self):
        old = harness.SOURCE / "tests/golden/snapshot/step-0000000012"
        settings = ("model.hidden=[8]", "trainer.max_epochs=1", "trainer.average=ema", "trainer.compression=powersgd",
                    "trainer.compression_start=3")
        self.assertEqual(saved_shapes(old)["compression.error.0"], [8, 64])
        for ranks in (1, 2, 3):
            run = self.trained(*settings, ranks=ranks, run=f"on-{ranks}", options=("--resume", old))
            self.assertEqual((run["steps"], run["sample_digest"]), (29, harness.digits_digest(29)), ranks)
            last = self.folder / f"on-{ranks}/snapshots" / harness.snapshot_name(29)
            self.assertEqual(saved_shapes(last)["compression.error.0"], [ranks, 8, 64])


def saved_shapes(snapshot):
    """{name: shape} of the tensors of extensions."""
    content = (snapshot / "extensions.safetensors").read_bytes()
    size, = struct.unpack_from("<Q", content)
    return {name: each["shape"] for name, each in json.loads(content[8:8 + size]).items() if name != "__metadata__"}


if __name__ == "__main__":
    harness.main()
