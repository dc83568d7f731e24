// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipe/eval_request.h"

namespace lockstep::cli {
namespace {

int run(const char* name, const EvalRequest& request, const Context& context) {
  if (request.devices < 1) {
    throw Error(ErrorKind::kUsage, "--devices is " + std::to_string(request.devices) + ", want 1 or more",
                "leave it out for one rank");
  }
  RunFolder::open(request.run);
  const bool is_alone = placement_from(context.env).world == 1;
  std::vector<std::string> arguments = {name};
  const auto own = arguments_of(request);
  arguments.insert(arguments.end(), own.begin(), own.end());
  return hand_over({.arguments = arguments, .ranks = is_alone ? request.devices : 1}, context);
}

void add(CLI::App& app, Context& context, const char* name, const char* help, bool predicts) {
  auto* command = app.add_subcommand(name, help);
  auto request = std::make_shared<EvalRequest>();
  bind_options(*command, *request, predicts);
  command->callback([&context, name, request] { context.exit_code = run(name, *request, context); });
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  add(app, context, "eval", "Evaluate a run's weights on a split of its data set", /*predicts=*/false);
}

void add_predict(CLI::App& app, Context& context) {
  add(app, context, "predict", "Write a run's predictions for each sample, in order, as CSV", /*predicts=*/true);
}

}  // namespace lockstep::cli
