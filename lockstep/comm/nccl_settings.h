// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

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

/// Sets those variables of this process that are unset. The user's own values stay.
void set_where_unset(std::span<const NcclSetting> settings);

}  // namespace lockstep
