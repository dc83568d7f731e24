// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/inspect/rank_view.h"

namespace lockstep {

/// Inspects ranks from outside, in a process of its own.
///
/// An inspection takes seconds. It may even hang, if it reads /proc of a process that the kernel holds up. The parent
/// of ranks must not wait for it. So it starts this process, and asks each second whether it has ended. The process
/// ends by itself after kLimit.
///
/// Threads: the new process is forked and does not call exec. So no other thread may hold a lock that it needs. The
/// locks of malloc() and of the dynamic loader are safe.
class Inspection {
 public:
  Inspection(const std::vector<SeenRank>& ranks, const Environment& env);

  /// Returns nothing until the inspection has ended, or its time is over. Then it returns an object with a view of each
  /// rank (rank_view.h), by rank, and with `nccl`, NCCL's complaints, if there are any.
  std::optional<nlohmann::json> result();

  static constexpr std::chrono::seconds kLimit{8};

 private:
  void read_some();

  FileDescriptor pipe_;
  std::string text_{};
  Clock::time_point until_;
};

}  // namespace lockstep
