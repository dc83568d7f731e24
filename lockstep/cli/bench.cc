// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/recipe/bench_request.h"

namespace lockstep::cli {

void add_bench(CLI::App& app, Context& context) {
  auto* bench = app.add_subcommand("bench", "Measure one part of training alone");
  bench->require_subcommand(1);
  auto* loader =
      bench->add_subcommand("loader", "Measure how many samples a second are read and decoded, and compare data sets");
  auto request = std::make_shared<LoaderBenchRequest>();
  bind_options(*loader, *request);
  loader->callback([request, &context] {
    std::vector<std::string> arguments = {"bench-loader"};
    const auto own = arguments_of(*request);
    arguments.insert(arguments.end(), own.begin(), own.end());
    hand_over_data(arguments, context.env);
  });
}

}  // namespace lockstep::cli
