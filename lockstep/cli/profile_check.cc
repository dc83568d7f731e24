// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/profile/text.h"
#include "lockstep/cluster/survey/live_job.h"

namespace lockstep::cli {
namespace {

using nlohmann::json;

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

/// Goes on after a bad file.
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
                "each takes a job of its own: call it once for each");
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

}  // namespace

void add_profile_check(CLI::App& profile, Context& context) {
  const auto request = std::make_shared<CheckRequest>();
  auto* command = profile.add_subcommand("check", "Check profiles, and print what in them is unverified");
  command->add_flag("--json", request->json, "As one JSON object on standard output");
  command->add_flag("--live", request->is_live, "Try one in a job of two minutes on a compute node");
  command->add_option("FILE", request->files, "TOML files, or names of profiles; with --live by default the one found");
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

}  // namespace lockstep::cli
