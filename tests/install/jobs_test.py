#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""jobs_test.py COMMON: how many compilations the build's scripts run at once, and what may not change it."""
import os
import subprocess
import sys

COMMON = sys.argv[1]
CORES = len(os.sched_getaffinity(0))


def jobs(**variables):
    env = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "LOCKSTEP_JOBS")}
    return subprocess.run(["bash", "-euc", f"source '{COMMON}'; jobs_wanted"], env=env | variables, capture_output=True, text=True)


plain = int(jobs().stdout)
assert 1 <= plain <= CORES, (plain, CORES)

# A batch script may set OpenMP's variables for the training. The build must ignore them.
for variables in ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": str(2 * CORES)}, {"OMP_THREAD_LIMIT": "1"}):
    found = jobs(**variables)
    assert int(found.stdout) == plain, (variables, plain, found)

assert jobs(LOCKSTEP_JOBS="3").stdout == "3\n"
for wrong in ("0", "-1", "many", "1.5"):
    refused = jobs(LOCKSTEP_JOBS=wrong)
    assert refused.returncode == 2 and f"'{wrong}'" in refused.stderr, (wrong, refused)
print("jobs test ok")
