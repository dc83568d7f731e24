#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of python/lockstep.py: values as JSON, the order of samples, the snapshots' folder, what is refused."""
import collections
import contextlib
import errno
import hashlib
import io
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import pythons

pythons.with_each(__file__)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy  # noqa: E402
import torch  # noqa: E402

MODULE = pythons.ROOT / "python/lockstep.py"
sys.path.insert(0, str(MODULE.parent))
import lockstep  # noqa: E402
from in_a_folder import InAFolder  # noqa: E402

LOCKSTEP = pythons.BIN / "lockstep"


class State:
    """Something with a state_dict."""

    def __init__(self, **values):
        self.values = values

    def state_dict(self):
        return dict(self.values)

    def load_state_dict(self, values):
        self.values = values


class Values(unittest.TestCase):
    def back(self, value):
        packer = lockstep._Packer(lambda path: ".".join(map(str, path[1:])))
        text = json.dumps(packer.pack({"x": value}, ("object",)), allow_nan=False)
        return lockstep._unpacked(json.loads(text), packer.tensors, {"x": value})["x"]

    def test_odd_values_come_back(self):
        values = [None, True, 0, -3, 2**80, "text", "$tensor", {"$tensor": "x"}, 0.1, math.inf, -math.inf, (), (1, (2, [3])), [(), []],
                  {1: "a", "1": "b", None: 0, (1, 2): 3}, {}, {3, 1}, frozenset({2}), b"\x00\xff", bytearray(b"a"), 1 + 2j, range(1, 9, 2),
                  collections.Counter({5: 2}), collections.OrderedDict([("b", 1), ("a", 2)]), collections.deque([1, 2], 3), torch.float16,
                  torch.device("cpu"), torch.Size([2, 3]), pathlib.Path("a/b"), "\ud800 and \u00e4", collections.defaultdict(list, {1: [2]})]
        for value in values:
            found = self.back(value)
            self.assertEqual(found, value)
            self.assertIs(type(found), type(value))
        self.assertTrue(math.isnan(self.back(math.nan)))
        self.assertEqual(math.copysign(1, self.back(-0.0)), -1)

    def test_numpy_comes_back(self):
        for value in (numpy.float32(0.1), numpy.int64(-1), numpy.bool_(True), numpy.float64(math.inf)):
            self.assertEqual((self.back(value), type(self.back(value))), (value, type(value)))
        array = numpy.arange(6, dtype="<i2").reshape(2, 3)
        self.assertTrue((self.back(array) == array).all() and self.back(array).dtype == array.dtype)

    def test_functions_stay_the_programs_own(self):
        self.assertIs(self.back(math.sin), math.sin)

    def test_what_cannot_be_written_is_named(self):
        for value in (object(), type("Mine", (dict,), {})(), numpy.array([object()])):
            with self.assertRaises(lockstep.Error) as caught:
                self.back([{"deep": value}])
            self.assertIn("object['x'][0]['deep'] is of type", str(caught.exception))

    def test_each_dtype_comes_back_from_a_file(self):
        tensors = {"empty": torch.empty(0, 3), "scalar": torch.tensor(3), "strided": torch.arange(6.0).reshape(2, 3).t().contiguous()}
        for name in lockstep._DTYPES:
            if hasattr(torch, name) and not name.startswith("uint") or name == "uint8":
                tensors[name] = (torch.arange(4.0) - (0 if name == "uint8" else 1)).to(getattr(torch, name))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.safetensors")
            lockstep._write_file(path, lockstep._safetensors_parts(tensors))
            found = lockstep._read_tensors(path)
            self.assertEqual(set(found), set(tensors))
            from safetensors.torch import load_file
            del tensors["complex64"]  # safetensors' own reader knows it since 0.6 only.
            lockstep._write_file(path + ".known", lockstep._safetensors_parts(tensors))
            for peer in (found, load_file(path + ".known")):
                for name, tensor in tensors.items():
                    self.assertEqual((peer[name].dtype, peer[name].shape), (tensor.dtype, tensor.shape))
                    self.assertEqual(bytes(lockstep._bytes_of(peer[name])), bytes(lockstep._bytes_of(tensor)), name)


class Start(InAFolder):
    def test_a_number_that_comes_after_the_end_is_told_and_breaks_nothing(self):
        run = lockstep.start(folder=self.folder, model=torch.nn.Linear(2, 3))
        run.log(val_loss=1.0)
        run.finish()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            run.log(test_accuracy=0.5)
            run.log(test_accuracy=0.5)
        self.assertEqual(said.getvalue().count("the run has ended, so test_accuracy is not kept"), 1)

    def test_goes_on_with_what_it_was_given(self):
        given = {"a": (1, math.nan), "t": torch.ones(2), 3: None}
        run = lockstep.start(folder=self.folder, mine=State(**{"v": given}))
        run.state["note"] = ("kept", 1)
        run.finish()
        mine = State(v=None)
        run = lockstep.start(folder=self.folder, mine=mine)
        self.assertEqual(run.state, {"note": ("kept", 1)})
        self.assertEqual(str(mine.values["v"]), str(given))

    def test_refuses_what_cannot_be_saved_before_the_first_step(self):
        self.refused("mine['v'][1] is of type builtins.object", mine=State(v=[0, object()]))
        self.refused("start() got lr=float, which has no state_dict()", lr=0.1)

    def test_two_starts(self):
        lockstep.start(folder=self.folder)
        self.refused("was called before in this process", "finish()")

    def test_options(self):
        for options, fact in (({"keep": 0}, "keep is 0, want a whole number of 1 or more"), ({"mode": "least"}, "mode is 'least'"),
                              ({"every_minutes": 0}, "every_minutes is 0"), ({"every_steps": 1.5}, "every_steps is 1.5")):
            self.refused(fact, **options)

    def test_another_model(self):
        lockstep.start(model=torch.nn.Linear(2, 3), folder=self.folder).finish()
        self.refused("does not fit the model: 'weight' is [3, 2], want [3, 4]", 'resume="none"', model=torch.nn.Linear(4, 3))
        self.refused("it lacks '0.bias'", model=torch.nn.Sequential(torch.nn.Linear(2, 3)))
        self.refused("start() got ema, model", model=torch.nn.Linear(2, 3), ema=State(a=1))

    def test_ranks_that_do_not_know_each_other(self):
        with mock.patch.dict(os.environ, {"RANK": "0", "WORLD_SIZE": "2"}):
            self.refused("WORLD_SIZE is 2, and torch.distributed is not initialised", "init_process_group()")

    def test_resume_none_puts_the_run_before_aside(self):
        lockstep.start(model=torch.nn.Linear(2, 3), folder=self.folder).finish()
        lockstep.start(model=torch.nn.Linear(5, 3), folder=self.folder, resume="none").finish()
        aside, = self.folder.glob("abandoned-*")
        self.assertTrue((aside / "step-0000000000").is_dir() and (aside / "run-id").is_file())

    def test_a_snapshot_of_the_trainer_in_c_is_named(self):
        snapshots = self.folder / "snapshots"
        lockstep._write_snapshot(str(snapshots), 3, {"state.json": [b'{"schema": 1}']})
        self.refused("was written by the C++ trainer", "lockstep train")

    def test_a_sharded_model_is_refused(self):
        model = torch.nn.Linear(2, 2)
        model.__class__ = type("FullyShardedDataParallel", (torch.nn.Linear,), {})
        self.refused("model is sharded over ranks (FullyShardedDataParallel)", "DistributedDataParallel", model=model)

    def test_a_full_disk_is_a_warning_and_the_last_one_an_error(self):
        model = torch.nn.Linear(2, 2)
        run = lockstep.start(model=model, folder=self.folder, every_steps=1)
        write = lockstep._write_file
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with mock.patch.object(lockstep, "_write_file", side_effect=full), mock.patch.object(lockstep, "_warn") as warned:
            for _ in run.steps([torch.zeros(1)] * 2):
                pass
            run._saves.tell(run._saves.saver.wait())
            self.assertIn("no snapshot of step 2 was written", warned.call_args[0][0])
            self.assertIs(lockstep._write_file.side_effect, full)
        self.assertEqual(lockstep._listed_snapshots(self.folder / "snapshots"), [])
        with mock.patch.object(lockstep, "_write_file", side_effect=[full] * 9 + [write]):
            with self.assertRaisesRegex(lockstep.Error, "the last snapshot, of step 2, was not written"):
                run.finish()

    def test_two_optimizers_and_tied_weights(self):
        model = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)})
        model["b"].weight = model["a"].weight
        optimizers = [torch.optim.SGD(model["a"].parameters(), 0.1, momentum=0.9), torch.optim.Adam([model["b"].bias], 0.1)]
        run = lockstep.start(model=model, optimizer=optimizers, folder=self.folder)
        model["b"](model["a"](torch.ones(1, 3))).sum().backward()
        for each in optimizers:
            each.step()
        run.finish()
        path = lockstep.read(self.folder).snapshots[-1]["path"]
        names = set(lockstep._read_tensors(os.path.join(path, "optimizer.safetensors")))
        self.assertLessEqual({"0/a.weight.momentum_buffer", "1/b.bias.exp_avg", "1/b.bias.step"}, names)
        wanted = [each.state_dict() for each in optimizers]
        for each in optimizers:
            each.state.clear()
        lockstep.start(model=model, optimizer=optimizers, folder=self.folder)
        self.assertEqual(str([each.state_dict() for each in optimizers]), str(wanted))


class Signals(unittest.TestCase):
    def end_of_a_child(self, *numbers):
        pid = os.fork()
        if pid == 0:
            signals = lockstep._StopSignals()
            for number in numbers:
                signal.raise_signal(number)
            os._exit(signals.arrived)
        return os.waitpid(pid, 0)[1]

    def test_the_first_is_remembered_and_a_second_interrupt_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            self.assertEqual(os.WEXITSTATUS(self.end_of_a_child(number)), number)
        self.assertEqual(os.WEXITSTATUS(self.end_of_a_child(signal.SIGTERM, signal.SIGTERM)), signal.SIGTERM)
        self.assertEqual(os.WTERMSIG(self.end_of_a_child(signal.SIGINT, signal.SIGINT)), signal.SIGINT)


class ByThemselves(InAFolder):
    def test_a_loop_of_ones_own(self):
        model = torch.nn.Linear(2, 2)
        run = lockstep.start(model=model, folder=self.folder, every_steps=2, log_every=2)
        for _ in range(3):
            with lockstep.phase("data"):
                pass
            lockstep.log(loss=torch.tensor(0.5))
            self.assertFalse(lockstep.should_stop())
        os.kill(os.getpid(), lockstep.signal.SIGUSR1)
        self.assertEqual([lockstep.should_stop(), run.should_stop()], [False, True], "begun in one step, read in the next")
        self.assertEqual(run.stopped_by, "signal")
        record = lockstep.read(self.folder)
        self.assertEqual([each["step"] for each in record.snapshots], [2, 4, 5])
        self.assertEqual([(line["step"], line["loss"]) for line in record.metrics if line["event"] == "step"], [(2, 0.5), (4, 0.5)])
        self.assertGreaterEqual(run.phases["data"], 0)

    def test_save_and_load_without_start(self):
        with mock.patch.dict(os.environ, {"LOCKSTEP_RUN_DIR": str(self.folder)}):
            model = torch.nn.Linear(2, 2)
            self.assertIsNone(lockstep.load(model=model))
            lockstep.save(model=model)
            wanted = model.weight.detach().clone()
            self.forget()
            torch.nn.init.zeros_(model.weight)
            self.assertTrue(lockstep.load(model=model).endswith("step-0000000000"))
            self.assertTrue(torch.equal(model.weight, wanted))

    def test_a_log_without_start_leaves_another_run_alone(self):
        lockstep.start(model=torch.nn.Linear(2, 3), folder=self.folder).finish()
        with mock.patch.dict(os.environ, {"LOCKSTEP_RUN_DIR": str(self.folder)}):
            with self.assertRaisesRegex(lockstep.Error, "holds model, and start.. got nothing"):
                lockstep.log(loss=1)
        self.assertEqual(list(self.folder.glob("abandoned-*")), [])

    def test_read(self):
        run = lockstep.start(folder=self.folder, monitor="val_loss")
        for _ in run.epochs(2):
            for _ in run.steps([torch.zeros(3, 1)] * 10):
                run.log(loss=1.0, other=2)
            run.log(val_loss=0.5)
        record = lockstep.read(self.folder)
        self.assertEqual([each["event"] for each in record.metrics if each["event"] != "snapshot"],
                         ["run_started", "step", "validation", "step", "validation", "run_ended"])
        self.assertEqual(record.metrics[1]["loss"], 1.0)
        self.assertEqual([(each["step"], each["is_best"], each["is_latest"]) for each in record.snapshots], [(10, True, False), (20, False, True)])
        self.assertEqual([record.faults(each) for each in record.snapshots], [[], []])
        self.assertEqual(record.layout["world"], 1)
        with self.assertRaisesRegex(lockstep.Error, "there is no run folder"):
            lockstep.read(self.folder / "none")

    def test_the_speed_is_that_of_steps_as_in_the_trainer(self):
        clock = [100.0]
        with mock.patch.object(lockstep.time, "monotonic", lambda: clock[0]):
            run = lockstep.start(folder=self.folder)
            clock[0] += 50  # What comes before the first step, and a validation after the last.
            for _ in run.epochs(2):
                for _ in run.steps([torch.zeros(3, 1)] * 10):
                    clock[0] += 0.5
                clock[0] += 70
        self.assertEqual(lockstep.read(self.folder).metrics[-1]["samples_per_second"], 6)

    @unittest.skipUnless(LOCKSTEP.exists(), f"there is no {LOCKSTEP}")
    def test_the_same_step_again(self):
        model = torch.nn.Linear(2, 2)
        run = lockstep.start(model=model, folder=self.folder)
        run.save()
        run._saves.saved = None
        with mock.patch.object(lockstep, "_exchange", return_value=False):
            run.finish()
        done = subprocess.run([LOCKSTEP, "snapshot", "ls", self.folder], text=True, capture_output=True, check=True)
        self.assertRegex(done.stdout, r"step 0 .* whole")
        self.assertEqual(sorted(os.listdir(self.folder / "snapshots")), ["latest", "run-id", "step-0000000000"])


class EndOfPython(unittest.TestCase):
    def test_waits_for_a_thread_at_work(self):
        """As one of Gloo's that drops its tensors. It needs Python's lock at the end of its work."""
        for amount in (1, 1000, 200_000):
            done, may_begin = [], threading.Event()

            def work(amount=amount, done=done, may_begin=may_begin):
                may_begin.wait()
                hashlib.pbkdf2_hmac("sha256", b"without", b"the lock", amount)
                done.append(amount)

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            may_begin.set()
            lockstep._await_idle_threads(most_s=60)
            self.assertEqual(done, [amount])
            thread.join()

    def test_waits_no_longer_than_it_may(self):
        over = threading.Event()

        def turn():
            while not over.is_set():
                pass

        thread = threading.Thread(target=turn, daemon=True)
        thread.start()
        began = time.monotonic()
        lockstep._await_idle_threads(most_s=0.1)
        self.assertGreaterEqual(time.monotonic() - began, 0.1)
        over.set()
        thread.join()

    def test_is_asked_for_by_ranks(self):
        code = ("import atexit, os, sys, torch; sys.path.insert(0, sys.argv[1]); import lockstep; "
                "torch.distributed.init_process_group('gloo', init_method='file://' + sys.argv[2], rank=int(sys.argv[3]), world_size=2); "
                "before = atexit._ncallbacks(); lockstep._Ranks(); print(atexit._ncallbacks() - before); "
                "lockstep._await_idle_threads(); sys.stdout.flush(); os._exit(0)")
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-c", code, MODULE.parent, f"{folder}/store", str(rank)], stdout=subprocess.PIPE, text=True)
                     for rank in range(2)]
            self.assertEqual([rank.communicate()[0] for rank in ranks], ["1\n", "1\n"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
