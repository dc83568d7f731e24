# SPDX-License-Identifier: Apache-2.0
"""Scripts as `submit --dry-run` prints them, held against those kept in tests/golden/submit: TEST LOCKSTEP [--update]"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
UPDATE = "--update" in sys.argv and not sys.argv.remove("--update")
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/submit"
RECIPES = ROOT / "recipes"


def dry_run(folder, *words, user="me"):
    """`submit --dry-run WORDS` in an empty folder, which is the home of `user` and stays empty."""
    done = subprocess.run([LOCKSTEP, "submit", "--dry-run", *words], text=True, capture_output=True, check=False, cwd=folder,
                          env={"PATH": os.environ["PATH"], "USER": user, "HOME": folder})
    assert os.listdir(folder) == [], f"a dry run made {os.listdir(folder)}"
    return done


def check(text, folder, name):
    """Holds one or more scripts against what reads scripts, and against the kept ones, for which `folder` has one name."""
    for script in text.split("#!/bin/bash\n")[1:]:
        for tool in (["bash", "-n"], ["shellcheck", "--shell=bash", "-"]):
            if shutil.which(tool[0]):
                read = subprocess.run(tool, input=script, text=True, capture_output=True, check=False)
                assert read.returncode == 0, read.stdout + read.stderr
    for here, there in ((folder, "/FOLDER"), (str(RECIPES), "/RECIPES"), (str(pathlib.Path(LOCKSTEP).parent), "/BIN")):
        text = text.replace(here, there)
    text = re.sub(r"""(['"])(/(?:BIN|RECIPES)[\w./-]*)\1""", r"\2", text)  # Quoted where this clone's path has a space.
    golden = GOLDEN / name
    if UPDATE:
        golden.write_text(text)
    assert text == golden.read_text(), f"{golden} differs: run with --update and look at the change"
