#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lockstep.Lightning() and lockstep.HuggingFace(): a run that was killed or stopped ends as one that was left alone."""
import importlib
import importlib.metadata
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import pythons

pythons.with_each(__file__)
import torch  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
IMPORTS = {"lightning_train.py": "lightning", "accelerate_train.py": "accelerate", "hugging_face_train.py": "transformers.trainer"}


def has(package, version):
    try:
        return importlib.metadata.version(package).startswith(version)
    except importlib.metadata.PackageNotFoundError:
        return False


class Trainers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep trainers "))  # No fork may remove it at its exit.
        self.addCleanup(shutil.rmtree, self.folder)

    def ran(self, script, run, *words, code=0, launcher=()):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "LOCKSTEP_RUN"))} | {"CUDA_VISIBLE_DEVICES": ""}
        arguments = [str(HERE / script), str(self.folder / run), *words]
        if launcher:
            done = subprocess.run([*launcher, sys.executable, *arguments], env=env, text=True, capture_output=True, check=False, timeout=280)
            ended, said = done.returncode, done.stderr
        else:
            ended, said = self.forked(arguments, env)
        self.assertEqual(ended, code, said)
        return said

    def forked(self, arguments, env):
        """How a script ends and what it says in a fork of this process, which has imported what takes a script seconds, and never used it."""
        importlib.import_module(IMPORTS[pathlib.Path(arguments[0]).name])
        with tempfile.TemporaryFile("w+", dir=self.folder) as said:
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(said.fileno(), 2)
                os.environ.clear()
                os.environ.update(env)
                sys.argv = arguments
                pythons.become_script(arguments[0])
            ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            said.seek(0)
            return ended, said.read()

    def check_equal(self, *runs):
        weights = [torch.load(self.folder / run / "weights.pt") for run in runs]
        for each in weights[1:]:
            self.assertTrue(all(torch.equal(each[name], weights[0][name]) for name in weights[0]), runs)

    def lightning_ids(self, run):
        return {tuple(words[:2]): words[2:] for words in map(str.split, (self.folder / run / "ids.txt").read_text().splitlines())}

    def test_lightning(self):
        if not has("lightning", "2.6"):
            self.skipTest("no Lightning 2.6")
        script = "lightning_train.py"
        self.ran(script, "whole")
        self.ran(script, "killed", "kill_at=5", code=-signal.SIGKILL)
        self.assertIn("goes on from", self.ran(script, "killed"))
        self.ran(script, "stopped", "signal_at=9", code=75)
        self.assertIn("step-0000000010: epoch 1", self.ran(script, "stopped"))
        self.check_equal("whole", "killed", "stopped")
        self.assertEqual(self.lightning_ids("killed"), self.lightning_ids("whole"))
        self.assertEqual(self.lightning_ids("stopped"), self.lightning_ids("whole"))

    def test_lightning_where_an_epoch_or_a_validation_ends(self):
        if not has("lightning", "2.6"):
            self.skipTest("no Lightning 2.6")
        script = "lightning_train.py"
        for words in (["plateau=1"], ["plateau=1", "check_every=4"]):
            self.ran(script, f"whole {words}", *words)
            # Epochs have 6 steps. A run stops a step or more after its signal.
            for ends in (["signal_at=5"], ["kill_at=7"], ["signal_at=3", "signal_at=11", "kill_at=16"]):
                run = f"{ends} {words}"
                for end in ends:
                    self.ran(script, run, *words, end, code=-signal.SIGKILL if end.startswith("kill") else 75)
                self.ran(script, run, *words)
                self.check_equal(f"whole {words}", run)
                self.assertEqual(self.lightning_ids(run), self.lightning_ids(f"whole {words}"), run)

    def test_lightning_with_other_loaders(self):
        if not has("lightning", "2.6"):
            self.skipTest("no Lightning 2.6")
        script = "lightning_train.py"
        for kind in ("workers=1", "sampler=1"):
            whole, stopped = f"whole {kind}", f"stopped {kind}"
            self.ran(script, whole, kind)
            self.ran(script, stopped, kind, "signal_at=9", code=75)
            self.ran(script, stopped, kind)
            self.check_equal(whole, stopped)
            ids = self.lightning_ids(whole)
            self.assertEqual(self.lightning_ids(stopped), ids)
            epochs = [[ids[str(epoch), str(6 * epoch + step)] for step in range(6)] for epoch in range(3)]
            self.assertNotEqual(epochs[0], epochs[1], "each epoch has its own order")

    def test_a_lightning_that_is_not_known_is_stopped_and_no_more(self):
        if not has("lightning", "2.1"):
            self.skipTest("no Lightning 2.1")
        said = self.ran("lightning_train.py", "stopped", "signal_at=9", code=75)
        self.assertIn("is not 2.6", said)

    def test_accelerate(self):
        if not has("accelerate", ""):
            self.skipTest("no Accelerate")
        script = "accelerate_train.py"
        launch = (pythons.BIN / "lockstep", "launch", "-n", "2", "--")
        for number, (launcher, signal_at, words) in enumerate((((), 8, ()), (launch, 5, ()), ((), 8, ["workers=2"]))):
            if launcher and not launcher[0].exists():
                continue
            whole, stopped = f"whole-{number}", f"stopped-{number}"
            self.ran(script, whole, *words, launcher=launcher)
            self.ran(script, stopped, *words, f"signal_at={signal_at}", code=75, launcher=launcher)
            self.assertIn("goes on from", self.ran(script, stopped, *words, launcher=launcher))
            self.check_equal(whole, stopped)

    def test_hugging_face(self):
        if not has("transformers", "4."):
            self.skipTest("no transformers")
        script = "hugging_face_train.py"
        self.ran(script, "whole")
        self.ran(script, "stopped", "signal_at=7", code=75)
        newest = self.folder / "stopped/checkpoint-8"
        torn = self.folder / "stopped/checkpoint-9"
        torn.mkdir()
        (torn / "optimizer.pt").write_bytes(b"half")
        self.assertIn(f"warning: {torn} is passed over", self.ran(script, "stopped"))
        self.assertTrue((newest / "MANIFEST").is_file())
        self.ran(script, "stopped at an epoch's end", "signal_at=5", code=75)  # After the next step, which is the epoch's last one.
        self.ran(script, "stopped at an epoch's end")
        self.check_equal("whole", "stopped", "stopped at an epoch's end")


if __name__ == "__main__":
    unittest.main(verbosity=2)
