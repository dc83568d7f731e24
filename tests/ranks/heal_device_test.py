#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on pretended devices are healed where trainer.heal is on, with the bits of a run that was left alone. tests/programs/device_training.cc
says how the devices behave. LOCKSTEP_HEAL_SEED draws other moments."""
import os
import random
import subprocess

import harness

PROGRAM = harness.BIN / "device_training"
SEED = int(os.environ.get("LOCKSTEP_HEAL_SEED", "1"))
EPOCHS, STEPS_OF_EPOCH = 20, 4
RUNS = 40 if harness.SOAK else 4


class HealDevice(harness.RanksTest):
    def run_program(self, run, heal, *kills):
        folder = self.folder / run
        folder.mkdir()
        ended = subprocess.run([PROGRAM, folder, heal, str(EPOCHS), *kills], capture_output=True, text=True, timeout=120, check=False)
        result = folder / "result"
        return ended, result.read_text().split() if result.exists() else None

    def test_random_moments(self):
        _, (weights, samples, healings) = self.run_program("whole", "off")
        self.assertEqual(healings, "0")
        draw = random.Random(SEED)
        for number in range(RUNS):
            steps = sorted(draw.sample(range(1, EPOCHS * STEPS_OF_EPOCH - 1), 8))
            kills = [f"{draw.randrange(2)}:{step}:{draw.choice(('forward', 'backward', 'update'))}" for step in steps]
            ended, result = self.run_program(f"healed-{number}", "on", *kills)
            self.assertEqual(ended.returncode, 0, f"{kills}\n{ended.stderr[-3000:]}")
            self.assertEqual(result, [weights, samples, "8"], kills)
            self.assertEqual(ended.stderr.count("the others give it the state from memory"), 8, ended.stderr[-3000:])

    def test_one_dies_again_as_the_torn_step_is_repeated(self):
        _, (weights, samples, _) = self.run_program("whole", "off")
        kills = ["1:9:backward", "0:9:backward", "1:9:update", "1:10:forward", "1:10:forward"]
        ended, result = self.run_program("healed", "on", *kills)
        self.assertEqual((ended.returncode, result), (0, [weights, samples, "5"]), ended.stderr[-3000:])

    def test_auto_leaves_devices_alone(self):
        ended, result = self.run_program("ended", "auto", "1:9:backward")
        self.assertEqual((ended.returncode, result), (128 + 9, None), ended.stderr[-3000:])
        self.assertNotIn("started again", ended.stderr)


if __name__ == "__main__":
    harness.main()
