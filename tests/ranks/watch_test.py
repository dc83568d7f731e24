#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who holds up the others: a frozen rank of four is named once, `lockstep why` tells what each rank does, and a run that is
well is never blamed."""
import contextlib
import json
import os
import random
import signal
import time

import harness

LONG = ("observe.log_every=1", "snapshot.every_epochs=0", "trainer.max_epochs=100000", "trainer.validate_every=0")


class Watch(harness.RanksTest):
    def started(self, *settings, ranks, run="run"):
        command = self.start_train(*LONG, *settings, ranks=ranks, run=run)
        command.wait_for_step(self.folder / run, 5)
        return command

    def told(self, run="run"):
        path = self.folder / run / "watch.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def why(self, *words, run="run"):
        result = self.start("why", self.folder / run, *words).finish(100)
        self.assertEqual(result.code, 0, result.err)
        return result

    def end(self, command, code=75):
        command.process.send_signal(signal.SIGTERM)
        self.assertEqual(command.finish(60).code, code, command.text(1)[-2000:])

    def test_a_frozen_rank_of_four_is_named_once_and_so_is_its_going_on(self):
        draw = random.Random(int(os.environ.get("LOCKSTEP_WATCH_SEED", "7")))
        victim = draw.randrange(4)
        command = self.started(ranks=4)
        command.wait_for_step(self.folder / "run", draw.randrange(5, 400))
        pid = command.ranks()[victim]
        os.kill(pid, signal.SIGSTOP)
        command.wait_until(lambda: len(self.told()) == 1, "a word about the frozen rank", 40)
        first, = self.told()
        self.assertEqual((first["kind"], first["ranks"]), ("stopped", [victim]))
        self.assertRegex(first["text"], rf"^rank {victim} \(process {pid} on \S+\) is stopped by a signal for 1\d s, in \w+ of step \d+(, sample \d+ and the \d+ with it)?; "
                                        r"ranks \d, \d, \d wait for it$")
        self.assertIn("warning: " + first["text"], command.text(1))
        answer = json.loads(self.why("--json").out)
        self.assertEqual(answer["verdict"]["ranks"], [victim])
        self.assertEqual([rank["rank"] for rank in answer["ranks"]], [0, 1, 2, 3])
        self.assertEqual(answer["ranks"][victim]["state"], "T")
        # Indented lines tell what is seen of a rank.
        shown = [line for line in self.why().out.splitlines() if not line.startswith(" ")]
        self.assertEqual(len(shown), 5)
        self.assertIn("stopped in ", shown[victim])
        self.assertIn(f"rank {victim} ", shown[4])
        os.kill(pid, signal.SIGCONT)
        command.wait_until(lambda: len(self.told()) == 2, "a word about its going on", 40)
        self.assertEqual(self.told()[1]["kind"], "goes_on")
        self.end(command)

    def test_a_run_that_is_well_tells_what_it_does_and_blames_nobody(self):
        command = self.started(ranks=2)
        answer = json.loads(self.why("--json").out)
        self.assertIsNone(answer["verdict"])
        for rank in answer["ranks"]:
            # The phase in the answer depends on chance, since the run goes on meanwhile. "validation" is also the phase at the end of an epoch.
            self.assertIn(rank["phase"], ("loading", "forward", "backward", "update", "validation", "saving"))
            self.assertGreaterEqual(rank["step"], 5)
            self.assertLess(rank["unchanged_s"], 5)
            self.assertRegex(rank["collective"]["operation"], r"^(all_reduce|broadcast) (Float|Double|Long)$")
        self.assertTrue(self.why().out.endswith("nobody holds up the others\n"))
        self.end(command)
        self.assertEqual(self.told(), [])

    def test_pauses_below_the_limit_are_no_alarm(self):
        """Random ranks stand still for up to 6 of the 10 s, again and again, until so many steps are done."""
        draw = random.Random(int(os.environ.get("LOCKSTEP_WATCH_SEED", "7")))
        steps = int(os.environ.get("LOCKSTEP_WATCH_STEPS", "4000"))
        command = self.start_train("snapshot.every_epochs=0", "trainer.max_epochs=1000000", "trainer.validate_every=400",
                                   f"trainer.max_steps={steps}", "observe.log_every=1000", ranks=3)
        command.wait_for_step(self.folder / "run", 1000)
        pauses = 0
        while command.process.poll() is None:
            length = draw.choice((0.05, 0.5, 2, 6)) * draw.random()
            with contextlib.suppress(ProcessLookupError, KeyError):
                pid = command.ranks()[draw.randrange(3)]
                os.kill(pid, signal.SIGSTOP)
                time.sleep(length)
                os.kill(pid, signal.SIGCONT)
                pauses += 1
            time.sleep(draw.random())
        result = command.finish()
        self.assertEqual(result.code, 0, result.err[-2000:])
        self.assertEqual(self.told(), [])
        self.assertNotIn("warning", result.err)
        print(f"{steps} steps, {pauses} pauses, no alarm")

    def test_ranks_in_different_collectives_are_named_with_both_and_end(self):
        result = self.start("launch", "-n", "3", "--", harness.BIN / "other_collective").finish(90)
        self.assertEqual(result.code, harness.PEER_LOST, result.err)
        self.assertRegex(result.err, r"warning: rank 1 \(process \d+ on \S+\) is in collective (\d+), broadcast Float of 8 elements \(\[8\]\), [^;]*; "
                                     r"ranks 0, 2 in collective \1, all_reduce Float of 1024 elements")
        self.assertIn("error: ranks that are in different collectives cannot go on, so all of them are stopped", result.err)

    def test_stacks_tell_what_each_rank_does(self):
        command = self.started(ranks=2)
        os.kill(command.ranks()[1], signal.SIGSTOP)

        def sees_the_wait():
            first, second = json.loads(self.why("--json").out)["ranks"]
            return first["unchanged_s"] > 1 and (first, second)
        waits, frozen = command.wait_until(sees_the_wait, "rank 0 waits")
        self.assertTrue(any("gloo::" in frame or "c10d::" in frame for frame in waits["stack"]), waits["stack"])
        self.assertTrue(any(frame.startswith("lockstep::FitLoop") for frame in waits["stack"]), waits["stack"])
        self.assertRegex(waits["process"]["wait"], r"in futex|kernel: ")
        self.assertRegex(waits["collective"]["detail"], r"^bucket \d+$|^\[")
        self.assertIsNone(frozen["stack"])
        self.assertEqual(frozen["stack_note"], "a stopped process writes no stack")
        shown = self.why().out
        self.assertIn("    native stack, innermost first:\n", shown)
        self.assertIn("    no native stack: a stopped process writes no stack\n", shown)
        os.kill(command.ranks()[1], signal.SIGCONT)
        self.end(command)

    def test_a_hundred_looks_change_nothing_in_a_training(self):
        settings = ("trainer.max_epochs=40", "trainer.validate_every=0", "snapshot.every_epochs=0", "observe.log_every=1")
        whole = self.trained(*settings, run="whole")
        command = self.start_train(*settings, run="asked")
        command.wait_for_step(self.folder / "asked", 5)
        for _ in range(100):
            for pid in command.ranks().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGRTMIN + 9)
        self.start("why", self.folder / "asked").finish(100)
        result = command.finish(100)
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.object["weights_digest"], whole["weights_digest"])

    def test_a_rank_alone_answers_for_itself(self):
        command = self.started(ranks=1)
        for _ in range(20):
            rank, = json.loads(self.why("--json").out)["ranks"]
            self.assertEqual((rank["rank"], rank["pid"]), (0, command.process.pid))
            if any(frame.startswith("lockstep::") for frame in rank["stack"]):
                break
            # Intel's matrix kernels do not say who called them. A stack that begins in one ends there.
            self.assertIn("mkl", " ".join(rank["stack"]))
        self.assertTrue(any(frame.startswith("lockstep::") for frame in rank["stack"]), rank)
        self.assertGreaterEqual(rank["step"], 5)
        self.end(command)

    def end_of_endless(self, where, limit_s, stop=False):
        command = self.start("launch", "-n", "3", "--", harness.BIN / "endless_collective", where, limit_s, env={"LOCKSTEP_STOP_GRACE": "3"})
        command.wait_until(lambda: command.text(1).count("hangs from here on") == 3, "the library hangs")
        if stop:
            command.process.send_signal(signal.SIGTERM)
        return command.finish(60)

    def test_ranks_end_by_themselves_if_the_collective_library_never_returns(self):
        for where in ("wait", "call"):
            result = self.end_of_endless(where, 3)
            self.assertEqual(result.code, harness.PEER_LOST, result.err)
            self.assertRegex(result.err, r"all_reduce that began \d+ s ago has not ended, and the collective library does not give up, so this process ends")

    def test_sigterm_ends_ranks_whose_collective_library_never_returns(self):
        result = self.end_of_endless("wait", 1000, stop=True)
        self.assertEqual(result.code, 128 + signal.SIGTERM, result.err)
        self.assertIn("did not end within 3 s after signal 15", result.err)

    def test_nobody_answers_for_a_run_that_has_ended(self):
        self.trained(ranks=1)
        result = self.start("why", self.folder / "run").finish()
        self.assertEqual(result.code, 4)
        self.assertIn("no training runs in", result.err)


if __name__ == "__main__":
    harness.main()
