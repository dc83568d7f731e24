#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report's page in a real Chromium at three widths: nothing reaches over its right edge. page_width_test.py LOCKSTEP

LOCKSTEP_CHROMIUM names the browser; else the first of the usual names in PATH. Without one it ends with 77.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
CHROMIUM = os.environ.get("LOCKSTEP_CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (500, 900, 1600)  # A headless Chromium is never narrower than 500.
# Finds elements that are wider than the window, except those that scroll in a box of their own. The page itself has no script.
MEASURE = """<script>
const inside = e => e.closest('.table') && !e.classList.contains('table');
const wide = [...document.querySelectorAll('body *')].filter(e => !inside(e) && e.getBoundingClientRect().right > innerWidth + 0.5);
document.title = JSON.stringify({width: document.documentElement.clientWidth, page: document.documentElement.scrollWidth,
                                 wide: wide.map(e => e.tagName + ': ' + e.textContent.slice(0, 60))});
</script>"""
LONG = "/scratch/project_465000001/someone/a-folder-whose-name-nobody-would-type/" * 3


def lines(*objects):
    return "".join(json.dumps(each) + "\n" for each in objects)


class PageWidth(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep page-")))
        run = self.folder / "runs" / ("a-run-with-a-name-that-is-long-" * 5)
        run.mkdir(parents=True)
        metrics = [{"event": "run_started", "step": 0, "time": 100, "name": "x", "world": 1, "epochs": 2, "steps_per_epoch": 10, "steps_total": 20,
                    "batch": 40, "global_batch": 40, "parameters": 10, "facts": {"device": "cpu", "path": LONG}}]
        metrics += [{"event": "step", "step": at, "time": 100 + at, "loss": 1 / at, "samples_per_second": 40} for at in (5, 10, 15, 20)]
        (run / "metrics.jsonl").write_text(lines(*metrics))
        start = {"event": "agent_start", "node": "n1", "time": 100, "tasks": 1, "devices": 4}
        warning = {"event": "warning", "node": "n1", "time": 101, "code": "device-idle",
                   "text": f"nobody used the devices of {LONG}\n  hint: see whether the program uses them: {LONG}"}
        (run / "telemetry-n1.jsonl").write_text(lines(start, warning))
        page = subprocess.run([LOCKSTEP, "report", run, "--html", "page.html"], text=True, capture_output=True, check=False, cwd=self.folder,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "USER": "me"})
        self.assertEqual(page.returncode, 0, page.stderr)
        text = (self.folder / "page.html").read_text()
        self.assertIn("nobody used the devices", text)
        (self.folder / "page.html").write_text(text.replace("</body>", MEASURE + "</body>"))

    def test_nothing_reaches_over_the_right_edge(self):
        for width in WIDTHS:
            with self.subTest(width):
                shown = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/profile",
                                        f"--window-size={width},900", "--dump-dom", (self.folder / "page.html").as_uri()],
                                       text=True, capture_output=True, check=True, timeout=120).stdout
                found = json.loads(re.search(r"<title>(.*?)</title>", shown).group(1).replace("&quot;", '"').replace("&amp;", "&"))
                self.assertEqual((found["page"], found["wide"]), (found["width"], []))


if not CHROMIUM:
    print("skipped: no Chromium here (apt-get install chromium, or LOCKSTEP_CHROMIUM=PATH)")
    sys.exit(77)
unittest.main(verbosity=2)
