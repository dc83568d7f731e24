// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/trainer_options.h"

#include <cmath>

namespace lockstep {

TrainerOptions fast_dev_run(TrainerOptions options) {
  options.max_epochs = 1;
  options.max_steps = 0;
  options.log_every = 1;
  options.data.train_batches = 1;
  options.data.validation_batches = 1;
  options.snapshot = {};
  options.snapshot.every_epochs = 0;
  return options;
}

bool takes_best(const SnapshotOptions& options, double value, std::map<std::string, double>& numbers) {
  constexpr const char* kBest = "best.value";
  if (!std::isfinite(value)) return false;
  const auto it = numbers.find(kBest);
  if (it != numbers.end() && !(options.monitor_wants_max ? value > it->second : value < it->second)) return false;
  numbers[kBest] = value;
  return true;
}

}  // namespace lockstep
