// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/cli/commands.h"
#include "lockstep/cluster/profile/text.h"
#include "lockstep/cluster/survey/draft_text.h"
#include "lockstep/cluster/survey/live_job.h"
#include "lockstep/cluster/survey/own_profile.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

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

/// Hidden: what a compute node runs for `profile new --live` and `profile check --live`.
void add_node(CLI::App& profile, Context& context) {
  struct Options {
    std::vector<std::string> folders;
    bool is_into_run = false;
  };
  const auto options = std::make_shared<Options>();
  auto* command = profile.add_subcommand("node", "Print what this node is made of")->group("");
  command->add_option("--folder", options->folders, "A folder to look at")->allow_extra_args(false);
  command->add_flag("--into-run", options->is_into_run, "Write it into the run's folder instead");
  command->callback([options, &context] {
    const auto view = look_at_node(context.env, options->folders);
    if (options->is_into_run) return write_view(view, context.env);
    print_json(lockstep::to_json(view));
  });
}

}  // namespace

void add_profile_new(CLI::App& profile, Context& context) {
  const auto wish = std::make_shared<ProfileWish>();
  const auto is_json = std::make_shared<bool>(false);
  auto* command = profile.add_subcommand("new", "Write a profile of the cluster that you sit at");
  command->add_option("NAME", wish->name, "By default Slurm's name of the cluster");
  command->add_option("--partition", wish->partition, "Where your jobs are to run; by default the default one")
      ->type_name("NAME");
  command->add_flag("--live", wish->is_live, "Ask a compute node, too, by a job of two minutes");
  command->add_flag("--stdout", wish->is_printed, "Print the profile, and write no file");
  command->add_flag("--force", wish->is_forced, "Replace a file that is there, and keep it as NAME.toml.old");
  command->add_flag("--json", *is_json, "As one JSON object on standard output");
  command->callback([wish, is_json, &context] { make_profile(*wish, *is_json, context); });
  add_node(profile, context);
}

}  // namespace lockstep::cli
