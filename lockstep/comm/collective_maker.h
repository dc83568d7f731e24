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

/// Makes, watches and ends what ranks on one kind of device talk through: NCCL, RCCL.
class CollectiveMaker {
 public:
  virtual ~CollectiveMaker() = default;

  /// Connected to all ranks when it returns. The device is this thread's already.
  /// Collective: yes. Blocks: until connected.
  virtual c10::intrusive_ptr<c10d::Backend> make(const CollectiveRequest& request) const = 0;

  /// What has gone wrong behind the host's back, in the backend's words; nothing while all is well. Cheap: asked once a
  /// step. After a failure what the device holds is not to be trusted.
  virtual std::optional<std::string> failure(c10d::Backend& backend) const = 0;

  /// Closes it: in order, with the other ranks, where all is well; else at once, without them.
  virtual void end(c10d::Backend& backend, bool has_failed) const noexcept = 0;
};

}  // namespace lockstep
