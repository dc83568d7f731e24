// SPDX-License-Identifier: Apache-2.0
// What a new generation costs the store with a thousand ranks and with ten thousand, in messages and time. It prints
// both. Ten thousand over sockets take LOCKSTEP_SOAK=1.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/store/client.h"
#include "lockstep/store/generations.h"
#include "lockstep/store/server.h"
#include "tests/support/loopback.h"

namespace lockstep {
namespace {

using Op = StoreOperation;
using std::chrono::seconds;

constexpr std::uint32_t kOld = 1;
constexpr std::uint32_t kNew = 2;

std::vector<std::string> arrivals(int world) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world; ++rank) keys.push_back("arrived/" + std::to_string(rank));
  return keys;
}

/// The ranks are plain numbers here, and nothing goes over a socket.
void meet_in_memory(int world) {
  Generations store;
  std::int64_t requests = 0;
  std::size_t met = 0;
  const auto ask = [&](int rank, StoreRequest request) {
    ++requests;
    return store.apply(static_cast<Generations::ClientId>(rank), request);
  };
  for (int rank = 0; rank < world; ++rank) ask(rank, {Op::kWait, kOld, {"the end of a collective"}});
  requests = 0;
  const auto start = Clock::now();
  ask(world, {Op::kRaise, kNew, {}});
  const auto over = store.take_answers();
  ASSERT_EQ(over.size(), static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    ask(rank, {Op::kSet, kNew, {"arrived/" + std::to_string(rank), "1"}});
    ask(rank, {Op::kWait, kNew, rank == 0 ? arrivals(world) : std::vector<std::string>{"outcome"}});
  }
  met += store.take_answers().size();
  EXPECT_EQ(met, 1U) << "rank 0 knows that all are there";
  ask(0, {Op::kSet, kNew, {"outcome", "met"}});
  met += store.take_answers().size();
  EXPECT_EQ(met, static_cast<std::size_t>(world));
  std::cout << "ranks " << world << ", in memory: " << requests << " requests, " << seconds_between(start, Clock::now())
            << " s\n";
}

/// A rank for each thread, with a stack that ten thousand of them can have.
class Ranks {
 public:
  Ranks(int count, const std::function<void(int)>& work) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, std::size_t{256} << 10U);
    for (int rank = 0; rank < count; ++rank) {
      auto* own = new Own{rank, work};
      pthread_t thread{};
      if (::pthread_create(&thread, &attributes, run, own) != 0) {
        delete own;
        break;
      }
      threads_.push_back(thread);
    }
    ::pthread_attr_destroy(&attributes);
  }
  ~Ranks() { join(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void join() {
    for (const auto thread : threads_) ::pthread_join(thread, nullptr);
    threads_.clear();
  }
  int size() const { return static_cast<int>(threads_.size()); }

 private:
  struct Own {
    int rank;
    std::function<void(int)> work;
  };
  static void* run(void* argument) {
    const std::unique_ptr<Own> own(static_cast<Own*>(argument));
    own->work(own->rank);
    return nullptr;
  }
  std::vector<pthread_t> threads_;
};

void meet_over_sockets(int world) {
  const StoreIdentity identity{Secret::make(), "test"};
  int port = 0;
  auto bound = testing::bound_socket(port);
  // In a process of its own, so that each side has its own table of descriptors.
  const pid_t server = ::fork();
  if (server == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const StoreServer served(std::move(bound), identity);
    while (true) ::pause();
  }
  bound.reset();
  const auto until = Clock::now() + seconds(300);
  std::latch all_wait(world + 1);
  std::atomic<int> met = 0;
  std::atomic<int> heard = 0;
  // The server may not listen yet, and makes room where too many come at once.
  const auto connect = [&]() -> StoreClient {
    while (true) {
      auto socket = testing::try_to_connect(port);
      try {
        if (socket) return StoreClient(std::move(socket), identity, Clock::now() + seconds(20));
      } catch (const Error&) {
        if (Clock::now() > until) throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  };
  Ranks ranks(world, [&](int rank) {
    auto client = connect();
    client.ask({Op::kSet, kOld, {"arrived/" + std::to_string(rank), "1"}}, until);
    all_wait.count_down();
    try {
      client.ask({Op::kWait, kOld, {"the end of a collective"}}, until);
    } catch (const StoreError& error) {
      if (error.fault() == StoreFault::kOver) ++heard;
    }
    client.ask({Op::kSet, kNew, {"arrived/" + std::to_string(rank), "1"}}, until);
    client.ask({Op::kWait, kNew, rank == 0 ? arrivals(world) : std::vector<std::string>{"outcome"}}, until);
    if (rank == 0) client.ask({Op::kSet, kNew, {"outcome", "met"}}, until);
    ++met;
  });
  ASSERT_EQ(ranks.size(), world) << "the system gives no more threads";
  auto parent = connect();
  all_wait.arrive_and_wait();
  const auto start = Clock::now();
  parent.ask({Op::kRaise, kNew, {}}, until);
  ranks.join();
  const auto took = seconds_between(start, Clock::now());
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  EXPECT_EQ(met, world);
  EXPECT_GT(heard, 0);
  std::cout << "ranks " << world << ", over sockets: " << 2 * world + 2 << " requests, " << took << " s\n";
}

TEST(ManyRanks, AThousandMeetInANewGeneration) { meet_in_memory(1000); }
TEST(ManyRanks, TenThousandMeetInANewGeneration) { meet_in_memory(10'000); }
TEST(ManyRanks, AThousandMeetOverSockets) { meet_over_sockets(1000); }
TEST(ManyRanks, TenThousandMeetOverSockets) {
  if (std::getenv("LOCKSTEP_SOAK") == nullptr) GTEST_SKIP() << "a thousand are the sample; LOCKSTEP_SOAK=1 takes ten";
  meet_over_sockets(10'000);
}

}  // namespace
}  // namespace lockstep
