#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A class with training_step, validation_step and configure_optimizers trains as Lightning's own Trainer trains it, step by step and metric by
metric; what has no counterpart ends the run with its exit code, the fact and the way out."""
import os
import sys
import json

from python_models import HERE, NETS, PythonModelsTest, harness, main, peer_json, peer_losses

STEPPING, LIGHTNING = HERE / "stepping.py", HERE / "stepping_lightning.py"
BATCH = 200  # 8 steps an epoch, so that 50 steps are more than six epochs.


def source_of(name):
    return LIGHTNING if name in ("Lit", "LateLayers", "LitWithHook") else STEPPING


class Steps(PythonModelsTest):
    def recipe(self, name, more="", **args):
        path = self.folder / f"recipe-{len(self.commands)}.toml"
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in args.items())
        path.write_text(f'[model]\nname = "python:{source_of(name)}:{name}"\n[model.args]\n{lines}\n[data]\nkind = "idx"\n'
                        f'path = "{harness.SOURCE}/datasets/digits"\nglobal_batch = {BATCH}\n[trainer]\nmax_steps = 50\nseed = 1\n'
                        'accelerator = "cpu"\nthreads = 1\nprecision = "fp64"\n[observe]\nlog_every = 1\n' + more)
        return path

    def lightnings(self, name, **args):
        return peer_json(HERE / "peer_lightning.py", {"object": name, "args": args, "steps": 50, "seed": 1, "global_batch": BATCH})

    def metrics_of(self, run):
        return [line["metrics"] for line in harness.metrics(self.folder / run) if line["event"] == "validation"]

    def assert_same(self, ours, theirs, delta=1e-9):
        self.assertEqual(len(ours), len(theirs))
        for step, (one, other) in enumerate(zip(ours, theirs)):
            self.assertAlmostEqual(one, other, delta=delta, msg=f"step {step}")

    def test_a_lightning_module_trains_as_under_lightnings_trainer(self):
        for args in ({"optimizer": "sgd"}, {"optimizer": "adam", "schedule": "step"}, {"optimizer": "adamw", "schedule": "onecycle"},
                     {"optimizer": "sgd", "schedule": "cosine"}, {"optimizer": "sgd", "schedule": "lambda"},
                     {"optimizer": "adamw", "schedule": "sequential"}, {"optimizer": "sgd", "schedule": "plateau"}):
            with self.subTest(**args):
                run = "-".join(args.values())
                self.trained(recipe=self.recipe("Lit", **args), ranks=1, run=run)
                theirs = self.lightnings("Lit", **args)
                self.assert_same(self.step_losses(run), theirs["losses"])
                ours = self.metrics_of(run)
                for epoch, wanted in enumerate(theirs["metrics"][:len(ours)]):
                    for name in ("val_loss", "val_acc", "train_acc", "epoch_seen", "steps_seen"):
                        self.assertAlmostEqual(ours[epoch][name], wanted[name], delta=1e-9, msg=f"{name} of epoch {epoch}")

    def test_two_ranks_lose_what_ddp_loses(self):
        for name, args in (("Lit", {"optimizer": "adamw", "schedule": "onecycle"}), ("Plain", {"optimizer": "adam", "schedule": "lambda"})):
            with self.subTest(name=name):
                self.trained("trainer.max_steps=50", recipe=self.recipe(name, **args), ranks=2, run=name)
                self.assert_same(self.step_losses(name), peer_losses(source=str(source_of(name)), object=name, args=args, world=2, dtype="float64",
                                                                     global_batch=BATCH, own_steps=True))

    def test_a_resumed_run_comes_out_bit_for_bit(self):
        for schedule in ("sequential", "plateau"):
            recipe = self.recipe("Lit", schedule=schedule)
            whole = self.trained(recipe=recipe, ranks=1, run=f"whole-{schedule}")
            self.trained("trainer.max_steps=27", recipe=recipe, ranks=1, run=schedule)
            resumed = self.trained(recipe=recipe, ranks=1, run=schedule)
            self.assertTrue(resumed["resumed_from"])
            self.assertEqual(resumed["weights_digest"], whole["weights_digest"], schedule)
            self.assertEqual(resumed["val_loss"], whole["val_loss"], schedule)

    def test_layers_may_be_made_late(self):
        early, late = (self.trained(recipe=self.recipe(name), ranks=1, run=name) for name in ("Lit", "LateLayers"))
        self.assertEqual(late["weights_digest"], early["weights_digest"])

    def test_a_class_without_forward_trains_and_is_evaluated(self):
        recipe = self.recipe("WithoutForward", more='[optimizer]\nname = "sgd"\nlr = 0.1\n')
        trained = self.trained("trainer.max_steps=48", recipe=recipe, ranks=2, run="run")  # Whole epochs, so the last weights are validated.
        self.assertLess(trained["val_loss"], 2)  # A guess among ten has 2.3.
        self.assertIsNone(trained["val_accuracy"])
        result = self.start("eval", self.folder / "run", "--json").finish()
        self.assertEqual(result.code, 0, result.err)
        self.assertAlmostEqual(result.object["metrics"]["val_loss"], trained["val_loss"], delta=1e-9)

    def test_hooks_that_only_watch_are_told(self):
        result = self.train("trainer.max_steps=2", recipe=self.recipe("Lit"), ranks=2)
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.err.count("Lit has on_train_epoch_end: not called"), 1)

    def refused(self, recipe, code, *words):
        result = self.train(recipe=recipe, ranks=1, run=f"run-{len(self.commands)}")
        self.assert_failed(result, code, *words)
        self.assertNotIn("bug in Lockstep", result.err)

    def test_what_configure_optimizers_may_not_ask_for(self):
        for way, *words in (("two", "returns 2 optimizers, want one", "import lockstep"),
                            ("lbfgs", "returns LBFGS, want torch.optim.SGD, Adam or AdamW"),
                            ("nothing", "returns no optimizer"),
                            ("maximize", "sets maximize = True"),
                            ("stranger", "a tensor of [3] that is no parameter of the model"),
                            ("schedulers", "returns 2 schedulers, want one", "SequentialLR"),
                            ("interval", "interval 'batch', want 'epoch' or 'step'"),
                            ("key", "has 'intervall' beside its scheduler", "did you mean 'interval'?"),
                            ("no metric", "ReduceLROnPlateau without a metric", "monitor"),
                            ("absolute", "threshold_mode='abs'"),
                            ("other", "a StepLR of another optimizer")):
            with self.subTest(way=way):
                self.refused(self.recipe("Odd", way=way), 3, "Odd.configure_optimizers() ", *words)

    def test_steps_that_the_trainer_cannot_make(self):
        self.refused(self.recipe("Odd", way="manual"), 3, "automatic_optimization = False", "import lockstep")
        self.refused(self.recipe("LitWithHook"), 3, "LitWithHook has configure_gradient_clipping: not called here", "clip_norm")
        self.refused(self.recipe("Odd", way="none"), 3, "training step 1 of epoch 0", "training_step() returns NoneType, want the loss")
        self.refused(self.recipe("Odd", way="each"), 3, "returns a tensor of [3], want the loss")
        self.refused(self.recipe("Odd", way="sum"), 3, "reduce_fx='sum'", "mean over samples")
        self.refused(self.recipe("Odd", way="vector"), 3, "gets a tensor of [3], want one number")

    def test_methods_that_only_have_the_names(self):
        self.refused(self.recipe("OfAnotherKind"), 3, "OfAnotherKind has training_step(images, labels), want (batch, batch_idx)",
                     'model.steps = "recipe"')
        result = self.train(recipe=self.recipe("WithSettings", more='[optimizer]\nname = "sgd"\nlr = 0.1\nmomentum = 0.9\n'), ranks=2, run="run")
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.err.count("WithSettings.configure_optimizers(weight_decay, learning_rate, betas, device_type) takes arguments"), 1)

    def test_one_owner_of_each_setting(self):
        for more, key, method in (('[optimizer]\nlr = 0.1\n', "optimizer.lr", "configure_optimizers"),
                                  ('[scheduler]\nname = "step"\n', "scheduler.name", "configure_optimizers"),
                                  (f'[loss]\nname = "python:{NETS}:weighted_loss"\n', "loss.name", "training_step"),
                                  (f'[metrics]\nhits = "python:{NETS}:hits"\n', "metrics.hits", "validation_step")):
            with self.subTest(key=key):
                self.refused(self.recipe("Lit", more=more), 3, f"{key} (", f"has {method}, which decides the same", 'model.steps = "recipe"')

    def test_the_recipe_may_decide_instead(self):
        recipe = self.recipe("Lit", more='[optimizer]\nname = "sgd"\nlr = 0.1\nmomentum = 0.9\n')
        self.trained("model.steps=recipe", recipe=recipe, ranks=1, run="run")
        self.assert_same(self.step_losses("run"), peer_losses(source=str(LIGHTNING), object="Lit", dtype="float64", global_batch=BATCH))


if __name__ == "__main__":
    main()
