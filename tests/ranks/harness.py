# SPDX-License-Identifier: Apache-2.0
"""What tests with real processes share: start `lockstep`, watch its run folder, signal its ranks, see that none is left.

LOCKSTEP_BIN is the folder of the programs. LOCKSTEP_SOAK=1 asks for the full counts instead of a sample.
"""
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", SOURCE / "build/release/bin")).resolve()
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", SOURCE.parent / "shared/data")).resolve()
SOAK = os.environ.get("LOCKSTEP_SOAK") == "1"
DIGITS = SOURCE / "recipes/digits.toml"
DIGITS_SIZE, DIGITS_SEED, DIGITS_BATCH = 1437, 1, 50

MARK = "LOCKSTEP_TEST_ID"
LAUNCHERS = re.compile(r"(LOCKSTEP|SLURM|OMPI|PMI|PMIX|FLUX|LSB|LSF|TORCHELASTIC|MASTER)_|(LOCAL_)?(RANK|WORLD_SIZE)$")
POLL_S = 0.003
HANG_S = 300  # Ends what hangs, before ctest ends the whole test. A test that claims a time gives its own.
SKIPPED = 77
PEER_LOST = 7  # ErrorKind::kPeer

sys.path.insert(0, str(SOURCE / "tests/golden"))
from epoch_order import EpochOrder, mixed  # noqa: E402


@dataclasses.dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def object(self):
        """The JSON object that the command ended with."""
        return json.loads(self.out.rstrip("\n").split("\n")[-1])


class Command:
    """A command that runs, and all processes that came of it: they carry a mark in their environment."""

    def __init__(self, arguments, folder, env=None):
        self.id = uuid.uuid4().hex
        self.started = time.monotonic()
        self.files = [open(pathlib.Path(folder) / f"{self.id}.{name}", "w+", errors="replace") for name in ("out", "err")]
        clean = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
        clean |= {"NO_COLOR": "1", "LOCKSTEP_RUNS": str(folder)} | (env or {}) | {MARK: self.id}
        self.process = subprocess.Popen([str(each) for each in arguments], env=clean, cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=self.files[0], stderr=self.files[1], start_new_session=True)

    def text(self, which):
        file = self.files[which]
        file.seek(0)
        return file.read()

    def members(self):
        """{pid: environment} of every process of this command that lives."""
        found = {}
        mark = f"{MARK}={self.id}".encode()
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                entries = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in entries:
                pairs = (entry.decode(errors="replace").partition("=") for entry in entries if entry)
                found[int(folder.name)] = {name: value for name, _, value in pairs}
        return found

    def ranks(self):
        """{rank: pid} of the ranks that a launcher started."""
        return {int(env["RANK"]): pid for pid, env in self.members().items() if "RANK" in env}

    def wait_until(self, condition, what, seconds=HANG_S):
        """Waits for a condition while the command runs; its end ends the wait as well."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self.process.poll() is not None
            found = condition()
            if found:
                return found
            if ended or time.monotonic() > deadline:
                state = f"ended with {self.process.returncode}" if ended else f"took {seconds} s"
                raise AssertionError(f"the command {state} before {what}:\n{self.text(1)[-3000:]}")
            try:
                self.process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                pass

    def wait_for_step(self, run_dir, step, seconds=HANG_S):
        def reached():
            return any(line["step"] >= step for line in metrics(run_dir) if line["event"] == "step")
        self.wait_until(reached, f"step {step}", seconds)

    def wait_for_ranks(self, count):
        return self.wait_until(lambda: (found := self.ranks()) and len(found) == count and found, f"{count} ranks had started")

    def finish(self, seconds=HANG_S):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise AssertionError(f"the command did not end in {seconds} s:\n{self.text(1)[-3000:]}") from None
        return Result(code, self.text(0), self.text(1))

    def wait_until_gone(self, seconds):
        """Seconds until no process of this command was left; None where some still are."""
        start = time.monotonic()
        self.process.wait(seconds)
        while self.members():
            if time.monotonic() > start + seconds:
                return None
            time.sleep(0.02)
        return time.monotonic() - start

    def kill_all(self):
        while members := self.members():
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.poll()
        self.process.wait()

    def close(self):
        """Ends what is left; returns what that was."""
        left = self.members()
        self.kill_all()
        for file in self.files:
            file.close()
        return left


def state_of_process(pid):
    """The state of a process's first thread: R runs, S sleeps, T is stopped."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def metrics(run_dir):
    """The whole lines of a run's metrics.jsonl."""
    for _ in range(3):
        try:
            text = (pathlib.Path(run_dir) / "metrics.jsonl").read_text()
            return [json.loads(line) for line in text.split("\n")[:-1]]
        except FileNotFoundError:
            return []
        except json.JSONDecodeError as error:  # A rank in the place of a dead one may have cut the file while it was read.
            fault = error
    raise fault


def epoch_losses(run_dir):
    return [line["train_loss"] for line in metrics(run_dir) if line["event"] == "validation"]


def snapshots(run_dir):
    folder = pathlib.Path(run_dir) / "snapshots"
    return sorted(path.name for path in folder.iterdir() if path.name not in ("latest", "run-id")) if folder.exists() else []


def snapshot_name(step):
    return f"step-{step:010}"


def state_of(run_dir, step):
    return json.loads((pathlib.Path(run_dir) / "snapshots" / snapshot_name(step) / "state.json").read_text())


def contents(folder, leave_out=()):
    """{path: bytes or link} of all that lies in a folder. How ranks ended is left out, which the launcher adds to watch.jsonl."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/")[0] in (*leave_out, "watch.jsonl") or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    return found


@functools.lru_cache(None)
def digits_digest(steps, global_batch=DIGITS_BATCH):
    """The sample digest of a run over digits after so many steps, by docs/formats/batches.md and not by Lockstep's own hand."""
    per_epoch = -(-DIGITS_SIZE // global_batch)
    sums = [0, 0]
    for epoch in range(-(-steps // per_epoch)):
        order = EpochOrder(DIGITS_SIZE, DIGITS_SEED, epoch)
        for place in range(min((steps - epoch * per_epoch) * global_batch, DIGITS_SIZE)):
            hashed = mixed(epoch, order[place])
            sums = [sums[0] + hashed, sums[1] + mixed(hashed, 1)]
    return "".join(f"{each % 2**64:016x}" for each in sums)


def digits_samples(steps, global_batch=DIGITS_BATCH):
    epochs, batches = divmod(steps, -(-DIGITS_SIZE // global_batch))
    return epochs * DIGITS_SIZE + min(batches * global_batch, DIGITS_SIZE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def variables_of_rank(rank, port, world=2, **more):
    """Of one rank as a launcher of another kind would start it."""
    env = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": port, **more}
    return {name: str(value) for name, value in env.items()}


class RanksTest(unittest.TestCase):
    """A fresh folder for each test; at its end no process may be left."""

    heal = "off"  # Most tests that kill a rank are about what happens without healing.

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-test-"))
        self.commands = []
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(self.check_nothing_is_left)

    def check_nothing_is_left(self):
        left = [pid for command in self.commands for pid in command.close()]
        self.assertEqual(left, [], "processes were left over")

    def start(self, *arguments, env=None, program="lockstep"):
        self.commands.append(Command([BIN / program, *arguments], self.folder, env))
        return self.commands[-1]

    def start_train(self, *settings, recipe=DIGITS, ranks=2, run="run", options=(), env=None):
        """Starts training into folder/run, one thread a rank, so that few cores serve many ranks."""
        sets = [word for each in ("trainer.threads=1", f"trainer.heal={self.heal}", *settings) for word in ("--set", each)]
        where = ("--devices", ranks) if ranks else ()
        return self.start("train", recipe, *where, "--run-dir", self.folder / run, "--json", *sets, *options, env=env)

    def train(self, *settings, seconds=HANG_S, **keywords):
        return self.start_train(*settings, **keywords).finish(seconds)

    def trained(self, *settings, **keywords):
        """The final object of a run that must succeed."""
        result = self.train(*settings, **keywords)
        self.assertEqual(result.code, 0, result.err[-3000:])
        return result.object

    def rewrite_state(self, snapshot, text):
        """Gives a snapshot another state.json. `snapshot verify` says which checksums MANIFEST needs then."""
        (snapshot / "state.json").write_text(text)
        *lines, _ = (snapshot / "MANIFEST").read_text().splitlines()
        state = next(i for i, line in enumerate(lines) if line.endswith("  state.json"))
        size, file_sum, sum_of_lines = len(text.encode()), "0" * 16, "0" * 16
        for _ in range(4):
            lines[state] = f"{file_sum}  {size}  state.json"
            (snapshot / "MANIFEST").write_text("\n".join([*lines, sum_of_lines]) + "\n")
            result = self.start("snapshot", "verify", snapshot).finish()
            if result.code == 0:
                return
            which, found = re.search(r"(the lines have|state.json has) the checksum (\w{16}), want",
                                     result.out + result.err).groups()
            file_sum, sum_of_lines = (found, "0" * 16) if which.startswith("state") else (file_sum, found)
        raise AssertionError(result.out + result.err)

    def assert_failed(self, result, code, *words):
        """Ended with this code and said each of the words; the last line of an error is its way out."""
        self.assertEqual(result.code, code, result.err[-3000:])
        for word in words:
            self.assertIn(word, result.err)
        self.assertRegex(result.err, r"(?m)^\s*hint: \S", "no way out is given")


def main():
    """Runs the calling script's tests; ends with 77, which ctest takes for skipped, where every one was skipped."""
    program = unittest.main(verbosity=2, exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun > 0 and len(result.skipped) == result.testsRun else 0)
