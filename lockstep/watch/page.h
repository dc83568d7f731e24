// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The page of a rank: 4 KiB of memory in which it notes what it is doing. Its parent reads it (page_reader.h).
///
/// A note is a few stores and a coarse clock that the kernel keeps in memory. It takes no lock and makes no system
/// call. docs/formats/page.md has the layout.
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

/// Returns CLOCK_MONOTONIC in nanoseconds, as it was at the kernel's last tick. A call costs a few nanoseconds.
std::uint64_t coarse_ns();

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr const char* kPageVariable = "LOCKSTEP_PAGE";  ///< Names the page's file.

/// The layout. All numbers have the byte order of the machine, which reader and writer share.
struct PageLayout {
  static constexpr std::uint64_t kMagic = 0x00324547'41504c4b;       // "KLPAGE2" as bytes, and a zero.
  static constexpr std::uint64_t kFirstMagic = 0x00314547'41504c4b;  // Version 1 ends before `detail`.
  static constexpr std::size_t kMostFrames = 64;

  std::atomic<std::uint64_t> magic;
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> rank;
  std::atomic<std::uint64_t> changes;  ///< Grows with each note.
  std::atomic<std::uint32_t> phase;
  std::atomic<std::uint32_t>
      told_by;  ///< 1 + the rank whose error this rank throws. 0 if it throws none of another rank.
  std::atomic<std::int64_t> step;
  std::atomic<std::int64_t> first_sample;                   ///< Id of the first sample of the newest batch, or -1.
  std::atomic<std::int64_t> samples;                        ///< Number of samples of that batch.
  std::array<std::atomic<std::uint64_t>, kPhases> entered;  ///< How often each phase was entered.

  // The numbers of the newest collective that was begun.
  std::atomic<std::uint64_t> collective_lock;  ///< Odd while the next three are written.
  std::atomic<std::uint64_t> begun;            ///< The collectives begun so far.
  std::atomic<std::int64_t> elements;
  std::array<std::atomic<char>, 32> collective;  ///< "all_reduce Float", and a zero.
  std::array<std::atomic<char>, 48> detail;      ///< "bucket 3" or a shape, "[64, 10]", and a zero. Under the lock too.

  // Nanoseconds of CLOCK_MONOTONIC, exact to some milliseconds.
  std::atomic<std::uint64_t> noted_ns;                       ///< When the newest note was made.
  std::array<std::atomic<std::uint64_t>, kPhases> spent_ns;  ///< In each phase, without the present one.
  std::atomic<std::uint64_t> entered_ns;                     ///< When the present phase was entered.

  std::atomic<std::int64_t> loading_sample;  ///< Id of the sample that the rank waits for while it loads, or -1.

  // The stack of the training thread, written when the parent asks for it by a signal.
  std::atomic<std::int32_t> stack_signal;  ///< 0 if this process handles no such signal.
  std::atomic<std::int32_t> thread;        ///< Id of the training thread.
  std::atomic<std::uint64_t> stack_lock;   ///< Odd while the next two are written.
  std::atomic<std::uint64_t> frame_count;
  std::array<std::atomic<std::uint64_t>, kMostFrames> frames;  ///< Addresses in the process, innermost first.
  std::atomic<std::int32_t> text_descriptor;  ///< A file to which the handler writes a stack as text, or 0.
  std::uint32_t unused_too;

  /// The path of the run folder, and a zero. Empty if the rank has none. Written once. Its first letter is written
  /// last.
  std::array<std::atomic<char>, 1024> run_dir;
};
static_assert(sizeof(PageLayout) <= kPageBytes && std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(offsetof(PageLayout, entered) == 56 && offsetof(PageLayout, collective) == 144);
static_assert(offsetof(PageLayout, detail) == 176 && offsetof(PageLayout, noted_ns) == 224);
static_assert(offsetof(PageLayout, loading_sample) == 304 && offsetof(PageLayout, stack_signal) == 312);
static_assert(offsetof(PageLayout, frames) == 336 && offsetof(PageLayout, text_descriptor) == 848);
static_assert(offsetof(PageLayout, run_dir) == 856 && sizeof(PageLayout) == 1880);

/// The rank's side, which writes the page.
class Page {
 public:
  /// Returns this process's page. The page is the file that LOCKSTEP_PAGE names, or memory that no other process sees.
  static Page& own();

  /// Writes into `memory` of kPageBytes, which must outlive the page and be aligned as PageLayout is.
  explicit Page(void* memory);

  void set_rank(int rank);
  /// Writes the path of the run folder, for a parent that does not know it. A path that is too long is left out.
  void set_run_dir(std::string_view folder);
  void enter(Phase phase, std::int64_t step);
  /// Enters a phase at the step that was noted last.
  void enter(Phase phase);
  /// Enters kForward with a batch of these samples.
  void begin_batch(std::int64_t step, std::span<const std::int64_t> samples);
  /// Notes that the error which this rank is about to throw is rank `rank`'s, so that nobody takes this rank for its
  /// cause. The next batch clears the note, since the program has gone on then.
  void note_error_of(int rank);
  /// Notes that the rank waits until this sample is loaded. -1 if it waits for no sample.
  void wait_for_sample(std::int64_t id);
  /// Notes that a collective begins. `type` is the elements' type, and empty for a collective without elements.
  /// `detail` distinguishes it from others of the same size, such as "bucket 3" or "[64, 10]".
  void begin_collective(std::string_view operation, std::string_view type, std::int64_t elements,
                        std::string_view detail = {});

  /// Returns how often this phase was entered. When it changes, the numbers of buckets start again from 0.
  std::uint64_t times_entered(Phase phase) const {
    return layout_.entered[static_cast<std::size_t>(phase)].load(std::memory_order_relaxed);
  }
  Phase phase() const { return static_cast<Phase>(layout_.phase.load(std::memory_order_relaxed)); }

  /// Turns notes off and on again, so that a benchmark can measure what they cost.
  void set_on(bool is_on) { is_on_.store(is_on, std::memory_order_relaxed); }
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  /// Counts collectives from 0 again. Call it when all ranks have connected again.
  void restart_collectives();

  const PageLayout& layout() const { return layout_; }
  /// The memory of the page, for the code that writes stacks.
  PageLayout& layout() { return layout_; }

 private:
  void note_change();

  PageLayout& layout_;
  std::atomic<bool> is_on_ = true;
};

}  // namespace lockstep
