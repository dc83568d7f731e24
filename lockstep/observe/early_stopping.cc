// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/early_stopping.h"

#include <cmath>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

double monitored(const ValidationEnded& event, const std::string& monitor, const std::string& who) {
  if (monitor == "train_loss") return event.train_loss;
  const auto it = event.metrics.find(monitor);
  if (it != event.metrics.end()) return it->second;
  std::vector<std::string> names = {"train_loss"};
  for (const auto& [name, value] : event.metrics) names.push_back(name);
  throw Error(ErrorKind::kRecipe, who + " waits for '" + monitor + "', and this epoch gave " + joined(names, ", "),
              "name one of them; without a validation set (data.split makes one) there is no val_…");
}

Verdict EarlyStopping::on(const ValidationEnded& event) {
  const double value = monitored(event, options_.monitor, "[early_stopping]");
  if (!std::isfinite(value)) return Verdict::kStop;
  const bool is_better =
      !best_ || (options_.wants_max ? value - options_.min_delta > *best_ : value + options_.min_delta < *best_);
  if (is_better) {
    best_ = value;
    waited_ = 0;
    return Verdict::kContinue;
  }
  return ++waited_ >= options_.patience ? Verdict::kStop : Verdict::kContinue;
}

std::map<std::string, double> EarlyStopping::state() const {
  std::map<std::string, double> out = {{"waited", static_cast<double>(waited_)}};
  if (best_) out["best"] = *best_;
  return out;
}

void EarlyStopping::restore(const std::map<std::string, double>& state) {
  if (const auto it = state.find("best"); it != state.end()) best_ = it->second;
  if (const auto it = state.find("waited"); it != state.end()) waited_ = static_cast<std::int64_t>(it->second);
}

}  // namespace lockstep
