// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/connections.h"

#include <algorithm>
#include <thread>

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kShortestPause{5};
constexpr std::chrono::milliseconds kLongestPause{200};
constexpr std::chrono::seconds kHandshakeTimeout{10};

}  // namespace

StoreConnections::StoreConnections(Connect connect, StoreIdentity identity)
    : connect_(std::move(connect)), identity_(std::move(identity)) {}

void StoreConnections::open(StoreClient::Deadline until) {
  auto client = make(until);
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(client));
}

std::vector<std::string> StoreConnections::ask(const StoreRequest& request, StoreClient::Deadline until,
                                               StoreClient::Deadline connect_until) {
  auto client = take(std::min(until, connect_until));
  const auto give_back = [&] {
    const std::lock_guard lock(mutex_);
    if (client.is_usable()) free_.push_back(std::move(client));
  };
  try {
    auto fields = client.ask(request, until);
    give_back();
    return fields;
  } catch (const StoreError&) {
    give_back();
    throw;
  }
}

StoreClient StoreConnections::take(StoreClient::Deadline until) {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto client = std::move(free_.back());
      free_.pop_back();
      return client;
    }
  }
  return make(until);
}

StoreClient StoreConnections::make(StoreClient::Deadline until) const {
  for (auto pause = kShortestPause;; pause = std::min(pause * 2, kLongestPause)) {
    const bool is_last = Clock::now() + pause >= until;
    try {
      auto socket = connect_(until);
      if (!socket) throw StoreError(StoreFault::kLost, "nobody listens where the run's store was");
      return {std::move(socket), identity_, std::min(until, Clock::now() + kHandshakeTimeout)};
    } catch (const StoreError&) {
      if (is_last) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace lockstep
