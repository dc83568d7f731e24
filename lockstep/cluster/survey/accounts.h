// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A user's accounts and QOS on one cluster, from Slurm's accounting. Empty if there is no accounting.
struct UserAccounts {
  std::vector<std::string> accounts;  ///< Each once, in the order of the answer.
  std::string default_account;        ///< The account that Slurm charges if a job names none.
  std::vector<std::string> qos;       ///< Each once.
};

/// Reads `sacctmgr -nP show assoc user=U format=Cluster,Account,QOS` and `sacctmgr -nP show user U
/// format=DefaultAccount`. Lines of other clusters are left out.
UserAccounts parsed_accounts(std::string_view associations, std::string_view user, std::string_view cluster);

/// The limits of a quality of service.
struct QosLimits {
  std::string name;
  std::optional<std::chrono::seconds> time;
  std::int64_t max_nodes = 0;    ///< Of a job. 0 for any number.
  std::int64_t max_devices = 0;  ///< Of a job. 0 for any number.
};

/// Reads `sacctmgr -nP show qos format=Name,MaxWall,MaxTRES`.
std::vector<QosLimits> parsed_qos(std::string_view text);

}  // namespace lockstep
