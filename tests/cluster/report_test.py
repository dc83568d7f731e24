#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep report` as a person types it, on run folders that are written here. report_test.py LOCKSTEP"""
import html.parser
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
ALONE = {"meta"}


class Page(html.parser.HTMLParser):
    """Holds each tag's end against its start."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.tags, self.words = [], [], [], []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is left open" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.faults += [f"{tag} fetches {value}" for name, value in attrs if name in ("src", "href")]
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        self.words.append(data)


def lines(*objects):
    return "".join(json.dumps(each) + "\n" for each in objects)


def metrics(world, rate, has_ended=True):
    """Two epochs of ten steps of 40 samples each."""
    start = {"event": "run_started", "step": 0, "time": 100, "name": "x", "world": world, "epochs": 2, "steps_per_epoch": 10,
             "steps_total": 20, "batch": 40 // world, "global_batch": 40, "parameters": 10, "facts": {"device": "cpu"}}
    steps = [{"event": "step", "step": at, "time": 100 + at * 40 / rate, "loss": 1 / at, "samples_per_second": rate} for at in (5, 10, 15, 20)]
    end = {"event": "run_ended", "step": 20, "time": 100 + 800 / rate, "epochs": 2, "samples": 800, "stopped_by": "max_epochs",
           "seconds": 800 / rate, "samples_per_second": rate, "time_to_first_step_s": 0.1, "metrics": {"train_loss": None}}
    return lines(start, *steps, *[end][:has_ended])


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-report-")))

    def run_folder(self, name, text, is_finished=True):
        path = self.folder / "runs" / name
        path.mkdir(parents=True)
        (path / "metrics.jsonl").write_text(text)
        (path / "recipe.toml").write_text('[model]\nname = "mlp"\n[data]\nkind = "synthetic"\nsamples = 400\n')
        if is_finished:
            (path / "result.json").write_text("{}\n")
        return path

    def lockstep(self, *words):
        return subprocess.run([LOCKSTEP, *[str(word) for word in words]], text=True, capture_output=True, check=False, cwd=self.folder,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "USER": "me"})

    def told(self, *words):
        done = self.lockstep("report", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_text_of_one_run_begins_with_its_verdict(self):
        run = self.run_folder("x-1", metrics(1, 100))
        text = self.told(run)
        self.assertTrue(text.startswith("x-1: Nothing stands out: 100 % of an epoch is training"), text)
        self.assertIn("10 steps an epoch on each of 1 rank; a step takes 40 samples of each, 40 together", " ".join(text.split()))
        for same in (f"{run}/", "x-1", "runs/x-1"):  # By its name, too, as `follow` takes it.
            self.assertEqual([line for line in self.told(same).splitlines() if "  folder " not in line],
                             [line for line in text.splitlines() if "  folder " not in line])

    def test_a_run_that_goes_on_is_reported_as_far_as_it_is(self):
        run = self.run_folder("x-1", metrics(1, 100, has_ended=False) + '{"event":"st', is_finished=False)
        told = json.loads(self.told(run, "--json").splitlines()[-1])
        self.assertEqual((told["schema"], told["scaling"]), (1, None))
        one = told["runs"][0]
        self.assertEqual((one["state"], one["training"]["steps_done"]), ("no end recorded", 20))
        self.assertIsNone(one["training"]["time_to_first_step_s"])
        self.assertAlmostEqual(one["training"]["samples_per_second"], 100)

    def test_several_runs_and_a_study_are_compared(self):
        self.run_folder("study/a", metrics(1, 100))
        self.run_folder("study/b", metrics(2, 160))
        points = [{"folder": name, "nodes": 1, "sets": []} for name in ("a", "b", "not-begun")]
        (self.folder / "runs/study/study.json").write_text(json.dumps({"is_local": True, "command": "x", "points": points}))
        told = json.loads(self.told("runs/study", "--json"))
        self.assertEqual([(row["ranks"], row["speed_up"]) for row in told["scaling"]], [(1, 1), (2, 1.6)])
        self.assertEqual(told, json.loads(self.told("runs/study/a", "runs/study/b", "--json")))
        self.assertIn("DDP on 2 ranks: a step of 40 samples takes 250 ms", " ".join(self.told("runs/study").split()))

    def test_the_page_needs_nothing_else_and_closes_its_tags(self):
        run = self.run_folder("a & <b>", metrics(1, 100))
        (run / "telemetry-n.jsonl").write_text(lines(
            {"event": "warning", "node": "n", "time": 101, "code": "device-idle", "text": "<script>alert('x')</script> & \""}))
        other = self.run_folder("c", metrics(2, 150))
        self.assertEqual(self.told(run, other, "--html", "page.html"), "")
        page = Page((self.folder / "page.html").read_text())
        self.assertEqual(page.faults, [])
        self.assertNotIn("script", page.tags)
        self.assertTrue(any(each.startswith("<script>alert('x')</script> & \" (since ") for each in page.words), page.words)
        self.assertEqual([each for each in page.words if each.startswith("a & <b>")][0][:7], "a & <b>")
        self.assertGreaterEqual(page.tags.count("svg"), 5)
        self.assertNotIn("nan", (self.folder / "page.html").read_text())

    def test_errors_say_what_to_give_instead(self):
        self.run_folder("x-1", metrics(1, 100))
        (self.folder / "empty").mkdir()
        for code, fact, words in ((2, "there is no run 'x-2'", ["x-2"]), (5, "holds nothing to report", ["empty"]),
                                  (6, "no-folder/page.html", ["runs/x-1", "--html", "no-folder/page.html"]), (2, "RUN", [])):
            done = self.lockstep("report", *words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(fact, done.stderr)


if __name__ == "__main__":
    unittest.main()
