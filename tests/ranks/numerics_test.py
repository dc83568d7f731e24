#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The number of ranks changes nothing: losses, samples, and agreement with PyTorch's own DistributedDataParallel."""
import json

import harness

GOLDEN = harness.SOURCE / "tests/golden/ddp"
STEPS = 290
WORLDS = (1, 2, 3, 4)


class Numerics(harness.RanksTest):
    def assert_close(self, found, wanted, tolerance):
        self.assertEqual(len(found), len(wanted))
        for place, (one, other) in enumerate(zip(found, wanted)):
            self.assertLessEqual(abs(one - other), tolerance, f"at {place}: {one} and {other}")

    def check_worlds(self, precision, tolerance):
        losses = {}
        for world in WORLDS:
            run = self.trained(f"trainer.precision={precision}", "trainer.max_epochs=10", "data.global_batch=50",
                               ranks=world, run=f"on-{world}")
            self.assertEqual((run["world"], run["steps"], run["samples"]), (world, STEPS, 10 * harness.DIGITS_SIZE))
            self.assertEqual(run["sample_digest"], harness.digits_digest(STEPS))
            self.assertGreaterEqual(run["val_accuracy"], 0.96)
            losses[world] = harness.epoch_losses(self.folder / f"on-{world}")
            self.assertEqual(len(losses[world]), 10)
            self.assertEqual(losses[world][-1], run["train_loss"])
        for epoch, values in enumerate(zip(*losses.values())):
            self.assertLessEqual(max(values) - min(values), tolerance, f"epoch {epoch}: {values}")

    def test_float32_losses_are_the_same_on_one_to_four_ranks(self):
        self.check_worlds("fp32", 1e-5)

    def test_float64_losses_are_the_same_on_one_to_four_ranks(self):
        self.check_worlds("fp64", 1e-11)

    def check_golden(self, precision, tolerance):
        golden = json.loads((GOLDEN / "digits.json").read_text())[precision]
        self.trained(f"trainer.precision={precision}", "model.hidden=[32]", f"model.weights={GOLDEN / 'weights.safetensors'}",
                     "observe.log_every=1", ranks=2)
        steps = [line["loss"] for line in harness.metrics(self.folder / "run") if line["event"] == "step"]
        self.assertEqual(len(steps), STEPS)
        self.assert_close(steps[:len(golden["step_losses"])], golden["step_losses"], tolerance)
        self.assert_close(harness.epoch_losses(self.folder / "run"), golden["epoch_losses"], tolerance)

    def test_float32_losses_are_those_of_pytorchs_ddp(self):
        self.check_golden("fp32", 1e-6)

    def test_float64_losses_are_those_of_pytorchs_ddp(self):
        self.check_golden("fp64", 1e-12)

    def test_accumulated_batches_train_like_one_large_batch(self):
        small = self.trained("trainer.precision=fp64", "data.global_batch=25", "trainer.accumulate=2", "trainer.max_epochs=2",
                             ranks=2, run="accumulated")
        large = self.trained("trainer.precision=fp64", "trainer.max_epochs=2", ranks=3, run="at-once")
        self.assertEqual((small["steps"], small["sample_digest"]), (large["steps"], large["sample_digest"]))
        self.assert_close(harness.epoch_losses(self.folder / "accumulated"), harness.epoch_losses(self.folder / "at-once"), 1e-11)

    def test_a_rank_with_no_samples_joins_with_zeros(self):
        """Global batches of 3 on 4 ranks: the last rank never has one."""
        one = self.trained("trainer.precision=fp64", "data.global_batch=3", "trainer.max_steps=60", ranks=1, run="one")
        four = self.trained("trainer.precision=fp64", "data.global_batch=3", "trainer.max_steps=60", ranks=4, run="four")
        self.assertEqual(one["sample_digest"], four["sample_digest"])
        self.assertEqual(four["sample_digest"], harness.digits_digest(60, 3))
        self.assertLessEqual(abs(one["train_loss"] - four["train_loss"]), 1e-11)


if __name__ == "__main__":
    harness.main()
