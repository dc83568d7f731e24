#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a start takes over from a used run folder, and what it puts aside."""
import json

import harness

LOST = ("optimizer.name=sgd", "optimizer.lr=1e9")


class Resume(harness.RanksTest):
    def snapshots(self):
        return self.folder / "run/snapshots"

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

    def test_a_state_that_does_not_fit_the_model_is_an_error(self):
        self.trained("trainer.max_epochs=2", "trainer.max_steps=40")
        self.assert_failed(self.train("trainer.max_epochs=2", "model.hidden=[64]"), 5, "does not fit the model")


if __name__ == "__main__":
    harness.main()
