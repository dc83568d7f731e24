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
#include "lockstep/cli/hand_over.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/profile/schema.h"
#include "lockstep/cluster/profile/text.h"
#include "lockstep/cluster/survey/draft_text.h"
#include "lockstep/cluster/survey/live_job.h"
#include "lockstep/cluster/survey/own_profile.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

struct ProfileRequest {
  std::string name;
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

struct CheckRequest {
  std::vector<std::string> files;
  bool is_live = false;
  bool json = false;
};

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

/// Continues with the next file after a wrong one.
int check(const CheckRequest& request, const Context& context) {
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

int check_live(const CheckRequest& request, const Context& context) {
  if (request.files.size() > 1) {
    throw Error(ErrorKind::kUsage, "--live was given " + std::to_string(request.files.size()) + " profiles, want one",
                "each takes a separate job, so call it once for each");
  }
  const auto report = checked_live(request.files.empty() ? "auto" : request.files.front(), running_lockstep(),
                                   context.env, context.log);
  json differences = json::array();
  std::string out =
      report.profile + ": job " + report.job + " found " + counted(std::ssize(report.differences), "difference") + "\n";
  for (const auto& each : report.differences) {
    differences.push_back({{"key", each.key}, {"found", each.found}, {"wanted", each.wanted}});
    out += "  " + each.key + ": " + each.found + ", want " + each.wanted + "\n";
  }
  if (!report.differences.empty()) {
    out += "mend the profile, or ask the site; the job's log is " + report.log.string() + "\n";
  }
  if (request.json) {
    json nodes = json::array();
    for (const auto& view : report.views) nodes.push_back(to_json(view));
    print_json({{"schema", 1},
                {"profile", report.profile},
                {"job", report.job},
                {"differences", differences},
                {"tasks", nodes}});
  } else {
    print_text(out);
  }
  return report.differences.empty() ? 0 : exit_code(ErrorKind::kEnvironment);
}

json to_json(const NewProfile& made) {
  json keys = json::object();
  for (const auto& [key, source] : made.draft.sources) {
    keys[key] = {{"value", toml_value(made.draft.profile, key)}, {"source", source}};
  }
  json gaps = json::object();
  for (const auto& gap : made.draft.gaps) gaps[gap.key] = gap.how;
  return {{"schema", 1}, {"name", made.name}, {"file", nullptr}, {"keys", keys}, {"not_known", gaps}};
}

std::string next_steps(const NewProfile& made) {
  const auto cluster = made.recognised_as.empty() ? std::string() : " --cluster " + made.name;
  std::string out;
  if (!made.recognised_as.empty()) {
    out += "your profile '" + made.recognised_as + "' is the one that is found here; this one is for --cluster " +
           made.name + "\n";
  }
  if (!made.built_in.empty()) {
    out += "lockstep brings a profile of this system, '" + made.built_in + "', with more in it; yours goes before it\n";
  }
  return out + "next: lockstep profile check --live " + made.name + "; then lockstep submit" + cluster +
         " -- python train.py\n";
}

void make_profile(const ProfileWish& wish, bool is_json, const Context& context) {
  const auto made = new_profile(wish, context.env, context.log);
  if (wish.is_printed && !is_json) {
    print_text(made.toml);
    return;
  }
  auto object = to_json(made);
  std::string out;
  if (!wish.is_printed) {
    const auto old = save(made);
    object["file"] = made.file.string();
    out = "wrote " + made.file.string() + (old.empty() ? "" : "; the old one is " + old.string()) + "\n";
  }
  if (is_json) return print_json(object);
  print_text(out + summary(made.draft) + next_steps(made));
}

/// Adds the hidden command that a compute node runs for `profile new --live` and `profile check --live`.
void add_node(CLI::App& profile, Context& context) {
  struct Options {
    std::vector<std::string> folders;
    bool is_into_run = false;
  };
  const auto options = std::make_shared<Options>();
  auto* command = profile.add_subcommand("node", "Print the hardware and system of this node")->group("");
  command->add_option("--folder", options->folders, "A folder whose file system to describe")->allow_extra_args(false);
  command->add_flag("--into-run", options->is_into_run, "Write it into the run's folder instead");
  command->callback([options, &context] {
    const auto view = look_at_node(context.env, options->folders);
    if (options->is_into_run) return write_view(view, context.env);
    print_json(lockstep::to_json(view));
  });
}

void add_check(CLI::App& profile, Context& context) {
  const auto request = std::make_shared<CheckRequest>();
  auto* command = profile.add_subcommand("check", "Check profiles, and list the facts that are unverified");
  command->add_flag("--json", request->json, "Print one JSON object on standard output");
  command->add_flag("--live", request->is_live, "Test one in a two-minute job on a compute node");
  command->add_option("FILE", request->files, "TOML files or profile names (default with --live: this cluster's)");
  command->callback([request, &context] {
    if (request->is_live) {
      context.exit_code = check_live(*request, context);
      return;
    }
    if (request->files.empty()) {
      throw Error(ErrorKind::kUsage, "profile check was given no FILE, want a profile's name or file",
                  "`lockstep profile ls` lists the names; --live takes the one found here");
    }
    context.exit_code = check(*request, context);
  });
}

void add_new(CLI::App& profile, Context& context) {
  const auto wish = std::make_shared<ProfileWish>();
  const auto is_json = std::make_shared<bool>(false);
  auto* command = profile.add_subcommand("new", "Write a profile of the cluster that you are logged in to");
  command->add_option("NAME", wish->name, "The profile's name (default: Slurm's name of the cluster)");
  command
      ->add_option("--partition", wish->partition,
                   "The partition that your jobs will use (default: the cluster's default partition)")
      ->type_name("NAME");
  command->add_flag("--live", wish->is_live, "Also look at a compute node, by a two-minute job");
  command->add_flag("--stdout", wish->is_printed, "Print the profile instead of writing a file");
  command->add_flag("--force", wish->is_forced, "Replace an existing file, and keep it as NAME.toml.old");
  command->add_flag("--json", *is_json, "Print one JSON object on standard output");
  command->callback([wish, is_json, &context] { make_profile(*wish, *is_json, context); });
  add_node(profile, context);
}

}  // namespace

void add_profile(CLI::App& app, Context& context) {
  auto* profile = app.add_subcommand("profile", "List, show, check and write cluster profiles");
  profile->require_subcommand(1);
  const auto request = std::make_shared<ProfileRequest>();
  const auto add = [&](const char* name, const char* about) {
    auto* command = profile->add_subcommand(name, about);
    command->add_flag("--json", request->json, "Print one JSON object on standard output");
    return command;
  };

  add("ls", "List the profiles, and every key with its help")->callback([request, &context] {
    list(*request, context);
  });

  auto* show_command = add("show", "Print a profile, with your own files applied on top");
  show_command->add_option("PROFILE", request->name, "The profile: a name, a file or auto")->required();
  show_command->add_flag("--origin", request->with_origin, "Show the file and line that each value comes from");
  show_command->callback([request, &context] { show(*request, context); });

  add_check(*profile, context);
  add_new(*profile, context);
}

}  // namespace lockstep::cli
