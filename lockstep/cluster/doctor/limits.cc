// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/limits.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/container.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/telemetry/network_watch.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

// The default limits of Linux. With lower ones, programs of ordinary size fail.
constexpr std::uint64_t kOpenFiles = 1024;
constexpr std::uint64_t kFilesForEachRank = 4;  // Gloo, the store and NCCL's bootstrap keep connections to all ranks.
constexpr std::uint64_t kStack = 8 * kMiB;
constexpr std::uint64_t kThreadsOfTask = 256;  // NCCL, OpenMP, autograd and the loader's workers together.
constexpr std::uint64_t kLocked = 4 * kGiB;    // Buffers that the network adapter reads by itself.
constexpr std::uint64_t kShared = kGiB;
constexpr std::uint64_t kSharedForTask = 64 * kMiB;

std::string shown(std::uint64_t value, bool is_bytes) {
  if (value == kUnlimited) return "unlimited";
  return is_bytes ? human_bytes(value) : std::to_string(value);
}

/// Returns the way to raise a limit, such as "ulimit -n 65536". If the hard limit is too low, it says whom to ask.
std::string raise(const std::string& flag, const ResourceLimit& limit, std::uint64_t wanted, std::uint64_t unit) {
  const std::string value = wanted == kUnlimited ? "unlimited" : std::to_string(wanted / unit);
  if (limit.hard >= wanted) return "before the program: ulimit -" + flag + " " + value;
  return "the hard limit is too low as well: ask the support, or start with srun --propagate=NONE, as srun takes the "
         "login node's limits along; then ulimit -" +
         flag + " " + value;
}

void check_files(const DoctorContext& of, Findings& findings) {
  const auto& limit = of.system.limits.open_files;
  const auto wanted = std::max(kOpenFiles, kFilesForEachRank * static_cast<std::uint64_t>(of.at.world));
  if (limit.soft >= wanted) return;
  findings.warning("limit-open-files",
                   "a process may open " + shown(limit.soft, false) + " files, want " + std::to_string(wanted) +
                       " for a data loader's workers and the connections to " + std::to_string(of.at.world) + " ranks",
                   raise("n", limit, wanted, 1));
}

void check_locked(const DoctorContext& of, Findings& findings) {
  const auto fast = fast_network(Environment{}, of.root);
  const auto& limit = of.system.limits.locked_bytes;
  if (!fast || !of.spans_nodes() || limit.soft >= kLocked) return;
  findings.error("limit-locked-memory",
                 "a process may lock " + shown(limit.soft, true) + " of memory, want no limit: the adapters of " +
                     *fast + " cannot be given buffers",
                 raise("l", limit, kUnlimited, 1024));
}

void check_others(const DoctorContext& of, Findings& findings) {
  const auto& limits = of.system.limits;
  if (limits.stack_bytes.soft < kStack) {
    findings.warning("limit-stack",
                     "the stack may grow to " + shown(limits.stack_bytes.soft, true) + ", want " + human_bytes(kStack) +
                         ": deep recursion ends in a segmentation fault",
                     raise("s", limits.stack_bytes, kStack, 1024));
  }
  const auto wanted = kThreadsOfTask * static_cast<std::uint64_t>(of.at.local_world);
  if (limits.processes.soft < wanted) {
    findings.warning("limit-processes",
                     "this user may have " + shown(limits.processes.soft, false) + " threads and processes, want " +
                         std::to_string(wanted) + " for " + std::to_string(of.at.local_world) + " ranks on a node",
                     raise("u", limits.processes, wanted, 1));
  }
  if (limits.address_bytes.soft != kUnlimited && !usable_gpus(of).empty()) {
    findings.warning("limit-address-space",
                     "a process may map " + shown(limits.address_bytes.soft, true) +
                         ", want no limit: the device's runtime maps all memory of host and devices at its start",
                     raise("v", limits.address_bytes, kUnlimited, 1024));
  }
}

void check_shared_memory(const DoctorContext& of, Findings& findings) {
  const auto shm = of.at_root("/dev/shm");
  const auto room = room_at(shm);
  if (nearest_there(shm) != shm || !room) {
    findings.error("shm-missing", "/dev/shm is not there: NCCL and a data loader's workers cannot share memory",
                   is_in_container(of) ? "bind it into the container: --bind /dev/shm" : "tell the support");
    return;
  }
  const auto needed = kSharedForTask * static_cast<std::uint64_t>(of.at.local_world);
  if (room->total_bytes < kShared) {
    findings.warning("shm-small",
                     "/dev/shm holds " + human_bytes(room->total_bytes) + ", want " + human_bytes(kShared) +
                         " or more: a data loader's worker ends with a bus error where it is full",
                     is_in_container(of) ? "start Docker or Podman with --shm-size=8g, or bind the node's /dev/shm"
                                         : "ask the support to mount it larger");
  } else if (room->free_bytes < needed) {
    findings.warning("shm-full",
                     "/dev/shm has " + human_bytes(room->free_bytes) + " free of " + human_bytes(room->total_bytes) +
                         ", want " + human_bytes(needed) + " for " + std::to_string(of.at.local_world) + " ranks",
                     "remove what ended programs left there: ls -l /dev/shm; rm /dev/shm/nccl-* /dev/shm/torch_*");
  }
}

}  // namespace

void check_process_limits(const DoctorContext& of, Findings& findings) {
  check_files(of, findings);
  check_locked(of, findings);
  check_others(of, findings);
  check_shared_memory(of, findings);
}

}  // namespace lockstep
