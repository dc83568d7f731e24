// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/server.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <thread>

#include "lockstep/store/client.h"
#include "tests/support/loopback.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Op = StoreOperation;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::bound_socket;
using testing::message_of;

FileDescriptor connect_to(int port) {
  auto socket = testing::try_to_connect(port);
  EXPECT_TRUE(socket);
  return socket;
}

Clock::time_point in(milliseconds time) { return Clock::now() + time; }

int descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

/// Returns the bytes that the other end sends until it closes, or until `count` bytes are there.
std::string read_from(const FileDescriptor& socket, std::size_t count = SIZE_MAX) {
  std::string all;
  std::array<char, 4096> buffer{};
  pollfd one{.fd = socket.get(), .events = POLLIN, .revents = 0};
  while (all.size() < count && ::poll(&one, 1, 10'000) == 1) {
    const auto got = ::recv(socket.get(), buffer.data(), std::min(buffer.size(), count - all.size()), 0);
    if (got <= 0) break;
    all.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return all;
}

class StoreServing : public ::testing::Test {
 protected:
  StoreServing() { start({}); }

  void start(const StrangerLimits& limits) {
    server_.reset();
    server_.emplace(bound_socket(port_), identity_, limits);
  }
  StoreClient client() { return {connect_to(port_), identity_, in(seconds(20))}; }
  std::vector<std::string> ask(StoreClient& client, Op operation, std::vector<std::string> fields,
                               milliseconds time = seconds(20)) {
    return client.ask({operation, 1, std::move(fields)}, in(time));
  }
  StoreFault fault_of(StoreClient& client, Op operation, std::vector<std::string> fields,
                      milliseconds time = seconds(20)) {
    try {
      ask(client, operation, std::move(fields), time);
    } catch (const StoreError& error) {
      return error.fault();
    }
    ADD_FAILURE() << "expected an error";
    return {};
  }
  /// Waits until the server's thread has seen what was done to it.
  template <typename Condition>
  bool comes_true(Condition condition) {
    const auto until = in(seconds(20));
    while (!condition(server_->counts())) {
      if (Clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }

  StoreIdentity identity_{Secret::make(), "test"};
  int port_ = 0;
  std::optional<StoreServer> server_;
};

TEST_F(StoreServing, AnswersWhoKnowsTheSecret) {
  auto one = client();
  auto two = client();
  ask(one, Op::kSet, {"a", "1"});
  EXPECT_EQ(ask(two, Op::kGet, {"a"}), std::vector<std::string>{"1"});
  EXPECT_EQ(ask(two, Op::kAdd, {"n", "3"}), std::vector<std::string>{"3"});
}

TEST_F(StoreServing, AGetWaitsOnTheServer) {
  auto one = client();
  auto two = client();
  std::vector<std::string> found;
  std::jthread waiter([&] { found = ask(one, Op::kGet, {"late"}); });
  ASSERT_TRUE(comes_true([](const StoreCounts& counts) { return counts.requests == 1; }));
  ask(two, Op::kSet, {"late", "here"});
  waiter.join();
  EXPECT_EQ(found, std::vector<std::string>{"here"});
  EXPECT_TRUE(comes_true([](const StoreCounts& counts) { return counts.requests == 2; }));
}

TEST_F(StoreServing, AWaitThatTakesTooLongEndsAndIsForgotten) {
  auto one = client();
  EXPECT_EQ(fault_of(one, Op::kWait, {"never"}, milliseconds(20)), StoreFault::kLate);
  EXPECT_FALSE(one.is_usable());
  EXPECT_TRUE(comes_true([](const StoreCounts& counts) { return counts.connections == 0; }));
}

TEST_F(StoreServing, ARaisedGenerationEndsOpenWaits) {
  auto one = client();
  auto two = client();
  std::jthread waiter([&] { EXPECT_EQ(fault_of(one, Op::kWait, {"never"}), StoreFault::kOver); });
  ASSERT_TRUE(comes_true([](const StoreCounts& counts) { return counts.requests == 1; }));
  EXPECT_EQ(two.ask({Op::kRaise, 2, {}}, in(seconds(20))), std::vector<std::string>{"2"});
  waiter.join();
  EXPECT_EQ(fault_of(one, Op::kSet, {"a", "b"}), StoreFault::kOver);
  EXPECT_TRUE(one.ask({Op::kSet, 2, {"a", "b"}}, in(seconds(20))).empty());
}

TEST_F(StoreServing, TheLossOfAClientEndsWaitsOfOthers) {
  auto lost = std::make_optional(client());
  auto other = client();
  lost->ask({Op::kOnLoss, 0, {"lost", "1"}}, in(seconds(20)));
  std::jthread waiter([&] { EXPECT_EQ(fault_of(other, Op::kWait, {"never"}), StoreFault::kOver); });
  ASSERT_TRUE(comes_true([](const StoreCounts& counts) { return counts.requests == 2; }));
  lost.reset();
  waiter.join();
  EXPECT_EQ(other.ask({Op::kGet, 0, {"lost"}}, in(seconds(20))), std::vector<std::string>{"1"});
}

TEST_F(StoreServing, ALargeValueComesWhole) {
  auto one = client();
  std::string large(10'000'000, 'x');
  large.back() = 'y';
  ask(one, Op::kSet, {"large", large});
  EXPECT_EQ(ask(one, Op::kGet, {"large"}).at(0), large);
  EXPECT_EQ(fault_of(one, Op::kSet, {"too large", std::string(kMostFrameBytes, 'x')}), StoreFault::kRefused);
}

TEST_F(StoreServing, AnotherSecretOrStartIsRefusedAtOnceWithTheReason) {
  const auto start = Clock::now();
  for (const StoreIdentity& other : {StoreIdentity{Secret::make(), "test"}, StoreIdentity{identity_.secret, "other"}}) {
    EXPECT_HAS(message_of(ErrorKind::kPeer, [&] { StoreClient(connect_to(port_), other, in(seconds(60))); }),
               "the store belongs to another run");
  }
  EXPECT_LT(seconds_between(start, Clock::now()), 5);
}

TEST_F(StoreServing, ARequestBeforeTheProofIsNotActedOn) {
  // Bytes that PyTorch's TCPStore, or a store without a handshake, would take for a request.
  const auto stranger = connect_to(port_);
  const auto request = encode(StoreRequest{Op::kSet, 1, {"arrived/1", std::string(100, '1')}});
  ASSERT_EQ(::send(stranger.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  EXPECT_EQ(read_from(stranger).size(), kHelloBytes) << "a hello, then nothing more";
  auto rank = client();
  EXPECT_EQ(ask(rank, Op::kCheck, {"arrived/1"}), std::vector<std::string>{"0"});
}

TEST_F(StoreServing, ARecordedProofIsRefused) {
  const auto rank = connect_to(port_);
  const auto recorded = ClientHandshake(identity_, read_from(rank, kHelloBytes)).answer();
  ASSERT_EQ(::send(rank.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL), static_cast<ssize_t>(recorded.size()));
  ASSERT_EQ(read_from(rank, kProofBytes).size(), kProofBytes);
  const auto stranger = connect_to(port_);
  read_from(stranger, kHelloBytes);
  ASSERT_EQ(::send(stranger.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(recorded.size()));
  EXPECT_EQ(read_from(stranger), "");
  EXPECT_TRUE(comes_true([](const StoreCounts& counts) { return counts.refused == 1 && counts.proven == 1; }));
}

TEST_F(StoreServing, OneThatSaysNothingIsDroppedInTime) {
  start({.most_unproven = 4, .patience = milliseconds(30), .makes_room_after = milliseconds(5)});
  const auto silent = connect_to(port_);
  EXPECT_EQ(read_from(silent).size(), kHelloBytes);
  EXPECT_TRUE(comes_true([](const StoreCounts& counts) { return counts.refused == 1 && counts.connections == 0; }));
}

TEST_F(StoreServing, SilentOnesTakeNobodysPlace) {
  start({.most_unproven = 4, .patience = seconds(60), .makes_room_after = milliseconds(5)});
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(connect_to(port_));
  auto rank = client();
  EXPECT_TRUE(ask(rank, Op::kSet, {"a", "1"}).empty());
  EXPECT_LE(server_->counts().most_connections, 6U);
}

TEST_F(StoreServing, ABrokenRequestOfAProvenOneEndsItAlone) {
  auto rank = client();
  const auto broken = connect_to(port_);
  const ClientHandshake handshake(identity_, read_from(broken, kHelloBytes));
  const auto sent = handshake.answer() + std::string(4, '\xff');
  ASSERT_EQ(::send(broken.get(), sent.data(), sent.size(), MSG_NOSIGNAL), static_cast<ssize_t>(sent.size()));
  EXPECT_EQ(read_from(broken).size(), kProofBytes);
  EXPECT_TRUE(ask(rank, Op::kSet, {"a", "1"}).empty());
}

/// Connects as one of five kinds of stranger. Returns at once, except for the kinds that speak the protocol.
void be_a_stranger(int kind, int port, const std::string& recorded, std::vector<FileDescriptor>& kept) {
  auto socket = connect_to(port);
  std::string words;
  if (kind == 1) words = random_bytes(7);
  if (kind == 2) words = random_bytes(5000);
  if (kind == 3) words = recorded;
  if (kind == 4) {
    const auto hello = read_from(socket, kHelloBytes);
    if (hello.size() == kHelloBytes) words = random_bytes(kAnswerBytes);
  }
  if (!words.empty()) ::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
  // Keeps the connections that are half open for a while.
  if (kind < 2) kept.push_back(std::move(socket));
  if (kept.size() > 100) kept.erase(kept.begin());
}

TEST_F(StoreServing, StrangersLeaveNothingAndDisturbNobody) {
  const char* soak = std::getenv("LOCKSTEP_SOAK");
  const int strangers = soak != nullptr && std::string(soak) == "1" ? 100'000 : 3'000;
  auto rank = client();
  ask(rank, Op::kSet, {"n", "0"});
  const auto witness = connect_to(port_);
  const auto recorded = ClientHandshake(identity_, read_from(witness, kHelloBytes)).answer();
  const int before = descriptors();
  const auto start = Clock::now();
  std::atomic<bool> is_over = false;
  std::int64_t calls = 0;
  double slowest = 0;
  {
    const std::jthread calling([&] {
      while (!is_over) {
        const auto begin = Clock::now();
        ASSERT_EQ(ask(rank, Op::kAdd, {"n", "1"}).at(0), std::to_string(++calls));
        slowest = std::max(slowest, seconds_between(begin, Clock::now()));
      }
    });
    std::vector<FileDescriptor> kept;
    for (int i = 0; i < strangers; ++i) be_a_stranger(i % 5, port_, recorded, kept);
    is_over = true;
  }
  ASSERT_TRUE(comes_true([](const StoreCounts& counts) { return counts.connections == 1; }));
  const auto counts = server_->counts();
  std::cout << strangers << " strangers in " << seconds_between(start, Clock::now()) << " s; the rank beside them made "
            << calls << " calls, the slowest " << slowest * 1e3 << " ms; at most " << counts.most_connections
            << " connections\n";
  EXPECT_EQ(counts.proven, 1);
  EXPECT_LE(counts.most_connections, 66U);
  // Only the server has closed the witness's connection.
  EXPECT_LE(descriptors(), before);
}

/// One simulated rank of `world`.
class SimulatedRank {
 public:
  SimulatedRank(StoreClient client, int rank, int world) : client_(std::move(client)), rank_(rank), world_(world) {}

  /// The rank arrives, and the last one to arrive sets the key that says so.
  void arrive() {
    ask(Op::kSet, {"address/" + std::to_string(rank_), std::string(80, 'a')});
    if (ask(Op::kAdd, {"arrived", "1"}).at(0) == std::to_string(world_)) ask(Op::kSet, {"met", "1"});
  }

  /// The rank waits until all have arrived, and reads the value of each, 128 at a time.
  void meet() {
    ask(Op::kWait, {"met"});
    std::vector<std::string> keys;
    for (int other = 0; other < world_; ++other) {
      keys.push_back("address/" + std::to_string(other));
      if (keys.size() < 128 && other + 1 < world_) continue;
      const auto count = keys.size();
      EXPECT_EQ(ask(Op::kGet, std::exchange(keys, {})).size(), count);
    }
  }

 private:
  std::vector<std::string> ask(Op operation, std::vector<std::string> fields) {
    return client_.ask({operation, 1, std::move(fields)}, in(seconds(60)));
  }

  StoreClient client_;
  int rank_;
  int world_;
};

TEST_F(StoreServing, AThousandRanksMeet) {
  constexpr int kWorld = 1000;
  constexpr int kThreads = 8;  // Each is many ranks: machines limit threads.
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2 * kWorld + 100) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 2 * kWorld + 100);
    if (files.rlim_cur < 2 * kWorld + 100) GTEST_SKIP() << "too few descriptors are allowed";
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  const auto start = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::vector<SimulatedRank> ranks;
        for (int rank = thread; rank < kWorld; rank += kThreads) ranks.emplace_back(client(), rank, kWorld);
        for (auto& rank : ranks) rank.arrive();
        for (auto& rank : ranks) rank.meet();
      });
    }
  }
  const double took = seconds_between(start, Clock::now());
  EXPECT_TRUE(comes_true([](const StoreCounts& counts) { return counts.requests == kWorld * (3 + 8) + 1; }));
  const auto counts = server_->counts();
  std::cout << kWorld << " ranks met in " << took << " s, " << counts.requests << " requests, "
            << counts.bytes_sent / 1'000'000 << " MB sent\n";
  EXPECT_EQ(counts.proven, kWorld);
  EXPECT_LT(took, 30);
}

}  // namespace
}  // namespace lockstep
