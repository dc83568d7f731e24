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

/// The folder of one run, and the path of each file in it. docs/formats/run-folder.md describes the files. All files
/// are created with the permissions that the umask allows.
class RunFolder {
 public:
  /// Creates the folder and its missing parts, and checks by a small file that it is writable. Existing files are
  /// unchanged.
  ///
  /// Throws: Error(kIo) with the path and the reason, if the folder cannot be created or written, or if the disk is
  ///         full.
  static RunFolder create(const std::filesystem::path& path);

  /// Opens an existing run folder.
  ///
  /// Throws: Error(kIo) if there is no such folder, or if it is not a run folder.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path recipe() const { return path_ / "recipe.toml"; }
  std::filesystem::path layout() const { return path_ / "layout.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path snapshots() const { return path_ / "snapshots"; }
  std::filesystem::path logs() const { return path_ / "logs"; }
  /// "logs/rank-0003.log".
  std::filesystem::path rank_log(std::int64_t rank) const;

  /// Writes result.json, the object that `train --json` prints at its end, and syncs it. From then on, the run counts
  /// as finished.
  ///
  /// Throws: Error(kIo).
  void finish(std::string_view result_json) const;
  bool is_finished() const;
  /// Returns the text that finish() wrote, on one line, or nothing.
  ///
  /// Throws: Error(kData) if result.json exists and does not hold a JSON object.
  std::optional<std::string> result() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path result_path() const { return path_ / "result.json"; }

  std::filesystem::path path_;
};

/// Returns a path such as "trace/rank-0003.pt.trace.json" in the run folder. Another rank may have made the folder.
std::filesystem::path rank_trace(const std::filesystem::path& run_dir, std::int64_t rank);

/// Returns the default folder of a run in a job: `<recipe>-<job>` under $LOCKSTEP_RUNS or else under `runs`. It is
/// always the same for one job, so a requeued job finds its run again. Nothing is created.
std::filesystem::path run_dir_of_job(std::string_view recipe, std::string_view job, const Environment& env);

/// Returns the default folder of a run outside a job: `<recipe>-<time>`, with "-2", "-3" and so on behind it if that
/// exists.
std::filesystem::path run_dir_at(std::string_view recipe, std::chrono::system_clock::time_point now,
                                 const Environment& env);

/// Returns the folder in which run folders are made: $LOCKSTEP_RUNS, or else `runs`.
std::filesystem::path runs_root(const Environment& env);

struct RunEntry {
  std::filesystem::path path;
  bool is_finished = false;
};

/// Returns the runs in `root`, sorted by name. Empty if there is no such folder. Folders that are not run folders are
/// left out.
///
/// Throws: Error(kIo) if the folder cannot be read.
std::vector<RunEntry> listed_runs(const std::filesystem::path& root);

}  // namespace lockstep
