// SPDX-License-Identifier: Apache-2.0
// Why Gloo's own end is not enough. If a connection breaks, Gloo tells each operation that is listed as waiting for the
// peer. Two kinds are not in the lists of Pair::signalException() in gloo/transport/tcp/pair.cc:
//
// - A message that the socket did not take as a whole. It is in tx_, where only pinned buffers are told.
// - A message that is partly received. It is in rx_ only.
//
// The thread of such a message waits for Gloo's time limit. With busy cores about one of 60 deaths ended like that, if
// the death reset the connection.
//
// So the caller waits on a work of ours, and Gloo's work calls us back when it ends. Whoever is first, Gloo or end(),
// completes our work. Gloo's work may end minutes later. It finds that ours has ended, and does nothing.
#include "lockstep/comm/gloo/endable_works.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {

class EndableWorks::EndableWork final : public c10d::Work {
 public:
  using Future = c10::ivalue::Future;

  explicit EndableWork(const c10d::Work& work, c10::TypePtr type)
      : Work(-1, work.retrieveOpType()), future_(c10::make_intrusive<Future>(std::move(type))) {}

  c10::intrusive_ptr<Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return future_->value().toTensorVector(); }

  void end(const Future& other) {
    if (other.hasError()) return end(other.exception_ptr());
    if (has_ended_.test_and_set()) return;
    future_->markCompleted(other.constValue());
    finish();
  }
  void end(const std::exception_ptr& error) {
    if (has_ended_.test_and_set()) return;
    future_->setError(error);
    finish(error);
  }

 private:
  c10::intrusive_ptr<Future> future_;
  std::atomic_flag has_ended_;
};

struct EndableWorks::Running {
  std::mutex mutex;
  std::condition_variable idle;
  std::vector<c10::intrusive_ptr<EndableWork>> works;  ///< Those that Gloo has not ended.

  void remove(const EndableWork* work) {
    const std::lock_guard lock(mutex);
    std::erase_if(works, [&](const auto& each) { return each.get() == work; });
    if (works.empty()) idle.notify_all();
  }
};

EndableWorks::EndableWorks() : running_(std::make_shared<Running>()) {}
EndableWorks::~EndableWorks() = default;

EndableWorks::Work EndableWorks::follow(const Work& work) {
  const auto future = work->getFuture();
  auto own = c10::make_intrusive<EndableWork>(*work, future->elementType());
  {
    const std::lock_guard lock(running_->mutex);
    running_->works.push_back(own);
  }
  future->addCallback([own, running = running_](EndableWork::Future& ended) {
    running->remove(own.get());
    own->end(ended);
  });
  return own;
}

void EndableWorks::end(const std::string& why) {
  std::vector<c10::intrusive_ptr<EndableWork>> works;
  {
    const std::lock_guard lock(running_->mutex);
    works = running_->works;
  }
  const auto error =
      std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, why));
  for (const auto& each : works) each->end(error);
}

bool EndableWorks::wait_until_idle(std::chrono::milliseconds limit) {
  std::unique_lock lock(running_->mutex);
  return running_->idle.wait_for(lock, limit, [this] { return running_->works.empty(); });
}

}  // namespace lockstep
