# SPDX-License-Identifier: Apache-2.0
"""The sites that have a profile, each as a Slurm that this machine can start: what its nodes are, how its Slurm is configured,
what a login shell there has. Written from the sites' pages and apart from the profiles, so that a wrong mask or order of a
profile does not agree with itself; docs/cluster/clusters.md and each profile's `sources` name the pages."""
import dataclasses

from pretended_machine import Machine

TORCHRUN = ("PYTHON", "-m", "torch.distributed.run", "--nproc_per_node=@OWN@")
ACCELERATE = ("PYTHON", "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=@OWN@")
FIRST_OF_EIGHT = tuple(range(0, 64, 8))  # One core of each L3 region is the system's.


@dataclasses.dataclass(frozen=True)
class Site:
    profile: str
    machine: Machine
    name: str  # Of nodes: the first letters and zeros.
    partitions: str
    share: int  # CPUs that a device comes with, as this site's Slurm counts them.
    bed: dict = dataclasses.field(default_factory=dict)  # What testbed.sh is told besides.
    conf: str = ""  # Lines of slurm.conf.
    login: dict = dataclasses.field(default_factory=dict)  # Variables of a login shell, by which the profile is found.
    login_host: str = "login01"
    account: str = ""
    words: tuple = ()  # What `submit` is always told.
    devices_said: tuple = ()  # And where nothing is said of devices.
    interfaces: tuple = ()
    host_suffix: str | None = None  # Names of nodes with this at their end are in the name service; None: no names are.
    gpu_type: str = ""
    reserved: tuple = ()  # Cores that jobs do not get.
    modules: tuple = ()  # What `module load` knows.
    job_threads: int = 0  # Threads of each core that a job gets if it does not say; 0: all.
    order: str = ""  # The list of devices that a program finds; empty: 0, 1, 2 …
    device_variable: str = "CUDA_VISIBLE_DEVICES"
    extra_cores: bool = False  # Ranks have cores beside the nearest ones.
    python: str = "login"  # Which one a job finds that names none.
    image: str = "without-libraries.sif"  # An image for this site's devices; with ROCm in it, where the site's have that.
    drivers: tuple = ()  # Files in /dev.
    launcher: tuple = ("torchrun", "--nproc_per_node=@OWN@")  # The one of these sites' users; PYTHON: only where there is PyTorch.
    combinations: tuple = ()  # (tasks, devices of each, their order where it is the user's own, -c) of steps on one node.
    small: tuple = ()  # `submit` words for a job that shares its node, which has two devices.

    @property
    def devices(self):
        return len(self.machine.domain_of_device)

    @property
    def partition(self):
        return self.partitions.split()[0].removeprefix("PartitionName=")

    def gres(self):
        """The lines of gres.conf: Slurm tells jobs by the variable of the devices' maker alone."""
        flag = "amd_gpu_env" if self.machine.maker == "amd" else "nvidia_gpu_env"
        kind = f"Type={self.gpu_type} " if self.gpu_type else ""
        lines = []
        for device, domain in enumerate(self.machine.domain_of_device):
            cores = self.machine.cores_of_domain(domain)
            lines.append(f"NodeName=@NODES@ Name=gpu {kind}Flags={flag} File=@DEVICES@/gpu{device} Cores={cores[0]}-{cores[-1]}")
        return "\n".join(lines)

    def shape(self, prolog, task_prolog):
        machine = self.machine
        node = self.bed.get("node", "")
        if self.reserved:
            # Slurm's own numbers: both threads of a core are side by side.
            node += " CpuSpecList=" + ",".join(str(core * machine.threads) for core in self.reserved)
        conf = f"Prolog={prolog}\nTaskProlog={task_prolog}\nPrologFlags=Alloc\n{self.conf}"
        shape = {"nodes": 2, "memory": 500000, **self.bed, "cluster": self.profile.split("-")[0], "name": self.name, "sockets": machine.sockets,
                 "cores": machine.cores, "threads": machine.threads, "gpus": self.devices, "gpu_type": self.gpu_type, "gres": self.gres(),
                 "partitions": self.partitions, "node": node, "conf": conf}
        if self.account:
            shape["account"] = "required"
        if self.job_threads:
            shape["job_threads"] = self.job_threads
        return shape


SITES = {site.profile: site for site in (
    Site("lumi-g", Machine(1, 64, 2, 4, "amd", (3, 3, 1, 1, 0, 0, 2, 2)), "nid00500",
         "PartitionName=standard-g Nodes=@NODES@ OverSubscribe=EXCLUSIVE MaxTime=2-00:00:00 State=UP\n"
         "PartitionName=small-g Nodes=@NODES@ MaxTime=3-00:00:00 State=UP",
         7, bed={"select": "CR_Core_Memory"}, login={"LUMI_STACK_NAME": "LUMI"}, login_host="uan01", account="project_465000001",
         interfaces=("hsn0", "hsn1", "hsn2", "hsn3"), host_suffix="", gpu_type="mi250", reserved=FIRST_OF_EIGHT, job_threads=1,
         modules=("lumi-aif-singularity-bindings", "LUMI", "partition/G"), device_variable="ROCR_VISIBLE_DEVICES",
         image="with-rocm.sif", launcher=ACCELERATE,
         combinations=((8, 1, "", 7), (2, 4, "", 2), (1, 8, "7,6,5,4,3,2,1,0", 56)), small=("--partition", "small-g", "--devices", "2")),
    Site("frontier", Machine(1, 64, 2, 4, "amd", (3, 3, 1, 1, 0, 0, 2, 2)), "frontier0000",
         "PartitionName=batch Nodes=@NODES@ Default=YES OverSubscribe=EXCLUSIVE MaxTime=1-00:00:00 State=UP",
         7, login={"LMOD_SYSTEM_NAME": "frontier"}, login_host="login01.frontier", account="abc123",
         interfaces=("hsn0", "hsn1", "hsn2", "hsn3"), host_suffix="", reserved=FIRST_OF_EIGHT, job_threads=1,
         image="with-rocm.sif", launcher=TORCHRUN, combinations=((1, 8, "", 7),),
         modules=("PrgEnv-gnu/8.7.0", "cpe/26.03", "miniforge3/23.11.0-0", "rocm/7.1.1", "rccl-net-plugin", "craype-accel-amd-gfx90a",
                  "olcf-container-tools", "apptainer-enable-mpi", "apptainer-enable-gpu"),
         device_variable="ROCR_VISIBLE_DEVICES"),
    Site("juwels-booster", Machine(2, 24, 2, 8, "nvidia", (3, 1, 7, 5)), "jwb000",
         "PartitionName=booster Nodes=@NODES@ Default=YES OverSubscribe=EXCLUSIVE MaxTime=1-00:00:00 State=UP",
         12, bed={"select": "CR_Core_Memory"}, login={"SYSTEMNAME": "juwelsbooster"}, login_host="jwlogin22", account="training2401",
         interfaces=("ib0",), host_suffix="i", extra_cores=True, python="module Python", launcher=ACCELERATE,
         combinations=((4, 1, "3,2,1,0", 12), (1, 1, "", 24)),
         modules=("Stages/2025", "GCC", "OpenMPI", "CUDA/12", "cuDNN", "MPI-settings/CUDA", "Python", "HDF5")),
    Site("perlmutter", Machine(1, 64, 2, 4, "nvidia", (3, 2, 1, 0)), "nid00100",
         "PartitionName=gpu_ss11 Nodes=@NODES@ Default=YES OverSubscribe=EXCLUSIVE MaxTime=2-00:00:00 State=UP",
         32, bed={"node": "Feature=gpu"}, login={"NERSC_HOST": "perlmutter"}, account="m1234_g",
         interfaces=("hsn0", "hsn1", "hsn2", "hsn3"), host_suffix="", gpu_type="a100", modules=("pytorch",), order="3,2,1,0",
         python="module pytorch", image="", launcher=TORCHRUN,
         combinations=((4, 1, "0,2,1,3", 32), (2, 2, "", 64))),
    Site("leonardo", Machine(1, 32, 1, 1, "nvidia", (0, 0, 0, 0)), "lrdn000",
         "PartitionName=boost_usr_prod Nodes=@NODES@ Default=YES MaxTime=1-00:00:00 State=UP",
         8, bed={"select": "CR_Core_Memory"}, login_host="login05.leonardo.local", account="EUHPC_B01", interfaces=("ib0",),
         gpu_type="a100", modules=("cuda", "nccl", "openmpi"), small=("--devices", "2")),
    Site("crukci-rocm", Machine(2, 40, 1, 2, "amd", (0, 0, 0, 0, 1, 1, 1, 1)), "rocm",
         "PartitionName=rocm Nodes=@NODES@ Default=YES MaxTime=7-00:00:00 State=UP",
         10, bed={"select": "CR_Core_Memory"}, words=("--cluster", "crukci-rocm"), drivers=("kfd",),
         combinations=((4, 2, "", 20),), interfaces=("bond0",),
         device_variable="ROCR_VISIBLE_DEVICES", small=("--devices", "2")),
    Site("generic", Machine(2, 32, 2, 2, "nvidia", (0, 0, 1, 1)), "gpu",
         "PartitionName=main Nodes=@NODES@ Default=YES MaxTime=04:00:00 State=UP",
         32, bed={"select": "CR_Core_Memory"}, conf="DefMemPerCPU=2000", devices_said=("--devices", "4"), gpu_type="h100", combinations=((4, 1, "2,3,0,1", 32),), interfaces=("eth0",), small=("--devices", "2")),
)}
