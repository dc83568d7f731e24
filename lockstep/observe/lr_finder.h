// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/observe/events.h"

namespace lockstep {

struct RatePoint {
  double lr = 0;
  double loss = 0;
  double smoothed = 0;  ///< An exponential mean of the losses so far, its start corrected.
};

/// Watches a learning-rate range test. That is a short training whose rate rises by the same factor in each step, and
/// which logs every loss. This listener ends the test once the loss has grown to `stop_factor` times its minimum, or is
/// NaN.
///
/// Source: Smith, Cyclical Learning Rates (2017); smoothing and end are as in Lightning's Tuner.lr_find, and the
///         suggestion is as in Lightning up to 2.5. tests/golden/finders explains why, and has numpy's numbers.
class LrFinder final : public Listener {
 public:
  explicit LrFinder(double stop_factor = 4) : stop_factor_(stop_factor) {}

  using Listener::on;
  std::string name() const override { return "rate finder"; }
  Verdict on(const StepEnded& event) override;

  const std::vector<RatePoint>& points() const { return points_; }

  /// Returns the rate at which the loss fell fastest from one step to the next. Nothing if there were too few steps.
  std::optional<double> suggestion() const;

  /// Returns a chart of smoothed loss over rate, with the suggestion marked, in lines of at most `columns` characters.
  std::string chart(int columns) const;

 private:
  double stop_factor_;
  double mean_ = 0;
  double best_ = 0;
  std::vector<RatePoint> points_;
};

}  // namespace lockstep
