// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/nccl_settings.h"

#include <array>
#include <cstdlib>

// Source: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp of PyTorch 2.11, whose constructors of ProcessGroupNCCL and
// HeartbeatMonitor read all that begins with TORCH_NCCL_.

namespace lockstep {
namespace {

constexpr auto kAlways = std::to_array<NcclSetting>({
    // Chooses how ProcessGroupNCCL answers a failure that it finds in the background. This way ends the communicators
    // and keeps the process. The loop then learns of it through CollectiveMaker::failure(), reports its ranks, and ends
    // with our exit code. The default ends the process on the spot.
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"},
    // A device that fails is noticed by the watchdog, too, whose thread would end the process by its own exception.
    {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
    // After a failure the watchdog asks the others to write a trace, by a key at the store's root. A store that
    // outlives the attempt (torchrun's) would pass that key to the next one.
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
    // It then waits four times as long for them to write it. By default that is 60 s, for which its destructor waits.
    {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "250"},
    // With the error swallowed as above the watchdog ends silently, and after 8 minutes without its heartbeat this
    // thread would abort a run that is well.
    {"TORCH_NCCL_ENABLE_MONITORING", "0"},
    // Ranks of a node exchange handles of their buffers while they record a graph, and wait for each other without a
    // limit. A rank that ran out of memory while recording never comes.
    {"NCCL_GRAPH_REGISTER", "0"},
});

constexpr auto kDeterministic = std::to_array<NcclSetting>({
    // cuBLAS gives the same bits each time only with a workspace of a fixed size, which it takes when it is first used.
    {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
    // NVSwitch adds in any order. ProcessGroupNCCL disables it if algorithms are deterministic when it is made. Here
    // they become so later, with the training.
    {"NCCL_ALGO", "^NVLS"},
});

}  // namespace

std::span<const NcclSetting> nccl_settings() { return kAlways; }

std::span<const NcclSetting> deterministic_settings() { return kDeterministic; }

void set_where_unset(std::span<const NcclSetting> settings) {
  for (const auto& each : settings) ::setenv(each.name, each.value, /*overwrite=*/0);
}

}  // namespace lockstep
