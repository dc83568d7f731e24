#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether job.sh puts its job back into the queue: going_on_test.py LOCKSTEP

Slurm's programs are stand-ins: srun ends with a given code, squeue tells a given state, scontrol notes what it is asked for. A file
with a number makes one refuse that often, as if the controller were busy.
"""
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from scripts import RECIPES, dry_run

BUSY = """busy() {
  left=$(cat "$BUSY/$1" 2> /dev/null || echo 0)
  [ "$left" != 0 ] || return 0
  echo $((left - 1)) > "$BUSY/$1"
  exit "${SLURM_EXIT_ERROR:-1}"
}"""
STUBS = {
    "srun": 'case "$*" in *" exec "*) busy step; eval "$DURING"; exit "$CODE" ;; *) busy srun ;; esac',
    "squeue": 'case "$*" in *%T*) echo "$STATE" ;; *) exit 1 ;; esac',
    "scontrol": 'echo "$@" >> "$ASKED"; busy scontrol',
    "scancel": 'echo "scancel $*" >> "$ASKED"; busy scancel',
    "sleep": "exit",
    "sbatch": 'busy sbatch; echo sbatch >> "$ASKED"; echo 8',
}


class GoingOn(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep going on-")))
        self.run_dir, self.asked = self.folder / "run", self.folder / "asked"
        for name, text in STUBS.items():
            path = self.folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/bash\n{BUSY}\n{text}\n")
            path.chmod(0o755)

    def script(self, *words):
        with tempfile.TemporaryDirectory(prefix="lockstep-empty-") as empty:
            done = dry_run(empty, *(() if "--cluster" in words else ("--cluster", "generic")), "--run-dir", str(self.run_dir), *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_dir.mkdir()
        self.text = done.stdout

    def site(self, text):
        path = self.folder / "site.toml"
        path.write_text(f"{text}\n")
        return path

    def start(self, number, code=75, state="RUNNING", seconds=0, during="", busy=(), **env):
        """Runs the script as the job's start `number`; returns its code, and how often it asked to put the job back. `busy` has names
        of stand-ins, and how often each refuses."""
        self.asked.unlink(missing_ok=True)
        for name, times in dict(busy).items():
            (self.folder / name).write_text(str(times))
        done = subprocess.run(["bash", "-c", "export SCRIPT=$$\n" + self.text], check=False, text=True, capture_output=True, cwd=self.folder, env={
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "CODE": str(code),
            "STATE": state, "ASKED": str(self.asked), "BUSY": str(self.folder), "SECONDS": str(seconds), "DURING": during,
            "RUN": str(self.run_dir), **env,
            **({"SLURM_RESTART_COUNT": str(number - 1)} if number > 1 else {})})
        self.told, self.said = done.stdout, done.stderr
        return done.returncode, self.asked.read_text().count("requeue 7\n") if self.asked.exists() else 0

    def test_three_short_starts_in_a_row_are_enough(self):
        self.script("--", "true")
        self.assertEqual([self.start(number) for number in (1, 2, 3)], [(75, 1), (75, 1), (75, 0)])
        self.assertIn("error: the run does not go on: 3 starts in a row ended within a minute", self.said)
        self.assertEqual([self.start(number) for number in (1, 2)], [(75, 1), (75, 1)], "a person submits it again")

    def test_a_long_start_begins_the_count_anew(self):
        self.script("--", "true")
        self.assertEqual([self.start(number, seconds=60 if number == 3 else 0) for number in range(1, 7)],
                         [(75, 1)] * 5 + [(75, 0)])

    def test_a_recipe_makes_progress_with_each_snapshot(self):
        self.script(str(RECIPES / "digits.toml"))
        save = 'mkdir -p "$RUN/snapshots/step-$SLURM_RESTART_COUNT"'
        self.assertEqual([self.start(number, during=save) for number in range(1, 6)], [(75, 1)] * 5)
        self.assertEqual([self.start(number, seconds=9999) for number in (6, 7, 8)], [(75, 1), (75, 1), (75, 0)])
        self.assertIn("3 starts in a row wrote no new snapshot", self.said)

    def test_the_mark_of_a_start_that_was_cut_short_is_not_the_next_ones(self):
        self.script("--", "true")
        (self.run_dir / "again-7").touch()  # Slurm requeued the job, and ended the script before it had seen the mark.
        self.assertEqual(self.start(2, code=0), (0, 0))
        self.assertEqual(self.start(3, code=1, during='touch "$RUN/again-7"'), (75, 1), "its own mark counts")

    def test_a_job_that_is_back_in_the_queue_is_not_put_there_again(self):
        self.script("--", "true")
        for state in ("COMPLETING", "PENDING"):
            self.assertEqual(self.start(1, state=state), (75, 0), state)
        self.assertEqual(self.start(1, state=""), (75, 1), "Slurm does not answer")

    def test_a_job_that_slurm_still_signals_goes_on(self):
        self.script("--", "true")
        for state in ("SIGNALING", "RESIZING"):
            self.assertEqual(self.start(1, state=state), (75, 1), state)

    def test_a_busy_controller_is_asked_again(self):
        self.script("--", "true")
        self.assertEqual(self.start(1, busy={"scontrol": 4}), (75, 5))
        self.assertNotIn("error", self.said)
        self.assertEqual(self.start(1, busy={"scontrol": 5}), (75, 5), "the program's code, whatever Slurm says")
        self.assertIn(f"error: the run is not in the queue again: submit {self.run_dir}/job.sh once more", self.said)

    def test_a_step_that_a_busy_controller_did_not_confirm_is_started_again(self):
        self.script("--", "true")
        self.assertEqual(self.start(1, busy={"srun": 4, "step": 4}), (75, 1))
        self.assertEqual(self.start(1, busy={"srun": 5}), (4, 0))
        self.assertNotIn("was not found", self.said)
        started = 'echo >> "$RUN/started"'
        for code in (1, 199):
            self.assertEqual(self.start(1, code=code, during=started, busy={"step": 1})[0], {199: 4}.get(code, code))
        self.assertEqual(len((self.run_dir / "started").read_text()), 1 + 4, "only 199 is Slurm's own code")

    def test_ranks_are_warned_although_the_controller_is_busy(self):
        self.script("--signal", "USR2@60", "--", "true")
        self.assertEqual(self.start(1, during='kill -USR1 "$SCRIPT"', busy={"scancel": 2}), (75, 1))
        self.assertEqual(self.asked.read_text().count("scancel --signal=USR2 7\n"), 3)

    def test_a_limit_that_slurm_does_not_tell_counts_from_the_scripts_start(self):
        self.script("--time", "1:00:00", "--", "true")
        self.start(1, seconds=600, during='echo "$LOCKSTEP_JOB_END" > "$RUN/end"')
        self.assertAlmostEqual(int((self.run_dir / "end").read_text()), time.time() + 3000, delta=60)

    def test_a_persons_own_filters_are_not_the_scripts(self):
        self.script("--", "true")
        self.start(1, during='env > "$RUN/env"', SQUEUE_STATES="PENDING", SCANCEL_STATE="PENDING", SLURM_TIME_FORMAT="relative")
        self.assertNotRegex((self.run_dir / "env").read_text(), "SQUEUE_|SCANCEL_|SLURM_TIME_FORMAT")

    def test_the_next_jobs_number_is_written_once_it_is_known(self):
        self.script("--cluster", str(self.site("[sbatch]\nrequeue = false")), "--", "true")
        next_job = self.run_dir / "job.next"
        next_job.write_text("5\n")
        self.start(1, busy={"sbatch": 1})
        self.assertIn("error: the run is not in the queue again", self.said)
        self.assertEqual(next_job.read_text(), "5\n")
        self.start(1)
        self.assertEqual(next_job.read_text(), "8\n")

    def test_a_stopped_run_and_one_that_ended_well_do_not_go_on(self):
        self.script("--", "true")
        self.assertEqual(self.start(1, code=0), (0, 0))
        self.assertEqual(self.start(1, during='touch "$RUN/stop-7"'), (75, 0))

    def test_what_trackers_kept_is_named_where_nodes_have_no_internet(self):
        self.script("--cluster", str(self.site("[storage]\ninternet = false")), "--", "true")
        self.assertEqual(self.start(1, code=0), (0, 0))
        self.assertNotIn("on a login node", self.told)
        self.start(1, code=0, during='mkdir -p "$RUN"/mlruns "$RUN"/wandb/offline-run-1 "$RUN"/wandb/offline-run-2')
        for line in (f"wandb sync '{self.run_dir}/wandb/offline-run-1'", f"wandb sync '{self.run_dir}/wandb/offline-run-2'",
                     f"mlflow ui --backend-store-uri 'file:{self.run_dir}/mlruns'"):
            self.assertIn(f"== on a login node: {line}\n", self.told)

    def test_a_warned_program_goes_on_whatever_it_ends_with(self):
        self.script("--signal", "TERM@60", "--", "true")
        # The step runs in a subshell of the script. The test repeats it so often that the program's end and the shell's wait coincide.
        warn = 'kill -USR1 "$SCRIPT"'
        for _ in range(20):
            self.assertEqual(self.start(1, code=143, during=warn), (143, 1))
        self.assertEqual(self.start(1, code=0, during=warn), (0, 1))
        self.assertEqual(self.start(1, code=3), (3, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
