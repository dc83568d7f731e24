#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job's look at its nodes before the ranks start, under a real Slurm: nodes pretend to have two NVIDIA devices, and a library
stands for the driver's: test_node_look.py LOCKSTEP"""
import os
import pathlib
import re
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

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
LIMIT_S = 2
BLIND = """
class cuda:
    is_available = staticmethod(lambda: False)
    def init(): raise AssertionError("Torch not compiled with CUDA enabled\\nmore")
class version: cuda = hip = None
__version__ = "2.9.0+cpu"
"""


def write_machine(root):
    machine = pretended_machine.Machine(1, 8, 1, 1, "nvidia", (0, 0))
    machine.write(root)
    (root / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n")
    (root / "drivers/nvidiactl").touch()
    for device in range(2):
        address = f"0000:{0x10 * (device + 1):02x}:00.0"
        (root / "drivers" / f"nvidia{device}").touch()
        (root / f"proc/driver/nvidia/gpus/{address}/information").write_text(f"GPU UUID: \t GPU-0{device}\nDevice Minor: \t {device}\n")
        (root / f"sys/bus/pci/devices/{address}/vendor").write_text("0x10de\n")
        for name in ("max_link_width", "current_link_width"):
            (root / f"sys/bus/pci/devices/{address}/{name}").write_text("16\n")
    return machine


class NodeLook(test_bed.BedTest):
    program = LOCKSTEP

    @classmethod
    def setUpClass(cls):
        # No blank: testbed.sh writes such paths into slurm.conf.
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="lockstep-node-", dir="/dev/shm")))
        write_machine(cls.root)
        library = pretended_machine.build_library(cls.root)
        cls.driver = cls.root / "driver library"
        cls.driver.mkdir()
        subprocess.run([os.environ.get("CC", "cc"), "-Wall", "-shared", "-fPIC", "-o", cls.driver / "libnvidia-ml.so.1",
                        HERE / "sites/pretended_nvml.c"], check=True)
        os.environ.update(PRETENDED_ROOT=str(cls.root), PRETENDED_LIBRARY=str(library))
        cls.bed = cls.enterClassContext(test_bed.Bed(enter=HERE / "sites/enter_node.sh", nodes=2, gpus=2, task_plugin="task/none"))

    def setUp(self):
        super().setUp()
        self.faults = self.folder / "faults"
        self.faults.mkdir()
        self.environment |= {"LD_LIBRARY_PATH": str(self.driver), "PRETENDED_NVML": str(self.faults)}
        (self.folder / "torch").mkdir()

    def run_job(self, *words, devices=2, tasks=2, code=0, **variables):
        """The log of a job on both nodes that ended with `code`."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        job = self.job("--nodes", "2", "--tasks-per-node", tasks, "--devices", devices, *words, **variables)
        ended = self.state(job)
        self.assertEqual(ended["ExitCode"], f"{code}:0", self.log())
        return self.log()

    def sick(self, fault, node, **more):
        (self.faults / node).write_text(fault)
        return self.run_job("--", "sh", "-c", "echo the program ran", **more)

    def test_a_sound_node_is_not_spoken_of(self):
        log = self.run_job("--", "sh", "-c", "echo the program ran")
        self.assertEqual(log.count("the program ran"), 4, log)
        self.assertNotIn("warning", log)
        self.assertNotIn("error", log)

    def test_a_sick_node_of_two_ends_the_job_and_is_named_alone(self):
        for fault, fact in (("lost", "n2: devices-lost: the driver reaches device 1 no more"),
                            ("rows", "n2: devices-memory-broken: device 0000:10:00.0 has memory that is only repaired by a reset")):
            with self.subTest(fault):
                log = self.sick(fault, "n2", code=4)
                self.assertIn(fact, log)
                self.assertEqual(set(re.findall(r"--sbatch=--exclude=(\S+)", log)), {"n2"}, log)
                self.assertNotIn("n1: ", log)
                self.assertNotIn("the program ran", log)

    def test_the_line_that_is_named_takes_the_job_to_the_other_node(self):
        (self.faults / "n2").write_text("lost")
        job = self.job("--nodes", "1", "--devices", "2", "--sbatch=--exclude=n2", "--", "true")
        ended = self.state(job)
        self.assertEqual((ended["ExitCode"], ended["NodeList"]), ("0:0", "n1"), self.log())

    def test_a_slow_node_is_told_and_the_program_runs(self):
        log = self.sick("hot", "n1")
        self.assertIn("warning: n1: devices-throttled: device 0000:10:00.0 is held down by its temperature", log)
        self.assertEqual(log.count("the program ran"), 4)
        self.assertNotIn("n2: ", log)

    def test_a_driver_that_hangs_does_not_hold_up_the_job(self):
        log = self.sick("hangs", "n1")
        self.assertIn("warning: n1: check-too-long: the look at the node's devices took more than 2 s", log)
        self.assertEqual(log.count("the program ran"), 4)
        self.until(lambda: not self.agents(), "the node's agent waits for the driver, though the tasks have ended")

    def agents(self):
        """The processes that watch nodes for this test's runs."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_agent = (folder / "comm").read_text() == "lockstep-agent\n"
                if is_agent and f"LOCKSTEP_RUN_DIR={self.folder}/".encode() in (folder / "environ").read_bytes():
                    found.append(folder.name)
            except OSError:
                pass
        return found

    def test_a_pytorch_without_devices_never_runs_on_the_cpu(self):
        (self.folder / "torch/__init__.py").write_text(BLIND)
        program = ("--", sys.executable, "-c", "print('the program ran')")
        log = self.run_job(*program, code=4, PYTHONPATH=str(self.folder))
        self.assertIn("devices-not-seen: torch.cuda.is_available() is False in the program's Python", log)
        self.assertIn("PyTorch 2.9.0+cpu is made for the CPU only", log)
        self.assertIn("it says 'Torch not compiled with CUDA enabled'", log)
        self.assertNotIn("--exclude", log.replace("try another node: --exclude", ""))
        self.assertNotIn("the program ran", log)
        for how in ({"devices": 0}, {"LOCKSTEP_DOCTOR": "off"}):
            with self.subTest(how):
                log = self.run_job(*program, PYTHONPATH=str(self.folder), **how)
                self.assertEqual(log.count("the program ran"), 4)
                self.assertNotIn("error", log)
        log = self.run_job(*program)
        self.assertEqual(log.count("the program ran"), 4, "a Python without PyTorch is left alone")

    def test_a_launchers_own_python_is_asked(self):
        """torchrun and a script of one's own, as pip installs them: with a plain first line, and with the one for long paths."""
        (self.folder / "torch/__init__.py").write_text(BLIND)
        tools = self.folder / "my tools"
        tools.mkdir()
        (tools / "python").symlink_to(sys.executable)
        path = f"{tools}:{self.environment['PATH']}"
        for name, head in (("torchrun", f"#!{sys.executable}"), ("accelerate", f"#!/bin/sh\n'''exec' \"{tools}/python\" \"$0\" \"$@\"\n' '''"),
                           ("train.py", "#!/usr/bin/env python3")):
            with self.subTest(name):
                (tools / name).write_text(head + "\nprint('the program ran')\n")
                (tools / name).chmod(0o755)
                program = ("--", tools / name if name == "train.py" else name)
                log = self.run_job(*program, tasks=1, code=4, PATH=path, PYTHONPATH=str(self.folder))
                self.assertIn("devices-not-seen: torch.cuda.is_available() is False in the program's Python", log)
                self.assertNotIn("the program ran", log)
                self.assertEqual(self.run_job(*program, tasks=1, PATH=path).count("the program ran"), 2, "a Python without PyTorch is left alone")
        self.assertIn("'no-such-script.py' was not found", self.run_job("--", "no-such-script.py", code=4))

    def test_an_account_with_few_hours_left_is_told(self):
        """Slurm's accounting is pretended: two nodes for an hour, and the account has a minute."""
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "sshare").write_text("#!/bin/sh\necho ' proj||node=6000|node=5999'\n")
        (tools / "sshare").chmod(0o755)
        log = self.run_job("--account", "proj", "--time", "1:00:00", "--", "sh", "-c", "echo the program ran", PATH=f"{tools}:{self.environment['PATH']}")
        self.assertRegex(log, r"warning: n\d: budget-low: account proj has 0.0 of its 100.0 node-hours left, want [12]\.\d for the rest")
        self.assertEqual(log.count("the program ran"), 4)

    @unittest.skipUnless(peers.PYTHON, peers.REASON)
    def test_a_real_pytorch_says_why_it_sees_none(self):
        if subprocess.run([peers.PYTHON, "-c", "import torch, sys; sys.exit(torch.cuda.is_available())"], check=False).returncode != 0:
            self.skipTest("this machine has devices")
        log = self.run_job("--", peers.PYTHON, "-c", "print('the program ran')", code=4)
        self.assertRegex(log, r"n[12]: devices-not-seen: .* and it says '.+'")
        self.assertNotIn("the program ran", log)

    def test_it_takes_less_than_its_limit(self):
        """Measured on the nodes, since starting a step takes far longer here than the look."""
        script = f"for i in 1 2 3; do date +%s.%N; {LOCKSTEP} doctor --node; done; date +%s.%N"
        told = self.bed.run("srun", "-N1", "--gpus-per-node=2", "bash", "-c", script, env=self.environment)
        moments = [float(line) for line in told.split()]
        times = [after - before for before, after in zip(moments, moments[1:])]
        print(f"the look at a sound node takes {min(times) * 1e3:.0f} ms")
        self.assertLess(min(times), LIMIT_S)


test_bed.skip_where_impossible()
if subprocess.run(["unshare", "--mount", "--uts", "true"], check=False).returncode != 0 or not shutil.which(os.environ.get("CC", "cc")):
    print("skipped: namespaces of one's own are not allowed here, or there is no C compiler")
    sys.exit(test_bed.SKIPPED)
unittest.main(verbosity=2)
