// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace lockstep {

/// A file of a node's caches, as far as a change of it shows.
struct CachedFile {
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;  ///< When it was last written.

  bool operator==(const CachedFile&) const = default;
};
using CachedFiles = std::map<std::string, CachedFile>;  ///< By name within the folder, "triton/ab/kernel.hsaco".

/// The caches of one node's tasks, `rank-N` folders and those that all share, in a folder of the node's own disk; and
/// the pack that later jobs start from: one stored zip file of this user's on a file system that all nodes see.
///
/// What compilers keep is found by what it was made of (architecture, version, source), so that one pack serves all
/// programs on a system. In the pack a task's own folder has the name `rank`: tasks do the same work.
class CachePack {
 public:
  CachePack(std::filesystem::path pack, std::filesystem::path folder)
      : pack_(std::move(pack)), folder_(std::move(folder)) {}

  /// Makes the folder, private, whole or not at all, with what the pack holds; whichever of the node's tasks comes
  /// first, while the others wait. A pack that is damaged is left out; `warn` is told.
  ///
  /// Blocks: for reading the pack, once a node.
  /// Throws: Error(kIo) where the folder cannot be made.
  void warm(const std::function<void(const std::string&)>& warn) const;

  /// Makes a task's own folder with what the pack held of one.
  ///
  /// Throws: as warm().
  void make_own(const std::filesystem::path& own) const;

  /// The time that warm() gave to all it unpacked, as CachedFile tells times: what is later was written on this node.
  std::int64_t warmed_ns() const;

  /// What the folder holds of local rank 0 and of all, links and databases that are being written left out.
  CachedFiles files() const;

  /// Puts these files into the pack, beside what it has and they do not. A reader sees the old pack or the new one.
  ///
  /// Returns: false where they are more than `kMostBytes`, or one of them changed meanwhile.
  /// Throws: Error(kIo); the old pack is then as it was.
  bool give_back(const CachedFiles& files) const;

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

 private:
  void unpack(const std::filesystem::path& to) const;

  std::filesystem::path pack_;
  std::filesystem::path folder_;
};

}  // namespace lockstep
