// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/nccl_settings.h"

#include <array>
#include <cstdlib>

// Source: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp of PyTorch 2.11, whose constructors of ProcessGroupNCCL and
// HeartbeatMonitor read all that begins with TORCH_NCCL_.

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
    // Ranks of a node exchange handles of their buffers while they record a graph, and wait for each other without a
    // limit. A rank that ran out of memory while recording never comes.
    {"NCCL_GRAPH_REGISTER", "0"},
});

constexpr auto kDeterministic = std::to_array<NcclSetting>({
    // cuBLAS gives the same bits each time only with a workspace of a fixed size. It reads the size at its first use.
    {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
    // Reductions in an NVSwitch add in any order. ProcessGroupNCCL turns them off if deterministic algorithms are set
    // when it is made. Here they are set only later, when the training starts.
    {"NCCL_ALGO", "^NVLS"},
});

}  // namespace

std::span<const NcclSetting> nccl_settings() { return kAlways; }

std::span<const NcclSetting> deterministic_settings() { return kDeterministic; }

void set_where_unset(std::span<const NcclSetting> settings) {
  for (const auto& each : settings) ::setenv(each.name, each.value, /*overwrite=*/0);
}

}  // namespace lockstep
