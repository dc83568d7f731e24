// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "lockstep/comm/control_tensor.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/join.h"

namespace lockstep {
namespace {

TEST(RanksOnOneDevice, AreFoundWhereverTheyAre) {
  EXPECT_EQ(ranks_on_one_device({}), (std::vector<int>{}));
  EXPECT_EQ(ranks_on_one_device({7, 8, 9}), (std::vector<int>{}));
  EXPECT_EQ(ranks_on_one_device({7, 8, 7, 9, 7}), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(ranks_on_one_device({1, 2, 3, 3}), (std::vector<int>{2, 3}));
}

TEST(AGroupOfOne, HasTheDeviceThatItWasGivenAndSharesItWithNobody) {
  auto group = alone();
  EXPECT_TRUE(group.device().is_cpu());
  EXPECT_EQ(group.device().description(), "CPU");
  EXPECT_FALSE(group.shares_device());
  group.require_sound();
}

TEST(ControlTensor, BringsSignalsAndSamples) {
  ControlTensor control{at::TensorOptions(at::kFloat)};
  control.write({true, false}, 12);
  control.leaf().mutable_grad() = control.gradient().clone();
  EXPECT_EQ(control.read(), (ControlTensor::Signals{true, false}));
  EXPECT_EQ(control.mean_samples(), 12);
  EXPECT_EQ(control.mean_samples_there().item<float>(), 12);
  control.write({false, true}, 3);
  control.leaf().mutable_grad() = control.gradient().clone();
  EXPECT_EQ(control.read(), (ControlTensor::Signals{false, true}));
}

TEST(Readback, GivesWhatWasBegun) {
  Readback readback;
  EXPECT_FALSE(readback.has_begun());
  readback.begin(at::arange(3, at::kFloat));
  EXPECT_TRUE(at::equal(readback.wait(), at::arange(3, at::kFloat)));
  EXPECT_FALSE(readback.has_begun());
}

}  // namespace
}  // namespace lockstep
