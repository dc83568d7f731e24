// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/format/safetensors.h"

namespace lockstep {

/// The parts of a snapshot before they have a form. The bytes of its tensors lie elsewhere.
struct SnapshotParts {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, std::vector<TensorEntry>>> tensors;  ///< By file.
  std::vector<std::pair<std::string, std::string>> texts;                 ///< By file.
};

/// The newest state of a training, in memory that its parent process shares and that outlives it.
///
/// The parent makes the memory and hands the descriptor on. The training puts its state there after each step. Two
/// places take turns, and a place counts only once all of it is written, so a training that dies while it writes leaves
/// the state before. The kernel frees the memory once both processes have ended.
///
/// Layout, in the machine's byte order, since both processes are on one machine: a header (`HeldHeader`), then the
/// places. A place begins with an index as JSON: the step, the folder of the snapshots, and for each tensor and text
/// its file and where its bytes lie. A place that is too small for a state gets new room at the end. The old is freed.
///
/// Threads: one at a time.
class HeldSnapshot {
 public:
  /// Makes empty memory, closed in programs that this process becomes.
  ///
  /// Throws: Error(kEnvironment) if the system refuses.
  static FileDescriptor make_memory();

  /// Maps the memory at its present size. The reader comes when the writer has ended.
  ///
  /// Throws: Error(kEnvironment) if `memory` cannot be mapped.
  explicit HeldSnapshot(FileDescriptor memory);
  ~HeldSnapshot();
  HeldSnapshot(const HeldSnapshot&) = delete;
  HeldSnapshot& operator=(const HeldSnapshot&) = delete;

  /// Makes room for two states of this size, so that later calls find their memory.
  ///
  /// Throws: Error(kEnvironment) with the bytes wanted, if the system cannot give that memory.
  void reserve(const SnapshotParts& parts, const std::filesystem::path& snapshots);

  /// Copies a state into the older place. write_to_disk() will write it to `snapshots`.
  ///
  /// Throws: Error(kEnvironment) as reserve(); the state held before stays.
  void hold(const SnapshotParts& parts, const std::filesystem::path& snapshots);

  /// A state that is held. Its tensors' bytes lie in the memory.
  struct Held {
    std::filesystem::path snapshots;
    SnapshotParts parts;
  };
  /// Returns the newest complete state. Nothing if none was ever held, or if the memory is not as described.
  std::optional<Held> newest() const;

 private:
  struct Plan;
  struct Place;
  struct Header;

  Header& header() const;
  void map();
  void make_room(Place& place, std::uint64_t bytes);
  std::optional<Held> read(const Place& place) const;

  FileDescriptor memory_;
  std::span<std::byte> bytes_;
};

/// Writes the state that a training has left as a snapshot, unless its folder has one of this step or a later one.
/// Returns its path.
///
/// Throws: Error(kIo).
std::optional<std::filesystem::path> write_to_disk(const HeldSnapshot::Held& held);

/// Writes a snapshot of these parts, as SnapshotWriter does. Returns its path and the number of bytes.
///
/// Blocks: until it is on disk. Throws: Error(kIo).
std::pair<std::filesystem::path, std::uint64_t> write_parts(const std::filesystem::path& snapshots,
                                                            const SnapshotParts& parts);

/// The variable that names the descriptor of the memory to a training.
inline constexpr const char* kHeldMemoryVariable = "LOCKSTEP_HELD_STATE";

}  // namespace lockstep
