#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics of the user's own: means over the samples of all ranks, shown and kept as val_accuracy is."""
from python_models import NETS, PythonModelsTest, harness, main


class Metrics(PythonModelsTest):
    def recipe(self, metrics, model="mlp", more=""):
        lines = "\n".join(f'{name} = "python:{NETS}:{function}"' for name, function in metrics.items())
        path = self.folder / f"recipe-{len(self.commands)}.toml"
        path.write_text(f'[model]\nname = "{model}"\n[data]\nkind = "idx"\npath = "{harness.SOURCE}/datasets/digits"\nglobal_batch = 50\n'
                        '[trainer]\nmax_epochs = 2\nseed = 1\naccelerator = "cpu"\nthreads = 1\n[optimizer]\nname = "sgd"\nlr = 0.1\n'
                        f"[metrics]\n{lines}\n{more}")
        return path

    def last_metrics(self, run):
        return [line["metrics"] for line in harness.metrics(self.folder / run) if line["event"] == "validation"][-1]

    def test_they_are_means_over_the_samples_of_all_ranks(self):
        recipe = self.recipe({"hits": "hits", "margin": "margin", "as_class": "Margin"}, more='[snapshot]\nmonitor = "val_hits"\nmode = "max"\n')
        found = {}
        for ranks in (1, 2, 3):
            self.trained(recipe=recipe, ranks=ranks, run=f"run-{ranks}")
            found[ranks] = self.last_metrics(f"run-{ranks}")
            # 360 samples are no multiple of 3 ranks' batches, so a mean over batches or ranks would differ.
            self.assertAlmostEqual(found[ranks]["val_hits"], found[ranks]["val_accuracy"], delta=1e-12)
            self.assertEqual(found[ranks]["val_as_class"], found[ranks]["val_margin"])
        for ranks in (2, 3):
            self.assertAlmostEqual(found[ranks]["val_margin"], found[1]["val_margin"], delta=1e-4)
        shown = self.start("eval", self.folder / "run-1", "--json").finish()
        self.assertEqual(shown.code, 0, shown.err)
        self.assertAlmostEqual(shown.object["metrics"]["val_margin"], found[1]["val_margin"], delta=1e-9)

    def test_a_python_model_has_them_too(self):
        self.trained(recipe=self.recipe({"hits": "hits"}, model=f"python:{NETS}:Plain"), ranks=2, run="run")
        self.assertAlmostEqual(self.last_metrics("run")["val_hits"], self.last_metrics("run")["val_accuracy"], delta=1e-12)

    def refused(self, metrics, code, *words):
        result = self.train(recipe=self.recipe(metrics), ranks=1, run=f"run-{len(self.commands)}")
        self.assert_failed(result, code, *words)
        self.assertNotIn("bug in Lockstep", result.err)

    def test_what_is_no_metric(self):
        self.refused({"hits": "hitz"}, 3, "no class or function 'hitz'", "did you mean 'hits'?")
        self.refused({"accuracy": "hits"}, 3, "metrics.accuracy (", "would be val_accuracy, which is Lockstep's own")
        self.refused({"odd": "odd_metric"}, 3, "the model failed in", "odd_metric() returns a tensor of [", "one for each sample")


if __name__ == "__main__":
    main()
