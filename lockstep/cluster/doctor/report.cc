// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

constexpr std::size_t kHostsShown = 8;

std::string hosts_text(const std::vector<std::string>& hosts) {
  if (hosts.empty()) return {};
  std::vector<std::string> shown(hosts.begin(),
                                 hosts.begin() + static_cast<std::ptrdiff_t>(std::min(hosts.size(), kHostsShown)));
  std::string text = "  [" + joined(shown, ", ");
  if (hosts.size() > kHostsShown) text += " and " + std::to_string(hosts.size() - kHostsShown) + " more";
  return text + "]";
}

std::string counted(const std::vector<Finding>& findings, Severity severity) {
  const auto count = std::ranges::count(findings, severity, &Finding::severity);
  return lockstep::counted(count, name_of(severity));
}

std::string nothing_found(const CheckCounts& checks, std::size_t tasks) {
  std::string text = "nothing found: ";
  if (tasks > 1) text += "on each of " + std::to_string(tasks) + " tasks ";
  text += lockstep::counted(checks.node, "check") + " of the node, " + std::to_string(checks.job) + " of the job, ";
  if (checks.run == 0) return text + "none of a run folder (name one with --run RUN)\n";
  return text + std::to_string(checks.run) + " of the run folder and logs\n";
}

}  // namespace

nlohmann::json json_of(const Finding& finding) {
  return {{"code", finding.code},
          {"severity", name_of(finding.severity)},
          {"fact", finding.fact},
          {"fix", finding.fix},
          {"hosts", finding.hosts}};
}

Finding finding_of(const nlohmann::json& object) {
  try {
    Finding finding{.code = object.at("code"), .fact = object.at("fact"), .fix = object.at("fix")};
    const std::string severity = object.at("severity");
    for (const auto each : {Severity::kNote, Severity::kWarning, Severity::kError}) {
      if (severity == name_of(each)) finding.severity = each;
    }
    for (const auto& host : object.at("hosts")) finding.hosts.push_back(host);
    return finding;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kPeer, std::string("a node sent text that is not a finding: ") + error.what(),
                "run the same version of lockstep on all nodes");
  }
}

std::vector<Finding> sorted(std::vector<Finding> findings) {
  std::ranges::stable_sort(findings, std::greater{}, &Finding::severity);
  return findings;
}

nlohmann::json json_of(const CheckCounts& checks) {
  return {{"node", checks.node}, {"job", checks.job}, {"run", checks.run}};
}

std::string text_of(std::vector<Finding> findings, const CheckCounts& checks, std::size_t tasks) {
  findings = sorted(std::move(findings));
  std::string text;
  for (const auto& finding : findings) {
    text += std::string(name_of(finding.severity)) + " " + finding.code + hosts_text(finding.hosts) + "\n  " +
            finding.fact + "\n  fix: " + finding.fix + "\n";
  }
  if (findings.empty()) return nothing_found(checks, tasks);
  return text + counted(findings, Severity::kError) + ", " + counted(findings, Severity::kWarning) + ", " +
         counted(findings, Severity::kNote) + "; docs/cluster/doctor.md explains each code\n";
}

}  // namespace lockstep
