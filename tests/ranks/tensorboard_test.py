#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real TensorBoard reads back what a run logged: left alone, killed, and resumed. LOCKSTEP_PEER_PYTHON has it."""
import json
import os
import signal
import struct
import subprocess
import sys

import harness

PEER = os.environ.get("LOCKSTEP_PEER_PYTHON", sys.executable)
READ_BACK = harness.SOURCE / "tests/tensorboard/read_back.py"
SETTINGS = ("model.hidden=[32]", "trainer.max_epochs=4", "observe.log_every=5", "snapshot.every_steps=7")
STEPS = 4 * 29


def single(value):
    """As float32, in which TensorBoard keeps scalars."""
    return struct.unpack("f", struct.pack("f", value))[0]


class TensorBoard(harness.RanksTest):
    def curves(self, run):
        done = subprocess.run([PEER, READ_BACK, self.folder / run], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_curves(self, run, is_whole=True):
        """Each scalar of metrics.jsonl is in the event files once, in order, with its value."""
        curves = self.curves(run)
        lines = harness.metrics(self.folder / run)
        steps = [line for line in lines if line["event"] == "step" and line.get("loss") is not None]
        validations = [line for line in lines if line["event"] == "validation"]
        wanted = {"train_loss": [[line["step"], single(line["loss"])] for line in steps],
                  "learning_rate": [[line["step"], single(line["learning_rate"])] for line in steps],
                  "epoch_train_loss": [[line["step"], single(line["train_loss"])] for line in validations]}
        for name in ("val_loss", "val_accuracy"):
            wanted[name] = [[line["step"], single(line["metrics"][name])] for line in validations]
        for name, points in wanted.items():
            self.assertIn(name, curves)
            self.assertEqual(curves[name][:len(points)], points, name)
            if is_whole:
                self.assertEqual(len(curves[name]), len(points), name)
        for tag, curve in curves.items():
            places = [step for step, _ in curve]
            self.assertEqual(places, sorted(set(places)), f"{tag} overlaps itself")
        return curves

    def test_a_whole_run_a_killed_one_and_a_resumed_one(self):
        self.trained(*SETTINGS, ranks=2, run="whole")
        whole = self.check_curves("whole")
        command = self.start_train(*SETTINGS, ranks=2, run="parts")
        command.wait_for_step(self.folder / "parts", 60)
        os.kill(command.ranks()[1], signal.SIGKILL)
        command.finish()
        self.check_curves("parts", is_whole=False)
        self.trained(*SETTINGS, ranks=2, run="parts", options=("--resume", "auto"))
        parts = self.check_curves("parts")
        for tag, curve in whole.items():
            if tag != "samples_per_second":
                self.assertEqual(parts[tag], curve, tag)


if __name__ == "__main__":
    if subprocess.run([PEER, "-c", "import tensorboard"], capture_output=True, check=False).returncode != 0:
        print(f"skipped: {PEER} has no tensorboard; set LOCKSTEP_PEER_PYTHON")
        sys.exit(harness.SKIPPED)
    harness.main()
