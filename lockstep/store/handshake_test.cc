// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/handshake.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(StoreHandshake, BothEndsProveThatTheyKnowTheSecret) {
  const StoreIdentity identity{Secret::make(), "job 1"};
  const ServerHandshake server(identity);
  const ClientHandshake client(identity, server.hello());
  EXPECT_EQ(server.hello().size(), kHelloBytes);
  EXPECT_TRUE(server.accepts(client.answer()));
  EXPECT_TRUE(client.accepts(server.proof(client.answer())));
}

TEST(StoreHandshake, RefusesARecordedAnswerAtTheNextConnection) {
  const StoreIdentity identity{Secret::make(), "job 1"};
  const ServerHandshake first(identity);
  const auto recorded = ClientHandshake(identity, first.hello()).answer();
  ASSERT_TRUE(first.accepts(recorded));
  const ServerHandshake second(identity);
  EXPECT_FALSE(second.accepts(recorded));
}

TEST(StoreHandshake, RefusesAnAnswerOfTheWrongLengthOrSecret) {
  const StoreIdentity identity{Secret::make(), "job 1"};
  const ServerHandshake server(identity);
  const auto answer = ClientHandshake(identity, server.hello()).answer();
  EXPECT_FALSE(server.accepts(answer.substr(1)));
  EXPECT_FALSE(server.accepts(answer + "x"));
  EXPECT_FALSE(server.accepts(std::string(kAnswerBytes, '\0')));
  // The server's own proof, sent back as the client's.
  EXPECT_FALSE(server.accepts(answer.substr(0, kNonceBytes) + server.proof(answer)));
}

TEST(StoreHandshake, TheClientSaysWhatAnswersInsteadOfItsStore) {
  const StoreIdentity identity{Secret::make(), "job 1"};
  const auto says = [&](std::string_view hello) {
    return message_of(ErrorKind::kPeer, [&] { const ClientHandshake client(identity, hello); });
  };
  EXPECT_HAS(says("SSH-2.0-OpenSSH_9.2p1 Debian"), "another program than Lockstep's store answers");
  EXPECT_HAS(says("LSS9" + std::string(24, 'x')), "the store speaks version 9 of its protocol, want 1");
  const StoreIdentity other_secret{Secret::make(), "job 1"};
  EXPECT_HAS(says(ServerHandshake(other_secret).hello()), "the store belongs to another run");
  const StoreIdentity other_start{identity.secret, "job 2"};
  EXPECT_HAS(says(ServerHandshake(other_start).hello()), "the store belongs to another run");
}

TEST(StoreHandshake, TheClientRefusesAServerThatOnlyRepeatsAHello) {
  const StoreIdentity identity{Secret::make(), "job 1"};
  const ClientHandshake client(identity, ServerHandshake(identity).hello());
  EXPECT_FALSE(client.accepts(std::string(kProofBytes, 'x')));
  EXPECT_FALSE(client.accepts(client.answer().substr(kNonceBytes)));
}

}  // namespace
}  // namespace lockstep
