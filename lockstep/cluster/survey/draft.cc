// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/draft.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/survey/draft_site.h"
#include "lockstep/cluster/survey/draft_slurm.h"

namespace lockstep {

namespace {

/// Names in Slurm are ASCII, but comments of administrators may have any bytes. TOML allows UTF-8 only, so other bytes
/// are replaced.
std::string ascii(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return (c < 32 && c != '\n') || c > 126; }, '?');
  return text;
}

}  // namespace

MachineFacts::MachineFacts(const MachineAnswers& from)
    : answers(from),
      config(parsed_slurm_config(ascii(from.config))),
      accounts(parsed_accounts(ascii(from.associations), ascii(from.user_record), setting("ClusterName"))),
      qos(parsed_qos(ascii(from.qos))),
      nodes(parsed_nodes(ascii(from.nodes))),
      partitions(parsed_partitions(ascii(from.partitions), from.user, accounts)) {}

std::string MachineFacts::setting(std::string_view name) const {
  const auto found = config.find(name);
  return found == config.end() ? std::string() : found->second;
}

namespace {

ChosenQueue queue_for(const MachineFacts& facts, const std::string& partition) {
  auto queue = chosen_queue(facts.partitions, facts.nodes, partition);
  if (queue) return *queue;
  std::vector<std::string> closed;
  for (const auto& each : facts.partitions) closed.push_back(each.name + " (" + each.closed_by + ")");
  throw Error(ErrorKind::kEnvironment,
              "no partition with nodes is open to '" + facts.answers.user.name + "'" +
                  (closed.empty() ? std::string() : ": " + joined(closed, ", ")),
              "--partition NAME takes one all the same");
}

void draft_about(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  auto& about = draft.profile.about;
  const auto& nodes = queue.nodes;
  const auto what = nodes.devices == 0 ? std::to_string(nodes.least.usable_cpus) + " CPUs"
                                       : std::to_string(nodes.devices) + " " +
                                             (nodes.device_type.empty() ? "GPUs" : nodes.device_type);
  about.description = "Partition " + queue.partition.name + " of " + facts.setting("ClusterName") + ": " +
                      counted(std::ssize(nodes.names), "node") + " with " + what + " each";
  about.date = facts.answers.date;
  about.sources = {"scontrol, sacctmgr and files of " + facts.answers.host + ", Slurm " +
                   facts.setting("SLURM_VERSION")};
  if (facts.answers.node) about.sources.push_back("a task on the compute node " + facts.answers.node->host);
  for (const auto* key : {"about.description", "about.date", "about.sources"}) draft.note(key, "");
  for (const auto& other : queue.others) {
    about.notes.push_back(counted(std::ssize(other.names), "node") + " of " + queue.partition.name +
                          " are another kind: " + (other.gres.empty() ? "no devices" : other.gres));
  }
  if (facts.setting("TaskPlugin").ends_with("none")) {
    about.notes.emplace_back(
        "TaskPlugin is task/none: Slurm binds no task to its cores; lockstep exec does, by the device");
  }
  if (!about.notes.empty()) draft.note("about.notes", "scontrol show node, config");
  draft.profile.detect.slurm_cluster = slurm_name(facts);
  if (!draft.profile.detect.slurm_cluster.empty()) {
    draft.note("detect.slurm_cluster", "scontrol show config: ClusterName");
  }
}

}  // namespace

ProfileDraft drafted(const MachineAnswers& answers, const std::string& partition) {
  const MachineFacts facts(answers);
  const auto queue = queue_for(facts, partition);
  ProfileDraft draft{.why_partition = queue.why, .nodes = static_cast<int>(queue.nodes.names.size())};
  draft_about(draft, facts, queue);
  draft_nodes(draft, facts, queue);
  draft_queues(draft, facts, queue);
  draft_account(draft, facts);
  draft_network(draft, facts);
  draft_storage(draft, facts);
  draft_software(draft, facts);
  std::ranges::sort(draft.profile.about.unverified);
  if (!draft.profile.about.unverified.empty())
    draft.note("about.unverified", "told by a name or by the login node alone");
  return draft;
}

std::vector<std::string> node_flags(const ProfileDraft& draft) {
  const auto& profile = draft.profile;
  std::vector<std::string> flags = {"--partition=" + profile.slurm.partition};
  if (!profile.slurm.account.empty()) flags.push_back("--account=" + profile.slurm.account);
  if (profile.devices.count > 0) {
    flags.push_back(expand_template(profile.sbatch.devices, {{"devices", std::to_string(profile.devices.count)}}));
  }
  return flags;
}

}  // namespace lockstep
