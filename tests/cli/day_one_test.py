#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each page of docs/day-one, held against the program: its commands are taken, and its batch lines are what submit writes.

day_one_test.py LOCKSTEP
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = pathlib.Path(sys.argv.pop(1)).resolve()
PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs/day-one"
SITES = {"lumi": "lumi-g", "frontier": "frontier", "juwels-booster": "juwels-booster", "leonardo": "leonardo",
         "perlmutter": "perlmutter", "cruk-ci": "crukci-rocm"}


def commands(page):
    """The words of each lockstep command of a page, without the comment behind it."""
    text = (PAGES / f"{page}.md").read_text()
    for line in re.findall(r"^    (?:login)?\$ (lockstep .*)$", text, re.MULTILINE):
        yield shlex.split(re.sub(r"  +#.*", "", line).replace("$USER", "me"))[1:]


class DayOne(unittest.TestCase):
    def run_in_new_folder(self, words):
        with tempfile.TemporaryDirectory() as folder:
            env = {"PATH": os.environ["PATH"], "HOME": folder, "USER": "me", "SCRATCH": f"{folder}/scratch", "WORK": folder}
            return subprocess.run([LOCKSTEP, *words], cwd=folder, env=env, text=True, capture_output=True, check=False)

    def test_each_site_has_a_page_and_each_page_a_site(self):
        pages = {path.stem for path in PAGES.glob("*.md")} - {"your-cluster", "symptoms"}
        self.assertEqual(pages, set(SITES))

    def test_submit_takes_each_line_and_writes_what_the_page_shows(self):
        for page, profile in SITES.items():
            shown = re.findall(r"^    (#SBATCH .*)$", (PAGES / f"{page}.md").read_text(), re.MULTILINE)
            self.assertGreater(len(shown), 3, page)
            lines = [words for words in commands(page) if words[0] == "submit"]
            self.assertGreaterEqual(len(lines), 2, page)
            for words in lines:
                dry = [words[0], "--cluster", profile, *([] if "--dry-run" in words else ["--dry-run"]), *words[1:]]
                done = self.run_in_new_folder(dry)
                with self.subTest(page=page, words=" ".join(words)):
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if "train.py" in words:
                        self.assertEqual([line for line in shown if line not in done.stdout.splitlines()], [])

    def test_a_page_says_what_submit_says_of_the_cost(self):
        for page, profile in SITES.items():
            cost, = re.findall(r"^    (lockstep: a job costs .*)$", (PAGES / f"{page}.md").read_text(), re.MULTILINE)
            words = next(words for words in commands(page) if "--dry-run" in words)
            self.assertIn(cost, self.run_in_new_folder([words[0], "--cluster", profile, *words[1:]]).stderr.splitlines())

    def test_each_command_and_flag_exists(self):
        helps = {}
        for page in [*SITES, "your-cluster", "symptoms"]:
            for words in commands(page):
                own = words[:words.index("--")] if "--" in words else words
                name = own[0]
                known = helps.setdefault(name, self.run_in_new_folder([name, "--help"]).stdout)
                self.assertIn("Usage: lockstep " + name, known)
                for flag in [word.split("=")[0] for word in own[1:] if word.startswith("--")]:
                    if name != "profile":  # Its subcommands have the flags.
                        self.assertRegex(known, rf"(?<![\w-]){flag}(?![\w-])", f"{page}: lockstep {' '.join(words)}")


unittest.main(verbosity=2)
