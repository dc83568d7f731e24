// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/request_warnings.h"

#include <regex>
#include <string>
#include <tuple>

#include "lockstep/cluster/job/limits.h"

namespace lockstep {
namespace {

/// Says that devices which nobody uses are paid for.
void tell_idle_devices(const JobPlan& plan, const Profile& profile, const Log& log) {
  const auto all = profile.devices.count;
  if (!plan.size.has_whole_nodes || plan.size.devices == 0 || plan.size.devices >= all) return;
  const auto& queue = profile.qos.contains(plan.queue.qos) ? plan.queue.qos : plan.queue.partition;
  const auto other = shared_queue(plan, profile);
  log.info(queue + " bills whole nodes: all " + std::to_string(all) + " devices of each, " +
           std::to_string(plan.size.devices) + " asked for" +
           (other.empty() ? std::string() : "\n  hint: " + other + " bills what is asked for"));
}

}  // namespace

void warn_of_request(const JobPlan& plan, const Profile& profile, const Log& log) {
  tell_idle_devices(plan, profile, log);
  const auto& [account, pattern] = std::tie(plan.queue.account, profile.slurm.account_pattern);
  if (!account.empty() && !pattern.empty() && !std::regex_search(account, std::regex(pattern))) {
    log.warning("the account '" + account + "' has not the form of those of " + profile.name + " (" +
                profile.origin("slurm.account_pattern") + "): Slurm may refuse the job\n  hint: want " +
                profile.slurm.account_form);
  }
  if (plan.size.cores_per_task == 0) {
    log.warning("the profile " + profile.name +
                " does not know how many cores go with a device: Slurm gives each task one, and the memory of one\n"
                "  hint: --cores-per-task N, for example the node's cores over its devices");
  }
}

}  // namespace lockstep
