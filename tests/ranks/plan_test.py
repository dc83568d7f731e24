#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep-train describe` counts and times, and what `lockstep plan` makes of it. Counts are exact; times are only sane."""
import json
import os
import subprocess
import tempfile
import unittest

from harness import BIN, DIGITS, HANG_S

HIDDEN, INPUT, CLASSES = 128, 64, 10


class Plan(unittest.TestCase):
    def run_json(self, *words, env=None):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-plan-"))
        done = subprocess.run([str(word) for word in words], text=True, capture_output=True, check=False, cwd=folder, timeout=HANG_S, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def describe(self, *words):
        return self.run_json(BIN / "lockstep-train", "describe", DIGITS, "--set", "trainer.threads=1", *words)

    def check_counts(self, facts):
        parameters = (INPUT + 1) * HIDDEN + (HIDDEN + 1) * CLASSES
        self.assertEqual(facts["parameters"], parameters)
        self.assertEqual((facts["weight_bytes"], facts["gradient_bytes"], facts["buffer_bytes"]), (4 * parameters, 4 * parameters, 0))
        self.assertEqual(facts["optimizer_bytes"], 2 * 4 * parameters, "Adam keeps two numbers of each weight")
        self.assertEqual([each["bytes"] for each in facts["gradients"]],
                         [4 * INPUT * HIDDEN, 4 * HIDDEN, 4 * HIDDEN * CLASSES, 4 * CLASSES])
        self.assertLess(facts["gradients"][3]["ready"], facts["gradients"][0]["ready"], "the last layer's come first")
        self.assertEqual((facts["train_samples"], facts["validation_samples"]), (1437, 360))
        for batch in facts["batches"]:
            # The forward pass has two products and the backward pass three, since the input needs no gradient.
            self.assertEqual(batch["flops"], 2 * batch["samples"] * (2 * INPUT * HIDDEN + 3 * HIDDEN * CLASSES))
            self.assertGreater(batch["activation_bytes"], 4 * batch["samples"] * HIDDEN)
            # Besides the products there are activation, log-softmax, loss and the metrics. Their number is the same for any batch.
            self.assertEqual((batch["forward_products"], batch["backward_products"]), (2, 3))
            self.assertTrue(4 < batch["forward_kernels"] < 16 and 5 <= batch["backward_kernels"] < 16, batch)
        self.assertEqual(len({batch["forward_kernels"] for batch in facts["batches"]}), 1)

    def test_counts_are_exact_and_times_are_there(self):
        facts = self.describe("--devices", "1", "--batch", "25", "--batch", "50")
        self.check_counts(facts)
        self.assertEqual([batch["samples"] for batch in facts["batches"]], [25, 50])
        for batch in facts["batches"]:
            for part in ("forward_s", "backward_s", "update_s"):
                self.assertTrue(0 < batch[part] < 1, batch)
        self.assertEqual(facts["reduces"], [])

    def test_without_timing_two_samples_are_counted(self):
        facts = self.describe("--devices", "1", "--count-only")
        self.check_counts(facts)
        self.assertEqual([(batch["samples"], batch["forward_s"]) for batch in facts["batches"]], [(2, 0)])

    def test_a_rank_has_the_threads_that_it_was_given(self):
        env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        describe = [BIN / "lockstep-train", "describe", DIGITS, "--count-only"]
        here = sorted(os.sched_getaffinity(0))

        def threads(*words, **variables):
            return self.run_json(*words, env=env | variables)["threads"]

        self.assertEqual(threads(*describe, OMP_NUM_THREADS="1"), 1)
        self.assertEqual(threads(*describe, "--set", "trainer.threads=2", OMP_NUM_THREADS="1"), 2)
        # Both programs see the same cores: all of the machine, or those that a job has.
        for cores in (here, here[:(len(here) + 1) // 2]):
            found = threads("taskset", "-c", ",".join(map(str, cores)), BIN / "lockstep", "launch", "-n", 2, "--", *describe, "--devices", 2)
            self.assertLessEqual(found, max(1, len(cores) // 2), cores)

    def test_a_plan_for_two_ranks_here_times_them_side_by_side(self):
        plan = self.run_json(BIN / "lockstep", "plan", DIGITS, "--nodes", "1", "--devices", "2", "--json", "--set", "trainer.threads=1",
                             "--cluster", "generic")
        point = plan["points"][0]
        self.assertEqual((plan["parameters"], point["ranks"], point["batch"], point["steps_per_epoch"]), (9610, 2, 25, 29))
        self.assertGreater(point["all_reduce_s"], 0)
        self.assertLessEqual(point["error"], 0.25)
        self.assertIn("measured here", " ".join(plan["sources"]))

    def test_a_plan_goes_on_from_a_run(self):
        run = self.run_json(BIN / "lockstep", "train", DIGITS, "--run-dir", self.enterContext(tempfile.TemporaryDirectory()) + "/run",
                            "--set", "trainer.max_epochs=2", "--set", "trainer.threads=1", "--json")
        plan = self.run_json(BIN / "lockstep", "plan", DIGITS, "--nodes", "1", "--devices", "1", "--json", "--cluster", "lumi-g",
                             "--measured", run["run_dir"])
        self.assertEqual(plan["basis"], "measured there")
        step_s = run["samples"] / run["samples_per_second"] / run["steps"]
        self.assertAlmostEqual(plan["points"][0]["step_s"] / step_s, 1, places=3)

    def plan_elsewhere(self, *words, code=0):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-plan-"))
        env = {name: value for name, value in os.environ.items() if not name.startswith(("CIFAR", "MNIST"))}
        done = subprocess.run([BIN / "lockstep", "plan", *words, "--nodes", "1", "--cluster", "lumi-g", "--json"], text=True,
                              capture_output=True, check=False, cwd=folder, timeout=HANG_S, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else json.loads(done.stdout.splitlines()[-1])

    def test_known_sets_are_planned_without_their_data(self):
        for recipe, train, parameters in (("mnist", 60000, None), ("cifar100", 50000, 58341028)):
            with self.subTest(recipe=recipe):
                plan = self.plan_elsewhere(recipe)
                self.assertEqual((plan["train_samples"], plan["validation_samples"]), (train, 10000))
                self.assertEqual(plan["parameters"], parameters or plan["parameters"])

    def test_other_sets_are_planned_by_the_number_of_their_samples(self):
        words = ("cifar100", "--set", "data.kind=folder", "--set", "data.path=/absent", "--set", "data.transforms=['random_crop(32, 4)']")
        self.assertIn("--samples N[,VALIDATION]", self.plan_elsewhere(*words, code=2))
        plan = self.plan_elsewhere(*words, "--samples", "7000,500")
        self.assertEqual((plan["train_samples"], plan["validation_samples"]), (7000, 500))
        self.assertIn("want one or two whole numbers", self.plan_elsewhere(*words, "--samples", "many", code=2))

    def test_a_path_that_was_typed_and_is_wrong_is_not_passed_over(self):
        self.assertIn("/absent", self.plan_elsewhere("cifar100", "--set", "data.path=/absent", code=2))


unittest.main(verbosity=2)
