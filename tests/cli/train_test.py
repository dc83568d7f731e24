#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep train` prints, held against the texts beside this file.

    LOCKSTEP_GOLDEN=write python tests/cli/train_test.py

writes them anew; read the difference before you commit it. $SOURCE, $FOLDER and $NUMBER stand for what varies.
"""
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ranks"))
import harness  # noqa: E402

MEASURED = re.compile(r'("(?:time_to_first_step_s|samples_per_second|train_loss|val_loss|val_accuracy)":)[-+.e\d]+')
DIGESTS = re.compile(r'("weights_digest":)"[0-9a-f]{32}"')


class Train(harness.RanksTest):
    def golden(self, name, text):
        text = text.replace(str(self.folder), "$FOLDER").replace(str(harness.SOURCE), "$SOURCE")
        text = DIGESTS.sub(r'\1"$NUMBER"', MEASURED.sub(r"\1$NUMBER", text))
        path = HERE / name
        if os.environ.get("LOCKSTEP_GOLDEN") == "write":
            path.write_text(text)
        self.maxDiff = None
        self.assertEqual(text, path.read_text(), f"{name}: the text on the left is what lockstep says now")

    def command(self, *arguments, code=0):
        result = self.start("train", *arguments).finish()
        self.assertEqual(result.code, code, result.err)
        return result

    def test_a_dry_run_prints_the_settings_with_their_origins_and_creates_nothing(self):
        result = self.command(harness.DIGITS, "--devices", 2, "--set", "optimizer.lr=0.02", "--run-dir", "run", "--dry-run")
        self.golden("train-dry-run.txt", result.out)
        self.assertEqual(result.err, "")
        self.assertFalse((self.folder / "run").exists())

    def test_a_dry_run_names_data_that_are_not_there(self):
        result = self.command(harness.SOURCE / "recipes/mnist.toml", "--set", "data.path=nowhere", "--dry-run", code=6)
        self.assertIn("data.path (--set): open '", result.err)
        self.assertIn("nowhere' failed: No such file or directory", result.err)
        self.assertIn("hint: set it to the data's path", result.err)

    def test_a_dry_run_in_json_says_what_would_run_where(self):
        result = self.command(harness.DIGITS, "--devices", 2, "--run-dir", "run", "--dry-run", "--json")
        self.golden("train-dry-run.json", result.out)
        self.assertFalse((self.folder / "run").exists())

    def test_a_setting_that_is_left_out_is_noted_on_standard_error(self):
        result = self.command(harness.DIGITS, "--set", "data.kind=synthetic", "--run-dir", "run", "--dry-run")
        self.assertNotIn("left out", result.out)
        self.assertIn("data.path", result.err)
        self.assertIn("is left out", result.err)

    def test_a_finished_run_says_so_and_prints_its_object_again(self):
        settings = (harness.DIGITS, "--devices", 2, "--run-dir", "run", "--json", "--set", "trainer.max_epochs=1")
        first = self.command(*settings)
        self.golden("train-final.json", first.out)
        again = self.command(*settings)
        self.assertEqual(again.out, first.out)
        self.golden("train-finished.txt", again.err)
        self.golden("train-finished-plain.txt", self.command(*settings[:5], *settings[6:]).err)

    def test_errors_have_one_form(self):
        texts = []
        for settings in (("--set", "trainer.max_epoch=3"), ("--set", "trainer.seed=lots"), ("--devices", 0),
                         ("--set", "trainer.seed"), ("--no-such-flag",), ("--set", "data.batch=4", "--set", "data.global_batch=8")):
            result = self.start("train", harness.DIGITS, *settings).finish()
            words = " ".join(str(each) for each in settings)
            texts.append(f"$ lockstep train digits.toml {words}\n{result.err}[{result.code}]\n")
            self.assertEqual(result.out, "")
        self.golden("train-errors.txt", "\n".join(texts))


if __name__ == "__main__":
    harness.main()
