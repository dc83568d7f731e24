// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "lockstep/base/log.h"
#include "lockstep/device/device.h"
#include "lockstep/observe/events.h"

namespace lockstep {

struct StepTraceOptions {
  std::int64_t first = 1;      ///< The first step to record, counted from 1 over the whole run as in events.
  std::int64_t last = 1;       ///< Recorded, too.
  std::filesystem::path file;  ///< "….pt.trace.json", which TensorBoard looks for. Its folder is created.
  RankDevice device{};         ///< Its kernels and copies are recorded as well.
  /// Waits for the device before the trace ends. Set it to Group::await_device(), which also notices a lost peer. If it
  /// is empty, the trace waits by itself.
  std::function<void()> await_device{};
};

/// Records every operation of some steps with LibTorch's profiler (Kineto), on the calling rank. It writes a Chrome
/// trace, for Perfetto, chrome://tracing and TensorBoard's profiler plugin. In the trace each step is one
/// "ProfilerStep#N", as in torch.profiler, and includes the reading of the step's batch. Steps that are not recorded
/// cost nothing.
///
/// If the file cannot be written, that is a warning and the training continues. A resumed run that begins after the
/// last of these steps records nothing. Threads: as Listener.
class ProfilerTrace final : public Listener {
 public:
  ProfilerTrace(StepTraceOptions options, Log log);
  ~ProfilerTrace() override;
  ProfilerTrace(const ProfilerTrace&) = delete;
  ProfilerTrace& operator=(const ProfilerTrace&) = delete;

  std::string name() const override { return "trace"; }
  Verdict on(const RunStarted& event) override;
  Verdict on(const StepEnded& event) override;
  Verdict on(const RunEnded& event) override;

 private:
  class Recording;

  void begin(std::int64_t step);
  void end();

  StepTraceOptions options_;
  Log log_;
  std::unique_ptr<Recording> recording_;  ///< While it lasts.
};

}  // namespace lockstep
