# SPDX-License-Identifier: Apache-2.0
"""Asks the machine for tools/gpu-check where programs are, what the device does, and how much CPU time a process's threads used."""
import ctypes
import importlib.util
import os
import pathlib
import shutil
import threading
import time


def path_with_tools():
    """Returns PATH. If CMake or ninja is only in a folder of pip, that folder comes first."""
    folders = []
    for program, module, inside in (("cmake", "cmake", "data/bin"), ("ninja", "ninja", "data/bin"), ("ninja", "ninja", "bin")):
        spec = None if shutil.which(program) else importlib.util.find_spec(module)
        for root in (spec.submodule_search_locations or []) if spec else []:
            if (pathlib.Path(root) / inside / program).exists():
                folders.append(str(pathlib.Path(root) / inside))
    return os.pathsep.join([*folders, os.environ.get("PATH", "/usr/bin:/bin")])


def missing_tools(path):
    """Returns the programs that the build needs and that are missing. They cannot be fetched here."""
    return [name for name in ("cmake", "ninja", "g++", "bash") if not shutil.which(name, path=path)]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


class Sampler:
    """Calls `sample` in a thread, again and again, inside a with statement."""

    def __init__(self, every_s):
        self.every_s = every_s
        self.samples = []  # (time of day, result of `sample`)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def _loop(self):
        while not self.done.is_set():
            seen = self.sample()
            if seen is not None:
                self.samples.append((time.time(), seen))
            self.done.wait(self.every_s)

    def between(self, begin, end):
        return [(at, seen) for at, seen in self.samples if begin <= at <= end]


def nanoseconds_of(task):
    """Returns the nanoseconds that a thread used on a core, in whole ticks if the kernel counts no finer."""
    try:
        return int((task / "schedstat").read_text().split()[0])
    except FileNotFoundError:
        user, system = (task / "stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) * 10**9 // os.sysconf("SC_CLK_TCK")


class ThreadTimes(Sampler):
    """Samples the nanoseconds that each thread of a process used on a core."""

    def __init__(self, pid):
        super().__init__(0.02)
        self.tasks = pathlib.Path(f"/proc/{pid}/task")

    def sample(self):
        try:
            return {task.name: nanoseconds_of(task) for task in self.tasks.iterdir()}
        except (OSError, ValueError, IndexError):
            return None

    def shares(self, begin, end):
        """Returns the mean number of cores in use between two times of day, of the whole process and of its busiest thread."""
        seen = self.between(begin, end)
        if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
            return None
        (first_at, first), (last_at, last) = seen[0], seen[-1]
        used = [(last[name] - first.get(name, 0)) / 1e9 / (last_at - first_at) for name in last]
        return sum(used), max(used)


class DeviceWatch(Sampler):
    """Samples busy share, power and memory of the first NVIDIA GPU, as its driver counts them. Samples nothing without one."""

    def __init__(self, is_gpu):
        super().__init__(0.05)
        self.nvml = self.device = None
        try:
            if is_gpu:
                self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
                self.device = ctypes.c_void_p()
                if self.nvml.nvmlInit_v2() != 0 or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) != 0:
                    self.nvml = None
        except (OSError, AttributeError):
            self.nvml = None

    def sample(self):
        if self.nvml is None:
            return None
        rates, milliwatts, memory = (ctypes.c_uint * 2)(), ctypes.c_uint(), (ctypes.c_ulonglong * 3)()
        calls = ((self.nvml.nvmlDeviceGetUtilizationRates, rates), (self.nvml.nvmlDeviceGetPowerUsage, milliwatts),
                 (self.nvml.nvmlDeviceGetMemoryInfo, memory))
        if any(call(self.device, ctypes.byref(into)) != 0 for call, into in calls):
            return None
        return {"busy": rates[0] / 100, "watts": milliwatts.value / 1e3, "gib": memory[2] / 2**30}

    def means(self, begin, end):
        """Returns {"busy", "watts", "gib"}, with means and the largest memory, or None without a sample."""
        seen = [sample for _, sample in self.between(begin, end)]
        if not seen:
            return None
        means = {name: sum(each[name] for each in seen) / len(seen) for name in ("busy", "watts")}
        return {**means, "gib": max(each["gib"] for each in seen)}
