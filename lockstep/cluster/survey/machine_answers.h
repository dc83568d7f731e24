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

/// A folder that a variable names, with its answer: is it there, and this user's to write in?
struct OwnFolder {
  std::string value{};  ///< As a profile has it: "$SCRATCH", "/scratch/{user}".
  std::string source{};
};

/// What the machine said, as text where a command or a file said it; empty where it said nothing.
struct MachineAnswers {
  std::string host{};          ///< Where it was asked.
  std::string date{};          ///< "2026-11-23"
  std::string config{};        ///< scontrol show config
  std::string partitions{};    ///< scontrol show partition --oneliner
  std::string nodes{};         ///< scontrol show node --oneliner
  std::string associations{};  ///< sacctmgr -nP show assoc user=U format=Cluster,Account,QOS
  std::string user_record{};   ///< sacctmgr -nP show user U format=DefaultAccount
  std::string qos{};           ///< sacctmgr -nP show qos format=Name,MaxWall,MaxTRES
  std::string modules{};       ///< module -t avail
  std::string mounts{};        ///< /proc/self/mounts
  std::string network{};       ///< "Slingshot" or "InfiniBand", where this host has its adapters.
  SurveyUser user{};
  std::vector<std::string> container_runtimes{};  ///< Those in PATH.
  OwnFolder scratch{};
  OwnFolder project{};
  std::optional<NodeView> node{};  ///< A compute node, where one was asked.
};

/// Asks Slurm's commands, the module system and the files of this host.
///
/// Blocks:  for seconds; each command has half a minute at most.
/// Throws:  Error(kEnvironment) where there is no Slurm here, or it does not answer.
MachineAnswers ask_machine(const Environment& env, const std::filesystem::path& root = "/");

/// Asks a compute node, by `srun` of this program for two minutes at most, with these flags besides.
///
/// Blocks:  until a node is free.
/// Throws:  Error(kEnvironment) with srun's message where it refuses.
NodeView ask_node(const Environment& env, const std::vector<std::string>& flags,
                  const std::vector<std::string>& folders);

}  // namespace lockstep
