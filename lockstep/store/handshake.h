// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/store/secret.h"

namespace lockstep {

/// The facts that both ends of a connection to the store must share, which are the run's secret and the start of the
/// run.
struct StoreIdentity {
  Secret secret{};
  std::string start{};  ///< The same text on every rank of one start. No secret.
};

/// Sizes on the wire. docs/formats/store-wire.md describes each part.
inline constexpr std::string_view kStoreMagic = "LSS1";  ///< Its last character is the version.
inline constexpr std::size_t kNonceBytes = 16;
inline constexpr std::size_t kStartIdBytes = 8;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kHelloBytes = kStoreMagic.size() + kStartIdBytes + kNonceBytes;  ///< Server to client.
inline constexpr std::size_t kAnswerBytes = kNonceBytes + kProofBytes;                        ///< Client to server.

/// The server's side of one connection's handshake. Each connection gets a new nonce, so an answer that somebody has
/// recorded is never right again.
class ServerHandshake {
 public:
  /// `identity` must outlive the handshake.
  ///
  /// Throws: Error(kEnvironment) if the system gives no random bytes.
  explicit ServerHandshake(const StoreIdentity& identity);

  std::string hello() const;

  /// True if the client's answer proves that it knows the secret.
  bool accepts(std::string_view answer) const;

  /// Returns the server's own proof, for an answer that was accepted.
  std::string proof(std::string_view answer) const;

 private:
  const StoreIdentity& identity_;
  std::string nonce_;
};

/// The client's side.
class ClientHandshake {
 public:
  /// `identity` must outlive the handshake.
  ///
  /// Throws: Error(kPeer) if the server's hello is of another version of the store, or of another run or start.
  ClientHandshake(const StoreIdentity& identity, std::string_view hello);

  std::string answer() const;

  /// True if the server's proof shows that it knows the secret too.
  bool accepts(std::string_view proof) const;

 private:
  const StoreIdentity& identity_;
  std::string server_nonce_;
  std::string nonce_;
};

}  // namespace lockstep
