# SPDX-License-Identifier: Apache-2.0
"""Runs a loop in Python with lockstep.py on the device: a run that is killed goes on with the same bits, and a save costs little."""
import json
import shutil
import statistics
import sys

from page import Part, Row
from runs import HERE, Failure, micro


def loop(check, name, *arguments, launch=True):
    """Runs peer_loop.py with one rank, through `lockstep launch` or alone, and returns the JSON object that it prints."""
    launched = [check.bin / "lockstep", "launch", "-n", 1, "--"] if launch else []
    device = ["--device", check.pick("cuda", "cpu"), "--data", check.data / "mnist10k", "--folder", check.work / "runs" / name]
    out = check.command([*launched, sys.executable, HERE / "peer_loop.py", *device, *arguments], f"loop-{name}",
                        {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"})
    return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])


def python_loop(check):
    names = ("loop-whole", "loop-killed", "loop-plain", "loop-saving")
    for name in names:
        shutil.rmtree(check.work / "runs" / name, ignore_errors=True)
    same = ("--deterministic", 1, "--epochs", 1, "--window", 10)
    whole = loop(check, names[0], *same)
    try:
        loop(check, names[1], *same, "--kill-at", 91)
        raise Failure("the killed run ended without an error")
    except Failure as error:
        if "signal 9" not in str(error):
            raise
    resumed = loop(check, names[1], *same)
    if not 0 < resumed["first"] <= 90:
        raise Failure(f"it went on from step {resumed['first']}, want one up to 90")
    text = f"killed before step 91, it went on from step {resumed['first']} to {resumed['steps']}"
    is_same = whole["digest"] == resumed["digest"]
    check.results.found("python resume", f"{text}; weights {'bit-equal' if is_same else 'differ'}", is_same, whole=whole, resumed=resumed)

    epochs = check.pick(6, 1)
    plain = loop(check, names[2], "--epochs", epochs, "--every-steps", 1_000_000, launch=False)
    saving = loop(check, names[3], "--epochs", epochs, "--every-steps", 50, launch=False)
    steps = [statistics.median(found["windows_s"][1:] or found["windows_s"]) for found in (plain, saving)]
    check.results.found("python save", f"a step {micro(steps[0])}; with a save every 50 steps {micro(steps[1])} "
                        f"({steps[1] / steps[0]:.2f}×)", None, plain=plain["windows_s"], saving=saving["windows_s"])


PARTS = [
    Part("python", "A loop in Python with lockstep.py, MNIST's small network", python_loop, [
        Row("python resume", "killed in an epoch and started again, one rank through NCCL, deterministic algorithms", "bit-equal"),
        Row("python save", "what saves cost a step")], 90),
]
