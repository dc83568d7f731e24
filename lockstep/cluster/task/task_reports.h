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

/// A task as its parent has told of it.
struct ReportedRank {
  RankSight sight{};
  nlohmann::json view = nullptr;  ///< What was seen from outside. Null if nothing was.
};

/// The files through which the parents of a job's tasks tell each other of ranks: `RUN/watch/rank-NNNN.json`.
///
/// Threads: one at a time.
class TaskReports {
 public:
  using Time = std::chrono::system_clock::time_point;

  explicit TaskReports(std::filesystem::path run_dir) : folder_(std::move(run_dir) / "watch") {}

  /// Tells of a rank. A report of it from before is replaced. Throws: Error(kIo).
  void tell(const RankSight& rank, const nlohmann::json& view, Time now) const;

  /// Takes the report of a rank back, if there is one.
  void take_back(int rank) const;

  /// Returns the reports since a time, by rank, as of `now`. A rank of which is told has not changed since then, so its
  /// age grows. A file is only read again when it has changed.
  std::vector<ReportedRank> since(Time since, Time now);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Known {
    std::filesystem::file_time_type changed{};
    std::uintmax_t bytes = 0;  ///< Some file systems count time in seconds.
    std::optional<ReportedRank> report{};
    double time = 0;
  };

  Known read(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
  std::map<std::string, Known> known_{};  ///< By the file's name.
};

}  // namespace lockstep
