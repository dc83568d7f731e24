// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/device_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

/// A driver that answers until the test lets it hang.
class Driver {
 public:
  void hang() { hangs_ = true; }
  void answer_again() { goes_on_.count_down(); }
  DeviceWatch::MakeSensor sensor() {
    return [this] { return std::make_unique<Sensor>(*this); };
  }

 private:
  class Sensor : public DeviceSensor {
   public:
    explicit Sensor(Driver& driver) : driver_(driver) {}
    std::vector<DeviceSample> sample() override {
      if (driver_.hangs_) driver_.goes_on_.wait();
      return {{.pci = "0000:c1:00.0", .power_watts = 301}};
    }

   private:
    Driver& driver_;
  };

  std::atomic<bool> hangs_ = false;
  std::latch goes_on_{1};
};

TEST(DeviceWatch, ReturnsTheSamplesOfItsSensor) {
  Driver driver;
  DeviceWatch watch(1h, driver.sensor());
  for (int i = 0; i < 2; ++i) {
    const auto samples = watch.sample();
    ASSERT_EQ(samples.size(), 1U);
    EXPECT_EQ(samples[0].power_watts, 301);
  }
  EXPECT_EQ(watch.silent_s(), 0);
}

TEST(DeviceWatch, OfANodeWithoutDevicesReturnsNone) {
  DeviceWatch watch(1h, [] { return nullptr; });
  EXPECT_TRUE(watch.sample().empty());
  EXPECT_EQ(watch.silent_s(), 0);
}

TEST(DeviceWatch, DoesNotWaitForADriverThatHangs) {
  Driver driver;
  DeviceWatch watch(1ms, driver.sensor());
  while (watch.sample().empty()) {  // On a slow machine the driver takes more than a millisecond.
  }
  driver.hang();
  EXPECT_TRUE(watch.sample().empty());
  const double silent = watch.silent_s();
  EXPECT_GE(silent, 1e-3);
  EXPECT_TRUE(watch.sample().empty()) << "the earlier question has no answer yet";
  EXPECT_GE(watch.silent_s(), silent) << "and the time goes on";
  driver.answer_again();
  while (watch.sample().empty()) {
  }
}

TEST(DeviceWatch, EndsAlthoughTheDriverHangsInItsStart) {
  std::latch goes_on{1};
  std::latch has_begun{1};
  std::latch is_done{1};
  {
    DeviceWatch watch(1ms, [&] {
      has_begun.count_down();
      goes_on.wait();
      is_done.count_down();
      return std::unique_ptr<DeviceSensor>();
    });
    has_begun.wait();
    EXPECT_TRUE(watch.sample().empty());
    EXPECT_GT(watch.silent_s(), 0);
  }
  goes_on.count_down();
  is_done.wait();
}

}  // namespace
}  // namespace lockstep
