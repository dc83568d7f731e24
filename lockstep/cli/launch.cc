// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/launch/local/launcher.h"

namespace lockstep::cli {

void add_launch(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("launch", "Start N ranks of any program on this machine");
  auto ranks = std::make_shared<int>(1);
  command->add_option("-n,--ranks", *ranks, "Number of ranks")->required()->type_name("N");
  context.program_takers.push_back(command);
  command->footer(examples_section(
      {{"lockstep launch -n 2 -- python train.py",
        "Start two ranks. Each has RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. For a recipe, "
        "`lockstep train RECIPE --devices 2` starts the ranks itself."}},
      static_cast<std::size_t>(columns_of(context.env))));
  command->callback([&context, ranks] {
    context.exit_code = run_local({.command = context.program,
                                   .ranks = *ranks,
                                   .run_dir = context.env.get("LOCKSTEP_RUN_DIR").value_or(""),
                                   .stop_grace = stop_grace(context.env)},
                                  context.env, context.log);
  });
}

}  // namespace lockstep::cli
