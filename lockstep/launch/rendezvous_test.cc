// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <set>

#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/socket.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

/// Slurm's variables for two nodes whose names do not resolve.
Placement two_nodes(int rank) {
  Placement at;
  at.rank = rank;
  at.world = 2;
  at.node_rank = rank;
  at.nodes = 2;
  at.source = "slurm";
  at.job = at.run = "4711.0";
  at.hosts = {"n1.invalid", "n2.invalid"};
  return at;
}

/// A port of this machine that a program listens on.
class TakenPort {
 public:
  TakenPort() : socket_(bind_all_addresses(0)) { EXPECT_EQ(::listen(socket_.get(), 1), 0); }
  int port() const { return port_of(socket_); }
  std::string text() const { return std::to_string(port()); }

 private:
  FileDescriptor socket_;
};

TEST(Rendezvous, ThePortIsTheLastThatSlurmReserved) {
  EXPECT_EQ(agreed_port(two_nodes(0), {{"SLURM_STEP_RESV_PORTS", "28520-28521,28599"}}), 28599);
  EXPECT_EQ(agreed_port(two_nodes(1), {{"SLURM_STEP_RESV_PORTS", "28530-28532"}}), 28532);
}

TEST(Rendezvous, WithoutAReservationThePortComesFromJobStepAndRestart) {
  Placement at = two_nodes(0);
  const auto first = agreed_port(at, {});
  EXPECT_EQ(first, agreed_port(two_nodes(1), {})) << "each rank derives the same";
  EXPECT_GE(*first, 18432);
  EXPECT_LT(*first, 30720);
  at.job = "4711.0-r1";
  EXPECT_NE(agreed_port(at, {}), first) << "what the killed start left behind may still hold it";
  at.job = "4711.1";
  EXPECT_NE(agreed_port(at, {}), first);
}

TEST(Rendezvous, AMasterPortOfTheUsersComesFirst) {
  const Environment env{{"MASTER_PORT", "29500"}, {"SLURM_STEP_RESV_PORTS", "28530-28532"}};
  EXPECT_EQ(agreed_port(two_nodes(0), env), 29500);
}

TEST(Rendezvous, WhatIsNoPortIsAnError) {
  EXPECT_HAS(message_of(ErrorKind::kEnvironment,
                        [] {
                          agreed_port(two_nodes(0), {{"MASTER_PORT", "70000"}});
                        }),
             "MASTER_PORT='70000' is not a port, want 1 to 65535");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment,
                        [] {
                          agreed_port(two_nodes(0), {{"SLURM_STEP_RESV_PORTS", "none"}});
                        }),
             "SLURM_STEP_RESV_PORTS='none' is not a list of ports");
}

TEST(Rendezvous, RanksWithoutANameForTheirStartAreRefused) {
  Placement at = two_nodes(0);
  at.job.clear();
  at.source = "pmi";
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { agreed_port(at, {}); }),
             "pmi started 2 ranks, but neither MASTER_PORT nor a job is set");
  at.world = 1;
  EXPECT_EQ(agreed_port(at, {}), std::nullopt);
}

TEST(Rendezvous, ADrawnPortIsNoneThatOutgoingConnectionsTake) {
  const auto range = split(text_or_nothing("/proc/sys/net/ipv4/ip_local_port_range"), '\t');
  const int first_ephemeral = parsed_int<int>(range.front()).value_or(32768);
  std::set<int> drawn;
  for (int i = 0; i < 50; ++i) drawn.insert(unclaimed_port());
  EXPECT_GE(*drawn.begin(), 1024);
  EXPECT_LT(*drawn.rbegin(), first_ephemeral);
  EXPECT_GT(drawn.size(), 40U) << "starts at the same time draw different ports";
}

TEST(Rendezvous, OnOneNodeItIsLoopback) {
  Placement at = two_nodes(1);
  at.nodes = 1;
  const auto found = rendezvous_of(at, {}, {}, {});
  EXPECT_EQ(found.master.address, "127.0.0.1");
  EXPECT_FALSE(found.published);
}

TEST(Rendezvous, RankZeroPublishesWhereNamesMeanNothingAndTheOthersRead) {
  const TemporaryFolder folder;
  const Environment env{{"SLURM_SRUN_COMM_PORT", "40001"}, {"LOCKSTEP_MEET_TIMEOUT", "5"}};
  const auto first = rendezvous_of(two_nodes(0), env, {}, folder.path() / "meet");
  ASSERT_TRUE(first.published);
  EXPECT_EQ(first.published->path(), folder.path() / "meet/exec-slurm-4711.0-40001");
  const auto second = rendezvous_of(two_nodes(1), env, {}, folder.path() / "meet");
  EXPECT_EQ(second.master.address, first.master.address);
  EXPECT_EQ(second.master.port, first.master.port);
  EXPECT_FALSE(second.published) << "who did not write it does not remove it";
}

TEST(Rendezvous, IsForeseenWithoutWaitingForRankZero) {
  const auto seen = expected_rendezvous(two_nodes(1), Environment{}, {});
  EXPECT_EQ(seen.master.address, "n1.invalid");
  EXPECT_EQ(seen.master.port, expected_rendezvous(two_nodes(0), Environment{}, {}).master.port);
  EXPECT_NE(expected_rendezvous(two_nodes(0), Environment{}, {}).master.address, "n1.invalid") << "its own address";
  EXPECT_FALSE(seen.published);
}

TEST(Rendezvous, WhatAnotherStartOfTheSameNumberPublishedIsNotRead) {
  const TemporaryFolder folder;
  rendezvous_of(two_nodes(0), {{"SLURM_SRUN_COMM_PORT", "40001"}}, {}, folder.path());
  const Environment later{{"SLURM_SRUN_COMM_PORT", "40002"}, {"LOCKSTEP_MEET_TIMEOUT", "0"}};
  EXPECT_HAS(message_of(ErrorKind::kPeer, [&] { rendezvous_of(two_nodes(1), later, {}, folder.path()); }),
             "rank 0 did not publish its address");
}

TEST(Rendezvous, WhatWasPublishedLongAgoIsSweptAway) {
  const TemporaryFolder folder;
  for (const char* name : {"exec-slurm-1.0-2", "exec-slurm-3.0-4", "slurm-5.0-0"})
    write_whole(folder.path() / name, "x");
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  for (const char* name : {"exec-slurm-1.0-2", "slurm-5.0-0"}) {
    std::filesystem::last_write_time(folder.path() / name, long_ago);
  }
  rendezvous_of(two_nodes(0), {}, {}, folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "exec-slurm-1.0-2"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "exec-slurm-3.0-4"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "slurm-5.0-0")) << "not of this kind";
}

TEST(Rendezvous, ATakenPortIsReplacedWhereItIsPublished) {
  const TemporaryFolder folder;
  const TakenPort taken;
  const Environment env{{"SLURM_STEP_RESV_PORTS", taken.text()}};
  EXPECT_FALSE(is_free(taken.port()));
  const auto found = rendezvous_of(two_nodes(0), env, {}, folder.path());
  EXPECT_NE(found.master.port, taken.port());
  EXPECT_TRUE(is_free(found.master.port));
}

TEST(Rendezvous, ATakenPortThatTheOthersDeriveTooIsAnErrorOfRankZero) {
  const TakenPort taken;
  Placement at = two_nodes(0);
  at.nodes = 1;
  const Environment env{{"SLURM_STEP_RESV_PORTS", taken.text()}};
  const auto said = message_of(ErrorKind::kEnvironment, [&] { rendezvous_of(at, env, {}, {}); });
  EXPECT_HAS(said, "port " + taken.text() + " (from SLURM_STEP_RESV_PORTS) is taken on rank 0's node");
  EXPECT_HAS(said, "set MASTER_PORT for all ranks");
  at.rank = 1;
  EXPECT_EQ(rendezvous_of(at, env, {}, {}).master.port, taken.port()) << "only rank 0 can tell";
}

TEST(Rendezvous, AnAddressOfTheUsersIsTakenAsItIs) {
  const auto found = rendezvous_of(two_nodes(1), {{"MASTER_ADDR", "n1i"}, {"MASTER_PORT", "29500"}}, {}, {});
  EXPECT_EQ(found.master.address, "n1i");
  EXPECT_EQ(found.master.port, 29500);
}

TEST(Rendezvous, RankZerosNodeIsTheFirstUnlessTasksWerePutByHand) {
  EXPECT_EQ(main_host(two_nodes(1), {}), "n1.invalid");
  EXPECT_EQ(main_host(two_nodes(1), {{"SLURM_DISTRIBUTION", "arbitrary"}}), std::nullopt);
}

TEST(Rendezvous, AnInterfaceThatTheSiteNamesIsPublished) {
  const TemporaryFolder folder;
  const TaskSettings site{.network = {.interfaces = {"hsn0", "lo"}}};
  EXPECT_EQ(rendezvous_of(two_nodes(0), {}, site, folder.path()).master.address, "127.0.0.1");
}

TEST(Rendezvous, AnInterfaceThatAVariableNamesMustBeThere) {
  const TemporaryFolder folder;
  const Environment env{{"LOCKSTEP_INTERFACE", "gone9"}};
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { rendezvous_of(two_nodes(0), env, {}, folder.path() / "meet"); }),
             "LOCKSTEP_INTERFACE='gone9' names no interface that has an address");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is published";
}

}  // namespace
}  // namespace lockstep
