// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/optim/device_update.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep {
namespace {

// "meta" is a device whose tensors have no memory. It stands in for a GPU here, since its tensors are not on the CPU.
bool keeps_rates(c10::DeviceType device, at::ScalarType type) {
  const auto weight = at::empty({3}, at::TensorOptions(device).dtype(type)).requires_grad_(true);
  const auto optimizer = make_optimizer({weight}, {.name = "adamw", .lr = 0.1});
  auto& update = dynamic_cast<DeviceUpdate&>(*optimizer);
  update.prepare_step();
  return update.is_prepared();
}

TEST(DeviceUpdate, KeepsNoRateOnADeviceInFp64) {
  EXPECT_TRUE(keeps_rates(c10::kMeta, at::kFloat));
  EXPECT_FALSE(keeps_rates(c10::kMeta, at::kDouble)) << "a rate there is a float, and 0.1 another number";
  EXPECT_TRUE(keeps_rates(c10::kCPU, at::kDouble)) << "on a CPU it is a double";
}

}  // namespace
}  // namespace lockstep
