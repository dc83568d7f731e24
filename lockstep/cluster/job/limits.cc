// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/limits.h"

#include <algorithm>
#include <regex>
#include <tuple>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

using Queues = std::map<std::string, ProfileQueue, std::less<>>;

/// How messages name a kind of queue: a partition or a QOS.
struct QueueKind {
  const Queues& all;
  const std::string& name;   ///< The one that the job is for.
  std::string_view word;     ///< "partition"
  std::string_view flag;     ///< "--partition"
  std::string_view section;  ///< The beginning of its keys, such as "partition.".
};

std::string text_of(std::chrono::seconds time) { return time.count() > 0 ? hh_mm_ss(time) : "its own limit"; }

bool fits(const ProfileQueue& queue, const JobPlan& plan) {
  const auto limit = time_limit(queue, plan.size.nodes);
  const auto devices = plan.size.nodes * plan.size.devices;
  return limit && !queue.on_request && (limit->count() == 0 || *plan.queue.time <= *limit) &&
         (queue.max_devices == 0 || devices <= queue.max_devices) && (plan.queue.chain <= 1 || queue.chaining);
}

QueueKind qos_kind(const JobPlan& plan, const Profile& profile) {
  return {profile.qos, plan.queue.qos, "QOS", "--qos", "qos."};
}

/// Returns "--partition extended gives 4 nodes 24:00:00; ", or nothing. If no partition fits, a QOS may fit, since its
/// limits replace those of the partition.
std::string one_that_fits(const QueueKind& kind, const JobPlan& plan, const Profile& profile) {
  for (const auto& [name, queue] : kind.all) {
    if (name == kind.name || !fits(queue, plan)) continue;
    return std::string(kind.flag) + " " + name + " gives " + counted(plan.size.nodes, "node") + " " +
           text_of(*time_limit(queue, plan.size.nodes)) + "; ";
  }
  return kind.flag == "--partition" ? one_that_fits(qos_kind(plan, profile), plan, profile) : std::string();
}

/// Returns a hint such as "--partition extended gives 4 nodes 24:00:00; or --nodes 2", or only its second half.
std::string fitting_or(const QueueKind& kind, const JobPlan& plan, const Profile& profile,
                       const std::string& otherwise) {
  const auto fitting = one_that_fits(kind, plan, profile);
  return fitting.empty() ? otherwise : fitting + "or " + otherwise;
}

void check_name(const QueueKind& kind, const Profile& profile) {
  if (kind.name.empty() || kind.all.empty() || kind.all.contains(kind.name)) return;
  std::vector<std::string> names;
  for (const auto& [name, queue] : kind.all) names.push_back(name);
  const auto near = nearest_name(kind.name, names);
  throw Error(
      ErrorKind::kEnvironment,
      profile.name + " has no " + std::string(kind.word) + " '" + kind.name + "', want one of " + joined(names, ", "),
      (near ? "did you mean " + std::string(kind.flag) + " " + *near + "? " : std::string()) +
          "A new one can be told in a profile of your own: [" + std::string(kind.section) + kind.name + "]");
}

void check_nodes(const QueueKind& kind, const ProfileQueue& queue, const JobPlan& plan, const Profile& profile) {
  if (queue.limits.empty() || time_limit(queue, plan.size.nodes)) return;
  const int least = std::ranges::min(queue.limits, {}, &NodeLimit::min_nodes).min_nodes;
  const int most = std::ranges::max(queue.limits, {}, &NodeLimit::max_nodes).max_nodes;
  const bool is_few = plan.size.nodes < least;
  throw Error(ErrorKind::kEnvironment,
              std::string(kind.word) + " '" + kind.name + "' of " + profile.name + " takes " +
                  (is_few ? "at least " + counted(least, "node") : "at most " + counted(most, "node")) + " (" +
                  profile.origin(std::string(kind.section) + kind.name + ".limits") + "), " +
                  std::to_string(plan.size.nodes) + " are asked for",
              fitting_or(kind, plan, profile, "--nodes " + std::to_string(is_few ? least : most)));
}

/// Returns a text that says which larger jobs may run longer, such as "92 nodes and more get 06:00:00; ".
std::string larger_job(const ProfileQueue& queue, const JobPlan& plan) {
  for (const auto& limit : queue.limits) {
    if (limit.min_nodes > plan.size.nodes && limit.time >= *plan.queue.time) {
      return counted(limit.min_nodes, "node") + " and more get " + hh_mm_ss(limit.time) + "; ";
    }
  }
  return {};
}

void check_time(const QueueKind& kind, const ProfileQueue& queue, const JobPlan& plan, const Profile& profile) {
  const auto limit = time_limit(queue, plan.size.nodes);
  if (!limit || limit->count() == 0 || *plan.queue.time <= *limit) return;
  const auto jobs = (plan.queue.time->count() + limit->count() - 1) / limit->count();
  const std::string chain = queue.chaining ? " --chain " + std::to_string(jobs) + " runs it in as many jobs" : "";
  throw Error(ErrorKind::kEnvironment,
              std::string(kind.word) + " '" + kind.name + "' of " + profile.name + " gives " +
                  counted(plan.size.nodes, "node") + " at most " + hh_mm_ss(*limit) + " (" +
                  profile.origin(std::string(kind.section) + kind.name + ".limits") + "), " +
                  hh_mm_ss(*plan.queue.time) + " is asked for",
              one_that_fits(kind, plan, profile) + larger_job(queue, plan) + "--time " + hh_mm_ss(*limit) + chain);
}

void check_queue(const QueueKind& kind, const JobPlan& plan, const Profile& profile) {
  check_name(kind, profile);
  const auto found = kind.all.find(kind.name);
  if (found == kind.all.end()) return;
  const auto& queue = found->second;
  check_nodes(kind, queue, plan, profile);
  check_time(kind, queue, plan, profile);
  const auto devices = plan.size.nodes * plan.size.devices;
  if (queue.max_devices > 0 && devices > queue.max_devices) {
    throw Error(ErrorKind::kEnvironment,
                std::string(kind.word) + " '" + kind.name + "' of " + profile.name + " gives a job at most " +
                    std::to_string(queue.max_devices) + " devices, " + std::to_string(devices) + " are asked for",
                fitting_or(kind, plan, profile, "--devices " + std::to_string(queue.max_devices)));
  }
  if (plan.queue.chain > 1 && !queue.chaining) {
    throw Error(ErrorKind::kEnvironment,
                std::string(kind.word) + " '" + kind.name + "' of " + profile.name + " forbids chains of jobs (" +
                    profile.origin(std::string(kind.section) + kind.name + ".chaining") + ")",
                fitting_or(kind, plan, profile, "leave out --chain"));
  }
}

/// Warns of devices that the job pays for but does not use.
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

std::optional<std::chrono::seconds> time_limit(const ProfileQueue& queue, int nodes) {
  if (queue.limits.empty()) return std::chrono::seconds(0);
  for (const auto& limit : queue.limits) {
    if (nodes >= limit.min_nodes && nodes <= limit.max_nodes) return limit.time;
  }
  return std::nullopt;
}

std::string shared_queue(const JobPlan& plan, const Profile& profile) {
  const QueueKind partitions{profile.partitions, plan.queue.partition, "partition", "--partition", "partition."};
  for (const auto& kind : {partitions, qos_kind(plan, profile)}) {
    for (const auto& [name, queue] : kind.all) {
      // A development queue has a shorter limit than others, so it is not suggested for a run.
      if (!queue.whole_node && !queue.limits.empty() && queue.chaining && fits(queue, plan) &&
          *time_limit(queue, plan.size.nodes) >= std::chrono::hours(24)) {
        return std::string(kind.flag) + " " + name;
      }
    }
  }
  return {};
}

void check_limits(const JobPlan& plan, const Profile& profile) {
  if (plan.size.is_range()) {
    JobPlan smallest = plan;
    smallest.size.nodes = plan.size.least_nodes;
    check_limits(smallest, profile);
  }
  if (profile.devices.count > 0 && plan.size.devices > profile.devices.count) {
    const auto devices = std::int64_t{plan.size.nodes} * plan.size.devices;
    const auto nodes = (devices + profile.devices.count - 1) / profile.devices.count;
    throw Error(ErrorKind::kEnvironment,
                "a node of " + profile.name + " has " + std::to_string(profile.devices.count) + " devices (" +
                    profile.origin("devices.count") + "), " + std::to_string(plan.size.devices) + " are asked for",
                "--nodes " + std::to_string(nodes) + " --devices " + std::to_string(profile.devices.count));
  }
  const int cores = plan.size.tasks * plan.size.cores_per_task;
  const auto usable = std::max(
      {profile.node.usable_cores, profile.sbatch.cores, profile.sbatch.cores_per_device * profile.devices.count});
  if (profile.node.usable_cores > 0 && cores > usable) {
    throw Error(ErrorKind::kEnvironment,
                "a node of " + profile.name + " has " + std::to_string(usable) + " cores for jobs (" +
                    profile.origin("node.usable_cores") + "), " + std::to_string(cores) + " are asked for: " +
                    counted(plan.size.tasks, "task") + " of " + std::to_string(plan.size.cores_per_task),
                "--cores-per-task " + std::to_string(usable / plan.size.tasks));
  }
  if (profile.slurm.account_required && plan.queue.account.empty()) {
    throw Error(
        ErrorKind::kEnvironment,
        "no account is named, and " + profile.name + " wants one (" + profile.origin("slurm.account_required") + ")",
        "--account NAME (" + profile.slurm.account_form +
            "), or for all your runs [cluster] account in ~/.config/lockstep/config.toml");
  }
  check_queue(qos_kind(plan, profile), plan, profile);
  // The limits of a QOS replace those of the partition.
  if (!plan.queue.qos.empty() && profile.qos.contains(plan.queue.qos)) return;
  check_queue({profile.partitions, plan.queue.partition, "partition", "--partition", "partition."}, plan, profile);
}

void warn_of_request(const JobPlan& plan, const Profile& profile, const std::string& nodes_have, const Log& log) {
  tell_idle_devices(plan, profile, log);
  const auto& [account, pattern] = std::tie(plan.queue.account, profile.slurm.account_pattern);
  if (!account.empty() && !pattern.empty() && !std::regex_search(account, std::regex(pattern))) {
    log.warning("the account '" + account + "' does not have the form of the accounts of " + profile.name + " (" +
                profile.origin("slurm.account_pattern") + "): Slurm may refuse the job\n  hint: want " +
                profile.slurm.account_form);
  }
  if (plan.size.cores_per_task == 0) {
    log.warning("the profile " + profile.name +
                " does not know how many cores go with a device: Slurm gives each task one, and the memory of one\n"
                "  hint: --cores-per-task N, for example the node's cores over its devices" +
                nodes_have);
  }
  const bool has_own = std::ranges::any_of(plan.own_env, [](const auto& each) { return each.starts_with("NCCL_NET"); });
  if (plan.has_container() && plan.size.nodes > 1 && !has_own && !plan.container.many_nodes_note.empty()) {
    log.warning("an image on several nodes of " + plan.cluster + ": " + plan.container.many_nodes_note);
  }
}

}  // namespace lockstep
