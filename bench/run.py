#!/usr/bin/env python3
"""Measures Lockstep beside Python's DistributedDataParallel in one run, and writes bench/RESULTS.md.

    bench/run.py [--quick] [--out FILE]

LOCKSTEP_BIN is the folder of the binaries (default build/release/bin). LOCKSTEP_BENCH_PYTHON is a Python with a whole PyTorch; without
it the peer's columns stay empty. Figures of one machine at one time: only the ratios within a run mean anything.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin"))
PYTHON = os.environ.get("LOCKSTEP_BENCH_PYTHON")
CALLS = re.compile(r"\b(open|openat|stat|newfstatat|lstat|statx|readlink|readlinkat|access|faccessat|faccessat2)\(")
SMALL = ["--set", "data.kind=synthetic", "--set", "data.samples=1000", "--set", "data.classes=10", "--set", "trainer.threads=1",
         "--set", "optimizer.name=sgd", "--set", "optimizer.momentum=0.9", "--set", "trainer.validate_every=0",
         "--set", "snapshot.every_epochs=0"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lockstep(folder, ranks, steps, shape, batch, hidden, extra=()):
    """One training; returns seconds to the first step and microseconds a step."""
    run_dir = pathlib.Path(folder) / f"run-{time.monotonic_ns()}"
    command = [*extra, str(BIN / "lockstep"), "train", "digits", "--json", "--run-dir", str(run_dir), "--devices", str(ranks), *SMALL,
               "--set", f"data.shape=[{shape}]", "--set", f"data.global_batch={batch}", "--set", f"model.hidden=[{hidden}]",
               "--set", f"trainer.max_steps={steps}", "--set", f"observe.log_every={1 if steps == 1 else 0}"]
    started = time.time()
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    ended = json.loads(result.stdout.splitlines()[-1])
    first = None
    for line in (run_dir / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["event"] == "step":
            first = entry["time"] - started
            break
    return first, batch / ended["samples_per_second"] * 1e6


def peer(ranks, steps, shape, batch, hidden, launcher=()):
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks), OMP_NUM_THREADS="1")
    script = [str(ROOT / "bench/peer_ddp.py"), str(steps), f"{shape},{hidden},{batch}"]
    started = time.time()
    if launcher:
        outputs = [subprocess.run([*launcher, *script], capture_output=True, text=True, check=True).stdout]
    else:
        ranks_running = [subprocess.Popen([PYTHON, *script], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
                                          stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
        outputs = [each.communicate()[0] for each in ranks_running]
    answer = json.loads(next(line for line in "".join(outputs).splitlines() if line.startswith("{")))
    return answer["first_step_at"] - started, answer["step_us"]


def file_calls(folder, command, environment=None):
    """File-system calls of one process and its threads: open, stat, readlink and access in all their forms."""
    trace = pathlib.Path(folder) / "trace"
    subprocess.run(["strace", "-f", "-e", "trace=file", "-o", str(trace), *command], capture_output=True, env=environment, check=True)
    return sum(1 for line in trace.read_text(errors="replace").splitlines() if CALLS.search(line))


def median_of(count, measure):
    return statistics.median(measure() for _ in range(count))


def rows(folder, quick):
    runs = 3 if quick else 7
    ours = median_of(runs, lambda: lockstep(folder, 2, 1, 64, 50, 128)[0])
    theirs = median_of(runs, lambda: peer(2, 1, 64, 50, 128)[0]) if PYTHON else None
    yield "start to the end of the first step, 2 ranks, s", ours, theirs, 2
    torchrun = pathlib.Path(PYTHON).parent / "torchrun" if PYTHON else None
    if torchrun and torchrun.exists():
        launched = median_of(runs, lambda: peer(2, 1, 64, 50, 128, [str(torchrun), "--nproc-per-node=2"])[0])
        yield "the same, the peer started by torchrun, s", ours, launched, 2
    if shutil.which("strace"):
        count = file_calls(folder, [str(BIN / "lockstep-train"), "train", str(ROOT / "recipes/digits.toml"), "--run-dir", f"{folder}/calls",
                                    *SMALL, "--set", "data.shape=[64]", "--set", "trainer.max_steps=1"])
        alone = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE="1", RANK="0")
        other = file_calls(folder, [PYTHON, str(ROOT / "bench/peer_ddp.py"), "1", "64,128,50"], alone) if PYTHON else None
        yield "file-system calls of one rank, one step, the end included", count, other, 0
    steps = 1000 if quick else 4000
    for ranks in (1, 2):
        ours = median_of(3, lambda: lockstep(folder, ranks, steps, 784, 32, 32)[1])
        theirs = median_of(3, lambda: peer(ranks, steps, 784, 32, 32)[1]) if PYTHON else None
        yield f"step of a 784-32-10 MLP, global batch 32, {ranks} rank{'s' if ranks > 1 else ''}, one thread each, µs", ours, theirs, 0
    yield "`lockstep --version`, ms", median_of(20, lambda: seconds([BIN / "lockstep", "--version"]) * 1e3), None, 1
    yield "`lockstep layout`, ms", median_of(20, lambda: seconds([BIN / "lockstep", "layout"]) * 1e3), None, 1


def seconds(command):
    started = time.perf_counter()
    subprocess.run([str(each) for each in command], capture_output=True, check=True)
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default=str(ROOT / "bench/RESULTS.md"))
    arguments = parser.parse_args()
    lines = ["# Benchmarks", "",
             f"Measured on {datetime.date.today()}: {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}. "
             "Medians; only ratios within one run mean anything. `make bench` writes this file.", "",
             "| what | Lockstep | Python DDP | ratio |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for what, ours, theirs, digits in rows(folder, arguments.quick):
            ratio = f"{theirs / ours:.1f}×" if theirs else ""
            line = f"| {what} | {ours:.{digits}f} | {theirs:.{digits}f} | {ratio} |" if theirs else f"| {what} | {ours:.{digits}f} | | |"
            print(line, flush=True)
            lines.append(line)
    pathlib.Path(arguments.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
