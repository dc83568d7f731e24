#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep exec` outside of a scheduler, with the variables that Slurm would set: test_exec.py LOCKSTEP

    LOCKSTEP_GOLDEN=write python tests/exec/test_exec.py LOCKSTEP

writes errors.txt, the golden text of bad input, anew; read the difference before you commit it.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LOCKSTEP = pathlib.Path(sys.argv.pop(1)).resolve()
HERE = pathlib.Path(__file__).resolve().parent
PATH = "/usr/bin:/bin"
PATIENCE = 60  # Seconds; a test waits this long only where something is broken.


def step(rank=0, world=2, nodes=1, **more):
    """The variables of one task of a Slurm step, `world` tasks spread over `nodes` nodes."""
    each = world // nodes
    hosts = [f"n{node}.invalid" for node in range(nodes)]
    return {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % each),
            "SLURM_NODEID": str(rank // each), "SLURM_NTASKS": str(world), "SLURM_STEP_NUM_TASKS": str(world),
            "SLURM_STEP_TASKS_PER_NODE": f"{each}(x{nodes})" if nodes > 1 else str(each), "SLURM_STEP_NODELIST": ",".join(hosts),
            "SLURM_SRUN_COMM_PORT": "40001", **more}


def agents(folder):
    """The node agents that were started with `folder` as their TMPDIR."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            if (process / "comm").read_text() == "lockstep-agent\n" and f"TMPDIR={folder}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except (OSError, ValueError):
            continue
    return found


class Exec(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-exec-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, variables):
        return {"PATH": PATH, "HOME": str(self.folder), "TMPDIR": str(self.folder), **variables}

    def start(self, *words, **variables):
        process = subprocess.Popen([LOCKSTEP, "exec", "--cluster", "generic", *words], env=self.environment(variables),
                                   cwd=self.folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def run_exec(self, *words, code=0, given=None, **variables):
        process = self.start(*words, **variables)
        out, err = process.communicate(given, timeout=60)
        self.assertEqual(process.returncode, code, err)
        return out, err

    def await_that(self, is_so, what):
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def test_the_process_becomes_the_program(self):
        process = self.start("--", "sh", "-c", "echo $$; cat; exit 9")
        out, _ = process.communicate("what it is given", timeout=60)
        self.assertEqual(out, f"{process.pid}\nwhat it is given")
        self.assertEqual(process.returncode, 9)

    def test_arguments_reach_it_untouched(self):
        words = ["--help", "--", "a b", "$HOME", "*", "", "--cluster=x"]
        out, _ = self.run_exec("--", "printf", "%s\\n", *words)
        self.assertEqual(out.split("\n")[:-1], words)

    def test_a_script_without_a_first_line_runs_as_a_shell_runs_it(self):
        script = self.folder / "job"
        script.write_text("echo $RANK of $WORLD_SIZE: $1\n")
        script.chmod(0o755)
        out, _ = self.run_exec("--", script, "x", **step(1, 2))
        self.assertEqual(out, "1 of 2: x\n")

    def test_each_task_of_a_step_is_told_its_place(self):
        for rank in range(4):
            out, err = self.run_exec("--no-agent", "--", "sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_PORT",
                                     **step(rank, 4, 2, SLURM_STEP_RESV_PORTS="30801-30803", MASTER_ADDR="10.0.0.1"))
            self.assertEqual(out, f"{rank} 4 {rank % 2} 2 {rank // 2} 30803\n")
            self.assertEqual(err, "")

    def test_ranks_on_two_nodes_without_names_find_rank_zero(self):
        say = ["--", "sh", "-c", "echo $MASTER_ADDR $MASTER_PORT"]
        early = [self.start(*say, **step(rank, 4, 2)) for rank in (1, 2)]
        first, _ = self.run_exec(*say, **step(0, 4, 2))
        self.assertRegex(first, r"^\d+\.\d+\.\d+\.\d+ \d+\n$")
        late = self.start(*say, **step(3, 4, 2))
        for other in [*early, late]:
            self.assertEqual(other.communicate(timeout=60)[0], first)

    def test_what_the_user_set_is_kept_and_what_is_wrong_is_replaced_with_a_word_from_rank_zero(self):
        script = "echo $OMP_NUM_THREADS $NCCL_CROSS_NIC $WORLD_SIZE"
        own = {"OMP_NUM_THREADS": "3", "NCCL_CROSS_NIC": "0", "WORLD_SIZE": "8"}
        (self.folder / "generic.toml").write_text('[env]\nNCCL_CROSS_NIC = "1"\n')
        own["LOCKSTEP_PROFILE_PATH"] = str(self.folder / "generic.toml")
        out, err = self.run_exec("--", "sh", "-c", script, **step(0, 2, **own))
        self.assertEqual(out, "3 0 2\n")
        self.assertIn("NCCL_CROSS_NIC='0' is kept; generic would have '1'", err)
        self.assertIn("WORLD_SIZE='8' was set; slurm says '2', which it is now", err)
        self.assertEqual(self.run_exec("--", "true", **step(1, 2, **own))[1], "")

    def test_caches_lie_on_the_node_for_this_user_alone_and_go_with_the_job(self):
        tasks = [self.start("--", "sh", "-c", "stat -c '%a' $TRITON_CACHE_DIR; echo $TORCHINDUCTOR_CACHE_DIR; read x", **step(rank)) for rank in (0, 1)]
        node = self.folder / f"lockstep-{os.geteuid()}-4711.0-0"
        for task in tasks:
            self.assertEqual(task.stdout.readline(), "700\n")
            self.assertEqual(task.stdout.readline(), f"{node}/caches/inductor\n")
        self.assertEqual(node.stat().st_mode & 0o777, 0o700)
        for task in tasks:
            task.communicate("\n", timeout=60)
        self.await_that(lambda: not node.exists(), "the node's folder was left behind")
        self.await_that(lambda: not agents(self.folder), "the agent was left behind")

    def test_without_an_agent_the_folder_of_a_job_goes_with_a_later_job(self):
        self.run_exec("--no-agent", "--", "true", **step(0, 1))
        node = self.folder / f"lockstep-{os.geteuid()}-4711.0-0"
        self.assertTrue(node.exists())
        two_hours_ago = time.time() - 7200
        os.utime(node, (two_hours_ago, two_hours_ago))
        self.run_exec("--no-agent", "--", "true", **(step(0, 1) | {"SLURM_JOB_ID": "4712"}))
        self.assertFalse(node.exists())

    def test_a_run_folder_gets_reports_nccls_log_and_telemetry(self):
        tasks = [self.start("--run-dir", "run", "--report", "--", "sh", "-c", "echo $NCCL_DEBUG_FILE; read x", **step(rank)) for rank in (0, 1)]
        for rank, task in enumerate(tasks):
            self.assertEqual(task.stdout.readline(), f"{self.folder}/run/logs/nccl-{rank:04}.log\n")
        telemetry = self.folder / "run/telemetry-n0.invalid.jsonl"
        self.await_that(lambda: telemetry.exists() and '"sample"' in telemetry.read_text(), "no sample was written")
        for task in tasks:
            self.assertIn("as the launcher set them", task.communicate("\n", timeout=60)[1])
        self.await_that(lambda: "agent_ended" in telemetry.read_text(), "the agent did not end")
        lines = [json.loads(line) for line in telemetry.read_text().splitlines()]
        self.assertEqual([task["rank"] for task in next(line for line in lines if line["event"] == "sample")["tasks"]], [0, 1])
        report = (self.folder / "run/logs/tasks-n0.invalid.log").read_text().splitlines()
        self.assertEqual(sorted(line.split(":")[0] for line in report), ["rank 0 on n0.invalid", "rank 1 on n0.invalid"])

    def test_no_agent_outlives_a_program_that_is_killed(self):
        tasks = [self.start("--", "sh", "-c", "echo up; exec sleep 600", **step(rank)) for rank in (0, 1)]
        for task in tasks:
            self.assertEqual(task.stdout.readline(), "up\n")
        self.await_that(lambda: len(agents(self.folder)) == 1, "no agent was started, or several")
        for task in tasks:
            os.kill(task.pid, signal.SIGKILL)
        for task in tasks:
            task.communicate(timeout=60)
        self.await_that(lambda: not agents(self.folder), "the agent was left behind")

    def test_outside_a_job_nothing_is_left_and_no_agent_starts(self):
        out, _ = self.run_exec("--", "sh", "-c", "echo $RANK $WORLD_SIZE $MASTER_ADDR; env | grep -c CACHE_DIR; true")
        self.assertEqual(out, "0 1 127.0.0.1\n0\n")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_dry_run_says_what_would_be_set_and_makes_nothing(self):
        out, _ = self.run_exec("--dry-run", "--", "nosuch", **step(1, 2, SLURM_STEP_RESV_PORTS="30801-30803"))
        plan = json.loads(out)
        self.assertEqual((plan["rank"], plan["cluster"]), (1, "generic"))
        self.assertEqual(plan["variables"]["MASTER_PORT"], "30803")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_batch_script_without_srun_is_told_so(self):
        _, err = self.run_exec("--", "true", SLURM_JOB_ID="4711", SLURM_NTASKS="8", SLURM_PROCID="0")
        self.assertIn("this job has 8 tasks, but this is one process outside of them", err)
        self.assertIn("start it with srun", err)

    def test_what_the_user_says_wrongly_is_told_with_the_way_out(self):
        (self.folder / "odd.toml").write_text('[env]\nTORCH_HOME = "/scratch/{projekt}"\n')
        (self.folder / "data").write_text("no program\n")
        with socket.socket() as taken:
            taken.bind(("", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            said = "".join(self.told(*case) for case in [
                ("no program", []),
                ("an unknown cluster", ["--cluster", "lumi", "--", "true"]),
                ("a program that is not there", ["--", "pyhton", "train.py"]),
                ("a file that may not be run", ["--", "./data"]),
                ("a word for sockets", ["--on-sockets", "maybe", "--", "true"]),
                ("an option of the program's before the dashes", ["--nodes", "2", "--", "true"]),
                ("a profile with a place that nothing fills", ["--cluster", "odd", "--", "true"],
                 dict(LOCKSTEP_PROFILE_PATH=str(self.folder / "odd.toml"))),
                ("a run folder that cannot be made", ["--run-dir", "/proc/run", "--", "true"], step()),
                ("a port that is none", ["--", "true"], step(MASTER_PORT="http")),
                ("a port beyond the last", ["--", "true"], step(MASTER_PORT="70000")),
                ("a port that is taken", ["--", "true"], step(MASTER_PORT=port)),
                ("reserved ports that are none", ["--", "true"], step(SLURM_STEP_RESV_PORTS="none")),
                ("a rank beyond the world", ["--", "true"], step(rank=2)),
                ("two launchers that disagree", ["--", "true"], step(RANK="0", WORLD_SIZE="3", LOCAL_RANK="0", LOCAL_WORLD_SIZE="3", MASTER_ADDR="n1", MASTER_PORT="29500")),
                ("fewer devices than tasks", ["--", "true"], step(rank=3, world=4, CUDA_VISIBLE_DEVICES="0,1")),
                ("ranks without a job", ["--", "true"], dict(PMI_RANK="0", PMI_SIZE="2", MPI_LOCALRANKID="0", MPI_LOCALNRANKS="2")),
                ("a rank 0 that does not come", ["--", "true"], step(rank=1, nodes=2, LOCKSTEP_MEET_TIMEOUT="0")),
            ])
        said = said.replace(str(self.folder), "$FOLDER").replace(port, "$PORT")
        said = "\n".join(line.split("MASTER_PORT=")[0] + "MASTER_PORT=$FREE" if "for example MASTER_PORT=" in line else line
                         for line in said.split("\n"))
        path = HERE / "errors.txt"
        if os.environ.get("LOCKSTEP_GOLDEN") == "write":
            path.write_text(said)
        self.maxDiff = None
        self.assertEqual(said, path.read_text(), "the text on the left is what lockstep says now")

    def told(self, title, words, variables=None):
        done = subprocess.run([LOCKSTEP, "exec", *words], env=self.environment(variables or {}), cwd=self.folder, text=True,
                              capture_output=True, timeout=60)
        return f"# {title}\n{done.stdout}{done.stderr}exit code {done.returncode}\n\n"


unittest.main(verbosity=2)
