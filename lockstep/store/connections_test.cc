// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/connections.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/store/server.h"
#include "tests/support/loopback.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A server, and the connections of one process to it.
class StoreConnected : public ::testing::Test {
 protected:
  StoreConnected() { server_.emplace(testing::bound_socket(port_), identity_); }

  std::vector<std::string> ask(StoreOperation operation, std::vector<std::string> fields,
                               milliseconds time = seconds(20)) {
    return connections_.ask({operation, 1, std::move(fields)}, Clock::now() + time);
  }

  StoreIdentity identity_{Secret::make(), "test"};
  int port_ = 0;
  std::optional<StoreServer> server_;
  StoreConnections connections_{[this](auto) { return testing::try_to_connect(port_); }, identity_};
};

TEST_F(StoreConnected, AThreadThatWaitsHoldsUpNoOther) {
  std::jthread waiter([&] { ask(StoreOperation::kWait, {"go"}); });
  EXPECT_EQ(ask(StoreOperation::kCheck, {"go"}).at(0), "0");
  ask(StoreOperation::kSet, {"go", "1"});
  waiter.join();
  EXPECT_LE(server_->counts().proven, 2);
}

TEST_F(StoreConnected, OneConnectionServesOneThread) {
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(ask(StoreOperation::kAdd, {"n", "1"}).at(0), std::to_string(i));
  // The server's thread publishes its counts after it has answered.
  while (server_->counts().requests < 10) std::this_thread::yield();
  EXPECT_EQ(server_->counts().proven, 1);
}

TEST_F(StoreConnected, AfterAWaitThatTookTooLongThereIsANewConnection) {
  EXPECT_THROW(ask(StoreOperation::kWait, {"never"}, milliseconds(20)), StoreError);
  EXPECT_EQ(ask(StoreOperation::kCheck, {"never"}).at(0), "0");
}

TEST_F(StoreConnected, AServerThatHasGoneIsSaid) {
  ask(StoreOperation::kSet, {"a", "1"});
  server_.reset();
  EXPECT_THROW(ask(StoreOperation::kGet, {"a"}, milliseconds(200)), StoreError);
  EXPECT_THROW(ask(StoreOperation::kGet, {"a"}, milliseconds(200)), StoreError);
}

}  // namespace
}  // namespace lockstep
