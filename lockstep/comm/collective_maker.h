// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace lockstep {

/// Not a public header: only sources in comm/ and gpu/ include it.
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

  /// Makes a process group that is connected to all ranks. The calling thread must have selected the device before.
  /// Collective: yes. Blocks: until connected.
  virtual c10::intrusive_ptr<c10d::Backend> make(const CollectiveRequest& request) const = 0;

  /// Returns the backend's message about a collective that failed on the device while the host went on. Returns nothing
  /// if none failed. The call is cheap, since it is made once a step. After a failure, data on the device must not be
  /// used.
  virtual std::optional<std::string> failure(c10d::Backend& backend) const = 0;

  /// Closes the communication. Without a failure it does so together with the other ranks. After a failure it closes at
  /// once, without them.
  virtual void end(c10d::Backend& backend, bool has_failed) const noexcept = 0;
};

}  // namespace lockstep
