// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "lockstep/base/cpu_set.h"
#include "lockstep/launch/topology.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::testing {

/// Makes the files in /sys and /proc from which cores and devices of a node are read.
class FakeMachine {
 public:
  /// Adds `cores` cores in `domains` NUMA domains of the same size. Each core has two threads, and the second one has
  /// the number core + cores.
  FakeMachine(int cores, int domains) : cores_(cores) {
    write("sys/devices/system/cpu/smt/active", "1\n");
    for (int core = 0; core < cores; ++core) {
      for (const int cpu : {core, core + cores}) {
        write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
              std::to_string(core) + "," + std::to_string(core + cores) + "\n");
      }
    }
    for (int domain = 0; domain < domains; ++domain) {
      write("sys/devices/system/node/node" + std::to_string(domain) + "/cpulist", domain_list(domain, domains) + "\n");
    }
    domains_ = domains;
  }

  void add_amd(unsigned bus, int domain) {
    const std::string properties =
        "cpu_cores_count 0\nsimd_count 440\nlocation_id " + std::to_string(bus << 8U) + "\ndomain 0\nunique_id 7\n";
    write("sys/class/kfd/kfd/topology/nodes/" + std::to_string(domains_ + gpus_) + "/properties", properties);
    add_near(bus, domain);
  }

  void add_nvidia(unsigned bus, int domain) {
    const std::string uuid = "GPU-0000000" + std::to_string(gpus_);
    write("proc/driver/nvidia/gpus/" + address(bus) + "/information", "Model: A100\nGPU UUID: \t " + uuid + "\n");
    add_near(bus, domain);
  }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const std::filesystem::path& root() const { return folder_.path(); }
  Topology topology() const { return Topology(folder_.path()); }

 private:
  static std::string address(unsigned bus) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0000:%02x:00.0", bus);
    return text.data();
  }
  std::string domain_list(int domain, int domains) const {
    const int size = cores_ / domains;
    const CpuSet first = cpus_of_list(std::to_string(domain * size) + "-" + std::to_string((domain + 1) * size - 1));
    CpuSet all = first;
    for (const int cpu : first) all.insert(cpu + cores_);
    return list_of(all);
  }
  void add_near(unsigned bus, int domain) {
    write("sys/bus/pci/devices/" + address(bus) + "/local_cpulist", domain_list(domain, domains_) + "\n");
    ++gpus_;
  }

  TemporaryFolder folder_{std::filesystem::exists("/dev/shm") ? "/dev/shm/"
                                                              : ::testing::TempDir()};  // Hundreds of files.
  int cores_ = 0;
  int domains_ = 0;
  int gpus_ = 0;
};

/// Adds the eight dies of four MI250X, with the domains and bus numbers that lstopo prints on a LUMI-G node.
inline void add_mi250x(FakeMachine& node) {
  for (int domain = 0; domain < 4; ++domain) {
    node.write("sys/class/kfd/kfd/topology/nodes/" + std::to_string(domain) + "/properties", "simd_count 0\n");
  }
  const std::array<std::pair<unsigned, int>, 8> dies = {
      {{0xc1, 3}, {0xc6, 3}, {0xc9, 1}, {0xce, 1}, {0xd1, 0}, {0xd6, 0}, {0xd9, 2}, {0xde, 2}}};
  for (const auto& [bus, domain] : dies) node.add_amd(bus, domain);
}

}  // namespace lockstep::testing
