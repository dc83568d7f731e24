#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python data sets in the trainer: the same bits as the built-in reader gives, for any number of workers and ranks, resumed too;
and what is wrong with one ends the run with its exit code, the fact and the way out."""
import json
import os
import pathlib
import signal

from python_models import HERE, PythonModelsTest, harness, main

DATA = HERE / "data_sets.py"


class PythonData(PythonModelsTest):
    def recipe(self, kind, args="", model="mlp", more="", **data):
        data = {"global_batch": 50, "shuffle": True} | data
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in data.items())
        path = self.folder / f"recipe-{len(self.commands)}.toml"
        path.write_text(f'[model]\nname = "{model}"\n[data]\nkind = "{kind}"\n{lines}\n' + (f"[data.args]\n{args}\n" if args else "") +
                        '[trainer]\nmax_epochs = 3\nseed = 1\naccelerator = "cpu"\nthreads = 1\n[optimizer]\nname = "sgd"\nlr = 0.1\n' + more)
        return path

    def ended(self, recipe, *settings, ranks=1, run=None):
        return self.trained(*settings, recipe=recipe, ranks=ranks, run=run or f"run-{len(self.commands)}")

    def test_the_bits_are_those_of_the_built_in_reader(self):
        wanted = self.ended(self.recipe("idx", path=str(harness.SOURCE / "datasets/digits")))
        for form in ("array", "tensor", "dict", "pil"):
            with self.subTest(form=form):
                found = self.ended(self.recipe(f"python:{DATA}:digits", f'form = "{form}"'))
                for key in ("weights_digest", "sample_digest", "train_loss", "val_loss", "val_accuracy"):
                    self.assertEqual(found[key], wanted[key], key)

    def test_random_samples_are_the_same_whoever_reads_them_and_after_a_resume(self):
        recipe = self.recipe(f"python:{DATA}:Noisy", global_batch=8, split=0.2)
        wanted = self.ended(recipe)
        for workers in (0, 1, 4):
            found = self.ended(recipe, f"data.workers={workers}")
            self.assertEqual((found["weights_digest"], found["val_loss"]), (wanted["weights_digest"], wanted["val_loss"]), workers)
        two = self.ended(recipe, ranks=2)
        self.assertEqual(two["sample_digest"], wanted["sample_digest"])
        self.assertAlmostEqual(two["train_loss"], wanted["train_loss"], delta=1e-6)
        self.ended(recipe, "trainer.max_steps=6", run="in the middle of an epoch")
        resumed = self.ended(recipe, run="in the middle of an epoch")
        self.assertTrue(resumed["resumed_from"])
        self.assertEqual((resumed["weights_digest"], resumed["sample_digest"]), (wanted["weights_digest"], wanted["sample_digest"]))

    def test_a_number_to_predict(self):
        found = self.ended(self.recipe(f"python:{DATA}:Numbers", global_batch=10, split=6))
        self.assertLess(found["val_loss"], 1)
        self.assertIsNone(found["val_accuracy"])

    def test_a_trained_model_is_evaluated_and_predicts(self):
        recipe = self.recipe(f"python:{DATA}:digits")
        trained = self.ended(recipe, run="run")
        result = self.start("eval", self.folder / "run", "--json").finish()
        self.assertEqual(result.code, 0, result.err)
        self.assertAlmostEqual(result.object["metrics"]["val_accuracy"], trained["val_accuracy"], delta=1e-9)
        info = self.start("data", "info", recipe).finish()
        self.assertEqual(info.code, 0, info.err)
        self.assertRegex(info.out, r"10 classes")
        plan = self.start("plan", recipe, "--nodes", "1", "--json").finish()
        self.assertEqual(plan.code, 0, plan.err)

    def refused(self, name, code, *words, args="", **data):
        result = self.train(recipe=self.recipe(f"python:{DATA}:{name}", args, **({"global_batch": 8} | data)), ranks=1,
                            run=f"run-{len(self.commands)}")
        self.assert_failed(result, code, *words)
        self.assertNotIn("bug in Lockstep", result.err)

    def test_samples_that_fail_are_named(self):
        for way, code, words in (("raise", 5, ("AttributeError", "self.labels[number]", "data_sets.py", "line ")),
                                 ("shape", 5, ("its input is F32 [5], that of sample 0 is F32 [4]",)),
                                 ("class", 5, ("its class is 2, want 0 to 1",)),
                                 ("three", 5, ("a sample is a tuple of 3 values, want (input, target)",)),
                                 ("die", 4, ("the Python process that read it ended",))):
            with self.subTest(way=way):
                self.refused("Faulty", code, "sample 17 of Faulty (train)", *words, args=f'way = "{way}"')

    def test_data_sets_that_do_not_fit(self):
        self.refused("Digitz", 3, "has no class or function 'Digitz'", "did you mean 'Digits'?")
        self.refused("Noisy", 3, "does not take these [data.args]", args="sise = 3")
        self.refused("WithoutClasses", 3, "does not say how many classes there are", "`num_classes`")
        self.refused("WithoutOrder", 3, "has no length or no samples by number", "map-style", "iterable")
        result = self.start("data", "info", self.folder, "--kind", "python").finish()
        self.assert_failed(result, 2, "data.kind is 'python' without a function")
        self.refused("empty", 5, "gives an empty data set")
        self.refused("digits", 5, "KeyError", "data_sets.py", args='split = "trian"')

    def test_a_stream_is_shared_out_among_all_workers_of_all_ranks(self):
        for ranks, workers in ((1, 1), (1, 3), (2, 2)):
            with self.subTest(ranks=ranks, workers=workers):
                folder = self.folder / f"told-{ranks}-{workers}"
                folder.mkdir()
                recipe = self.recipe(f"python:{DATA}:told", f'folder = "{folder}"', workers=workers)
                recipe.write_text(recipe.read_text().replace("shuffle = true\n", ""))
                done = self.ended(recipe, "trainer.max_epochs=1", ranks=ranks)
                self.assertGreater(done["val_accuracy"], 0.5)
                # 1437 samples in batches of 50: what a worker gives beyond its part was made ahead.
                given = [int(each) for file in folder.glob("train-*") for each in file.read_text().split()]
                self.assertEqual(sorted(given), list(range(1437)))
                self.assertEqual({file.name.split("-")[3] for file in folder.glob("train-*")}, {str(ranks * workers)})

    def test_one_worker_of_one_rank_gives_the_order_of_the_stream(self):
        wanted = self.ended(self.recipe("idx", path=str(harness.SOURCE / "datasets/digits"), shuffle=False))
        found = self.ended(self.stream("Shared", workers=1))
        for key in ("weights_digest", "train_loss", "val_loss", "val_accuracy"):
            self.assertEqual(found[key], wanted[key], key)

    def stream(self, name, args="", **data):
        """A recipe without data.shuffle, which a stream does not take."""
        path = self.recipe(f"python:{DATA}:{name}", args, **data)
        path.write_text(path.read_text().replace("shuffle = true\n", ""))
        return path

    def test_a_stream_is_the_same_each_time_and_after_a_resume(self):
        recipe = self.stream("Shared", workers=2)
        wanted = self.ended(recipe, ranks=2, run="whole")
        self.assertEqual(self.ended(recipe, ranks=2, run="again")["weights_digest"], wanted["weights_digest"])
        self.ended(recipe, "trainer.max_steps=40", ranks=2, run="resumed")
        resumed = self.ended(recipe, ranks=2, run="resumed")
        self.assertTrue(resumed["resumed_from"])
        self.assertEqual((resumed["weights_digest"], resumed["val_loss"]), (wanted["weights_digest"], wanted["val_loss"]))

    def test_streams_of_other_kinds(self):
        self.assertGreater(self.ended(self.stream("ByRank", workers=2), ranks=2)["val_accuracy"], 0.6)
        self.ended(self.stream("generated", global_batch=20, samples=200))
        # Epochs of another length than the stream's: cut, or begun again.
        for samples in (100, 3000):
            self.assertEqual(self.ended(self.stream("Unmeasured", samples=samples, eval_samples=50))["samples"], 3 * samples)

    def refused_stream(self, code, *words, name="Shared", args="", ranks=1, **data):
        result = self.train(recipe=self.stream(name, args, **data), ranks=ranks, run=f"run-{len(self.commands)}")
        self.assert_failed(result, code, *words)
        self.assertNotIn("bug in Lockstep", result.err)

    def test_streams_that_do_not_fit(self):
        self.refused_stream(3, "an iterable without a length", "data.samples", name="Unmeasured")
        self.refused_stream(5, "two workers begin with the same samples", "get_worker_info()", args='way = "twice"', workers=2)
        self.refused_stream(5, "LookupError", "the shard is not there", "data_sets.py", args='way = "raise"')
        self.refused_stream(5, "gives no samples in epoch 0", args='way = "nothing"')
        self.refused_stream(5, "place 101 of the stream Shared (", "its input is U8 [1, 4, 8], that of sample 0 is U8 [1, 8, 8]",
                            args='way = "shape"', workers=1)
        self.refused_stream(4, "the Python process that read it ended", args='way = "die"', workers=1)
        self.refused_stream(3, "has no samples by number", "data.split", name="generated", samples=200, split=0.1)
        self.refused("Shared", 3, "data.shuffle (", "an order of its own")
        self.refused("Noisy", 3, "data.samples is 9, and Noisy() gives a map-style data set of 40", samples=9)

    def test_collate_functions(self):
        wanted = self.ended(self.recipe(f"python:{DATA}:digits"))
        for name, args, more in (("digits", "", {"collate": f"python:{DATA}:rows"}), ("loader", 'way = "plain"', {}),
                                 ("loader", 'way = "collate"', {})):
            found = self.ended(self.recipe(f"python:{DATA}:{name}", args, **more))
            self.assertAlmostEqual(found["val_loss"], wanted["val_loss"], delta=1e-5)
            self.assertEqual(found["sample_digest"], wanted["sample_digest"])
        noisy = self.recipe(f"python:{DATA}:digits", collate=f"python:{DATA}:noisy_rows")
        self.assertEqual(self.ended(noisy, "data.workers=1")["weights_digest"], self.ended(noisy, "data.workers=3")["weights_digest"])

    def test_collate_functions_that_do_not_fit(self):
        self.refused("digits", 3, "makes another row of a sample by itself than beside another", "pad to a fixed length",
                     collate=f"python:{DATA}:padded")
        self.refused("digits", 3, "its values differ", collate=f"python:{DATA}:mean_of_batch")
        self.refused("digits", 3, "the collate function makes int of 1 sample, want a first dimension of 1", collate=f"python:{DATA}:number_of")
        self.refused("digits", 3, "has no class or function 'rowz'", "did you mean 'rows'?", collate=f"python:{DATA}:rowz")
        self.refused("loader", 3, "a WeightedRandomSampler, want a sampler of all samples alike", args='way = "weighted"')
        self.refused("loader", 3, "without a batch size", args='way = "batches"')

    def test_a_data_set_that_cannot_be_pickled(self):
        wanted = self.ended(self.recipe("idx", path=str(harness.SOURCE / "datasets/digits")))
        found = self.ended(self.recipe(f"python:{DATA}:Unpicklable", workers=2))
        self.assertEqual(found["weights_digest"], wanted["weights_digest"])

    def test_a_data_set_whose_length_changes(self):
        length = self.folder / "length"
        length.write_text("400 400")
        recipe = self.recipe(f"python:{DATA}:Growing", f'path = "{length}"')
        self.ended(recipe, "trainer.max_steps=4", run="run")
        length.write_text("500 500")
        result = self.train(recipe=recipe, ranks=1, run="run")
        self.assert_failed(result, 5, "was trained on 400 samples, the data set has 500", "--resume none")
        length.write_text("400 500")
        result = self.train(recipe=recipe, ranks=2, run="ranks")
        self.assert_failed(result, 2, "differs between ranks: rank 0 has '400 samples', rank 1 has '500 samples'")

    def test_nothing_is_left_of_a_rank_that_is_killed(self):
        recipe = self.recipe(f"python:{DATA}:Faulty", 'way = "hang"', global_batch=8, workers=3, shuffle=False, more="[observe]\nlog_every = 1\n")
        running = self.start_train(recipe=recipe, ranks=2, run="killed")
        running.wait_for_step(self.folder / "killed", 2)  # Sample 17 is in the third batch, and hangs whoever reads it.
        servers = [pid for pid in running.members() if "data.py" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
        self.assertGreaterEqual(len(servers), 2 + 2 * 3, "a server and a process for each thread that reads, on both ranks")
        for pid in running.members():
            if pid not in servers:
                os.kill(pid, signal.SIGKILL)
        self.assertIsNotNone(running.wait_until_gone(20))


if __name__ == "__main__":
    main()
