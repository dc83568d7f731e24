// SPDX-License-Identifier: Apache-2.0
// The fault: other programs on the network could kill or stall a run. Each connection to Gloo's port cost a rank a
// descriptor for ever, anyone's write to the store passed for a rank's arrival, and an address left by a dead run led
// ranks into another run's store.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>

#include "lockstep/base/text.h"
#include "lockstep/comm/gloo/gloo_listener.h"
#include "lockstep/launch/rendezvous_file.h"
#include "lockstep/launch/socket.h"
#include "lockstep/store/server.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

constexpr int kStrangers = 200;

std::string variable(const char* name) { return Environment::of_process().get(name).value_or(""); }

int descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// Returns the ports on which processes of this test listen at 127.0.0.1.
std::vector<int> listening_ports(const std::vector<int>& processes) {
  std::set<std::string> own;
  for (const int process : processes) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
    }
  }
  std::vector<int> ports;
  std::ifstream lines("/proc/self/net/tcp");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    if (fields.size() > 9 && fields[3] == "0A" && own.contains(fields[9])) {
      ports.push_back(std::stoi(fields[1].substr(fields[1].find(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

RANKS_TEST(RegressOpenDoor, StrangersCostARankNoDescriptorAndChangeNoNumber, 2) {
  const auto pids = group.all_gather(::getpid());
  const auto ports = listening_ports({pids.begin(), pids.end()});
  ASSERT_FALSE(ports.empty()) << "the store was not found: the check is blind";
  auto tensor = torch::ones({1000});
  group.all_reduce_sum(tensor);
  const int before = descriptors();
  if (group.is_main()) {
    for (int i = 0; i < kStrangers; ++i) {
      for (const int port : ports) {
        const auto stranger = connect_once({"127.0.0.1", port}, Clock::now() + std::chrono::seconds(5));
        if (stranger) ::send(stranger.get(), "\x08\0\0\0\0\0\0\0", 8, MSG_NOSIGNAL);
      }
    }
  }
  for (int i = 0; i < 20; ++i) group.all_reduce_sum(tensor);
  EXPECT_TRUE(tensor.eq(1 << 21).all().item<bool>());
  // Rank 0 serves the store here. It may still be handling the last strangers' connections.
  const auto until = Clock::now() + std::chrono::seconds(10);
  while (descriptors() > before && Clock::now() < until) ::usleep(1000);
  EXPECT_LE(descriptors(), before);
}

RANKS_TEST(RegressOpenDoor, GlooListensNoLongerOnceAllRanksHaveMet, 3) {
  // Only the store listens, in rank 0.
  EXPECT_EQ(listening_sockets().size(), group.is_main() ? 1U : 0U);
  auto again = join();
  EXPECT_EQ(again.all_gather(again.rank()), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(listening_sockets().size(), group.is_main() ? 1U : 0U);
}

// Returns the bytes of a SET request to PyTorch's TCPStore: the operation, then key and value with their lengths.
std::string tcp_store_set(const std::string& key, const std::string& value) {
  const auto with_length = [](const std::string& text) {
    const std::uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
  };
  const std::uint32_t magic = 0x3C85F7CE;
  const std::string validate = '\0' + std::string(reinterpret_cast<const char*>(&magic), sizeof magic);
  return validate + '\1' + with_length(key) + with_length(value);
}

TEST(RegressOpenDoor, AStrangersWriteIsNoArrival) {
  if (!testing::is_rank()) {
    testing::expect_of_ranks({.world = 2, .absent = {1}, .variables = {{"LOCKSTEP_MEET_TIMEOUT", "2"}}});
    return;
  }
  testing::begin_rank();
  const int port = *parsed_int<int>(variable("MASTER_PORT"));
  const std::jthread stranger([port] {
    const auto socket = connect_until({"127.0.0.1", port}, Clock::now() + std::chrono::seconds(20));
    const auto text = tcp_store_set("/lockstep/0/1/arrived/1", "1");
    ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    ::usleep(500'000);
  });
  const auto start = Clock::now();
  EXPECT_HAS(message_of(ErrorKind::kPeer, [] { join(); }), "rank 1 did not arrive within 2 s");
  EXPECT_LT(seconds_between(start, Clock::now()), 20);
}

// A rank that Slurm started finds the address that a dead run left. Another run's store listens at this address by now.
TEST(RegressOpenDoor, AnAddressThatADeadRunLeftLeadsIntoNoOtherRunsStore) {
  if (testing::is_rank()) {
    testing::begin_rank();
    Placement at;
    at.rank = at.local_rank = 1;
    at.world = at.local_world = 2;
    at.source = "slurm";
    at.job = "4711.0";
    const auto text = message_of(ErrorKind::kPeer, [&] {
      join(at, Environment{{"LOCKSTEP_MEET_TIMEOUT", "1"}}, {.run_dir = variable("LOCKSTEP_TEST_FOLDER")});
    });
    EXPECT_HAS(text, "the store belongs to another run, or to another start of this one");
    return;
  }
  const TemporaryFolder folder;
  auto bound = bind_socket("127.0.0.1");
  const Endpoint other{"127.0.0.1", port_of(bound)};
  const StoreServer server(std::move(bound), {Secret::make(), "slurm-4712.0-0"});
  SecretFile secret(folder.path() / ".meeting");
  secret.create();
  RendezvousFile(folder.path() / ".meeting", "slurm-4711.0-0").publish(other);
  testing::expect_of_ranks(
      {.world = 2, .absent = {0}, .variables = {{"LOCKSTEP_TEST_FOLDER", folder.path().string()}}});
  EXPECT_GE(server.counts().accepted, 1);
  EXPECT_EQ(server.counts().proven, 0);
}

TEST(RegressOpenDoor, AnotherRunsStoreAtAGivenAddressIsRefusedAtOnce) {
  if (testing::is_rank()) {
    testing::begin_rank();
    const auto start = Clock::now();
    EXPECT_HAS(message_of(ErrorKind::kPeer, [] { join(); }), "the store belongs to another run");
    EXPECT_LT(seconds_between(start, Clock::now()), 20) << "it must not wait for LOCKSTEP_MEET_TIMEOUT";
    return;
  }
  const TemporaryFolder folder;
  auto bound = bind_socket("127.0.0.1");
  const std::string port = std::to_string(port_of(bound));
  const StoreServer server(std::move(bound), {Secret::make(), "port " + port});
  SecretFile secret(folder.path() / ".meeting");
  secret.create();
  testing::expect_of_ranks({.world = 2,
                            .absent = {0},
                            .variables = {{"MASTER_PORT", port},
                                          {"LOCKSTEP_MEETING", (folder.path() / ".meeting").string()},
                                          {"LOCKSTEP_MEET_TIMEOUT", "60"}}});
}

// If ranks have only torchrun's variables, or MASTER_ADDR, they share no secret. Any other program can know the same
// values.
TEST(RegressOpenDoor, RanksWithoutASecretSaySoOnce) {
  if (testing::is_rank()) {
    testing::begin_rank();
    ::testing::internal::CaptureStderr();
    auto group = join();
    { auto again = join(); }
    const auto said = ::testing::internal::GetCapturedStderr();
    const auto at = said.find("the ranks share no secret: anyone who reaches port " + variable("MASTER_PORT"));
    EXPECT_EQ(at != std::string::npos, group.is_main()) << said;
    EXPECT_EQ(said.find("share no secret", at == std::string::npos ? 0 : at + 20), std::string::npos);
    return;
  }
  testing::expect_of_ranks({.world = 2, .variables = {{"LOCKSTEP_MEETING", ""}}});
}

}  // namespace
}  // namespace lockstep
