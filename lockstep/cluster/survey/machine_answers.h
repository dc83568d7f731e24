// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/survey/node_view.h"
#include "lockstep/cluster/survey/queues.h"

namespace lockstep {

/// A folder that a variable names, and whether it exists and is writable for this user.
struct OwnFolder {
  std::string value{};  ///< As in a profile, such as "$SCRATCH" or "/scratch/{user}".
  std::string source{};
};

/// The machine's answers, as the text of a command or a file. Empty if there was no answer.
struct MachineAnswers {
  std::string host{};          ///< If it was asked.
  std::string date{};          ///< "2026-11-23"
  std::string config{};        ///< scontrol show config
  std::string partitions{};    ///< scontrol show partition --oneliner
  std::string nodes{};         ///< scontrol show node --oneliner
  std::string associations{};  ///< sacctmgr -nP show assoc user=U format=Cluster,Account,QOS
  std::string user_record{};   ///< sacctmgr -nP show user U format=DefaultAccount
  std::string qos{};           ///< sacctmgr -nP show qos format=Name,MaxWall,MaxTRES
  std::string modules{};       ///< module -t avail
  std::string mounts{};        ///< /proc/self/mounts
  std::string network{};       ///< "Slingshot" or "InfiniBand", if this host has its adapters.
  SurveyUser user{};
  std::vector<std::string> container_runtimes{};  ///< Those in PATH.
  OwnFolder scratch{};
  OwnFolder project{};
  std::optional<NodeView> node{};  ///< A compute node, if one was asked.
};

/// Asks Slurm's commands, the module system and the files of this host.
///
/// Blocks:  for seconds; each command has half a minute at most.
/// Throws: Error(kEnvironment) if this machine has no Slurm, or if Slurm does not answer.
MachineAnswers ask_machine(const Environment& env, const std::filesystem::path& root = "/");

/// Asks a compute node: it runs this program there by `srun` with these additional flags, for at most two minutes.
///
/// Blocks:  until a node is free.
/// Throws: Error(kEnvironment) with srun's message if srun fails.
NodeView ask_node(const Environment& env, const std::vector<std::string>& flags,
                  const std::vector<std::string>& folders);

}  // namespace lockstep
