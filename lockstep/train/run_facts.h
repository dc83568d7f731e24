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

/// Returns what a run's numbers depend on beside its recipe: device, driver, PyTorch, threads, host, launcher. `device`
/// is the device of the weights. RunStarted brings these facts into the run folder.
std::map<std::string, std::string> run_facts(const Group& group, c10::Device device, Precision precision);

/// Returns the peak of the memory that the run has used on its device. Nothing for a CPU.
std::optional<std::int64_t> peak_bytes(const RankDevice& device);

}  // namespace lockstep
