# SPDX-License-Identifier: Apache-2.0
"""Runs Lockstep's programs and the PyTorch peers for the parts of tools/gpu-check. Each has a time limit and a log of its own."""
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from machine import DeviceWatch, ThreadTimes

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "bench/gpu"
PRESET = "gpu"
BUILD = ROOT / "build" / PRESET
COMPILES = ("configure", "build")  # Shows the first error of these, which causes a compiler's other errors.
# Without validation, event files and snapshots except the last, only steps take time.
QUIET = ("trainer.validate_every=0", "snapshot.every_epochs=0", "observe.tensorboard=false")
TIMED = (*QUIET, "trainer.max_epochs=1000000")  # Only trainer.max_steps ends such a run, not the recipe's number of epochs.
UNVALIDATED = "snapshot.monitor=train_loss"  # A recipe that waits for a metric of the validation needs this without one.
LAUNCHERS = re.compile(r"(LOCKSTEP|SLURM|OMPI|PMI|PMIX|FLUX|LSB|LSF|TORCHELASTIC|MASTER)_|(LOCAL_)?(RANK|WORLD_SIZE)$")


class Failure(Exception):
    """A command that failed. The message is for a row of the page."""


class NotHere(Failure):
    """Something that this device or this build does not have, or has no time for. It is not a fault."""


@dataclasses.dataclass
class Run:
    """A training that ended without an error."""
    folder: pathlib.Path
    result: dict  # The JSON object that `train --json` prints at its end.
    lines: list  # The lines of metrics.jsonl.
    started: float  # Time of day at which the command started.
    seconds: float
    threads: ThreadTimes
    watch: DeviceWatch

    @property
    def steps(self):
        return [line for line in self.lines if line["event"] == "step"]

    @property
    def losses(self):
        return [line["loss"] for line in self.steps]

    @property
    def graph(self):
        """Returns what the run says about replaying whole steps, or nothing on a CPU."""
        return self.lines[-1].get("facts", {}).get("graph", "")

    @property
    def peak_bytes(self):
        """Returns the most memory that the run's tensors took on the device, or None on a CPU."""
        return self.lines[-1].get("device_peak_bytes")

    def windows(self, skip):
        """Returns the seconds of a step between each logged loss and the next, after the first `skip` losses."""
        kept = self.steps[skip:]
        if len(kept) < 2:
            raise Failure(f"{len(self.steps)} losses were logged in {self.result['steps']} steps, want {skip + 2} or more")
        return [(after["time"] - before["time"]) / (after["step"] - before["step"]) for before, after in zip(kept, kept[1:])]

    def step_s(self, skip):
        return statistics.median(self.windows(skip))

    def span(self, skip):
        return self.steps[skip]["time"], self.steps[-1]["time"]

    def cpu_s(self, skip):
        """Returns the CPU time of a step, of the whole process and of its busiest thread, or None if the run was too short to tell."""
        shares = self.threads.shares(*self.span(skip))
        return None if shares is None else tuple(each * self.step_s(skip) for each in shares)


class Check:
    """The folders, the device and the remaining time of a check."""

    def __init__(self, results, work, data, seconds):
        self.results = results
        self.work = work
        self.data = data
        self.is_gpu = results.facts["is_gpu"]
        self.bin = pathlib.Path(os.environ.get("LOCKSTEP_BIN", BUILD / "bin"))
        self.deadline = time.monotonic() + seconds
        self.limit = self.deadline  # The time limit of the part that runs.
        self.runs, self.peers = itertools.count(1), itertools.count(1)
        self.settings = None
        self.children = set()
        for folder in ("home", "logs", "runs", "peers"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        clean = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
        # A rehearsal may share the machine. Threads that wait for each other then also wait for other programs.
        one_thread = self.pick({}, {"OMP_NUM_THREADS": "1"})
        self.env = clean | one_thread | {
            "HOME": str(work / "home"), "LOCKSTEP_RUNS": str(work / "runs"), "LOCKSTEP_TEST_DATA": str(data), "NO_COLOR": "1",
            "TORCHINDUCTOR_CACHE_DIR": self.inductor_folder(work), "TRITON_CACHE_DIR": str(work / "triton"), "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": os.pathsep.join([str(HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).strip(os.pathsep)}

    def inductor_folder(self, work):
        """Returns a folder for Inductor without blanks in its path, because Inductor's compiler takes each word of a path for a file."""
        if not re.search(r"\s", str(work)):
            return str(work / "inductor")
        self.elsewhere = tempfile.TemporaryDirectory(prefix="lockstep-inductor-")  # The folder exists as long as this object.
        return self.elsewhere.name

    def train_through_nccl(self, recipe, *settings):
        """Trains with one rank that talks to itself through NCCL. NCCL's own log is the proof."""
        if not self.is_gpu:
            raise NotHere("NCCL needs a GPU")
        said = self.work / "logs/nccl.log"
        said.unlink(missing_ok=True)
        run = self.train(recipe, *settings, "trainer.strategy=ddp", env={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(said)})
        if not said.exists() or "NCCL INFO" not in said.read_text():
            raise NotHere("one rank alone makes no NCCL group here; the tests labelled gpu make one")
        return run

    def pick(self, on_gpu, on_cpu):
        """Returns `on_gpu` in a measurement and `on_cpu` in a rehearsal. Both are counts, shapes or settings."""
        return on_gpu if self.is_gpu else on_cpu

    def left(self):
        return min(self.limit, self.deadline) - time.monotonic()

    def start(self, command, log, env=None):
        """Starts a process in a group of its own. Its standard error goes to logs/LOG.log."""
        with open(self.work / "logs" / f"{log}.log", "a") as said:
            process = subprocess.Popen([str(each) for each in command], cwd=self.work, env=self.env | (env or {}), text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True)
        self.children.add(process)
        return process

    def stop(self, process):
        """Ends the process and its children, if it still runs. SIGTERM comes first, because ninja's compilers are in groups of their own."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.children.discard(process)

    def finish(self, process, log):
        try:
            out, _ = process.communicate(timeout=max(1.0, self.left()))
        except subprocess.TimeoutExpired:
            raise NotHere("out of time") from None
        finally:
            self.stop(process)
        with open(self.work / "logs" / f"{log}.log", "a") as said:
            said.write(out)
        if process.returncode != 0:
            words = first_words if log in COMPILES else last_words
            raise Failure(f"exit {process.returncode}: {words((self.work / 'logs' / f'{log}.log').read_text())}")
        return out

    def command(self, command, log, env=None):
        """Returns the standard output of a command. Raises Failure if the command fails."""
        return self.finish(self.start(command, log, env), log)

    def peer_command(self, script, *arguments):
        return [sys.executable, HERE / script, "--device", self.pick("cuda", "cpu"), *arguments]

    def peer(self, script, *arguments):
        """Returns the JSON object that a script of bench/gpu prints."""
        out = self.command(self.peer_command(script, *arguments), f"{next(self.peers):02}-{pathlib.Path(script).stem}")
        return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])

    def gave_up(self, key, error):
        """Fills a row with the error that ended its program, or with the reason why the program could not run."""
        if isinstance(error, NotHere):
            self.results.not_run(key, str(error))
        else:
            self.results.failed(key, str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}")

    def knows(self, setting):
        """Returns True if the recipes of this build have the setting."""
        if self.settings is None:
            self.settings = self.command([self.bin / "lockstep", "recipe", "ls", "--json"], "recipe-ls")
        return f'"{setting}"' in self.settings

    def train(self, recipe, *settings, devices=1, on_cpu=False, resume=None, cores=None, env=None):
        """Trains to the end, on the check's device unless another is given. Returns the run."""
        name = f"{next(self.runs):02}-{recipe}"
        folder = self.work / "runs" / name
        shutil.rmtree(folder, ignore_errors=True)  # An earlier call may have left it.
        accelerator = "cpu" if on_cpu or not self.is_gpu else "gpu"
        alone = self.pick([], ["trainer.threads=1"])
        sets = [word for each in (f"trainer.accelerator={accelerator}", *alone, *settings) for word in ("--set", each)]
        command = [self.bin / "lockstep", "train", ROOT / f"recipes/{recipe}.toml", "--json", "--run-dir", folder, "--devices", devices,
                   "--resume", resume or "none", *sets]
        if cores:
            command = ["taskset", "-c", cores, *command]
        started = time.time()
        process = self.start(command, f"run-{name}", env)
        with ThreadTimes(process.pid) as threads, DeviceWatch(self.is_gpu) as watch:
            out = self.finish(process, f"run-{name}")
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        run = Run(folder, json.loads(out.splitlines()[-1]), lines, started, time.time() - started, threads, watch)
        device = next(line for line in lines if line["event"] == "run_started")["facts"]["device"]
        if (accelerator == "gpu") != device.startswith(("cuda", "hip")):
            raise Failure(f"the run says that it was on {device}")
        return run

    def stop_children(self):
        for process in list(self.children):
            self.stop(process)


def first_words(log):
    """Returns the first line of a compiler's log that has an error, or the result of last_words()."""
    wrong = [line.strip() for line in log.splitlines() if re.search(r"\berror\b.*:", line, re.I)]
    return wrong[0][:400] if wrong else last_words(log)


def last_words(log):
    """Returns the first error line of a log with the lines after it, or its last line, cut to the length of a row."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    wrong = [at for at, line in enumerate(lines) if re.search(r"\berror\b|Error:", line, re.I)]
    words = " / ".join(lines[wrong[-1]:wrong[-1] + 2] if wrong else lines[-1:])
    return words[:400] or "it said nothing"


def micro(seconds):
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-2 else f"{seconds * 1e3:.1f} ms"
