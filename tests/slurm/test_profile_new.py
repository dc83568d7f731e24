#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep profile new` on clusters of several kinds, each followed by a submit without an edit: test_profile_new.py LOCKSTEP"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

import bed as test_bed

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
CORES = min(4, len(os.sched_getaffinity(0)))
SEVERAL = ("PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=2-00:00:00 DefaultTime=00:30:00 State=UP\n"
           "PartitionName=a100 Nodes=n[3-4] MaxTime=1-00:00:00 MaxNodes=2 OverSubscribe=EXCLUSIVE State=UP\n"
           "PartitionName=closed Nodes=n[3-4] AllowAccounts=staff MaxTime=UNLIMITED State=UP")
NO_DEFAULT = "PartitionName=short Nodes=n1 MaxTime=00:20:00 State=UP\nPartitionName=main Nodes=@NODES@ MaxTime=00:40:00 State=UP"
# Output of sacctmgr as on a cluster with slurmdbd. sacctmgr(1) describes the columns.
SACCTMGR = """#!/bin/sh
case "$*" in
  *"show assoc"*) echo 'acct|p100|normal,long'; echo 'acct|p200|normal'; echo 'elsewhere|p300|normal' ;;
  *"show user"*) echo p200 ;;
  *"show qos"*) echo 'normal||'; echo 'long|2-00:00:00|node=2,gres/gpu=4' ;;
esac
"""
# The resources that a task got, counted by Slurm and by the kernel. The kernel's count is compared only if the test cluster is not larger than this
# machine.
UNBOUND = {"task_plugin": "task/none"}
SAY = "echo task=$RANK cores=$SLURM_CPUS_PER_TASK devices=$CUDA_VISIBLE_DEVICES bound=$(nproc) account=$SLURM_JOB_ACCOUNT part=$SLURM_JOB_PARTITION"


class Site:
    """A bed with a home of a user who has nothing of Lockstep's yet."""

    def __init__(self, test, **shape):
        self.test = test
        self.bed = test.enterContext(test_bed.Bed(**shape))
        self.home = pathlib.Path(test.enterContext(tempfile.TemporaryDirectory(prefix="lockstep home ")))
        self.environment = self.bed.environment | {"HOME": str(self.home), "LOCKSTEP_RUNS": str(self.home / "runs"),
                                                   "LOCKSTEP_DOCTOR": "off"}  # No driver stands behind the bed's devices.
        self.environment.pop("XDG_CONFIG_HOME", None)

    def lockstep(self, *words, code=0):
        done = subprocess.run([LOCKSTEP, *map(str, words)], text=True, capture_output=True, check=False, cwd=self.home,
                              env=self.environment, timeout=300)
        self.test.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def profile(self, name):
        return tomllib.loads((self.home / ".config/lockstep/profiles" / f"{name}.toml").read_text())

    def tasks(self, *flags):
        """What the tasks of a job say that was submitted without --cluster, and Slurm's record of the job."""
        said = json.loads(self.lockstep("submit", "--run-dir", "run", "--json", *flags, "--", "sh", "-c", SAY).stdout)
        partition = re.search(r"Partition=(\S+)", self.bed.run("scontrol", "show", "job", said["job"]))[1]
        self.bed.run("srun", "-Q", "-n1", "-p", partition, "--account=any", f"--dependency=afterany:{said['job']}", "true", timeout=180)
        record = self.bed.run("scontrol", "show", "job", said["job"])
        log = (self.home / "run/logs/job.log").read_text()
        self.test.assertIn("JobState=COMPLETED", record, log)
        tasks = [dict(word.split("=", 1) for word in line.split()) for line in log.splitlines() if line.startswith("task=")]
        return sorted(tasks, key=lambda task: int(task["task"])), record


class ProfileNew(unittest.TestCase):
    def test_untyped_devices_in_the_only_partition(self):
        site = Site(self, cluster="Plain", **UNBOUND)
        said = site.lockstep("profile", "new").stdout
        self.assertIn("found: cluster plain, partition gpu (the default partition): 4 nodes, each 4 devices, 8 cores", said)
        self.assertIn("next: lockstep profile check --live plain", said)
        profile = site.profile("plain")
        self.assertEqual(profile["detect"], {"slurm_cluster": "plain"})
        self.assertNotIn("backend", profile["devices"])
        text = (site.home / ".config/lockstep/profiles/plain.toml").read_text()
        self.assertIn("# not known: devices.backend: cuda or rocm", text)
        self.assertIn("count = 4  # scontrol show node: Gres=gpu:4 of n1, n2, n3, n4", text)
        tasks, record = site.tasks()
        self.assertEqual([task["cores"] for task in tasks], ["2"] * 4)
        self.assertEqual({task["devices"] for task in tasks}, {"0,1,2,3"}, "all, each task with its own among them")
        self.assertIn("gres:gpu:4", record)
        # `lockstep` finds the new profile by its name, and accepts every key in it.
        self.assertIn("* plain", site.lockstep("profile", "ls").stdout)
        self.assertIn("plain: ok", site.lockstep("profile", "check", "plain").stdout)

    def test_typed_devices_beside_a_default_partition_without(self):
        site = Site(self, cluster="typed", sockets=2, cores=4, threads=2, gpu_type="a100", plain_nodes=2, partitions=SEVERAL,
                    **UNBOUND)
        said = site.lockstep("profile", "new").stdout
        self.assertIn("partition a100 (the default partition, 'cpu', has no devices): 2 nodes, each 4 devices (a100), 16 cores", said)
        profile = site.profile("typed")
        self.assertEqual(profile["partition"]["a100"], {"limits": ["1-2 24:00:00"], "whole_node": True})
        self.assertEqual(profile["partition"]["closed"], {"limits": ["1-2"], "on_request": True})
        self.assertEqual((profile["devices"]["backend"], profile["about"]["unverified"]), ("cuda", ["devices.backend"]))
        self.assertEqual((profile["node"]["cores"], profile["sbatch"]["cores_per_device"]), (8, 4))
        tasks, record = site.tasks("--nodes", "2")
        self.assertEqual([(task["cores"], task["devices"], task["part"]) for task in tasks], [("4", "0,1,2,3", "a100")] * 8)
        self.assertIn("NumCPUs=32", record)
        # A second profile, for the nodes without devices, is in the same folder.
        said = site.lockstep("profile", "new", "typed-cpu", "--partition", "cpu").stdout
        self.assertIn("your profile 'typed' is the one that is found here", said)
        self.assertEqual(site.profile("typed-cpu")["slurm"]["time"], "00:30:00")
        (site.home / "run").rename(site.home / "first")
        tasks, _ = site.tasks("--cluster", "typed-cpu")
        self.assertEqual([(task["cores"], task["part"]) for task in tasks], [("16", "cpu")])

    def test_no_devices_at_all_and_no_default_partition(self):
        site = Site(self, cluster="cores", gpus=0, nodes=3, cores=6, partitions=NO_DEFAULT, **UNBOUND)
        said = site.lockstep("profile", "new").stdout
        self.assertIn("partition main (its jobs may have the most nodes; none is the default): 3 nodes, each no devices, 6 cores", said)
        profile = site.profile("cores")
        self.assertEqual((profile["devices"]["count"], profile["sbatch"]["cores"]), (0, 6))
        self.assertEqual(profile["slurm"]["time"], "00:40:00", "an hour is more than the partition gives")
        tasks, _ = site.tasks()
        self.assertEqual([(task["cores"], task["part"]) for task in tasks], [("6", "main")])
        site.lockstep("profile", "new", "--partition", "shrot", code=4)

    def test_an_account_that_a_job_must_name(self):
        site = Site(self, cluster="acct", gpu_type="mi250", gpus=2, account="required", **UNBOUND)
        programs = site.home / "bin"
        programs.mkdir()
        (programs / "sacctmgr").write_text(SACCTMGR)
        (programs / "sacctmgr").chmod(0o755)
        site.environment["PATH"] = f"{programs}:{site.environment['PATH']}"
        self.assertIn("found: account p200", site.lockstep("profile", "new").stdout)
        profile = site.profile("acct")
        self.assertEqual(profile["slurm"]["account"], "p200")
        self.assertEqual(profile["qos"]["long"], {"limits": ["1-2 48:00:00"], "max_devices": 4, "on_request": False})
        self.assertEqual(profile["devices"]["backend"], "rocm")
        tasks, record = site.tasks()
        self.assertEqual([(task["cores"], task["devices"]) for task in tasks], [("4", "0,1")] * 2)
        self.assertIn("Account=p200", record)

    @unittest.skipUnless(os.sched_getaffinity(0) >= set(range(CORES)), "Slurm would bind to cores that this machine does not lend")
    def test_one_as_large_as_this_machine_is_as_its_profile_says(self):
        site = Site(self, cluster="real", cores=CORES, nodes=1, gpus=CORES, gpu_type="h100", memory=1000)
        with_node = site.lockstep("profile", "new", "--live")
        self.assertIn(f"asking a compute node: srun -N1 --time=2 --partition=gpu --gpus-per-node={CORES}", with_node.stderr)
        profile = site.profile("real")
        self.assertEqual(profile["storage"]["node_local"], "/tmp")
        self.assertIn("numa_domains", profile["node"])
        tasks, _ = site.tasks()
        devices = ",".join(map(str, range(CORES)))
        self.assertEqual([(task["cores"], task["devices"], task["bound"]) for task in tasks], [("1", devices, "1")] * CORES)
        profile_file = site.home / ".config/lockstep/profiles/real.toml"
        text = profile_file.read_text()
        if "interfaces = " in text:
            self.assertIn("real: job", site.lockstep("profile", "check", "--live").stdout)
        # What is wrong in the profile, the job tells.
        wrong = re.sub(r"(?m)^memory_gib = 0\b", "memory_gib = 9000", text).replace("[storage]", '[storage]\nscratch = "/no/{user}"')
        wrong += '\n[network]\ninterfaces = ["hsn7"]\n' if "[network]\n" not in text else ""
        wrong = re.sub(r"(?m)^interfaces = .*$", 'interfaces = ["hsn7"]', wrong)
        profile_file.write_text(wrong)
        differences = json.loads(site.lockstep("profile", "check", "--live", "--json", "real", code=4).stdout)["differences"]
        self.assertEqual({each["key"] for each in differences}, {"node.memory_gib", "network.interfaces", "storage.scratch"}, differences)
        self.assertEqual({each["wanted"] for each in differences if each["key"] == "node.memory_gib"}, {"9000 GiB"})

    def test_the_ten_lines_of_day_one(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/day-one/your-cluster.md").read_text()
        lines = re.findall(r"(?m)^    \$ (.*)$", page.split("## Ten lines")[1].split("\n## ")[0])
        self.assertEqual(len(lines), 10)
        site = Site(self, cluster="ours", cores=CORES, plain_nodes=2, gpus=CORES, gpu_type="a100", partitions=SEVERAL)
        programs = site.home / "bin"
        programs.mkdir()
        (programs / "lockstep").symlink_to(LOCKSTEP)
        # What costs 20 seconds on the page need not cost them here.
        script = "\n".join(lines).replace("+ 20", "+ 1")
        done = subprocess.run(["bash", "-e", "-c", script], cwd=site.home, text=True, capture_output=True, check=False, timeout=300,
                              env=site.environment | {"PATH": f"{programs}:{site.environment['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ours: job", done.stdout)
        self.assertEqual(len(re.findall(r"rank \d+ has device \d+", done.stdout)), 2 * CORES, done.stdout)
        self.assertRegex(done.stdout, r"state +ended")

    def test_a_file_that_is_there_is_kept(self):
        site = Site(self, cluster="kept", nodes=1, gpus=0, cores=1)
        site.lockstep("profile", "new")
        file = site.home / ".config/lockstep/profiles/kept.toml"
        file.write_text("# mine\n[detect]\nslurm_cluster = \"kept\"\n")
        refusal = site.lockstep("profile", "new", code=2).stderr
        self.assertIn(f"'{file}' is there already, and is kept", refusal)
        self.assertIn("--force writes a new one and keeps the old one as kept.toml.old", refusal)
        self.assertTrue(file.read_text().startswith("# mine"))
        self.assertEqual(tomllib.loads(site.lockstep("profile", "new", "--stdout").stdout)["sbatch"]["cores"], 1)
        site.lockstep("profile", "new", "--force")
        self.assertTrue((file.parent / "kept.toml.old").read_text().startswith("# mine"))
        self.assertIn("sbatch", site.profile("kept"))
        mask = os.umask(0o027)
        try:
            site.lockstep("profile", "new", "other")
        finally:
            os.umask(mask)
        self.assertEqual((file.parent / "other.toml").stat().st_mode & 0o777, 0o640)


test_bed.skip_where_impossible()
unittest.main(verbosity=2)
