// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/cli/plan_data.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/plan/machine.h"
#include "lockstep/cluster/plan/text.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/record/scaling.h"
#include "lockstep/launch/process.h"
#include "lockstep/recipe/builtin.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep::cli {
namespace {

struct PlanOptions {
  std::string recipe;
  std::vector<std::string> sets;
  std::vector<int> nodes = {1, 2, 4, 8};
  std::string cluster = "auto";
  int devices = 0;
  std::vector<std::string> measured;
  std::string facts;
  std::string samples;
  bool json = false;
};

/// The recipe and the cluster for which a plan is made.
struct Subject {
  Recipe recipe;
  Profile profile;
  PlanSchedule schedule;
  PlanTarget target;
};

PlanSchedule schedule_of(const Recipe& recipe) {
  const auto whole = [&](const char* key) { return recipe.has(key) ? recipe.integer(key) : 0; };
  PlanSchedule schedule;
  schedule.global_batch = whole("data.global_batch");
  schedule.batch = whole("data.batch");
  schedule.accumulate = recipe.integer("trainer.accumulate");
  schedule.drop_last = recipe.flag("data.drop_last");
  schedule.bucket_bytes = recipe.real("trainer.bucket_mb") * (1 << 20);
  schedule.epochs = whole("trainer.max_epochs");
  schedule.max_steps = whole("trainer.max_steps");
  if (recipe.has("trainer.max_time")) schedule.max_s = recipe.real("trainer.max_time");
  schedule.validate_every = recipe.integer("trainer.validate_every");
  schedule.save_every = whole("snapshot.every_epochs");
  return schedule;
}

int ranks_of_node(const PlanOptions& options, const Recipe& recipe, const Profile& profile) {
  if (options.devices > 0) return options.devices;
  if (recipe.has("trainer.devices")) return static_cast<int>(recipe.integer("trainer.devices"));
  return static_cast<int>(std::max<std::int64_t>(1, profile.devices.count));
}

Subject subject_of(const PlanOptions& options, const Context& context) {
  const ProfileChooser chooser(context.env);
  Subject subject{.recipe = Recipe::load(recipe_file(options.recipe, this_program()), context.env,
                                         overrides_of(options.sets), Gaps::kAllowed),
                  .profile = chooser.chosen(options.cluster),
                  .schedule = {},
                  .target = {}};
  subject.schedule = schedule_of(subject.recipe);
  subject.target.ranks = ranks_of_node(options, subject.recipe, subject.profile);
  const bool has_graph = subject.recipe.text("trainer.graph") != "off";
  subject.target.launch = has_graph ? LaunchWay::kGraph : LaunchWay::kEager;
  subject.target.is_compiled = subject.recipe.has("model.compiled");
  // Steps timed here on CPUs do not show the speed of a node's devices.
  subject.target.is_here = chooser.is_here(subject.profile) && subject.profile.devices.count == 0;
  return subject;
}

/// Returns the smallest and the largest batch of the ranks. The time of batches between these is close to a straight
/// line, so two are enough.
std::vector<std::int64_t> batches_to_time(const Subject& subject, const std::vector<int>& nodes) {
  std::set<std::int64_t> all;
  for (const int each : nodes) {
    all.insert(static_cast<std::int64_t>(batch_of_rank(subject.schedule, each * subject.target.ranks)));
  }
  if (all.size() == 1) return {*all.begin()};
  return {*all.begin(), *all.rbegin()};
}

/// Runs `lockstep-train describe` on this machine and returns its output. Nothing if it failed, after it has printed
/// why.
std::optional<TrainingFacts> described(const PlanOptions& options, const Subject& subject, Context& context) {
  const auto trainer = trainer_program(running_lockstep(), context.env);
  const int cores = static_cast<int>(std::ssize(cpus_of_process()));
  // If there were more ranks than cores, the measured times would include waiting for each other.
  const int ranks = subject.target.is_here ? std::min(subject.target.ranks, cores) : 1;
  std::vector<std::string> command;
  if (ranks > 1) command = {this_program().string(), "launch", "-n", std::to_string(ranks), "--"};
  command.insert(command.end(), {trainer, "describe", recipe_file(options.recipe, this_program()).string()});
  const auto data = plan_data(subject.recipe, options.sets, options.samples);
  if (data) context.log.info(data->note);
  for (const auto& text : data ? data->sets : options.sets) command.insert(command.end(), {"--set", text});
  for (const char* text : {"cluster.nodes=1", "trainer.accelerator=auto"}) {
    command.insert(command.end(), {"--set", text});
  }
  command.insert(command.end(), {"--devices", std::to_string(ranks)});
  if (subject.target.is_here) {
    for (const auto batch : batches_to_time(subject, options.nodes)) {
      command.insert(command.end(), {"--batch", std::to_string(batch)});
    }
  } else {
    command.emplace_back("--count-only");
  }
  const auto result = run_process(command, context.env);
  if (result.exit_code == 0) return facts_of_json(result.output, "`lockstep-train describe`");
  std::cerr << result.errors;
  context.exit_code = result.exit_code;
  return std::nullopt;
}

/// Sets the account's remaining budget, if the job is for the site of this machine.
void take_budget(PlanMachine& machine, const Subject& subject, const Context& context) {
  if (!ProfileChooser(context.env).is_here(subject.profile)) return;
  machine.account =
      subject.recipe.has("cluster.account") ? subject.recipe.text("cluster.account") : subject.profile.slurm.account;
  machine.budget = account_budget(machine.account, machine.billing.unit, context.env);
}

void plan(const PlanOptions& options, Context& context) {
  check_nodes(options.nodes);
  auto subject = subject_of(options, context);
  for (const auto& each : options.measured) {
    const auto run = figures_of_run(named_folder(each, run_places(context.env)));
    subject.target.measured.push_back(
        {.at = {run.nodes, run.ranks / run.nodes}, .seconds = run.step_s, .batch = run.batch});
  }
  subject.target.measured_in = joined(options.measured, ", ");
  const auto facts = options.facts.empty() ? described(options, subject, context)
                                           : facts_of_json(text_of_file(options.facts), options.facts);
  if (!facts) return;
  subject.target.is_here = subject.target.is_here && facts->is_timed;
  PlanQuestion question{.facts = *facts,
                        .schedule = subject.schedule,
                        .machine = plan_machine(subject.profile, *facts, subject.target),
                        .nodes = options.nodes};
  take_budget(question.machine, subject, context);
  const auto points = predicted(question);
  if (options.json) return print_json(plan_json(question, points));
  print_text(plan_text(question, points));
}

}  // namespace

void check_nodes(const std::vector<int>& nodes) {
  for (const int each : nodes) {
    if (each > 0) continue;
    throw Error(ErrorKind::kUsage, "--nodes has " + std::to_string(each) + ", want whole numbers from 1 on",
                "for example --nodes 1,2,4");
  }
}

void add_plan(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("plan", "Predict memory, step time, epoch time and efficiency for each number of nodes");
  auto options = std::make_shared<PlanOptions>();
  command->add_option("RECIPE", options->recipe, "The recipe: a TOML file, or the name of a built-in recipe")
      ->required();
  command->add_option("--nodes", options->nodes, "Numbers of nodes, for example 1,2,4")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,N…");
  command->add_option("--set", options->sets, "Set one setting of the recipe; may be repeated")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--cluster", options->cluster, "The cluster's profile: a name, a file or auto (default: auto)")
      ->type_name("NAME");
  command->add_option("--devices", options->devices, "Ranks on each node")->type_name("N");
  command
      ->add_option("--measured", options->measured,
                   "A run on that cluster whose measured steps to predict from, by folder or name; may be repeated")
      ->allow_extra_args(false)
      ->type_name("RUN");
  command->add_option("--facts", options->facts, "The saved output of `lockstep-train describe`, instead of running it")
      ->type_name("FILE");
  command
      ->add_option("--samples", options->samples,
                   "Samples to train on and to validate on, if the data set is not on this machine")
      ->type_name("N[,VALIDATION]");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([&context, options] { plan(*options, context); });
}

}  // namespace lockstep::cli
