// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "lockstep/comm/data_parallel.h"

namespace lockstep {

/// A request to stop the training, and its reason. It holds two reasons: the one of this rank, and, once all ranks have
/// agreed to stop, the one on which they agreed. That is the reason of the first rank that asked.
class StopRequest {
 public:
  /// Asks for a stop, unless this rank has asked already.
  void ask(const std::string& reason);
  /// Sets a function that ask_if_due() calls on this rank. It returns a reason to stop, or empty text.
  void watch(std::function<std::string()> reason) { watched_ = std::move(reason); }
  /// Asks for a stop if a stop signal has come, or if the watched function returns a reason.
  void ask_if_due();
  bool is_asked() const { return !reason_.empty(); }

  /// Returns true if any rank has asked for a stop. Then all ranks take the reason of the first such rank. Collective:
  /// yes. Blocks: yes.
  bool agree_now(DistributedDataParallel& parallel, Group& group);
  /// Takes the reason of the first rank that asked, once a stop is agreed. Collective: yes.
  void take_reason(Group& group);
  /// Forgets that all ranks agreed, since the step after which they did is done again. A rank that asked still asks.
  void forget_agreement() { stopped_by_.clear(); }
  /// Ends the training for a reason that all ranks know.
  void end(const std::string& reason) { stopped_by_ = reason; }

  bool is_agreed() const { return !stopped_by_.empty(); }
  /// Returns the reason on which all ranks agreed, as in RunEnded::stopped_by. Empty while the training continues.
  const std::string& stopped_by() const { return stopped_by_; }

 private:
  std::function<std::string()> watched_;
  std::string reason_;  ///< On this rank. Empty if it does not ask for a stop.
  std::string stopped_by_;
};

}  // namespace lockstep
