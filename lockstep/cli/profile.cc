// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/profile/schema.h"
#include "lockstep/cluster/profile/text.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

struct ProfileRequest {
  std::string name;
  std::vector<std::string> files;
  bool with_origin = false;
  bool json = false;
};

void list(const ProfileRequest& request, const Context& context) {
  const ProfileLibrary library(context.env);
  const auto here = library.detected(HostFacts::of_process(context.env)).name;
  json profiles = json::array();
  std::string out = "Profiles, for --cluster NAME (* is the one found here):\n";
  const auto columns = static_cast<std::size_t>(columns_of(context.env));
  std::size_t width = 0;
  for (const auto& name : library.names()) width = std::max(width, name.size() + 4);
  for (const auto& name : library.names()) {
    const auto profile = library.named(name);
    profiles.push_back({{"name", name},
                        {"description", profile.about.description},
                        {"date", profile.about.date},
                        {"here", name == here}});
    out += list_row((name == here ? "* " : "  ") + name, width, profile.about.description, columns);
  }
  json keys = json::array();
  out += "\nKeys, a * standing for a name:\n";
  for (const auto& row : profile_schema()) {
    keys.push_back({{"key", row.key}, {"help", row.help}, {"wanted", wanted(row)}});
    out += list_row("  " + std::string(row.key), 34, std::string(row.help) + " (" + wanted(row) + ")", columns);
  }
  if (request.json) return print_json({{"profiles", profiles}, {"keys", keys}});
  print_text(out);
}

void show(const ProfileRequest& request, const Context& context) {
  const auto profile = ProfileLibrary(context.env).chosen(request.name, HostFacts::of_process(context.env));
  if (!request.json) {
    return print_text("# " + profile.name + ": " + profile.about.description + "\n" +
                      to_toml(profile, request.with_origin));
  }
  json keys = json::object();
  const auto& doubtful = profile.about.unverified;
  for (const auto& key : given_keys(profile)) {
    keys[key] = {{"value", toml_value(profile, key)},
                 {"origin", profile.origin(key)},
                 {"unverified", std::ranges::find(doubtful, key) != doubtful.end()}};
  }
  print_json({{"name", profile.name}, {"keys", keys}});
}

std::string report_of(const std::string& file, const Profile& profile, const ProfileFindings& found) {
  std::string out = file + ": " + (found.faults.empty() ? "ok" : std::to_string(found.faults.size()) + " faults") +
                    ", facts of " + (profile.about.date.empty() ? "unknown date" : profile.about.date) + "\n";
  for (const auto& fault : found.faults) out += "  fault: " + fault + "\n";
  for (const auto& key : found.unverified) {
    out += "  unverified: " + key;
    if (profile.origins.contains(key)) out += " = " + toml_value(profile, key) + " (" + profile.origin(key) + ")";
    out += "\n";
  }
  return out;
}

/// Goes on after a bad file.
int check(const ProfileRequest& request, const Context& context) {
  int exit_with = 0;
  json files = json::array();
  const ProfileLibrary library(context.env);
  for (const auto& file : request.files) {
    try {
      const auto profile = library.named(file);
      const auto found = checked(profile);
      if (!found.faults.empty()) exit_with = exit_code(ErrorKind::kRecipe);
      files.push_back({{"file", file}, {"error", nullptr}, {"faults", found.faults}, {"unverified", found.unverified}});
      if (!request.json) print_text(report_of(file, profile, found));
    } catch (const Error& error) {
      exit_with = exit_code(error.kind());
      files.push_back({{"file", file}, {"error", error.what()}, {"faults", {}}, {"unverified", {}}});
      if (!request.json) context.log.error(error.what());
    }
  }
  if (request.json) print_json({{"files", files}});
  return exit_with;
}

}  // namespace

void add_profile(CLI::App& app, Context& context) {
  auto* profile = app.add_subcommand("profile", "List, show and check what is known of clusters");
  profile->require_subcommand(1);
  const auto request = std::make_shared<ProfileRequest>();
  const auto add = [&](const char* name, const char* about) {
    auto* command = profile->add_subcommand(name, about);
    command->add_flag("--json", request->json, "As one JSON object on standard output");
    return command;
  };

  add("ls", "List the profiles, and every key with its help")->callback([request, &context] {
    list(*request, context);
  });

  auto* show_command = add("show", "Print a profile, its own files laid over what it stands on");
  show_command->add_option("PROFILE", request->name, "A profile's name, its file, or auto")->required();
  show_command->add_flag("--origin", request->with_origin, "Say beside each value which file and line it is from");
  show_command->callback([request, &context] { show(*request, context); });

  auto* check_command = add("check", "Check profiles, and print what in them is unverified");
  check_command->add_option("FILE", request->files, "TOML files, or names of profiles")->required();
  check_command->callback([request, &context] { context.exit_code = check(*request, context); });
}

}  // namespace lockstep::cli
