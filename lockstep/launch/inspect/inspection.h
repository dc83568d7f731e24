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

/// A look at ranks from outside, in a process of its own.
///
/// To look takes seconds, and reading /proc of a process that the kernel holds up may hang. The parent of ranks must do
/// neither. So it starts this and asks each second whether it has ended. The process ends by itself after kLimit.
///
/// Threads: the new process goes on without exec, so no other thread may hold a lock that it needs. Those of malloc()
/// and of the dynamic loader are safe.
class Inspection {
 public:
  Inspection(std::vector<SeenRank> ranks, const Environment& env);

  /// Returns what was seen once the look has ended, or is over its limit: an object with a view of each rank under its
  /// number (rank_view.h), and `nccl`, what NCCL complains of, if it does. Nothing before that.
  std::optional<nlohmann::json> result();

  static constexpr std::chrono::seconds kLimit{8};

 private:
  void read_some();

  FileDescriptor pipe_;
  std::string text_{};
  Clock::time_point until_;
};

}  // namespace lockstep
