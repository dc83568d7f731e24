# SPDX-License-Identifier: Apache-2.0
"""A node that this machine is not: what its kernel tells of cores, NUMA domains and devices, as files below a folder, and the
library that answers for its cores. See enter_node.sh."""
import dataclasses
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
MASK_BYTES = 128  # glibc's cpu_set_t.


def cpu_list(cpus):
    """"0-3,8", as the kernel writes it."""
    cpus, ranges = sorted(cpus), []
    for cpu in cpus:
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def cpu_map(cpus):
    """The same as the kernel's masks are: words of 32 bits, the highest first."""
    mask = sum(1 << cpu for cpu in cpus)
    words = [f"{mask >> 32 * word & 0xffffffff:08x}" for word in range(max(cpus) // 32 + 1)]
    return ",".join(reversed(words))


@dataclasses.dataclass(frozen=True)
class Machine:
    sockets: int
    cores: int  # Of a socket.
    threads: int
    domains: int
    maker: str  # amd or nvidia
    domain_of_device: tuple

    @property
    def all_cores(self):
        return self.sockets * self.cores

    def threads_of(self, core):
        """Linux numbers the second threads of all cores after the first ones."""
        return [core + self.all_cores * thread for thread in range(self.threads)]

    def cpus(self, cores):
        return {cpu for core in cores for cpu in self.threads_of(core)}

    def cores_of_domain(self, domain):
        size = self.all_cores // self.domains
        return range(domain * size, (domain + 1) * size)

    def near(self, device):
        """The CPUs of the domain that a device hangs on."""
        return self.cpus(self.cores_of_domain(self.domain_of_device[device]))

    def write(self, root):
        """Writes what /sys and /proc tell of such a node."""
        def put(path, text):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")

        every = self.cpus(range(self.all_cores))
        cpu_folder = "sys/devices/system/cpu"
        for name in ("online", "possible", "present"):
            put(f"{cpu_folder}/{name}", cpu_list(every))
        put(f"{cpu_folder}/smt/active", int(self.threads > 1))
        for core in range(self.all_cores):
            socket = core // self.cores
            of_socket = self.cpus(range(socket * self.cores, (socket + 1) * self.cores))
            for cpu in self.threads_of(core):
                folder = f"{cpu_folder}/cpu{cpu}/topology"
                put(f"{folder}/core_id", core % self.cores)
                put(f"{folder}/physical_package_id", socket)
                for names, cpus in ((("thread_siblings", "core_cpus"), self.threads_of(core)),
                                    (("core_siblings", "package_cpus"), of_socket)):
                    for name in names:
                        put(f"{folder}/{name}", cpu_map(cpus))
                        put(f"{folder}/{name}_list", cpu_list(cpus))
        nodes = "sys/devices/system/node"
        for domain in range(self.domains):
            cpus = self.cpus(self.cores_of_domain(domain))
            put(f"{nodes}/node{domain}/cpulist", cpu_list(cpus))
            put(f"{nodes}/node{domain}/cpumap", cpu_map(cpus))
            put(f"{nodes}/node{domain}/distance", " ".join("10" if other == domain else "12" for other in range(self.domains)))
            put(f"{nodes}/node{domain}/meminfo", f"Node {domain} MemTotal: 67108864 kB")
        for name in ("online", "possible", "has_cpu", "has_memory"):
            put(f"{nodes}/{name}", f"0-{self.domains - 1}" if self.domains > 1 else "0")
        for folder in ("proc/driver", "sys/class", "drivers"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for device, domain in enumerate(self.domain_of_device):
            self.write_device(put, device, domain)
        mask = sum(1 << cpu for cpu in every)
        (root / "cores").mkdir(exist_ok=True)
        (root / "cores/all").write_bytes(mask.to_bytes(MASK_BYTES, "little"))

    def write_device(self, put, device, domain):
        bus = 0x10 * (device + 1)
        address = f"0000:{bus:02x}:00.0"
        put(f"sys/bus/pci/devices/{address}/local_cpulist", cpu_list(self.near(device)))
        put(f"sys/bus/pci/devices/{address}/numa_node", domain)
        put(f"sys/bus/pci/devices/{address}/class", "0x030200")
        if self.maker == "nvidia":
            put(f"proc/driver/nvidia/gpus/{address}/information", f"Model: pretended\nGPU UUID: \t GPU-0000000{device}")
            return
        for each in range(self.domains):
            put(f"sys/class/kfd/kfd/topology/nodes/{each}/properties", "simd_count 0")
        put(f"sys/class/kfd/kfd/topology/nodes/{self.domains + device}/properties",
            f"cpu_cores_count 0\nsimd_count 440\nlocation_id {bus << 8}\ndomain 0\nunique_id {device + 1}")


def build_library(folder):
    library = folder / "pretended_cores.so"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-shared", "-fPIC", "-o", library, HERE / "pretended_cores.c"], check=True)
    return library
