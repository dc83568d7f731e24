// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/run_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Counts the samples of a number of steps. The last step of an epoch may have fewer samples than others.
class SampleCount {
 public:
  explicit SampleCount(const RunSegment& start)
      : global_batch_(number_of(start.started, "global_batch", 0)),
        steps_per_epoch_(std::max(1.0, number_of(start.started, "steps_per_epoch", 1))),
        epoch_samples_(global_batch_ * steps_per_epoch_) {
    // The number of samples in an epoch is known only after a run has ended and has trained whole epochs.
    const double epochs = number_of(start.ended, "epochs", 0);
    const double samples = number_of(start.ended, "samples", 0);
    if (epochs > 0 && std::abs(epochs * steps_per_epoch_ - static_cast<double>(start.ended.step)) < 0.5) {
      epoch_samples_ = samples / epochs;
    }
  }

  double between(std::int64_t from, std::int64_t to) const { return until(to) - until(from); }

 private:
  double until(std::int64_t step) const {
    const double whole = std::floor(static_cast<double>(step) / steps_per_epoch_);
    return whole * epoch_samples_ + (static_cast<double>(step) - whole * steps_per_epoch_) * global_batch_;
  }

  double global_batch_;
  double steps_per_epoch_;
  double epoch_samples_;
};

void take_line(const MetricsLine& line, RunSegment& start) {
  start.last_time = number_of(line, "time", start.last_time);
  start.last_step = std::max(start.last_step, line.step);
  if (line.event == "run_ended") start.ended = line;
  if (line.event == "validation") start.validation_s += number_of(line, "seconds", 0);
  if (line.event == "snapshot") start.snapshot_s += number_of(line, "seconds", 0);
  if (line.event == "validation" || line.event == "snapshot") start.marks.push_back(line);
  const auto from = start.logged.empty() ? start.started.step : start.logged.back().to;
  if (line.event != "step" || line.step <= from) return;
  start.logged.push_back({.from = from,
                          .to = line.step,
                          .time = start.last_time,
                          .loss = number_of(line, "loss"),
                          .samples_per_second = number_of(line, "samples_per_second")});
}

void time_logged_steps(RunSegment& start) {
  const SampleCount samples(start);
  for (auto& each : start.logged) {
    if (each.samples_per_second > 0) each.seconds = samples.between(each.from, each.to) / each.samples_per_second;
  }
  // A rate is null if no time was measured. Such steps are skipped.
  std::erase_if(start.logged, [](const auto& each) { return !(each.seconds > 0); });
}

/// The times of events, by the number of epochs whose steps had been taken.
struct EpochMarks {
  double last_time = 0;
  std::int64_t last_step = 0;
  double validation_s = 0;
  double snapshot_s = 0;
};

std::map<std::int64_t, EpochMarks> marks_by_epoch(const RunSegment& start, std::int64_t steps_per_epoch) {
  std::map<std::int64_t, EpochMarks> found;
  const auto at = [&](std::int64_t step) -> EpochMarks& {
    return found[std::max<std::int64_t>(0, step - 1) / steps_per_epoch];
  };
  for (const auto& each : start.logged) {
    auto& marks = at(each.to);
    marks.last_time = std::max(marks.last_time, each.time);
    marks.last_step = std::max(marks.last_step, each.to);
  }
  for (const auto& line : start.marks) {
    auto& marks = at(line.step);
    marks.last_time = std::max(marks.last_time, number_of(line, "time", 0));
    marks.last_step = std::max(marks.last_step, line.step);
    (line.event == "validation" ? marks.validation_s : marks.snapshot_s) += number_of(line, "seconds", 0);
  }
  return found;
}

void divide_into_epochs(RunSegment& start) {
  const auto steps_per_epoch = static_cast<std::int64_t>(number_of(start.started, "steps_per_epoch", 0));
  if (steps_per_epoch <= 0) return;
  auto from = start.started.step;
  double began = start.started_at();
  for (const auto& [epoch, marks] : marks_by_epoch(start, steps_per_epoch)) {
    const auto whole = (epoch + 1) * steps_per_epoch;
    const bool is_whole = start.last_step > whole || marks.last_step == whole;
    const auto to = is_whole ? whole : marks.last_step;
    if (to <= from) continue;
    // An epoch without validation and snapshot ends between two logged lines.
    const double ended = marks.last_time + start.seconds_in_steps(marks.last_step, to);
    EpochTimes times{.epoch = epoch, .steps = to - from, .is_whole = is_whole && from == epoch * steps_per_epoch};
    times.seconds = std::max(0.0, ended - began);
    const double others = marks.validation_s + marks.snapshot_s;
    const double training_s = std::clamp(start.seconds_in_steps(from, to), 0.0, std::max(0.0, times.seconds - others));
    times.phases_s = {training_s, marks.validation_s, marks.snapshot_s,
                      std::max(0.0, times.seconds - others - training_s)};
    start.epochs.push_back(times);
    from = to;
    began = ended;
  }
}

}  // namespace

double number_of(const MetricsLine& line, const std::string& key, double otherwise) {
  const auto it = line.values.find(key);
  return it == line.values.end() || !std::isfinite(it->second) ? otherwise : it->second;
}

double RunSegment::seconds() const { return number_of(ended, "seconds", std::max(0.0, last_time - started_at())); }

double RunSegment::seconds_in_steps(std::int64_t from, std::int64_t to) const {
  if (to <= from) return 0;
  double found_s = 0;
  double missing = static_cast<double>(to - from);
  auto each = std::ranges::upper_bound(logged, from, {}, &LoggedSteps::to);
  for (; each != logged.end() && each->from < to; ++each) {
    const auto shared = static_cast<double>(std::min(to, each->to) - std::max(from, each->from));
    found_s += shared * each->step_s();
    missing -= shared;
  }
  if (missing <= 0) return found_s;
  double all_s = 0;
  double all_steps = 0;
  for (const auto& each_logged : logged) {
    all_s += each_logged.seconds;
    all_steps += static_cast<double>(each_logged.to - each_logged.from);
  }
  // If no step was logged, the time of the steps is the rest of the epoch, after the other phases are subtracted.
  if (all_steps <= 0) {
    all_s = std::max(0.0, seconds() - validation_s - snapshot_s);
    all_steps = static_cast<double>(std::max<std::int64_t>(1, steps()));
  }
  return found_s + missing * all_s / all_steps;
}

std::vector<RunSegment> run_starts(const std::filesystem::path& metrics) {
  std::vector<RunSegment> starts;
  for (const auto& line : read_metrics(metrics).lines) {
    if (line.event == "run_started") {
      starts.push_back({.started = line, .last_step = line.step});
      starts.back().last_time = starts.back().started_at();
    } else if (!starts.empty()) {
      take_line(line, starts.back());
    }
  }
  for (auto& start : starts) {
    time_logged_steps(start);
    divide_into_epochs(start);
  }
  return starts;
}

}  // namespace lockstep
