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
/// one, or else in $LOCKSTEP_RUNS, or else in `runs`. The path is absolute. The folder is not created here.
std::filesystem::path rendezvous_folder(const std::filesystem::path& run_dir, const Environment& env);

/// A file that tells the other ranks of a job where rank 0 listens, as "ADDRESS PORT".
///
/// Rank 0 publishes it, and the others read it. Rank 0, or a process that outlives rank 0, removes the file and the
/// folders that were made for it. A run that was killed leaves its file behind, so a reader must expect that nobody
/// listens at the address.
class RendezvousFile {
 public:
  RendezvousFile(const std::filesystem::path& folder, std::string key);

  /// Returns the file of ranks that join a process group. Its name contains launcher, job and restart count.
  ///
  /// Throws: Error(kEnvironment) if the placement has no job to name the file after.
  static RendezvousFile for_ranks(const Placement& at, const std::filesystem::path& folder);

  /// Returns the file for tasks that `lockstep exec` starts, "exec-…". Its name has the job's id. Job ids start again
  /// when a cluster is set up again, so the name also has srun's port. In a heterogeneous step each part has another
  /// port, so the name leaves it out.
  ///
  /// Throws: Error(kEnvironment) if the placement has no job to name the file after.
  static RendezvousFile for_program(const Placement& at, const Environment& env, const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }

  /// Writes the file, and makes its folder.
  ///
  /// Throws: Error(kIo) if the file or the folder cannot be written.
  void publish(const Endpoint& master);

  /// Returns the content of the file. nullopt if it does not exist or does not parse.
  std::optional<Endpoint> read() const;

  /// Removes the file if this object, or the one that it was copied from, has published it. Then removes the file's
  /// folder, and the parents that publish() made, each if it is empty.
  void remove() const;

 private:
  std::filesystem::path path_;
  bool is_published_ = false;
  std::vector<std::filesystem::path> made_parents_;  ///< Innermost first.
};

/// Removes a rendezvous file at the end of a scope. The RendezvousFile must outlive this object.
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
