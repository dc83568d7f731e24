// SPDX-License-Identifier: Apache-2.0
// The thread waits for a key that only the destructor sets. So the wait ends in one of four ways. The generation ends
// (kOver), the key is set, the server closes the connection (kLost), or its node is silent (kSilent).
#include "lockstep/store/generation_watch.h"

#include <chrono>
#include <utility>

namespace lockstep {
namespace {

constexpr std::chrono::hours kForEver{24 * 365};
constexpr std::chrono::seconds kStoreAnswersWithin{5};

}  // namespace

GenerationWatch::GenerationWatch(std::shared_ptr<StoreConnections> connections, std::uint32_t generation,
                                 const std::string& name, std::function<void()> ended)
    : connections_(std::move(connections)), generation_(generation), key_("watch/" + name) {
  thread_ = std::jthread([this, ended = std::move(ended)] {
    try {
      // A store that is lost before the request would otherwise be looked for all that time.
      connections_->ask({StoreOperation::kWait, generation_, {key_}}, Clock::now() + kForEver,
                        Clock::now() + kStoreAnswersWithin);
    } catch (const StoreError& error) {
      // A server that closes the connection has ended itself, and the other ranks' connections tell the rest.
      if (error.fault() == StoreFault::kOver || error.fault() == StoreFault::kSilent) ended();
    }
  });
}

GenerationWatch::~GenerationWatch() {
  try {
    connections_->ask({StoreOperation::kSet, generation_, {key_, "1"}}, Clock::now() + kStoreAnswersWithin);
  } catch (const StoreError&) {
    // The generation has ended, or the store is lost. In both cases the thread's wait has ended too.
  }
}

}  // namespace lockstep
