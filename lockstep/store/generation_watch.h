// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/store/connections.h"

namespace lockstep {

/// Waits in a thread of its own for the end of a generation of the run.
///
/// The thread sleeps in one request, which the store answers when the generation ends. Nothing is polled.
class GenerationWatch {
 public:
  /// Calls `ended` once, on a thread of its own, if `generation` ends while this object lives, or if the store's node
  /// falls silent. If the store is lost otherwise, `ended` is not called. `name` must differ from the names of other
  /// ranks in the generation.
  GenerationWatch(std::shared_ptr<StoreConnections> connections, std::uint32_t generation, const std::string& name,
                  std::function<void()> ended);
  /// Blocks: until the thread has ended, and so until `ended` has returned.
  ~GenerationWatch();
  GenerationWatch(const GenerationWatch&) = delete;
  GenerationWatch& operator=(const GenerationWatch&) = delete;

 private:
  std::shared_ptr<StoreConnections> connections_;
  std::uint32_t generation_;
  std::string key_;
  std::jthread thread_;
};

}  // namespace lockstep
