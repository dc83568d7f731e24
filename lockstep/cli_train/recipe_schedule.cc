// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/recipe_schedule.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

// Returns the epochs or steps of the whole run. If the recipe only limits the steps, the number of epochs follows from
// that.
std::int64_t planned_length(const TrainingPlan& plan, bool by_step) {
  if (by_step) return plan.steps;
  if (plan.epochs > 0 || plan.steps <= 0 || plan.steps_per_epoch <= 0) return plan.epochs;
  return (plan.steps + plan.steps_per_epoch - 1) / plan.steps_per_epoch;
}

// Returns the length of a schedule, from the recipe, or else the run without the warm-up.
std::int64_t schedule_length(const Recipe& recipe, const std::string& key, std::int64_t run_length) {
  if (recipe.has(key)) return recipe.integer(key);
  if (run_length <= 0) {
    throw Error(ErrorKind::kRecipe, key + " is not set, and the run's length is not known",
                "set it, or trainer.max_epochs or trainer.max_steps");
  }
  const auto warmup = recipe.integer("scheduler.warmup");
  if (warmup < run_length) return run_length - warmup;
  const auto& unit = recipe.text("scheduler.interval");
  throw Error(ErrorKind::kRecipe,
              "scheduler.warmup (" + recipe.origin("scheduler.warmup").where + ") is " + counted(warmup, unit) +
                  ", and the whole run has " + std::to_string(run_length),
              "shorten the warm-up, count it in steps with scheduler.interval = \"step\", or train for longer");
}

OneCycleSchedule one_cycle_of(const Recipe& recipe, std::int64_t run_length) {
  OneCycleSchedule one;
  one.max_lr = recipe.real("scheduler.max_lr");
  one.total_steps = schedule_length(recipe, "scheduler.total_steps", run_length);
  one.pct_start = recipe.real("scheduler.pct_start");
  one.div_factor = recipe.real("scheduler.div_factor");
  one.final_div_factor = recipe.real("scheduler.final_div_factor");
  one.cycle_momentum = recipe.flag("scheduler.cycle_momentum");
  one.base_momentum = recipe.real("scheduler.base_momentum");
  one.max_momentum = recipe.real("scheduler.max_momentum");
  return one;
}

PlateauSchedule plateau_of(const Recipe& recipe) {
  PlateauSchedule plateau;
  plateau.monitor = recipe.text("scheduler.monitor");
  plateau.wants_max = recipe.text("scheduler.mode") == "max";
  plateau.factor = recipe.real("scheduler.factor");
  plateau.patience = recipe.integer("scheduler.patience");
  plateau.threshold = recipe.real("scheduler.threshold");
  plateau.cooldown = recipe.integer("scheduler.cooldown");
  plateau.min_lr = recipe.real("scheduler.min_lr");
  return plateau;
}

}  // namespace

ScheduleOptions schedule_of(const Recipe& recipe, const TrainingPlan& plan) {
  ScheduleOptions options;
  options.by_step = recipe.text("scheduler.interval") == "step";
  options.warmup = recipe.integer("scheduler.warmup");
  options.warmup_start_factor = recipe.real("scheduler.warmup_start_factor");
  const auto run_length = planned_length(plan, options.by_step);
  const auto& name = recipe.text("scheduler.name");
  if (name == "step") {
    options.schedule = StepSchedule{recipe.integer("scheduler.step_size"), recipe.real("scheduler.gamma")};
  } else if (name == "multistep") {
    options.schedule = MultiStepSchedule{recipe.integers("scheduler.milestones"), recipe.real("scheduler.gamma")};
  } else if (name == "exponential") {
    options.schedule = ExponentialSchedule{recipe.real("scheduler.gamma")};
  } else if (name == "cosine") {
    options.schedule =
        CosineSchedule{schedule_length(recipe, "scheduler.T_max", run_length), recipe.real("scheduler.eta_min")};
  } else if (name == "linear") {
    options.schedule = LinearSchedule{recipe.real("scheduler.start_factor"), recipe.real("scheduler.end_factor"),
                                      recipe.integer("scheduler.total_iters")};
  } else if (name == "onecycle") {
    options.schedule = one_cycle_of(recipe, run_length);
  } else if (name == "plateau") {
    options.schedule = plateau_of(recipe);
  }
  return options;
}

}  // namespace lockstep
