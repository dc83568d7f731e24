#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep plan` and `scale` as a person types them, on no cluster and without the training half. plan_test.py LOCKSTEP"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/plan"
FACTS = GOLDEN / "resnet50-facts.json"


class Plan(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-plan-")))
        (self.folder / "net.toml").write_text('[model]\nname = "resnet50"\n[data]\nkind = "synthetic"\nsamples = 1281167\n'
                                              'classes = 1000\nshape = [3, 224, 224]\nbatch = 128\n[trainer]\nmax_epochs = 90\n'
                                              'precision = "bf16"\nvalidate_every = 0\n')

    def lockstep(self, *words):
        return subprocess.run([LOCKSTEP, *[str(word) for word in words]], text=True, capture_output=True, check=False, cwd=self.folder,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "USER": "me"})

    def refused(self, code, fact, hint, *words):
        done = self.lockstep(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(fact, done.stderr)
        self.assertIn(hint, done.stderr)

    def test_a_plan_for_a_supercomputer(self):
        done = self.lockstep("plan", "net.toml", "--facts", FACTS, "--cluster", "juwels-booster", "--nodes", "1,4,16,2500", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual((plan["parameters"], plan["basis"]), (25557032, "published"))
        points = plan["points"]
        self.assertEqual([point["ranks"] for point in points], [4, 16, 64, 10000])
        # NVIDIA's published figure for one A100 is 2470 images a second. The profile's rate was computed from it. That rate already includes the
        # fixed cost of kernels, so the plan counts this cost twice.
        self.assertAlmostEqual(128 / points[0]["compute_s"] / 2470, 1, delta=0.06)
        self.assertTrue(0 < points[0]["launch_s"] < 0.05 * points[0]["step_s"])
        for before, after in zip(points, points[1:]):
            self.assertLess(after["efficiency"], before["efficiency"])
            self.assertGreater(after["speed_up"], before["speed_up"])
            self.assertLessEqual(after["error"], 0.25)
        self.assertEqual((plan["billing_unit"], points[0]["billed_hours"]), ("core-hours", 48 * points[0]["node_hours"]))
        text = self.lockstep("plan", "net.toml", "--facts", FACTS, "--cluster", "juwels-booster", "--nodes", "1,4").stdout
        for part in ("parameters  25557032", "snapshot", "weights 97.5 MiB", "within 2", "juwels-booster.toml:", "core-hours"):
            self.assertIn(part, text)

    def test_small_batches_do_not_shrink_a_step_beyond_its_kernels(self):
        def step(batch, *words):
            done = self.lockstep("plan", "net.toml", "--facts", FACTS, "--cluster", "juwels-booster", "--nodes", "1", "--devices", "1",
                                 "--set", f"data.batch={batch}", "--json", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["points"][0]
        one = step(1, "--set", "trainer.graph=off")
        self.assertEqual(one["limit"], "launches")
        self.assertAlmostEqual(one["step_s"], (292 + 304 + 5) * 10e-6, delta=0.2e-3)  # 161 tensors are updated in five.
        self.assertLess(step(1)["step_s"], 0.5 * one["step_s"])

    def test_what_is_left_of_the_budget_stands_below_the_table(self):
        # A cluster that is recognized by a file of this machine, and a stub for Slurm's accounting.
        (self.folder / "bin").mkdir()
        (self.folder / "bin/sshare").write_text("#!/bin/sh\necho ' p1||node=600|node=540'\n")
        (self.folder / "bin/sshare").chmod(0o755)
        profiles = self.folder / ".config/lockstep/profiles"
        profiles.mkdir(parents=True)
        (profiles / "ours.toml").write_text('base = "juwels-booster"\n[detect]\npaths = ["/etc/passwd"]\n[slurm]\naccount = "p1"\n'
                                               'billing = "node"\nbilled_per_node = 1\n')
        done = subprocess.run([LOCKSTEP, "plan", "net.toml", "--facts", FACTS, "--nodes", "1,4"], text=True,
                              capture_output=True, check=False, cwd=self.folder,
                              env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "USER": "me"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("budget: 1 node-hours are left of p1's 10 (sshare); it does not pay the run on 1 node, 4 nodes", done.stdout)

    def test_several_runs_may_be_measured(self):
        # A step costs 1 ms for each sample and 10 ms besides. The kernels are those that `describe` counts for ResNet-50 in bf16.
        facts = json.loads(FACTS.read_text())
        for batch in facts["batches"]:
            batch.update(forward_kernels=292, forward_products=55, backward_kernels=304, backward_products=55)
        (self.folder / "facts.json").write_text(json.dumps(facts))
        for batch in (16, 64):
            run = self.folder / f"runs/b{batch}"
            run.mkdir(parents=True)
            start = {"event": "run_started", "step": 0, "time": 100, "name": "x", "world": 1, "epochs": 1, "steps_per_epoch": 10,
                     "steps_total": 10, "batch": batch, "global_batch": batch, "parameters": 10, "facts": {}}
            rate = batch / (batch * 1e-3 + 10e-3)
            end = {"event": "run_ended", "step": 10, "time": 102, "epochs": 1, "samples": 10 * batch, "stopped_by": "max_epochs", "seconds": 2,
                   "samples_per_second": rate, "time_to_first_step_s": 0.1, "metrics": {}}
            (run / "metrics.jsonl").write_text(json.dumps(start) + "\n" + json.dumps(end) + "\n")
            (run / "layout.json").write_text('{"nodes": 1, "world": 1}')
        done = self.lockstep("plan", "net.toml", "--facts", "facts.json", "--cluster", "juwels-booster", "--nodes", "1", "--devices", "1",
                             "--set", "data.batch=4", "--measured", "b16", "--measured", "runs/b64", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["points"][0]["step_s"], 14e-3, delta=0.03 * 14e-3)

    def test_a_program_is_timed_on_this_machine(self):
        done = self.lockstep("scale", "--local", "--nodes", "1,2", "--study-dir", "study", "--json", "--", "sh", "-c", "echo $LOCAL_RANK >> ranks")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(row["nodes"], row["ranks"]) for row in json.loads(done.stdout)["rows"]], [(1, 1), (1, 2)])
        self.assertEqual(sorted((self.folder / "ranks").read_text().split()), ["0", "0", "1"])
        self.refused(2, "nothing to run was given", "-- python train.py", "scale")
        self.refused(2, "'net.toml' and a program after -- were given", "leave one out", "scale", "net.toml", "--", "true")
        self.refused(2, "--set is of recipes", "", "scale", "--set", "a.b=1", "--", "true")
        self.refused(2, "'way'", "", "scale", "--local", "--vary", "way=1,2", "--", "true")

    def test_wrong_requests(self):
        facts = ("--facts", FACTS, "--cluster", "lumi-g")
        self.refused(2, "--nodes has 0, want whole numbers from 1 on", "for example --nodes 1,2,4", "plan", "net.toml", "--nodes", "0")
        self.refused(2, "unknown cluster 'lumi'", "lumi-g", "plan", "net.toml", "--cluster", "lumi")
        self.refused(3, "data.global_batch is 4, but 1 node has 8 ranks", "plan for 4 ranks at most", "plan", "net.toml", *facts,
                     "--set", "data.global_batch=4", "--nodes", "1")
        self.refused(6, "no-facts.json", "", "plan", "net.toml", "--facts", "no-facts.json")
        (self.folder / "bad.json").write_text("{}")
        self.refused(5, "bad.json does not describe a training", "`lockstep-train describe RECIPE` prints it", "plan", "net.toml",
                     "--facts", "bad.json")
        self.refused(2, "there is no run 'no-run'", "lockstep ls", "plan", "net.toml", *facts, "--measured", "no-run")


unittest.main(verbosity=2)
