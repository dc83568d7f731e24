// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "lockstep/cli/commands.h"
#include "lockstep/launch/placement/host_list.h"

namespace lockstep::cli {

void add_hosts(CLI::App& app, Context&) {
  auto* command = app.add_subcommand("hosts", "Expand a Slurm host list, one name per line");
  auto expression = std::make_shared<std::string>();
  command->add_option("EXPR", *expression, "The host list, for example 'n[008-011,20]'")->required();
  command->callback([expression] {
    std::string lines;
    for (const auto& host : expanded_hosts(*expression)) lines.append(host).push_back('\n');
    print_text(lines);
  });
}

}  // namespace lockstep::cli
