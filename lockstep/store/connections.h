// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/store/client.h"

namespace lockstep {

/// A process's connections to the run's store. Threads that ask at the same time use different connections, so a thread
/// that waits for a key does not delay another.
///
/// Threads: safe.
class StoreConnections {
 public:
  /// Makes one attempt to connect. Returns an empty descriptor if nobody listens.
  using Connect = std::function<FileDescriptor(StoreClient::Deadline until)>;

  StoreConnections(Connect connect, StoreIdentity identity);

  /// Opens the first connection. A busy server may close a new connection without an answer, so this tries again.
  ///
  /// Blocks: until `until` at most. Throws: as StoreClient.
  void open(StoreClient::Deadline until);

  /// Sends a request over a free connection, or a new one.
  ///
  /// Blocks: until `until` at most, and until `connect_until` for a new connection. Throws: as StoreClient::ask() and
  /// open().
  std::vector<std::string> ask(const StoreRequest& request, StoreClient::Deadline until,
                               StoreClient::Deadline connect_until = StoreClient::Deadline::max());

 private:
  StoreClient take(StoreClient::Deadline until);
  StoreClient make(StoreClient::Deadline until) const;

  Connect connect_;
  StoreIdentity identity_;
  std::mutex mutex_;
  std::vector<StoreClient> free_;
};

}  // namespace lockstep
