// SPDX-License-Identifier: Apache-2.0
// How a save runs beside the training. There are two threads, the training's and the worker, and at most one job. The
// states of a job:
//
// - Copying. The worker copies each tensor that the content shares with the model. The training must not update them,
//   so it calls wait_for_copy() before the next update. In most steps the copy has ended by then.
// - Writing. The worker writes and syncs its own copies, while the training continues.
// - Ended. `end_` holds the result or the exception until the training takes it by ended() or wait().
//
// The mutex guards `job_`, `end_` and `is_over_`. `is_copying_` is also read without it, so that wait_for_copy() is
// free when nothing is copied. The worker alone touches `copies_`, and keeps them from save to save. A rehearsal runs
// the same path, but only touches the memory of the copies, so that the first save finds its pages.
//
// A failed save is not a failed training. Its exception travels in `end_`, and the caller decides. The destructor waits
// for a save in flight.
#include "lockstep/snapshot/background_save.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"

namespace lockstep {
namespace {

/// This thread blocks all signals, so that other threads handle them. A signal must not interrupt this thread's system
/// calls.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

std::array<std::vector<SavedTensor>*, 3> parts_of(SnapshotContent& content) {
  return {&content.model, &content.optimizer, &content.extensions};
}

/// Returns host memory for a copy of a tensor, with the tensor's memory layout. `own` is memory of an earlier save,
/// which is used again if it fits.
const at::Tensor& room_for(const at::Tensor& tensor, at::Tensor& own) {
  if (own.defined() && own.sizes() == tensor.sizes() && own.strides() == tensor.strides() &&
      own.scalar_type() == tensor.scalar_type()) {
    return own;
  }
  return own = at::empty_strided(tensor.sizes(), tensor.strides(),
                                 tensor.options().device(at::kCPU).requires_grad(false));
}

/// Returns the device on which shared tensors of a save are, if there are any on a device.
std::optional<c10::Device> device_of(SnapshotContent& content) {
  for (auto* part : parts_of(content)) {
    for (const auto& each : *part) {
      if (each.is_shared && !each.tensor.is_cpu()) return each.tensor.device();
    }
  }
  return std::nullopt;
}

/// Returns the same content with tensors on the device replaced by host memory of the same shapes.
SnapshotContent on_host(SnapshotContent content) {
  for (auto* part : parts_of(content)) {
    for (auto& each : *part) {
      if (!each.tensor.is_cpu()) each.tensor = at::empty(each.tensor.sizes(), each.tensor.options().device(at::kCPU));
    }
  }
  return content;
}

}  // namespace

BackgroundSave::BackgroundSave(std::filesystem::path snapshots)
    : snapshots_(std::move(snapshots)), thread_([this] { run(); }) {}

BackgroundSave::BackgroundSave(std::filesystem::path snapshots, FileDescriptor memory)
    : snapshots_(std::move(snapshots)), memory_(std::in_place, std::move(memory)), thread_([this] { run(); }) {}

BackgroundSave::~BackgroundSave() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundSave::prepare(const SnapshotContent& content) {
  wait();
  if (memory_) return memory_->reserve(snapshot_parts(on_host(content)), snapshots_);
  std::uint64_t bytes = 0;
  for (const auto* part : {&content.model, &content.optimizer, &content.extensions}) {
    for (const auto& each : *part) bytes += each.tensor.nbytes();
  }
  make_folder(snapshots_);
  require_room(snapshots_, bytes);
  start({.content = content, .options = {}, .is_rehearsal = true});
}

void BackgroundSave::begin(SnapshotContent content, const WriteOptions& options) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
  lock.unlock();
  LOCKSTEP_ASSERT(!end_);
  if (const auto device = device_of(content)) {
    if (!fetch_) fetch_.emplace(*device);
    fetch_->begin();
  }
  start({.content = std::move(content), .options = options});
}

void BackgroundSave::start(Job job) {
  {
    const std::lock_guard lock(mutex_);
    is_copying_ = !job.is_rehearsal;
    waited_s_ = 0;
    job_ = std::move(job);
  }
  changed_.notify_all();
}

void BackgroundSave::wait_for_copy() {
  if (!is_copying_.load(std::memory_order_acquire)) return;
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_copying_; });
  waited_s_ += seconds_between(start, Clock::now());
}

std::optional<SaveEnd> BackgroundSave::ended() {
  const std::lock_guard lock(mutex_);
  return job_ ? std::nullopt : std::exchange(end_, std::nullopt);
}

std::optional<SaveEnd> BackgroundSave::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !job_; });
  return std::exchange(end_, std::nullopt);
}

void BackgroundSave::run() {
  block_signals();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_ || is_over_; });
    if (!job_) return;
    auto job = std::move(*job_);
    lock.unlock();
    work(job);
    lock.lock();
  }
}

void BackgroundSave::work(Job& job) {
  SaveEnd end{.step = job.content.state.step, .epoch = job.content.state.epoch, .written = {}, .error = {}};
  try {
    if (!memory_ || fetch_) copy(job);
    if (memory_) memory_->hold(snapshot_parts(job.content), snapshots_);
  } catch (...) {
    end.error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    is_copying_ = false;
  }
  changed_.notify_all();
  try {
    if (!job.is_rehearsal && !end.error && !memory_) end.written = write_snapshot(snapshots_, job.content, job.options);
  } catch (...) {
    end.error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    end.waited_s = waited_s_;
    if (!job.is_rehearsal) end_ = std::move(end);
    job_.reset();
  }
  changed_.notify_all();
}

/// Replaces the content's shared tensors by copies. It copies by memcpy() in this thread, since all of LibTorch's
/// threads would take cores from the training.
void BackgroundSave::copy(Job& job) {
  std::size_t index = 0;
  std::vector<HostCopy> from_device;
  std::vector<std::pair<SavedTensor*, at::Tensor>> copied;
  for (auto* part : parts_of(job.content)) {
    for (auto& each : *part) {
      if (!each.is_shared) continue;
      if (index == copies_.size()) copies_.emplace_back();
      const auto& own = room_for(each.tensor, copies_[index++]);
      if (job.is_rehearsal) {
        std::memset(own.mutable_data_ptr(), 0, own.nbytes());
        continue;
      }
      if (each.tensor.is_cpu()) {
        std::memcpy(own.mutable_data_ptr(), each.tensor.const_data_ptr(), each.tensor.nbytes());
      } else {
        from_device.push_back({each.tensor, own.mutable_data_ptr()});
      }
      copied.emplace_back(&each, own);
    }
  }
  if (!from_device.empty()) fetch_->fetch(from_device);
  // Weights in channels-last layout are saved in the order of their dimensions.
  for (auto& [saved, own] : copied) *saved = {.name = std::move(saved->name), .tensor = own.contiguous()};
}

}  // namespace lockstep
