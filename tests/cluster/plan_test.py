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
        # NVIDIA's own figure for one A100, which the profile's rate comes from, is 2470 images a second.
        self.assertAlmostEqual(128 / points[0]["compute_s"] / 2470, 1, delta=0.05)
        for before, after in zip(points, points[1:]):
            self.assertLess(after["efficiency"], before["efficiency"])
            self.assertGreater(after["speed_up"], before["speed_up"])
            self.assertLessEqual(after["error"], 0.25)
        self.assertEqual((plan["billing_unit"], points[0]["billed_hours"]), ("core-hours", 48 * points[0]["node_hours"]))
        text = self.lockstep("plan", "net.toml", "--facts", FACTS, "--cluster", "juwels-booster", "--nodes", "1,4").stdout
        for part in ("parameters  25557032", "snapshot", "weights 97.5 MiB", "within 2", "juwels-booster.toml:", "core-hours"):
            self.assertIn(part, text)

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
        self.refused(6, "", "", "plan", "net.toml", *facts, "--measured", "no-run")


unittest.main(verbosity=2)
