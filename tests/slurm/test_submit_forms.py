#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packed sweeps, sessions and staged environments under a real Slurm: test_submit_forms.py LOCKSTEP

The training half is a stand-in that says what it was started with, so no LibTorch is needed.
"""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import unittest

import bed as test_bed

LOCKSTEP = pathlib.Path(sys.argv.pop(1)).resolve()
RECIPE = '[model]\nname = "mlp"\n[data]\nkind = "synthetic"\n'
# A trial waits until as many others run as $TOGETHER says. So if Slurm starts trials one after the other, they never end.
TRAINER = """#!/bin/sh
echo "$@ in=$LOCKSTEP_RUN_DIR world=$WORLD_SIZE cpus=$SLURM_CPUS_ON_NODE gpu=$SLURM_STEP_GPUS"
touch "$LOCKSTEP_RUN_DIR/here" "$LOCKSTEP_RUN_DIR/recipe.toml"
until [ "$(ls "$LOCKSTEP_RUN_DIR"/../*/here | wc -l)" -ge "${TOGETHER:-1}" ]; do :; done
case "$*" in
  *trainer.seed=2*) exit 5 ;;
  *trainer.seed=3*) [ -n "$SLURM_RESTART_COUNT" ] || exit 75 ;;
esac
echo '{"stopped_by": "max_epochs", "epochs": 1000}' > "$LOCKSTEP_RUN_DIR/result.json"
"""


class UnderSlurm(test_bed.BedTest):
    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        self.program = self.folder / "bin" / "lockstep"
        shutil.copy(LOCKSTEP, self.program)
        (self.folder / "bin" / "lockstep-train").write_text(TRAINER)
        (self.folder / "bin" / "lockstep-train").chmod(0o755)
        (self.folder / "r.toml").write_text(RECIPE)
        self.environment["LOCKSTEP_DOCTOR"] = "off"  # Its devices are pretended.

    def test_trials_share_a_node_and_fail_alone(self):
        job, = self.submit("r.toml", "--devices", "4", "--pack", "--sweep", "trainer.seed=1,2,4,5", "--env", "TOGETHER=4")["jobs"]
        self.assertEqual(len(job["trials"]), 4)
        state = self.state(job["job"])
        self.assertEqual((state["JobState"], state["ExitCode"]), ("FAILED", "5:0"), self.log("run/job-1"))
        self.assertIn("trial 02-seed-2 ended with 5", self.log("run/job-1"))
        said = [self.log(f"run/0{number}-seed-{seed}") for number, seed in enumerate((1, 2, 4, 5), 1)]
        self.assertEqual(sorted(re.search(r"gpu=(\S+)", each)[1] for each in said), ["0", "1", "2", "3"])
        for number, seed in enumerate((1, 2, 4, 5), 1):
            self.assertIn(f"in={self.folder}/run/0{number}-seed-{seed} world=1 ", said[number - 1])
            self.assertEqual((self.folder / f"run/0{number}-seed-{seed}/result.json").exists(), seed != 2)

    def test_trials_get_cores_of_their_own(self):
        self.state(self.submit("r.toml", "--devices", "0", "--tasks-per-node", "4", "--cores-per-task", "2", "--pack", "--sweep",
                               "trainer.seed=1,4,5,6", "--env", "TOGETHER=4")["jobs"][0]["job"])
        for number, seed in enumerate((1, 4, 5, 6), 1):
            self.assertIn(" cpus=2 ", self.log(f"run/0{number}-seed-{seed}"))

    def test_a_trial_whose_time_was_up_goes_on(self):
        job = self.submit("r.toml", "--devices", "4", "--pack", "--sweep", "trainer.seed=1,3")["jobs"][0]["job"]
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log("run/job-1"))
        self.assertTrue((self.folder / "run/02-seed-3/result.json").exists())

    def test_trials_are_listed_as_runs(self):
        self.state(self.submit("r.toml", "--devices", "4", "--pack", "--sweep", "trainer.seed=1,4", run="runs/sweep")["jobs"][0]["job"])
        runs = json.loads(self.lockstep("ls", "--json", cwd="/").stdout)["runs"]
        listed = {pathlib.Path(run["run_dir"]).name: run["state"] for run in runs}
        self.assertEqual(listed, {"01-seed-1": "finished", "02-seed-4": "finished", "job-1": "ended"})

    def test_each_trial_of_a_program_has_its_own_values(self):
        self.environment["LOCKSTEP_RUNS"] = str(self.folder / "runs")
        jobs = self.submit("--sweep", "lr=.1,.01", "--", "sh", "-c", "echo lr={lr} {other}", run="runs/sweep")["trials"]
        for job, lr in zip(jobs, (".1", ".01"), strict=True):
            self.assertEqual(self.state(job["job"])["JobState"], "COMPLETED")
            self.assertIn(f"lr={lr} {{other}}\n", pathlib.Path(job["log"]).read_text())
        runs = json.loads(self.lockstep("ls", "--json", cwd="/").stdout)["runs"]
        self.assertEqual({pathlib.Path(run["run_dir"]).name: run["state"] for run in runs}, {"01-lr-.1": "ended", "02-lr-.01": "ended"})
        told = json.loads(self.lockstep("report", "sweep", "--json", cwd="/").stdout)
        self.assertEqual([(row["name"], row["sets"], row["state"], row["exit_code"]) for row in told["sweep"]],
                         [("01-lr-.1", {"lr": ".1"}, "ended", 0), ("02-lr-.01", {"lr": ".01"}, "ended", 0)])
        self.assertRegex(self.lockstep("report", "runs/sweep").stdout, r"(?s)sweep: 2 trials: 2 ended\..*\n +trial +lr +state .*\n +01-lr-.1 +.1 +ended ")

    def test_jobs_of_a_sweep_wait_for_each_other(self):
        # The first two jobs run one after the other, although the first is requeued and there is room for both.
        line = "if [ {s} = 1 ] && [ -z \"$SLURM_RESTART_COUNT\" ]; then exit 75; fi; echo {s} >> order"
        jobs = self.submit("--sweep", "s=1,2,3", "--at-most", "1", "--", "sh", "-c", line)["trials"]
        waits = [self.bed.run("scontrol", "show", "job", job["job"]) for job in jobs]
        self.assertIn(f"afterany:{jobs[1]['job']}", waits[2])
        self.assertNotIn(f"afterany:{jobs[0]['job']}", waits[2])
        ends = [self.state(job["job"]) for job in jobs]
        self.assertEqual([(end["JobState"], end["Restarts"]) for end in ends], [("COMPLETED", "1"), ("COMPLETED", "0"), ("COMPLETED", "0")])
        self.assertEqual((self.folder / "order").read_text().split(), ["1", "2", "3"])

    def test_packed_trials_of_a_program_start_again_only_where_they_ask_for_it(self):
        line = "echo s={s} world=$WORLD_SIZE; if [ {s} = 2 ] && [ -z \"$SLURM_RESTART_COUNT\" ]; then exit 75; fi"
        job = self.submit("--devices", "2", "--pack", "--sweep", "s=1,2", "--", "sh", "-c", line)["jobs"][0]["job"]
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log("run/job-1"))
        self.assertEqual([self.log(f"run/0{s}-s-{s}").count(f"s={s} world=1\n") for s in (1, 2)], [1, 2])

    def test_trials_share_a_device_and_know_nothing_of_each_other(self):
        """Five trials on two devices, three on the first: all at once, each alone in its world."""
        line = ("echo s={s} \"word {s}\" world=$WORLD_SIZE rank=$RANK port=$MASTER_PORT gpu=$SLURM_STEP_GPUS; touch $LOCKSTEP_RUN_DIR/here;"
                "until [ $(ls $LOCKSTEP_RUN_DIR/../*/here | wc -l) = 5 ]; do :; done;"
                "[ {s} != 2 ] || exit 3; [ {s} != 4 ] || [ -n \"$SLURM_RESTART_COUNT\" ] || exit 75")
        job = self.submit("--devices", "2", "--cores-per-task", "1", "--pack", "--per-device", "3", "--sweep", "s=1,2,3,4,5", "--", "sh", "-c",
                          line)["jobs"][0]["job"]
        state = self.state(job)
        logs = {s: self.log(f"run/0{s}-s-{s}") for s in (1, 2, 3, 4, 5)}
        self.assertEqual((state["JobState"], state["ExitCode"], state["Restarts"]), ("FAILED", "3:0", "1"), self.log("run/job-1"))
        said = {s: re.findall(r"s=(\d) word (\d) world=1 rank=0 port=(\d+) gpu=(\S+)\n", text) for s, text in logs.items()}
        self.assertEqual({s: len(times) for s, times in said.items()}, {1: 1, 2: 2, 3: 1, 4: 2, 5: 1},
                         f"one that ended well is not started again: {logs}")
        firsts = {s: times[0] for s, times in said.items()}
        self.assertEqual([firsts[s][:2] for s in logs], [(str(s), str(s)) for s in logs])
        self.assertEqual(len({first[2] for first in firsts.values()}), 5, "a port of its own")
        self.assertEqual([firsts[s][3] == firsts[1][3] for s in logs], [True, True, True, False, False])
        self.assertIn("trial 02-s-2 ended with 3", self.log("run/job-1"))
        told = json.loads(self.lockstep("report", "run", "--json").stdout)["sweep"]
        self.assertEqual([row["exit_code"] for row in told], [0, 3, 0, 0, 0])

    def test_a_venv_is_unpacked_once_on_each_node_and_active_in_each_task(self):
        venv = self.folder / "my env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        (venv / "bin" / "tool").write_text(f"#!{venv}/bin/python\nimport sys\nprint('tool', sys.prefix)\n")
        (venv / "bin" / "tool").chmod(0o755)
        flags = ("--stage", venv, "--nodes", "2", "--tasks-per-node", "2", "--")
        job = self.job(*flags, "python", "-c", "import os, sys; print('in', sys.prefix, os.environ['RANK'])")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        place = f"/tmp/lockstep-stage-{job}"
        self.assertEqual(sorted(line for line in self.log().splitlines() if line.startswith("in ")),
                         [f"in {place} {rank}" for rank in range(4)])
        self.assertFalse(pathlib.Path(place).exists(), "it goes with the job")
        packs = list((self.folder / "runs" / ".packs").iterdir())
        self.assertEqual(len(packs), 1)
        made = packs[0].stat().st_mtime_ns
        again = self.job(*flags, "tool", run="again")
        self.state(again)
        self.assertEqual(self.log("again").count(f"tool /tmp/lockstep-stage-{again}\n"), 4, self.log("again"))
        self.assertEqual([pack.stat().st_mtime_ns for pack in (self.folder / "runs" / ".packs").iterdir()], [made])

    def with_data(self):
        (self.folder / "my data" / "train").mkdir(parents=True)
        (self.folder / "my data" / "train" / "one").write_text("first sample\n")
        return self.folder / "my data"

    def test_data_go_to_each_node_and_results_come_back_before_the_job_goes_on(self):
        line = """cat "$LOCKSTEP_DATA/train/one"; echo $LOCKSTEP_DATA; echo $RANK > "$LOCKSTEP_RESULTS/start-${SLURM_RESTART_COUNT:-0}-$RANK"
[ "$SLURM_RESTART_COUNT" ] || exit 75"""
        job = self.job("--stage-data", self.with_data(), "--nodes", "2", "--tasks-per-node", "1", "--", "sh", "-c", line)
        state = self.state(job)
        self.assertEqual((state["JobState"], state["Restarts"]), ("COMPLETED", "1"), self.log())
        place = f"/tmp/lockstep-data-{job}"
        self.assertEqual([self.log().count(said) for said in ("first sample\n", f"{place}\n")], [4, 4], self.log())
        # The bed's nodes are one machine with one /tmp.
        back = {path.name for path in (self.folder / "run" / "results").rglob("start-*")}
        self.assertEqual(back, {f"start-{start}-{rank}" for start in (0, 1) for rank in (0, 1)})
        self.assertEqual([pathlib.Path(place + end).exists() for end in ("", ".tar", "-results")], [False] * 3)

    def test_data_without_room_on_a_node_end_the_job_before_they_are_sent(self):
        bin_folder = self.folder / "small"
        bin_folder.mkdir()
        (bin_folder / "df").write_text("#!/bin/sh\necho Avail\necho 999\n")
        (bin_folder / "df").chmod(0o755)
        job = self.job("--stage-data", self.with_data(), "--", "true", PATH=f"{bin_folder}:{self.environment['PATH']}")
        state = self.state(job)
        self.assertEqual((state["JobState"], state["ExitCode"]), ("FAILED", "4:0"), self.log())
        self.assertRegex(self.log(), r"lockstep: error: n\d has 999 bytes free on /tmp, want \d+ for the data and their pack")
        self.assertIn("or leave out --stage-data", self.log())

    def test_a_recipe_reads_the_staged_data(self):
        (self.folder / "data.toml").write_text('[model]\nname = "mlp"\n[data]\nkind = "idx"\npath = "my data/train"\n')
        job = self.job("data.toml", "--stage-data", self.with_data(), "--devices", "1")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        self.assertIn("--set data.path=$LOCKSTEP_DATA/train ", self.log())

    def test_a_pack_that_is_gone_fails_with_a_way_out(self):
        venv = self.folder / "env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        self.submit("--stage", venv, "--", "true")
        shutil.rmtree(self.folder / "runs" / ".packs")
        job = self.bed.run("sbatch", "--parsable", self.folder / "run" / "job.sh", cwd="/").strip()
        state = self.state(job)
        self.assertEqual((state["JobState"], state["ExitCode"]), ("FAILED", "4:0"), self.log())
        self.assertIn("lockstep: error: sbcast could not put '", self.log())
        self.assertIn("or leave out --stage", self.log())

    def session(self, *words, typed=""):
        """What a person sees of a session on a terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe(self.program, ["lockstep", "submit", "--interactive", "--run-dir", "run", *words],
                       self.environment | {"TERM": "dumb"})
        seen, deadline = "", time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                try:
                    seen += os.read(terminal, 4096).decode(errors="replace")
                except OSError:
                    break
                if typed and "then open http" in seen:
                    os.write(terminal, typed.encode())
                    typed = ""
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, seen)
        return seen

    def test_a_session_is_a_shell_on_a_node(self):
        seen = self.session("--nodes", "2", "--tasks-per-node", "2", "--env", "MINE=1",
                            typed="echo it-is $SLURMD_NODENAME $MINE [$RANK]\nsrun " + str(self.program) +
                            " exec -- sh -c 'echo rank=$RANK of $WORLD_SIZE' < /dev/null\nexit\n")
        self.assertRegex(seen, r"it-is n\d 1 \[\]")
        self.assertEqual(sorted(re.findall(r"rank=(\d) of 4", seen)), ["0", "1", "2", "3"], seen)
        self.assertRegex(seen, r"ssh -L (\d+):\S+:\1 ")

    def test_a_session_serves_a_notebook(self):
        jupyter = self.folder / "bin" / "jupyter"
        jupyter.write_text('#!/bin/sh\necho "serving $* world=$WORLD_SIZE port=$LOCKSTEP_PORT"\n')
        jupyter.chmod(0o755)
        seen = self.session("--devices", "2", "--", str(jupyter), "lab")
        served = re.search(r"serving lab --no-browser --ip=\S+ --port=(\d+) world=1 port=(\d+)", seen)
        self.assertTrue(served, seen)
        self.assertEqual(served[1], served[2])
        self.assertIn(f"ssh -L {served[1]}:", seen)


# Here the first step of a job seems to have ended, but keeps its resources until the second step has begun. A job sees the same if slurmctld is slow
# to free a step.
SLOW_TO_FREE = """#!/bin/sh
if [ -e "$HELD" ]; then exec REAL "$@"; fi
touch "$HELD"
REAL "$@" > /dev/null &  # The script reads this step's output to its end.
until [ -e "$HELD.begun" ]; do :; done
"""
HOLDING = """#!/bin/sh
if [ "$1" = -c ]; then touch "$HELD.begun"; read -r _ < "$HELD.fifo"; exit; fi
echo "the ranks began"
echo go > "$HELD.fifo"
"""


class WhereMemoryIsCounted(test_bed.BedTest):
    program = LOCKSTEP
    shape = {"select": "CR_Core_Memory", "nodes": 1}

    def test_the_ranks_begin_before_the_trial_step_is_freed(self):
        (self.folder / "train.py").touch()
        (self.folder / "bin").mkdir()
        for name, text in (("srun", SLOW_TO_FREE.replace("REAL", shutil.which("srun"))), ("python3", HOLDING)):
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)
        path = f"{self.folder / 'bin'}:{self.environment['PATH']}"
        for run, shape in (("part", ("--devices", "1")), ("cores", ("--devices", "0", "--tasks-per-node", "1", "--cores-per-task", "7"))):
            held = self.folder / f"{run}-held"
            os.mkfifo(f"{held}.fifo")
            job = self.job(*shape, "--sbatch=--mem=1000", "--", "python3", "train.py", run=run, PATH=path, HELD=str(held))
            self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log(run))
            self.assertIn("the ranks began", self.log(run))


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
