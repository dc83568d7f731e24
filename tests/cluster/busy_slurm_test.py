#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands while Slurm does not answer each time, and with what a site has sbatch print: busy_slurm_test.py LOCKSTEP

Slurm's programs are stand-ins. `$TURN` is the number of times that squeue has been asked for the queue.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
BUSY = "{ echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2; exit 1; }"
COUNTED = """case "$*" in *--states=all*) eval "$ENDS"; exit ;; esac
echo >> "$HOME/turns"
TURN=$(wc -l < "$HOME/turns")
"""


class BusySlurm(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep busy-")))
        self.runs = self.folder / "runs"
        for name in ("bin", "runs"):
            (self.folder / name).mkdir()

    def tool(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run_of(self, name, job="7", **values):
        run = self.runs / name
        run.mkdir(parents=True)
        (run / "job.json").write_text(json.dumps({"schema": 1, "job": job, "name": name, "cluster": "generic", "command": "true", "nodes": 1,
                                                  "tasks": 1, "is_recipe": False, "time_s": 60, "submitted": 1, "packed_in": ""} | values))
        return run

    def lockstep(self, *words, code=0, **variables):
        done = subprocess.run([LOCKSTEP, *words], text=True, capture_output=True, check=False, cwd=self.folder, timeout=100, env={
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), "USER": "me", "LOCKSTEP_RUNS": str(self.runs)} | variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_follow_asks_again_and_exits_with_the_programs_code(self):
        run = self.run_of("mine")
        end = json.dumps({"job": "7", "start": 0, "code": 5, "time": 1})
        self.tool("squeue", COUNTED + f"""case $TURN in
          1) echo '7|RUNNING|None|N/A'; echo '{end}' >> '{run}/exits.jsonl' ;;
          2 | 3) {BUSY} ;;
        esac""")
        done = self.lockstep("follow", str(run), code=5)
        self.assertEqual(done.stderr.count("warning: squeue does not answer: slurm_load_jobs error: Socket timed out"), 1, done.stderr)

    def test_follow_does_not_take_an_end_that_nothing_tells_for_a_good_one(self):
        run = self.run_of("mine")
        self.tool("squeue", COUNTED + "[ $TURN -gt 1 ] || echo '7|COMPLETING|None|N/A'")
        self.tool("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
        # Without a place for Slurm's answer each question is asked.
        done = self.lockstep("follow", str(run), code=4, LOCKSTEP_CACHE="/dev/null/none")
        self.assertIn("job 7: completing\n", done.stderr)
        self.assertIn("job 7 is not in the queue any more, and nothing says how it ended", done.stderr)
        self.assertRegex(self.lockstep("ls").stdout, r"(?m)^7 +unknown ")
        (run / "result.json").write_text("{}")
        self.lockstep("follow", str(run))

    def test_follow_fails_if_slurm_never_answers(self):
        run = self.run_of("mine")
        self.tool("squeue", BUSY)
        self.assertIn("hint: ask from a login node", self.lockstep("follow", str(run), code=4).stderr)

    def test_scale_asks_again(self):
        study = self.runs / "study"
        run = self.run_of("study/01-nodes-1")
        (study / "study.json").write_text(json.dumps({"schema": 1, "is_local": False, "is_program": True, "command": "lockstep scale",
                                                      "points": [{"folder": "01-nodes-1", "nodes": 1, "sets": []}]}))
        end = json.dumps({"job": "7", "start": 0, "code": 0, "time": 1})
        self.tool("squeue", COUNTED + f"""case $TURN in
          1) echo '7|RUNNING|None|N/A' ;;
          2) {BUSY} ;;
          *) echo '{end}' >> '{run}/exits.jsonl' ;;
        esac""")
        # Without a place for Slurm's answer each question is asked.
        done = self.lockstep("scale", str(study), LOCKSTEP_CACHE="/dev/null/none")
        self.assertIn("warning: squeue does not answer", done.stderr)
        self.assertIn("1 of 1 finished", done.stderr)

    def test_ls_does_not_take_an_unknown_run_for_an_ended_one(self):
        runs = {name: self.run_of(name, job) for name, job in (("lives", "7"), ("failed", "8"), ("finished", "9"))}
        (runs["failed"] / "exits.jsonl").write_text(json.dumps({"job": "8", "start": 0, "code": 3, "time": 1}) + "\n")
        (runs["finished"] / "result.json").write_text("{}")
        self.tool("squeue", COUNTED + BUSY)
        self.tool("sacct", "echo asked >> \"$HOME/asked\"; echo '7|TIMEOUT|0:0'")
        listed = json.loads(self.lockstep("ls", "--json", ENDS="echo '7 CANCELLED 15'").stdout)["runs"]
        self.assertEqual({pathlib.Path(run["run_dir"]).name: (run["state"], run["exit_code"]) for run in listed},
                         {"lives": ("unknown", None), "failed": ("failed", 3), "finished": ("finished", None)})
        self.assertFalse((runs["lives"] / "exits.jsonl").exists(), "no end is learned while the queue is unknown")
        self.assertFalse((self.folder / "asked").exists())
        self.assertRegex(self.lockstep("ls").stdout, r"(?m)^7 +unknown ")

    def test_an_answer_is_kept_but_not_that_a_job_is_ending(self):
        self.run_of("mine")
        self.tool("sacct", "exit 1")
        for state, then in ("RUNNING", "running"), ("COMPLETING", "unknown"):
            (self.folder / "turns").unlink(missing_ok=True)
            self.tool("squeue", COUNTED + f"[ $TURN -gt 1 ] || echo '7|{state}|None|N/A'")
            self.assertRegex(self.lockstep("ls", LOCKSTEP_CACHE=str(self.folder / state)).stdout, rf"(?m)^7 +{state.lower()} ")
            self.assertRegex(self.lockstep("ls", LOCKSTEP_CACHE=str(self.folder / state)).stdout, rf"(?m)^7 +{then} ")

    def test_ls_shows_a_job_that_squeue_lists_as_failed(self):
        self.run_of("mine")
        self.tool("squeue", "echo '7|FAILED|NonZeroExitCode|N/A'")
        self.assertRegex(self.lockstep("ls").stdout, r"(?m)^7 +failed  ")

    def test_monitor_does_not_take_a_waiting_run_for_an_ended_one(self):
        self.run_of("mine")
        self.tool("squeue", BUSY)
        self.assertEqual(json.loads(self.lockstep("monitor", "mine", "--json").stdout)["state"], "unknown")

    def test_the_users_own_filters_hide_no_job(self):
        self.run_of("mine")
        self.tool("squeue", "[ -n \"$SQUEUE_STATES$SQUEUE_FORMAT\" ] || echo '7|RUNNING|None|N/A'")
        self.assertRegex(self.lockstep("ls", SQUEUE_STATES="PENDING", SQUEUE_FORMAT="%i").stdout, r"(?m)^7 +running ")

    def test_a_live_check_waits_while_slurm_is_busy(self):
        self.tool("sbatch", "echo 7")
        look = f"RANK=0 '{LOCKSTEP}' profile node --into-run"
        self.tool("squeue", COUNTED + f"""if [ "$TURN" = 2 ]; then
          for run in "$LOCKSTEP_RUNS"/profile-check*; do (sleep 1; LOCKSTEP_RUN_DIR=$run {look}) > /dev/null 2>&1 & done
        fi
        {BUSY}""")
        profile = self.folder / "anywhere.toml"  # Whatever networks this machine has.
        profile.write_text('base = "generic"\n[network]\ninterfaces = []\n')
        done = self.lockstep("profile", "check", profile, "--live")
        self.assertIn("warning: squeue does not answer; asks again", done.stderr)

    def submit(self, *words, code=0, **variables):
        done = self.lockstep("submit", "--cluster", "generic", *words, "--", "true", code=code, **variables)
        return done, [path for path in self.runs.iterdir() if path.is_dir()]

    def test_a_job_that_may_be_queued_keeps_its_folder(self):
        for reason in ("Batch job submission failed: Socket timed out on send/recv operation",
                       "Batch job submission failed: Unable to contact slurm controller (connect failure)"):
            self.tool("sbatch", f"echo 'sbatch: error: {reason}' >&2; exit 1")
            for words in ((), ("--run-dir", str(self.runs / "mine"))):
                done, runs = self.submit(*words, code=4)
                self.assertIn("error: sbatch got no answer, and the job may be queued", done.stderr)
                self.assertIn("squeue --me --name=true", done.stderr)
                self.assertEqual([(run / "job.sh").exists() for run in runs], [True], done.stderr)
                subprocess.run(["rm", "-r", *runs], check=True)

    def test_a_job_that_is_refused_leaves_no_folder(self):
        self.tool("sbatch", "echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1")
        self.assertEqual(self.submit(code=4)[1], [])

    def test_the_number_stands_on_the_last_line_that_is_one(self):
        self.tool("sbatch", "echo 'Welcome to 2026'; echo 1; echo '4711;big'; echo 'Have a nice day'")
        _, (run,) = self.submit()
        self.assertEqual(json.loads((run / "job.json").read_text())["job"], "4711")
        (run / "job.next").write_text("Welcome to 2026\n4712;big\nHave a nice day\n")
        self.tool("squeue", "echo '4712|RUNNING|None|N/A'")
        self.assertRegex(self.lockstep("ls").stdout, r"(?m)^4712 +running ")

    def test_without_a_number_the_folder_stays(self):
        self.tool("sbatch", "echo 'Welcome to 2026'")
        done, runs = self.submit(code=4)
        self.assertIn("sbatch said 'Welcome to 2026', want a job's number", done.stderr)
        self.assertIn("squeue --me --name=true", done.stderr)
        self.assertEqual(len(runs), 1)

    def test_a_sweep_notes_which_trials_share_a_step(self):
        self.tool("sbatch", "echo 7")
        done = self.lockstep("submit", "--cluster", "generic", "--devices", "1", "--sweep", "lr=1,2,3", "--pack", "--per-device", "2", "--run-dir",
                             str(self.runs / "sweep"), "--json", "--", "true", "{lr}")
        trials = [trial for job in json.loads(done.stdout)["jobs"] for trial in job["trials"]]
        names = [pathlib.Path(trial).name for trial in trials]
        steps = [json.loads((pathlib.Path(trial) / "job.json").read_text())["step"] for trial in trials]
        self.assertEqual(steps, [names[0], names[0], names[2]])

    def test_another_cluster_is_named_in_the_environment(self):
        done, runs = self.submit("--sbatch=--clusters=big", code=2)
        self.assertIn("hint: export SLURM_CLUSTERS=X", done.stderr)
        self.assertEqual(runs, [])
        done, runs = self.submit(code=2, SBATCH_CLUSTERS="big")
        self.assertIn("hint: export SLURM_CLUSTERS instead", done.stderr)
        self.assertEqual(runs, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
