// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/connections.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "lockstep/store/server.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

sockaddr_in loopback(int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

/// A server, and the connections of one process to it.
class StoreConnected : public ::testing::Test {
 protected:
  StoreConnected() {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto at = loopback(0);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    server_.emplace(std::move(socket), identity_);
  }

  FileDescriptor connect() const {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto at = loopback(port_);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) socket.reset();
    return socket;
  }
  std::vector<std::string> ask(StoreOperation operation, std::vector<std::string> fields,
                               milliseconds time = seconds(20)) {
    return connections_.ask({operation, 1, std::move(fields)}, Clock::now() + time);
  }

  StoreIdentity identity_{Secret::make(), "test"};
  int port_ = 0;
  std::optional<StoreServer> server_;
  StoreConnections connections_{[this](auto) { return connect(); }, identity_};
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
