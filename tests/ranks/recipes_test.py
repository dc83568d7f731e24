#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the longer recipes promise to learn on a CPU: all of it with LOCKSTEP_SOAK=1, else a beginning of the language model."""
import collections
import math
import pathlib
import statistics
import unittest

import harness

PHOTOGRAPHS = harness.DATA / "hymenoptera"
TEXTS = pathlib.Path("/usr/share/common-licenses")


def unigram_entropy(folder):
    """Of the bytes of all files in it, in nats."""
    counts = collections.Counter()
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink():
            counts.update(path.read_bytes())
    return -sum(count / counts.total() * math.log(count / counts.total()) for count in counts.values())


class Recipes(harness.RanksTest):
    @unittest.skipUnless(TEXTS.is_dir(), f"{TEXTS} is not there")
    def test_the_language_model_knows_more_than_how_often_a_byte_occurs(self):
        settings, less = ([], 0.5) if harness.SOAK else (["trainer.max_epochs=2"], 0.2)
        run = self.trained(*settings, recipe=harness.SOURCE / "recipes/bert.toml", ranks=2, seconds=1800)
        self.assertLess(run["val_loss"], unigram_entropy(TEXTS) - less)

    @unittest.skipUnless(harness.SOAK, "LOCKSTEP_SOAK=1 trains on the photographs three times, minutes each")
    @unittest.skipUnless(PHOTOGRAPHS.is_dir(), f"{PHOTOGRAPHS} is not there; LOCKSTEP_TEST_DATA names the folder that holds hymenoptera")
    def test_ants_are_told_from_bees(self):
        found = []
        for seed in (1, 2, 3):
            run = self.trained(f"data.path={PHOTOGRAPHS}", f"trainer.seed={seed}", recipe=harness.SOURCE / "recipes/hymenoptera.toml",
                               run=f"run-{seed}", ranks=0, seconds=1800)
            found.append(run["val_accuracy"])
        self.assertGreaterEqual(min(found), 0.60, found)
        self.assertGreaterEqual(statistics.mean(found), 0.64, found)


if __name__ == "__main__":
    harness.main()
