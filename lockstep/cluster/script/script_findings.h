// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/doctor/doctor.h"
#include "lockstep/cluster/profile/profile.h"
#include "lockstep/cluster/script/batch_file.h"

namespace lockstep {

/// A finding: one thing in a batch script that is not as the job needs it. docs/cluster/job-scripts.md has a heading
/// for each code.
struct ScriptFinding {
  std::string code{};
  Severity severity = Severity::kNote;
  int line = 0;        ///< Line in the batch script. 0 if it is about a missing line.
  std::string file{};  ///< The script that the line stands in, if it is another one that each task runs.
  std::string fact{};  ///< With the value found and the value wanted.
  std::string fix{};
};

using ScriptFindings = std::vector<ScriptFinding>;

/// A batch script and the facts to check it against.
struct ScriptContext {
  const BatchFile& file;
  const Profile& profile;
  bool is_here = false;  ///< True on the cluster that the profile describes, whose folders can then be checked.
  Environment env{};
  std::function<bool(const std::filesystem::path&)> is_folder{};

  /// Returns the partition's or QOS's limits, or null if the profile does not know it.
  const ProfileQueue* queue() const;
  /// True if no other job can be on the job's nodes.
  bool has_whole_nodes() const;
  /// True if the job may get more than one node.
  bool spans_nodes() const;
  /// Returns the job's numbers, overridden by those that `launch` passes to srun.
  SlurmShape step_shape(const LaunchLine& launch) const;
};

/// Returns all findings, sorted by line. Nothing is run.
std::vector<ScriptFinding> script_findings(const ScriptContext& of);

/// True if one of the findings is an error.
bool has_error(const ScriptFindings& findings);

/// Returns the findings as text for a person, errors first, and their number. If there are none, the text says so.
std::string text_of(const ScriptFindings& findings, const BatchFile& file);

/// Returns a finding as an object {"code", "severity", "line", "file", "fact", "fix"}. `file` is null for the batch
/// script itself.
nlohmann::json json_of(const ScriptFinding& finding);

}  // namespace lockstep
