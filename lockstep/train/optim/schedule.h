// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// How the learning rate moves: PyTorch's schedulers by their own names, arguments and defaults. `t` counts the units
/// of ScheduleOptions::by_step from 0.
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

/// CosineAnnealingLR; beyond t_max the rate stays at eta_min.
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

/// OneCycleLR in two phases, annealed by cosine. Momentum (beta1 for Adam) runs the other way round.
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

using Schedule = std::variant<std::monostate, StepSchedule, MultiStepSchedule, ExponentialSchedule, CosineSchedule,
                              LinearSchedule, OneCycleSchedule, PlateauSchedule>;

struct ScheduleOptions {
  Schedule schedule{};
  bool by_step = false;              ///< t counts optimizer steps instead of epochs.
  std::int64_t warmup = 0;           ///< Units in which the rate rises linearly, before the schedule's own t = 0.
  double warmup_start_factor = 0.1;  ///< Of the rate at the warm-up's first unit.
};

/// Sets an optimizer's learning rates. What they are follows from the step and epoch alone, so a resumed run needs no
/// state; only the plateau's has some.
class Scheduler {
 public:
  /// `optimizer` must outlive this object; its rates now are those that the schedule starts from, group by group.
  ///
  /// Throws: Error(kRecipe) where a schedule's numbers make no sense, or it would move a momentum that there is not.
  Scheduler(ScheduleOptions options, torch::optim::Optimizer& optimizer);

  /// A claim: steps differ in momentum too.
  bool moves_momentum() const;

  /// Before each step: sets the rates for it.
  void prepare(std::int64_t step, std::int64_t epoch);

  /// After each validation. Throws: Error(kRecipe) where the plateau's metric is not among them: those that are, are
  /// listed.
  void observe(const std::map<std::string, double>& metrics);

  /// The plateau's numbers, for a snapshot; empty for all others.
  std::map<std::string, double> state() const;
  void restore(const std::map<std::string, double>& state);

 private:
  double rate(double base, std::int64_t t) const;
  void set_momentum(std::int64_t t);

  ScheduleOptions options_;
  torch::optim::Optimizer& optimizer_;
  std::vector<double> base_rates_;
  std::vector<double> plateau_rates_;
  double best_ = 0;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace lockstep
