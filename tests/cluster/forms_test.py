#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `submit --dry-run` writes for packed sweeps, sessions and staged environments: forms_test.py LOCKSTEP [--update]

The scripts are kept in tests/golden/submit; --update writes them anew.
"""
import os
import tempfile
import unittest

from scripts import RECIPES, check, dry_run


class Forms(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-forms-")))

    def script(self, name, *words):
        done = dry_run(self.folder, "--run-dir", self.folder + "/run", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        check(done.stdout, self.folder, name)
        return done.stdout

    def refused(self, fact, hint, *words):
        done = dry_run(self.folder, *words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(fact, done.stderr)
        self.assertIn(hint, done.stderr)

    def test_a_packed_sweep_takes_whole_nodes_and_fills_them(self):
        text = self.script("form-pack.sbatch", str(RECIPES / "digits.toml"), "--cluster", "juwels-booster", "--account", "a",
                           "--sweep", "optimizer.lr=0.1,0.03,0.01", "--sweep", "trainer.seed=1,2", "--pack", "--chain", "3")
        self.assertEqual(text.count("#!/bin/bash"), 2, "six trials, four devices a node")
        self.assertEqual((text.count("\nstart 0"), text.count("#SBATCH --gres=gpu:4\n")), (6, 2))

    def test_trials_of_a_program_share_devices(self):
        text = self.script("form-share.sbatch", "--cluster", "lumi-g", "--account", "project_123456789", "--container", "/images/torch.sif", "--setup",
                           "$WITH_CONDA", "--sweep", "lr=1,2,3,4,5", "--pack", "--per-device", "3", "--", "python3", "train.py", "--lr", "{lr}")
        self.assertIn("#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=7\n", text, "the node's steps are those of its devices")
        self.assertIn("--cpus-per-task=2 --mem=60G --gpus-per-node=1 ", text, "a third of the device's seven cores")
        self.assertIn("\nstart 3 ", text)
        self.assertIn("\nstart 2 ", text)

    def test_a_session_is_a_shell(self):
        self.script("form-shell.session", "--interactive", "--cluster", "frontier", "--account", "a", "--nodes", "2")

    def test_a_session_is_a_notebook_in_a_container(self):
        self.script("form-jupyter.session", "--interactive", "--cluster", "lumi-g", "--account", "a", "--container", "/images/torch.sif",
                    "--setup", "$WITH_CONDA", "--", "jupyter", "lab")

    def test_an_environment_is_staged(self):
        text = self.script("form-stage.sbatch", "--stage", "/ccs/proj/abc/env", "--cluster", "frontier", "--account", "a",
                           "--nodes", "2", "--", "/ccs/proj/abc/env/bin/python", "train.py")
        self.assertIn("program=python\n", text)
        self.assertIn("#SBATCH --constraint=nvme\n", text)

    def test_a_program_is_told_before_its_time_is_up(self):
        self.script("form-signal.sbatch", "--cluster", "lumi-g", "--account", "project_123456789", "--time", "2:00:00",
                    "--signal", "SIGUSR2@120", "--container", "none", "--", "python3", "train.py")

    def test_a_program_is_started_again_within_its_job(self):
        text = self.script("form-restarts.sbatch", "--cluster", "juwels-booster", "--account", "a", "--nodes", "4", "--chain", "2", "--restarts", "3",
                           "--", "python3", "train.py")
        self.assertIn("#SBATCH --no-kill\n", text)

    def test_data_are_staged_and_shown_in_a_container(self):
        text = self.script("form-data.sbatch", "--stage-data", "/p/my data:/data", "--cluster", "frontier", "--account", "a", "--container",
                           "/images/torch.sif", "--nodes", "2", "--", "python3", "train.py")
        self.assertIn('-B "$LOCKSTEP_DATA_HERE:/data"', text)
        self.assertIn("#SBATCH --constraint=nvme\n", text)

    def test_what_does_not_go_together_is_refused(self):
        self.refused("--pack places the trials of a sweep", "--sweep optimizer.lr=0.1,0.01 --pack", str(RECIPES / "digits.toml"), "--pack")
        self.refused("knows no devices of a node", "--tasks-per-node N", str(RECIPES / "digits.toml"), "--pack", "--sweep", "trainer.seed=1,2")
        self.refused("--nodes is 2, but packed trials", "leave --nodes out", str(RECIPES / "digits.toml"), "--pack", "--devices", "2", "--nodes", "2",
                     "--sweep", "trainer.seed=1,2")
        sweep = ("--sweep", "trainer.seed=1,2", str(RECIPES / "digits.toml"))
        self.refused("without --pack each trial has a job", "--pack --per-device 2", *sweep, "--per-device", "2")
        self.refused("--per-device is 0, want 1", "trials that share a device", *sweep, "--pack", "--per-device", "0")
        self.refused("the trials have no devices to share", "--tasks-per-node N", *sweep, "--pack", "--per-device", "2", "--devices", "0",
                     "--tasks-per-node", "2")
        self.refused("--interactive takes no recipe", "srun lockstep train RECIPE", str(RECIPES / "digits.toml"), "--interactive")
        for flags, fact in ((("--signal", "USR1"), "--signal is 'USR1', want a signal and seconds, NAME@S"),
                            (("--signal", "KILL@60"), "want USR1, USR2, TERM, INT or HUP before the @"),
                            (("--time", "00:01:00", "--signal", "USR1@60"), "is before its begin"),
                            (("--requeue", "maybe"), "--requeue is 'maybe', want yes or no"),
                            (("--restarts", "-1"), "--restarts is -1, want 0 or more"),
                            (("--requeue", "no", "--chain", "2"), "--chain is 2, but with --requeue no")):
            self.refused(fact, "hint: ", *flags, "--", "true")
        self.refused("--sbatch=--signal=USR1@60: job.sh waits", "give it as --signal NAME@S", "--sbatch=--signal=USR1@60", "--", "true")
        self.refused("--signal tells a program", "a recipe goes by the clock", str(RECIPES / "digits.toml"), "--signal", "USR1@60")
        self.refused("--spares is 1, but packed trials", "leave out --pack", "--pack", "--sweep", "lr=1,2", "--spares", "1", "--", "true", "{lr}")
        self.refused("--spares is 1, but --nodes is a range", "leave out one of them", "--nodes", "1-2", "--spares", "1", "--", "true")
        self.refused("--restarts is 1, but packed trials", "leave out --pack", "--pack", "--sweep", "lr=1,2", "--restarts", "1", "--", "true", "{lr}")
        self.refused("packed trials of a program are not warned", "leave out --pack", "--pack", "--sweep", "lr=1,2", "--signal", "USR1@60", "--", "true", "{lr}")
        self.refused("there is no folder '/no/data'", "the folder that holds the data", "--stage-data", "/no/data", "--", "true")
        self.refused("names '/data' in a container, but the job has none", "under $LOCKSTEP_DATA", "--stage-data", "/usr/bin:/data", "--", "true")
        self.refused("'data' is not an absolute path", "DIR:/INSIDE", "--stage-data", "/usr/bin:data", "--", "true")
        self.refused("data.path '/x' does not lie in '/usr/bin'", "one above it", str(RECIPES / "mnist.toml"), "--set", "data.path=/x", "--stage-data",
                     "/usr/bin")
        self.refused("there is no folder '/no/env'", "a venv by its folder", "--stage", "/no/env", "--", "true")
        self.refused("is neither a venv", "name the environment's own folder", "--stage", "/usr", "--", "true")
        self.refused("--stage lockstep takes the training half along", "--stage DIR", "--stage", "lockstep", "--", "true")


if __name__ == "__main__":
    unittest.main(verbosity=2)
