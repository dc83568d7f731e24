// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/device_watch.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "lockstep/base/clock.h"

namespace lockstep {

struct DeviceWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_asked = false;  // From the question to its answer.
  bool is_over = false;
  Clock::time_point asked_at{};
  std::vector<DeviceSample> answer{};

  void serve(const MakeSensor& make) {
    const auto sensor = make();
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return is_asked || is_over; });
      if (is_over) return;
      lock.unlock();
      auto samples = sensor ? sensor->sample() : std::vector<DeviceSample>();
      lock.lock();
      answer = std::move(samples);
      is_asked = false;
      changed.notify_all();
    }
  }
};

DeviceWatch::DeviceWatch(std::chrono::milliseconds patience, MakeSensor make)
    : patience_(patience), shared_(std::make_shared<Shared>()) {
  std::thread([shared = shared_, make = std::move(make)] { shared->serve(make); }).detach();
}

DeviceWatch::~DeviceWatch() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->is_over = true;
  shared_->changed.notify_all();
}

std::vector<DeviceSample> DeviceWatch::sample() {
  std::unique_lock lock(shared_->mutex);
  if (shared_->is_asked) return {};
  shared_->is_asked = true;
  shared_->asked_at = Clock::now();
  shared_->changed.notify_all();
  if (!shared_->changed.wait_for(lock, patience_, [this] { return !shared_->is_asked; })) return {};
  return std::move(shared_->answer);
}

double DeviceWatch::silent_s() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->is_asked ? std::chrono::duration<double>(Clock::now() - shared_->asked_at).count() : 0;
}

}  // namespace lockstep
