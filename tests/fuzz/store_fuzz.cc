// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/store/generations.h"
#include "lockstep/store/handshake.h"
#include "lockstep/store/wire.h"

namespace {

using lockstep::decode_reply;
using lockstep::decode_request;
using lockstep::encode;

/// The bytes of a client that has proven itself. Its requests are made by four clients in turn.
void feed_requests(std::string_view bytes) {
  lockstep::FrameReader reader;
  lockstep::Generations store;
  const auto half = bytes.size() / 2;
  std::uint64_t client = 0;
  for (const auto part : {bytes.substr(0, half), bytes.substr(half)}) {
    reader.push(part);
    while (const auto message = reader.next()) {
      if (const auto reply = decode_reply(*message)) LOCKSTEP_ASSERT(encode(*reply).substr(4) == *message);
      const auto request = decode_request(*message);
      if (!request) return;
      LOCKSTEP_ASSERT(encode(*request).substr(4) == *message);
      client = (client + 1) % 4;
      store.forget(client);
      const auto reply = store.apply(client, *request);
      if (reply) LOCKSTEP_ASSERT(decode_reply(encode(*reply).substr(4)) == *reply);
      for (const auto& [who, answer] : store.take_answers()) LOCKSTEP_ASSERT(who != client || !reply);
    }
  }
}

}  // namespace

/// Tries the bytes on both sides of the handshake, then as requests.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const lockstep::StoreIdentity identity{};
  const lockstep::ServerHandshake server(identity);
  LOCKSTEP_ASSERT(!server.accepts(bytes.substr(0, std::min(size, lockstep::kAnswerBytes))));
  if (size >= lockstep::kHelloBytes) {
    try {
      const lockstep::ClientHandshake client(identity, bytes.substr(0, lockstep::kHelloBytes));
      LOCKSTEP_ASSERT(!client.accepts(bytes.substr(0, lockstep::kProofBytes)));
    } catch (const lockstep::Error& error) {
      if (error.kind() != lockstep::ErrorKind::kPeer) throw;
    }
  }
  feed_requests(bytes);
  return 0;
}
