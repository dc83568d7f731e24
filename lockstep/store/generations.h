// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/store/wire.h"

namespace lockstep {

/// The store's keys and values, and the requests that wait for a key.
///
/// Keys belong to a generation of the run, or, with generation 0, to the whole run. The first generation is 1. Raising
/// it deletes the keys of the one before, and answers every request that waits in it with kOver. A request for a
/// generation that has ended gets kOver at once.
///
/// Threads: one at a time.
class Generations {
 public:
  using ClientId = std::uint64_t;

  /// Carries out a request and returns the reply. Returns nullopt if the request must wait for a key. take_answers()
  /// then returns the reply later. A client must not send another request before it has the reply.
  std::optional<StoreReply> apply(ClientId client, const StoreRequest& request);

  /// Returns the replies to requests that waited and need not wait any longer.
  std::vector<std::pair<ClientId, StoreReply>> take_answers() { return std::exchange(answers_, {}); }

  /// Drops the waiting request of a client that has left, and does what it has asked for with kOnLoss. Other requests
  /// may then wait no longer.
  void forget(ClientId client);

  std::uint32_t current() const { return current_; }
  std::size_t waits() const { return waits_.size(); }

 private:
  using Keys = std::unordered_map<std::string, std::string>;
  using Fields = std::vector<std::string>;
  struct Wait {
    StoreRequest request;
    std::size_t met = 0;  ///< The first keys that were there. They are looked at again at the end.
  };

  Keys& keys_of(const StoreRequest& request) { return request.generation == 0 ? lasting_ : keys_; }
  StoreReply set(Keys& keys, const Fields& fields, std::uint32_t generation);
  StoreReply add(Keys& keys, const Fields& fields, std::uint32_t generation);
  StoreReply compare_set(Keys& keys, const Fields& fields, std::uint32_t generation);
  StoreReply raise(std::uint32_t wanted);
  bool put(Keys& keys, const std::string& key, std::string value, std::uint32_t generation);
  std::optional<StoreReply> await(ClientId client, Wait wait);
  void forget_wait(ClientId client);
  void wake(const std::string& key, std::uint32_t generation);

  std::uint32_t current_ = 1;
  Keys keys_;
  Keys lasting_;
  std::size_t bytes_ = 0;  ///< Of all keys and values.
  std::unordered_map<ClientId, Wait> waits_;
  std::unordered_map<ClientId, Fields> on_loss_;                        ///< Keys and values.
  std::unordered_map<std::string, std::vector<ClientId>> waiting_for_;  ///< By generation and first missing key.
  std::vector<std::pair<ClientId, StoreReply>> answers_;
};

}  // namespace lockstep
