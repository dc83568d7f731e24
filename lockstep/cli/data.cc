// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/data_fetch.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/recipe/data_request.h"

namespace lockstep::cli {
namespace {

struct FetchOptions {
  std::string set;
  std::string to;
  std::string from;
  bool json = false;
};

void run_fetch(const FetchOptions& options, const Context& context) {
  const OnlineSet set = online_set(options.set);
  const std::string mirror = options.from.empty() ? context.env.get("LOCKSTEP_DATA_MIRROR").value_or("") : options.from;
  const FetchedSet fetched = fetch(set, options.to, mirror, context);
  if (options.json) {
    return print_json({{"schema", 1},
                       {"name", set.name},
                       {"kind", set.kind},
                       {"path", fetched.path.string()},
                       {"fetched", fetched.fetched},
                       {"bytes", fetched.bytes}});
  }
  const bool was_there = fetched.fetched.empty();
  print_text(fetched.path.string() + ": " + set.name + (set.about.empty() ? "" : ", " + set.about) +
             (was_there ? "; was there already" : "; " + human_bytes(fetched.bytes) + " fetched, all sums right") +
             "\n  data.kind = \"" + set.kind + "\", data.path = \"" + fetched.path.string() + "\"\n");
}

void add_fetch(CLI::App& data, Context& context) {
  auto* command = data.add_subcommand("fetch", "Download a data set and verify its checksums");
  auto options = std::make_shared<FetchOptions>();
  command->add_option("SET", options->set, joined(online_set_names(), ", ") + ", or a TOML file that describes a set")
      ->required();
  command->add_option("--to", options->to, "The folder to write it to")->type_name("DIR")->required();
  command
      ->add_option("--from", options->from,
                   "A mirror: the URL or folder that holds the set's files (default: $LOCKSTEP_DATA_MIRROR)")
      ->type_name("URL");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([options, &context] { run_fetch(*options, context); });
}

struct HandedOver {
  DataCommand command;
  const char* name;
  const char* help;
};

constexpr HandedOver kHandedOver[] = {
    {DataCommand::kConvert, "convert", "Write a folder of images into one HDF5 file, without re-encoding them"},
    {DataCommand::kVerify, "verify", "Read and decode every sample; exit 0 only if all are intact"},
    {DataCommand::kInfo, "info", "Show what a data set holds"},
};

void add_handed_over(CLI::App& data, const HandedOver& what, const Context& context) {
  auto* command = data.add_subcommand(what.name, what.help);
  auto request = std::make_shared<DataRequest>();
  bind_options(*command, *request, what.command);
  command->callback([name = what.name, request, &context] {
    std::vector<std::string> arguments = {name};
    const auto own = arguments_of(*request);
    arguments.insert(arguments.end(), own.begin(), own.end());
    hand_over_data(arguments, context.env);
  });
}

}  // namespace

void add_data(CLI::App& app, Context& context) {
  auto* data = app.add_subcommand("data", "Download, convert, verify and describe data sets");
  data->require_subcommand(1);
  add_fetch(*data, context);
  for (const auto& each : kHandedOver) add_handed_over(*data, each, context);
}

}  // namespace lockstep::cli
