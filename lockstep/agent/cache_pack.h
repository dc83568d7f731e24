// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace lockstep {

/// A file in a node's caches: its name, size and time, by which a change is noticed.
struct CachedFile {
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;  ///< When it was last written.

  bool operator==(const CachedFile&) const = default;
};
using CachedFiles = std::map<std::string, CachedFile>;  ///< By name within the folder, "triton/ab/kernel.hsaco".

/// The caches of one node's tasks, and the pack that later jobs start from. The caches are `rank-N` folders and a
/// shared one, on the node's own disk. The pack is one uncompressed zip file of this user, on a file system that all
/// nodes see.
///
/// Compilers find cached code by its inputs (architecture, version, source), so one pack serves all programs on a
/// system. In the pack a task's own folder has the name `rank`, since tasks do the same work.
class CachePack {
 public:
  CachePack(std::filesystem::path pack, std::filesystem::path folder)
      : pack_(std::move(pack)), folder_(std::move(folder)) {}

  /// Creates the node's cache folder, which only this user can read, with the pack's content. The first of the node's
  /// tasks does it while the others wait. If the pack is damaged, the folder is empty, and `warn` gets a message.
  ///
  /// Blocks: for reading the pack, once a node.
  /// Throws: Error(kIo) if the folder cannot be created.
  void warm(const std::function<void(const std::string&)>& warn) const;

  /// Creates a task's own folder with the pack's content for one task.
  ///
  /// Throws: as warm().
  void make_own(const std::filesystem::path& own) const;

  /// The time that warm() gave to all unpacked files, in the unit of CachedFile. A later file was written on this node.
  std::int64_t warmed_ns() const;

  /// Returns the files of local rank 0 and the shared ones. Links, and databases that are being written, are left out.
  CachedFiles files() const;

  /// Adds these files to the pack. Files that are only in the pack stay there. A reader sees either the old pack or the
  /// new one.
  ///
  /// Returns false if the files have more than `kMostBytes`, or if one of them changed meanwhile. Throws: Error(kIo) if
  /// the pack cannot be written. The old pack is then unchanged.
  bool give_back(const CachedFiles& files) const;

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

 private:
  void unpack(const std::filesystem::path& to) const;

  std::filesystem::path pack_;
  std::filesystem::path folder_;
};

}  // namespace lockstep
