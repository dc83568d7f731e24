// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/base/file.h"
#include "lockstep/store/handshake.h"

namespace lockstep {

/// What a stranger may cost: connections that have proven nothing yet.
struct StrangerLimits {
  std::size_t most_unproven = 64;                  ///< At once. The next one waits in the system's queue.
  std::chrono::milliseconds patience{2000};        ///< For the whole proof.
  std::chrono::milliseconds makes_room_after{50};  ///< Then the oldest is dropped if another one wants in.
};

/// Counts since the start, for tests and measurements.
struct StoreCounts {
  std::int64_t accepted = 0;  ///< Connections.
  std::int64_t refused = 0;   ///< Connections that proved nothing, or proved wrong.
  std::int64_t proven = 0;
  std::int64_t requests = 0;
  std::int64_t bytes_sent = 0;
  std::size_t connections = 0;  ///< Open now.
  std::size_t most_connections = 0;
};

/// Serves the run's store from a thread of its own, to whoever proves that it knows the run's secret.
///
/// Before the proof, a connection may send kAnswerBytes and nothing of it is acted on. The thread sleeps while nobody
/// asks.
class StoreServer {
 public:
  /// `bound` is a bound TCP socket; it listens from here on.
  ///
  /// Throws: Error(kEnvironment) if the system refuses to listen, or to start what the thread needs.
  StoreServer(FileDescriptor bound, StoreIdentity identity, const StrangerLimits& limits = {});
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Threads: safe.
  StoreCounts counts() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep
