// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"

namespace lockstep {
namespace {

using testing::elf_stub;
using testing::FakeNode;
using testing::Fault;
using testing::file;
using testing::JuwelsNode;
using testing::LumiNode;
using testing::no_file;
using testing::no_variable;
using testing::variable;

testing::Change cores(CpuSet allowed) {
  return [=](FakeNode& node) { node.of.system.allowed = allowed; };
}

testing::Change nvidia_library(NvidiaLibrary library) {
  return [=](FakeNode& node) { node.of.system.nvidia = [=] { return library; }; };
}

constexpr const char* kPlugin = "/opt/plugin/lib";
constexpr const char* kFabric = "/opt/cray/libfabric/lib64";

/// Returns a value of LD_LIBRARY_PATH with these folders in this order.
testing::Change library_path(const std::vector<std::string>& folders) {
  return variable("LD_LIBRARY_PATH", joined(folders, ":"));
}

const std::vector<Fault> kOnLumi = {
    {"VariablesThatDisagree", "layout-unclear", "SLURM_PROCID", variable("SLURM_PROCID", "99")},
    {"CoresThatSrunDidNotGive", "layout-cores-not-given", "the job asks for 7 CPUs a task, but this task may use 1 (1)",
     [](FakeNode& node) {
       node.set("SLURM_CPUS_PER_TASK", "7");
       node.of.system.allowed = {1};
     },
     cores({1, 2, 3, 4, 5, 6, 7})},
    {"OneCoreForATaskWithADevice", "layout-few-cores", "one core, CPU 3", cores({3})},
    {"FewerCoresThanTasks", "layout-overcommitted", "4 CPUs on this node for 8 tasks",
     variable("SLURM_CPUS_ON_NODE", "4")},
    {"MoreThreadsThanCores", "layout-too-many-threads", "OMP_NUM_THREADS is 64", variable("OMP_NUM_THREADS", "64")},
    {"MoreTasksThanDevices", "layout-device-shared", "8 tasks on this node share 4 devices",
     variable("SLURM_GPUS_ON_NODE", "4"), [](FakeNode& node) { node.slurm(2, 4, 4); }},
    {"DevicesThatNoTaskTakes", "layout-device-idle", "8 devices on this node and 2 tasks",
     [](FakeNode& node) { node.slurm(2, 2, 8); }},
    {"NoComputeFileForAmd", "devices-amd-no-files", "/dev/kfd is not there", no_file("/dev/kfd")},
    {"NoRenderFileForAmd", "devices-amd-no-files", "/dev/dri/renderD130", no_file("/dev/dri/renderD130")},
    {"AnXgmiLinkThatDidNotTrain", "devices-links-down", "0000:c3:00.0 has 6 xGMI links, others of the node have 7",
     [](FakeNode& node) { node.set_link(3, 4, 2); }, [](FakeNode& node) { node.set_link(3, 4, 11); }},
    {"DevicesThatSlurmGaveAndNobodySees", "devices-missing", "gave the job 8 devices", no_file("/sys/class/kfd")},
    {"HipListCountedWithinRocrs", "devices-hidden", "ROCR_VISIBLE_DEVICES='3' and HIP_VISIBLE_DEVICES='3'",
     [](FakeNode& node) {
       node.set({{"ROCR_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "3"}});
     },
     no_variable("HIP_VISIBLE_DEVICES")},
    {"MemoryThatSomebodyLeft", "devices-memory-taken", "0000:c3:00.0 has 30.0 GiB",
     file("/sys/bus/pci/devices/0000:c3:00.0/mem_info_vram_used", "32212254720\n")},
    {"NoPlugin", "library-plugin-missing", "this node has Slingshot", library_path({kFabric})},
    {"APluginWhoseLibrariesAreNotBound", "library-plugin-broken", "needs libcxi.so.1",
     no_file("/usr/lib64/libcxi.so.1")},
    {"AnEnvironmentsLibfabricFirst", "library-libfabric-wrong", "/env/lib/libfabric.so.1', which has no provider 'cxi'",
     [](FakeNode& node) {
       node.write("/env/lib/libfabric.so.1", elf_stub({.needed = {"libc.so.6"}}));
       library_path({"/env/lib", kPlugin, kFabric})(node);
     },
     library_path({kPlugin, kFabric, "/env/lib"})},
    {"TwoRccls", "library-two-collectives", "has 2 of librccl.so.1",
     [](FakeNode& node) {
       node.write("/opt/rocm-6.0/lib/librccl.so.1", "one");
       node.write("/env/lib/librccl.so.1", "another");
       library_path({kPlugin, kFabric, "/opt/rocm-6.0/lib", "/env/lib"})(node);
     },
     library_path({kPlugin, kFabric, "/opt/rocm-6.0/lib"})},
};
FAULT_TESTS(LumiFault, LumiNode, kOnLumi);

const std::vector<Fault> kOnJuwels = {
    {"PeersHiddenByACgroup", "layout-hidden-peers", "open 1 of the node's 4",
     [](FakeNode& node) {
       // On a real node a cgroup refuses to open these devices. In this test their files do not exist.
       for (const char* name : {"/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"}) node.remove(name);
     }},
    {"CoresFarFromTheDevice", "layout-far-cores", "all far from device 0",
     [](FakeNode& node) {
       node.set({{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0"}});
       node.write("/sys/bus/pci/devices/0000:31:00.0/local_cpulist", "24-29\n");
     },
     cores({24, 25, 26, 27, 28, 29})},
    {"TorchrunInEveryTask", "layout-nested-launcher", "each runs torchrun", variable("TORCHELASTIC_RUN_ID", "none")},
    {"MpirunInEveryTask", "layout-nested-launcher", "each runs mpirun",
     [](FakeNode& node) {
       node.set({{"OMPI_COMM_WORLD_SIZE", "1"},
                 {"OMPI_COMM_WORLD_RANK", "0"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
     }},
    {"NoDriverForNvidiaDevices", "devices-nvidia-no-driver", "4 NVIDIA devices", no_file("/proc/driver/nvidia")},
    {"NoDeviceFilesInTheContainer", "devices-nvidia-no-files", "/dev/nvidiactl",
     [](FakeNode& node) {
       node.set("APPTAINER_CONTAINER", "/image.sif");
       node.remove("/dev/nvidiactl");
     },
     file("/dev/nvidiactl", "")},
    {"NoLibraryOfTheDriver", "devices-nvidia-no-library", "libnvidia-ml.so.1 is not found", nvidia_library({})},
    {"DriverAndLibraryOfDifferentVersions", "devices-nvidia-mismatch", "the driver in the kernel is 550.54.15",
     nvidia_library({.is_loaded = true, .status = 18})},
    {"ALibraryThatDoesNotStart", "devices-nvidia-fails", "nvmlInit returns 999",
     nvidia_library({.is_loaded = true, .status = 999})},
    {"ADeviceOffTheBus", "devices-nvidia-lost", "lists 4 NVIDIA devices, its library counts 3",
     nvidia_library({.is_loaded = true, .status = 0, .devices = 3})},
    {"AnEmptyListOfDevices", "devices-hidden", "CUDA_VISIBLE_DEVICES=''", variable("CUDA_VISIBLE_DEVICES", "")},
    {"ADriverTooOldForPyTorch", "devices-driver-too-old", "CUDA 13.0, which needs driver 580",
     [](FakeNode& node) {
       node.set("VIRTUAL_ENV", "/env");
       node.write("/env/lib/python3.12/site-packages/torch/version.py",
                  "__version__ = '2.11.0'\ncuda: Optional[str] = '13.0'\n");
     },
     file("/env/lib/python3.12/site-packages/torch/version.py",
          "__version__ = '2.11.0'\ncuda: Optional[str] = '12.6'\n")},
};
FAULT_TESTS(JuwelsFault, JuwelsNode, kOnJuwels);

TEST(WorkstationFault, NoComputeDriverForAmdDevices) {
  FakeNode node;
  node.amd_gpus(2);
  expect_fault(node, {.code = "devices-amd-no-driver", .fact = "2 AMD devices", .broken = no_file("/sys/class/kfd")});
}

testing::Change torch(const std::string& version, const std::string& cuda, const std::string& hip) {
  return file(
      "/env/lib/python3.12/site-packages/torch/version.py",
      "__version__ = '" + version + "'\ncuda: Optional[str] = " + cuda + "\nhip: Optional[str] = " + hip + "\n");
}

/// A task on LUMI with a PyTorch that is right for its devices.
struct TorchNode : LumiNode {
  TorchNode() {
    set("VIRTUAL_ENV", "/env");
    torch("2.7.1+rocm6.3", "None", "'6.3.42131'")(*this);
    write("/env/lib/python3.12/site-packages/torch/lib/libc10.so",
          elf_stub({.needed = {"libstdc++.so.6"}, .requires_ = {"GLIBCXX_3.4.21", "GLIBCXX_3.4.30"}}));
    write("/env/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so",
          elf_stub({.needed = {"libc.so.6"}, .requires_ = {"GLIBC_2.2.5", "GLIBC_2.28"}}));
    write("/usr/lib64/libstdc++.so.6", elf_stub({.provides = {"GLIBCXX_3.4.9", "GLIBCXX_3.4.32"}}));
    write("/usr/lib64/libc.so.6", elf_stub({.provides = {"GLIBC_2.4", "GLIBC_2.31"}}));
  }
};

const std::vector<Fault> kOfTorch = {
    {"APyTorchForTheCpu", "devices-wrong-torch", "is made for the CPU only", torch("2.11.0+cpu", "None", "None")},
    {"APyTorchForTheOtherMaker", "devices-wrong-torch", "8 AMD devices, but PyTorch 2.11.0 in",
     torch("2.11.0", "'12.8'", "None")},
    {"APyTorchWithoutKernelsForThisArchitecture", "devices-architecture-dropped", "gfx906",
     [](FakeNode& node) {
       node.amd_gpus(8, 90006);
       torch("2.11.0", "None", "'7.1.25424'")(node);
     },
     torch("2.7.1+rocm6.3", "None", "'6.3.42131'")},
    {"AnOldLibstdcxxFirst", "library-libstdcxx-old", "with GLIBCXX_3.4.25, PyTorch in",
     [](FakeNode& node) {
       node.write("/opt/gcc-8/lib64/libstdc++.so.6", elf_stub({.provides = {"GLIBCXX_3.4.25"}}));
       library_path({"/opt/gcc-8/lib64", kPlugin, kFabric})(node);
     },
     library_path({kPlugin, kFabric})},
    {"AGlibcThatIsTooOld", "library-glibc-old", "this system has glibc 2.17",
     file("/usr/lib64/libc.so.6", elf_stub({.provides = {"GLIBC_2.4", "GLIBC_2.17"}})),
     file("/usr/lib64/libc.so.6", elf_stub({.provides = {"GLIBC_2.35"}}))},
};
FAULT_TESTS(TorchFault, TorchNode, kOfTorch);

}  // namespace
}  // namespace lockstep
