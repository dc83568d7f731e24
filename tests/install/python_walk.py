#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the way of a new Python user, from `pip install` to a run that survives a kill: python_walk.py [--wheel FILE] [--page FILE]

In an empty virtual environment it installs the wheel, starts walk_train.py as it stands, adds the import and three lines, starts it
again under `lockstep launch -n 2`, ends a rank with SIGKILL in the middle of an epoch, and types the same command once more. Each
step is timed, and told as a person sees it. The weights must be those of a run that nothing happened to. It ends with 1 if a step
fails, or if all of them take more than five minutes.

--wheel FILE    the wheel; without it one is made of build/release's programs and this tree's files
--torch HOW     "pip" installs PyTorch for CPU and GPU from the index; else the Python that has it, whose packages are taken over.
                Without it that is LOCKSTEP_BENCH_PYTHON
--page FILE     writes what was seen there
"""
import argparse
import contextlib
import datetime
import difflib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPT = HERE / "walk_train.py"
ALLOWED_S = 300
PATIENCE_S = 240
SKIPPED = 77
COMMAND = "lockstep launch -n 2 -- python train.py"
FIRST_STEP = r"epoch \d+ iter \d+ loss"
# What a person changes: the line as it was, and what stands there then.
CHANGES = (("from torch.utils.data.distributed import DistributedSampler\n",
            "from torch.utils.data.distributed import DistributedSampler\n\nimport lockstep\n"),
           ("        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)\n",
            "        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)\n"
            "        self.run = lockstep.start(model=self.model, optimizer=self.optimizer, scheduler=self.scheduler)\n"),
           ("in range(self.args.epochs):\n", "in self.run.epochs(self.args.epochs):\n"),
           ("in enumerate(self.train_loader):\n", "in enumerate(self.run.steps(self.train_loader)):\n"))


def made_wheel(folder):
    """A wheel of what this tree has built, with its files as the source bundle."""
    (folder / "dist").mkdir()
    for name in ("lockstep", "lockstep-data"):
        (folder / "dist" / name).write_bytes((pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin")) / name).read_bytes())
    version = re.search(r"^project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--null", "-T", "-", "-czf", folder / f"dist/lockstep-{version}.tar.gz"], cwd=ROOT, input=listed, check=True)
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    subprocess.run([sys.executable, ROOT / "tools/make_wheel.py", version, glibc, folder / "dist"], check=True)
    return next((folder / "dist").glob("*.whl"))


class Walk:
    def __init__(self, folder, cleanup):
        self.folder, self.cleanup, self.rows = folder, cleanup, []
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "LOCKSTEP_", "PYTHON"))}
        self.env = kept | {"PATH": f"{folder}/venv/bin:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}

    def note(self, step, began, said):
        self.rows.append((step, time.monotonic() - began, said.strip().replace(str(self.folder), "~")))
        print(f"{self.rows[-1][1]:6.1f} s  {step}: {self.rows[-1][2]}", flush=True)

    def typed(self, *words, shown=None, code=0, pick=r"[^\n]*\n?\Z"):
        """A command that a person waits for."""
        began = time.monotonic()
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=1800, check=False)
        if done.returncode != code:
            sys.exit(f"{words} ended with {done.returncode}, want {code}\n{done.stdout}")
        found = re.search(pick, done.stdout)
        self.note(f"`{shown or ' '.join(map(str, words))}`", began, found[0] if found else "")

    def launched(self, log):
        with open(self.folder / log, "w") as out:
            launcher = subprocess.Popen(COMMAND.split(), cwd=self.folder, env=self.env, stdout=out, stderr=subprocess.STDOUT)
        self.cleanup.callback(launcher.wait)
        self.cleanup.callback(launcher.terminate)
        return launcher

    def wait_for(self, process, log, pattern, count=1):
        deadline = time.monotonic() + PATIENCE_S
        while len(found := re.findall(pattern, (self.folder / log).read_text())) < count:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"'{COMMAND}' did not come to {pattern}, and its code is {process.poll()}\n{(self.folder / log).read_text()}")
            time.sleep(0.05)
        return found[count - 1]

    def ended(self, process, log, code):
        if process.wait(PATIENCE_S) != code:
            sys.exit(f"'{COMMAND}' ended with {process.returncode}, want {code}\n{(self.folder / log).read_text()}")

    @staticmethod
    def rank(launcher, rank):
        """The process id of a rank that the launcher has started, and not of its loader's worker."""
        below = [launcher.pid]
        for pid in below:
            below += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return next(pid for pid in below[1:] if f"RANK={rank}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


def add_lines(path):
    """Changes the script. Returns the difference as a person sees it."""
    before = text = path.read_text()
    for old, new in CHANGES:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text)
    return "".join(difflib.unified_diff(before.splitlines(True), text.splitlines(True), "train.py as it was", "train.py", n=0))


def install(walk, wheel, torch):
    walk.typed(sys.executable, "-m", "venv", "venv", shown="python3 -m venv venv")
    python = walk.folder / "venv/bin/python"
    walk.typed(python, "-m", "pip", "install", "--disable-pip-version-check", wheel, shown=f"pip install {wheel.name}",
               pick=r"Successfully installed[^\n]*")
    if torch == "pip":
        walk.typed(python, "-m", "pip", "install", "--disable-pip-version-check", "torch", "numpy", shown="pip install torch numpy",
                   pick=r"\btorch-[0-9.]+")
    else:
        began = time.monotonic()
        where = subprocess.run([torch, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], text=True, capture_output=True,
                               check=True).stdout
        next((walk.folder / "venv").glob("lib/python3.*/site-packages")).joinpath("torch.pth").write_text(where)
        walk.note("PyTorch of another environment, by a `.pth` file: the network's time is not Lockstep's", began, "")
    walk.typed("lockstep", "--version")


def survive(walk):
    """The run that is killed, and goes on."""
    began = time.monotonic()
    launcher = walk.launched("killed.log")
    walk.wait_for(launcher, "killed.log", FIRST_STEP)
    walk.note(f"`{COMMAND}`, to its first step", began, "")
    began = time.monotonic()
    where = walk.wait_for(launcher, "killed.log", r"epoch [2-9] iter [1-9]\d*")
    walk.note("to the middle of an epoch", began, where)
    began = time.monotonic()
    os.kill(walk.rank(launcher, 1), signal.SIGKILL)
    walk.ended(launcher, "killed.log", 128 + signal.SIGKILL)
    said = re.search(r"error: [^\n]*", (walk.folder / "killed.log").read_text())
    walk.note("`kill -9` of rank 1, until the launcher has ended with 137", began, said[0] if said else "")
    began = time.monotonic()
    launcher = walk.launched("again.log")
    said = walk.wait_for(launcher, "again.log", r"goes on from [^\n]*")
    walk.wait_for(launcher, "again.log", FIRST_STEP)
    walk.note("the same command again, to its first step", began, said)
    began = time.monotonic()
    walk.ended(launcher, "again.log", 0)
    accuracy = re.findall(r"epoch \d+ accuracy [0-9.]+", (walk.folder / "again.log").read_text())[-1]
    walk.note("to its end", began, accuracy)


def compare(walk):
    """Not a step of the walk: what a run that was left alone ends with."""
    (walk.folder / "model.pt").rename(walk.folder / "survived.pt")
    (walk.folder / "runs").rename(walk.folder / "runs before")
    launcher = walk.launched("whole.log")
    walk.ended(launcher, "whole.log", 0)
    look = "import torch; a, b = (torch.load(each) for each in ('model.pt', 'survived.pt')); print(all(torch.equal(a[k], b[k]) for k in a))"
    done = subprocess.run(["python", "-c", look], cwd=walk.folder, env=walk.env, text=True, capture_output=True, check=True)
    return done.stdout.strip() == "True"


def page(walk, total, difference, wheel, torch):
    source = "fetched by pip" if torch == "pip" else "taken from another environment by a `.pth` file, so its download is not in these times"
    load = os.getloadavg()[0]
    rows = "".join(f"| {step} | {seconds:.1f} | {said.replace('|', '/')} |\n" for step, seconds, said in walk.rows)
    return f"""# A Python script that Lockstep has never seen, from pip to a survived kill

`tests/install/python_walk.py` does what a new user does, and writes this page. The script is `tests/install/walk_train.py`: a GRU
with packed sequences, a Trainer class, clipping, a schedule, one loader worker and augmentation.

Walked on {datetime.date.today()} on {os.cpu_count()} cores with a load of {load:.0f}. The wheel is `{wheel.name}`. PyTorch was
{source}.

| step | seconds | what it said |
|---|---:|---|
{rows}| in all | {total:.1f} | allowed are {ALLOWED_S} |

These lines were added:

```diff
{difference}```

The weights at the end are those of a run that was left alone, bit for bit.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--torch", default=os.environ.get("LOCKSTEP_BENCH_PYTHON"))
    parser.add_argument("--page", type=pathlib.Path)
    asked = parser.parse_args()
    if not asked.torch:
        print("skipped: LOCKSTEP_BENCH_PYTHON names no Python; LOCKSTEP_TEST_PEERS=1 make test fetches one")
        sys.exit(1 if os.environ.get("LOCKSTEP_TEST_PEERS") == "1" else SKIPPED)
    with tempfile.TemporaryDirectory(prefix="lockstep walk ") as name, contextlib.ExitStack() as cleanup:
        folder = pathlib.Path(name)
        wheel = asked.wheel.resolve() if asked.wheel else made_wheel(folder)
        walk = Walk(folder, cleanup)
        (folder / "train.py").write_text(SCRIPT.read_text())
        install(walk, wheel, asked.torch)
        difference = add_lines(folder / "train.py")
        survive(walk)
        walk.typed("lockstep", "report", "runs/train", pick=r"[^\n]*\n")
        total = sum(seconds for _, seconds, _ in walk.rows)
        print(f"{total:6.1f} s  in all", flush=True)
        if not compare(walk):
            sys.exit("the weights are not those of a run that was left alone")
        if asked.page:
            asked.page.write_text(page(walk, total, difference, wheel, asked.torch))
        sys.exit(f"it took more than {ALLOWED_S} s" if total > ALLOWED_S else 0)


if __name__ == "__main__":
    main()
