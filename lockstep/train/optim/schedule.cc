// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/optim/schedule.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::kRecipe, "[scheduler]: " + fact, hint);
}

double cosine_between(double from, double to, double share) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

// The steps, from 0, at which the two phases of OneCycleLR end.
struct Phases {
  double peak;
  double end;
};

Phases phases_of(const OneCycleSchedule& one) {
  return {one.pct_start * static_cast<double>(one.total_steps) - 1, static_cast<double>(one.total_steps) - 1};
}

double one_cycle(const OneCycleSchedule& one, std::int64_t t, double start, double peak, double end) {
  const auto phases = phases_of(one);
  const double at = std::min(static_cast<double>(t), phases.end);
  if (at <= phases.peak) return cosine_between(start, peak, at / phases.peak);
  return cosine_between(peak, end, (at - phases.peak) / (phases.end - phases.peak));
}

struct RateAt {
  double base;
  double peak_share;  // Of OneCycleSchedule's max_lr.
  std::int64_t t;

  double operator()(const std::monostate&) const { return base; }
  double operator()(const PlateauSchedule&) const { return base; }
  double operator()(const OwnSchedule&) const { return base; }
  double operator()(const StepSchedule& s) const {
    return base * std::pow(s.gamma, static_cast<double>(t / s.step_size));
  }
  double operator()(const MultiStepSchedule& s) const {
    const auto passed =
        std::count_if(s.milestones.begin(), s.milestones.end(), [this](auto each) { return each <= t; });
    return base * std::pow(s.gamma, static_cast<double>(passed));
  }
  double operator()(const ExponentialSchedule& s) const { return base * std::pow(s.gamma, static_cast<double>(t)); }
  double operator()(const CosineSchedule& s) const {
    if (t >= s.t_max) return s.eta_min;
    return cosine_between(base, s.eta_min, static_cast<double>(t) / static_cast<double>(s.t_max));
  }
  double operator()(const LinearSchedule& s) const {
    const double share = static_cast<double>(std::min(t, s.total_iters)) / static_cast<double>(s.total_iters);
    return base * (s.start_factor + (s.end_factor - s.start_factor) * share);
  }
  double operator()(const OneCycleSchedule& s) const {
    const double peak = s.max_lr * peak_share;
    const double initial = peak / s.div_factor;
    return one_cycle(s, t, initial, peak, initial / s.final_div_factor);
  }
};

void require_positive(const char* key, std::int64_t value) {
  if (value < 1)
    refuse(std::string(key) + " is " + std::to_string(value) + ", want at least 1", "leave it out or raise it");
}

struct Check {
  void operator()(const std::monostate&) const {}
  void operator()(const PlateauSchedule&) const {}
  void operator()(const OwnSchedule&) const {}
  void operator()(const StepSchedule& s) const { require_positive("step_size", s.step_size); }
  void operator()(const MultiStepSchedule& s) const {
    if (!std::is_sorted(s.milestones.begin(), s.milestones.end())) refuse("milestones go down", "list them in order");
  }
  void operator()(const ExponentialSchedule&) const {}
  void operator()(const CosineSchedule& s) const { require_positive("T_max", s.t_max); }
  void operator()(const LinearSchedule& s) const { require_positive("total_iters", s.total_iters); }
  void operator()(const OneCycleSchedule& s) const {
    if (s.max_lr <= 0) refuse("max_lr is missing", "set it to the cycle's largest learning rate");
    const auto phases = phases_of(s);
    if (phases.peak <= 0 || phases.peak >= phases.end) {
      refuse("pct_start " + std::to_string(s.pct_start) + " of " + std::to_string(s.total_steps) +
                 " steps leaves no step to rise or to fall in",
             "train for more steps, or move pct_start");
    }
  }
};

// Returns a group's rate divided by the base rate. Exactly 1 if both are the same.
double share_of_rate(double own, double base) {
  if (own == base) return 1;
  if (base > 0) return own / base;
  refuse("onecycle scales max_lr by a group's rate over the optimizer's, which is 0",
         "set optimizer.lr, or leave the rates out of optimizer.groups");
}

// Sets the momentum, or beta1 for Adam. Returns false if the optimizer has no momentum.
bool set_momentum_of(torch::optim::OptimizerOptions& options, double value) {
  if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&options)) {
    if (sgd->momentum() == 0) return false;
    sgd->momentum(value);
    return true;
  }
  if (auto* adam = dynamic_cast<torch::optim::AdamOptions*>(&options)) {
    adam->betas({value, std::get<1>(adam->betas())});
    return true;
  }
  if (auto* adamw = dynamic_cast<torch::optim::AdamWOptions*>(&options)) {
    adamw->betas({value, std::get<1>(adamw->betas())});
    return true;
  }
  return false;
}

}  // namespace

Scheduler::Scheduler(ScheduleOptions options, torch::optim::Optimizer& optimizer)
    : options_(std::move(options)), optimizer_(optimizer) {
  std::visit(Check{}, options_.schedule);
  for (const auto& group : optimizer.param_groups()) base_rates_.push_back(group.options().get_lr());
  if (const auto* plateau = std::get_if<PlateauSchedule>(&options_.schedule)) {
    plateau_rates_ = base_rates_;
    best_ = plateau->wants_max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  const auto* one = std::get_if<OneCycleSchedule>(&options_.schedule);
  if (one == nullptr) return;
  const double base = optimizer.defaults().get_lr();
  for (const double each : base_rates_) shares_.push_back(share_of_rate(each, base));
  if (one->cycle_momentum) {
    for (auto& group : optimizer.param_groups()) {
      if (!set_momentum_of(group.options(), one->max_momentum)) {
        refuse("onecycle moves the momentum too, and the optimizer has none",
               "set optimizer.momentum, or scheduler.cycle_momentum = false");
      }
    }
  }
}

double Scheduler::rate(std::size_t group, std::int64_t t) const {
  const double base = plateau_rates_.empty() ? base_rates_[group] : plateau_rates_[group];
  const double peak_share = shares_.empty() ? 1 : shares_[group];
  if (t >= options_.warmup) return std::visit(RateAt{base, peak_share, t - options_.warmup}, options_.schedule);
  const double share = static_cast<double>(t) / static_cast<double>(options_.warmup);
  return base * (options_.warmup_start_factor + (1 - options_.warmup_start_factor) * share);
}

bool Scheduler::moves_momentum() const {
  if (std::holds_alternative<OwnSchedule>(options_.schedule)) return true;
  const auto* one = std::get_if<OneCycleSchedule>(&options_.schedule);
  return one != nullptr && one->cycle_momentum;
}

std::string Scheduler::monitor() const {
  const auto* plateau = std::get_if<PlateauSchedule>(&options_.schedule);
  return plateau == nullptr ? std::string() : plateau->monitor;
}

// A plateau's rates and constant rates depend on the step only during the warm-up.
bool Scheduler::goes_by_steps(std::int64_t step) const {
  if (!options_.by_step) return false;
  const bool is_still = std::holds_alternative<std::monostate>(options_.schedule) ||
                        std::holds_alternative<PlateauSchedule>(options_.schedule);
  return !is_still || step < options_.warmup;
}

void Scheduler::prepare(std::int64_t step, std::int64_t epoch) {
  const auto t = options_.by_step ? step : epoch;
  if (const auto* own = std::get_if<OwnSchedule>(&options_.schedule)) return set_own(*own, t);
  for (std::size_t i = 0; i < base_rates_.size(); ++i) {
    optimizer_.param_groups()[i].options().set_lr(rate(i, t));
  }
  set_momentum(t);
}

void Scheduler::set_own(const OwnSchedule& own, std::int64_t t) {
  const auto rates = own.rates(t);
  auto& groups = optimizer_.param_groups();
  LOCKSTEP_ASSERT(rates.size() == groups.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    groups[i].options().set_lr(rates[i].lr);
    if (rates[i].momentum) set_momentum_of(groups[i].options(), *rates[i].momentum);
  }
}

void Scheduler::set_momentum(std::int64_t t) {
  const auto* one = std::get_if<OneCycleSchedule>(&options_.schedule);
  if (one == nullptr || !one->cycle_momentum) return;
  const double value = one_cycle(*one, std::max<std::int64_t>(0, t - options_.warmup), one->max_momentum,
                                 one->base_momentum, one->max_momentum);
  for (auto& group : optimizer_.param_groups()) set_momentum_of(group.options(), value);
}

void Scheduler::observe(const std::map<std::string, double>& metrics) {
  const auto* plateau = std::get_if<PlateauSchedule>(&options_.schedule);
  if (plateau == nullptr) return;
  const auto it = metrics.find(plateau->monitor);
  if (it == metrics.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : metrics) names.push_back(name);
    refuse("plateau waits for '" + plateau->monitor + "', and validation gave " +
               (names.empty() ? "nothing" : joined(names, ", ")),
           "set scheduler.monitor to one of them, or data.split where there is no validation set");
  }
  // If the metric is NaN, it never counts as an improvement, as in PyTorch.
  const double value = it->second;
  const bool is_better =
      plateau->wants_max ? value > best_ * (1 + plateau->threshold) : value < best_ * (1 - plateau->threshold);
  if (is_better) {
    best_ = value;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= plateau->patience) return;
  constexpr double kSmallestChange = 1e-8;
  for (auto& each : plateau_rates_) {
    const double lower = std::max(each * plateau->factor, plateau->min_lr);
    if (each - lower > kSmallestChange) each = lower;
  }
  cooldown_left_ = plateau->cooldown;
  bad_epochs_ = 0;
}

std::map<std::string, double> Scheduler::state() const {
  if (plateau_rates_.empty()) return {};
  std::map<std::string, double> out = {{"bad_epochs", static_cast<double>(bad_epochs_)},
                                       {"cooldown_left", static_cast<double>(cooldown_left_)}};
  // JSON has no infinity. So the best value is left out as long as none was set.
  if (std::isfinite(best_)) out["best"] = best_;
  for (std::size_t i = 0; i < plateau_rates_.size(); ++i) out["lr." + std::to_string(i)] = plateau_rates_[i];
  return out;
}

void Scheduler::restore(const std::map<std::string, double>& state) {
  if (plateau_rates_.empty() || state.empty()) return;
  bad_epochs_ = static_cast<std::int64_t>(state.at("bad_epochs"));
  cooldown_left_ = static_cast<std::int64_t>(state.at("cooldown_left"));
  if (const auto it = state.find("best"); it != state.end()) best_ = it->second;
  for (std::size_t i = 0; i < plateau_rates_.size(); ++i) {
    if (const auto it = state.find("lr." + std::to_string(i)); it != state.end()) plateau_rates_[i] = it->second;
  }
}

}  // namespace lockstep
