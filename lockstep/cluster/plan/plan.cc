// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

constexpr double kShownLimit = 0.1;  ///< Below this share of a step nothing but computing limits it.

/// Factors that turn counted steps into measured ones.
struct Pace {
  double arithmetic = 1;
  double kernels = 1;  ///< Factor on the device's extra cost of each kernel.
  double host = 1;     ///< Factor on the host's cost to launch each kernel.
  double network = 1;
};

RankWork work_of(const BatchCost& cost, const PlanQuestion& question, const Pace& pace) {
  const auto& machine = question.machine;
  RankWork work{.forward_s = cost.forward_s, .backward_s = cost.backward_s, .update_s = cost.update_s, .read_s = 0};
  const bool has_rate = machine.basis == PlanBasis::kPublished || machine.basis == PlanBasis::kDataSheet;
  if (has_rate || work.compute_s() <= 0) {
    // Of a layer's three matrix products in a step, one belongs to the forward pass. Published rates are for whole
    // steps. If a measured step sets the scale later, any rate will do here.
    const double seconds = cost.flops / (has_rate ? machine.flops_per_s : 1e12);
    work = {.forward_s = seconds / 3, .backward_s = seconds * 2 / 3, .update_s = 0, .read_s = 0};
  }
  const PassKernels update{.all = cost.forward.all > 0 ? update_kernels(question.facts.gradients.size()) : 0};
  auto launch = machine.launch;
  launch.kernel_s *= pace.kernels;
  launch.host_s *= pace.host;
  work.forward_s = launch.pass_s(work.forward_s * pace.arithmetic, cost.forward);
  work.backward_s = launch.pass_s(work.backward_s * pace.arithmetic, cost.backward);
  work.update_s = launch.pass_s(work.update_s * pace.arithmetic, update);
  // Loader threads read batches while the rank computes. Without threads, or without a free core, the time for reading
  // is added to the computation.
  const int readers = machine.overlaps && question.facts.workers > 0 ? machine.workers : 1;
  work.read_s = question.facts.read_s * static_cast<double>(cost.samples) / readers;
  return work;
}

StepQuestion step_question(const PlanQuestion& question, RankLayout at, double batch, const Pace& pace) {
  const auto cost = cost_at(question.facts, batch);
  auto links = question.machine.links;
  links.slowness *= pace.network;
  const bool is_timed =
      question.machine.basis == PlanBasis::kMeasuredHere && at.nodes == 1 && at.per_node == links.measured_ranks;
  return {.work = work_of(cost, question, pace),
          .buckets = plan_buckets(question.facts.gradients, question.schedule.bucket_bytes),
          .at = at,
          .links = links,
          .spread = question.machine.spread,
          .overlaps = question.machine.overlaps,
          .reads_ahead = question.facts.workers > 0,
          .averaging_s = is_timed ? cost.averaging_s : std::nullopt};
}

/// A run that was measured, and the time of its slowest rank as a multiple of the average.
struct MeasuredRun {
  MeasuredStep step;
  std::vector<double> slowest;
};

double step_s(const PlanQuestion& question, const MeasuredRun& run, const Pace& pace) {
  return simulated_step(step_question(question, run.step.at, run.step.batch, pace), run.slowest).seconds;
}

/// Chooses the arithmetic that makes the run's time equal to the measured one. If the host is the bottleneck, several
/// values give this time, and the largest is taken.
void fit_arithmetic(Pace& pace, const PlanQuestion& question, const MeasuredRun& run) {
  constexpr double kClose = 1 + 1e-9;
  const auto fits = [&](double arithmetic) {
    Pace tried = pace;
    tried.arithmetic = arithmetic;
    return step_s(question, run, tried) <= run.step.seconds * kClose;
  };
  double low = 0;
  double high = 1;
  while (fits(high)) high *= 2;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  pace.arithmetic = low;
}

/// Changes one part of the pace so that `miss` becomes smallest. It searches between a thousandth and a thousand times
/// the present value, by golden-section search.
template <typename Miss>
void fit(double& part, Miss miss) {
  constexpr int kRounds = 30;
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = std::log(part) - std::log(1e3);
  double high = std::log(part) + std::log(1e3);
  double left = miss(std::exp(high - golden * (high - low)));
  double right = miss(std::exp(low + golden * (high - low)));
  for (int i = 0; i < kRounds; ++i) {
    if (left < right) {
      high = low + golden * (high - low);
      right = left;
      left = miss(std::exp(high - golden * (high - low)));
    } else {
      low = high - golden * (high - low);
      left = right;
      right = miss(std::exp(low + golden * (high - low)));
    }
  }
  part = std::exp((low + high) / 2);
}

/// Limits the cost of kernels by a run that was faster. Half of that run's time is then taken to be arithmetic.
void limit_kernels(Pace& pace, const PlanQuestion& question, const MeasuredRun& run) {
  const auto at_least = [&](const Pace& tried) { return step_s(question, run, tried); };
  const double seconds = run.step.seconds;
  const double host_s = at_least({.arithmetic = 0, .kernels = 0});
  if (host_s > seconds) pace.host = std::min(pace.host, seconds / host_s);
  const double device_s = at_least({.arithmetic = 0, .host = 0});
  if (device_s > seconds) pace.kernels = std::min(pace.kernels, seconds / device_s / 2);
}

/// Returns the run that a pace predicts worst, and the error.
double worst_miss(const PlanQuestion& question, const std::vector<MeasuredRun>& runs, const Pace& pace) {
  double worst = 0;
  for (const auto& each : runs) {
    worst = std::max(worst, std::abs(std::log(step_s(question, each, pace) / each.step.seconds)));
  }
  return worst;
}

/// One run determines the time that ranks compute. A second one with another batch also determines the extra cost of
/// kernels, and one with another number of ranks the cost of averaging. To separate both takes three.
Pace pace_of(const PlanQuestion& question) {
  Pace pace;
  std::vector<MeasuredRun> runs;
  for (const auto& each : question.machine.measured)
    runs.push_back({each, slowest_ranks(each.at.ranks(), question.machine.spread)});
  if (runs.empty()) return pace;
  for (const auto& each : runs) limit_kernels(pace, question, each);
  const auto differ = [&](auto value) {
    return std::ranges::any_of(runs, [&](const auto& each) { return value(each.step) != value(runs.front().step); });
  };
  const bool fits_kernels = question.machine.launch.kernel_s > 0 && differ([](const auto& step) { return step.batch; });
  const bool fits_network =
      differ([](const auto& step) { return step.at.ranks(); }) && (!fits_kernels || runs.size() > 2);
  // To compare runs, the mean of the slowest rank is enough. It is many times faster to compute than a simulation.
  auto rough = runs;
  for (auto& each : rough)
    each.slowest = {std::accumulate(each.slowest.begin(), each.slowest.end(), 0.0) /
                    static_cast<double>(each.slowest.size())};
  const auto miss = [&](Pace& tried) {
    fit_arithmetic(tried, question, rough.front());
    return worst_miss(question, rough, tried);
  };
  const auto miss_of_kernels = [&](Pace& tried) {
    if (!fits_kernels) return miss(tried);
    tried.kernels = pace.kernels;
    fit(tried.kernels, [&](double value) {
      Pace inner = tried;
      inner.kernels = value;
      return miss(inner);
    });
    return miss(tried);
  };
  if (fits_network) {
    fit(pace.network, [&](double value) {
      Pace tried = pace;
      tried.network = value;
      return miss_of_kernels(tried);
    });
  }
  miss_of_kernels(pace);
  fit_arithmetic(pace, question, runs.front());
  return pace;
}

/// Only the last of several accumulated batches waits for other ranks.
StepTime with_accumulation(StepTime step, const StepQuestion& of, std::int64_t accumulate) {
  const double more = static_cast<double>(accumulate - 1) * (of.work.forward_s + of.work.backward_s + step.data_s);
  step.seconds += more;
  step.compute_s += more;
  return step;
}

/// The parts of a step's or epoch's time, with the uncertainty of each.
struct Parts {
  std::array<std::pair<double, double>, 5> seconds_and_error{};

  double error() const {
    double all = 0;
    double off = 0;
    for (const auto& [seconds, error] : seconds_and_error) {
      all += seconds;
      off += seconds * error;
    }
    return all > 0 ? off / all : 0;
  }
};

std::optional<double> error_of(const StepTime& step, double launch_s, const PlanQuestion& question, RankLayout at) {
  const auto& machine = question.machine;
  if (machine.basis == PlanBasis::kDataSheet) return std::nullopt;
  const bool is_measured = machine.basis == PlanBasis::kMeasuredHere;
  const bool has_links = at.nodes == 1 && machine.links.measured_ranks == at.per_node;
  const bool is_unknown = at.ranks() > 1 && step.reduce_s <= 0;
  const double compute = is_measured ? kMeasuredError : kPublishedError;
  return Parts{{{{step.compute_s - launch_s, is_unknown ? kHardwareError : compute},
                 {launch_s, kHardwareError},
                 {step.waiting_s, kHardwareError},
                 {step.exposed_s, has_links ? kMeasuredError : kHardwareError},
                 {step.data_s, kPublishedError}}}}
      .error();
}

std::string limit_of(const StepTime& step, double launch_s) {
  const std::array<std::pair<double, const char*>, 4> all = {{{step.exposed_s, "communication"},
                                                              {step.data_s, "data"},
                                                              {step.waiting_s, "stragglers"},
                                                              {launch_s, "launches"}}};
  const auto& most = *std::ranges::max_element(all, {}, &std::pair<double, const char*>::first);
  return most.first > kShownLimit * step.seconds ? most.second : "compute";
}

PlanMemory memory_of(const TrainingFacts& facts, double batch) {
  return {.weights = facts.weight_bytes,
          .gradients = facts.gradient_bytes,
          .optimizer = facts.optimizer_bytes,
          .buffers = facts.buffer_bytes,
          .activations = cost_at(facts, batch).activation_bytes};
}

/// Validation needs no gradients. It is a forward pass over each rank's share, in few large batches.
double validation_s(const PlanQuestion& question, const StepQuestion& step, double batch, const Pace& pace) {
  const double samples = std::ceil(static_cast<double>(question.facts.validation_samples) / step.at.ranks());
  if (samples <= 0) return 0;
  return work_of(cost_at(question.facts, samples), question, pace).forward_s +
         (step.overlaps && step.reads_ahead ? 0 : step.work.read_s * samples / batch);
}

void add_lengths(PlanPoint& point, const PlanQuestion& question, const StepQuestion& step, const Pace& pace) {
  const auto& schedule = question.schedule;
  const auto every = [](std::int64_t epochs, double seconds) {
    return epochs > 0 ? seconds / static_cast<double>(epochs) : 0.0;
  };
  const double save_s = snapshot_bytes(question.facts) * question.machine.save_s_per_byte;
  point.epoch_s = static_cast<double>(point.steps_per_epoch) * point.step.seconds +
                  every(schedule.validate_every, validation_s(question, step, point.batch, pace)) +
                  every(schedule.save_every, save_s);
  double epochs = static_cast<double>(schedule.epochs);
  if (schedule.max_steps > 0) {
    const double by_steps = static_cast<double>(schedule.max_steps) / static_cast<double>(point.steps_per_epoch);
    epochs = epochs > 0 ? std::min(epochs, by_steps) : by_steps;
  }
  point.run_s = epochs * point.epoch_s;
  if (schedule.max_s > 0 && (epochs == 0 || point.run_s > schedule.max_s)) point.run_s = schedule.max_s;
  point.run_s += question.facts.start_s + question.machine.start_calls * question.machine.call_s;
  point.node_hours = point.run_s * point.at.nodes / 3600;
  point.billed_hours = point.node_hours * question.machine.billing.per_hour;
}

void check_batch(const PlanQuestion& question, int nodes) {
  const int ranks = nodes * question.machine.ranks;
  const auto global = global_batch_of(question.schedule, ranks);
  const auto samples = question.facts.train_samples;
  const std::string on = counted(nodes, "node");
  if (global < ranks) {
    throw Error(ErrorKind::kRecipe,
                "data.global_batch is " + std::to_string(global) + ", but " + on + (nodes == 1 ? " has " : " have ") +
                    std::to_string(ranks) + " ranks, want a sample for each",
                "plan for " + std::to_string(global) + " ranks at most, or set data.batch, which counts per rank");
  }
  if (global > samples) {
    throw Error(ErrorKind::kRecipe,
                "on " + on + " the global batch is " + std::to_string(global) + ", but the data set has " +
                    std::to_string(samples) + " samples",
                "plan for fewer nodes, or set a smaller data.batch");
  }
}

PlanPoint point_of(const PlanQuestion& question, int nodes, const Pace& pace) {
  const auto& schedule = question.schedule;
  PlanPoint point;
  point.at = {.nodes = nodes, .per_node = question.machine.ranks};
  point.batch = batch_of_rank(schedule, point.at.ranks());
  point.global_batch = global_batch_of(schedule, point.at.ranks());
  const auto in_step = point.global_batch * schedule.accumulate;
  const auto samples = question.facts.train_samples;
  point.steps_per_epoch = schedule.drop_last ? samples / in_step : (samples + in_step - 1) / in_step;
  point.steps_per_epoch = std::max<std::int64_t>(1, point.steps_per_epoch);
  point.memory = memory_of(question.facts, point.batch);
  const auto step = step_question(question, point.at, point.batch, pace);
  point.step = with_accumulation(simulated_step(step), step, schedule.accumulate);
  auto unhindered = pace;
  unhindered.kernels = unhindered.host = 0;
  const auto arithmetic = work_of(cost_at(question.facts, point.batch), question, unhindered).compute_s();
  point.launch_s = std::max(0.0, step.work.compute_s() - arithmetic);
  point.limit = limit_of(point.step, point.launch_s);
  point.error = error_of(point.step, point.launch_s, question, point.at);
  add_lengths(point, question, step, pace);
  return point;
}

}  // namespace

double snapshot_bytes(const TrainingFacts& facts) {
  return facts.weight_bytes + facts.optimizer_bytes + facts.buffer_bytes;
}

double batch_of_rank(const PlanSchedule& schedule, int ranks) {
  if (schedule.global_batch == 0) return static_cast<double>(schedule.batch);
  return std::ceil(static_cast<double>(schedule.global_batch) / ranks);
}

std::int64_t global_batch_of(const PlanSchedule& schedule, int ranks) {
  return schedule.global_batch > 0 ? schedule.global_batch : schedule.batch * ranks;
}

std::optional<std::int64_t> largest_batch(const PlanQuestion& question) {
  constexpr double kTaken = 1 << 30;
  const double room = question.machine.device_memory_bytes - kTaken;
  if (question.machine.device_memory_bytes <= 0) return std::nullopt;
  const auto fits = [&](std::int64_t batch) {
    return memory_of(question.facts, static_cast<double>(batch)).total() <= room;
  };
  if (!fits(1)) return 0;
  std::int64_t low = 1;
  std::int64_t high = question.facts.train_samples + 1;
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::vector<PlanPoint> predicted(const PlanQuestion& question) {
  const auto pace = pace_of(question);
  std::vector<PlanPoint> points;
  for (const int nodes : question.nodes) {
    check_batch(question, nodes);
    auto point = point_of(question, nodes, pace);
    if (!points.empty()) {
      point.speed_up = points.front().epoch_s / point.epoch_s;
      point.efficiency = point.speed_up * points.front().at.nodes / nodes;
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace lockstep
