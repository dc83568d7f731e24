// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"
#include "lockstep/cluster/profile/library.h"
#include "tests/support/elf_stub.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::testing {

/// A node made of files, with a task on it, for the checks of `doctor`. The node is healthy until a test breaks
/// something.
class FakeNode {
 public:
  explicit FakeNode(const std::string& profile = "generic") {
    of.profile = ProfileLibrary(Environment{}).named(profile);
    of.root = folder_.path();
    of.host = "n1";
    set("HOME", "/users/me");
    for (int cpu = 0; cpu < 7; ++cpu) of.system.allowed.insert(cpu);
    of.system.limits.open_files = {65536, 65536};
    of.system.interfaces = {{"lo", true, {"127.0.0.1"}}, {"eth0", true, {"10.0.0.1"}}};
    of.system.addresses_of = [](const std::string&) { return std::vector<std::string>{"10.0.0.1"}; };
    of.system.is_port_free = [](int) { return true; };
    of.system.nvidia = [] { return NvidiaLibrary{}; };
    of.system.device_health = [] { return std::vector<DeviceHealth>{}; };
    of.system.run = [](const std::vector<std::string>&) {
      return ProcessResult{.exit_code = 127, .output = {}, .errors = {}};
    };
    std::filesystem::create_directories(path("/dev/shm"));
    write("/proc/sys/kernel/osrelease", "5.14.21\n");
    write("/sys/devices/system/cpu/smt/active", "0\n");
    write("/proc/self/mountinfo",
          "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n21 20 0:5 / /tmp rw - tmpfs tmpfs rw\n"
          "22 20 0:6 / /scratch rw - lustre mds@tcp:/scratch rw\n23 20 0:7 / /users rw - nfs4 filer:/users rw\n");
  }

  std::filesystem::path path(const std::string& name) const { return of.at_root(name); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(path(name)); }

  void set(const std::string& name, const std::string& value) { set({{name, value}}); }
  void set(const Environment::Map& more) {
    auto all = of.env.all();
    for (const auto& [name, value] : more) all[name] = value;
    of.env = Environment(std::move(all));
  }
  void unset(const std::string& name) {
    auto all = of.env.all();
    all.erase(name);
    of.env = Environment(std::move(all));
  }

  /// Sets the variables of task 0 of a Slurm step.
  void slurm(int nodes, int tasks_each, int devices = 0) {
    const auto text = [](int number) { return std::to_string(number); };
    const std::string hosts = nodes == 1 ? "n1" : "n[1-" + text(nodes) + "]";
    const std::string each = text(tasks_each) + (nodes > 1 ? "(x" + text(nodes) + ")" : "");
    set({{"SLURM_JOB_ID", "4711"},
         {"SLURM_STEP_ID", "0"},
         {"SLURM_STEPID", "0"},
         {"SLURM_PROCID", "0"},
         {"SLURM_LOCALID", "0"},
         {"SLURM_NODEID", "0"},
         {"SLURM_NTASKS", text(nodes * tasks_each)},
         {"SLURM_STEP_NUM_TASKS", text(nodes * tasks_each)},
         {"SLURM_STEP_NUM_NODES", text(nodes)},
         {"SLURM_NNODES", text(nodes)},
         {"SLURM_JOB_NUM_NODES", text(nodes)},
         {"SLURM_STEP_NODELIST", hosts},
         {"SLURM_JOB_NODELIST", hosts},
         {"SLURM_STEP_TASKS_PER_NODE", each},
         {"SLURM_TASKS_PER_NODE", each},
         {"SLURM_CPUS_ON_NODE", "56"},
         {"SLURM_SRUN_COMM_PORT", "40001"}});
    if (devices > 0) set("SLURM_GPUS_ON_NODE", text(devices));
  }

  void amd_gpus(int count, int architecture = 90010) {
    write("/dev/kfd", "");
    for (int i = 0; i < count; ++i) {
      const std::string minor = std::to_string(128 + i);
      write("/sys/class/kfd/kfd/topology/nodes/" + std::to_string(i + 1) + "/properties",
            "simd_count 440\ndomain 0\nlocation_id " + std::to_string((0xc1 + i) << 8) + "\nunique_id " +
                std::to_string(1000 + i) + "\ndrm_render_minor " + minor + "\ngfx_target_version " +
                std::to_string(architecture) + "\n");
      for (int link = 0; link < count; ++link) set_link(i + 1, link, link == 0 ? 2 : 11);
      write("/dev/dri/renderD" + minor, "");
      write(pci(0xc1 + i) + "/vendor", "0x1002\n");
      write(pci(0xc1 + i) + "/class", "0x038000\n");
      write(pci(0xc1 + i) + "/local_cpulist", "0-55\n");
      write(pci(0xc1 + i) + "/mem_info_vram_used", "10485760\n");
      write(pci(0xc1 + i) + "/mem_info_vram_total", "68702699520\n");
    }
  }

  /// Adds a GPU's link as KFD lists it. Type 2 is PCI Express, to the processor, and type 11 is xGMI, to another GPU.
  void set_link(int gpu, int link, int type) {
    const auto gpus = "/sys/class/kfd/kfd/topology/nodes/" + std::to_string(gpu);
    write(gpus + "/io_links/" + std::to_string(link) + "/properties", "type " + std::to_string(type) + "\n");
  }

  void nvidia_gpus(int count) {
    write("/dev/nvidiactl", "");
    write("/proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n");
    for (int i = 0; i < count; ++i) {
      write("/dev/nvidia" + std::to_string(i), "");
      write("/proc/driver/nvidia/gpus/0000:" + std::string(1, static_cast<char>('3' + i)) + "1:00.0/information",
            "GPU UUID: \t GPU-8a1c000" + std::to_string(i) + "\nDevice Minor: \t " + std::to_string(i) + "\n");
      const std::string on_bus = pci(0x31 + 16 * i);
      write(on_bus + "/vendor", "0x10de\n");
      write(on_bus + "/class", "0x030200\n");
      write(on_bus + "/local_cpulist", "0-55\n");
    }
    of.system.nvidia = [count] { return NvidiaLibrary{.is_loaded = true, .status = 0, .devices = count}; };
  }

  /// Adds four Slingshot adapters, with the system's libfabric and the site's plugin in the loader's folders.
  void slingshot() {
    of.system.interfaces = {{"lo", true, {"127.0.0.1"}}};
    for (int i = 0; i < 4; ++i) {
      const auto number = std::to_string(i);
      of.system.interfaces.push_back({"hsn" + number, true, {"10.253.0." + std::to_string(i + 1)}});
      write("/sys/class/cxi/cxi" + number + "/device/vendor", "0x17db\n");
      write("/dev/cxi" + number, "");
    }
    of.system.addresses_of = [](const std::string&) { return std::vector<std::string>{"10.253.0.1"}; };
    write("/opt/plugin/lib/librccl-net.so", elf_stub({.needed = {"libfabric.so.1", "libc.so.6"}}));
    write("/opt/cray/libfabric/lib64/libfabric.so.1", elf_stub({.needed = {"libcxi.so.1", "libc.so.6"}}));
    write("/usr/lib64/libcxi.so.1", elf_stub({.needed = {"libc.so.6"}}));
    set("LD_LIBRARY_PATH", "/opt/plugin/lib:/opt/cray/libfabric/lib64");
  }

  void infiniband() {
    of.system.interfaces = {{"lo", true, {"127.0.0.1"}}, {"ib0", true, {"10.13.0.1"}}};
    of.system.addresses_of = [](const std::string&) { return std::vector<std::string>{"10.13.0.1"}; };
    for (const char* name : {"mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"}) {
      write(std::string("/sys/class/infiniband/") + name + "/ports/1/state", "4: ACTIVE\n");
    }
    std::filesystem::create_directories(path("/dev/infiniband"));
  }

  std::vector<Finding> findings() const { return findings_of(of); }

  DoctorContext of;

 private:
  static std::string pci(int bus) {
    constexpr const char* kDigits = "0123456789abcdef";
    return std::string("/sys/bus/pci/devices/0000:") + kDigits[bus / 16] + kDigits[bus % 16] + ":00.0";
  }

  Umask umask_{022};  // A node's own files can be read by all, whatever umask the tests were started with.
  TemporaryFolder folder_;
};

/// A task on two nodes of LUMI.
struct LumiNode : FakeNode {
  LumiNode() : FakeNode("lumi-g") {
    amd_gpus(8);
    slingshot();
    slurm(2, 8, 8);
  }
};

/// A task on two nodes of JUWELS Booster.
struct JuwelsNode : FakeNode {
  JuwelsNode() : FakeNode("juwels-booster") {
    nvidia_gpus(4);
    infiniband();
    slurm(2, 4, 4);
  }
};

inline const Finding* found(const std::vector<Finding>& findings, const std::string& code) {
  const auto it = std::ranges::find(findings, code, &Finding::code);
  return it == findings.end() ? nullptr : &*it;
}

inline std::string listed(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& each : findings)
    text += std::string(name_of(each.severity)) + " " + each.code + ": " + each.fact + "\n";
  return text;
}

}  // namespace lockstep::testing
