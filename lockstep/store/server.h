// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/base/file.h"
#include "lockstep/store/handshake.h"

namespace lockstep {

/// Limits on connections that have not proven themselves yet.
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

/// Serves the run's store in a thread of its own. It serves only clients that prove that they know the run's secret.
///
/// Before its proof, a connection can send at most kAnswerBytes, and the server carries out no request of it. The
/// thread sleeps while there are no requests.
class StoreServer {
 public:
  /// Listens on `bound`, which is a TCP socket that is bound already.
  ///
  /// Throws: Error(kEnvironment) if the system refuses to listen, or to start the thread.
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
