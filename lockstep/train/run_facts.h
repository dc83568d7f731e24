// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/train/precision.h"

namespace lockstep {

/// Returns what a run's numbers depend on beside its recipe: device, driver, PyTorch, threads, host, launcher.
/// `device` is that of the weights. RunStarted carries them into the run folder.
std::map<std::string, std::string> run_facts(const Group& group, c10::Device device, Precision precision);

/// Returns the most memory that the run has held on its device. Nothing for a CPU.
std::optional<std::int64_t> peak_bytes(const RankDevice& device);

}  // namespace lockstep
