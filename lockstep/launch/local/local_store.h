// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"
#include "lockstep/base/log.h"
#include "lockstep/store/secret.h"
#include "lockstep/store/server.h"

namespace lockstep {

/// The store of one local run. The supervisor serves it, since that process outlives the ranks.
///
/// The secret of the store is a file in `.meeting/` of the run folder, or in the cache folder if there is no run
/// folder. The destructor removes the file.
class LocalStore {
 public:
  /// Chooses where the secret will be, and creates nothing. A program other than Lockstep's may never use the store,
  /// and then binds `port` itself.
  LocalStore(const std::filesystem::path& run_dir, int port, const Environment& env);
  ~LocalStore();
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  /// Creates the secret. If the cache folder cannot be written, the ranks run without one, and `bound` stays for rank
  /// 0.
  ///
  /// Throws: as SecretFile::create(), if there is a run folder.
  void prepare(FileDescriptor& bound, const Log& log);

  /// Starts the server's thread, if prepare() took the socket. Call it after the ranks are forked.
  void serve();

  /// True if the server runs.
  bool is_served() const { return server_ != nullptr; }
  /// Begins the next generation of the run, and returns its number. Ranks then end their connections, and meet again.
  ///
  /// Throws: Error(kPeer) if the server does not answer.
  std::uint32_t next_generation();

  /// Adds the variables by which the ranks find the store.
  void describe(Environment::Map& variables) const;

 private:
  StoreIdentity identity() const;

  SecretFile file_;
  int port_;
  bool has_run_dir_;
  bool has_secret_ = true;  ///< False if it could not be made.
  FileDescriptor bound_;
  std::optional<Secret> secret_;
  std::unique_ptr<StoreServer> server_;
};

}  // namespace lockstep
