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

/// The network that a line of NCCL's or RCCL's log says is used: "IB", "AWS Libfabric", "Socket"; nothing where the
/// line does not speak of that. Up to NCCL 2.26 it says "Using network NAME", from 2.27 "Assigned NET plugin NAME to
/// comm".
std::optional<std::string> network_in(std::string_view line);

/// The network adapter of this node that NCCL should be using: "InfiniBand (mlx5_0)", "Slingshot (cxi0)"; nothing
/// where there is none, or where the user chose sockets (NCCL_NET=Socket, NCCL_IB_DISABLE=1).
std::optional<std::string> fast_network(const Environment& env, const std::filesystem::path& root = "/");

/// Reads what is new in the logs that NCCL writes, and finds the line that says it fell back to sockets.
class NetworkWatch {
 public:
  /// `fast` is what should be used instead, as fast_network() says it.
  explicit NetworkWatch(std::string fast) : fast_(std::move(fast)) {}

  /// Follow this file, which need not be there yet.
  void follow(const std::filesystem::path& log) { read_.try_emplace(log, 0); }

  /// A warning with the line and the fix, the first time that any log tells of sockets.
  std::optional<std::string> look();

 private:
  std::string fast_;
  std::map<std::filesystem::path, std::uintmax_t> read_;  ///< Bytes of each that were seen.
  bool has_warned_ = false;
};

}  // namespace lockstep
