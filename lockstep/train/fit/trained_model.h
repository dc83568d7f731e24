// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/data_parallel.h"
#include "lockstep/device/streams.h"
#include "lockstep/train/fit/trainer_options.h"
#include "lockstep/train/module.h"
#include "lockstep/train/optim/device_update.h"
#include "lockstep/train/optim/schedule.h"
#include "lockstep/train/precision.h"

namespace lockstep {

/// The signals that this rank sends along with a step's gradients.
struct StepSignals {
  bool stop = false;
  bool snapshot = false;
};

/// A module with its optimizer, schedule, loss scaler, and the averaging of gradients.
class TrainedModel {
 public:
  /// Moves the module to the group's device, then makes its optimizer and schedule. The arguments must outlive this
  /// object.
  /// Throws: Error(kRecipe) for a precision that the device does not have.
  TrainedModel(Module& module, Group& group, const StepOptions& options, const TrainingPlan& plan);

  /// Begins to average gradients. Weights and buffers become those of rank 0.
  /// Collective: yes. Throws: as DistributedDataParallel; Error(kRecipe) for powersgd with fp16.
  void connect(DataParallelOptions options);
  /// Starts averaging again with the same buckets, after a backward pass that was interrupted. Signals that were raised
  /// since the last step stay raised. Collective: yes.
  void reconnect();
  /// Frees the buckets. From here on no gradient is averaged.
  void disconnect() { parallel_.reset(); }

  /// Sets learning rates for the step after `step`.
  void prepare_step(std::int64_t step, std::int64_t epoch);
  /// Raises signals, which are sent with the next averaged gradients.
  void raise(const StepSignals& signals);
  /// Clips gradients, updates the weights, and clears the gradients. With a loss scaler, gradients that overflowed
  /// change nothing. Blocks: with a loss scaler on a CPU, until the gradients are known.
  void update();
  /// Makes update() skip gradients that are not finite. A loss scaler does so itself, so this then changes nothing. If
  /// `waits`, each update waits until the device has checked the gradients. So the update of any optimizer can be
  /// skipped.
  void leave_out_nonfinite(bool waits);
  /// True if update() skipped the last gradients since they are not finite. On a device, without `waits`, this is about
  /// the update before the last one, and the host does not wait for the last. Call it once after each update.
  bool was_left_out(bool waits);
  /// True if was_left_out() without `waits` is about the update before the last one.
  bool tells_late() const { return found_.defined() && !found_.is_cpu(); }
  /// Sets a function that is called before each update. It must return only when nobody else reads the weights.
  void wait_before_update(std::function<void()> wait) { wait_before_update_ = std::move(wait); }
  /// Calls the function set by wait_before_update(). A recorded step does not call update(), so call this before a
  /// recording and before each replay.
  void wait_for_readers() const {
    if (wait_before_update_) wait_before_update_();
  }

  Module& module() const { return module_; }
  Group& group() const { return group_; }
  torch::optim::Optimizer& optimizer() const { return *optimizer_; }
  Scheduler& scheduler() const { return *scheduler_; }
  /// Returns the loss scaler. Null unless the precision is fp16.
  LossScaler* scaler() const { return scaler_.get(); }
  DistributedDataParallel& parallel() const { return *parallel_; }
  /// Returns the optimizer if its update runs on the device alone, else null.
  DeviceUpdate* device_update() const { return device_update_; }
  /// Returns the parameters that are trained. A tied weight is listed once.
  const std::vector<at::Tensor>& weights() const { return weights_; }

 private:
  Module& module_;
  Group& group_;
  const StepOptions& options_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  DeviceUpdate* device_update_ = nullptr;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<at::Tensor> weights_;
  std::unique_ptr<LossScaler> scaler_;
  std::unique_ptr<DistributedDataParallel> parallel_;
  void apply(const std::vector<at::Tensor>& gradients);
  bool is_refused(const std::vector<at::Tensor>& gradients);

  StepSignals raised_;
  enum class Watch { kNone, kLate, kAtOnce };
  Watch watch_ = Watch::kNone;  ///< Of gradients that are not finite.
  bool was_refused_ = false;    ///< On a CPU.
  at::Tensor found_;            ///< On a device, [1] float, 1 if they were not finite. A recorded step writes it, too.
  Readback readback_;
  std::function<void()> wait_before_update_;
};

}  // namespace lockstep
