// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/device_samples.h"

#include <gtest/gtest.h>

#include "lockstep/loader/device_cache.h"
#include "tests/support/made_up_data.h"
#include "tests/support/pretended_device.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::MadeUpData;
using testing::message_of;
using testing::Pretended;

StepOptions keeping(Toggle toggle, std::int64_t replicas = 1) {
  return {.replicas = replicas, .device = {.keep_data = toggle}};
}

// A device that has this much free memory.
struct Roomy : Pretended {
  explicit Roomy(std::int64_t available = std::int64_t{1} << 30) { memory_now.available = available; }
};

// A source that gives other pixels each time a sample is read.
struct Noisy : SampleSource {
  std::int64_t size() const override { return 3; }
  const std::vector<Field>& fields() const override { return list; }
  std::string name_of(std::int64_t id) const override { return std::to_string(id); }
  void read(const SampleKey&, std::span<std::byte* const>) const override {}
  std::optional<FixedSamples> fixed() const override { return std::nullopt; }
  std::vector<Field> list = {{"input", "F32", {1}}};
};

TEST(DeviceSamples, AreKeptWhereTheyFit) {
  const Roomy device;
  auto group = device.group();
  const auto options = keeping(Toggle::kAuto);
  DeviceSamples samples(options, group);
  MadeUpData data(4);
  const auto loader = data.train_loader({});
  samples.keep(*loader, "training");
  const auto bytes = DeviceCache::bytes_of(*data.source->fixed());
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(samples.bytes(), bytes);
  EXPECT_HAS(samples.findings().at("training data"), "kept on the device: ");
  EXPECT_NE(loader->next()->kept, nullptr);
  const auto validation = data.validation_loader({});
  samples.keep(*validation, "validation");
  EXPECT_EQ(samples.bytes(), 2 * bytes);
}

TEST(DeviceSamples, AreNotKeptOnACpuOrIfTheyAreNotToBe) {
  const Roomy device;
  auto there = device.group();
  auto here = alone();
  for (const auto& [toggle, group] : {std::pair{Toggle::kAuto, &here}, std::pair{Toggle::kOff, &there}}) {
    const auto options = keeping(toggle);
    DeviceSamples samples(options, *group);
    MadeUpData data(4);
    const auto loader = data.train_loader({});
    samples.keep(*loader, "training");
    EXPECT_EQ(samples.bytes(), 0);
    EXPECT_TRUE(samples.findings().empty());
    EXPECT_EQ(loader->next()->kept, nullptr);
  }
}

TEST(DeviceSamples, ManyAreKeptOnlyIfTheyAreToBe) {
  const MadeUpData made_up(4);
  const Roomy device(15 * DeviceCache::bytes_of(*made_up.source->fixed()));
  auto group = device.group();
  for (const auto toggle : {Toggle::kAuto, Toggle::kOn}) {
    const auto options = keeping(toggle);
    DeviceSamples samples(options, group);
    MadeUpData data(4);
    samples.keep(*data.train_loader({}), "training");
    EXPECT_EQ(samples.bytes() > 0, toggle == Toggle::kOn);
  }
}

TEST(DeviceSamples, ThatCannotBeKeptAreRefusedIfTheyAreToBe) {
  const auto on = keeping(Toggle::kOn);
  auto here = alone();
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { DeviceSamples(on, here); }),
             "data.on_device is on, but this rank computes on a CPU");
  const Roomy device;
  auto there = device.group();
  Loader noisy(std::make_shared<Noisy>(), {.global_batch = 1});
  DeviceSamples samples(on, there);
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { samples.keep(noisy, "validation"); }),
             "the validation data cannot be kept there: chance changes more of a sample");
  const auto apart = keeping(Toggle::kOn, 2);
  MadeUpData data(4);
  EXPECT_HAS(
      message_of(ErrorKind::kRecipe, [&] { DeviceSamples(apart, there).keep(*data.train_loader({}), "training"); }),
      "trainer.strategy dp hands parts of a batch to several devices");
}

}  // namespace
}  // namespace lockstep
