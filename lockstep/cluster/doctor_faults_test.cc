// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/support/fake_node.h"

namespace lockstep {
namespace {

using testing::expect_fault;
using testing::FakeNode;

/// A task on two nodes of LUMI.
struct LumiFault : ::testing::Test {
  LumiFault() {
    node.amd_gpus(8);
    node.slingshot();
    node.slurm(2, 8, 8);
  }
  FakeNode node{"lumi-g"};
};

/// A task on two nodes of JUWELS Booster.
struct JuwelsFault : ::testing::Test {
  JuwelsFault() {
    node.nvidia_gpus(4);
    node.infiniband();
    node.slurm(2, 4, 4);
  }
  FakeNode node{"juwels-booster"};
};

TEST_F(LumiFault, VariablesThatDisagree) {
  expect_fault(
      node, "layout-unclear", "SLURM_PROCID", [&] { node.set("SLURM_PROCID", "99"); },
      [&] { node.set("SLURM_PROCID", "0"); });
}

TEST_F(LumiFault, CoresThatSrunDidNotGive) {
  node.of.system.allowed = {1, 2, 3, 4, 5, 6, 7};
  expect_fault(
      node, "layout-cores-not-given", "the job asks for 7 CPUs a task, but this task may use 1 (1)",
      [&] {
        node.set("SLURM_CPUS_PER_TASK", "7");
        node.of.system.allowed = {1};
      },
      [&] { node.of.system.allowed = {1, 2, 3, 4, 5, 6, 7}; });
}

TEST_F(LumiFault, OneCoreForATaskWithADevice) {
  expect_fault(
      node, "layout-few-cores", "one core, CPU 3", [&] { node.of.system.allowed = {3}; },
      [&] { node.of.system.allowed = {1, 2, 3, 4, 5, 6, 7}; });
}

TEST_F(LumiFault, FewerCoresThanTasks) {
  expect_fault(
      node, "layout-overcommitted", "4 CPUs on this node for 8 tasks", [&] { node.set("SLURM_CPUS_ON_NODE", "4"); },
      [&] { node.set("SLURM_CPUS_ON_NODE", "56"); });
}

TEST_F(LumiFault, MoreThreadsThanCores) {
  expect_fault(
      node, "layout-too-many-threads", "OMP_NUM_THREADS is 64", [&] { node.set("OMP_NUM_THREADS", "64"); },
      [&] { node.unset("OMP_NUM_THREADS"); });
}

TEST_F(LumiFault, MoreTasksThanDevices) {
  expect_fault(
      node, "layout-device-shared", "8 tasks on this node share 4 devices",
      [&] { node.set("SLURM_GPUS_ON_NODE", "4"); }, [&] { node.slurm(2, 4, 4); });
}

TEST_F(LumiFault, DevicesThatNoTaskTakes) {
  expect_fault(
      node, "layout-device-idle", "8 devices on this node and 2 tasks", [&] { node.slurm(2, 2, 8); },
      [&] { node.slurm(2, 8, 8); });
}

TEST_F(JuwelsFault, PeersHiddenByACgroup) {
  expect_fault(
      node, "layout-hidden-peers", "open 1 of the node's 4",
      [&] {
        // A cgroup refuses to open them; here they are not there to be opened.
        for (const char* name : {"/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"}) node.remove(name);
      },
      [&] {
        for (const char* name : {"/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"}) node.write(name, "");
      });
}

TEST_F(JuwelsFault, CoresFarFromTheDevice) {
  node.set("CUDA_VISIBLE_DEVICES", "0");
  node.set("SLURM_STEP_GPUS", "0");
  expect_fault(
      node, "layout-far-cores", "all far from device 0",
      [&] { node.write("/sys/bus/pci/devices/0000:31:00.0/local_cpulist", "24-29\n"); },
      [&] { node.of.system.allowed = {24, 25, 26, 27, 28, 29}; });
}

TEST_F(JuwelsFault, TorchrunInEveryTask) {
  expect_fault(
      node, "layout-nested-launcher", "each runs torchrun", [&] { node.set("TORCHELASTIC_RUN_ID", "none"); },
      [&] { node.unset("TORCHELASTIC_RUN_ID"); });
}

TEST_F(JuwelsFault, MpirunInEveryTask) {
  expect_fault(
      node, "layout-nested-launcher", "each runs mpirun",
      [&] {
        node.set("OMPI_COMM_WORLD_SIZE", "1");
        node.set("OMPI_COMM_WORLD_RANK", "0");
        node.set("OMPI_COMM_WORLD_LOCAL_RANK", "0");
        node.set("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
      },
      [&] {
        for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE"}) {
          node.unset(name);
        }
      });
}

TEST_F(JuwelsFault, NoDriverForNvidiaDevices) {
  std::filesystem::path saved = node.path("/proc/driver/saved");
  expect_fault(
      node, "devices-nvidia-no-driver", "4 NVIDIA devices",
      [&] { std::filesystem::rename(node.path("/proc/driver/nvidia"), saved); },
      [&] { std::filesystem::rename(saved, node.path("/proc/driver/nvidia")); });
}

TEST_F(JuwelsFault, NoDeviceFilesInTheContainer) {
  node.set("APPTAINER_CONTAINER", "/image.sif");
  expect_fault(
      node, "devices-nvidia-no-files", "/dev/nvidiactl", [&] { node.remove("/dev/nvidiactl"); },
      [&] { node.write("/dev/nvidiactl", ""); });
}

TEST_F(JuwelsFault, NoLibraryOfTheDriver) {
  const auto sound = node.of.system.nvidia;
  expect_fault(
      node, "devices-nvidia-no-library", "libnvidia-ml.so.1 is not found",
      [&] { node.of.system.nvidia = [] { return NvidiaLibrary{}; }; }, [&] { node.of.system.nvidia = sound; });
}

TEST_F(JuwelsFault, DriverAndLibraryOfDifferentVersions) {
  const auto sound = node.of.system.nvidia;
  expect_fault(
      node, "devices-nvidia-mismatch", "the driver in the kernel is 550.54.15",
      [&] { node.of.system.nvidia = [] { return NvidiaLibrary{.is_loaded = true, .status = 18}; }; },
      [&] { node.of.system.nvidia = sound; });
}

TEST_F(JuwelsFault, ALibraryThatDoesNotStart) {
  const auto sound = node.of.system.nvidia;
  expect_fault(
      node, "devices-nvidia-fails", "nvmlInit returns 999",
      [&] { node.of.system.nvidia = [] { return NvidiaLibrary{.is_loaded = true, .status = 999}; }; },
      [&] { node.of.system.nvidia = sound; });
}

TEST_F(JuwelsFault, ADeviceOffTheBus) {
  const auto sound = node.of.system.nvidia;
  expect_fault(
      node, "devices-nvidia-lost", "lists 4 NVIDIA devices, its library counts 3",
      [&] { node.of.system.nvidia = [] { return NvidiaLibrary{.is_loaded = true, .status = 0, .devices = 3}; }; },
      [&] { node.of.system.nvidia = sound; });
}

TEST(WorkstationFault, NoComputeDriverForAmdDevices) {
  FakeNode node;
  node.amd_gpus(2);
  const auto saved = node.path("/sys/class/saved");
  expect_fault(
      node, "devices-amd-no-driver", "2 AMD devices",
      [&] { std::filesystem::rename(node.path("/sys/class/kfd"), saved); },
      [&] { std::filesystem::rename(saved, node.path("/sys/class/kfd")); });
}

TEST_F(LumiFault, NoDeviceFilesForAmd) {
  expect_fault(
      node, "devices-amd-no-files", "/dev/kfd is not there", [&] { node.remove("/dev/kfd"); },
      [&] { node.write("/dev/kfd", ""); });
  expect_fault(
      node, "devices-amd-no-files", "/dev/dri/renderD130", [&] { node.remove("/dev/dri/renderD130"); },
      [&] { node.write("/dev/dri/renderD130", ""); });
}

TEST_F(LumiFault, DevicesThatSlurmGaveAndNobodySees) {
  const auto saved = node.path("/sys/class/saved");
  expect_fault(
      node, "devices-missing", "gave the job 8 devices",
      [&] { std::filesystem::rename(node.path("/sys/class/kfd"), saved); },
      [&] { std::filesystem::rename(saved, node.path("/sys/class/kfd")); });
}

TEST_F(LumiFault, HipListCountedWithinRocrs) {
  expect_fault(
      node, "devices-hidden", "ROCR_VISIBLE_DEVICES='3' and HIP_VISIBLE_DEVICES='3'",
      [&] {
        node.set("ROCR_VISIBLE_DEVICES", "3");
        node.set("HIP_VISIBLE_DEVICES", "3");
      },
      [&] { node.unset("HIP_VISIBLE_DEVICES"); });
}

TEST_F(JuwelsFault, AnEmptyListOfDevices) {
  expect_fault(
      node, "devices-hidden", "CUDA_VISIBLE_DEVICES=''", [&] { node.set("CUDA_VISIBLE_DEVICES", ""); },
      [&] { node.unset("CUDA_VISIBLE_DEVICES"); });
}

TEST_F(LumiFault, MemoryThatSomebodyLeft) {
  const std::string used = "/sys/bus/pci/devices/0000:c3:00.0/mem_info_vram_used";
  expect_fault(
      node, "devices-memory-taken", "0000:c3:00.0 has 30.0 GiB", [&] { node.write(used, "32212254720\n"); },
      [&] { node.write(used, "10485760\n"); });
}

struct TorchFault : LumiFault {
  TorchFault() {
    node.set("VIRTUAL_ENV", "/env");
    version("2.7.1+rocm6.3", "None", "'6.3.42131'");
    library("6.3");
  }
  void version(const std::string& torch, const std::string& cuda, const std::string& hip) const {
    node.write("/env/lib/python3.12/site-packages/torch/version.py",
               "__version__ = '" + torch + "'\ncuda: Optional[str] = " + cuda + "\nhip: Optional[str] = " + hip + "\n");
  }
  void library(const std::string&) const {
    node.write("/env/lib/python3.12/site-packages/torch/lib/libc10.so",
               testing::elf_stub({.needed = {"libstdc++.so.6"}, .requires_ = {"GLIBCXX_3.4.21", "GLIBCXX_3.4.30"}}));
    node.write("/env/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so",
               testing::elf_stub({.needed = {"libc.so.6"}, .requires_ = {"GLIBC_2.2.5", "GLIBC_2.28"}}));
    node.write("/usr/lib64/libstdc++.so.6", testing::elf_stub({.provides = {"GLIBCXX_3.4.9", "GLIBCXX_3.4.32"}}));
    node.write("/usr/lib64/libc.so.6", testing::elf_stub({.provides = {"GLIBC_2.4", "GLIBC_2.31"}}));
  }
};

TEST_F(TorchFault, APyTorchForTheCpu) {
  expect_fault(
      node, "devices-wrong-torch", "is made for the CPU only", [&] { version("2.11.0+cpu", "None", "None"); },
      [&] { version("2.7.1+rocm6.3", "None", "'6.3.42131'"); });
}

TEST_F(TorchFault, APyTorchForTheOtherMaker) {
  expect_fault(
      node, "devices-wrong-torch", "8 AMD devices, but PyTorch 2.11.0 in", [&] { version("2.11.0", "'12.8'", "None"); },
      [&] { version("2.7.1+rocm6.3", "None", "'6.3.42131'"); });
}

TEST_F(TorchFault, APyTorchWithoutKernelsForThisArchitecture) {
  node.amd_gpus(8, 90006);
  expect_fault(
      node, "devices-architecture-dropped", "gfx906", [&] { version("2.11.0", "None", "'7.1.25424'"); },
      [&] { version("2.7.1+rocm6.3", "None", "'6.3.42131'"); });
}

TEST_F(JuwelsFault, ADriverTooOldForPyTorch) {
  node.set("VIRTUAL_ENV", "/env");
  const std::string file = "/env/lib/python3.12/site-packages/torch/version.py";
  expect_fault(
      node, "devices-driver-too-old", "CUDA 13.0, which needs driver 580",
      [&] { node.write(file, "__version__ = '2.11.0'\ncuda: Optional[str] = '13.0'\n"); },
      [&] { node.write(file, "__version__ = '2.11.0'\ncuda: Optional[str] = '12.6'\n"); });
}

TEST_F(TorchFault, AnOldLibstdcxxFirst) {
  node.write("/opt/gcc-8/lib64/libstdc++.so.6", testing::elf_stub({.provides = {"GLIBCXX_3.4.25"}}));
  expect_fault(
      node, "library-libstdcxx-old", "with GLIBCXX_3.4.25, PyTorch in",
      [&] { node.set("LD_LIBRARY_PATH", "/opt/gcc-8/lib64:/opt/plugin/lib:/opt/cray/libfabric/lib64"); },
      [&] { node.set("LD_LIBRARY_PATH", "/opt/plugin/lib:/opt/cray/libfabric/lib64"); });
}

TEST_F(TorchFault, AGlibcThatIsTooOld) {
  expect_fault(
      node, "library-glibc-old", "this system has glibc 2.17",
      [&] {
        node.write("/usr/lib64/libc.so.6", testing::elf_stub({.provides = {"GLIBC_2.4", "GLIBC_2.17"}}));
      },
      [&] { node.write("/usr/lib64/libc.so.6", testing::elf_stub({.provides = {"GLIBC_2.35"}})); });
}

TEST_F(LumiFault, NoPlugin) {
  expect_fault(
      node, "library-plugin-missing", "this node has Slingshot",
      [&] { node.set("LD_LIBRARY_PATH", "/opt/cray/libfabric/lib64"); },
      [&] { node.set("LD_LIBRARY_PATH", "/opt/plugin/lib:/opt/cray/libfabric/lib64"); });
}

TEST_F(LumiFault, APluginWhoseLibrariesAreNotBound) {
  expect_fault(
      node, "library-plugin-broken", "needs libcxi.so.1", [&] { node.remove("/usr/lib64/libcxi.so.1"); },
      [&] { node.write("/usr/lib64/libcxi.so.1", testing::elf_stub({.needed = {"libc.so.6"}})); });
}

TEST_F(LumiFault, AnEnvironmentsLibfabricFirst) {
  node.write("/env/lib/libfabric.so.1", testing::elf_stub({.needed = {"libc.so.6"}}));
  expect_fault(
      node, "library-libfabric-wrong", "/env/lib/libfabric.so.1', which has no provider 'cxi'",
      [&] { node.set("LD_LIBRARY_PATH", "/env/lib:/opt/plugin/lib:/opt/cray/libfabric/lib64"); },
      [&] { node.set("LD_LIBRARY_PATH", "/opt/plugin/lib:/opt/cray/libfabric/lib64:/env/lib"); });
}

TEST_F(LumiFault, TwoRccls) {
  const auto before = *node.of.env.get("LD_LIBRARY_PATH");
  node.write("/opt/rocm-6.0/lib/librccl.so.1", "one");
  node.write("/env/lib/librccl.so.1", "another");
  expect_fault(
      node, "library-two-collectives", "has 2 of librccl.so.1",
      [&] { node.set("LD_LIBRARY_PATH", before + ":/opt/rocm-6.0/lib:/env/lib"); },
      [&] { node.set("LD_LIBRARY_PATH", before + ":/opt/rocm-6.0/lib"); });
}

}  // namespace
}  // namespace lockstep
