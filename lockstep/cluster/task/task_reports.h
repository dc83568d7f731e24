// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/watch/verdict.h"

namespace lockstep {

/// A task, as its parent has reported it.
struct ReportedRank {
  RankSight sight{};
  nlohmann::json view = nullptr;  ///< The task as seen from outside, or null.
};

/// The files by which the parents of a job's tasks report ranks to each other: `RUN/watch/rank-NNNN.json`.
///
/// Threads: one at a time.
class TaskReports {
 public:
  using Time = std::chrono::system_clock::time_point;

  explicit TaskReports(const std::filesystem::path& run_dir) : folder_(run_dir / "watch") {}

  /// Writes the report of a rank, in place of an earlier one. Throws: Error(kIo) if it cannot be written.
  void tell(const RankSight& rank, const nlohmann::json& view, Time now) const;

  /// Removes the report of a rank, if there is one.
  void take_back(int rank) const;

  /// Returns the reports since a time, by rank, as of `now`. A reported rank has not changed since its report, so its
  /// age grows until `now`. A file is only read again if it has changed.
  std::vector<ReportedRank> since(Time since, Time now);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Known {
    std::filesystem::file_time_type changed{};
    std::uintmax_t bytes = 0;  ///< Shows a change that the time does not, on file systems that count in seconds.
    std::optional<ReportedRank> report{};
    double time = 0;
  };

  Known read(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
  std::map<std::string, Known> known_{};  ///< By file name.
};

}  // namespace lockstep
