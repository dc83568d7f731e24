// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/cli_train/describe_command.h"
#include "lockstep/cli_train/eval_command.h"
#include "lockstep/cli_train/find_command.h"
#include "lockstep/cli_train/train_command.h"

// `lockstep` starts this program, and has checked the command line before. Remaining errors are reported in the same
// way.
int main(int argc, char** argv) {
  const lockstep::Environment env = lockstep::Environment::of_process();
  const lockstep::Log log(2, "lockstep: ");
  try {
    CLI::App app("The training half of Lockstep", "lockstep-train");
    app.require_subcommand(1);
    lockstep::TrainRequest train;
    lockstep::bind_options(*app.add_subcommand("train", "Trains a recipe"), train);
    lockstep::EvalRequest evaluation;
    auto* eval = app.add_subcommand("eval", "Evaluates a run");
    auto* predict = app.add_subcommand("predict", "Writes a run's predictions");
    lockstep::bind_options(*eval, evaluation, /*predicts=*/false);
    lockstep::bind_options(*predict, evaluation, /*predicts=*/true);
    lockstep::DescribeRequest description;
    auto* describe =
        app.add_subcommand("describe", "Sizes and times of a recipe's training, as JSON, for `lockstep plan`");
    lockstep::bind_options(*describe, description.train);
    describe->add_option("--batch", description.batches, "Samples of one rank to time; may be repeated");
    describe->add_flag("--count-only", description.counts_only, "Time nothing");
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& help) {
      return app.exit(help);
    } catch (const CLI::ParseError& complaint) {
      throw lockstep::Error(lockstep::ErrorKind::kUsage, complaint.what(),
                            "`lockstep train --help` shows what there is");
    }
    if (eval->parsed()) return lockstep::run_eval(evaluation, env);
    if (predict->parsed()) return lockstep::run_predict(evaluation, env);
    if (describe->parsed()) return lockstep::run_describe(description, env);
    return train.find.empty() ? lockstep::run_train(train, env) : lockstep::run_find(train, env);
  } catch (const lockstep::Error& error) {
    log.error(error.what());
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    log.error(std::string(error.what()) + "\n  hint: this is a bug in Lockstep; please report it");
    return exit_code(lockstep::ErrorKind::kBug);
  }
}
