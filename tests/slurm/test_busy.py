#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Slurm's controller that does not answer for a while: test_busy.py LOCKSTEP"""
import os
import pathlib
import signal
import sys
import unittest

import bed as test_bed

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())


class Busy(test_bed.BedTest):
    program = LOCKSTEP
    shape = {"nodes": 1, "cores": 2, "gpus": 0, "task_plugin": "task/none"}

    def with_busy_controller(self, act, *words):
        """Submits a job that makes the file `here`. Then the controller is stopped, until Slurm's tools have given up once after act()."""
        job = self.job(*words)
        self.until((self.folder / "here").exists, "the job does not come to the place where it is awaited")
        controller = int((self.bed.folder / "slurmctld.pid").read_text())
        os.kill(controller, signal.SIGSTOP)
        try:
            act()
            self.until(lambda: "Socket timed out" in self.log(), "Slurm answers though its controller is stopped")
        finally:
            os.kill(controller, signal.SIGCONT)
        return self.state(job)

    def test_a_step_is_started_again(self):
        go_on = self.folder / "go-on"
        wait = f"touch {self.folder}/here; until [ -e {go_on} ]; do sleep 0.05; done"
        state = self.with_busy_controller(go_on.touch, "--setup-once", wait, "--", "sh", "-c", "echo done")
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "0"), self.log())
        self.assertIn("Unable to confirm allocation", self.log())
        self.assertEqual(self.log().count("\ndone"), 1, self.log())

    def test_ranks_are_warned(self):
        program = f"""[ -z "$SLURM_RESTART_COUNT" ] || exit 0
trap 'echo saved; exit 0' USR2
touch {self.folder}/here
while :; do sleep 600 & wait; done"""
        script = self.folder / "script"
        state = self.with_busy_controller(lambda: os.kill(int(script.read_text()), signal.SIGUSR1), "--signal", "USR2@60",
                                          "--setup-once", f"echo $$ > {script}", "--", "sh", "-c", program)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log())
        self.assertEqual(self.log().count("\nsaved"), 1, self.log())


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
