// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "lockstep/cli/commands.h"

namespace lockstep::cli {

void add_version(CLI::App& app, Context&) {
  struct Flags {
    bool version = false;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  auto* version = app.add_flag("--version", flags->version, "Print the version and exit");
  app.add_flag("--json", flags->json, "With --version: print one JSON object")->needs(version);
  app.callback([flags] {
    if (!flags->version) return;
    if (flags->json) {
      print_json({{"name", "lockstep"}, {"version", LOCKSTEP_VERSION}});
    } else {
      print_text("lockstep " LOCKSTEP_VERSION "\n");
    }
  });
}

}  // namespace lockstep::cli
