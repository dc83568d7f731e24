// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/profile/profile.h"
#include "lockstep/cluster/profile/slurm_config.h"
#include "lockstep/cluster/survey/accounts.h"
#include "lockstep/cluster/survey/machine_answers.h"
#include "lockstep/cluster/survey/queues.h"

namespace lockstep {

/// A key whose value is unknown, and how a person can find it out.
struct DraftGap {
  std::string key;
  std::string how;
};

/// A profile, as far as the machine's answers determine it.
struct ProfileDraft {
  Profile profile{};                                          ///< Of it, the keys in `sources` count.
  std::map<std::string, std::string, std::less<>> sources{};  ///< The source of each key, such as "scontrol show node:
                                                              ///< CPUTot=16 of n1".
  std::vector<DraftGap> gaps{};
  std::string why_partition{};  ///< "the default partition"
  int nodes = 0;                ///< Number of nodes in its partition that match the profile.

  void note(std::string_view key, std::string source) { sources.insert_or_assign(std::string(key), std::move(source)); }
  void gap(std::string_view key, std::string how) { gaps.push_back({std::string(key), std::move(how)}); }
};

/// The answers of the machine's commands, parsed.
struct MachineFacts {
  const MachineAnswers& answers;
  SlurmConfig config{};
  UserAccounts accounts{};
  std::vector<QosLimits> qos{};
  std::vector<NodeFacts> nodes{};
  std::vector<PartitionFacts> partitions{};

  /// `answers` must outlive it.
  explicit MachineFacts(const MachineAnswers& answers);
  /// Returns a setting of Slurm's configuration. Empty if it is not set.
  std::string setting(std::string_view name) const;
};

/// Drafts a profile for the named partition, or else for the one that chosen_queue() chooses. The same answers always
/// give the same draft.
///
/// Throws: Error(kEnvironment) if the named partition has no nodes, or if no partition is open to this user.
ProfileDraft drafted(const MachineAnswers& answers, const std::string& partition);

/// Returns the flags with which `srun` gets one node of the drafted kind, with all of its devices.
std::vector<std::string> node_flags(const ProfileDraft& draft);

}  // namespace lockstep
