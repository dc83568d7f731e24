#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`model.compiled = "auto"`: a network that Lockstep has a Python compile trains as the plain one, and where it cannot be compiled
the plain one trains. LOCKSTEP_BENCH_PYTHON is a Python with PyTorch."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import harness

sys.path.append(str(harness.SOURCE / "tests/support"))
import peers  # noqa: E402

PYTHON = peers.PYTHON or sys.executable
# Small buckets, so that two ranks get these few gradients in stages.
WIDE = ("model.name=cnn", "model.compiled=auto", "data.kind=synthetic", "data.samples=96", "data.classes=10", "data.shape=[1, 28, 28]",
        "data.split=32", "data.global_batch=16", "trainer.max_epochs=2", "trainer.precision=fp64", "trainer.deterministic=true",
        "trainer.bucket_mb=0.25", "optimizer.name=sgd", "optimizer.lr=0.05", "observe.log_every=1")
COMPILING = "compiling the network"
PLAIN = "the plain network trains"


class Compiled(harness.RanksTest):
    kept = None

    def env(self, python=PYTHON):
        # A rank that is killed leaves the package that LibTorch has unpacked for it.
        return {"LOCKSTEP_CACHE": str(self.folder / "cache"), "LOCKSTEP_PYTHON": python, "TMPDIR": str(self.folder)}

    def run_of(self, name, *settings, python=PYTHON, **keywords):
        result = self.train(*WIDE, *settings, run=name, env=self.env(python), seconds=900, **keywords)
        self.assertEqual(result.code, 0, result.err[-3000:])
        return result

    def compiled(self, name, *settings, **keywords):
        result = self.run_of(name, *settings, **keywords)
        self.assertNotIn(PLAIN, result.err)
        return result

    def losses(self, name):
        return [line["loss"] for line in harness.metrics(self.folder / name) if line["event"] == "step"]

    def begin_with_the_compiled_network(self):
        """Gives this test's cache the network that two ranks train. It is compiled once for the tests that are not about that."""
        if self.kept is None:
            kept = type(self).kept = self.enterClassContext(tempfile.TemporaryDirectory(prefix="lockstep-compiled-"))
            self.assertIn(COMPILING, self.compiled("compiles").err)
            shutil.copytree(self.folder / "cache/compiled", pathlib.Path(kept) / "compiled")
        else:
            shutil.copytree(pathlib.Path(self.kept) / "compiled", self.folder / "cache/compiled")

    def packages(self):
        return sorted((self.folder / "cache/compiled").glob("*.pt2"))

    def test_trains_as_the_plain_network_and_is_compiled_once(self):
        plain = self.run_of("plain", python="/bin/false").object
        digests = {}
        for ranks in (2, 1):
            first = self.compiled(f"first-{ranks}", ranks=ranks)
            self.assertIn(COMPILING, first.err)
            self.assertIn("trains with the network compiled in", first.err)
            self.assertEqual(first.object["sample_digest"], plain["sample_digest"])
            digests[ranks] = first.object["weights_digest"]
            for ours, theirs in zip(self.losses(f"first-{ranks}"), self.losses("plain"), strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-9)  # Sums are fused, so their last bits are others.
        again = self.compiled("again", python="/bin/false")
        self.assertNotIn(COMPILING, again.err)
        self.assertEqual(again.object["weights_digest"], digests[2])
        folder = self.folder / "cache/compiled"
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        self.assertEqual(len(self.packages()), 2, "one for each number of ranks")
        self.assertEqual([each.name for each in folder.iterdir() if each.suffix != ".pt2" and each.is_file()], ["failed.log"])
        # A file that a full disk cut off is compiled anew.
        for each in self.packages():
            each.write_bytes(each.read_bytes()[:1000])
        self.assertIn(COMPILING, self.compiled("mended").err)

    def test_the_faster_network_trains(self):
        auto = ("trainer.deterministic=false", "trainer.max_epochs=1")
        first = self.run_of("first", *auto)
        speed, = (self.folder / "cache/compiled").glob("*.2.speed")
        found = json.loads(speed.read_text())
        self.assertEqual(PLAIN in first.err, found["compiled_s"] >= found["plain_s"], first.err)
        for plain_s, compiled_s in ((0.5, 0.25), (0.25, 0.5)):  # Later runs do not measure, so that they make the same choice.
            speed.write_text(json.dumps({"plain_s": plain_s, "compiled_s": compiled_s}))
            again = self.run_of(f"again-{plain_s}", *auto)
            self.assertEqual(PLAIN in again.err, compiled_s > plain_s, again.err)
        self.assertIn(f"{PLAIN}: on this CPU it is faster, 125.00 ms a pass instead of 250.00 ms", again.err)
        always = self.run_of("always", *auto, "model.compiled=always")
        self.assertNotIn(PLAIN, always.err)
        speed.write_text("{")
        self.run_of("cut", *auto)
        self.assertEqual(sorted(json.loads(speed.read_text())), ["compiled_s", "plain_s"])

    def test_a_process_in_the_place_of_a_dead_rank_computes_as_the_others(self):
        self.begin_with_the_compiled_network()
        longer = ("trainer.max_epochs=40", "trainer.heal=auto", "trainer.validate_every=0", "trainer.heal_window=0")
        whole = self.compiled("whole", *longer).object
        for victim in (1, 0):
            run = f"healed-{victim}"
            command = self.start_train(*WIDE, *longer, run=run, env=self.env())
            command.wait_for_step(self.folder / run, 20, 300)
            os.kill(command.ranks()[victim], signal.SIGKILL)
            result = command.finish(300)
            self.assertEqual(result.code, 0, result.err[-3000:])
            self.assertIn("is started again", result.err)
            self.assertEqual(result.object["weights_digest"], whole["weights_digest"])

    def test_gradients_are_sent_before_backward_ends(self):
        self.begin_with_the_compiled_network()
        self.compiled("traced", "observe.profile=[3, 4]")
        events = json.loads((self.folder / "traced/trace/rank-0000.pt.trace.json").read_text())["traceEvents"]
        stages = sorted((each["ts"], each["ts"] + each["dur"]) for each in events if each.get("name") == "compiled backward")
        sent = sorted(each["ts"] for each in events if "all_reduce" in each.get("name", "") or "allreduce" in each.get("name", ""))
        self.assertGreater(len(stages), 2, "backward has one stage a step")
        a_step = len(stages) // 2
        first_step_ends = stages[a_step - 1][1]
        self.assertTrue(any(stages[0][1] <= each < first_step_ends for each in sent),
                        f"stages {stages[:a_step]}, all-reduces {sent[:8]}")

    def test_a_resumed_run_keeps_what_it_began_with(self):
        self.begin_with_the_compiled_network()
        whole = self.compiled("whole", "snapshot.every_steps=3").object
        first = self.folder / "whole/snapshots" / harness.snapshot_name(3)
        resumed = self.compiled("resumed", options=("--resume", first)).object
        self.assertEqual(resumed["weights_digest"], whole["weights_digest"])
        # Without a Python it goes on, and says that its sums are others from here on.
        for each in self.packages():
            each.unlink()
        gone = self.run_of("gone", python="/bin/false", options=("--resume", first))
        self.assertIn("its sums differ in their last bits", gone.err)
        # What began plain stays plain, though there is a Python now.
        plain = self.run_of("plain", "snapshot.every_steps=3", python="/bin/false").object
        kept = self.run_of("kept", options=("--resume", self.folder / "plain/snapshots" / harness.snapshot_name(3)))
        self.assertIn(f"{PLAIN}: the snapshot is of a run that trains the plain network", kept.err)
        self.assertEqual(kept.object["weights_digest"], plain["weights_digest"])

    def test_the_reason_for_the_plain_network_is_one_line(self):
        lines = {}
        for name, settings, python in (("python", (), "/bin/false"), ("torch", (), sys.executable), ("batch", ("data.global_batch=15",), PYTHON)):
            if name == "torch" and subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
                continue
            result = self.run_of(name, *settings, python=python)
            (lines[name],) = [line for line in result.err.splitlines() if PLAIN in line]
        self.assertIn("/bin/false", lines["python"])
        log = self.folder / "cache/compiled/failed.log"
        self.assertTrue(lines["python"].endswith(f"; all that it wrote is in {log}"), lines["python"])
        self.assertIn("data.global_batch is 15, which 2 ranks cannot share equally", lines["batch"])
        if "torch" in lines:
            self.assertIn("No module named 'torch'", lines["torch"])
            self.assertIn("Traceback", log.read_text())

    def test_a_snapshot_and_a_command_name_the_word_and_no_file(self):
        self.run_of("run", "trainer.max_epochs=1", python="/bin/false")
        self.assertIn('compiled = "auto"', (self.folder / "run/recipe.toml").read_text())
        evaluated = self.start("eval", self.folder / "run", "--json", env=self.env("/bin/false")).finish()
        self.assertEqual(evaluated.code, 0, evaluated.err)


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch._inductor.lowering"], capture_output=True, check=False, env=os.environ).returncode != 0:
        peers.skip_script()
    harness.main()
