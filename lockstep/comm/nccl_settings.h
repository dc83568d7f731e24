// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/comm/group.h"

namespace lockstep {

/// A variable of the environment that NCCL, RCCL or LibTorch's ProcessGroupNCCL reads.
struct NcclSetting {
  const char* name;
  const char* value;
};

/// Returns the settings that every run makes before its ranks connect. With them a failure ends the run in seconds,
/// with Lockstep's exit code.
std::span<const NcclSetting> nccl_settings();

/// Returns the additional settings of a deterministic run, to set before its ranks connect.
std::span<const NcclSetting> deterministic_settings();

/// Sets those variables of this process that are unset. The user's own values stay. A value that torchrun has set by
/// itself is replaced.
void set_where_unset(std::span<const NcclSetting> settings);

/// Checks that the devices' sums over the ranks of `group` give the same bits each time.
/// Throws: Error(kUsage) if the ranks have joined without deterministic_settings().
void require_deterministic_collectives(const Group& group);

}  // namespace lockstep
