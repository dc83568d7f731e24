// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/training_history.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace lockstep {
namespace {

constexpr std::size_t kMostMarks = 256;

/// Returns a number if it is present and finite.
std::optional<double> number(const MetricsLine& line, const std::string& key) {
  const auto found = line.values.find(key);
  if (found == line.values.end() || !std::isfinite(found->second)) return std::nullopt;
  return found->second;
}

std::int64_t whole(const MetricsLine& line, const std::string& key) {
  return std::llround(number(line, key).value_or(0));
}

}  // namespace

void TrainingHistory::mark(const MetricsLine& line) {
  const auto time = number(line, "time");
  if (!time) return;
  steps_.push_back({*time, line.step});
  if (steps_.size() > kMostMarks) steps_.pop_front();
}

void TrainingHistory::take(const MetricsLine& line) {
  if (!told_ || line.event == "run_started") told_ = TrainingStatus{};
  auto& told = *told_;
  told.step = line.step;
  if (line.event == "run_started") {
    told.steps_total = whole(line, "steps_total");
    told.epochs = whole(line, "epochs");
    steps_.clear();
    start_.reset();
    if (const auto time = number(line, "time")) start_ = Mark{*time, line.step};
  } else if (line.event == "step") {
    told.epoch = whole(line, "epoch");
    told.loss = number(line, "loss");
    told.samples_per_second = number(line, "samples_per_second");
    mark(line);
  } else if (line.event == "validation") {
    told.epoch = whole(line, "epoch");
    if (!told.loss) told.loss = number(line, "train_loss");
    told.validation.clear();
    constexpr std::string_view kPrefix = "metrics.";
    for (const auto& [key, value] : line.values) {
      if (key.starts_with(kPrefix)) told.validation[key.substr(kPrefix.size())] = value;
    }
    mark(line);
  } else if (line.event == "run_ended") {
    told.has_ended = true;
    if (const auto why = line.texts.find("stopped_by"); why != line.texts.end()) told.stopped_by = why->second;
  }
}

std::optional<double> TrainingHistory::seconds_a_step() const {
  if (steps_.empty()) return std::nullopt;
  const auto& last = steps_.back();
  const auto& first = steps_.front().step < last.step ? steps_.front() : start_.value_or(last);
  if (first.step >= last.step || first.time > last.time) return std::nullopt;
  return (last.time - first.time) / static_cast<double>(last.step - first.step);
}

std::optional<TrainingStatus> TrainingHistory::status(double now) const {
  auto status = told_;
  if (!status || status->has_ended || status->steps_total <= 0) return status;
  if (const auto a_step = seconds_a_step()) {
    const auto& last = steps_.back();
    const double all = *a_step * static_cast<double>(std::max<std::int64_t>(status->steps_total - last.step, 0));
    status->seconds_left = std::max(all - std::max(now - last.time, 0.0), 0.0);
  }
  return status;
}

}  // namespace lockstep
