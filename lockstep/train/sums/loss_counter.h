// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/comm/group.h"
#include "lockstep/train/sums/device_loss.h"

namespace lockstep {

/// A sum of losses over samples.
struct LossSum {
  double total = 0;
  std::int64_t samples = 0;
};

/// The two sums of losses that a training keeps: over the epoch, and since the last logged step.
struct LossSums {
  LossSum epoch;
  LossSum since_logged;
};

/// Counts this rank's training losses. Losses on a device stay there until the sums are read, so no step waits for
/// them.
class LossCounter {
 public:
  /// `group` must outlive this object.
  explicit LossCounter(Group& group);

  /// Adds the mean loss of `samples` samples in step `step`. Shape: mean []. Blocks: not if the loss is on a device.
  void add(const at::Tensor& mean, std::int64_t samples, std::int64_t step);
  /// Adds a sum of losses.
  void add_sum(const LossSum& sum);
  /// Counts samples whose losses a replayed step adds up on the device. A negative number takes samples back.
  void add_samples(std::int64_t samples);

  /// Sets the sums, for a resume.
  void restore(const LossSums& sums);
  /// Resets the sum of the epoch.
  void begin_epoch();
  /// Returns this rank's sums. Blocks: until the device has done all steps so far.
  const LossSums& sums();
  /// Returns the number of this rank's samples in the epoch's sum. It does not wait for the device.
  std::int64_t epoch_samples() const { return sums_.epoch.samples; }

  /// Returns the mean over the epoch's samples of all ranks. Collective: yes. Blocks: as sums().
  double epoch_mean();
  /// Returns the mean over all ranks' samples since the last call, as the log of step `step`.
  /// Collective: yes. Blocks: as sums().
  double take_logged_mean(std::int64_t step);

  /// Checks a sum or mean of all ranks' losses. Collective: yes, if it is not finite.
  /// Throws: Error(kRecipe) if it is not finite; it names the first loss that was not, and its step.
  void require_finite(double loss, std::int64_t step, std::int64_t epoch);

 private:
  /// The first loss that was not finite. The step is the one that made it, or the first step at which the host learned
  /// of it.
  struct LostLoss {
    std::int64_t step = 0;
    double loss = 0;
  };

  void note(double loss, std::int64_t step);
  void settle();
  void set_device();
  double mean_over_ranks(const LossSum& sum) const;

  Group& group_;
  std::optional<DeviceLoss> on_device_;
  LossSums sums_;           ///< On a device, totals are behind until settle().
  bool is_behind_ = false;  ///< True if the device was given losses since settle().
  std::optional<LostLoss> lost_;
};

}  // namespace lockstep
