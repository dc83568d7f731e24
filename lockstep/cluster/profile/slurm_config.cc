// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/slurm_config.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/slurm_tool.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Slurm itself turns the name into lower case (slurm.conf(5), ClusterName).
std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string name_in(std::string_view text) {
  const auto config = parsed_slurm_config(text);
  const auto found = config.find("ClusterName");
  return found == config.end() ? std::string() : lower(found->second);
}

/// The places where Slurm's commands look for slurm.conf. The last one is used if the controller distributes the file
/// and a daemon stores it.
std::string name_in_files(const Environment& env, const fs::path& root) {
  if (const auto file = env.get("SLURM_CONF")) return name_in(text_or_nothing(*file));
  for (const auto* file : {"etc/slurm/slurm.conf", "etc/slurm-llnl/slurm.conf", "run/slurm/conf/slurm.conf"}) {
    if (auto name = name_in(text_or_nothing(root / file)); !name.empty()) return name;
  }
  return {};
}

std::string name_by_controller(const Environment& env) {
  try {
    const auto asked = run_slurm_tool({"timeout", "10", "scontrol", "show", "config"}, env);
    return asked.exit_code == 0 ? name_in(asked.output) : std::string();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

SlurmConfig parsed_slurm_config(std::string_view text) {
  SlurmConfig config;
  for (const auto& line : split(text, '\n')) {
    const auto body = trimmed(std::string_view(line).substr(0, line.find('#')));
    const auto equals = body.find('=');
    if (equals == std::string_view::npos) continue;
    const auto name = trimmed(body.substr(0, equals));
    const auto value = trimmed(body.substr(equals + 1));
    if (name.empty() || value.empty() || value == "(null)" || value == "N/A") continue;
    config.emplace(name, value);
  }
  return config;
}

std::string known_slurm_cluster_name(const Environment& env, const std::filesystem::path& root) {
  if (const auto name = env.get("SLURM_CLUSTER_NAME")) return lower(*name);
  return name_in_files(env, root);
}

std::string slurm_cluster_name(const Environment& env, const std::filesystem::path& root) {
  auto name = known_slurm_cluster_name(env, root);
  return name.empty() ? name_by_controller(env) : name;
}

}  // namespace lockstep
