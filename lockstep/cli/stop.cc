// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/run_job.h"

namespace lockstep::cli {

void add_stop(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("stop", "Stop a submitted run; a recipe writes a snapshot first");
  auto run = std::make_shared<std::string>();
  command->add_option("RUN", *run, "A run folder, its name, or its job's number")->required();
  command->callback([run, &context] {
    const SlurmQueue view(context.env);
    // To stop is worth a question: a job that began to run a moment ago is stopped in another way than one that waits.
    view.forget();
    const auto done = stop_run(run_job(*run, run_places(context.env)), view.jobs(), context.env);
    view.forget();
    print_text(done + "\n");
  });
}

}  // namespace lockstep::cli
