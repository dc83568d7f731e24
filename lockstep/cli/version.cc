// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "lockstep/cli/command.h"

namespace lockstep::cli {

void add_version(CLI::App& app, Context&) {
  auto json = std::make_shared<bool>(false);
  auto* version = app.add_flag("--version", "Print the version");
  app.add_flag("--json", *json, "With --version: as one JSON object")->needs(version);
  app.callback([version, json] {
    if (version->count() == 0) return;
    if (*json) {
      print_json({{"name", "lockstep"}, {"version", LOCKSTEP_VERSION}});
    } else {
      print_text("lockstep " LOCKSTEP_VERSION "\n");
    }
  });
}

}  // namespace lockstep::cli
