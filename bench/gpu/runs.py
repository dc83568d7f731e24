# SPDX-License-Identifier: Apache-2.0
"""What the parts of tools/gpu-check run: Lockstep's programs and the PyTorch peers, each with a limit and a log of its own."""
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
COMPILES = ("configure", "build")  # Of a compiler's errors the first is the cause.
# Without validation, event files and all snapshots but the last, only the time of steps is left.
QUIET = ("trainer.validate_every=0", "snapshot.every_epochs=0", "observe.tensorboard=false")
LAUNCHERS = re.compile(r"(LOCKSTEP|SLURM|OMPI|PMI|PMIX|FLUX|LSB|LSF|TORCHELASTIC|MASTER)_|(LOCAL_)?(RANK|WORLD_SIZE)$")


class Failure(Exception):
    """A command that did not do what it should; the message is for a row of the page."""


class NotHere(Failure):
    """Something that this device, or this build, has not, or no time for: no fault of either."""


@dataclasses.dataclass
class Run:
    """A training that ended well."""
    folder: pathlib.Path
    result: dict  # The object that `train --json` ends with.
    lines: list  # metrics.jsonl
    started: float  # Time of day at which the command was started.
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
        """What the run says of replaying whole steps; nothing on a CPU."""
        return self.lines[-1].get("facts", {}).get("graph", "")

    @property
    def peak_bytes(self):
        """The most that its tensors held on the device; None on a CPU."""
        return self.lines[-1].get("device_peak_bytes")

    def windows(self, skip):
        """Seconds a step from each logged loss to the next, after the first `skip` losses."""
        kept = self.steps[skip:]
        return [(after["time"] - before["time"]) / (after["step"] - before["step"]) for before, after in zip(kept, kept[1:])]

    def step_s(self, skip):
        return statistics.median(self.windows(skip))

    def span(self, skip):
        return self.steps[skip]["time"], self.steps[-1]["time"]

    def cpu_s(self, skip):
        """CPU time of a step: of the whole process, and of the thread that used most; None where the run was too short to tell."""
        shares = self.threads.shares(*self.span(skip))
        return None if shares is None else tuple(each * self.step_s(skip) for each in shares)


class Check:
    """The place, the device and the time that is left."""

    def __init__(self, results, work, data, seconds):
        self.results = results
        self.work = work
        self.data = data
        self.is_gpu = results.facts["is_gpu"]
        self.bin = pathlib.Path(os.environ.get("LOCKSTEP_BIN", BUILD / "bin"))
        self.deadline = time.monotonic() + seconds
        self.limit = self.deadline  # Of the part that runs.
        self.runs, self.peers = itertools.count(1), itertools.count(1)
        self.settings = None
        self.children = set()
        for folder in ("home", "logs", "runs", "peers"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        clean = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
        # In a rehearsal the machine may be shared. Threads that wait for each other then also wait for other programs.
        one_thread = self.pick({}, {"OMP_NUM_THREADS": "1"})
        self.env = clean | one_thread | {
            "HOME": str(work / "home"), "LOCKSTEP_RUNS": str(work / "runs"), "LOCKSTEP_TEST_DATA": str(data), "NO_COLOR": "1",
            "TORCHINDUCTOR_CACHE_DIR": self.inductor_folder(work), "TRITON_CACHE_DIR": str(work / "triton"), "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": os.pathsep.join([str(HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).strip(os.pathsep)}

    def inductor_folder(self, work):
        """Inductor's compiler takes each word of a path for a file of its own."""
        if not re.search(r"\s", str(work)):
            return str(work / "inductor")
        self.elsewhere = tempfile.TemporaryDirectory(prefix="lockstep-inductor-")  # As long as this object.
        return self.elsewhere.name

    def train_through_nccl(self, recipe, *settings):
        """One rank that talks to itself through NCCL. That library's own words are the proof."""
        if not self.is_gpu:
            raise NotHere("NCCL needs a GPU")
        said = self.work / "logs/nccl.log"
        said.unlink(missing_ok=True)
        run = self.train(recipe, *settings, "trainer.strategy=ddp", env={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(said)})
        if not said.exists() or "NCCL INFO" not in said.read_text():
            raise NotHere("one rank alone makes no NCCL group here; the tests labelled gpu make one")
        return run

    def pick(self, on_gpu, on_cpu):
        """A count or shape: the one that measures, or the one that rehearses."""
        return on_gpu if self.is_gpu else on_cpu

    def left(self):
        return min(self.limit, self.deadline) - time.monotonic()

    def start(self, command, log, env=None):
        """A process in a group of its own, whose messages go to logs/LOG.log."""
        with open(self.work / "logs" / f"{log}.log", "a") as said:
            process = subprocess.Popen([str(each) for each in command], cwd=self.work, env=self.env | (env or {}), text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True)
        self.children.add(process)
        return process

    def stop(self, process):
        """Ends the process and what it started, if it still runs: asked first, since ninja's compilers are in groups of their own."""
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
        """Standard output of a command that must succeed."""
        return self.finish(self.start(command, log, env), log)

    def peer_command(self, script, *arguments):
        return [sys.executable, HERE / script, "--device", self.pick("cuda", "cpu"), *arguments]

    def peer(self, script, *arguments):
        """The object that a script of bench/gpu prints."""
        out = self.command(self.peer_command(script, *arguments), f"{next(self.peers):02}-{pathlib.Path(script).stem}")
        return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])

    def gave_up(self, key, error):
        """Fills the row of what ended with an error."""
        if isinstance(error, NotHere):
            self.results.not_run(key, str(error))
        else:
            self.results.failed(key, str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}")

    def knows(self, setting):
        """Whether the recipes of this build have the setting."""
        if self.settings is None:
            self.settings = self.command([self.bin / "lockstep", "recipe", "ls", "--json"], "recipe-ls")
        return f'"{setting}"' in self.settings

    def train(self, recipe, *settings, devices=1, on_cpu=False, resume=None, cores=None, env=None):
        """Trains to the end, on the check's device unless said otherwise."""
        name = f"{next(self.runs):02}-{recipe}"
        folder = self.work / "runs" / name
        shutil.rmtree(folder, ignore_errors=True)  # Of an earlier call.
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
    """The first line of a compiler's log that tells of an error, or what last_words() finds."""
    wrong = [line.strip() for line in log.splitlines() if re.search(r"\berror\b.*:", line, re.I)]
    return wrong[0][:400] if wrong else last_words(log)


def last_words(log):
    """The first error line of a log and what follows it, or its last line, cut to what a row can hold."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    wrong = [at for at, line in enumerate(lines) if re.search(r"\berror\b|Error:", line, re.I)]
    words = " / ".join(lines[wrong[-1]:wrong[-1] + 2] if wrong else lines[-1:])
    return words[:400] or "it said nothing"


def micro(seconds):
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-2 else f"{seconds * 1e3:.1f} ms"
