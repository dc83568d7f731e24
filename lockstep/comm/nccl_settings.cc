// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/nccl_settings.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include "lockstep/base/error.h"

// Source: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp of PyTorch 2.11, whose constructors of ProcessGroupNCCL and
// HeartbeatMonitor read all that begins with TORCH_NCCL_. parseList() in NCCL's src/graph/tuning.cc reads NCCL_ALGO.

namespace lockstep {
namespace {

constexpr auto kAlways = std::to_array<NcclSetting>({
    // Chooses how ProcessGroupNCCL answers a failure that it finds in the background. With this value it ends the
    // communicators and keeps the process. The training loop then learns of the failure through
    // CollectiveMaker::failure(), reports the ranks, and exits with Lockstep's exit code. By default ProcessGroupNCCL
    // ends the process on the spot.
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},
    // ProcessGroupNCCL's watchdog thread also notices a device that fails. By default its exception would end the
    // process.
    {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
    // After a failure the watchdog asks the others to write a trace, by a key at the store's root. A store that
    // outlives the attempt (torchrun's) would pass that key to the next one.
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
    // The watchdog then waits four times this timeout for the other ranks' traces. By default that is 60 s, and the
    // destructor of ProcessGroupNCCL waits for it.
    {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "250"},
    // With the settings above, the watchdog ends silently after an error. The monitor thread then misses the watchdog's
    // heartbeat, and after 8 minutes would abort a healthy run. So the monitor is turned off.
    {"TORCH_NCCL_ENABLE_MONITORING", "0"},
    // Even then the thread sleeps for this time once it misses the heartbeat, and the destructor of ProcessGroupNCCL
    // waits for it. With eleven days it still waits for its first look, and this wait ends at once. The time in
    // milliseconds must fit into an int.
    {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "1000000"},
    // Ranks of a node exchange handles of their buffers while they record a graph, and wait for each other without a
    // limit. A rank that ran out of memory while recording never comes.
    {"NCCL_GRAPH_REGISTER", "0"},
});

constexpr auto kDeterministic = std::to_array<NcclSetting>({
    // cuBLAS gives the same bits each time only with a workspace of a fixed size. It reads the size at its first use.
    {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
    // Reductions in an NVSwitch add in any order. ProcessGroupNCCL turns them off if deterministic algorithms are set
    // when it is made. Here they are set only later, when the training starts. NCCL compares whole names, so each of
    // the two algorithms is named.
    {"NCCL_ALGO", "^NVLS,NVLSTree"},
});

// torchrun gives this value to its workers if the user has set none. Its workers cannot tell it from the user's own.
// Source: torch/distributed/elastic/agent/server/local_elastic_agent.py of PyTorch 2.11.
bool is_from_torchrun(std::string_view name) {
  const char* value = std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  return name == "TORCH_NCCL_ASYNC_ERROR_HANDLING" && std::getenv("TORCHELASTIC_RUN_ID") != nullptr &&
         value != nullptr && std::string_view(value) == "1";
}

}  // namespace

std::span<const NcclSetting> nccl_settings() { return kAlways; }

std::span<const NcclSetting> deterministic_settings() { return kDeterministic; }

void set_where_unset(std::span<const NcclSetting> settings) {
  for (const auto& each : settings) ::setenv(each.name, each.value, is_from_torchrun(each.name) ? 1 : 0);
}

void require_deterministic_collectives(const Group& group) {
  const bool uses_nccl = group.world() > 1 && !group.device().is_cpu() && !group.shares_device();
  if (!uses_nccl || std::getenv("NCCL_ALGO") != nullptr) return;
  if (group.device().backend->runtime().kind == "ROCm") return;  // RCCL has no such sums.
  throw Error(ErrorKind::kUsage,
              "deterministic is set, but the ranks have joined without NCCL_ALGO, so an NVSwitch may add gradients in "
              "any order",
              "set NCCL_ALGO=^NVLS,NVLSTree before join(), or let Trainer::fit() join the ranks");
}

}  // namespace lockstep
