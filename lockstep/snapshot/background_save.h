// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/device/host_fetch.h"
#include "lockstep/format/snapshot/held_snapshot.h"
#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

/// The result of a save.
struct SaveEnd {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  WrittenSnapshot written;   ///< If it was written.
  std::exception_ptr error;  ///< Why it was not.
  double waited_s = 0;       ///< How long wait_for_copy() waited for it, in seconds.
};

/// Saves snapshots while training continues. A thread copies the tensors that are shared with the model, then writes
/// and syncs the copy. One save is in flight at a time. Threads: the training thread makes all calls.
///
/// A BackgroundSave keeps one copy of all shared tensors from save to save, since fresh pages cost far more than the
/// copy. A save into a HeldSnapshot has its two copies there. Then this object keeps copies of a device's tensors only.
/// These are copied on a stream of their own while the device computes.
class BackgroundSave {
 public:
  explicit BackgroundSave(std::filesystem::path snapshots);
  /// Makes an object that saves into this memory instead of to disk. SaveEnd::written stays empty.
  BackgroundSave(std::filesystem::path snapshots, FileDescriptor memory);
  /// Waits for the end of a save that has begun.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Prepares the memory for copies of this content, so that the first save finds it ready, and checks that the disk
  /// has room.
  /// Throws: Error(kIo) as require_room(); Error(kEnvironment) as HeldSnapshot::reserve().
  void prepare(const SnapshotContent& content);

  /// Begins a save. The end of the one before it must have been taken. The tensors that `content` shares must not
  /// change until wait_for_copy() has returned. Blocks: until memory is ready, if prepare() was called just before.
  void begin(SnapshotContent content, const WriteOptions& options);

  /// Returns once the save does not read shared tensors any more. If it has copied them already, the call costs one
  /// atomic read.
  void wait_for_copy();

  /// Returns the result of the last save, once for each save. Returns nothing while the save runs, or if its result was
  /// returned before.
  std::optional<SaveEnd> ended();
  /// Waits for the save in flight, and returns its result as ended() does.
  std::optional<SaveEnd> wait();

 private:
  struct Job {
    SnapshotContent content;
    WriteOptions options;
    bool is_rehearsal = false;  ///< Only makes memory ready.
  };

  void run();
  void work(Job& job);
  void copy(Job& job);
  void start(Job job);

  const std::filesystem::path snapshots_;
  std::optional<HeldSnapshot> memory_;
  std::vector<at::Tensor> copies_;  ///< The thread's alone.
  std::optional<HostFetch> fetch_;  ///< Made by the first save that shares a device's tensors.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;      ///< Handed to the thread, and not ended yet.
  std::optional<SaveEnd> end_;  ///< Of the last save, until it is taken.
  std::atomic<bool> is_copying_ = false;
  bool is_over_ = false;
  double waited_s_ = 0;
  std::thread thread_;
};

}  // namespace lockstep
