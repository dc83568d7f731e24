#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs with all features on at once, killed after a step and resumed: the weights are those of a run that was left alone.

LOCKSTEP_RESUME_STEPS (step,step,...) asks for other steps, LOCKSTEP_RESUME_RANKS for other numbers of ranks, and
LOCKSTEP_RESUME_SEED for another seed.
"""
import os

import drawn_recipes
import harness

SHARED = {"data.kind": "folder", "data.path": "folder-40", "data.split": 0.25, "data.global_batch": 6, "trainer.max_epochs": 4,
          "data.transforms": ["resize(8, 8)", "random_crop(8, padding=2)", "flip"], "trainer.precision": "bf16",
          "trainer.average": "ema", "trainer.average_from": 0, "trainer.accumulate": 2, "trainer.compression": "powersgd",
          "trainer.compression_start": 2, "optimizer.name": "adamw", "optimizer.lr": 0.001, "scheduler.name": "cosine",
          "scheduler.interval": "step", "snapshot.every_steps": 1, "observe.log_every": 1}
MODELS = {  # One has batch norm, the other dropout.
    "resnet18": {"model.name": "resnet18", "model.stem": "cifar", "trainer.sync_batchnorm": True},
    "vit": {"model.name": "vit_b_16", "model.patch_size": 4, "model.layers": 1, "model.heads": 2, "model.width": 16,
            "model.mlp_dim": 32, "model.dropout": 0.1},
}
STEPS = [int(word) for word in os.environ.get("LOCKSTEP_RESUME_STEPS", "3").split(",")]
SEED = int(os.environ.get("LOCKSTEP_RESUME_SEED", "0"))
RANKS = [int(word) for word in os.environ.get("LOCKSTEP_RESUME_RANKS", "2,3").split(",")]


class EverythingOn(harness.RanksTest):
    def command(self, model, ranks, run):
        words = drawn_recipes.arguments(SHARED | MODELS[model] | {"trainer.threads": 1, "trainer.seed": SEED})
        recipe = self.folder / "recipe.toml"
        recipe.write_text("")
        return self.start("train", recipe, "--devices", ranks, "--run-dir", self.folder / run, "--json", *words)

    def ended(self, command):
        result = command.finish()
        self.assertEqual(result.code, 0, result.err[-3000:])
        return result.object

    def test_a_killed_run_ends_with_the_weights_of_one_that_was_left_alone(self):
        drawn_recipes.write_data(self.folder)
        resumes = 0
        for model in MODELS:
            for ranks in RANKS:
                whole = self.ended(self.command(model, ranks, f"{model}-{ranks}"))
                for step in STEPS:
                    with self.subTest(model=model, ranks=ranks, step=step):
                        run = f"{model}-{ranks}-{step}"
                        killed = self.command(model, ranks, run)
                        killed.wait_for_step(self.folder / run, step)
                        killed.kill_all()
                        was_saved = (self.folder / run / "snapshots/latest").exists()
                        resumed = self.ended(self.command(model, ranks, run))
                        self.assertEqual(bool(resumed["resumed_from"]), was_saved, "a save in the background may not have ended yet")
                        at = int(resumed["resumed_from"].rpartition("-")[2]) if was_saved else 0
                        self.assertLess(at, whole["steps"], "it was killed too late")
                        print(f"{run}: {'resumed' if was_saved else 'began again'} at {at} of {whole['steps']}", flush=True)
                        for key in ("weights_digest", "sample_digest", "steps"):
                            self.assertEqual(resumed[key], whole[key], key)
                        resumes += was_saved
        print(f"resumed {resumes} times", flush=True)


if __name__ == "__main__":
    harness.main()
