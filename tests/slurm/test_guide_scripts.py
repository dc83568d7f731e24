#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/11_guide_scripts under a real Slurm, stopped at random moments: each goes on by itself, with one
snapshot at one step, and ends with the weights of a run that was left alone, bit for bit:
test_guide_scripts.py LOCKSTEP

LOCKSTEP_GUIDE_SEEDS=FIRST:COUNT says which; `tools/soak guide_scripts` counts on from run to run.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

import bed as test_bed

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "examples/11_guide_scripts"
FIRST, COUNT = map(int, os.environ.get("LOCKSTEP_GUIDE_SEEDS", "0:2").split(":"))
PATIENCE = 240
STILL = 600  # A job that shows no sign of life for so long hangs.
LAST_MOMENT = 60
COMPARE = """import sys, torch
a, b = (torch.load(each, weights_only=True) for each in sys.argv[1:3])
if {name: each.shape for name, each in a.items()} != {name: each.shape for name, each in b.items()}:
    sys.exit("the weights have other names or shapes")
if not all(torch.equal(a[name], b[name]) for name in b):  # A NaN is not.
    sys.exit(f"the weights differ, by {max((a[name].double() - b[name].double()).abs().max().item() for name in b)} at most")
print("equal")
"""
MAKE_PHOTOGRAPHS = """import pathlib, sys, random
from PIL import Image
draw = random.Random(1)
for part, count in (("train", 70), ("val", 8)):
    for place, name in enumerate(("ants", "bees")):
        folder = pathlib.Path(sys.argv[1], part, name)
        folder.mkdir(parents=True)
        for i in range(count):
            Image.frombytes("RGB", (40, 40), draw.randbytes(4800)).point(lambda x: x // 2 + 80 * place).save(folder / f"{i}.jpg")
"""


class GuideScripts(test_bed.BedTest):
    program = LOCKSTEP
    whole = {}

    def setUp(self):
        super().setUp()
        digits = ROOT / "datasets/digits"
        self.commands = {"ddp_two_nodes.py": (digits, 4), "lightning_mnist.py": (digits, 20),
                         "photographs.py": (self.folder / "photographs", 5, 32), "fine_tune.py": (self.folder / "sentences.tsv", 8)}
        draw = random.Random(1)
        (self.folder / "sentences.tsv").write_text("".join(f"{i % 2}\t{('bad', 'good')[i % 2]} {draw.choice(('dog', 'day'))} {draw.randrange(999)}\n"
                                                           for i in range(200)))
        subprocess.run([peers.PYTHON, "-c", MAKE_PHOTOGRAPHS, self.folder / "photographs"], check=True)

    def begin(self, script, run, *flags):
        env = ["--env", f"PYTHONPATH={ROOT / 'python'}", "--env", "OMP_NUM_THREADS=1", "--env", "CUDA_VISIBLE_DEVICES=", "--env", "PYTHONWARNINGS=ignore"]
        folder, epochs, *more = self.commands[script]
        # The more ranks, the fewer steps an epoch has.
        words = (folder, epochs * max(2, self.ranks) // 2, *more)
        return self.job(*flags, *env, "--", peers.PYTHON, SCRIPTS / script, *words, run=run)

    def weights_of_one_left_alone(self, script, shape):
        key = script, self.ranks
        if key not in self.whole:
            run = f"whole-{script}-{self.ranks}"
            job = self.begin(script, run, *shape)
            self.assertEqual(self.ended(job, run)["JobState"], "COMPLETED", self.log(run))
            self.whole[key] = self.folder / run / "weights.pt"
        return self.whole[key]

    def steps(self, run):
        path = self.folder / run / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [line["step"] for line in (json.loads(each) for each in lines if each.endswith("\n")) if line["event"] == "step"]

    def ended(self, job, run):
        """How a job ended. However slow the machine is, it has so long from one sign of life to the next."""
        signs, last = None, time.monotonic()
        while True:
            shown = dict(word.split("=", 1) for word in self.bed.run("scontrol", "show", "job", job).split() if "=" in word)
            if shown["JobState"] in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"):
                return shown
            files = [path.stat().st_size for path in (self.folder / run / "metrics.jsonl", self.folder / run / "logs/job.log") if path.exists()]
            now = (shown["JobState"], shown["Restarts"], files)
            if now != signs:
                signs, last = now, time.monotonic()
            if time.monotonic() - last > STILL:
                self.fail(f"{run} stands still in {now}\n{self.log(run)}")
            time.sleep(1)

    def process(self, job, rank, script):
        """The process of the script itself as this rank of a job."""
        wanted = {f"SLURM_JOB_ID={job}", f"SLURM_PROCID={rank}"}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                variables = set((folder / "environ").read_bytes().decode(errors="replace").split("\0"))
            except OSError:
                continue
            if wanted <= variables and len(words) > 1 and words[1].endswith(script) and "python" in words[0]:
                return int(folder.name)
        return self.fail(f"rank {rank} of job {job} runs no {script}")

    def by_signal(self, draw, job):
        name = draw.choice(("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT"))
        os.kill(self.process(job, draw.randrange(self.ranks), self.script), getattr(signal, name))
        return name + " to one rank"

    def by_requeue(self, _, job):
        self.bed.run("scontrol", "requeue", job)
        return "scontrol requeue"

    def by_kill(self, draw, job):
        os.kill(self.process(job, draw.randrange(self.ranks), self.script), signal.SIGKILL)
        return "SIGKILL of one rank"

    KINDS = (by_signal, by_requeue, by_kill)

    def check(self, seed):
        draw = random.Random(seed)
        self.script = list(self.commands)[seed % len(self.commands)]
        kind = self.KINDS[(seed + seed // len(self.commands)) % len(self.KINDS)]
        run, moment = f"run-{seed}", draw.randrange(1, LAST_MOMENT)
        # transformers 4.57 cannot load its optimizer on two CPU ranks: it wants it on "cpu:0".
        self.ranks = 1 if self.script == "fine_tune.py" else 3 if seed % 5 == 4 else 2
        shape = ("--nodes", self.ranks, "--tasks-per-node", 1)
        whole = self.weights_of_one_left_alone(self.script, shape)
        # A rank that was killed is started again within its job. If there is no other node, it is started on the same one.
        job = self.begin(self.script, run, *(("--nodes", 1, "--tasks-per-node", self.ranks, "--restarts", 2) if kind is GuideScripts.by_kill else shape))
        self.until(lambda: any(step >= moment for step in self.steps(run)), f"{run} did not come to step {moment}", PATIENCE)
        what = kind(self, draw, job)
        state = self.ended(job, run)
        told = f"seed {seed}: {self.script} on {self.ranks}, {what}, moment {moment}"
        self.assertEqual(state["JobState"], "COMPLETED", told + "\n" + self.log(run))
        done = subprocess.run([peers.PYTHON, "-c", COMPARE, self.folder / run / "weights.pt", whole], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, f"{told}: {done.stderr}\n{self.log(run)}")
        # The killed rank may not have saved yet. All other runs save when they are stopped, and are requeued once.
        if kind is not GuideScripts.by_kill:
            self.assertIn("goes on from", self.log(run), told)
            self.assertEqual(state["Restarts"], "1", told + "\n" + self.log(run))
        print(f"{told}: goes on, and ends as one left alone: {done.stdout.strip()}", flush=True)

    def test_stopped_at_random_moments(self):
        for seed in range(FIRST, FIRST + COUNT):
            with self.subTest(f"seed {seed}"):
                try:
                    self.check(seed)
                finally:
                    self.end_jobs()


if not peers.PYTHON:
    peers.skip_script()
test_bed.skip_where_impossible()
unittest.main(verbosity=2)
