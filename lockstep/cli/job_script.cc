// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/job_script.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/cluster/job/batch_script.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/script/our_request.h"
#include "lockstep/cluster/script/script_findings.h"
#include "lockstep/cluster/script/side_by_side.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_if_there(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    return text_of_file(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// A batch script, the profile of its cluster, and the findings.
struct ReadScript {
  BatchFile file;
  Profile profile;
  bool is_here = false;
  ScriptFindings findings{};

  ReadScript(const JobScriptCommand& command, const Environment& env) {
    const auto text = read_if_there(command.path);
    if (!text) {
      throw Error(ErrorKind::kUsage, "there is no batch script '" + command.path + "'", "check the path");
    }
    file = read_batch_file(command.path, *text, read_if_there);
    const ProfileChooser chooser(env);
    profile = chooser.chosen(command.cluster);
    is_here = chooser.is_here(profile);
    findings = script_findings(context(env));
  }

  ScriptContext context(const Environment& env) const {
    const auto is_folder = [](const fs::path& path) {
      std::error_code ignored;
      return fs::is_directory(path, ignored);
    };
    return {.file = file, .profile = profile, .is_here = is_here, .env = env, .is_folder = is_folder};
  }
};

nlohmann::json json_of(const ReadScript& script) {
  nlohmann::json object = {{"schema", 1}, {"script", script.file.name}, {"cluster", script.profile.name}};
  object["findings"] = nlohmann::json::array();
  for (const auto& finding : script.findings) object["findings"].push_back(lockstep::json_of(finding));
  return object;
}

/// Numbers as sbatch reads them. Null for those that the script leaves open.
nlohmann::json json_of(const SlurmShape& shape) {
  const auto value = [](const auto& number) { return number ? nlohmann::json(*number) : nlohmann::json(nullptr); };
  return {{"nodes", value(shape.job_nodes())},
          {"tasks", value(shape.job_tasks())},
          {"cpus_per_task", value(shape.cpus_per_task)},
          {"devices_per_node", value(shape.node_devices())},
          {"memory_mib", value(shape.memory_mib)},
          {"time_s", shape.time ? nlohmann::json(shape.time->count()) : nlohmann::json(nullptr)}};
}

}  // namespace

void print_script_findings(const JobScriptCommand& command, Context& context) {
  const ReadScript script(command, context.env);
  if (command.is_json) {
    auto object = json_of(script);
    object["asks"] = json_of(script.file.shape());
    print_json(object);
  } else {
    print_text(text_of(script.findings, script.file));
  }
  if (has_error(script.findings)) context.exit_code = exit_code(ErrorKind::kEnvironment);
}

void print_script_beside_ours(const JobScriptCommand& command, const SubmitRequest& flags, Context& context) {
  const ReadScript script(command, context.env);
  const auto ours = our_request(script.context(context.env), flags);
  const auto submission = plan_submission(ours.request, running_lockstep(), context.env, context.log);
  const auto text = batch_script(submission.first());
  if (command.is_json) {
    auto object = json_of(script);
    object["ours"] = text;
    object["command"] = ours.arguments;
    object["left_out"] = ours.left_out;
    return print_json(object);
  }
  print_text(side_by_side({.theirs = script.file,
                           .ours = text,
                           .findings = script.findings,
                           .request = ours,
                           .cluster = script.profile.name,
                           .columns = columns_of(context.env)}));
}

}  // namespace lockstep::cli
