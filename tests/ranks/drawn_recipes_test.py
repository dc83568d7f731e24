#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws recipes by chance and holds what the documents promise of each.

LOCKSTEP_DRAWN_SEEDS=FIRST:COUNT says which seeds; by default a few, with LOCKSTEP_SOAK=1 a few hundred. Recipes that once failed
stay in drawn_failures.jsonl, with what was wrong, and are always tried.
"""
import json
import math
import os
import pathlib
import shlex
import shutil

import drawn_recipes
import harness

KEPT = pathlib.Path(__file__).with_name("drawn_failures.jsonl")
SAME = ("epochs", "steps", "samples", "train_loss", "val_loss", "weights_digest", "sample_digest")
RELATIVE = 1e-7  # Of float64 sums in another order, over a few dozen steps.


def has(settings, key):
    return settings.get(key, False) not in (False, "none")


def works_between_ranks(settings):
    return settings.get("trainer.strategy") in ("single", "dp") and any(
        has(settings, f"trainer.{key}") for key in ("sync_batchnorm", "static_graph", "compression"))


def spoils_powersgd(settings):
    return settings["trainer.precision"] == "fp16" and settings.get("trainer.compression") == "powersgd"


# Reasons to refuse a recipe. Each has a condition on the settings, the exit code, and words of the message.
MUST = [
    (works_between_ranks, 3, "works between ranks"),
    (spoils_powersgd, 3, "powersgd with precision fp16"),
]
# Reasons that also depend on the numbers of samples, steps and ranks.
MAY = [
    (lambda settings: settings["scheduler.name"] == "onecycle", 3, "leaves no step to rise or to fall in"),
    (lambda settings: settings["scheduler.name"] == "onecycle" and not settings.get("optimizer.momentum"), 3,
     "onecycle moves the momentum too, and the optimizer has none"),
    (lambda settings: settings.get("scheduler.warmup"), 3, "and the whole run has"),
    (lambda settings: settings.get("scheduler.monitor") == "val_loss", 3, "plateau waits for"),
    (lambda settings: True, 3, "is larger than the data set's"),
    (lambda settings: settings["model.name"] == "resnet18", 3, "want more than one number a channel"),
]


# This error comes at the step with too few samples, which is the last one of an epoch.
LATE = ("want more than one number a channel",)


def seeds():
    first, _, count = os.environ.get("LOCKSTEP_DRAWN_SEEDS", "0:300" if harness.SOAK else "0:8").partition(":")
    return range(int(first), int(first) + int(count))


def has_dropout(settings):
    return settings.get("model.dropout", 0) > 0


def depends_on_ranks(settings):
    """True if the documents promise the same samples on any number of ranks, but not the same numbers."""
    return (settings["trainer.precision"] != "fp64" or has_dropout(settings) or "trainer.compression" in settings or
            settings["model.name"] == "resnet18" and "trainer.sync_batchnorm" not in settings)


class DrawnRecipes(harness.RanksTest):
    def setUp(self):
        super().setUp()
        drawn_recipes.write_data(self.folder)

    def run_recipe(self, name, settings, ranks, *options):
        shutil.rmtree(self.folder / name, ignore_errors=True)
        words = drawn_recipes.arguments(settings | {"trainer.threads": 1, "observe.tensorboard": False})
        self.lines.append(shlex.join(["lockstep", "train", "drawn.toml", "--devices", str(ranks), "--run-dir", name, *words,
                                      *map(str, options)]))
        return self.start("train", "drawn.toml", "--devices", ranks, "--run-dir", self.folder / name, "--json", *words,
                          *options).finish()

    def trained(self, name, settings, *arguments):
        """The final object; None if it was rightly refused, before the first step."""
        result = self.run_recipe(name, settings, *arguments)
        for is_refused, code, words in MUST:
            if is_refused(settings):
                self.assert_failed(result, code, words)
                return None
        if result.code == 0:
            return result.object
        for is_refused, code, words in MAY:
            if is_refused(settings) and words in result.err:
                self.assert_failed(result, code)
                if words not in LATE:
                    self.assertEqual(harness.snapshots(self.folder / name), [], "refused after it had trained")
                return None
        self.fail(f"refused with code {result.code}\n{result.err[-3000:]}")

    def check(self, recipe):
        self.lines = []
        settings, ranks = recipe["settings"], recipe["ranks"]
        base = self.trained("base", settings, ranks)
        if base is None:
            return
        self.check_snapshot(base)
        self.check_resume(recipe, base)
        self.check_other_ranks(recipe, base)
        self.check_evaluation(recipe, base)

    def check_snapshot(self, base):
        latest = self.folder / "base/snapshots" / harness.snapshot_name(base["steps"])
        result = self.start("snapshot", "verify", latest).finish()
        self.assertEqual(result.code, 0, result.err)

    def assert_same(self, found, base, keys, what):
        self.assertEqual({key: found.get(key) for key in keys}, {key: base.get(key) for key in keys}, what)

    def check_resume(self, recipe, base):
        """Saving more often, other workers and logging change no bit; neither does a resume."""
        settings, ranks = recipe["settings"], recipe["ranks"]
        if base["steps"] < 2:
            return
        stop = min(base["steps"] - 1, max(1, round(recipe["stop"] * base["steps"])))
        keys = SAME
        if settings.get("trainer.strategy") == "dp" and has_dropout(settings):
            keys = ("epochs", "steps", "samples", "sample_digest")
        saving = settings | {"snapshot.every_steps": stop, "snapshot.keep": 0, "observe.log_every": 1,
                             "data.workers": 2 - settings["data.workers"]}
        self.assert_same(self.trained("saving", saving, ranks), base, keys, "saved more often")
        at = self.folder / "saving/snapshots" / harness.snapshot_name(stop)
        self.assert_same(self.trained("resumed", settings, ranks, "--resume", at), base, keys, f"resumed at step {stop}")
        if not self.may_change(settings):
            return
        other = self.trained("elsewhere", settings, recipe["other_ranks"], "--resume", at)
        if other is not None:
            self.check_near(settings, other, base, f"resumed at step {stop} on {recipe['other_ranks']} ranks")

    def may_change(self, settings):
        return settings.get("trainer.strategy") != "single"

    def check_near(self, settings, found, base, what):
        if depends_on_ranks(settings) and found["epochs"] != base["epochs"]:
            # Early stopping decides by these numbers. So one of the two runs may correctly end before the other.
            sooner = min(found, base, key=lambda each: each["epochs"])
            self.assertEqual(sooner["stopped_by"], "callback: early_stopping", what)
            return
        self.assert_same(found, base, ("epochs", "steps", "samples", "sample_digest"), what)
        if depends_on_ranks(settings):
            return
        for key in ("train_loss", "val_loss"):
            if base.get(key) is not None:
                self.assertTrue(math.isclose(found[key], base[key], rel_tol=RELATIVE),
                                f"{what}: {key} is {found[key]}, want {base[key]}")

    def check_other_ranks(self, recipe, base):
        settings = recipe["settings"]
        found = self.trained("other", settings, recipe["other_ranks"]) if self.may_change(settings) else None
        if found is not None:
            self.check_near(settings, found, base, f"on {recipe['other_ranks']} ranks")

    def check_evaluation(self, recipe, base):
        settings = recipe["settings"]
        run = self.folder / "base"
        if base.get("val_loss") is None or settings.get("trainer.strategy") == "dp":
            return
        ended = [line for line in harness.metrics(run) if line["event"] == "validation"]
        if not ended or ended[-1]["step"] != base["steps"]:
            return
        result = self.start("eval", run, "--snapshot", "latest", "--devices", recipe["ranks"], "--json").finish()
        self.assertEqual(result.code, 0, result.err[-3000:])
        if "trainer.limit_val_batches" in settings:
            return
        found = result.object["metrics"]
        for name, value in ended[-1]["metrics"].items():
            if name in found:
                self.assertEqual(found[name], value, f"eval's {name}")

    def try_recipe(self, recipe, name):
        with self.subTest(name):
            try:
                self.check(recipe)
            except AssertionError as error:
                commands = "\n  ".join(self.lines)
                raise AssertionError(f"{name}\n{json.dumps(recipe)}\n  {commands}\n{error}") from None
            finally:
                for run in ("base", "saving", "resumed", "elsewhere", "other"):
                    shutil.rmtree(self.folder / run, ignore_errors=True)

    def test_what_is_drawn_keeps_its_promises(self):
        (self.folder / "drawn.toml").write_text("")
        for seed in seeds():
            self.try_recipe(drawn_recipes.draw_recipe(seed), f"seed {seed}")

    def test_what_once_failed_keeps_its_promises(self):
        (self.folder / "drawn.toml").write_text("")
        for line in KEPT.read_text().splitlines() if KEPT.exists() else []:
            kept = json.loads(line)
            self.try_recipe(kept["recipe"], kept["found"])


if __name__ == "__main__":
    harness.main()
