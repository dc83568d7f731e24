# SPDX-License-Identifier: Apache-2.0
"""The Python whose PyTorch, torchvision, transformers, Lightning and Accelerate tests hold Lockstep against.

It is large, so tests skip without it, and name LOCKSTEP_TEST_PEERS: that is how tools/test finds what was left out. With
LOCKSTEP_TEST_PEERS=1 a test that asks for it here fails instead.
"""
import os
import subprocess
import sys

SKIPPED = 77  # What ctest's SKIP_RETURN_CODE expects.
PACKAGES = ("torch", "torchvision", "transformers", "lightning", "accelerate", "xxhash")
LOOK = "import importlib.util, sys; print(*(each for each in sys.argv[1:] if importlib.util.find_spec(each) is None))"


def reason_against(python):
    """Why a Python does not do, or None."""
    if not python:
        return "LOCKSTEP_BENCH_PYTHON names no Python"
    try:
        done = subprocess.run([python, "-c", LOOK, *PACKAGES], text=True, capture_output=True, check=False)
    except OSError as error:
        return f"LOCKSTEP_BENCH_PYTHON is '{python}': {error.strerror}"
    if done.returncode != 0:
        return f"LOCKSTEP_BENCH_PYTHON is '{python}', which ended with {done.returncode}: {done.stderr.strip()}"
    return f"LOCKSTEP_BENCH_PYTHON is '{python}', which lacks {done.stdout.strip()}" if done.stdout.strip() else None


def skip_script():
    print(f"skipped: {REASON}")
    sys.exit(SKIPPED)


PYTHON = os.environ.get("LOCKSTEP_BENCH_PYTHON")
WHY_NOT = reason_against(PYTHON)
REASON = f"{WHY_NOT}; LOCKSTEP_TEST_PEERS=1 make test fetches one with {', '.join(PACKAGES)}"
if WHY_NOT:
    PYTHON = None
    if os.environ.get("LOCKSTEP_TEST_PEERS") == "1":
        print(f"failed: {WHY_NOT}, but LOCKSTEP_TEST_PEERS=1 asks for one with {', '.join(PACKAGES)}")
        sys.exit(1)
