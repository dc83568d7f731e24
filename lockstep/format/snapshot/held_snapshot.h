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

/// The parts of a snapshot, before they are written in any format. The tensors' bytes stay where they are.
struct SnapshotParts {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, std::vector<TensorEntry>>> tensors;  ///< By file.
  std::vector<std::pair<std::string, std::string>> texts;                 ///< By file.
};

/// The newest state of a training, in memory that its parent process shares and that outlives it.
///
/// The parent makes the memory and passes the descriptor to the training. The training copies its state there after
/// each step. Two places take turns, and a place counts only once all of it is written, so a training that dies while
/// it writes leaves the state before. The kernel frees the memory once both processes have ended.
///
/// Layout, in the machine's byte order, since both processes are on one machine: a header (`HeldHeader`), then the
/// places. A place begins with an index as JSON: the step, the folder of the snapshots, and for each tensor and text
/// its file and where its bytes lie. If a place is too small for a state, it gets new memory at the end, and its old
/// memory is freed.
///
/// Threads: one at a time.
class HeldSnapshot {
 public:
  /// Makes empty memory. Its descriptor is closed if this process becomes another program.
  ///
  /// Throws: Error(kEnvironment) if the system refuses.
  static FileDescriptor make_memory();

  /// Maps the memory at its present size. A reader calls this after the writer has ended.
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

  /// Copies a state into the older place. `snapshots` is the folder to which write_to_disk() writes it later.
  ///
  /// Throws: Error(kEnvironment) as reserve(). The state that was held before stays.
  void hold(const SnapshotParts& parts, const std::filesystem::path& snapshots);

  /// A state that the memory holds. The tensors' bytes are views of the memory.
  struct Held {
    std::filesystem::path snapshots;
    SnapshotParts parts;
  };
  /// Returns the newest complete state. Nothing if no state was held, or if the memory does not have the layout above.
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

/// Writes the state that a training has left to disk as a snapshot, unless its folder has a snapshot of this step or a
/// later one. Returns the path of the snapshot.
///
/// Throws: Error(kIo).
std::optional<std::filesystem::path> write_to_disk(const HeldSnapshot::Held& held);

/// Writes these parts as a snapshot, with a SnapshotWriter. Returns its path and the number of bytes.
///
/// Blocks: until the snapshot is on disk. Throws: Error(kIo) if it cannot be written.
std::pair<std::filesystem::path, std::uint64_t> write_parts(const std::filesystem::path& snapshots,
                                                            const SnapshotParts& parts);

/// The environment variable in which the training finds the number of the memory's descriptor.
inline constexpr const char* kHeldMemoryVariable = "LOCKSTEP_HELD_STATE";

}  // namespace lockstep
