// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/record/ask_run.h"

namespace lockstep::cli {
namespace {

void stop_local(const std::filesystem::path& run) {
  if (!ask_to_stop(run)) {
    throw Error(ErrorKind::kEnvironment, "nobody trains in '" + run.string() + "'",
                "it has ended, or has not taken its first step yet");
  }
  print_text("the run writes a snapshot and ends\n");
}

}  // namespace

void add_stop(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("stop", "Stop a run; a recipe's run writes a snapshot first");
  auto run = std::make_shared<std::string>();
  command->add_option("RUN", *run, "The run: its folder, its name or its Slurm job id")->required();
  command->callback([run, &context] {
    if (const auto local = local_run(*run, run_places(context.env))) return stop_local(*local);
    const SlurmQueue view(context.env);
    // Asks Slurm again. A job that has just begun to run is stopped in another way than one that waits.
    view.forget();
    const auto done = stop_run(run_job(*run, run_places(context.env)), view.jobs(), context.env);
    view.forget();
    print_text(done + "\n");
  });
}

}  // namespace lockstep::cli
