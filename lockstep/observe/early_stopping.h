// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lockstep/observe/events.h"

namespace lockstep {

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  bool wants_max = false;     ///< The metric should rise.
  std::int64_t patience = 3;  ///< Number of validations without an improvement before the run ends.
  double min_delta = 0;       ///< Smallest change that counts as an improvement. Not negative.
};

/// Ends a run when its metric stops improving. A metric that is not a number ends it at once.
///
/// Source: Lightning's EarlyStopping, with its defaults.
class EarlyStopping final : public Listener {
 public:
  explicit EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {}

  using Listener::on;
  std::string name() const override { return "early_stopping"; }
  std::string monitor() const override { return options_.monitor; }
  /// Throws: Error(kRecipe) if validation did not give the metric. The message lists the metrics that it gave.
  Verdict on(const ValidationEnded& event) override;
  std::map<std::string, double> state() const override;
  void restore(const std::map<std::string, double>& state) override;

 private:
  EarlyStoppingOptions options_;
  std::optional<double> best_;
  std::int64_t waited_ = 0;
};

/// Returns the value of the metric `monitor`. `who` is the recipe's table that uses the metric, for the message.
///
/// Throws: Error(kRecipe) if validation did not give this metric. The message lists the metrics that it gave.
double monitored(const ValidationEnded& event, const std::string& monitor, const std::string& who);

}  // namespace lockstep
