// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the network that a line of NCCL's or RCCL's log names, such as "IB", "AWS Libfabric" or "Socket". Nothing if
/// the line names none. Up to NCCL 2.26 it is "Using network NAME", from 2.27 on "Assigned NET plugin NAME to comm".
std::optional<std::string> network_in(std::string_view line);

/// Returns the network adapter of this node that NCCL should use, such as "InfiniBand (mlx5_0)" or "Slingshot (cxi0)".
/// Nothing if there is none, or if the user chose sockets (NCCL_NET=Socket, NCCL_IB_DISABLE=1).
std::optional<std::string> fast_network(const Environment& env, const std::filesystem::path& root = "/");

/// Reads new lines of the logs that NCCL writes, and finds the line that says it fell back to sockets.
class NetworkWatch {
 public:
  /// `fast` is the network that should be used, as fast_network() returns it.
  explicit NetworkWatch(std::string fast) : fast_(std::move(fast)) {}

  /// Adds a log to watch. The file need not exist yet.
  void follow(const std::filesystem::path& log) { read_.try_emplace(log, 0); }

  /// Reads new lines. Returns a warning with the line and the fix, the first time that any log names sockets.
  std::optional<std::string> look();

 private:
  std::string fast_;
  std::map<std::filesystem::path, std::uintmax_t> read_;  ///< Bytes of each that were seen.
  bool has_warned_ = false;
};

}  // namespace lockstep
