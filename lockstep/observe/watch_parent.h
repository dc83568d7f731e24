// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/observe/process_identity.h"

namespace lockstep {

/// The file `RUN/watch/parent`. While it is there, the process that it names answers `lockstep why` for all ranks. A
/// program that does not train through us has no lock of the run folder, so nothing else tells that it runs.
class WatchParent {
 public:
  /// Throws: Error(kIo) if the file cannot be written.
  WatchParent(const std::filesystem::path& run_dir, const ProcessIdentity& self);
  /// Removes the file.
  ~WatchParent();
  WatchParent(const WatchParent&) = delete;
  WatchParent& operator=(const WatchParent&) = delete;

 private:
  std::filesystem::path path_;
};

/// Returns the process that watches the ranks of a run. Nothing if there is none, or if `self` can tell that it is
/// dead.
std::optional<ProcessIdentity> living_watch_parent(const std::filesystem::path& run_dir, const ProcessIdentity& self);

}  // namespace lockstep
