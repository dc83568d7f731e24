# SPDX-License-Identifier: Apache-2.0
"""Finds a Python that has the packages whose word a test takes."""
import importlib.util
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402


def require(*packages):
    """Returns in a Python that has them: this one, else LOCKSTEP_BENCH_PYTHON with the same script. Skips the test without."""
    missing = [each for each in packages if importlib.util.find_spec(each) is None]
    if not missing:
        return
    if peers.PYTHON and sys.executable != peers.PYTHON:
        os.execv(peers.PYTHON, [peers.PYTHON, *sys.argv])
    peers.skip_script()
