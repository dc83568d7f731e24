// SPDX-License-Identifier: Apache-2.0
// Challenge and response. The server sends a nonce. The client sends its own nonce and an HMAC over both. The server
// then proves itself by an HMAC over the same bytes with another first letter. Because the letters differ, neither
// end's HMAC can be used in the place of the other's.
//
// The client waits for the server's hello, which holds a magic word, the id of the start and the nonce. It sends its
// answer, waits for the server's HMAC, and is then proven. A hello of another version or start ends the connection, and
// so does a wrong HMAC at either end. The server reads nothing else before the answer.
#include "lockstep/store/handshake.h"

#include "lockstep/base/error.h"
#include "lockstep/store/sha256.h"

namespace lockstep {
namespace {

std::string mac(const StoreIdentity& identity, char role, std::string_view first, std::string_view second) {
  std::string message(1, role);
  message.append(first).append(second).append(identity.start);
  return std::string(as_bytes_view(hmac_sha256(identity.secret.bytes(), message)));
}

std::string start_id(const StoreIdentity& identity) { return mac(identity, 'I', {}, {}).substr(0, kStartIdBytes); }

std::string client_proof(const StoreIdentity& identity, std::string_view server, std::string_view client) {
  return mac(identity, 'C', server, client);
}

std::string server_proof(const StoreIdentity& identity, std::string_view server, std::string_view client) {
  return mac(identity, 'S', client, server);
}

}  // namespace

ServerHandshake::ServerHandshake(const StoreIdentity& identity)
    : identity_(identity), nonce_(random_bytes(kNonceBytes)) {}

std::string ServerHandshake::hello() const { return std::string(kStoreMagic) + start_id(identity_) + nonce_; }

bool ServerHandshake::accepts(std::string_view answer) const {
  if (answer.size() != kAnswerBytes) return false;
  const auto want = client_proof(identity_, nonce_, answer.substr(0, kNonceBytes));
  return equal_in_constant_time(want, answer.substr(kNonceBytes));
}

std::string ServerHandshake::proof(std::string_view answer) const {
  return server_proof(identity_, nonce_, answer.substr(0, kNonceBytes));
}

ClientHandshake::ClientHandshake(const StoreIdentity& identity, std::string_view hello)
    : identity_(identity), nonce_(random_bytes(kNonceBytes)) {
  LOCKSTEP_ASSERT(hello.size() == kHelloBytes);
  const auto magic = hello.substr(0, kStoreMagic.size());
  if (magic != kStoreMagic) {
    const bool is_other_version = magic.starts_with("LSS");
    throw Error(ErrorKind::kPeer,
                is_other_version ? "the store speaks version " + std::string(magic.substr(3)) +
                                       " of its protocol, want " + std::string(kStoreMagic.substr(3))
                                 : std::string("another program than Lockstep's store answers"),
                "start all ranks with the same version of Lockstep, at a separate port");
  }
  if (hello.substr(kStoreMagic.size(), kStartIdBytes) != start_id(identity)) {
    throw Error(ErrorKind::kPeer, "the store belongs to another run, or to another start of this one",
                "look for a run that was killed and left its address in .meeting; remove that folder");
  }
  server_nonce_ = hello.substr(kStoreMagic.size() + kStartIdBytes);
}

std::string ClientHandshake::answer() const { return nonce_ + client_proof(identity_, server_nonce_, nonce_); }

bool ClientHandshake::accepts(std::string_view proof) const {
  return equal_in_constant_time(server_proof(identity_, server_nonce_, nonce_), proof);
}

}  // namespace lockstep
