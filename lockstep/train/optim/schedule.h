// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Schedules of the learning rate, with PyTorch's names and numbers.
///
///     lockstep::Scheduler scheduler({.schedule = lockstep::CosineSchedule{.t_max = 90}, .warmup = 5}, optimizer);
///     for (int epoch = 0; epoch < 95; ++epoch) {
///       scheduler.prepare(epoch * 100, epoch);  // 100 steps in each epoch
///       optimizer.step();
///     }

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// PyTorch's schedulers have their own names, arguments and defaults here. `t` counts epochs from 0, or steps if
/// ScheduleOptions::by_step.
///
/// Source: torch.optim.lr_scheduler's closed forms; tests/golden/schedules holds what PyTorch itself gives.

struct StepSchedule {
  std::int64_t step_size = 30;
  double gamma = 0.1;
};

struct MultiStepSchedule {
  std::vector<std::int64_t> milestones{};
  double gamma = 0.1;
};

/// CosineAnnealingLR. Beyond t_max the rate stays at eta_min.
struct CosineSchedule {
  std::int64_t t_max = 1;
  double eta_min = 0;
};

struct ExponentialSchedule {
  double gamma = 0.95;
};

struct LinearSchedule {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
};

/// OneCycleLR in two phases, annealed by cosine. Momentum (beta1 for Adam) falls while the rate rises.
///
/// A parameter group with its own rate peaks at max_lr · its rate / the optimizer's rate, as with PyTorch's list of
/// max_lr. Other groups peak at max_lr.
struct OneCycleSchedule {
  double max_lr = 0;
  std::int64_t total_steps = 1;
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
};

/// ReduceLROnPlateau, with its relative threshold.
struct PlateauSchedule {
  std::string monitor = "val_loss";
  bool wants_max = false;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::int64_t cooldown = 0;
  double min_lr = 0;
};

/// The rates that a schedule of the user's own sets for a parameter group.
struct GroupRate {
  double lr = 0;
  std::optional<double> momentum{};  ///< Or beta1 for Adam. Absent if the schedule leaves it alone.
};

/// A schedule of the user's own, such as one of Python's. `rates` returns one entry for each parameter group.
struct OwnSchedule {
  std::function<std::vector<GroupRate>(std::int64_t t)> rates{};
};

using Schedule = std::variant<std::monostate, StepSchedule, MultiStepSchedule, ExponentialSchedule, CosineSchedule,
                              LinearSchedule, OneCycleSchedule, PlateauSchedule, OwnSchedule>;

struct ScheduleOptions {
  Schedule schedule{};
  bool by_step = false;              ///< t counts optimizer steps instead of epochs.
  std::int64_t warmup = 0;           ///< Epochs or steps of linear warm-up, before the schedule's own t = 0.
  double warmup_start_factor = 0.1;  ///< Factor of the rate at the start of the warm-up.
};

/// Sets an optimizer's learning rates. The rates follow from the step and epoch alone, so a resumed run needs no state.
/// Only PlateauSchedule has state.
class Scheduler {
 public:
  /// `optimizer` must outlive this object. The schedule starts from its present rates, group by group.
  ///
  /// Throws: Error(kRecipe) if a schedule's numbers are out of range, or if it moves a momentum that the optimizer does
  /// not have. Also if OneCycleSchedule finds a group with a rate of its own, and the optimizer's rate is 0.
  Scheduler(ScheduleOptions options, torch::optim::Optimizer& optimizer);

  /// True if the schedule changes the momentum too.
  bool moves_momentum() const;

  /// Returns the metric that PlateauSchedule waits for. Empty for all others.
  std::string monitor() const;
  /// True if the rates of steps after the first `step` ones depend on how many steps were done.
  bool goes_by_steps(std::int64_t step) const;

  /// Sets the rates for a step. Call it before each step.
  void prepare(std::int64_t step, std::int64_t epoch);

  /// Passes metrics to PlateauSchedule. Call it after each validation.
  /// Throws: Error(kRecipe) if PlateauSchedule's metric is not among `metrics`. The message lists `metrics`.
  void observe(const std::map<std::string, double>& metrics);

  /// Returns the state of PlateauSchedule, for a snapshot. Empty for all others.
  std::map<std::string, double> state() const;
  void restore(const std::map<std::string, double>& state);

 private:
  double rate(std::size_t group, std::int64_t t) const;
  void set_momentum(std::int64_t t);
  void set_own(const OwnSchedule& own, std::int64_t t);

  ScheduleOptions options_;
  torch::optim::Optimizer& optimizer_;
  std::vector<double> base_rates_;
  std::vector<double> shares_;  ///< Each group's base rate over the optimizer's, for OneCycleSchedule.
  std::vector<double> plateau_rates_;
  double best_ = 0;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace lockstep
