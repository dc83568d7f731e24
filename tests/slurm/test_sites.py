#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each profile at its site: a real Slurm with that site's configuration, on nodes with that site's cores, NUMA domains and devices,
which this machine pretends to have (sites/). From `submit` to `report`, by the cores and devices that each process ends on:
test_sites.py LOCKSTEP [TEST…]
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import bed as test_bed

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE / "sites"), str(HERE.parent / "support")]
import peers  # noqa: E402
import pretended_machine  # noqa: E402
import stubs  # noqa: E402
from table import SITES  # noqa: E402

LOCKSTEP = str(pathlib.Path(sys.argv[1]).resolve())
INSIDE = "LOCKSTEP_TEST_INSIDE_A_SITE"
SAY = HERE / "sites/say.py"
RECIPE = HERE.parents[1] / "recipes/digits.toml"
ONE_STEP = [word for setting in ("trainer.max_steps=1", "trainer.validate_every=0", "observe.tensorboard=false")
            for word in ("--set", setting)]
ADDRESS = "10.253.0.1"  # On the site's fast network.
# The test has its own network and host names. It sees nothing of this machine but what a site's node has.
PRIVATE = """set -e
mount --make-rprivate /
if grep -q ' /sys/fs/cgroup ' /proc/self/mounts; then umount -R /sys/fs/cgroup; fi
mount -t sysfs sysfs /sys
ip link set lo up
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
echo 'hosts: files' > /etc/nsswitch.conf
: > "$1/site.sh"
for file in .profile .bash_profile .bash_login .bashrc; do
  if [ -e "$HOME/$file" ]; then mount --bind "$1/site.sh" "$HOME/$file"; fi
done
mount -t tmpfs none /etc/profile.d
ln -s "$1/site.sh" /etc/profile.d/site.sh
shift
exec "$@"
"""


def devices_taken(site, said):
    """The numbers, on the node, of the devices that a process takes: its part of those that it sees. None: it is told of none."""
    shown = said.get(site.device_variable)
    if shown is None:
        return None
    shown = [int(number) for number in shown.split(",")]
    each = len(shown) // int(said["LOCAL_WORLD_SIZE"])
    first = int(said["LOCAL_RANK"]) * each
    return shown[first:first + each]


class AtASite:
    """A site's bed with a user's home, as a context manager."""

    def __init__(self, test, profile):
        self.test, self.site = test, SITES[profile]
        self.home = pathlib.Path(test.enterContext(tempfile.TemporaryDirectory(prefix="lockstep site ")))
        # No blank: testbed.sh writes these paths into slurm.conf.
        self.root = pathlib.Path(test.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-node-", dir="/dev/shm")))
        self.site.machine.write(self.root)
        for name in self.site.drivers:
            (self.root / "drivers" / name).touch()
        library = test.library
        module = stubs.write(self.root / "stubs", self.site.modules)
        prolog, task_prolog = stubs.prologs(self.root, library, self.root)
        prolog.write_text(prolog.read_text().replace("@THREADS@", str(self.site.machine.threads))
                          .replace("@CORES@", str(self.site.machine.all_cores)))
        self.enter_network()
        shape = self.site.shape(prolog, task_prolog)
        os.environ.update(PRETENDED_ROOT=str(self.root), PRETENDED_LIBRARY=str(library))
        self.bed = test.enterContext(test_bed.Bed(enter=HERE / "sites/enter_node.sh", **shape))
        path = f"{self.root}/stubs/bin:{self.bed.environment['PATH']}"
        pathlib.Path(os.environ[INSIDE], "site.sh").write_text(f"{module}\nexport -f module\nPATH={path}\n")
        self.environment = self.bed.environment | self.site.login | {
            "HOME": str(self.home), "LOCKSTEP_RUNS": str(self.home / "runs"), "USER": "someone", "PATH": path,
            "LOCKSTEP_CACHE": str(self.home / "cache"), "DEVICE_LIBRARY": f"{self.root}/stubs/driver/libdevice.so.1",
            "BASH_FUNC_module%%": module.removeprefix("module"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment.pop("XDG_CONFIG_HOME", None)

    def enter_network(self):
        """The site's interfaces, names and this login node's own name."""
        def ip(*words, check=True):
            subprocess.run(["ip", *words], check=check, stderr=None if check else subprocess.DEVNULL)

        site = self.site
        for number, interface in enumerate(site.interfaces, 1):
            ip("link", "add", interface, "type", "veth", "peer", "name", f"peer{number}")
            self.test.addCleanup(ip, "link", "del", interface)
            ip("address", "add", f"10.253.{number - 1}.1/24", "dev", interface)
            ip("link", "set", interface, "up")
            ip("link", "set", f"peer{number}", "up")
        subprocess.run(["hostname", site.login_host], check=True)
        names = [f"{site.name}{number}" for number in (1, 2)]
        lines = ["127.0.0.1 localhost"]
        if site.host_suffix is not None:
            lines += [f"{ADDRESS} {name}{site.host_suffix}" for name in names]
        if site.host_suffix:
            lines += [f"127.0.1.1 {name}" for name in names]  # The slow network, which no rank may take.
        pathlib.Path("/etc/hosts").write_text("\n".join(lines) + "\n")

    def lockstep(self, *words, code=0):
        done = subprocess.run([LOCKSTEP, *map(str, words)], text=True, capture_output=True, check=False, cwd=self.home,
                              env=self.environment, timeout=600)
        self.test.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def submit(self, run, *words):
        """The number of a job that lies in the folder `run`."""
        site = self.site
        account = ("--account", site.account) if site.account else ()
        devices = () if "--devices" in words else site.devices_said
        # These devices have no driver's library. test_node_look.py has nodes with such a library.
        off = ("--env", "LOCKSTEP_DOCTOR=off")
        said = json.loads(self.lockstep("submit", "--json", "--run-dir", run, *off, *account, *site.words, *devices, *words).stdout)
        return said["job"]

    def launcher(self, own):
        """The words of a launcher that starts `own` ranks on each node: the real one where there is PyTorch."""
        words = self.site.launcher
        if words[0] == "PYTHON" and not peers.PYTHON:
            words = ("torchrun", "--nproc_per_node=@OWN@")
        return [word.replace("PYTHON", peers.PYTHON or "").replace("@OWN@", str(own)) for word in words]

    def submit_steps(self):
        """The number of a job of a whole node that starts the site's combinations as steps, one after the other."""
        site = self.site
        lines = ["#!/bin/bash", "set -e"]
        for number, (tasks, each, order, cores) in enumerate(site.combinations):
            own = f"env {site.device_variable}={order} " if order else ""
            said = shlex.quote(str(self.home / f"steps-{number}/said"))
            lines.append(f"srun -N1 -n{tasks} -c{cores} --gres=gpu:{tasks * each} {own}{shlex.quote(LOCKSTEP)} exec --cluster {site.profile} "
                         f"--report -- python3 {shlex.quote(str(SAY))} {said}")
        script = self.home / "steps.sh"
        script.write_text("\n".join(lines) + "\n")
        (self.home / "steps/logs").mkdir(parents=True)
        account = (f"--account={site.account}",) if site.account else ()
        # A job of one task that has the whole node. Its steps set for themselves what each of their tasks gets.
        return self.bed.run("sbatch", "--parsable", "-N1", "--exclusive", "--mem=0", f"--gres=gpu:{site.devices}", "-p", site.partition, *account, "-o",
                            self.home / "steps/logs/job.log", script, cwd=self.home, env=self.environment).strip()

    def await_jobs(self, jobs):
        account = (f"--account={self.site.account}",) if self.site.account else ()
        self.bed.run("srun", "-Q", "-n1", "-p", self.site.partition, *account, "--dependency=" + ",".join(f"afterany:{job}" for job in jobs),
                     "true", timeout=300)

    def said(self, run):
        """What the processes of a run said, by rank."""
        files = (self.home / run / "said").glob("rank-*.json")
        return sorted((json.loads(file.read_text()) for file in files), key=lambda each: int(each["RANK"]))

    def log(self, run):
        """What the job wrote, and what exec did with each task."""
        return "".join(file.read_text() for file in sorted((self.home / run.split("-")[0] / "logs").glob("*.log")))


class Sites(unittest.TestCase):
    environments = {}  # Of a task for each device on two nodes, by site.

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="lockstep-library-")))
        cls.library = pretended_machine.build_library(folder)

    def check_places(self, at, run, tasks, ranks_of_task, nodes, wanted):
        """That each process of `run` is where it should be: as many as wanted, on `wanted` CPUs at least, and near its devices.
        In a part of a node Slurm may have nothing near; then the task says so."""
        site, said = at.site, at.said(run)
        own = tasks * ranks_of_task
        self.assertEqual([int(each["RANK"]) for each in said], list(range(nodes * own)), at.log(run))
        self.assertEqual({each["WORLD_SIZE"] for each in said}, {str(nodes * own)})
        self.assertEqual([int(each["LOCAL_RANK"]) for each in said], [*range(own)] * nodes)
        self.assertEqual(len({(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in said}), 1)
        self.assertEqual(said[0]["MASTER_ADDR"], ADDRESS if nodes > 1 else "127.0.0.1")
        for each in said:
            cpus = set(each["cpus"])
            place = f"{run} at {site.profile}: rank {each['RANK']} on {pretended_machine.cpu_list(cpus)}\n{at.log(run)}"
            self.assertGreaterEqual(len(cpus), wanted, place)
            self.assertFalse(cpus & site.machine.cpus(site.reserved), place)
            devices = devices_taken(site, each)
            self.assertIsNotNone(devices, f"no {site.device_variable}: {place}")
            for device in devices:
                if run not in ("small", "one") or not re.search(rf"warning: rank {each['RANK']} on \S+: ", place):
                    self.assertTrue(cpus & site.machine.near(device), f"far from device {device}: {place}")
        return said

    def check_whole_node(self, at, ranks):
        """That the ranks of a node, one for each device, share no core, see all devices, and have no core far from theirs."""
        site, count = at.site, at.site.devices
        taken = [cpu for each in ranks[:count] for cpu in each["cpus"]]
        self.assertEqual(len(taken), len(set(taken)), "two ranks share a core")
        self.assertEqual({each[site.device_variable] for each in ranks}, {site.order or ",".join(map(str, range(count)))})
        self.assertEqual({each["PYTHON_IS"] for each in ranks}, {site.python})
        for each in ranks if not site.extra_cores else []:
            near = site.machine.near(devices_taken(site, each)[0])
            self.assertLessEqual(set(each["cpus"]), near, f"rank {each['RANK']} has cores far from its device")

    def check_recipe(self, at):
        """That `train` has a rank for each device, each on the cores that a program has."""
        site, count = at.site, at.site.devices
        report = at.lockstep("report", "recipe").stdout
        self.assertRegex(report, r"state +(finished|ended)", at.log("recipe"))
        self.assertIn(f"1 node, {count} tasks", report)
        lines = re.findall(r"(?m)^rank (\d+) on \S+: CPUs (\S+) \((\d+) core", at.log("recipe"))
        programs = {each["LOCAL_RANK"]: pretended_machine.cpu_list(each["cpus"]) for each in at.said("ranks")[:count]}
        self.assertEqual({rank: cpus for rank, cpus, _ in lines}, programs)

    def check_container(self, at):
        """That the devices' library is there in an image, and its own Python runs."""
        said = self.check_places(at, "image", at.site.devices, 1, 1, at.site.share)
        self.assertEqual({(each["PYTHON_IS"], each["has_device_library"]) for each in said}, {("image", True)}, at.log("image"))

    @unittest.skipUnless(peers.PYTHON, peers.REASON)
    def test_what_lightning_makes_of_them(self):
        """Comes last: what the tasks of each site found is kept until then, since Lightning takes long to load."""
        if not self.environments:
            self.skipTest("no site was started before")
        answer = subprocess.run([peers.PYTHON, HERE / "lightning_lines.py"], input=json.dumps(list(self.environments.values())), text=True,
                                stdout=subprocess.PIPE, check=True)
        for profile, ranks in zip(self.environments, json.loads(answer.stdout)):
            with self.subTest(profile):
                own = SITES[profile].devices
                self.assertEqual([(each.get("RANK"), each.get("WORLD_SIZE"), each.get("LOCAL_RANK"), each.get("NODE_RANK")) for each in ranks],
                                 [(rank, 2 * own, rank % own, rank // own) for rank in range(2 * own)], ranks[0])

    def check_site(self, profile):
        at = AtASite(self, profile)
        site, count = at.site, at.site.devices
        bare = ("--container", "none") if profile == "lumi-g" else ()
        if site.devices_said:
            warning = at.lockstep("submit", "--dry-run", "--", "true").stderr
            self.assertIn(f"the nodes here have {count} devices and {site.share * count} CPUs: {' '.join(site.devices_said)} asks for them all", warning)
        say = ("--", "python3", SAY)
        # These nodes have a driver's file but no real device. A recipe that may use devices would end with an error there, so it runs on the CPU.
        on_cpu = ("--", LOCKSTEP, "train", RECIPE, *ONE_STEP, "--set", "trainer.accelerator=cpu")
        recipe = on_cpu if site.drivers else ("--env", "LOCKSTEP_DOCTOR=off", RECIPE, *ONE_STEP)
        jobs = [at.submit("ranks", "--nodes", "2", *bare, *say, at.home / "ranks/said"),
                at.submit("whole", "--nodes", "2", "--tasks-per-node", "1", *bare, "--", *at.launcher(count), SAY, at.home / "whole/said"),
                at.submit("pairs", "--tasks-per-node", count // 2, *bare, *say, at.home / "pairs/said"),
                at.submit("one", "--devices", "1", *bare, *say, at.home / "one/said"),
                at.submit("conda", "--devices", "1", "--conda", "torch", *bare, *say, at.home / "conda/said"),
                at.submit("recipe", *bare, *recipe)]
        if site.image:
            jobs.append(at.submit("image", "--env", f"DEVICE_LIBRARY={at.environment['DEVICE_LIBRARY']}", "--container",
                                  at.root / "stubs" / site.image, "--bind", at.home, *say, at.home / "image/said"))
        if site.small:
            jobs.append(at.submit("small", *site.small, *bare, *say, at.home / "small/said"))
        at.await_jobs([*jobs, at.submit_steps()] if site.combinations else jobs)
        ranks = self.check_places(at, "ranks", count, 1, 2, site.share)
        self.environments[profile] = [{"nodes": 2, "devices": count, "env": each["environment"]} for each in ranks]
        self.check_whole_node(at, ranks)
        self.check_places(at, "whole", 1, count, 2, site.share * count)
        self.check_places(at, "pairs", count // 2, 1, 1, site.share * 2)
        self.check_places(at, "one", 1, 1, 1, site.share)
        self.assertEqual([each["PYTHON_IS"] for each in at.said("conda")], ["conda torch"], at.log("conda"))
        self.check_recipe(at)
        for number, (tasks, _, _, cores) in enumerate(site.combinations):
            self.check_places(at, f"steps-{number}", tasks, 1, 1, cores)
        if site.image:
            self.check_container(at)
        if site.small:
            self.check_places(at, "small", 2, 1, 1, site.share)
        listed = json.loads(at.lockstep("ls", "--json").stdout)["runs"]
        self.assertEqual(sorted((run["job"], run["cluster"]) for run in listed), sorted((job, profile) for job in jobs))
        self.assertEqual({(run["state"], run["exit_code"]) for run in listed} - {("finished", None)}, {("ended", 0)})


def add_tests():
    for profile in SITES:
        def test(self, profile=profile):
            self.check_site(profile)
        setattr(Sites, f"test_{profile.replace('-', '_')}", test)


def skip_where_nothing_can_be_pretended():
    lacking = [program for program in ("ip", "unshare", os.environ.get("CC", "cc")) if not shutil.which(program)]
    if lacking:
        print(f"skipped: {lacking[0]} is not installed")
        sys.exit(test_bed.SKIPPED)
    if subprocess.run(["unshare", "--mount", "--net", "--uts", "true"], check=False).returncode != 0:
        print("skipped: namespaces of one's own are not allowed here")
        sys.exit(test_bed.SKIPPED)


test_bed.skip_where_impossible()
skip_where_nothing_can_be_pretended()
if INSIDE in os.environ:
    sys.argv.pop(1)
    add_tests()
    unittest.main(verbosity=2)
else:
    with tempfile.TemporaryDirectory(prefix="lockstep-site-") as place:
        words = ["unshare", "--mount", "--net", "--uts", "sh", "-c", PRIVATE, "private", place, sys.executable, __file__, *sys.argv[1:]]
        sys.exit(subprocess.run(words, env=os.environ | {INSIDE: place}, check=False).returncode)
