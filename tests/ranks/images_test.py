#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Photographs from folders and from the HDF5 file that `data convert` makes of them: the same pixels, so the same losses."""
import harness

PHOTOGRAPHS = harness.DATA / "hymenoptera"
RECIPE = harness.SOURCE / "recipes/hymenoptera.toml"
SMALL = ("model.stem=cifar", 'data.transforms=["random_resized_crop(24)", "flip", "normalize(imagenet)"]',
         'data.eval_transforms=["resize(28)", "center_crop(24)", "normalize(imagenet)"]', "data.global_batch=8",
         "trainer.max_epochs=1", "trainer.limit_train_batches=6", "trainer.limit_val_batches=1", "observe.log_every=1")


class Images(harness.RanksTest):
    def losses(self, path, *settings, ranks, run):
        self.trained(*SMALL, f"data.path={path}", *settings, recipe=RECIPE, ranks=ranks, run=run)
        return [line["loss"] for line in harness.metrics(self.folder / run) if line["event"] == "step"]

    def test_folders_and_the_converted_file_give_the_same_losses(self):
        converted = self.folder / "hymenoptera.h5"
        done = self.start("data", "convert", PHOTOGRAPHS, converted).finish()
        self.assertEqual(done.code, 0, done.err)
        folder = self.losses(PHOTOGRAPHS, ranks=1, run="folder")
        self.assertEqual(len(folder), 6)
        self.assertEqual(self.losses(converted, "data.kind=hdf5", ranks=1, run="hdf5"), folder)
        self.assertEqual(self.losses(PHOTOGRAPHS, "data.workers=3", ranks=1, run="workers"), folder)


if __name__ == "__main__":
    if not PHOTOGRAPHS.is_dir():
        print(f"skipped: there are no photographs in {PHOTOGRAPHS}; set LOCKSTEP_TEST_DATA")
        raise SystemExit(harness.SKIPPED)
    harness.main()
