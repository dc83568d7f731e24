#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on pretended devices that some other launcher has started, as a bare srun does. One of them is killed, and its device's peers never
notice. tests/programs/device_training.cc says how the devices behave."""
import os
import subprocess

import harness

PROGRAM = harness.BIN / "device_training"
RANKS = 3
RUNS = 40 if harness.SOAK else 2


class DeviceLoss(harness.RanksTest):
    def run_ranks(self, run, *kills, epochs=20):
        """Returns the exit codes and what the ranks printed."""
        folder = self.folder / run
        folder.mkdir()
        port = harness.free_port()
        own = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKSTEP_", "SLURM_"))}
        own["LOCKSTEP_CACHE"] = str(self.folder / "cache")
        ranks = []
        for rank in range(RANKS):
            env = own | harness.variables_of_rank(rank, port, world=RANKS)
            command = [PROGRAM, folder, "auto", str(epochs), *kills]
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        try:
            words = [each.communicate(timeout=120)[1] for each in ranks]
        except subprocess.TimeoutExpired:
            for each in ranks:
                each.kill()
            raise
        return [each.returncode for each in ranks], words

    def test_the_others_leave_where_one_is_killed(self):
        for lost in range(RANKS):
            # The hosts compare their states after each second step. So after the update of step 33 a collective of theirs is the first to fail.
            for place in "33:forward", "33:backward", "33:update", "34:update":
                codes, words = self.run_ranks(f"{lost}-{place}", f"{lost}:{place}")
                self.assertEqual(codes, [-9 if rank == lost else 7 for rank in range(RANKS)], words)
                for rank in range(RANKS):
                    # Rank 0 serves the store. Without it a rank that has left cannot say why.
                    said = f"rank {lost} is gone: its connection has closed"
                    if rank != lost:
                        self.assertIn(said, words[rank])

    def test_ranks_that_end_well_are_not_lost(self):
        for run in range(RUNS):
            codes, words = self.run_ranks(f"whole-{run}", epochs=2)
            self.assertEqual(codes, [0] * RANKS, words)
            self.assertNotIn("error:", "".join(words))


if __name__ == "__main__":
    harness.main()
