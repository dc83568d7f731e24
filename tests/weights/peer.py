# SPDX-License-Identifier: Apache-2.0
"""Finds a Python that has the packages whose word a test takes."""
import importlib.util
import os
import sys

SKIPPED = 77


def require(*packages):
    """Returns in a Python that has them: this one, else LOCKSTEP_BENCH_PYTHON with the same script. Skips the test without."""
    missing = [each for each in packages if importlib.util.find_spec(each) is None]
    if not missing:
        return
    python = os.environ.pop("LOCKSTEP_BENCH_PYTHON", None)
    if python:
        os.execv(python, [python, *sys.argv])
    print(f"skipped: no {', '.join(missing)}; LOCKSTEP_BENCH_PYTHON names no Python that has {', '.join(packages)}")
    sys.exit(SKIPPED)
