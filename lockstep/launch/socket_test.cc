// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::message_of;

bool has_ipv6() {
  return static_cast<bool>(FileDescriptor(::socket(AF_INET6, SOCK_STREAM, 0))) && !resolve_host("::1").empty();
}

TEST(Ports, AreTakenWhileASocketListensThere) {
  FileDescriptor socket = bind_all_addresses(0);
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  const int port = port_of(socket);
  EXPECT_GT(port, 0);
  EXPECT_FALSE(is_free(port));
  socket.reset();
  EXPECT_TRUE(is_free(port));
}

TEST(Addresses, AreNumericText) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  EXPECT_EQ(numeric_text(reinterpret_cast<const sockaddr*>(&six)), "::1");
  EXPECT_EQ(numeric_text(nullptr), std::nullopt);
}

TEST(Addresses, LeadBackToTheirNodeIfTheyAreLoopback) {
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("10.127.0.1"));
}

TEST(Addresses, OfAHostAreThoseThatItResolvesTo) {
  EXPECT_EQ(resolve_host("10.0.0.7"), std::vector<std::string>{"10.0.0.7"});
  EXPECT_EQ(resolve_host("fd00::7"), std::vector<std::string>{"fd00::7"});
  EXPECT_TRUE(resolve_host("n1.invalid").empty());
}

TEST(BindSocket, SaysWhichPortIsTaken) {
  const auto first = bind_socket("127.0.0.1");
  ASSERT_EQ(::listen(first.get(), 1), 0);
  const auto text = message_of(ErrorKind::kEnvironment, [&] { bind_socket("127.0.0.1", port_of(first)); });
  EXPECT_HAS(text, "cannot bind 127.0.0.1:" + std::to_string(port_of(first)) + ": Address already in use");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [] { bind_socket("203.0.113.7"); }), "cannot bind 203.0.113.7:0");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [] { bind_socket("n1.invalid"); }),
             "'n1.invalid' is not the address of any machine");
}

TEST(ListenOn, SaysWhichPortIsTaken) {
  const auto first = listen_on(0);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { listen_on(port_of(first)); }),
             "port " + std::to_string(port_of(first)) + " cannot be listened on: Address already in use");
}

TEST(LocalAddress, TowardsAPeerIsKnownOnlyIfSomebodyListens) {
  const auto socket = bind_socket("127.0.0.1");
  const Endpoint peer{"127.0.0.1", port_of(socket)};
  EXPECT_EQ(local_address_towards(peer, std::chrono::seconds(1)), std::nullopt);
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  EXPECT_EQ(local_address_towards(peer, std::chrono::seconds(1)), "127.0.0.1");
}

TEST(LocalAddress, TowardsAPeerMayBeIPv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 on this machine";
  const auto socket = bind_socket("::1");
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  EXPECT_EQ(local_address_towards({"::1", port_of(socket)}, std::chrono::seconds(1)), "::1");
}

TEST(Connections, KnowTheAddressOfTheOtherEnd) {
  const auto listener = listen_on(0);
  const auto until = Clock::now() + std::chrono::seconds(5);
  const auto client = connect_until({"127.0.0.1", port_of(listener)}, until);
  const auto server = accept_connection(listener, until);
  ASSERT_TRUE(server);
  EXPECT_EQ(peer_address(server), "127.0.0.1");
  EXPECT_FALSE(accept_connection(listener, Clock::now() + milliseconds(1)));
}

TEST(Connections, ThatDoNotComeAboutAreErrorsAfterTheDeadline) {
  const auto silent = bind_socket("127.0.0.1");
  const auto soon = [] { return Clock::now() + milliseconds(50); };
  EXPECT_HAS(message_of(ErrorKind::kPeer,
                        [&] {
                          connect_until({"127.0.0.1", port_of(silent)}, soon());
                        }),
             "no connection to 127.0.0.1 port " + std::to_string(port_of(silent)) + " in time");
  EXPECT_HAS(message_of(ErrorKind::kPeer,
                        [&] {
                          connect_until({"n1.invalid", 1}, soon());
                        }),
             "'n1.invalid' does not resolve");
}

}  // namespace
}  // namespace lockstep
