#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`eval` and `predict`: each sample once and in order on any number of ranks; averages, the best snapshot, resumed options."""
import csv
import json
import unittest

import harness


class Eval(harness.RanksTest):
    def evaluated(self, *options, code=0, command="eval"):
        result = self.start(command, self.folder / "run", *options, "--json").finish()
        self.assertEqual(result.code, code, result.err[-3000:])
        return result

    def test_any_number_of_ranks_says_what_the_run_said(self):
        run = self.trained("trainer.max_epochs=2")
        for ranks in (1, 2, 3, 4):
            found = self.evaluated("--devices", ranks).object
            self.assertEqual(found["samples"], 360)
            self.assertEqual(found["metrics"]["val_accuracy"], run["val_accuracy"])
            self.assertAlmostEqual(found["metrics"]["val_loss"], run["val_loss"], delta=1e-12)
        self.assertEqual(self.evaluated("--split", "train").object["samples"], 1437)

    def test_a_limited_validation_sees_the_same_samples_on_any_number_of_ranks(self):
        common = ("trainer.max_epochs=2", "data.global_batch=50", "trainer.precision=fp64", "trainer.limit_val_batches=1")
        for settings, samples in (((), 256), (("data.eval_batch=7",), 7), (("data.eval_batch=300",), 300)):
            losses = []
            for ranks in (1, 2, 3):
                name = f"run-{samples}-{ranks}"
                losses.append(self.trained(*common, *settings, ranks=ranks, run=name)["val_loss"])
                seen = [line for line in harness.metrics(self.folder / name) if line["event"] == "validation"]
                self.assertEqual([line["samples"] for line in seen], [samples] * 2)
            for loss in losses:
                self.assertAlmostEqual(loss, losses[0], delta=1e-10)

    def test_a_batch_of_evaluation_changes_nothing_but_the_memory(self):
        run = self.trained("trainer.max_epochs=1", "data.eval_batch=3")
        for options in ((), ("--set", "data.eval_batch=1"), ("--set", "data.eval_batch=360", "--devices", 2)):
            found = self.evaluated(*options).object["metrics"]
            self.assertEqual(found["val_accuracy"], run["val_accuracy"])
            self.assertAlmostEqual(found["val_loss"], run["val_loss"], delta=1e-7)

    def test_predictions_come_once_and_in_order(self):
        run = self.trained("trainer.max_epochs=2")
        tables = []
        for ranks in (1, 3):
            out = self.folder / f"guesses-{ranks}.csv"
            self.evaluated("--devices", ranks, "--out", out, command="predict")
            with out.open(newline="") as file:
                tables.append(list(csv.reader(file)))
        self.assertEqual(len(tables[0]), 361)
        self.assertEqual([row[:2] for row in tables[0]], [row[:2] for row in tables[1]])
        names = [row[0] for row in tables[0][1:]]
        self.assertEqual([name.rsplit("#", 1)[1] for name in names], [str(i) for i in range(360)])
        for row in tables[0][1:]:
            self.assertAlmostEqual(sum(map(float, row[2:])), 1, delta=1e-6)
        self.assertGreater(run["val_accuracy"], 0.5)

    def test_a_number_is_learnt_from_a_table(self):
        rows = [((i * 37 % 101) / 100, (i * 53 % 97) / 100) for i in range(400)]
        table = "".join(f"{a},{b},{3 * a - 2 * b + 1}\n" for a, b in rows)
        (self.folder / "table.csv").write_text("a,b,y\n" + table)
        recipe = self.folder / "table.toml"
        recipe.write_text('[model]\nname = "mlp"\nhidden = [16]\n[data]\nkind = "csv"\npath = "table.csv"\nregression = true\n'
                          'split = 0.2\nglobal_batch = 20\n[trainer]\nmax_epochs = 20\n[optimizer]\nname = "adam"\nlr = 0.01\n')
        self.trained(recipe=recipe)
        found = self.evaluated("--devices", 2).object
        self.assertEqual(found["samples"], 80)
        self.assertLess(found["metrics"]["val_mae"], 0.1)
        out = self.folder / "guesses.csv"
        self.evaluated("--out", out, command="predict")
        with out.open(newline="") as file:
            head, *lines = csv.reader(file)
        self.assertEqual(head, ["sample", "predicted"])
        for name, guess in lines:
            a, b = rows[int(name.rsplit(" ", 1)[1]) - 2]
            self.assertAlmostEqual(float(guess), 3 * a - 2 * b + 1, delta=0.5)

    def test_a_class_may_have_a_comma_in_its_name(self):
        (self.folder / "table.csv").write_text("a,kind\n" + '1,"ants, red"\n2,bees\n' * 20)
        recipe = self.folder / "table.toml"
        recipe.write_text('[model]\nname = "mlp"\n[data]\nkind = "csv"\npath = "table.csv"\nsplit = 0.2\nglobal_batch = 8\n'
                          '[trainer]\nmax_epochs = 1\n')
        self.trained(recipe=recipe)
        out = self.folder / "guesses.csv"
        self.evaluated("--out", out, command="predict")
        with out.open(newline="") as file:
            head, *lines = csv.reader(file)
        self.assertEqual(head, ["sample", "predicted", "ants, red", "bees"])
        self.assertEqual({len(line) for line in lines}, {4})

    def test_averaged_weights_and_the_best_snapshot_are_what_counts(self):
        run = self.trained("trainer.max_epochs=4", "trainer.average=ema", "trainer.average_decay=0.9",
                           "snapshot.monitor=val_loss", "snapshot.keep=1")
        best = (self.folder / "run/snapshots/best").resolve()
        self.assertTrue((best / "extensions.safetensors").is_file())
        latest = self.evaluated("--snapshot", "latest").object
        self.assertAlmostEqual(latest["metrics"]["val_loss"], run["val_loss"], delta=1e-12)
        self.assertEqual(self.evaluated().object["snapshot"], str(best))

    def test_a_resumed_run_with_every_kind_of_state_is_bit_equal(self):
        settings = ("trainer.max_epochs=4", "trainer.average=ema", "scheduler.name=plateau", "scheduler.patience=0",
                    "scheduler.monitor=val_accuracy", "early_stopping.monitor=val_loss", "early_stopping.patience=9",
                    "snapshot.monitor=val_loss")
        whole = self.trained(*settings, run="whole")
        self.trained(*settings, "trainer.max_steps=70", run="run")
        resumed = self.trained(*settings, run="run")
        self.assertEqual(resumed["weights_digest"], whole["weights_digest"])
        self.assertEqual(resumed["sample_digest"], whole["sample_digest"])
        states = [json.loads((self.folder / name / "snapshots/latest/state.json").read_text()) for name in ("whole", "run")]
        self.assertEqual(states[0]["numbers"], states[1]["numbers"])

    def test_bad_input(self):
        self.trained("trainer.max_epochs=1")
        self.assertIn("split is 'exam', want train, validation or test", self.evaluated("--split", "exam", code=2).err)
        result = self.start("eval", self.folder / "nowhere").finish()
        self.assert_failed(result, 6, "there is no run folder")
        self.assert_failed(self.evaluated("--devices", 0, code=2), 2, "--devices is 0, want 1 or more")


if __name__ == "__main__":
    harness.main()
