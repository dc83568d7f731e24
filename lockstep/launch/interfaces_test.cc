// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

const std::vector<InterfaceAddress> kNode = {{"lo", "127.0.0.1"},       {"docker0", "172.17.0.1"}, {"eth0", "10.0.0.1"},
                                             {"ib0", "10.13.0.1"},      {"ib01", "10.13.0.2"},     {"lo", "::1", true},
                                             {"eth0", "fd00::1", true}, {"hsn0", "fd13::1", true}};

std::string chosen(const Environment& env, std::vector<std::string> profile = {}) {
  return choose_address(kNode, env, profile);
}

std::string refused(const Environment& env) {
  return message_of(ErrorKind::kEnvironment, [&] { chosen(env); });
}

struct Choice {
  const char* value;
  const char* address;
};

void expect_choices(const std::string& variable, const std::vector<Choice>& choices) {
  for (const auto& choice : choices) {
    EXPECT_EQ(chosen({{variable, choice.value}}), choice.address) << variable << "=" << choice.value;
  }
}

TEST(ChooseAddress, TakesTheFirstOfAListOfExactNamesFromOursAndGloos) {
  for (const char* variable : {"LOCKSTEP_INTERFACE", "GLOO_SOCKET_IFNAME"}) {
    expect_choices(variable, {{"ib0", "10.13.0.1"},
                              {"ib01,ib0", "10.13.0.2"},
                              {"gone,ib0", "10.13.0.1"},
                              {"ib0,gone", "10.13.0.1"},
                              {"lo", "127.0.0.1"},
                              {"docker0", "172.17.0.1"},
                              {"=ib01", "10.13.0.2"},
                              {" ib01 ,", "10.13.0.2"},
                              {"^eth0", "10.13.0.1"},
                              {"^eth", "10.0.0.1"}});
    EXPECT_HAS(refused({{variable, "ib"}}), std::string(variable) + "='ib' names no interface that has an address");
  }
}

TEST(ChooseAddress, TakesPrefixesFromNcclUnlessItAsksForExactNames) {
  expect_choices("NCCL_SOCKET_IFNAME", {{"ib", "10.13.0.1"},
                                        {"ib01,ib", "10.13.0.2"},
                                        {"hs,eth", "fd13::1"},
                                        {"gone,eth", "10.0.0.1"},
                                        {"eth0:5000", "10.0.0.1"},
                                        {"=ib01", "10.13.0.2"},
                                        {"=gone,ib0", "10.13.0.1"}});
  EXPECT_HAS(refused({{"NCCL_SOCKET_IFNAME", "=ib"}}), "NCCL_SOCKET_IFNAME='=ib' names no interface");
}

TEST(ChooseAddress, TakesTheFirstOtherThanThoseThatNcclExcludes) {
  expect_choices("NCCL_SOCKET_IFNAME", {{"^eth", "10.13.0.1"},
                                        {"^docker,lo", "10.0.0.1"},
                                        {"^eth,ib", "fd13::1"},
                                        {"^=eth,ib0", "10.0.0.1"},
                                        {"^=eth0,ib0", "10.13.0.2"},
                                        {"^eth,ib,hsn", "127.0.0.1"}});
  EXPECT_HAS(refused({{"NCCL_SOCKET_IFNAME", "^eth,ib,hsn,lo"}}),
             "NCCL_SOCKET_IFNAME='^eth,ib,hsn,lo' leaves no interface that has an address");
}

TEST(ChooseAddress, TakesTheFirstVariableThatNamesSomething) {
  EXPECT_EQ(chosen({{"LOCKSTEP_INTERFACE", "ib0"}, {"GLOO_SOCKET_IFNAME", "eth0"}}), "10.13.0.1");
  EXPECT_EQ(chosen({{"GLOO_SOCKET_IFNAME", "ib0"}, {"NCCL_SOCKET_IFNAME", "eth"}}), "10.13.0.1");
  EXPECT_EQ(chosen({{"LOCKSTEP_INTERFACE", ","}, {"GLOO_SOCKET_IFNAME", "^"}, {"NCCL_SOCKET_IFNAME", "ib"}}),
            "10.13.0.1");
  EXPECT_HAS(refused({{"LOCKSTEP_INTERFACE", "gone"}, {"GLOO_SOCKET_IFNAME", "eth0"}}), "LOCKSTEP_INTERFACE='gone'");
}

TEST(ChooseAddress, TakesIPv6FromAnInterfaceWithoutIPv4) {
  EXPECT_EQ(chosen({{"LOCKSTEP_INTERFACE", "hsn0"}}), "fd13::1");
  EXPECT_EQ(chosen({}, {"hsn"}), "fd13::1");
  const std::vector<InterfaceAddress> six = {{"lo", "127.0.0.1"}, {"lo", "::1", true}, {"hsn0", "fd13::1", true}};
  EXPECT_EQ(choose_address(six, {}), "fd13::1");
  const std::vector<InterfaceAddress> both = {{"eth0", "fd00::1", true}, {"eth0", "10.0.0.1"}, {"ib0", "10.13.0.1"}};
  EXPECT_EQ(choose_address(both, {}), "10.0.0.1") << "of the same interface, IPv4 first";
}

TEST(ChooseAddress, ListsTheInterfacesThatHaveAnAddressIfTheNamedOneHasNone) {
  const auto text = refused({{"LOCKSTEP_INTERFACE", "hsn9"}});
  EXPECT_HAS(text,
             "LOCKSTEP_INTERFACE='hsn9' names no interface that has an address; those that have one: lo (127.0.0.1), "
             "docker0 (172.17.0.1), eth0 (10.0.0.1), ib0 (10.13.0.1)");
  EXPECT_HAS(text, "hsn0 (fd13::1)");
  EXPECT_HAS(text, "hint: set LOCKSTEP_INTERFACE to one of them");
}

TEST(ChooseAddress, TakesTheProfilesFirstThatIsUpAndPassesOverTheOthers) {
  EXPECT_EQ(chosen({}, {"ib"}), "10.13.0.1");
  EXPECT_EQ(chosen({}, {"gone", "", "ib01"}), "10.13.0.2");
  EXPECT_EQ(chosen({}, {"gone"}), "10.0.0.1");
  EXPECT_EQ(chosen({{"GLOO_SOCKET_IFNAME", "eth0"}}, {"ib0"}), "10.0.0.1") << "a variable comes before the profile";
}

TEST(ChooseAddress, TakesLoopbackOnlyIfThereIsNoOther) {
  EXPECT_EQ(chosen({}), "10.0.0.1") << "neither loopback nor docker0";
  const std::vector<InterfaceAddress> alone = {{"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}};
  EXPECT_EQ(choose_address(alone, {}), "127.0.0.1");
  EXPECT_EQ(choose_address({}, {}), "127.0.0.1");
}

TEST(OwnAddress, IsLoopbackOnOneNodeUnlessAnInterfaceIsNamed) {
  const Placement one;
  EXPECT_EQ(own_address(one, {}), "127.0.0.1");
  EXPECT_EQ(own_address(one, {{"NCCL_SOCKET_IFNAME", "^docker"}}), "127.0.0.1");
  EXPECT_EQ(own_address(one, {}, std::vector<std::string>{"eth"}), "127.0.0.1");
  for (const auto& each : list_addresses()) {
    if (!each.is_ipv6) EXPECT_FALSE(own_address(one, {{"LOCKSTEP_INTERFACE", each.interface}}).empty());
  }
  EXPECT_HAS(message_of(ErrorKind::kEnvironment,
                        [&] {
                          own_address(one, {{"LOCKSTEP_INTERFACE", "gone9"}});
                        }),
             "LOCKSTEP_INTERFACE='gone9' names no interface that has an address");
}

TEST(Interfaces, OfThisMachineAreListedIPv4First) {
  const auto here = list_addresses();
  EXPECT_TRUE(std::ranges::is_partitioned(here, [](const auto& each) { return !each.is_ipv6; }));
  EXPECT_NE(std::ranges::find(here, "127.0.0.1", &InterfaceAddress::address), here.end());
}

TEST(Interfaces, OfContainersAreKnownByTheirNames) {
  EXPECT_TRUE(is_for_containers("docker0"));
  EXPECT_FALSE(is_for_containers("bond0"));
}

}  // namespace
}  // namespace lockstep
