// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/slurm_tool.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lockstep {

Environment environment_for_slurm_tools(const Environment& env) {
  static constexpr std::array<std::string_view, 6> kBegins = {"SQUEUE_",  "SINFO_",    "SACCT_",
                                                              "SCANCEL_", "SCONTROL_", "SLURM_TIME_FORMAT"};
  Environment::Map kept = env.all();
  std::erase_if(kept, [](const auto& variable) {
    const auto& name = variable.first;
    return !name.ends_with("_ALL") && std::ranges::any_of(kBegins, [&](auto begin) { return name.starts_with(begin); });
  });
  return Environment(std::move(kept));
}

ProcessResult run_slurm_tool(const std::vector<std::string>& command, const Environment& env) {
  return run_process(command, environment_for_slurm_tools(env));
}

bool is_unknown_job(const ProcessResult& asked) {
  return asked.exit_code != 0 && asked.errors.find("Invalid job id") != std::string::npos;
}

}  // namespace lockstep
