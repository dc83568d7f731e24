// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"

namespace lockstep {

/// Returns `count` bytes from the system's random source.
///
/// Throws: Error(kEnvironment) if the system gives none.
std::string random_bytes(std::size_t count);

/// The 32 random bytes that all ranks of a run share and nobody else knows. They never go to a log, a command line or
/// the environment.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  Secret() = default;
  static Secret make();
  /// Returns nullopt if `bytes` are not exactly kBytes.
  static std::optional<Secret> from(std::string_view bytes);

  std::string_view bytes() const { return bytes_; }
  bool operator==(const Secret&) const = default;

 private:
  std::string bytes_ = std::string(kBytes, '\0');
};

/// Returns the folder for a run's secret, `.meeting` in the run folder. Without a run folder it is `meeting/START` in
/// the cache folder. The path is absolute, and all nodes must see the folder. The folder is not created here.
std::filesystem::path secret_folder(const std::filesystem::path& run_dir, const std::string& start,
                                    const Environment& env);

/// The file `secret` in a folder that only this user may enter. The folder has mode 0700, the file 0600.
///
/// The process that starts the run creates it, and the ranks read it. If there is a secret already, from a killed run
/// or another start of the same run, it is used, since it is as good as a new one.
class SecretFile {
 public:
  explicit SecretFile(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }

  /// Creates folder and file if they are missing, and returns the secret.
  ///
  /// Throws: Error(kIo) if the folder or the file cannot be written; Error(kEnvironment) as read() does.
  Secret create();

  /// Returns the secret. Nullopt if there is none yet.
  ///
  /// Throws: Error(kEnvironment) if somebody else owns folder or file, or may read them; Error(kIo) if the file cannot
  ///         be read, or does not hold a secret.
  std::optional<Secret> read() const;

  /// Removes the file, and the folders that create() made if they are empty. Does nothing if this object has not called
  /// create(), or if another process that did still lives.
  void remove();

 private:
  std::filesystem::path path_;
  FileDescriptor held_;                                ///< Locked as shared, so that remove() sees other users.
  std::vector<std::filesystem::path> made_folders_{};  ///< Innermost first.
};

}  // namespace lockstep
