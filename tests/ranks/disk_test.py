#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run folder that cannot be written, or is full: error 6, and the snapshots that are there stay whole."""
import os
import shutil
import subprocess

import harness

IO = 6
SETTINGS = ("data.kind=synthetic", "data.samples=400", "data.shape=[8,8]", "data.classes=4", "data.global_batch=40",
            "model.hidden=[100]", "snapshot.every_epochs=1", "snapshot.keep=0")
ROOM = "size=384k"  # A snapshot is three times 28 kB and two small files: there is room for three or four of six.


class Disk(harness.RanksTest):
    def small_disk(self, options):
        """A file system in memory of its own, unmounted at the end."""
        place = self.folder / "disk"
        place.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs here: {made.stderr.strip()}")
        # Cleanups run in reverse order. First processes are ended, then this one runs, and last the folder is removed.
        self.addCleanup(subprocess.run, ["umount", "--lazy", place], check=True)
        self.addCleanup(self.check_nothing_is_left)
        return place

    def remount(self, options):
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder / "disk"], check=True)

    def verified(self, run):
        """Steps of the snapshots that `snapshot verify` finds whole; others are an error."""
        steps = []
        for name in harness.snapshots(self.folder / run):
            result = self.start("snapshot", "verify", self.folder / run / "snapshots" / name).finish()
            self.assertEqual(result.code, 0, f"{name}: {result.err}")
            steps.append(int(name.removeprefix("step-")))
        return steps

    def test_a_run_folder_below_a_file_is_named(self):
        (self.folder / "file").write_text("not a folder")
        for ranks in (1, 2):
            result = self.train("trainer.max_epochs=1", ranks=ranks, run="file/run")
            self.assert_failed(result, IO, str(self.folder / "file/run"), "Not a directory")
        self.assertEqual((self.folder / "file").read_text(), "not a folder")

    def test_a_run_folder_without_permission_is_named(self):
        if os.geteuid() == 0:
            place = self.small_disk("ro")
            reason = "Read-only file system"
        else:
            place = self.folder / "closed"
            place.mkdir(mode=0o555)
            reason = "Permission denied"
        for ranks in (1, 2):
            result = self.train("trainer.max_epochs=1", ranks=ranks, run=f"{place.name}/run")
            self.assert_failed(result, IO, f"{place}/run", reason)

    def test_a_snapshot_folder_that_cannot_be_written_is_named(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "snapshots").write_text("in the way")
        self.assert_failed(self.train("trainer.max_epochs=1"), IO, str(run / "snapshots"))
        self.assertEqual((run / "snapshots").read_text(), "in the way")

    def test_a_disk_that_is_full_at_the_start_is_an_error(self):
        place = self.small_disk("size=16k")
        try:
            (place / "filler").write_bytes(bytes(65536))
        except OSError:
            pass
        result = self.train("trainer.max_epochs=1", run="disk/run")
        self.assert_failed(result, IO, str(place), "No space left on device")

    def test_a_disk_too_small_for_a_snapshot_is_an_error_before_the_first_save(self):
        self.small_disk("size=80k")
        for ranks in (1, 2):
            result = self.train(*SETTINGS, "snapshot.every_epochs=5", "trainer.max_epochs=6", run=f"disk/run {ranks}", ranks=ranks)
            self.assert_failed(result, IO, "a snapshot takes", "has no room for it", "No space left on device")
            shutil.rmtree(self.folder / f"disk/run {ranks}")

    def test_a_disk_that_fills_up_in_mid_training_leaves_the_snapshots_whole(self):
        whole = self.trained(*SETTINGS, "trainer.max_epochs=6")
        self.small_disk(ROOM)
        result = self.train(*SETTINGS, "trainer.max_epochs=6", run="disk/run")
        self.assert_failed(result, IO, "No space left on device")
        self.assertEqual(result.out, "")
        steps = self.verified("disk/run")
        self.assertGreaterEqual(len(steps), 2)
        self.assertLess(len(steps), 6)
        latest = os.readlink(self.folder / "disk/run/snapshots/latest")
        self.assertEqual(latest, harness.snapshot_name(steps[-1]))
        again = self.train(*SETTINGS, "trainer.max_epochs=6", run="disk/run")
        self.assert_failed(again, IO, "No space left on device")
        self.assertEqual(self.verified("disk/run"), steps)
        self.remount("size=16m")
        resumed = self.trained(*SETTINGS, "trainer.max_epochs=6", run="disk/run")
        self.assertEqual(resumed["resumed_from"], str(self.folder / "disk/run/snapshots" / latest))
        for key in ("steps", "weights_digest", "sample_digest", "train_loss"):
            self.assertEqual(resumed[key], whole[key], key)


if __name__ == "__main__":
    harness.main()
