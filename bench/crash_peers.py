#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts how often a process that saves 1 MB again and again leaves nothing that loads after it is killed at a random moment.

    bench/crash_peers.py TRIALS

torch.save overwrites one file, as in many scripts. async_save of torch.distributed.checkpoint (DCP) writes a new folder for each
step, and the newest folder is loaded. Prints one JSON line for each of the two. `tools/soak kills` counts the same for Lockstep.
"""
import json
import logging
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings

import torch
import torch.distributed.checkpoint as dcp


def state(step):
    return {"step": torch.tensor(step), "weights": torch.full((129_000,), float(step), dtype=torch.float64)}


def require_whole(found):
    assert found["step"] > 0 and bool((found["weights"] == float(found["step"])).all())


def save_file(folder, step):
    torch.save(state(step), folder / "last.pt")


def load_file(folder):
    require_whole(torch.load(folder / "last.pt"))


def save_folder(folder, step):
    dcp.async_save(state(step), checkpoint_id=str(folder / f"step-{step:06}")).result()


def load_folder(folder):
    found = state(0)
    dcp.load(found, checkpoint_id=str(max(folder.iterdir())))
    require_whole(found)


def is_loadable(save, load, folder, seconds):
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        save(folder, 1)
        os.write(saying, b"1")
        for step in range(2, 1_000_000):
            save(folder, step)
    os.close(saying)
    os.read(said, 1)
    os.close(said)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        load(folder)
    except BaseException:  # DCP's own exception does not derive from Exception.
        return False
    return True


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    draw = random.Random(1)
    trials = int(sys.argv[1])
    for name, save, load in (("torch.save", save_file, load_file), ("DCP async_save", save_folder, load_folder)):
        lost = 0
        for _ in range(trials):
            folder = pathlib.Path(tempfile.mkdtemp())
            lost += not is_loadable(save, load, folder, draw.random() * 0.02)
            shutil.rmtree(folder)
        print(json.dumps({"writer": name, "version": torch.__version__, "trials": trials, "nothing_loads": lost}), flush=True)


if __name__ == "__main__":
    main()
