// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/program.h"

#include <CLI/CLI.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/cli_train/describe_command.h"
#include "lockstep/cli_train/eval_command.h"
#include "lockstep/cli_train/find_command.h"
#include "lockstep/cli_train/freed_memory.h"
#include "lockstep/cli_train/train_command.h"

namespace lockstep {

int run_program(int argc, const char* const* argv, PythonHost* python) {
  const Environment env = Environment::of_process();
  keep_freed_memory(env);
  const TrainerProcess process{.env = env, .arguments = {argv + 1, argv + argc}, .python = python};
  const Log log(2, "lockstep: ");
  try {
    CLI::App app("The training half of Lockstep", "lockstep-train");
    app.require_subcommand(1);
    TrainRequest train;
    bind_options(*app.add_subcommand("train", "Trains a recipe"), train);
    EvalRequest evaluation;
    auto* eval = app.add_subcommand("eval", "Evaluates a run");
    auto* predict = app.add_subcommand("predict", "Writes a run's predictions");
    bind_options(*eval, evaluation, /*predicts=*/false);
    bind_options(*predict, evaluation, /*predicts=*/true);
    DescribeRequest description;
    auto* describe =
        app.add_subcommand("describe", "Sizes and times of a recipe's training, as JSON, for `lockstep plan`");
    bind_options(*describe, description.train);
    describe->add_option("--batch", description.batches, "Samples of one rank to time; may be repeated");
    describe->add_flag("--count-only", description.counts_only, "Time nothing");
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& help) {
      return app.exit(help);
    } catch (const CLI::ParseError& complaint) {
      throw Error(ErrorKind::kUsage, complaint.what(), "`lockstep train --help` shows what there is");
    }
    if (eval->parsed()) return run_eval(evaluation, process);
    if (predict->parsed()) return run_predict(evaluation, process);
    if (describe->parsed()) return run_describe(description, process);
    return train.find.empty() ? run_train(train, process) : run_find(train, process);
  } catch (...) {
    return report_failure(log);
  }
}

}  // namespace lockstep
