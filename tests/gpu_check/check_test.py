#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-check's pages say only what was tried, and its parts fail one by one."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/gpu"))
sys.dont_write_bytecode = True
import machine  # noqa: E402
import pack  # noqa: E402
import part_build  # noqa: E402
import plan  # noqa: E402
import probe  # noqa: E402
import runs  # noqa: E402
from page import COMPILED, REHEARSED, TRIED, WRITTEN, Part, Results, Row  # noqa: E402

loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "tools/gpu-check"))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(gpu_check)

GPU = {"is_gpu": True, "device": "NVIDIA Made Up", "memory_gib": 80, "capability": "9.0", "driver": "1", "runtime": "CUDA 13", "cudnn": "9",
       "nccl": "2", "copy_gb_s": 4000.0, "torch": "2.11", "python": "3.12", "version": "0.1", "commit": "abc", "cores": 16, "processor": "p"}
CPU = GPU | {"is_gpu": False, "device": "CPU"}


def finds(*keys):
    def run(check):
        for key in keys:
            check.results.found(key, f"{key} went well", True)
    return run


def breaks(check):
    check.results.found("b1", "half of it", True)
    raise runs.Failure("the device fell off the bus")


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(self.place.cleanup)
        self.folder = pathlib.Path(self.place.name)
        self.page = self.folder / "RESULTS-gpu.md"
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def test_each_part_is_in_one_call_of_ten_minutes_as_expected(self):
        self.assertEqual(sorted(part for call in plan.CALLS for part in call), sorted(gpu_check.ORDER))
        self.assertEqual(plan.CALLS[0][0], "build")
        for call in plan.CALLS:
            least, most = plan.span(call)
            self.assertLess(least, most)
            self.assertLess(most, 60 * plan.MINUTES)
        for part in gpu_check.PARTS:
            self.assertLessEqual(plan.EXPECTED_S[part.name][1], part.limit_s, part.name)
        text = (ROOT / "docs/measured/gpu-check.md").read_text()
        for part, expected in plan.EXPECTED_S.items():
            self.assertIn(f"| {part} | {plan.seconds_text(*expected)} |", text)
        for call in plan.CALLS:
            self.assertIn(f"--parts {','.join(call)} --minutes {plan.MINUTES}", text)

    def test_the_page_has_what_the_parts_took_beside_what_is_expected(self):
        _, page = self.run_all(GPU, self.parts())
        self.assertRegex(page, r"\n\| build \| 0\.0 \| 150–220 \| 1 \|\n\| tests \|  \| 80 \| 1 \|\n")
        self.assertIn("| all of the call | | 300–370, at most 558 | 1 |", page)
        said = "\n".join(plan.lines({"build": 412.6}, 2))
        self.assertIn("call 1 of 3, at most 558 s: expected 300–370 s on 16 cores\n  build         150–220 s; took 413 s on 2 cores\n", said)

    def parts(self, first=finds("a1")):
        return [Part("build", "A", first, [Row("a1", "first", "fast")], 60), Part("b", "B", breaks, [Row("b1", "one"), Row("b2", "two")], 60),
                Part("c", "C", finds("c1"), [Row("c1", "last")], 60)]

    def check(self, facts, parts, seconds=600):
        return runs.Check(Results(parts, self.page, facts), self.folder / "work", self.folder, seconds)

    def run_all(self, facts, parts, seconds=600):
        check = self.check(facts, parts, seconds)
        gpu_check.check_all(check, parts)
        return json.loads(self.page.with_suffix(".json").read_text()), self.page.read_text()

    def states(self, written):
        return {row["key"]: row["state"] for row in written["rows"]}

    def test_a_part_that_fails_leaves_the_others(self):
        written, page = self.run_all(GPU, self.parts())
        self.assertEqual(self.states(written), {"a1": TRIED, "b1": TRIED, "b2": TRIED, "c1": TRIED})
        self.assertIn("| two | tried | failed: the device fell off the bus |  | **no** | abc, 16 cores |", page)
        self.assertIn("| one | tried | half of it |  | yes | abc, 16 cores |", page)

    def test_nothing_counts_as_tried_without_a_gpu(self):
        written, page = self.run_all(CPU, self.parts())
        self.assertEqual(set(self.states(written).values()), {REHEARSED})
        self.assertIn("**Rehearsed on CPU: nothing below was measured on a GPU**", page)
        self.assertNotIn("| tried |", page)

    def test_a_rehearsed_speed_neither_holds_nor_misses(self):
        for facts, holds in ((GPU, False), (CPU, None)):
            results = Results([Part("a", "A", None, [Row("a", "step", "≤ 1 µs", True)], 60)], self.page, facts)
            results.found("a", "2 µs", False)
            self.assertEqual(results.rows["a"].holds, holds)

    def test_a_row_is_compiled_once_the_programs_are_and_no_more_until_it_ran(self):
        parts = self.parts()
        results = Results(parts, self.page, GPU)
        self.assertEqual({row.state for row in results.rows.values()}, {WRITTEN})
        results.were_compiled()
        results.found("a1", "1 µs", True)
        results.not_run("b1", "no time was left")
        written = json.loads(self.page.with_suffix(".json").read_text())
        self.assertEqual(self.states(written), {"a1": TRIED, "b1": COMPILED, "b2": COMPILED, "c1": COMPILED})

    def test_a_part_that_runs_out_of_time_was_not_tried(self):
        def slow(check):
            check.limit = time.monotonic() + 0.1
            check.command(["sleep", "60"], "slow")
        written, page = self.run_all(GPU, self.parts(slow)[:1])
        self.assertEqual(self.states(written), {"a1": WRITTEN})
        self.assertIn("not run: out of time", page)

    def built(self, wrong):
        """Returns the JSON object and the page of a check whose builds fail as long as `wrong` says so."""
        class Compiler(runs.Check):
            def command(self, command, log, env=None):
                words = [str(each) for each in command]
                self.settings = next((word for word in words if word.startswith("-DLOCKSTEP_GPU=")), self.settings)
                if log == "build" and wrong(self.settings):
                    raise runs.Failure(f"exit 1: graph.cc:40:9: error: with {self.settings}")
                return ""
        with mock.patch.multiple(part_build, BUILD=self.folder, Warmup=mock.DEFAULT):
            (self.folder / "bin").mkdir(exist_ok=True)
            (self.folder / "bin/liblockstep_cuda.so").touch()  # Of an earlier build.
            parts = [part_build.PARTS[0], *self.parts()[2:]]
            check = Compiler(Results(parts, self.page, GPU | {"torch_folder": "/torch"}), self.folder / "work", self.folder, 600)
            gpu_check.check_all(check, parts)
        return json.loads(self.page.with_suffix(".json").read_text()), self.page.read_text()

    def test_an_error_in_the_library_for_gpus_is_told_and_the_other_parts_go_on(self):
        written, page = self.built(lambda setting: setting != "-DLOCKSTEP_GPU=off")
        self.assertEqual(self.states(written), {"build": TRIED, "c1": TRIED})
        self.assertRegex(page, r"failed: exit 1: graph.cc:40:9: error: with None; without the library for GPUs; lockstep lockstep-train in "
                         r"\d+ s; library for: no GPU \|[^|]*\| \*\*no\*\* ")

    def test_a_later_call_tries_the_library_for_gpus_again(self):
        (self.folder / "CMakeCache.txt").touch()
        _, page = self.built(lambda setting: setting != "-DLOCKSTEP_GPU=auto")
        self.assertRegex(page, r"\| lockstep lockstep-train in \d+ s; library for: CUDA \|[^|]*\| yes ")

    def test_a_build_that_fails_without_that_library_too_ends_the_check_with_its_first_error(self):
        written, page = self.built(lambda setting: True)
        self.assertEqual(self.states(written), {"build": TRIED, "c1": WRITTEN})
        self.assertIn("| failed: exit 1: graph.cc:40:9: error: with None |", page)

    def test_without_time_rows_say_so_and_stay_what_they_were(self):
        written, page = self.run_all(GPU, self.parts(), seconds=1)
        self.assertEqual(set(self.states(written).values()), {WRITTEN})
        self.assertEqual(page.count("not run: no time was left"), 4)

    def test_a_second_call_adds_to_the_first_on_the_same_device_only(self):
        self.run_all(GPU, self.parts())
        for facts, kept in ((GPU, TRIED), (GPU | {"device": "another"}, WRITTEN), (CPU, WRITTEN)):
            results = Results(self.parts(), self.page, facts)
            results.take_over()
            self.assertEqual(results.rows["a1"].state, kept, facts)
        self.assertEqual(results.rows["b2"].found, "")

    def test_each_row_names_the_commit_and_the_cores_that_it_was_found_with(self):
        self.run_all(GPU, self.parts())
        later = Results(self.parts(), self.page, GPU | {"commit": "def", "cores": 8})
        later.take_over()
        later.found("c1", "2 s")
        page = self.page.read_text()
        self.assertIn("| one | tried | half of it |  | yes | abc, 16 cores |", page)
        self.assertIn("| last | tried | 2 s |  |  | def, 8 cores |", page)
        later.reopen(later.parts[2])
        self.assertEqual(later.rows["c1"].by, "")

    def test_a_second_call_keeps_why_a_row_did_not_run(self):
        results = Results(self.parts(), self.page, GPU)
        results.were_compiled()
        results.not_run("c1", "no time was left")
        again = Results(self.parts(), self.page, GPU)
        again.take_over()
        self.assertEqual((again.rows["c1"].state, again.rows["c1"].found), (COMPILED, "not run: no time was left"))

    def test_a_command_out_of_time_is_ended_with_what_it_started(self):
        check = self.check(GPU, self.parts())
        check.limit = time.monotonic() + 0.2
        marker = self.folder / "child"
        with self.assertRaisesRegex(runs.Failure, "out of time"):
            check.command(["sh", "-c", f"sleep 60 & echo $! > {marker}; wait"], "slow")
        child = int(marker.read_text())
        deadline = time.monotonic() + 10
        while pathlib.Path(f"/proc/{child}").exists() and "Z" not in pathlib.Path(f"/proc/{child}/stat").read_text().split()[2]:
            self.assertLess(time.monotonic(), deadline, "the child lives on")
            time.sleep(0.02)

    def test_a_command_that_fails_is_told_by_its_own_words(self):
        check = self.check(GPU, self.parts())
        with self.assertRaisesRegex(runs.Failure, r"exit 3: error: no such device / hint: look"):
            check.command(["sh", "-c", "echo start; echo 'error: no such device' >&2; echo '  hint: look' >&2; exit 3"], "wrong")

    def test_a_compiler_that_fails_is_told_by_its_first_error(self):
        check = self.check(GPU, self.parts())
        script = "echo 'In file included from a.h:1'; echo \"b.h:148:10: fatal error: crt/host_defines.h: No such file\"; echo 'c.h:2: error: so'; exit 1"
        with self.assertRaisesRegex(runs.Failure, "exit 1: b.h:148:10: fatal error: crt/host_defines.h"):
            check.command(["sh", "-c", script], "build")

    def test_what_is_found_is_also_written_elsewhere(self):
        results = Results(self.parts(), self.page, GPU, self.folder / "also")
        results.found("a1", "1 s", True)
        for name in ("RESULTS-gpu.md", "RESULTS-gpu.json"):
            self.assertEqual((self.folder / "also" / name).read_text(), (self.folder / name).read_text())

    def test_speed_comes_before_what_a_cpu_can_show(self):
        order = [part.name for part in gpu_check.PARTS]
        self.assertEqual(order[:6], ["build", "tests", "cnn", "resnet50", "photographs", "inductor"])

    def test_the_archive_takes_photographs_of_each_folder_up_to_a_limit(self):
        for part, label, count in (("train", "ants", 50), ("train", "bees", 30), ("val", "ants", 3)):
            for at in range(count):
                path = self.folder / part / label / f"{at:02}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(1000))
        chosen = pack.some_photographs(self.folder, 42_000)
        self.assertLessEqual(len(chosen), 42)
        self.assertGreater(len(chosen), 38)
        self.assertEqual({(path.parts[-3], path.parts[-2]) for path in chosen}, {("train", "ants"), ("train", "bees"), ("val", "ants")})
        self.assertEqual(len(set(chosen)), len(chosen))
        self.assertEqual(len(pack.some_photographs(self.folder, 10**6)), 83)

    def test_the_probe_says_what_decides_a_build_whatever_is_there(self):
        said = "\n".join(probe.lines())
        for word in ("cmake: ", "nasm: ", "cores, ", "torch: ", "headers: ", "driver: ", "NVML: ", "/proc/driver/nvidia: ", "devices: "):
            self.assertIn(word, said)

    def test_steps_are_medians_of_windows_after_the_first(self):
        lines = [{"event": "run_started", "time": 0.0}] + [
            {"event": "step", "step": 10 * at, "time": moment, "loss": 1.0} for at, moment in enumerate((9.0, 10.0, 11.0, 13.0, 14.0), 1)]
        run = runs.Run(self.folder, {}, lines, 0.0, 15.0, None, None)
        self.assertEqual(run.windows(1), [0.1, 0.2, 0.1])
        self.assertEqual(run.step_s(1), 0.1)
        self.assertEqual(run.span(1), (10.0, 14.0))

    def test_a_run_that_ended_before_two_losses_were_logged_says_so(self):
        lines = [{"event": "step", "step": 4000, "time": 9.0, "loss": 1.0}]
        run = runs.Run(self.folder, {"steps": 4700}, lines, 0.0, 15.0, None, None)
        with self.assertRaisesRegex(runs.Failure, "1 losses were logged in 4700 steps, want 4 or more"):
            run.step_s(2)

    def test_cpu_time_is_that_of_the_threads_between_two_moments(self):
        times = machine.ThreadTimes(os.getpid())
        times.samples = [(0.0, {"1": 5}), (1.0, {"1": 10**9}), (3.0, {"1": 2 * 10**9, "2": 10**9}), (9.0, {"1": 9 * 10**9})]
        self.assertEqual(times.shares(0.5, 3.5), (1.0, 0.5))
        self.assertIsNone(times.shares(4.0, 5.0))

    def test_samples_are_taken_of_a_living_process(self):
        with machine.ThreadTimes(os.getpid()) as times:
            while len(times.samples) < 2:
                sum(range(1000))
        self.assertIsNotNone(times.shares(0, time.time()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
