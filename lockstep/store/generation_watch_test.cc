// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/generation_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>

#include "lockstep/store/server.h"
#include "tests/support/loopback.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using testing::bound_socket;

class GenerationWatchTest : public ::testing::Test {
 protected:
  GenerationWatchTest() {
    server_.emplace(bound_socket(port_), identity_);
    connections_ = std::make_shared<StoreConnections>(
        [this](StoreClient::Deadline) { return testing::try_to_connect(port_); }, identity_);
  }
  void raise(std::uint32_t to) { connections_->ask({StoreOperation::kRaise, to, {}}, Clock::now() + seconds(20)); }

  int port_ = 0;
  StoreIdentity identity_{Secret::make(), "a test"};
  std::optional<StoreServer> server_;
  std::shared_ptr<StoreConnections> connections_;
};

TEST_F(GenerationWatchTest, CallsWhenTheGenerationEnds) {
  std::promise<void> ended;
  const GenerationWatch watch(connections_, 1, "0", [&] { ended.set_value(); });
  raise(2);
  EXPECT_EQ(ended.get_future().wait_for(seconds(20)), std::future_status::ready);
}

TEST_F(GenerationWatchTest, CallsForAGenerationThatEndedBefore) {
  raise(2);
  std::promise<void> ended;
  const GenerationWatch watch(connections_, 1, "0", [&] { ended.set_value(); });
  EXPECT_EQ(ended.get_future().wait_for(seconds(20)), std::future_status::ready);
}

TEST_F(GenerationWatchTest, EndsWithoutACallWhileTheGenerationLasts) {
  std::atomic<int> calls = 0;
  for (int i = 0; i < 20; ++i) {
    const GenerationWatch watch(connections_, 1, std::to_string(i), [&] { ++calls; });
  }
  EXPECT_EQ(calls, 0);
}

TEST_F(GenerationWatchTest, EndsWithoutACallWhenTheStoreIsLost) {
  std::atomic<int> calls = 0;
  {
    const GenerationWatch watch(connections_, 1, "0", [&] { ++calls; });
    server_.reset();
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace lockstep
