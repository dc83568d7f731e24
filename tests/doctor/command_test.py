#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep doctor` as a person types it: alone, as ranks that meet, with a rank that does not come, and its bundle."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest

LOCKSTEP = sys.argv.pop(1)
LAUNCHERS = ("SLURM", "OMPI_", "PMI", "TORCHELASTIC", "LOCKSTEP", "FLUX_", "LSB_", "JSM_")
RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NCCL_SOCKET_IFNAME")


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS) and name not in RANKS}
    return {**clean, **more}


def doctor(*arguments, env=None, cwd=None):
    return subprocess.run([LOCKSTEP, "doctor", *arguments], env=env or environment(), cwd=cwd, text=True, capture_output=True,
                          timeout=60)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def step(rank, world, port):
    """The variables of one of Slurm's tasks, each on a node of its own."""
    hosts = "n[1-%d]" % world
    return environment(SLURM_JOB_ID="4711", SLURM_STEP_ID="0", SLURM_STEPID="0", SLURM_PROCID=str(rank), SLURM_LOCALID="0",
                       SLURM_NODEID=str(rank), SLURM_NTASKS=str(world), SLURM_STEP_NUM_TASKS=str(world), SLURM_NNODES=str(world),
                       SLURM_STEP_NUM_NODES=str(world), SLURM_JOB_NUM_NODES=str(world), SLURM_STEP_NODELIST=hosts,
                       SLURM_JOB_NODELIST=hosts, SLURM_STEP_TASKS_PER_NODE="1(x%d)" % world,
                       SLURM_TASKS_PER_NODE="1(x%d)" % world, MASTER_ADDR="127.0.0.2", MASTER_PORT=str(port))


def job(world, absent=()):
    port = free_port()
    ranks = [subprocess.Popen([LOCKSTEP, "doctor", "--json"], env=step(rank, world, port), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for rank in range(world) if rank not in absent]
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    return [rank.returncode for rank in ranks], outputs


def codes(report):
    return {finding["code"] for finding in report["findings"]}


class Doctor(unittest.TestCase):
    def test_exit_code_and_json_follow_the_findings(self):
        sound = doctor("--json", "--cluster", "generic")
        report = json.loads(sound.stdout.splitlines()[-1])
        self.assertEqual(sound.returncode, 4 if any(f["severity"] == "error" for f in report["findings"]) else 0)
        broken = doctor("--json", env=environment(NCCL_SOCKET_IFNAME="no-such-interface"))
        self.assertEqual(broken.returncode, 4, broken.stdout)
        finding = next(f for f in json.loads(broken.stdout.splitlines()[-1])["findings"] if f["code"] == "network-interface-missing")
        self.assertIn("no-such-interface", finding["fact"])
        self.assertIn("unset NCCL_SOCKET_IFNAME", finding["fix"])
        text = doctor(env=environment(NCCL_SOCKET_IFNAME="no-such-interface")).stdout
        self.assertTrue(text.startswith("error network-interface-missing"), text)

    def test_ranks_meet_and_rank_0_alone_reports(self):
        returned, outputs = job(3)
        report = json.loads(outputs[0][0].splitlines()[-1])
        self.assertEqual(report["tasks_met"], 3, report)
        self.assertEqual(len(report["links"]), 3)
        self.assertEqual([out for out, _ in outputs[1:]], ["", ""])
        self.assertFalse({"nodes-absent", "nodes-broken", "nodes-wrong-sum"} & codes(report), report)

    def test_a_rank_that_does_not_come_is_named_in_ten_seconds(self):
        returned, outputs = job(3, absent=(1,))
        report = json.loads(outputs[0][0].splitlines()[-1])
        finding = next(f for f in report["findings"] if f["code"] == "nodes-absent")
        self.assertIn("rank 1 did not reach rank 0", finding["fact"])
        self.assertEqual(returned[0], 4)

    def test_a_recorded_log_with_sockets_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "nccl.log")
            log.write_text("axa:1:2 [0] NCCL INFO Using network Socket\n")
            found = doctor("--json", "--cluster", "lumi-g", "--log", str(log))
            self.assertEqual(found.returncode, 4)
            self.assertIn("log-sockets", codes(json.loads(found.stdout.splitlines()[-1])))
            log.write_text("axa:1:2 [0] NCCL INFO NET/OFI Selected Provider is cxi\naxa:1:2 [0] NCCL INFO Using network AWS Libfabric\n")
            found = doctor("--json", "--cluster", "lumi-g", "--log", str(log))
            self.assertNotIn("log-sockets", codes(json.loads(found.stdout.splitlines()[-1])))

    def test_a_bundle_holds_the_run_and_no_secret(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run")
            (run / "logs").mkdir(parents=True)
            (run / "job.sh").write_text("export MY_TOKEN=swordfish\nsrun python train.py\n")
            (run / "logs/job.log").write_text("epoch 1, swordfish\n")
            made = doctor("--run", str(run), "--bundle", "ticket.tar.gz", cwd=folder, env=environment(MY_TOKEN="swordfish"))
            self.assertIn("ticket.tar.gz", made.stderr)
            with tarfile.open(pathlib.Path(folder, "ticket.tar.gz")) as tar:
                names = tar.getnames()
                texts = [tar.extractfile(name).read().decode() for name in names]
            self.assertIn("ticket/run/job.sh", names)
            self.assertFalse([name for name, text in zip(names, texts) if "swordfish" in text])

    def test_bad_input_says_what_to_do(self):
        for arguments, code, text in ((("--cluster", "lumi"), 2, "lumi-g"), (("--log", "/no/such/log"), 2, "no log"),
                                      (("--run", "no-such-run"), 2, "no-such-run")):
            bad = doctor(*arguments)
            self.assertEqual(bad.returncode, code, bad.stderr)
            self.assertIn(text, bad.stderr)
            self.assertIn("hint:", bad.stderr)


if __name__ == "__main__":
    unittest.main()
