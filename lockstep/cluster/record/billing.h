// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep {

/// How a site charges for a job, in the site's own unit.
struct JobBilling {
  std::string unit = "node-hours";  ///< Or "GPU-hours", "core-hours".
  double per_hour = 0;              ///< Of all nodes together. 0 if nothing is known but the nodes.

  /// Returns the price of `seconds` on `nodes` nodes.
  double hours(double seconds, int nodes) const { return seconds * (per_hour > 0 ? per_hour : nodes) / 3600; }
};

/// Formats a price, such as "32 GPU-hours" or "0.00762 node-hours".
std::string billed_text(double hours, const std::string& unit);

/// Reads the billing from the content of job.json, or from its entry `billing`. Returns the default if an earlier
/// version wrote the job.
JobBilling billing_from(const nlohmann::json& record);

/// Returns the billing of the job in a run folder. Returns the default if there is no job, or if its record is
/// incomplete.
JobBilling billing_of_run(const std::filesystem::path& run_dir);

}  // namespace lockstep
