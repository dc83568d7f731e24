#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's lines, typed one after the other on a machine without Slurm and without devices. LOCKSTEP_BIN is the folder of the
programs."""
import datetime
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["LOCKSTEP_BIN"])
# A command with this exit code needs a cluster. tests/slurm runs these lines.
ELSEWHERE = {"srun": 127, "lockstep scale": 4}
PLACES = {"/data/mnist": "mnist", "snapshot ls runs/digits-20261121-102954": "snapshot ls runs/mine", "RUN": "runs/mine", "DIR": shlex.quote(str(ROOT / "datasets/digits"))}


def lines():
    """Every command line of the README, without the comment behind it."""
    for block in re.findall(r"(?:^    .*\n)+", (ROOT / "README.md").read_text(), re.M):
        for line in block.splitlines():
            line = re.sub(r"  +#.*", "", line.strip()).removeprefix("$ ")
            if line.startswith(("lockstep ", "srun ")):
                yield line
    yield from re.findall(r"`(lockstep (?:recipe|layout|hosts|profile ls)[^`]*)`", (ROOT / "README.md").read_text())


def write_small_mnist(folder):
    """The shape of MNIST's files, in few samples of zeros."""
    folder.mkdir()
    for name, count in (("train", 256), ("t10k", 64)):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(b"".join(n.to_bytes(4, "big") for n in (2051, count, 28, 28)) + bytes(count * 784))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(b"".join(n.to_bytes(4, "big") for n in (2049, count)) + bytes(i % 10 for i in range(count)))


class Readme(unittest.TestCase):
    def test_its_lines_work_on_a_laptop(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep readme ")))
        write_small_mnist(folder / "mnist")
        shutil.copy(ROOT / "recipes/digits.toml", folder / "mine.toml")
        mine = (folder / "mine.toml").read_text().replace("../datasets/digits", str(ROOT / "datasets/digits"))
        (folder / "mine.toml").write_text(mine)
        tools = folder / "tools"
        tools.mkdir()
        for name in ("sh", "cat", "uname", "ls", "timeout"):  # Slurm may lie beside these.
            (tools / name).symlink_to(shutil.which(name))
        env = {"PATH": f"{BIN}:{tools}", "HOME": str(folder), "USER": "me"}
        ran = 0
        for line in lines():
            typed = line
            for word, place in PLACES.items():
                typed = re.sub(rf"(?<![\w/]){re.escape(word)}(?!\w)", place, typed)
            wanted = next((code for begin, code in ELSEWHERE.items() if line.startswith(begin)), 0)
            # Where the time limit of the whole test ends it, these lines say how far it came.
            print(f"{datetime.datetime.now():%H:%M:%S} {typed}", flush=True)
            with self.subTest(line=line):
                done = subprocess.run(["sh", "-c", typed], cwd=folder, env=env, text=True, capture_output=True, timeout=300)
                self.assertEqual(done.returncode, wanted, f"{typed}\n{done.stdout}{done.stderr}")
                ran += 1
        self.assertGreater(ran, 14)


unittest.main(verbosity=2)
