// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep {

/// A site's charge for a job, in its own unit.
struct JobBilling {
  std::string unit = "node-hours";  ///< Or "GPU-hours", "core-hours".
  double per_hour = 0;              ///< Of all nodes together. 0 if nothing is known but the nodes.

  /// Returns the price of `seconds` on `nodes` nodes.
  double hours(double seconds, int nodes) const { return seconds * (per_hour > 0 ? per_hour : nodes) / 3600; }
};

/// Returns "32 GPU-hours", "0.00762 node-hours".
std::string billed_text(double hours, const std::string& unit);

/// Reads the billing from job.json, or from its `billing`. Returns the default for a job of an earlier version.
JobBilling billing_from(const nlohmann::json& record);

/// Returns the same of a run folder. The default if it has no job, or a torn record.
JobBilling billing_of_run(const std::filesystem::path& run_dir);

}  // namespace lockstep
