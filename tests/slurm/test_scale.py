#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep scale` under a real Slurm: submits a study, waits for it, and its table is what the runs' own records say."""
import csv
import json
import os
import pathlib
import re
import unittest
import xml.etree.ElementTree

import bed as test_bed

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKSTEP = str(pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin")) / "lockstep")
SHORT = [str(ROOT / "recipes/digits.toml"), "--devices", "0", "--tasks-per-node", "2", "--time", "00:05:00",
         "--set", "trainer.max_epochs=2", "--set", "data.global_batch=48"]


def lines_of(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


class Scale(test_bed.BedTest):
    program = LOCKSTEP

    def scale(self, *words, **more):
        return self.lockstep("scale", *words, **more)

    def jobs(self, text):
        return re.findall(r"job (\d+): ", text)

    def check_against_records(self, rows):
        """Each row's figures, worked out again from its run's metrics.jsonl and result.json."""
        first = None
        for row in rows:
            run_dir = pathlib.Path(row["run_dir"])
            lines = lines_of(run_dir)
            started = next(line for line in lines if line["event"] == "run_started")
            ended = next(line for line in lines if line["event"] == "run_ended")
            result = json.loads((run_dir / "result.json").read_text())
            layout = json.loads((run_dir / "layout.json").read_text())
            self.assertEqual((row["nodes"], row["ranks"]), (layout["nodes"], result["world"]))
            self.assertEqual((row["steps"], row["batch"]), (result["steps"], started["batch"]))
            self.assertAlmostEqual(row["epoch_s"], ended["seconds"] / result["epochs"], places=9)
            self.assertAlmostEqual(row["samples_per_second"], result["samples_per_second"], places=6)
            self.assertAlmostEqual(row["step_s"], result["samples"] / result["samples_per_second"] / result["steps"], places=9)
            self.assertAlmostEqual(row["run_s"], ended["seconds"] + result["time_to_first_step_s"], places=9)
            self.assertAlmostEqual(row["node_hours"], row["run_s"] * layout["nodes"] / 3600, places=9)
            validation = sum(line["seconds"] for line in lines if line["event"] == "validation") / result["epochs"]
            self.assertAlmostEqual(row["phases_s"]["validation"], validation, places=9)
            self.assertAlmostEqual(sum(row["phases_s"].values()), row["epoch_s"], places=9)
            first = first or row
            self.assertAlmostEqual(row["speed_up"], first["epoch_s"] / row["epoch_s"], places=9)
            self.assertAlmostEqual(row["efficiency"], row["speed_up"] * first["ranks"] / row["ranks"], places=9)

    def test_a_program_is_timed_on_numbers_of_nodes(self):
        # Each rank takes one second, whatever the number of ranks. If {way} says so, it takes half a second.
        command = ["--nodes", "1,2", "--tasks-per-node", "2", "--devices", "0", "--vary", "way=1,0.5", "--study-dir", "study", "--json", "--",
                   "sleep", "{way}"]
        done = self.scale(*command)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([(row["nodes"], row["ranks"], row["varied"], row["is_program"]) for row in rows],
                         [(1, 2, "way=1", True), (2, 4, "way=1", True), (1, 2, "way=0.5", True), (2, 4, "way=0.5", True)])
        for row in rows:
            slept = float(row["varied"].split("=")[1])
            # The time begins at the agent's first sample, some milliseconds after the start of the program.
            self.assertTrue(slept - 0.2 <= row["run_s"] < slept + 30, row)
            self.assertAlmostEqual(row["billed_hours"], row["run_s"] * row["nodes"] / 3600)
        self.assertRegex((self.folder / "study/scaling.md").read_text(), r"\| varied \| nodes \| ranks \| time \(\w+\) \| speed-up \|")
        self.assertEqual(self.jobs(self.scale(*command).stderr), [], "what has finished is not run again")
        self.assertIn("Side by side", self.lockstep("report", "study").stdout)

    def test_a_program_that_fails_is_named(self):
        done = self.scale("--nodes", "1,2", "--study-dir", "study", "--", "sh", "-c", "[ $SLURM_NNODES = 1 ] || exit 3", code=4)
        self.assertIn("the run on 2 nodes failed", done.stderr)
        self.assertIn("| 1 | 1 |", done.stdout)

    def test_one_two_and_four_nodes_make_the_table(self):
        done = self.scale(*SHORT, "--nodes", "1,2,4", "--study-dir", "study", "--json")
        self.assertEqual(len(self.jobs(done.stderr)), 3, done.stderr)
        self.assertIn("3 of 3 finished", done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([(row["nodes"], row["ranks"]) for row in rows], [(1, 2), (2, 4), (4, 8)])
        self.check_against_records(rows)
        study = self.folder / "study"
        self.assertEqual(json.loads((study / "scaling.json").read_text())["rows"], rows)
        with (study / "scaling.csv").open(newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual([each["ranks"] for each in table], ["2", "4", "8"])
        self.assertEqual(float(table[1]["speed-up"]), round(rows[1]["speed_up"], 2))
        self.assertRegex((study / "scaling.md").read_text(), r"\| nodes \| ranks \| batch \| step \(\w+\) \| time per epoch \(\w+\) \|")
        xml.etree.ElementTree.parse(study / "scaling.svg")

        again = self.scale(*SHORT, "--nodes", "1,2,4", "--study-dir", "study", "--json")
        self.assertEqual(self.jobs(again.stderr), [], "nothing is submitted twice")
        self.assertEqual(json.loads(again.stdout)["rows"], rows)

    def test_a_study_is_left_and_taken_up_again_by_its_folder(self):
        done = self.scale(*SHORT, "--nodes", "1", "--vary", "model.hidden=[16],[64]", "--study-dir", "later", "--no-wait")
        self.assertEqual(len(self.jobs(done.stderr)), 2, done.stderr)
        rows = json.loads(self.scale("later", "--json").stdout)["rows"]
        self.assertEqual([row["varied"] for row in rows], ["model.hidden=[16]", "model.hidden=[64]"])
        self.check_against_records(rows[:1])

    def test_a_run_that_fails_is_named_with_its_log(self):
        done = self.scale(*SHORT, "--nodes", "1", "--study-dir", "broken", "--set", "data.path=/no/such/folder", code=4,
                          LOCKSTEP_DOCTOR="off")
        self.assertIn("the run on 1 node ended without a result", done.stderr)
        self.assertIn("broken/01-nodes-1/logs/job.log", done.stderr)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
