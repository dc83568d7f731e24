// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/network.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace lockstep {
namespace {

TEST(Ports, AreTakenWhileASocketListensThere) {
  FileDescriptor socket = bound_everywhere(0);
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  const int port = port_of(socket);
  EXPECT_GT(port, 0);
  EXPECT_FALSE(is_free(port));
  socket.reset();
  EXPECT_TRUE(is_free(port));
}

TEST(Addresses, AreToldAsNumbersIPv4First) {
  const auto here = addresses_here();
  EXPECT_TRUE(std::ranges::is_partitioned(here, [](const auto& each) { return !each.is_ipv6; }));
  EXPECT_NE(std::ranges::find(here, "127.0.0.1", &InterfaceAddress::address), here.end());
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  EXPECT_EQ(numeric_text(reinterpret_cast<const sockaddr*>(&six)), "::1");
  EXPECT_EQ(numeric_text(nullptr), std::nullopt);
}

TEST(Addresses, OfANameAreThoseThatItResolvesTo) {
  EXPECT_EQ(addresses_of_host("10.0.0.7"), std::vector<std::string>{"10.0.0.7"});
  EXPECT_TRUE(addresses_of_host("n1.invalid").empty());
}

TEST(Interfaces, OfContainersAreKnownByTheirNames) {
  EXPECT_TRUE(is_for_containers("docker0"));
  EXPECT_FALSE(is_for_containers("bond0"));
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_FALSE(is_loopback("10.127.0.1"));
}

}  // namespace
}  // namespace lockstep
