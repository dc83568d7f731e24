// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Returns the folder for rendezvous files, which all nodes must see. It is `.meeting` in the run folder if there is
/// one, or else in $LOCKSTEP_RUNS, or else in `runs`. The path is absolute. Creates nothing.
std::filesystem::path rendezvous_folder(const std::filesystem::path& run_dir, const Environment& env);

/// A file that tells the other ranks of a job where rank 0 listens, as "ADDRESS PORT".
///
/// Rank 0 publishes it, and the others read it. Rank 0, or a process that outlives it, removes it with the folders that
/// were made for it. A run that was killed leaves its file behind, so a reader must expect that nobody listens there.
class RendezvousFile {
 public:
  RendezvousFile(const std::filesystem::path& folder, std::string key);

  /// Returns the file of ranks that join a process group. Its name contains launcher, job and restart count.
  ///
  /// Throws: Error(kEnvironment) if the placement has no job to name the file after.
  static RendezvousFile for_ranks(const Placement& at, const std::filesystem::path& folder);

  /// The file of the tasks that start any program, "exec-…". Job ids start again when a cluster is set up again, so the
  /// name also has srun's port, except in a heterogeneous step, each part of which has its own.
  ///
  /// Throws: Error(kEnvironment) if the placement has no job to name the file after.
  static RendezvousFile for_program(const Placement& at, const Environment& env, const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }

  /// Writes the file, and makes its folder.
  ///
  /// Throws: Error(kIo) if that cannot be done.
  void publish(const Endpoint& master);

  /// Returns the content of the file. nullopt if it does not exist or does not parse.
  std::optional<Endpoint> read() const;

  /// Removes the file if this object, or the one that it was copied from, has published it. Then removes its folder if
  /// that is empty, and the parents that publish() made if they are empty.
  void remove() const;

 private:
  std::filesystem::path path_;
  bool is_published_ = false;
  std::vector<std::filesystem::path> made_parents_;  ///< Innermost first.
};

/// Removes a rendezvous file at the end of its scope. The file must outlive it.
class RendezvousFileRemover {
 public:
  explicit RendezvousFileRemover(const RendezvousFile& file) : file_(file) {}
  ~RendezvousFileRemover() { file_.remove(); }
  RendezvousFileRemover(const RendezvousFileRemover&) = delete;
  RendezvousFileRemover& operator=(const RendezvousFileRemover&) = delete;

 private:
  const RendezvousFile& file_;
};

}  // namespace lockstep
