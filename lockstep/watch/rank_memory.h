// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Memory of a rank that outlives its process.
///
/// The rank's parent makes the memory and holds it. If the process dies, the parent gives the same memory to the
/// process that it starts in the dead one's place. That process finds there the numbers that no other rank knows,
/// such as the dead rank's sums of losses.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"

namespace lockstep {

inline constexpr const char* kRankMemoryVariable = "LOCKSTEP_RANK_MEMORY";  ///< Names the memory's file.

/// The memory, as the parent uses it.
class SharedRankMemory {
 public:
  /// Throws: Error(kEnvironment) if the system gives no memory.
  SharedRankMemory();

  /// Passes the memory on to the program that this process becomes. Call it in the child, before exec. Returns the
  /// value of the variable.
  std::string give() const;
  /// True if the rank has noted that it can be replaced.
  bool is_armed() const;

 private:
  FileDescriptor file_;
};

/// The memory, as the rank uses it. It has two slots, one for records of even steps and one for odd ones, so that the
/// record of a step stays while that of the next one is written.
///
/// Threads: one at a time.
class RankMemory {
 public:
  /// Returns the memory that the parent gave to this process. Null if it gave none.
  static std::unique_ptr<RankMemory> of_process(const Environment& env);

  /// Throws: Error(kEnvironment) if `file` is no memory of a rank.
  explicit RankMemory(FileDescriptor file);
  ~RankMemory();
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  /// Notes that the rank can be replaced from now on.
  void arm();
  /// Notes that the rank must not be replaced any more.
  void disarm();

  /// Makes room for the record of a step and returns it, to be filled and then committed. The record that was in this
  /// slot is gone.
  ///
  /// Throws: Error(kEnvironment) if there is not enough memory.
  std::span<std::byte> begin(std::int64_t step, std::size_t bytes);
  /// Marks the record of `step` as complete.
  void commit(std::int64_t step);
  /// Returns the complete record of a step, valid until the next begin(). Nothing if there is none.
  std::optional<std::span<const std::byte>> find(std::int64_t step) const;

 private:
  void map(std::size_t bytes);
  void grow(std::size_t capacity);

  FileDescriptor file_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
