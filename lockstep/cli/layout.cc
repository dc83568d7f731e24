// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/cli/commands.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep::cli {
namespace {

nlohmann::json json_of(const Placement& at) {
  nlohmann::json object = {{"rank", at.rank},
                           {"world", at.world},
                           {"local_rank", at.local_rank},
                           {"local_world", at.local_world},
                           {"node_rank", at.node_rank},
                           {"nodes", at.nodes},
                           {"device", nullptr},
                           {"source", at.source},
                           {"job", nullptr},
                           {"restart", at.restart},
                           {"master", nullptr},
                           {"hosts", at.hosts}};
  if (at.device) object["device"] = *at.device;
  if (!at.job.empty()) object["job"] = at.job;
  if (at.master) object["master"] = at.master->address + ":" + std::to_string(at.master->port);
  return object;
}

std::string placement_table(const Placement& at) {
  const auto of = [](int part, int whole) { return std::to_string(part) + " of " + std::to_string(whole); };
  std::string text;
  const auto line = [&text](const std::string& name, const std::string& value) {
    text += name + std::string(12 - name.size(), ' ') + value + "\n";
  };
  line("source", at.source);
  line("rank", of(at.rank, at.world));
  line("local rank", of(at.local_rank, at.local_world));
  line("node", of(at.node_rank, at.nodes));
  line("device", at.device ? std::to_string(*at.device) : "none visible");
  if (!at.job.empty()) line("job", at.job + (at.restart > 0 ? ", restart " + std::to_string(at.restart) : ""));
  if (at.master) line("master", at.master->address + ":" + std::to_string(at.master->port));
  if (!at.hosts.empty()) line("hosts", at.hosts.front() + (at.hosts.size() > 1 ? " … " + at.hosts.back() : ""));
  return text;
}

}  // namespace

void add_layout(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("layout", "Show this process's rank, the world size, and which variables they come from");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object on standard output");
  command->callback([&context, json] {
    const Placement at = placement_from(context.env);
    if (*json) {
      print_json(json_of(at));
    } else {
      print_text(placement_table(at));
    }
  });
}

}  // namespace lockstep::cli
