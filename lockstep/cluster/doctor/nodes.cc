// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/nodes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lockstep/base/median.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/launch/topology.h"

namespace lockstep {
namespace {

constexpr double kClockApart = 1.0;  // Make, rsync and TensorBoard order files by the second.
constexpr double kSlow = 0.5;        // Of the median: neighbours' traffic costs less than that.
constexpr std::size_t kEnoughLinks = 3;

std::string list_of_ranks(const std::vector<int>& ranks) {
  return list_of(CpuSet(ranks.begin(), ranks.end()));  // "0-3,8"
}

std::string rate(double bytes_per_second) { return human_bytes(static_cast<std::uint64_t>(bytes_per_second)) + "/s"; }

void check_links(const JobReport& job, Findings& findings) {
  if (job.links.size() < kEnoughLinks) return;
  std::vector<double> rates;
  for (const auto& link : job.links) rates.push_back(link.bytes_per_second);
  const double usual = median_of(rates);
  std::map<std::string, int> slow_ends;
  std::vector<const LinkView*> slow;
  for (const auto& link : job.links) {
    if (link.bytes_per_second >= kSlow * usual) continue;
    slow.push_back(&link);
    ++slow_ends[link.from];
    ++slow_ends[link.to];
  }
  std::vector<std::string> named;
  for (const auto& [host, count] : slow_ends) {
    if (count > 1) named.push_back(host);
  }
  for (const auto* link : slow) {
    const bool is_told =
        std::ranges::find(named, link->from) != named.end() || std::ranges::find(named, link->to) != named.end();
    const std::string fact = "from " + link->from + " to " + link->to + " come " + rate(link->bytes_per_second) +
                             " over TCP, between the others " + rate(usual);
    if (is_told) continue;
    findings.warning("nodes-slow", fact, "leave out one of the two, then the other: --exclude=" + link->to);
  }
  if (named.empty()) return;
  findings.warning("nodes-slow",
                   joined(named, ", ") + ": what comes and goes takes " + rate(slow.front()->bytes_per_second) +
                       " over TCP, between the others " + rate(usual),
                   "--exclude=" + joined(named, ",") + ", and tell the support");
}

void check_versions(const JobReport& job, Findings& findings) {
  std::map<std::string, std::set<std::string>> hosts;
  for (const auto& task : job.tasks) hosts[task.versions].insert(task.host);
  if (hosts.size() < 2) return;
  const auto most = std::ranges::max_element(hosts, {}, [](const auto& entry) { return entry.second.size(); });
  for (const auto& [versions, names] : hosts) {
    if (versions == most->first) continue;
    const std::vector<std::string> list(names.begin(), names.end());
    findings.warning(
        "nodes-differ",
        joined(list, ", ") + (list.size() == 1 ? " has " : " have ") + versions + ", the others " + most->first,
        "--exclude=" + joined(list, ",") + " until the nodes are alike again");
  }
}

std::string hosts_of_absent(const JobReport& job) {
  return job.tasks.size() == 1 ? "all ranks but rank 0" : "rank " + list_of_ranks(job.absent);
}

/// Returns the nodes whose own link failed. All other nodes then wait for these in vain, so only these are reported.
std::vector<std::string> culprits(const JobReport& job) {
  std::vector<std::string> found;
  for (const auto& text : job.broken) {
    if (text.find("(connecting") != std::string::npos || text.find("(left") != std::string::npos) found.push_back(text);
  }
  return found.empty() ? job.broken : found;
}

}  // namespace

TaskReport task_view(const DoctorContext& of, std::vector<Finding> findings) {
  const auto index = static_cast<std::size_t>(of.at.node_rank);
  const std::string kernel(trimmed(text_or_nothing(of.at_root("/proc/sys/kernel/osrelease"))));
  std::string versions = "Linux " + kernel;
  const auto nvidia = split(text_or_nothing(of.at_root("/proc/driver/nvidia/version")), '\n').front();
  for (const auto& word : split(nvidia, ' ')) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) {
      versions += ", NVIDIA " + word;
      break;
    }
  }
  const auto amd = text_or_nothing(of.at_root("/sys/module/amdgpu/version"));
  if (!amd.empty()) versions += ", amdgpu " + std::string(trimmed(amd));
  return {.rank = of.at.rank,
          .node_rank = of.at.node_rank,
          .host = index < of.at.hosts.size() ? of.at.hosts[index] : split(of.host, '.').front(),
          .device = device_of_task(of).value_or(""),
          .cpus = list_of(of.system.allowed),
          .cores = Topology(of.root).cores_of(of.system.allowed),
          .versions = versions,
          .findings = std::move(findings)};
}

void check_nodes(const JobReport& job, Findings& findings) {
  if (!job.absent.empty()) {
    findings.error(
        "nodes-absent",
        hosts_of_absent(job) + " did not reach rank 0 in time, " + std::to_string(job.tasks.size()) + " tasks did",
        "look at the output of the others for their own findings, and for a firewall between the nodes; "
        "--exclude the nodes that they are on");
  }
  for (const auto& clock : job.clocks) {
    if (std::abs(clock.ahead_s) < kClockApart + clock.uncertain_s) continue;
    findings.warning("nodes-clock",
                     "the clock of " + clock.host + " is " + fixed(std::abs(clock.ahead_s), 1) + " s " +
                         (clock.ahead_s > 0 ? "ahead of" : "behind") + " rank 0's, want less than " +
                         fixed(kClockApart, 0) + " s: times in logs and of files mislead",
                     "--exclude=" + clock.host + ", and tell the support that its NTP is off");
  }
  if (!job.broken.empty()) {
    findings.error("nodes-broken",
                   "these nodes did not get through a sum over all nodes: " + joined(culprits(job), ", "),
                   "--exclude them, and look for a firewall between the nodes");
  }
  if (!job.wrong.empty()) {
    findings.error("nodes-wrong-sum",
                   "a sum over all nodes came out wrong on " + joined(job.wrong, ", ") +
                       ": memory or network of one of them is faulty",
                   "--exclude=" + joined(job.wrong, ",") + ", and tell the support");
  }
  check_links(job, findings);
  check_versions(job, findings);
}

std::vector<Finding> merged(const JobReport& job) {
  std::vector<Finding> all;
  for (const auto& task : job.tasks) {
    for (const auto& finding : task.findings) {
      // Texts with a node's name or address differ from node to node. Such findings count as the same, and the first
      // node's text is shown.
      const auto same = std::ranges::find_if(all, [&](const Finding& each) {
        const bool is_known_here = std::ranges::find(each.hosts, task.host) != each.hosts.end();
        return each.code == finding.code && (each.fact == finding.fact || (each.fix == finding.fix && !is_known_here));
      });
      auto& at = same == all.end() ? all.emplace_back(finding) : *same;
      if (std::ranges::find(at.hosts, task.host) == at.hosts.end()) at.hosts.push_back(task.host);
    }
  }
  Findings together;
  check_tasks(job.tasks, together);
  check_nodes(job, together);
  all.insert(all.end(), together.list().begin(), together.list().end());
  return all;
}

}  // namespace lockstep
