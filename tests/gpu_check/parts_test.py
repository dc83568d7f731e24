#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every part of tools/gpu-check fills all its rows from what programs on a GPU would say: canned words, no program runs."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))
sys.dont_write_bytecode = True
import machine  # noqa: E402
import part_build  # noqa: E402
import part_guides  # noqa: E402
import part_same  # noqa: E402
import part_speed  # noqa: E402
import runs  # noqa: E402
from check_test import GPU  # noqa: E402
from page import TRIED, Results  # noqa: E402

PARTS = [*part_same.PARTS, *part_speed.PARTS, *part_guides.PARTS]
STEP_S = {"mnist": 70e-6, "digits": 0.08, "hymenoptera": 0.08, "bert": 0.05, "cifar100": 0.03}
GRAPH = "whole steps are replayed: 70 µs a step, 210 µs one operation at a time"


class Scripted(runs.Check):
    """A GPU that works, and programs that say so."""
    graph = GRAPH
    digest = "aa"
    speaks_nccl = True
    is_finite = True

    def train(self, recipe, *settings, devices=1, on_cpu=False, resume=None, cores=None, env=None):
        said = dict(each.split("=", 1) for each in settings)
        if self.speaks_nccl and env and "NCCL_DEBUG_FILE" in env:
            pathlib.Path(env["NCCL_DEBUG_FILE"]).write_text("node:1:1 [0] NCCL INFO Init COMPLETE\n")
        folder = self.work / "runs" / str(next(self.runs))
        every, last = int(said.get("observe.log_every", 50)), int(said.get("trainer.max_steps", 100))
        step_s, begin = STEP_S[recipe], 1000.0
        lines = [{"event": "run_started", "step": 20 if resume else 0, "time": begin, "parameters": 25_000_000, "facts": {"device": "cuda:0"}}]
        lines += [{"event": "step", "step": step, "time": begin + 3 + step * step_s, "loss": 1 / step} for step in range(every, last + 1, every)]
        lines.append({"event": "run_ended", "step": last, "facts": {"graph": self.graph, "healings": str(int(said.get("trainer.heal") == "on"))}, "device_peak_bytes": 3 << 30})
        for step in range(0, last + 1, int(said.get("snapshot.every_steps", last))):
            state = folder / f"snapshots/step-{step:010}/state.json"
            state.parent.mkdir(parents=True)
            state.write_text(json.dumps({"numbers": {"scaler.scale": 65536.0}}))
        times, watch = machine.ThreadTimes(1), machine.DeviceWatch(False)
        end = begin + 3 + last * step_s
        times.samples = [(begin + 3 + share * (end - begin - 3), {"1": int(share * 8e8)}) for share in (0, 0.3, 0.5, 0.7, 1)]
        watch.samples = [(at, {"busy": 0.995, "watts": 600.0, "gib": 20.0}) for at, _ in times.samples]
        result = {"val_accuracy": 0.98, "epochs": 5, "steps": last, "weights_digest": self.digest, "time_to_first_step_s": 2.5}
        return runs.Run(folder, result, lines, begin, 12.0, times, watch)

    def peer(self, script, *arguments):
        said = dict(zip(map(str, arguments[::2]), arguments[1::2]))
        step = {"step_s": 0.12, "cpu_s": 0.001, "windows_s": [0.12], "traffic_bytes": 10**11}
        return {"peer_losses.py": {"losses": [1 / at for at in range(1, 101)]}, "peer_scaler.py": {"scales": [65536.0] * said.get("--steps", 1)},
                "peer_load.py": {"tensors": 8, "devices": ["cpu"]}, "peer_images.py": {"first_step_s": 9.0, "epochs_s": [6.0, 5.0, 5.0]},
                "peer_lightning.py": {"missing": "lightning"}}.get(script, step)

    def command(self, command, log, env=None):
        if log == "diff":
            worst = 1e-12 if self.is_finite else None
            return json.dumps({"only_in_a": [], "only_in_b": [], "different": [{"name": "fc1.weight", "max_abs": worst, "not_finite": 0}]})
        return {"recipe-ls": '{"key": "trainer.graph"}', "decode": '{"rates": [{"samples_per_second": 9050.0}]}'}.get(log, "")


class PartsTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

        self.addCleanup(part_speed.PHOTOGRAPHS.update, dict(part_speed.PHOTOGRAPHS))
        part_speed.PHOTOGRAPHS.update(train=12, val=4)
        for part in ("train", "val"):
            for label in ("ants", "bees"):
                photograph = self.folder / "data/hymenoptera" / part / label / "one.jpg"
                photograph.parent.mkdir(parents=True)
                photograph.touch()

    def rows_of(self, check_class, parts):
        results = Results(parts, self.folder / "RESULTS-gpu.md", GPU)
        for part in parts:
            results.reopen(part)
        results.were_compiled()
        check = check_class(results, self.folder / "work", self.folder / "data", 600)
        for part in parts:
            check.limit = time.monotonic() + 60
            part.run(check)
        return results.rows

    def test_a_gpu_that_works_leaves_no_row_open(self):
        rows = self.rows_of(Scripted, PARTS)
        open_rows = {key for key, row in rows.items() if row.state != TRIED}
        self.assertEqual(open_rows, {"cnn lightning"})
        self.assertIn("not installed there", rows["cnn lightning"].found)
        missed = {key: row.found for key, row in rows.items() if row.holds is False}
        self.assertEqual(missed, {})

    def test_rows_say_what_was_measured_in_words(self):
        rows = self.rows_of(Scripted, PARTS)
        self.assertRegex(rows["cnn step"].found, r"^70 µs; eager 120\.0 ms \(1714.*; Lightning: not installed there; whole steps are replayed")
        self.assertEqual(rows["cnn busy"].found, "0.995, 600 W")
        self.assertRegex(rows["resnet50 bandwidth"].found, r"391 MB an image, 1250 GB/s, 31% of a copy's 4000 GB/s")
        self.assertRegex(rows["photographs"].found, r"12\.0 s, .*; PyTorch 260 s, reckoned from 3 epochs of 5\.0 s")
        self.assertRegex(rows["cifar 152"].found, r"tensors of at most 3\.0 GiB; the device holds 20\.0 GiB, draws 600 W, is busy")

    def test_few_photographs_are_repeated_to_the_whole_sets_number(self):
        rows = self.rows_of(Scripted, [next(part for part in PARTS if part.name == "photographs")])
        self.assertIn("(2 photographs repeated to 12)", rows["photographs"].found)
        folder = self.folder / "work/photographs-1"
        self.assertEqual([len(list((folder / part).glob("*/*.jpg"))) for part in ("train", "val")], [12, 4])

    def test_a_run_that_replayed_nothing_is_no_proof_of_graphs(self):
        class Plain(Scripted):
            graph = "steps are not replayed: the device records no work"
        part = next(part for part in PARTS if part.name == "graph")
        with self.assertRaisesRegex(runs.Failure, "the device records no work"):
            self.rows_of(Plain, [part])

    def test_one_rank_without_nccls_words_is_no_proof_of_nccl(self):
        class Silent(Scripted):
            speaks_nccl = False
        rows = self.rows_of(Silent, [next(part for part in PARTS if part.name == "ranks")])
        self.assertEqual(rows["ranks nccl"].state, "compiled")
        self.assertIn("makes no NCCL group", rows["ranks nccl"].found)
        self.assertEqual(rows["ranks gloo"].state, TRIED)

    def row_of_tests(self, said, problem=None):
        results = Results(part_build.PARTS, self.folder / "RESULTS-gpu.md", GPU)
        results.reopen(part_build.PARTS[1])
        results.were_compiled()
        part_build.tell(Scripted(results, self.folder / "work", self.folder, 60), part_build.cases_of(said), problem)
        return results.rows["tests"]

    def test_tests_that_all_skip_were_not_tried(self):
        skipped = "[ RUN      ] Gpu.{0}\n/place/device_test.cc:14: Skipped\nthis node has no GPU\n\n[  SKIPPED ] Gpu.{0} (0 ms)\n"
        row = self.row_of_tests(skipped.format("A") + skipped.format("B"))
        self.assertEqual((row.state, row.found), ("compiled", "not run: Gpu.A, Gpu.B: this node has no GPU"))

    def test_a_failed_test_is_told_with_its_own_words(self):
        row = self.row_of_tests("[ RUN      ] Gpu.B\n[       OK ] Gpu.B (3 ms)\n"
                             "[ RUN      ] Gpu.A\n/place/device_test.cc:14: Failure\nExpected equality of these values:\n  1\n  2\nmore\n"
                             "[  FAILED  ] Gpu.A (1 ms)\n[ RUN      ] Gpu.C\nx: Skipped\nno second GPU\n[  SKIPPED ] Gpu.C (0 ms)\n"
                             "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Gpu.A\n")
        self.assertEqual((row.state, row.holds), (TRIED, False))
        self.assertEqual(row.found, "1 passed, 1 failed, 1 skipped; failed: Gpu.A: Expected equality of these values: / 1 / 2; "
                         "skipped: Gpu.C: no second GPU")

    def test_a_time_limit_leaves_the_tests_that_ran(self):
        said = "[ RUN      ] Gpu.A\n[       OK ] Gpu.A (3 ms)\n[ RUN      ] Gpu.B\nhalf of"
        row = self.row_of_tests(said, runs.NotHere("out of time"))
        self.assertEqual((row.state, row.holds), (TRIED, False))
        self.assertEqual(row.found, "1 passed, 0 failed, 0 skipped; cut off in Gpu.B: out of time")
        self.assertEqual(row.numbers["passed"], ["Gpu.A"])

    def test_a_test_that_ends_the_process_has_failed(self):
        row = self.row_of_tests("[ RUN      ] Gpu.A\n[       OK ] Gpu.A (3 ms)\n[ RUN      ] Gpu.B\nerror: the device fell off\n",
                             runs.Failure("exit -11"))
        self.assertEqual(row.found, "1 passed, 1 failed, 0 skipped; failed: Gpu.B: error: the device fell off")

    def test_a_program_of_tests_that_is_cut_off_is_read_as_far_as_it_came(self):
        program = self.folder / "bin/lockstep_gpu_test"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho '[ RUN      ] Gpu.A'\necho \"[       OK ] Gpu.A ($CUBLAS_WORKSPACE_CONFIG)\"\n"
                           "echo '[ RUN      ] Gpu.B'\nexec sleep 60\n")
        program.chmod(0o755)
        self.addCleanup(setattr, part_build, "BUILD", part_build.BUILD)
        part_build.BUILD = self.folder
        results = Results(part_build.PARTS, self.folder / "RESULTS-gpu.md", GPU)
        check = runs.Check(results, self.folder / "work", self.folder, 600)
        check.limit = time.monotonic() + 1
        part_build.tests(check)
        self.assertEqual(results.rows["tests"].found, "1 passed, 0 failed, 0 skipped; cut off in Gpu.B: out of time")

    def test_weights_that_are_not_finite_are_not_equal(self):
        class Broken(Scripted):
            is_finite = False

            @property
            def digest(self):
                return str(next(self.runs))
        rows = self.rows_of(Broken, [next(part for part in PARTS if part.name == "ranks")])
        self.assertIs(rows["ranks gloo"].holds, False)
        self.assertIn("not finite", rows["ranks gloo"].found)


if __name__ == "__main__":
    unittest.main(verbosity=2)
