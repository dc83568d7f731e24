// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/profiler_trace.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

}  // namespace

/// LibTorch's profiler. It records from the construction of this object on.
class ProfilerTrace::Recording {
 public:
  explicit Recording(const RankDevice& device) {
    const ProfilerConfig config(ProfilerState::KINETO, /*report_input_shapes=*/true);
    std::set<ActivityType> activities = {ActivityType::CPU};
    if (!device.is_cpu()) {
      activities.insert(ActivityType::CUDA);  // HIP's, too.
    } else {
      // A profiler that was built for GPUs logs an error if there is no GPU. This log level hides it.
      ::setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
    }
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
  }
  ~Recording() {
    if (is_over_) return;
    try {
      stop();
    } catch (...) {  // The run ends with an error of its own, which tells more.
    }
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void mark(std::int64_t step) {
    step_.emplace(at::RecordScope::USER_SCOPE);
    step_->before("ProfilerStep#" + std::to_string(step));
  }

  void save(const fs::path& file) { stop()->save(file.string()); }

 private:
  std::unique_ptr<profiler::ProfilerResult> stop() {
    is_over_ = true;
    step_.reset();
    return profiler::disableProfiler();
  }

  std::optional<at::RecordFunction> step_;
  bool is_over_ = false;
};

ProfilerTrace::ProfilerTrace(StepTraceOptions options, Log log) : options_(std::move(options)), log_(std::move(log)) {}

ProfilerTrace::~ProfilerTrace() = default;

Verdict ProfilerTrace::on(const RunStarted& event) {
  const auto next = event.first_step + 1;
  if (next >= options_.first && next <= options_.last) begin(next);
  return Verdict::kContinue;
}

Verdict ProfilerTrace::on(const StepEnded& event) {
  if (!recording_) {
    if (event.step + 1 == options_.first) begin(options_.first);
  } else if (event.step >= options_.last) {
    end();
  } else {
    recording_->mark(event.step + 1);
  }
  return Verdict::kContinue;
}

Verdict ProfilerTrace::on(const RunEnded&) {
  if (recording_) end();
  return Verdict::kContinue;
}

void ProfilerTrace::begin(std::int64_t step) {
  recording_ = std::make_unique<Recording>(options_.device);
  recording_->mark(step);
}

void ProfilerTrace::end() {
  const auto recording = std::exchange(recording_, nullptr);
  const auto& device = options_.device;
  if (options_.await_device) {
    options_.await_device();
  } else if (!device.is_cpu()) {
    device.backend->synchronize(device.index());
  }
  std::error_code failure;
  fs::create_directories(options_.file.parent_path(), failure);
  recording->save(options_.file);
  // The profiler itself does not report a failed write.
  if (fs::file_size(options_.file, failure) == 0 || failure) {
    log_.warning("the trace " + options_.file.string() + " could not be written" +
                 (failure ? ": " + failure.message() : ""));
  } else {
    log_.info("trace of the steps from " + std::to_string(options_.first) + " to " + std::to_string(options_.last) +
              ": " + options_.file.string());
  }
}

}  // namespace lockstep
