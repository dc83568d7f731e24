// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

constexpr double kShownLimit = 0.1;  ///< Below this share of a step nothing but computing limits it.

RankWork work_of(const BatchCost& cost, const PlanQuestion& question) {
  const auto& machine = question.machine;
  RankWork work{.forward_s = cost.forward_s, .backward_s = cost.backward_s, .update_s = cost.update_s, .read_s = 0};
  const bool has_rate = machine.basis == PlanBasis::kPublished || machine.basis == PlanBasis::kDataSheet;
  if (has_rate || work.compute_s() <= 0) {
    // Of a layer's three products one belongs to the forward pass. Published rates are of whole steps; where a measured
    // step will set the scale, any rate gives the shape.
    const double seconds = cost.flops / (has_rate ? machine.flops_per_s : 1e12);
    work = {.forward_s = seconds / 3, .backward_s = seconds * 2 / 3, .update_s = 0, .read_s = 0};
  }
  // Loaders beside the computation share the work out; without threads or a core of their own it comes on top.
  const int readers = machine.overlaps && question.facts.workers > 0 ? machine.workers : 1;
  work.read_s = question.facts.read_s * static_cast<double>(cost.samples) / readers;
  return work;
}

StepQuestion step_question(const PlanQuestion& question, RankLayout at, double batch) {
  const auto cost = cost_at(question.facts, batch);
  return {.work = work_of(cost, question),
          .buckets = plan_buckets(question.facts.gradients, question.schedule.bucket_bytes),
          .at = at,
          .links = question.machine.links,
          .spread = question.machine.spread,
          .overlaps = question.machine.overlaps,
          .reads_ahead = question.facts.workers > 0};
}

/// How long ranks compute, over what counting says, by a step that was measured; 1 where none was.
double pace_of(const PlanQuestion& question) {
  const auto& measured = question.machine.measured;
  if (!measured) return 1;
  const auto there = step_question(question, measured->at, measured->batch);
  return calibrated(there, measured->seconds).compute_s() / std::max(there.work.compute_s(), 1e-12);
}

StepQuestion paced(StepQuestion step, double pace) {
  step.work.forward_s *= pace;
  step.work.backward_s *= pace;
  step.work.update_s *= pace;
  return step;
}

/// Micro-batches before the last one wait for no rank.
StepTime with_accumulation(StepTime step, const StepQuestion& of, std::int64_t accumulate) {
  const double more = static_cast<double>(accumulate - 1) * (of.work.forward_s + of.work.backward_s + step.data_s);
  step.seconds += more;
  step.compute_s += more;
  return step;
}

/// What a step or epoch waits for, and how sure each is.
struct Parts {
  std::array<std::pair<double, double>, 4> seconds_and_error{};

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

std::optional<double> error_of(const StepTime& step, const PlanQuestion& question, RankLayout at) {
  const auto& machine = question.machine;
  if (machine.basis == PlanBasis::kDataSheet) return std::nullopt;
  const bool is_measured = machine.basis == PlanBasis::kMeasuredHere;
  const bool has_links = at.nodes == 1 && machine.links.measured_ranks == at.per_node;
  const bool is_unknown = at.ranks() > 1 && step.reduce_s <= 0;
  const double compute = is_measured ? kMeasuredError : kPublishedError;
  return Parts{{{{step.compute_s, is_unknown ? kHardwareError : compute},
                 {step.waiting_s, kHardwareError},
                 {step.exposed_s, has_links ? kMeasuredError : kHardwareError},
                 {step.data_s, kPublishedError}}}}
      .error();
}

std::string limit_of(const StepTime& step) {
  const std::array<std::pair<double, const char*>, 3> all = {
      {{step.exposed_s, "communication"}, {step.data_s, "data"}, {step.waiting_s, "stragglers"}}};
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

/// Validation needs no gradients: a forward pass over each rank's share, in few large batches.
double validation_s(const PlanQuestion& question, const StepQuestion& step, double batch) {
  const double samples = std::ceil(static_cast<double>(question.facts.validation_samples) / step.at.ranks());
  const double timed = cost_at(question.facts, batch).forward_s;
  const double forward_s = timed > 0 ? step.work.forward_s * cost_at(question.facts, samples).forward_s / timed
                                     : step.work.forward_s * samples / batch;
  return forward_s + (step.overlaps && step.reads_ahead ? 0 : step.work.read_s * samples / batch);
}

void add_lengths(PlanPoint& point, const PlanQuestion& question, const StepQuestion& step) {
  const auto& schedule = question.schedule;
  const auto every = [](std::int64_t epochs, double seconds) {
    return epochs > 0 ? seconds / static_cast<double>(epochs) : 0.0;
  };
  const double save_s = snapshot_bytes(question.facts) * question.machine.save_s_per_byte;
  point.epoch_s = static_cast<double>(point.steps_per_epoch) * point.step.seconds +
                  every(schedule.validate_every, validation_s(question, step, point.batch)) +
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
                "plan for " + std::to_string(global) + " ranks at most, or set data.batch, which is of one rank");
  }
  if (global > samples) {
    throw Error(ErrorKind::kRecipe,
                "on " + on + " the global batch is " + std::to_string(global) + ", but the data set has " +
                    std::to_string(samples) + " samples",
                "plan for fewer nodes, or set a smaller data.batch");
  }
}

PlanPoint point_of(const PlanQuestion& question, int nodes, double pace) {
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
  const auto step = paced(step_question(question, point.at, point.batch), pace);
  point.step = with_accumulation(simulated_step(step), step, schedule.accumulate);
  point.limit = limit_of(point.step);
  point.error = error_of(point.step, question, point.at);
  add_lengths(point, question, step);
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

std::vector<PlanPoint> predicted(const PlanQuestion& question) {
  const double pace = pace_of(question);
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
