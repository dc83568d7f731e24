// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lockstep {

/// Collectives that another thread can end, even if Gloo does not end them.
///
/// The caller of a collective waits on a work of this class, which ends as Gloo's own work does, or by end(). After
/// end() Gloo's thread may still wait, until Gloo's time limit. It keeps the tensors alive, and nobody waits for it.
///
/// Threads: all calls may come from any thread.
class EndableWorks {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  EndableWorks();
  ~EndableWorks();
  EndableWorks(const EndableWorks&) = delete;
  EndableWorks& operator=(const EndableWorks&) = delete;

  /// Returns a work that ends as `work` does, or by end().
  Work follow(const Work& work);

  /// Ends all works that have not ended. Who waits for one gets a c10::DistBackendError with `why`.
  void end(const std::string& why);

  /// Waits until Gloo has ended all works. Returns false if it has not done so within `limit`.
  bool wait_until_idle(std::chrono::milliseconds limit);

 private:
  class EndableWork;
  struct Running;
  std::shared_ptr<Running> running_;  ///< Shared with the callbacks of Gloo's works, which may come later.
};

}  // namespace lockstep
