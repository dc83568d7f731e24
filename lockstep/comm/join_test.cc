// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <torch/torch.h>

#include <fstream>
#include <thread>

#include "lockstep/base/text.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/socket.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

std::string variable(const char* name) { return Environment::of_process().get(name).value_or(""); }

int own_rank() { return *parsed_int<int>(variable("LOCKSTEP_TEST_RANK")); }

// Returns a placement from Slurm for this rank. It has a job but no address of rank 0.
Placement slurm_placement(int world) {
  Placement at;
  at.rank = at.local_rank = own_rank();
  at.world = at.local_world = world;
  at.source = "slurm";
  at.job = "4711.0";
  return at;
}

TEST(Join, NamesARankThatNeverArrivesOnEveryRankThatDid) {
  if (!testing::is_rank()) {
    testing::expect_of_ranks({.world = 4, .absent = {2}, .variables = {{"LOCKSTEP_MEET_TIMEOUT", "5"}}});
    return;
  }
  testing::begin_rank();
  const auto text = message_of(ErrorKind::kPeer, [] { join(); });
  EXPECT_HAS(text, "rank 2 did not arrive within 5 s (want 4 ranks)");
  EXPECT_HAS(text, "LOCKSTEP_MEET_TIMEOUT");
}

TEST(Join, RankZeroDyingWhileOthersWaitIsAPeerErrorForThem) {
  if (!testing::is_rank()) {
    testing::expect_of_ranks(
        {.world = 3, .absent = {2}, .variables = {{"LOCKSTEP_MEET_TIMEOUT", "20"}}, .statuses = {{0, 128 + SIGALRM}}});
    return;
  }
  testing::begin_rank();
  if (own_rank() == 0) ::alarm(1);
  message_of(ErrorKind::kPeer, [] { join(); });
}

TEST(Join, SaysWhereRankZeroWasAwaited) {
  if (!testing::is_rank()) {
    testing::expect_of_ranks({.world = 2, .absent = {0}, .variables = {{"LOCKSTEP_MEET_TIMEOUT", "1"}}});
    return;
  }
  testing::begin_rank();
  EXPECT_HAS(message_of(ErrorKind::kPeer, [] { join(); }),
             "rank 0 did not arrive: nobody listened at 127.0.0.1:" + variable("MASTER_PORT") + " in 1 s");
}

void join_through_folder(int world) {
  testing::begin_rank();
  auto group = join(slurm_placement(world), Environment{}, {.run_dir = variable("LOCKSTEP_TEST_FOLDER")});
  EXPECT_EQ(group.all_gather(group.rank()), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(Join, MeetsThroughAFolderWhereNoLauncherSaysHowAndLeavesNothingThere) {
  if (testing::is_rank()) return join_through_folder(3);
  const TemporaryFolder folder;
  testing::expect_of_ranks({.world = 3, .variables = {{"LOCKSTEP_TEST_FOLDER", folder.path().string()}}});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Join, LeavesNothingInTheWorkingFolder) {
  if (testing::is_rank()) {
    testing::begin_rank();
    std::filesystem::current_path(variable("LOCKSTEP_TEST_FOLDER"));
    auto group = join(slurm_placement(2), Environment{});
    EXPECT_EQ(group.all_gather(group.rank()), (std::vector<std::int64_t>{0, 1}));
    return;
  }
  const TemporaryFolder folder;
  testing::expect_of_ranks({.world = 2, .variables = {{"LOCKSTEP_TEST_FOLDER", folder.path().string()}}});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "neither runs nor runs/.meeting stays";
}

TEST(Join, LeavesNothingIfARankDoesNotArrive) {
  if (testing::is_rank()) {
    testing::begin_rank();
    const Environment env{{"LOCKSTEP_MEET_TIMEOUT", "1"}};
    message_of(ErrorKind::kPeer, [&] { join(slurm_placement(3), env, {.run_dir = variable("LOCKSTEP_TEST_FOLDER")}); });
    return;
  }
  const TemporaryFolder folder;
  testing::expect_of_ranks(
      {.world = 3, .absent = {2}, .variables = {{"LOCKSTEP_TEST_FOLDER", folder.path().string()}}});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Join, SurvivesTheAddressThatADeadRunLeftBehind) {
  if (testing::is_rank()) return join_through_folder(3);
  const TemporaryFolder folder;
  const auto dead = bind_socket("127.0.0.1");
  make_folder(folder.path() / ".meeting");
  write_whole(folder.path() / ".meeting/slurm-4711.0-0", "127.0.0.1 " + std::to_string(port_of(dead)) + "\n");
  testing::expect_of_ranks({.world = 3, .variables = {{"LOCKSTEP_TEST_FOLDER", folder.path().string()}}});
}

TEST(Join, SaysWhichFileWasNotWritten) {
  if (!testing::is_rank()) {
    const TemporaryFolder folder;
    testing::expect_of_ranks(
        {.world = 2, .absent = {0}, .variables = {{"LOCKSTEP_TEST_FOLDER", folder.path().string()}}});
    return;
  }
  testing::begin_rank();
  const std::string folder = variable("LOCKSTEP_TEST_FOLDER");
  const auto text = message_of(ErrorKind::kPeer, [&] {
    join(slurm_placement(2), Environment{{"LOCKSTEP_MEET_TIMEOUT", "1"}}, {.run_dir = folder});
  });
  EXPECT_HAS(text, "rank 0 did not arrive: '" + folder + "/.meeting/slurm-4711.0-0' was not written in 1 s");
}

// A fault that this test keeps out: a rank that ended right after join() closed its connections while other ranks were
// still making theirs.
RANKS_TEST(Join, ARankMayLeaveAtOnce, 4) { EXPECT_EQ(group.world(), 4); }

RANKS_TEST(Join, MayBeCalledAgain, 3) {
  EXPECT_EQ(group.all_gather(group.rank()), (std::vector<std::int64_t>{0, 1, 2}));
  auto beside = join();
  EXPECT_EQ(beside.all_gather(2 * beside.rank()), (std::vector<std::int64_t>{0, 2, 4}));
  { const auto ended = std::move(beside); }
  auto third = join();
  EXPECT_EQ(third.all_gather(3 * third.rank()), (std::vector<std::int64_t>{0, 3, 6}));
}

RANKS_TEST(Join, ABrokenPipeDoesNotEndARank, 2) {
  EXPECT_EQ(group.world(), 2);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  EXPECT_EQ(::write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  ::close(ends[1]);
}

TEST(Join, SaysThatThereIsNoWayToMeet) {
  Placement at;
  at.world = at.local_world = 2;
  at.source = "pmi";
  const auto text = message_of(ErrorKind::kEnvironment, [&] { join(at, Environment{}); });
  EXPECT_HAS(text, "pmi started 2 ranks but neither MASTER_ADDR and MASTER_PORT nor a job is set");
  EXPECT_HAS(text, "hint: set MASTER_ADDR and MASTER_PORT");
}

// The local addresses of this process's listening sockets, as /proc writes them: "0100007F:8A1B".
std::vector<std::string> listening_addresses() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
      constexpr const char* kListening = "0A";
      if (fields.size() > 9 && fields[3] == kListening && own.contains(fields[9])) addresses.push_back(fields[1]);
    }
  }
  return addresses;
}

RANKS_TEST(Join, ListensOnTheChosenAddressOnly, 2) {
  const auto addresses = listening_addresses();
  for (const auto& address : addresses) EXPECT_TRUE(address.starts_with("0100007F:")) << address;
  EXPECT_GE(addresses.size(), group.is_main() ? 1U : 0U) << "the store was not found: the check is blind";
}

// The placement of rank 0 on two nodes whose names do not resolve.
Placement first_of_two_nodes(const std::string& job) {
  Placement at;
  at.world = at.nodes = 2;
  at.source = "slurm";
  at.job = at.run = job;
  at.hosts = {"n1.invalid", "n2.invalid"};
  return at;
}

std::vector<Environment::Map> interface_choices() {
  std::vector<Environment::Map> choices = {{},
                                           {{"NCCL_SOCKET_IFNAME", "^lo,docker"}},
                                           {{"NCCL_SOCKET_IFNAME", "l"}},
                                           {{"GLOO_SOCKET_IFNAME", "gone9,lo"}},
                                           {{"LOCKSTEP_INTERFACE", "gone9"}},
                                           {{"LOCKSTEP_INTERFACE", "l"}},
                                           {{"NCCL_SOCKET_IFNAME", "=l"}}};
  for (const auto& each : list_addresses()) choices.push_back({{"LOCKSTEP_INTERFACE", each.interface}});
  return choices;
}

/// Returns the address that the variables lead to, or the error's text.
template <typename Choose>
std::string address_or_error(Choose choose) {
  try {
    return choose();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment) << error.what();
    return error.what();
  }
}

// Rank 0 joins while a thread waits for the file that it publishes.
std::string address_that_join_publishes(const Placement& at, const Environment& env,
                                        const std::filesystem::path& folder) {
  const auto file = RendezvousFile::for_ranks(at, folder / ".meeting");
  std::string address;
  std::jthread reader([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && address.empty()) {
      if (const auto found = file.read()) address = found->address;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  try {
    join(at, env, {.join_timeout = std::chrono::milliseconds(300), .run_dir = folder});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw;  // Rank 1 never comes.
  }
  reader.request_stop();
  reader.join();
  return address;
}

TEST(Join, ChoosesTheAddressThatExecChooses) {
  const TemporaryFolder folder;
  std::size_t job = 0;
  for (const auto& variables : interface_choices()) {
    const auto at = first_of_two_nodes("4711." + std::to_string(job++));
    const Environment env(variables);
    const auto of_join = address_or_error([&] { return address_that_join_publishes(at, env, folder.path()); });
    const auto of_exec =
        address_or_error([&] { return rendezvous_of(at, env, {}, folder.path() / "exec").master.address; });
    EXPECT_EQ(of_join, of_exec) << (variables.empty() ? "" : variables.begin()->second);
    EXPECT_FALSE(of_join.empty());
  }
}

TEST(Join, ReachesRankZeroAtAnIPv6Address) {
  if (!testing::is_rank()) {
    if (::access("/proc/net/if_inet6", R_OK) != 0 ||
        text_of_file("/proc/net/if_inet6").find(" lo\n") == std::string::npos) {
      GTEST_SKIP() << "loopback has no IPv6 address";
    }
    const auto kept = bind_socket("::1");
    testing::expect_of_ranks({.world = 2, .variables = {{"LOCKSTEP_TEST_PORT", std::to_string(port_of(kept))}}});
    return;
  }
  testing::begin_rank();
  auto at = slurm_placement(2);
  at.master = Endpoint{"::1", *parsed_int<int>(variable("LOCKSTEP_TEST_PORT"))};
  auto group = join(at, Environment{});
  EXPECT_EQ(group.all_gather(group.rank()), (std::vector<std::int64_t>{0, 1}));
}

}  // namespace
}  // namespace lockstep
