// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The page of a rank: 4 KiB of memory in which it notes what it is doing. Its parent reads it (page_reader.h).
///
/// A note is a few stores. It takes no lock and makes no system call, and no clock is read. The reader finds out by its
/// own clock how long nothing has changed. docs/formats/page.md has the layout.
///
/// Threads: each note belongs to one thread at a time. Phases are the training thread's. Collectives are noted by the
/// thread that begins them, which need not be the same.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {

/// The work of a rank. Numbers are part of the layout.
enum class Phase : std::uint32_t {
  kStarting = 0,    ///< Also waits for the first batch of an epoch, which may take much longer than others.
  kLoading = 1,     ///< Waits for the loader's batch.
  kForward = 2,     ///< Computes a batch's loss.
  kBackward = 3,    ///< Computes gradients and waits until all ranks have averaged them.
  kUpdate = 4,      ///< The optimizer's step, and what follows until the next batch is asked for.
  kValidation = 5,  ///< One batch of it, or what else ends an epoch.
  kSaving = 6,      ///< Prepares a snapshot, or waits for one.
  kEnding = 7,
};
inline constexpr std::size_t kPhases = 8;

std::string_view name_of(Phase phase);

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr const char* kPageVariable = "LOCKSTEP_PAGE";  ///< Names the page's file.

/// The layout. All numbers have the byte order of the machine, which reader and writer share.
struct PageLayout {
  static constexpr std::uint64_t kMagic = 0x00314547'41504c4b;  // "KLPAGE1" as bytes, and a zero.

  std::atomic<std::uint64_t> magic;
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> rank;
  std::atomic<std::uint64_t> changes;  ///< Grows with each note.
  std::atomic<std::uint32_t> phase;
  std::uint32_t unused;
  std::atomic<std::int64_t> step;
  std::atomic<std::int64_t> first_sample;                   ///< Id of the first sample of the newest batch, or -1.
  std::atomic<std::int64_t> samples;                        ///< Of that batch.
  std::array<std::atomic<std::uint64_t>, kPhases> entered;  ///< How often each phase was entered.

  // The numbers of the newest collective that was begun.
  std::atomic<std::uint64_t> collective_lock;  ///< Odd while the next three are written.
  std::atomic<std::uint64_t> begun;            ///< The collectives begun so far.
  std::atomic<std::int64_t> elements;
  std::array<std::atomic<char>, 32> collective;  ///< "all_reduce Float", and a zero.
};
static_assert(sizeof(PageLayout) <= kPageBytes && std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(offsetof(PageLayout, entered) == 56 && offsetof(PageLayout, collective) == 144);

/// The writing half.
class Page {
 public:
  /// Returns this process's page. The page is the file that LOCKSTEP_PAGE names, or memory that no other process sees.
  static Page& own();

  /// Writes into `memory` of kPageBytes, which must outlive the page and be aligned as PageLayout is.
  explicit Page(void* memory);

  void set_rank(int rank);
  void enter(Phase phase, std::int64_t step);
  /// Enters a phase at the step that was noted last.
  void enter(Phase phase);
  /// Enters kForward with a batch of these samples.
  void begin_batch(std::int64_t step, std::span<const std::int64_t> samples);
  /// Notes a collective that begins. `type` is the elements' type, and empty if the collective moves no elements.
  void begin_collective(std::string_view operation, std::string_view type, std::int64_t elements);

  const PageLayout& layout() const { return layout_; }

 private:
  void note_change() { layout_.changes.fetch_add(1, std::memory_order_release); }

  PageLayout& layout_;
};

}  // namespace lockstep
