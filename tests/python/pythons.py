# SPDX-License-Identifier: Apache-2.0
"""Runs a test file again with each Python that has PyTorch: today's, and that of the clusters' guides where it is there."""
import atexit
import os
import pathlib
import runpy
import subprocess
import sys
import threading
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402

MARK = "LOCKSTEP_TESTED_PYTHON"
ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin"))


def with_each(script):
    """Returns only in a Python that has PyTorch; elsewhere it runs the script with those, and ends."""
    if MARK in os.environ:
        return
    pythons = [each for each in (peers.PYTHON, os.environ.get("LOCKSTEP_OLD_PYTHON")) if each]
    if not pythons:
        peers.skip_script()
    codes = [subprocess.run([each, script, *sys.argv[1:]], env=dict(os.environ, **{MARK: each}), check=False).returncode for each in pythons]
    sys.exit(max(codes))


def become_script(path):
    """Runs a script in this process, a fork, and ends it as Python ends one."""
    code = 1
    try:
        runpy.run_path(path, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
