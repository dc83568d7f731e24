// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The checks that a training makes on its own numbers, and what it does if one fails.
///
///     lockstep::TrainerOptions options;
///     options.guard.on_nonfinite = lockstep::OnNonfinite::kSkip;
///     options.guard.compare.every_steps = 100;

#include <cstdint>

namespace lockstep {

/// The reaction if a loss or gradient is not finite.
enum class OnNonfinite {
  kStop,  ///< It ends with an error that names rank, samples and operation. No weight takes such a gradient.
  kSkip,  ///< It leaves the step out on every rank, and nothing of it counts. On a device each step is waited for.
  /// Leaves the step out, and restores weights and optimizer state from the newest snapshot. The samples since that
  /// snapshot are not used again. If there is no snapshot, it does the same as kSkip.
  kRollback,
  kIgnore,  ///< Ignore it.
};

/// True if a step with such numbers is left out and the training continues.
inline bool leaves_out_steps(OnNonfinite reaction) {
  return reaction == OnNonfinite::kSkip || reaction == OnNonfinite::kRollback;
}

/// The reaction if ranks hold different state.
enum class OnDifference {
  kStop,  ///< It ends with an error on every rank.
  kHeal,  ///< All ranks take the state of the majority. Without a majority, as kStop.
};

struct ComparisonOptions {
  std::int64_t every_steps = -1;  ///< Steps between comparisons. 0 for never, -1 for at most 1 % of the time.
  OnDifference on_difference = OnDifference::kStop;
};

struct GuardOptions {
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  ComparisonOptions compare{};  ///< Compares weights and optimizer state between ranks, also before each snapshot.
  /// Validate one batch before the first step, and check that all monitored metrics will come. The batch's results are
  /// discarded, and no number of the training changes.
  bool sanity_check = true;
};

}  // namespace lockstep
