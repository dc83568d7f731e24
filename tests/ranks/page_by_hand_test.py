#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that write their page by docs/formats/page.md alone, without Lockstep's code: the launcher finds what they note, reads their
Python stack, and answers `lockstep why` for the run folder that they name."""
import json
import os
import pathlib
import signal
import sys

import harness

# Ranks take steps of 10 ms until one of them has its fault.
SCRIPT = """
import faulthandler, mmap, os, pathlib, signal, struct, sys, time

RANK, RUN, FAULT = int(os.environ["RANK"]), sys.argv[1], sys.argv[2]
LOADING, FORWARD, BACKWARD, UPDATE = 1, 2, 3, 4

with open(os.environ["LOCKSTEP_PAGE"], "r+b") as file:
    page = mmap.mmap(file.fileno(), 4096)

def number(at, value, form="=q"):
    struct.pack_into(form, page, at, value)

def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

def add(at, value=1):
    number(at, struct.unpack_from("=q", page, at)[0] + value)

def enter(phase, step):
    before, = struct.unpack_from("=I", page, 24)
    add(232 + 8 * before, now() - struct.unpack_from("=q", page, 296)[0])
    number(296, now())
    add(56 + 8 * phase)
    number(24, phase, "=I")
    number(32, step)
    number(304, -1)
    note()

def note():
    number(224, now())
    add(16)

def collective(what, elements, detail):
    add(120)
    page[144:176] = what.encode().ljust(32, b"\\0")
    page[176:224] = detail.encode().ljust(48, b"\\0")
    number(136, elements)
    add(128)
    add(120)
    note()

def wait_for_ever():
    while True:
        time.sleep(1000)

def train():
    step = 0
    while True:
        enter(LOADING, step)
        if RANK == 1 and step == 60 and FAULT == "load":
            number(304, 4711)
            wait_for_ever()
        enter(FORWARD, step)
        time.sleep(0.01)
        enter(BACKWARD, step)
        if RANK == 1 and step == 60 and FAULT == "apart":
            collective("broadcast Float", 8, "[8]")
            wait_for_ever()
        collective("all_reduce Float", 1024, "bucket 1")
        if RANK == 1 and step == 60 and FAULT == "end":
            sys.exit(5)
        if step == 60:
            wait_for_ever()
        enter(UPDATE, step)
        step += 1

stack = os.memfd_create("stack")
faulthandler.register(signal.SIGRTMIN + 9, file=stack, all_threads=False)
number(8, os.getpid(), "=i")
number(12, RANK, "=i")
number(40, -1)
number(296, now())
number(304, -1)
number(312, signal.SIGRTMIN + 9, "=i")
number(316, os.getpid(), "=i")
number(848, stack, "=i")
name = RUN.encode()
page[857:856 + len(name)] = name[1:]
page[856:857] = name[:1]
page[:8] = b"KLPAGE2\\0"
train()
"""


class PageByHand(harness.RanksTest):
    def ranks(self, fault):
        (self.folder / "train.py").write_text(SCRIPT)
        (self.folder / "run").mkdir()
        return self.start("launch", "-n", 3, "--", sys.executable, self.folder / "train.py", self.folder / "run", fault,
                          env={"LOCKSTEP_STOP_GRACE": "1"})

    def told(self):
        path = self.folder / "run/watch.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def test_a_rank_that_loads_is_named_with_its_sample_and_its_line(self):
        command = self.ranks("load")
        line = command.wait_until(self.told, "a verdict", 60)[0]
        self.assertEqual((line["kind"], line["ranks"]), ("late", [1]))
        self.assertRegex(line["text"], r"^rank 1 \(process \d+ on \S+\) is in loading of step 60, sample 4711 is not there yet for 1\d s, it sleeps; "
                                       r"ranks 0, 2 wait in collective 61, all_reduce Float of 1024 elements \(bucket 1\)$")
        seen = line["seen"]["1"]
        self.assertRegex(seen["python"][0], r"^wait_for_ever \(train.py:\d+\)$")
        self.assertRegex(seen["python"][-1], r"^<module> \(train.py:\d+\)$")
        self.assertIsNone(seen["stack"])
        self.assertIn("  | Python stack, innermost first:\n  |   wait_for_ever (train.py:", command.text(1))
        (self.folder / "run/run.lock").write_text(self.identity(command))
        answer = self.start("why", self.folder / "run", "--json").finish(100)
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual([rank["loading_sample"] for rank in answer.object["ranks"]], [None, 4711, None])
        self.assertTrue(all(rank["python"][0].startswith("wait_for_ever (train.py:") for rank in answer.object["ranks"]), answer.out)
        command.process.send_signal(signal.SIGTERM)
        command.finish(60)

    def identity(self, command):
        """A holder of run.lock that lives, as a training of ours writes it."""
        pid = command.ranks()[0]
        started = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return json.dumps({"host": os.uname().nodename, "pid": pid, "started": int(started), "job": "", "restarts": 0,
                           "boot": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(), "pid_namespace": os.readlink("/proc/self/ns/pid")})

    def test_ranks_in_different_collectives_are_named(self):
        result = self.ranks("apart").finish(90)
        self.assertEqual(result.code, harness.PEER_LOST, result.err)
        line, = self.told()
        self.assertEqual((line["kind"], line["ranks"]), ("apart", [1]))
        self.assertRegex(line["text"], r"^rank 1 \(process \d+ on \S+\) is in collective 61, broadcast Float of 8 elements \(\[8\]\), in backward of step 60; "
                                       r"ranks 0, 2 in collective 61, all_reduce Float of 1024 elements \(bucket 1\), in backward of step 60: ")

    def test_a_rank_that_ends_is_named_with_its_phase(self):
        result = self.ranks("end").finish(60)
        self.assertEqual(result.code, 5, result.err)
        self.assertIn("rank 1 of 3 ended with code 5 in backward of step 60; the others were stopped", result.err)
        line, = self.told()
        self.assertEqual((line["kind"], line["ranks"]), ("ended", [1]))
        self.assertRegex(line["text"], r"^rank 1 \(process \d+ on \S+\) ended with code 5, in backward of step 60$")


if __name__ == "__main__":
    harness.main()
