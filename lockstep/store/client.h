// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/store/handshake.h"
#include "lockstep/store/wire.h"

namespace lockstep {

/// Why a request has no answer.
enum class StoreFault {
  kLate,     ///< No answer came in time.
  kLost,     ///< The server has gone, or cannot be reached.
  kSilent,   ///< The server's node does not answer any more, and has not closed the connection.
  kOver,     ///< The generation has ended, and the ranks join again in the next one.
  kRefused,  ///< The server does not do that. The fact says why.
};

class StoreError : public Error {
 public:
  StoreError(StoreFault fault, std::string_view fact, std::string_view hint = {})
      : Error(ErrorKind::kPeer, fact, hint), fault_(fault) {}

  StoreFault fault() const noexcept { return fault_; }

 private:
  StoreFault fault_;
};

class StoreClient;

/// A key of the whole run. It exists if the training of a rank has ended for good, or if the parent of a rank is lost.
/// Then no rank is started again.
inline constexpr const char* kTrainingEndedKey = "a training has ended";

/// Ends the present generation of the run, and returns the number of the next one. Ranks of the old one leave each
/// other. A rank may raise it at the same moment. Whoever comes first, the old generation has ended.
///
/// Blocks: until `until` at most. Throws: as StoreClient::ask().
std::uint32_t next_generation(StoreClient& client, Clock::time_point until);

/// One connection to the run's store.
///
/// A request that failed with kLate, kLost or kSilent ends the connection. Otherwise its late answer could be taken for
/// the answer to the next request.
///
/// Threads: one at a time. Throws: every method throws StoreError.
class StoreClient {
 public:
  using Deadline = Clock::time_point;

  /// Proves to the server at the other end of `socket` that this process knows the secret, and demands the same proof.
  ///
  /// Blocks: until `until` at most.
  /// Throws: Error(kPeer) as ClientHandshake; StoreError(kLost) if the server refuses this client, or does not know the
  ///         secret itself; StoreError(kLate) if the server sends nothing.
  StoreClient(FileDescriptor socket, const StoreIdentity& identity, Deadline until);

  /// Sends a request and returns the reply's fields.
  ///
  /// Blocks: until the time `until` at most. kGet and kWait take until all keys exist.
  std::vector<std::string> ask(const StoreRequest& request, Deadline until);

  /// True if the connection can be used for another request.
  bool is_usable() const { return static_cast<bool>(socket_); }

 private:
  void send(std::string_view bytes, Deadline until);
  std::string receive(std::size_t count, Deadline until);
  void await(short events, Deadline until);
  [[noreturn]] void end_by(int error);  ///< A value of errno.
  [[noreturn]] void end(StoreFault fault, std::string_view fact, std::string_view hint = {});

  FileDescriptor socket_;
};

}  // namespace lockstep
