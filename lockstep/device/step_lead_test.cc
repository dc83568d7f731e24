// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/step_lead.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/fake_device.h"

namespace lockstep {
namespace {

/// A fake device. Each time that the host asks how far it is, it does one step.
struct SlowDevice : testing::FakeBackend {
  SlowDevice() : FakeBackend(1) {}
  std::function<bool()> mark(int) const override {
    return [this, place = given] {
      if (done < place) ++done;
      return done >= place;
    };
  }
  RankDevice device() const { return {.facts = devices().front(), .visible = 1, .backend = this}; }

  int given = 0;
  mutable int done = 0;
};

TEST(StepLead, KeepsTheHostAtMostThirtyTwoStepsAhead) {
  SlowDevice slow;
  const auto device = slow.device();
  StepLead lead(device);
  int longest = 0;
  for (int step = 0; step < 500; ++step) {
    ++slow.given;
    lead.after_step({});
    longest = std::max(longest, slow.given - slow.done);
  }
  EXPECT_LE(longest, 32 + 15) << "a mark is made once in 16 steps";
  EXPECT_EQ(slow.given - slow.done, 32 + 500 % 16);
}

TEST(StepLead, EndsWithWhatTheWatchThrows) {
  struct Hanging : testing::FakeBackend {
    Hanging() : FakeBackend(1) {}
    std::function<bool()> mark(int) const override {
      return [] { return false; };
    }
  };
  const Hanging backend;
  const RankDevice device{.facts = backend.devices().front(), .visible = 1, .backend = &backend};
  StepLead lead(device);
  const auto watch = [] { throw std::runtime_error("the peer is gone"); };
  for (int step = 0; step < 47; ++step) lead.after_step(watch);
  EXPECT_THROW(lead.after_step(watch), std::runtime_error);
}

TEST(StepLead, IsNoneOnACpu) {
  const RankDevice cpu;
  StepLead lead(cpu);
  for (int step = 0; step < 100; ++step) lead.after_step([] { FAIL() << "nothing is waited for"; });
}

}  // namespace
}  // namespace lockstep
