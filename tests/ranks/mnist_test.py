#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MNIST's 10 000 test images, split 9000 to 1000: 0.97 within five epochs on two CPU ranks."""
import unittest

import harness

FOLDER = harness.DATA / "mnist10k"


class Mnist(harness.RanksTest):
    @unittest.skipUnless(FOLDER.is_dir(), f"{FOLDER} is not there; LOCKSTEP_TEST_DATA names the folder that holds mnist10k")
    def test_reaches_its_accuracy_on_two_ranks(self):
        run = self.trained(f"data.path={FOLDER}", recipe=harness.SOURCE / "recipes/mnist.toml", ranks=2, seconds=900)
        self.assertLessEqual(run["epochs"], 5)
        self.assertEqual((run["world"], run["samples"]), (2, run["epochs"] * 9000))
        validations = [line for line in harness.metrics(self.folder / "run") if line["event"] == "validation"]
        self.assertEqual([line["samples"] for line in validations], [1000] * run["epochs"])
        self.assertGreaterEqual(run["val_accuracy"], 0.97)


if __name__ == "__main__":
    harness.main()
