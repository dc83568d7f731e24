// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/launch/local_launcher.h"

namespace lockstep::cli {

void add_launch(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("launch", "Start N ranks of any program on this machine: launch -n N -- CMD…");
  auto ranks = std::make_shared<int>(1);
  command->add_option("-n,--ranks", *ranks, "How many ranks")->required()->type_name("N");
  // CMD is left as it is: an option of its own, a bracket or a second `--` must reach the program untouched.
  command->prefix_command();
  command->callback([&context, command, ranks] {
    std::vector<std::string> program = command->remaining();
    if (!program.empty() && program.front() == "--") program.erase(program.begin());
    context.exit_code = run_local({.command = std::move(program), .ranks = *ranks}, context.env, context.log);
  });
}

}  // namespace lockstep::cli
