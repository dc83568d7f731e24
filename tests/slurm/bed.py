# SPDX-License-Identifier: Apache-2.0
"""A Slurm test bed as a context manager: `with Bed() as bed: bed.run("srun", "-n2", "hostname")`; and tests that share one."""
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77  # What ctest's SKIP_RETURN_CODE expects.
SCRIPT = pathlib.Path(__file__).with_name("testbed.sh")
PORTS = 100  # What one bed takes, from its base port on.
BLOCKS = range(10000, 18400, PORTS)  # Below the ports that `lockstep exec` derives from a job, and below the ephemeral ones.


def why_not():
    """The reason why no bed can run here, or None."""
    if os.geteuid() != 0:
        return "the Slurm test bed needs root"
    for program in ("slurmctld", "slurmd", "srun", "munged"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin"):
            return f"{program} is not installed (apt-get install slurm-wlm munge)"
    return None


def skip_where_impossible():
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)


class PortBlock:
    """`PORTS` ports from `base` on that no other bed of this machine takes while this object is open.

    The lock is a socket with a name in the kernel alone: it is as wide as the ports are, and goes with this process.
    """

    def __init__(self):
        for self.base in BLOCKS:
            self.lock = socket.socket(socket.AF_UNIX)
            try:
                self.lock.bind(f"\0lockstep-test-ports-{self.base}")
                self.probe()
                return
            except OSError:
                self.lock.close()
        raise RuntimeError(f"no free block of {PORTS} ports between {BLOCKS.start} and {BLOCKS.stop}")

    def probe(self):
        """Throws where another program has one of the ports."""
        for port in range(self.base, self.base + PORTS):
            with socket.socket() as probe:
                probe.bind(("", port))

    def close(self):
        self.lock.close()


class Bed:
    """Four nodes, n1 to n4, of eight cores and four pretend GPUs each; or as `shape` says, by the names that testbed.sh
    explains: Bed(gpus=0, cores=2)."""

    def __init__(self, **shape):
        self.shape = {f"BED_{name.upper()}": str(value) for name, value in shape.items()}

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-bed-"))
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_", "SRUN_", "LOCKSTEP_"))}
        self.environment = {**inherited, **self.shape, "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        self.ports = PortBlock()
        self.end_with_this_process()
        try:
            self.run(SCRIPT, "up", self.folder, self.ports.base, timeout=180)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([SCRIPT, "down", self.folder], env=self.environment, check=False)
        self.alive.close()
        self.ports.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_with_this_process(self):
        """Stops the daemons where this process is killed, as ctest does with a test that takes too long: a process that is
        nobody's child waits for the end of a pipe."""
        script = f"({{ cat; {shlex.quote(str(SCRIPT))} down {self.folder}; rm -rf {self.folder}; }} <&3 >/dev/null 2>&1 &) 3<&0"
        watcher = subprocess.Popen(["setsid", "sh", "-c", script], stdin=subprocess.PIPE, env=self.environment)
        self.alive = watcher.stdin
        watcher.wait()

    def run(self, *command, timeout=180, **more):
        """Standard output of a command that must succeed, with the bed's Slurm around it."""
        words = [str(word) for word in command]
        done = subprocess.run(words, timeout=timeout, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              **({"env": self.environment} | more))
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, *command, **more):
        """The same, not waited for: a subprocess.Popen."""
        return subprocess.Popen([str(word) for word in command], env=self.environment, text=True, **more)

    def batch(self, script, *flags):
        """What a batch script writes, once it has ended."""
        path, output = self.folder / "job.sh", self.folder / "job.out"
        path.write_text("#!/bin/bash\n" + script + "\n")
        self.run("sbatch", "--wait", "-o", output, *flags, path)
        return output.read_text()


class BedTest(unittest.TestCase):
    """Tests that share a bed. Each has a folder of its own, which is its home and holds its runs.

    `program` is the `lockstep` to start, `shape` what the bed is like.
    """

    program = None
    shape = {}

    @classmethod
    def setUpClass(cls):
        cls.bed = cls.enterClassContext(Bed(**cls.shape))

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-slurm-")))
        self.addCleanup(self.end_jobs)
        self.environment = self.bed.environment | {"HOME": str(self.folder), "LOCKSTEP_RUNS": str(self.folder / "runs")}

    def end_jobs(self):
        """Ends what still runs: a job writes into the test's folder to its last moment."""
        jobs = self.bed.run("squeue", "--noheader", "--format=%A").split()
        if not jobs:
            return
        subprocess.run(["scancel", *jobs], env=self.bed.environment, check=False, stderr=subprocess.DEVNULL)
        waits = ",".join(f"afterany:{job}" for job in sorted(set(jobs)))
        self.bed.run("srun", "-Q", "-n1", f"--dependency={waits}", "true", timeout=180)

    def lockstep(self, *words, code=0, cwd=None, **variables):
        """`lockstep WORDS`, once it has ended with `code`."""
        done = subprocess.run([self.program, *[str(word) for word in words]], text=True, capture_output=True, check=False,
                              cwd=cwd or self.folder, env=self.environment | variables, timeout=600)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def submit(self, *words, run="run", **variables):
        """What `submit --json` says of the job."""
        return json.loads(self.lockstep("submit", "--run-dir", run, "--json", *words, **variables).stdout)

    def job(self, *words, **more):
        """The same, its number alone."""
        return self.submit(*words, **more)["job"]

    def state(self, job):
        """How a job ended, once it has: a step that depends on it waits for that."""
        self.bed.run("srun", "-Q", "-n1", f"--dependency=afterany:{job}", "true", timeout=180)
        shown = self.bed.run("scontrol", "show", "job", job)
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def log(self, run="run"):
        return (self.folder / run / "logs" / "job.log").read_text()

    def until(self, is_so, what, patience=300):
        """What `is_so()` returns once that is true. Where it stays false the test fails with `what` and the job's log."""
        deadline = time.monotonic() + patience
        while not (found := is_so()):
            if time.monotonic() > deadline:
                log = self.folder / "run/logs/job.log"
                self.fail(f"{what}\n{log.read_text() if log.exists() else ''}")
            time.sleep(0.02)
        return found

    @staticmethod
    def training_process(job, rank):
        """The process that trains as this rank of a job, or None."""
        wanted = {f"SLURM_JOB_ID={job}", f"SLURM_PROCID={rank}"}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = set((folder / "environ").read_bytes().decode(errors="replace").split("\0"))
                if wanted <= variables and os.readlink(folder / "exe").endswith("/lockstep-train"):
                    return int(folder.name)
            except OSError:
                pass
        return None
