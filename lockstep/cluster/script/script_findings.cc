// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/script_findings.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/text_format.h"
#include "lockstep/cluster/script/launch_checks.h"
#include "lockstep/cluster/script/shape_checks.h"
#include "lockstep/cluster/script/text_checks.h"
#include "lockstep/cluster/script/variable_checks.h"

namespace lockstep {

const ProfileQueue* ScriptContext::queue() const {
  const auto qos = file.options.has("qos") ? file.options.value("qos") : profile.slurm.qos;
  const auto by_qos = profile.qos.find(qos);
  if (by_qos != profile.qos.end()) return &by_qos->second;
  const auto partition = file.options.has("partition") ? file.options.value("partition") : profile.slurm.partition;
  const auto found = profile.partitions.find(partition);
  return found == profile.partitions.end() ? nullptr : &found->second;
}

bool ScriptContext::has_whole_nodes() const {
  if (file.options.has("exclusive")) return true;
  return queue() != nullptr && queue()->whole_node;
}

bool ScriptContext::spans_nodes() const {
  const auto shape = file.shape();
  return shape.max_nodes.value_or(shape.job_nodes().value_or(2)) > 1;
}

SlurmShape ScriptContext::step_shape(const LaunchLine& launch) const {
  SlurmOptions both = file.options;
  // If srun is given a number of tasks, it replaces both of the job's numbers (--ntasks and --ntasks-per-node).
  const auto counts = [&](const char* name) {
    return launch.srun.has(name) && launch.srun.value(name).find('$') == std::string::npos;
  };
  const bool counts_tasks = counts("ntasks") || counts("ntasks-per-node");
  const bool counts_devices = launch.srun.has("gres") || launch.srun.has("gpus") || launch.srun.has("gpus-per-node") ||
                              launch.srun.has("gpus-per-task");
  std::erase_if(both.list, [&](const auto& option) {
    const bool is_tasks = option.name == "ntasks" || option.name == "ntasks-per-node";
    const bool is_devices = option.name == "gres" || option.name.starts_with("gpus");
    return (counts_tasks && is_tasks) || (counts_devices && is_devices);
  });
  for (const auto& option : launch.srun.list) {
    // `-c $SLURM_CPUS_PER_TASK` repeats the job's own number, so nothing changes.
    if (option.value.find('$') == std::string::npos || !both.has(option.name)) both.list.push_back(option);
  }
  auto shape = slurm_shape(both);
  const auto job = file.shape();
  if (!shape.nodes && job.job_nodes()) shape.nodes = shape.max_nodes = job.job_nodes();
  return shape;
}

std::vector<ScriptFinding> script_findings(const ScriptContext& of) {
  std::vector<ScriptFinding> findings;
  check_script_text(of, findings);
  check_script_shape(of, findings);
  check_script_launch(of, findings);
  check_script_variables(of, findings);
  std::ranges::stable_sort(findings, [](const auto& a, const auto& b) {
    return a.file.empty() != b.file.empty() ? a.file.empty() : a.line < b.line;
  });
  return findings;
}

bool has_error(const ScriptFindings& findings) {
  return std::ranges::find(findings, Severity::kError, &ScriptFinding::severity) != findings.end();
}

std::string text_of(const ScriptFindings& findings, const BatchFile& file) {
  if (findings.empty()) return "nothing found in " + file.name + "\n";
  std::string text;
  std::string counts;
  for (const auto severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    for (const auto& finding : findings) {
      if (finding.severity != severity) continue;
      text += std::string(name_of(severity)) + " " + finding.code + "  [" +
              (finding.file.empty() ? file.name : finding.file);
      if (finding.line > 0) text += ":" + std::to_string(finding.line);
      text += "]\n  " + finding.fact + "\n  fix: " + finding.fix + "\n";
    }
    counts += (counts.empty() ? "" : ", ") +
              counted(std::ranges::count(findings, severity, &ScriptFinding::severity), name_of(severity));
  }
  return text + counts + "; docs/cluster/job-scripts.md explains each code\n";
}

nlohmann::json json_of(const ScriptFinding& finding) {
  nlohmann::json object = {{"code", finding.code}, {"severity", name_of(finding.severity)},
                           {"line", nullptr},      {"file", nullptr},
                           {"fact", finding.fact}, {"fix", finding.fix}};
  if (finding.line > 0) object["line"] = finding.line;
  if (!finding.file.empty()) object["file"] = finding.file;
  return object;
}

}  // namespace lockstep
