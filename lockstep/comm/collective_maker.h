// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace lockstep {

/// For sources of comm/ and gpu/ only.
struct CollectiveRequest {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world = 1;
  c10::Device device{c10::kCPU};
  std::chrono::milliseconds timeout{};  ///< For one collective.
};

/// Makes, watches and ends the communication between ranks on one kind of device, through NCCL or RCCL.
class CollectiveMaker {
 public:
  virtual ~CollectiveMaker() = default;

  /// Connected to all ranks when it returns. The device is this thread's already.
  /// Collective: yes. Blocks: until connected.
  virtual c10::intrusive_ptr<c10d::Backend> make(const CollectiveRequest& request) const = 0;

  /// Returns a failure behind the host's back, in the backend's words. Nothing while all is well. It is cheap, since it
  /// is called once a step. After a failure the device's data are not to be trusted.
  virtual std::optional<std::string> failure(c10d::Backend& backend) const = 0;

  /// Closes it. If all is well, it does so in order, with the other ranks, otherwise at once, without them.
  virtual void end(c10d::Backend& backend, bool has_failed) const noexcept = 0;
};

}  // namespace lockstep
