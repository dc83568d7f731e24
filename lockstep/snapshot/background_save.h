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
/// It keeps one copy of all shared tensors from save to save, since fresh pages cost far more than the copy. A save
/// into a HeldSnapshot has two copies there, and none here but of a device's tensors. Those come on a stream of their
/// own while the device computes.
class BackgroundSave {
 public:
  explicit BackgroundSave(std::filesystem::path snapshots);
  /// Saves into this memory, and not to disk. SaveEnd::written stays empty.
  BackgroundSave(std::filesystem::path snapshots, FileDescriptor memory);
  /// Waits for the save in flight.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Prepares the memory for such a content, so that the first save finds it, and checks that the disk has room.
  /// Throws: Error(kIo) as require_room(); Error(kEnvironment) as HeldSnapshot::reserve().
  void prepare(const SnapshotContent& content);

  /// Begins a save. The end of the one before it must have been taken. The tensors that `content` shares must not
  /// change until wait_for_copy() has returned. Blocks: until memory is ready, if prepare() was called just before.
  void begin(SnapshotContent content, const WriteOptions& options);

  /// Blocks: until nothing that is shared is read any more. Costs one atomic read if that is so already.
  void wait_for_copy();

  /// Returns how the last save ended, once for each save. Nothing while it is in flight, or if its end was taken
  /// already.
  std::optional<SaveEnd> ended();
  /// Does the same, and waits for the save in flight.
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
