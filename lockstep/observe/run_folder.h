// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The folder of one run, and where each thing lies in it. docs/run-folder.md describes the files. All are made with
/// the permissions that the umask leaves.
class RunFolder {
 public:
  /// Makes the folder with what is missing in it, and proves by a small file that it can be written. What is there
  /// already stays as it is.
  ///
  /// Throws: Error(kIo) with the path and the reason, where it cannot be made or written, or where the disk is full.
  static RunFolder create(const std::filesystem::path& path);

  /// A folder that a run has made.
  ///
  /// Throws: Error(kIo) where there is none, or where it holds no run.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path recipe() const { return path_ / "recipe.toml"; }
  std::filesystem::path layout() const { return path_ / "layout.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path snapshots() const { return path_ / "snapshots"; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  /// "logs/rank-0003.log".
  std::filesystem::path rank_log(std::int64_t rank) const;

  /// Keeps the object that `train --json` ends with, synced: from now on the run is finished.
  ///
  /// Throws: Error(kIo).
  void finish(std::string_view result_json) const;
  bool is_finished() const;
  /// What finish() kept, on one line, or nothing.
  ///
  /// Throws: Error(kData) where result.json is there and holds no JSON object.
  std::optional<std::string> result() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path result_path() const { return path_ / "result.json"; }

  std::filesystem::path path_;
};

/// "trace/rank-0003.pt.trace.json" in the run's folder, which another rank may have made.
std::filesystem::path rank_trace(const std::filesystem::path& run_dir, std::int64_t rank);

/// Where a run lies that was given no folder: `<recipe>-<job>` under $LOCKSTEP_RUNS, else under `runs`. A job's folder
/// is the same each time, so that a requeued job finds its run again. Creates nothing.
std::filesystem::path run_dir_of_job(std::string_view recipe, std::string_view job, const Environment& env);

/// The same outside a job: `<recipe>-<time>`, with "-2", "-3"… where that is taken.
std::filesystem::path run_dir_at(std::string_view recipe, std::chrono::system_clock::time_point now,
                                 const Environment& env);

/// The folder in which runs lie: $LOCKSTEP_RUNS, else `runs`.
std::filesystem::path runs_root(const Environment& env);

struct RunEntry {
  std::filesystem::path path;
  bool is_finished = false;
};

/// The runs in `root`, sorted by name. Empty where there is no such folder; what is no run is left out.
///
/// Throws: Error(kIo) where it cannot be read.
std::vector<RunEntry> listed_runs(const std::filesystem::path& root);

}  // namespace lockstep
